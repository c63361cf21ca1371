# SPDX-License-Identifier: Apache-2.0
"""The other direction: what stoker writes is read by megatron-core, and both give the same items.

Needs the package megatron-core 0.16 or later: ``pip install --no-deps megatron-core`` beside PyTorch and NumPy is
enough for its datasets. Each comparison runs in a process of its own, because importing the package takes seconds and
memory.
"""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap

import pytest
from megatron_data import corpus

pytest.importorskip("numpy")
pytest.importorskip("torch")
if importlib.util.find_spec("megatron") is None or importlib.util.find_spec("megatron.core") is None:
    pytest.skip("megatron-core is not installed (pip install --no-deps megatron-core)", allow_module_level=True)

COMPARE = """
    import json, os, sys, warnings
    warnings.simplefilter("ignore")
    sys.path.insert(0, {here!r})
    import numpy, torch, torch.distributed
    from megatron_data import options
    import stoker.megatron as ours
    from megatron.core.datasets import (blended_megatron_dataset_builder as builder, gpt_dataset as gpt,
                                        indexed_dataset as indexed)

    def same(got, wanted):
        assert list(got) == list(wanted), (list(got), list(wanted))
        for key in wanted:
            assert torch.equal(torch.as_tensor(got[key]), torch.as_tensor(wanted[key])), key
            assert torch.as_tensor(got[key]).dtype == torch.as_tensor(wanted[key]).dtype, key

    settings = json.loads(sys.argv[1])
    for name in ("blend", "blend_per_split"):
        if settings["config"].get(name):
            pick = lambda blend: None if blend is None else tuple(blend)
            value = settings["config"][name]
            settings["config"][name] = pick(value) if name == "blend" else [pick(one) for one in value]

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

    def build(module, kind, first=None):
        config = module[1].GPTDatasetConfig(**options(**settings["config"]))
        return module[0].BlendedMegatronDatasetBuilder(kind, settings["sizes"], lambda: True, config).build()

    def files():
        return {{name: os.stat("cache/" + name).st_mtime_ns for name in os.listdir("cache") if not name.endswith(".lock")}}

    mine = (ours, ours), ours.GPTDataset
    theirs = (builder, gpt), gpt.GPTDataset
    first, second = (mine, theirs) if settings["first"] == "stoker" else (theirs, mine)
    one = build(*first)
    before = files()
    two = build(*second)
    assert files() == before, "the second package did not take the cache of the first"
    a, b = (one, two) if first is mine else (two, one)
    count = 0
    for got, wanted in zip(a, b):
        assert (got is None) == (wanted is None)
        if got is None:
            continue
        assert len(got) == len(wanted) and got.unique_description == wanted.unique_description
        for idx in range(len(wanted)):
            mask = wanted[idx]["loss_mask"]
            if settings["fresh"]:  # the reference keeps the padding of the first item in its cached mask
                for part in getattr(wanted, "datasets", [wanted]):
                    part.masks_and_position_ids_are_cached = False
            same(got[idx], wanted[idx])
            count += 1
    print(count)
"""

CASES = {
    "one prefix": {"blend": [["a"], None], "split": "8,1,1"},
    "weighted blend": {"blend": [["a", "b"], [0.3, 0.7]], "split": "8,1,1"},
    "resets": {"blend": [["a"], None], "split": "8,1,1", "reset_position_ids": True, "reset_attention_mask": True,
               "eod_mask_loss": True},
    "kept partial": {"blend": [["a"], None], "split": "8,2,0", "drop_last_partial_validation_sequence": False},
    "no extra token": {"blend": [["a"], None], "split": "8,1,1", "add_extra_token_to_sequence": False},
    "per split": {"blend_per_split": [[["a", "b"], [1.0, 4.0]], [["b"], None], None]},
    "fast load": {"blend_per_split": [[["a", "b"], [1.0, 4.0]], [["b"], None], None], "fast_cache_load": True,
                  "defer_npy_index_mmap": True},
    "exhaustive": {"blend": [["a", "b"], None], "split": "8,1,1"},
}  # fmt: skip


def prepare(folder):
    corpus(folder / "a", count=60, length=(1, 60), vocabulary=40, eod=3)
    corpus(folder / "b", count=80, length=(1, 90), vocabulary=70000, dtype="int32", seed=1, eod=3)


def run(code, folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code).format(here=os.path.dirname(__file__)), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("first", ["stoker", "megatron-core"])
@pytest.mark.parametrize("name", CASES)
def test_caches_are_exchanged_and_items_are_equal(tmp_path, name, first):
    prepare(tmp_path)
    config = {**CASES[name], "path_to_cache": "cache", "sequence_length": 24}
    sizes = [None, None, None] if name == "exhaustive" else [90, 9, None if "blend_per_split" in config else 3]
    if name == "fast load":
        slow = {key: value for key, value in config.items() if key not in ("fast_cache_load", "defer_npy_index_mmap")}
        run(COMPARE, tmp_path, json.dumps({"config": slow, "sizes": sizes, "first": first, "fresh": True}))
    settings = {"config": config, "sizes": sizes, "first": first, "fresh": True}
    assert int(run(COMPARE, tmp_path, json.dumps(settings))) > 90


READ = """
    import sys, warnings
    warnings.simplefilter("ignore")
    import numpy, torch
    import stoker.megatron as ours
    from megatron.core.datasets import indexed_dataset as theirs

    kinds = [numpy.uint8, numpy.int8, numpy.int16, numpy.int32, numpy.int64, numpy.float64, numpy.float32, numpy.uint16]
    random, count = numpy.random.default_rng(0), 0
    for kind in kinds:
        for multimodal in (False, True):
            documents = [[random.integers(0, 100, random.integers(0, 9)).astype(kind) for _ in
            range(random.integers(1, 4))]
                         for _ in range(12)]
            for name, package in (("ours", ours), ("theirs", theirs)):
                made = package.IndexedDatasetBuilder(name + ".bin", dtype=kind, multimodal=multimodal)
                for number, parts in enumerate(documents):
                    for part in parts:
                        made.add_item(torch.from_numpy(part), number % 2)
                    made.end_document()
                made.finalize(name + ".idx")
            for extension in (".bin", ".idx"):
                with open("ours" + extension, "rb") as a, open("theirs" + extension, "rb") as b:
                    assert a.read() == b.read(), (kind, multimodal, extension)
            read = theirs.IndexedDataset("ours", multimodal=multimodal)
            back = ours.IndexedDataset("theirs", multimodal=multimodal)
            parts = [part for document in documents for part in document]
            assert len(read) == len(back) == len(parts)
            for idx, part in enumerate(parts):
                for dataset in (read, back):
                    got = dataset[idx][0] if multimodal else dataset[idx]
                    assert got.dtype == kind and numpy.array_equal(got, part)
                    count += 1
            assert numpy.array_equal(read.document_indices, back.document_indices)
    print(count)
"""


def test_token_files_are_exchanged(tmp_path):
    assert int(run(READ, tmp_path)) > 200
