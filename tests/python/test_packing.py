# SPDX-License-Identifier: Apache-2.0
"""Packing in one process: schedulers and arrays against Megatron-LM's golden answers, the registry, refusals, and the
packing iterator with its state."""

import collections
import copy
import io
import itertools
import json
import pathlib
import pickle
import random
import types

import pytest

torch = pytest.importorskip("torch")
packing = pytest.importorskip("stoker.packing")

from stoker.errors import CallerError, MachineError, UnsupportedError  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron" / "packing"


@pytest.fixture(autouse=True)
def plane():
    """No plane runs here, and looking for what it might leave takes longer than these tests."""


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def test_schedulers_say_what_they_give():
    schedulers = packing.BasePackingScheduler, packing.DpBalancedScheduler, packing.BestFitScheduler, packing.BalancedCPScheduler
    for kind in schedulers:
        assert vars(kind)["get_groups_and_subsamples"].__doc__


class Sized:
    def __init__(self, size):
        self._size = size

    def size(self):
        return self._size


# ---- schedulers ----


@pytest.mark.parametrize("case", golden("dp_balanced"), ids=lambda case: f"{len(case['lengths'])} samples")
def test_dp_balanced_agrees_with_the_reference(case):
    scheduler = packing.DpBalancedScheduler(
        case["max_seqlen_per_dp_cp_rank"], case["cp_size"], case["dp_size"], case["microbatch_group_size_per_vp_stage"]
    )
    pairs = list(enumerate(case["lengths"]))
    if "error" in case:
        with pytest.raises(AssertionError, match=case["error"]["message"]):
            scheduler.get_groups_and_subsamples(pairs)
        return
    assert scheduler.get_groups_and_subsamples(pairs) == case["groups"]
    named = [(f"s{number}", length) for number, length in pairs]  # ids may be anything
    assert scheduler.get_groups_and_subsamples(named) == [
        [[f"s{one}" for one in cell] for cell in cells] for cells in case["groups"]
    ]


@pytest.mark.parametrize("case", golden("balanced_cp")["schedules"], ids=lambda case: f"{len(case['lengths'])} samples")
def test_balanced_cp_agrees_with_the_reference(case):
    scheduler = packing.BalancedCPScheduler(case["max_seq_len_per_rank"], Sized(case["total_gpus"]))
    assert [scheduler.gpus_needed(n) for n in case["lengths"]] == case["gpus_needed"]
    assert [scheduler.get_total_workload(n) for n in case["lengths"]] == case["workload"]
    pairs = list(enumerate(case["lengths"]))
    if "error" in case:
        assert case["error"]["type"] == "AssertionError"
        with pytest.raises(AssertionError, match="needs 16 ranks of 100 tokens, there are 4"):
            scheduler.get_groups_and_subsamples(pairs)
        return
    lengths, ids = scheduler.get_groups_and_subsamples(pairs, None)
    assert (lengths, ids) == (case["groups"], case["sample_id_groups"])


def test_balanced_cp_agrees_with_the_installed_reference():
    reference = pytest.importorskip("megatron.core.pipeline_parallel.hybrid_cp_schedule")
    rnd, refused = random.Random(3), 0
    for _ in range(400):
        ranks, most = rnd.choice([1, 2, 4, 8, 16, 32, 3, 6, 12]), rnd.choice([7, 50, 100, 1024])
        longest, power = most * rnd.choice([1, 2, ranks, ranks]), rnd.choice([1, 2, 4])
        pairs = [(i, max(1, int(longest * rnd.random() ** power))) for i in range(rnd.randrange(60))]
        ours = packing.BalancedCPScheduler(most, Sized(ranks))
        try:
            theirs = reference.BalancedCPScheduler(most, Sized(ranks)).get_groups_and_subsamples(pairs, None)
        except (AssertionError, IndexError):  # the latter for numbers of ranks that are no power of two
            refused += 1
            with pytest.raises(packing.PackingError):
                ours.get_groups_and_subsamples(pairs)
            continue
        assert ours.get_groups_and_subsamples(pairs) == theirs
    assert 20 < refused < 200


@pytest.mark.parametrize("case", golden("balanced_cp")["buckets"], ids=lambda case: f"{len(case['lengths'])} samples")
def test_buckets_agree_with_the_reference(case):
    scheduler = packing.BalancedCPScheduler(case["max_seq_len_per_rank"], Sized(8))
    buckets = scheduler.make_buckets_equal(list(enumerate(case["lengths"])), scheduler.get_total_workload)
    assert [[list(pair) for pair in bucket] for bucket in buckets] == case["buckets"]
    with pytest.raises(CallerError, match="get_total_workload"):
        scheduler.make_buckets_equal([(0, 1)], lambda length: length)


