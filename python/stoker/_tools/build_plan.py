# SPDX-License-Identifier: Apache-2.0
"""What `stoker index build` would build, in figures: for --plan. Indexes of the data are opened, nothing is written."""

from __future__ import annotations

from typing import Any

import numpy

HEADER_BYTES = 128  # of a .npy file
EXTRA = 1  # the token after the last of a sample


def _row(split: str, prefix: str, **figures: Any) -> dict[str, Any]:
    return dict(split=split, prefix=prefix, **figures)


def _index(split: str, prefix: str, lengths, sequence_length: int, asked: int | None) -> dict[str, Any]:
    """One GPT index: its epochs, samples and the bytes of its three arrays."""
    sequences, tokens = len(lengths), int(lengths.sum(dtype=numpy.int64))
    epochs = samples = size = 0
    if tokens > 0:
        needed = None if asked is None else asked * sequence_length + EXTRA
        epochs = 1 if needed is None else max(1, -(-needed // tokens))
        samples = max(0, (epochs * tokens - EXTRA) // sequence_length)
        documents = epochs * sequences
        wide = 8 if documents > 2**31 - 1 else 4  # also where one sequence is longer than that, which no index has
        size = 3 * HEADER_BYTES + 4 * documents + 2 * wide * (samples + 1) + (8 if samples >= 2**32 - 2 else 4) * samples
    return _row(split, prefix, sequences=sequences, tokens=tokens, asked=asked, samples=samples, epochs=epochs,
                cache_bytes=size)


def warnings(rows: list[dict[str, Any]]) -> list[str]:
    """What a build of these rows will refuse."""
    return [f"split '{row['split']}' of {row['prefix']} has no tokens: the build will refuse it"
            for row in rows if row["tokens"] == 0 and not row["prefix"].startswith("(blend of ")]


def _blend(split: str, rows: list[dict[str, Any]], size: int | None) -> dict[str, Any]:
    samples = sum(row["samples"] for row in rows) if size is None else size
    return _row(split, f"(blend of {len(rows)})", sequences=sum(row["sequences"] for row in rows),
                tokens=sum(row["tokens"] for row in rows), asked=size, samples=samples, epochs=0,
                cache_bytes=2 * HEADER_BYTES + (2 + 8) * samples)


def _prefixes(config, prefixes: list[str], asked: list[list[int | None]], pairs: list) -> list[list[dict[str, Any]]]:
    """Per split, one row a prefix."""
    from .._megatron.splits import split_borders
    from ..megatron import GPTDataset, Split
    columns: list[list[dict[str, Any]]] = [[] for _ in Split]
    for prefix, sizes in zip(prefixes, asked):
        lengths = GPTDataset.build_low_level_dataset(prefix, config).sequence_lengths
        for split, pair, size in zip(Split, pairs, sizes):
            if pair is not None:
                first, end = split_borders(pair, len(lengths))
                columns[split.value].append(_index(split.name, prefix, lengths[first:end], config.sequence_length, size))
    return columns


def _blended(config, blend, sizes: list[int | None], pairs: list, single: bool) -> list[dict[str, Any]]:
    """Rows of one blend; ``single``: one prefix is a dataset by itself, whatever its weight."""
    from .._megatron.builder import _check_blend_weights, sizes_per_dataset
    from ..megatron import Split, normalize
    prefixes, weights = blend
    if len(prefixes) == 1 and (single or weights is None):
        return sum(_prefixes(config, prefixes, [sizes], pairs), [])
    targets = None
    asked: list[list[int | None]] = [[None] * len(sizes) for _ in prefixes]
    if weights is not None:
        if None in sizes:
            raise ValueError("Using client-specified weights requires client-specified size")
        _check_blend_weights(prefixes, weights)
        normal = normalize(weights)
        asked = sizes_per_dataset(normal, sizes, config.mid_level_dataset_surplus)
        targets = sizes_per_dataset(normal, sizes, 0.0)
    rows = []
    for split, column in zip(Split, _prefixes(config, prefixes, asked, pairs)):
        if column:
            size = sizes[split.value]
            if targets is not None:
                size = sum(target[split.value] for target in targets)
            elif size is not None:
                size = min(size, sum(row["samples"] for row in column))
            rows += [*column, _blend(split.name, column, size)]
    return rows


def rows(config, sizes: list[int | None]) -> list[dict[str, Any]]:
    """One row for each index and each blend of indexes, in the order in which they are built."""
    from ..megatron import Split
    if config.blend is not None:
        return _blended(config, config.blend, sizes, config.split_matrix, single=False)
    found = []
    for split, blend in zip(Split, config.blend_per_split):
        if blend is None:
            continue
        pairs = [(0.0, 1.0) if other is split else None for other in Split]
        own = [sizes[split.value] if other is split else 0 for other in Split]
        if config.multiple_validation_sets and split is Split.valid:
            for prefix in blend[0]:
                found += _blended(config, ([prefix], None), own, pairs, single=True)
        else:
            found += _blended(config, blend, own, pairs, single=True)
    return found
