# SPDX-License-Identifier: Apache-2.0
"""Token-aware batch samplers: the plan as the ranks see it, in both loaders, and across a resume."""

import collections
import json
import random

import numpy
import pytest
import torch

from stoker import errors
from stoker.samplers import TokenAwareBatchSampler, TokenBudgetBatchSampler
from stoker.torch import DistributedDataLoader

FORMS = {(16, 224): 1568, (32, 336): 7056, (64, 448): 25088}


def mixed(count, seed=0):
    """Shapes and tokens of a mixture of three forms."""
    rng = random.Random(seed)
    shapes = [rng.choice(list(FORMS)) for _ in range(count)]
    return shapes, [FORMS[shape] for shape in shapes]


def all_ranks(ranks, make):
    return [make(rank) for rank in range(ranks)]


class Numbers(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor(index)


def test_each_sample_once_and_ranks_alike():
    shapes, tokens = mixed(4096)
    samplers = all_ranks(
        4, lambda rank: TokenAwareBatchSampler(tokens, 8, shapes=shapes, num_replicas=4, rank=rank, seed=3)
    )
    plans = [list(sampler) for sampler in samplers]
    assert [len(plan) for plan in plans] == [128] * 4 == [len(sampler) for sampler in samplers]
    assert sorted(i for plan in plans for batch in plan for i in batch) == list(range(4096))
    assert all(len(batch) == 8 for plan in plans for batch in plan)
    most = [max(sum(tokens[i] for i in plans[rank][step]) for rank in range(4)) for step in range(128)]
    mean = sum(tokens) / 4
    assert sum(most) / mean <= 1.05
    assert samplers[2].stats()["wait"] == pytest.approx(sum(most) / mean)
    # The plan of one rank is what every rank knows of it.
    for step, ranks in zip(range(5), samplers[0].global_steps()):
        assert [sorted(cell[0] for cell in cells) for cells in ranks] == [sorted(plan[step]) for plan in plans]


def test_windows_keep_the_mixture_within_one_sample_a_shape():
    shapes, tokens = mixed(5000)
    whole = collections.Counter(shapes)
    samplers = all_ranks(8, lambda rank: TokenAwareBatchSampler(
        tokens, 2, shapes=shapes, num_replicas=8, rank=rank, window_steps=8))
    plans = [list(sampler) for sampler in samplers]
    for first in range(0, len(plans[0]) - 8, 8):
        held = collections.Counter(shapes[i] for plan in plans for batch in plan[first:first + 8] for i in batch)
        for shape, count in whole.items():
            assert abs(held[shape] - count * 128 / 5000) <= 1


def test_statistics_count_tokens_and_shapes_of_every_rank():
    shapes, tokens = mixed(512)
    sampler = TokenAwareBatchSampler(tokens, 4, shapes=shapes, num_replicas=2, rank=1, attention=8192)
    other = list(TokenAwareBatchSampler(tokens, 4, shapes=shapes, num_replicas=2, rank=0, attention=8192))
    mine = list(sampler)
    stats = sampler.stats()
    for rank, plan in enumerate((other, mine)):
        ids = [i for batch in plan for i in batch]
        assert stats["tokens"][rank] == sum(tokens[i] for i in ids)
        assert stats["load"][rank] == sum(tokens[i] + tokens[i] ** 2 // 8192 for i in ids)
        for shape in FORMS:
            assert stats["shapes"][shape][rank] == sum(shapes[i] == shape for i in ids)
    assert stats["steps"] == len(mine)


def test_epochs_differ_and_seeds_repeat():
    tokens = list(range(1, 1001))

    def plan(seed, epoch):
        sampler = TokenAwareBatchSampler(tokens, 4, num_replicas=2, rank=0, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert plan(1, 0) == plan(1, 0)
    assert plan(1, 0) != plan(1, 1) != plan(2, 1)


def test_arrays_and_tensors_are_taken():
    shapes = numpy.array([[16, 224], [32, 336]] * 50)
    for tokens in (numpy.arange(1, 101), torch.arange(1, 101), list(range(1, 101))):
        sampler = TokenAwareBatchSampler(tokens, 5, shapes=shapes, num_replicas=1, rank=0)
        assert sorted(sum(sampler, [])) == list(range(100))
        assert sampler.shapes == [(16, 224), (32, 336)]


@pytest.mark.parametrize("loader", [torch.utils.data.DataLoader, DistributedDataLoader])
@pytest.mark.parametrize("workers", [0, 2])
def test_works_as_batch_sampler_of_both_loaders(loader, workers):
    _, tokens = mixed(300)
    sampler = TokenAwareBatchSampler(tokens, 6, num_replicas=2, rank=1)
    expected = list(TokenAwareBatchSampler(tokens, 6, num_replicas=2, rank=1))
    made = loader(Numbers(300), batch_sampler=sampler, num_workers=workers)
    assert [batch.tolist() for batch in made] == expected
    assert len(made) == len(expected)
    made.__dict__.pop("_iterator", None)


def test_situation_35_equal_micro_batches_and_marked_padding():
    tokens, shapes = [4000] + [50] * 8, ["video"] + ["image"] * 8
    for ranks in (2, 4, 16):
        samplers = all_ranks(ranks, lambda rank: TokenBudgetBatchSampler(
            tokens, 512, shapes=shapes, num_replicas=ranks, rank=rank))
        plans = [list(sampler) for sampler in samplers]
        assert {len(plan) for plan in plans} == {1} == {len(sampler) for sampler in samplers}
        real = [i for sampler, plan in zip(samplers, plans) for n, batch in enumerate(plan)
                if not sampler.is_padding(n) for i in batch]
        assert sorted(real) == list(range(9))
        assert sum(sampler.is_padding(0) for sampler in samplers) == max(0, ranks - 9)
        assert all(batch for plan in plans for batch in plan)  # padding can be collated too


def test_micro_batches_keep_the_budget_and_one_shape():
    rng = random.Random(1)
    shapes = [rng.randrange(3) for _ in range(3000)]
    tokens = [rng.randrange(20, 900) * (1 + shape) for shape in shapes]
    samplers = all_ranks(4, lambda rank: TokenBudgetBatchSampler(
        tokens, 4096, micro_batches=2, shapes=shapes, num_replicas=4, rank=rank, max_samples=30))
    plans = [list(sampler) for sampler in samplers]
    assert len({len(plan) for plan in plans}) == 1 and len(plans[0]) == len(samplers[0])
    seen = []
    for sampler, plan in zip(samplers, plans):
        for n, batch in enumerate(plan):
            if sampler.is_padding(n):
                continue
            seen += batch
            assert sum(tokens[i] for i in batch) <= 4096 and len(batch) <= 30
            assert len({shapes[i] for i in batch}) == 1
    assert sorted(seen) == list(range(3000))
    assert samplers[0].stats()["wait"] <= 1.05


def test_weights_mix_sources_and_draw_them_again():
    sampler = TokenAwareBatchSampler([[10] * 100, [20] * 1000], 10, weights=[1, 1], samples=1000, num_replicas=1, rank=0)
    ids = sum(sampler, [])
    assert sum(i < 100 for i in ids) == 500
    assert set(collections.Counter(i for i in ids if i < 100).values()) == {5}


def test_situation_29_extreme_weights_name_the_short_source():
    sources = [[10] * 3, [20] * 1000]
    assert len(sum(TokenAwareBatchSampler(sources, 10, weights=[1e-6, 1], samples=2000, num_replicas=1, rank=0), [])) == 2000
    with pytest.raises(errors.CallerError, match="source 0 has 3 samples"):
        TokenAwareBatchSampler(sources, 10, weights=[1, 1e-6], repeat=False, samples=2000, num_replicas=1, rank=0)


def make(ranks, rank, **options):
    shapes, tokens = mixed(2000, seed=5)
    return TokenAwareBatchSampler(tokens, options.pop("batch", 4), shapes=shapes, num_replicas=ranks, rank=rank, seed=9,
                                  **options)


def test_state_resumes_at_every_step_with_the_same_ranks():
    expected = list(make(4, 1))
    for stop in (0, 1, 7, 31, 32, 33, len(expected) - 1, len(expected)):
        sampler = make(4, 1)
        iterator = iter(sampler)
        for _ in range(stop):
            next(iterator)
        state = json.loads(json.dumps(sampler.state_dict()))
        resumed = make(4, 1)
        resumed.load_state_dict(state)
        assert list(resumed) == expected[stop:]
        assert list(resumed) == expected  # the iteration after it is a whole one


def test_state_of_batches_that_the_loader_has_returned():
    expected = list(make(4, 2))
    sampler = make(4, 2)
    iterator = iter(sampler)
    for _ in range(60):  # a loader that works ahead
        next(iterator)
    resumed = make(4, 2)
    resumed.load_state_dict(sampler.state_dict(batches=41))
    iterator = iter(resumed)
    assert [next(iterator) for _ in range(20)] == expected[41:61]
    again = make(4, 2)
    again.load_state_dict(resumed.state_dict(batches=11))
    assert list(again) == expected[52:]
    with pytest.raises(errors.CallerError, match="this iteration has had 60"):
        sampler.state_dict(batches=61)


def test_state_of_long_ago_is_planned_again():
    tokens = list(range(1, 20001))
    sampler = TokenAwareBatchSampler(tokens, 1, num_replicas=1, rank=0, window_steps=8)
    expected = list(TokenAwareBatchSampler(tokens, 1, num_replicas=1, rank=0, window_steps=8))
    assert list(sampler) == expected
    resumed = TokenAwareBatchSampler(tokens, 1, num_replicas=1, rank=0, window_steps=8)
    resumed.load_state_dict(sampler.state_dict(batches=11))
    assert list(resumed) == expected[11:]


@pytest.mark.parametrize("batch", [4, 6])
def test_b8_another_number_of_ranks_uses_each_sample_once(batch):
    seen = []
    state = None
    for ranks, stop in ((4, 37), (2, 50), (8, 11), (3, None)):
        samplers = all_ranks(ranks, lambda rank: make(ranks, rank, batch=batch, drop_last=ranks != 3))
        if state is not None:
            for sampler in samplers:
                sampler.load_state_dict(dict(state, flags=samplers[0]._flags))
        iterators = [iter(sampler) for sampler in samplers]
        for _ in range(stop or 10**6):
            step = [next(iterator, None) for iterator in iterators]
            if step[0] is None:
                break
            seen += [i for part in step for i in part]
        states = [sampler.state_dict() for sampler in samplers]
        assert all(other == states[0] for other in states)
        state = json.loads(json.dumps(states[0]))
    counts = collections.Counter(seen)
    assert set(counts) == set(range(2000))
    assert sum(counts.values()) - 2000 < 3 * batch  # the repeats that make the last step even


def test_situation_28_the_switch_of_weights_is_recorded():
    sources = [[10] * 4000, [20] * 4000]

    def sampler(weights):
        return TokenAwareBatchSampler(sources, 8, weights=weights, samples=4096, num_replicas=1, rank=0, window_steps=16)

    first = sampler([1, 1])
    iterator = iter(first)
    before = [next(iterator) for _ in range(40)]
    second = sampler([1, 3])
    second.load_state_dict(first.state_dict())
    after = list(second)
    recipe = second.state_dict()["recipe"]
    # Three windows of 128 samples were drawn: the third is finished as it was begun.
    assert recipe == [{"window": 0, "sample": 0, "weights": [1, 1]}, {"window": 3, "sample": 384, "weights": [1, 3]}]
    ids = sum(before + after, [])
    assert len(ids) == 4096 == len(set(ids))  # the ledger is exact
    assert sum(i < 4000 for i in ids[:384]) == 192
    assert sum(i < 4000 for i in ids[384:]) == (4096 - 384) // 4
    # A third run goes on from the changed recipe.
    third = sampler([1, 3])
    iterator = iter(second_again := sampler([1, 3]))
    second_again.load_state_dict(first.state_dict())
    iterator = iter(second_again)
    head = [next(iterator) for _ in range(100)]
    third.load_state_dict(second_again.state_dict())
    assert head + list(third) == after


def test_situation_21_a_state_of_the_end_starts_no_epoch_again():
    sampler = make(2, 0)
    list(sampler)
    resumed = make(2, 0)
    resumed.load_state_dict(sampler.state_dict())
    assert list(resumed) == []
    resumed.load_state_dict(sampler.state_dict())
    resumed.set_epoch(1)
    assert len(list(resumed)) == len(resumed)


def test_budget_sampler_resumes_between_steps():
    def sampler(ranks, rank):
        shapes, tokens = mixed(1500, seed=2)
        return TokenBudgetBatchSampler(tokens, 60000, micro_batches=2, shapes=shapes, num_replicas=ranks, rank=rank)

    expected = list(sampler(2, 1))
    half = sampler(2, 1)
    iterator = iter(half)
    head = [next(iterator) for _ in range(14)]
    resumed = sampler(2, 1)
    resumed.load_state_dict(half.state_dict())
    assert head + list(resumed) == expected
    next(iterator)
    with pytest.raises(errors.CallerError, match="inside a step of 2"):
        half.state_dict()
    rest = [sampler(4, rank) for rank in range(4)]
    first = [list(sampler(2, 0))[:14], head]
    for other in rest:
        other.load_state_dict(half.state_dict(batches=14))
    ids = [i for part in first for batch in part for i in batch]
    for other in rest:
        ids += [i for n, batch in enumerate(list(other)) if not other.is_padding(n) for i in batch]
    assert sorted(ids) == list(range(1500))


def test_other_data_or_options_are_refused_by_name():
    state = make(2, 0).state_dict()
    with pytest.raises(errors.CallerError, match="digest"):
        TokenAwareBatchSampler([5] * 2000, 4, num_replicas=2, rank=0, seed=9).load_state_dict(state)
    shapes, tokens = mixed(2000, seed=5)
    with pytest.raises(errors.CallerError, match="seed=9"):
        TokenAwareBatchSampler(tokens, 4, shapes=shapes, num_replicas=2, rank=0, seed=8).load_state_dict(state)
    with pytest.raises(errors.CallerError, match="no state of a TokenBudgetBatchSampler"):
        TokenBudgetBatchSampler(tokens, 4000, num_replicas=2, rank=0).load_state_dict(state)


def test_bad_arguments_say_what_was_expected():
    with pytest.raises(errors.CallerError, match="sample 1 of source 0 has 0 tokens"):
        TokenAwareBatchSampler([1, 0, 1], 1, num_replicas=1, rank=0)
    with pytest.raises(errors.CallerError, match="expected a list of integers"):
        TokenAwareBatchSampler([1.5], 1, num_replicas=1, rank=0)
    with pytest.raises(errors.CallerError, match="window_steps=4, expected 8 or more"):
        TokenAwareBatchSampler([1] * 100, 1, num_replicas=1, rank=0, window_steps=4)
    with pytest.raises(errors.CallerError, match="rank=2 of num_replicas=2"):
        TokenAwareBatchSampler([1] * 100, 1, num_replicas=2, rank=2)
    with pytest.raises(errors.CallerError, match="3 shapes and 2 samples"):
        TokenAwareBatchSampler([1, 1], 1, shapes=["a", "b", "c"], num_replicas=1, rank=0)
    with pytest.raises(errors.CallerError, match="budget=0"):
        TokenBudgetBatchSampler([1, 1], 0, num_replicas=1, rank=0)
