# SPDX-License-Identifier: Apache-2.0
"""stoker index: what it says of the golden token files, merging and counts files byte for byte, bad files, the manual."""

import json
import os
import pathlib
import re
import shutil
import struct

import pytest

MEGATRON = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron"
BUILDER, MERGE, SEQUENCES = MEGATRON / "builder", MEGATRON / "tools" / "merge", MEGATRON / "tools" / "sequences"
CASES = {case["name"]: case for case in json.loads((BUILDER / "builder.json").read_text())}
MANUAL = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "cli.md"
COMMANDS = ["info", "stats", "verify", "cat", "merge", "sequences"]


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def pair(tmp_path):
    """A copy of three sequences of uint16 (5, 1 and 7 tokens, two documents), with bytes of the index replaced."""

    def make(name, at=None, data=b"", bin_size=None):
        for extension in ("idx", "bin"):
            shutil.copy(BUILDER / f"items_uint16.{extension}", tmp_path / f"{name}.{extension}")
        if at is not None:
            with open(tmp_path / f"{name}.idx", "r+b") as file:
                file.seek(at)
                file.write(data)
        if bin_size is not None:
            os.truncate(tmp_path / f"{name}.bin", bin_size)
        return name

    return make


@pytest.mark.parametrize("command", COMMANDS)
def test_manual_agrees_with_help(stoker, command):
    done = stoker("index", command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    section = MANUAL.read_text().split(f"\n## stoker index {command}\n", 1)[1].split("\n## ", 1)[0]
    assert re.match(r"usage: (stoker .*)", done.stdout).group(1) in section
    of_help = set(re.findall(r"^  (?:-\w, | +)?--([\w-]+)", done.stdout, re.M)) - {"help"}
    assert of_help == set(re.findall(r"^\| `(?:-\w, )?--([\w-]+)", section, re.M))


def test_every_command_is_listed(stoker):
    done = stoker("index", "-h")
    assert done.returncode == 0
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", done.stdout, re.M)


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["info"], ["info", "--nonsense", "a"], ["stats"], ["verify"], ["cat"],
                                       ["cat", "a", "b"], ["cat", "a", "--sequences", "1,"], ["cat", "a", "--sequences", ""],
                                       ["cat", "a", "--sequences", "3-1"], ["cat", "a", "--documents", "x"],
                                       ["cat", "a", "--documents", "0", "--sequences", "0"], ["merge", "--input", "a"],
                                       ["merge", "a", "--input", "a", "--output-prefix", "b/c"], ["sequences"],
                                       ["sequences", "--data-path", "a"],
                                       ["sequences", "--per-dataset-sequences-path", "x"],
                                       ["sequences", "a", "--data-args-path", "b", "--per-dataset-sequences-path", "x"]])
