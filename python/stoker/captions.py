# SPDX-License-Identifier: Apache-2.0
"""Texts beside media as token ids of a fixed length, by a Hugging Face ``tokenizer.json``. Needs the package ``tokenizers``.

>>> Captions("tokenizer.json", max_tokens=77)(["a cat"])  # doctest: +SKIP
[{'tokens': tensor([...]), 'length': 2}]
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence

from . import _files, errors

__all__ = ["Captions"]


class Captions:
    """A tokenizer for one field of a dataset: given to ``captions=`` of datasets with fields.

    Args:
        tokenizer: path of a ``tokenizer.json``; its own truncation and padding are replaced by what is said here.
        max_tokens: of each sample; longer texts are cut at their end, shorter ones filled with ``pad_id``.
        field: name of the field; default: the first one that is ``caption``, ``text`` or ``txt``.
        pad_id: default: that of the file's padding, else 0.
        special_tokens: add those that the file's template says.

    Items get ``"tokens"`` (int64, ``max_tokens``) and ``"length"`` (how many are no filling); the text itself stays.
    """

    NAMES = ("tokens", "length")

    def __init__(
        self,
        tokenizer: str | os.PathLike,
        max_tokens: int,
        field: str | None = None,
        *,
        pad_id: int | None = None,
        special_tokens: bool = True,
    ) -> None:
        if operator.index(max_tokens) < 1:
            raise errors.CallerError(f"max_tokens={max_tokens!r} must be positive")
        self.path = os.path.abspath(tokenizer)
        self.max_tokens = operator.index(max_tokens)
        self.field = field
        self.special_tokens = bool(special_tokens)
        self._made = self._load()
        padding = self._made.padding or {}
        self.pad_id = padding.get("pad_id", 0) if pad_id is None else operator.index(pad_id)
        self._prepare()

    def _load(self):
        try:
            import tokenizers
        except ImportError:
            raise errors.UnsupportedError("captions= needs the package tokenizers, which is not installed") from None
        try:
            return tokenizers.Tokenizer.from_file(self.path)
        except Exception as error:  # of no class of its own
            raise errors.DataError(f"this is no tokenizer.json ({errors.describe(error)})", self.path) from None

    def _prepare(self) -> None:
        self._made.no_padding()
        self._made.enable_truncation(self.max_tokens)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_made"}

    def __setstate__(self, state) -> None:
        self.__dict__.update(state)
        self._made = self._load()
        self._prepare()

    def choose(self, fields: Sequence[str]) -> str:
        """The field of a dataset that is meant."""
        wanted = ("caption", "text", "txt") if self.field is None else (self.field,)
        found = next((name for name in wanted if name in fields), None)
        if found is None:
            raise errors.CallerError(f"captions= wants a field {' or '.join(map(repr, wanted))}, there are {tuple(fields)!r}")
        return found

    def __call__(self, texts: Sequence[str], as_numpy: bool = False) -> list[dict]:
        """``{"tokens", "length"}`` of each text."""
        made = []
        for encoding in self._made.encode_batch_fast(list(texts), add_special_tokens=self.special_tokens):
            ids = encoding.ids
            item, memory = _files.empty((self.max_tokens,), "int64", as_numpy)
            (item if item is memory else item.numpy())[:] = ids + [self.pad_id] * (self.max_tokens - len(ids))
            made.append({"tokens": item, "length": len(ids)})
        return made
