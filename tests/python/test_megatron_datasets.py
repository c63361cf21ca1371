# SPDX-License-Identifier: Apache-2.0
"""GPT, blended and mock datasets as objects: items, batches, padding, pickling, classes of users, refusals by name."""

import copy
import json
import os
import pickle
import subprocess
import sys
from queue import Queue
from threading import Thread

import pytest
from megatron_data import Tokenizer, corpus, options, write

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from stoker import errors  # noqa: E402
from stoker._megatron import tensors  # noqa: E402
from stoker.megatron import (  # noqa: E402
    BlendedDataset,
    BlendedMegatronDatasetBuilder,
    GPTDataset,
    GPTDatasetConfig,
    IndexedDataset,
    MegatronDataset,
    MockGPTDataset,
    Split,
)

FORMS = {
    "plain": {},
    "no mask": {"create_attention_mask": False},
    "resets": {"reset_position_ids": True, "reset_attention_mask": True, "eod_mask_loss": True},
    "eod loss": {"eod_mask_loss": True},
    "positions": {"reset_position_ids": True, "create_attention_mask": False},
    "documents": {"inter_document_masking": True},
    "no extra": {"add_extra_token_to_sequence": False},
    "pad": {"tokenizer": Tokenizer(eod=3, pad=5)},
}


def build(prefixes, folder, sizes=(40, None, None), cls=GPTDataset, **changes):
    blend = (prefixes, None) if isinstance(prefixes, list) else ([str(prefixes)], None)
    settings = options(blend=blend, split="8,1,1", path_to_cache=str(folder / "cache"), **changes)
    return BlendedMegatronDatasetBuilder(cls, list(sizes), lambda: True, GPTDatasetConfig(**settings)).build()


@pytest.fixture
def prefix(tmp_path):
    return corpus(tmp_path / "a", count=60, length=(0, 40), vocabulary=20, eod=3)


def same(got, wanted):
    assert list(got) == list(wanted)
    for key, value in wanted.items():
        assert type(got[key]) is type(value), key
        if isinstance(value, torch.Tensor):
            assert got[key].dtype == value.dtype and got[key].shape == value.shape, key
            assert torch.equal(got[key], value), key
        else:
            assert got[key] == value, key


# ---------------------------------------------------------------------------------------------------------------- items


class OwnText(GPTDataset):
    """Makes its items in Python of the text that the C library gives: the same items by another way."""

    def _query_document_sample_shuffle_indices(self, idx):
        return super()._query_document_sample_shuffle_indices(idx)


@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.parametrize("form", [form for form in FORMS if form != "documents"])
def test_items_are_those_made_in_python(prefix, tmp_path, form, split):
    changes = {"drop_last_partial_validation_sequence": False, **FORMS[form]}
    native = build(prefix, tmp_path, **changes)[split]
    python = build(prefix, tmp_path, cls=OwnText, **changes)[split]
    assert len(native) == len(python) > 1
    for idx in [*range(len(native)), -1, None]:
        same(native[idx], python[idx])


@pytest.mark.parametrize("form", FORMS)
def test_items_are_tensors_of_the_promised_types(prefix, tmp_path, form):
    item = build(prefix, tmp_path, **FORMS[form])[0][0]
    wanted = {"tokens": (torch.int64, (8,)), "labels": (torch.int64, (8,)), "attention_mask": (torch.bool, (1, 8, 8)),
              "loss_mask": (torch.float32, (8,)), "position_ids": (torch.int64, (8,)),
              "cu_seqlens": (torch.int32, (9,)), "max_seqlen": (torch.int32, ())}  # fmt: skip
    keys = {
        "documents": ["tokens", "labels", "loss_mask", "position_ids", "cu_seqlens", "max_seqlen"],
        "no mask": ["tokens", "labels", "loss_mask", "position_ids"],
        "positions": ["tokens", "labels", "loss_mask", "position_ids"],
    }.get(form, ["tokens", "labels", "attention_mask", "loss_mask", "position_ids"])
    assert list(item) == keys
    for key in keys:
        assert (item[key].dtype, tuple(item[key].shape)) == wanted[key]