def test_usage_errors_end_with_2(stoker, arguments):
    done = stoker("index", *arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


def test_info_of_every_golden_dataset(stoker):
    for name, case in CASES.items():
        flags = ["--multimodal"] if case["multimodal"] else []
        row, = lines(stoker("index", "info", "--json", *flags, BUILDER / name))
        assert list(row) == ["schema", "prefix", "dtype", "sequences", "documents", "tokens", "bin_bytes", "idx_bytes", "error"]
        assert (row["schema"], row["error"], row["dtype"]) == ("stoker.index.info/1", None, case["dtype"])
        assert (row["bin_bytes"], row["idx_bytes"]) == (case["bin_size"], case["idx_size"])
        if "document_indices" in case:
            assert row["documents"] == len(case["document_indices"]) - 1
            assert row["sequences"] == case["document_indices"][-1]
    done = stoker("index", "info", BUILDER / "items_uint16.idx", BUILDER / "empty.bin")
    head, one, two = done.stdout.splitlines()
    assert head.split() == ["type", "sequences", "documents", "tokens", "bytes", "prefix"]
    assert one.split() == ["uint16", "3", "2", "13", "26", str(BUILDER / "items_uint16")]
    assert two.split()[:5] == ["int32", "0", "0", "0", "0"]


def test_info_of_what_cannot_be_used(stoker, pair):
    done = stoker("index", "info", "--json", pair("bad", 0, b"X"), "absent", pair("good"))
    assert done.returncode == 3
    bad, absent, good = lines(done)
    assert "magic" in bad["error"] and "absent.idx" in absent["error"] and good["error"] is None
    done = stoker("index", "info", "bad")
    assert done.returncode == 3 and "magic" in done.stderr


def test_stats_are_exact(stoker):
    row, = lines(stoker("index", "stats", "--json", BUILDER / "merge_uint16"))
    lengths = [5, 1, 7, 4, 5, 0, 3, 4, 5, 1, 7]
    documents = [6, 7, 9, 0, 0, 3, 4, 6, 7]
    assert (row["schema"], row["tokens"], row["sequences"], row["documents"]) == ("stoker.index.stats/1", 42, 11, 9)
    for noun, values in (("sequence", lengths), ("document", documents)):
        ordered = sorted(values)
        assert row[f"{noun}_empty"] == values.count(0)
        assert (row[f"{noun}_length_least"], row[f"{noun}_length_most"]) == (ordered[0], ordered[-1])
        assert row[f"{noun}_length_mean"] == pytest.approx(sum(values) / len(values))
        for percent in (1, 10, 25, 50, 75, 90, 99):
            assert row[f"{noun}_length_p{percent}"] == ordered[max(1, -(-len(values) * percent // 100)) - 1]
        counts = {}
        for value in values:
            low = 1 << (value.bit_length() - 1) if value else 0
            counts[low] = counts.get(low, 0) + 1
        assert dict(zip(row[f"{noun}_histogram_from"], row[f"{noun}_histogram_count"], strict=True)) == counts
    done = stoker("index", "stats", BUILDER / "merge_uint16", BUILDER / "empty")
    assert done.returncode == 0 and "42 tokens" in done.stdout and "documents: 9, of which empty 2" in done.stdout
    assert stoker("index", "stats", "absent").returncode == 3


def test_stats_of_long_sequences(stoker, tmp_path):
    lengths = [3_000_000, 1, 1_048_576, 2_000_000]
    offsets = [sum(lengths[:i]) for i in range(4)]
    (tmp_path / "l.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ4i4q5q", 1, 1, 4, 5, *lengths, *offsets, 0, 1, 2, 3, 4))
    with open(tmp_path / "l.bin", "wb") as file:
        file.truncate(sum(lengths))
    row, = lines(stoker("index", "stats", "--json", "l"))
    assert [row[f"document_length_p{p}"] for p in (1, 50, 75, 99)] == [1, 1_048_576, 2_000_000, 3_000_000]


def test_verify_names_the_first_bad_sequence(stoker, pair):
    assert stoker("index", "verify", pair("good")).stdout == "good: good, 3 sequences\n"
    faults = {
        "length": (pair("length", 38, struct.pack("<i", -1)), 1, "offset 38: length of sequence 1 is -1"),
        "order": (pair("order", 46, struct.pack("<3q", 2, 0, 12)), 0, "offset 46: offset of sequence 0 is 2, but the sequences"),
        "short": (pair("short", bin_size=20), 2, "ends at byte 20, inside sequence 2"),
        "long": (pair("long", bin_size=28), None, "has 28 bytes, but the sequences end at 26"),
        "documents": (pair("documents", 78, struct.pack("<q", 9)), None, "offset 86: entry 2 of the document index is 3"),
        "header": (pair("header", 17, b"\x09"), None, "offset 17: element type is 9"),
    }
    done = stoker("index", "verify", "--json", "good", *faults)
    assert done.returncode == 1
    rows = lines(done)
    assert (rows[0]["result"], rows[0]["error"], rows[0]["sequences"]) == ("good", None, 3)
    for row, (name, sequence, text) in zip(rows[1:], faults.values(), strict=True):
        assert (row["schema"], row["prefix"], row["result"]) == ("stoker.index.verify/1", name, "bad")
        assert row["sequence"] == sequence and text in row["error"]
    done = stoker("index", "verify", "length")
    assert done.returncode == 1 and "length: bad: 'length.idx': offset 38" in done.stdout
    assert stoker("index", "verify", "absent", "length").returncode == 3


def test_cat_prints_what_was_recorded(stoker):
    for name, case in CASES.items():
        flags = ["--multimodal"] if case["multimodal"] else []
        rows = lines(stoker("index", "cat", "--json", *flags, BUILDER / name))
        for want in case.get("read_back", []):
            row = rows[want["index"]]
            assert row["schema"] == "stoker.index.cat/1" and row["sequence"] == want["index"]
            assert (row["tokens"], row["mode"]) == (want["tokens"], want["mode"])
        borders = case.get("document_indices", [0])
        for row in rows:
            assert borders[row["document"]] <= row["sequence"] < borders[row["document"] + 1]


def test_cat_of_lists(stoker):
    prefix = BUILDER / "items_uint16.bin"
    all_lines = stoker("index", "cat", prefix).stdout.splitlines()
    assert all_lines == ["47687 43041 8 11834 56754", "35431", "13278 25368 17689 35454 49771 60480 56473"]
    assert stoker("index", "cat", prefix, "--sequences", "2,0-1,2").stdout.splitlines() == [all_lines[i] for i in (2, 0, 1, 2)]
    assert stoker("index", "cat", prefix, "--documents", "1").stdout.splitlines() == all_lines[2:]
    assert stoker("index", "cat", prefix, "--documents", "all").stdout.splitlines() == all_lines
    for arguments in (["--sequences", "1,3"], ["--documents", "2"], ["--sequences", "99999999999999999999"]):
        done = stoker("index", "cat", prefix, *arguments)
        assert done.returncode == 2 and done.stderr
    assert stoker("index", "cat", "absent").returncode == 3
    assert stoker("index", "cat", BUILDER / "items_float32", "--sequences", "1").stdout == "112\n"


def test_merge_gives_the_reference_s_bytes(stoker, tmp_path):
    golden = json.loads((MERGE / "merge.json").read_text())
    done = stoker("index", "merge", "--input", MERGE / "in", "--output-prefix", tmp_path / "all", "--json")
    assert done.returncode == 0
    row, = lines(done)
    assert (row["schema"], row["datasets"], row["dtype"]) == ("stoker.index.merge/1", len(golden["order"]), "uint16")
    for extension in ("bin", "idx"):
        assert (tmp_path / f"all.{extension}").read_bytes() == (MERGE / "out" / f"all.{extension}").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["all.bin", "all.idx"]


def test_merge_failures_have_the_reference_s_texts(stoker, tmp_path):
    shutil.copytree(MERGE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "empty").mkdir()
    for failure in json.loads((MERGE / "merge.json").read_text())["failures"]:
        arguments = failure.get("arguments", ["--input", "empty", "--output-prefix", "out/z"])
        done = stoker("index", "merge", *arguments)
        assert done.returncode == 3 and done.stdout == ""
        if failure["case"] == "empty_input_directory":  # the reference crashes
            assert done.stderr == "stoker index merge: there is no dataset in the folder 'empty'\n"
        else:
            assert done.stderr == f"stoker index merge: {failure['error']['message']}\n"
    assert sorted(os.listdir(tmp_path / "out")) == ["all.bin", "all.idx"]


def test_merge_refuses_what_does_not_fit(stoker, tmp_path):
    (tmp_path / "in").mkdir()
    for name, golden in (("a", "items_uint16"), ("b", "items_int32")):
        for extension in ("idx", "bin"):
            shutil.copy(BUILDER / f"{golden}.{extension}", tmp_path / "in" / f"{name}.{extension}")
    done = stoker("index", "merge", "--input", "in", "--output-prefix", "./out")
    assert done.returncode == 3 and "type int32, the dataset that is written uint16" in done.stderr and os.listdir(tmp_path) == ["in"]
    os.truncate(tmp_path / "in" / "b.bin", 3)
    assert "ends at byte 3" in stoker("index", "merge", "--input", "in", "--output-prefix", "./out").stderr


@pytest.mark.parametrize("output", ["in/a", "./a", "linked/b", "./hard"])
def test_merge_refuses_an_output_that_is_an_input(stoker, tmp_path, output):
    (tmp_path / "in").mkdir()
    (tmp_path / "linked").symlink_to("in")
    for extension in ("idx", "bin"):
        for name in ("a", "b"):
            shutil.copy(BUILDER / f"items_uint16.{extension}", tmp_path / "in" / f"{name}.{extension}")
        (tmp_path / f"a.{extension}").symlink_to(f"in/a.{extension}")
    os.link(tmp_path / "in" / "b.idx", tmp_path / "hard.idx")
    before = {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()}
    done = stoker("index", "merge", "--input", "in", "--output-prefix", output)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert f"'{output}." in done.stderr and f"is the input 'in/{'a' if output.endswith('a') else 'b'}." in done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()} == before
    for _ in range(2):  # into the folder: the second time it is an input
        done = stoker("index", "merge", "--input", "in", "--output-prefix", "in/c")
    assert done.returncode == 2 and "'in/c.bin' is the input 'in/c.bin'" in done.stderr


def test_merge_names_a_link_that_leads_nowhere(stoker, tmp_path):
    (tmp_path / "in").mkdir()
    for extension in ("idx", "bin"):
        shutil.copy(BUILDER / f"items_uint16.{extension}", tmp_path / "in" / f"a.{extension}")
    (tmp_path / "in" / "note").symlink_to("absent")
    assert stoker("index", "merge", "--input", "in", "--output-prefix", "./out").returncode == 0
    for extension in ("idx", "bin"):
        (tmp_path / "in" / f"b.{extension}").symlink_to(f"../absent.{extension}")
    done = stoker("index", "merge", "--input", "in", "--output-prefix", "./more")
    assert done.returncode == 3 and "'in/b." in done.stderr and "leads to no file" in done.stderr
    assert not (tmp_path / "more.bin").exists()


def test_merge_of_modes(stoker, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        for extension in ("idx", "bin"):
            shutil.copy(BUILDER / f"multimodal_int32.{extension}", tmp_path / "in" / f"{name}.{extension}")
    assert stoker("index", "merge", "--multimodal", "--input", "in/", "--output-prefix", "./out").returncode == 0
    for extension in ("bin", "idx"):
        assert (tmp_path / f"out.{extension}").read_bytes() == (BUILDER / f"multimodal_merge.{extension}").read_bytes()


@pytest.fixture
def tools(tmp_path):
    """The folder of the recorded runs, to write into."""
    shutil.copytree(MERGE / "in", tmp_path / "merge" / "in")
    shutil.copytree(SEQUENCES, tmp_path / "sequences")
    for name in ("out.json", "out2.json"):
        (tmp_path / "sequences" / name).unlink()
    return tmp_path / "sequences"


def test_sequences_give_the_reference_s_bytes_and_lines(stoker, tools):
    golden = json.loads((SEQUENCES / "sequences.json").read_text())
    runs = {
        "per_split": (["--per-split-data-args-path", "split.json"], "out.json"),
        "args_file": (["--data-args-path", "args.txt"], "out2.json"),
    }
    for name, (arguments, output) in runs.items():
        done = stoker("index", "sequences", *arguments, "--per-dataset-sequences-path", output, cwd=tools)
        assert done.returncode == 0 and done.stdout == golden[name]["stdout"]
        assert (tools / output).read_bytes() == (SEQUENCES / output).read_bytes()
    arguments = ["--per-split-data-args-path", "split_missing_key.json", "--per-dataset-sequences-path", "x.json"]
    done = stoker("index", "sequences", *arguments, cwd=tools)
    assert done.returncode == 3 and done.stdout == golden["missing_key"]["stdout"] and "'test'" in done.stderr
    assert not (tools / "x.json").exists()


@pytest.mark.parametrize(("arguments", "prefixes"), [
    (["--data-path", "../merge/in/a"], ["a"]),
    (["--data-path", "1", "../merge/in/a", "2_0", "../merge/in/b", "1e-3", "../merge/in/a"], ["a", "b"]),
    (["--data-path=../merge/in/b", "--train-data-path", "../merge/in/a"], ["b"]),
    (["--train-data-path", "1", "../merge/in/a", "--test-data-path", "../merge/in/b", "../merge/in/x.y", "../merge/in/a"],
     ["a", "b", "x.y"]),
    (["--valid-data-path", "../merge/in/a", "--per-split-data-args-path", "split.json"], ["a"]),
])
def test_sequences_of_arguments(stoker, tools, arguments, prefixes):
    done = stoker("index", "sequences", "--per-dataset-sequences-path", "x.json", "--json", *arguments, cwd=tools)
    assert done.returncode == 0, done.stderr
    row, = lines(done)
    assert row == {"schema": "stoker.index.sequences/1", "path": "x.json", "prefixes": len(prefixes)}
    content = json.loads((tools / "x.json").read_text())
    assert list(content) == [f"../merge/in/{name}" for name in prefixes]


def test_sequences_that_cannot_be(stoker, tools):
    (tools / "list.json").write_text("[1]")
    (tools / "cut.json").write_text('{"train": ')
    (tools / "odd.json").write_text('{"train": [{}], "valid": null, "test": null}')
    (tools / "empty.txt").write_text(" \n")
    cases = [
        (["--data-path", "absent"], 3, "absent.idx"),
        (["--data-path"], 2, "empty"),
        (["--data-path", "a", "x", "1", "y"], 2, "no weight"),
        (["--data-args-path", "absent.txt"], 3, "absent.txt"),
        (["--data-args-path", "empty.txt"], 2, "empty"),
        (["--per-split-data-args-path", "absent.json"], 3, "absent.json"),
        (["--per-split-data-args-path", "list.json"], 3, "expected an object"),
        (["--per-split-data-args-path", "cut.json"], 3, "line 1"),
        (["--per-split-data-args-path", "odd.json"], 3, "item 0 of 'train'"),
    ]
    for arguments, status, text in cases:
        done = stoker("index", "sequences", "--per-dataset-sequences-path", "x.json", *arguments, cwd=tools)
        assert done.returncode == status and text in done.stderr, arguments
    assert sorted(path.name for path in tools.iterdir() if path.name.startswith("x.json")) == []


def test_sequences_write_names_as_python_does(stoker, tmp_path):
    names = ["plain", 'quote"back\\', "tab\tline\nend", "caf\u00e9", "\u65e5\u672c", "\U0001f600", "del\x7f", "\x01", os.fsdecode(b"bad\xff")]
    for name in names:
        for extension in ("idx", "bin"):
            shutil.copy(BUILDER / f"items_uint16.{extension}", tmp_path / f"{name}.{extension}")
    done = stoker("index", "sequences", "--per-dataset-sequences-path", "x.json", "--train-data-path", *names)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.json").read_text() == json.dumps({name: [3, 3] for name in names})
