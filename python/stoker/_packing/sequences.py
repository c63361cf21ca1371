# SPDX-License-Identifier: Apache-2.0
"""A packing iterator over any token source, whose buffer is part of its state.

Documents wait in a buffer; each pack takes the oldest one, then the longest that still fit. So none waits for more than
``buffer_size`` packs, and packs are nearly full. What waits in the buffer was taken from the source but not yet given
out: without it a resumed run would lose or repeat documents.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from ..errors import CallerError, show
from .samples import TOKEN_KEYS, pack_samples
from .words import refuse_fractions, whole

_VERSION = 1
_OPTIONS = ("max_tokens", "buffer_size", "pad_multiple", "long")


@dataclasses.dataclass
class _Piece:
    """Pairs of (token, label) [start, end) of one document."""

    number: int  # of the document, in the order in which they were taken
    start: int
    end: int
    key: Any  # of a map-style source
    rows: dict[str, torch.Tensor] | None


class PackedSequences:
    """Packs documents into sequences of at most ``max_tokens`` tokens, padding included.

    ``source`` is a map-style dataset (visited in ``order``, or in its own), or an iterable. A document is an array of
    token ids, of which n make n - 1 pairs of token and label, or a dict with ``tokens``, ``labels``, ``loss_mask`` and
    ``position_ids`` of one length. Longer documents are split (``long="split"``) or refused (``long="error"``).

    Each item is a dict: those four keys, ``cu_seqlens``, ``cu_seqlens_padded``, ``max_seqlen``, and ``pieces``, a list
    of (document, offset, length) that says what lies where. ``get_batch_on_this_rank_for_sequence_packing`` takes it.

    ``state_dict()`` between two items holds the position and the buffer: as keys for a map-style source, with the
    tokens otherwise. ``load_state_dict()`` restores a source that has a ``load_state_dict`` of its own through that;
    any other iterable is started anew and skipped forward.

    A document whose reading raised an exception, or that was refused, is passed and counted: the caller sees the error,
    the next item goes on after that document, and so does a run that is resumed. An iterable of which a ``next()``
    raised is taken to have passed one document. What is no ``Exception``, such as Ctrl-C, passes nothing: a document of
    a map-style source that was being read is read again.

    >>> packs = PackedSequences([[1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]], max_tokens=4)
    >>> [pack["pieces"] for pack in packs]
    [[(0, 0, 3), (2, 0, 1)], [(1, 0, 4)]]
    """

    def __init__(
        self, source, max_tokens: int, *, order=None, buffer_size: int = 200, pad_multiple: int = 1, long: str = "split"
    ) -> None:
        max_tokens, buffer_size = whole(max_tokens, "max_tokens"), whole(buffer_size, "buffer_size")
        pad_multiple = whole(pad_multiple, "pad_multiple")
        if pad_multiple < 1 or max_tokens < pad_multiple or buffer_size < 1:
            raise CallerError(
                f"max_tokens is {max_tokens}, pad_multiple {pad_multiple}, buffer_size {buffer_size}: expected "
                "max_tokens >= pad_multiple >= 1 and buffer_size >= 1"
            )
        if long not in ("split", "error"):
            raise CallerError(f'long is {long!r}, expected "split" or "error"')
        self.max_tokens, self.buffer_size, self.pad_multiple, self.long = max_tokens, buffer_size, pad_multiple, long
        self._source = source
        if not hasattr(source, "__iter__") and not hasattr(source, "__getitem__"):
            raise CallerError(
                f"source is {show(source)}, expected a map-style dataset, with __getitem__ and __len__, or an iterable"
            )
        self._mapped = hasattr(source, "__getitem__") and hasattr(source, "__len__")
        if order is not None and not self._mapped:
            raise CallerError("order needs a map-style source, with __getitem__ and __len__")
        self._order = order
        self._documents = None  # iterator: keys of a map-style source, or documents
        self._buffer: list[_Piece] = []
        self._taken = self._packs = 0
        self._ended = False
        self._skip = 0  # items of the iterator that a restored state has seen
        self._failed: list[int] = []  # numbers of the documents at which next() of the iterator raised
        self._held: list[Any] = []  # the item whose reading was interrupted

    def __iter__(self):
        return self

    def __next__(self) -> dict[str, Any]:
        self._fill()
        if not self._buffer:
            raise StopIteration
        chosen = self._choose()
        samples = [self._sample(piece) for piece in chosen]
        packed = pack_samples(samples)
        packed["pieces"] = [
            (piece.key if self._mapped else piece.number, piece.start, piece.end - piece.start) for piece in chosen
        ]
        gone = {id(piece) for piece in chosen}
        self._buffer = [piece for piece in self._buffer if id(piece) not in gone]
        self._packs += 1
        return packed

    # ---- state ----

    def state_dict(self) -> dict[str, Any]:
        """Position and buffer after the last item; holds no more than plain Python objects and tensors."""
        state = {name: getattr(self, name) for name in _OPTIONS}
        own = getattr(self._source, "state_dict", None)
        state.update(
            version=_VERSION,
            mapped=self._mapped,
            taken=self._taken,
            packs=self._packs,
            ended=self._ended,
            failed=list(self._failed),
            source=own() if own is not None and not self._mapped else None,
            buffer=[
                (piece.number, piece.start, piece.end, piece.key, None if self._mapped else dict(piece.rows))
                for piece in self._buffer
            ],
        )
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the item that the state was taken after."""
        if state.get("version") != _VERSION:
            raise CallerError(f"the state has version {state.get('version')!r}, expected {_VERSION}", status="MISMATCH")
        for name in _OPTIONS:
            if state[name] != getattr(self, name):
                raise CallerError(
                    f"the state was saved with {name}={state[name]!r}, this one has {getattr(self, name)!r}: packs "
                    "would differ",
                    status="MISMATCH",
                )
        if state["mapped"] != self._mapped:
            raise CallerError(
                f"the state is of {'a map-style source' if state['mapped'] else 'an iterable'}, this source is none",
                status="MISMATCH",
            )
        buffer = [
            _Piece(number, start, end, key, self._rows(self._source[key], number) if self._mapped else dict(rows))
            for number, start, end, key, rows in state["buffer"]
        ]
        if state["source"] is not None:
            self._source.load_state_dict(state["source"])
        elif not self._mapped and self._taken > 0 and iter(self._source) is self._source:
            raise CallerError(
                f"{self._taken} documents were taken from this iterator already, and it cannot be rewound: load the "
                "state into a new one",
                status="WRONG_STATE",
            )
        self._documents, self._held = None, []
        self._skip = state["taken"] if state["source"] is None else 0
        self._taken, self._packs, self._ended = state["taken"], state["packs"], state["ended"]
        self._failed = list(state.get("failed", ()))  # states of earlier versions have none
        self._buffer = buffer

    # ---- documents ----

    def _start(self) -> None:
        if self._documents is None and self._mapped:
            self._documents = iter(range(len(self._source)) if self._order is None else self._order)
        elif self._documents is None:
            self._documents = iter(self._source)
        while self._skip > 0:
            number = self._taken - self._skip
            try:
                next(self._documents)
            except StopIteration:
                raise CallerError(
                    f"the source gives {number} documents, the state was saved after {self._taken}", status="MISMATCH"
                ) from None
            except Exception:
                self._skip -= 1
                if number not in self._failed:  # else it is known
                    raise
            else:
                self._skip -= 1

    def _fill(self) -> None:
        while len(self._buffer) < self.buffer_size and not self._ended:
            if self._documents is None or self._skip > 0:
                self._start()
            try:
                if not self._held:
                    self._held = [next(self._documents)]
                pieces = self._read(self._held[0], self._taken)
            except StopIteration:
                if not self._held:
                    self._ended = True
                    return
                self._taken, self._held = self._taken + 1, []
                raise RuntimeError(f"reading document {self._taken - 1} raised StopIteration") from None
            except Exception:  # see the docstring of the class
                if not self._held:
                    self._failed.append(self._taken)
                self._taken, self._held = self._taken + 1, []
                raise
            self._buffer += pieces
            self._taken, self._held = self._taken + 1, []

    def _read(self, item, number: int) -> list[_Piece]:
        if not self._mapped:
            return self._pieces(self._rows(item, number), None, number)
        return self._pieces(self._rows(self._source[item], number), item, number)

    def _rows(self, item, number: int) -> dict[str, torch.Tensor]:
        if isinstance(item, dict):
            missing = [key for key in TOKEN_KEYS if key not in item]
            if missing:
                raise CallerError(f"document {number} has no {', '.join(missing)}")
            rows = {key: _flat(item[key], f"document {number}: {key}") for key in TOKEN_KEYS}
            for key in ("tokens", "labels", "position_ids"):
                refuse_fractions(rows[key], f"document {number}: {key}")
            lengths = {key: row.shape[0] for key, row in rows.items()}
            if len(set(lengths.values())) != 1:
                raise CallerError(f"document {number}: lengths differ: {lengths}")
            return rows
        tokens = refuse_fractions(_flat(item, f"document {number}"), f"document {number}")
        if tokens.dtype == torch.uint64 and bool((tokens.view(torch.int64) < 0).any()):
            raise CallerError(f"document {number} has a token id above {2**63 - 1}")
        tokens = tokens.to(torch.int64)
        pairs = max(0, tokens.shape[0] - 1)
        # Positions are those in a piece: they are made when it is given out.
        return {"tokens": tokens[:pairs], "labels": tokens[1:], "loss_mask": torch.ones(pairs)}

    def _pieces(self, rows, key, number: int) -> list[_Piece]:
        length, most = rows["tokens"].shape[0], self.max_tokens // self.pad_multiple * self.pad_multiple
        if length > most and self.long == "error":
            raise CallerError(f"document {number} has {length} tokens, max_tokens is {self.max_tokens}")
        return [
            _Piece(number, start, min(start + most, length), key, rows) for start in range(0, length, most)
        ]

    # ---- packs ----

    def _padded(self, piece: _Piece) -> int:
        return -(-(piece.end - piece.start) // self.pad_multiple) * self.pad_multiple

    def _choose(self) -> list[_Piece]:
        first, *rest = self._buffer  # in the order in which they came
        chosen, room = [first], self.max_tokens - self._padded(first)
        # Room only shrinks: one walk from the longest on finds the longest that fits again and again.
        for piece in sorted(rest, key=self._padded, reverse=True):
            if self._padded(piece) <= room:
                chosen.append(piece)
                room -= self._padded(piece)
        return chosen

    def _sample(self, piece: _Piece) -> dict[str, torch.Tensor]:
        length, padded = piece.end - piece.start, self._padded(piece)
        sample = {key: row[piece.start : piece.end] for key, row in piece.rows.items()}
        sample.setdefault("position_ids", torch.arange(length))
        if padded > length:
            sample = {key: torch.nn.functional.pad(row, (0, padded - length)) for key, row in sample.items()}
        sample["original_seq_len"] = torch.tensor([length], dtype=torch.int32)
        sample["padded_seq_len"] = torch.tensor([padded], dtype=torch.int32)
        return sample


def _flat(value, what: str) -> torch.Tensor:
    """A tensor of one dimension that shares no memory with what may be a read-only mapping."""
    try:
        value = value.clone() if isinstance(value, torch.Tensor) else torch.tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CallerError(f"{what} is {show(value)}, expected one dimension of numbers: {error}") from None
    if value.dim() != 1:
        raise CallerError(f"{what} has the shape {tuple(value.shape)}, expected one dimension")
    return value
