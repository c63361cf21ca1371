# SPDX-License-Identifier: Apache-2.0
"""What a build is made from. Fields, defaults, the order of the checks and their messages are those of Megatron-LM.

The checks raise AssertionError themselves, so that ``python -O`` does not switch them off.
"""

from __future__ import annotations

import math
import numbers
import os
from dataclasses import dataclass, field
from typing import Any

from .. import errors

from . import splits
from .blend_list import Blend

__all__ = ["BlendedMegatronDatasetConfig", "GPTDatasetConfig"]

_SPLITS_OF_MOCK_DATA = "1,1,1"

#: A vocabulary above this is assumed to be stored as int32 where the header of the index is not read.
_UINT16_VOCABULARY_MAX = 65536
_INT32_CODE, _UINT16_CODE = 4, 8


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, (str, bytes, dict))


def _check_weights(blend: Blend, message: str, name: str = "blend") -> None:
    if not _is_list(blend) or len(blend) != 2:
        seen = errors.show(blend)
        raise errors.CallerError(f"{name} is {seen}; expected (list of prefixes, list of weights or None)")
    prefixes, weights = blend
    if not _is_list(prefixes):
        raise errors.CallerError(f"{name}: the prefixes are {errors.show(prefixes)}; expected a list of texts")
    for place, prefix in enumerate(prefixes):
        if not isinstance(prefix, (str, os.PathLike)):
            raise errors.CallerError(f"{name}: prefix {place} is {errors.show(prefix)}; expected a text")
    if weights is not None and not _is_list(weights):
        raise errors.CallerError(f"{name}: the weights are {errors.show(weights)}; expected a list of numbers, or None")
    if weights is not None and len(weights) != len(prefixes):
        raise AssertionError(message)
    for place, weight in enumerate(() if weights is None else weights):
        if weight is None or isinstance(weight, (str, bytes)) or not hasattr(weight, "__float__"):
            raise errors.CallerError(f"{name}: weight {place} is {errors.show(weight)}; expected a number")


@dataclass
class BlendedMegatronDatasetConfig:
    """Common to all datasets that :class:`BlendedMegatronDatasetBuilder` builds.

    Args:
        random_seed: of every index, 0 to 2**32 - 1.
        sequence_length: tokens of an item, S.
        blend: ``(prefixes, weights)`` for all splits; weights may be None. Weights need not sum to one.
        blend_per_split: three blends (or None) for train, valid and test.
        multiple_validation_sets: the validation split becomes a list of datasets, one for each prefix.
        full_validation: validation runs over the whole of each set.
        split: shares of train, valid and test, such as ``"99,1,0"``.
        num_dataset_builder_threads: datasets that are built at once.
        path_to_cache: folder of the index caches; None: a folder beside the data.
        mmap_bin_files: map PREFIX.bin; False: positional reads.
        tokenizer: an object with ``unique_identifiers`` (an ordered mapping), ``vocab_size``, ``eod`` and maybe
            ``pad``.
        mid_level_dataset_surplus: share by which each dataset of a weighted blend is built larger.
        allow_ambiguous_pad_tokens: keep a pad id that is also the id of another special token.
        fast_cache_load: assume that all caches exist.
        defer_npy_index_mmap: map index arrays at the first item.

    ``split_matrix`` (start and end of each split, or None) and ``mock`` (neither blend is given) are derived.

    Raises:
        AssertionError: options that exclude each other; the message names them.
    """

    random_seed: int
    sequence_length: int
    blend: Blend | None = None
    blend_per_split: list[Blend | None] | None = None
    multiple_validation_sets: bool | None = None
    full_validation: bool | None = None
    split: str | None = None
    split_matrix: splits.SplitMatrix | None = field(init=False, default=None)
    num_dataset_builder_threads: int = 1
    path_to_cache: str | None = None
    mmap_bin_files: bool = True
    mock: bool = field(init=False, default=False)
    tokenizer: Any = None
    mid_level_dataset_surplus: float = 0.005
    allow_ambiguous_pad_tokens: bool | None = False
    fast_cache_load: bool = False
    defer_npy_index_mmap: bool = False

    def __post_init__(self) -> None:
        surplus = self.mid_level_dataset_surplus
        if not isinstance(surplus, numbers.Real) or not math.isfinite(surplus):
            seen = errors.show(surplus)
            raise errors.CallerError(f"mid_level_dataset_surplus is {seen}; expected a finite number such as 0.005")
        if self.fast_cache_load:
            _require(
                self.path_to_cache is not None,
                "--data-cache-path must be provided when using --dataloader-fast-cache-load.",
            )
            _require(
                self.blend is None,
                "--dataloader-fast-cache-load needs blends per split (blend_per_split), not one blend for all splits.",
            )
        if self.defer_npy_index_mmap:
            _require(
                self.path_to_cache is not None,
                "--data-cache-path must be provided when using --dataloader-defer-npy-index-mmap.",
            )
        if self.blend_per_split is not None and not _is_list(self.blend_per_split):
            seen = errors.show(self.blend_per_split)
            raise errors.CallerError(f"blend_per_split is {seen}; expected a list of three blends")
        if self.blend_per_split is not None and any(blend is not None for blend in self.blend_per_split):
            self._check_blend_per_split(self.blend_per_split)
            return
        if self.blend is not None:
            _check_weights(self.blend, "blend prefixes and weights must be equal in number")
            _require(self.split is not None, "split must be provided when blend is not None")
        else:
            self.mock = True
            self.split = _SPLITS_OF_MOCK_DATA
        self.split_matrix = splits.convert_split_vector_to_split_matrix(
            splits.parse_and_normalize_split(str(self.split))
        )

    def _check_blend_per_split(self, blends: list[Blend | None]) -> None:
        _require(self.blend is None, "blend and blend_per_split are incompatible")
        _require(self.split is None, "split and blend_per_split are incompatible")
        _require(len(blends) == len(splits.Split), f"blend_per_split must contain {len(splits.Split)} blends")
        for split, blend in zip(splits.Split, blends, strict=True):
            if blend is not None:
                message = "blend per split prefixes and weights must be equal in number"
                _check_weights(blend, message, f"blend_per_split, {split.name}")