def test_best_fit_needs_fewer_packs_and_levels_the_work():
    rnd = random.Random(5)
    lengths = [min(8192, int(8192 / 2 ** rnd.expovariate(0.6)) + 1) for _ in range(400)]
    pairs = list(enumerate(lengths))
    schedules = {}
    for kind in (packing.DpBalancedScheduler, packing.BestFitScheduler):
        made = kind(8192, 1, 8, None).get_groups_and_subsamples(pairs)
        assert sorted(one for cells in made for cell in cells for one in cell) == list(range(400))
        assert all(sum(lengths[one] for one in cell) <= 8192 for cells in made for cell in cells)
        schedules[kind] = made

    def time(made):
        return sum(max(sum(lengths[one] ** 2 for one in cell) for cell in cells) for cells in made)

    best, reference = schedules[packing.BestFitScheduler], schedules[packing.DpBalancedScheduler]
    assert len(best) <= len(reference)
    assert time(best) < 0.85 * time(reference)


def test_the_cost_of_a_token_can_be_given():
    class Wide(packing.BestFitScheduler):
        linear_tokens = 100000

    pairs = [(0, 60)] + [(i, 20) for i in range(1, 9)]
    narrow = packing.BestFitScheduler(1000, 1, 2, None)
    narrow.linear_tokens = 1
    assert sorted(map(len, narrow.get_groups_and_subsamples(pairs)[0])) == [1, 8]
    assert sorted(map(len, Wide(1000, 1, 2, None).get_groups_and_subsamples(pairs)[0])) == [3, 6]


def test_bad_lengths_are_refused():
    scheduler = packing.BestFitScheduler(8, 1, 1, None)
    with pytest.raises(packing.PackingError, match="sample 1 has no token"):
        scheduler.get_groups_and_subsamples([(0, 3), (1, 0)])
    with pytest.raises(OverflowError):
        scheduler.get_groups_and_subsamples([(0, -1)])
    with pytest.raises(MachineError, match="at most 2147483647"):
        scheduler.get_groups_and_subsamples([(0, 2**31 - 1), (1, 1)])
    with pytest.raises(packing.PackingError, match="power of two"):
        packing.BalancedCPScheduler(100, Sized(7)).get_groups_and_subsamples([(0, 400), (1, 200)])
    error = pickle.loads(pickle.dumps(packing.PackingError("text", "where", "LIMIT")))
    assert (str(error), error.status) == ("where: text", "LIMIT")
    assert not issubclass(packing.PackingError, UnsupportedError)


@pytest.mark.parametrize("kind", [packing.DpBalancedScheduler, packing.BestFitScheduler])
def test_lengths_and_limits_are_integers(kind):
    scheduler = kind(8, 1, 1, None)
    for bad in ("3", 1.5, 2.0, None, float("nan"), torch.tensor(2.5)):
        with pytest.raises(packing.PackingError, match="the length of sample 'b' is .*, expected an integer"):
            scheduler.get_groups_and_subsamples([("a", 1), ("b", bad)])
        with pytest.raises(CallerError, match="the length of sample 'b' is .*, expected an integer"):
            packing.BalancedCPScheduler(8, Sized(2)).get_groups_and_subsamples([("a", 1), ("b", bad)])
    with pytest.raises(OverflowError, match="the length of sample 'b' is -1, expected 0 to 4294967295"):
        scheduler.get_groups_and_subsamples([("a", 1), ("b", -1)])
    lengths = [("a", torch.tensor(3, dtype=torch.int32)), ("b", torch.tensor([2])), ("c", 1)]
    assert scheduler.get_groups_and_subsamples(lengths) == scheduler.get_groups_and_subsamples(
        [("a", 3), ("b", 2), ("c", 1)]
    )
    with pytest.raises(packing.PackingError, match="max_seqlen_per_dp_cp_rank is '8', expected an integer"):
        kind("8", 1, 1, None).get_groups_and_subsamples([(0, 1)])
    with pytest.raises(packing.PackingError, match="dp_size is 1.5, expected an integer"):
        kind(8, 1, 1.5, None).get_groups_and_subsamples([(0, 1)])


