# SPDX-License-Identifier: Apache-2.0
"""Journals that were changed: stoker-sim replays what is left of one, or says in one line what is wrong. It never crashes."""

import pathlib
import random

from test_sim import SCENARIOS, sim, sim_program  # noqa: F401


def mutate(rng, data):
    """A few bytes changed, taken out, repeated or cut off; most in the middle, where steps are."""
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(data))
        size = rng.choice((1, 2, 4, 8, 64))
        how = rng.randrange(5)
        if how == 0:
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:]
        elif how == 1:
            data = data[:at] + rng.choice((b"\0", b"\xff", b"\x7f")) * size + data[at + size:]
        elif how == 2:
            data = data[:at] + data[at + size:] or b"\0"
        elif how == 3:
            data = data[:at] + data[at:at + size] + data[at:]
        else:
            data = data[:at] or b"\0"
    return data


def test_a_mutated_journal_is_replayed_or_refused_in_one_line(sim, tmp_path):  # noqa: F811
    assert sim("run", SCENARIOS / "dead-server.json", "--journal", "events").returncode == 0
    whole = (tmp_path / "events").read_bytes()
    whole = whole[: 64 << 10]  # its first steps: a replay is short
    rng = random.Random(11)
    codes = set()
    for _ in range(150):
        pathlib.Path(tmp_path / "mutated").write_bytes(mutate(rng, whole))
        done = sim("replay", "mutated")
        assert done.returncode in (0, 1, 3, 4), (done.returncode, done.stderr)
        assert done.stderr.count("\n") <= 1 and (done.stderr or done.returncode in (0, 1)), done.stderr
        codes.add(done.returncode)
    assert len(codes) > 1
