# SPDX-License-Identifier: Apache-2.0
"""What must not grow: memory of workers over epochs and over many files, threads of decoders.

The numbers in the names are situations that users of other loaders met (docs/explanation/situations.md).
"""

import os
import pathlib

import support
from scripts import CLIPS, MIB, script
from support import finish_well


def shares(runtime):
    """Sum of the proportional shares of everything but the rank itself."""
    pids = [process.pid for process in runtime.processes() if process.kind != "other"]
    return sum(support.share(pid) for pid in pids)


def test_situation_03_native_workers_do_not_grow_with_epochs(runtime):
    """Paths of a native source lie in one sealed blob that all workers map; its pages are never written."""
    count = 2_000_000 if support.LONG else 200_000
    body = f"""
        from stoker.media import VideoDataset
        path = {str(CLIPS / "h264_bframes_g12.mp4")!r}
        dataset = VideoDataset([path] * {count}, frames=1, size=32)
        picks = range(0, {count}, {count // 400})
        loader = DistributedDataLoader(dataset, batch_size=8, sampler=picks, num_workers=8)
        for epoch in range(3):
            for batch in loader:
                pass
            say(epoch)
            sys.stdin.readline()
    """
    process = script(runtime, body)
    after = []
    for epoch in range(3):
        assert process.read_line(300) == str(epoch)
        after.append(shares(runtime))
        process.say()
    finish_well(process)
    assert after[2] <= after[0] * 1.02 + 2 * MIB, [use // MIB for use in after]


def test_situation_03_python_list_grows_by_one_copy_a_worker_at_most(runtime, record_property):
    """Reading a string writes its reference count, so each worker comes to own the pages that it has read. That is how
    CPython works; the bound is one copy for each worker, and the growth is reported."""
    count = 10_000_000 if support.LONG else 100_000
    body = f"""
        class Strings(torch.utils.data.Dataset):
            def __init__(self):
                self.names = [f"shard-{{i:012d}}/clip-{{i:012d}}.mp4" for i in range({count})]
            def __len__(self):
                return len(self.names)
            def __getitem__(self, i):
                return len(self.names[i])
        loader = DistributedDataLoader(Strings(), batch_size=2000, shuffle=True, num_workers=8)
        for epoch in range(3):
            total = sum(int(batch.sum()) for batch in loader)
            assert total == len(loader.dataset) * len(loader.dataset.names[0])
            say(epoch)
            sys.stdin.readline()
    """
    process = script(runtime, body)
    after = []
    for epoch in range(3):
        assert process.read_line(300) == str(epoch)
        after.append(shares(runtime))
        process.say()
    finish_well(process)
    record_property("mib_after_epochs", [use // MIB for use in after])
    one_copy = count * 100  # bytes of a string object of 40 characters and its place in the list
    assert after[2] - after[0] <= 8 * one_copy + 32 * MIB, [use // MIB for use in after]


def test_situation_06_many_files_in_one_worker(runtime):
    clip = CLIPS / "h264_bframes_g12.mp4"
    for i in range(2000):
        os.symlink(clip, runtime.folder / f"{i}.mp4")
    body = """
        from stoker.media import VideoDataset
        dataset = VideoDataset([f"{i}.mp4" for i in range(2000)], frames=1, size=32)
        for step, batch in enumerate(DistributedDataLoader(dataset, batch_size=20, num_workers=1)):
            if step in (5, 50, 99):
                say(step)
                sys.stdin.readline()
    """
    process = script(runtime, body)
    sizes = []
    for step in (5, 50, 99):
        assert process.read_line() == str(step)
        (worker,) = runtime.processes("worker")
        status = pathlib.Path(f"/proc/{worker.pid}/status").read_text()
        sizes.append(int(status.split("VmRSS:")[1].split()[0]) * 1024)
        assert len(os.listdir(f"/proc/{worker.pid}/fd")) < 20
        process.say()
    finish_well(process)
    assert sizes[2] <= sizes[0] + 8 * MIB, [size // MIB for size in sizes]


def test_situation_11_decoders_have_one_thread_each(runtime):
    """32 HEVC decoders in one process that also has other threads: no hang, and no threads of their own."""
    body = f"""
        import concurrent.futures, threading
        from stoker.media import VideoDataset
        dataset = VideoDataset([{str(CLIPS / "hevc10_opengop.mp4")!r}] * 32, frames=8, size=64)
        gate = threading.Barrier(33)
        def decode(i):
            gate.wait()
            return [dataset[i].sum().item() for _ in range(4)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            results = [pool.submit(decode, i) for i in range(32)]
            gate.wait()
            most = 0
            while not all(result.done() for result in results):
                most = max(most, len(os.listdir("/proc/self/task")))
                time.sleep(0.001)
            sums = {{value for result in results for value in result.result()}}
        assert len(sums) == 1, sums
        say(most)
    """
    process = script(runtime, body)
    assert int(finish_well(process)) <= 32 + 4
