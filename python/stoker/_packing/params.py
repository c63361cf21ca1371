# SPDX-License-Identifier: Apache-2.0
"""What attention needs to know of a packed batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from .. import _core
from .words import signed_words, tensor_of


@dataclasses.dataclass
class PackedSeqParams:
    """Fields, order and defaults of Megatron-LM's class of this name; ``seq_idx`` is made if ``total_tokens`` is known.

    >>> PackedSeqParams(cu_seqlens_q=torch.tensor([0, 2, 3], dtype=torch.int32), total_tokens=5).seq_idx
    tensor([[0, 0, 1, 2, 2]], dtype=torch.int32)
    """

    qkv_format: str | None = None
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_kv: torch.Tensor | None = None
    cu_seqlens_q_padded: torch.Tensor | None = None
    cu_seqlens_kv_padded: torch.Tensor | None = None
    max_seqlen_q: int | None = None
    max_seqlen_kv: int | None = None
    local_cp_size: int | None = None
    cp_group: Any = None
    total_tokens: int | None = None
    seq_idx: torch.Tensor | None = None
    tokens_per_sample: Any = None
    pad_between_seqs: bool | None = None
    cp_scatter_cache: Any = None

    def __post_init__(self) -> None:
        borders = self.cu_seqlens_q_padded if self.cu_seqlens_q_padded is not None else self.cu_seqlens_q
        if self.total_tokens is None or not isinstance(borders, torch.Tensor):
            return
        index = tensor_of(_core.pack_sequence_index(signed_words(borders), int(self.total_tokens)), torch.int32)
        self.seq_idx = index.to(borders.device).unsqueeze(0)
