# SPDX-License-Identifier: Apache-2.0
"""Failures of indexes as the exceptions that programs written for Megatron-LM catch.

Each is an error of stoker, with ``status``, ``message`` and ``context``, and at the same time of the built-in type that
Megatron-LM raises in that case.
"""

from __future__ import annotations

from .. import errors
from .files import FileMissing

__all__ = ["CacheNotWritable", "FileMissing", "IndexRefused", "ItemMissing", "of_index", "of_item"]


class CacheNotWritable(errors.MachineError, OSError):
    """The folder of the cache cannot be written, or its disk is full."""

    status = "IO"


class IndexRefused(errors.CallerError, AssertionError):
    """No index can be built of these options and data."""

    status = "INVALID_ARGUMENT"


class ItemMissing(errors.CallerError, IndexError):
    """There is no such item."""

    status = "INVALID_ARGUMENT"


def _as(kind: type[errors.StokerError], error: errors.StokerError, context: str) -> errors.StokerError:
    context = f"{context}: {error.context}" if context and error.context else context or error.context
    return kind(error.message, context, error.status, error.os_error)


def of_index(error: errors.StokerError, context: str, assumed: bool) -> errors.StokerError:
    """A failure while an index was built or loaded. ``context`` says of what, ``assumed`` that its files were taken for
    granted."""
    if isinstance(error, errors.CallerError):
        return _as(IndexRefused, error, context)
    if isinstance(error, errors.DataError) and error.status == "NOT_FOUND":
        return _as(FileMissing if assumed else CacheNotWritable, error, context)
    if isinstance(error, errors.MachineError) and error.status in ("IO", "NO_SPACE"):
        return _as(CacheNotWritable, error, context)
    return _as(type(error), error, context)


def of_item(error: errors.StokerError, context: str) -> errors.StokerError:
    """A failure while an item was made."""
    if isinstance(error, errors.CallerError) and error.status == "INVALID_ARGUMENT":
        return _as(ItemMissing, error, context)
    if isinstance(error, errors.DataError) and error.status == "NOT_FOUND":
        return _as(FileMissing, error, context)
    return _as(type(error), error, context)
