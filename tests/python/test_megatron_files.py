# SPDX-License-Identifier: Apache-2.0
"""Token files through stoker.megatron against what the reference wrote, read and refused (tests/golden/megatron)."""

import copy
import json
import os
import pathlib
import pickle
import resource
import shutil
import signal
import struct
import subprocess
import sys

import numpy
import pytest

from stoker import errors
from stoker._megatron.files import DType
from stoker._megatron.indexed import IndexedDataset
from stoker._megatron.indexed_builder import IndexedDatasetBuilder

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron" / "builder"
CASES = {case["name"]: case for case in json.loads((GOLDEN / "builder.json").read_text())}
READS = json.loads((GOLDEN / "reader.json").read_text())
ERRORS = {entry["case"]: entry for entry in READS["errors"]}
WAYS = [{"mmap": True}, {"mmap": False}, {"mmap": True, "fast_cache_load": True}, {"mmap": False, "fast_cache_load": True}]


# ------------------------------------------------------------------------------------------------------------- builder


def play(case, builder):
    for step in case["ops"]:
        name = step["op"]
        if name == "add_item":
            tokens = numpy.array(step["tokens"], step.get("input_dtype", case["dtype"]))
            builder.add_item(tokens, step.get("mode", 0))
        elif name == "add_document":
            builder.add_document(step["tokens"], step["lengths"], step.get("modes"))
        elif name == "add_documents":
            builder.add_documents(
                step["documents"], step.get("modes"), step.get("eod_token"), step.get("chunk_size", 1000000)
            )
        elif name == "add_index":
            builder.add_index(GOLDEN / step["prefix"])
        else:
            builder.end_document()


@pytest.mark.parametrize("name", CASES)
def test_the_builder_writes_the_same_bytes(name, tmp_path):
    case = CASES[name]
    builder = IndexedDatasetBuilder(
        tmp_path / "x.bin", getattr(numpy, case["dtype"]), case["multimodal"], wrap=name == "overflowing_values"
    )
    play(case, builder)
    assert os.listdir(tmp_path) == []  # nothing is seen before the end
    builder.finalize(tmp_path / "x.idx")
    for extension in ("bin", "idx"):
        assert (tmp_path / f"x.{extension}").read_bytes() == (GOLDEN / f"{name}.{extension}").read_bytes()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_what_was_written_reads_as_recorded(name, way):
    case = CASES[name]
    dataset = IndexedDataset(GOLDEN / name, case["multimodal"], **way)
    assert dataset.index.dtype is getattr(numpy, case["dtype"])
    if "document_indices" in case:
        assert dataset.document_indices.tolist() == case["document_indices"]
    for entry in case.get("read_back", []):
        found = dataset[entry["index"]]
        if case["multimodal"]:
            found, mode = found
            assert mode == entry["mode"]
        assert found.tolist() == entry["tokens"] and found.dtype == case["dtype"]
        assert dataset.sequence_lengths[entry["index"]] == entry["length"]
    dataset.verify()


# -------------------------------------------------------------------------------------------------------------- reader


@pytest.mark.parametrize("way", WAYS)
def test_reads_and_slices_are_the_reference_s(way):
    dataset = IndexedDataset(GOLDEN / READS["dataset"], **way)
    for read in READS["get"]:
        assert dataset.get(read["idx"], read["offset"], read["length"]).tolist() == read["tokens"]
    for piece in READS["slices"]:
        found = dataset[piece["start"] : piece["stop"]]
        assert isinstance(found, list) and [array.tolist() for array in found] == piece["result"]
    assert dataset[-1].tolist() == READS["minus_one"]
    for kind in (numpy.int64, numpy.int32, numpy.uint8):
        assert dataset[kind(1)].tolist() == READS["numpy_int_index"]
    assert [array.tolist() for array in dataset] == [array.tolist() for array in dataset[:]]
    both = IndexedDataset(GOLDEN / "multimodal_int32", True, **way)[0:3]
    assert [array.tolist() for array in both[0]] == READS["multimodal_slice_0_3"]["tokens"]
    assert both[1].tolist() == READS["multimodal_slice_0_3"]["modes"]


THREE = (GOLDEN / "items_uint16.idx").read_bytes()
DATA = (GOLDEN / "items_uint16.bin").read_bytes()


def patched(at, data):
    return THREE[:at] + data + THREE[at + len(data) :]