def test_items_without_torch_are_arrays(prefix, tmp_path):
    code = f"""
import sys
sys.modules["torch"] = None
sys.path.insert(0, {os.path.dirname(__file__)!r})
from megatron_data import options
from stoker.megatron import *
cache = {str(tmp_path / "cache")!r}
config = GPTDatasetConfig(**options(blend=([{prefix!r}], None), split="8,1,1", path_to_cache=cache))
train = BlendedMegatronDatasetBuilder(GPTDataset, [40, None, None], lambda: True, config).build()[0]
item, batch = train[3], train.get_batch([3, 4])
for key in item:
    assert (batch[key][0] == item[key]).all() and batch[key].dtype == item[key].dtype
print({{key: (type(value).__name__, str(value.dtype), value.shape) for key, value in item.items()}})
assert all((many[key] == item[key]).all() for many in train.__getitems__([3, 3]) for key in item)
print(item["tokens"].tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kinds, tokens = done.stdout.splitlines()
    assert kinds == str({"tokens": ("ndarray", "int64", (8,)), "labels": ("ndarray", "int64", (8,)),
                         "attention_mask": ("ndarray", "bool", (1, 8, 8)), "loss_mask": ("ndarray", "float32", (8,)),
                         "position_ids": ("ndarray", "int64", (8,))})  # fmt: skip
    assert json.loads(tokens) == build(prefix, tmp_path)[0][3]["tokens"].tolist()


def test_the_padding_of_one_item_stays_its_own(tmp_path):
    prefix = corpus(tmp_path / "a", count=40, length=13, vocabulary=20)
    valid = build(prefix, tmp_path, drop_last_partial_validation_sequence=False)[1]
    masks = [valid[idx]["loss_mask"] for idx in range(len(valid))]
    short = [idx for idx, mask in enumerate(masks) if mask.sum() < 8]
    assert len(short) == 1
    assert valid[short[0]]["loss_mask"].sum() < 8  # fetched first and again
    fresh = build(prefix, tmp_path, drop_last_partial_validation_sequence=False)[1]
    order = [short[0], *(idx for idx in range(len(valid)) if idx != short[0])]
    for idx in order:
        assert torch.equal(fresh[idx]["loss_mask"], masks[idx])


def test_padding_item(prefix, tmp_path):
    train = build(prefix, tmp_path)[0]
    wanted = train[0]
    item = train[None]
    assert (item["loss_mask"] == 0).all()
    wanted["loss_mask"] = item["loss_mask"]
    same(item, wanted)


def test_items_may_be_written_to(prefix, tmp_path):
    train = build(prefix, tmp_path)[0]
    first = copy.deepcopy(train[2])
    item = train[2]
    for key in ("tokens", "labels", "loss_mask"):
        item[key].zero_()
    same(train[2], first)


@pytest.mark.parametrize("idx", [10**6, -(10**6), 2**63, -(2**70)])
def test_an_item_that_is_not_there(prefix, tmp_path, idx):
    for dataset in (build(prefix, tmp_path)[0], build([prefix, prefix], tmp_path)[0]):
        with pytest.raises(IndexError):
            dataset[idx]


def test_index_types(prefix, tmp_path):
    train = build(prefix, tmp_path)[0]
    for idx in (numpy.int16(3), numpy.uint64(3), torch.tensor(3)):
        same(train[idx], train[3])
    for bad in ("3", 3.0, [3]):
        with pytest.raises(TypeError):
            train[bad]


def test_attributes(prefix, tmp_path):
    train, valid, test = build(prefix, tmp_path, sizes=(40, 3, 2))
    assert isinstance(train, GPTDataset) and isinstance(train, MegatronDataset)
    assert (train.num_samples, train.index_split, train.dataset_path) == (40, Split.train, prefix)
    assert train.indices.dtype == numpy.int32 and train.indices.tolist() == list(range(48))
    assert valid.indices.tolist() == list(range(48, 54)) and test.indices.tolist() == list(range(54, 60))
    assert train.document_index.dtype == numpy.int32 and train.shuffle_index.dtype == numpy.uint32
    assert train.sample_index.dtype == numpy.int32 and train.sample_index.shape == (len(train) + 1, 2)
    assert sorted(train.shuffle_index) == list(range(len(train)))
    assert not train.shuffle_index.flags.writeable
    assert len(train.dataset) == 60 and isinstance(train.dataset, IndexedDataset)
    assert json.loads(train.unique_description)["dataset_path"] == prefix
    assert prefix in repr(train) and "train" in repr(train)


def test_text_of_an_item(prefix, tmp_path):
    train = build(prefix, tmp_path)[0]
    text, sequences = train._query_document_sample_shuffle_indices(5)
    item = train[5]
    assert text.dtype == numpy.int64 and len(text) == 9
    assert text[:-1].tolist() == item["tokens"].tolist() and text[1:].tolist() == item["labels"].tolist()
    low = IndexedDataset(prefix)
    joined = numpy.concatenate([low[int(number)] for number in sequences]).tolist()
    assert any(joined[at : at + 9] == text.tolist() for at in range(len(joined)))


# -------------------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("blended", [False, True])
def test_batch_is_its_items(prefix, tmp_path, form, blended):
    other = corpus(tmp_path / "b", count=50, seed=1, vocabulary=20)
    train = build([prefix, other] if blended else prefix, tmp_path, **FORMS[form])[0]
    indices = [5, 0, -1, 5, 7, 2, 30, 31]
    batch = train.get_batch(indices)
    same(batch, torch.utils.data.default_collate([train[idx] for idx in indices]))
    assert len({value.untyped_storage().data_ptr() for value in batch.values()}) == 1


def test_batch_into_what_is_there(prefix, tmp_path):
    train = build(prefix, tmp_path)[0]
    out = train.get_batch([0, 1, 2])
    places = {key: value.data_ptr() for key, value in out.items()}
    assert train.get_batch([3, 4, 5], out) is out
    assert {key: value.data_ptr() for key, value in out.items()} == places
    same(out, train.get_batch([3, 4, 5]))
    with pytest.raises(ValueError, match="tokens.*expected int64"):
        train.get_batch([1], out)
    with pytest.raises(ValueError, match="members"):
        train.get_batch([1, 2, 3], {"tokens": out["tokens"]})
    with pytest.raises(TypeError, match="tokens"):
        train.get_batch([1, 2, 3], {**out, "tokens": [1]})


def test_shared_batch(prefix, tmp_path):
    train = build(prefix, tmp_path)[0]
    batch = train.get_batch([1, 2], shared=True)
    assert all(value.is_shared() for value in batch.values())
    same(batch, train.get_batch([1, 2]))


def test_empty_batch_and_missing_items(prefix, tmp_path):
    for train in (build(prefix, tmp_path)[0], build([prefix, prefix], tmp_path)[0]):
        assert train.get_batch([])["tokens"].shape == (0, 8)
        with pytest.raises(IndexError):
            train.get_batch([0, 10**6])
        with pytest.raises(TypeError):
            train.get_batch([0, None])


@pytest.mark.parametrize("form", FORMS)
def test_many_items_at_once_are_the_items(prefix, tmp_path, form):
    """What PyTorch's loader asks for when a dataset has it."""
    train = build(prefix, tmp_path, **FORMS[form])[0]
    indices = [5, 0, -1, 5, numpy.int64(7), None, 2]
    for asked in (indices, [i for i in indices if i is not None], [3]):
        for got, idx in zip(train.__getitems__(asked), asked, strict=True):
            same(got, train[idx])
    assert train.__getitems__([]) == []
    with pytest.raises(IndexError):
        train.__getitems__([0, 10**6])
    with pytest.raises(TypeError):
        train.__getitems__([0, "1"])


