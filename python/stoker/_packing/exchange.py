# SPDX-License-Identifier: Apache-2.0
"""Sub-samples change ranks: every rank tells its lengths, all compute the same schedule, then bytes move once.

Ranks of a context-parallel group loaded the same samples, so each data-parallel group exchanges among itself. All keys
of all samples travel in one all-to-all; what a rank keeps is not sent at all.

No rank is left waiting for one that failed: the first collective carries how each rank fared, and each raises.
"""

from __future__ import annotations

import dataclasses
import hashlib
import zlib

import torch

from .. import _core
from ..errors import CallerError, PeerError, show
from . import groups
from .samples import LENGTH_KEYS
from .schedulers import PackingError
from .words import words

FINE, ENDED, FAILED = range(3)


def fate(error: BaseException | None) -> int:
    """What the others are told of this rank."""
    return FINE if error is None else ENDED if isinstance(error, StopIteration) else FAILED


def raise_for(fates: list[int], ranks: list[int], error: BaseException | None, loads: bool = True) -> None:
    """Raise this rank's own error, or what the fates of the others make of it. A rank that loads nothing itself ends
    with those that do."""
    if error is not None:
        raise error
    failed = [rank for rank, one in zip(ranks, fates) if one == FAILED]
    ended = [rank for rank, one in zip(ranks, fates) if one == ENDED]
    if failed:
        raise PeerError(f"loading a batch failed on rank {', '.join(map(str, failed))}; see there", status="CANCELED")
    if ended and not loads:
        raise StopIteration
    if ended:
        raise CallerError(
            f"the data iterator ended on rank {', '.join(map(str, ended))}, but not here: all ranks must load as much",
            status="WRONG_STATE",
        )


def digest_of(settings: dict[str, str]) -> int:
    """What ranks compare first: a number of fixed size."""
    return int.from_bytes(hashlib.blake2b(repr(sorted(settings.items())).encode(), digest_size=7).digest(), "little")


def check_settings(settings: dict[str, str], digests: list[int], group) -> None:
    """All of the group raise if what they gathered differs. No length has moved yet: with other schedules the ranks
    would exchange blocks of other sizes."""
    if len(set(digests)) == 1:
        return
    told = list(zip(groups.members(group), groups.gather_objects(settings, group)))
    parts = []
    for name in sorted({name for _, one in told for name in one}):
        ranks: dict[str, list[int]] = {}
        for rank, one in told:
            ranks.setdefault(one.get(name, "not set"), []).append(rank)
        if len(ranks) > 1:
            values = [f"{value} on rank {_some(where)}" for value, where in ranks.items()]
            parts.append(f"{name} is {', '.join(values[:4])}{', ...' if len(values) > 4 else ''}")
    raise PackingError("the packing of ranks that exchange must be the same: " + "; ".join(parts), status="MISMATCH")


