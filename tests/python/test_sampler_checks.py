# SPDX-License-Identifier: Apache-2.0
"""Samplers refuse by name what cannot be meant: arguments and states. No number is cut to another one."""

import copy
import json
import random

import numpy
import pytest
import torch

from stoker import errors
from stoker.samplers import TokenAwareBatchSampler, TokenBudgetBatchSampler

TOKENS = [100 + i % 37 for i in range(600)]


def aware(tokens=TOKENS, batch_size=4, **options):
    return TokenAwareBatchSampler(tokens, batch_size, **{"num_replicas": 2, "rank": 0, **options})


def budget(tokens=TOKENS, size=1000, **options):
    return TokenBudgetBatchSampler(tokens, size, **{"num_replicas": 2, "rank": 0, **options})


# ---- windows that nobody asked for


@pytest.mark.parametrize("tokens, size, ranks", [([16] * 10000, 8192, 128), ([100] * 17, 10**6, 8), ([1] * 50, 2**32 - 1, 65536)])
def test_the_default_window_is_no_more_than_the_epoch_or_the_limit(tokens, size, ranks):
    sampler = budget(tokens, size, num_replicas=ranks)
    ids = [i for step in sampler.global_steps() for cells in step for cell in cells for i in cell]
    assert sorted(ids) == list(range(len(tokens)))


def test_the_default_window_ends_at_the_limit():
    sampler = budget([16] * 100, 8192, num_replicas=128, samples=10**8, weights=[1.0])
    assert sampler.state_dict()["window_samples"] == 1 << 22


def test_a_short_epoch_has_the_plan_of_a_longer_window():
    assert list(aware(TOKENS[:40])) == list(aware(TOKENS[:40], window_samples=1024))
    assert list(budget(TOKENS[:40])) == list(budget(TOKENS[:40], window_samples=1024))


# ---- arguments


@pytest.mark.parametrize("make, options, name", [
    *[(aware, {"window_samples": value}, "window_samples") for value in (2**32 + 64, 10**12, -5, 1.5, "64", 10**5000)],
    *[(aware, {"attention": value}, "attention") for value in (-5, 0.5, 10**30, 2**64 + 1, "x")],
    *[(aware, {"batch_size": value}, "batch_size") for value in (1.5, "2", None, 0, -1, 2**32 + 1)],
    *[(aware, {"seed": value}, "seed") for value in ("x", 0.5, None, 2**64, -(2**63) - 1)],
    *[(aware, {"samples": value}, "samples") for value in (0, -1, 1.5, 2**32 + 1)],
    *[(aware, {"window_steps": value}, "window_steps") for value in (7, 8.5, 10**12, "8")],
    *[(aware, {"num_replicas": value}, "num_replicas") for value in (0, 1.5, "2", 2**32 + 1)],
    *[(aware, {"rank": value}, "rank") for value in (-1, 0.5, 2, "0")],
    *[(aware, {"weights": value}, "weight") for value in (1.0, ["x"], [float("nan")], [-1.0], [1.0, 1.0], [10**400])],
    *[(aware, {"tokens": value}, "tokens") for value in ([], [[], []], None, 7, ["a"], [[1], 2], [[1, 2], [[1], [2, 3]]], [2**32], [-1])],
    *[(aware, {"shapes": value}, "shapes") for value in (7, [1], [{}] * 600)],
    *[(budget, {"max_samples": value}, "max_samples") for value in (2**32 + 1, -3, 0.5, "2")],
    *[(budget, {"size": value}, "budget") for value in (2**32 + 5, -3, 0.5, "2", None)],
    *[(budget, {"micro_batches": value}, "micro_batches") for value in (2**32 + 1, 0, -3, 1.5, "2")],
])
def test_an_argument_that_cannot_be_is_refused_by_name(make, options, name):
    with pytest.raises(errors.CallerError, match=name):
        make(**options)


def test_no_samples_are_told_as_such():
    for tokens in ([], numpy.zeros(0), torch.zeros(0, dtype=torch.int64)):
        with pytest.raises(errors.CallerError, match="no samples"):
            aware(tokens)


def test_what_the_planner_has_no_room_for_is_the_callers():
    with pytest.raises(errors.CallerError, match="65536"):
        aware([1] * 70000, shapes=list(range(70000)))
    with pytest.raises(errors.CallerError, match="a step has at most"):
        aware(num_replicas=65536, batch_size=17)


def test_whole_numbers_of_other_libraries_are_taken():
    mine = aware(batch_size=numpy.int64(4), seed=torch.tensor(3), attention=numpy.uint32(50), window_samples=torch.tensor(64))
    assert list(mine) == list(aware(seed=3, attention=50, window_samples=64))
    assert list(aware(seed=-1)) == list(aware(seed=2**64 - 1))
    json.dumps(mine.state_dict())


def test_epochs_and_batches_are_whole_numbers():
    sampler = aware()
    for epoch in (-1, 0.5, 2**64, "1", None):
        with pytest.raises(errors.CallerError, match="epoch"):
            sampler.set_epoch(epoch)
    list(sampler)
    for batches in (-1, 1.5, "1", 10**6):
        with pytest.raises(errors.CallerError, match="batches"):
            sampler.state_dict(batches=batches)


# ---- states


FORMS = {
    "aware": lambda: aware(window_samples=64),
    "weighted": lambda: aware([TOKENS, TOKENS[:30]], window_samples=64, weights=[0.5, 0.5]),
    "budget": lambda: budget(window_samples=64, max_samples=4, micro_batches=2),
}