def test_many_items_share_no_byte_and_outlive_their_dataset(prefix, tmp_path):
    train = build(prefix, tmp_path, create_attention_mask=False)[0]
    wanted = [train[i] for i in range(6)]
    items, later = train.__getitems__(range(6)), train.__getitems__(range(6))
    for item in later:
        for key in ("tokens", "labels", "loss_mask"):
            item[key].fill_(-1)
    del train, later
    for item, expected in zip(items, wanted, strict=True):
        same(item, expected)
    items[0]["tokens"].fill_(77)
    same(items[1], wanted[1])
    assert torch.equal(items[0]["labels"], wanted[0]["labels"])


@pytest.mark.parametrize("form", FORMS)
def test_items_of_an_older_pytorch(prefix, tmp_path, form, monkeypatch):
    """One without a table of functions for DLPack: the tensors are then made in Python."""
    recent = build(prefix, tmp_path, **FORMS[form])[0]
    indices = [5, 0, -1, 5]
    wanted, padding = [recent[i] for i in indices], recent[None]
    monkeypatch.setattr(tensors, "exchange_or_none", lambda: None)
    older = build(prefix, tmp_path, **FORMS[form])[0]
    same(older[None], padding)
    for got in ([older[i] for i in indices], older.__getitems__(indices)):
        for item, expected in zip(got, wanted, strict=True):
            same(item, expected)


