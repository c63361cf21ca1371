# SPDX-License-Identifier: Apache-2.0
"""Several datasets of one split as one, in the proportion of their weights."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy

from .. import _core, errors
from . import failures, identity, items, splits
from .config import BlendedMegatronDatasetConfig
from .gpt import GPTDataset, cache_stem, maps_late, opens_late
from .megatron_dataset import MegatronDataset, description_of

__all__ = ["BlendedDataset", "DATASETS_MAX"]

#: dataset_index is int16.
DATASETS_MAX = 32766

_FILES = ("description.txt", "dataset_index.npy", "dataset_sample_index.npy")
_OVERSAMPLED = (
    "The {split} blend oversamples the contributing datasets and, for example, requests {count} samples from {kind} "
    "number {number} in excess of its size {size}. The current value of the config attribute mid_level_dataset_surplus "
    "may be increased, e.g. two- or ten-fold, from its current value ({surplus}) to ensure a sufficient mid-level dataset "
    "sample margin from which to draw."
)


class Oversampled(errors.CallerError, IndexError):
    """A blend takes more samples of a dataset than it has."""

    status = "INVALID_ARGUMENT"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _named(datasets: Sequence[MegatronDataset], number: int) -> str:
    return f"dataset {number} ({datasets[number].dataset_path})"


class BlendedDataset:
    """``dataset[i]`` is a sample of one of ``datasets``: its dict, with the key ``dataset_id`` (int16) placed first.

    Args:
        datasets: mid-level datasets of one class and one split, at most 32,766.
        weights: one for each, above zero. They need not sum to one. Without ``size``, whole numbers: how many
            samples of each.
        size: number of items; None: every dataset to its end.
        config: the configuration of the build.

    Attributes: ``datasets``, ``weights`` (normalised if there is a size), ``size``, ``split``, ``dataset_index``
    (int16) and ``dataset_sample_index`` (int64), ``unique_description``, ``unique_description_hash``.

    Raises:
        AssertionError: datasets and weights that do not fit together; the message names the first bad one.
        IndexError: the blend takes more samples of a dataset than it has; the message names it.
        stoker.errors.StokerError: as :class:`GPTDataset`.
    """

    def __init__(
        self,
        datasets: list[MegatronDataset],
        weights: Sequence[int | float],
        size: int | None,
        config: BlendedMegatronDatasetConfig,
    ) -> None:
        weights = [weight.item() if isinstance(weight, numpy.generic) else weight for weight in weights]
        self._check(datasets, weights, size)
        self.datasets = datasets
        self.split = datasets[0].index_split
        self.weights: list[int | float] = weights if size is None else list(splits.normalize(weights))
        self.size = size
        self.config = config
        self._description: str | None = None
        self._hash: str | None = None
        self._handle: Any = None
        self._arrays: Any = None
        if not opens_late(config):
            self._handle = self._open()

    @property
    def unique_description(self) -> str:
        """JSON text of the identity, in which those of the datasets are nested."""
        if self._description is None:
            self._description = self._describe()
        return self._description

    @property
    def unique_description_hash(self) -> str:
        """MD5 of the text, which names cache files."""
        if self._hash is None:
            self._hash = identity.hash_of(self.unique_description)
        return self._hash

    @staticmethod
    def _check(datasets: Sequence[MegatronDataset], weights: Sequence[int | float], size: int | None) -> None:
        _require(len(datasets) > 0, "a blend needs at least one dataset")
        _require(len(datasets) == len(weights), f"a blend of {len(datasets)} datasets has {len(weights)} weights")
        _require(
            len(datasets) <= DATASETS_MAX,
            f"a blend of {len(datasets)} datasets; at most {DATASETS_MAX} can be numbered",
        )
        kind, split, weight_type = type(datasets[0]), datasets[0].index_split, type(weights[0])
        for number, (dataset, weight) in enumerate(zip(datasets, weights, strict=True)):
            if type(dataset) is not kind or dataset.index_split is not split:
                raise AssertionError(
                    f"{_named(datasets, number)} is a {type(dataset).__name__} of {dataset.index_split.name}, but the"
                    f" first is a {kind.__name__} of {split.name}; a blend has one class and one split"
                )
            if not weight > 0:
                what = "has no sample" if size is None and weight == 0 else f"has the weight {weight!r}"
                raise AssertionError(
                    f"{_named(datasets, number)} {what} in the {split.name} blend; expected a weight above zero"
                )
            if type(weight) is not weight_type:
                raise AssertionError(
                    f"{_named(datasets, number)} has a weight of type {type(weight).__name__}, but the first is a"
                    f" {weight_type.__name__}"
                )
            if size is None and weight != int(weight):
                raise AssertionError(
                    f"{_named(datasets, number)} has the weight {weight!r}; without a size, weights are numbers of samples"
                )

    def _describe(self) -> str:
        """The lists are written where they stand: a blend of a thousand has a megabyte of text."""
        item = "\n        "
        datasets = ",".join([item + description_of(dataset, 2) for dataset in self.datasets])
        weights = ",".join([item + identity.text_of(weight) for weight in self.weights])
        return (
            f'{{\n    "class": {identity.text_of(type(self).__name__)},\n    "datasets": [{datasets}\n    ],'
            f'\n    "split": "{self.split.name}",\n    "weights": [{weights}\n    ],'
            f'\n    "size": {identity.text_of(self.size)}\n}}'
        )

    # ------------------------------------------------------------------------------------------------------------ index

    def _blend(self, **options: Any) -> Any:
        if self.size is None:
            return _core.BlendIndex(sizes=[int(weight) for weight in self.weights], **options)
        return _core.BlendIndex([float(weight) for weight in self.weights], self.size, **options)

    def _open(self) -> Any:
        folder, stem = self.config.path_to_cache or None, cache_stem(self, self.split)
        fast = bool(self.config.fast_cache_load)
        try:
            return self._blend(
                limits=None if fast else [len(dataset) for dataset in self.datasets],
                folder=folder,
                stem=stem,
                description=self.unique_description,
                assume_hit=fast,
                defer=maps_late(self.config, folder, stem, _FILES),
            )
        except errors.StokerError as error:
            if error.status == "LIMIT":
                self._count_again()
            raise failures.of_index(error, self._name(), fast) from None

    def _count_again(self) -> None:
        """Name the dataset that is short. The index is made once more, in memory; a refused build is no hot path."""
        self._refuse_oversampling(self._blend().counts())

    def _refuse_oversampling(self, taken: Sequence[int] | numpy.ndarray) -> None:
        """``taken``: samples of each dataset."""
        for number, dataset in enumerate(self.datasets):
            if taken[number] > len(dataset):
                message = _OVERSAMPLED.format(
                    split=self.split.name,
                    count=taken[number],
                    kind=type(dataset).__name__,
                    number=number,
                    size=len(dataset),
                    surplus=self.config.mid_level_dataset_surplus,
                )
                raise Oversampled(f"{message} The dataset is {dataset.dataset_path}.")

    def _name(self) -> str:
        return f"{type(self).__name__} {self.split.name} of {len(self.datasets)} datasets"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.datasets)} datasets, {self.split.name}, size={self.size})"

    def prepare(self) -> None:
        """Map index arrays that were deferred (defer_npy_index_mmap), of the blend and of its datasets."""
        self._index_arrays()
        for dataset in self.datasets:
            prepare = getattr(dataset, "prepare", None)
            if prepare is not None:
                prepare()

    def _index_arrays(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        if self._arrays is None:
            handle = self._handle
            if handle is None:
                handle = self._handle = self._open()
            try:
                arrays = handle.arrays()
            except errors.StokerError as error:
                raise failures.of_index(error, self._name(), True) from None
            self._arrays = tuple(
                numpy.frombuffer(arrays[name][0], arrays[name][1]) for name in ("dataset_index", "dataset_sample_index")
            )
        return self._arrays

    @property
    def dataset_index(self) -> numpy.ndarray:
        """Which dataset each item comes from: int16, read-only."""
        return self._index_arrays()[0]

    @property
    def dataset_sample_index(self) -> numpy.ndarray:
        """Which item of it: int64, read-only."""
        return self._index_arrays()[1]

    # ------------------------------------------------------------------------------------------------------------ items

    def __len__(self) -> int:
        if self._arrays is None and self.config.defer_npy_index_mmap:
            return int(sum(self.weights)) if self.size is None else self.size
        return len(self._index_arrays()[0])

    def __getitem__(self, idx: int) -> dict[str, Any]:
        which, where = self._arrays or self._index_arrays()
        try:
            number = which[idx]
        except OverflowError:
            raise IndexError(f"index {idx} is outside a blend of {len(which)} items") from None
        return {"dataset_id": number, **self.datasets[number][where[idx]]}

    def get_batch(
        self, indices: Sequence[int], out: dict[str, Any] | None = None, pin_memory: bool = False, shared: bool = False
    ) -> dict[str, Any]:
        """Items ``indices`` in one block of memory, as :meth:`GPTDataset.get_batch`; ``dataset_id`` has shape
        (len(indices),).

        Only for blends of GPT datasets.
        """
        kind = type(self.datasets[0])
        if not issubclass(kind, GPTDataset):
            raise errors.UnsupportedError(f"get_batch fills batches of GPT datasets, not of {kind.__name__}")
        which, where = self._index_arrays()
        places = numpy.array([operator.index(idx) for idx in indices], dtype=numpy.int64)
        numbers, samples = which[places], where[places]
        layout = {"dataset_id": ("<i2", ()), **items.layout_of(self.datasets[0].config)}
        result, arrays = items.destinations(layout, len(places), out, pin_memory, shared)
        arrays.pop("dataset_id")[...] = numbers
        for start, end in _runs(numbers):
            rows = {name: array[start:end] for name, array in arrays.items()}
            items.fill(self.datasets[numbers[start]], samples[start:end].tolist(), rows)
        return result

    # -------------------------------------------------------------------------------------------- processes and workers

    def _native_source(self) -> Any:
        """As that of a GPTDataset."""
        self._index_arrays()
        return None if self._handle is None else items.native_source(self, self.datasets, self._handle)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_handle"] = state["_arrays"] = None
        return state


def _runs(numbers: numpy.ndarray) -> list[tuple[int, int]]:
    """(start, end) of the runs of equal values."""
    borders = [0, *(numpy.flatnonzero(numpy.diff(numbers)) + 1).tolist(), len(numbers)]
    return [(start, end) for start, end in zip(borders, borders[1:]) if start < end]
