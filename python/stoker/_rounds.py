# SPDX-License-Identifier: Apache-2.0
"""Tier 2 of a DistributedDataLoader: rounds of made samples whose owners change before they become batches (rule C2).

    this rank's samples, one in each slab -> features -> told to all ranks of the list -> assignment
    -> slabs are given and taken, no byte moves -> batches in the order of the round

Requests run ahead of the round as they do without rounds, so that a slow sample is met by what was made before it. While
the batches of one round are taken, each call of next() does for the coming one what needs no waiting: it collects samples that
are there, looks at them, tells the ranks, and gives and takes slabs. At the boundary there is usually nothing left to wait for.
A loader of single samples, hidden inside, makes them. Every round is two small messages: features, then the assignment of
the first rank of the list (the built-in policy needs no second one: equal features give equal assignments). Whatever is wrong
in one rank is told to all of them in the message that they wait for, so nobody hangs.
"""

from __future__ import annotations

import collections
import gc
import json
import logging
import re
import struct
import time

import torch
from torch.utils.data._utils.pin_memory import pin_memory as stock_pin_memory

from . import _awaited, _balance, _core, _device, _lane, _plane, errors

__all__ = ["RoundIterator"]

_log = logging.getLogger("stoker")
_MAX_BYTES = 2 << 30
_SLICE_S = 2.0
_TELL_S = 30.0
_LEFT = re.compile(r"rank (\d+) has .* in the middle of a round")


def single(samples):
    """Collate function of the inner loader: a sample as its dataset made it."""
    return samples[0]


class _Units:
    """The samples of the outer loader's batches, one by one, and how large each batch is (sampler of the inner loader)."""

    def __init__(self, loader, wrapped: bool) -> None:
        self._loader, self._wrapped = loader, wrapped
        self.iteration = 0  # how often ranks began one, of this loader
        self.sizes: collections.deque = collections.deque()  # of batches whose samples are being asked for

    def __iter__(self):
        self.sizes.clear()
        for index in self._loader._index_sampler:
            units = list(index) if self._loader._auto_collation else [index]
            self.sizes.append(len(units))
            for unit in units:
                yield [unit] if self._wrapped else unit


class _Sample:
    """One sample: what the user gets, and the slab that it views."""

    def __init__(self, data, batch, index) -> None:
        self.data, self.batch, self.index = data, batch, index


def make_inner(loader, cls):
    """(loader of single samples with the options of ``loader``, its sampler)"""
    native = loader.worker_init_fn is None and _lane.native_view(loader.dataset) is not None
    units = _Units(loader, wrapped=not native)
    shape = dict(batch_size=None, sampler=units) if native else dict(batch_sampler=units, collate_fn=single)
    inner = cls(
        loader.dataset,
        **shape,
        num_workers=loader.num_workers,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        persistent_workers=loader.persistent_workers,
        prefetch_batches=0,
        max_bytes=loader.max_bytes or None,
        retries=loader.retries,
        name=loader.name,
        shard="none",
        stall_limit_s=loader.stall_limit_s,
        isolation=loader.isolation if native else "auto",
        worker_max_bytes=loader.worker_max_bytes if native else None,
        sample_timeout_s=loader.sample_timeout_s if native else None,
        quarantine=loader.quarantine if native else None,
        cost_profile=loader.cost_profile,
    )
    inner.on_error = loader.on_error
    inner._balance = None
    return inner, units


class RoundIterator:
    """What ``iter()`` of a loader with ``load_balance_config`` gives. The round that is being prepared refers to the rounds, not
    to this object: dropping it ends the iteration at once."""

    def __init__(self, loader) -> None:
        self._rounds = _Rounds(loader)

    def __iter__(self):
        return self

    def __len__(self) -> int:
        return len(self._rounds._loader)

    def _reset(self, loader, first_iter: bool = False) -> None:
        self._rounds._reset(loader)

    def __next__(self):
        return self._rounds.next()

    next = __next__

    def _give_back(self) -> None:
        self._rounds._give_back()

    def __del__(self) -> None:
        try:
            self._give_back()
        except Exception:  # at exit the client may be closed already
            pass


