# SPDX-License-Identifier: Apache-2.0
"""Bad samples, dying workers, Ctrl-C: what the training loop sees."""

import os
import random
import signal
import threading
import time

import pytest
import support
import torch
from datasets import CLIPS, CORRUPT, D, Tensors, same_epoch, waits_for
from support import wait_until
from torch.utils.data import DataLoader

from stoker import SampleError, errors
from stoker.media import VideoDataset
from stoker.torch import DistributedDataLoader

WORKERS = [0, 2]


def steps(loader):
    """Each step's batch, or its exception; as a loop that goes on after errors."""
    iterator, found = iter(loader), []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(error)


@pytest.mark.parametrize("workers", WORKERS)
def test_bad_sample_raises_in_its_step(workers):
    found = steps(DistributedDataLoader(Tensors(20, 100, bad=[9]), batch_size=4, num_workers=workers))
    assert [type(step) is ValueError for step in found] == [False, False, True, False, False]
    assert [step[1].tolist() for i, step in enumerate(found) if i != 2] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [12, 13, 14, 15],
        [16, 17, 18, 19],
    ]
    if workers:
        assert "Caught ValueError in DataLoader worker process" in str(found[2]) and "(sample 9)" in str(found[2])
        assert "sample 9 is bad" in str(found[2]) and found[2].sample_key == 9


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("on_error, expected", [("skip", [8, 8, 10, 11]), ("replace", [8, 10, 10, 11])])
def test_bad_sample_skipped_or_replaced_and_counted(workers, on_error, expected):
    loader = DistributedDataLoader(Tensors(20, 100, bad=[9]), batch_size=4, num_workers=workers, on_error=on_error)
    found = steps(loader)
    assert found[2][1].tolist() == expected and len(found) == 5
    assert loader.stats()["samples_skipped"] == 1


@pytest.mark.parametrize("workers", WORKERS)
def test_38_native_corrupt_file_raises_in_its_step(workers):
    paths = [*CLIPS[:4], CORRUPT, CLIPS[5]]
    found = steps(DistributedDataLoader(VideoDataset(paths, frames=4, size=64), batch_size=2, num_workers=workers))
    assert [isinstance(step, torch.Tensor) for step in found] == [True, True, False]
    assert type(found[2]) is SampleError
    assert "sample 4" in str(found[2])
    if workers:
        assert str(found[2]).count(os.path.basename(CORRUPT)) == 1  # named once


@pytest.mark.parametrize("on_error, stand_in", [("skip", 3), ("replace", 2)])
def test_38_native_skip_and_replace(on_error, stand_in):
    paths = [CLIPS[0], CORRUPT, CLIPS[2], CLIPS[3]]
    dataset = VideoDataset(paths, frames=4, size=64)
    loader = DistributedDataLoader(dataset, batch_size=2, sampler=[3, 1, 0, 2], num_workers=2, on_error=on_error)
    first, second = loader
    assert torch.equal(first[0], dataset[3]) and torch.equal(first[1], dataset[stand_in])
    assert torch.equal(second, torch.stack([dataset[0], dataset[2]]))
    assert loader.stats()["samples_skipped"] == 1


def test_all_samples_bad_raises_under_skip():
    paths = [CORRUPT, CORRUPT, CLIPS[0]]
    found = steps(
        DistributedDataLoader(VideoDataset(paths, frames=4, size=64), batch_size=2, num_workers=1, on_error="skip")
    )
    assert type(found[0]) is SampleError and isinstance(found[1], torch.Tensor)


def test_missing_file_and_bad_index(tmp_path):
    with pytest.raises(SampleError, match="sample 1: .*missing.mp4"):
        VideoDataset([CLIPS[0], tmp_path / "missing.mp4"], frames=4, size=64)[1]
    found = steps(
        DistributedDataLoader(
            VideoDataset([CLIPS[0]], frames=4, size=64), batch_size=1, sampler=[0, 7, 0], num_workers=1
        )
    )
    assert [type(step) for step in found] == [torch.Tensor, IndexError, torch.Tensor]


def test_retries_in_workers(tmp_path):
    mark = tmp_path / "tries"

    def flaky(i):
        if i == 3:
            with open(mark, "a") as file:
                file.write("x")
            if mark.stat().st_size < 3:
                raise OSError("not yet")
        return i

    got = [batch.tolist() for batch in DistributedDataLoader(D(flaky, 8), batch_size=4, num_workers=1, retries=2)]
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_exception_of_worker_init_fn_and_collate():
    def broken(worker_id):
        raise KeyError("no such worker")

    found = steps(DistributedDataLoader(Tensors(4, 10), batch_size=2, num_workers=1, worker_init_fn=broken))
    assert [type(step) for step in found] == [KeyError, KeyError] and "no such worker" in str(found[0])

    def ragged(samples):
        raise RuntimeError("ragged")

    found = steps(DistributedDataLoader(Tensors(4, 10), batch_size=2, num_workers=1, collate_fn=ragged))
    assert [type(step) for step in found] == [RuntimeError, RuntimeError]