#: Files of the recorded failures: index, data, arguments.
FILES = {
    "bad_magic": (b"X" + THREE[1:], DATA, {}),
    "bad_version": (patched(9, struct.pack("<Q", 2)), DATA, {}),
    "dtype_code_0": (patched(17, b"\0"), DATA, {}),
    "dtype_code_9": (patched(17, b"\x09"), DATA, {}),
    "idx_empty": (b"", DATA, {}),
    "idx_header_only_8": (THREE[:8], DATA, {}),
    "idx_cut_in_counts": (THREE[:30], DATA, {}),
    "idx_34_bytes": (THREE[:34], DATA, {}),
    "idx_cut_in_lengths": (THREE[:40], DATA, {}),
    "idx_cut_in_pointers": (THREE[:60], DATA, {}),
    "idx_cut_last_byte": (THREE[:-1], DATA, {}),
    "idx_trailing_bytes": (THREE + b"12345", DATA, {}),
    "multimodal_flag_without_modes": (THREE, DATA, {"multimodal": True}),
    "bin_empty_mmap": (THREE, b"", {}),
    "bin_empty_file_reader": (THREE, b"", {"mmap": False}),
    "bin_truncated_open": (THREE, DATA[:-4], {}),
    "huge_sequence_count": (patched(18, struct.pack("<Q", 1 << 62)), DATA, {}),
    "last_document_index_wrong": (patched(len(THREE) - 8, struct.pack("<q", 2)), DATA, {}),
    "fast_cache_load_skips_checks": (patched(len(THREE) - 8, struct.pack("<q", 2)), DATA, {"fast_cache_load": True}),
    "missing_files": (None, None, {}),
    "missing_files_fast_cache_load": (None, None, {"fast_cache_load": True}),
}
#: What is done with the good files.
ACTIONS = {
    "index_out_of_range": lambda dataset: dataset[3],
    "index_minus_one": lambda dataset: dataset[-1],
    "index_minus_four": lambda dataset: dataset[-4],
    "slice_step_two": lambda dataset: dataset[0:3:2],
    "index_str": lambda dataset: dataset["0"],
    "index_none": lambda dataset: dataset[None],
    "get_negative_length": lambda dataset: dataset.get(0, 0, -1),
    "get_offset_past_end": lambda dataset: dataset.get(2, 8),
    "get_length_past_file_end": lambda dataset: dataset.get(2, 0, 8),
    "get_past_sequence_but_inside_file": lambda dataset: dataset.get(0, 4, 3),
    "get_offset_past_file": lambda dataset: dataset.get(0, 1000, 1),
}
#: Where stoker does something else on purpose: files that work, files that are told earlier, ways that work.
DIFFERENT = {
    "bin_empty_mmap": "the three sequences are missing, and that is told; an empty dataset works",
    "bin_empty_file_reader": "the reference finds out at the read, or never",
    "bin_truncated_open": "the reference finds out at the read, or never",
    "bin_truncated_read_last": "cannot be opened",
    "merge_dtype_mismatch": "a text is added",
    "last_document_index_wrong": "a text is added",
    "add_document_list_overflow_uint8": "an error unless wrapping is asked for",
    "add_document_list_negative_uint16": "an error unless wrapping is asked for",
    "add_item_list": "lists work",
    "sequence_modes_property_multimodal": "works",
    "sequence_modes_property_plain": "a text is added",
}
KINDS = {"error": struct.error}


def expect(case, call):
    """The recorded exception, by type and text; texts of NumPy may have more behind them."""
    want = ERRORS[case]
    if want["error"] is None:
        return call()
    kind = KINDS.get(want["error"]) or getattr(__import__("builtins"), want["error"])
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    of_numpy = ("buffer is smaller than requested size", "array is too big", "offset must be non-negative")
    if want["message"].startswith(of_numpy):
        assert text.startswith(want["message"])
    elif want["message"]:
        assert text == want["message"]
    else:
        assert text
    return None


def write_pair(idx, data):
    os.makedirs("tmp", exist_ok=True)
    pathlib.Path("tmp/pair.idx").write_bytes(idx)
    pathlib.Path("tmp/pair.bin").write_bytes(data)


