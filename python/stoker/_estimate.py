# SPDX-License-Identifier: Apache-2.0
"""What a user's dataset says that its samples cost.

A map-style dataset may have ``estimate_cost(index)``: seconds of one CPU that making that sample takes, or anything
proportional to them. It is called in the training process when a batch is requested, so it should be cheap. stoker
learns the factor between estimate and cost; the estimates decide which batch is made first, never what is in it.
"""

import json
import math

from . import _core, errors

__all__ = ["of_batch", "read_profile"]

_SECONDS_MAX = 1e6


def of_batch(dataset, index) -> tuple[int, int]:
    """(samples, nanoseconds of all of them) of a batch's keys; (n, 0) without ``estimate_cost``.

    >>> class Clips:
    ...     def estimate_cost(self, index):
    ...         return 0.001 * index
    >>> of_batch(Clips(), [2, 3])
    (2, 5000000)
    >>> of_batch([7, 8, 9], [0, 2])
    (2, 0)
    """
    keys = index if isinstance(index, (list, tuple)) else [index]
    estimate = getattr(dataset, "estimate_cost", None)
    samples = min(len(keys), 65536)
    if not callable(estimate):
        return samples, 0
    total = sum(_seconds(dataset, estimate, key) for key in keys)
    return samples, min(int(total * 1e9), 2**63)


def _seconds(dataset, estimate, key) -> float:
    name = f"estimate_cost({errors.show(key)}) of the dataset {type(dataset).__name__}"
    try:
        made = estimate(key)
    except Exception as error:
        raise errors.CallerError(f"{name} raised {errors.describe(error)}") from error
    try:
        seconds = math.nan if isinstance(made, (str, bytes)) else float(made)
    except Exception:  # no number, or one that no float holds
        seconds = math.nan
    if not 0 <= seconds <= _SECONDS_MAX:
        raise errors.CallerError(f"{name} is {errors.show(made)}, expected 0 to {_SECONDS_MAX:g} seconds")
    return seconds


_FIELDS = ("samples", "pixels_in", "bytes_in", "pixels_out", "cpu_ns", "wall_ns", "input_bytes", "output_bytes")
_ROWS_MAX = 4096


def read_profile(path) -> bytes:
    """Rows of a file that ``stoker profile`` wrote, as the plane takes them; lines of other schemas are passed over."""
    from . import manifest  # it needs this package's files, which pure tests of estimates do not

    if manifest.is_manifest(path):
        raise errors.CallerError(
            f"cost_profile={errors.show(path)} is a manifest of scans; rows of `stoker profile SOURCE... > FILE` were expected"
        )
    rows = []
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.CallerError(f"cost_profile={errors.show(path)} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if row.get("schema") != "stoker.cost/1":
                continue
            rows.append(_core.cost_row(row["kind"], *(row[name] for name in _FIELDS)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise errors.CallerError(
                f"cost_profile={errors.show(path)}: line {number} is no row of stoker.cost/1 ({errors.describe(error)})"
            ) from None
    if not rows:
        raise errors.CallerError(
            f"cost_profile={errors.show(path)} has no row of schema stoker.cost/1; `stoker profile SOURCE... > FILE` writes them"
        )
    return b"".join(rows[:_ROWS_MAX])
