# SPDX-License-Identifier: Apache-2.0
"""The benchmark of ranks that wait for one another runs what it says, and the journal of its engine replays."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import support

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import schedule  # noqa: E402
import schedule_rank  # noqa: E402

STEPS = 12


def small_cell():
    cell = schedule.make_cell("kinetics-mixed/videomae", 2, STEPS)
    return dict(cell, window_s=0.002, load=0.2)  # times do not matter here


@pytest.mark.limit(400)
@pytest.mark.parametrize("contender", ["stoker", "stoker-routing"])
def test_a_contender_runs_with_its_policy_and_its_journal_replays(tmp_path, contender):
    cell = small_cell()
    group = schedule.Group(contender, 2, tmp_path)
    try:
        group.ask(do="open", cell=dict(cell, contender=contender, setting=schedule.our_setting(contender, cell)))
        run = schedule.run_epoch(group, cell, 1, {})
        told = group.ask(do="status")
        group.close()
    except BaseException:
        group.kill()
        raise
    assert run["samples"] == 2 * STEPS * schedule.BATCH and len(run["waits"]) == 2 * STEPS
    requests = 2 * (schedule.WARM + STEPS) * (schedule.BATCH if contender == "stoker" else 1)  # rounds ask sample by sample
    for rank in told:
        assert rank["engine"]["policy"] == schedule.POLICY[contender]
        assert rank["engine"]["placed"] == sum(rank["engine"]["reasons"].values()) == requests
        assert rank["loader"]["window_s"] > 0  # learned from the steps: what deadlines are made of
        assert rank["loader"]["costs_learned"] > 0
    support.wait_until(lambda: not schedule.harness.group_pids(group.group), 60, "the DataServer to end")
    program = os.environ.get("STOKER_SIM_PROGRAM") or shutil.which("stoker-sim")
    assert program, "the stoker-sim program is not on PATH (./dev run puts it there)"
    journal = tmp_path / f"{contender}-2.journal"
    done = subprocess.run([program, "replay", journal, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    replayed = json.loads(done.stdout)
    assert replayed["same"] and replayed["placed"] == requests
    assert replayed["deadlines"] > 0  # and they moved while the pace of the ranks was learned


def test_every_plan_gives_every_sample_once():
    cell = small_cell()
    forms, tokens, costs, predicted = schedule_rank.workload(cell)
    assert (forms, tokens, costs, predicted) == schedule_rank.workload(cell)
    assert len(costs) == cell["samples"] and len(set(tokens)) == 3
    # All workers together are busy for `load` of the mean window.
    assert sum(costs) / len(costs) * cell["batch"] / cell["workers"] == pytest.approx(cell["load"] * cell["window_s"])


def told(misses, wait_p95_s):
    return dict(misses=misses, wait_p95_s=wait_p95_s)


def against(ratio, misses, wait_s):
    one = dict(throughput=(ratio,) * 3, misses=(misses,) * 3, wait_p95_s=(wait_s,) * 3)
    return {"stoker-routing": one, "torch": one}


@pytest.mark.parametrize("ours, best, ratio, misses, wait_s, not_worse, asked, passed", [
    (0.01, 0.02, 1.0, -0.01, 0.0, True, False, True),
    (0.01, 0.02, 0.97, -0.01, 0.0, False, False, False),  # slower by more than 2 %
    (0.05, 0.02, 1.0, 0.03, 0.0, False, False, False),  # misses 3 points more
    (0.03, 0.02, 1.0, 0.01, 0.009, True, False, True),  # within 2 points and 10 ms
    (0.01, 0.02, 1.0, 0.0, 0.011, False, False, False),
    (0.04, 0.10, 1.0, -0.06, -0.1, True, True, True),
    (0.10, 0.10, 1.0, 0.0, 0.0, True, True, False),  # the best baseline misses often, and we are no better
])
def test_verdict(ours, best, ratio, misses, wait_s, not_worse, asked, passed):
    each = {"stoker": told(ours, 0.1 + wait_s), "stoker-routing": told(best, 0.1), "torch": told(best + 0.1, 0.2)}
    verdict = schedule.judge(each, against(ratio, misses, wait_s))
    assert (verdict["not_worse"], verdict["better_asked"], verdict["passed"]) == (not_worse, asked, passed)