def states(form):
    """States of the start, the middle of a window, and the end."""
    sampler = FORMS[form]()
    made = [sampler.state_dict()]
    batches = len(list(sampler))
    for part in (0.3, 0.6, 1):
        used = int(batches * part)
        made.append(sampler.state_dict(batches=used - used % 2 if form == "budget" else used))
    return made


@pytest.mark.parametrize("form", FORMS)
def test_every_state_that_was_saved_passes(form):
    sampler = FORMS[form]()
    whole = list(sampler)
    step = 2 if form == "budget" else 1
    for used in range(0, len(whole) + 1, step):
        state = sampler.state_dict(batches=used)
        other = FORMS[form]()
        other.load_state_dict(json.loads(json.dumps(state)))
        assert other.state_dict() == state
        assert list(other) == whole[used:]


# What the text names where it is not the field alone: a short pool leaves no room for the places and steps of it.
WORDS = {"version": "no state of a", "kind": "no state of a", "pool": "pool|used|steps"}
WRONG = {
    "version": [None, 1, 2.5, "2", [2], numpy.zeros(2)],
    "kind": [None, "other", 3, ["token_aware"], numpy.zeros(2)],
    "seed": [None, 1, "0", [0], numpy.zeros(2)],
    "epoch": [None, -1, 0.5, 2**64, "0", [0]],
    "length": [None, 1, "x"],
    "digest": [None, "x", 3],
    "ranks": [None, 0, -1, 2**32 + 2, 0.5, "2", []],
    "cells": [None, 0, -1, 2**32 + 4, 0.5, "4", []],
    "window_samples": [None, 0, -1, 63, 2**32 + 64, 10**12, 0.5, "64", []],
    "windows": [None, -1, 10**6, 2**32, 2**64, 0.5, "1", []],
    "samples": [None, -1, 1, 10**12, 0.5, "1", []],
    "pool": [None, [], 3, "x", [-1], [600], [2**32], [0.5], ["a"], [[1]], [3, 3], [1] * 700],
    "used": [None, 3, "x", [0] * 5, [-1], [10**6], [0.5], [[1]], list(range(64))],
    "steps": [None, -1, 0, 10**9, 2**32, 0.5, "1", []],
    "recipe": [None, [], {}, 3, "x", [3], [{}], [{"window": 0, "sample": 0}],
               [{"window": 1, "sample": 64, "weights": None}], [{"window": 0, "sample": 5, "weights": None}],
               [{"window": 0, "sample": 0, "weights": [1.0]}], [{"window": 0, "sample": 0, "weights": ["x", 1.0]}],
               [{"window": 0, "sample": 0, "weights": [float("nan"), 1.0]}],
               [{"window": 0, "sample": 0, "weights": [1.0, 1.0]}, {"window": 0, "sample": 0, "weights": None}],
               [{"window": 0, "sample": 0, "weights": None}, {"window": 10**6, "sample": 600, "weights": None}]],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WRONG)
def test_a_state_with_a_field_that_cannot_be_is_refused_by_name(form, name):
    state = states(form)[1]
    for value in WRONG[name]:
        sampler = FORMS[form]()
        before = sampler.state_dict()
        with pytest.raises(errors.CallerError, match=WORDS.get(name, name)):
            sampler.load_state_dict({**state, name: value})
        assert sampler.state_dict() == before and list(sampler) == list(FORMS[form]())  # as if it had not been
    del state[name]
    with pytest.raises(errors.CallerError, match=WORDS.get(name, name)):
        FORMS[form]().load_state_dict(state)


@pytest.mark.parametrize("state", [None, 3, "x", [], {}, {"version": 2}, {"version": 2, "kind": "token_aware"}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(errors.CallerError, match="state"):
        aware().load_state_dict(state)


def test_a_pool_of_other_samples_is_refused_before_a_batch_is_given():
    state = states("budget")[1]
    free = sorted(set(range(len(state["pool"]))) - set(state["used"]))
    state["used"] = sorted([*state["used"][1:], free[0]])
    sampler = FORMS["budget"]()
    sampler.load_state_dict(state)
    with pytest.raises(errors.CallerError, match="'used' of the state"):
        next(iter(sampler))


@pytest.mark.parametrize("form", FORMS)
def test_mutated_states_are_refused_or_give_ids_that_there_are(form):
    rng = random.Random(5)
    originals = states(form)
    values = [None, -1, 0, 1, 2, 7, 63, 64, 65, 128, 600, 2**31, 2**32, 2**63, 2**64, 0.5, "x", [], {}, [0], [1, 2, 3], True]
    total = sum(map(len, FORMS[form]()._tokens))
    refused = 0
    for _ in range(300):
        state = copy.deepcopy(rng.choice(originals))
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice(list(state))
            spot = state[name]
            if isinstance(spot, list) and spot and rng.random() < 0.7:
                spot[rng.randrange(len(spot))] = rng.choice(values)
            else:
                state[name] = rng.choice(values)
        sampler = FORMS[form]()
        try:
            sampler.load_state_dict(state)
            batches = list(sampler)
        except errors.CallerError:
            refused += 1
            continue
        assert all(0 <= i < total for batch in batches for i in batch)
    assert 150 < refused < 300


@pytest.mark.parametrize("batch_size", [1, 4])
def test_b8_epochs_after_a_resume_on_many_more_ranks(batch_size):
    few = aware(batch_size=batch_size, num_replicas=1)
    iterator = iter(few)
    for _ in range(3):
        next(iterator)
    state = few.state_dict(batches=3)
    many = [aware(batch_size=batch_size, num_replicas=32, rank=rank) for rank in range(32)]
    for sampler in many:
        sampler.load_state_dict(state)
        list(sampler)
        sampler.set_epoch(1)
        assert len(sampler) == len(list(sampler))
