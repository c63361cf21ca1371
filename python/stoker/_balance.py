# SPDX-License-Identifier: Apache-2.0
"""Policies of tier 2: which rank gets each sample of a round, from small features of the samples.

The features of a round are a list of dicts of numbers in (rank, local order); each has ``"rank"``, the rank that made the
sample, besides what ``feature_fn`` returned. A policy returns each sample's rank, in the same order.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Mapping

from . import _core, errors

__all__ = ["Config", "keep_current_assignment", "projected_gain", "rebalance_assignment"]

_KEYS = ("feature_fn", "sort_fn", "client_ranks", "buffer_size", "args")
_SCALE = 1 << 32  # of the largest cost of a round, where costs are no whole numbers
_COST_MAX = 1 << 40


def cost(features: Mapping) -> float:
    """What a sample costs its rank: ``"cost"``, else ``"tokens"``, else the only number that there is."""
    for name in ("cost", "tokens"):
        if name in features:
            break
    else:
        names = [name for name in features if name != "rank"]
        if len(names) != 1:
            raise errors.CallerError(
                f"the features {sorted(features)} name no cost: feature_fn must return 'cost', 'tokens' or a single number"
            )
        name = names[0]
    value = features[name]
    if not (isinstance(value, (int, float)) and 0 <= value <= sys.float_info.max):
        raise errors.CallerError(
            f"the feature {errors.show(name)} of feature_fn is {errors.show(value)}: a cost is a finite number of 0 or more"
        )
    return value


def _round(features):
    """(ranks in the order of their first sample, owners numbered by them, costs as whole numbers, unit)"""
    ranks, owners, costs = [], [], []
    numbers: dict = {}
    for sample in features:
        rank = sample["rank"]
        if rank not in numbers:
            numbers[rank] = len(ranks)
            ranks.append(rank)
        owners.append(numbers[rank])
        costs.append(cost(sample))
    unit = 1.0
    largest = max(costs, default=0)
    if largest > _COST_MAX or any(type(value) is not int for value in costs):
        unit = largest / _SCALE or 1.0
        costs = [round(value / unit) for value in costs]
    return ranks, owners, costs, unit


def projected_gain(features) -> float:
    """By what share the load of the slowest rank falls if the round is rebalanced: 0 (not at all) to below 1."""
    ranks, owners, costs, _ = _round(features)
    if not ranks:
        return 0.0
    before = _core.balance_load(len(ranks), owners, costs)
    proposed = _core.balance_propose(len(ranks), owners, costs)
    after = _core.balance_load(len(ranks), owners, costs, proposed)
    return 1.0 - after / before if before else 0.0


def keep_current_assignment(features) -> list[int]:
    """Each sample stays at the rank that made it."""
    return [sample["rank"] for sample in features]


def rebalance_assignment(features) -> list[int]:
    """Near-equal loads, each rank with as many samples as it has; never a larger load of the slowest rank."""
    return _propose(features, 0.0, 0.0)


def gated_assignment(features, args) -> list[int]:
    """The built-in policy: rebalance, unless the gain is below ``args.min_gain`` (a share) or the slowest rank saves no more
    than ``args.transfer_cost`` (in the unit of the costs) for each sample that a rank receives."""
    min_gain = _number(args, "min_gain", 1.0)
    transfer_cost = _number(args, "transfer_cost", sys.float_info.max)
    if projected_gain(features) < min_gain:
        return keep_current_assignment(features)
    return _propose(features, min_gain, transfer_cost)


def _propose(features, min_gain, transfer_cost):
    ranks, owners, costs, unit = _round(features)
    if not ranks:
        return []
    price = math.ceil(min(_COST_MAX, transfer_cost / unit))
    made = _core.balance_propose(len(ranks), owners, costs, price, min(1000000, math.floor(min_gain * 1e6)))
    return [ranks[number] for number in made]


def _number(args, name: str, most: float) -> float:
    value = option(args, name, 0.0)
    try:
        number = -1.0 if isinstance(value, (str, bytes)) else float(value)
    except Exception:  # no number, or one that no float holds
        number = -1.0
    if not 0 <= number <= most:
        expected = "a share of 1" if most == 1 else "a finite cost of 0 or more"
        raise errors.CallerError(f"{name}={errors.show(value)} in 'args' of load_balance_config, expected {expected}")
    return number


def option(args, name, default):
    """``args.name`` or ``args["name"]``; the default if there is none."""
    value = args.get(name) if isinstance(args, Mapping) else getattr(args, name, None)
    return default if value is None else value


class Config:
    """A checked ``load_balance_config``."""

    def __init__(self, given, rank: int, world: int) -> None:
        if not isinstance(given, Mapping):
            raise errors.CallerError(f"load_balance_config is a {type(given).__name__}, a dict was expected")
        unknown = sorted(set(given) - set(_KEYS))
        if unknown:
            raise errors.CallerError(f"load_balance_config has {unknown}, expected some of {list(_KEYS)}")
        self.feature_fn = given.get("feature_fn")
        self.sort_fn = given.get("sort_fn")
        self.args = given.get("args") if given.get("args") is not None else {}
        if not callable(self.feature_fn):
            raise errors.CallerError("load_balance_config needs 'feature_fn', a function of a sample")
        if self.sort_fn is not None and not callable(self.sort_fn):
            raise errors.CallerError("'sort_fn' of load_balance_config is no function of (features, args)")
        self.buffer_size = _whole("buffer_size", given.get("buffer_size", 64))
        lists = given.get("client_ranks")
        self.members = _members([range(world)] if lists is None else lists, rank, world)


def _whole(name, value) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise errors.CallerError(f"{name!r} of load_balance_config is {value!r}, a whole number above 0 was expected")
    return number


def _members(lists, rank, world) -> list[int]:
    """The list that this rank is in; a rank in none exchanges with nobody."""
    seen: dict = {}
    try:
        lists = [[operator.index(member) for member in members] for members in lists]
    except TypeError:
        raise errors.CallerError(f"'client_ranks' is {lists!r}, expected lists of ranks") from None
    for members in lists:
        for member in members:
            if not 0 <= member < world:
                raise errors.CallerError(f"'client_ranks' names rank {member}, there are {world}")
            if member in seen:
                raise errors.CallerError(f"'client_ranks' names rank {member} twice: the lists must be disjoint")
            seen[member] = members
    return list(seen.get(rank, [rank]))


def call(name: str, function, *arguments):
    """What a user's function gives; a StopIteration of it would end the epoch without a word."""
    try:
        return function(*arguments)
    except StopIteration as error:
        raise errors.CallerError(f"{name} raised {errors.describe(error)}") from error