@pytest.mark.parametrize("case", [case for case in FILES if case not in DIFFERENT or case == "last_document_index_wrong"])
def test_files_that_the_reference_refuses(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    idx, data, arguments = FILES[case]
    prefix = "tmp/nope"
    if idx is not None:
        prefix = f"tmp/{case}"
        write_pair(idx, data)
        for extension in ("idx", "bin"):
            os.rename(f"tmp/pair.{extension}", f"{prefix}.{extension}")
    dataset = expect(case, lambda: IndexedDataset(prefix, **arguments))
    if dataset is not None:
        assert dataset[1].tolist() == [35431]


@pytest.mark.parametrize("case", ACTIONS)
def test_reads_that_the_reference_refuses(case):
    expect(case, lambda: ACTIONS[case](IndexedDataset(GOLDEN / "items_uint16")))


def test_negative_length_reads_to_the_end():
    dataset = IndexedDataset(GOLDEN / "items_uint16")
    assert dataset.get(1, 0, -1).tolist() == numpy.frombuffer(DATA, "<u2")[5:].tolist()
    with pytest.raises(ValueError):
        IndexedDataset(GOLDEN / "items_uint16", mmap=False).get(1, 0, -1)
    with pytest.raises(ValueError, match="offset must be non-negative"):
        dataset.get(1, -1)


@pytest.mark.parametrize("mmap", [True, False])
def test_data_that_are_too_short_are_told_at_the_opening(mmap, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for data in (b"", DATA[:-4]):
        write_pair(THREE, data)
        with pytest.raises(ValueError, match="ends at byte"):
            IndexedDataset("tmp/pair", mmap=mmap)
        unchecked = IndexedDataset("tmp/pair", mmap=mmap, fast_cache_load=True)
        with pytest.raises(ValueError, match="buffer is smaller than requested size|offset must be non-negative"):
            unchecked[2]
    assert len(IndexedDataset(GOLDEN / "empty", mmap=mmap)) == 0
    with pytest.raises(IndexError):
        IndexedDataset(GOLDEN / "empty", mmap=mmap)[0]


def test_merging_what_cannot_be_merged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with IndexedDatasetBuilder("x.bin", numpy.int32) as builder:
        expect("merge_dtype_mismatch", lambda: builder.add_index(GOLDEN / "items_uint16"))
        expect("merge_missing", lambda: builder.add_index("tmp/nope"))
        builder.add_index(GOLDEN / "items_int32")
        builder.finalize("x.idx")
    assert pathlib.Path("x.idx").read_bytes() == (GOLDEN / "items_int32.idx").read_bytes()


def test_every_recorded_case_is_tested():
    others = {"merge_dtype_mismatch", "merge_missing", "bin_truncated_read_last", "add_document_list_overflow_uint8",
              "add_document_list_negative_uint16", "add_item_list", "sequence_modes_property_multimodal",
              "sequence_modes_property_plain"}
    assert set(ERRORS) == set(FILES) | set(ACTIONS) | others and len(ERRORS) == 40


def test_modes_can_be_asked_for():
    assert IndexedDataset(GOLDEN / "multimodal_int32", True).sequence_modes.tolist() == [0, 1, 0, 5, 0]
    expect("sequence_modes_property_plain", lambda: IndexedDataset(GOLDEN / "items_uint16").sequence_modes)


def test_what_we_found_goes_along_with_the_reference_s_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pair(b"X" + THREE[1:], DATA)
    with pytest.raises(AssertionError) as caught:
        IndexedDataset("tmp/pair")
    assert isinstance(caught.value, errors.DataError) and caught.value.status == "CORRUPT"
    assert any("offset 0: magic" in note for note in caught.value.__notes__)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and type(again) is type(caught.value)


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (34 + 4, struct.pack("<i", -1), "offset 38: length of sequence 1 is -1"),
        (34 + 12, struct.pack("<q", -2), "offset 46: offset of sequence 0 is -2"),
        (34 + 12 + 16, struct.pack("<q", 1 << 62), "offset 62: offset of sequence 2"),
        (34 + 36 + 8, struct.pack("<q", 9), "offset 86: entry 2 of the document index is 3"),
        (34 + 36, struct.pack("<q", 1), "offset 70: document index begins with 1"),
    ],
)
def test_values_that_the_reference_trusts(at, value, text, tmp_path, monkeypatch):
    """It would crash, or read garbage."""
    monkeypatch.chdir(tmp_path)
    write_pair(patched(at, value), DATA)
    with pytest.raises(ValueError, match=text) as caught:
        IndexedDataset("tmp/pair")
    assert isinstance(caught.value, errors.DataError) and "tmp/pair.idx" in str(caught.value)


