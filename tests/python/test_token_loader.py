# SPDX-License-Identifier: Apache-2.0
"""Token data through DistributedDataLoader with native workers: what the stock loader gives, without Python in them."""

import collections
import json
import os
import pathlib
import shutil
import types

import pytest
import support
import torch
from datasets import same_epoch
from token_data import FORMS, LENGTH, Tokens
from torch.utils.data import DataLoader, Subset

from stoker import errors
from stoker.torch import DistributedDataLoader

def native(dataset, **options):
    loader = DistributedDataLoader(dataset, num_workers=2, **options)
    assert loader._native is not None
    return loader


@pytest.mark.parametrize(
    ("form", "where", "blend"),
    [
        ("plain", "cache", False),
        ("plain", "memory", True),
        ("masks", "deferred", True),
        ("masks", "memory", False),
        ("documents", "cache", True),
        ("documents", "deferred", False),
    ],
)
def test_batches_equal_the_stock_loader(tmp_path, form, where, blend):
    form = FORMS[form]
    more = dict(prefixes=("a", "b", "c"), sizes=[30, 11, 40]) if blend else {}
    dataset = Tokens(tmp_path, form, cache=where != "memory", defer=where == "deferred", **more)
    for options in (dict(batch_size=7), dict(batch_size=4, shuffle=True, drop_last=True), dict(batch_size=None)):
        torch.manual_seed(2)
        ours = list(native(dataset, **options))
        torch.manual_seed(2)
        same_epoch(ours, list(DataLoader(dataset, **options)))
    keys = list(ours[0])
    assert keys[0] == ("dataset_id" if blend else "tokens")
    batch = next(iter(native(dataset, batch_size=8)))
    assert all(value.is_contiguous() for value in batch.values())
    assert batch["tokens"].shape == (8, LENGTH) and batch["loss_mask"].dtype == torch.float32


def test_no_worker_runs_python(tmp_path, plane):
    loader = native(Tokens(tmp_path, FORMS["plain"]), batch_size=5)
    next(iter(loader))
    workers = [process for process in plane.processes() if "worker" in process.kind]
    assert len(workers) == 2 and all("python" not in process.command for process in workers)


def test_subset_and_negative_indices(tmp_path):
    dataset = Tokens(tmp_path, FORMS["plain"])
    chosen = [3, -1, 3, 40]
    same_epoch(native(Subset(dataset, chosen), batch_size=2), DataLoader(Subset(dataset, chosen), batch_size=2))
    same_epoch(native(dataset, batch_sampler=[[0, -2], [5]]), DataLoader(dataset, batch_sampler=[[0, -2], [5]]))


def test_bad_indices_fail_in_their_step(tmp_path):
    dataset = Tokens(tmp_path, FORMS["plain"])
    iterator = iter(native(dataset, batch_sampler=[[0], [len(dataset)], [None], [1]]))
    next(iterator)
    with pytest.raises(IndexError, match=str(len(dataset))):
        next(iterator)
    with pytest.raises(errors.UnsupportedError, match="padding item"):
        next(iterator)
    assert next(iterator)["tokens"].shape == (1, LENGTH)


def test_a_dataset_may_decline(tmp_path):
    dataset = Tokens(tmp_path, FORMS["plain"], native=False)
    loader = DistributedDataLoader(dataset, batch_size=9, num_workers=1)
    assert loader._native is None
    same_epoch(loader, DataLoader(dataset, batch_size=9))


def test_data_that_changed_are_an_error_of_the_step(tmp_path):
    dataset = Tokens(tmp_path, FORMS["plain"])
    loader = native(dataset, batch_size=4)
    os.truncate(tmp_path / "a.bin", 100)
    with pytest.raises(errors.SampleError, match="100 bytes"):
        next(iter(loader))


GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron" / "datasets"


@pytest.mark.parametrize(
    "case", ["02_pair_weighted_int32", "08_reset_masks_eod", "16_inter_document_masking", "17_mock", "19_fast_cache_load"]
)
def test_datasets_of_the_drop_in(case, tmp_path, monkeypatch):
    from stoker.megatron import BlendedMegatronDatasetBuilder, GPTDataset, GPTDatasetConfig, MockGPTDataset

    folder = next(GOLDEN.glob(f"{case}*"))
    spec = json.loads((folder / "case.json").read_text())
    if (folder / "data").is_dir():
        shutil.copytree(folder / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    names = spec["tokenizer"]
    tokenizer = types.SimpleNamespace(
        unique_identifiers=collections.OrderedDict(names["unique_identifiers"]),
        vocab_size=names["vocab_size"],
        eod=names["eod"],
        pad=names["pad"],
    )
    config = dict(spec["config"])
    if config.get("blend"):
        config["blend"] = tuple(config["blend"])
    kind = {"GPTDataset": GPTDataset, "MockGPTDataset": MockGPTDataset}[spec["class"]]
    built = GPTDatasetConfig(tokenizer=tokenizer, **config)
    dataset = BlendedMegatronDatasetBuilder(kind, spec["sizes"], lambda: True, built).build()[0]
    chosen = Subset(dataset, range(-min(len(dataset), 100), 0))  # mock data have 200,000 samples
    torch.manual_seed(1)
    ours = list(native(chosen, batch_size=6, shuffle=True))
    torch.manual_seed(1)
    same_epoch(ours, list(DataLoader(chosen, batch_size=6, shuffle=True)))

    class Changed(type(dataset)):
        def __getitem__(self, index):
            return {"index": index}

    dataset.__class__ = Changed
    assert DistributedDataLoader(dataset, batch_size=6, num_workers=1)._native is None


RANK = """
    import json, os, sys, torch
    sys.path.insert(0, {folder!r})
    from datasets import same_epoch
    from token_data import FORMS, Tokens
    from torch.utils.data import DataLoader, DistributedSampler
    from stoker import _plane
    from stoker.torch import DistributedDataLoader

    rank = int(os.environ["RANK"])
    dataset = Tokens(sys.argv[1], FORMS["masks"], defer=True, prefixes=("a", "b"), sizes=[50, 31])
    loader = DistributedDataLoader(dataset, batch_size=6, shuffle=True, num_workers=2, seed=8)
    assert loader._native is not None
    sampler = DistributedSampler(dataset, 2, rank, shuffle=True, seed=8)
    seen = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        sampler.set_epoch(epoch)
        ours = list(loader)
        same_epoch(ours, list(DataLoader(dataset, batch_size=6, sampler=sampler)))
        seen.append(sum(len(batch["tokens"]) for batch in ours))
    print(json.dumps(dict(seen=seen, server=_plane.client().server_pid)), flush=True)
    sys.stdin.readline()
"""


def test_two_ranks_shuffled_two_epochs(runtime, tmp_path):
    Tokens(tmp_path, prefixes=("a", "b"), sizes=[50, 31])  # both ranks would write the same files
    ranks = runtime.launch_ranks(2, RANK.format(folder=os.path.dirname(__file__)), str(tmp_path))
    results = [json.loads(rank.read_line()) for rank in ranks]
    for rank in ranks:
        rank.say()
    for rank in ranks:
        support.finish_well(rank, 60)
    assert results[0]["seen"] == results[1]["seen"] == [41, 41]
    assert results[0]["server"] == results[1]["server"]