def test_samples_longer_than_the_room_of_their_ranks():
    with pytest.raises(packing.PackingError, match="sample 'b' has 17 tokens, .* room for 16: .* 8 times cp_size 2"):
        packing.BestFitScheduler(8, 2, 1, None).get_groups_and_subsamples([("a", 3), ("b", 17)])
    assert packing.BestFitScheduler(8, 2, 1, None).get_groups_and_subsamples([("b", 16)]) == [[["b"], ["b"]]]
    made = packing.DpBalancedScheduler(8, 1, 1, None)  # as the reference does it
    assert made.get_groups_and_subsamples([("a", 3), ("b", 9), ("c", 2)]) == [[["a"]], [["b"]], [["c"]]]
    assert made.get_groups_and_subsamples([("b", 9), ("c", 2)]) == [[[]], [["b"]], [["c"]]]


# ---- samples ----


def restored(sample):
    return {key: torch.tensor(value) for key, value in sample.items()}


def test_cutting_and_joining_agree_with_the_reference():
    data = golden("pack_unpack")
    pieces = [restored(one) for one in data["unpacked"]]
    keys = packing.unpack_batch.__globals__["TOKEN_KEYS"]
    whole = {key: torch.cat([pieces[0][key], pieces[1][key]])[None] for key in keys}
    whole["cu_seqlens"] = torch.tensor([[0, 3, 3, 8]])
    other = {key: pieces[2][key] for key in keys} | {"cu_seqlens": torch.tensor([0, 5])}
    made = packing.unpack_batch([whole, other])
    assert [{key: value.tolist() for key, value in one.items()} for one in made] == data["unpacked"]

    for number, length in data["original_len_override"].items():
        made[int(number)]["original_seq_len"] = torch.tensor([length], dtype=torch.int32)
    packs = [packing.pack_samples(made[:2]), packing.pack_samples(made[2:])]
    for pack, wanted in zip(packs, data["packed"], strict=True):
        assert {key: value.tolist() for key, value in pack.items()} == wanted
        assert {key: str(value.dtype) for key, value in pack.items()} == data["packed_dtypes"]


@pytest.mark.parametrize("case", golden("pack_unpack")["padding_masks"], ids=lambda case: str(case["cu_seqlens"]))
def test_padding_masks_agree_with_the_reference(case):
    mask = packing.padding_mask(torch.tensor(case["cu_seqlens"]), case["cu_seqlens_padded"])
    assert mask.int().tolist() == case["padding_mask"] and mask.dtype == torch.bool


@pytest.mark.parametrize("case", golden("pack_unpack")["seq_idx"], ids=lambda case: str(case["cu_seqlens_q_padded"]))
def test_sequence_numbers_agree_with_the_reference(case):
    borders = {
        key: None if case[key] is None else torch.tensor(case[key], dtype=torch.int32)
        for key in ("cu_seqlens_q", "cu_seqlens_q_padded")
    }
    params = packing.PackedSeqParams(**borders, total_tokens=case["total_tokens"])
    assert params.seq_idx.tolist() == case["seq_idx"] and str(params.seq_idx.dtype) == case["dtype"]


def test_fields_of_the_parameters():
    names = [
        "qkv_format", "cu_seqlens_q", "cu_seqlens_kv", "cu_seqlens_q_padded", "cu_seqlens_kv_padded", "max_seqlen_q",
        "max_seqlen_kv", "local_cp_size", "cp_group", "total_tokens", "seq_idx", "tokens_per_sample",
        "pad_between_seqs", "cp_scatter_cache",
    ]  # fmt: skip
    assert list(vars(packing.PackedSeqParams())) == names
    assert set(vars(packing.PackedSeqParams()).values()) == {None}


def sample(length, **changes):
    made = dict(
        tokens=torch.arange(length), labels=torch.arange(length), loss_mask=torch.ones(length),
        position_ids=torch.arange(length), padded_seq_len=length,
    )  # fmt: skip
    return {**made, **changes}