def test_a_table_that_is_none_is_refused(prefix, tmp_path):
    train = build(prefix, tmp_path)[0]
    core = train._core_dataset()
    with pytest.raises(RuntimeError, match="set_tensors"):
        core.tensors(0)
    for bad in (None, torch.zeros(1).__dlpack__()):
        with pytest.raises(ValueError):
            core.set_tensors(bad, {})
    with pytest.raises(RuntimeError, match="set_tensors"):
        core.tensors_of_many([0])


def test_items_are_dropped_on_other_threads(prefix, tmp_path):
    """Memory goes back to its pool from any thread, and never while a tensor is on it."""
    train = build(prefix, tmp_path, create_attention_mask=False)[0]
    wanted = [copy.deepcopy(train[i]) for i in range(len(train))]
    queue, bad = Queue(maxsize=20), []

    def check():
        while (entry := queue.get()) is not None:
            idx, item = entry
            if not all(torch.equal(item[key], wanted[idx][key]) for key in item):
                bad.append(idx)
            for key in ("tokens", "labels", "loss_mask"):
                item[key].fill_(-7)

    threads = [Thread(target=check) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(600):
        idx = turn % len(train)
        if turn % 3:
            queue.put((idx, train[idx]))
        else:
            for entry in zip([idx, 0, 1], train.__getitems__([idx, 0, 1]), strict=True):
                queue.put(entry)
    del train
    for _ in threads:
        queue.put(None)
    for thread in threads:
        thread.join()
    assert bad == []


def test_many_items_of_a_users_class_are_his(prefix, tmp_path):
    class Doubled(GPTDataset):
        def __getitem__(self, idx):
            item = super().__getitem__(idx)
            return {**item, "tokens": item["tokens"] * 2}

    train = build(prefix, tmp_path, cls=Doubled)[0]
    for got, idx in zip(train.__getitems__([1, 2]), [1, 2], strict=True):
        same(got, train[idx])
    python = build(prefix, tmp_path, cls=OwnText)[0]
    same(python.__getitems__([4])[0], python[4])


def test_batches_of_own_text(prefix, tmp_path):
    native = build(prefix, tmp_path, **FORMS["resets"])[0]
    python = build(prefix, tmp_path, cls=OwnText, **FORMS["resets"])[0]
    same(python.get_batch([3, 1]), native.get_batch([3, 1]))


# ------------------------------------------------------------------------------------------------------ other processes


@pytest.mark.parametrize("kind", ["gpt", "blended", "deferred", "in memory", "mock"])
def test_datasets_travel(prefix, tmp_path, kind):
    if kind == "mock":
        train = build_mock(tmp_path, None)[0]
    elif kind == "in memory":  # a blend without a cache folder; its datasets use the folder beside the data
        settings = options(blend=([prefix, prefix], [1.0, 2.0]), split="8,1,1")
        train = BlendedMegatronDatasetBuilder(
            GPTDataset, [40, 4, 4], lambda: True, GPTDatasetConfig(**settings)
        ).build()[0]
    else:
        train = build(
            [prefix, prefix] if kind == "blended" else prefix, tmp_path, defer_npy_index_mmap=kind == "deferred"
        )[0]
    item = train[4]
    again = pickle.loads(pickle.dumps(train))
    assert len(again) == len(train) and again.unique_description_hash == train.unique_description_hash
    same(again[4], item)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)[4]['tokens'].tolist())"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(train), capture_output=True, check=True, env=environment
    )
    assert json.loads(done.stdout) == item["tokens"].tolist()


