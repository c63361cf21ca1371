# SPDX-License-Identifier: Apache-2.0
"""The loaders of the C library behind one DistributedDataLoader.

A *crew* serves one iteration at a time: it opens lanes (loaders of the C library), sends requests, and gives results
in the order of the requests. Most crews have one lane; ``seeding="worker"`` has one for each worker, and a native
batch above the size that its lane reserved opens a larger lane. A crew that an iteration gave back is used again if
the dataset is still the same (rule B4).
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import logging
import operator
import os
import pickle

import cloudpickle
import torch

from . import audio, _estimate, _fanout, _fields, _files, _native, _patches, _pickling, _plane, _core, _tree, errors, media

__all__ = ["Crew", "native_view", "report_skipped", "start"]

_log = logging.getLogger("stoker")
_ON_ERROR = {"raise": 0, "skip": 1, "replace": 2}
_ISOLATION = {"auto": 0, "on": 1, "off": 2}
_PARTS_MAX = 65535  # of one batch
_LOG_SLICE_S = 2.0  # how long a wait may keep records from the log
_DTYPES = {1: torch.uint8, 2: torch.float16, 3: torch.bfloat16, 4: torch.float32, 5: torch.int64, 6: torch.int16}


class NativeView:
    """A dataset of files that is made in C, or a Subset of one: how indices of the loader become ids of the source."""

    owner = None  # a dataset that has fields beside what `dataset` has

    def __init__(self, dataset: _files.FileDataset, indices=None, owner=None) -> None:
        self.dataset = dataset
        self._indices = indices
        self.owner = owner

    def position(self, index) -> int:
        return self.dataset._position(index if self._indices is None else self._indices[index])


def native_view(dataset, on_error: str = "raise"):
    """A NativeView if the samples of ``dataset`` can be made without Python, else None."""
    indices, owner = None, None
    if type(dataset) is torch.utils.data.Subset:
        dataset, indices = dataset.dataset, dataset.indices
    if (tokens := _native.token_view(dataset, indices)) is not None:
        return tokens
    if isinstance(dataset, _fields.FieldDataset):
        if on_error != "raise" or type(dataset).__getitem__ is not _fields.FieldDataset.__getitem__:
            return None  # a sample in the place of another must bring its own fields: only Python workers do that
        dataset, owner = dataset.media, dataset
    if not isinstance(dataset, _files.FileDataset) or not dataset.native:
        return None
    own = ("__getitem__", "__getitems__", "__len__", "_decode")
    bases = (_patches.PatchDataset, media.VideoDataset, media.ImageDataset, audio.AudioDataset)
    base = next((base for base in bases if isinstance(dataset, base)), None)
    if base is None or any(getattr(type(dataset), name, None) is not getattr(base, name, None) for name in own):
        return None  # a subclass that does something of its own
    return NativeView(dataset, indices, owner)


def _is_of_a_sample(error) -> bool:
    """Is a file at fault? Also one that asks for too much, or that is no regular file."""
    if isinstance(error, errors.DataError):
        return True
    return error.status in ("UNSUPPORTED", "LIMIT", "TIMEOUT") and str(error).startswith("sample ")


def report_skipped(skipped) -> None:
    for key, text in skipped:
        _log.warning("sample %s was skipped: %s", errors.show(key), text)


def start(loader, crew=None):
    """A crew whose next iteration has begun: ``crew`` if it is given. A DataServer that ended between two iterations
    costs a new one, not an error."""
    client = _plane.held()
    try:
        return _begin(loader, crew)
    except errors.DataServerError:
        if client is None or _plane.held() is client:  # the DataServer is new, or it is alive
            raise
    return _begin(loader, None)


def _begin(loader, crew):
    if crew is not None and not crew.usable(crew._digest):  # of persistent workers: their client is gone
        loader._state.retire(crew)
        crew = None
    if crew is None:
        crew = _take(loader)
    try:
        crew.begin()
    except BaseException:
        loader._state.give_back(crew)
        raise
    return crew


def _take(loader):
    """A crew for one iteration of ``loader``: the one that is idle if the dataset has not changed, else a new one."""
    state = loader._state
    if loader._native is not None:
        source, digest = loader._native.dataset._source(), None
    else:
        payload = _payload(loader)
        source, digest = None, hashlib.sha256(payload).digest()
    idle, state.idle = state.idle, None
    if idle is not None:
        if idle.usable(digest):
            return idle
        state.retire(idle)
    if source is None:
        source = _core.process_source(
            argv=_pickling.template_command(_pickling.package_parent()),
            env=[f"{name}={value}" for name, value in os.environ.items()],
            cwd=_folder(),
            payload=payload,
            count=_length(loader.dataset),
        )
    return Crew(loader, source, digest)


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise errors.CallerError(
            f"workers cannot be started where this process is: its working directory is gone ({error.strerror})"
        ) from None


def _payload(loader) -> bytes:
    objects = {
        "dataset": loader.dataset,
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
        "options": {
            "num_workers": loader.num_workers,
            "seeding": loader.seeding,
            "persistent_workers": loader.persistent_workers,
            "auto_collation": loader._auto_collation,
            "on_error": loader.on_error,
            "retries": loader.retries,
        },
    }
    return _pickling.dump_payload(objects)


def _length(dataset) -> int:
    try:
        return len(dataset)
    except TypeError:
        return 0


class Crew:
    """Lanes of one loader in this process."""

    def __init__(self, loader, source, digest) -> None:
        self._source = source
        self._digest = digest
        self._native = loader._native
        self._dataset = loader.dataset
        self._collated = loader._auto_collation
        self._in_order = loader.in_order
        self._fan_out = min(loader.fan_out, _PARTS_MAX) if loader._native is None else 1
        self._pad_value = loader.pad_value
        self._name = loader.name
        self._options = {
            "max_bytes": loader.max_bytes,
            "on_error": _ON_ERROR[loader.on_error]
            if loader._native is not None
            else 0,  # Python workers do it themselves
            "retries": loader.retries if loader._native is not None else 0,
            "stall_limit": loader.stall_limit_s,
            "any_order": not loader.in_order,
        }
        if loader._native is not None:
            self._options["isolation"] = _ISOLATION[loader.isolation]
            self._options["worker_max_bytes"] = loader.worker_max_bytes or 0
            self._options["sample_timeout"] = loader.sample_timeout_s
            self._options["quarantine"] = loader.quarantine
        if loader.cost_profile is not None:
            self._options["profile"] = _estimate.read_profile(loader.cost_profile)
        self._state = loader._state
        self._workers = loader.num_workers
        self._by_worker = loader.seeding == "worker" and loader._native is None
        self._samples = _batch_size(loader)
        self._client = _plane.client(loader.policy)
        self._pid = os.getpid()
        self._lanes = []
        self._samples_max = []  # of the lanes, in their order
        self._lent = False
        self._closed = None  # counters of the lanes, once closed
        self.broken = False
        self.iteration = 0
        self.outstanding = 0
        self.ready_s = None  # request to ready, of the last batch; None for one in parts
        if loader._native is None:
            for _ in range(self._workers if self._by_worker else 1):
                self._open(1 if self._by_worker else self._workers, 0)

    def _open(self, workers: int, samples: int):
        name = self._name
        if name is not None and self._lanes:
            name += f"/{len(self._lanes)}"
        with self._watched():
            lane = _plane.interruptible(
                self._client.open_loader,
                source=self._source,
                num_workers=workers,
                batch_samples_max=samples,
                name=name,
                **self._options,
            )
        self._lanes.append(lane)
        self._samples_max.append(samples)
        if self._options.get("quarantine") is not None:
            digest, entries = lane.quarantine()
            self._state.quarantined = {"digest": digest, "entries": entries}
        if self.iteration:
            lane.begin()
        return lane

    def usable(self, digest) -> bool:
        return not self.broken and not self._client.closed and self._digest == digest and self._pid == os.getpid()

    def begin(self) -> None:
        self.iteration += 1
        self.outstanding = 0
        self._lent = True
        self._pending = collections.deque()  # in order: (lane, number of parts, index) or (None, 0, exception)
        self._by_sequence = {}  # any order: (lane, sequence) -> index
        self._sent = {}
        with self._watched():
            for lane in self._lanes:
                lane.begin()

    def give_back(self) -> bool:
        """End the iteration; False if it had ended. Outstanding requests are cancelled: workers are free."""
        if not self._lent:
            return False
        self._lent = False
        if self.outstanding and not self.broken and self._pid == os.getpid() and not self._client.closed:
            try:
                for lane in self._lanes:
                    lane.begin()
            except errors.StokerError:
                self.broken = True
        self.outstanding = 0
        return True

    def request(self, request) -> None:
        """Ask for a batch. What is wrong with the request itself is raised in the step that it belongs to, so that no other
        batch is lost."""
        try:
            with self._watched():
                self._request(request)
        except errors.DataServerError:
            raise
        except Exception as error:
            self.refuse(error)
        else:
            self.outstanding += 1

    def refuse(self, error) -> None:
        """The next step raises `error`; without an order there is no such step, and it is raised now."""
        if not self._in_order:
            raise error
        self._pending.append((None, 0, error))
        self.outstanding += 1

    def _request(self, request) -> None:
        if self._native is not None:
            self._request_native(request)
        elif self._fan_out > 1:
            self._request_parts(request)
        else:
            worker = (self._count_in_iteration() % self._workers) if self._by_worker else None
            lane = self._lanes[worker or 0]
            payload = self._pickled(request if worker is None else request._replace(worker=worker))
            lane.request(payload, None, *_estimate.of_batch(self._dataset, request.index))
            self._note(lane, 1, request.index)

    def _count_in_iteration(self) -> int:
        return sum(self._sent.values())

    @staticmethod
    def _pickled(request) -> bytes:
        try:
            return pickle.dumps(request, protocol=5)
        except Exception:  # keys of __main__, or of a local class
            return cloudpickle.dumps(request, protocol=5)

    def _note(self, lane, parts, index) -> None:
        sequence = self._sent.get(id(lane), 0)
        self._sent[id(lane)] = sequence + parts
        if self._in_order:
            self._pending.append((lane, parts, index))
        else:
            self._by_sequence[id(lane), sequence] = index

    def _request_parts(self, request) -> None:
        lane = self._lanes[0]
        runs = _fanout.split(list(request.index), self._fan_out)
        start, payloads = 0, []
        for run in runs:
            part = request._replace(index=run, occurrences=request.occurrences[start : start + len(run)])
            payloads.append((self._pickled(part), _estimate.of_batch(self._dataset, run)))
            start += len(run)
        for part, (payload, estimate) in enumerate(payloads):  # all or none; one batch of the plane
            lane.request(payload, None, *estimate, part, len(payloads))
        self._note(lane, len(runs), request.index)

    def _request_native(self, request) -> None:
        index, draws = request.index, None
        ids = [self._native.position(key) for key in (index if self._collated else [index])]
        lane = next((lane for lane, most in zip(self._lanes, self._samples_max) if len(ids) <= most), None)
        if lane is None:
            lane = self._open(self._workers, max(len(ids), self._samples))
        if getattr(self._native.dataset, "random", False):
            draws = [
                _core.sample_draw(request.seed, request.epoch, id, occurrence)
                for id, occurrence in zip(ids, request.occurrences)
            ]
        lane.request(ids, draws)
        if self._native.owner is not None and self._collated:
            ids = self._native.owner.ahead(ids)
        self._note(lane, 1, ids if self._collated else ids[0])

    def next(self, timeout_s: float):
        """(data, core batch) of the next request. TimeoutError leaves everything as it was."""
        return self._next(timeout_s if timeout_s > 0 else None)

    def poll(self):
        """The same, if it is there: TimeoutError at once if not, and the plane does not take that for a wait."""
        return self._next(0)

    def _next(self, timeout):
        if not self._in_order:
            return self._next_any(timeout)
        lane, parts, index = self._pending[0]
        if lane is None:
            self._pending.popleft()
            self.outstanding -= 1
            raise index
        if parts == 1:
            batch = self._take(lane, timeout, self._ended, index)
            self._ended()
            self.ready_s = lane.stats()["last_ready_ns"] * 1e-9
            return self._rebuild(batch, index), batch
        return self._next_parts(lane, parts, index), None

    def _ended(self) -> None:
        self._pending.popleft()
        self.outstanding -= 1

    def _next_parts(self, lane, parts, index):
        """All parts of the first request. They are one step (the plane knows), without a time limit between them."""
        results, failure = [], None
        for _ in range(parts):
            try:
                batch = self._take(lane, None, lambda: None, index)
                results.append(self._rebuild(batch, None))
            except (errors.DataServerError, KeyboardInterrupt):
                raise
            except Exception as error:
                failure = failure or error
        self._ended()
        if failure is not None:
            raise failure
        return _fanout.join(results, self._pad_value)

    def _next_any(self, timeout):
        lanes = self._lanes
        while True:
            for lane in lanes:
                try:
                    batch = self._take(lane, timeout if len(lanes) == 1 else 0.01, self._ended_any)
                except TimeoutError:
                    if len(lanes) == 1:
                        raise
                    continue
                if batch is not None:
                    self._ended_any()
                    return self._rebuild(batch, self._by_sequence.pop((id(lane), batch.sequence), None)), batch

    def _ended_any(self) -> None:
        self.outstanding -= 1

    def _take(self, lane, timeout, on_failure, index=None):
        """The next batch of a lane; failures become the exceptions that the user sees. `index` is what was asked for."""
        try:
            batch = self._wait(lane, timeout)
        except errors.DataServerError:
            if not self._lost():
                on_failure()
            raise
        except errors.StokerError as error:
            on_failure()
            detail = getattr(error, "detail", b"")
            if detail:
                raise _pickling.load_exception(detail) from None
            if self._native is not None and _is_of_a_sample(error):
                raise errors.SampleError(error.message, error.context, error.status, error.os_error) from None
            if error.context.startswith("connection to the DataServer"):
                self._lost()  # it was ended from this side: nothing can be had from it any more
            if index is not None and self._native is None:  # the plane knows a Python batch as bytes only
                where = f"batch of samples {errors.show(index)}" if self._collated else f"sample {errors.show(index)}"
                context = f"{where}: {error.context}" if error.context else where
                raise type(error)(error.message, context, error.status, error.os_error) from None
            raise
        finally:
            _plane.drain_log()
        if batch is None and self._in_order:
            raise errors.InternalError("the plane has lost count of the batches that are outstanding")
        return batch

    @staticmethod
    def _wait(lane, timeout):
        """The next batch of a lane. What is said meanwhile, of a DataServer that is stopped, is not kept until the end."""
        while True:
            part = _LOG_SLICE_S if timeout is None else min(timeout, _LOG_SLICE_S)
            try:
                return lane.next(part)
            except TimeoutError:
                _plane.drain_log()
                if timeout is not None:
                    timeout -= part
                    if timeout <= 0:
                        raise

    @contextlib.contextmanager
    def _watched(self):
        try:
            yield
        except errors.DataServerError:
            self._lost()
            raise

    def _lost(self) -> bool:
        """After a DataServerError: True if the DataServer is gone. Then neither this crew nor its client is used again."""
        if not self.broken and self._gone():
            self.broken = True
            _plane.discard(self._client)
        return self.broken

    def _gone(self) -> bool:
        """UNAVAILABLE is said of a DataServer that is gone, and of a batch whose workers died again and again."""
        try:
            os.kill(self._client.server_pid, 0)
            self._client.status(1.0)
            return False
        except Exception:
            return True

    def _rebuild(self, batch, index):
        if self._native is not None:
            made = self._rebuild_native(batch, index)
            owner = getattr(self._native, "owner", None)
            return made if owner is None else owner.join(made, index, self._collated)
        data, skipped = _tree.decode(batch.skeleton, batch.region)
        if skipped:
            report_skipped(skipped)
        return data

    def _rebuild_native(self, batch, index):
        if isinstance(self._native, _native.TokenView):
            return self._native.rebuild(batch, self._collated)
        if isinstance(self._native.dataset, _patches.PatchDataset):
            return self._rebuild_patches(batch, index)
        leaf = batch.leaf(0)
        flat = _flat(leaf)
        video = flat.view(_DTYPES[leaf.dtype]).view(leaf.shape)
        if not self._collated:
            video = video[0]
        dataset, made = self._native.dataset, [video]
        if dataset.return_index:
            made.append(torch.tensor(index) if self._collated else index)
        if getattr(dataset, "return_frames", False):
            counts = torch.frombuffer(bytearray(batch.leaf(1)), dtype=torch.int64)
            made.append(counts if self._collated else int(counts[0]))
        if getattr(dataset, "return_partial", False):
            marks = torch.frombuffer(bytearray(batch.leaf(1)), dtype=torch.bool)
            made.append(marks if self._collated else bool(marks[0]))
        if getattr(dataset, "return_window", False):
            windows = torch.frombuffer(bytearray(batch.leaf(1)), dtype=torch.int64).view(-1, 3)
            made.append(windows if self._collated else windows[0])
        return made if len(made) > 1 else video

    def _rebuild_patches(self, batch, index):
        """As the dataset's own collate function would put the samples together."""
        made = {}
        for number, name in enumerate(self._native.dataset._source().names):
            leaf = batch.leaf(number)
            flat = _flat(leaf) if leaf.size else torch.empty(0, dtype=torch.uint8)
            made[name] = flat.view(_DTYPES[leaf.dtype]).view(leaf.shape)
        if not self._native.dataset.return_index:
            return made
        return [made, torch.tensor(index) if self._collated else index]

    def stats(self) -> dict:
        """Sums of the counters of the lanes."""
        if self._closed is not None:
            return self._closed
        totals: dict = {}
        if self._pid != os.getpid() or self._client.closed:
            return totals
        for lane in self._lanes:
            for name, value in lane.stats().items():
                totals[name] = totals.get(name, 0) + value
        return totals

    def close(self) -> None:
        if self._closed is None:
            self._closed = self.stats()
            for lane in self._lanes:
                lane.close()


def _flat(leaf):
    """The bytes of a leaf: a private copy if it is small, for a small leaf must not keep a slab (rule A5)."""
    if leaf.size < _tree.INLINE_BYTES:
        return torch.frombuffer(bytearray(leaf), dtype=torch.uint8)
    return torch.from_dlpack(leaf)


def own_collate(dataset):
    """The collate function of a dataset whose samples differ in size, which takes the place of the default one."""
    if type(dataset) is torch.utils.data.Subset:
        dataset = dataset.dataset
    return dataset.collate_fn if isinstance(dataset, (_patches.PatchDataset, _fields.FieldDataset)) else None


def _batch_size(loader) -> int:
    """Samples for which a native lane reserves memory."""
    if not loader._auto_collation:
        return 1
    size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1
    try:
        return operator.index(size)
    except TypeError:
        return 1