def test_samples_in_one_piece_and_their_refusals():
    (piece,) = packing.unpack_batch([sample(4)])
    assert piece["original_seq_len"].tolist() == piece["padded_seq_len"].tolist() == [4]
    (piece,) = packing.unpack_batch([sample(4, original_seq_len=torch.tensor([3]))])
    assert piece["original_seq_len"].tolist() == [3]
    cut = {key: value for key, value in sample(4).items() if key != "padded_seq_len"} | {"cu_seqlens": [0, 4]}
    with pytest.raises(CallerError, match="mixes samples with cu_seqlens and without: 1 of 2"):
        packing.unpack_batch([sample(4), cut])
    with pytest.raises(CallerError, match=r"sample 0: tokens has the shape \(2, 2\)"):
        packing.unpack_batch([sample(4, tokens=torch.zeros(2, 2))])
    with pytest.raises(CallerError, match="sample 0: labels has 3 entries, padded_seq_len is 4"):
        packing.unpack_batch([sample(4, labels=torch.zeros(3))])
    with pytest.raises(CallerError, match="original_seq_len is 5, padded_seq_len 4"):
        packing.unpack_batch([sample(4, original_seq_len=5)])
    with pytest.raises(CallerError, match="sample 0 has no labels"):
        packing.unpack_batch([{key: value for key, value in sample(4).items() if key != "labels"}])
    with pytest.raises(CallerError, match="cu_seqlens ends at 9"):
        packing.unpack_batch([{**cut, "cu_seqlens": [0, 9]}])
    with pytest.raises(CallerError, match="falls from 3 to 1"):
        packing.unpack_batch([{**cut, "cu_seqlens": [0, 3, 1]}])


def test_borders_leave_nothing_out():
    cut = {key: value for key, value in sample(6).items() if key != "padded_seq_len"}
    for borders, said in (
        ([0, 2], r"sample 1: tokens has 6 entries, cu_seqlens ends at 2: \[0, 2\]"),
        ([0, 7], r"sample 1: tokens has 6 entries, cu_seqlens ends at 7: \[0, 7\]"),
        ([2, 6], r"sample 1: cu_seqlens is \[2, 6\], expected to begin with 0"),
        ([], r"sample 1: cu_seqlens is \[\], expected to begin with 0"),
        ([-1, 2, 6], r"sample 1: cu_seqlens is \[-1, 2, 6\], expected to begin with 0"),
        ([0, 4, 2, 6], r"sample 1: cu_seqlens falls from 4 to 2: \[0, 4, 2, 6\]"),
    ):
        good = {**cut, "cu_seqlens": [0, 2, 2, 6]}
        with pytest.raises(packing.PackingError, match=said):
            packing.unpack_batch([good, {**cut, "cu_seqlens": borders}])
        with pytest.raises(packing.PackingError, match=said):
            next(packing.HybridCPDataLoaderWrapper(iter([[good, {**cut, "cu_seqlens": borders}]]), config("")))
        with pytest.raises(packing.PackingError, match=said.replace("cu_seqlens", "cu_seqlens_padded")):
            packing.unpack_batch([good | {"cu_seqlens_padded": [0, 2, 2, 6]},
                                  {**cut, "cu_seqlens": [0, 1, 2], "cu_seqlens_padded": borders}])
    for own, padded, said in (
        ([1, 2], [0, 6], r"cu_seqlens is \[1, 2\], expected to begin with 0"),
        ([0, 4, 5], [0, 3, 6], "a sequence has 4 tokens, padded 3"),
    ):
        with pytest.raises(packing.PackingError, match=said):
            packing.unpack_batch([{**cut, "cu_seqlens": own, "cu_seqlens_padded": padded}])
    padded = {**cut, "cu_seqlens": [0, 2, 4], "loss_mask": torch.tensor([1.0, 0, 1, 1, 0, 0])}
    pieces = packing.unpack_batch([padded])  # padding at the end of a sample is no piece, as in Megatron-LM
    assert [piece["tokens"].tolist() for piece in pieces] == [cut["tokens"][:2].tolist(), cut["tokens"][2:4].tolist()]
    with pytest.raises(packing.PackingError, match="ends at 2: .*behind that has a loss_mask that is not 0"):
        packing.unpack_batch([padded | {"cu_seqlens": [0, 2]}])
    with pytest.raises(CallerError, match=r"sample 0: cu_seqlens is torch.float32, .* expected integers"):
        packing.unpack_batch([{**cut, "cu_seqlens": [0.0, 2.5, 6.0]}])
    assert packing.unpack_batch([{**sample(0), "cu_seqlens": [0, 0]}]) == []
    made = packing.unpack_batch([{**cut, "cu_seqlens": [0, 2, 5], "cu_seqlens_padded": [0, 3, 6]}])
    assert [int(one["original_seq_len"]) for one in made] == [2, 3]