def test_stock_loader_with_workers(prefix, tmp_path):
    train = build([prefix, prefix], tmp_path)[0]
    loader = torch.utils.data.DataLoader(train, batch_size=4, num_workers=2, multiprocessing_context="fork")
    for number, batch in enumerate(loader):
        same(
            batch,
            torch.utils.data.default_collate(
                [train[idx] for idx in range(4 * number, min(4 * number + 4, len(train)))]
            ),
        )


# ------------------------------------------------------------------------------------------------------------ mock data


def build_mock(folder, cache):
    settings = options(path_to_cache=None if cache is None else str(folder / cache))
    return BlendedMegatronDatasetBuilder(
        MockGPTDataset, [100, 10, 10], lambda: True, GPTDatasetConfig(**settings)
    ).build()


def test_mock_data_with_and_without_a_cache(tmp_path, caplog):
    kept, made = build_mock(tmp_path, "cache"), build_mock(tmp_path, None)
    assert "built in memory" in caplog.text
    assert len(list((tmp_path / "cache").glob("*.npy"))) == 9
    for one, other in zip(kept, made, strict=True):
        assert len(one) == len(other)
        same(one[3], other[3])
    low = kept[0].dataset
    text, sequences = kept[0]._query_document_sample_shuffle_indices(3)
    joined = numpy.concatenate([low.get(int(number)) for number in sequences]).tolist()
    assert any(joined[at : at + 9] == text.tolist() for at in range(len(joined)))
    assert low.get(int(sequences[0]), 2, 3).tolist() == low[int(sequences[0])][2:5].tolist()


def test_mock_data_needs_the_mock_class(tmp_path):
    with pytest.raises(Exception, match="GPTDataset failed to build as a mock data generator") as caught:
        BlendedMegatronDatasetBuilder(GPTDataset, [1, 1, 1], lambda: True, GPTDatasetConfig(**options())).build()
    assert "MockGPTDataset" in str(caught.value.__cause__)


# ------------------------------------------------------------------------------------------------------ empty and short


@pytest.mark.parametrize("size", [None, 0, 5])
def test_an_empty_split_is_named_or_empty(tmp_path, size):
    prefix = write(tmp_path / "a", [range(20)])  # the border of 0.99 * 1 leaves nothing for valid
    settings = options(blend=([prefix], None), split="99,1,0", path_to_cache=str(tmp_path / "cache"))
    builder = BlendedMegatronDatasetBuilder(GPTDataset, [2, size, None], lambda: True, GPTDatasetConfig(**settings))
    try:
        built = builder.build()
    except errors.CallerError as error:
        assert "valid" in str(error)
    else:
        assert size != 5 and len(built[1]) == 0


@pytest.mark.parametrize("documents", [[[]], [[], []], [[7]]], ids=["empty", "two empty", "one token"])
@pytest.mark.parametrize("size", [None, 0, 3])
def test_no_tokens_to_sample(tmp_path, documents, size):
    prefix = write(tmp_path / "a", documents)
    settings = options(blend=([prefix], None), split="1", path_to_cache=str(tmp_path / "cache"))
    try:
        train = BlendedMegatronDatasetBuilder(
            GPTDataset, [size, None, None], lambda: True, GPTDatasetConfig(**settings)
        ).build()[0]
    except errors.StokerError as error:
        assert "train" in str(error) or prefix in str(error)
        return
    assert len(train) >= (size or 0)
    for idx in range(len(train)):
        assert train[idx]["tokens"].tolist() == [7] * 8


