# SPDX-License-Identifier: Apache-2.0
"""DistributedDataLoader against the stock loader of the installed version: batches, draws, arguments (rules B)."""

import gc
import os
import pathlib
import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from datasets import CLIPS, D, Nested, Point, Tensors, same, same_epoch, waits_for
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, Subset

from stoker import errors
from stoker.media import VideoDataset
from stoker.torch import DistributedDataLoader

WORKERS = [0, 2]


def clips(**form):
    return VideoDataset(CLIPS, **{"frames": 4, "size": 64, **form})


def seeded(loader, epochs=2):
    torch.manual_seed(11)
    return [batch for _ in range(epochs) for batch in loader]


# ---------------------------------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "options",
    [
        dict(batch_size=4),
        dict(batch_size=4, shuffle=True),
        dict(batch_size=4, shuffle=True, drop_last=True),
        dict(batch_size=None),
        dict(batch_size=5, prefetch=True),
        dict(batch_size=3, collate_fn=list),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "dataset",
    [Tensors(), Nested(), clips(), clips(return_index=True), Subset(clips(), [6, 2, 2, 0])],
    ids=["tensors", "nested", "clips", "indexed", "subset"],
)
def test_batches_equal_the_stock_loader(dataset, options, workers):
    options = dict(options)
    if options.pop("prefetch", False) and workers:
        options["prefetch_factor"] = 1
    stock = DataLoader(dataset, num_workers=0, **{k: v for k, v in options.items() if k != "prefetch_factor"})
    same_epoch(seeded(DistributedDataLoader(dataset, num_workers=workers, **options)), seeded(stock))


@pytest.mark.parametrize("workers", WORKERS)
def test_batch_sampler(workers):
    dataset = Tensors()
    for made in (lambda: [[1, 2, 3], [4], [0, 22, 7, 8]], lambda: BatchSampler(RandomSampler(dataset), 5, True)):
        same_epoch(
            seeded(DistributedDataLoader(dataset, batch_sampler=made(), num_workers=workers)),
            seeded(DataLoader(dataset, batch_sampler=made())),
        )
    same_epoch(
        DistributedDataLoader(clips(), batch_sampler=[[1], [0, 2, 3, 4, 5], [6, 6]], num_workers=workers),
        DataLoader(clips(), batch_sampler=[[1], [0, 2, 3, 4, 5], [6, 6]]),
    )


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
def test_native_forms(dtype, layout):
    form = dict(dtype=dtype, layout=layout, size=(40, 56))
    if dtype != "uint8":
        form.update(mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.4])
    dataset = clips(**form)
    assert dataset[0].shape == dataset.shape
    same_epoch(DistributedDataLoader(dataset, batch_size=3, num_workers=1), DataLoader(dataset, batch_size=3))


def test_len_and_attributes():
    loader = DistributedDataLoader(Tensors(), batch_size=4, num_workers=2, drop_last=True)
    assert len(loader) == 5 and loader.prefetch_factor == 2 and loader.batch_size == 4
    assert len(iter(loader)) == 5
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3


# ---------------------------------------------------------------------------------------------------- rules of part B


def in_world(monkeypatch, rank, world):
    for name, value in dict(
        RANK=rank,
        WORLD_SIZE=world,
        LOCAL_RANK=0,
        LOCAL_WORLD_SIZE=1,
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=support_port(),
    ).items():
        monkeypatch.setenv(name, str(value))


_PORT = []


def support_port():
    import support

    if not _PORT:
        _PORT.append(support.free_port())
    return _PORT[0]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_b1_sharding(monkeypatch, rank, workers):
    in_world(monkeypatch, rank, 3)
    dataset = Tensors(size=10)
    loader = DistributedDataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers, seed=5)
    sampler = DistributedSampler(dataset, 3, rank, shuffle=True, seed=5, drop_last=False)
    stock = DataLoader(dataset, batch_size=4, sampler=sampler)
    assert len(loader) == len(stock)
    for epoch in range(2):
        loader.set_epoch(epoch)
        sampler.set_epoch(epoch)
        same_epoch(loader, stock)
    given = DistributedDataLoader(dataset, batch_size=4, sampler=[3, 1], num_workers=workers)
    assert [batch[1].tolist() for batch in given] == [[3, 1]]
    literal = DistributedDataLoader(dataset, batch_size=4, num_workers=workers, shard="none")
    same_epoch(literal, DataLoader(dataset, batch_size=4))