def test_lengths_of_samples_are_integers_that_fit():
    for key in ("padded_seq_len", "original_seq_len"):
        for bad, said in (
            (torch.tensor([3.7]), "is torch.float32, .*3.7.*, expected integers"), (3.7, "is .*, expected integers"),
            (True, "is torch.bool"), ("3", "is '3', expected a tensor"), (torch.tensor([3, 3]), r"is \[3, 3\]"),
            (2**32 + 3, "is 4294967299, expected 0 to"), (-3, "is -3, expected 0 to"),
        ):  # fmt: skip
            with pytest.raises(CallerError, match=f"sample 1: {key} {said}"):
                packing.unpack_batch([sample(3), sample(3, **{key: bad})])


# ---- the interface, in a process that is alone ----


def config(name, **changes):
    made = dict(
        sequence_packing_scheduler=name, max_seqlen_per_dp_cp_rank=16, virtual_pipeline_model_parallel_size=None,
        microbatch_group_size_per_vp_stage=None,
    )  # fmt: skip
    return types.SimpleNamespace(**{**made, **changes})


def test_one_process_needs_no_groups():
    data = iter([[sample(10), sample(7)], [sample(6), sample(9)]])
    iterator, count, total, squares = packing.wrap_data_iterator(data, config("best_fit"), 2)
    assert (count, total, squares) == (2, 32.0, 266.0)
    seen = []
    for _ in range(count):
        tokens, labels, loss_mask, none, positions, params, mask = packing.get_batch_on_this_rank_for_sequence_packing(
            iterator
        )
        assert tokens.shape == labels.shape == loss_mask.shape == positions.shape == mask.shape == (1, 16)
        assert none is None and not mask.any() and params.max_seqlen_q in (9, 10)
        seen += params.cu_seqlens_q.diff().tolist()
    assert sorted(seen) == [6, 7, 9, 10]
    with pytest.raises(StopIteration):
        packing.get_batch_on_this_rank_for_sequence_packing(iterator)
    found, ids = next(
        packing.HybridCPDataLoaderWrapper(iter([[dict(tokens=torch.arange(5), cu_seqlens=[0, 2, 5])]]), config(""))
    )
    assert {one: row["tokens"].tolist() for one, row in found.items()} == {0: [0, 1], 1: [2, 3, 4]}
    assert ids == [[[1, 0]]]


def test_virtual_stages_of_one_process():
    iterators, count, *_ = packing.wrap_data_iterator(
        [iter([[sample(10), sample(7)]]), None],
        config("dp_balanced", virtual_pipeline_model_parallel_size=2, microbatch_group_size_per_vp_stage=2), 1,
    )  # fmt: skip
    assert count == 2 and len(iterators) == 2
    first = packing.get_batch_on_this_rank_for_sequence_packing(iterators[0], vpp_size=2, vp_stage=0)
    last = packing.get_batch_on_this_rank_for_sequence_packing(
        iterators[1], vpp_size=2, vp_stage=1, mtp_on_this_rank=True
    )
    assert first[0] is not None and first[1] is None
    assert last[0] is not None and last[1] is not None  # multi-token prediction needs the tokens again


def test_schedulers_of_users_are_found_by_name():
    @packing.register_scheduler("test_one_each")
    class OneEach(packing.BasePackingScheduler):
        def get_groups_and_subsamples(self, sample_id_seqlens):
            return [[[one]] for one, _ in sample_id_seqlens]

    assert {"best_fit", "dp_balanced", "test_one_each"} <= set(packing.scheduler_names())
    _, count, *_ = packing.wrap_data_iterator(iter([[sample(3), sample(4)]]), config("test_one_each"), 1)
    assert count == 2
    packing.register_scheduler("test_one_each", OneEach)  # the same again is no mistake
    with pytest.raises(CallerError, match="registered already, as .*OneEach"):
        packing.register_scheduler("test_one_each", packing.BestFitScheduler)
    with pytest.raises(CallerError, match="is 'unheard', known are best_fit, dp_balanced"):
        packing.wrap_data_iterator(iter([]), config("unheard"), 1)
    with pytest.raises(NotImplementedError, match="BasePackingScheduler has no get_groups"):
        packing.BasePackingScheduler(1, 1, 1, None).get_groups_and_subsamples([])


