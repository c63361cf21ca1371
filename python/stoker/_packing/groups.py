# SPDX-License-Identifier: Apache-2.0
"""Process groups and the few collectives that packing needs, on CUDA with NCCL or on CPU with gloo.

A group may be None: this process alone. All that travels is int64 or bytes, never a float made of an integer.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import torch
import torch.distributed as dist

from ..errors import CallerError


@dataclasses.dataclass
class Groups:
    """The groups that packing uses, under the names of Megatron-LM's ``ProcessGroupCollection``."""

    dp_cp: Any = None
    dp: Any = None
    tp: Any = None
    pp: Any = None
    cp: Any = None


def groups_of(pg_collection) -> Any:
    """``pg_collection``, else Megatron-LM's own groups, else this process alone."""
    if pg_collection is not None:
        return pg_collection
    if not (dist.is_available() and dist.is_initialized()):
        return Groups()
    try:
        state = importlib.import_module("megatron.core.parallel_state")
    except ImportError as error:
        raise CallerError(
            "pass pg_collection (with dp_cp, dp, tp, pp and cp): torch.distributed is initialised, "
            f"and Megatron-LM's own groups cannot be asked ({error})"
        ) from None
    return Groups(
        dp_cp=state.get_data_parallel_group(with_context_parallel=True),
        dp=state.get_data_parallel_group(),
        tp=state.get_tensor_model_parallel_group(),
        pp=state.get_pipeline_model_parallel_group(),
        cp=state.get_context_parallel_group(),
    )


def size(group) -> int:
    return 1 if group is None else group.size()


def rank(group) -> int:
    return 0 if group is None else group.rank()


def members(group) -> list[int]:
    """Global ranks, in group order."""
    return [dist.get_rank() if dist.is_initialized() else 0] if group is None else dist.get_process_group_ranks(group)


def device_of(*groups) -> torch.device:
    """Where tensors of collectives must be: the current CUDA device, but for groups that only know the CPU."""
    for group in groups:
        if group is not None and dist.get_backend(group) not in ("gloo", "mpi") and torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def gather(values: list[int], group, device: torch.device) -> list[list[int]]:
    """The integers of every member; all give as many."""
    if size(group) == 1:
        return [list(values)]
    mine = torch.tensor(values, dtype=torch.int64, device=device)
    gathered = [torch.empty_like(mine) for _ in range(size(group))]
    dist.all_gather(gathered, mine, group=group)
    return torch.stack(gathered).tolist()


def gather_objects(value, group) -> list:
    if size(group) == 1:
        return [value]
    gathered = [None] * size(group)
    dist.all_gather_object(gathered, value, group=group)
    return gathered


def share(values: list[int] | None, count: int, group, device: torch.device) -> list[int]:
    """`count` integers of the first member; `values` is read there only."""
    if size(group) == 1:
        return list(values)
    block = torch.tensor(values if rank(group) == 0 else [0] * count, dtype=torch.int64, device=device)
    dist.broadcast(block, src=members(group)[0], group=group)
    return block.tolist()


def share_bytes(block: torch.Tensor | None, count: int, group, device: torch.device) -> torch.Tensor:
    """`count` bytes of the first member, as uint8 on `device`."""
    if size(group) == 1 or count == 0:
        return torch.empty(0, dtype=torch.uint8, device=device) if block is None else block
    if rank(group) != 0:
        block = torch.empty(count, dtype=torch.uint8, device=device)
    dist.broadcast(block, src=members(group)[0], group=group)
    return block


def exchange(sent: torch.Tensor, sent_bytes: list[int], received_bytes: list[int], group) -> torch.Tensor:
    """All-to-all of bytes; both lists are in group order."""
    received = torch.empty(sum(received_bytes), dtype=torch.uint8, device=sent.device)
    if size(group) > 1:
        dist.all_to_all_single(received, sent, received_bytes, sent_bytes, group=group)
    return received


@dataclasses.dataclass
class Part:
    """A run of equal elements inside a block of bytes."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count * self.dtype.itemsize


def aligned(count: int) -> int:
    """Blocks start at multiples of 16: wide enough for every dtype."""
    return (count + 15) // 16 * 16


def block_of(tensors, device: torch.device) -> torch.Tensor:
    """Tensors one after the other, each aligned, in one block of bytes."""
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    block = torch.zeros(sum(map(aligned, sizes)), dtype=torch.uint8, device=device)
    at = 0
    for tensor, count in zip(tensors, sizes):
        block[at : at + count] = tensor.to(device).contiguous().view(-1).view(torch.uint8)
        at += aligned(count)
    return block


def parts_of(block: torch.Tensor, parts: list[Part]) -> list[torch.Tensor]:
    """What :func:`block_of` joined, as views of the block."""
    tensors, at = [], 0
    for part in parts:
        tensors.append(block[at : at + part.bytes].view(part.dtype).view(part.shape))
        at += aligned(part.bytes)
    return tensors
