# SPDX-License-Identifier: Apache-2.0
"""Put a batch together from parts (``fan_out``), and collate variable shapes (``pad_value``).

A part is collated by ``default_collate`` on its own worker; joining the parts gives what one call over all samples
would give: tensors are concatenated along the batch dimension, sequences of str or bytes are joined, containers are
joined field by field.
"""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

import torch
from torch.utils.data._utils.collate import collate, default_collate_fn_map

__all__ = ["Padded", "PaddingCollate", "join", "split"]

#: A tensor field of variable shape: ``data`` of shape (batch, largest extents...), padded at the end of each
#: dimension; ``lengths`` is int64 and holds the true extents: (batch,) for one-dimensional samples, else (batch,
#: dimensions).
Padded = namedtuple("Padded", "data lengths")


def split(index: list, parts: int) -> list[list]:
    """Up to ``parts`` contiguous runs of nearly equal length, none of them empty.

    >>> split([1, 2, 3, 4, 5], 3)
    [[1, 2], [3, 4], [5]]
    """
    parts = max(1, min(parts, len(index)))
    base, extra = divmod(len(index), parts)
    found, start = [], 0
    for i in range(parts):
        end = start + base + (i < extra)
        found.append(index[start:end])
        start = end
    return found


def _pad_to(tensor: torch.Tensor, shape, value):
    if tuple(tensor.shape) == tuple(shape):
        return tensor
    out = tensor.new_full(shape, value)
    out[tuple(slice(extent) for extent in tensor.shape)] = tensor
    return out


class PaddingCollate:
    """``default_collate`` in which each tensor field of at least one dimension becomes :class:`Padded`."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, batch):
        return collate(
            batch, collate_fn_map={torch.Tensor: self._tensors, _array_type(): self._arrays, **default_rest()}
        )

    def _arrays(self, batch, *, collate_fn_map=None):
        return self._tensors([torch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)

    def _tensors(self, batch, *, collate_fn_map=None):
        first = batch[0]
        if first.dim() == 0:
            return default_collate_fn_map[torch.Tensor](batch, collate_fn_map=default_collate_fn_map)
        if any(tensor.dim() != first.dim() for tensor in batch):
            raise RuntimeError(
                f"samples of {sorted({tensor.dim() for tensor in batch})} dimensions cannot be padded to one shape"
            )
        shape = tuple(max(extents) for extents in zip(*(tensor.shape for tensor in batch)))
        data = default_collate_fn_map[torch.Tensor](
            [_pad_to(tensor, shape, self.value) for tensor in batch], collate_fn_map=default_collate_fn_map
        )
        lengths = torch.tensor([list(tensor.shape) for tensor in batch], dtype=torch.int64)
        return Padded(data, lengths[:, 0] if first.dim() == 1 else lengths)


def _array_type():
    import numpy

    return numpy.ndarray


def default_rest() -> dict:
    """The collate functions of everything that is not a tensor or an array."""
    return {kind: fn for kind, fn in default_collate_fn_map.items() if kind not in (torch.Tensor, _array_type())}


def join(parts: list, pad_value: float | None = None):
    """One batch out of collated parts."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, Padded):
        return _join_padded(parts, pad_value)
    if isinstance(first, torch.Tensor):
        return torch.cat(parts, 0)
    if isinstance(first, Mapping):
        joined = {key: join([part[key] for part in parts], pad_value) for key in first}
        if isinstance(first, MutableMapping):
            result = copy.copy(first)
            result.update(joined)
            return result
        return type(first)(joined)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(join(list(fields), pad_value) for fields in zip(*parts)))
    if isinstance(first, Sequence) and not isinstance(first, (str, bytes)):
        return _join_sequences(parts, pad_value)
    raise TypeError(f"fan_out: a batch with a {type(first).__qualname__} cannot be put together from parts")


def _join_sequences(parts, pad_value):
    first = parts[0]
    if len(first) > 0 and all(isinstance(item, (str, bytes)) for item in first):  # one text for each sample
        joined = [item for part in parts for item in part]
        return joined if isinstance(first, list) else type(first)(joined)
    if any(len(part) != len(first) for part in parts):
        raise RuntimeError("each element in list of batch should be of equal size")
    fields = [join(list(items), pad_value) for items in zip(*parts)]
    if isinstance(first, MutableSequence):
        result = copy.copy(first)
        for i, field in enumerate(fields):
            result[i] = field
        return result
    return type(first)(fields)


def _join_padded(parts, pad_value) -> Padded:
    shape = tuple(max(extents) for extents in zip(*(part.data.shape[1:] for part in parts)))
    data = [_pad_to(part.data, (part.data.shape[0], *shape), pad_value) for part in parts]
    return Padded(torch.cat(data, 0), torch.cat([part.lengths for part in parts], 0))