def test_bad_iterators_are_refused():
    with pytest.raises(CallerError, match="gave a str"):
        packing.wrap_data_iterator(iter(["text"]), config("dp_balanced"), 1)
    with pytest.raises(CallerError, match="needs a data iterator"):
        packing.wrap_data_iterator(None, config("dp_balanced"), 1)
    with pytest.raises(StopIteration):
        packing.wrap_data_iterator(iter([[sample(3)]]), config("dp_balanced"), 2)
    batch = packing.pack_samples(packing.unpack_batch([sample(3)]))
    with pytest.raises(CallerError, match=r"cu_seqlens_padded is torch.float32 \(2,\), expected torch.int32"):
        packing.get_batch_on_this_rank_for_sequence_packing(
            iter([{**batch, "cu_seqlens_padded": batch["cu_seqlens_padded"].float()}])
        )
    with pytest.raises(CallerError, match="has no labels, which this pipeline stage needs"):
        packing.get_batch_on_this_rank_for_sequence_packing(
            iter([{key: value for key, value in batch.items() if key != "labels"}])
        )
    with pytest.raises(CallerError, match="tokens has 2 entries, cu_seqlens_padded ends at 3"):
        packing.get_batch_on_this_rank_for_sequence_packing(iter([{**batch, "tokens": torch.arange(2)}]))


# ---- the packing iterator ----


def documents(count=400, seed=1):
    rnd = random.Random(seed)
    return [
        [1000 * i + k for k in range(rnd.choice([0, 1, 2, 5, 30, 80, 200, 700]) + rnd.randrange(9))]
        for i in range(count)
    ]


class Stateful:
    """An iterable with a state of its own, which counts what it was asked for."""

    def __init__(self, rows):
        self.rows, self.at, self.asked = rows, 0, 0

    def __iter__(self):
        while self.at < len(self.rows):
            self.at += 1
            self.asked += 1
            yield self.rows[self.at - 1]
        self.at = 0  # the next iteration is another epoch, as loaders do it

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


SOURCES = {
    "map-style": (lambda rows: rows, {}),
    "order": (lambda rows: rows, {"order": [*range(0, 400, 2), *range(1, 400, 2)]}),
    "iterator": (iter, {}),
    "stateful": (Stateful, {}),
}


def ledger(packs):
    """(document, offset) of every pair of token and label that was given out."""
    return collections.Counter(
        (document, offset + k) for pack in packs for document, offset, length in pack["pieces"] for k in range(length)
    )


def plain(pack):
    return {key: value.tolist() if isinstance(value, torch.Tensor) else value for key, value in pack.items()}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_token_is_given_out_once_and_packs_are_nearly_full(kind):
    rows = documents()
    make, options = SOURCES[kind]
    packs = list(packing.PackedSequences(make(rows), 256, **options))
    pairs = {(i, k): (row[k], row[k + 1]) for i, row in enumerate(rows) for k in range(len(row) - 1)}
    if kind == "order":
        assert {one for one, _, _ in packs[0]["pieces"]} & {1, 3, 5} == set()
    assert ledger(packs) == collections.Counter(pairs.keys())
    for pack in packs:
        assert pack["tokens"].numel() <= 256
        at = 0
        for document, offset, length in pack["pieces"]:
            got = list(zip(pack["tokens"][at : at + length].tolist(), pack["labels"][at : at + length].tolist()))
            assert got == [pairs[document, offset + k] for k in range(length)]
            assert pack["position_ids"][at : at + length].tolist() == list(range(length))
            at += length
        assert pack["cu_seqlens"].dtype == torch.int32
        assert pack["cu_seqlens"].diff().tolist() == [length for _, _, length in pack["pieces"]]
    # With 200 documents in sight it takes hardly more packs than with all of them.
    pieces = [length for pack in packs for _, _, length in pack["pieces"]]
    best = packing.BestFitScheduler(256, 1, 1, None).get_groups_and_subsamples(list(enumerate(pieces)))
    assert len(packs) <= 1.02 * len(best)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("stop", [0, 1, 37, 10**6])
def test_situation_25_a_resumed_run_goes_on_as_if_it_had_not_stopped(kind, stop):
    rows = documents()
    make, options = SOURCES[kind]
    whole = [plain(pack) for pack in packing.PackedSequences(make(rows), 256, **options)]
    first = packing.PackedSequences(make(rows), 256, **options)
    before = [plain(pack) for pack in itertools.islice(first, stop)]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    after = [plain(pack) for pack in first]  # the state is not changed by going on
    file.seek(0)
    second = packing.PackedSequences(make(rows), 256, **options)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert [plain(pack) for pack in second] == after
    assert before + after == whole
    assert next(second, None) is None  # the end stays the end: no further epoch


def test_the_state_of_a_map_style_source_holds_no_tokens():
    packs = packing.PackedSequences(documents(), 256)
    next(packs)
    assert all(rows is None for *_, rows in packs.state_dict()["buffer"])
    assert len(packs.state_dict()["buffer"]) > 150


