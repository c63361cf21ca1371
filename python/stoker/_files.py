# SPDX-License-Identifier: Apache-2.0
"""What datasets of media files share: finding the files, and items that the C library makes."""

from __future__ import annotations

import json
import operator
import os
import struct
from array import array
from collections.abc import Sequence

from . import _core, _seeding, errors

DTYPES = {"uint8": 1, "float16": 2, "bfloat16": 3, "float32": 4}
_DTYPE_NAMES = {number: name for name, number in DTYPES.items()} | {6: "int16"}


def choice(name: str, value, choices: dict) -> int:
    if value not in choices:
        raise errors.CallerError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
    return choices[value]


class Paths(Sequence):
    """Many paths in little memory: one text, and where each begins. ``parts``: None, or what the C library needs of
    members of tar shards, 32 bytes each (``PART``). Is taken by the datasets as a list of paths that are absolute."""

    PART = struct.Struct("=QQqII")  # stoker_path_part: offset, bytes, mtime_ns, bytes of the shard's path, 0

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("Q", [0])
        self._parts = None
        self.remote = False  # are there addresses of objects in storage?

    def append(self, path: str) -> None:
        self.remote = self.remote or is_remote(path)
        self._text += os.fsencode(path)
        self._ends.append(len(self._text))
        if self._parts is not None:
            self._parts += bytes(self.PART.size)

    def append_member(self, shard: str, name: str, offset: int, size: int, mtime_ns: int) -> None:
        if self._parts is None:
            self._parts = bytearray(self.PART.size * len(self))
        self.remote = self.remote or is_remote(shard)
        path = os.fsencode(shard)
        self._parts += self.PART.pack(offset, size, mtime_ns, len(path), 0)
        self._text += path + b"::" + os.fsencode(name)
        self._ends.append(len(self._text))

    @property
    def parts(self) -> bytearray | None:
        return self._parts

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a list of {len(self)} paths")
        index %= len(self)
        return os.fsdecode(bytes(self._text[self._ends[index] : self._ends[index + 1]]))


def kept(paths) -> Sequence[str]:
    """What a dataset keeps of paths that find() gave."""
    return paths if isinstance(paths, Paths) else tuple(paths)


def _walk(folder: str, extensions: frozenset[str]) -> list[str]:
    found = []
    for where, folders, files in os.walk(folder):
        folders.sort()
        found += [os.path.join(where, name) for name in files if os.path.splitext(name)[1].lower() in extensions]
    return sorted(found)


def _manifest(path: str) -> list[str]:
    """Paths of a text file: one per line, or JSON lines with a ``path`` each (what ``stoker probe --json`` prints).
    Relative paths start at the manifest's folder; a JSON line with an ``error`` is left out."""
    folder = os.path.dirname(os.path.abspath(path))
    found = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            if line.lstrip().startswith("[") and os.path.splitext(path)[1].lower() == ".json":
                raise errors.CallerError(
                    f"{path}, line {number}: a JSON list; one JSON object a line, with a 'path', was expected"
                )
            if line.lstrip().startswith("{"):
                try:
                    entry = json.loads(line)
                    if entry.get("error"):
                        continue
                    line = os.fspath(entry["path"])
                except (ValueError, KeyError, TypeError) as error:
                    raise errors.CallerError(
                        f"{path}, line {number}: one JSON object a line, with a 'path', was expected"
                        f" ({errors.describe(error)})"
                    ) from None
            found.append(line if is_remote(line) else os.path.normpath(os.path.join(folder, line)))
    return found


def is_remote(path) -> bool:
    """Is it the address of an object in storage?"""
    return (path if type(path) is str else os.fsdecode(path)).startswith(("s3://", "http://", "https://"))


def any_remote(paths) -> bool:
    return paths.remote if isinstance(paths, Paths) else any(map(is_remote, paths))


def _absolute(paths: list) -> list:
    """The paths as they are meant now: the process may change its folder before they are used."""
    if all(os.path.isabs(path) or is_remote(path) for path in paths):
        return paths
    try:
        folder = os.getcwd()
    except OSError as error:
        raise errors.CallerError(
            f"relative paths cannot be looked up: the working directory is gone ({error.strerror})"
        ) from None
    return [path if os.path.isabs(path) or is_remote(path) else os.path.join(folder, os.fsdecode(path)) for path in paths]


def whole(name: str, value, least: int = 1) -> int:
    """A whole number that the C library can take."""
    number = operator.index(value)
    if not least <= number < 2**31:
        raise errors.CallerError(f"{name}={value!r} is not between {least} and 2**31 - 1")
    return number


def size_of(size) -> tuple[int, int]:
    """(height, width) in pixels."""
    if isinstance(size, int):
        return whole("size", size), whole("size", size)
    try:
        height, width = size
        return whole("size", height), whole("size", width)
    except (TypeError, ValueError):
        raise errors.CallerError(f"size={size!r} is neither a number of pixels nor (height, width)") from None


