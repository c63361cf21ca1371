# SPDX-License-Identifier: Apache-2.0
"""Samples on one rank: cut what comes packed from a dataset, join what a schedule puts together.

A *sub-sample* is a dict of one-dimensional tensors: ``tokens``, ``labels``, ``loss_mask`` and ``position_ids`` of equal
length, and ``original_seq_len`` and ``padded_seq_len`` of one entry.
"""

from __future__ import annotations

import torch

from .. import _core
from ..errors import CallerError, show
from .schedulers import PackingError
from .words import refuse_fractions, signed_words, tensor_of, words

TOKEN_KEYS = ("tokens", "labels", "loss_mask", "position_ids")
LENGTH_KEYS = ("original_seq_len", "padded_seq_len")


def _row(value, key: str, number: int) -> torch.Tensor:
    """One-dimensional tensor; a leading dimension of 1 is dropped."""
    try:
        value = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        what = f"sample {number}: {key} is {show(value)}"
        raise CallerError(f"{what}, expected a tensor of (n,) or (1, n): {error}") from None
    if value.dim() == 0:
        return value.reshape(1)
    if value.dim() == 2 and value.shape[0] == 1:
        return value[0]
    if value.dim() != 1:
        raise CallerError(f"sample {number}: {key} has the shape {tuple(value.shape)}, expected (n,) or (1, n)")
    return value


def _borders(value, name: str, number: int) -> list[int]:
    """Where sequences begin and end: from 0 on, never falling."""
    borders = refuse_fractions(_row(value, name, number), f"sample {number}: {name}").tolist()
    if not borders or borders[0] != 0:
        raise PackingError(f"sample {number}: {name} is {show(borders)}, expected to begin with 0")
    for start, end in zip(borders, borders[1:]):
        if end < start:
            raise PackingError(f"sample {number}: {name} falls from {start} to {end}: {show(borders)}")
    return borders


def _is_padding(loss_mask: torch.Tensor | None, start: int) -> bool:
    return loss_mask is not None and not bool(loss_mask[start:].any())


def cut(sample, keys, number: int, name: str = "cu_seqlens") -> list[dict[str, torch.Tensor]]:
    """The pieces between the borders of ``cu_seqlens``; empty ones are skipped. What lies behind the last border is
    padding, and dropped; it is an error if there is any loss on it."""
    borders = _borders(sample[name], name, number)
    rows = {key: _row(sample[key], key, number) for key in keys}
    for key, row in rows.items():
        rest = row.shape[0] - borders[-1]
        if rest < 0 or (rest > 0 and not _is_padding(rows.get("loss_mask"), borders[-1])):
            raise PackingError(
                f"sample {number}: {key} has {row.shape[0]} entries, {name} ends at {borders[-1]}: {show(borders)}"
                + ("; what is behind that has a loss_mask that is not 0" if rest > 0 else "")
            )
    pieces = []
    for start, end in zip(borders, borders[1:]):
        if end > start:
            pieces.append({key: row[start:end] for key, row in rows.items()})
    return pieces


def unpack_batch(batch) -> list[dict[str, torch.Tensor]]:
    """Sub-samples of samples that are packed (with ``cu_seqlens``) or are one each (with ``padded_seq_len``).

    >>> sample = dict(tokens=torch.arange(5), cu_seqlens=torch.tensor([0, 2, 2, 5]))
    >>> sample |= dict(labels=torch.arange(5), loss_mask=torch.ones(5), position_ids=torch.arange(5))
    >>> [piece["tokens"].tolist() for piece in unpack_batch([sample])]
    [[0, 1], [2, 3, 4]]
    """
    batch = list(batch)
    packed = ["cu_seqlens" in sample for sample in batch]
    if any(packed) and not all(packed):
        raise CallerError(
            f"a batch mixes samples with cu_seqlens and without: {sum(packed)} of {len(packed)} have it"
        )
    pieces = []
    for number, sample in enumerate(batch):
        missing = [key for key in TOKEN_KEYS if key not in sample]
        if missing:
            raise CallerError(f"sample {number} has no {', '.join(missing)}; it has {', '.join(sorted(sample))}")
        if packed[number]:
            pieces += _pieces(sample, number)
        elif "padded_seq_len" in sample:
            pieces.append(_whole(sample, number))
        else:
            raise CallerError(f"sample {number} has neither cu_seqlens nor padded_seq_len")
    return pieces