def test_no_document_waits_longer_than_the_buffer():
    # Short ones never are the longest that fits: they go when they are the oldest.
    rows = [list(range(2 if i % 10 == 0 else 129)) for i in range(400)]
    packs = packing.PackedSequences(rows, 256, buffer_size=10)
    waits, taken_in = [], {}
    for number, pack in enumerate(packs):
        for document in range(len(taken_in), packs.state_dict()["taken"]):
            taken_in[document] = number
        waits += [number - taken_in[document] for document, _, _ in pack["pieces"]]
    assert len(waits) == 400 and 3 <= max(waits) <= 10


def test_padding_counts_and_is_marked():
    packs = list(packing.PackedSequences([[5, 6, 7, 8], [1, 2, 3, 4, 5, 6]], 16, pad_multiple=4))
    (pack,) = packs
    assert pack["cu_seqlens"].tolist() == [0, 3, 8] and pack["cu_seqlens_padded"].tolist() == [0, 4, 12]
    assert pack["tokens"].tolist() == [5, 6, 7, 0, 1, 2, 3, 4, 5, 0, 0, 0]
    assert pack["loss_mask"].tolist() == [1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0]
    batch = packing.get_batch_on_this_rank_for_sequence_packing(iter(packs))
    assert batch[6].int().tolist() == [[0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1]]
    # As samples of a batch that is scheduled again, they are cut where they lie.
    pieces = packing.unpack_batch(packs)
    assert [one["tokens"].tolist() for one in pieces] == [[5, 6, 7, 0], [1, 2, 3, 4, 5, 0, 0, 0]]
    assert [int(one["original_seq_len"]) for one in pieces] == [3, 5]


def test_documents_as_dicts_and_tensors():
    row = {key: value for key, value in sample(5).items() if key != "padded_seq_len"}
    (pack,) = packing.PackedSequences([row], 8)
    assert pack["tokens"].tolist() == [0, 1, 2, 3, 4] and pack["pieces"] == [(0, 0, 5)]
    (pack,) = packing.PackedSequences([torch.tensor([7, 8, 9], dtype=torch.int32)], 8)
    assert (pack["tokens"].tolist(), pack["labels"].tolist()) == ([7, 8], [8, 9])
    with pytest.raises(CallerError, match="document 0 has no labels"):
        next(packing.PackedSequences([{"tokens": [1]}], 8))
    with pytest.raises(CallerError, match="document 1: lengths differ"):
        next(packing.PackedSequences([row, {**row, "labels": torch.arange(4)}], 8))
    with pytest.raises(CallerError, match="document 0 has 9 tokens, max_tokens is 8"):
        next(packing.PackedSequences([list(range(10))], 8, long="error"))


def test_states_that_do_not_belong_are_refused():
    rows = documents(50)
    packs = packing.PackedSequences(rows, 256)
    next(packs)
    state = packs.state_dict()
    with pytest.raises(CallerError, match="max_tokens=256, this one has 128"):
        packing.PackedSequences(rows, 128).load_state_dict(copy.deepcopy(state))
    with pytest.raises(CallerError, match="of a map-style source"):
        packing.PackedSequences(iter(rows), 256).load_state_dict(copy.deepcopy(state))
    with pytest.raises(CallerError, match="version 9"):
        packing.PackedSequences(rows, 256).load_state_dict({**state, "version": 9})
    source = iter(rows)
    packs = packing.PackedSequences(source, 256, buffer_size=4)
    next(packs)
    with pytest.raises(CallerError, match="cannot be rewound"):
        packs.load_state_dict(packs.state_dict())
    short = packing.PackedSequences(iter(rows[:2]), 256, buffer_size=4)
    short.load_state_dict(packs.state_dict())
    with pytest.raises(CallerError, match="gives 2 documents, the state was saved after"):
        next(short)
    for bad in ({"max_tokens": 0}, {"max_tokens": 4, "pad_multiple": 8}, {"max_tokens": 4, "buffer_size": 0}):
        with pytest.raises(CallerError, match="expected max_tokens"):
            packing.PackedSequences(rows, **bad)
    with pytest.raises(CallerError, match="order needs a map-style source"):
        packing.PackedSequences(iter(rows), 8, order=[0])
    with pytest.raises(CallerError, match='expected "split" or "error"'):
        packing.PackedSequences(rows, 8, long="drop")


