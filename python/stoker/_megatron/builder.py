# SPDX-License-Identifier: Apache-2.0
"""Train, valid and test datasets of a configuration: which prefixes are built, with which sizes, and by which rank."""

from __future__ import annotations

import concurrent.futures
import contextvars
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .. import _core, errors
from . import barriers, identity, splits
from .blended import DATASETS_MAX, BlendedDataset
from .config import BlendedMegatronDatasetConfig
from .gpt import GPTDataset, opens_late
from .megatron_dataset import MegatronDataset
from .splits import Split

__all__ = ["BlendedMegatronDatasetBuilder", "sizes_per_dataset"]

_WHOLE = (0.0, 1.0)
#: Largest difference from one of a sum of weights that were normalised.
_SUM_TOLERANCE = 1e-6

Sizes = Sequence["int | None"]
Matrix = Sequence["tuple[float, float] | None"]


def sizes_per_dataset(normalized_weights: Sequence[float], sizes: Sequence[int], surplus: float) -> list[list[int]]:
    """Samples that each dataset of a weighted blend must have, for each split.

    >>> sizes_per_dataset([0.5, 0.5], [100], 0.005)
    [[51], [51]]
    """
    _check_sum(normalized_weights)
    factor = 1 + surplus
    made = [
        [math.ceil(math.ceil(size * weight) * factor) if size else 0 for size in sizes] for weight in normalized_weights
    ]
    if any(size >= 2**63 for row in made for size in row):
        raise errors.CallerError(f"a surplus of {surplus!r} makes more than 2^63 - 1 samples of sizes {list(sizes)}")
    return made


def _check_sum(normalized_weights: Sequence[float]) -> None:
    total = sum(normalized_weights)
    if not abs(total - 1.0) <= _SUM_TOLERANCE:
        raise AssertionError(f"the sum of the weights is {total!r}; expected normalised ones, with sum 1")


def _check_size(split: Split, size: Any, blend: Any) -> None:
    if size is None:
        return
    try:  # sizes of a blend with weights are rounded up, as in Megatron-LM
        weighted = blend is not None and blend[1] is not None
        number = math.ceil(size) if weighted and isinstance(size, (float, numpy.floating)) else operator.index(size)
    except (TypeError, ValueError, OverflowError):
        seen = errors.show(size)
        raise errors.CallerError(f"sizes: {split.name} is {seen}; expected a whole number, or None") from None
    if not 0 <= number < 2**63:
        raise errors.CallerError(f"sizes: {split.name} is {number}; expected 0 to 2^63 - 1, or None")


def _check_blend_weights(prefixes: Sequence[str], weights: Sequence[float]) -> None:
    for prefix, weight in zip(prefixes, weights, strict=True):
        if not 0 < weight < math.inf:
            raise AssertionError(f"prefix {prefix!r} has the weight {weight!r}; expected a finite number above zero")


