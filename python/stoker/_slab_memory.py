# SPDX-License-Identifier: Apache-2.0
"""Memory of the slab for what a worker collates: ``torch.UntypedStorage._new_shared`` while a batch is made.

The stock loader's workers collate into fresh shared memory of their own, so user code may do there whatever it likes with
the result: keep it, change it later, give a part of it away. Here it lies in memory that the rank gets and that is used
again. What is still alive when the batch is written is therefore not written over (``held``), and what is alive when the
slab is given away gets memory of its own (``finish``).
"""

from __future__ import annotations

import sys
import threading

from . import _stacking, _tree

__all__ = ["SlabMemory"]


class SlabMemory:
    """Bump allocation in the slab of the current task. Remembers the storages that it handed out."""

    def __init__(self, torch) -> None:
        self._torch = torch
        self._view = None
        self._used = 0
        self._handed = []  # (storage, end) each
        self._trusted = hasattr(torch._C, "_storage_Use_Count")
        self._thread = threading.get_ident()
        if self._trusted:
            self._nobody = self._holders([(torch.frombuffer(bytearray(64), dtype=torch.uint8).untyped_storage(), 64)])[0]
        original = torch.UntypedStorage._new_shared.__func__

        def new_shared(cls, size, *, device="cpu"):
            if torch.device(device).type != "cpu":
                return original(cls, size, device=device)
            return self._take(int(size))

        torch.UntypedStorage._new_shared = classmethod(new_shared)

    def start(self, slab) -> None:
        self._view = memoryview(slab).cast("B") if slab is not None and self._trusted else None
        self._used = 0

    def _take(self, size: int):
        """As the stock function gives it: all zero, unless the caller is known to fill it. Other threads, which may go on
        when the slab has been given away, get private memory."""
        is_ours = threading.get_ident() == self._thread
        start = _tree._align(self._used)
        if not is_ours or size < _tree.INLINE_BYTES or self._view is None or start + size > len(self._view):
            storage = self._torch.UntypedStorage(size)
        else:
            self._used = start + size
            bytes_ = self._torch.frombuffer(self._view, dtype=self._torch.uint8, count=size, offset=start)
            storage = bytes_.untyped_storage()
            del bytes_
            self._handed.append((storage, self._used))
        if not (is_ours and _stacking.is_filling()):
            storage.fill_(0)
        return storage

    def _holders(self, handed) -> list[tuple[int, int]]:
        """Of each storage: tensors and others that use it, and references to its Python object."""
        return [(self._torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(storage)) for storage, _ in handed]

    def _alive(self):
        return [pair for pair, holders in zip(self._handed, self._holders(self._handed)) if holders != self._nobody]

    def held(self) -> int:
        """Bytes of the slab up to the end of the last storage that somebody has: the batch itself, or user code."""
        return max((end for _, end in self._alive()), default=0)

    def finish(self) -> None:
        """Before the slab is given away: whoever kept a storage of it (a dataset that caches batches) gets memory of
        its own. A dataset that does so once will do so again, so its batches are collated privately from now on."""
        self._view = None
        for storage, _ in self._alive():
            storage._share_fd_cpu_()  # moves the bytes to memory of its own, in place
            self._trusted = False
        self._handed = []
