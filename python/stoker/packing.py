# SPDX-License-Identifier: Apache-2.0
"""Packed sequences for training: Megatron-LM's packing interface, a better scheduler, and a packing iterator.

``wrap_data_iterator`` and ``get_batch_on_this_rank_for_sequence_packing`` are called as Megatron-LM's functions of the
same name; they run on CUDA with NCCL and on CPU with gloo. ``config.sequence_packing_scheduler`` names the scheduler:
``"dp_balanced"`` (Megatron-LM's, exactly), ``"best_fit"`` (fewer packs, level work) or one of your own
(:func:`register_scheduler`). ``PackedSequences`` packs documents of any source and can be resumed in the middle.

>>> DpBalancedScheduler(8, 1, 2, None).get_groups_and_subsamples([(0, 3), (1, 5), (2, 8)])
[[[0, 1], [2]]]
"""

from ._packing.batch import get_batch_on_this_rank_for_sequence_packing
from ._packing.entry import wrap_data_iterator
from ._packing.hybrid import HybridCPDataLoaderWrapper
from ._packing.params import PackedSeqParams
from ._packing.registry import register_scheduler, scheduler_names
from ._packing.samples import pack_samples, padding_mask, unpack_batch
from ._packing.schedulers import (
    BalancedCPScheduler,
    BasePackingScheduler,
    BestFitScheduler,
    DpBalancedScheduler,
    PackingError,
)
from ._packing.sequences import PackedSequences

__all__ = [
    "BalancedCPScheduler",
    "BasePackingScheduler",
    "BestFitScheduler",
    "DpBalancedScheduler",
    "HybridCPDataLoaderWrapper",
    "PackedSeqParams",
    "PackedSequences",
    "PackingError",
    "get_batch_on_this_rank_for_sequence_packing",
    "pack_samples",
    "padding_mask",
    "register_scheduler",
    "scheduler_names",
    "unpack_batch",
    "wrap_data_iterator",
]