class Recorder:
    """A sampler that draws from torch's generator and writes down when it is asked."""

    def __init__(self, count, log):
        self.count, self.log = count, log

    def __len__(self):
        return self.count

    def __iter__(self):
        self.log.append("iter")
        for _ in range(self.count):
            value = int(torch.randint(self.count, ()))
            self.log.append(value)
            yield value
        self.log.append("end")


@pytest.mark.parametrize(
    "options",
    [
        dict(num_workers=2),
        dict(num_workers=1, prefetch_factor=5),
        dict(num_workers=0),
        dict(num_workers=2, persistent_workers=True),
    ],
    ids=str,
)
def test_b2_draws_match_the_stock_loader(options):
    def run(kind):
        log, states = [], []
        torch.manual_seed(3)
        loader = kind(Tensors(size=5), batch_size=2, sampler=Recorder(13, log), **options)
        for _ in range(2):
            iterator = iter(loader)
            states.append(torch.random.get_rng_state())
            log.append("made")
            for _ in iterator:
                states.append(torch.random.get_rng_state())
                log.append("next")
            del iterator
        return log, states

    (log, states), (stock_log, stock_states) = run(DistributedDataLoader), run(DataLoader)
    assert log == stock_log
    assert len(states) == len(stock_states) and all(map(torch.equal, states, stock_states))


def test_b2_prefetch_batches_changes_the_first_number_only():
    log = []
    loader = DistributedDataLoader(
        Tensors(size=5), batch_size=1, sampler=Recorder(9, log), num_workers=2, prefetch_batches=3
    )
    iterator = iter(loader)
    assert len([entry for entry in log if entry != "iter"]) == 3
    next(iterator)
    assert len([entry for entry in log if entry != "iter"]) == 4
    log.clear()
    loader = DistributedDataLoader(
        Tensors(size=5), batch_size=1, sampler=Recorder(3, log), num_workers=2, prefetch_batches=0
    )
    iterator = iter(loader)
    assert [entry for entry in log if entry != "iter"] == []
    assert len(list(iterator)) == 3


def test_b2_generator_and_random_state():
    def run(kind):
        generator = torch.Generator().manual_seed(9)
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        got = [
            batch[1].tolist()
            for batch in kind(Tensors(size=5), batch_size=4, shuffle=True, generator=generator, num_workers=2)
        ]
        return got, generator.get_state().tolist(), random.random(), np.random.rand(), torch.rand(()).item()

    assert run(DistributedDataLoader) == run(DataLoader)


