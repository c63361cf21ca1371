# SPDX-License-Identifier: Apache-2.0
"""stoker-sim: scenarios, the published study, journals, and what is refused."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SCENARIOS = pathlib.Path(__file__).resolve().parent.parent.parent / "sim" / "scenarios"
RUN_COLUMNS = ["scenario", "system", "samples_per_s", "share_of_ideal", "miss", "wait_p50_s", "wait_p95_s", "wait_mean_s",
               "ready_p95_s", "cross_host_gb", "remote", "copies", "cpu_s_sample"]
SUMMARY = {
    "reproduction": ["throughput_ratio_rank_local", "throughput_ratio_actor_pool", "throughput_ratio_published",
                     "miss_reduction", "p95_wait_reduction", "workloads_p95_above_actor_pool"],
    "fair": ["share_of_ideal_geomean", "share_of_ideal_min", "workloads_below_a_baseline"],
}


@pytest.fixture(scope="session")
def sim_program():
    found = os.environ.get("STOKER_SIM_PROGRAM") or shutil.which("stoker-sim")
    assert found, "the stoker-sim program is not on PATH (./dev run puts it there)"
    return found


@pytest.fixture
def sim(sim_program, tmp_path):
    def call(*arguments):
        return subprocess.run([sim_program, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True,
                              timeout=240, stdin=subprocess.DEVNULL)

    return call


def result(done):
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def scenario(tmp_path, **changes):
    whole = {"steps": 10, "warmup": 2, "machines": {"ranks": 2, "remote": 1}, "systems": [{"name": "stoker"}], **changes}
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(whole))
    return path


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.json")), ids=lambda path: path.stem)
def test_shipped_scenarios_run_and_repeat(sim, path):
    first = result(sim("run", path, "--seed", 7, "--json"))
    assert first["schema"] == "stoker.sim.run/1" and first["simulated"] is True
    assert [entry["system"] for entry in first["runs"]] == [entry["name"] for entry in
                                                             json.loads(path.read_text())["systems"]]
    for row in first["runs"]:
        assert list(row) == RUN_COLUMNS
        assert 0 < row["share_of_ideal"] <= 1 and 0 <= row["miss"] <= 1 and row["samples_per_s"] > 0
    assert result(sim("run", path, "--seed", 7, "--json")) == first
    other = result(sim("run", path, "--seed", 8, "--json"))
    assert [entry["digest"] for entry in other["digests"]] != [entry["digest"] for entry in first["digests"]]


def test_one_host_sends_nothing_to_others(sim):
    for row in result(sim("run", SCENARIOS / "one-host.json", "--json"))["runs"]:
        assert row["cross_host_gb"] == 0 and row["remote"] == 0


def test_the_how_to_runs_as_written(sim, tmp_path):
    page = (SCENARIOS.parent.parent / "docs" / "how-to" / "simulate.md").read_text()
    [world] = re.findall(r"```json\n(.*?)```", page, re.S)
    (tmp_path / "two-hosts.json").write_text(world)
    commands = re.findall(r"^ +stoker-sim (.*)$", page, re.M)
    assert len(commands) == 4
    for command in commands:
        done = sim(*command.replace("PATH_OF_THIS_REPOSITORY", str(SCENARIOS.parent.parent)).split())
        assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("same actions\n")


def test_compare_puts_scenarios_in_one_table(sim):
    rows = result(sim("compare", SCENARIOS / "one-host.json", SCENARIOS / "dead-server.json", "--seeds", 2, "--json"))["runs"]
    assert {row["scenario"] for row in rows} == {"one-host", "dead-server"}
    text = sim("compare", SCENARIOS / "one-host.json", "--seeds", 2)
    assert text.returncode == 0 and text.stdout.startswith("Simulated") and "stoker" in text.stdout


def test_a_journal_of_a_run_replays_to_the_same_actions(sim, tmp_path):
    assert sim("run", SCENARIOS / "dead-server.json", "--journal", "events").returncode == 0
    report = result(sim("replay", "events", "--json"))
    assert report["schema"] == "stoker.sim.replay/1" and report["same"] is True
    assert report["placed"] > 100 and report["steps"] > 500 and report["events"] >= report["steps"]
    text = sim("replay", "events")
    assert text.returncode == 0 and text.stdout.endswith("same actions\n")
    # A flipped bit is found, or makes the record unreadable, unless it lies in what changed no action.
    found = 0
    data = bytearray((tmp_path / "events").read_bytes())
    for place in range(1000, len(data), len(data) // 20):
        changed = bytearray(data)
        changed[place] ^= 0x10
        (tmp_path / "changed").write_bytes(changed)
        done = sim("replay", "changed", "--json")
        assert done.returncode in (0, 1, 3, 4), done.stderr
        found += done.returncode != 0
        if done.returncode == 1:
            assert json.loads(done.stdout)["same"] is False
    assert found >= 10


def test_a_record_that_is_cut_off_replays_up_to_there(sim, tmp_path):
    assert sim("run", SCENARIOS / "dead-server.json", "--journal", "events").returncode == 0
    whole = result(sim("replay", "events", "--json"))
    data = (tmp_path / "events").read_bytes()
    assert whole["end"] == "closed" and whole["bytes"] == whole["whole_bytes"] == len(data)
    (tmp_path / "cut").write_bytes(data[:len(data) * 2 // 3])
    done = sim("replay", "cut", "--json")
    cut = json.loads(done.stdout)
    assert done.returncode == 3 and cut["same"] is True and 0 < cut["steps"] < whole["steps"]
    assert cut["end"] == "inside-record" and cut["whole_bytes"] < cut["bytes"] == len(data) * 2 // 3
    assert f"ends in the middle of a record at byte {cut['bytes']}, after {cut['steps']} steps" in done.stderr
    assert sim("replay", "cut").stdout.endswith("same actions, as far as the record goes\n")
    (tmp_path / "cut").write_bytes(data[:-1])  # in the end mark itself
    assert json.loads(sim("replay", "cut", "--json").stdout)["end"] == "inside-record"
    (tmp_path / "cut").write_bytes(data[:-2])  # between two records: all steps are there, but not the end
    done = sim("replay", "cut", "--json")
    cut = json.loads(done.stdout)
    assert done.returncode == 3 and cut["end"] == "no-mark" and cut["steps"] == whole["steps"]
    assert f"ends without an end mark at byte {len(data) - 2}" in done.stderr and done.stderr.count("\n") == 1


def test_a_journal_is_no_scenario(sim, tmp_path):
    text = (SCENARIOS / "dead-server.json").read_bytes()
    (tmp_path / "sc.json").write_bytes(text)
    os.link(tmp_path / "sc.json", tmp_path / "link.json")
    (tmp_path / "symlink.json").symlink_to("sc.json")
    for journal in ("sc.json", "./sc.json", "link.json", "symlink.json"):
        done = sim("run", "sc.json", "--journal", journal)
        assert done.returncode == 2 and f"'{journal}' is the scenario itself" in done.stderr, done.stderr
    assert (tmp_path / "sc.json").read_bytes() == text


@pytest.mark.parametrize("changes, expected", [
    ({"ghost": 1}, "scenario.ghost is not known"),
    ({"machines": {"ranks": 0}}, "machines.ranks is 0, expected 1 to 4096"),
    ({"machines": {"ranks": -1}}, "machines.ranks is not a whole number"),
    ({"machines": {"ranks": 2, "rank_hosts": 3}}, "machines.rank_hosts is 3, expected 1 to 2"),
    ({"machines": []}, "machines is not an object"),
    ({"workload": {"mix": "huge"}}, "workload.mix is 'huge', expected one of small, mid, large, mixed"),
    ({"workload": {"tail_share": 1.5}}, "workload.tail_share is 1.5, expected 0 to 1"),
    ({"workload": {"name": 5}}, "workload.name is not a text"),
    ({"systems": []}, "systems is empty"),
    ({"systems": [{"policy": "magic"}]}, "systems[0].policy is 'magic'"),
    ({"systems": [{"overheads": {"stall": 1}}]}, "systems[0].overheads.stall is not known"),
    ({"systems": [{"depth": 0}]}, "system.depth is 0, expected 1 to 64"),
    ({"faults": [{"kind": "slow", "server": 0, "at_s": 1, "factor": 0.5}]}, "faults.factor is 0.5"),
    ({"faults": [{"kind": "kill", "server": 0, "at_s": 2, "until_s": 1}]}, "ends at 1 s, before it begins at 2 s"),
    ({"data_only": 1}, "scenario.data_only is not true or false"),
])
def test_scenarios_are_refused_by_the_path_of_what_is_wrong(sim, tmp_path, changes, expected):
    done = sim("run", scenario(tmp_path, **changes))
    assert done.returncode == 3 and done.stdout == ""
    assert expected in done.stderr and done.stderr.startswith("stoker-sim run: ") and done.stderr.count("\n") == 1


def test_a_run_that_takes_no_time_has_no_rate(sim, tmp_path):
    path = scenario(tmp_path, steps=5, warmup=0, machines={"remote": 0, "ranks": 1, "link_latency_s": 0},
                    workload={"cost": "constant", "cost_median_s": 0, "window_fixed_s": 0, "window_token_s": 0,
                              "bytes_scale": 0}, systems=[{"policy": "rank-local", "overheads": {"control_s": 0}}])
    report = result(sim("run", path, "--json"))
    assert report["runs"][0]["samples_per_s"] is None and report["runs"][0]["share_of_ideal"] is None
    assert report["runs"][0]["miss"] == 0
    done = sim("run", path)
    assert done.returncode == 0 and "inf" not in done.stdout and "nan" not in done.stdout


def test_a_killed_server_that_nobody_replaces_is_named(sim, tmp_path):
    path = scenario(tmp_path, steps=50, machines={"ranks": 1, "remote": 0},
                    faults=[{"kind": "kill", "server": 0, "at_s": 1}], systems=[{"policy": "engine"}])
    done = sim("run", path)
    assert done.returncode == 3 and done.stdout == ""
    assert "a fault killed server 0" in done.stderr


def test_files_that_are_no_scenarios_are_refused(sim, tmp_path):
    for command in ("run", "compare", "replay"):
        done = sim(command, "ghost.json")
        assert done.returncode == 3 and "cannot open 'ghost.json': No such file or directory" in done.stderr
    for text, expected in (("{", "line 1"), ('{"steps": 1, "steps": 2}', "duplicate"), ("", "line 1")):
        (tmp_path / "bad.json").write_text(text)
        done = sim("run", "bad.json")
        assert done.returncode == 3 and expected in done.stderr
    (tmp_path / "no-journal").write_bytes(b"\0" * 100)
    done = sim("replay", "no-journal")
    assert done.returncode == 3 and "no-journal" in done.stderr


@pytest.mark.parametrize("arguments", [
    ["run"], ["run", "a.json", "b.json"], ["compare"], ["ghost"], ["run", "a.json", "--seed", "-1"],
    ["run", "a.json", "--seeds", "65"], ["run", "a.json", "--ghost", "1"], ["run", "a.json", "--seed"],
    ["compare", "--study", "other"], ["compare", "--study", "published", "--part", "ghost"],
    ["compare", "--study", "published", "--set", "ghost=1"], ["compare", "--study", "published", "--set", "batch=x"],
    ["compare", "--study", "published", "a.json"], ["replay"], ["compare", "a.json", "--part", "fair"],
])
def test_usage_errors_exit_2_with_a_hint(sim, arguments):
    done = sim(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("stoker-sim: ") and done.stderr.endswith("hint: stoker-sim --help\n")


def test_help_is_printed_without_a_command_too(sim):
    done = sim("--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: stoker-sim run")
    assert sim("run", "--help").stdout == done.stdout
    bare = sim()
    assert bare.returncode == 2 and bare.stderr == done.stdout


def test_help_names_the_parts_and_the_default_seeds(sim):
    text = sim("--help").stdout
    refused = sim("compare", "--study", "published", "--part", "ghost").stderr
    for part in ("reproduction", "fair", "sweep", "traffic", "ladder", "batches", "data", "pressure", "scale", "sensitivity"):
        assert re.search(rf"^ {{20}}{part} +\w", text, re.M), (part, refused)
    assert "run, compare, fit 1; compare --study 1001" in text and "run 1; compare, fit 20" in text


def test_constants_say_where_they_come_from(sim):
    report = result(sim("constants", "--json"))
    assert report["schema"] == "stoker.sim.constants/1"
    origins = {entry["origin"] for entry in report["constants"]}
    assert origins == {"fitted", "measured", "assumed", "tuned"}
    assert all(entry["text"] for entry in report["constants"])


@pytest.fixture(scope="session")
def study(sim_program):
    done = subprocess.run([sim_program, "compare", "--study", "published", "--part", "reproduction,fair", "--seeds", "4",
                           "--json"], capture_output=True, text=True, timeout=240)
    return result(done)


def test_the_study_prints_the_summary(study):
    assert study["schema"] == "stoker.sim.compare/1" and study["first_seed"] == 1001 and study["seeds"] == 4
    for world, keys in SUMMARY.items():
        assert list(study["summary"][world]) == keys


def test_ours_keeps_its_marks_in_both_worlds(study):
    reproduction, fair = study["summary"]["reproduction"], study["summary"]["fair"]
    assert reproduction["throughput_ratio_published"] >= 1.05
    assert reproduction["workloads_p95_above_actor_pool"] == 0
    assert reproduction["miss_reduction"] > 0.7 and reproduction["p95_wait_reduction"] > 0.8
    assert fair["share_of_ideal_geomean"] >= 0.95 and fair["workloads_below_a_baseline"] == 0
    missed = [claim for name, table in study["tables"].items() if name.startswith("ours_") for claim in table
              if claim["result"] != "pass"]
    assert missed == []


def test_the_reproduction_stays_near_the_published_relations(study):
    """Within a third with four seeds; docs/explanation/study.md has the figures of twenty."""
    relations = {row["relation"]: row for row in study["tables"]["relations"]}
    assert len(relations) == 13
    for row in relations.values():
        assert abs(row["deviation_percent"]) < 100 / 3, row


def test_sensitivity_varies_what_the_claims_rest_on(sim):
    """One seed: which rows there are, not what they say."""
    tables = result(sim("compare", "--study", "published", "--part", "sensitivity", "--seeds", 1,
                        "--json"))["tables"]
    rows = tables["sensitivity"]
    values = {}
    for row in rows:
        values.setdefault(row["constant"], []).append(row["value"])
    assert values["stall_sticky"] == pytest.approx([0.05, 0.15]) and values["tail_share"] == pytest.approx([0.0015, 0.0045])
    assert values["plane_remote_gain"] == [0.05, 0.1]
    assert {row["origin"] for row in rows} == {"fitted", "assumed"}
    assert not set(values) & {"local_stall_s", "base_depth", "fair_depth", "ours_hold"}
    for row in rows:
        signs = (row["throughput_ratio"] > 1 and row["miss_ratio"] < 1 and row["p95_ratio"] < 1
                 and row["workloads_slower"] == 0 and row["workloads_p95_above_actor_pool"] == 0)
        assert (row["signs"] == "hold") == signs, row


def test_stalls_that_meet_every_try_leave_nothing_to_gain_and_nothing_lost(sim):
    tables = result(sim("compare", "--study", "published", "--part", "sticky", "--seeds", 4, "--json"))["tables"]
    rows = {row["stall_sticky"]: row for row in tables["sticky"]}
    assert rows[0.1]["throughput_ratio"] > rows[0.5]["throughput_ratio"] > rows[1]["throughput_ratio"] > 0.98
    assert all(row["slower"] == 0 for row in rows.values())
    falls = {row["claim"].split(" against")[0]: row["falls_at"] for row in tables["sticky_falls"]}
    assert falls["throughput"] > falls["wait p95"] > 0.5
    assert falls["workloads slower than the published policy <= 0"] is None


def test_under_pressure_ours_with_fan_out_is_as_fast_as_any_baseline(sim):
    tables = result(sim("compare", "--study", "published", "--part", "pressure", "--seeds", 4, "--json"))["tables"]
    claims = {row["claim"]: row for row in tables["pressure_marks"]}
    assert claims["cells in which a baseline is faster than ours with fan-out"]["result"] == "pass"
    rate = {(row["load"], row["workload"], row["system"]): row["samples_per_s"] for row in tables["pressure"]}
    full = [rate[key[:2] + ("ours-fan-out",)] / rate[key] for key in rate if key[0] == 0.95 and key[2] == "ours"]
    assert len(full) == 4 and min(full) > 1


def test_a_constant_can_be_set(sim):
    report = result(sim("compare", "--study", "published", "--part", "fair", "--seeds", 1, "--set", "batch=2", "--json"))
    assert {entry["name"]: entry["value"] for entry in report["constants"]}["batch"] == 2
