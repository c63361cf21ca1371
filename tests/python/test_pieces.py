# SPDX-License-Identifier: Apache-2.0
"""Pieces of the package that need no plane: fetching, seeding, fan-out, deferred release, pickling, errors."""

import collections
import contextlib
import pickle
import random
import threading

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from stoker import _device, _fanout, _fetch, _pickling, _seeding, errors

Point = collections.namedtuple("Point", "x y")


class Squares:
    def __init__(self, count=20, bad=()):
        self.count, self.bad, self.reads = count, set(bad), []

    def __len__(self):
        return self.count

    def __getitem__(self, key):
        self.reads.append(key)
        if key in self.bad:
            raise ValueError(f"sample {key} is bad")
        return key * key


def request(index, seed=1, epoch=0):
    keys = index if isinstance(index, list) else [index]
    return _fetch.BatchRequest(index, [0] * len(keys), seed, epoch, 7, 1)


# -------------------------------------------------------------------------------------------------------------- fetch


def test_fetch_raises_and_names_the_sample():
    fetcher = _fetch.Fetcher(Squares(bad=[3]), default_collate, True)
    with pytest.raises(ValueError, match="sample 3 is bad"):
        fetcher.fetch(request([2, 3]))
    assert fetcher.key == 3
    assert fetcher.fetch(request([2, 4])).tolist() == [4, 16] and fetcher.key is None


def test_c1_skip_takes_previous_good_else_next():
    fetcher = _fetch.Fetcher(Squares(bad=[0, 1, 5]), list, True, "skip")
    assert fetcher.fetch(request([0, 1, 4, 5, 6])) == [16, 16, 16, 16, 36]
    assert [key for key, _ in fetcher.skipped] == [0, 1, 5]
    with pytest.raises(ValueError, match="sample 1 is bad"):
        fetcher.fetch(request([0, 1]))


def test_replace_takes_next_good_of_the_dataset():
    fetcher = _fetch.Fetcher(Squares(bad=[18, 19, 0]), list, True, "replace")
    assert fetcher.fetch(request([2, 18])) == [4, 1]
    assert [key for key, _ in fetcher.skipped] == [18]
    fetcher = _fetch.Fetcher(Squares(bad=range(3, 12)), list, True, "replace")
    with pytest.raises(ValueError, match="sample 11"):
        fetcher.fetch(request([3]))


def test_c1_skip_does_not_hide_the_machine():
    class Full(Squares):
        def __getitem__(self, key):
            raise MemoryError("no memory")

    with pytest.raises(MemoryError):
        _fetch.Fetcher(Full(), list, True, "skip").fetch(request([1, 2]))


def test_retries_count_tries_after_the_first():
    class Flaky(Squares):
        def __getitem__(self, key):
            self.reads.append(key)
            if len(self.reads) < 3:
                raise OSError("not yet")
            return key

    assert _fetch.Fetcher(Flaky(), list, True, retries=2).fetch(request([5])) == [5]
    with pytest.raises(OSError):
        _fetch.Fetcher(Flaky(), list, True, retries=1).fetch(request([5]))


def test_fetch_honours_getitems_and_no_collation():
    class Many(Squares):
        def __getitems__(self, keys):
            return [-key for key in keys]

    assert _fetch.Fetcher(Many(), list, True).fetch(request([1, 2])) == [-1, -2]
    assert _fetch.Fetcher(Many(), lambda value: ("c", value), False).fetch(request(4)) == ("c", 16)


def test_subset_is_read_sample_by_sample():
    subset = torch.utils.data.Subset(Squares(bad=[7]), [5, 7, 6])
    assert _fetch.Fetcher(subset, list, True, "skip").fetch(request([0, 1, 2])) == [25, 25, 36]
    assert not _fetch.reads_whole_batches(torch.utils.data.Subset(subset, [0]))


# ------------------------------------------------------------------------------------------------------------ seeding


def draw():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_b3_values_are_a_function_of_seed_epoch_key_occurrence():
    seen = set()
    for arguments in [
        (1, 0, 5, 0),
        (2, 0, 5, 0),
        (1, 1, 5, 0),
        (1, 0, 6, 0),
        (1, 0, 5, 1),
        (1, 0, "5", 0),
        (1, 0, (5,), 0),
    ]:
        digest = _seeding.sample_digest(*arguments)
        _seeding.seed_all(digest)
        values = draw()
        draw()
        _seeding.seed_all(digest)
        assert draw() == values
        seen.add(values)
    assert len(seen) == 7