def features_of(feature_fn, sample) -> dict:
    """What ``feature_fn`` says of a sample, as plain numbers."""
    made = call("feature_fn", feature_fn, sample)
    if not isinstance(made, Mapping):
        raise errors.CallerError(f"feature_fn returned a {type(made).__name__}, expected a dict of numbers")
    numbers = {}
    for name, value in made.items():
        if hasattr(value, "item"):
            try:
                value = value.item()  # of an array or tensor with one element
            except Exception:  # it has more, or none
                pass
        number = isinstance(value, float) or (isinstance(value, (bool, int)) and abs(value) <= sys.float_info.max)
        if not isinstance(name, str) or name == "rank" or not number:
            raise errors.CallerError(
                f"feature_fn returned {errors.show(name)}: {errors.show(value)}; expected names other than 'rank', and numbers"
                " that a float holds"
            )
        numbers[name] = value
    return numbers


def check_assignment(assignment, owners, batches: Mapping) -> list[int]:
    """A policy's result as a list of ranks. ``batches`` says how many batches each rank makes of the round."""
    try:
        made = [operator.index(rank) for rank in assignment]
    except TypeError:
        raise errors.CallerError(f"sort_fn returned {assignment!r}, expected a rank for each sample") from None
    if len(made) != len(owners):
        raise errors.CallerError(f"sort_fn returned {len(made)} ranks for {len(owners)} samples")
    counts = dict.fromkeys(batches, 0)
    for number, rank in enumerate(made):
        if rank not in counts:
            raise errors.CallerError(f"sort_fn gave sample {number} to rank {rank}, which is none of {list(batches)}")
        counts[rank] += 1
    for rank, count in counts.items():
        if count < batches[rank] or (count and not batches[rank]):
            raise errors.CallerError(
                f"sort_fn gave {count} samples to rank {rank}, which makes {batches[rank]} batches of this round"
            )
    return made