def test_offsets_that_are_no_running_sum_are_read_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pair(patched(46, struct.pack("<3q", 16, 0, 2)), DATA)
    tokens = numpy.frombuffer(DATA, "<u2")
    for way in WAYS:
        dataset = IndexedDataset("tmp/pair", **way)
        want = [tokens[8:13].tolist(), tokens[:1].tolist(), tokens[1:8].tolist()]
        assert [array.tolist() for array in dataset] == want
        assert [array.tolist() for array in dataset[:]] == want
        with pytest.raises(errors.DataError, match="sequence 0 is 16"):
            dataset.verify()


def test_counts_that_are_given_replace_the_header(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pair(b"?" * 34 + THREE[34:], DATA)
    for way in WAYS:
        dataset = IndexedDataset("tmp/pair", sequences_per_dataset=(3, 3), dtype_code=8, **way)
        assert dataset[2].tolist() == READS["minus_one"] and len(dataset) == 3
    with pytest.raises(ValueError, match="0 is not a valid DType"):
        IndexedDataset("tmp/pair", sequences_per_dataset=(3, 3), dtype_code=0)
    with pytest.raises(AssertionError, match="dtype_code"):
        IndexedDataset("tmp/pair", sequences_per_dataset=(3, 3))
    with pytest.raises(ValueError, match="buffer is smaller"):
        IndexedDataset("tmp/pair", sequences_per_dataset=(30, 3), dtype_code=8)


def test_attributes_that_programs_touch():
    dataset = IndexedDataset(GOLDEN / "items_uint16")
    index = dataset.index
    assert index.sequence_lengths.tolist() == [5, 1, 7] and index.sequence_pointers.tolist() == [0, 10, 12]
    assert index.document_indices.tolist() == [0, 2, 3] and index.sequence_modes is None
    assert (index.sequence_count, index.document_count, index.dtype_size, len(index)) == (3, 3, 2, 3)
    assert index[1] == (10, 1, None)
    assert (dataset.path_prefix, dataset.multimodal, dataset.mmap) == (str(GOLDEN / "items_uint16"), False, True)
    for array in (dataset.sequence_lengths, dataset.document_indices, dataset[0]):
        assert not array.flags.writeable and array.base is not None
    assert index.sequence_lengths.dtype == numpy.int32 and index.document_indices.dtype == numpy.int64
    for mmap in (True, False):
        reader = IndexedDataset(GOLDEN / "items_uint16", mmap=mmap).bin_reader
        assert reader.read(numpy.uint16, 2, 10).tolist() == [35431, 13278]
    own = IndexedDataset(GOLDEN / "items_uint16", mmap=False)[0]
    own[0] = 1  # a fresh array
    dataset.set_document_indices(numpy.array([0, 3]))
    assert dataset.get_document_indices().tolist() == [0, 3]


def test_arrays_keep_the_mapping():
    array = IndexedDataset(GOLDEN / "items_uint16")[2]
    lengths = IndexedDataset(GOLDEN / "items_uint16").sequence_lengths
    assert array.tolist() == READS["minus_one"] and lengths.tolist() == [5, 1, 7]


@pytest.mark.parametrize("way", WAYS)
def test_pickles_and_copies_open_the_files_again(way):
    dataset = IndexedDataset(GOLDEN / "multimodal_int32", True, **way)
    for again in (pickle.loads(pickle.dumps(dataset)), copy.copy(dataset), copy.deepcopy(dataset)):
        assert again[1][0].tolist() == dataset[1][0].tolist() and again._core is not dataset._core
        assert (again.mmap, again.fast_cache_load) == (dataset.mmap, dataset.fast_cache_load)


def test_a_forked_child_reads_on():
    for way in WAYS:
        dataset = IndexedDataset(GOLDEN / "items_uint16", **way)
        child = os.fork()
        if child == 0:
            os._exit(0 if dataset[2].tolist() == READS["minus_one"] else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_ten_thousand_prefixes_with_256_descriptors(tmp_path):
    shutil.copy(GOLDEN / "items_uint16.idx", tmp_path / "x.idx")
    shutil.copy(GOLDEN / "items_uint16.bin", tmp_path / "x.bin")
    for i in range(10000):
        for extension in ("idx", "bin"):
            os.symlink(f"x.{extension}", tmp_path / f"{i}.{extension}")
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, old[1]))
    try:
        for way in WAYS:
            datasets = [IndexedDataset(tmp_path / str(i), **way) for i in range(10000)]
            assert {tuple(dataset[1].tolist()) for dataset in datasets} == {(35431,)}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)


