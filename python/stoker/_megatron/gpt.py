# SPDX-License-Identifier: Apache-2.0
"""Samples of language models: a window of sequence_length tokens over shuffled documents, built and read in C."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from .. import _core, errors
from . import failures, identity, items
from .config import BlendedMegatronDatasetConfig, GPTDatasetConfig
from .indexed import IndexedDataset
from .megatron_dataset import MegatronDataset
from .splits import Split

__all__ = ["GPTDataset", "cache_stem", "is_object_storage_path", "maps_late", "opens_late"]

_FILES = ("description.txt", "document_index.npy", "sample_index.npy", "shuffle_index.npy")
_OBJECT_STORAGE = ("s3://", "msc://", "http://", "https://")


def is_object_storage_path(path: str | None) -> bool:
    return path is not None and path.startswith(_OBJECT_STORAGE)


def cache_stem(dataset: Any, split: Split) -> str:
    """What the names of the cache files of a dataset begin with."""
    return f"{dataset.unique_description_hash}-{type(dataset).__name__}-{split.name}"


def opens_late(config: BlendedMegatronDatasetConfig) -> bool:
    """Is nothing looked at before the first item? So it is where caches are assumed to exist and mapped late."""
    return bool(config.fast_cache_load and config.defer_npy_index_mmap)


def maps_late(config: BlendedMegatronDatasetConfig, folder: str | None, stem: str, names: Sequence[str]) -> bool:
    """Are index arrays mapped at the first item? Those that are not there yet are built at once."""
    if not config.defer_npy_index_mmap or folder is None:
        return False
    return config.fast_cache_load or all(os.path.exists(os.path.join(folder, f"{stem}-{name}")) for name in names)


def _core_arguments(config: GPTDatasetConfig) -> dict[str, Any]:
    """Arguments of the C dataset that all splits and prefixes share."""
    try:
        seed = operator.index(config.random_seed)
    except TypeError:
        raise TypeError(f"random_seed is {config.random_seed!r}; expected a whole number of 0 to 2**32 - 1") from None
    if not 0 <= seed < 2**32:
        raise ValueError(f"Seed must be between 0 and 2**32 - 1, random_seed is {seed}")
    return {
        "seed": seed,
        "sequence_length": config.sequence_length,
        "extra_token": bool(config.add_extra_token_to_sequence),
        "assume_hit": bool(config.fast_cache_load),
    }


def _range_of(indices: Any, split: str) -> tuple[int, int | None]:
    """(first, end) of the sequences of a split."""
    if indices is None:
        return 0, None
    if isinstance(indices, range):
        if indices.step != 1:
            raise errors.UnsupportedError(f"the {split} split has gaps between its sequences; expected one run of them")
        return (indices.start, indices.stop) if len(indices) else (0, 0)
    array = numpy.asarray(indices)
    if array.size == 0:
        return 0, 0
    first, end = int(array[0]), int(array[-1]) + 1
    if end - first != array.size or not (array == numpy.arange(first, end, dtype=array.dtype)).all():
        raise errors.UnsupportedError(f"the {split} split has gaps between its sequences; expected one run of them")
    return first, end


def _array(described: tuple[Any, str, tuple[int, ...]]) -> numpy.ndarray:
    buffer, dtype, shape = described
    return numpy.frombuffer(buffer, dtype).reshape(shape)


class GPTDataset(MegatronDataset):
    """Samples of one prefix. ``dataset[i]`` is a dict of tensors (NumPy arrays without PyTorch), S = sequence_length:

    ============== ======= ========= ==========================================================================
    key            dtype   shape     when
    ============== ======= ========= ==========================================================================
    tokens         int64   (S,)
    labels         int64   (S,)
    attention_mask bool    (1, S, S) create_attention_mask; True = masked
    loss_mask      float32 (S,)
    position_ids   int64   (S,)
    cu_seqlens     int32   (S + 1,)  inter_document_masking: starts of the documents, then S
    max_seqlen     int32   ()        inter_document_masking: longest part
    ============== ======= ========= ==========================================================================

    ``dataset[None]`` pads a batch: item 0 with a loss mask of zeros. Position ids and attention mask are the same
    tensors for all items where nothing resets them.

    Args:
        indexed_dataset: the :class:`IndexedDataset` of the prefix.
        dataset_path: the prefix exactly as it was given.
        indexed_indices: one run of sequence numbers; None: all.
        num_samples: samples that are wanted at least; None: those of one epoch.
        index_split: which split it is.
        config: a :class:`GPTDatasetConfig`.

    Raises:
        stoker.errors.CallerError (also an AssertionError): no index can be built; the message names the split.
        stoker.errors.MachineError (also an OSError): the folder of the cache cannot be written.
        stoker.errors.DataError: data or, with fast_cache_load, a cache file is missing (also a FileNotFoundError) or
            bad.
    """

    config: GPTDatasetConfig

    def __init__(
        self,
        indexed_dataset: Any,
        dataset_path: str | None,
        indexed_indices: Sequence[int] | numpy.ndarray | None,
        num_samples: int | None,
        index_split: Split,
        config: GPTDatasetConfig,
    ) -> None:
        self._dataset: Any
        self._indices: Any
        super().__init__(indexed_dataset, dataset_path, indexed_indices, num_samples, index_split, config)
        self._range = _range_of(indexed_indices, index_split.name)
        self._arguments = identity.prepared(config).once(_core_arguments)
        self._handle: Any = None
        self._arrays: dict[str, numpy.ndarray] | None = None
        self._make: Any = None
        self._make_many: Any = None
        if not opens_late(config):
            self._handle = self._open()

    @property
    def masks_and_position_ids_are_cacheable(self) -> bool:
        """Are attention mask and position ids the same in all items?"""
        config = self.config
        return not (config.reset_position_ids or config.reset_attention_mask or config.eod_mask_loss)

    # ------------------------------------------------------------------------------------------------ low-level dataset

    @staticmethod
    def numel_low_level_dataset(low_level_dataset: IndexedDataset) -> int:
        """Number of its sequences (splits divide sequences, not documents)."""
        return len(low_level_dataset)

    @staticmethod
    def build_low_level_dataset(dataset_path: str | None, config: GPTDatasetConfig) -> IndexedDataset:
        """The token files of a prefix."""
        if dataset_path is None:
            raise AssertionError("a GPTDataset needs a prefix; use MockGPTDataset for mock data")
        if is_object_storage_path(dataset_path):
            if config.object_storage_cache_path is None:
                raise AssertionError(
                    f"{dataset_path}: object_storage_cache_path must be provided; the index file is kept there"
                )
            from .storage import ObjectStorageConfig

            return IndexedDataset(
                dataset_path,
                multimodal=False,
                mmap=config.mmap_bin_files,
                object_storage_config=ObjectStorageConfig(path_to_idx_cache=config.object_storage_cache_path),
            )
        counts: tuple[int, int] | None = None
        if config.sequences_per_dataset:
            try:
                sequences, entries = config.sequences_per_dataset[dataset_path]
            except KeyError:
                raise KeyError(f"{dataset_path!r} is not in sequences_per_dataset") from None
            counts = (sequences, entries)
        return IndexedDataset(
            dataset_path,
            multimodal=False,
            mmap=config.mmap_bin_files,
            fast_cache_load=config.fast_cache_load,
            sequences_per_dataset=counts,
            dtype_code=config.token_dtype_code if counts is not None else None,
        )

    @property
    def dataset(self) -> Any:
        """The low-level dataset. Where everything is deferred, it is opened when it is asked for."""
        if self._dataset is None and not self.config.mock:
            self._dataset = type(self).build_low_level_dataset(self.dataset_path, self.config)
        return self._dataset

    @dataset.setter
    def dataset(self, value: Any) -> None:
        self._dataset = value

    # ------------------------------------------------------------------------------------------------------------ index

    @property
    def indices(self) -> numpy.ndarray | None:
        """Numbers of the sequences of the split; None with fast_cache_load."""
        if isinstance(self._indices, range):
            self._indices = numpy.arange(self._indices.start, self._indices.stop, dtype=numpy.int32)
        return self._indices

    @indices.setter
    def indices(self, value: Any) -> None:
        self._indices = value

    def _extra_identifiers(self) -> Mapping[str, Any]:
        config = self.config
        if not config.strong_cache_identity:
            return {}
        return {
            **self._files(),
            "add_extra_token_to_sequence": bool(config.add_extra_token_to_sequence),
            "drop_last_partial_validation_sequence": bool(config.drop_last_partial_validation_sequence),
        }

    def _files(self) -> dict[str, int]:
        """Sizes and times of the data files."""
        found: dict[str, int] = {}
        if self.dataset_path is not None and not is_object_storage_path(self.dataset_path):
            for name in ("idx", "bin"):
                status = os.stat(f"{self.dataset_path}.{name}")
                found[f"{name}_bytes"] = status.st_size
                found[f"{name}_mtime_ns"] = status.st_mtime_ns
        return found

    def _low_level(self) -> tuple[Any, dict[str, Any]]:
        """What the C dataset reads: a handle of token files, and further arguments."""
        handle = getattr(self.dataset, "_core", None)
        if handle is None:
            raise errors.UnsupportedError(
                f"a GPTDataset reads an IndexedDataset, not a {type(self.dataset).__name__}; derive from MegatronDataset"
                " to read anything else"
            )
        return handle, {}

    def _cache_folder(self) -> str | None:
        folder = self.config.path_to_cache or None  # an empty path is none, as in Megatron-LM
        if folder is None and not self.config.mock:
            if is_object_storage_path(self.dataset_path):
                raise AssertionError(f"{self.dataset_path}: path_to_cache must be provided; caches are local files")
            folder = os.path.join(str(self.dataset_path), "cache", f"{type(self).__name__}_indices")
        return None if folder is None else os.fspath(folder)

    def _open(self) -> Any:
        """The C dataset, with the form of its items."""
        first, end = self._range
        handle, more = self._low_level()
        folder, stem = self._cache_folder(), cache_stem(self, self.index_split)
        try:
            core = _core.GptDataset(
                handle,
                **more,
                **self._arguments,
                samples=self.num_samples,
                first=first,
                end=end,
                split=self.index_split.name,
                keep_partial=self.index_split is Split.valid and not self.config.drop_last_partial_validation_sequence,
                folder=folder,
                stem=stem,
                description=self.unique_description,
                defer=maps_late(self.config, folder, stem, _FILES),
            )
        except errors.StokerError as error:
            raise failures.of_index(error, self._name(), bool(self.config.fast_cache_load)) from None
        core.set_form(**items.form_of(self.config, self._pad_token_id))
        return core

    def _name(self) -> str:
        return f"{type(self).__name__} {self.index_split.name} of {self.dataset_path or 'mock data'}"

    def prepare(self) -> None:
        """Map index arrays that were deferred (defer_npy_index_mmap); else the first item does it."""
        try:
            self._core_dataset().prepare()
        except errors.StokerError as error:
            raise failures.of_index(error, self._name(), True) from None

    def _core_dataset(self) -> Any:
        """The C dataset; made now where this object was unpickled, or everything was deferred. Two threads may both
        do so; what they get is equal."""
        core = self._handle
        if core is None:
            core = self._handle = self._open()
        return core

    def _index_arrays(self) -> dict[str, numpy.ndarray]:
        if self._arrays is None:
            try:
                self._arrays = {name: _array(one) for name, one in self._core_dataset().arrays().items()}
            except errors.StokerError as error:
                raise failures.of_index(error, self._name(), True) from None
        return self._arrays

    @property
    def document_index(self) -> numpy.ndarray:
        """Sequence numbers in the order of reading, all epochs: int32, read-only."""
        return self._index_arrays()["document_index"]

    @property
    def sample_index(self) -> numpy.ndarray:
        """Where each sample begins, and the last one ends: (place in document_index, token); int32 or int64,
        read-only."""
        return self._index_arrays()["sample_index"]

    @property
    def shuffle_index(self) -> numpy.ndarray:
        """The sample that each item is: uint32 or int64, read-only."""
        return self._index_arrays()["shuffle_index"]

    # ------------------------------------------------------------------------------------------------------------ items

    def __len__(self) -> int:
        return max(0, self._core_dataset().count())  # -1 is what the rule of deferred arrays gives for no tokens

    def __getitem__(self, idx: int | None) -> dict[str, Any]:
        make = self._make
        if make is None:
            make = self._make = items.maker(self)
        return make(idx)

    def __getitems__(self, indices: Sequence[int | None]) -> list[dict[str, Any]]:
        """Items ``indices``, as PyTorch's loader asks for the items of a batch: made in one call, which takes a fraction
        of the time. They are views of one block of memory, no two of the same bytes."""
        make = self._make_many
        if make is None:
            make = self._make_many = items.maker_of_many(self)
        return make(indices)

    def get_batch(
        self, indices: Sequence[int], out: dict[str, Any] | None = None, pin_memory: bool = False, shared: bool = False
    ) -> dict[str, Any]:
        """Items ``indices`` in one block of memory: a dict with the keys of an item, each of shape (len(indices), ...).

        Args:
            indices: numbers of items; negative ones count from the end.
            out: what an earlier call returned, to be filled again; nothing is allocated then.
            pin_memory: the block is page-locked.
            shared: the block can be sent to other processes without a copy.

        Raises:
            IndexError: no such item; the message names it. The block may be partly filled.
        """
        return items.batch(self, indices, out, pin_memory, shared)

    def _query_document_sample_shuffle_indices(self, idx: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """(text, sequence numbers): all tokens of an item, int64, padded to their full number, and the sequences that
        they come from. A subclass may return other tokens; items are made of them then."""
        text, numbers, _ = items.text_of(self, idx)
        return text, numbers

    # -------------------------------------------------------------------------------------------- processes and workers

    def _native_source(self) -> Any:
        """A source whose sample i is item i, for workers without Python; None where a subclass makes items of its
        own."""
        return items.native_source(self, [self])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_handle", "_arrays", "_make", "_make_many"):
            state[name] = None
        if isinstance(state["_indices"], numpy.ndarray):
            first, end = self._range
            state["_indices"] = None if end is None else range(first, end)
        return state
