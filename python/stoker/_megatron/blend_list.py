# SPDX-License-Identifier: Apache-2.0
"""Blends as command lines and files give them: lists of prefixes, with or without weights.

A *blend* is ``(prefixes, weights)`` where weights may be None.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["Blend", "get_blend_and_blend_per_split", "get_blend_from_list", "read_blend_per_split"]

Blend = tuple[list[str], "list[float] | None"]

_SPLITS = ("train", "valid", "test")


def _weight(item: str) -> float | None:
    try:
        return float(item)
    except ValueError:
        return None


def get_blend_from_list(blend: Sequence[str] | None) -> Blend | None:
    """The blend that a list of command-line items means.

    An odd number of items is a list of prefixes. An even number is read as weight, prefix, weight, prefix... if every
    item at an even place is a number, else as prefixes, too. White space around prefixes is dropped.

    Raises:
        ValueError: the list is empty.
        AssertionError: weights begin after the first place that has none.

    >>> get_blend_from_list(["30", "a", "70", "b"])
    (['a', 'b'], [30.0, 70.0])
    >>> get_blend_from_list(["a", "b"])
    (['a', 'b'], None)
    """
    if blend is None:
        return None
    if not blend:
        raise ValueError("the list of data prefixes is empty; expected prefixes, or pairs of a weight and a prefix")
    if len(blend) % 2 == 0:
        weights = [_weight(item) for item in blend[::2]]
        if None not in weights:
            return [prefix.strip() for prefix in blend[1::2]], weights  # type: ignore[return-value]
        first = weights.index(None)
        late = next((place for place, weight in enumerate(weights) if weight is not None and place > first), None)
        if late is not None:
            raise AssertionError(
                f"item {2 * first} of the blend, {blend[2 * first]!r}, is no weight, but item {2 * late},"
                f" {blend[2 * late]!r}, is one; expected a weight before every prefix, or before none"
            )
    return [prefix.strip() for prefix in blend], None


def _items(value: Any, where: str) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list) and all(type(item) in (str, int, float) for item in value):
        return [str(item) for item in value]
    raise ValueError(f"{where}: expected a list of texts, one text or null, but it is {json.dumps(value)[:100]}")


def read_blend_per_split(path: str) -> list[Blend | None]:
    """The blends of train, valid and test from a JSON file: an object with these three keys, each a list of items
    (weights as texts), one text that is split on white space, or null.

    Raises:
        KeyError: a key is missing.
        ValueError: the file is no such object.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path}: expected a JSON object with the keys train, valid and test ({error})") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: expected a JSON object with the keys train, valid and test, not a {type(content).__name__}"
        )
    for split in _SPLITS:
        if split not in content:
            raise KeyError(f"{path}: the key {split!r} is missing; expected train, valid and test (null for none)")
    return [get_blend_from_list(_items(content[split], f"{path}: {split}")) for split in _SPLITS]


def get_blend_and_blend_per_split(args: Any) -> tuple[Blend | None, list[Blend | None] | None]:
    """What the data arguments of a training script mean: ``(blend, blend_per_split)``, at least one of them None.

    ``args`` has some of the attributes ``data_path``, ``data_args_path``, ``train_data_path``, ``valid_data_path``,
    ``test_data_path`` and ``per_split_data_args_path``. One blend for all splits wins over blends per split.
    """
    data_path, data_args_path = getattr(args, "data_path", None), getattr(args, "data_args_path", None)
    paths = [getattr(args, f"{split}_data_path", None) for split in _SPLITS]
    per_split_file = getattr(args, "per_split_data_args_path", None)
    if data_args_path is not None:
        if data_path is not None:
            raise AssertionError("data_path and data_args_path both name the data; one is enough")
        with open(data_args_path, encoding="utf-8") as file:
            data_path = file.read().split()
    if data_path is not None:
        return get_blend_from_list(data_path), None
    if per_split_file is not None:
        if any(path is not None for path in paths):
            raise AssertionError(
                "per_split_data_args_path and the data paths of a split both name the data; one is enough"
            )
        return None, read_blend_per_split(per_split_file)
    if any(path is not None for path in paths):
        return None, [get_blend_from_list(path) for path in paths]
    return None, None