def test_a_file_that_comes_late_is_read_in_a_later_try(tmp_path):
    for extension in ("idx", "bin"):
        shutil.copy(GOLDEN / f"items_uint16.{extension}", tmp_path / f"x.{extension}")
    arguments = {"mmap": False, "fast_cache_load": True, "retry_delay_s": 0.0}
    dataset = IndexedDataset(tmp_path / "x", **arguments)
    os.rename(tmp_path / "x.bin", tmp_path / "y.bin")
    with pytest.raises(FileNotFoundError) as caught:
        dataset[0]
    assert any("tried 4 times" in note for note in caught.value.__notes__)
    with pytest.raises(FileNotFoundError) as caught:
        IndexedDataset(tmp_path / "x", retries=1, **arguments)[0]
    assert any("tried 2 times" in note for note in caught.value.__notes__)
    os.rename(tmp_path / "y.bin", tmp_path / "x.bin")
    assert dataset[1].tolist() == [35431]


# ------------------------------------------------------------------------------------------------------- types and input


def test_types():
    for name, code in zip("uint8 int8 int16 int32 int64 float64 float32 uint16".split(), range(1, 9), strict=True):
        dtype = getattr(numpy, name)
        assert DType[name].value == code == DType.code_from_dtype(dtype) and DType.dtype_from_code(code) is dtype
        assert DType.size(code) == DType.size(dtype) == dtype().itemsize
    assert DType.optimal_dtype(65499) is numpy.uint16 and DType.optimal_dtype(65500) is numpy.int32
    assert DType.optimal_dtype(None) is numpy.int32
    with pytest.raises(ValueError, match="9 is not a valid DType"):
        DType.dtype_from_code(9)
    with pytest.raises(ValueError):
        DType.size("x")


def written(tmp_path, write, dtype=numpy.int32, multimodal=False, **options):
    with IndexedDatasetBuilder(tmp_path / "w.bin", dtype, multimodal, **options) as builder:
        write(builder)
        builder.finalize(tmp_path / "w.idx")
    return IndexedDataset(tmp_path / "w", multimodal)


def test_every_form_of_tokens(tmp_path):
    forms = [
        [1, 2, 3],
        (1, 2, 3),
        numpy.array([1, 9, 2, 9, 3])[::2],
        numpy.array([1, 2, 3], ">i4"),
        numpy.array([1, 2, 3], numpy.uint32),
        numpy.array([1, 2, 3], numpy.uint64),
        numpy.array([1, 2, 3], numpy.float16),
        numpy.array([[1], [2], [3]], numpy.int8),
        range(1, 4),
        [1.9, 2.5, 3.1],
    ]

    def write(builder):
        for form in forms:
            builder.add_item(form)
            builder.end_document()
        builder.add_item([])
        builder.add_document(numpy.array([True, False]), numpy.array([1, 1]))

    dataset = written(tmp_path, write)
    for i in range(len(forms)):
        assert dataset[i].tolist() == [1, 2, 3], forms[i]
    assert dataset[len(forms)].tolist() == [] and dataset[len(forms) + 1].tolist() == [1]


def test_tensors(tmp_path):
    torch = pytest.importorskip("torch")

    def write(builder):
        builder.add_item(torch.tensor([1, 2, 3]))
        builder.end_document()
        builder.add_document(torch.tensor([4, 5], dtype=torch.int32), torch.tensor([1, 1]))
        builder.add_documents([torch.tensor([6]), torch.tensor([], dtype=torch.int64)], eod_token=0)

    dataset = written(tmp_path, write, numpy.uint16)
    assert [array.tolist() for array in dataset] == [[1, 2, 3], [4], [5], [6, 0], [0]]
    assert dataset.document_indices.tolist() == [0, 1, 3, 4, 5]


NO_TOKENS = [
    numpy.datetime64("2026-01-01"), numpy.timedelta64(3, "s"), numpy.array(["2026-01-01"], "M8[D]"), numpy.str_("abc"),
    numpy.bytes_(b"abc"), numpy.void(b"abcd"), numpy.complex64(1),
]  # fmt: skip


