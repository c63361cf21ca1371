# SPDX-License-Identifier: Apache-2.0
"""``wrap_data_iterator``: one global batch becomes the packed micro-batches of this rank."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from ..errors import CallerError, PeerError
from . import groups
from .exchange import (
    ENDED,
    FINE,
    check_groups,
    check_settings,
    digest_of,
    fate,
    gather_lengths,
    raise_for,
    reroute,
    settings_of,
)
from .registry import scheduler_named
from .samples import pack_samples, unpack_batch
from .words import whole, words

METADATA_KEYS = ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")


def wrap_data_iterator(data_iterator, config, num_microbatches: int, pg_collection=None):
    """Load ``num_microbatches`` batches, at least one, pack them for all ranks, and return this rank's share.

    Returns ``(iterator, num_micro_batches, seqlen_sum, seqlen_squared_sum)``; the sums are over the whole global batch.
    Only tensor-parallel rank 0 has an iterator, the others get None. With virtual pipeline stages ``data_iterator`` and
    the iterator returned are lists, one entry a stage.

    Reads ``config.sequence_packing_scheduler``, ``max_seqlen_per_dp_cp_rank``, ``virtual_pipeline_model_parallel_size``
    and ``microbatch_group_size_per_vp_stage``. ``pg_collection`` has the groups ``dp_cp``, ``dp``, ``tp``, ``pp`` and
    ``cp``; None asks Megatron-LM.
    """
    pg = groups.groups_of(pg_collection)
    dp_size = groups.size(pg.dp)
    scheduler = scheduler_named(config.sequence_packing_scheduler)(
        config.max_seqlen_per_dp_cp_rank,
        groups.size(pg.dp_cp) // dp_size,
        dp_size,
        # Without virtual stages the number of micro-batches need not be a multiple of anything.
        config.microbatch_group_size_per_vp_stage if _stages(config) else None,
    )
    device = groups.device_of(pg.dp_cp, pg.tp, pg.pp)
    return scheduler.run(data_iterator, num_microbatches, pg.dp, pg.tp, pg.pp, pg.dp_cp, device, config)


def _stages(config) -> int:
    """Number of virtual pipeline stages; 0 without them."""
    return getattr(config, "virtual_pipeline_model_parallel_size", None) or 0


def run_scheduler(
    scheduler, data_iterator, num_microbatches, dp_group, tp_group, pp_group, dp_cp_group, device, config
):
    """See :meth:`BasePackingScheduler.run`."""
    device = groups.device_of(dp_cp_group, tp_group, pp_group) if device is None else torch.device(device)
    stage, last = groups.rank(pp_group), groups.size(pp_group) - 1
    if groups.rank(tp_group) != 0:
        head = groups.share(None, 4, tp_group, device)
        _raise_for_source(head[0])
        return _iterators(None, None, stage, last, config), head[1], float(head[2]), float(head[3])

    packs, sums, error, settings = None, (0, 0), None, settings_of(scheduler, config)
    try:
        if stage in (0, last):
            own = _own_iterator(data_iterator, stage, last, config)
            packs, sums = _load(scheduler, own, num_microbatches, settings, dp_group, dp_cp_group, device)
    except BaseException as failure:  # told to all who wait for this rank, then raised
        error = failure
    head = [fate(error), len(packs or ()), *sums]
    try:
        metadata, head = _share_in_pipeline(packs, head, error, pp_group, device, settings)
    except BaseException as failure:
        error, head = failure, [fate(failure), 0, 0, 0]
    groups.share(head, 4, tp_group, device)
    if error is not None:
        raise error
    return _iterators(packs, metadata, stage, last, config), head[1], float(head[2]), float(head[3])


def _raise_for_source(code: int) -> None:
    if code == ENDED:
        raise StopIteration
    if code != FINE:
        raise PeerError("loading a batch failed on the first rank of this tensor-parallel group; see there",
                        status="CANCELED")


def _own_iterator(data_iterator, stage: int, last: int, config):
    """With virtual stages: the first stage loads for its first chunk, the last one for its last."""
    if _stages(config) and isinstance(data_iterator, (list, tuple)):
        data_iterator = data_iterator[0 if stage == 0 else -1]
    if data_iterator is None:
        raise CallerError("tensor-parallel rank 0 of the first and of the last pipeline stage needs a data iterator")
    return data_iterator


def _fetch(scheduler, data_iterator, num_microbatches: int) -> list[dict[str, torch.Tensor]]:
    batch: list[Any] = []
    for _ in range(whole(num_microbatches, "num_microbatches", least=1)):
        item = next(data_iterator)
        if isinstance(item, dict):
            batch.append(item)
        elif isinstance(item, (list, tuple)):
            batch.extend(item)
        else:
            raise CallerError(f"the data iterator gave a {type(item).__name__}, expected a dict or a list of dicts")
    samples = unpack_batch(batch)
    for number, sample in enumerate(samples):
        missing = [key for key in scheduler.get_required_sample_keys() if key not in sample]
        if missing:
            raise CallerError(
                f"sub-sample {number} has no {', '.join(missing)}, which {type(scheduler).__name__} needs"
            )
    return samples


def _load(scheduler, data_iterator, num_microbatches, settings, dp_group, dp_cp_group, device):
    """The packed micro-batches of this rank, and the sums of all."""
    samples, error = [], None
    try:
        samples = _fetch(scheduler, data_iterator, num_microbatches)
    except BaseException as failure:
        error = failure
    lengths = [int(sample["padded_seq_len"]) for sample in samples]
    gathered = gather_lengths(samples, lengths, error, settings, dp_group, dp_cp_group, device)
    id_groups = scheduler.get_groups_and_subsamples(list(enumerate(gathered.lengths)))
    ranks = groups.size(dp_cp_group)
    check_groups(id_groups, len(gathered.lengths), ranks, getattr(scheduler, "may_drop", False),
                 type(scheduler).__name__)
    mine = reroute(samples, gathered, id_groups, dp_group, dp_cp_group, device)
    dtypes = {form.key: form.dtype for form in gathered.forms}
    rank = groups.rank(dp_cp_group)
    packs = [pack_samples([mine[one] for one in cells[rank]], dtypes) for cells in id_groups]
    return packs, _core.pack_sum(words(gathered.lengths))


def _share_in_pipeline(packs, head: list[int], error, pp_group, device, settings):
    """Metadata of the micro-batches for every stage. Lengths travel as integers (docs/decisions/0146)."""
    if groups.size(pp_group) == 1:
        raise_for(head[:1], groups.members(pp_group), error)
        return packs, head
    heads = groups.gather([*head, digest_of(settings)], pp_group, device)
    loads = groups.rank(pp_group) in (0, groups.size(pp_group) - 1)
    raise_for([one[0] for one in heads], groups.members(pp_group), error, loads)
    check_settings(settings, [one.pop() for one in heads], pp_group)
    if heads[-1] != heads[0]:
        raise CallerError(
            f"the first pipeline stage made {heads[0][1]} micro-batches of {heads[0][2]} tokens, the last "
            f"{heads[-1][1]} of {heads[-1][2]}: both must load the same data",
            status="MISMATCH",
        )
    if groups.size(pp_group) == 2:  # both ends loaded; nobody is in the middle
        return packs, head
    count = heads[0][1]
    sizes = [pack["cu_seqlens"].numel() for pack in packs] if groups.rank(pp_group) == 0 else None
    sizes = groups.share(sizes, count, pp_group, device)
    parts = [groups.Part(torch.int32, (size,)) for size in sizes for _ in range(2)] + [
        groups.Part(torch.int32, (count,))
    ]
    block = None
    if groups.rank(pp_group) == 0:
        arrays = [pack[key] for pack in packs for key in METADATA_KEYS[:2]]
        arrays.append(torch.tensor([int(pack["max_seqlen"]) for pack in packs], dtype=torch.int32))
        block = groups.block_of(arrays, device)
    block = groups.share_bytes(block, sum(groups.aligned(part.bytes) for part in parts), pp_group, device)
    *arrays, longest = groups.parts_of(block.cpu(), parts)
    metadata = [
        dict(cu_seqlens=arrays[2 * i], cu_seqlens_padded=arrays[2 * i + 1], max_seqlen=longest[i]) for i in range(count)
    ]
    return metadata, heads[0]


def _iterators(packs, metadata, stage: int, last: int, config):
    """The iterator of this rank; with virtual stages a list, in which only the ends of the model have tokens."""
    stages = _stages(config)
    ends = stage in (0, last)
    if metadata is None:
        return [None] * stages if stages else None
    lean = [{key: pack[key] for key in METADATA_KEYS} for pack in metadata]
    if not stages:
        return iter(packs if ends else lean)
    iterators = [iter(lean) for _ in range(stages)]
    if stage == 0:
        iterators[0] = iter(packs)
    if stage == last:
        iterators[-1] = iter(packs)
    return iterators