def test_dataset_that_cannot_be_loaded_fails_at_iter():
    class Unloadable:
        def __len__(self):
            return 4

        def __reduce__(self):
            return _fail, ("the file is gone",)

    with pytest.raises(errors.StokerError, match="the file is gone"):
        iter(DistributedDataLoader(Unloadable(), num_workers=1))


def _fail(text):
    raise OSError(text)


def test_9_killed_python_worker_costs_a_retry(plane):
    def slow(i):
        time.sleep(0.05)
        return torch.full((30_000,), i)

    dataset = D(slow, 40)
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=2)
    got = []
    for i, batch in enumerate(loader):
        got.append(batch[:, 0].tolist())
        if i == 3:
            victims = _forked_workers(plane)
            os.kill(victims[0], signal.SIGKILL)
    assert got == [[2 * i, 2 * i + 1] for i in range(20)]


def _forked_workers(plane):
    """Python workers, without their template."""
    found = plane.processes("python-worker")
    pids = {process.pid for process in found}
    return [process.pid for process in found if process.parent in pids]


def test_sample_that_kills_its_worker_is_an_error_not_a_hang():
    def deadly(i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    found = steps(DistributedDataLoader(D(deadly, 12), batch_size=2, num_workers=2))
    assert [isinstance(step, errors.StokerError) for step in found] == [False, False, True, False, False, False]
    assert type(found[2]) is errors.WorkerError and found[2].status == "LOST"
    assert found[2].context == "batch of samples [4, 5]" and "killed by signal 9" in found[2].message


@pytest.mark.limit(900)
@pytest.mark.parametrize("kind", ["python", "native"])
def test_nothing_is_lost_when_workers_are_killed(plane, kind):
    """200 runs (100 of each kind), a worker killed at a random moment of each: every sample once, in order."""
    chance = random.Random(20_260_101)
    if kind == "python":
        dataset, count = Tensors(24, 20_000), 24
        ids = lambda batch: batch[1].tolist()  # noqa: E731
    else:
        dataset, count = VideoDataset([CLIPS[i % 2] for i in range(24)], frames=2, size=32, return_index=True), 24
        ids = lambda batch: batch[1].tolist()  # noqa: E731
    expected = list(DataLoader(dataset, batch_size=3))
    loader = DistributedDataLoader(dataset, batch_size=3, num_workers=2)
    for _ in range(100):
        moment = chance.randrange(count // 3)
        delay_s = chance.random() * 0.004
        got = []
        for i, batch in enumerate(loader):
            got.append(batch)
            if i == moment:
                pids = _forked_workers(plane) if kind == "python" else [p.pid for p in plane.processes("worker")]
                if pids:
                    until = time.perf_counter() + delay_s
                    while time.perf_counter() < until:  # a moment inside a task, not at its edge
                        pass
                    os.kill(chance.choice(pids), signal.SIGKILL)
        assert [ids(batch) for batch in got] == [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(count // 3)]
        same_epoch(got, expected)


def test_37_one_slow_sample_does_not_stop_the_others(tmp_path):
    """Sample 2 waits for sample 5, which only a loader that prefetches past it makes."""
    dataset = D(waits_for(tmp_path, {2: 5}), 10)
    options = dict(batch_size=1, num_workers=2, prefetch_factor=4)
    assert [batch.item() for batch in DistributedDataLoader(dataset, **options)] == list(range(10))
    for path in tmp_path.iterdir():
        path.unlink()
    order = [batch.item() for batch in DistributedDataLoader(dataset, in_order=False, **options)]
    assert sorted(order) == list(range(10)) and order.index(2) > order.index(4)  # sample 4 was done before 5 began


def test_19_20_dataset_is_sent_once_and_cold_start_is_reported(tmp_path):
    loads = tmp_path / "loads"

    class Heavy(torch.utils.data.Dataset):
        def __init__(self, paths):
            self.paths = paths

        def __reduce__(self):
            return load, (self.paths,)

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            return len(self.paths), os.getppid()

    def load(paths):
        with open(loads, "a") as file:
            file.write("loaded\n")
        time.sleep(2)  # as a slow import
        return Heavy(paths)

    paths = [f"/data/clip_{i:08d}.mp4" for i in range(2_000_000)]
    loader = DistributedDataLoader(Heavy(paths), batch_size=1, num_workers=8, sampler=range(40))
    found = list(loader)
    assert len({parent.item() for _, parent in found}) == 1  # all workers come from one template
    assert loads.read_text() == "loaded\n"  # which loaded the dataset once
    assert {count.item() for count, _ in found} == {2_000_000}
    assert loader.stats()["first_batch_s"] > 2


def test_15_ctrl_c_ends_at_once(runtime):
    process = runtime.script("""
        import time, torch
        from stoker.torch import DistributedDataLoader
        class Slow(torch.utils.data.Dataset):
            def __len__(self): return 100
            def __getitem__(self, i):
                if i: time.sleep(100)
                return i
        for batch in DistributedDataLoader(Slow(), batch_size=1, num_workers=2):
            print("first", flush=True)
    """)
    assert process.read_line() == "first"
    process.send_signal(signal.SIGINT)
    status, _, err = support.finish(process, 20)
    assert "KeyboardInterrupt" in err and status in (-signal.SIGINT, 130, 1)


def test_15_ctrl_c_while_the_dataset_is_being_loaded(runtime):
    process = runtime.script("""
        import os, time
        from stoker.torch import DistributedDataLoader
        def load():
            print("loading", flush=True)
            time.sleep(100)
        class Slow:
            def __len__(self): return 100
            def __reduce__(self): return load, ()
        iter(DistributedDataLoader(Slow(), num_workers=1))
    """)
    assert process.read_line() == "loading"
    process.send_signal(signal.SIGINT)
    status, _, err = support.finish(process, 20)
    assert "KeyboardInterrupt" in err and status in (-signal.SIGINT, 130, 1)


def test_dead_dataserver_is_an_error_and_the_next_iteration_works(plane):
    def slow(i):
        time.sleep(0.02)
        return i

    loader = DistributedDataLoader(D(slow, 400), batch_size=2, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    os.kill(plane.processes("dataserver")[0].pid, signal.SIGKILL)
    began_s = time.monotonic()
    with pytest.raises(errors.DataServerError, match="DataServer"):
        for _ in iterator:
            pass
    assert time.monotonic() - began_s < 20  # a hang would be the failure
    del iterator
    wait_until(lambda: not plane.processes("python-worker"), 10, "the workers to end with their DataServer")
    assert next(iter(loader)).tolist() == [0, 1]


def test_3_memory_of_workers_is_flat_over_epochs(plane):
    strings = [f"string number {i}" for i in range(200_000)]
    loader = DistributedDataLoader(
        D(lambda i, s=strings: len(s[i * 37 % len(s)]), 2000), batch_size=50, num_workers=2, persistent_workers=True
    )
    uses = []
    for _ in range(3):
        list(loader)
        uses.append(support.memory_use([process.pid for process in plane.processes()]))
    assert uses[2] < uses[0] * 1.10


def test_34_ranks_get_equal_numbers_of_batches(runtime):
    ranks = runtime.launch_ranks(
        2,
        """
        import torch
        import torch.distributed as dist
        from stoker.torch import DistributedDataLoader
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 23
            def __getitem__(self, i): return torch.full((20000,), i)
        dist.init_process_group("gloo")
        loader = DistributedDataLoader(Data(), batch_size=3, shuffle=True, num_workers=1)
        seen = 0
        for batch in loader:
            count = torch.tensor([len(batch)])
            dist.all_reduce(count)
            seen += 1
        print(seen, flush=True)
        dist.destroy_process_group()
    """,
    )
    assert [support.finish_well(rank, 90).strip() for rank in ranks] == ["4", "4"]


class Plan:
    """A batch sampler that yields what it is given."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


@pytest.mark.parametrize("ahead", [0, 1, 2, None])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("bad", [[], None, 3, [10**9], [object()], ["x"]], ids=str)
def test_a_bad_request_is_an_error_of_its_own_step(bad, native, ahead):
    dataset = VideoDataset(CLIPS[:4], frames=2, size=32, return_index=True) if native else D(lambda i: [i, i], 4)
    plan = Plan([[0], [1, 2], bad, [3], [2]])
    loader = DistributedDataLoader(dataset, batch_sampler=plan, num_workers=2, prefetch_batches=ahead)
    found = steps(loader)
    good = [[0], [1, 2], None, [3], [2]]
    assert len(found) == 5
    for step, wanted in zip(found, good, strict=True):
        if wanted is None:
            assert isinstance(step, Exception) or not native  # some keys mean something to a Python dataset
        else:
            assert step[1].tolist() == wanted


def test_a_batch_that_can_never_fit_is_an_error_of_its_own_step():
    plan = Plan([[0], [1], [2], [3], [0], list(range(4)) * 40, [1], [2]])
    dataset = VideoDataset(CLIPS[:4], frames=4, size=64, return_index=True)
    loader = DistributedDataLoader(dataset, batch_sampler=plan, num_workers=2, max_bytes=2 << 20, prefetch_batches=2)
    found = steps(loader)
    assert [step[1].tolist() for step in found if not isinstance(step, Exception)] == [[0], [1], [2], [3], [0], [1], [2]]
    assert isinstance(found[5], errors.MachineError)


def test_a_template_that_is_stopped_while_it_loads_is_an_error(plane):
    def load():
        time.sleep(5)
        return Loading()

    class Loading(torch.utils.data.Dataset):
        def __reduce__(self):
            return load, ()

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return index

    def stop():
        deadline_s = time.monotonic() + 20
        while not (found := plane.processes("python-worker")) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(found[0].pid, signal.SIGSTOP)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(errors.StokerError, match="stopped and then killed"):
        list(DistributedDataLoader(Loading(), batch_size=1, num_workers=1))
    stopper.join()
