# SPDX-License-Identifier: Apache-2.0
"""A blend whose weights change in the middle of a run.

The index of a blend is made for a whole run, so other weights are another index, in which the samples that were already
used stand elsewhere. Here the items before the switch stay what they were, and behind it each dataset goes on with the
sample after the last one that was taken of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from .. import _core
from . import identity
from .blended import BlendedDataset

__all__ = ["SwitchedBlend"]


class SwitchedBlend(BlendedDataset):
    """``before`` up to item ``at``, then the same datasets with other weights. The switch is part of the identity.

    Args:
        before: a sized blend, or one that was switched before.
        at: first item that follows the new weights, 0 to the size.
        weights: one for each dataset, above zero.
        size: number of items; None: that of ``before``.

    Attributes besides those of a blend: ``before`` and ``at``.

    Raises:
        AssertionError: ``at`` or the weights do not fit.
        IndexError: the new weights take more samples of a dataset than it has; the message names it. Build the datasets
            with a larger ``mid_level_dataset_surplus`` if weights are to change later.
    """

    def __init__(self, before: BlendedDataset, at: int, weights: Sequence[float], size: int | None = None) -> None:
        size = len(before) if size is None else size
        if not 0 <= at <= min(size, len(before)):
            raise AssertionError(f"at={at} is not within the {len(before)} items before and the {size} in all")
        self.before = before
        self.at = at
        super().__init__(before.datasets, [float(weight) for weight in weights], size, before.config)

    def _describe(self) -> str:
        return identity.join(
            (
                ("class", identity.text_of(type(self).__name__)),
                ("before", self.before.unique_description),
                ("at", identity.text_of(self.at)),
                ("weights", identity.list_of(map(identity.text_of, self.weights))),
                ("size", identity.text_of(self.size)),
            )
        )

    def _open(self) -> Any:
        """Made in memory, when it is asked for and checked at once."""
        if not self.config.defer_npy_index_mmap:
            self._index_arrays()
        return None

    def _index_arrays(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        if self._arrays is None:
            self._arrays = self._make()
        return self._arrays

    def _make(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        which, where = (array[: self.at] for array in self.before._index_arrays())
        taken = numpy.bincount(which, minlength=len(self.datasets)).astype(numpy.int64)
        rest = int(self.size or 0) - self.at
        if rest:
            arrays = _core.BlendIndex([float(weight) for weight in self.weights], rest).arrays()
            more = numpy.frombuffer(arrays["dataset_index"][0], numpy.int16)
            further = numpy.frombuffer(arrays["dataset_sample_index"][0], numpy.int64)
            which = numpy.concatenate([which, more])
            where = numpy.concatenate([where, further + taken[more]])
            taken = numpy.bincount(which, minlength=len(self.datasets))
        self._refuse_oversampling(taken)
        which.flags.writeable = where.flags.writeable = False
        return which, where