@pytest.mark.parametrize("bad", NO_TOKENS, ids=lambda bad: str(bad.dtype))
def test_buffers_of_other_types_are_no_tokens(bad, tmp_path):
    with IndexedDatasetBuilder(tmp_path / "x.bin") as builder:
        for write in (
            lambda: builder.add_item(bad),
            lambda: builder.add_document(bad, [8]),
            lambda: builder.add_documents([bad]),
            lambda: builder.add_documents((bad, [0, 1])),
        ):
            with pytest.raises(TypeError) as caught:
                write()
            assert str(caught.value) == f"tokens must be integers or floating values, not {bad.dtype}"


def test_places_and_modes_are_not_cut(tmp_path):
    with IndexedDatasetBuilder(tmp_path / "x.bin", multimodal=True) as builder:
        for offsets in ([0, 1.9, 3], numpy.array([0.0, 3.0]), [False, True], ["0", "3"]):
            with pytest.raises(TypeError, match="offsets must be integers, not"):
                builder.add_documents(([1, 2, 3], offsets))
        with pytest.raises(errors.CallerError, match=f"offset {2**63} at position 1 does not fit int64"):
            builder.add_documents(([1, 2, 3], numpy.array([0, 2**63], numpy.uint64)))
        with pytest.raises(TypeError, match="modes must be integers, not float64"):
            builder.add_documents([[1], [2]], modes=[1.5, 2])
        with pytest.raises(TypeError, match="modes must be integers, not float64"):
            builder.add_document([1, 2], [1, 1], [1.5, 2])
        with pytest.raises(TypeError, match="lengths must be integers, not float64"):
            builder.add_document([1, 2], numpy.array([1.5, 0.5]))
        builder.add_documents(([], numpy.array([0])))  # none
        builder.finalize(tmp_path / "x.idx")


@pytest.mark.parametrize("dtype, seen", [
    (numpy.uint32, "uint32"), (numpy.float16, "float16"), (bool, "bool"), (None, "None"), ("tokens", "'tokens'"),
    (numpy.complex64, "complex64"), (numpy.uint64, "uint64"),
])  # fmt: skip
def test_types_that_token_files_do_not_have(dtype, seen, tmp_path):
    with pytest.raises(TypeError) as caught:
        IndexedDatasetBuilder(tmp_path / "x.bin", dtype)
    names = "uint8, int8, int16, int32, int64, float64, float32, uint16"
    assert str(caught.value) == f"dtype is {seen}; the elements of token files are one of {names}"
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("bad", [["a"], [[1], [2, 3]], numpy.array([1j]), numpy.array(["x"])])
def test_what_is_no_tokens(bad, tmp_path):
    with IndexedDatasetBuilder(tmp_path / "x.bin") as builder, pytest.raises((TypeError, ValueError)):
        builder.add_item(bad)


def test_values_that_do_not_fit(tmp_path):
    with IndexedDatasetBuilder(tmp_path / "x.bin", numpy.uint8) as builder:
        for tokens in ([255, 256], [3, -1], numpy.array([0, 2**63], numpy.uint64), [0.0, float("nan")]):
            with pytest.raises(errors.StokerError, match="position 1"):
                builder.add_item(tokens)
        with pytest.raises(errors.MachineError, match=r"token 300 at position 0 of document 1 does not fit uint8 \(0 to"):
            builder.add_documents([[1], [300]])
        builder.finalize(tmp_path / "x.idx")
    assert len(IndexedDataset(tmp_path / "x")) == 0
    dataset = written(tmp_path, lambda builder: builder.add_document([256, -1], [2]), numpy.uint8, wrap=True)
    assert dataset[0].tolist() == [0, 255]


def test_batches_in_every_form(tmp_path):
    documents = [[6, 1, 3], [], [1, 1, 1, 1, 1], [6], []]
    values, offsets = numpy.array(sum(documents, [])), numpy.array([0, 3, 3, 8, 9, 9])
    forms = [documents, [numpy.array(d, numpy.int64) for d in documents], (values, offsets), (values, offsets.tolist())]
    try:
        import awkward

        forms.append(awkward.Array(documents))
        forms.append(awkward.Array([[7], *documents])[1:])
    except ImportError:
        pass
    for form in forms:
        for chunk_size in (1, 2, 1000000):
            dataset = written(tmp_path, lambda b: b.add_documents(form, eod_token=50256, chunk_size=chunk_size), numpy.uint16)  # noqa: B023
            for extension in ("bin", "idx"):
                golden = (GOLDEN / f"batched_eod_uint16.{extension}").read_bytes()
                assert (tmp_path / f"w.{extension}").read_bytes() == golden
    dataset = written(tmp_path, lambda b: b.add_documents(documents, [1, 2, 300, 4, 5], chunk_size=2), multimodal=True)
    assert dataset.sequence_modes.tolist() == [1, 2, 44, 4, 5]


