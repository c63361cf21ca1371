# SPDX-License-Identifier: Apache-2.0
"""Integers between Python, the C core and tensors. Lengths never become floats on the way."""

from __future__ import annotations

import array
import operator

import torch

from ..errors import CallerError, show

_WORD_MAX = 2**32 - 1


def whole(value, what: str, least: int | None = None) -> int:
    """An integer of Python or numpy, or a tensor of one; anything else is refused, never rounded or parsed."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        expected = "an integer" if least is None else f"an integer of at least {least}"
        raise CallerError(f"{what} is {show(value)}, expected {expected}")
    return number


def words(values, name=lambda place: f"number {place}") -> array.array:
    """Unsigned 32-bit integers as a buffer; OverflowError for what does not fit. ``name(place)`` is for errors."""
    values = list(values)
    try:
        return array.array("I", values)  # takes what operator.index() takes
    except (TypeError, OverflowError):
        for place, value in enumerate(values):
            if not 0 <= whole(value, name(place)) <= _WORD_MAX:
                raise OverflowError(f"{name(place)} is {show(value)}, expected 0 to {_WORD_MAX}") from None
        raise


def refuse_fractions(row: torch.Tensor, what: str) -> torch.Tensor:
    """The row, if it holds integers. An empty one may have any dtype: that of an empty list is a float."""
    if row.numel() and (row.is_floating_point() or row.is_complex() or row.dtype == torch.bool):
        raise CallerError(f"{what} is {row.dtype}, beginning with {row.reshape(-1)[:3].tolist()}, expected integers")
    return row


def signed_words(values) -> array.array:
    """Signed 32-bit integers as a buffer, from a sequence or a tensor."""
    if isinstance(values, torch.Tensor):
        values = values.reshape(-1).tolist()
    return array.array("i", values)


def tensor_of(data: bytearray, dtype: torch.dtype) -> torch.Tensor:
    """A tensor over the bytes, without a copy."""
    if not data:
        return torch.empty(0, dtype=dtype)  # frombuffer() refuses what is empty
    return torch.frombuffer(data, dtype=dtype)
