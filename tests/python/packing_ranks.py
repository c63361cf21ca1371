# SPDX-License-Identifier: Apache-2.0
"""What runs inside the ranks of test_packing_ranks.py: gloo groups of any layout, data with known tokens, and checks
against Megatron-LM's golden answers or against a slow computation in one place."""

import itertools
import json
import pathlib
import types

import torch
import torch.distributed as dist

from stoker import errors, packing
from stoker._packing import entry, groups

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron" / "packing"
done = []


def check(function):
    """Run now, on every rank; what comes to its end is reported."""
    function()
    done.append(function.__name__)
    dist.barrier()
    return function


def layout(dp=1, cp=1, tp=1, pp=1):
    """The groups of this rank. Ranks are numbered as in Megatron-LM: tensor first, then context, data, pipeline."""
    assert dp * cp * tp * pp == dist.get_world_size()

    def number(p, d, c, t):
        return ((p * dp + d) * cp + c) * tp + t

    axes = {
        "tp": [[number(p, d, c, t) for t in range(tp)] for p in range(pp) for d in range(dp) for c in range(cp)],
        "cp": [[number(p, d, c, t) for c in range(cp)] for p in range(pp) for d in range(dp) for t in range(tp)],
        "dp": [[number(p, d, c, t) for d in range(dp)] for p in range(pp) for c in range(cp) for t in range(tp)],
        "pp": [[number(p, d, c, t) for p in range(pp)] for d in range(dp) for c in range(cp) for t in range(tp)],
        "dp_cp": [
            [number(p, d, c, t) for d in range(dp) for c in range(cp)] for p in range(pp) for t in range(tp)
        ],
    }
    mine = types.SimpleNamespace()
    for name, lists in axes.items():
        for ranks in lists:
            group = dist.new_group(ranks)
            if dist.get_rank() in ranks:
                setattr(mine, name, group)
    return mine


def config(tokens, scheduler="dp_balanced", stages=None, stage_group=None):
    return types.SimpleNamespace(
        sequence_packing_scheduler=scheduler,
        max_seqlen_per_dp_cp_rank=tokens,
        virtual_pipeline_model_parallel_size=stages,
        microbatch_group_size_per_vp_stage=stage_group,
    )


def sample(first, length, original=None):
    """One sub-sample whose token i is first + i."""
    tokens = torch.arange(first, first + length)
    made = dict(tokens=tokens, labels=tokens + 1, loss_mask=torch.ones(length), position_ids=torch.arange(length))
    made["padded_seq_len"] = torch.tensor([length], dtype=torch.int32)
    if original is not None:
        made["original_seq_len"] = torch.tensor([original], dtype=torch.int32)
    return made


# ---- golden ----


