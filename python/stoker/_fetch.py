# SPDX-License-Identifier: Apache-2.0
"""Make one batch of a map-style Python dataset: read samples, apply the error policy, collate.

The same code runs in workers and, with ``num_workers=0``, in the training process, so that both give the same values.
It knows no framework. The rules are those of the stock loader (``__getitems__`` is honoured); the policy for bad
samples is stoker's:

* ``retries``: tries after the first, of a sample that raised;
* ``on_error="skip"``: the place of a bad sample is filled with the previous good one of its batch, else the next;
* ``on_error="replace"``: with the next good sample of the dataset (key + 1, key + 2, ... modulo its length, at most 8
  tries).

Errors of time or machine (MemoryError, TimeoutError, ConnectionError) are never skipped (rule C1).
"""

from __future__ import annotations

from collections import namedtuple

from . import _seeding, errors

__all__ = ["BatchRequest", "Fetcher", "REPLACE_TRIES", "reads_whole_batches"]

REPLACE_TRIES = 8
_MACHINE = (MemoryError, TimeoutError, ConnectionError)

#: One request of a rank. ``index`` is a list of keys, or one key without automatic collation; ``occurrences`` counts
#: earlier uses of each key in this iteration; ``base_seed`` and ``iteration`` are those of the stock loader's
#: workers; ``worker`` is the id of the worker that must make it (``seeding="worker"``), else None.
BatchRequest = namedtuple("BatchRequest", "index occurrences seed epoch base_seed iteration worker", defaults=(None,))

_BAD = object()


def reads_whole_batches(dataset) -> bool:
    """Does the dataset bring a ``__getitems__`` of its own? torch's Subset has one that merely passes the call on."""
    if type(dataset).__name__ == "Subset" and type(dataset).__module__ == "torch.utils.data.dataset":
        return reads_whole_batches(dataset.dataset)
    return bool(getattr(dataset, "__getitems__", None))


class Fetcher:
    """Fetches batches of one dataset. After a failure ``key`` says which sample raised (``None``: the collation)."""

    def __init__(self, dataset, collate_fn, auto_collation, on_error="raise", retries=0, per_sample_seed=True) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.auto_collation = auto_collation
        self.on_error = on_error
        self.retries = retries
        self.per_sample_seed = per_sample_seed
        self._whole = reads_whole_batches(dataset)
        self.key = None
        self.skipped = []  # (key, text of the error) of the last batch

    def fetch(self, request: BatchRequest):
        """The batch. A StopIteration of user code would end the epoch, so it becomes a RuntimeError (as in PEP 479)."""
        try:
            return self._fetch(request)
        except StopIteration as stop:
            key = self.key
            what = "the collate function" if key is None else f"sample {errors.show(key)}"
            error = RuntimeError(f"{what} raised StopIteration")
            error.sample_key = key
            raise error from stop

    def _fetch(self, request: BatchRequest):
        self.skipped = []
        self.key = None
        keys = request.index if self.auto_collation else [request.index]
        if not self.auto_collation:
            data = self._sample(request.index, request.occurrences[0], request)
        elif self._whole:
            self._seed_batch(keys, request)
            data = self.dataset.__getitems__(request.index)
        elif self.on_error == "raise":
            data = [self._sample(key, n, request) for key, n in zip(keys, request.occurrences)]
        else:
            data = self._samples_with_policy(keys, request)
        self.key = None
        self._seed_batch(keys, request)
        return self.collate_fn(data)

    def _seed_batch(self, keys, request) -> None:
        if self.per_sample_seed:
            _seeding.seed_all(_seeding.batch_digest(request.seed, request.epoch, keys, request.occurrences))

    def _sample(self, key, occurrence, request):
        self.key = key
        for attempt in range(self.retries + 1):
            if self.per_sample_seed:
                _seeding.seed_all(_seeding.sample_digest(request.seed, request.epoch, key, occurrence))
            _seeding.enter(request.seed, request.epoch, occurrence)
            try:
                return self.dataset[key]
            except Exception:
                if attempt == self.retries:
                    raise
            finally:
                _seeding.leave()
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _samples_with_policy(self, keys, request):
        data, last = [], None
        for key, occurrence in zip(keys, request.occurrences):
            try:
                data.append(self._sample(key, occurrence, request))
                continue
            except _MACHINE:
                raise
            except Exception as error:
                last = error
                self.skipped.append((key, errors.describe(error)))
            data.append(self._replacement(key, request) if self.on_error == "replace" else _BAD)
        if not any(sample is not _BAD for sample in data):
            try:
                if last is not None:
                    raise last
                return data
            finally:
                last = None  # an error holds this frame, and with it the samples
        last = None
        good = next(sample for sample in data if sample is not _BAD)  # stands in for leading bad ones
        for i, sample in enumerate(data):
            if sample is _BAD:
                data[i] = good
            else:
                good = sample
        return data

    def _replacement(self, key, request):
        for step in range(1, REPLACE_TRIES + 1):
            try:
                return self._sample((key + step) % len(self.dataset), 0, request)
            except _MACHINE:
                raise
            except Exception as error:
                last = error
        try:
            raise last
        finally:
            last = None