def _some(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")


def settings_of(scheduler, config) -> dict[str, str]:
    """What decides the schedule, as text."""
    name = getattr(config, "sequence_packing_scheduler", None)
    told = {"sequence_packing_scheduler": type(scheduler).__name__ if name is None else name}
    told["the scheduler's class"] = type(scheduler).__name__
    for option in ("max_seqlen_per_dp_cp_rank", "cp_size", "dp_size", "microbatch_group_size_per_vp_stage",
                   "linear_tokens", "max_seq_len_per_rank", "total_hdp_gpus"):
        if hasattr(scheduler, option):
            told[option] = getattr(scheduler, option)
    return {option: show(value) for option, value in told.items()}


@dataclasses.dataclass(frozen=True)
class Form:
    """Key, dtype and trailing shape of what a sample holds; alike on all ranks."""

    key: str
    dtype: torch.dtype
    trailing: tuple[int, ...]
    one_a_sample: bool  # else: one row a token

    def part(self, lengths: list[int]) -> groups.Part:
        rows = len(lengths) if self.one_a_sample else sum(lengths)
        return groups.Part(self.dtype, (rows, *self.trailing))


def forms_of(samples) -> list[Form]:
    """The forms of local samples, in an order that all ranks agree on; empty if there is none."""
    if not samples:
        return []
    first = samples[0]
    forms = [
        Form(key, value.dtype, tuple(value.shape[1:]), key in LENGTH_KEYS) for key, value in sorted(first.items())
    ]
    for number, sample in enumerate(samples):
        for form in forms:
            value = sample.get(form.key)
            if value is None or value.dtype != form.dtype or tuple(value.shape[1:]) != form.trailing:
                seen = "missing" if value is None else f"{value.dtype} {tuple(value.shape)}"
                raise CallerError(
                    f"sub-sample {number}: {form.key} is {seen}, in the first one it is "
                    f"{form.dtype} {tuple(first[form.key].shape)}"
                )
    return forms


@dataclasses.dataclass
class Gathered:
    """What all data-parallel ranks loaded: lengths by global id, and whose ids are whose."""

    lengths: list[int]
    offsets: list[int]
    forms: list[Form]


def gather_lengths(samples, lengths: list[int], error, settings, dp_group, dp_cp_group, device) -> Gathered:
    """Lengths of all ranks. Global ids count sub-samples by rank, then by local order. What goes first has a fixed size
    and tells all ranks of the data- and context-parallel group how each fared, and its settings."""
    forms: list[Form] = []
    if error is None:
        try:
            forms = forms_of(samples)
        except CallerError as wrong:
            error = wrong
    digest = zlib.crc32(repr(forms).encode()) if forms else 0
    head = [fate(error), len(lengths) if error is None else 0, digest, digest_of(settings)]
    heads = groups.gather(head, dp_cp_group, device)
    raise_for([head[0] for head in heads], groups.members(dp_cp_group), error)
    check_settings(settings, [head[3] for head in heads], dp_cp_group)
    heads = [heads[groups.members(dp_cp_group).index(rank)] for rank in groups.members(dp_group)]
    counts = [head[1] for head in heads]
    if len({head[2] for head in heads if head[1] > 0}) > 1:
        everyone = zip(groups.members(dp_group), groups.gather_objects(forms, dp_group))
        (one, ours), *others = [(rank, theirs) for rank, theirs in everyone if theirs]
        other, theirs = next((rank, theirs) for rank, theirs in others if theirs != ours)
        raise CallerError(
            f"samples differ in keys, dtypes or shapes: rank {one} has {ours}, rank {other} has {theirs}"
        )
    if 0 < sum(count > 0 for count in counts) < len(counts):  # who loaded nothing learns what comes
        forms = next(theirs for theirs in groups.gather_objects(forms, dp_group) if theirs)
    longest = max(counts)
    rows = groups.gather(lengths + [0] * (longest - len(lengths)), dp_group, device) if longest else [[]] * len(counts)
    together = [length for row, count in zip(rows, counts) for length in row[:count]]
    return Gathered(together, _core.pack_offsets(words(counts)), forms)


def check_groups(id_groups, count: int, ranks: int, may_drop: bool, scheduler: str) -> None:
    """A schedule that loses samples is an error, not a surprise in the loss."""
    seen = set()
    for microbatch, cells in enumerate(id_groups):
        if len(cells) != ranks:
            raise PackingError(f"{scheduler}: micro-batch {microbatch} has {len(cells)} ranks, there are {ranks}")
        for cell in cells:
            seen.update(cell)
    lost = [number for number in range(count) if number not in seen]
    if lost and not may_drop:
        some = ", ".join(map(str, lost[:10])) + (" ..." if len(lost) > 10 else "")
        raise PackingError(f"{scheduler} left out {len(lost)} of {count} samples: {some}")


def reroute(samples, gathered: Gathered, id_groups, dp_group, dp_cp_group, device) -> dict[int, dict]:
    """The sub-samples that the schedule gives this rank, by global id."""
    places = {rank: place for place, rank in enumerate(groups.members(dp_cp_group))}
    peers = [places[rank] for rank in groups.members(dp_group)]
    me, here = groups.rank(dp_group), groups.rank(dp_cp_group)
    route = _core.pack_route(
        id_groups,
        words(gathered.lengths),
        words(peers),
        words(gathered.offsets),
        groups.size(dp_cp_group),
        here,
    )
    first = gathered.offsets[me]
    sends = _split(route["send_ids"], [route["send_samples"][peer] for peer in peers])
    receives = _by_owner(route["receive_ids"], gathered.offsets)

    def parts(ids) -> list[groups.Part]:
        lengths = [gathered.lengths[one] for one in ids]
        return [form.part(lengths) for form in gathered.forms]

    blocks, sent_bytes, received_bytes = [], [], []
    for peer, ids in enumerate(sends):
        chosen = [samples[one - first] for one in ids] if peer != me else []
        joined = [torch.cat([sample[form.key] for sample in chosen]) for form in gathered.forms] if chosen else []
        block = groups.block_of(joined, device)
        blocks.append(block)
        sent_bytes.append(block.numel())
        received_bytes.append(sum(groups.aligned(p.bytes) for p in parts(receives[peer])) if peer != me else 0)
    received = groups.exchange(torch.cat(blocks), sent_bytes, received_bytes, dp_group)

    found = {one: {key: value.to(device) for key, value in samples[one - first].items()} for one in receives[me]}
    at = 0
    for peer, ids in enumerate(receives):
        if peer == me or not ids:
            continue
        block = received[at : at + received_bytes[peer]]
        at += received_bytes[peer]
        found.update(_cut(ids, gathered, groups.parts_of(block, parts(ids))))
    return {one: found[one] for one in route["receive_ids"]}


def _split(values: list[int], counts: list[int]) -> list[list[int]]:
    result, at = [], 0
    for count in counts:
        result.append(values[at : at + count])
        at += count
    return result


def _by_owner(ids: list[int], offsets: list[int]) -> list[list[int]]:
    return [[one for one in ids if start <= one < end] for start, end in zip(offsets, offsets[1:])]


def _cut(ids, gathered: Gathered, tensors) -> dict[int, dict]:
    result: dict[int, dict] = {one: {} for one in ids}
    for form, tensor in zip(gathered.forms, tensors):
        at = 0
        for one in ids:
            rows = 1 if form.one_a_sample else gathered.lengths[one]
            result[one][form.key] = tensor[at : at + rows]
            at += rows
    return result