class BlendedMegatronDatasetBuilder:
    """Builds the datasets of all splits.

    Args:
        cls: class of the mid-level datasets: :class:`GPTDataset`, :class:`MockGPTDataset` or another
            :class:`MegatronDataset`.
        sizes: samples wanted of train, valid and test; None: what one epoch gives.
        is_built_on_rank: tells whether this rank gets datasets; must be true on rank 0.
        config: the configuration.
        rank, barrier: number of this rank and a callable that waits for all ranks. Without them,
            ``torch.distributed`` if it is initialised. Without that, the process builds at once; any number of
            processes may do so with one folder.

    Raises:
        AssertionError: a split has weights but no size.
    """

    def __init__(
        self,
        cls: type[Any],
        sizes: Sizes,
        is_built_on_rank: Callable[[], bool],
        config: BlendedMegatronDatasetConfig,
        *,
        rank: int | None = None,
        barrier: Callable[[], Any] | None = None,
    ) -> None:
        self.cls = cls
        self.sizes = list(sizes)
        self.is_built_on_rank = is_built_on_rank
        self.config = config
        self._rank, self._barrier = rank, barrier
        self._ranks = barriers.ranks_of(rank, barrier)
        if len(self.sizes) != len(Split):
            raise AssertionError(f"sizes has {len(self.sizes)} entries; expected {len(Split)}: train, valid and test")
        for split, size in zip(Split, self.sizes, strict=True):
            _check_size(split, size, self._blend_of(split))
        if not config.mock:
            self._check_sizes()
        if self._ranks is not None and self._ranks.rank == 0 and not is_built_on_rank():
            raise AssertionError("is_built_on_rank must be true on rank 0, which builds before the others")

    def _check_sizes(self) -> None:
        for split in Split:
            blend = self._blend_of(split)
            if self.sizes[split.value] is None and blend is not None and blend[1] is not None:
                raise AssertionError(
                    f"size_is_none => weights_are_none fails for the {split.name} split: its blend has weights, so"
                    " it needs a size"
                )

    def _blend_of(self, split: Split) -> Any:
        if self.config.blend is not None:
            return self.config.blend
        return self.config.blend_per_split[split.value] if self.config.blend_per_split else None

    def build(self) -> list[Any]:
        """The datasets of train, valid and test.

        Each is None (an empty split, or a rank that does not build), a dataset of ``cls`` (one prefix), a
        :class:`BlendedDataset`, or, for several validation sets, a list of datasets. Every rank must call this.

        Raises:
            AssertionError, stoker.errors.CallerError: no such datasets can be built; the message says why.
            stoker.errors.StokerError: as :class:`GPTDataset`.
            Exception: rank 0 cannot write the cache folder, or mock data cannot be built; the cause is attached.
        """
        self._ranks = barriers.ranks_of(self._rank, self._barrier)
        self._opens_late = _opens_late(self.cls, self.config)
        with identity.shared(self.config):
            datasets = self._build()
        self._check_lengths(datasets)
        return datasets

    def _check_lengths(self, datasets: list[Any]) -> None:
        for dataset in datasets:
            if isinstance(dataset, BlendedDataset):
                asked, fits = dataset.size, dataset.size is None or len(dataset) == dataset.size
            elif isinstance(dataset, MegatronDataset):
                asked = dataset.num_samples
                fits = asked is None or asked <= len(dataset)
            else:
                continue
            if not fits:
                raise AssertionError(f"{dataset!r} has {len(dataset)} items; {asked} were asked for")

    # --------------------------------------------------------------------------------------------------- which datasets

    def _build(self) -> list[Any]:
        config = self.config
        if config.mock:
            try:
                return self._mid_level(None, config.split_matrix or [], self.sizes, True)
            except Exception as error:
                raise Exception(f"{self.cls.__name__} failed to build as a mock data generator") from error
        if config.blend is not None:
            return self._blend(config.blend, config.split_matrix or [], self.sizes)
        datasets: list[Any] = []
        for split, blend in zip(Split, config.blend_per_split or [], strict=True):
            datasets.append(None if blend is None else self._blend_of_split(split, blend))
        return datasets

    def _blend(self, blend: Any, matrix: Matrix, sizes: Sizes) -> list[Any]:
        """One blend for all splits."""
        prefixes, weights = blend
        if len(prefixes) == 1 and weights is None:
            return self._mid_level(prefixes[0], matrix, sizes, True)
        return self._blended(prefixes, weights, matrix, sizes)

    def _blend_of_split(self, split: Split, blend: Any) -> Any:
        """The blend of one split, which has its prefixes for itself."""
        config, (prefixes, weights) = self.config, blend
        matrix = [_WHOLE if other is split else None for other in Split]
        sizes: list[int | None] = [0] * len(Split)
        sizes[split.value] = self.sizes[split.value]
        if config.multiple_validation_sets and split is Split.valid:
            if config.full_validation and sizes[split.value] is not None:
                raise AssertionError(
                    f"full_validation takes the whole of each validation set; its size must be None, not"
                    f" {sizes[split.value]}"
                )
            return [self._mid_level(prefix, matrix, sizes, True)[split.value] for prefix in prefixes]
        if len(prefixes) == 1:
            return self._mid_level(prefixes[0], matrix, sizes, True)[split.value]
        return self._blended(prefixes, weights, matrix, sizes)[split.value]

    def _blended(
        self, prefixes: Sequence[str], weights: Sequence[float] | None, matrix: Matrix, sizes: Sizes
    ) -> list[Any]:
        if not 0 < len(prefixes) <= DATASETS_MAX:
            raise AssertionError(f"a blend of {len(prefixes)} prefixes; expected 1 to {DATASETS_MAX}")
        targets: list[list[int]] | None = None
        asked: list[Any] = [[None] * len(Split)] * len(prefixes)
        if weights is not None:
            _check_blend_weights(prefixes, weights)
            weights = splits.normalize(weights)
            if None in sizes:
                raise ValueError("Using client-specified weights requires client-specified size")
            known = [size for size in sizes if size is not None]
            asked = sizes_per_dataset(weights, known, self.config.mid_level_dataset_surplus)
            targets = sizes_per_dataset(weights, known, 0.0)
        columns = list(zip(*self._mid_levels(prefixes, matrix, asked), strict=True))
        return [
            None
            if matrix[split.value] is None
            else self._blend_columns(
                list(columns[split.value]),
                weights,
                sizes[split.value] if targets is None else sum(target[split.value] for target in targets),
            )
            for split in Split
        ]

    def _blend_columns(self, datasets: list[Any], weights: Sequence[float] | None, size: int | None) -> Any:
        if weights is None:
            lengths = [0 if dataset is None else len(dataset) for dataset in datasets]
            weights = lengths
            if size is not None:
                size = min(size, sum(lengths))
        return self._build_on_ranks(
            BlendedDataset, not self.config.fast_cache_load, datasets, weights, size, self.config
        )

    # ----------------------------------------------------------------------------------------------- mid-level datasets

    def _mid_levels(self, prefixes: Sequence[str], matrix: Matrix, asked: list[Sizes]) -> list[list[Any]]:
        """The splits of all prefixes, in their order."""

        def task(prefix: str, sizes: Sizes) -> list[Any]:
            return self._mid_level(prefix, matrix, sizes, False)

        def build(threads: int) -> list[list[Any]]:
            return _in_threads(task, list(zip(prefixes, asked, strict=True)), threads)

        threads, ranks = self.config.num_dataset_builder_threads, self._ranks
        if ranks is None:
            return build(threads)
        datasets = [[None] * len(Split) for _ in prefixes]
        if ranks.rank == 0:
            datasets = build(threads * min(2, max(1, barriers.local_gpu_count())) if threads > 1 else threads)
        if not self.config.fast_cache_load:
            ranks.wait()
        if ranks.rank != 0:
            datasets = build(threads)
        return datasets

    def _mid_level(self, prefix: str | None, matrix: Matrix, sizes: Sizes, synchronize: bool) -> list[Any]:
        """The splits of one prefix. ``synchronize``: rank 0 first, with a barrier for each."""
        ranks = self._ranks
        if ranks is not None and not self.is_built_on_rank():
            if synchronize:
                for pair in matrix:
                    if pair is not None:
                        ranks.wait()
            return [None] * len(Split)
        low_level, elements = None, None
        if not self._opens_late:
            low_level = self.cls.build_low_level_dataset(prefix, self.config)
            if not self.config.fast_cache_load:
                elements = self.cls.numel_low_level_dataset(low_level)
        datasets: list[Any] = []
        for split, pair, size in zip(Split, matrix, sizes, strict=True):
            if pair is None:
                datasets.append(None)
                continue
            indices = None if elements is None else self._indices(pair, elements)
            datasets.append(
                self._build_on_ranks(self.cls, synchronize, low_level, prefix, indices, size, split, self.config)
            )
        return datasets

    def _indices(self, pair: tuple[float, float], elements: int) -> Any:
        run = range(*splits.split_borders(pair, elements))
        if issubclass(self.cls, GPTDataset):  # makes the array when it is asked for
            return run
        return numpy.arange(run.start, run.stop, dtype=numpy.int32)

    # ------------------------------------------------------------------------------------------------------------ ranks

    def _build_on_ranks(self, kind: Callable[..., Any], synchronize: bool, *arguments: Any) -> Any:
        """``kind(*arguments)``: on rank 0, then on the others; None on a rank that does not build."""
        if self._ranks is None:
            return kind(*arguments)
        return self.build_generic_dataset(kind, self.is_built_on_rank, synchronize, *arguments, ranks=self._ranks)

    @staticmethod
    def build_generic_dataset(
        cls: Callable[..., Any],
        is_built_on_rank: Callable[[], bool],
        synchronize_ranks: bool,
        *args: Any,
        ranks: barriers.Ranks | None = None,
    ) -> Any:
        """``cls(*args)``: on rank 0 first, then, behind a barrier if ``synchronize_ranks``, on the others.

        Without ranks it is built at once. A rank that does not build gets None.
        """
        if ranks is None:
            ranks = barriers.ranks_of(None, None)
        if ranks is None:
            return cls(*args)
        dataset = None
        if ranks.rank == 0 and is_built_on_rank():
            dataset = _explain_folder(cls, args)
        if synchronize_ranks:
            ranks.wait()
        if ranks.rank != 0 and is_built_on_rank():
            dataset = cls(*args)
        return dataset


