# SPDX-License-Identifier: Apache-2.0
"""The worker of Python datasets: ``python … stoker.worker CONTROL_FD PAYLOAD_FD``, started by the DataServer.

The process that is started is the *template* (rule B4): it loads the dataset once, single-threaded, freezes the
garbage collector, and forks a worker each time the DataServer asks. A worker makes one batch at a time (rule B6).
While it collates, new shared torch storages are allocated in the slab of the batch, so that ``default_collate``
writes its result where the rank will read it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys

from . import _core, _fetch, _pickling, _slab_memory, _stacking, _tree, errors

__all__ = ["main"]

# Statuses of stoker/error.h.
_CORRUPT, _LIMIT, _NO_MEMORY = -11, -23, -21


class _Worker:
    """One worker process: what it needs from task to task."""

    def __init__(self, objects: dict, worker_id: int, channel) -> None:
        options = objects["options"]
        self._channel = channel
        self._id = worker_id
        self._count = options["num_workers"]
        self._init_fn = objects["worker_init_fn"]
        self._init_error = None
        self._per_sample_seed = options["seeding"] == "sample"
        self._persistent = options["persistent_workers"]
        self._iteration = None
        self._fetcher = _fetch.Fetcher(
            objects["dataset"],
            objects["collate_fn"],
            options["auto_collation"],
            options["on_error"],
            options["retries"],
            self._per_sample_seed,
        )
        torch = sys.modules.get("torch")
        self._torch = torch
        self._memory = _slab_memory.SlabMemory(torch) if torch is not None else None
        _stacking.install()

    def run(self) -> None:
        while True:
            task = self._channel.next()
            if task is None:
                return
            self._make(*task)

    def _begin(self, request) -> None:
        """First task of an iteration: what the stock loader does when it starts its workers."""
        first = self._iteration is None
        if request.worker is not None:  # this worker has a lane of its own, where its number is 0
            self._id = request.worker
        if self._iteration == request.iteration:
            return
        self._iteration = request.iteration
        seed = request.base_seed + self._id
        if self._torch is not None and not (self._persistent and not first):
            from torch.utils.data._utils import worker as stock

            stock._worker_info = stock.WorkerInfo(
                id=self._id, num_workers=self._count, seed=seed, dataset=self._fetcher.dataset
            )
        if first or (not self._per_sample_seed and not self._persistent):
            _stock_seed(request.base_seed, self._id)
        if first and self._init_fn is not None:
            try:
                self._init_fn(self._id)
            except BaseException as error:
                self._init_error = error

    def _make(self, item_id, attempt, payload, slab) -> None:
        where = f"in DataLoader worker process {self._id}"
        try:
            request = pickle.loads(payload)
            self._begin(request)
            if self._init_error is not None:
                raise self._init_error
            self._deliver(request, slab)
            return
        except errors.DataServerError:  # the rank or the DataServer has gone: nobody to tell
            raise
        except BaseException as error:  # SystemExit and the like of user code; Ctrl-C does not reach a worker
            failure = error
        key = self._fetcher.key
        if key is not None:
            where += f" (sample {errors.show(key)})"
        detail = _pickling.dump_exception(failure, where, key)
        message = errors.describe(failure)
        code = _NO_MEMORY if isinstance(failure, MemoryError) else _CORRUPT
        if isinstance(failure, errors.StokerError) and failure.status == "LIMIT":
            code = _LIMIT
        if key is not None:
            message = f"sample {errors.show(key)}: {message}"
        del failure
        self._end_slab()
        self._channel.fail(code, message[:400].encode("ascii", "backslashreplace").decode(), detail)

    def _deliver(self, request, slab) -> None:
        if self._memory is not None:
            self._memory.start(slab)
        result = self._fetcher.fetch(request)
        encoding = _tree.encode(result, self._fetcher.skipped or None)
        address, capacity = (slab.address, len(slab)) if slab is not None else (0, 0)
        needed = encoding.place(address, self._memory.held() if self._memory is not None else 0, capacity)
        if needed > capacity or encoding.must_grow:
            slab = self._channel.grow(needed)
            address = slab.address
        encoding.write(slab, address)
        used, offset, size = encoding.used, encoding.skeleton_offset, encoding.skeleton_size
        del encoding, result
        self._end_slab()
        self._channel.done(used, offset, size, len(self._fetcher.skipped))

    def _end_slab(self) -> None:
        if self._memory is not None:
            self._memory.finish()


def _stock_seed(base_seed: int, worker_id: int) -> None:
    """Seed a worker as the stock loader does; per-sample seeding replaces it before each sample."""
    import random

    random.seed(base_seed + worker_id)
    torch = sys.modules.get("torch")
    if torch is None:
        return
    torch.manual_seed(base_seed + worker_id)
    if "numpy" in sys.modules:
        from torch.utils.data._utils.worker import _generate_state

        sys.modules["numpy"].random.seed(_generate_state(base_seed, worker_id))


def _load(payload_fd: int) -> dict:
    with open(payload_fd, "rb", closefd=True) as file:
        file.seek(0)
        data = file.read()
    # One thread before the fork: OpenBLAS would start its own when NumPy is loaded.
    names = [name for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        with contextlib.suppress(ImportError):
            import torch.utils.data  # as the stock loader's workers have it, seeded, whatever the dataset imports
        objects = _pickling.load_payload(data)
    finally:
        for name in names:
            os.environ.pop(name, None)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    return objects


def _worker_main(objects: dict, worker_id: int, fd: int, template_pid: int) -> None:
    status = 1
    try:
        if _core.die_with_parent(template_pid):
            channel = _core.WorkerChannel(fd)
            try:
                _Worker(objects, worker_id, channel).run()
            except errors.DataServerError:
                pass
            channel.close()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def _serve(channel, objects: dict) -> None:
    """Fork on request until the DataServer closes the channel."""
    pid = os.getpid()
    children: set[int] = set()
    while True:
        asked = channel.next(0.25)
        for child in list(children):
            if os.waitpid(child, os.WNOHANG)[0] != 0:
                children.discard(child)
        if asked is None:
            break
        if asked is False:
            continue
        worker_id, fd = asked
        child = os.fork()
        if child == 0:
            channel.close()
            _worker_main(objects, worker_id, fd, pid)
        os.close(fd)
        children.add(child)
        channel.forked(worker_id, child)
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except OSError:
            pass


def main() -> None:
    """Entry point of the template; the two last arguments are descriptor numbers."""
    parent = os.getppid()
    control_fd, payload_fd = int(sys.argv[-2]), int(sys.argv[-1])
    if not _core.die_with_parent(parent):
        sys.exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the rank's affair; it closes the channel
    channel = _core.TemplateChannel(control_fd)
    try:
        objects = _load(payload_fd)
    except BaseException as error:
        where = "while the dataset was loaded in a worker process"
        message = f"{where}: {errors.describe(error)}"
        channel.report(
            message[:480].encode("ascii", "backslashreplace").decode(), _pickling.dump_exception(error, where, None)
        )
        while channel.next(1.0) is False:
            pass
        sys.exit(1)
    gc.collect()
    gc.freeze()
    channel.report()
    try:
        _serve(channel, objects)
    except errors.StokerError:
        pass  # the DataServer is gone
    sys.exit(0)


if __name__ == "__main__":
    main()
