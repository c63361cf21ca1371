# SPDX-License-Identifier: Apache-2.0
"""Token files, as Megatron-LM's ``indexed_dataset`` reads them: the same constructor, attributes and bytes.

The files are opened, checked and read in C. This module gives arrays of what is mapped, and turns failures into the
exceptions of ``files``.
"""

from __future__ import annotations

import operator
import os
import struct
from collections.abc import Iterator
from typing import Any

import numpy

from .. import _core, errors
from .files import DType, FilesRefused, HeaderCut, ValueRefused, get_bin_path, get_idx_path, missing, raise_as

__all__ = ["IndexedDataset"]

_MMAP, _FILE, _OBJECT = 0, 1, 2
_TOO_SMALL = "buffer is smaller than requested size"
_TOO_BIG = "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."


def _explain_open(error: errors.StokerError, dataset: IndexedDataset) -> None:
    """Raise what Megatron-LM raises for files that it refuses too; return if it would not notice."""
    prefix = dataset.path_prefix
    idx_path, bin_path = get_idx_path(prefix), get_bin_path(prefix)
    if dataset._access == _OBJECT:
        return
    if error.status == "NOT_FOUND":
        if dataset.fast_cache_load:
            missing(idx_path if os.path.exists(bin_path) else bin_path, error)
        raise_as(
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
            raise_as(FilesRefused, f"bad header, cannot read: {idx_path}", error)
        if len(header) >= 17 and header[9:17] != b"\1\0\0\0\0\0\0\0":
            raise_as(FilesRefused, f"bad version, cannot read: {idx_path}", error)
        if len(header) >= 18 and not 1 <= header[17] <= 8:
            raise_as(ValueRefused, f"{header[17]} is not a valid DType", error)
        if len(header) < 34:
            width = 1 if len(header) == 17 else 8
            raise_as(HeaderCut, f"unpack requires a buffer of {width} bytes", error)
        counts = struct.unpack("<QQ", header[18:])
    sequences, entries = counts
    if sequences > (2**63 - 1) // 8 or entries > (2**63 - 1) // 8:
        raise_as(ValueRefused, f"{_TOO_BIG} {error}", error)
    if size < 34 + 12 * sequences + 8 * entries + (sequences if dataset.multimodal else 0):
        raise_as(ValueRefused, f"{_TOO_SMALL}: {error}", error)
    if entries == 0 or documents != sequences:
        raise_as(FilesRefused, str(error), error)
    raise_as(ValueRefused, str(error), error)


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
                    missing(get_bin_path(self.path_prefix), error)
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
                missing(get_bin_path(self.path_prefix), error)
            if error.status == "CORRUPT":
                raise_as(ValueRefused, f"{_TOO_SMALL}: {error}", error)
            raise
        return out

    def __getitem__(self, idx: int | numpy.integer | slice) -> Any:
        """A sequence; with modes the pair of it and its mode. A slice gives a list of sequences."""
        index = self.index
        if isinstance(idx, (int, numpy.integer)) and not isinstance(idx, bool):
            self._check_place(idx)
            length = int(index.sequence_lengths[idx])
            if length < 0:
                raise ValueRefused(f"'{index.path}': length of sequence {idx} is {length}, below 0")
            sequence = self._read(int(idx), 0, length)
            return sequence if index.sequence_modes is None else (sequence, index.sequence_modes[idx])
        if isinstance(idx, slice):
            return self._slice(idx)
        raise TypeError(f"Unexpected type received for idx: {type(idx)}")

    def _check_place(self, idx: int | numpy.integer) -> None:
        """NumPy tells of most places past the end; these are none for it at all."""
        if not -(2**63) < idx < 2**63:
            raise IndexError(f"idx is {idx}; expected {-len(self)} to {len(self) - 1}")

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
        self._check_place(idx)
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
