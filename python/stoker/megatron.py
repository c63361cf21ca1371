# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's datasets: the same files, the same index bytes, the same items, built and read in C.

A program that uses ``megatron.core.datasets`` changes its imports and keeps the rest. Items are torch tensors if
PyTorch is installed, else NumPy arrays.
"""

from __future__ import annotations

from ._megatron.blend_list import get_blend_and_blend_per_split, get_blend_from_list, read_blend_per_split
from ._megatron.blended import BlendedDataset
from ._megatron.builder import BlendedMegatronDatasetBuilder
from ._megatron.config import BlendedMegatronDatasetConfig, GPTDatasetConfig
from ._megatron.files import DType, get_bin_path, get_idx_path
from ._megatron.gpt import GPTDataset
from ._megatron.indexed import IndexedDataset
from ._megatron.indexed_builder import IndexedDatasetBuilder
from ._megatron.megatron_dataset import MegatronDataset
from ._megatron.mock import MockGPTDataset, MockGPTLowLevelDataset
from ._megatron.splits import Split, convert_split_vector_to_split_matrix, normalize, parse_and_normalize_split
from ._megatron.storage import ObjectStorageConfig
from ._megatron.switched import SwitchedBlend

__all__ = [
    "BlendedDataset",
    "BlendedMegatronDatasetBuilder",
    "BlendedMegatronDatasetConfig",
    "DType",
    "GPTDataset",
    "GPTDatasetConfig",
    "IndexedDataset",
    "IndexedDatasetBuilder",
    "MegatronDataset",
    "MockGPTDataset",
    "MockGPTLowLevelDataset",
    "ObjectStorageConfig",
    "Split",
    "SwitchedBlend",
    "convert_split_vector_to_split_matrix",
    "get_bin_path",
    "get_blend_and_blend_per_split",
    "get_blend_from_list",
    "get_idx_path",
    "normalize",
    "parse_and_normalize_split",
    "read_blend_per_split",
]