def test_b3_any_picklable_key():
    assert _seeding.key_bytes(3) == _seeding.key_bytes(np.int64(3)) == _seeding.key_bytes(torch.tensor(3))
    keys = [3, "3", b"3", (3,), ("3",), [3], frozenset([3]), None, True]
    assert len({_seeding.key_bytes(key) for key in keys}) == len(keys)


def test_b2_generators_are_restored():
    before = _seeding.save()
    _seeding.seed_all(bytes(range(40)))
    draw()
    _seeding.restore(before)
    first = draw()
    _seeding.restore(before)
    assert draw() == first


# ------------------------------------------------------------------------------------------------------------ fan-out


def collated(samples, parts):
    return _fanout.join([default_collate(run) for run in _fanout.split(samples, parts)])


def same(a, b):
    if isinstance(a, torch.Tensor):
        return type(a) is type(b) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return type(a) is type(b) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_b6_parts_join_to_the_whole_batch(parts):
    samples = [
        {
            "t": torch.full((2, 3), float(i)),
            "n": i,
            "f": i / 2,
            "s": f"s{i}",
            "b": b"%d" % i,
            "p": Point(torch.tensor(i), [f"x{i}", np.arange(3) + i]),
            "z": torch.zeros((0, 2)),
        }
        for i in range(7)
    ]
    assert same(collated(samples, parts), default_collate(samples))
    assert same(collated(["a", "b", "c"], parts), default_collate(["a", "b", "c"]))
    assert same(collated([("a", 1), ("b", 2)], parts), default_collate([("a", 1), ("b", 2)]))


def test_padding_returns_lengths():
    samples = [{"t": torch.arange(n), "m": torch.ones(n, 4 - n), "k": n} for n in (1, 3, 2)]
    collate = _fanout.PaddingCollate(-1)
    whole = collate(samples)
    assert whole["t"].data.tolist() == [[0, -1, -1], [0, 1, 2], [0, 1, -1]]
    assert whole["t"].lengths.tolist() == [1, 3, 2] and whole["t"].lengths.dtype == torch.int64
    assert whole["m"].lengths.tolist() == [[1, 3], [3, 1], [2, 2]] and whole["m"].data.shape == (3, 3, 3)
    assert whole["k"].tolist() == [1, 3, 2]
    parts = _fanout.join([collate(run) for run in _fanout.split(samples, 3)], -1)
    assert same(parts, whole)


# ------------------------------------------------------------------------------------------------------------- device


class FakeEvent:
    def __init__(self):
        self.fired = False

    def query(self):
        return self.fired

    def synchronize(self):
        self.fired = True


class FakeStreams:
    """Records the order of calls."""

    def __init__(self):
        self.calls, self.events = [], []

    def make(self):
        return "own"

    def current(self):
        return self

    def wait_event(self, event):
        self.calls.append(("wait", self.events.index(event)))

    @contextlib.contextmanager
    def using(self, stream):
        self.calls.append(("begin", stream))
        yield
        self.calls.append(("end", stream))

    def record(self, stream):
        self.calls.append(("record", stream))
        self.events.append(FakeEvent())
        return self.events[-1]


class FakeTensor:
    device = "cpu"

    def __init__(self, streams, where="cpu"):
        self.streams, self.where = streams, where

    def to(self, device, non_blocking):
        assert non_blocking
        self.streams.calls.append(("copy", device))
        return FakeTensor(self.streams, device)

    def record_stream(self, stream):
        self.streams.calls.append(("used by", "consumer"))


def test_a7_slab_is_kept_until_its_event_has_fired():
    streams = FakeStreams()
    mover = _device.Mover("gpu", streams)
    moved = mover.move({"x": [FakeTensor(streams)], "s": "text"}, "batch 0")
    assert moved["x"][0].where == "gpu" and moved["s"] == "text"
    assert streams.calls == [
        ("begin", "own"),
        ("copy", "gpu"),
        ("end", "own"),
        ("record", "own"),
        ("wait", 0),
        ("used by", "consumer"),
    ]
    mover.move(FakeTensor(streams), "batch 1")
    assert len(mover.deferred) == 2
    streams.events[1].fired = True  # events of one stream fire in order: the first one holds the second back
    mover.move(FakeTensor(streams), "batch 2")
    assert len(mover.deferred) == 3
    streams.events[0].fired = True
    mover.deferred.release()
    assert len(mover.deferred) == 1
    mover.deferred.synchronise()
    assert len(mover.deferred) == 0 and streams.events[2].fired


