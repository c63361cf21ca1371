# SPDX-License-Identifier: Apache-2.0
"""Token files, as Megatron-LM's ``indexed_dataset`` writes them: the same constructor and bytes, of whatever a caller may hold
(tensors, arrays, lists, jagged arrays). The files are written in C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from .. import _core, errors
from .files import DType, TypesDiffer, get_bin_path, get_idx_path, missing, raise_as

__all__ = ["IndexedDatasetBuilder"]

_CODES = {numpy.dtype(code.name): code.value for code in DType}


def _array(value: Any) -> tuple[numpy.ndarray, int]:
    """A C-contiguous array of one of the eight types, and its code."""
    if type(value) is not numpy.ndarray:
        if isinstance(value, (list, tuple)):
            value = numpy.array(value) if len(value) else numpy.empty(0, numpy.int64)
        elif hasattr(value, "numpy"):  # a tensor
            value = value.detach().cpu().numpy() if hasattr(value, "detach") else value.numpy()
        else:
            value = numpy.asarray(value)
    code = _CODES.get(value.dtype)
    if code is None:
        value = _converted(value)
        code = _CODES[value.dtype]
    if not value.flags.c_contiguous:
        value = numpy.ascontiguousarray(value)
    return value, code


def _converted(value: numpy.ndarray) -> numpy.ndarray:
    """An array of another type as one of the eight, without a change of values."""
    if value.dtype.kind == "b":
        return value.astype(numpy.uint8)
    if value.dtype.kind == "f" and value.dtype.itemsize <= 8:
        return value.astype(numpy.float32 if value.dtype.itemsize <= 4 else numpy.float64)
    if value.dtype.kind in "iu" and (value.dtype != numpy.dtype("u8") or not value.size or value.max() < 2**63):
        return value.astype(numpy.int64)
    if value.dtype.kind in "iu":
        at = int(numpy.argmax(value.reshape(-1) >= 2**63))
        raise errors.CallerError(f"token {value.reshape(-1)[at]} at position {at} does not fit int64")
    raise TypeError(f"tokens must be integers or floating values, not {value.dtype}")


def _check_scalar(value: Any) -> None:
    """A date of NumPy shows its bytes as a buffer of integers: no tokens."""
    if isinstance(value, numpy.generic) and value.dtype.kind not in "biuf":
        raise TypeError(f"tokens must be integers or floating values, not {value.dtype}")


def _integers(value: Any, name: str, kinds: str = "iu") -> numpy.ndarray:
    """An array of what must be integers; floating values are refused, not cut."""
    array = numpy.asarray(value.cpu() if hasattr(value, "cpu") else value)
    if array.dtype.kind not in kinds and array.size:
        raise TypeError(f"{name} must be integers, not {array.dtype}")
    return array


def _lengths(value: Any) -> Any:
    """Lengths as a list of integers or an int32 array."""
    if type(value) is list:
        return value
    array = _integers(value, "lengths")
    if array.size and (array.min() < 0 or array.max() >= 2**31):
        bad = int(numpy.argmax((array < 0) | (array >= 2**31)))
        raise errors.CallerError(f"length {array.reshape(-1)[bad]} at position {bad} is not between 0 and 2^31 - 1")
    return numpy.ascontiguousarray(array, numpy.int32)


def _modes(value: Any) -> numpy.ndarray | None:
    return None if value is None else numpy.ascontiguousarray(_integers(value, "modes", "iub").astype(numpy.int8))


def _offsets(value: Any) -> numpy.ndarray:
    array = _integers(value, "offsets")
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        bad = int(numpy.argmax(array >= 2**63))
        raise errors.CallerError(f"offset {array.reshape(-1)[bad]} at position {bad} does not fit int64")
    return numpy.ascontiguousarray(array, numpy.int64)


class IndexedDatasetBuilder:
    """Write a dataset, sequence by sequence. Both files appear when ``finalize`` has succeeded, whole, or not at all.

    Args:
        bin_path: path of the data file.
        dtype: element type.
        multimodal: keep a mode for each sequence.
        wrap: integers that the type cannot hold are taken modulo 2^bits, as in Megatron-LM; else they are an error that
            names document and position.
        sync: ``finalize`` waits until the files are on the disk. False: it does not, as Megatron-LM; every program sees
            both files whole or not at all, but a power cut soon after may leave holes in them.
    """

    def __init__(
        self,
        bin_path: str | os.PathLike[str],
        dtype: type[numpy.number] = numpy.int32,
        multimodal: bool = False,
        *,
        wrap: bool = False,
        sync: bool = True,
    ) -> None:
        self.dtype = dtype
        self.multimodal = multimodal
        self._core = _core.IndexedBuilder(
            os.fspath(bin_path), dtype_code=DType.code_from_dtype(dtype), multimodal=multimodal, wrap=wrap, sync=sync
        )

    def add_item(self, tensor: Any, mode: int = 0) -> None:
        """Append one sequence (a tensor, an array or a list). It does not end a document."""
        _check_scalar(tensor)
        try:
            return self._core.add_item(tensor, 0, mode)
        except (TypeError, ValueError, BufferError):
            array, code = _array(tensor)  # no contiguous array of one of the eight types; a real fault comes again
        self._core.add_item(array, code, mode)

    def add_document(self, tensor: Any, lengths: Any, modes: Any = None) -> None:
        """Append one document: all its elements, the lengths of its sequences, and their modes (None: zeros)."""
        _check_scalar(tensor)
        try:
            if modes is None and type(lengths) is list:
                return self._core.add_document(tensor, 0, lengths)
        except (TypeError, ValueError, BufferError):
            pass  # no contiguous array of one of the eight types; a real fault comes again
        array, code = _array(tensor)
        self._core.add_document(array, code, _lengths(lengths), _modes(modes) if self.multimodal else None)

    def add_documents(
        self, documents: Any, modes: Any = None, eod_token: int | None = None, chunk_size: int = 1000000
    ) -> None:
        """Append many documents of one sequence each.

        Args:
            documents: an awkward array, a list of arrays (or tensors, or lists), or a tuple (values, offsets) where document
                i has ``values[offsets[i]:offsets[i + 1]]``.
            modes: a mode for each document.
            eod_token: appended to each document, also to an empty one.
            chunk_size: documents of a list that are gathered at a time; it changes no byte.
        """
        if chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
        modes = _modes(modes) if self.multimodal else None
        if modes is not None and len(modes) != _document_count(documents):
            raise errors.CallerError(f"{len(modes)} modes for {_document_count(documents)} documents")
        at = 0
        for values, offsets in _batches(documents, chunk_size):
            count = len(offsets) - 1
            array, code = _array(values)
            self._core.add_documents(array, code, offsets, None if modes is None else modes[at : at + count], eod_token)
            at += count

    def end_document(self) -> None:
        """End the current document; twice in a row makes an empty one."""
        self._core.end_document()

    def add_index(self, path_prefix: str | os.PathLike[str]) -> None:
        """Append all of another dataset of the same type."""
        prefix = os.fspath(path_prefix)
        try:
            self._core.add_index(prefix)
        except errors.StokerError as error:
            if error.status == "NOT_FOUND":
                path = get_idx_path(prefix)
                missing(get_bin_path(prefix) if os.path.exists(path) else path, error)
            if error.status == "MISMATCH":
                raise_as(TypesDiffer, str(error), error)
            raise

    def finalize(self, idx_path: str | os.PathLike[str]) -> None:
        """Publish the dataset: the data file, then the index file at ``idx_path``."""
        self._core.finalize(os.fspath(idx_path))

    def close(self) -> None:
        """Give up what was not finalized; nothing of it stays."""
        self._core.close()

    def __enter__(self) -> IndexedDatasetBuilder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _is_awkward(documents: Any) -> bool:
    return type(documents).__module__.partition(".")[0] == "awkward"


def _document_count(documents: Any) -> int:
    return len(documents[1]) - 1 if isinstance(documents, tuple) else len(documents)


def _batches(documents: Any, chunk_size: int) -> Iterator[tuple[Any, numpy.ndarray]]:
    """Documents as values and int64 offsets."""
    if isinstance(documents, tuple):
        if len(documents) != 2:
            raise errors.CallerError(f"expected (values, offsets), got a tuple of {len(documents)}; documents go in a list")
        yield documents[0], _offsets(documents[1])
    elif _is_awkward(documents):
        awkward = sys.modules["awkward"]
        counts = awkward.to_numpy(awkward.num(documents, axis=1))
        yield awkward.to_numpy(awkward.flatten(documents, axis=1)), _offsets_of(counts)
    else:
        for start in range(0, len(documents), chunk_size):
            arrays = [_array(document)[0].reshape(-1) for document in documents[start : start + chunk_size]]
            filled = [array for array in arrays if array.size]
            values = numpy.concatenate(filled) if filled else numpy.empty(0, numpy.int64)
            yield values, _offsets_of([array.size for array in arrays])


def _offsets_of(counts: Sequence[int] | numpy.ndarray) -> numpy.ndarray:
    offsets = numpy.zeros(len(counts) + 1, numpy.int64)
    numpy.cumsum(counts, out=offsets[1:])
    return offsets