def test_short_documents_and_sequences_of_one(tmp_path):
    prefix = write(tmp_path / "a", [[number] for number in range(1, 40)])
    settings = options(blend=([prefix], None), split="1", path_to_cache=str(tmp_path / "cache"), sequence_length=1)
    train = BlendedMegatronDatasetBuilder(
        GPTDataset, [100, None, None], lambda: True, GPTDatasetConfig(**settings)
    ).build()[0]
    assert len(train) >= 100 and train[0]["tokens"].shape == (1,)


# ----------------------------------------------------------------------------------------------------- classes of users


class Words(MegatronDataset):
    """A dataset of a user: the words of a text file."""

    @staticmethod
    def build_low_level_dataset(dataset_path, config):
        with open(dataset_path) as file:
            return file.read().split()

    @staticmethod
    def numel_low_level_dataset(low_level_dataset):
        return len(low_level_dataset)

    @staticmethod
    def _key_config_attributes():
        return [*MegatronDataset._key_config_attributes(), "sequence_length"]

    def __len__(self):
        return len(self.indices) if self.num_samples is None else self.num_samples

    def __getitem__(self, idx):
        return {"word": self.dataset[self.indices[idx % len(self.indices)]]}


def test_datasets_of_users_are_built_and_blended(tmp_path):
    for name, words in (("x", "a b c d e f g h i j"), ("y", "k l m n o p q r s t")):
        (tmp_path / name).write_text(words)
    paths = [str(tmp_path / "x"), str(tmp_path / "y")]
    settings = options(blend=(paths, [1.0, 3.0]), split="8,1,1", path_to_cache=str(tmp_path / "cache"))
    train, valid, test = BlendedMegatronDatasetBuilder(
        Words, [40, 4, 4], lambda: True, GPTDatasetConfig(**settings)
    ).build()
    assert isinstance(train, BlendedDataset) and len(train) == 40
    assert isinstance(train.datasets[0].indices, numpy.ndarray) and train.datasets[0].indices.dtype == numpy.int32
    words = [train[idx]["word"] for idx in range(40)]
    assert sum(word < "k" for word in words) == 10 and list(train[0]) == ["dataset_id", "word"]
    files = sorted(path.name for path in (tmp_path / "cache").iterdir() if path.suffix in (".npy", ".txt"))
    assert len(files) == 9 and all("BlendedDataset" in name for name in files)
    assert json.loads(train.unique_description)["datasets"][0]["class"] == "Words"
    single = BlendedMegatronDatasetBuilder(
        Words, [5, 1, 1], lambda: True, GPTDatasetConfig(**{**settings, "blend": (paths[:1], None)})
    ).build()
    assert single[0][1] == {"word": "b"} and single[2][0] == {"word": "j"}
    with pytest.raises(errors.UnsupportedError, match="Words"):
        train.get_batch([0])


def test_a_changed_identity_of_a_user_counts_in_the_blend(tmp_path):
    (tmp_path / "x").write_text("a b c")

    class Named(Words):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.unique_identifiers["flavour"] = "sweet"

    settings = options(blend=([str(tmp_path / "x")], [1.0]), split="1", path_to_cache=str(tmp_path / "cache"))
    train = BlendedMegatronDatasetBuilder(Named, [3, 0, 0], lambda: True, GPTDatasetConfig(**settings)).build()[0]
    assert json.loads(train.unique_description)["datasets"][0]["flavour"] == "sweet"


def test_subclasses_of_gpt_dataset_have_caches_of_their_own(prefix, tmp_path):
    build(prefix, tmp_path)
    build(prefix, tmp_path, cls=OwnText)
    names = {path.name.split("-")[1] for path in (tmp_path / "cache").iterdir() if path.suffix == ".npy"}
    assert names == {"GPTDataset", "OwnText"}


