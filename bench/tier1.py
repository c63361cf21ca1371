# SPDX-License-Identifier: Apache-2.0
"""./dev bench tier1: how long ranks wait for one another, planned by tokens and at random.

A step takes as long as its most loaded rank; the figure is the sum over the steps of a window of the largest load, divided by
that of the mean load, averaged over the windows of an epoch. Beside it "least", below which no plan of the window can be: the
step of the dearest sample takes as long as that sample and the lightest beside it, and the other ranks of that step cannot
have more than the next dearest samples. And the same samples in the order of a seeded shuffle. No clock but for the cost of
planning; seeds 1 to 5.
"""

import argparse
import json
import random
import sys
import time

import numpy
from stoker.samplers import TokenAwareBatchSampler, TokenBudgetBatchSampler

SAMPLES = 40000
FORMS = [1568, 7056, 25088]  # tubelet encoder: 16 frames of 224, 32 of 336, 64 of 448
PASS_MARK = 1.05


def workload(name, rng):
    """(shapes or None, tokens) of SAMPLES samples."""
    if name == "small/mid/large":
        shapes = [rng.randrange(3) for _ in range(SAMPLES)]
        return shapes, [FORMS[shape] for shape in shapes]
    if name == "few large":
        shapes = rng.choices(range(3), [70, 25, 5], k=SAMPLES)
        return shapes, [FORMS[shape] for shape in shapes]
    if name == "vision-language":  # frames by rate, side by aspect: tokens 200 to 20,000
        shapes = [(rng.randrange(2, 33), rng.randrange(6, 26)) for _ in range(SAMPLES)]
        return shapes, [frames * side * side for frames, side in shapes]
    if name == "text":
        return None, [min(32768, max(16, int(rng.lognormvariate(6.5, 1.0)))) for _ in range(SAMPLES)]
    raise ValueError(name)


def plans_of(sampler):
    """The windows of an epoch; its end, when it has less than 8 steps, is none."""
    planner = sampler._planner(0, None, 0)
    while (plan := planner.next()) is not None:
        if len(plan["step_cells"]) // 4 > 8:
            yield plan


def measure(plans, tokens, ranks):
    """(wait, least possible wait) of each plan"""
    loads = [numpy.frombuffer(plan["loads"], numpy.uint64).reshape(-1, ranks).astype(float) for plan in plans]
    return [wait(one) for one in loads], [least_wait(plan, numpy.asarray(tokens, float), ranks) for plan in plans]


def least_wait(plan, tokens, ranks):
    """What a fixed count per rank leaves possible; under a budget a micro-batch may hold any number of samples: 1."""
    def words(name):
        return numpy.frombuffer(plan[name], numpy.uint32)

    if (numpy.diff(words("cell_places")) != 1).any():
        return 1.0
    loads = numpy.sort(tokens[words("pool")[words("places") % len(words("pool"))]])[::-1]
    cells = numpy.diff(words("step_cells")) // ranks
    peak = loads[0] + loads[len(loads) - cells.min() + 1:].sum()
    waited = (ranks - 1) * peak - loads[1 : 1 + (ranks - 1) * cells.max()].sum()
    return 1 + max(0.0, waited) / loads.sum()


def wait(loads):
    return loads.max(axis=1).sum() / loads.mean(axis=1).sum()


def random_wait(tokens, ranks, batch, seed):
    order = numpy.random.default_rng(seed).permutation(len(tokens))
    steps = len(tokens) // (ranks * batch)
    loads = numpy.asarray(tokens, float)[order[: steps * ranks * batch]].reshape(steps, batch, ranks).sum(axis=1)
    return wait(loads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object on stdout instead of the table")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    rows = []
    for name in ("small/mid/large", "few large", "vision-language", "text"):
        for ranks, batch in ((2, 4), (8, 2), (8, 4), (8, 8), (64, 4)):
            planned, least, chance, seconds = [], [], [], 0.0
            for seed in range(1, args.seeds + 1):
                shapes, tokens = workload(name, random.Random(seed))
                sampler = TokenAwareBatchSampler(tokens, batch, shapes=shapes, num_replicas=ranks, rank=0, seed=seed,
                                                 drop_last=True)
                start = time.process_time()
                plans = list(plans_of(sampler))
                seconds += time.process_time() - start
                for figures, more in zip((planned, least), measure(plans, tokens, ranks)):
                    figures += more
                chance.append(random_wait(tokens, ranks, batch, seed))
            rows.append(dict(plan="fixed count", workload=name, ranks=ranks, batch=batch, windows=len(planned),
                             planned=round(float(numpy.mean(planned)), 4), least=round(float(numpy.mean(least)), 4),
                             worst_window=round(max(planned), 4),
                             random=round(float(numpy.mean(chance)), 4),
                             us_a_sample=round(seconds / args.seeds / SAMPLES * 1e6, 2)))
    for ranks, micro in ((8, 1), (8, 4)):
        planned, least, seconds = [], [], 0.0
        for seed in range(1, args.seeds + 1):
            shapes, tokens = workload("text", random.Random(seed))
            sampler = TokenBudgetBatchSampler(tokens, 32768, micro_batches=micro, num_replicas=ranks, rank=0, seed=seed)
            start = time.process_time()
            plans = list(plans_of(sampler))
            seconds += time.process_time() - start
            for figures, more in zip((planned, least), measure(plans, tokens, ranks)):
                figures += more
        rows.append(dict(plan="budget 32768", workload="text", ranks=ranks, batch=micro, windows=len(planned),
                         planned=round(float(numpy.mean(planned)), 4), least=round(float(numpy.mean(least)), 4),
                         worst_window=round(max(planned), 4), random=None,
                         us_a_sample=round(seconds / args.seeds / SAMPLES * 1e6, 2)))
    if args.json:
        print(json.dumps(dict(schema="stoker.bench.tier1/1", pass_mark=PASS_MARK, rows=rows)))
    else:
        print(f"{'plan':13} {'workload':16} {'ranks':>5} {'batch':>5} {'planned':>8} {'least':>7} "
              f"{'worst window':>12} {'random':>7} {'us/sample':>9}   pass mark {PASS_MARK}")
        for row in rows:
            print(f"{row['plan']:13} {row['workload']:16} {row['ranks']:5} {row['batch']:5} {row['planned']:8.4f} "
                  f"{row['least']:7.4f} "
                  f"{row['worst_window']:12.4f} {row['random'] or '':>7} {row['us_a_sample']:9.2f}   "
                  f"{'ok' if row['planned'] <= PASS_MARK else 'MISSED'}")
    return 0 if all(row["planned"] <= PASS_MARK for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
