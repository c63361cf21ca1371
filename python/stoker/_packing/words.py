# SPDX-License-Identifier: Apache-2.0
"""Integers between Python, the C core and tensors. Lengths never become floats on the way."""

from __future__ import annotations

import array

import torch


def words(values) -> array.array:
    """Unsigned 32-bit integers as a buffer; OverflowError for what does not fit."""
    return array.array("I", [int(value) for value in values])


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
