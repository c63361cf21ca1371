# SPDX-License-Identifier: Apache-2.0
"""Token files, as Megatron-LM's ``indexed_dataset`` has them: the same constructors, attributes and bytes.

The files are opened, checked, read and written in C. This module gives arrays of what is mapped, accepts what a caller
may hold (tensors, arrays, lists, jagged arrays), and turns failures into the exceptions that programs written for
Megatron-LM catch: each is an error of stoker and of the built-in type at the same time.
"""

from __future__ import annotations

import enum
import operator
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from .. import _core, errors

__all__ = ["DType", "IndexedDataset", "IndexedDatasetBuilder", "get_bin_path", "get_idx_path"]

_MMAP, _FILE, _OBJECT = 0, 1, 2


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
        return cls[numpy.dtype(value).name].value

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


# ---------------------------------------------------------------------------------------------------------- failures


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


_TOO_SMALL = "buffer is smaller than requested size"
_TOO_BIG = "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."


def _raise_as(kind: type[errors.StokerError], text: str, error: errors.StokerError) -> None:
    """Raise with the text that Megatron-LM has; what stoker found goes along as a note if it is not part of it."""
    made = kind(text, "", error.status, error.os_error)
    if str(error) not in text:
        made.add_note(str(error))
    raise made from None


def _missing(path: str, error: errors.StokerError) -> None:
    _raise_as(FileMissing, f"[Errno 2] No such file or directory: {path!r}", error)


def _explain_open(error: errors.StokerError, dataset: IndexedDataset) -> None:
    """Raise what Megatron-LM raises for files that it refuses too; return if it would not notice."""
    prefix = dataset.path_prefix
    idx_path, bin_path = get_idx_path(prefix), get_bin_path(prefix)
    if dataset._access == _OBJECT:
        return
    if error.status == "NOT_FOUND":
        if dataset.fast_cache_load:
            _missing(idx_path if os.path.exists(bin_path) else bin_path, error)
        _raise_as(
            FilesRefused,
            f"One or both of the .idx and .bin files cannot be found at the path prefix {prefix}",
            error,
        )
    if not isinstance(error, (errors.DataError, errors.UnsupportedError)):
        return
    try:
        with open(idx_path, "rb") as file:
            header = file.read(34)
            size = os.fstat(file.fileno()).st_size
            documents = dataset._last_document(file, header)
    except OSError:
        return
    counts = dataset.sequences_per_dataset
    if counts is None:
        if header[:9] != b"MMIDIDX\0\0":
            _raise_as(FilesRefused, f"bad header, cannot read: {idx_path}", error)
        if len(header) >= 17 and header[9:17] != b"\1\0\0\0\0\0\0\0":
            _raise_as(FilesRefused, f"bad version, cannot read: {idx_path}", error)
        if len(header) >= 18 and not 1 <= header[17] <= 8:
            _raise_as(ValueRefused, f"{header[17]} is not a valid DType", error)
        if len(header) < 34:
            width = 1 if len(header) == 17 else 8
            _raise_as(HeaderCut, f"unpack requires a buffer of {width} bytes", error)
        counts = struct.unpack("<QQ", header[18:])
    sequences, entries = counts
    if sequences > (2**63 - 1) // 8 or entries > (2**63 - 1) // 8:
        _raise_as(ValueRefused, f"{_TOO_BIG} {error}", error)
    if size < 34 + 12 * sequences + 8 * entries + (sequences if dataset.multimodal else 0):
        _raise_as(ValueRefused, f"{_TOO_SMALL}: {error}", error)
    if entries == 0 or documents != sequences:
        _raise_as(FilesRefused, str(error), error)
    _raise_as(ValueRefused, str(error), error)


# ------------------------------------------------------------------------------------------------------------ reading


class _IndexReader:
    """The index of a dataset; the arrays are read-only views of the file."""

    def __init__(self, file: Any, path: str, multimodal: bool) -> None:
        self.path = path
        self.dtype = DType.dtype_from_code(file.dtype_code)
        self.dtype_size = DType.size(self.dtype)
        self.sequence_count: int = file.count
        self.document_count: int = file.document_entries
        self.sequence_lengths = _view(file.lengths(), "<i4")
        self.sequence_pointers = _view(file.offsets(), "<i8")
        self.document_indices = _view(file.documents(), "<i8")
        self.sequence_modes = _view(file.modes(), "<i1") if multimodal else None

    def __len__(self) -> int:
        return self.sequence_count

    def __getitem__(self, idx: int) -> tuple[Any, Any, Any]:
        """Byte offset, length and mode of a sequence."""
        mode = self.sequence_modes[idx] if self.sequence_modes is not None else None
        return self.sequence_pointers[idx], self.sequence_lengths[idx], mode