def _opens_late(kind: type[Any], config: BlendedMegatronDatasetConfig) -> bool:
    """Do datasets of this class open their token files themselves, when they are used?"""
    return (
        opens_late(config)
        and not config.mock
        and issubclass(kind, GPTDataset)
        and kind.__init__ is GPTDataset.__init__
        and kind.build_low_level_dataset is GPTDataset.build_low_level_dataset
    )


def _explain_folder(kind: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """``kind(*arguments)`` on rank 0, where an OSError means that the caches cannot be written."""
    try:
        return kind(*arguments)
    except FileNotFoundError:  # data, or a cache that was assumed to exist
        raise
    except OSError as error:
        config = arguments[-1]
        folder = getattr(config, "path_to_cache", None) or "the folder beside the data (path_to_cache is None)"
        raise Exception(
            f"rank 0 cannot write its dataset caches to {folder}: {error}. Expected a folder that all ranks can read and"
            " rank 0 can write"
        ) from error


def _in_threads(task: Callable[..., Any], work: list[tuple[Any, ...]], threads: int) -> list[Any]:
    """Results in the order of ``work``. Each task runs in a copy of the caller's context, so that what is kept there
    (the span of a tracer, for example) is the same as if the caller ran it."""
    runs = [(contextvars.copy_context().run, task, arguments) for arguments in work]
    if threads <= 1 or len(runs) <= 1:
        return [run(function, *arguments) for run, function, arguments in runs]
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(threads, len(runs))) as pool:
        try:
            futures = [pool.submit(run, function, *arguments) for run, function, arguments in runs]
            return [future.result() for future in futures]
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if not isinstance(error, Exception):  # Ctrl-C: signals reach this thread only, so the others are told
                _core.stop_builds(True)
                try:
                    pool.shutdown()
                finally:
                    _core.stop_builds(False)
            raise
