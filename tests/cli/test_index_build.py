# SPDX-License-Identifier: Apache-2.0
"""stoker index build: the reference tool's text, results and cache files; refusals; --plan; data arguments from files."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import types

import pytest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron" / "tools" / "prepare_cache"
MANUAL = GOLDEN.parents[3].parent / "docs" / "reference" / "cli.md"
CASES = json.loads((GOLDEN / "prepare_cache.json").read_text())
COMMON = ["--seq-length", 16, "--seed", 1234, "--train-iters", 20, "--eval-iters", 2, "--eval-interval", 5,
          "--global-batch-size", 4, "--tokenizer-type", "NullTokenizer", "--vocab-size", 1000]
BLEND = ["--data-path", "0.3", "data/a", "0.7", "data/b", "--split", "90,8,2"]


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
            if path.suffix in (".npy", ".txt")}


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    shutil.copytree(GOLDEN / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


# -------------------------------------------------------------------------------------------------------------- golden

@pytest.mark.parametrize("case", CASES["runs"], ids=lambda case: case["name"])
def test_same_as_the_reference_tool(case, tmp_path):
    from stoker._tools.prepare_cache import prepare
    arguments = {**CASES["defaults"], "data_cache_path": f"cache_{case['name']}", **case["changes"]}
    text, error, result = io.StringIO(), None, None
    with contextlib.redirect_stdout(text):
        try:
            result = prepare(types.SimpleNamespace(**arguments))
        except Exception as raised:
            error = dict(type=type(raised).__name__, message=str(raised))
    assert error == case["error"]
    assert text.getvalue() == case["stdout"]
    assert result == case["result"]
    folder = tmp_path / f"cache_{case['name']}"
    assert (digests(folder) if folder.exists() else {}) == case["cache_files_sha256"]


def test_same_from_the_command_line(stoker, tmp_path):
    case = next(case for case in CASES["runs"] if case["name"] == "iterations")
    done = stoker("index", "build", *COMMON, *BLEND, "--prepare-cache-world-size", 8, "--data-cache-path", "cache_iterations")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == case["stdout"] and digests(tmp_path / "cache_iterations") == case["cache_files_sha256"]
    again = stoker("index", "build", *COMMON, *BLEND, "--prepare-cache-world-size=8", "--data-cache-path", "cache_iterations",
                   "--json")
    report = json.loads(again.stdout)
    assert report.pop("schema") == "stoker.index.build/1" and report.pop("cache_path") == "cache_iterations"
    assert report == case["result"]


@pytest.mark.parametrize("closed, status", [(">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), ("> /dev/full", 4), ("2> /dev/full", 0)])
@pytest.mark.parametrize("more", [[], ["--plan"], ["--json"]], ids=str)
def test_closed_and_full_streams(program, tmp_path, closed, status, more):
    words = [program, "index", "build", *COMMON, *BLEND, "--data-cache-path", "c", "--progress", *more]
    done = subprocess.run(["bash", "-c", f'"$@" {closed}', "bash", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
    assert bool(done.stdout) == (closed[0] == "2")
    if status:
        assert done.stderr.splitlines()[-1] == (
            "stoker index build: cannot write the standard output: No space left on device")
    assert (tmp_path / "c").exists() == ("--plan" not in more)


# --------------------------------------------------------------------------------------------------------------- sizes

@pytest.mark.parametrize("arguments, expected", [
    (["--prepare-cache-world-size", 64, "--tensor-model-parallel-size", 4, "--pipeline-model-parallel-size", 2,
      "--context-parallel-size", 2, "--micro-batch-size", 3], (64, 4, 12)),
    (["--world-size", 6, "--micro-batch-size", 2], (6, 6, 12)),
    (["--micro-batch-size", 2], (1, 1, 2)),
    (["--world-size", 4, "--prepare-cache-world-size", 2, "--global-batch-size", 5], (2, 2, 5)),
])
def test_sizes_of_the_world(stoker, arguments, expected):
    common = [word for word in COMMON if word not in ("--global-batch-size", 4)]
    done = stoker("index", "build", *common, *BLEND, "--data-cache-path", "cache", "--plan", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["world_size"], report["data_parallel_size"], report["global_batch_size"]) == expected
    assert report["train_valid_test_num_samples"] == [20 * expected[2], 10 * expected[2], 2 * expected[2]]
    assert not os.path.exists("cache")


def test_world_size_of_the_environment(stoker):
    common = [word for word in COMMON if word not in ("--global-batch-size", 4)]
    done = stoker("index", "build", *common, *BLEND, "--data-cache-path", "cache", "--plan", "--json", "--micro-batch-size", 1,
                  env={**os.environ, "WORLD_SIZE": "12"})
    assert json.loads(done.stdout)["data_parallel_size"] == 12


@pytest.mark.parametrize("arguments, expected", [
    (dict(train_iters=10), [40, 24, 8]), (dict(train_iters=10, start_eval_at_iter=100), [40, 0, 8]),
    (dict(train_samples=41), [41, 24, 8]), (dict(train_iters=3, eval_global_batch_size=10), [12, 20, 20]),
    (dict(train_iters=10, full_validation=True), [40, None, 8]), (dict(train_iters=10, skip_train=True), [40, 8, 8]),
])
def test_target_sizes(arguments, expected):
    from stoker._tools.prepare_cache import target_sizes
    base = dict(train_iters=None, train_samples=None, global_batch_size=4, eval_iters=2, eval_interval=5)
    assert target_sizes(types.SimpleNamespace(**{**base, **arguments})) == expected


# ------------------------------------------------------------------------------------------------------ data arguments

def test_data_arguments_from_files_are_the_same(stoker, tmp_path):
    (tmp_path / "blend.txt").write_text("0.3 data/a\n0.7\tdata/b\n")
    assert stoker("index", "build", *COMMON, *BLEND, "--data-cache-path", "one").returncode == 0
    assert stoker("index", "build", *COMMON, "--data-args-path", "blend.txt", "--split", "90,8,2",
                  "--data-cache-path", "two").returncode == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "two") != {}

    per_split = ["--train-data-path", "0.5", "data/a", "0.5", "data/b", "--valid-data-path", "data/b"]
    (tmp_path / "split.json").write_text(json.dumps(dict(train=["0.5", "data/a", "0.5", "data/b"], valid="data/b", test=None)))
    assert stoker("index", "build", *COMMON, *per_split, "--data-cache-path", "three").returncode == 0
    assert stoker("index", "build", *COMMON, "--per-split-data-args-path", "split.json",
                  "--data-cache-path", "four").returncode == 0
    assert digests(tmp_path / "three") == digests(tmp_path / "four") != {}


def test_split_of_old_is_taken_and_said(stoker):
    plan = [*COMMON, "--data-path", "data/a", "--data-cache-path", "cache", "--plan", "--json"]
    done = stoker("index", "build", *plan)
    assert done.returncode == 0 and "969, 30, 1" in done.stderr
    given = stoker("index", "build", *plan, "--split", "969, 30, 1")
    assert given.stdout == done.stdout and given.stderr == ""


@pytest.mark.parametrize("arguments, status, text", [
    ([], 2, "no data is given"),
    (["--data-path", "data/absent", "--split", "1,0,0"], 3, "data/absent"),
    (["--data-path"], 2, "empty"),
    ([*BLEND, "--world-size", 6, "--tensor-model-parallel-size", 4], 2, "not a multiple"),
    ([*BLEND, "--mock-data"], 2, "--mock-data is not supported"),
    ([*BLEND, "--sft"], 2, "--sft is not supported"),
    ([*BLEND, "--fim-data"], 2, "--fim-data is not supported"),
    ([*BLEND, "--step-batch-size-schedule", "x"], 2, "--step-batch-size-schedule is not supported"),
    ([*BLEND, "--prepare-cache-world-size", -1], 2, "must be positive"),
    ([*BLEND, "--num-layers", 5], 2, "'--num-layers'"),
    ([*BLEND, "--tokenizer-type", "Nonsense"], 2, "--tokenizer-identity"),
    ([*BLEND, "--tokenizer-type", "HuggingFaceTokenizer"], 2, "--tokenizer-model"),
    ([*BLEND, "--tokenizer-identity", "absent.txt"], 3, "absent.txt"),
    ([*BLEND, "--train-data-path", "data/a", "--data-args-path", "x"], 2, "one is enough"),
    (["--data-path", "1", "data/a", "x", "data/b", "2", "data/b", "--split", "1,1,1"], 2, "data/b|weight|'x'"),
    ([*BLEND, "--full-validation"], 2, "requires client-specified size|size_is_none"),
])
def test_refusals(stoker, tmp_path, arguments, status, text):
    done = stoker("index", "build", *COMMON, "--data-cache-path", "cache", *arguments)
    assert done.returncode == status, done.stderr
    assert any(part in done.stderr for part in text.split("|")), done.stderr
    assert done.stderr.splitlines()[-1 - done.stderr.count("\nhint:")].startswith("stoker index build: ")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("cache/*.npy"))


def test_cache_path_is_needed(stoker):
    done = stoker("index", "build", *COMMON, *BLEND)
    assert done.returncode == 2 and "--data-cache-path must be provided for cache preparation" in done.stderr


def test_other_options_of_a_training_script_can_be_passed_over(stoker):
    done = stoker("index", "build", *COMMON, *BLEND, "--data-cache-path", "cache", "--num-layers", 5, "--bf16",
                  "--ignore-unknown", "--plan")
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------------------ identity

@pytest.mark.parametrize("arguments, expected", [
    (dict(tokenizer_type="NullTokenizer", vocab_size=64, null_tokenizer_eod_id=63, null_tokenizer_pad_id=5),
     dict(tokenizer_path=None, vocab_size="64", eod_id="63", pad_id="5")),
    (dict(tokenizer_type="HuggingFaceTokenizer", tokenizer_model="/m/llama", vocab_size=5),
     dict(tokenizer_path="/m/llama", chat_template="None", vocab_file="None", merges_file="None",
          additional_special_tokens="[]", use_fast="True", trust_remote_code="False", include_special_tokens="True",
          use_gigatoken="False")),
    (dict(tokenizer_type="GPT2BPETokenizer", vocab_file="v.json", merge_file="m.txt"),
     dict(tokenizer_path="GPT2BPETokenizer", additional_special_tokens="[]", vocab_file="v.json", merges_file="m.txt",
          use_fast="True", trust_remote_code="False", include_special_tokens="True", use_gigatoken="False")),
    (dict(tokenizer_type="TikTokenizer", tokenizer_model="t", tiktoken_pattern="v2"),
     dict(tokenizer_path="t", chat_template="None", pattern="v2", num_special_tokens="1000", special_tokens="None")),
])
def test_identities_are_the_specified_ones(arguments, expected):
    from stoker._tools.tokenizer_identity import CLASS, make
    made = make(types.SimpleNamespace(**arguments)).unique_identifiers
    assert list(made.items()) == [("class", CLASS), *expected.items()]


def test_identity_from_the_description_of_a_cache(stoker, tmp_path):
    case = next(case for case in CASES["runs"] if case["name"] == "iterations")
    source = next(path for path in (GOLDEN / "cache_iterations").glob("*-BlendedDataset-train-description.txt"))
    common = [word for word in COMMON if word not in ("--tokenizer-type", "NullTokenizer")]
    done = stoker("index", "build", *common, *BLEND, "--data-cache-path", "cache", "--tokenizer-identity", source)
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "cache") == case["cache_files_sha256"]


# ---------------------------------------------------------------------------------------------------------------- plan

@pytest.mark.parametrize("arguments", [
    BLEND, ["--data-path", "data/a", "--split", "90,8,2"], ["--data-path", "data/a", "data/b", "data/a", "--split", "5,5,0"],
    ["--train-data-path", "1", "data/a", "--valid-data-path", "data/b", "data/a", "--multiple-validation-sets",
     "--full-validation"]])
def test_plan_says_what_a_build_makes(stoker, tmp_path, arguments):
    plan = json.loads(stoker("index", "build", *COMMON, *arguments, "--data-cache-path", "cache", "--plan", "--json").stdout)
    assert plan["schema"] == "stoker.index.plan/1" and not (tmp_path / "cache").exists()
    done = stoker("index", "build", *COMMON, *arguments, "--data-cache-path", "cache", "--json")
    assert done.returncode == 0, done.stderr
    arrays = sum(path.stat().st_size for path in (tmp_path / "cache").glob("*.npy"))
    rows = {(row["split"], row["prefix"], row["asked"]): row["cache_bytes"] for row in plan["datasets"]}
    assert sum(rows.values()) == arrays
    text = stoker("index", "build", *COMMON, *arguments, "--data-cache-path", "cache", "--plan").stdout
    assert text.count("\n") == len(plan["datasets"]) + 3


# -------------------------------------------------------------------------------------------------------------- others

def test_progress_names_the_prefixes(stoker):
    done = stoker("index", "build", *COMMON, *BLEND, "--data-cache-path", "cache", "--progress")
    assert done.returncode == 0
    assert "1 of 2: data/a" in done.stderr and "2 of 2: data/b" in done.stderr


def test_help_options_and_manual_agree(stoker):
    from stoker._tools.prepare_cache import parser
    done = stoker("index", "build", "--help")
    assert done.returncode == 0 and done.stderr == ""
    of_help = set(re.findall(r"^      --([\w-]+)", done.stdout, re.M))
    assert of_help == {name[2:] for action in parser()._actions for name in action.option_strings}
    section = MANUAL.read_text().split("\n## stoker index build\n", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `--([\w-]+)", section, re.M)) == of_help
    assert re.match(r"usage: (stoker .*)", done.stdout).group(1) in section


# ---------------------------------------------------------------------------------------------------------- absurd input

def in_process(arguments, capsys, monkeypatch):
    """As `stoker index build` runs it, without a process for each case: (exit status, stderr)."""
    from stoker._tools.command import run
    from stoker._tools.prepare_cache import main
    words = [*COMMON, "--data-path", "data/a", "--split", "90,8,2", "--data-cache-path", "c", *arguments]
    monkeypatch.setattr("sys.argv", ["stoker", *map(str, words)])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return run("index build", main), capsys.readouterr().err


NUMBERS = ["--seq-length", "--train-iters", "--train-samples", "--global-batch-size", "--micro-batch-size", "--eval-iters",
           "--eval-interval", "--eval-global-batch-size", "--prepare-cache-world-size", "--world-size", "--seed",
           "--start-eval-at-iter", "--num-dataset-builder-threads", "--tensor-model-parallel-size", "--vocab-size",
           "--mid-level-dataset-surplus"]


@pytest.mark.parametrize("option", NUMBERS)
def test_numbers_that_cannot_be(capsys, monkeypatch, tmp_path, option):
    for value in ("-1", "nan", "", "9" * 30):
        for plan in ([], ["--plan"]):
            status, err = in_process([option, value, *plan], capsys, monkeypatch)
            assert status == 2 and "Traceback" not in err, err
            text, *hint = err.splitlines()
            assert all(line.startswith("hint: ") for line in hint) and text.startswith("stoker index build: ")
            assert option in text or option == "--global-batch-size" and "global batch size is -1" in text
            assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("arguments, status, text", [
    (["--split", "0,0,0"], 2, "--split '0,0,0'"), (["--split", ""], 2, "--split ''"), (["--split", "a,b"], 2, "--split 'a,b'"),
    (["--split", "1.2.3"], 2, "--split '1.2.3'"), (["--split", "1,1,1,1"], 2, "--split '1,1,1,1'"),
    (["--split", "9" * 400], 2, "--split '999"), (["--data-cache-path", ""], 2, "--data-cache-path"),
    (["--data-path", "nowhere"], 3, "nowhere"), (["--data-path", "data"], 3, "data"), (["--data-path"], 2, "empty"),
    (["--data-path", "nan", "data/a"], 2, "weight nan"), (["--data-path", "1", "data/a", "2"], 3, "prefix 1"),
    (["--train-samples", 2**63 - 1], 2, "train samples are asked for"),
    (["--train-iters", 2**62, "--global-batch-size", 2**62], 2, "train samples are asked for"),
    (["--per-dataset-sequences-path", "negative.json"], 2, "'data/a' has [-1, 3]"),
    (["--per-dataset-sequences-path", "fraction.json"], 2, "'data/a' has [1.5, 3]"),
    (["--per-dataset-sequences-path", "list.json"], 2, "list.json"),
    (["--tokenizer-type", "SentencePieceTokenizer", "--tokenizer-model", "no.model"], 3, "there is no 'no.model'"),
    (["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", "./no"], 3, "there is no './no'"),
    (["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", "no", "--merge-file", "binary"], 3, "there is no 'no'"),
    (["--tokenizer-identity", "data"], 3, "--tokenizer-identity"),
], ids=lambda value: " ".join(map(str, value))[:40] if isinstance(value, list) else "")
@pytest.mark.parametrize("plan", [[], ["--plan"]], ids=["build", "plan"])
def test_absurd_arguments_get_one_error(capsys, monkeypatch, tmp_path, arguments, status, text, plan):
    (tmp_path / "negative.json").write_text('{"data/a": [-1, 3]}')
    (tmp_path / "fraction.json").write_text('{"data/a": [1.5, 3]}')
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    got, err = in_process([*arguments, *plan], capsys, monkeypatch)
    assert got == status and text in err and "Traceback" not in err, err
    assert len([line for line in err.splitlines() if not line.startswith("hint: ")]) == 1


def test_split_that_is_read_otherwise_is_said(capsys, monkeypatch):
    status, err = in_process(["--split", "nan 90,9,1e2", "--plan"], capsys, monkeypatch)
    assert status == 2 and "at most 3" in err
    status, err = in_process(["--split", "x90,y9,z1", "--plan"], capsys, monkeypatch)
    assert status == 0 and "is read as 90, 9, 1" in err


def test_a_data_file_that_is_no_text(stoker, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    done = stoker("index", "build", *COMMON, "--data-args-path", "binary", "--split", "1,1,1", "--data-cache-path", "c")
    assert done.returncode == 3 and done.stderr.startswith("stoker index build: --data-args-path 'binary' is no text")
    assert done.stderr.count("\n") == 1


def test_a_plan_warns_of_what_the_build_refuses(stoker):
    arguments = [*COMMON, "--data-path", "data/a", "--split", "99.999,0,0.001", "--data-cache-path", "c"]
    done = stoker("index", "build", *arguments, "--plan")
    assert done.returncode == 0 and "warning: split 'test' of data/a has no tokens" in done.stderr
    assert json.loads(stoker("index", "build", *arguments, "--plan", "--json").stdout)["warnings"] == [
        "split 'test' of data/a has no tokens: the build will refuse it"]
    done = stoker("index", "build", *arguments)
    assert done.returncode == 2 and "split 'test'" in done.stderr and "has no tokens" in done.stderr
    done = stoker("index", "build", *COMMON, *BLEND, "--data-cache-path", "c", "--plan", "--json")
    assert json.loads(done.stdout)["warnings"] == []


def test_ctrl_c_exits_with_130_and_leaves_nothing_half_written(program, tmp_path):
    words = [*COMMON, "--data-path", "data/a", "--split", "1,0,0", "--data-cache-path", "c", "--train-samples", 40000000]
    words = list(map(str, words))
    at = words.index("--train-iters")
    del words[at:at + 2]
    building = subprocess.Popen([program, "index", "build", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("c/.*.lock")) and building.poll() is None:
        os.sched_yield()
    building.send_signal(signal.SIGINT)
    _, err = building.communicate(timeout=60)
    assert building.returncode == 130 and "Traceback" not in err
    assert [path.name for path in (tmp_path / "c").iterdir() if path.suffix != ".lock"] == []
