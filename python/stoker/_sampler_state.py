# SPDX-License-Identifier: Apache-2.0
"""What samplers take from outside: whole numbers, and states of earlier runs, checked before anything is computed of them."""

from __future__ import annotations

import math
import operator

import numpy

from . import errors

__all__ = ["WINDOW_MAX", "checked", "whole", "words"]

WINDOW_MAX = 1 << 22  # samples; more only where eight steps are more
RANKS_MAX, STEP_CELLS_MAX, SAMPLES_MAX = 1 << 16, 1 << 20, (1 << 31) - 1
_WEIGHT_MAX = 1e12


def whole(name: str, value, least: int, most: int | None = None) -> int:
    """A whole number of that range; whatever has no exact one is refused, never cut.

    >>> whole("cells", numpy.int64(3), 1, 8)
    3
    """
    wanted = f"{least} or more" if most is None else f"{least} to {most}"
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.CallerError(f"{name}={errors.show(value)}, expected a whole number, {wanted}") from None
    if number < least or (most is not None and number > most):
        raise errors.CallerError(f"{name}={errors.show(number)}, expected {wanted}")
    return number


def words(values, name: str) -> numpy.ndarray:
    """Numbers of any kind as uint32."""
    try:
        array = numpy.asarray(values)
    except Exception as error:  # of numpy, or of what the values are
        raise errors.CallerError(f"{name} is no list of integers: {errors.describe(error)}") from None
    if array.ndim == 1 and array.size == 0:
        return numpy.zeros(0, numpy.uint32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise errors.CallerError(f"{name} has shape {array.shape} and dtype {array.dtype}, expected a list of integers")
    if not 0 <= int(array.min()) <= int(array.max()) < 1 << 32:
        raise errors.CallerError(f"{name} has values {array.min()} to {array.max()}, expected 0 to 2^32 - 1")
    return numpy.ascontiguousarray(array, dtype=numpy.uint32)


def checked(state: dict, options: dict, sources: int, total: int) -> dict:
    """A copy of a state that can be gone on from: its numbers are in range and agree with one another. ``options`` must be
    its own; there are ``total`` samples in ``sources`` sources."""
    for name, value in options.items():
        found = _field(state, name)
        if type(found) is not type(value) or found != value:
            raise errors.CallerError(
                f"the state was saved with {name}={errors.show(found)}, this sampler has {errors.show(value)}"
            )
    made = {**state, "epoch": _number(state, "epoch", 0, (1 << 64) - 1)}
    made["ranks"] = ranks = _number(state, "ranks", 1, RANKS_MAX)
    made["cells"] = cells = _number(state, "cells", 1, STEP_CELLS_MAX // ranks)
    made["window_samples"] = size = _number(state, "window_samples", 1, max(WINDOW_MAX, 8 * ranks * cells))
    length = options["length"]
    made["windows"] = windows = _number(state, "windows", 0, -(-length // size))
    drawn = min(windows * size, length)
    made["samples"] = _drawn(_field(state, "samples"), "the state", windows, size, length)
    made["recipe"] = recipe = _recipe(_field(state, "recipe"), windows, size, length, sources)
    pool = _places(state, "pool", total)
    once = all(entry["weights"] is None for entry in recipe)
    if not (windows > 0) <= len(pool) <= drawn or (once and len(numpy.unique(pool)) < len(pool)):
        raise errors.CallerError(
            f"'pool' of the state holds {len(pool)} samples{' (some twice)' if once else ''} after {windows} windows,"
            f" {drawn} samples were drawn until then"
        )
    _check_used(_places(state, "used", len(pool)), state, ranks * cells, len(pool), options)
    made["steps"] = operator.index(state["steps"])
    made["pool"], made["used"] = pool.tolist(), _places(state, "used", len(pool)).tolist()
    return made


def _check_used(used, state, step: int, pool: int, options: dict) -> None:
    """Each step uses so many places: exactly, or within what the budget lets be."""
    steps = _number(state, "steps", min(pool, 1), -(-pool // step))
    most = min(pool, steps * step * (options["budget_samples"] or (pool if options["budget_tokens"] else 1)))
    least = steps if options["budget_tokens"] else most
    if not least <= len(used) <= most or (numpy.diff(used.astype(numpy.int64)) <= 0).any():
        raise errors.CallerError(
            f"'used' of the state holds {len(used)} places of 'pool', expected {least} to {most} in rising order: those of"
            f" {steps} steps"
        )


def _field(state: dict, name: str, what: str = "the state"):
    if name not in state:
        raise errors.CallerError(f"{what} has no {name!r}")
    return state[name]


def _drawn(value, what: str, windows: int, size: int, length: int) -> int:
    """The number of samples that so many windows hold."""
    drawn = min(windows * size, length)
    if whole(f"samples of {what}", value, 0) != drawn:
        raise errors.CallerError(
            f"{what} has {value} samples after {windows} windows of window_samples={size}, expected {drawn}"
        )
    return drawn


def _number(state: dict, name: str, least: int, most: int) -> int:
    return whole(f"the state's {name}", _field(state, name), least, most)


def _places(state: dict, name: str, count: int) -> numpy.ndarray:
    array = words(_field(state, name), f"{name!r} of the state")
    if len(array) and int(array.max()) >= count:
        raise errors.CallerError(f"{name!r} of the state names {array.max()}, expected numbers below {count}")
    return array


def _recipe(entries, windows: int, size: int, length: int, sources: int) -> list[dict]:
    """Which weights hold from which window on."""
    if not isinstance(entries, (list, tuple)) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise errors.CallerError(f"'recipe' of the state is {errors.show(entries)}, expected a list of dicts")
    made: list[dict] = []
    what = "an entry of the state's recipe"
    for entry in entries:
        least = made[-1]["window"] if made else 0
        window = whole("window of " + what, _field(entry, "window", what), least, windows if made else 0)
        sample = _drawn(_field(entry, "sample", what), what, window, size, length)
        weights = _field(entry, "weights", what)
        if weights is not None or (made and made[-1]["weights"] is not None):
            _check_weights(weights, sources)
        made.append({"window": window, "sample": sample, "weights": weights})
    return made


def _check_weights(weights, sources: int) -> None:
    good = isinstance(weights, (list, tuple)) and len(weights) == sources
    if not good or not all(type(weight) in (int, float) and 0 <= weight <= _WEIGHT_MAX for weight in weights):
        raise errors.CallerError(
            f"weights of the state's recipe are {errors.show(weights)}, expected {sources} numbers from 0 to {_WEIGHT_MAX:g}"
        )