# ------------------------------------------------------------------------------------------------------------- refusals


def blend_of(prefix, tmp_path, count=2):
    return [build(prefix, tmp_path, random_seed=seed)[0] for seed in range(count)]


@pytest.mark.parametrize(
    ("weights", "size", "words"),
    [
        ([1.0], 10, "2 datasets has 1 weights"),
        ([1.0, 0.0], 10, r"dataset 1 \(.*weight 0.0"),
        ([-1.0, 1.0], 10, r"dataset 0 \(.*weight -1.0"),
        ([float("nan"), 1.0], 10, "dataset 0"),
        ([1.0, 1], 10, "type int"),
        ([1.5, 2.5], None, "1.5"),
        ([3, 0], None, "no sample"),
    ],
)
def test_weights_that_are_refused(prefix, tmp_path, weights, size, words):
    datasets = blend_of(prefix, tmp_path)
    with pytest.raises(AssertionError, match=words):
        BlendedDataset(datasets, weights, size, datasets[0].config)


def test_blends_of_unlike_datasets_are_refused(prefix, tmp_path):
    train, valid, _ = build(prefix, tmp_path)
    with pytest.raises(AssertionError, match="one class and one split"):
        BlendedDataset([train, valid], [1.0, 1.0], 4, train.config)
    with pytest.raises(AssertionError, match="at least one"):
        BlendedDataset([], [], 4, train.config)
    with pytest.raises(AssertionError, match="32766"):
        BlendedDataset([train] * 32767, [1.0] * 32767, 4, train.config)


def test_weights_need_not_sum_to_one(prefix, tmp_path):
    datasets = blend_of(prefix, tmp_path)
    blends = [
        BlendedDataset(datasets, weights, 30, datasets[0].config)
        for weights in ([1.0, 3.0], [0.25, 0.75], [100.0, 300.0])
    ]
    assert blends[0].weights == [0.25, 0.75]
    assert len({blend.unique_description_hash for blend in blends}) == 1
    assert blends[0].dataset_index.dtype == numpy.int16 and blends[0].dataset_sample_index.dtype == numpy.int64
    assert numpy.bincount(blends[0].dataset_index).tolist() in ([7, 23], [8, 22])


def test_gaps_in_the_sequences_are_refused(prefix, tmp_path):
    config = GPTDatasetConfig(**options(blend=([prefix], None), split="1", path_to_cache=str(tmp_path / "cache")))
    low = GPTDataset.build_low_level_dataset(prefix, config)
    run = GPTDataset(low, prefix, numpy.arange(3, 9, dtype=numpy.int32), 4, Split.train, config)
    assert set(run.document_index.tolist()) == set(range(3, 9))
    with pytest.raises(errors.UnsupportedError, match="train split has gaps"):
        GPTDataset(low, prefix, numpy.array([1, 2, 4]), 4, Split.train, config)


def test_missing_data_is_named(tmp_path):
    with pytest.raises((errors.DataError, OSError, AssertionError), match="nothing"):
        build(str(tmp_path / "nothing"), tmp_path)


def test_fast_load_of_a_cache_that_is_not_there(prefix, tmp_path):
    settings = options(
        blend_per_split=[([prefix], None), None, None], path_to_cache=str(tmp_path / "cache"), fast_cache_load=True
    )
    with pytest.raises(FileNotFoundError, match="train"):
        train = BlendedMegatronDatasetBuilder(
            GPTDataset, [40, 0, 0], lambda: True, GPTDatasetConfig(**settings)
        ).build()[0]
        train[0]


