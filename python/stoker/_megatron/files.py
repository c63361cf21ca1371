# SPDX-License-Identifier: Apache-2.0
"""What both sides of token files share: element types, paths, and failures as the exceptions that programs written for
Megatron-LM catch. Each is an error of stoker and of the built-in type at the same time.
"""

from __future__ import annotations

import enum
import struct

import numpy

from .. import errors

__all__ = [
    "DType",
    "FileMissing",
    "FilesRefused",
    "HeaderCut",
    "TypesDiffer",
    "ValueRefused",
    "get_bin_path",
    "get_idx_path",
    "missing",
    "raise_as",
]


class DType(enum.Enum):
    """Element types by their code in an index file."""

    uint8 = 1
    int8 = 2
    int16 = 3
    int32 = 4
    int64 = 5
    float64 = 6
    float32 = 7
    uint16 = 8

    @classmethod
    def code_from_dtype(cls, value: type[numpy.number]) -> int:
        """The code of a NumPy type.

        >>> DType.code_from_dtype(numpy.uint16)
        8
        """
        try:
            name = None if value is None else numpy.dtype(value).name  # NumPy takes None for float64
        except TypeError:
            name = None
        if name not in cls.__members__:
            kinds = ", ".join(member.name for member in cls)
            raise TypeError(f"dtype is {name or repr(value)}; the elements of token files are one of {kinds}")
        return cls[name].value

    @classmethod
    def dtype_from_code(cls, value: int) -> type[numpy.number]:
        """The NumPy type of a code."""
        return getattr(numpy, cls(value).name)

    @staticmethod
    def size(key: int | type[numpy.number]) -> int:
        """Bytes of one element, of a code or a NumPy type."""
        if isinstance(key, (int, numpy.integer)):
            return DType.dtype_from_code(int(key))().itemsize
        if isinstance(key, type) and issubclass(key, numpy.number):
            return key().itemsize
        raise ValueError(f"expected a code or a NumPy type, not {key!r}")

    @staticmethod
    def optimal_dtype(cardinality: int | None) -> type[numpy.number]:
        """What token ids of a vocabulary of this size are written as.

        >>> DType.optimal_dtype(65499).__name__, DType.optimal_dtype(65500).__name__
        ('uint16', 'int32')
        """
        return numpy.uint16 if cardinality is not None and cardinality < 65500 else numpy.int32


def get_idx_path(path_prefix: str) -> str:
    """Path of the index file of a prefix."""
    return f"{path_prefix}.idx"


def get_bin_path(path_prefix: str) -> str:
    """Path of the data file of a prefix."""
    return f"{path_prefix}.bin"


class FilesRefused(errors.DataError, AssertionError):
    """The files are missing or no index of a known kind."""


class FileMissing(errors.DataError, FileNotFoundError):
    """One file is not there."""

    status = "NOT_FOUND"

    def __str__(self) -> str:
        return self.args[0]


class HeaderCut(errors.DataError, struct.error):
    """The index file ends inside its header."""


class ValueRefused(errors.DataError, ValueError):
    """A value in the files makes no sense, or a file ends before what it says."""


class TypesDiffer(errors.DataError, AssertionError):
    """Datasets of different element types cannot be merged."""

    status = "MISMATCH"


def raise_as(kind: type[errors.StokerError], text: str, error: errors.StokerError) -> None:
    """Raise with the text that Megatron-LM has; what stoker found goes along as a note if it is not part of it."""
    made = kind(text, "", error.status, error.os_error)
    if str(error) not in text:
        made.add_note(str(error))
    raise made from None


def missing(path: str, error: errors.StokerError) -> None:
    raise_as(FileMissing, f"[Errno 2] No such file or directory: {path!r}", error)
