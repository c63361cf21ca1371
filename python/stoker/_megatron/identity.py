# SPDX-License-Identifier: Apache-2.0
"""The identity of a dataset: an ordered JSON text, whose MD5 names its cache files.

The text must be, byte for byte, what ``json.dumps(identifiers, indent=4)`` gives, with objects replaced by their
``unique_identifiers``. Blends nest the texts of their datasets, and a thousand datasets of one configuration share most
of theirs, so texts are joined from prepared parts instead of being written again and again.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["Part", "dataset_text", "hash_of", "join", "list_of", "nested", "prepared", "shared", "text_of"]

_INDENT = "    "
_string = json.encoder.encode_basestring_ascii  # what json.dumps writes for a text


def _identifiers(value: Any) -> Any:
    try:
        return value.unique_identifiers
    except AttributeError:
        raise TypeError(
            f"a {type(value).__name__} cannot be part of the identity of a dataset: it is no JSON value and has no"
            " attribute unique_identifiers"
        ) from None


def text_of(value: Any) -> str:
    """JSON of any value, indented by four."""
    if type(value) is str:
        return _string(value)
    if type(value) is int:
        return str(value)
    if value is None:
        return "null"
    if type(value) is float and math.isfinite(value):
        return repr(value)
    return json.dumps(value, indent=4, default=_identifiers)


def nested(text: str) -> str:
    """A text as it stands one level deeper. Texts of JSON hold no line break but those of the indentation."""
    return text.replace("\n", "\n" + _INDENT)


def join(members: Iterable[tuple[str, str]]) -> str:
    """The object of these keys and texts."""
    lines = [f"{_INDENT}{text_of(key)}: {nested(text)}" for key, text in members]
    return "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"


def list_of(texts: Iterable[str]) -> str:
    """The list of these texts."""
    lines = [_INDENT + nested(text) for text in texts]
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def hash_of(text: str) -> str:
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


class Part:
    """Attributes of a configuration as they are now: names, values, and their lines in a JSON object."""

    __slots__ = ("_at", "names", "values")

    def __init__(self, config: Any, names: tuple[str, ...]) -> None:
        self.names = names
        self.values = tuple(getattr(config, name) for name in names)
        self._at = {0: "\n" + _lines(zip(names, self.values, strict=True))}

    def lines_at(self, depth: int) -> str:
        """The lines, each with its line break before it, as they stand in an object ``depth`` levels deep."""
        if depth not in self._at:
            self._at[depth] = _deeper(self._at[0], depth)
        return self._at[depth]


class Prepared:
    """What is made once of one configuration, at its first use."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self._parts: dict[tuple[str, ...], Part] = {}
        self._made: dict[Any, Any] = {}

    def part(self, names: Iterable[str]) -> Part:
        key = tuple(names)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = Part(self.config, key)
        return part

    def once(self, make: Callable[[Any], Any]) -> Any:
        """``make(config)``."""
        if make not in self._made:
            self._made[make] = make(self.config)
        return self._made[make]


_shared: contextvars.ContextVar[Prepared | None] = contextvars.ContextVar("stoker_prepared", default=None)


@contextlib.contextmanager
def shared(config: Any) -> Iterator[None]:
    """While it lasts, ``config`` is not changed, so what is made of it is made once. Tasks in copies of this context
    share it."""
    token = _shared.set(Prepared(config))
    try:
        yield
    finally:
        _shared.reset(token)


def prepared(config: Any) -> Prepared:
    found = _shared.get()
    return found if found is not None and found.config is config else Prepared(config)


def _lines(members: Iterable[tuple[str, Any]]) -> str:
    """``"key": text`` of each, as they stand in an object."""
    return ",\n".join(f"{_INDENT}{text_of(key)}: {nested(text_of(value))}" for key, value in members)


def dataset_text(own: Mapping[str, Any], part: Part, extras: Mapping[str, Any], depth: int = 0) -> str:
    """Text of a mid-level dataset: its own identifiers (texts, numbers or None), then those of its configuration, then
    others; as it stands ``depth`` levels deep."""
    outer = "\n" + _INDENT * depth
    inner = outer + _INDENT
    text = "{" + ",".join([f"{inner}{_string(key)}: {text_of(value)}" for key, value in own.items()])
    if part.names:
        text += "," + part.lines_at(depth)
    if extras:
        text += "," + _deeper("\n" + _lines(extras.items()), depth)
    return text + outer + "}"


def _deeper(text: str, depth: int) -> str:
    return text.replace("\n", "\n" + _INDENT * depth)
