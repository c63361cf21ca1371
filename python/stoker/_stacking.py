# SPDX-License-Identifier: Apache-2.0
"""``default_collate`` of large tensors in a worker: stacked by stores that pass the cache.

What a worker collates is read by another process, so the destination need not be in this processor's cache, and reading
it first, as ordinary stores do, is a third of the memory traffic (docs/decisions/0260). Batches that this is not for are
stacked by torch as ever: small ones, and whatever ``torch.stack`` refuses or treats in a way of its own.
"""

from __future__ import annotations

import sys
import threading

from . import _core, _tree

__all__ = ["SAMPLE_BYTES", "install", "is_filling", "stacker"]

SAMPLE_BYTES = 1 << 20  # below, what Python does for each sample takes what the copy gains


_state = threading.local()


def is_filling() -> bool:
    """Is the shared memory that this thread asks for now written as a whole at once?"""
    return getattr(_state, "filling", False)


def install() -> None:
    """In this process, for ``default_collate`` and all that call it; not where a user has put a function of their own."""
    torch = sys.modules.get("torch")
    collate = sys.modules.get("torch.utils.data._utils.collate")
    stock = getattr(collate, "collate_tensor_fn", None)
    table = getattr(collate, "default_collate_fn_map", None)
    if torch is None or stock is None or table is None or table.get(torch.Tensor) is not stock:
        return
    table[torch.Tensor] = stacker(torch, stock)


def stacker(torch, stock):
    """A function for ``default_collate_fn_map`` that leaves to ``stock`` what it is not for."""

    def stack(batch, collate_fn_map):
        if torch.utils.data.get_worker_info() is None or not _is_for_us(torch, batch):
            return stock(batch, collate_fn_map=collate_fn_map)
        first = batch[0]
        storage = first._typed_storage()._new_shared(len(batch) * first.numel(), device=first.device)
        out = first.new(storage).resize_(len(batch), *first.shape)
        _core.copy_past_cache(_bytes(out), [_bytes(tensor) for tensor in batch])
        return out

    def collate_tensor_fn(batch, *, collate_fn_map=None):
        _state.filling = True
        try:
            return stack(batch, collate_fn_map)
        finally:
            _state.filling = False

    return collate_tensor_fn


def _is_for_us(torch, batch) -> bool:
    first = batch[0]
    if not _is_plain(torch, first):
        return False
    size = first.numel() * first.element_size()
    if size < SAMPLE_BYTES or size * len(batch) < _tree.PAST_CACHE_BYTES:
        return False
    return all(_is_plain(torch, each) and each.dtype == first.dtype and each.shape == first.shape for each in batch)


def _is_plain(torch, tensor) -> bool:
    return (
        type(tensor) is torch.Tensor
        and _tree.plain_tensor(torch, tensor)
        and tensor.is_contiguous()
        and not tensor.requires_grad
    )


def _bytes(tensor) -> memoryview:
    return _tree.memory(tensor.data_ptr(), tensor.numel() * tensor.element_size())