def _pieces(sample, number: int) -> list[dict[str, torch.Tensor]]:
    """Sub-samples of a packed sample. One that is padded between sequences is cut at ``cu_seqlens_padded``: that is
    where they lie, and ``cu_seqlens`` tells their own lengths."""
    if "cu_seqlens_padded" not in sample:
        pieces = cut(sample, TOKEN_KEYS, number)
        originals = [piece["tokens"].shape[0] for piece in pieces]
    else:
        pieces = cut(sample, TOKEN_KEYS, number, "cu_seqlens_padded")
        originals = _steps(_borders(sample["cu_seqlens"], "cu_seqlens", number))
        borders = _steps(_borders(sample["cu_seqlens_padded"], "cu_seqlens_padded", number))
        if len(borders) != len(originals):
            raise CallerError(
                f"sample {number}: cu_seqlens has {len(originals)} sequences, cu_seqlens_padded {len(borders)}"
            )
        for original, padded in zip(originals, borders):
            if original > padded:
                raise PackingError(f"sample {number}: a sequence has {original} tokens, padded {padded}")
        originals = [original for original, padded in zip(originals, borders) if padded > 0]
    for piece, original in zip(pieces, originals):
        padded = piece["tokens"].shape[0]
        piece["original_seq_len"] = torch.tensor([original], dtype=torch.int32)
        piece["padded_seq_len"] = torch.tensor([padded], dtype=torch.int32)
    return pieces


def _steps(borders: list[int]) -> list[int]:
    return [end - start for start, end in zip(borders, borders[1:])]


def _length(value, key: str, number: int) -> torch.Tensor:
    """One int32; a number that it cannot hold, or that is none, is refused."""
    row = refuse_fractions(_row(value, key, number), f"sample {number}: {key}")
    if row.shape[0] != 1:
        raise CallerError(f"sample {number}: {key} is {show(row.tolist())}, expected one entry")
    if not 0 <= int(row) < 2**31:
        raise CallerError(f"sample {number}: {key} is {int(row)}, expected 0 to {2**31 - 1}")
    return row.to(torch.int32)


def _whole(sample, number: int) -> dict[str, torch.Tensor]:
    piece = {key: _row(sample[key], key, number) for key in TOKEN_KEYS}
    padded = _length(sample["padded_seq_len"], "padded_seq_len", number)
    original = sample.get("original_seq_len")
    original = padded.clone() if original is None else _length(original, "original_seq_len", number)
    for key, row in piece.items():
        if row.shape[0] != int(padded):
            raise CallerError(f"sample {number}: {key} has {row.shape[0]} entries, padded_seq_len is {int(padded)}")
    if int(original) > int(padded):
        raise CallerError(f"sample {number}: original_seq_len is {int(original)}, padded_seq_len {int(padded)}")
    return {**piece, "original_seq_len": original, "padded_seq_len": padded}


def cumulate(lengths) -> tuple[torch.Tensor, int]:
    """Prefix sums as int32, and the largest length."""
    data, longest = _core.pack_cumulate(words(lengths))
    return tensor_of(data, torch.int32), longest


def pack_samples(samples, dtypes=None) -> dict[str, torch.Tensor]:
    """Join sub-samples into one packed micro-batch.

    ``dtypes`` gives the dtypes of a micro-batch that has no sub-sample.
    """
    dtypes = dtypes or {"loss_mask": torch.float32}
    packed = {}
    for key in TOKEN_KEYS:
        rows = [sample[key] for sample in samples]
        packed[key] = torch.cat(rows) if rows else torch.empty(0, dtype=dtypes.get(key, torch.int64))
    packed["cu_seqlens_padded"], longest = cumulate(sample["padded_seq_len"] for sample in samples)
    packed["cu_seqlens"], _ = cumulate(sample["original_seq_len"] for sample in samples)
    packed["max_seqlen"] = torch.tensor(longest, dtype=torch.int32)
    return packed


def padding_mask(cu_seqlens, cu_seqlens_padded) -> torch.Tensor:
    """True where a padded sequence is past the end of its own tokens.

    >>> padding_mask([0, 2, 7], [0, 3, 8]).tolist()
    [False, False, True, False, False, False, False, False]
    """
    return tensor_of(
        _core.pack_padding_mask(signed_words(cu_seqlens), signed_words(cu_seqlens_padded)), torch.bool
    )


def slice_places(cu_seqlens_padded, ranks: int, rank: int) -> torch.Tensor:
    """Places of the tokens that one rank of a context-parallel group takes."""
    return tensor_of(_core.pack_slice(signed_words(cu_seqlens_padded), ranks, rank), torch.int64)
