# SPDX-License-Identifier: Apache-2.0
"""Exactness over two ranks of one job that share a DataServer: shuffled, two epochs, against the stock loader."""

import json

import datasets
import pytest
import support

RANK = """
    import hashlib, json, sys, torch
    sys.path.insert(0, {folder!r})
    from datasets import CLIPS, Nested, Tensors
    from torch.utils.data import DataLoader, DistributedSampler
    from stoker.media import VideoDataset
    from stoker.torch import DistributedDataLoader
    from stoker import _plane

    def digest(batch):
        state = hashlib.sha256()
        def add(part):
            if isinstance(part, torch.Tensor):
                state.update(str((part.dtype, tuple(part.shape))).encode())
                state.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if part.numel() else b"")
            elif isinstance(part, dict):
                for key, value in part.items():
                    state.update(key.encode())
                    add(value)
            elif isinstance(part, (list, tuple)):
                state.update(type(part).__name__.encode())
                for value in part:
                    add(value)
            else:
                state.update(repr(part).encode())
        add(batch)
        return state.hexdigest()

    kind, rank = sys.argv[1], {rank_source}
    dataset = {{
        "tensors": lambda: Tensors(29, 20000),
        "nested": lambda: Nested(),
        "native": lambda: VideoDataset(CLIPS, frames=4, size=64, dtype="float32", mean=[.5] * 3, std=[.2] * 3,
                                       return_index=True),
    }}[kind]()
    loader = DistributedDataLoader(dataset, batch_size=3, shuffle=True, num_workers=2, seed=3)
    sampler = DistributedSampler(dataset, 2, rank, shuffle=True, seed=3)
    stock = DataLoader(dataset, batch_size=3, sampler=sampler)
    result = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        sampler.set_epoch(epoch)
        ours = [digest(batch) for batch in loader]
        assert ours == [digest(batch) for batch in stock], (epoch, rank)
        result.append(len(ours))
    print(json.dumps(dict(batches=result, server=_plane.client().server_pid)), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("kind", ["tensors", "nested", "native"])
def test_two_ranks_get_what_the_stock_loader_gives(runtime, kind):
    import os

    text = RANK.format(folder=os.path.dirname(datasets.__file__), rank_source="int(__import__('os').environ['RANK'])")
    ranks = runtime.launch_ranks(2, text, kind)
    results = []
    for rank in ranks:
        results.append(json.loads(rank.read_line()))
    for rank in ranks:
        rank.say()
    for rank in ranks:
        support.finish_well(rank, 60)
    assert results[0]["batches"] == results[1]["batches"]
    assert results[0]["server"] == results[1]["server"]  # one job, one DataServer
