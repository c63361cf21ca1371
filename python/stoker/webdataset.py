# SPDX-License-Identifier: Apache-2.0
"""Tar shards in the layout of WebDataset as a map-style dataset: any order, any sampler, exact resume.

>>> WebDataset("shards/{000..127}.tar", frames=8, size=224)[0]  # doctest: +SKIP
{'video': tensor(...), '__key__': 'a/0017', 'json': {...}, 'txt': 'a cat on a mat'}
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Iterable, Sequence

from . import _fields, _files, errors, manifest
from .captions import Captions

__all__ = ["WebDataset", "expand_braces"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_SHARDS_MAX = 1_000_000
_TEXTS = frozenset(("txt", "text", "caption", "transcript"))
_NUMBERS = frozenset(("cls", "cls2", "index", "inx", "id"))
_KNOWN = _TEXTS | _NUMBERS | {"json"}


def expand_braces(pattern: str) -> list[str]:
    """Names that a pattern stands for, in its order: ``{000..127}`` counts (with as many digits as are written),
    ``{a,b}`` chooses; several of them multiply.

    >>> expand_braces("s-{08..10}.tar")
    ['s-08.tar', 's-09.tar', 's-10.tar']
    """
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    counted = _RANGE.fullmatch(found[1])
    if counted:
        first, last = int(counted[1]), int(counted[2])
        if not first <= last < first + _SHARDS_MAX:
            raise errors.CallerError(f"{pattern!r}: {found[0]} is no range of up to {_SHARDS_MAX} numbers that goes upward")
        parts = [str(number).zfill(len(counted[1])) for number in range(first, last + 1)]
    elif "," in found[1]:
        parts = found[1].split(",")
    else:
        raise errors.CallerError(f"{pattern!r}: {found[0]} is neither a range as {{00..12}} nor a choice as {{a,b}}")
    rests = expand_braces(pattern[found.end() :])
    if len(parts) * len(rests) > _SHARDS_MAX:
        raise errors.CallerError(f"{pattern!r} stands for more than {_SHARDS_MAX} names")
    return [pattern[: found.start()] + part + rest for part in parts for rest in rests]


def _shards(source) -> list[str]:
    """Absolute paths, in order."""
    if not isinstance(source, (str, os.PathLike)):
        return [path for one in source for path in _shards(one)]
    text = os.fspath(source)
    if _files.is_remote(text):
        return expand_braces(text)
    if os.path.isdir(text):
        found = _files._walk(text, frozenset((".tar",)))
        if not found:
            raise errors.CallerError(f"no tar shard below {text!r}")
    else:
        found = [text] if os.path.exists(text) else expand_braces(text)
    return [os.path.abspath(path) for path in found]


class WebDataset(_fields.FieldDataset):
    """Samples of tar shards: members with one key are one sample (``a/17.mp4``, ``a/17.txt``, ``a/17.json``).

    Args:
        shards: a path, a pattern (:func:`expand_braces`), a folder (searched in sorted order for ``.tar``), or several of
            them.
        media: extension of the members to decode, or several that stand for each other (``("jpg", "png")``); default: all
            extensions of the kind that the first sample has.
        kind: ``"video"``, ``"image"`` or ``"audio"``; default: what the extension says.
        fields: extensions of the members that items hold; default: those of the first sample that are known as texts
            (``txt``, ``text``, ``caption``, ``transcript``), numbers (``cls``, ``cls2``, ``index``, ``inx``, ``id``) or
            ``json``. Members with other extensions are bytes.
        incomplete: a sample without its media or a field is an error (``"error"``), or is left out (``"skip"``).
        duplicates: a name that stands twice is an error (``"error"``), or the last one counts (``"last"``).
        index_dir: folder for the indices of the shards; default: beside them (nowhere if their folder is read-only).
        captions: a :class:`stoker.captions.Captions`: items get the token ids of their text.
        keywords: of :class:`~stoker.media.VideoDataset`, :class:`~stoker.media.ImageDataset` or
            :class:`~stoker.media.AudioDataset`.

    Items are dicts: the media under ``"video"``, ``"image"`` or ``"audio"``, what the keywords ``return_...`` ask for,
    ``"__key__"``, and the fields by extension. Samples stand in the order of the shards, and in a shard in that of its
    members; a loader shuffles and shards them as any map-style dataset.

    Nothing is unpacked: one walk over the headers of a shard finds its members, an index keeps them, and workers decode
    the bytes of a member in place. A shard that was changed since the dataset was made is a mismatch.
    """

    def __init__(
        self,
        shards: str | os.PathLike | Iterable[str | os.PathLike],
        media: str | Sequence[str] | None = None,
        kind: str | None = None,
        *,
        fields: Iterable[str] | None = None,
        incomplete: str = "error",
        duplicates: str = "error",
        index_dir: str | os.PathLike | None = None,
        captions: Captions | None = None,
        **keywords,
    ) -> None:
        if incomplete not in ("error", "skip"):
            raise errors.CallerError(f"incomplete={incomplete!r} is neither 'error' nor 'skip'")
        if isinstance(fields, str):
            raise errors.CallerError(f"fields={fields!r}: a list of extensions was expected")
        self.shards = tuple(_shards(shards))
        if kind is not None:
            _fields.check_kind(kind)
        self._folder = manifest.ShardFolder(duplicates, index_dir)
        self._media = None if media is None else ((media,) if isinstance(media, str) else tuple(media))
        self._kind = kind
        self.fields = None if fields is None else tuple(fields)
        self._skip = incomplete == "skip"
        self.left_out = 0
        self._shard_of, self._sample_of = array("I"), array("I")
        self._facts: list[tuple] = []
        paths = _files.Paths()
        for number in range(len(self.shards)):
            self._add(number, paths)
        if not len(paths):
            raise errors.CallerError(f"no sample in {len(self.shards)} shards ({self.left_out} incomplete ones)")
        super().__init__(self._kind, paths, keywords, captions)
        if taken := sorted(self._taken() & {*self.fields, "__key__"}):
            raise errors.CallerError(f"the field {taken[0]!r} has the name of what the dataset itself gives")

    def _add(self, number: int, paths: _files.Paths) -> None:
        """The samples of one shard."""
        shard = self._folder.shard(self.shards[number])
        self._facts.append((shard.facts["mtime_ns"], shard.facts["bytes"]))
        extensions = {}
        for sample in range(len(shard)):
            key, members = shard._core.sample(sample)
            extensions = {found["extension"]: found for found in map(shard._core.member, members)}
            if self.fields is None or self._media is None or self._kind is None:
                self._choose(extensions, f"{self.shards[number]}: sample {key!r}")
            chosen = [extensions[name] for name in self._media if name in extensions]
            missing = [name for name in self.fields if name not in extensions]
            if len(chosen) != 1 or missing:
                if self._skip and len(chosen) < 2:
                    self.left_out += 1
                    continue
                wanted = f"{missing[0]!r}" if missing else f"one of {', '.join(map(repr, self._media))}"
                raise errors.DataError(
                    f"the sample has {', '.join(map(repr, extensions))}; {wanted} was expected",
                    f"{self.shards[number]}: sample {key!r}",
                )
            paths.append_member(
                self.shards[number], chosen[0]["name"], chosen[0]["offset"], chosen[0]["size"], shard.facts["mtime_ns"]
            )
            self._shard_of.append(number)
            self._sample_of.append(sample)

    def _choose(self, extensions: dict, where: str) -> None:
        """What the first sample says about all others."""
        if self._media is None:
            kinds = {name: _fields.kind_of_name(f"x.{name}") for name in extensions}
            found = [name for name, kind in kinds.items() if kind is not None and self._kind in (None, kind)]
            if len(found) != 1:
                raise errors.CallerError(
                    f"{where} has {', '.join(map(repr, extensions))}: media= must say which of them are the media"
                )
            self._kind = kinds[found[0]]
            self._media = tuple(extension[1:] for extension in sorted(_fields.extensions_of(self._kind)))
        if self._kind is None:
            kinds = {_fields.kind_of_name(f"x.{name}") for name in self._media}
            if len(kinds) != 1 or None in kinds:
                raise errors.CallerError(f"media={self._media!r} does not say whether this is video, image or audio: give kind=")
            self._kind = kinds.pop()
        if self.fields is None:
            self.fields = tuple(name for name in extensions if name in _KNOWN and name not in self._media)

    def read_fields(self, position: int) -> dict:
        """The key and the fields of a sample, without its media."""
        number = self._shard_of[position]
        shard = self._folder.shard(self.shards[number])
        if (shard.facts["mtime_ns"], shard.facts["bytes"]) != self._facts[number]:
            raise errors.DataError("the shard was changed since the dataset was made", self.shards[number], "MISMATCH")
        key, members = shard._core.sample(self._sample_of[position])
        by_extension = {shard._core.member(member)["extension"]: member for member in members}
        made = {"__key__": key}
        for name in self.fields:
            data = shard.read(by_extension[name])
            try:
                made[name] = _decode(name, data)
            except ValueError as error:
                raise errors.SampleError(
                    f"the member {key}.{name} of {len(data)} bytes cannot be read ({errors.describe(error)})",
                    f"sample {position}: {self.shards[number]}",
                ) from None
        return made


def _decode(extension: str, data: bytes):
    """ValueError: these are no bytes of such a member."""
    last = extension.rsplit(".", 1)[-1]
    if last in _TEXTS:
        return data.decode("utf-8")
    if last in _NUMBERS:
        return int(data.decode("ascii"))
    if last == "json":
        return json.loads(data)
    return data
