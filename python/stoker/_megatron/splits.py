# SPDX-License-Identifier: Apache-2.0
"""The three splits of a dataset: their names, the text that sets their shares, and where each begins and ends.

Every number is made in the order of operations that Megatron-LM uses, because the borders are part of the identity of
a cached index.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from .. import _core

__all__ = [
    "Split",
    "SplitMatrix",
    "convert_split_vector_to_split_matrix",
    "normalize",
    "parse_and_normalize_split",
    "split_borders",
]

SplitMatrix = list["tuple[float, float] | None"]

_NUMBER = re.compile(r"[.0-9]+")


class Split(enum.Enum):
    """Which part of the data a dataset is made of; ``value`` is its place in sizes, blends and results."""

    train = 0
    valid = 1
    test = 2


def normalize(weights: Sequence[float]) -> list[float]:
    """Each weight divided by the sum of all, as NumPy computes it. All zeros give NaN.

    >>> normalize([1, 3])
    [0.25, 0.75]
    """
    return _core.weights_normalize([float(weight) for weight in weights])


def parse_and_normalize_split(split: str) -> list[float]:
    """The three shares that a text such as ``"99,1,0"`` stands for.

    Every run of digits and dots is a number; missing ones are 0.

    Raises:
        AssertionError: more than three numbers.
        ValueError: something like ``"1.2.3"``.

    >>> parse_and_normalize_split("8/2")
    [0.8, 0.2, 0.0]
    """
    shares = [float(number) for number in _NUMBER.findall(split)]
    if len(shares) > len(Split):
        raise AssertionError(
            f"split={split!r} has {len(shares)} numbers; at most {len(Split)} are meant: train, valid, test"
        )
    return normalize(shares + [0.0] * (len(Split) - len(shares)))


def _running_pairs(vector: Sequence[float]) -> list[tuple[float, float]]:
    pairs: list[tuple[float, float]] = []
    start: float = 0
    for share in vector:
        pairs.append((start, start + share))
        start = start + share
    return pairs


def convert_split_vector_to_split_matrix(
    vector_a: Sequence[float], vector_b: Sequence[float] | None = None
) -> SplitMatrix:
    """Start and end of each split within 0 to 1; None for one that is empty. With two vectors, what both have in
    common.

    >>> convert_split_vector_to_split_matrix([0.5, 0.5, 0.0])
    [(0, 0.5), (0.5, 1.0), None]
    """
    pairs = _running_pairs(vector_a)
    if vector_b is not None:
        pairs = [(max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(pairs, _running_pairs(vector_b), strict=True)]
    return [None if end <= start else (start, end) for start, end in pairs]


def split_borders(pair: tuple[float, float], elements: int) -> tuple[int, int]:
    """First element of a split and the one after its last, of ``elements`` in all.

    >>> split_borders((0, 0.99), 25)
    (0, 25)
    """
    start, end = pair[0] * float(elements), pair[1] * float(elements)
    if start != start or end != end:
        raise ValueError(
            f"a split from {pair[0]} to {pair[1]} has no borders: the numbers of the split text sum to zero"
        )
    return int(round(start)), int(round(end))