def test_token_ids_are_integers():
    good = [1, 2, 3]
    for bad, said in (
        ([float("nan"), 2.5, 3.9], "is torch.float32, beginning with .*, expected integers"),
        (torch.tensor([1.0, 2.0]), "is torch.float32"), ([True, False], "is torch.bool"),
        ("abc", "is 'abc', expected one dimension"), ([1, 2**63], "is .*, expected one dimension of numbers"),
        (None, "is None, expected"), ({**{key: good for key in ("labels", "loss_mask", "position_ids")},
                                       "tokens": [1.0, 2.0, 3.5]}, ": tokens is torch.float32"),
    ):  # fmt: skip
        with pytest.raises(CallerError, match=f"document 1:? ?{said}"):
            next(packing.PackedSequences([good, bad], 8))
    assert list(packing.PackedSequences([[], torch.zeros(0)], 8)) == []
    for name in ("max_tokens", "buffer_size", "pad_multiple"):
        with pytest.raises(CallerError, match=f"{name} is 2.5, expected an integer"):
            packing.PackedSequences([good], **{"max_tokens": 8, name: 2.5})
    with pytest.raises(CallerError, match="source is None, expected a map-style dataset"):
        packing.PackedSequences(None, 8)


class Fails:
    """Documents of 6 pairs; the given ones raise, always or once, when they are asked for."""

    def __init__(self, bad, always, kind=OSError):
        self.bad, self.always, self.kind, self.at = set(bad), always, kind, -1

    def __len__(self):
        return 12

    def __getitem__(self, key):
        if key in self.bad:
            self.bad -= set() if self.always else {key}
            raise self.kind(f"document {key}")
        return torch.arange(7) + 100 * key


class Passing(Fails):
    """The same as an iterator that goes on after the one that raised."""

    __getitem__ = property()

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        if self.at >= 12:
            raise StopIteration
        return Fails.__getitem__(self, self.at)


def first_tokens(packs):
    """Numbers of the documents that come, also after errors, with the state before each."""
    seen, states = [], []
    while True:
        states.append((len([one for one in seen if one != "E"]), packs.state_dict()))
        try:
            seen.append(int(next(packs)["tokens"][0]) // 100)
        except StopIteration:
            return seen, states
        except (OSError, KeyboardInterrupt):
            seen.append("E")


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("kind", [Fails, Passing])
def test_the_state_after_an_error_of_the_source_is_that_of_the_live_iterator(kind, always):
    seen, states = first_tokens(packing.PackedSequences(kind({0, 3, 7}, always), 6, buffer_size=2))
    given = [one for one in seen if one != "E"]
    assert given == [1, 2, 4, 5, 6, 8, 9, 10, 11] and seen.count("E") == 3
    for count, state in states:
        for bad in ({0, 3, 7} if always else {}, {0, 3, 7}):
            source = kind(bad, always)
            if kind is Fails:  # what was passed is not asked for; what comes may raise again
                source.bad = {one for one in source.bad if one >= state["taken"]}
            packs = packing.PackedSequences(source, 6, buffer_size=2)
            packs.load_state_dict(copy.deepcopy(state))
            resumed = [one for one in first_tokens(packs)[0] if one != "E"]
            expected = given[count:]
            if not bad:  # a source that is whole again gives what was not yet passed
                passed = state["taken"]
                expected = sorted(set(expected) | {one for one in (0, 3, 7) if one >= passed})
            assert resumed == expected, (count, state["taken"])


def test_what_was_interrupted_is_read_again():
    packs = packing.PackedSequences(Fails({3}, False, KeyboardInterrupt), 6, buffer_size=2)
    seen, states = first_tokens(packs)
    assert [one for one in seen if one != "E"] == list(range(12)) and seen.count("E") == 1
    for count, state in states:
        packs = packing.PackedSequences(Fails({}, False), 6, buffer_size=2)
        packs.load_state_dict(state)
        assert first_tokens(packs)[0] == list(range(12))[count:]


def test_a_state_that_cannot_be_loaded_changes_nothing():
    packs = packing.PackedSequences(Fails({}, False), 6, buffer_size=2)
    next(packs)
    state = packs.state_dict()
    other = packing.PackedSequences(Fails({1}, False), 6, buffer_size=2)
    with pytest.raises(OSError):
        other.load_state_dict(state)
    assert other.state_dict()["taken"] == 0 and other.state_dict()["buffer"] == []
    other.load_state_dict(state)
    assert first_tokens(other)[0] == list(range(1, 12))
