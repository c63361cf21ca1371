# SPDX-License-Identifier: Apache-2.0
"""JSON-lines manifests: one media file a line, with its caption and whatever else stands there.

>>> ManifestDataset("clips.jsonl", frames=8, size=224)[0]  # doctest: +SKIP
{'video': tensor(...), 'caption': 'a cat on a mat', 'score': 0.93}
"""

from __future__ import annotations

import json
import os
import threading
from array import array
from collections.abc import Iterable

from . import _core, _fields, _files, errors, manifest
from .captions import Captions

__all__ = ["ManifestDataset"]

_PLACES = ("path", "tar", *_fields.KINDS)
_RESERVED = frozenset((*_PLACES, "member", "media", "error"))
_LINE_BYTES_MAX = 16 << 20


class ManifestDataset(_fields.FieldDataset):
    """Media of a JSON-lines file, with the fields of their lines.

    Args:
        path: of the manifest, UTF-8. A line is an object that says where the media are: ``path`` (or a key ``video``,
            ``image`` or ``audio`` in its place), or ``tar`` with ``member`` for a file inside of a tar shard. Relative
            paths begin at the folder of the manifest. ``media`` may say the kind; lines with an ``error`` (not null) are
            left out, as are empty lines and lines that begin with ``#``. All other keys are fields.
        kind: ``"video"``, ``"image"`` or ``"audio"``; default: what the first line says, else the name of its file, else
            its content. All lines have one kind.
        fields: names of the fields that are wanted; default: all.
        duplicates: of tar shards, see :class:`stoker.manifest.TarShard`.
        index_dir: folder for the indices of tar shards; default: beside them.
        captions: a :class:`stoker.captions.Captions`: items get the token ids of their text.
        keywords: of :class:`~stoker.media.VideoDataset`, :class:`~stoker.media.ImageDataset` or
            :class:`~stoker.media.AudioDataset`.

    Items are dicts: ``"video"`` (``"image"``, ``"audio"``), what the keywords ``return_...`` ask for (``"index"``,
    ``"frames"``, ``"partial"``, ``"window"``), then the fields. All lines have the same fields, each of one type: text,
    true or false, number (all float if one of them is), list or object; null is refused. The default collate function
    makes lists of texts and tensors of numbers.

    The whole file is checked when the dataset is made, and errors name the line. What is kept in memory is where each
    line begins, and the paths; fields are read again when they are asked for.

    Raises :class:`stoker.CallerError` for a manifest that makes no sense, and :class:`stoker.DataError` for one that was
    changed since.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        kind: str | None = None,
        *,
        fields: Iterable[str] | None = None,
        duplicates: str = "error",
        index_dir: str | os.PathLike | None = None,
        captions: Captions | None = None,
        **keywords,
    ) -> None:
        self.path = os.path.abspath(path)
        rows = _Rows(self.path, kind, fields, manifest.ShardFolder(duplicates, index_dir))
        rows.read()
        self.fields = rows.names
        self._floats = rows.floats
        self._lines = _Lines(self.path, rows.facts, rows.starts, rows.sizes)
        super().__init__(rows.kind, rows.paths, keywords, captions)
        if taken := sorted(self._taken() & set(self.fields)):
            raise errors.CallerError(f"{self.path}: the field {taken[0]!r} has the name of what the dataset itself gives")

    def read_fields(self, position: int) -> dict:
        """The fields of a line, without its media."""
        entry = self._lines.entry(position)
        try:
            return {name: float(entry[name]) if name in self._floats else entry[name] for name in self.fields}
        except (KeyError, TypeError, ValueError) as error:
            raise self._lines.changed(str(error)) from None


class _Lines:
    """Lines of a file by number, read when they are asked for. Any thread, also after a fork."""

    def __init__(self, path: str, facts: tuple[int, int], starts: array, sizes: array) -> None:
        self._path, self._facts, self._starts, self._sizes = path, facts, starts, sizes
        self._file = None
        self._lock = threading.Lock()

    def __getstate__(self):
        return (self._path, self._facts, self._starts, self._sizes)

    def __setstate__(self, state) -> None:
        self.__init__(*state)

    def changed(self, seen: str) -> errors.DataError:
        return errors.DataError(f"the manifest was changed since the dataset was made ({seen})", self._path, "MISMATCH")

    def entry(self, number: int) -> dict:
        with self._lock:
            if self._file is None:
                self._file = open(self._path, "rb")
        found = os.fstat(self._file.fileno())
        if (found.st_size, found.st_mtime_ns) != self._facts:
            raise self.changed(f"{found.st_size} bytes of {found.st_mtime_ns} ns, expected {self._facts}")
        try:
            return json.loads(os.pread(self._file.fileno(), self._sizes[number], self._starts[number]))
        except ValueError as error:
            raise self.changed(str(error)) from None


class _Rows:
    """One pass over a manifest."""

    def __init__(self, path: str, kind: str | None, fields, shards) -> None:
        self.path, self.shards = path, shards
        self.kind = None if kind is None else _fields.check_kind(kind)
        if isinstance(fields, str):
            raise errors.CallerError(f"fields={fields!r}: a list of names was expected")
        self.wanted = None if fields is None else tuple(fields)
        self.names: tuple[str, ...] = ()
        self.floats: frozenset[str] = frozenset()
        self.paths = _files.Paths()
        self.starts, self.sizes = array("Q"), array("I")
        self._types: dict[str, str] = {}
        self._folder = os.path.dirname(path)

    def read(self) -> None:
        start = 0
        try:
            file = open(self.path, "rb")
        except OSError as error:
            raise errors.CallerError(f"the manifest {self.path!r} cannot be read: {error.strerror}") from None
        with file:
            found = os.fstat(file.fileno())
            self.facts = (found.st_size, found.st_mtime_ns)
            for self.number, line in enumerate(file, 1):
                if len(line) > _LINE_BYTES_MAX:
                    raise self._fault(f"the line has {len(line)} bytes, at most {_LINE_BYTES_MAX} were expected")
                text = line.strip()
                if text and not text.startswith(b"#"):
                    self._take(self._parse(text), start, len(line))
                start += len(line)
        if not self.starts:
            raise errors.CallerError(f"{self.path}: a manifest of at least one line was expected, it has none")
        self.floats = frozenset(name for name, of in self._types.items() if of == "float")

    def _fault(self, text: str) -> errors.CallerError:
        return errors.CallerError(f"{self.path}, line {self.number}: {text}")

    def _parse(self, text: bytes) -> dict:
        try:
            entry = json.loads(text, parse_constant=self._constant)
        except (ValueError, RecursionError) as error:
            raise self._fault(f"one JSON object was expected ({errors.describe(error)})") from None
        if not isinstance(entry, dict):
            raise self._fault(f"a JSON object was expected, not {_type_of(entry)}")
        return entry

    @staticmethod
    def _constant(text: str):
        raise ValueError(f"{text} is no JSON")

    def _take(self, entry: dict, start: int, size: int) -> None:
        if entry.get("error") is not None:
            return
        where = [key for key in _PLACES if key in entry]
        if len(where) != 1:
            found = " and ".join(map(repr, where)) or "none of them"
            raise self._fault(f"one of {', '.join(map(repr, _PLACES))} was expected, found {found}")
        place = self._text(entry, where[0])
        kind = entry.get("media")
        if kind is not None and kind not in _fields.KINDS:
            raise self._fault(f"media is {kind!r}, expected one of {', '.join(map(repr, _fields.KINDS))}")
        if kind is not None and where[0] in _fields.KINDS and where[0] != kind:
            raise self._fault(f"media is {kind!r}, but the path stands under {where[0]!r}")
        said = kind or (where[0] if where[0] in _fields.KINDS else None)
        self._add_place(entry, where[0], place)
        if self.kind is None:
            self.kind = said or self._guess()
        if said is not None and said != self.kind:
            raise self._fault(f"this is {said}, but the dataset is of {self.kind}: give each kind a manifest of its own")
        self._check_fields(entry)
        self.starts.append(start)
        self.sizes.append(size)

    def _text(self, entry: dict, key: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value or "\0" in value:
            raise self._fault(f"{key} is {errors.show(value)}, a text was expected")
        return value

    def _add_place(self, entry: dict, key: str, place: str) -> None:
        remote = _files.is_remote(place)
        path = place if remote else os.path.normpath(os.path.join(self._folder, place))
        if key != "tar":
            if "member" in entry:
                raise self._fault("'member' was found without 'tar'")
            self.paths.append(path)
            return
        name = self._text(entry, "member")
        try:
            self.shards.append_member(self.paths, path, name)
        except errors.StokerError as error:
            raise self._fault(str(error)) from None

    def _guess(self) -> str:
        name = self.paths[-1]
        kind = _fields.kind_of_name(name)
        if kind is not None:
            return kind
        for kind, probe in (("image", _core.probe_image), ("video", _core.probe), ("audio", _core.probe_audio)):
            try:
                probe(name)
            except errors.StokerError:
                continue
            return kind
        raise self._fault(f"of what kind {name!r} is can be seen neither from its name nor its content: give kind=")

    def _check_fields(self, entry: dict) -> None:
        first = not self.starts
        if first and self.wanted is None:
            self.names = tuple(key for key in entry if key not in _RESERVED)
        elif first:
            self.names = self.wanted
        for name in self.names:
            if name not in entry or name in _RESERVED:
                raise self._fault(f"the field {name!r} was expected, but there is none")
            of = _type_of(entry[name])
            if of == "null":
                raise self._fault(f"the field {name!r} is null; a value was expected (or leave it out by fields=)")
            known = self._types.setdefault(name, of)
            if of != known:
                if {of, known} != {"int", "float"}:
                    raise self._fault(f"the field {name!r} is of type {of}, in the lines before it was {known}")
                self._types[name] = "float"
        if self.wanted is None and len(entry) > len(self.names) + 1:
            extra = next((key for key in entry if key not in _RESERVED and key not in self._types), None)
            if extra is not None:
                raise self._fault(f"the field {extra!r} is new: all lines have the same fields (choose some by fields=)")


def _type_of(value) -> str:
    if value is None:
        return "null"
    return {str: "text", bool: "bool", int: "int", float: "float", list: "list", dict: "object"}[type(value)]
