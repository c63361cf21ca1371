# SPDX-License-Identifier: Apache-2.0
"""The loader for PyTorch: ``torch.utils.data.DataLoader`` with its arguments and its batches, fed by stoker's plane.

>>> from stoker.torch import DistributedDataLoader
>>> loader = DistributedDataLoader(range(6), batch_size=4)
>>> [batch.tolist() for batch in loader]
[[0, 1, 2, 3], [4, 5]]
"""

from __future__ import annotations

import inspect
import itertools
import operator
import os

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, MapDataPipe
from torch.utils.data._utils.collate import default_collate

from . import _balance, _fanout, _fetch, _iterate, _lane, _plane, _rounds, errors
from ._balance import keep_current_assignment, projected_gain, rebalance_assignment
from ._fanout import Padded

__all__ = [
    "DistributedDataLoader",
    "Padded",
    "keep_current_assignment",
    "projected_gain",
    "rebalance_assignment",
]

_launched = None  # the load_balance_config of launch()
_balanced = itertools.count()  # loaders with one, of this process: ranks match theirs by it
_STOCK = frozenset(inspect.signature(DataLoader.__init__).parameters)


def _refuse(what: str, why: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(f"{what} is refused: {why}")


class DistributedDataLoader(DataLoader):
    """``torch.utils.data.DataLoader`` on stoker's plane. All arguments of the installed version keep their meaning.

    With a world of more than one rank (``torch.distributed``, or RANK and WORLD_SIZE) and neither ``sampler`` nor
    ``batch_sampler``, the dataset is sharded as by ``DistributedSampler(dataset, shuffle=shuffle, seed=seed,
    drop_last=False)``.

    Arguments of stoker's own (all by name):
        prefetch_batches: batches in flight, instead of ``prefetch_factor * num_workers``; 0 makes each batch when it is
            asked for.
        max_bytes: shared memory that the loader may use on this host, for all ranks; default 2 GiB.
        on_error: what happens to a sample that raises: ``"raise"`` (at the ``next()`` of its batch), ``"skip"`` (its
            place is filled with the previous good sample of the batch, else the next) or ``"replace"`` (with the next
            good one of the dataset).
        retries: tries after the first, of a sample that raises; default 0.
        scheduler: ``"deadline"`` is the only one there is.
        policy: how the DataServer of this job places batches: ``"deadline"``, ``"cost"``, ``"least_request"`` or
            ``"round_robin"``; default: what it does, which is ``"deadline"`` unless its environment has STOKER_POLICY.
            All loaders of a job have one: the first one that is used chooses, and another is refused then.
        data_deadline_s: input wait in seconds above which a step counts as missed in :meth:`stats`; default 0.010.
        fan_out: split each batch of a Python dataset into this many requests; needs the default collate function.
            Native datasets always spread the samples of a batch.
        pad_value: pad variable-shape tensors to the maximum of the batch: each tensor field of at least one dimension
            becomes ``Padded(data, lengths)``; ``lengths`` is int64, of shape (batch,) for one-dimensional samples,
            else (batch, dimensions).
        name: matches this loader with those of the other ranks; default: order of creation.
        seeding: ``"sample"`` seeds random, NumPy and torch before each sample from (seed, epoch, sample, occurrence);
            ``"worker"`` is the stock rule (batch i on worker i mod num_workers, seeded when it starts).
        shard: ``"auto"`` or ``"none"`` (never shard).
        share_workers: only False.
        device: copy batches to this device on a stream of stoker's own.
        seed: of the default ``DistributedSampler`` (default 0) and of ``seeding="sample"`` (default: the initial seed
            of ``generator`` or of torch).
        stall_limit_s: a worker that is busy longer with one task is replaced; default 300.

        load_balance_config: redistribute made samples between ranks of this host before they become batches: a dict with
            ``feature_fn(sample)`` (a small dict of numbers), ``sort_fn(features, args)`` (each sample's rank; default:
            rebalance if it gains ``args.min_gain``), ``client_ranks`` (disjoint lists of ranks that exchange; default: all),
            ``buffer_size`` (samples of one round in all ranks of a list; default 64) and ``args``. Samples change their
            owner without a byte moving; the default collate function then copies each once (``collate_fn=list`` does not).
            Needs workers. docs/how-to/redistribute.md.

    cost_profile: path of the rows that ``stoker profile`` wrote, from which predictions of what samples cost start.

    Arguments for native datasets (decoded by workers without Python):
        isolation: ``"auto"``: workers give up the system calls that a decoder has no need of, where the machine can do
            that; ``"on"``: or the loader fails; ``"off"``.
        worker_max_bytes: private memory that one worker may use; a sample that needs more is bad; default: no limit.
        sample_timeout_s: CPU seconds that one sample may take; one that takes more is bad; default 120, ``math.inf``
            for no limit.
        quarantine: path of a list of bad files (SQLite), made if it does not exist. What is on it when the iteration
            begins is passed over, whatever ``on_error`` is; what fails is added. See :attr:`quarantined`.

    Errors at ``next()``: what a Python dataset raised, as in the stock loader, with ``sample_key``;
    :class:`stoker.SampleError` for a file of a native dataset; :class:`stoker.errors.DataServerError` when the
    DataServer is gone.

    One iteration belongs to one thread.
    """

    def __init__(
        self,
        dataset,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler=None,
        batch_sampler=None,
        num_workers: int = 0,
        collate_fn=None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_batches: int | None = None,
        max_bytes: int | None = None,
        on_error: str = "raise",
        retries: int = 0,
        scheduler: str = "deadline",
        policy: str | None = None,
        data_deadline_s: float = 0.010,
        fan_out: int = 1,
        pad_value: float | None = None,
        name: str | None = None,
        seeding: str = "sample",
        shard: str = "auto",
        share_workers: bool = False,
        device=None,
        seed: int | None = None,
        stall_limit_s: float | None = None,
        isolation: str = "auto",
        worker_max_bytes: int | None = None,
        sample_timeout_s: float | None = None,
        quarantine: str | os.PathLike | None = None,
        cost_profile: str | os.PathLike | None = None,
        load_balance_config: dict | None = None,
        **stock,
    ) -> None:
        known = {"prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"} & _STOCK
        for argument in set(stock) - known:
            if argument in _STOCK:
                raise _refuse(f"{argument}=", f"stoker does not know this argument of torch {torch.__version__} yet")
            raise TypeError(f"DistributedDataLoader() got an unexpected keyword argument {argument!r}")
        _check_dataset(dataset)
        if multiprocessing_context is not None:
            raise _refuse(
                "multiprocessing_context=",
                "workers are neither forked from nor spawned by this process; they come from a template process that"
                " loads the dataset once",
            )
        if scheduler != "deadline":
            raise _refuse(f"scheduler={scheduler!r}", "'deadline' (earliest deadline first) is the only scheduler")
        if policy not in (None, *_plane.POLICIES):
            names = ", ".join(repr(name) for name in _plane.POLICIES)
            raise errors.CallerError(f"policy={policy!r} is none of {names}")
        if policy is not None and num_workers == 0:
            raise _refuse(f"policy={policy!r}", "with num_workers=0 batches are made in this process, and none is placed")
        if share_workers:
            raise _refuse(
                "share_workers=True",
                "workers of Python datasets belong to one rank, so that get_worker_info() and worker_init_fn keep their"
                " meaning; native datasets share all workers of the host anyway",
            )
        if seeding not in ("sample", "worker"):
            raise errors.CallerError(f"seeding={seeding!r} is neither 'sample' nor 'worker'")
        if shard not in ("auto", "none"):
            raise errors.CallerError(f"shard={shard!r} is neither 'auto' nor 'none'")
        if on_error not in ("raise", "skip", "replace"):
            raise errors.CallerError(f"on_error={on_error!r} is none of 'raise', 'skip', 'replace'")
        if isolation not in ("auto", "on", "off"):
            raise errors.CallerError(f"isolation={isolation!r} is none of 'auto', 'on', 'off'")
        prefetch_batches = _whole("prefetch_batches", prefetch_batches)
        retries = _whole("retries", retries)
        max_bytes = _whole("max_bytes", max_bytes)
        worker_max_bytes = _whole("worker_max_bytes", worker_max_bytes)
        stall_limit_s = _seconds("stall_limit_s", stall_limit_s)
        sample_timeout_s = _seconds("sample_timeout_s", sample_timeout_s)
        rank, world = _plane.rank_and_world()
        self._sharded = shard == "auto" and world > 1 and sampler is None and batch_sampler is None
        if self._sharded:
            sampler = DistributedSampler(
                dataset, num_replicas=world, rank=rank, shuffle=bool(shuffle), seed=seed or 0, drop_last=False
            )
            shuffle = None
        if collate_fn is None and (batch_size is not None or batch_sampler is not None):
            collate_fn = _lane.own_collate(dataset)
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            None,
            generator,
            **stock,
        )
        self._native = _lane.native_view(dataset, on_error) if pad_value is None and self._runs_native() else None
        self._check_policy(on_error, fan_out, pad_value, seeding)
        given = {"worker_max_bytes": worker_max_bytes, "sample_timeout_s": sample_timeout_s, "quarantine": quarantine}
        self._check_native(given, isolation)
        self.prefetch_batches = prefetch_batches
        self.max_bytes = max_bytes or 0
        self.on_error = on_error
        self.retries = retries
        self.scheduler = scheduler
        self.policy = policy
        self.data_deadline_s = data_deadline_s
        self.fan_out = fan_out
        self.pad_value = pad_value
        self.name = name
        self.seeding = seeding
        self.device = torch.device(device) if device is not None else None
        self.seed = seed
        self.stall_limit_s = stall_limit_s
        self.isolation = isolation
        self.worker_max_bytes = worker_max_bytes
        self.sample_timeout_s = sample_timeout_s
        self.quarantine = None if quarantine is None else os.fspath(quarantine)
        self.cost_profile = None if cost_profile is None else os.fspath(cost_profile)
        self._epoch = None
        self._epoch_seen = None
        self._iterations = 0
        self._state = _iterate.State(data_deadline_s)
        self._balance = self._inner = None
        self._set_up_balance(_launched if load_balance_config is None else load_balance_config, rank, world)

    def _set_up_balance(self, config, rank: int, world: int) -> None:
        """Tier 2: a loader of single samples inside makes them, in rounds."""
        if config is None:
            return
        balance = _balance.Config(config, rank, world)
        reasons = {
            "num_workers=0": self.num_workers == 0 and "samples made in next() lie in no memory that could change its owner",
            "on_error='skip'": self.on_error == "skip" and "a sample shares its memory with none; 'replace' makes another",
            f"fan_out={self.fan_out}": self.fan_out > 1 and "samples are made one by one anyway",
            "pad_value=": self.pad_value is not None and "samples are put together in the rank; pad in collate_fn",
            "seeding='worker'": self.seeding == "worker" and "samples are made by any worker",
            "in_order=False": not self.in_order and "a round has one order on all ranks",
        }
        for argument, reason in reasons.items():
            if reason:
                raise _refuse(f"{argument} with load_balance_config", reason)
        if self.name is None:
            self.name = f"stoker.balance/{next(_balanced)}"
        self._balance = balance

    @classmethod
    def launch(cls, *, load_balance_config: dict | None = None) -> None:
        """Connect this process to the DataServer of its job, which may have been started separately (else it is started), and
        make ``load_balance_config`` the default of the loaders that are made from now on.

        Raises :class:`stoker.errors.CallerError` for a config that cannot be, and :class:`stoker.errors.DataServerError` if
        no DataServer can be had.
        """
        global _launched
        if load_balance_config is not None:
            _balance.Config(load_balance_config, *_plane.rank_and_world())
        _plane.client()
        _launched = load_balance_config

    @property
    def balance_state(self) -> dict | None:
        """The round of samples that batches come from: ``{"round": number, "taken": batches of it that next() returned,
        "ranks": list, "assignment": each sample's rank}``; None before the first, and without ``load_balance_config``."""
        state = self._state.balance
        return None if state is None else dict(state)

    def _runs_native(self) -> bool:
        """Native decoding gives what the default functions would give; any other needs Python in the workers."""
        stock = torch.utils.data._utils.collate.default_convert
        if self._auto_collation:
            stock = _lane.own_collate(self.dataset) or default_collate
        return self.collate_fn is stock and self.worker_init_fn is None and self.num_workers > 0

    def _check_policy(self, on_error, fan_out, pad_value, seeding) -> None:
        getitems = self._native is None and _fetch.reads_whole_batches(self.dataset)
        if on_error != "raise" and (getitems or not self._auto_collation):
            why = "__getitems__ reads a whole batch" if getitems else "without automatic collation there is no batch"
            raise _refuse(f"on_error={on_error!r}", why + ", so one sample cannot be told from the others")
        if fan_out < 1:
            raise errors.CallerError(f"fan_out={fan_out!r} is not positive")
        if fan_out > 1 or pad_value is not None:
            argument = f"fan_out={fan_out}" if fan_out > 1 else f"pad_value={pad_value!r}"
            if getitems:
                raise _refuse(argument, "the dataset has __getitems__, which reads a whole batch")
            if not self._auto_collation or self.collate_fn is not default_collate:
                raise _refuse(argument, "only batches of the default collate function can be put together from parts")
            if fan_out > 1 and not self.in_order:
                raise _refuse(argument, "with in_order=False the parts of a batch could not be told apart")
        if seeding == "worker" and not self.in_order:
            raise _refuse("seeding='worker'", "with in_order=False batch i does not belong to worker i mod num_workers")
        if pad_value is not None:
            self.collate_fn = _fanout.PaddingCollate(pad_value)

    def _check_native(self, given: dict, isolation: str) -> None:
        """Options of native workers mean nothing where Python makes the samples."""
        if self._native is not None:
            files = isinstance(self._native, _lane.NativeView)
            if given["quarantine"] is not None and not files:
                raise _refuse("quarantine=", "samples of this dataset are no files")
            if given["quarantine"] is not None and self._native.owner is not None:
                raise _refuse("quarantine=", "a sample in the place of a bad one would have the bad one's fields")
            return
        why = "num_workers=0 makes them in this process" if self.num_workers == 0 else "they run the dataset's own code"
        for argument, value in given.items():
            if value is not None:
                raise _refuse(f"{argument}=", f"samples of this loader are not made by native workers: {why}")
        if isolation == "on":
            raise _refuse("isolation='on'", f"samples of this loader are not made by native workers: {why}")

    @property
    def quarantined(self) -> dict | None:
        """What the quarantine list leaves out of this loader's results: ``{"digest": hexadecimal SHA-256, "entries":
        number}``, known from the first iteration on; else None. Part of what fixes the results, so of a saved state."""
        return self._state.quarantined

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the sampler (if it has one) and of the samples' randomness, with persistent workers too."""
        self._epoch = int(epoch)
        for holder in (self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None)):
            if hasattr(holder, "set_epoch"):
                holder.set_epoch(epoch)

    def _get_iterator(self):
        if self._balance is not None:
            self.check_worker_number_rationality()
            if self._inner is None:
                self._inner = _rounds.make_inner(self, DistributedDataLoader)
                self._inner[0].policy = self.policy
            return _rounds.RoundIterator(self)
        if self.num_workers == 0:
            return _iterate.InProcessIterator(self)
        self.check_worker_number_rationality()
        return _iterate.PlaneIterator(self)

    def _randomness(self) -> tuple[int, int]:
        """(seed, epoch) of an iteration that begins. Without set_epoch() each iteration is an epoch of its own."""
        if self.seed is not None:
            seed = self.seed
        else:
            seed = (self.generator or torch.default_generator).initial_seed()
        if self._epoch is not None:
            return seed, self._epoch
        epoch = getattr(self.sampler, "epoch", 0)
        epoch = epoch if isinstance(epoch, int) else 0
        if epoch != self._epoch_seen:  # someone called set_epoch() of the sampler
            self._epoch_seen, self._iterations = epoch, 0
        self._iterations += 1
        return seed, epoch + ((self._iterations - 1) << 32)

    def stats(self) -> dict:
        """Counters of this loader in this rank.

        steps, deadline_misses (input wait above ``data_deadline_s``), wait_s (sum of input waits), first_batch_s
        (from ``iter()`` to the first batch, cold start), ready_s (batch-ready latency of the last batch: from its
        request until it was ready here), samples_skipped, tasks_retried, copies (batches handed out as private
        copies), failures. With ``load_balance_config`` also rounds, samples_given (to other ranks) and bytes_moved (copied in
        this rank, by the collate function or because the user keeps batches; an exchange moves none).
        """
        state = self._state
        held = state.idle.stats() if state.idle is not None else {}
        names = ("samples_skipped", "tasks_retried", "copies", "failures")
        if self._balance is not None:
            inner = self._inner[0].stats() if self._inner is not None else {}
            held = {name: inner.get(name, 0) for name in names}
            names += ("rounds", "samples_given", "bytes_moved")
        return {**state.counts, **{name: state.totals.get(name, 0) + held.get(name, 0) for name in names}}

    def close(self) -> None:
        """End the workers of this loader. Batches stay valid; iterating again starts new workers."""
        iterator = self._iterator
        if iterator is not None:
            self._iterator = None
            iterator._give_back()
        idle, self._state.idle = self._state.idle, None
        if idle is not None:
            self._state.retire(idle)
        if self._inner is not None:
            self._inner[0].close()

    def __del__(self) -> None:
        state = self.__dict__.get("_state")
        if state is not None:
            state.abandon()


def _whole(argument: str, value) -> int | None:
    """A number of things, not below 0."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.CallerError(f"{argument}={value!r} is no whole number") from None
    if number < 0:
        raise errors.CallerError(f"{argument}={value!r} is negative")
    return number


def _seconds(argument: str, value) -> float | None:
    """A duration above 0."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise errors.CallerError(f"{argument}={value!r} is no number of seconds") from None
    if not number > 0:
        raise errors.CallerError(f"{argument}={value!r} is not above 0 seconds")
    return number


def _check_dataset(dataset) -> None:
    if isinstance(dataset, IterableDataset):
        raise _refuse(
            f"dataset of type {type(dataset).__name__}",
            "an iterable-style dataset has no sample ids, so order, sharding and retries cannot be promised; use a"
            " map-style dataset",
        )
    if isinstance(dataset, MapDataPipe):
        raise _refuse(
            f"dataset of type {type(dataset).__name__}", "MapDataPipe shards itself inside workers; use a Dataset"
        )