class _BinReader:
    """Elements by byte offset."""

    def __init__(self, dataset: IndexedDataset) -> None:
        self._dataset = dataset

    def read(self, dtype: type[numpy.number], count: int, offset: int) -> numpy.ndarray:
        """``count`` elements at a byte offset."""
        dataset = self._dataset
        data = dataset._data()
        if data is not None:
            return numpy.frombuffer(data, dtype, count, offset)
        size = dataset.index.dtype_size
        skipped, rest = divmod(int(offset) - int(dataset.index.sequence_pointers[0]), size)
        if rest or skipped < 0 or numpy.dtype(dtype).itemsize != size:
            raise errors.UnsupportedError(f"element {skipped} and {rest} bytes from the first sequence on: only whole"
                                          " elements of the dataset's type can be read without a mapping")
        out = numpy.empty(count, dtype)
        dataset._core.read(0, skipped, count, out)
        return out


def _view(buffer: Any, dtype: str) -> numpy.ndarray:
    return numpy.frombuffer(buffer, dtype) if len(buffer) else numpy.empty(0, dtype)


class IndexedDataset:
    """Sequences of one element type, from ``path_prefix`` + ``.idx`` and ``.bin``.

    Args:
        path_prefix: both paths without their endings; ``s3://``, ``http(s)://`` and ``msc://`` with a configuration of
            object storage.
        multimodal: the files have a mode for each sequence.
        mmap: map the data, and give views of it; else each read gives a fresh array.
        object_storage_config: where the index of a dataset in object storage is kept, and the size of blocks.
        s3_config: older name of it.
        fast_cache_load: do not look at the data before the first read, and check values when they are used.
        sequences_per_dataset: number of sequences and of document entries: the header is not read.
        dtype_code: code of the element type, needed with ``sequences_per_dataset``.
        retries: tries after a failed read; None: 3. Without effect on mapped data.
        retry_delay_s: seconds before the first of them, then doubling; None: 10 for files, 0.2 for objects.
    """

    def __init__(
        self,
        path_prefix: str | os.PathLike[str],
        multimodal: bool = False,
        mmap: bool = True,
        object_storage_config: Any = None,
        s3_config: Any = None,
        fast_cache_load: bool = False,
        sequences_per_dataset: tuple[int, int] | None = None,
        dtype_code: int | None = None,
        *,
        retries: int | None = None,
        retry_delay_s: float | None = None,
    ) -> None:
        self.path_prefix = os.fspath(path_prefix)
        self.multimodal = multimodal
        self.mmap = mmap
        self.object_storage_config = object_storage_config if object_storage_config is not None else s3_config
        self.fast_cache_load = fast_cache_load
        self.sequences_per_dataset = None if sequences_per_dataset is None else tuple(sequences_per_dataset)
        self._dtype_code = dtype_code
        self._retries, self._retry_delay_s = retries, retry_delay_s
        self._open()

    def _open(self) -> None:
        options: dict[str, Any] = {}
        self._access = _MMAP if self.mmap else _FILE
        if self.object_storage_config is not None and _is_object(self.path_prefix):
            if self.mmap:
                raise AssertionError(f"{self.path_prefix}: data in object storage cannot be mapped: set mmap=False")
            from . import storage

            options = storage.indexed_file_options(self.path_prefix, self.object_storage_config)
            self._access = _OBJECT
        if self.sequences_per_dataset is not None:
            sequences, entries = (int(count) for count in self.sequences_per_dataset)
            if self._dtype_code is None:
                raise AssertionError("sequences_per_dataset needs dtype_code: the header is not read")
            options.update(sequences=sequences, document_entries=entries)
            options.update(dtype_code=DType(self._dtype_code).value)
        if self._retries is not None:
            options.update(retries=self._retries if self._retries > 0 else -1)
        if self._retry_delay_s is not None:
            options.update(retry_delay_s=max(float(self._retry_delay_s), 1e-9))
        try:
            self._core = _core.IndexedFile(
                self.path_prefix,
                multimodal=self.multimodal,
                access=self._access,
                unchecked=self.fast_cache_load,
                **options,
            )
        except errors.StokerError as error:
            _explain_open(error, self)
            raise
        self._bin: Any = None
        self.index = _IndexReader(self._core, get_idx_path(self.path_prefix), self.multimodal)
        self.bin_reader = _BinReader(self)

    def _last_document(self, file: Any, header: bytes) -> int | None:
        """Last entry of the document index as it is in the file; None if there is none."""
        sequences, entries = self.sequences_per_dataset or struct.unpack("<QQ", header[18:].ljust(16, b"\0"))
        place = 34 + 12 * sequences + 8 * (entries - 1)
        if entries == 0 or place >= 2**62:
            return None
        file.seek(place)
        return int.from_bytes(file.read(8), "little", signed=True)

    def _data(self) -> Any:
        """All data as a buffer; None if they are not mapped."""
        if self._bin is None and self._access == _MMAP:
            try:
                self._bin = self._core.bin()
            except errors.StokerError as error:
                if error.status == "NOT_FOUND":
                    _missing(get_bin_path(self.path_prefix), error)
                raise
        return self._bin

    def __getstate__(self) -> dict[str, Any]:
        """What it takes to open the files again, in this process or another."""
        state = self.__dict__.copy()
        for name in ("_core", "_bin", "index", "bin_reader"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __len__(self) -> int:
        return self.index.sequence_count

    def _read(self, idx: int, offset: int, count: int) -> numpy.ndarray:
        """``count`` elements, ``offset`` elements into sequence ``idx`` and on into the next ones. Negative: all."""
        index = self.index
        data = self._data()
        if data is not None:
            place = int(index.sequence_pointers[idx]) + offset * index.dtype_size
            try:
                if count == 0 and place <= len(data):
                    return numpy.empty(0, index.dtype)
                return numpy.frombuffer(data, index.dtype, count, place)
            except ValueError as error:
                text = f"{error}: '{get_bin_path(self.path_prefix)}': {count} elements from element {offset} of"
                raise ValueRefused(f"{text} sequence {idx} (offset {place}); the file has {len(data)} bytes") from None
        out = numpy.empty(count, index.dtype)
        try:
            self._core.read(idx % index.sequence_count, offset, count, out)
        except errors.StokerError as error:
            if error.status == "NOT_FOUND":
                _missing(get_bin_path(self.path_prefix), error)
            if error.status == "CORRUPT":
                _raise_as(ValueRefused, f"{_TOO_SMALL}: {error}", error)
            raise
        return out

    def __getitem__(self, idx: int | numpy.integer | slice) -> Any:
        """A sequence; with modes the pair of it and its mode. A slice gives a list of sequences."""
        index = self.index
        if isinstance(idx, (int, numpy.integer)):
            length = int(index.sequence_lengths[idx])
            if length < 0:
                raise ValueRefused(f"'{index.path}': length of sequence {idx} is {length}, below 0")
            sequence = self._read(int(idx), 0, length)
            return sequence if index.sequence_modes is None else (sequence, index.sequence_modes[idx])
        if isinstance(idx, slice):
            return self._slice(idx)
        raise TypeError(f"Unexpected type received for idx: {type(idx)}")

    def _slice(self, idx: slice) -> Any:
        index = self.index
        start, stop, step = idx.indices(len(self))
        if step != 1:
            raise ValueError("Slices into indexed_dataset must be contiguous")
        pointers, lengths = index.sequence_pointers[start:stop], index.sequence_lengths[start:stop]
        first = int(index.sequence_pointers[start])  # IndexError for a slice past the last, as in Megatron-LM
        if (lengths < 0).any():
            raise ValueRefused(f"'{index.path}': a length of sequences {start} to {stop - 1} is below 0")
        ends = numpy.cumsum(lengths, dtype=numpy.int64)
        if len(pointers) and numpy.array_equal(pointers[1:], first + ends[:-1] * index.dtype_size):
            block = self._read(start, 0, int(ends[-1]))
            bounds = [0, *ends.tolist()]
            sequences = [block[bounds[i] : bounds[i + 1]] for i in range(len(ends))]
        elif len(pointers):  # sequences that do not lie side by side are read one by one
            sequences = [self._read(start + i, 0, int(length)) for i, length in enumerate(lengths)]
        else:
            sequences = [self._read(start, 0, 0)]
        return sequences if index.sequence_modes is None else (sequences, index.sequence_modes[start:stop])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def get(self, idx: int, offset: int = 0, length: int | None = None) -> Any:
        """``length`` elements (None: the rest of the sequence), ``offset`` elements into a sequence.

        As in Megatron-LM the sequence is no bound: a longer read continues into the next sequences, and a negative length
        reads mapped data to their end. Only the end of the file is an error.
        """
        index = self.index
        idx, offset = operator.index(idx), operator.index(offset)
        whole = int(index.sequence_lengths[idx])
        if offset < 0:
            raise ValueError(f"offset must be non-negative, not {offset}")
        sequence = self._read(idx, offset, whole - offset if length is None else operator.index(length))
        return sequence if index.sequence_modes is None else (sequence, index.sequence_modes[idx])

    @property
    def sequence_lengths(self) -> numpy.ndarray:
        """int32: elements of each sequence."""
        return self.index.sequence_lengths

    @property
    def document_indices(self) -> numpy.ndarray:
        """int64: entries k and k + 1 bound the sequences of document k."""
        return self.index.document_indices

    def get_document_indices(self) -> numpy.ndarray:
        """Older name of document_indices."""
        return self.index.document_indices

    def set_document_indices(self, document_indices: numpy.ndarray) -> None:
        """Let this object report other documents; the files stay as they are."""
        self.index.document_indices = document_indices

    @property
    def sequence_modes(self) -> numpy.ndarray:
        """int8: mode of each sequence of a multimodal dataset."""
        if self.index.sequence_modes is None:
            raise AssertionError(f"{self.path_prefix} was not opened as multimodal: it has no modes")
        return self.index.sequence_modes

    def verify(self) -> None:
        """Check all values again, and that offsets are running sums and the data exactly as long; DataError if not."""
        self._core.verify()

    @staticmethod
    def exists(path_prefix: str | os.PathLike[str]) -> bool:
        """Are both files there?"""
        prefix = os.fspath(path_prefix)
        if _is_object(prefix):
            from . import storage

            return storage.exists(get_idx_path(prefix)) and storage.exists(get_bin_path(prefix))
        return os.path.exists(get_idx_path(prefix)) and os.path.exists(get_bin_path(prefix))


def _is_object(prefix: str) -> bool:
    return prefix.startswith(("s3://", "msc://", "http://", "https://"))


# ------------------------------------------------------------------------------------------------------------ writing

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


def _lengths(value: Any) -> Any:
    """Lengths as a list of integers or an int32 array."""
    if type(value) is list:
        return value
    array = numpy.asarray(value.cpu() if hasattr(value, "cpu") else value)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"lengths must be integers, not {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= 2**31):
        bad = int(numpy.argmax((array < 0) | (array >= 2**31)))
        raise errors.CallerError(f"length {array.reshape(-1)[bad]} at position {bad} is not between 0 and 2^31 - 1")
    return numpy.ascontiguousarray(array, numpy.int32)


def _modes(value: Any) -> numpy.ndarray | None:
    return None if value is None else numpy.ascontiguousarray(numpy.asarray(value).astype(numpy.int8))


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
        try:
            return self._core.add_item(tensor, 0, mode)
        except (TypeError, ValueError, BufferError):
            array, code = _array(tensor)  # no contiguous array of one of the eight types; a real fault comes again
        self._core.add_item(array, code, mode)

    def add_document(self, tensor: Any, lengths: Any, modes: Any = None) -> None:
        """Append one document: all its elements, the lengths of its sequences, and their modes (None: zeros)."""
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
                _missing(get_bin_path(prefix) if os.path.exists(path) else path, error)
            if error.status == "MISMATCH":
                _raise_as(TypesDiffer, str(error), error)
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
        offsets = documents[1].cpu() if hasattr(documents[1], "cpu") else documents[1]
        yield documents[0], numpy.ascontiguousarray(offsets, numpy.int64)
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
