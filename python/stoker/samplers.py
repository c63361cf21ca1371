# SPDX-License-Identifier: Apache-2.0
"""Batch samplers that give every rank near-equal token load in every step, and keep the mixture of the data.

Both are ``batch_sampler`` of ``stoker.torch.DistributedDataLoader`` and of the stock ``DataLoader``. Each rank makes its
own with the same arguments; all compute the same plan, and each yields its own part of it. torch is not imported.

>>> lengths = [100, 900, 120, 880, 110, 890, 130, 870]
>>> ranks = [TokenAwareBatchSampler(lengths, 2, num_replicas=2, rank=rank, seed=1) for rank in range(2)]
>>> [[sum(lengths[i] for i in batch) for batch in sampler] for sampler in ranks]
[[1020, 980], [1020, 980]]
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Iterator, Sequence

import numpy

from . import _core, _plane, _sampler_state, errors

__all__ = ["TokenAwareBatchSampler", "TokenBudgetBatchSampler"]

_NO_SHUFFLE, _DROP_LAST, _MIX_SHAPES, _NO_REPEAT = 1, 2, 4, 8
_WINDOWS_KEPT = 64  # whose steps state_dict() finds without planning again: loaders are a few steps ahead
_VERSION = 2  # of plans: 2 deals steps around samples that outweigh the mean


def _per_source(values) -> list:
    """A list of array-likes, one a source: ``values`` is the one of one source, or a list of such."""
    if isinstance(values, (list, tuple)) and len(values) > 0:
        first = values[0]
        if isinstance(first, (list, tuple)) or getattr(first, "ndim", 0) > 0:
            return list(values)
    return [values]


class _Window:
    """One planned window as arrays."""

    def __init__(self, first_step: int, plan: dict) -> None:
        self.first_step = first_step
        self.step_cells = numpy.frombuffer(plan["step_cells"], numpy.uint32)
        self.cell_places = numpy.frombuffer(plan["cell_places"], numpy.uint32)
        self.places = numpy.frombuffer(plan["places"], numpy.uint32)
        self.pool = numpy.frombuffer(plan["pool"], numpy.uint32)
        self.loads = numpy.frombuffer(plan["loads"], numpy.uint64)
        self.windows, self.samples = plan["windows"], plan["samples"]
        self.steps = len(self.step_cells) - 1

    def ids(self, begin: int, end: int) -> list[int]:
        """Samples of the cells from begin to end."""
        places = self.places[self.cell_places[begin] : self.cell_places[end]]
        pool = self.pool
        return pool[numpy.where(places < len(pool), places, (places - len(pool)) % max(len(pool), 1))].tolist()

    def used(self, steps: int) -> list[int]:
        """Places of the pool that the first `steps` steps use."""
        places = self.places[: self.cell_places[self.step_cells[steps]]]
        return numpy.unique(places[places < len(self.pool)]).tolist()


class _Run:
    """One pass through an epoch, from its start or from a loaded state."""

    def __init__(self, sampler: "_PlannedSampler", state: dict | None) -> None:
        self.sampler = sampler
        self.start = state
        self.epoch = sampler.epoch
        self.recipe = [dict(entry) for entry in (state["recipe"] if state else sampler._first_recipe())]
        self.step = 0  # yielded in this run
        self.kept: collections.deque[_Window] = collections.deque(maxlen=_WINDOWS_KEPT)
        pool = numpy.asarray(state["pool"] if state else [], numpy.uint32)
        self.planner = sampler._planner(self.epoch, self.recipe[0]["weights"], len(pool) + 1 if state else 0)
        self.skipped = 0  # steps of the first window that the run before had yielded
        if state:
            self._resume(state, pool)

    def _resume(self, state: dict, pool: numpy.ndarray) -> None:
        drawn = 0
        for entry in self.recipe[1:]:
            self.planner.skip(entry["window"] - drawn)
            self.planner.reweigh(numpy.asarray(entry["weights"], numpy.float64))
            drawn = entry["window"]
        self.planner.skip(state["windows"] - drawn)
        if self.recipe[-1]["weights"] != self.sampler._weights:
            self.recipe.append(self.sampler._switch(state["windows"], state["samples"]))
            self.planner.reweigh(numpy.asarray(self.sampler._weights, numpy.float64))
        if len(pool) == 0:
            return
        if all(state[name] == self.sampler._shape_of_step()[name] for name in ("ranks", "cells")):
            self.skipped = state["steps"]
        else:
            keep = numpy.ones(len(pool), bool)
            keep[numpy.asarray(state["used"], numpy.int64)] = False
            pool = numpy.ascontiguousarray(pool[keep])
        if len(pool):
            self.planner.open(pool)

    def windows(self) -> Iterator[tuple[_Window, int]]:
        """Windows and the first step of each that is still to come."""
        step = 0
        while True:
            plan = self.planner.next()
            if plan is None:
                return
            begin, self.skipped = self.skipped, 0
            window = _Window(step - begin, plan)
            if begin and (begin > window.steps or window.used(begin) != self.start["used"]):
                raise errors.CallerError(f"'pool' and 'used' of the state are not those of {begin} steps of this sampler")
            self.kept.append(window)
            yield window, begin
            step += window.steps - begin

    def state(self, step: int) -> dict:
        """The state after `step` steps of this run."""
        sampler = self.sampler
        common = {"version": _VERSION, "kind": sampler._kind, "epoch": self.epoch, "recipe": self.recipe,
                  **sampler._options(), **sampler._shape_of_step(), "window_samples": sampler._window_samples}
        if step == 0 and self.start is not None:
            return {**common, **{name: self.start[name] for name in ("windows", "samples", "pool", "used", "steps")},
                    **{name: self.start[name] for name in ("ranks", "cells")}}
        if step == 0:
            return {**common, "windows": 0, "samples": 0, "pool": [], "used": [], "steps": 0}
        for window in self.kept:
            if window.first_step < step <= window.first_step + window.steps:
                steps = step - window.first_step
                return {**common, "windows": window.windows, "samples": window.samples, "pool": window.pool.tolist(),
                        "used": window.used(steps), "steps": steps}
        if self.kept and step < self.kept[0].first_step + 1:  # long ago: plan once more
            again = _Run(sampler._at(self.epoch), self.start)
            for window, _ in again.windows():
                if step <= window.first_step + window.steps:
                    return again.state(step)
        raise errors.CallerError(f"{step} steps, this iteration has had {self.step}")


class _PlannedSampler:
    """What both samplers share: see :class:`TokenAwareBatchSampler`."""

    _kind = ""
    _budget = 0
    _budget_samples = 0

    def __init__(self, tokens, cells, shapes, weights, samples, num_replicas, rank, seed, flags, window_steps,
                 window_samples, linear_tokens) -> None:
        default = (0, 1) if num_replicas is not None and rank is not None else _plane.rank_and_world()
        whole = _sampler_state.whole
        replicas = default[1] if num_replicas is None else num_replicas
        self.num_replicas = whole("num_replicas", replicas, 1, _sampler_state.RANKS_MAX)
        self.rank = whole("rank", default[0] if rank is None else rank, 0)
        if self.rank >= self.num_replicas:
            raise errors.CallerError(f"rank={self.rank} of num_replicas={self.num_replicas}")
        if self.num_replicas * cells > _sampler_state.STEP_CELLS_MAX:
            raise errors.CallerError(
                f"{self.num_replicas} ranks with {cells} samples or micro-batches each, a step has at most"
                f" {_sampler_state.STEP_CELLS_MAX}"
            )
        self.seed, self.epoch = whole("seed", seed, -(1 << 63), (1 << 64) - 1), 0
        self._cells, self._flags = cells, flags
        self._linear = 0 if linear_tokens is None else whole("attention", linear_tokens, 0, (1 << 32) - 1)
        self._tokens = [_sampler_state.words(part, "tokens") for part in _per_source(tokens)]
        try:
            self._set_shapes(shapes)
        except TypeError as error:
            raise errors.CallerError(
                f"shapes is no list of one number, text or tuple a sample: {errors.describe(error)}"
            ) from None
        self._set_weights(weights, samples)
        self._digest = self._hash()
        self._window_samples = self._find_window(window_steps, window_samples)
        self._window_loaded = False
        self._resume: dict | None = None
        self._run: _Run | None = None
        self._lengths: dict = {}
        self._reset_stats()

    def _set_shapes(self, shapes) -> None:
        self.shapes: list = [None]  # what each shape number stands for
        self._shape_numbers: list = [None] * len(self._tokens)
        if shapes is None:
            return
        parts = list(shapes) if len(self._tokens) > 1 else [shapes]
        if len(parts) != len(self._tokens):
            raise errors.CallerError(f"shapes of {len(parts)} sources, tokens of {len(self._tokens)}")
        numbers: dict = {}
        for source, part in enumerate(parts):
            if isinstance(part, numpy.ndarray) or hasattr(part, "numpy"):
                part = numpy.asarray(part).tolist()
            keys = [tuple(key) if isinstance(key, list) else key for key in part]
            if len(keys) != len(self._tokens[source]):
                raise errors.CallerError(
                    f"source {source} has {len(keys)} shapes and {len(self._tokens[source])} samples"
                )
            self._shape_numbers[source] = numpy.fromiter(
                (numbers.setdefault(key, len(numbers)) for key in keys), numpy.uint32, len(keys)
            )
        self.shapes = list(numbers) or [None]

    def _set_weights(self, weights, samples) -> None:
        try:
            self._weights = None if weights is None else [float(weight) for weight in weights]
        except (TypeError, ValueError, OverflowError) as error:
            raise errors.CallerError(f"weights is no list of numbers: {errors.describe(error)}") from None
        if self._weights is not None and len(self._weights) != len(self._tokens):
            raise errors.CallerError(f"{len(self._weights)} weights for {len(self._tokens)} sources")
        total = sum(len(part) for part in self._tokens)
        if total == 0:
            raise errors.CallerError("tokens holds no samples, expected 1 or more")
        self._samples = total if samples is None else samples
        self._samples = _sampler_state.whole("samples", self._samples, 1, _sampler_state.SAMPLES_MAX)

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for tokens, shapes in zip(self._tokens, self._shape_numbers):
            digest.update(len(tokens).to_bytes(8, "little") + tokens.tobytes())
            digest.update(b"" if shapes is None else shapes.tobytes())
        return digest.hexdigest()

    def _find_window(self, window_steps, window_samples) -> int:
        """Samples of a window; the state keeps it, whatever the number of ranks becomes."""
        step = self.num_replicas * self._cells
        most = max(_sampler_state.WINDOW_MAX, 8 * step)
        size = 0 if window_samples is None else _sampler_state.whole("window_samples", window_samples, 0, most)
        if size:
            return size
        if self._budget:
            mean = sum(int(part.sum(dtype=numpy.uint64)) for part in self._tokens) / sum(map(len, self._tokens))
            each = max(1, int(self._budget / max(mean, 1)))
            each = min(each, self._budget_samples) if self._budget_samples else each
        else:
            each = 1
        if window_steps is not None:
            steps = _sampler_state.whole("window_steps", window_steps, 8)
            if steps * each * step > most:
                raise errors.CallerError(
                    f"window_steps={errors.show(steps)}, of about {each * step} samples each: a window has at most {most}"
                )
            return steps * each * step
        wanted = -(-max(8 * self._cells, 128) // self._cells) * each * step
        return min(wanted, most, max(self._samples, 8 * step))

    def _planner(self, epoch: int, weights, pool_samples: int):
        shares = weights if weights is not None else [0.0] * len(self._tokens)
        sources = [
            (tokens, shapes, share) for tokens, shapes, share in zip(self._tokens, self._shape_numbers, shares)
        ]
        pool_samples = max(pool_samples, int(self._window_loaded))  # the window of a state is that of other ranks
        try:
            return _core.BatchPlanner(
                sources, self.num_replicas, self._cells, self._budget, self._budget_samples, self._window_samples,
                len(self.shapes), self._linear, self._flags, pool_samples, self._samples, self.seed % (1 << 64), epoch,
            )
        except errors.MachineError as error:
            if error.status != "LIMIT":
                raise
            raise errors.CallerError(error.message, error.context) from None

    def _options(self) -> dict:
        return {"seed": self.seed, "length": self._samples, "digest": self._digest, "flags": self._flags,
                "linear_tokens": self._linear, "budget_tokens": self._budget, "budget_samples": self._budget_samples}

    def _shape_of_step(self) -> dict:
        return {"ranks": self.num_replicas, "cells": self._cells}

    def _first_recipe(self) -> list[dict]:
        return [{"window": 0, "sample": 0, "weights": self._weights}]

    def _switch(self, window: int, sample: int) -> dict:
        return {"window": window, "sample": sample, "weights": self._weights}

    def _at(self, epoch: int):
        """A sampler with the same plan, in another epoch."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.epoch = epoch
        return other

    # ---- use ----

    def set_epoch(self, epoch: int) -> None:
        """Another epoch has another order. Forgets a loaded state of any other epoch."""
        self.epoch = _sampler_state.whole("epoch", epoch, 0, (1 << 64) - 1)
        if self._resume is not None and self._resume["epoch"] != self.epoch:
            self._resume = None

    def global_steps(self) -> Iterator[list[list[list[int]]]]:
        """The plan of the epoch for all ranks: of each step, of each rank, of each cell, the ids.

        A cell is one sample, or one micro-batch; an empty one is padding. A loaded state does not matter.
        """
        for window, begin in _Run(self._at(self.epoch), None).windows():
            for step in range(begin, window.steps):
                first, end = int(window.step_cells[step]), int(window.step_cells[step + 1])
                rows = (end - first) // self.num_replicas
                yield [[window.ids(first + rank * rows + row, first + rank * rows + row + 1) for row in range(rows)]
                       for rank in range(self.num_replicas)]

    def _iterate(self) -> Iterator[tuple[_Run, _Window, int]]:
        """Steps of a new run; each is counted when the next is asked for or the iterator ends."""
        run = _Run(self, self._resume)
        self._run, self._resume = run, None
        self._reset_stats()
        for window, begin in run.windows():
            for step in range(begin, window.steps):
                self._count(window, step)
                yield run, window, step

    def _cell_range(self, window: _Window, step: int) -> tuple[int, int]:
        first, end = int(window.step_cells[step]), int(window.step_cells[step + 1])
        rows = (end - first) // self.num_replicas
        return first + self.rank * rows, first + (self.rank + 1) * rows

    # ---- statistics ----

    def _reset_stats(self) -> None:
        ranks = self.num_replicas
        self._totals = {"steps": 0, "most": 0, "sum": 0}
        self._rank_tokens = numpy.zeros(ranks, numpy.uint64)
        self._rank_load = numpy.zeros(ranks, numpy.uint64)
        self._rank_shapes = numpy.zeros((ranks, len(self.shapes)), numpy.uint64)
        self._flat = None

    def _flat_tables(self):
        if self._flat is None:
            shapes = [numpy.zeros(len(tokens), numpy.uint32) if numbers is None else numbers
                      for tokens, numbers in zip(self._tokens, self._shape_numbers)]
            self._flat = (self._tokens[0], shapes[0]) if len(shapes) == 1 else (
                numpy.concatenate(self._tokens), numpy.concatenate(shapes))
        return self._flat

    def _count(self, window: _Window, step: int) -> None:
        tokens, shapes = self._flat_tables()
        ranks = self.num_replicas
        first, end = int(window.step_cells[step]), int(window.step_cells[step + 1])
        bounds = window.cell_places[first : end + 1].astype(numpy.int64)
        places = window.places[bounds[0] : bounds[-1]]
        ids = window.pool[numpy.where(places < len(window.pool), places, (places - len(window.pool)) % len(window.pool))]
        owner = numpy.repeat(numpy.arange(ranks), numpy.diff(bounds[:: (end - first) // ranks]))
        numpy.add.at(self._rank_tokens, owner, tokens[ids].astype(numpy.uint64))
        numpy.add.at(self._rank_shapes, (owner, shapes[ids]), numpy.uint64(1))
        loads = window.loads[step * ranks : (step + 1) * ranks]
        self._rank_load += loads
        self._totals["steps"] += 1
        self._totals["most"] += int(loads.max())
        self._totals["sum"] += int(loads.sum())

    def stats(self) -> dict:
        """What the steps of the latest iteration gave to each rank, as far as they have been yielded.

        ``steps``; ``tokens`` and ``load`` (lists, one number a rank); ``shapes`` (shape: list of counts, one a rank);
        ``wait`` (sum over steps of the largest load, divided by that of the mean load: 1.0 is perfect).
        """
        counts = {shape: self._rank_shapes[:, number].tolist() for number, shape in enumerate(self.shapes)}
        mean = self._totals["sum"] / self.num_replicas
        return {"steps": self._totals["steps"], "tokens": self._rank_tokens.tolist(),
                "load": self._rank_load.tolist(), "shapes": counts,
                "wait": self._totals["most"] / mean if mean else 1.0}

    # ---- state ----

    def state_dict(self, batches: int | None = None) -> dict:
        """Where the latest iteration stands; plain numbers and texts, the same on every rank.

        Args:
            batches: how many batches of that iteration were used; default: all that the sampler has yielded. A loader
                that works ahead has taken more from the sampler than it has returned: pass what was returned.
        """
        if self._run is None:
            if self._resume is not None:
                return dict(self._resume)
            return _Run(self, None).state(0)
        yielded = self._yielded()
        wanted = yielded if batches is None else _sampler_state.whole("batches", batches, 0)
        if wanted > yielded:
            raise errors.CallerError(f"batches={batches}, this iteration has had {yielded}")
        return self._run.state(self._steps_of(wanted))

    def load_state_dict(self, state: dict) -> None:
        """Go on where that state stands, with the next iteration.

        The number of ranks and of samples or micro-batches a step may be another than when it was saved. Other weights
        count from the next window; the state's ``recipe`` says from which sample on. Everything else must be the same. A state
        whose numbers cannot be, or do not agree with one another, is refused by the name of the field, and changes nothing.
        """
        known = isinstance(state, dict) and all(isinstance(state.get(name), (int, str)) for name in ("version", "kind"))
        if not known or state["version"] != _VERSION or state["kind"] != self._kind:
            raise errors.CallerError(f"this is no state of a {type(self).__name__} of version {_VERSION}")
        state = _sampler_state.checked(state, self._options(), len(self._tokens), sum(map(len, self._tokens)))
        if self._weights is None and state["recipe"][-1]["weights"] is not None:
            raise errors.CallerError("'recipe' of the state has weights, this sampler has none")
        self._window_samples, self._window_loaded = state["window_samples"], True
        self._lengths.clear()
        self.epoch = state["epoch"]
        self._resume, self._run = state, None

    def _yielded(self) -> int:
        return self._run.step if self._run is not None else 0

    def _steps_of(self, batches: int) -> int:
        return batches


class TokenAwareBatchSampler(_PlannedSampler):
    """Batches of a fixed number of samples, so that all ranks have near-equal load in each step.

    An epoch is cut into windows of a fixed number of samples, each with the mixture of the whole: every shape has its
    share within one sample. Inside a window samples of one shape and of alike load go to the ranks of one step; steps
    are never sorted by length. The order depends on (``seed``, epoch) only, the windows not on the number of ranks.

    Args:
        tokens: tokens, latents or any other load of each sample, integers of 1 or more: list, array or tensor of shape
            (samples,). Of several sources: a list of such; ids then count through all, as in ``ConcatDataset``.
        batch_size: samples of one rank in one step.
        shapes: what tells samples of another shape apart, such as (frames, height, width); of each sample. Default: all
            are alike.
        weights: share of each source; sources are then drawn again from their start. Default: each sample once.
        samples: of the epoch, all ranks together. Default: as many as the sources hold.
        repeat: with ``weights``, False makes it an error when a source ends before the epoch.
        num_replicas, rank: default as ``DistributedDataLoader``'s: of ``torch.distributed`` or the environment.
        shuffle: False keeps samples of each shape in the order of their ids.
        drop_last: leave out the samples that fill no step, instead of repeating some so that all ranks have as many.
        window_steps: steps of a window, 8 or more. Default: 8, or as many as 128 samples of a rank need; no
            more than the epoch has.
        window_samples: the same as a number of samples.
        attention: the load of L tokens is L + L * L / attention. Default: L.

    Iterating yields lists of ids. Raises :class:`stoker.errors.CallerError` for arguments that make no sense, and for whole
    numbers that are none or too large; no number is cut.
    """

    _kind = "token_aware"

    def __init__(self, tokens, batch_size: int, *, shapes=None, weights: Sequence[float] | None = None,
                 samples: int | None = None, repeat: bool = True, num_replicas: int | None = None,
                 rank: int | None = None, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                 window_steps: int | None = None, window_samples: int | None = None,
                 attention: int | None = None) -> None:
        flags = (0 if shuffle else _NO_SHUFFLE) | (_DROP_LAST if drop_last else 0) | (0 if repeat else _NO_REPEAT)
        self.batch_size = _sampler_state.whole("batch_size", batch_size, 1, _sampler_state.STEP_CELLS_MAX)
        self.drop_last = drop_last
        super().__init__(tokens, self.batch_size, shapes, weights, samples, num_replicas, rank, seed, flags, window_steps,
                         window_samples, attention)
        self._planner(0, self._weights, 0)  # says now what is wrong

    def __iter__(self) -> Iterator[list[int]]:
        for run, window, step in self._iterate():
            run.step += 1
            yield window.ids(*self._cell_range(window, step))

    def __len__(self) -> int:
        step = self.num_replicas * self.batch_size
        return self._samples // step if self.drop_last else -(-self._samples // step)


class TokenBudgetBatchSampler(_PlannedSampler):
    """Micro-batches under a token budget, as many on every rank, with near-equal load in each step.

    Windows, mixture and order as with :class:`TokenAwareBatchSampler`. The samples of a window are put into
    micro-batches of one shape, longest first, each into the fullest one that has room; a sample over the budget is
    alone. All ranks have the same number of micro-batches (nothing waits for a rank that has none): where they do not
    come out even, large ones are split, and where there are too few samples for that, a micro-batch is *padding*: it
    holds one short sample again, and ``is_padding(n)`` says so, so that its loss is left out.

    Args:
        tokens, shapes, weights, samples, repeat, num_replicas, rank, seed, shuffle, window_samples, attention: as with
            :class:`TokenAwareBatchSampler`.
        budget: tokens of one micro-batch.
        micro_batches: of one rank in one step; all ranks have near-equal sums over them.
        max_samples: most samples of one micro-batch.
        mix_shapes: samples of several shapes may share a micro-batch (for packed sequences).
        window_steps: steps that a window has about.

    Iterating yields one list of ids a micro-batch. Raises as :class:`TokenAwareBatchSampler`.
    """

    _kind = "token_budget"

    def __init__(self, tokens, budget: int, *, micro_batches: int = 1, max_samples: int | None = None,
                 mix_shapes: bool = False, shapes=None, weights: Sequence[float] | None = None,
                 samples: int | None = None, repeat: bool = True, num_replicas: int | None = None,
                 rank: int | None = None, seed: int = 0, shuffle: bool = True, window_steps: int | None = None,
                 window_samples: int | None = None, attention: int | None = None) -> None:
        flags = (0 if shuffle else _NO_SHUFFLE) | (_MIX_SHAPES if mix_shapes else 0) | (0 if repeat else _NO_REPEAT)
        whole = _sampler_state.whole
        self.budget = self._budget = whole("budget", budget, 1, (1 << 32) - 1)
        self.micro_batches = whole("micro_batches", micro_batches, 1, _sampler_state.STEP_CELLS_MAX)
        self._budget_samples = 0 if max_samples is None else whole("max_samples", max_samples, 0, (1 << 32) - 1)
        self._padding: set[int] = set()
        super().__init__(tokens, self.micro_batches, shapes, weights, samples, num_replicas, rank, seed, flags,
                         window_steps, window_samples, attention)
        self._planner(0, self._weights, 0)

    def __iter__(self) -> Iterator[list[int]]:
        self._padding = padding = set()
        self._yielded_here = 0
        tokens = None
        for run, window, step in self._iterate():
            first, end = self._cell_range(window, step)
            for cell in range(first, end):
                ids = window.ids(cell, cell + 1)
                if not ids:
                    if tokens is None:
                        tokens = self._flat_tables()[0]
                    padding.add(self._yielded_here)
                    ids = [int(window.pool[int(tokens[window.pool].argmin())])]
                self._yielded_here += 1
                if cell == end - 1:
                    run.step += 1
                yield ids

    def is_padding(self, batch: int) -> bool:
        """Whether micro-batch ``batch`` of the latest iteration (counted from 0) is padding: leave its loss out."""
        return batch in self._padding

    def __len__(self) -> int:
        """Micro-batches of one rank in an epoch. Plans the epoch once."""
        key = (self.epoch, self._window_samples)
        if key not in self._lengths:
            steps = sum(window.steps for window, _ in _Run(self._at(self.epoch), None).windows())
            self._lengths = {key: steps * self.micro_batches}
        return self._lengths[key]

    def _yielded(self) -> int:
        return self._yielded_here if self._run is not None else 0

    def _steps_of(self, batches: int) -> int:
        if batches % self.micro_batches:
            raise errors.CallerError(
                f"{batches} micro-batches are inside a step of {self.micro_batches}: save the state between steps"
            )
        return batches // self.micro_batches