def find(source, extensions: frozenset[str], noun: str) -> list[str]:
    """The paths that a user means: a folder, one file, a manifest, or an iterable of paths."""
    if isinstance(source, Paths):
        return source
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if is_remote(text):
            return [text]
        if _is_scanned(text):
            return _scanned(text, noun)
        if os.path.isdir(text):
            found = _walk(text, extensions)
            if not found:
                raise errors.CallerError(f"no {noun} file ({', '.join(sorted(extensions))}) below {text!r}")
            return _absolute(found)
        if os.path.splitext(text)[1].lower() in extensions:
            return _absolute([text])
        if not os.path.exists(text):
            article = "an" if noun[0] in "aeiou" else "a"
            raise errors.CallerError(
                f"{text!r} is neither a folder, nor {article} {noun} file, nor a manifest: it does not exist"
            )
        if not os.path.isfile(text):  # opening a pipe would wait for its writer
            raise errors.CallerError(f"{text!r} is a pipe, socket or device; a manifest is a regular file")
        return _manifest(text)
    return _absolute([os.fspath(path) for path in source])


def find_listed(source, extensions: frozenset[str], noun: str) -> tuple[list[str], list[str] | None]:
    """The paths, and, if a manifest of scans (:mod:`stoker.manifest`) names them, that manifest as the one path that a
    C source takes in their place."""
    from . import manifest

    if isinstance(source, (str, os.PathLike)) and manifest.is_manifest(source):
        listing = manifest.Manifest(source)
        return listing.paths(), [listing.path]
    return find(source, extensions, noun), None


def _is_scanned(path) -> bool:
    from . import manifest

    return manifest.is_manifest(path)


def _scanned(path: str, noun: str) -> list[str]:
    """The files of a manifest of scans, for those who open them themselves."""
    from . import manifest

    entries = [entry for entry in manifest.Manifest(path) if entry["error"] is None]
    for entry in entries:
        if entry["member"] is not None:
            raise errors.UnsupportedError(
                f"{path!r} lists a member of the shard {entry['path']!r}: a list of {noun} files was expected"
            )
    return [entry["path"] for entry in entries]


class FileDataset:
    """Sample i is file i. Subclasses set ``paths``, ``dtype``, ``return_index`` and ``as_numpy`` before they call
    :meth:`_source`, and say what an item looks like.

    ``native`` tells a stoker loader that the samples can be made by workers without Python.
    """

    paths: Sequence[str]
    dtype: str
    return_index: bool
    as_numpy: bool
    native = True
    #: Items are random: a loader sends each its draw, a function of (seed, epoch, item, occurrence).
    random = False
    seed = 0
    epoch = 0
    _noun = "files"

    @property
    def shape(self) -> tuple:
        """Of one item."""
        raise NotImplementedError

    def _make_source(self):
        """A new C source."""
        raise NotImplementedError

    def _source(self):
        """The C source; made again where this object was unpickled."""
        if self._core is None:
            self._core = self._make_source()
        return self._core

    _core = None
    _listing: list | None = None  # what the C source gets in place of the paths

    @property
    def _parts(self):
        """Where members of tar shards lie; None: all are files."""
        return self.paths.parts if isinstance(self.paths, Paths) else None

    @property
    def _places(self) -> dict:
        """What a C source needs to know of paths that are no files."""
        remote = _core.object_settings(os.environ) if any_remote(self.paths) else None
        return {"parts": self._parts, "object": remote}

    def __len__(self) -> int:
        return len(self.paths)

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_core"] = None
        return state

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} files, shape={self.shape}, dtype={self.dtype})"

    def describe(self, index: int) -> dict:
        """What is known of an item before it is decoded: path, bytes, mtime_ns, shape, dtype (its name), sample_bytes."""
        described = self._source().describe(self._position(index))
        return described | {"dtype": _DTYPE_NAMES[described["dtype"]]}

    def set_epoch(self, epoch: int) -> None:
        """Of the random choices in items that are asked for by ``dataset[i]``; a stoker loader counts its own epochs."""
        self.epoch = operator.index(epoch)

    def _draw(self, position: int) -> int:
        return _seeding.draw(self.seed, self.epoch, position) if self.random else 0

    def _position(self, index) -> int:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is outside a dataset of {len(self)} {self._noun}")
        return position % len(self)

    def __getitem__(self, index):
        position = self._position(index)
        item = self._decode(position)
        return (item, position) if self.return_index else item

    def _decode(self, position: int):
        item, memory = empty(self.shape, self.dtype, self.as_numpy)
        self._materialise(position, memory)
        return item

    def _materialise(self, position: int, memory) -> None:
        try:
            self._source().materialise(position, memory, self._draw(position))
        except (errors.DataError, errors.UnsupportedError) as error:
            raise sample_error(error, position, self.paths[position]) from None


def empty(shape: tuple, dtype: str, as_numpy: bool):
    """A new tensor, or array if PyTorch is not there or not wanted, and its memory."""
    torch = None if as_numpy else _torch()
    if torch is not None:
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        return tensor, tensor.view(torch.uint8).numpy()
    import numpy

    if dtype == "bfloat16":
        raise errors.UnsupportedError("dtype='bfloat16': NumPy has no such type; install PyTorch or use another dtype")
    array = numpy.empty(shape, dtype)
    return array, array


def torch_dtype(name: str):
    return getattr(_torch(), name)


def sample_error(error: errors.StokerError, position: int, path: str) -> errors.SampleError:
    """The same failure as a SampleError that names the sample."""
    context = error.context or f"sample {position}: {path}"
    if not context.startswith("sample"):
        context = f"sample {position}: {context}"
    return errors.SampleError(error.message, context, error.status, error.os_error)


def _torch():
    """PyTorch if it is installed; imported on the first item, never by this module itself."""
    try:
        import torch
    except ImportError:
        return None
    return torch
