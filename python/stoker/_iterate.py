# SPDX-License-Identifier: Apache-2.0
"""What ``iter()`` of a DistributedDataLoader gives: iterators in this process and over the plane, and what a loader
shares with them, which may outlive it."""

from __future__ import annotations

import os
import threading
import time

from torch.utils.data._utils.pin_memory import pin_memory as stock_pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from . import _device, _fetch, _lane, _seeding, errors

__all__ = ["InProcessIterator", "PlaneIterator", "State"]


class State:
    """What a loader shares with its iterators, which may outlive it: counters, and workers between two iterations."""

    def __init__(self, data_deadline_s: float) -> None:
        self.data_deadline_s = data_deadline_s
        self.counts = {"steps": 0, "deadline_misses": 0, "wait_s": 0.0, "first_batch_s": None, "ready_s": None}
        self.totals: dict = {}
        self.quarantined = None
        self.balance = None
        self.idle = None
        self.abandoned = False

    def count(self, wait_s: float) -> None:
        self.counts["steps"] += 1
        self.counts["wait_s"] += wait_s
        self.counts["deadline_misses"] += wait_s > self.data_deadline_s

    def add(self, name: str, value: int) -> None:
        self.totals[name] = self.totals.get(name, 0) + value

    def retire(self, crew) -> None:
        for name, value in crew.stats().items():
            self.add(name, value)
        crew.close()

    def give_back(self, crew) -> None:
        """An iteration is over: one crew of workers is kept for the next one."""
        if not crew.give_back():
            return
        if self.idle is None and not self.abandoned and not crew.broken:
            self.idle = crew
        else:
            self.retire(crew)

    def abandon(self) -> None:
        """The loader is gone."""
        self.abandoned = True
        idle, self.idle = self.idle, None
        try:
            if idle is not None:
                idle.close()
        except Exception:  # at exit the client may be closed already
            pass


class _Iterator(_BaseDataLoaderIter):
    """What both iterators share: occurrences and randomness of samples, counting of waits."""

    _iteration_number = 0

    def __init__(self, loader) -> None:
        self._state = loader._state
        super().__init__(loader)
        self._mover = _device.Mover.for_loader(loader)
        self._in_call = threading.Lock()
        self._pid = os.getpid()

    def _begin(self, loader) -> None:
        self._seed, self._epoch = loader._randomness()
        self._occurrences: dict = {}
        self._started_s = time.perf_counter()

    def _request(self, index) -> _fetch.BatchRequest:
        keys = index if self._auto_collation else [index]
        counts = []
        for key in keys:
            try:
                seen = self._occurrences.get(key, 0)
                self._occurrences[key] = seen + 1
            except TypeError:  # not hashable
                key = _seeding.key_bytes(key)
                seen = self._occurrences.get(key, 0)
                self._occurrences[key] = seen + 1
            counts.append(seen)
        return _fetch.BatchRequest(index, counts, self._seed, self._epoch, self._base_seed, self._iteration_number)

    def __next__(self):
        self._check_process()
        if not self._in_call.acquire(blocking=False):
            raise errors.CallerError(
                "next() was called while another next() of the same iteration runs: one iteration belongs to one"
                " thread; hand the batches to other threads, or iterate one loader in each"
            )
        began_s = time.perf_counter()
        try:
            data = super().__next__()
        finally:
            self._in_call.release()
        ended_s = time.perf_counter()
        if self._state.counts["first_batch_s"] is None:
            self._state.counts["first_batch_s"] = ended_s - self._started_s
        self._state.count(ended_s - began_s)
        return data

    def _check_process(self) -> None:
        pass

    def _finish(self, data, batch):
        """The last steps in the rank: pinned memory, device."""
        if self._pin_memory:
            data = stock_pin_memory(data, self._pin_memory_device)
        return self._mover.move(data, batch) if self._mover is not None else data


class InProcessIterator(_Iterator):
    """num_workers=0: samples are made in next(). The generators of this process are left as they were before it."""

    def __init__(self, loader) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("timeout needs num_workers > 0")  # as in the stock loader
        self._begin(loader)
        self._per_sample_seed = loader.seeding == "sample"
        self._fetcher = _fetch.Fetcher(
            self._dataset,
            self._collate_fn,
            self._auto_collation,
            loader.on_error,
            loader.retries,
            self._per_sample_seed,
        )

    def _next_data(self):
        request = self._request(self._next_index())
        state = _seeding.save() if self._per_sample_seed else None
        try:
            data = self._fetcher.fetch(request)
        finally:
            if state is not None:
                _seeding.restore(state)
        if self._fetcher.skipped:
            _lane.report_skipped(self._fetcher.skipped)
            self._state.add("samples_skipped", len(self._fetcher.skipped))
        return self._finish(data, None)


class PlaneIterator(_Iterator):
    """Requests run ahead as in the stock loader; results come in the order of the requests."""

    _crew = None

    def __init__(self, loader) -> None:
        super().__init__(loader)
        self._ahead = loader.prefetch_batches
        if self._ahead is None:
            self._ahead = loader.prefetch_factor * self._num_workers
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False) -> None:
        super()._reset(loader, first_iter)
        self._begin(loader)
        self._pid = os.getpid()
        crew, self._crew = self._crew, None
        self._crew = _lane.start(loader, crew)
        self._iteration_number = self._crew.iteration
        self._exhausted = False
        for _ in range(self._ahead):
            self._try_put_index()

    def _try_put_index(self) -> None:
        if self._exhausted:
            return
        try:
            index = self._next_index()
        except StopIteration:
            self._exhausted = True
            return
        try:
            request = self._request(index)
        except Exception as error:
            self._crew.refuse(error)
            return
        self._crew.request(request)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise errors.CallerError(
                f"this iteration was begun by process {self._pid}, before a fork: iterate the loader again in the child",
                status="WRONG_STATE",
            )

    def _next_data(self):
        if self._crew is None:
            raise StopIteration
        if self._ahead == 0 and self._crew.outstanding == 0:
            self._try_put_index()
        if self._crew.outstanding == 0:
            if not self._persistent_workers:
                self._give_back()
            raise StopIteration
        try:
            data, batch = self._crew.next(self._timeout)
        except TimeoutError as error:
            if type(error) is not TimeoutError or error.args:  # raised by the dataset
                self._draw_after_result()
                raise
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
        except errors.DataServerError:
            raise
        except Exception:
            self._draw_after_result()
            raise
        self._state.counts["ready_s"] = self._crew.ready_s
        self._draw_after_result()
        return self._finish(data, batch)

    def _draw_after_result(self) -> None:
        """One index list for each result, before the caller sees it (rule B2); a failed result counts like others."""
        if self._ahead > 0:
            self._try_put_index()

    def _give_back(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            self._state.give_back(crew)

    def __del__(self) -> None:
        try:
            self._give_back()
        except Exception:  # at exit the client may be closed already
            pass