def test_awkward_arrays(tmp_path):
    awkward = pytest.importorskip("awkward")
    dataset = written(tmp_path, lambda b: b.add_documents(awkward.Array([[1, 2], [], [3]])))
    assert [array.tolist() for array in dataset] == [[1, 2], [], [3]]


def test_batches_that_are_wrong(tmp_path):
    with IndexedDatasetBuilder(tmp_path / "x.bin", multimodal=True) as builder:
        with pytest.raises(errors.CallerError, match="2 modes for 1"):
            builder.add_documents([[1]], modes=[1, 2])
        with pytest.raises(errors.CallerError, match="tuple of 3"):
            builder.add_documents(([1], [2], [3]))
        with pytest.raises(errors.CallerError, match="below the one before"):
            builder.add_documents((numpy.arange(5), numpy.array([0, 4, 2])))
        with pytest.raises(ValueError, match="chunk_size"):
            builder.add_documents([[1]], chunk_size=0)
        with pytest.raises(errors.CallerError, match="sum up to 2, but there are 3"):
            builder.add_document([1, 2, 3], [2])
        with pytest.raises(ValueError, match="-1 at position 0"):
            builder.add_document([1, 2, 3], [-1])
        with pytest.raises(errors.CallerError, match="position 1"):
            builder.add_document([1, 2, 3], numpy.array([3, 2**31]))
        with pytest.raises(ValueError, match="2 modes for 1"):
            builder.add_document([1, 2, 3], [3], [1, 2])


def test_what_is_not_finalized_leaves_nothing(tmp_path):
    builder = IndexedDatasetBuilder(tmp_path / "x.bin")
    builder.add_item([1, 2, 3])
    with pytest.raises(errors.CallerError, match="1 sequences were added after the last document end"):
        builder.finalize(tmp_path / "x.idx")
    builder.close()
    with pytest.raises(errors.CallerError, match="closed"):
        builder.add_item([1])
    assert os.listdir(tmp_path) == []
    with pytest.raises(errors.DataError, match="none/x.bin"):
        IndexedDatasetBuilder(tmp_path / "none" / "x.bin")