def test_samples_of_object_storage(prefix, tmp_path):
    from object_server import Server

    with open(f"{prefix}.idx", "rb") as idx, open(f"{prefix}.bin", "rb") as data:
        objects = {"/c/a.idx": idx.read(), "/c/a.bin": data.read()}
    local = build(prefix, tmp_path)[0]
    with Server(objects) as server:
        changes = {"object_storage_cache_path": str(tmp_path / "idx"), "mmap_bin_files": False}
        try:
            train = build(f"{server.url}/c/a", tmp_path, **changes)[0]
        except errors.UnsupportedError as error:
            pytest.skip(str(error))  # built without libcurl
        assert len(train) == len(local) and (train.sample_index == local.sample_index).all()
        for idx in (0, 3, len(local) - 1):
            same(train[idx], local[idx])
        same(train.get_batch([1, 2]), local.get_batch([1, 2]))
        same(pickle.loads(pickle.dumps(train))[5], local[5])
        with pytest.raises(AssertionError, match="mmap"):
            build(f"{server.url}/c/a", tmp_path, object_storage_cache_path=str(tmp_path / "idx"))
        with pytest.raises(AssertionError, match="path_to_cache"):
            settings = options(blend=([f"{server.url}/c/a"], None), split="1", **changes)
            BlendedMegatronDatasetBuilder(GPTDataset, [1, 0, 0], lambda: True, GPTDatasetConfig(**settings)).build()


def test_object_storage_needs_its_folders():
    settings = options(blend=(["s3://bucket/a"], None), split="1")
    with pytest.raises(AssertionError, match="object_storage_cache_path"):
        GPTDataset.build_low_level_dataset("s3://bucket/a", GPTDatasetConfig(**settings))


def test_counts_that_lack_a_prefix(prefix, tmp_path):
    settings = options(blend=([prefix], None), split="1", sequences_per_dataset={"other": (1, 2)})
    with pytest.raises(KeyError, match="sequences_per_dataset"):
        GPTDataset.build_low_level_dataset(prefix, GPTDatasetConfig(**settings))


# ------------------------------------------------------------------------------------------------------ strong identity


def test_strong_identity_sees_what_the_reference_leaves_out(prefix, tmp_path):
    def names(**changes):
        return [dataset.unique_description_hash for dataset in build(prefix, tmp_path, sizes=(40, 3, 2), **changes)]

    plain, strong = names(), names(strong_cache_identity=True)
    assert plain != strong and names(strong_cache_identity=True) == strong
    assert names(add_extra_token_to_sequence=False) == plain
    assert names(strong_cache_identity=True, add_extra_token_to_sequence=False) != strong
    assert names(strong_cache_identity=True, drop_last_partial_validation_sequence=False) != strong
    os.utime(f"{prefix}.bin", ns=(1, 1))
    assert names() == plain and names(strong_cache_identity=True) != strong
    description = json.loads(build(prefix, tmp_path, strong_cache_identity=True)[0].unique_description)
    assert list(description)[-6:] == ["idx_bytes", "idx_mtime_ns", "bin_bytes", "bin_mtime_ns",
                                      "add_extra_token_to_sequence", "drop_last_partial_validation_sequence"]  # fmt: skip
    assert description["bin_bytes"] == os.path.getsize(f"{prefix}.bin") and description["bin_mtime_ns"] == 1


# -------------------------------------------------------------------------------------------------------------- workers


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("blended", [False, True])
def test_workers_without_python(prefix, tmp_path, form, blended):
    from stoker.torch import DistributedDataLoader

    train = build([prefix, prefix] if blended else prefix, tmp_path, **FORMS[form])[0]
    loader = DistributedDataLoader(
        train, batch_size=7, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(3)
    )
    assert loader._native is not None
    stock = torch.utils.data.DataLoader(train, batch_size=7, shuffle=True, generator=torch.Generator().manual_seed(3))
    for got, wanted in zip(loader, stock, strict=True):
        same(got, wanted)
    loader.close()


def test_items_of_a_subclass_are_made_by_it_in_workers_too(prefix, tmp_path):
    from stoker.torch import DistributedDataLoader

    train = build(prefix, tmp_path, cls=OwnText)[0]
    loader = DistributedDataLoader(train, batch_size=7, num_workers=1)
    assert loader._native is None
    for got, wanted in zip(loader, torch.utils.data.DataLoader(train, batch_size=7), strict=True):
        same(got, wanted)
    loader.close()
