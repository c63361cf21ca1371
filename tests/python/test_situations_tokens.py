# SPDX-License-Identifier: Apache-2.0
"""Situations that users of token data report (docs/explanation/situations.md); each test carries the number of its
row."""

import hashlib
import json
import os
import subprocess
import sys
import textwrap

import pytest
from megatron_data import corpus, options, write

numpy = pytest.importorskip("numpy")

from stoker.megatron import BlendedMegatronDatasetBuilder, GPTDataset, GPTDatasetConfig, SwitchedBlend  # noqa: E402

HERE = os.path.dirname(__file__)


def build(sizes, **changes):
    return BlendedMegatronDatasetBuilder(
        GPTDataset, sizes, lambda: True, GPTDatasetConfig(**options(**changes))
    ).build()


def ledger(dataset, start=0):
    return [
        (int(item["dataset_id"]), item["tokens"].tolist()) for item in (dataset[i] for i in range(start, len(dataset)))
    ]


def test_situation_28_weights_change_in_the_middle_of_a_run(tmp_path):
    """The recipe of a run gets other weights at a step: what was used stays used, each source goes on where it was,
    and the identity records the step."""
    a, b = corpus(tmp_path / "a", count=200), corpus(tmp_path / "b", count=200, seed=1)
    changes = {"blend": ([a, b], [1.0, 1.0]), "split": "1", "path_to_cache": str(tmp_path / "cache"),
               "mid_level_dataset_surplus": 1.0}  # fmt: skip
    before = build([200, 0, 0], **changes)[0]
    after = SwitchedBlend(before, 120, [1.0, 9.0])
    old, new = ledger(before), ledger(after)
    assert len(new) == 200 and new[:120] == old[:120]
    assert sum(number for number, _ in new[:120]) == 60 and sum(number for number, _ in new[120:]) == 72
    # No sample of a source is used twice, or passed over.
    for number in range(2):
        taken = after.dataset_sample_index[after.dataset_index == number]
        assert taken.tolist() == list(range(len(taken)))
    # A run that is resumed from its recipe meets the same samples, and its identity says where the weights changed.
    resumed = SwitchedBlend(build([200, 0, 0], **changes)[0], 120, [0.1, 0.9])
    assert resumed.unique_description_hash == after.unique_description_hash and ledger(resumed, 150) == new[150:]
    recipe = json.loads(after.unique_description)
    assert (recipe["at"], recipe["weights"], recipe["before"]["weights"]) == (120, [0.1, 0.9], [0.5, 0.5])
    assert SwitchedBlend(before, 121, [1.0, 9.0]).unique_description_hash != after.unique_description_hash
    # It can change again, and more than a source has is refused by name.
    third = SwitchedBlend(after, 180, [1.0, 1.0])
    assert ledger(third)[:180] == new[:180] and sum(number for number, _ in ledger(third, 180)) == 10
    with pytest.raises(IndexError, match=f"number 1 in excess of its size {len(before.datasets[1])}.*{b}"):
        SwitchedBlend(before, 10, [1.0, 1e6], size=len(before.datasets[1]) + 50)
    with pytest.raises(AssertionError, match="at=201"):
        SwitchedBlend(before, 201, [1.0, 1.0])


def test_situation_29_extreme_weights(tmp_path):
    """One source has three samples, weights are 1e-6 and 1: it works, or the message says which source is short."""
    small = write(tmp_path / "small", [range(25)])  # 24 // 8 = 3 samples
    large = corpus(tmp_path / "large", count=100)
    blend = ([small, large], [1e-6, 1.0])
    train = build([200, 0, 0], blend=blend, split="1", path_to_cache=str(tmp_path / "c1"))[0]
    for idx in range(len(train)):
        assert len(train[idx]["tokens"]) == 8
    assert len(train.datasets[0]) == 3
    # The other way round, the small source is asked for nearly everything: it is read in many epochs.
    train = build([200, 0, 0], blend=([small, large], [1.0, 1e-6]), split="1", path_to_cache=str(tmp_path / "c2"))[0]
    assert [len(train[idx]["tokens"]) for idx in (0, len(train) - 1)] == [8, 8]
    # Without the margin, rounding can take one sample too many of a source; it is named.
    weights = [0.001476227384595864, 0.9678731424193593, 0.026144817451949433, 0.0045058127440953935]
    sources = [write(tmp_path / f"k{number}", [range(365)]) for number in range(4)]  # 364 // 8 = 45 samples
    with pytest.raises(IndexError, match=r"number 1 in excess.*k1"):
        build([45, 0, 0], blend=(sources, weights), split="1", path_to_cache=str(tmp_path / "c3"))


