# SPDX-License-Identifier: Apache-2.0
"""Items and batches as views of one buffer: torch tensors where PyTorch is installed, else NumPy arrays.

The C library fills one block and lends its parts; what happens here, for each item, is one call for each part. A recent
PyTorch is not asked here: it offers its functions to the C extension (``exchange_or_none``), which makes whole items.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy

__all__ = ["Layout", "allocate", "exchange_or_none", "joiner", "plain", "splitter", "to_tensor", "torch_or_none"]

#: name -> (offset, NumPy's dtype text, shape)
Layout = Mapping[str, "tuple[int, str, tuple[int, ...]]"]

#: Members that differ from item to item where nothing is reset.
_USUAL = ("tokens", "labels", "loss_mask")

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


def exchange_or_none() -> Any:
    """PyTorch's table of C functions for DLPack; None if it has none."""
    torch = torch_or_none()
    return None if torch is None else getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)


def _torch_dtype(text: str) -> Any:
    torch = torch_or_none()
    if text == "|b1":
        return torch.bool
    return getattr(torch, numpy.dtype(text).name)


def to_tensor(array: numpy.ndarray) -> Any:
    """The array as a tensor on the same memory, or itself without PyTorch."""
    torch = torch_or_none()
    return array if torch is None else torch.from_numpy(array)


def joiner(layout: Layout, constants: Mapping[str, Any], order: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    """A function from the parts of an item (buffers in the order of ``layout``) to its dict in ``order``; members in
    ``constants`` are shared by all items."""
    torch = torch_or_none()
    if torch is None:
        view: Callable[..., Any] = numpy.frombuffer
        types = [numpy.dtype(text) for _, text, _ in layout.values()]
    else:
        view = torch.frombuffer
        types = [_torch_dtype(text) for _, text, _ in layout.values()]
    if tuple(layout) == _USUAL and len(order) == len(_USUAL) + len(constants):
        return _usual_joiner(view, types, constants)
    members = list(zip(layout, types, [shape for _, _, shape in layout.values()], strict=True))

    def join(parts: Any) -> dict[str, Any]:
        made = dict(constants)
        for (name, dtype, shape), part in zip(members, parts, strict=True):
            value = view(part, dtype=dtype)
            made[name] = value if len(shape) == 1 else value.reshape(shape)
        return {name: made[name] for name in order}

    return join


def _usual_joiner(view: Callable[..., Any], types: list[Any], constants: Mapping[str, Any]) -> Callable[..., Any]:
    """For items of which only tokens, labels and loss mask differ, as most trainings have them."""
    integer, _, real = types
    ids = constants["position_ids"]
    if "attention_mask" not in constants:

        def join(parts: Any) -> dict[str, Any]:
            tokens, labels, mask = parts
            return {
                "tokens": view(tokens, dtype=integer),
                "labels": view(labels, dtype=integer),
                "loss_mask": view(mask, dtype=real),
                "position_ids": ids,
            }

        return join
    hidden = constants["attention_mask"]

    def join_masked(parts: Any) -> dict[str, Any]:
        tokens, labels, mask = parts
        return {
            "tokens": view(tokens, dtype=integer),
            "labels": view(labels, dtype=integer),
            "attention_mask": hidden,
            "loss_mask": view(mask, dtype=real),
            "position_ids": ids,
        }

    return join_masked


def splitter(
    layout: Layout, constants: Mapping[str, Any], order: tuple[str, ...]
) -> Callable[[Any, int], list[dict[str, Any]]]:
    """A function from the parts of so many items, each part a member of all of them, to the dicts of the items."""
    torch = torch_or_none()
    shapes = [shape for _, _, shape in layout.values()]
    if torch is None:
        kinds: list[Any] = [numpy.dtype(text) for _, text, _ in layout.values()]

        def rows(part: Any, dtype: Any, count: int, shape: tuple[int, ...]) -> Any:
            return list(numpy.frombuffer(part, dtype).reshape(count, *shape))
    else:
        kinds = [_torch_dtype(text) for _, text, _ in layout.values()]

        def rows(part: Any, dtype: Any, count: int, shape: tuple[int, ...]) -> Any:
            return torch.frombuffer(part, dtype=dtype).view(count, *shape).unbind(0)

    usual = tuple(layout) == _USUAL and order == (*_USUAL, "position_ids")

    def split(parts: Any, count: int) -> list[dict[str, Any]]:
        if count == 0:
            return []
        columns = [rows(part, kind, count, shape) for part, kind, shape in zip(parts, kinds, shapes, strict=True)]
        if usual:
            ids = constants["position_ids"]
            return [
                {"tokens": tokens, "labels": labels, "loss_mask": mask, "position_ids": ids}
                for tokens, labels, mask in zip(*columns, strict=True)
            ]
        made = []
        for values in zip(*columns, strict=True):
            members = dict(zip(layout, values, strict=True))
            made.append({name: members[name] if name in members else constants[name] for name in order})
        return made

    return split


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
