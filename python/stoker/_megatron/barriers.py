# SPDX-License-Identifier: Apache-2.0
"""Who builds first, and who waits: the ranks of a job as the builder sees them.

stoker's caches need no such order (a lock file lets one process build while the others wait), but programs written for
Megatron-LM count on it: rank 0 is ready before the others begin, so that only one rank reads a whole corpus.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["Ranks", "local_gpu_count", "ranks_of"]


def _distributed() -> Any:
    """torch.distributed if this process has initialised it. It is not imported for that: who uses it has done so."""
    module = sys.modules.get("torch.distributed")
    if module is not None and module.is_available() and module.is_initialized():
        return module
    return None


def local_gpu_count() -> int:
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.cuda.device_count())


class Ranks:
    """The rank of this process and the barrier that all ranks pass."""

    def __init__(self, rank: int, barrier: Callable[[], Any]) -> None:
        self.rank = rank
        self._barrier = barrier

    def wait(self) -> None:
        self._barrier()


def ranks_of(rank: int | None, barrier: Callable[[], Any] | None) -> Ranks | None:
    """What the caller says, else torch.distributed, else None: a process alone, or ranks that build on their own."""
    if barrier is not None:
        if rank is None:
            raise ValueError("barrier was given without rank; expected the number of this rank beside it")
        return Ranks(rank, barrier)
    if rank is not None:
        raise ValueError(f"rank={rank} was given without barrier; expected a callable that waits for all ranks")
    distributed = _distributed()
    return None if distributed is None else Ranks(distributed.get_rank(), distributed.barrier)
