# SPDX-License-Identifier: Apache-2.0
"""Views of shared memory: keeping, dropping, outliving (rules A5, A6)."""

import gc
import io
import json
import threading

import pytest
import support
import torch
from datasets import CLIPS, D, Tensors
from support import wait_until

from stoker import _plane
from stoker.media import VideoDataset
from stoker.torch import DistributedDataLoader

MIB = 1 << 20


def held(loader):
    return loader._state.idle._lanes[0].stats()["bytes_held"] if loader._state.idle else 0


@pytest.mark.parametrize("kind", ["python", "native"])
def test_a5_keeping_every_batch_does_not_stop_training(kind):
    if kind == "python":
        dataset = D(lambda i: torch.full((512 * 1024,), i % 251, dtype=torch.uint8), 400)  # 200 MiB
    else:
        dataset = VideoDataset([CLIPS[i % 2] for i in range(336)], frames=8, size=160)  # 200 MiB
    batch = 4
    loader = DistributedDataLoader(dataset, batch_size=batch, num_workers=2, max_bytes=20 * MIB)
    kept = list(loader)
    assert sum(tensor.nbytes for tensor in kept) >= 10 * 19 * MIB
    if kind == "python":
        for i, tensor in enumerate(kept):
            assert [int(row[0]) for row in tensor] == [(batch * i + k) % 251 for k in range(batch)]
            assert all(bool((row == row[0]).all()) for row in tensor)
    assert loader.stats()["copies"] > 0


def test_a5_keeping_one_scalar_per_batch_pins_nothing():
    dataset = Tensors(200, size=100_000)
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=2, max_bytes=16 * MIB)
    kept = [batch[1] for batch in loader]
    gc.collect()
    assert held(loader) == 0 and loader.stats()["copies"] == 0
    assert torch.cat(kept).tolist() == list(range(200))


def test_a6_in_place_writes_and_one_storage_per_leaf():
    loader = DistributedDataLoader(Tensors(8, size=50_000), batch_size=4, num_workers=1)
    for rows, ids in loader:
        rows.mul_(0)
        ids.add_(1)
        file = io.BytesIO()
        torch.save(rows, file)
        assert rows.nbytes <= len(file.getvalue()) < rows.nbytes + 4096
        assert rows.data_ptr() % 256 == 0


def test_a6_views_outlive_loader_and_client():
    loader = DistributedDataLoader(Tensors(8, size=50_000), batch_size=4, num_workers=1)
    batches = [rows for rows, _ in loader]
    expected = [rows.clone() for rows in batches]
    loader.close()
    del loader
    _plane.close()
    gc.collect()
    assert all(map(torch.equal, batches, expected))
    view = batches[0][1:, 5:]
    del batches
    view += 1
    assert view[0, 0] == 5 + 1 + 1


def test_a6_drop_from_another_thread():
    loader = DistributedDataLoader(Tensors(40, size=50_000), batch_size=4, num_workers=2)
    for rows, _ in loader:
        box = [rows]
        del rows
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
    gc.collect()
    wait_until(lambda: held(loader) == 0, 10, "the slabs to be returned")


def test_a6_drop_at_exit_from_a_global(runtime):
    for order in ("", "loader.close()", "_plane.close()", "del loader", "import os; os._exit(0)"):
        process = runtime.script(f"""
            import torch
            from stoker import _plane
            from stoker.torch import DistributedDataLoader
            class Data(torch.utils.data.Dataset):
                def __len__(self): return 8
                def __getitem__(self, i): return torch.full((100000,), i)
            loader = DistributedDataLoader(Data(), batch_size=2, num_workers=1)
            kept = list(loader)
            leaf = kept[0][1]
            {order}
            print(int(leaf[0]), flush=True)
        """)
        out = support.finish_well(process, 60)
        assert out.strip() == "1" or "_exit" in order


def test_status_says_who_holds_memory():
    loader = DistributedDataLoader(Tensors(8, size=50_000), batch_size=4, num_workers=1)
    kept = next(iter(loader))
    status = json.loads(_plane.client().status())
    assert isinstance(status, dict) and status
    del kept


def test_a9_a_forked_child_does_nothing_to_the_batches():
    import os

    loader = DistributedDataLoader(Tensors(8, size=50_000), batch_size=4, num_workers=1)
    batches = list(loader)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            total = sum(float(rows[0, 0]) for rows, _ in batches)
            batches.clear()
            del loader
            gc.collect()
            code = 0 if total == 4.0 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [rows[0, 0].item() for rows, _ in batches] == [0.0, 4.0]
    assert len(list(loader)) == 2
