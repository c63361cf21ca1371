# SPDX-License-Identifier: Apache-2.0
"""Packing over real processes with gloo: Megatron-LM's golden answers, every kind of parallelism, and failures."""

import json
import os

import pytest
import support

pytest.importorskip("stoker.packing")

RANK = """
    import sys
    sys.path.insert(0, {folder!r})
    import packing_ranks
    packing_ranks.main(sys.argv[1])
"""


def run(runtime, count, part):
    text = RANK.format(folder=os.path.dirname(__file__))
    ranks = runtime.launch_ranks(count, text, part, environment={"OMP_NUM_THREADS": "1"})
    outputs = {support.finish_well(rank, 120).strip().splitlines()[-1] for rank in ranks}
    assert len(outputs) == 1
    return json.loads(outputs.pop())


@pytest.mark.parametrize("count, cases", [(2, 1 + 1), (4, 2 + 2)])
def test_golden_routes_between_real_processes(runtime, count, cases):
    done = run(runtime, count, "golden")
    assert len(done) == cases, done


def test_every_rank_of_every_layout_gets_its_part(runtime):
    assert run(runtime, 4, "layouts") == ["layouts", "lengths_above_2_to_24_reach_the_middle_exactly"]


def test_no_rank_is_left_waiting_for_one_that_failed(runtime):
    done = run(runtime, 4, "failures")
    assert len(done) == 13, done