@dataclass
class GPTDatasetConfig(BlendedMegatronDatasetConfig):
    """What :class:`GPTDataset` and :class:`MockGPTDataset` need besides.

    Args:
        reset_position_ids: position ids begin again after each end of document; must be given.
        reset_attention_mask: tokens do not see the documents before theirs; must be given.
        eod_mask_loss: ends of documents do not count in the loss; must be given.
        create_attention_mask: items have an ``attention_mask``.
        drop_last_partial_validation_sequence: False keeps the last, padded sample of the validation split.
        add_extra_token_to_sequence: read S + 1 tokens, so that the label of the last token is known.
        object_storage_cache_path: folder that index files of object storage are kept in.
        data_parallel_size, sequence_parallel_size, hybrid_context_parallel, context_parallel_size: for other dataset
            classes.
        sequences_per_dataset: prefix to (sequences, document entries), so that no header is read.
        inter_document_masking: items have ``cu_seqlens`` and ``max_seqlen`` instead of an attention mask.
        sft_mock_dataset_config_json, varlen_mock_dataset_config_json, varlen_sbhd_validation: for other dataset
            classes.
        strong_cache_identity: stoker's own: sizes and times of the data files, ``add_extra_token_to_sequence`` and
            ``drop_last_partial_validation_sequence`` become part of the identity of a cache, so that a change of one of
            them builds the index again. Such caches are not found by Megatron-LM.

    ``token_dtype_code`` (the assumed element type where no header is read) is derived.
    """

    reset_position_ids: bool | None = None
    reset_attention_mask: bool | None = None
    eod_mask_loss: bool | None = None
    create_attention_mask: bool = True
    drop_last_partial_validation_sequence: bool = True
    add_extra_token_to_sequence: bool = True
    object_storage_cache_path: str | None = None
    data_parallel_size: int = 1
    sequence_parallel_size: int = 0
    hybrid_context_parallel: bool = False
    sequences_per_dataset: dict[str, tuple[int, int]] | None = None
    token_dtype_code: int | None = field(init=False, default=None)
    context_parallel_size: int | None = None
    inter_document_masking: bool = False
    sft_mock_dataset_config_json: str | None = None
    varlen_mock_dataset_config_json: str | None = None
    varlen_sbhd_validation: bool = False
    strong_cache_identity: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tokenizer", "reset_position_ids", "reset_attention_mask", "eod_mask_loss"):
            _require(getattr(self, name) is not None, f"{name} must be provided")
        _require(
            not (self.varlen_sbhd_validation and self.hybrid_context_parallel),
            "varlen_sbhd_validation and hybrid_context_parallel are incompatible",
        )
        vocabulary = getattr(self.tokenizer, "vocab_size", None)
        if vocabulary is None:
            self.token_dtype_code = None
        else:
            self.token_dtype_code = _INT32_CODE if vocabulary > _UINT16_VOCABULARY_MAX else _UINT16_CODE
        if self.sequences_per_dataset:
            _require(
                self.token_dtype_code is not None,
                "sequences_per_dataset needs a tokenizer with a vocab_size, which tells the element type of the data",
            )
