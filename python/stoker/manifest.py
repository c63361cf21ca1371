# SPDX-License-Identifier: Apache-2.0
"""Media manifests and tar shards: what one scan of many videos found, and samples of a shard without unpacking.

A :class:`~stoker.media.VideoDataset` takes the path of a manifest as its source: nothing is probed again. The commands
``stoker manifest build|verify|show|merge`` do the same from a shell.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence

from . import _core, _files, errors

__all__ = ["Manifest", "TarShard", "build", "is_manifest", "merge"]

_MAGIC = b"STKM"
_DEPTHS = {"facts": 0, "packets": 1, "frames": 2}
_DUPLICATES = {"error": 0, "last": 1}
_INDEXES = {"use": 0, "write": 1, "none": 2}


def is_manifest(path: str | os.PathLike) -> bool:
    """Is there a file that begins as manifests do?"""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer would block
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(number).st_mode) and os.read(number, len(_MAGIC)) == _MAGIC
    except OSError:
        return False
    finally:
        os.close(number)


def _object_options() -> dict:
    """Of object storage, from the environment."""
    return _core.object_settings(os.environ)


def _jobs(jobs: int | None) -> int:
    return min(os.cpu_count() or 1, 16) if jobs is None else jobs


def build(
    path: str | os.PathLike,
    sources: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    jobs: int | None = None,
    exact: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int, int, int, int], object] | None = None,
) -> dict:
    """Scan videos into a manifest, or bring one up to date.

    Args:
        path: of the manifest, which appears when it is whole.
        sources: folders, tar shards, files, addresses (``s3://``, ``http(s)://``): one or several.
        jobs: files that are scanned at once, 1 to 16; default: the processors.
        exact: decode each file once and keep the count of frames that come out.
        fresh: take nothing over from an older manifest or an interrupted build.
        progress: called with (done, total, kept, resumed, bad), from any thread.

    Returns ``{"entries", "bad", "kept", "resumed"}``. A file that cannot be used is an entry with its error.
    """
    if isinstance(sources, (str, os.PathLike)):
        sources = [sources]
    names = [os.fspath(source) for source in sources]
    remote = any("://" in os.fsdecode(name) for name in names)
    return _core.manifest_build(
        path,
        names,
        jobs=_jobs(jobs),
        exact=exact,
        fresh=fresh,
        progress=progress,
        object=_object_options() if remote else None,
    )


def merge(path: str | os.PathLike, manifests: Sequence[str | os.PathLike]) -> None:
    """Join manifests in the given order into a new one. A file that stands in two of them is an error."""
    _core.manifest_merge(path, [os.fspath(manifest) for manifest in manifests])


class Manifest:
    """A manifest that is opened: ``len(m)`` entries, ``m[i]`` as dicts.

    An entry has path (absolute, or an address), member (name in a tar shard, or None), codec, width, height (after
    rotation), rotation, frames, frames_exact (None: nobody counted), duration_s, frame_rate, time_base (seconds),
    bytes, mtime_ns, offset, packets, key_packets, packet_bytes and error (None: the file can be used).
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.path.abspath(path)
        self._core = _core.Manifest(self.path)

    def __len__(self) -> int:
        return len(self._core)

    def __getitem__(self, index: int) -> dict:
        return self._core.entry(self._position(index))

    def __iter__(self) -> Iterator[dict]:
        return (self._core.entry(index) for index in range(len(self)))

    def __reduce__(self):
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"Manifest({self.path!r}, {len(self)} files)"

    def _position(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a manifest of {len(self)} files")
        return index % len(self)

    @property
    def facts(self) -> dict:
        """entries, bad, bytes, packet_bytes, text_bytes, id (equal in manifests of equal content)."""
        return self._core.facts()

    def paths(self) -> list[str]:
        """Of the files that can be used, in order; a member of a shard is ``"shard.tar::member"``."""
        return self._core.paths()

    def packets(self, index: int):
        """Packets of a file in decode order: a NumPy array with the fields pts and dts (int64, in units of time_base;
        -2**63: unknown), size (uint32, bytes) and flags (uint32: 1 key, 2 hidden)."""
        import numpy

        fields = [("pts", "<i8"), ("dts", "<i8"), ("size", "<u4"), ("flags", "<u4")]
        return numpy.frombuffer(self._core.packets(self._position(index)), fields)

    def verify(self, depth: str = "facts", *, jobs: int | None = None) -> list[tuple[int, str]]:
        """Files that differ from their entries: (index, one sentence) each.

        ``depth``: ``"facts"`` compares sizes and times, ``"packets"`` scans each file, ``"frames"`` decodes it.
        """
        if depth not in _DEPTHS:
            raise errors.CallerError(f"depth={depth!r} is not one of {', '.join(map(repr, _DEPTHS))}")
        return self._core.verify(_DEPTHS[depth], _jobs(jobs), _object_options())


class ShardFolder:
    """Opens tar shards for datasets of their members. Of several processes that open a shard for the first time one
    walks it, and the others wait for its index.

    ``index_dir`` is a folder for the indices (made if it is not there); default: beside the shards.
    """

    OPEN_MAX = 64  # shards that are kept open

    def __init__(self, duplicates: str = "error", index_dir: str | os.PathLike | None = None) -> None:
        self._duplicates = duplicates
        self._index_dir = None if index_dir is None else os.path.abspath(index_dir)
        self._open: dict[str, TarShard] = {}
        self._lock = threading.Lock()

    def __getstate__(self):
        return (self._duplicates, self._index_dir)

    def __setstate__(self, state) -> None:
        self.__init__(*state)

    def shard(self, path: str) -> TarShard:
        """The shard of an absolute path."""
        with self._lock:
            shard = self._open.pop(path, None)
            if shard is None:
                shard = self._first(path)
            self._open[path] = shard  # the last that was used is at the end
            if len(self._open) > self.OPEN_MAX:
                del self._open[next(iter(self._open))]
            return shard

    def _first(self, path: str) -> TarShard:
        index_path = None
        if self._index_dir is not None:
            os.makedirs(self._index_dir, exist_ok=True)
            name = os.path.basename(path.partition("?")[0])
            digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
            index_path = os.path.join(self._index_dir, f"{name}.{digest}.stkx")
        if _files.is_remote(path):
            if index_path is None:
                return TarShard(path, self._duplicates, "none")
            lock_path, mode = f"{index_path}.lock", "ab"
        else:
            lock_path, mode = path, "rb"
        try:
            lock = open(lock_path, mode)
        except OSError as error:
            status = "NOT_FOUND" if isinstance(error, FileNotFoundError) else "IO"
            raise errors.DataError(f"the shard cannot be opened: {error.strerror}", path, status) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError:  # a file system without locks: each walks for itself
                pass
            return TarShard(path, self._duplicates, "write", index_path)

    def append_member(self, paths: _files.Paths, path: str, name: str) -> None:
        """The path of a member, with its place."""
        shard = self.shard(path)
        member = shard._core.member(shard.find(name))
        paths.append_member(path, name, member["offset"], member["size"], shard.facts["mtime_ns"])


class TarShard:
    """A tar archive of samples in the layout of WebDataset, read at random without unpacking.

    Args:
        location: a path, or an address ``s3://``, ``http://`` or ``https://``.
        duplicates: a name that stands twice is an error (``"error"``), or the last one counts (``"last"``).
        index: ``"use"`` the file beside the shard that keeps what a walk over its headers found, if it is there and fits;
            ``"write"`` it otherwise; or ``"none"``.
        index_path: where that file is; default: the shard's path and ``.stkx``, and none for an address.

    ``len(shard)`` samples; ``shard[i]`` is a dict of bytes by extension with the key as ``"__key__"``. May be used from
    many threads at once.
    """

    def __init__(
        self,
        location: str | os.PathLike,
        duplicates: str = "error",
        index: str = "use",
        index_path: str | os.PathLike | None = None,
    ) -> None:
        for name, value, choices in (("duplicates", duplicates, _DUPLICATES), ("index", index, _INDEXES)):
            if value not in choices:
                raise errors.CallerError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
        self._arguments = (os.fspath(location), duplicates, index, index_path)
        remote = "://" in os.fsdecode(location)
        self._core = _core.Shard(
            location,
            _DUPLICATES[duplicates],
            _INDEXES[index],
            index_path,
            _object_options() if remote else None,
        )
        self.facts = self._core.facts()

    def __reduce__(self):
        return type(self), self._arguments

    def __len__(self) -> int:
        return self.facts["samples"]

    def __getitem__(self, index: int) -> dict:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a shard of {len(self)} samples")
        key, members = self._core.sample(index % len(self))
        sample: dict = {"__key__": key}
        for member in members:
            sample[self._core.member(member)["extension"]] = self._core.read(member)
        return sample

    def members(self) -> Iterator[dict]:
        """In the order of the archive: name, key, extension, offset, size (bytes), sample."""
        return (self._core.member(index) for index in range(self.facts["members"]))

    def keys(self, index: int) -> tuple[str, dict[str, int]]:
        """Key of a sample, and the positions of its members by extension; nothing is read."""
        key, members = self._core.sample(index)
        return key, {self._core.member(member)["extension"]: member for member in members}

    def find(self, name: str) -> int:
        """Position of a member."""
        return self._core.find(name)

    def read(self, member: int | str) -> bytes:
        """The data of a member, by position or name."""
        return self._core.read(self.find(member) if isinstance(member, str) else member)