class Draws(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return index, random.random(), np.random.rand(), torch.rand(()).item()


def values(loader, epochs=1):
    found = []
    for _ in range(epochs):
        for keys, *columns in loader:
            found += list(zip(keys.tolist(), *(column.tolist() for column in columns)))
    return found


def test_b3_31_randomness_does_not_depend_on_workers():
    def run(workers, seed=7, epochs=2):
        torch.manual_seed(seed)
        return values(DistributedDataLoader(Draws(), batch_size=5, num_workers=workers), epochs)

    reference = run(1)
    assert len({row[1:] for row in reference}) == 48  # two epochs, no value twice
    assert run(4) == reference and run(0) == reference and run(1) == reference
    assert not {row[1:] for row in run(1, seed=8)} & {row[1:] for row in reference}


def test_b3_explicit_seed_epoch_and_occurrence():
    def run(epoch, sampler=None, **options):
        loader = DistributedDataLoader(Draws(), batch_size=4, num_workers=2, seed=5, sampler=sampler, **options)
        loader.set_epoch(epoch)
        return values(loader)

    assert run(1) == run(1) and run(1) != run(2)
    twice = run(0, [3, 3, 4, 3])
    assert len(set(twice)) == 4
    assert dict((row[0], row) for row in run(0))[4] in twice  # whatever came before it


def test_b3_seeding_worker_is_the_stock_rule():
    def run(kind, **options):
        torch.manual_seed(4)
        return values(kind(Draws(), batch_size=3, num_workers=3, **options), 2)

    assert run(DistributedDataLoader, seeding="worker") == run(DataLoader)


class Mutable(torch.utils.data.Dataset):
    def __init__(self):
        self.value = 1

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.value


def test_b4_dataset_is_sent_again_when_it_changed(plane):
    dataset = Mutable()
    loader = DistributedDataLoader(dataset, batch_size=4, num_workers=1)
    assert [batch.tolist() for batch in loader] == [[1] * 4]
    before = {process.pid for process in plane.processes("python-worker")}
    assert [batch.tolist() for batch in loader] == [[1] * 4]
    assert {process.pid for process in plane.processes("python-worker")} == before  # unchanged: same workers
    dataset.value = 2
    assert [batch.tolist() for batch in loader] == [[2] * 4]
    persistent = DistributedDataLoader(dataset, batch_size=4, num_workers=1, persistent_workers=True)
    assert [batch.tolist() for batch in persistent] == [[2] * 4]
    dataset.value = 3
    assert [batch.tolist() for batch in persistent] == [[2] * 4]


def test_b4_template_is_single_threaded_and_loads_once(plane):
    loads = []

    class Once:
        def __len__(self):
            return 8

        def __reduce__(self):
            loads.append(1)
            return Once, ()

        def __getitem__(self, index):
            import gc as collector
            import os
            import threading

            return (
                threading.active_count(),
                len(os.listdir("/proc/self/task")),
                collector.get_freeze_count() > 0,
                torch.get_num_threads(),
            )

    batches = list(DistributedDataLoader(Once(), batch_size=2, num_workers=2))
    assert len(batches) == 4
    for threads, tasks, frozen, torch_threads in batches:
        assert (
            threads.tolist() == [1, 1]
            and tasks.tolist() == [1, 1]
            and frozen.all()
            and torch_threads.tolist() == [1, 1]
        )


class Info(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        assert info.dataset is self
        return info.id, info.num_workers, info.seed - info.id, len(self.__dict__.get("inits", [])), index


def remember(worker_id):
    info = torch.utils.data.get_worker_info()
    assert info.id == worker_id
    info.dataset.__dict__.setdefault("inits", []).append(worker_id)


def test_b5_workers_know_who_they_are():
    torch.manual_seed(2)
    seed = torch.empty((), dtype=torch.int64).random_().item()
    torch.manual_seed(2)
    ids = set()
    for worker, count, base, called, _ in DistributedDataLoader(
        Info(), batch_size=1, num_workers=3, worker_init_fn=remember
    ):
        assert count.item() == 3 and base.item() == seed and called.item() == 1
        ids.add(worker.item())
    assert ids <= {0, 1, 2} and len(ids) > 1


def test_b6_refusals_of_fan_out():
    class Many(Tensors):
        def __getitems__(self, keys):
            return [self[key] for key in keys]

    for options, word in (
        (dict(collate_fn=list), "default collate"),
        (dict(batch_size=None), "default collate"),
        (dict(in_order=False), "in_order"),
    ):
        with pytest.raises(errors.UnsupportedError, match=f"fan_out=2 is refused.*{word}"):
            DistributedDataLoader(Tensors(), **{"batch_size": 4, "num_workers": 2, **options}, fan_out=2)
    with pytest.raises(errors.UnsupportedError, match="fan_out=2 is refused.*__getitems__"):
        DistributedDataLoader(Many(), batch_size=4, num_workers=2, fan_out=2)


@pytest.mark.parametrize("fan_out", [2, 3, 9])
def test_b6_fan_out_equals_the_unsplit_batch(fan_out):
    for dataset in (Nested(), Tensors()):
        same_epoch(
            DistributedDataLoader(dataset, batch_size=5, num_workers=2, fan_out=fan_out),
            DataLoader(dataset, batch_size=5),
        )


@pytest.mark.parametrize("workers, fan_out", [(0, 1), (2, 1), (2, 2), (2, 3)])
def test_fan_out_pads_variable_shapes(workers, fan_out):
    dataset = D(lambda i: (torch.full((i % 5 + 1,), i), i), 10)
    loader = DistributedDataLoader(dataset, batch_size=6, num_workers=workers, fan_out=fan_out, pad_value=-1)
    (padded, ids), _ = list(loader)
    assert (
        padded.data.shape == (6, 5) and padded.lengths.tolist() == [1, 2, 3, 4, 5, 1] and ids.tolist() == list(range(6))
    )
    for row, length, i in zip(padded.data.tolist(), padded.lengths.tolist(), range(6)):
        assert row == [i] * length + [-1] * (5 - length)


# -------------------------------------------------------------------------------------------- interface of the loader


@pytest.mark.parametrize("options", [dict(), dict(persistent_workers=True), dict(prefetch_batches=0)], ids=str)
@pytest.mark.parametrize("dataset", [Tensors(), clips()], ids=["python", "native"])
def test_break_and_iterate_again(dataset, options):
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=2, **options)
    expected = list(DataLoader(dataset, batch_size=2))
    for _ in range(3):
        for i, batch in enumerate(loader):
            assert same(batch, expected[i])
            if i == 1:
                break
    same_epoch(loader, expected)


@pytest.mark.parametrize("dataset", [Tensors(), clips()], ids=["python", "native"])
def test_two_loaders_and_two_iterators_at_once(dataset):
    a = DistributedDataLoader(dataset, batch_size=2, num_workers=1)
    b = DistributedDataLoader(dataset, batch_size=3, num_workers=2)
    expected = list(DataLoader(dataset, batch_size=2))
    for i, (x, y, _) in enumerate(zip(a, a, b)):
        assert same(x, expected[i]) and same(y, expected[i])
    assert len(list(b)) == len(b)


def test_loader_may_go_before_its_iterator():
    iterator = iter(DistributedDataLoader(Tensors(), batch_size=4, num_workers=1))
    gc.collect()
    same_epoch(iterator, DataLoader(Tensors(), batch_size=4))


def test_in_order_false_gives_every_batch(tmp_path):
    dataset = D(waits_for(tmp_path, {1: 3}), 12)  # the first batch of a loader runs alone (rule B6)
    got = [batch.item() for batch in DistributedDataLoader(dataset, batch_size=1, num_workers=2, in_order=False)]
    assert sorted(got) == list(range(12)) and got.index(1) > got.index(2)
    loader = DistributedDataLoader(clips(return_index=True), batch_size=2, num_workers=2, in_order=False)
    assert sorted(sum((index.tolist() for _, index in loader), [])) == list(range(len(CLIPS)))


def test_timeout_as_stock():
    import time

    dataset = D(lambda i: time.sleep(60 if i else 0) or i, 2)
    iterator = iter(DistributedDataLoader(dataset, batch_size=1, num_workers=1, timeout=0.5))
    assert next(iterator).item() == 0
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.5 seconds"):
        next(iterator)


def test_pin_memory_without_an_accelerator_warns_as_stock():
    if torch.accelerator.is_available():
        pytest.skip("an accelerator is available")
    for kind in (DataLoader, DistributedDataLoader):
        with pytest.warns(UserWarning, match="no accelerator is found"):
            assert len(list(kind(Tensors(), batch_size=8, num_workers=1, pin_memory=True))) == 3


def test_device_cpu_changes_nothing():
    same_epoch(
        DistributedDataLoader(Tensors(), batch_size=4, num_workers=1, device="cpu"), DataLoader(Tensors(), batch_size=4)
    )


def test_refusals_name_the_argument_and_the_reason():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

    cases = [
        (dict(dataset=Stream()), "Stream is refused: an iterable-style dataset has no sample ids"),
        (dict(multiprocessing_context="spawn"), "multiprocessing_context= is refused"),
        (dict(scheduler="fifo"), "scheduler='fifo' is refused"),
        (dict(share_workers=True), "share_workers=True is refused"),
        (dict(batch_size=None, on_error="skip"), "on_error='skip' is refused"),
    ]
    for options, message in cases:
        with pytest.raises(errors.UnsupportedError, match=message):
            DistributedDataLoader(**{"dataset": Tensors(), "num_workers": 2, **options})
    with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
        DistributedDataLoader(Tensors(), bogus=1)
    for options in (
        dict(num_workers=-1),
        dict(prefetch_factor=2),
        dict(persistent_workers=True),
        dict(timeout=-1),
        dict(sampler=[1], shuffle=True),
        dict(batch_sampler=[[1]], batch_size=2),
    ):
        with pytest.raises(ValueError) as stock:
            DataLoader(Tensors(), **options)
        with pytest.raises(ValueError) as ours:
            DistributedDataLoader(Tensors(), **options)
        assert str(ours.value) == str(stock.value)


def test_stats_count_steps_and_misses():
    loader = DistributedDataLoader(Tensors(), batch_size=4, num_workers=2, data_deadline_s=0)
    list(loader)
    stats = loader.stats()
    assert stats["steps"] == stats["deadline_misses"] == 6 and stats["first_batch_s"] > 0
    assert stats["samples_skipped"] == 0


def test_32_set_epoch_with_persistent_workers(monkeypatch):
    in_world(monkeypatch, 0, 1)
    dataset = Tensors(size=5)
    sampler = DistributedSampler(dataset, 2, 0, shuffle=True)
    loader = DistributedDataLoader(dataset, batch_size=4, sampler=sampler, num_workers=1, persistent_workers=True)
    orders = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        orders.append([batch[1].tolist() for batch in loader])
    assert orders[0] != orders[1] and orders[0] == orders[2]


# ------------------------------------------------------------------------------------------------ contents of batches


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("pin", [False, True])
def test_58_59_60_types_come_out_as_they_go_in(workers, pin):
    item = {
        "zero": torch.zeros((0, 2)),
        "turned": torch.zeros((0, 3)).T,
        "point": Point({"a": [1, "s"]}, (b"b", None)),
        "path": pathlib.Path("a/b"),
        "flip": np.arange(50_000)[::-1],
        "last": np.random.rand(200, 300)[..., ::-1],
        "broadcast": torch.ones(1).expand(100_000),
        "int": 3,
        "set": {1},
        "strided": torch.arange(400_000)[::2],
    }
    dataset = D(lambda i: item, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = dict(batch_size=1, collate_fn=lambda batch: batch[0], pin_memory=pin)
        same_epoch(DistributedDataLoader(dataset, num_workers=workers, **options), DataLoader(dataset, **options))


def test_63_lambda_local_class_and_what_cannot_travel():
    import threading

    assert [batch.tolist() for batch in DistributedDataLoader(D(lambda i: i, 4), batch_size=2, num_workers=1)] == [
        [0, 1],
        [2, 3],
    ]
    dataset = Tensors()
    dataset.lock = threading.Lock()
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=1)
    with pytest.raises(errors.UnsupportedError, match="dataset.lock .*_thread.lock.*worker_init_fn"):
        iter(loader)


def test_64_cuda_touched_before_workers():
    if not torch.cuda.is_available():
        pytest.skip("CUDA is not available")
    torch.zeros(1, device="cuda")
    batch = next(iter(DistributedDataLoader(D(lambda i: torch.ones(3, device="cuda").cpu()), num_workers=1)))
    assert batch.sum().item() == 3


def test_b6_collation_happens_in_the_slab():
    """Once the size is known, default_collate writes where the rank reads: no copy of large leaves."""

    def where(i):
        return torch.full((100_000,), i), torch.utils.data.get_worker_info().id

    def collate(samples):
        out = torch.utils.data.default_collate(samples)
        kept.append(out[0][0, 0].item())
        return [*out, out[0].data_ptr()]

    kept = []
    for (rows, _, address), i in zip(
        DistributedDataLoader(D(where), batch_size=4, num_workers=1, collate_fn=collate), range(5)
    ):
        assert rows[:, 0].tolist() == [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3]
        assert address % 256 == 0 or i == 0


def test_workers_may_keep_what_they_collated():
    """A collate function that keeps its batches must not see them overwritten, nor overwrite those of others."""
    cache = []

    def collate(samples):
        out = torch.utils.data.default_collate(samples)
        cache.append(out)
        return [out, torch.tensor([int(kept[0, 0]) for kept in cache])]

    dataset = D(lambda i: torch.full((50_000,), i), 40)
    for i, (rows, kept) in enumerate(DistributedDataLoader(dataset, batch_size=4, num_workers=1, collate_fn=collate)):
        assert rows[:, 0].tolist() == list(range(4 * i, 4 * i + 4))
        assert kept.tolist() == list(range(0, 4 * i + 1, 4))


@pytest.mark.parametrize("order", ["own b c", "c b", "c own b", "own b[1:] c"])
def test_parts_of_what_was_collated_are_those_of_the_stock_loader(order):
    """Views that begin within a tensor of the slab, in another order than they were collated in, beside private ones."""

    class Pairs(torch.utils.data.Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            return tuple(torch.full((100_003,), 2 * index + k, dtype=torch.uint8) for k in range(2))

    def collate(samples):
        b, c = torch.utils.data.default_collate(samples)
        parts = {"own": torch.full((1_000_000,), 255, dtype=torch.uint8), "b": b[1:], "c": c[1:], "b[1:]": b[2:, 1:].T}
        return {name: parts[name] for name in order.split()}

    options = dict(batch_size=8, collate_fn=collate)
    ours = list(DistributedDataLoader(Pairs(), num_workers=1, **options))
    for batch, expected in zip(ours, torch.utils.data.DataLoader(Pairs(), **options), strict=True):
        assert list(batch) == list(expected)
        assert all(torch.equal(batch[name], expected[name]) for name in batch)


# ------------------------------------------------------------------------------------------------------------ policy

POLICY = """
import json, sys
import torch
from stoker import _plane, errors
from stoker.torch import DistributedDataLoader

torch.set_num_threads(1)
data = torch.arange(12)
first, second = sys.argv[1:]
list(DistributedDataLoader(data, 3, num_workers=1, policy=None if first == "-" else first))
print(json.loads(_plane.client().status())["engine"]["policy"])
assert len(list(DistributedDataLoader(data, 3, num_workers=1))) == 4  # whatever it is
try:
    list(DistributedDataLoader(data, 3, num_workers=1, policy=second))
    print("taken")
except errors.CallerError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "first, environment, second, has, said",
    [
        ("-", None, "deadline", "deadline", "taken"),
        ("round_robin", None, "round_robin", "round-robin", "taken"),
        ("least_request", "cost", "cost", "least-request", "policy='cost': the DataServer of this job places batches by"),
        ("-", "cost", "deadline", "cost", "policy='deadline': the DataServer of this job places batches by 'cost'"),
    ],
    ids=str,
)
def test_policy_reaches_the_dataserver(first, environment, second, has, said):
    variables = {name: value for name, value in os.environ.items() if name != "STOKER_POLICY"}
    if environment:
        variables["STOKER_POLICY"] = environment
    done = subprocess.run([sys.executable, "-c", POLICY, first, second], env=variables, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == has
    assert lines[1].startswith(said)


def test_policy_is_refused_by_name():
    with pytest.raises(errors.CallerError, match="policy='fifo' is none of 'deadline', 'cost', 'least_request', 'round_robin'"):
        DistributedDataLoader(Tensors(), num_workers=1, policy="fifo")
    with pytest.raises(errors.UnsupportedError, match="policy='cost' is refused: with num_workers=0"):
        DistributedDataLoader(Tensors(), policy="cost")


# ---------------------------------------------------------------------------------------------------- parts of batches


def test_d1_parts_of_a_batch_are_one_step():
    import json

    from stoker import _plane

    loader = DistributedDataLoader(Tensors(), 4, num_workers=2, fan_out=4, name="parts are one step")
    for step, _ in enumerate(loader):
        lanes = json.loads(_plane.client().status())["loaders"]
        (lane,) = [lane for lane in lanes if lane["name"] == "parts are one step"]
        assert lane["next"] == step + 1  # batches that were taken, not parts of them
    loader.close()