# ----------------------------------------------------------------------------------------------------------- pickling


class Locked(Squares):
    def __init__(self):
        super().__init__()
        self.inner = {"lock": threading.Lock()}


def test_63_what_cannot_travel_is_named_with_a_fix():
    with pytest.raises(errors.UnsupportedError) as caught:
        _pickling.dump_payload({"dataset": Locked(), "collate_fn": None})
    assert "dataset.inner['lock']" in str(caught.value) and "_thread.lock" in str(caught.value)
    assert "worker_init_fn" in str(caught.value)
    lock = threading.Lock()
    with pytest.raises(errors.UnsupportedError, match="collate_fn .its variable 'lock'."):
        _pickling.dump_payload({"dataset": Squares(), "collate_fn": lambda batch: (lock, batch)})


def test_63_lambdas_and_local_classes_travel():
    class Local(Squares):
        pass

    objects = _pickling.load_payload(_pickling.dump_payload({"dataset": Local(), "collate_fn": lambda batch: batch}))
    assert objects["dataset"][3] == 9 and objects["collate_fn"](4) == 4


def test_b4_payload_of_an_unchanged_dataset_is_equal():
    dataset = torch.utils.data.TensorDataset(torch.randn(100, 3), torch.arange(100))
    first = _pickling.dump_payload({"dataset": dataset})
    assert _pickling.dump_payload({"dataset": dataset}) == first
    got = _pickling.load_payload(first)["dataset"]
    assert torch.equal(got[5][0], dataset[5][0])
    dataset.tensors[0][0] = 0
    assert _pickling.dump_payload({"dataset": dataset}) != first


def test_b4_payload_of_classes_by_value_is_equal_from_the_first_time():
    class Local(Squares):
        kind = collections.namedtuple("Kind", "a b")

        def __init__(self):
            super().__init__()
            self.parts = [self.kind(1, 2), {"x", "y", "z"}]

    dataset = Local()
    first = _pickling.dump_payload({"dataset": dataset})
    assert _pickling.dump_payload({"dataset": dataset}) == first


class Peculiar(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    "error, kind",
    [
        (ValueError("bad value"), ValueError),
        (KeyError("missing"), KeyError),
        (Peculiar(1, 2), RuntimeError),
        (errors.SampleError("cut", "sample 3: a.mp4", "CORRUPT"), errors.SampleError),
    ],
)
def test_exceptions_keep_their_type(error, kind):
    try:
        raise error
    except Exception as caught:
        detail = _pickling.dump_exception(caught, "in DataLoader worker process 1 (sample 3)", 3)
    got = _pickling.load_exception(detail)
    assert type(got) is kind and got.sample_key == 3
    text = str(got) + "".join(getattr(got, "__notes__", []))
    assert f"Caught {type(error).__name__} in DataLoader worker process 1 (sample 3)" in text and "Traceback" in text
    if kind is errors.SampleError:
        assert got.context == "sample 3: a.mp4" and got.status == "CORRUPT"


# ------------------------------------------------------------------------------------------------------------- errors


def test_errors_are_grouped_by_who_must_act():
    groups = {
        -1: errors.CallerError,
        -2: errors.CallerError,
        -3: errors.UnsupportedError,
        -10: errors.DataError,
        -11: errors.DataError,
        -12: errors.DataError,
        -20: errors.MachineError,
        -23: errors.MachineError,
        -30: errors.DataServerError,
        -31: errors.PeerError,
        -33: errors.PeerError,
        -34: errors.WorkerError,
        -40: errors.InternalError,
    }
    for code, kind in groups.items():
        error = errors.make(code, "NAME", 5, "message", "context", b"detail")
        assert type(error) is kind and error.status == "NAME" and error.os_error == 5
        assert str(error) == "context: message" and error.detail == b"detail"
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is kind and str(copied) == str(error) and copied.status == "NAME"
