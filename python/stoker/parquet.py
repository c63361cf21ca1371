# SPDX-License-Identifier: Apache-2.0
"""Parquet files of media, embedded or by path, with captions and other columns. Needs the package ``pyarrow``.

>>> ParquetDataset("clips.parquet", "image", kind="image", cache_dir="/local/cache", size=224)[0]  # doctest: +SKIP
{'image': tensor(...), 'caption': 'a cat on a mat'}
"""

from __future__ import annotations

import bisect
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterable

from . import _fields, _files, errors
from .captions import Captions

__all__ = ["ParquetDataset"]

_ROWS = 64  # of embedded media that are in memory at once
_GROUPS = 4  # row groups whose fields are kept


def _pyarrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise errors.UnsupportedError("Parquet files are read by the package pyarrow, which is not installed") from None
    return pyarrow


class ParquetDataset(_fields.FieldDataset):
    """Media of a column of Parquet files, with other columns as fields.

    Args:
        files: a path, a folder (searched in sorted order for ``.parquet``), or several of them.
        media: name of the column. Texts are paths (from the folder of the file on) or addresses. Binary columns, and
            structs with ``bytes`` as those of Hugging Face's datasets, are the files themselves.
        kind: ``"video"``, ``"image"`` or ``"audio"``; default, for paths: what the name of the first file says.
        fields: names of the columns that items hold; default: all others.
        cache_dir: of embedded media, and required for them: a local folder with room for all of them. They are copied there
            once, as they are, so that workers decode them in place; of several processes one copies, the others wait.
        captions: a :class:`stoker.captions.Captions`: items get the token ids of their text.
        keywords: of :class:`~stoker.media.VideoDataset`, :class:`~stoker.media.ImageDataset` or
            :class:`~stoker.media.AudioDataset`.

    Items are dicts as those of :class:`stoker.manifests.ManifestDataset`. Fields are read by row groups when they are
    asked for, and four row groups are kept: files with small groups (a few thousand rows) suit a shuffle.
    """

    def __init__(
        self,
        files: str | os.PathLike | Iterable[str | os.PathLike],
        media: str,
        kind: str | None = None,
        *,
        fields: Iterable[str] | None = None,
        cache_dir: str | os.PathLike | None = None,
        captions: Captions | None = None,
        **keywords,
    ) -> None:
        if isinstance(fields, str):
            raise errors.CallerError(f"fields={fields!r}: a list of names was expected")
        self.files = tuple(_list(files))
        self._column = media
        self._cache_dir = None if cache_dir is None else os.path.abspath(cache_dir)
        self.fields = None if fields is None else tuple(fields)
        self._facts = [_facts(path) for path in self.files]
        self._starts: list[int] = [0]  # first row of each row group, of all files
        self._groups: list[tuple[int, int]] = []  # number of the file, row group in it
        paths = _files.Paths()
        for number in range(len(self.files)):
            self._add(number, paths)
        if not len(paths):
            raise errors.CallerError(f"no row in {len(self.files)} Parquet files")
        kind = _fields.kind_of_name(paths[0]) if kind is None else _fields.check_kind(kind)
        if kind is None:
            raise errors.CallerError(f"of what kind {paths[0]!r} is cannot be seen from its name: give kind=")
        super().__init__(kind, paths, keywords, captions)
        if taken := sorted(self._taken() & set(self.fields)):
            raise errors.CallerError(f"the column {taken[0]!r} has the name of what the dataset itself gives")
        self._open()

    def _open(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, list[dict]] = {}

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name not in ("_lock", "_kept")}

    def __setstate__(self, state) -> None:
        self.__dict__.update(state)
        self._open()

    def _add(self, number: int, paths: _files.Paths) -> None:
        path = self.files[number]
        with _reader(path) as reader:
            names = reader.schema_arrow.names
            if self.fields is None:
                self.fields = tuple(name for name in names if name != self._column)
            for name in (self._column, *self.fields):
                if name not in names:
                    raise errors.CallerError(f"{path}: no column {name!r}, there are {', '.join(map(repr, names))}")
            for group in range(reader.metadata.num_row_groups):
                self._groups.append((number, group))
                self._starts.append(self._starts[-1] + reader.metadata.row_group(group).num_rows)
            types = _pyarrow().types
            of = reader.schema_arrow.field(self._column).type
            if types.is_string(of) or types.is_large_string(of):
                self._add_paths(reader, path, paths)
            elif types.is_binary(of) or types.is_large_binary(of) or (types.is_struct(of) and of.get_field_index("bytes") >= 0):
                self._add_embedded(reader, number, paths)
            else:
                raise errors.CallerError(f"{path}: the column {self._column!r} is {of}; texts or binary were expected")

    def _add_paths(self, reader, path: str, paths: _files.Paths) -> None:
        folder = os.path.dirname(path)
        row = 0
        for batch in reader.iter_batches(columns=[self._column]):
            for place in batch.column(0).to_pylist():
                if not place:
                    raise errors.DataError(f"row {row} has no path", path)
                paths.append(place if _files.is_remote(place) else os.path.normpath(os.path.join(folder, place)))
                row += 1

    def _add_embedded(self, reader, number: int, paths: _files.Paths) -> None:
        if self._cache_dir is None:
            raise errors.CallerError(
                f"{self.files[number]}: the media in the column {self._column!r} are embedded: cache_dir= must name a local"
                " folder that they are copied to once"
            )
        name = json.dumps([self.files[number], self._facts[number], self._column])
        os.makedirs(self._cache_dir, exist_ok=True)
        base = os.path.join(self._cache_dir, f"parquet-{hashlib.sha256(name.encode()).hexdigest()[:24]}")
        with open(f"{base}.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(f"{base}.sizes"):
                _copy(reader, self._column, base, self.files[number])
        with open(f"{base}.sizes", "rb") as file:
            sizes = memoryview(file.read()).cast("Q")
        mtime_ns = os.stat(f"{base}.media").st_mtime_ns
        offset = 0
        for row, size in enumerate(sizes):
            paths.append_member(f"{base}.media", str(row), offset, size, mtime_ns)
            offset += size

    def read_fields(self, position: int) -> dict:
        """The fields of a row, without its media."""
        if not self.fields:
            return {}
        place = bisect.bisect_right(self._starts, position) - 1
        with self._lock:
            rows = self._kept.pop(place, None)
            if rows is None:
                number, group = self._groups[place]
                path = self.files[number]
                if _facts(path) != self._facts[number]:
                    raise errors.DataError("the file was changed since the dataset was made", path, "MISMATCH")
                with _reader(path) as reader:
                    rows = reader.read_row_group(group, columns=list(self.fields))
            self._kept[place] = rows  # the last that was used is at the end
            if len(self._kept) > _GROUPS:
                del self._kept[next(iter(self._kept))]
        row = position - self._starts[place]
        made = {name: rows.column(name)[row].as_py() for name in self.fields}
        for name, value in made.items():
            if value is None:
                raise errors.SampleError(f"the column {name!r} is null", f"sample {position}: {self._where(place)}")
        return made

    def _where(self, place: int) -> str:
        return self.files[self._groups[place][0]]


def _list(source) -> list[str]:
    if not isinstance(source, (str, os.PathLike)):
        return [path for one in source for path in _list(one)]
    text = os.path.abspath(source)
    if not os.path.isdir(text):
        return [text]
    found = _files._walk(text, frozenset((".parquet",)))
    if not found:
        raise errors.CallerError(f"no .parquet file below {text!r}")
    return found


def _facts(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        status = "NOT_FOUND" if isinstance(error, FileNotFoundError) else "IO"
        raise errors.DataError(f"the Parquet file cannot be opened: {error.strerror}", path, status) from None
    return (found.st_size, found.st_mtime_ns)


def _reader(path: str):
    pyarrow = _pyarrow()
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise errors.DataError(f"this is no Parquet file that pyarrow can read ({errors.describe(error)})", path) from None


def _copy(reader, column: str, base: str, path: str) -> None:
    """The embedded media of a file, one after the other, and their sizes. The sizes appear last: with them, all is there."""
    sizes = bytearray()
    with open(f"{base}.media", "wb") as out:
        for batch in reader.iter_batches(batch_size=_ROWS, columns=[column]):
            values = batch.column(0)
            if _pyarrow().types.is_struct(values.type):
                values = values.field("bytes")
            for value in values:
                data = value.as_buffer() if value.is_valid else None
                if not data:
                    raise errors.DataError(f"row {len(sizes) // 8} has no media in the column {column!r}", path)
                out.write(data)
                sizes += len(data).to_bytes(8, "little")
        out.flush()
        os.fsync(out.fileno())
    with open(f"{base}.sizes.new", "wb") as out:
        out.write(sizes)
    os.rename(f"{base}.sizes.new", f"{base}.sizes")
