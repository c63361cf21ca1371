# SPDX-License-Identifier: Apache-2.0
"""``get_batch_on_this_rank_for_sequence_packing``: one packed micro-batch, sliced for context parallelism and shared
with the tensor-parallel group."""

from __future__ import annotations

import torch

from ..errors import CallerError
from . import groups
from .entry import METADATA_KEYS, _raise_for_source
from .exchange import fate
from .params import PackedSeqParams
from .samples import TOKEN_KEYS, padding_mask, slice_places

# Numbers of dtypes in the header that goes before the tensors.
_DTYPES = [
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
]  # fmt: skip
_ABSENT = -1
_HEAD = 4 + len(TOKEN_KEYS)  # fate, entries of cu_seqlens, tokens, max_seqlen, dtypes


def get_batch_on_this_rank_for_sequence_packing(
    data_iterator,
    vpp_size: int | None = None,
    mtp_on_this_rank: bool = False,
    vp_stage: int | None = None,
    pg_collection=None,
):
    """``(tokens, labels, loss_mask, None, position_ids, PackedSeqParams, padding_mask)`` of shape (1, tokens).

    The first pipeline stage gets ``tokens`` and ``position_ids``, the last one ``labels`` and ``loss_mask``, a stage
    with multi-token prediction also the former; what a stage does not get is None. ``data_iterator`` is one that
    :func:`wrap_data_iterator` returned; ranks of the tensor-parallel group but the first give None.
    """
    pg = groups.groups_of(pg_collection)
    device = groups.device_of(pg.tp, pg.cp)
    ranks = groups.size(pg.cp)
    keys = _keys(pg.pp, vpp_size, vp_stage, mtp_on_this_rank)
    head, arrays, error = [], [], None
    if groups.rank(pg.tp) == 0:
        try:
            head, arrays = _take(data_iterator, keys, ranks, groups.rank(pg.cp))
        except BaseException as failure:
            error, head = failure, [fate(failure)] + [0] * (_HEAD - 1)
    head = groups.share(head, _HEAD, pg.tp, device)
    if error is not None:
        raise error
    _raise_for_source(head[0])

    parts = [groups.Part(torch.int32, (head[1],)), groups.Part(torch.int32, (head[1],))]
    present = [key for key, code in zip(TOKEN_KEYS, head[4:]) if code != _ABSENT]
    parts += [groups.Part(_DTYPES[code], (head[2] // ranks,)) for code in head[4:] if code != _ABSENT]
    block = groups.block_of(arrays, device) if groups.rank(pg.tp) == 0 else None
    block = groups.share_bytes(block, sum(groups.aligned(part.bytes) for part in parts), pg.tp, device)
    padded, plain, *rows = groups.parts_of(block, parts)
    found = {key: row.unsqueeze(0) for key, row in zip(present, rows)}

    mask = padding_mask(plain.cpu(), padded.cpu())
    if ranks > 1:
        mask = mask[slice_places(padded.cpu(), ranks, groups.rank(pg.cp))]
    params = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=padded,
        cu_seqlens_kv=padded,
        cu_seqlens_q_padded=padded,
        cu_seqlens_kv_padded=padded,
        max_seqlen_q=head[3],
        max_seqlen_kv=head[3],
    )
    return (
        found.get("tokens"),
        found.get("labels"),
        found.get("loss_mask"),
        None,
        found.get("position_ids"),
        params,
        mask.to(device).unsqueeze(0),
    )


def _keys(pp_group, vpp_size, vp_stage, mtp_on_this_rank: bool) -> set[str]:
    """What this stage of the model needs."""
    first = groups.rank(pp_group) == 0 and (vp_stage is None or vp_stage == 0)
    last = groups.rank(pp_group) == groups.size(pp_group) - 1 and (vp_stage is None or vp_stage == (vpp_size or 1) - 1)
    keys = set()
    if first or mtp_on_this_rank:
        keys |= {"tokens", "position_ids"}
    if last:
        keys |= {"labels", "loss_mask"}
    return keys


def _take(data_iterator, keys, ranks: int, rank: int):
    """Header and tensors of the next micro-batch, sliced for this context-parallel rank."""
    if data_iterator is None:
        raise CallerError("tensor-parallel rank 0 needs the data iterator that wrap_data_iterator returned")
    batch = next(data_iterator)
    missing = sorted((set(METADATA_KEYS) | keys) - set(batch))
    if missing:
        raise CallerError(
            f"a micro-batch has no {', '.join(missing)}, which this pipeline stage needs; it has "
            + ", ".join(sorted(batch))
        )
    padded, plain = batch["cu_seqlens_padded"], batch["cu_seqlens"]
    for name, borders in (("cu_seqlens_padded", padded), ("cu_seqlens", plain)):
        if borders.dtype != torch.int32 or borders.shape != padded.shape or borders.dim() != 1:
            raise CallerError(
                f"{name} is {borders.dtype} {tuple(borders.shape)}, expected torch.int32 of one dimension"
            )
    total = int(padded[-1])
    places = slice_places(padded, ranks, rank) if ranks > 1 else None
    head = [0, padded.numel(), total, int(batch["max_seqlen"])]
    arrays = [padded, plain]
    for key in TOKEN_KEYS:
        if key not in keys:
            head.append(_ABSENT)
            continue
        row = batch[key].reshape(-1)
        if row.numel() != total:
            raise CallerError(f"{key} has {row.numel()} entries, cu_seqlens_padded ends at {total}")
        head.append(_DTYPES.index(row.dtype))
        arrays.append(row if places is None else row[places.to(row.device)])
    return head, arrays
