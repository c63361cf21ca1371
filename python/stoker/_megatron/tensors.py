# SPDX-License-Identifier: Apache-2.0
"""Items and batches as views of one buffer: torch tensors where PyTorch is installed, else NumPy arrays.

The C library fills one block; what happens here, for each item, is only the cutting, so it is done in as few calls as
possible.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy

__all__ = ["Layout", "allocate", "cutter", "plain", "to_tensor", "torch_or_none"]

#: name -> (offset, NumPy's dtype text, shape)
Layout = Mapping[str, "tuple[int, str, tuple[int, ...]]"]

#: Members of a block begin on a boundary of so many bytes.
_ALIGNMENT = 256


@functools.cache
def torch_or_none() -> Any:
    """PyTorch if it is installed; imported at the first item."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def _torch_dtype(text: str) -> Any:
    torch = torch_or_none()
    if text == "|b1":
        return torch.bool
    return getattr(torch, numpy.dtype(text).name)


def to_tensor(array: numpy.ndarray) -> Any:
    """The array as a tensor on the same memory, or itself without PyTorch."""
    torch = torch_or_none()
    return array if torch is None else torch.from_numpy(array)


def cutter(layout: Layout, constants: Mapping[str, Any], order: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    """A function from a buffer of this layout to an item: its members in ``order``, those of ``constants`` shared."""
    torch = torch_or_none()
    flat = tuple((name, offset, numpy.dtype(text), math.prod(shape)) for name, (offset, text, shape) in layout.items())
    shaped = {name: shape for name, (_, _, shape) in layout.items() if len(shape) != 1}
    if torch is None:
        view: Callable[..., Any] = numpy.frombuffer
        members = tuple((name, offset, dtype, count) for name, offset, dtype, count in flat)
    else:
        view = torch.frombuffer
        members = tuple((name, offset, _torch_dtype(layout[name][1]), count) for name, offset, _, count in flat)

    def cut(buffer: Any) -> dict[str, Any]:
        return {name: view(buffer, dtype=dtype, count=count, offset=offset) for name, offset, dtype, count in members}

    if not constants and not shaped and tuple(layout) == order:
        return cut

    def cut_and_complete(buffer: Any) -> dict[str, Any]:
        made = cut(buffer)
        for name, shape in shaped.items():
            made[name] = made[name].reshape(shape)
        made.update(constants)
        return {name: made[name] for name in order}

    return cut_and_complete


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _block(size: int, pin_memory: bool, shared: bool) -> tuple[Any, numpy.ndarray]:
    """(tensor or array, the same memory as an array) of so many bytes, not initialised."""
    torch = torch_or_none()
    if torch is None:
        if pin_memory or shared:
            raise RuntimeError("pin_memory and shared need PyTorch, which is not installed")
        array = numpy.empty(size + _ALIGNMENT, numpy.uint8)
        start = -array.ctypes.data % _ALIGNMENT
        return array[start : start + size], array[start : start + size]
    if shared:
        block = torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage._new_shared(size))
        if pin_memory:
            raise RuntimeError("a block is either pinned or shared, not both")
    else:
        block = torch.empty(size, dtype=torch.uint8, pin_memory=pin_memory)
    return block, block.numpy()


def allocate(
    members: Mapping[str, tuple[str, tuple[int, ...]]], pin_memory: bool, shared: bool
) -> tuple[dict[str, Any], dict[str, numpy.ndarray]]:
    """One block for arrays of these types and shapes: (what the user gets, the same memory as arrays)."""
    size, offsets = 0, {}
    for name, (text, shape) in members.items():
        offsets[name] = size
        size += _aligned(math.prod(shape) * numpy.dtype(text).itemsize)
    block, memory = _block(max(size, _ALIGNMENT), pin_memory, shared)
    torch = torch_or_none()
    views, arrays = {}, {}
    for name, (text, shape) in members.items():
        end = offsets[name] + math.prod(shape) * numpy.dtype(text).itemsize
        arrays[name] = memory[offsets[name] : end].view(text).reshape(shape)
        if torch is None:
            views[name] = arrays[name]
        else:
            views[name] = block[offsets[name] : end].view(_torch_dtype(text)).view(shape)
    return views, arrays


def plain(name: str, value: Any, text: str, shape: tuple[int, ...]) -> numpy.ndarray:
    """The memory of a tensor or array that the caller brings, if it is one of this type and shape."""
    array = value.numpy() if hasattr(value, "numpy") else value
    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"out[{name!r}] is a {type(value).__name__}; expected a tensor or an array")
    if array.dtype != numpy.dtype(text) or array.shape != shape:
        raise ValueError(f"out[{name!r}] is {array.dtype} {array.shape}; expected {numpy.dtype(text)} {shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError(f"out[{name!r}] is not contiguous and writable")
    return array