def test_many_tiny_documents_stay_small(tmp_path):
    """A million documents of one token: 12 bytes of index each, and no more than that stays in memory."""
    script = """
import resource, sys, numpy
from stoker._megatron.indexed_builder import IndexedDatasetBuilder
values, offsets = numpy.zeros(100000, numpy.int64), numpy.arange(100001)
builder = IndexedDatasetBuilder(sys.argv[1] + ".bin", numpy.uint16)
builder.add_documents((values, offsets))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(29):
    builder.add_documents((values, offsets))
builder.finalize(sys.argv[1] + ".idx")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "t")], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2900000 * 12 + (8 << 20)
    assert len(IndexedDataset(tmp_path / "t")) == 3000000


@pytest.mark.parametrize("arguments", [(0, 1.5), (0, 0, 2.0), (1.0,), ("0",), (0, "1"), (0, None)], ids=str)
@pytest.mark.parametrize("mmap", [True, False])
def test_places_that_are_no_integers(tmp_path, mmap, arguments):
    prefix = small_prefix(tmp_path)
    dataset = IndexedDataset(prefix, mmap=mmap)
    with pytest.raises(TypeError):
        dataset.get(*arguments)
    assert dataset.get(numpy.int64(0), numpy.uint8(1), numpy.int32(2)).tolist() == [2, 3]


@pytest.mark.parametrize("mmap", [True, False])
def test_places_that_no_array_has(tmp_path, mmap):
    dataset = IndexedDataset(small_prefix(tmp_path), mmap=mmap)
    for place in (2**63, -(2**63), -(2**63) - 1, 2**64, numpy.uint64(2**63), numpy.int64(-(2**63))):
        for read in (dataset.__getitem__, dataset.get):
            with pytest.raises(IndexError, match=f"idx is {place}; expected -1 to 0"):
                read(place)
    for place in (True, False, numpy.bool_(False)):
        with pytest.raises(TypeError, match="Unexpected type received for idx: <class '(numpy.)?bool_?'>"):
            dataset[place]
    assert dataset[numpy.uint64(0)].tolist() == dataset[-1].tolist() == [1, 2, 3, 4]


def small_prefix(folder):
    with IndexedDatasetBuilder(folder / "w.bin", numpy.uint16) as builder:
        builder.add_document([1, 2, 3, 4], [4])
        builder.finalize(folder / "w.idx")
    return str(folder / "w")


# ------------------------------------------------------------------------------------------- forks and interrupts of writers


def test_a_forked_child_neither_writes_nor_removes(tmp_path):
    with IndexedDatasetBuilder(tmp_path / "f.bin", numpy.uint16) as builder:
        builder.add_document([1, 2, 3], [3])
        child = os.fork()
        if child == 0:
            status = 1
            try:
                builder.add_document([9], [1])
            except errors.CallerError as error:
                status = 0 if "forked child" in str(error) else 2
            finally:
                builder.close()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        builder.add_document([4], [1])
        builder.finalize(tmp_path / "f.idx")
    dataset = IndexedDataset(tmp_path / "f")
    assert [dataset[i].tolist() for i in range(2)] == [[1, 2, 3], [4]] and len(os.listdir(tmp_path)) == 2


class Alarm(Exception):
    pass


def raise_alarm(number, frame):
    raise Alarm


def test_a_merge_ends_when_a_signal_handler_raises(tmp_path):
    """The data are a gibibyte of holes: a merge that went on to its end would have added them."""
    before = signal.signal(signal.SIGALRM, raise_alarm)
    with IndexedDatasetBuilder(tmp_path / "m.bin", numpy.uint8) as builder:
        builder.add_document([7], [1])
        builder.finalize(tmp_path / "m.idx")
    shutil.copy(tmp_path / "m.idx", tmp_path / "s.idx")
    size = 1 << 30
    with open(tmp_path / "s.idx", "r+b") as file:
        file.seek(34)
        file.write(struct.pack("<i", size))
    with open(tmp_path / "s.bin", "wb") as file:
        file.truncate(size)
    try:
        with IndexedDatasetBuilder(tmp_path / "m.bin", numpy.uint8) as builder:
            builder.add_index(tmp_path / "m")
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            with pytest.raises(Alarm):
                builder.add_index(tmp_path / "s")
            builder.add_index(tmp_path / "m")
            builder.finalize(tmp_path / "m.idx")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    dataset = IndexedDataset(tmp_path / "m")
    assert len(dataset) == 2 and dataset[1].tolist() == [7]


# --------------------------------------------------------------------------------------------- files that change while open


def many(prefix, value):
    with IndexedDatasetBuilder(f"{prefix}.bin", numpy.uint16) as builder:
        for _ in range(100):
            builder.add_document(numpy.full(5000, value, numpy.uint16), [5000])
        builder.finalize(f"{prefix}.idx")


def test_cut_data_are_an_error_of_positional_reads(tmp_path):
    many(tmp_path / "t", 7)
    dataset = IndexedDataset(tmp_path / "t", mmap=False, retries=0)
    assert dataset[50].tolist() == [7] * 5000
    os.truncate(tmp_path / "t.bin", 505000)
    for read in (lambda: dataset[50], lambda: dataset[49:52], lambda: dataset.get(50, 2400, 200)):
        with pytest.raises(errors.DataError, match="t.bin.*offset"):
            read()
    assert dataset.get(50, 0, 2500).tolist() == [7] * 2500


def test_mapped_data_outlive_their_replacement(tmp_path):
    many(tmp_path / "t", 7)
    dataset = IndexedDataset(tmp_path / "t")
    view = dataset[99]
    with IndexedDatasetBuilder(tmp_path / "t.bin", numpy.uint16) as builder:
        builder.add_document([1], [1])
        builder.finalize(tmp_path / "t.idx")
    assert view.tolist() == dataset[50].tolist() == [7] * 5000 and dataset[1:3][1].tolist() == [7] * 5000
    assert [sequence.tolist() for sequence in IndexedDataset(tmp_path / "t")] == [[1]]