RACE = """
    import json, sys
    sys.path.insert(0, {here!r})
    from megatron_data import options
    from stoker.megatron import *
    for line in sys.stdin:
        cache = line.strip()
        config = GPTDatasetConfig(**options(blend=(["a", "b"], [1.0, 2.0]), split="8,1,1", path_to_cache=cache))
        got = BlendedMegatronDatasetBuilder(GPTDataset, [2000, 100, 10], lambda: True, config).build()
        print(json.dumps([[len(one), one[0]["tokens"].tolist(), one[-1]["tokens"].tolist()] for one in got]), flush=True)
"""


def files_of(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.suffix in (".npy", ".txt")
    }


def test_situation_30_two_processes_build_one_cache_twenty_times(tmp_path):
    """One builds, the other waits; no file is read half-written, nothing else is left in the folder."""
    corpus(tmp_path / "a", count=300)
    corpus(tmp_path / "b", count=300, seed=1)
    code = textwrap.dedent(RACE).format(here=HERE)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        first = None
        for number in range(20):
            for process in ranks:
                process.stdin.write(f"cache{number}\n")
                process.stdin.flush()
            answers = [json.loads(process.stdout.readline()) for process in ranks]
            assert answers[0] == answers[1]
            content = files_of(tmp_path / f"cache{number}")
            first = first or (answers[0], content)
            assert (answers[0], content) == first and len(content) == 3 * 3 + 3 * 8
            left = [path.name for path in (tmp_path / f"cache{number}").iterdir() if path.name not in content]
            assert all(name.endswith(".lock") for name in left), left
    finally:
        for process in ranks:
            process.stdin.close()
            process.wait(30)


def test_situation_30_a_read_only_cache_folder(tmp_path):
    """A full cache in a folder that cannot be written is used; an empty one is an error that names it."""
    a = corpus(tmp_path / "a", count=50)
    cache = tmp_path / "cache"
    changes = {"blend": ([a], None), "split": "8,1,1", "path_to_cache": str(cache)}
    wanted = build([40, 3, 3], **changes)[0][5]["tokens"].tolist()
    code = textwrap.dedent("""
        import ctypes, json, os, sys
        sys.path.insert(0, {here!r})
        from megatron_data import options
        from stoker.megatron import *
        libc = ctypes.CDLL(None, use_errno=True)
        CLONE_NEWNS, CLONE_NEWUSER, MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
            0x20000, 0x10000000, 1, 32, 4096, 16384, 1 << 18)
        def check(result):
            if result:
                print("no namespace:", os.strerror(ctypes.get_errno()))
                sys.exit(77)
        check(libc.unshare(CLONE_NEWNS if os.geteuid() == 0 else CLONE_NEWNS | CLONE_NEWUSER))
        check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
        for folder in sys.argv[1:3]:
            path = folder.encode()
            check(libc.mount(path, path, None, MS_BIND, None))
            check(libc.mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None))
        for folder in sys.argv[1:3]:
            config = GPTDatasetConfig(**options(blend=([sys.argv[3]], None), split="8,1,1", path_to_cache=folder))
            try:
                train = BlendedMegatronDatasetBuilder(GPTDataset, [40, 3, 3], lambda: True, config).build()[0]
                print(json.dumps(train[5]["tokens"].tolist()))
            except OSError as error:
                print(json.dumps(str(error)))
    """).format(here=HERE)
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run([sys.executable, "-c", code, str(cache), str(empty), a], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stderr
    full, refused = map(json.loads, done.stdout.splitlines())
    assert full == wanted
    assert str(empty) in refused and "ead-only" in refused
    assert list(empty.iterdir()) == []


@pytest.mark.limit(300)
def test_situation_72_memory_stays_flat_while_many_rows_are_written(tmp_path):
    """232,000 rows go through the builder one by one: memory does not grow with them, and the first batch comes at
    once."""
    code = textwrap.dedent("""
        import sys
        sys.path.insert(0, {here!r})
        import numpy
        from megatron_data import options
        from stoker.megatron import *

        def resident():  # but for what is mapped from files
            with open("/proc/self/status") as file:
                return int(next(line for line in file if line.startswith("RssAnon")).split()[1]) * 1024

        made = IndexedDatasetBuilder("a.bin", dtype=numpy.uint16)
        rows, row = 232000, numpy.arange(256, dtype=numpy.uint16)
        for number in range(rows):
            if number == 2000:
                before = resident()
            made.add_document(row, [len(row)])
        grown = resident() - before
        made.finalize("a.idx")
        config = GPTDatasetConfig(**options(blend=(["a"], None), split="1", path_to_cache="cache", sequence_length=256))
        train = BlendedMegatronDatasetBuilder(GPTDataset, [1000, 0, 0], lambda: True, config).build()[0]
        train[0]
        before = resident()
        for idx in range(0, 200000, 7):
            train[idx]
        print(rows * row.nbytes, grown, resident() - before, len(train))
    """).format(here=HERE)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    data, grown, read, length = map(int, done.stdout.split())
    assert data > 110e6 and length == 231999
    assert grown < 24e6  # of counts: a length and a document a row, 12 bytes each
    assert read < 8e6