def golden_reroute(case):
    pg = layout(dp=case["dp"], cp=case["cp"])
    rank, data_rank = dist.get_rank(), dist.get_rank() // case["cp"]
    lengths = case["lengths_per_dp_rank"][str(data_rank)]
    data = [[sample(1000 * data_rank + 10 * i, n, n - 1) for i, n in enumerate(lengths)]]
    iterator, count, tokens, squares = packing.wrap_data_iterator(
        iter(data), config(case["max_seqlen_per_dp_cp_rank"]), 1, pg
    )
    expected = case["ranks"][str(rank)]
    packs = list(iterator)
    every = [n for one in case["lengths_per_dp_rank"].values() for n in one]
    assert (tokens, squares) == (sum(every), sum(n * n for n in every))
    assert count == len(packs) == len(expected["packed"]) == len(expected["groups"])
    for pack, wanted in zip(packs, expected["packed"]):
        assert pack["tokens"].tolist() == wanted["tokens"]
        assert pack["labels"].tolist() == [one + 1 for one in wanted["tokens"]]
        assert pack["cu_seqlens"].tolist() == wanted["cu_seqlens"]
        assert pack["cu_seqlens_padded"].tolist() == wanted["cu_seqlens_padded"]
        assert int(pack["max_seqlen"]) == wanted["max_seqlen"]
        assert {pack[key].dtype for key in ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")} == {torch.int32}


def golden_hybrid(case):
    pg = layout(dp=case["dp"], cp=case["cp"])
    data_rank = dist.get_rank() // case["cp"]
    borders = case["cu_seqlens_per_dp_rank"][data_rank]
    tokens = torch.arange(1000 * data_rank, 1000 * data_rank + borders[-1])
    batch = [dict(tokens=tokens, mask=tokens % 2 == 0, cu_seqlens=torch.tensor(borders), max_seqlen=7, batch_idx=0)]
    wrapper = packing.HybridCPDataLoaderWrapper(iter([batch]), config(case["max_seqlen_per_dp_cp_rank"]), pg)
    found, id_groups = next(wrapper)
    expected = case["ranks"][str(dist.get_rank())]
    assert id_groups == expected["sample_id_groups"]
    assert {str(one): row["tokens"].tolist() for one, row in found.items()} == expected["received"]
    for row in found.values():
        assert row["mask"].tolist() == [one % 2 == 0 for one in row["tokens"].tolist()]
        assert sorted(row) == ["mask", "tokens"]
    assert next(packing.HybridCPDataLoaderWrapper(None, wrapper.config, pg)) == (None, None)


def run_golden():
    for name, one in (("reroute", golden_reroute), ("hybrid_wrapper", golden_hybrid)):
        for number, case in enumerate(json.loads((GOLDEN / f"{name}.json").read_text())):
            if case["dp"] * case["cp"] == dist.get_world_size():
                one(case)
                done.append(f"{name} {number}")


# ---- layouts: every rank against a computation in one place ----


def loaded(data_rank, step):
    """What a data-parallel rank loads: two batches, in the two forms in turn. Lengths are multiples of 8."""
    lengths = [8 * (1 + (7 * i + 3 * data_rank + step) % 6) for i in range(5 + data_rank)]
    first = itertools.count(100000 * data_rank + 10000 * step, 100)
    return [sample(next(first), n, n - (n // 8) % 3) for n in lengths]


def joined(samples):
    """The same as one packed sample per rank, cut at cu_seqlens."""
    keys = ("tokens", "labels", "loss_mask", "position_ids")
    whole = {key: torch.cat([one[key] for one in samples]).unsqueeze(0) for key in keys}
    ends = list(itertools.accumulate(one["tokens"].numel() for one in samples))
    whole["cu_seqlens"] = torch.tensor([[0, ends[0], *ends[:-1], ends[-1]]]).sort().values  # empty sequences too
    return whole


def local(values, padded, ranks, rank):
    """Slice of a context-parallel rank, sequence by sequence."""
    result = []
    for start, end in zip(padded, padded[1:]):
        row = torch.tensor(values[start:end])
        chunks = list(row.chunk(2 * ranks)) if ranks > 1 else [row]
        result += chunks[rank].tolist() + (chunks[2 * ranks - 1 - rank].tolist() if ranks > 1 else [])
    return result


def expected_packs(scheduler, tokens, dp, cp, stage_group, packed):
    """Sub-samples of every micro-batch and rank."""
    every = [one for data_rank in range(dp) for step in range(2) for one in loaded(data_rank, step)]
    lengths = [one["tokens"].numel() for one in every]
    classes = {"dp_balanced": packing.DpBalancedScheduler, "best_fit": packing.BestFitScheduler}
    made = classes[scheduler](tokens, cp, dp, stage_group)
    id_groups = made.get_groups_and_subsamples(list(enumerate(lengths)))
    originals = lengths if packed else [int(one["original_seq_len"]) for one in every]
    return every, lengths, originals, id_groups


def check_layout(dp, cp, tp, pp, scheduler, stages=None, packed=False):
    pg = layout(dp, cp, tp, pp)
    tokens, stage_group = 64, pp if stages else None
    rank, stage = groups.rank(pg.dp_cp), groups.rank(pg.pp)
    ends, first_of_tensor = stage in (0, pp - 1), groups.rank(pg.tp) == 0
    batches = (loaded(groups.rank(pg.dp), step) for step in range(2))
    data = (joined(one) if packed else one for one in batches) if ends and first_of_tensor else None
    if stages:
        data = [data] + [None] * (stages - 2) + [data]
    wrapped, count, seqlen_sum, seqlen_squared = packing.wrap_data_iterator(
        data, config(tokens, scheduler, stages, stage_group), 2, pg
    )
    every, lengths, originals, id_groups = expected_packs(scheduler, tokens, dp, cp, stage_group, packed)
    assert count == len(id_groups) and count % (stage_group or 1) == 0
    assert (seqlen_sum, seqlen_squared) == (sum(lengths), sum(n * n for n in lengths))
    assert isinstance(wrapped, list) == bool(stages)
    for chunk in range(stages or 1):
        iterator = wrapped[chunk] if stages else wrapped
        assert (iterator is not None) == first_of_tensor
        is_first, is_last = stage == 0 and chunk == 0, stage == pp - 1 and chunk == (stages or 1) - 1
        for cells in id_groups:
            ids = cells[rank]
            check_batch(
                packing.get_batch_on_this_rank_for_sequence_packing(
                    iterator, stages, vp_stage=chunk if stages else None, pg_collection=pg
                ),
                [every[one] for one in ids], [originals[one] for one in ids], pg, is_first, is_last,
            )  # fmt: skip
        try:
            packing.get_batch_on_this_rank_for_sequence_packing(
                iterator, stages, vp_stage=chunk if stages else None, pg_collection=pg
            )
        except StopIteration:  # on every rank, also on those that have no iterator
            continue
        raise AssertionError("one micro-batch too many")


def check_batch(batch, samples, originals, pg, is_first, is_last):
    tokens, labels, loss_mask, attention_mask, position_ids, params, mask = batch
    padded = [0, *itertools.accumulate(one["tokens"].numel() for one in samples)]
    ranks, rank = groups.size(pg.cp), groups.rank(pg.cp)

    def rows(key):
        return [local([x for one in samples for x in one[key].tolist()], padded, ranks, rank)]

    assert attention_mask is None
    assert (tokens is None, position_ids is None) == (not is_first, not is_first)
    assert (labels is None, loss_mask is None) == (not is_last, not is_last)
    if is_first:
        assert tokens.tolist() == rows("tokens") and tokens.dtype == torch.int64
        assert position_ids.tolist() == rows("position_ids")
    if is_last:
        assert labels.tolist() == rows("labels")
        assert loss_mask.tolist() == rows("loss_mask") and loss_mask.dtype == torch.float32
    flags = [i >= own for one, own in zip(samples, originals) for i in range(one["tokens"].numel())]
    assert mask.tolist() == [local(flags, padded, ranks, rank)] and mask.dtype == torch.bool
    assert params.qkv_format == "thd"
    for borders in (params.cu_seqlens_q, params.cu_seqlens_kv, params.cu_seqlens_q_padded, params.cu_seqlens_kv_padded):
        assert borders.tolist() == padded and borders.dtype == torch.int32
    longest = max(one["tokens"].numel() for one in samples)
    assert (params.max_seqlen_q, params.max_seqlen_kv) == (longest, longest)


def run_layouts():
    check_layout(2, 2, 1, 1, "dp_balanced")
    check_layout(2, 2, 1, 1, "best_fit", packed=True)
    check_layout(2, 1, 2, 1, "best_fit")
    check_layout(1, 2, 2, 1, "dp_balanced", packed=True)
    check_layout(2, 1, 1, 2, "best_fit")
    check_layout(1, 1, 1, 4, "dp_balanced")
    check_layout(1, 1, 1, 4, "best_fit", stages=2)
    check_layout(2, 1, 1, 2, "dp_balanced", stages=3)
    check_layout(1, 1, 2, 2, "best_fit", stages=2)
    done.append("layouts")

    pg = layout(pp=4)

    @check
    def lengths_above_2_to_24_reach_the_middle_exactly():
        borders = torch.tensor([0, 2**24 + 1, 2**24 + 2, 2**31 - 1], dtype=torch.int32)
        ends = groups.rank(pg.pp) in (0, 3)
        pack = dict(cu_seqlens=borders, cu_seqlens_padded=borders, max_seqlen=torch.tensor(2**24 + 1))
        packs = [pack] if ends else None
        head = [0, 1, 2**31 - 1, 2**61 + 1] if ends else [0, 0, 0, 0]
        metadata, head = entry._share_in_pipeline(packs, head, None, pg.pp, torch.device("cpu"), {})
        assert head == [0, 1, 2**31 - 1, 2**61 + 1]
        assert metadata[0]["cu_seqlens"].tolist() == metadata[0]["cu_seqlens_padded"].tolist() == borders.tolist()
        assert int(metadata[0]["max_seqlen"]) == 2**24 + 1


# ---- failures: every rank ends, nobody waits ----


def outcome(pg, data, settings=None, batches=1):
    try:
        packing.wrap_data_iterator(data, settings or config(64), batches, pg)
    except BaseException as error:
        return type(error).__name__, str(error)
    return "fine", ""


def run_failures():
    pg = layout(dp=2, tp=2)
    rank, data_rank = dist.get_rank(), dist.get_rank() // 2
    loads = groups.rank(pg.tp) == 0

    @check
    def an_exception_of_one_rank_ends_all():
        def broken():
            yield from ()
            raise ValueError("bad shard")

        def of_rank():
            if data_rank == 0:
                raise ValueError("bad shard")
            yield loaded(1, 0)

        kind, text = outcome(pg, of_rank() if loads else None)
        if rank == 0:
            assert (kind, text) == ("ValueError", "bad shard")
        else:
            assert kind == "PeerError", (kind, text)
            assert "rank 0" in text or "see there" in text

    @check
    def the_end_of_all_iterators_is_the_end_on_every_rank():
        assert outcome(pg, iter([]) if loads else None)[0] == "StopIteration"

    @check
    def the_end_of_one_iterator_is_an_error_elsewhere():
        data = iter([] if data_rank == 0 else [loaded(1, 0)]) if loads else None
        kind, text = outcome(pg, data)
        assert kind == {0: "StopIteration", 1: "StopIteration", 2: "CallerError", 3: "PeerError"}[rank], (kind, text)
        if rank == 2:
            assert "ended on rank 0" in text

    @check
    def other_dtypes_are_named_on_both_ranks():
        samples = loaded(data_rank, 0)
        if data_rank == 1:
            samples = [{**one, "tokens": one["tokens"].to(torch.int32)} for one in samples]
        kind, text = outcome(pg, iter([samples]) if loads else None)
        assert kind == ("CallerError" if loads else "PeerError"), (kind, text)
        assert not loads or ("torch.int32" in text and "rank 2" in text)

    @check
    def a_scheduler_that_loses_a_sample_is_refused():
        class Loses(packing.DpBalancedScheduler):
            def get_groups_and_subsamples(self, sample_id_seqlens):
                made = super().get_groups_and_subsamples(sample_id_seqlens)
                made[0][0] = made[0][0][1:]
                return made

        packing.register_scheduler("loses", Loses)
        kind, text = outcome(pg, iter([loaded(data_rank, 0)]) if loads else None, config(64, "loses"))
        assert kind == ("PackingError" if loads else "PeerError"), (kind, text)
        assert not loads or "Loses left out 1 of 11 samples: 0" in text
        Loses.may_drop = True
        assert outcome(pg, iter([loaded(data_rank, 0)]) if loads else None, config(64, "loses"))[0] == "fine"

    @check
    def a_rank_that_loads_nothing_gets_its_share():
        data = [loaded(1, 0)] if data_rank == 1 else [[]]
        wrapped, count, total, _ = packing.wrap_data_iterator(iter(data) if loads else None, config(64), 1, pg)
        assert total == sum(one["tokens"].numel() for one in loaded(1, 0))
        if loads:
            packs = list(wrapped)
            assert count == len(packs) and all(pack["tokens"].numel() > 0 for pack in packs)
            assert packs[0]["tokens"].dtype == torch.int64

    @check
    def too_few_samples_are_an_assertion_error_on_those_that_load():
        data = [[sample(0, 8)]] if data_rank == 0 else [[]]
        kind, text = outcome(pg, iter(data) if loads else None)
        assert kind == ("PackingError" if loads else "PeerError"), (kind, text)
        assert not loads or "Not enough samples to move" in text
        assert issubclass(packing.PackingError, AssertionError) and issubclass(packing.PackingError, errors.CallerError)

    @check
    def settings_that_differ_are_named_on_all_ranks():
        for settings, said in (
            (config(64 if data_rank else 32), "max_seqlen_per_dp_cp_rank is 32 on rank 0, 64 on rank 2"),
            (config(64, "best_fit" if data_rank else "dp_balanced"),
             "sequence_packing_scheduler is 'dp_balanced' on rank 0, 'best_fit' on rank 2"),
            (config(64, stages=2, stage_group=1 + data_rank),
             "microbatch_group_size_per_vp_stage is 1 on rank 0, 2 on rank 2"),
        ):  # fmt: skip
            data = iter([loaded(data_rank, 0)]) if loads else None
            kind, text = outcome(pg, [data, data] if settings.virtual_pipeline_model_parallel_size else data, settings)
            assert kind == ("PackingError" if loads else "PeerError"), (kind, text)
            assert not loads or said in text, text
            assert outcome(pg, iter([loaded(data_rank, 0)]) if loads else None)[0] == "fine"

    @check
    def no_micro_batches_are_refused():
        for batches in (-1, 0, 1.5, "1"):
            kind, text = outcome(pg, iter([loaded(data_rank, 0)]) if loads else None, batches=batches)
            assert kind == ("CallerError" if loads else "PeerError"), (kind, text)
            assert not loads or f"num_microbatches is {batches!r}, expected an integer of at least 1" in text

    both = layout(cp=2, dp=2)

    @check
    def settings_of_context_ranks_and_of_the_hybrid_wrapper_are_compared():
        kind, text = outcome(both, iter([loaded(dist.get_rank() // 2, 0)]), config(32 + 32 * (dist.get_rank() % 2)))
        assert kind == "PackingError" and "is 32 on rank 0, 2, 64 on rank 1, 3" in text, (kind, text)
        batch = [dict(tokens=torch.arange(6), cu_seqlens=torch.tensor([0, 2, 6]))]
        wrapper = packing.HybridCPDataLoaderWrapper(iter([batch]), config(4 + 4 * (dist.get_rank() == 3)), both)
        try:
            next(wrapper)
        except packing.PackingError as error:
            assert "max_seq_len_per_rank is 4 on rank 0, 1, 2, 8 on rank 3" in str(error)
        else:
            raise AssertionError("other limits were taken")

    pipeline = layout(dp=1, pp=4)

    @check
    def settings_of_pipeline_stages_are_compared():
        rank = dist.get_rank()
        data = iter([loaded(0, 0)]) if rank in (0, 3) else None
        kind, text = outcome(pipeline, data, config(64 if rank else 32))
        assert kind == "PackingError" and "is 32 on rank 0, 64 on rank 1, 2, 3" in text, (kind, text)

    @check
    def the_end_reaches_stages_that_load_nothing():
        data = iter([]) if dist.get_rank() in (0, 3) else None
        assert outcome(pipeline, data)[0] == "StopIteration"

    @check
    def ends_of_the_pipeline_with_other_data_are_refused():
        rank = dist.get_rank()
        data = {0: iter([loaded(0, 0)]), 3: iter([loaded(1, 0)])}.get(rank)
        kind, text = outcome(pipeline, data)
        assert kind == "CallerError" and "both must load the same data" in text, (kind, text)


def main(part):
    dist.init_process_group("gloo")
    globals()[f"run_{part}"]()
    dist.barrier()
    dist.destroy_process_group()
    print(json.dumps(done), flush=True)