class _Rounds:
    """The rounds of one iteration after the other."""

    def __init__(self, loader) -> None:
        self._loader, self._config, self._state = loader, loader._balance, loader._state
        self._rank = _plane.rank_and_world()[0]
        self._mover = _device.Mover.for_loader(loader)
        self._persistent_workers = loader.persistent_workers
        self._inner = self._coming = self._made = None
        self._reset(loader)

    def _reset(self, loader) -> None:
        self._give_back()
        inner, self._units = loader._inner
        inner.seed, inner._epoch = loader._randomness()
        self._began_s = time.perf_counter()
        self._units.iteration += 1
        self._inner = iter(inner)
        self._crew = self._inner._crew
        self._share = self._fit(max(1, self._config.buffer_size // len(self._config.members)))
        self._ahead = self._in_flight()
        self._held = 0  # samples that were made and not given yet, of this round and of the coming one
        self._collected = 0  # those of the coming one
        self._members = list(self._config.members)
        self._ready: collections.deque = collections.deque()  # batches of the round: (samples, whether to copy)
        self._round, self._ended = 0, False
        self._number = 0  # of the last gathering of the round: exchanges bear it
        self._coming = self._made = None  # a generator that makes the coming round, and what came of it
        self._may_wait = False  # may it?

    def _fit(self, share: int) -> int:
        """The samples of this rank in a round, cut to what can be reserved (rule A1)."""
        crew = self._crew
        if crew._native is None or crew._lanes:  # the size of Python samples is known after the first
            return share
        while True:
            try:
                crew._open(crew._workers, self._reserve(share))
                return share
            except errors.StokerError as error:
                if error.status != "LIMIT" or share == 1:
                    raise
                share = (share + 1) // 2

    def _most(self, size: int) -> int:
        """Samples of that many bytes for which this rank has room: small ones lie in whole runs (plane/run)."""
        local, most = max(1, _plane._local_rank_and_world()[1]), self._loader.max_bytes or _MAX_BYTES
        return most // (local * (size + min(most // 4096, 64 << 10)))

    def _reserve(self, share: int) -> int:
        """Samples of a batch of which two are reserved, so many may be viewed at a time: the round that is collected, the one
        that is given, what the user has, and a quarter for size classes."""
        batch = _lane._batch_size(self._loader)
        return (5 * (2 * max(share, batch) + batch) + 3) // 4

    def _cut(self, size: int) -> None:
        """The same, of Python samples: by the size of the first."""
        if self._crew._native is not None or self._round > 0:
            return
        while self._share > 1 and 2 * self._reserve(self._share) > self._most(size):
            self._share = (self._share + 1) // 2
        self._ahead = self._in_flight()

    def _in_flight(self) -> int:
        """Samples that are asked for and not given yet: what the loader would have in flight without rounds, and at least
        the next round beside this one; three rounds are what there is memory for."""
        loader = self._loader
        batches = loader.prefetch_batches
        if batches is None:
            batches = loader.prefetch_factor * loader.num_workers
        return min(max(batches * _lane._batch_size(loader), 2 * self._share), 3 * self._share)

    def _ask(self) -> None:
        """Requests ahead. Those of the round come first: nobody may hold memory that a round of another rank needs."""
        inner, crew = self._inner, self._crew
        ahead = self._ahead
        if crew._native is None:
            ahead = min(ahead, 4 * self._most(self._largest) // 5 - self._share)
        while not inner._exhausted and (
            crew.outstanding + self._collected < self._share or crew.outstanding + self._held < ahead
        ):
            inner._try_put_index()
            if self._round == 0 and crew._native is None and not self._sized:
                break  # alone: it tells how many there is room for

    # ---- the samples of this rank

    def _pull(self):
        """The next sample of this rank; None at the end of its epoch. As the stock iterator, one index for one result."""
        crew = self._crew
        self._ask()
        if crew.outstanding == 0:
            return None
        index = crew._pending[0][2]
        while True:
            may_wait = self._may_wait
            try:
                data, batch = crew.next(self._loader.timeout) if may_wait else crew.poll()
                break
            except TimeoutError as error:
                if type(error) is not TimeoutError or error.args:
                    raise
                if may_wait:
                    raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds") from None
            yield
        self._state.counts["ready_s"] = crew.ready_s
        self._held += 1
        self._collected += 1
        self._largest = max(self._largest, batch.bytes)
        if not self._sized:
            self._sized = True
            self._cut(batch.bytes)
        if batch.bytes == 0 and len(self._members) > 1:
            self._check_private(batch)
        return _Sample(data, batch, index if crew._native is not None else None)

    def _check_private(self, batch) -> None:
        if batch.skeleton is None or len(batch.skeleton) > 0:
            raise errors.make(
                -23,
                "LIMIT",
                0,
                f"a round of {self._share} samples in each of {len(self._members)} ranks does not fit max_bytes: raise it,"
                " or lower buffer_size",
                "",
            )

    _sized = False
    _largest = 0  # bytes of the largest sample so far

    def _collect(self):
        """(samples, what is said of each, sizes of their batches, True at the end of the epoch)"""
        samples, said, sizes = [], [], []
        while not sizes or not self._units.sizes or sum(sizes) + self._units.sizes[0] <= self._share:
            if sizes and not self._units.sizes and sum(sizes) >= self._share:
                break
            sample = yield from self._pull()
            if sample is None:
                return samples, said, sizes, True
            size = self._units.sizes.popleft()
            for left in range(size, 0, -1):
                said.append(_balance.features_of(self._config.feature_fn, sample.data))
                samples.append(sample)
                sample = (yield from self._pull()) if left > 1 else None
            sizes.append(size)
        return samples, said, sizes, False

    # ---- a round

    def _prepare(self, may_wait: bool) -> None:
        """Goes on with the coming round, to its end if that may wait. What fails fails at the boundary: the batches before it
        are good."""
        if self._made is not None or self._ended:
            return
        if self._coming is None:
            self._coming = self._hold()
        self._may_wait = may_wait
        try:
            next(self._coming)
            return
        except StopIteration as end:
            made = end.value, None
        except (Exception, SystemExit) as error:
            made = None, error
        self._coming, self._made = None, made

    def _enter(self) -> None:
        """The coming round is the one that batches come from."""
        self._prepare(True)
        (made, failure), self._made = self._made, None
        if failure is not None:
            raise failure
        samples, sizes, told, assignment, self._ended = made
        if assignment:
            self._state.balance = {"round": self._round - 1, "taken": 0, "ranks": told, "assignment": assignment}
        held = self._crew._lanes[0].stats()["bytes_held"] if self._crew._lanes else 0
        held -= sum(sample.batch.bytes for sample in samples)
        copied = bool(sizes) and held > 2 * max(sizes) * max((sample.batch.bytes for sample in samples), default=0)
        for size in sizes:
            self._ready.append(([samples.popleft() for _ in range(size)], copied))
        self._collected = 0
        self._state.add("rounds", bool(assignment))

    def _hold(self):
        """One round, from the samples of this rank to those that it has after the exchange: a generator that yields where it
        would have to wait and may not."""
        failure, samples, sizes, last, said = None, [], [], True, []
        try:
            samples, said, sizes, last = yield from self._collect()
        except (Exception, SystemExit) as error:  # the others wait for this rank, also if it means to exit
            if len(self._members) == 1 or isinstance(error, errors.DataServerError):
                raise
            failure = error
        told = yield from self._tell(samples, sizes, last, said, failure)
        self._check_policies(told)
        features = [dict(one, rank=rank) for rank, what in told.items() for one in what["features"]]
        batches = {rank: len(what["sizes"]) for rank, what in told.items()}
        owners = [one["rank"] for one in features]
        assignment = yield from self._decide(features, owners, batches)
        mine = yield from self._exchange(samples, told, owners, assignment)
        if len(mine) != sum(sizes):
            sizes = [len(mine) // len(sizes) + (i < len(mine) % len(sizes)) for i in range(len(sizes))]
        self._members = [rank for rank, what in told.items() if not what["last"]]
        self._round += 1
        return mine, sizes, list(told), assignment, last

    def _at(self) -> int:
        """The number of a gathering: the iteration, which ranks begin at different times, and twice the round."""
        return (self._units.iteration << 32) + 2 * self._round

    def _tell(self, samples, sizes, last, said, failure):
        """What every rank says of its part of the round, by rank in the order of the list."""
        mine = {"sizes": sizes, "last": last, "features": said, "error": None, "index": [s.index for s in samples]}
        if failure is not None:
            mine = {"sizes": [], "last": True, "features": [], "error": _reason(failure), "index": []}
        mine["policy"] = self._policy()
        if len(self._members) == 1:
            if self._round == 0 and self._crew._lanes and _plane.rank_and_world()[1] > 1:
                _core.loader_gather(self._lane(), self._at(), [], b"")  # a rank whose list has this one must not wait
            return {self._rank: mine}
        told = dict(zip(self._members, (yield from self._gather(self._at(), mine, failure))))
        if failure is not None:
            raise failure
        for rank, what in told.items():
            if what["error"] is not None:
                raise errors.PeerError(
                    f"rank {rank} could not make its part of round {self._round}: {what['error']}", status="PEER"
                )
        return told

    def _policy(self) -> str:
        """What must be the same in all ranks, or one would wait for a sample that another keeps."""
        if self._config.sort_fn is not None:
            return "that of a sort_fn"
        gate = [f"{name}={_balance.option(self._config.args, name, 0.0)!r}" for name in ("min_gain", "transfer_cost")]
        return "the built-in one with " + ", ".join(gate)

    @staticmethod
    def _check_policies(told) -> None:
        (first, expected), *others = ((rank, what["policy"]) for rank, what in told.items())
        for rank, policy in others:
            if policy != expected:
                raise errors.CallerError(
                    f"the policy of rank {first} is {expected}, that of rank {rank} is {policy}: the load_balance_config of"
                    " ranks that exchange must be the same"
                )

    def _decide(self, features, owners, batches):
        """Each sample's rank."""
        if len(self._members) == 1:
            return owners
        config, made, failure = self._config, None, None
        if config.sort_fn is None:
            return _balance.check_assignment(_balance.gated_assignment(features, config.args), owners, batches)
        if self._rank == self._members[0] and features:
            try:
                mine = [dict(one) for one in features]  # it may change them
                made = _balance.check_assignment(_balance.call("sort_fn", config.sort_fn, mine, config.args), owners, batches)
            except (Exception, SystemExit) as error:
                failure = error
        answer = {"made": made, "error": None if failure is None else _reason(failure)}
        answer = answer if self._rank == self._members[0] else {}
        first = (yield from self._gather(self._at() + 1, answer, failure))[0]
        if failure is not None:
            raise failure
        if first["error"] is not None:
            raise errors.PeerError(f"sort_fn failed in rank {self._members[0]}: {first['error']}", status="PEER")
        return first["made"] or []

    def _gather(self, number: int, what, failure):
        """What each rank of the list says at that number."""
        lane = self._lane()
        self._number = number
        data = json.dumps(what).encode()
        with self._watched(failure):
            _core.loader_gather(lane, number, self._members, data)
            joined = yield from self._wait(lambda: _awaited.absent(self._rank, number), _core.loader_gathered, lane, number)
        parts, at = [], 0
        while at < len(joined):
            (size,) = struct.unpack_from("<I", joined, at)
            parts.append(json.loads(joined[at + 4 : at + 4 + size]))
            at += 4 + size
        return parts

    def _exchange(self, samples, told, owners, assignment):
        """This rank's samples after the exchange, in the order of the round."""
        ranks = list(told)
        numbers = {rank: number for number, rank in enumerate(ranks)}
        moves = _core.balance_plan(len(ranks), [numbers[r] for r in owners], [numbers[r] for r in assignment])
        indices = [index for what in told.values() for index in what["index"]]
        place = owners.index(self._rank) if samples else 0  # of this rank's first sample in the round
        mine = {place + i: sample for i, sample in enumerate(samples)}
        lane = self._lane() if moves else None
        samples.clear()
        sample = None
        awaited = {}  # number of a sample: the rank that gives it
        with self._watched(None):
            for number, source, target in moves:
                if ranks[source] == self._rank:
                    sample = mine.pop(number)
                    sample.data = None
                    self._give(lane, sample.batch, ranks[target], number)
                elif ranks[target] == self._rank:
                    awaited[number] = ranks[source]
            sample = None
            self._state.add("samples_given", sum(ranks[source] == self._rank for _, source, _ in moves))
            while awaited:
                batch, number = yield from self._take(lane, awaited.values())
                del awaited[number]
                index = indices[number]
                mine[number] = _Sample(self._crew._rebuild(batch, index), batch, index)
        return collections.deque(mine[number] for number in sorted(mine))

    def _take(self, lane, givers):
        """The next sample that another rank gave. A rank that has left in the meantime is missed by those it owes one."""
        while True:
            try:
                return (yield from self._wait(lambda: set(givers), _core.loader_take, lane, self._number))
            except errors.DataServerError as error:
                told = _LEFT.match(error.message)
                if told is None or int(told[1]) in givers:
                    raise

    def _give(self, lane, batch, rank, number) -> None:
        try:
            _core.loader_give(lane, batch, rank, self._number, number)
        except errors.StokerError as error:
            if error.status != "WRONG_STATE":
                raise
            gc.collect()  # views may wait in a cycle
            _core.loader_give(lane, batch, rank, self._number, number)

    def _lane(self):
        crew = self._crew
        if not crew._lanes:  # a native lane of a rank without samples
            crew._open(crew._workers, self._reserve(self._share))
        return crew._lanes[0]

    def _others(self) -> list:
        return [rank for rank in self._members if rank != self._rank]

    def _wait(self, absent, function, *arguments):
        """Ends with an answer, with an error that names the rank that cannot come, or after ``timeout``. ``absent()`` gives the
        ranks that it waits for, as far as that is known."""
        while not self._may_wait:
            try:
                return function(*arguments, 0)
            except TimeoutError:
                yield
        began_s = told_s = time.monotonic()
        while True:
            try:
                return function(*arguments, _SLICE_S)
            except TimeoutError:
                now_s = time.monotonic()
            _plane.drain_log()
            if self._loader.timeout > 0 and now_s - began_s > self._loader.timeout:
                raise RuntimeError(
                    f"DataLoader timed out after {self._loader.timeout} seconds: round {self._round} of the ranks"
                    f" {self._members} waits for {_awaited.named(absent() or self._others())}"
                )
            if now_s - told_s > _TELL_S:
                told_s = now_s
                waits_for = _awaited.named(absent() or self._others())
                _log.warning("round %d of the ranks %s waits for %s", self._round, self._members, waits_for)

    def _watched(self, failure):
        return _Watched(self._crew, failure)

    # ---- batches

    def next(self):
        began_s = time.perf_counter()
        if self._inner is None:
            raise StopIteration
        self._inner._check_process()
        try:
            while not self._ready:
                if self._ended:
                    self._give_back()
                    raise StopIteration
                self._enter()
            samples, copied = self._ready.popleft()
            self._held = self._collected + sum(len(batch) for batch, _ in self._ready)
            self._ask()
            self._prepare(False)
        except StopIteration:
            raise
        except BaseException:
            self._give_back()  # the round is lost on every rank
            raise
        self._state.balance["taken"] += 1
        data = self._build(samples, copied)
        ended_s = time.perf_counter()
        if self._state.counts["first_batch_s"] is None:
            self._state.counts["first_batch_s"] = ended_s - self._began_s
        self._state.count(ended_s - began_s)
        return data

    def _build(self, samples, copied):
        loader = self._loader
        if copied:  # the user keeps batches: rule A5
            for sample in samples:
                sample.data = _device.to_device(sample.data, torch.clone)
                self._state.add("bytes_moved", sample.batch.bytes)
                sample.batch = None
            self._state.add("copies", 1)
        parts = [sample.data for sample in samples]
        batches = [sample.batch for sample in samples]
        data = loader.collate_fn(parts) if loader._auto_collation else loader.collate_fn(parts[0])
        if not copied:
            self._state.add("bytes_moved", _bytes_outside(data, parts))
        if loader.pin_memory and torch.accelerator.is_available():
            data = stock_pin_memory(data, loader.pin_memory_device or None)
        return self._mover.move(data, batches) if self._mover is not None else data

    def _give_back(self) -> None:
        inner, self._inner = self._inner, None
        if inner is None:
            return
        self._ready.clear()
        coming, self._coming, self._made = self._coming, None, None
        if coming is not None:
            coming.close()
        crew = self._crew
        if len(self._config.members) > 1 and crew._lanes and not crew.broken:
            try:
                _core.loader_gather(crew._lanes[0], self._at(), [], b"")  # whoever waits for this rank is told
            except errors.StokerError:
                pass
        inner._give_back()

    def __del__(self) -> None:
        try:
            self._give_back()
        except Exception:  # at exit the client may be closed already
            pass


class _Watched:
    """A DataServer that is gone is noticed by the crew; a failure of this rank comes before what it makes of the others."""

    def __init__(self, crew, failure) -> None:
        self._crew, self._failure = crew, failure

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> None:
        if isinstance(error, errors.DataServerError) and not self._crew._lost():
            raise errors.PeerError(error.message, error.context, error.status) from None
        if error is not None and self._failure is not None and isinstance(error, Exception):
            raise self._failure from None


def _reason(error: BaseException) -> str:
    """The error's type and last line: an error of a worker has its traceback before that."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    kind, last = type(error).__name__, lines[-1].strip() if lines else ""
    return (last if last.startswith(kind) else f"{kind}: {last}")[:4096]


def _tensors(data):
    if isinstance(data, torch.Tensor):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from _tensors(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _tensors(value)


def _bytes_outside(data, parts) -> int:
    """Bytes of tensors that lie elsewhere than in the samples: each was copied once."""
    inside = {tensor.untyped_storage().data_ptr() for tensor in _tensors(parts)}
    return sum(t.numel() * t.element_size() for t in _tensors(data) if t.untyped_storage().data_ptr() not in inside)
