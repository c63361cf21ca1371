# SPDX-License-Identifier: Apache-2.0
"""stoker manifest: builds of folders, shards and lists; what show says of them; stopped builds; the manual."""

import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile

import pytest

MANUAL = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "cli.md"
COMMANDS = ["build", "verify", "show", "merge"]
SHARED = ["codec", "width", "height", "rotation", "frames", "duration_s", "bytes", "error"]


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def good(done):
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def clips(golden, tmp_path):
    """A private copy of the golden clips."""
    shutil.copytree(golden, tmp_path / "clips")
    return tmp_path / "clips"


@pytest.mark.parametrize("command", COMMANDS)
def test_manual_agrees_with_help(stoker, command):
    done = stoker("manifest", command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    section = MANUAL.read_text().split(f"\n## stoker manifest {command}\n", 1)[1].split("\n## ", 1)[0]
    assert re.match(r"usage: (stoker .*)", done.stdout).group(1) in section
    of_help = set(re.findall(r"^  (?:-\w, | +)?--([\w-]+)", done.stdout, re.M)) - {"help"}
    assert of_help == set(re.findall(r"^\| `(?:-\w, )?--([\w-]+)", section, re.M))


def test_every_command_is_listed(stoker):
    for arguments, status in ((["--help"], 0), ([], 2)):
        done = stoker("manifest", *arguments)
        assert done.returncode == status
        for command in COMMANDS:
            assert re.search(rf"^  {command} ", done.stdout + done.stderr, re.M)


@pytest.mark.parametrize("arguments", [["nonsense"], ["build"], ["build", "m"], ["build", "--jobs", "0", "m", "a"],
                                       ["build", "--jobs", "17", "m", "a"], ["build", "--jobs", "-1", "m", "a"],
                                       ["verify"], ["verify", "a", "b"], ["show"], ["show", "--packets", "m"], ["merge", "m"]])
def test_usage_errors_end_with_2(stoker, arguments):
    done = stoker("manifest", *arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


def test_show_after_build_is_probe(stoker, clips):
    """Property: build, then show, says of every file what probe says of it."""
    good(stoker("manifest", "build", "m.stkm", "clips"))
    shown = lines(good(stoker("manifest", "show", "--json", "m.stkm")))
    assert len(shown) == 18 and [row["path"] for row in shown] == sorted(row["path"] for row in shown)
    probed = lines(stoker("probe", "--json", *[row["path"] for row in shown]))
    for row, fact in zip(shown, probed, strict=True):
        for name in SHARED:
            assert row[name] == pytest.approx(fact[name], abs=1e-12) if name == "duration_s" else row[name] == fact[name], row
        assert row["mtime_ns"] == os.stat(row["path"]).st_mtime_ns


def test_packets_are_those_of_the_reference(stoker, clips):
    expected = json.loads((clips / "expected.json").read_text())["clips"]
    good(stoker("manifest", "build", "m.stkm", "clips"))
    compared = 0
    for row in lines(good(stoker("manifest", "show", "--json", "--packets", "m.stkm"))):
        for name in ("pts", "dts", "sizes", "flags"):
            assert len(row[name]) == row["packets"]
        assert sum(row["sizes"]) == row["packet_bytes"] and sum(flag & 1 for flag in row["flags"]) == row["key_packets"]
        clip = expected[os.path.basename(row["path"])]
        if row["error"] or "truncated" in row["path"] or None in row["pts"]:
            continue
        assert sum(flag >> 1 & 1 for flag in row["flags"]) == clip["packets_flag_discard"]
        assert sorted(pts for pts, flag in zip(row["pts"], row["flags"]) if not flag & 2) == clip["pts"], row["path"]
        assert row["packets"] == clip["packets"] and row["frames"] == len(clip["pts"])
        compared += 1
    assert compared >= 13
    assert lines(stoker("manifest", "show", "--json", "m.stkm"))[0].keys().isdisjoint({"pts", "dts", "sizes", "flags"})


def test_shards_agree_with_tarfile_in_every_format(stoker, clips):
    names = ["rot90.mp4", "vfr.mp4", "vp9_odd227x171.webm", "ptswrap.ts"]
    for format in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(clips.parent / "s.tar", "w", format=format) as tar:
            for name in names:
                folder = ("d" * 60 + "/" + "e" * 60 + "/" if format == tarfile.USTAR_FORMAT else "long" * 60 + "/")
                tar.add(clips / name, folder + name)
                tar.addfile(tarfile.TarInfo(folder + name + ".json"), io.BytesIO())
        good(stoker("manifest", "build", "m.stkm", "s.tar"))
        shown = lines(good(stoker("manifest", "show", "--json", "m.stkm")))
        with tarfile.open(clips.parent / "s.tar") as tar:
            members = [member for member in tar if not member.name.endswith(".json")]
        assert [(row["member"], row["offset"], row["bytes"]) for row in shown] == [
            (member.name, member.offset_data, member.size) for member in members]
        whole = {os.path.basename(row["path"]): row for row in lines(stoker("probe", "--json", *[clips / name for name in names]))}
        for row in shown:
            assert [row[name] for name in SHARED] == [whole[os.path.basename(row["member"])][name] for name in SHARED]


def test_lists_of_paths_and_of_json(stoker, clips):
    (clips / "list.txt").write_text("rot90.mp4\n# not this\n\n./vfr.mp4\n")
    (clips / "list.jsonl").write_text('{"path": "sar16_11.mp4", "caption": "x"}\n{"path": "gone.mp4", "error": "bad"}\n')
    good(stoker("manifest", "build", "m.stkm", "clips/list.txt", "clips/list.jsonl"))
    shown = lines(good(stoker("manifest", "show", "--json", "m.stkm")))
    assert [os.path.basename(row["path"]) for row in shown] == ["rot90.mp4", "vfr.mp4", "sar16_11.mp4"]
    (clips / "bad.jsonl").write_text('{"path": "rot90.mp4"}\n{"caption": "x"}\n')
    done = stoker("manifest", "build", "n.stkm", "clips/bad.jsonl")
    assert done.returncode == 3 and "line 2 of 'clips/bad.jsonl' is no JSON object with a 'path'" in done.stderr
    assert stoker("manifest", "build", "n.stkm", "absent.txt").returncode == 3


def test_a_source_that_is_not_there_is_an_error(stoker, clips):
    for source in ("nothere.mp4", "clips/nothere", "clips/rot90.mp4/x", "nothere.tar"):
        done = stoker("manifest", "build", "m.stkm", "clips", source)
        assert done.returncode == 3 and done.stdout == ""
        assert done.stderr == f"stoker manifest build: the source '{source}' does not exist\n"
        assert not (clips.parent / "m.stkm").exists()
    (clips / "list.txt").write_text("rot90.mp4\nnothere.mp4\n")
    good(stoker("manifest", "build", "m.stkm", "clips/list.txt"))
    assert [row["error"] is None for row in lines(stoker("manifest", "show", "--json", "m.stkm"))] == [True, False]


def test_a_list_is_no_manifest_and_is_told_how_to_become_one(stoker, clips):
    (clips / "list.jsonl").write_text('{"path": "rot90.mp4"}\n' * 40)
    for command in ("verify", "show"):
        done = stoker("manifest", command, "clips/list.jsonl")
        assert done.returncode == 3 and done.stdout == ""
        assert "is a list of files; make a manifest of it: stoker manifest build OUT clips/list.jsonl" in done.stderr


def test_both_move_together(stoker, clips):
    good(stoker("manifest", "build", "clips/m.stkm", "clips"))
    os.rename(clips, clips.parent / "moved")
    assert good(stoker("manifest", "verify", "moved/m.stkm")).stdout == "moved/m.stkm: good, 18 files, 0 differ\n"


def test_incremental_equals_full(stoker, clips):
    good(stoker("manifest", "build", "m.stkm", "clips"))
    shutil.copy(clips / "vfr.mp4", clips / "rot90.mp4")
    os.remove(clips / "gif_delays.gif")
    shutil.copy(clips / "vfr.mp4", clips / "new.mp4")
    done, = lines(good(stoker("manifest", "build", "--json", "m.stkm", "clips")))
    assert done == {"schema": "stoker.manifest.build/1", "path": "m.stkm", "entries": 18, "bad": 1, "kept": 16, "resumed": 0}
    good(stoker("manifest", "build", "--jobs", "5", "full.stkm", "clips"))
    assert (clips.parent / "m.stkm").read_bytes() == (clips.parent / "full.stkm").read_bytes()


def test_a_killed_build_goes_on_to_the_same_bytes(program, stoker, clips):
    """Killed at the first line of progress; on a quick machine it may be done by then, which is a whole build, too."""
    for number in range(40):
        os.link(clips / "corrupt_bytes.mp4", clips / f"copy{number:03}.mp4")
    good(stoker("manifest", "build", "--exact", "full.stkm", "clips"))
    out = clips.parent / "m.stkm"
    with subprocess.Popen([program, "manifest", "build", "--exact", "--jobs", "1", "m.stkm", "clips"], cwd=clips.parent,
                          stdout=subprocess.DEVNULL) as build:
        journal = clips.parent / "m.stkm.stoker-journal"
        while build.poll() is None and not (journal.exists() and journal.stat().st_size > 2000):
            pass
        build.send_signal(signal.SIGKILL)
    if build.returncode != 0:
        assert not out.exists() and journal.exists()
        done, = lines(good(stoker("manifest", "build", "--exact", "--json", "m.stkm", "clips")))
        assert done["resumed"] >= 1
    assert out.read_bytes() == (clips.parent / "full.stkm").read_bytes()
    assert not journal.exists()


def test_two_builds_of_one_manifest_do_not_meet(stoker, clips):
    import fcntl
    with open(clips.parent / "m.stkm.stoker-journal", "w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        done = stoker("manifest", "build", "m.stkm", "clips")
    assert done.returncode == 5 and "another build of this manifest runs" in done.stderr


def test_a_file_that_is_no_manifest_is_not_written_over(stoker, clips):
    done = stoker("manifest", "build", "clips/rot90.mp4", "clips")
    assert done.returncode == 2 and "is no manifest: it is not written over" in done.stderr
    assert (clips / "rot90.mp4").stat().st_size == 30055
    for command in ("show", "verify"):
        done = stoker("manifest", command, "clips/rot90.mp4")
        assert done.returncode == 3 and "no manifest: magic at offset 0" in done.stderr and done.stdout == ""


def test_verify_tells_what_differs(stoker, clips):
    good(stoker("manifest", "build", "m.stkm", "clips"))
    for flags in ([], ["--deep"], ["--exact"]):
        assert good(stoker("manifest", "verify", *flags, "m.stkm")).stdout == "m.stkm: good, 18 files, 0 differ\n"
    os.remove(clips / "vfr.mp4")
    with open(clips / "rot90.mp4", "ab") as clip:
        clip.write(b"more")
    done = stoker("manifest", "verify", "m.stkm")
    assert done.returncode == 1
    turned, gone, result = done.stdout.splitlines()
    assert turned == "clips/rot90.mp4: the file has 30059 bytes, its entry says 30055"
    assert gone.startswith("clips/vfr.mp4: ") and "No such file" in gone
    assert result == "m.stkm: bad, 18 files, 2 differ"
    done = stoker("manifest", "verify", "--json", "m.stkm")
    assert [row.get("error") is not None for row in lines(done)] == [True, True, False]
    assert lines(done)[-1] == {"schema": "stoker.manifest.verify/1", "result": "bad", "entries": 18, "faults": 2}


def test_exact_finds_and_keeps_the_count(stoker, clips):
    """Frames are lost in truncated data; build --exact puts the count into the manifest, and verify --exact agrees."""
    with open(clips / "h264_bframes_g12.mp4", "r+b") as clip:
        clip.seek(60000)
        clip.write(bytes(20000))
    good(stoker("manifest", "build", "m.stkm", "clips/h264_bframes_g12.mp4"))
    row, = lines(stoker("manifest", "show", "--json", "m.stkm"))
    assert row["frames_exact"] is None
    exact, = lines(stoker("probe", "--json", "--exact", "clips/h264_bframes_g12.mp4"))
    assert exact["frames"] < row["frames"]
    done = stoker("manifest", "verify", "--exact", "m.stkm")
    assert done.returncode == 1 and f"{exact['frames']} frames come out of the file, its entry says {row['frames']}" in done.stdout
    done, = lines(good(stoker("manifest", "build", "--exact", "--json", "m.stkm", "clips/h264_bframes_g12.mp4")))
    assert done["kept"] == 0
    row, = lines(stoker("manifest", "show", "--json", "m.stkm"))
    assert row["frames_exact"] == exact["frames"]
    good(stoker("manifest", "verify", "--exact", "m.stkm"))


def test_merged_parts_are_the_whole(stoker, clips):
    names = sorted(name for name in os.listdir(clips) if not name.endswith((".json", ".m4a")))
    good(stoker("manifest", "build", "clips/one.stkm", *[f"clips/{name}" for name in names[:7]]))
    good(stoker("manifest", "build", "two.stkm", *[f"clips/{name}" for name in names[7:]]))
    done, = lines(good(stoker("manifest", "merge", "--json", "m.stkm", "clips/one.stkm", "two.stkm")))
    assert done == {"schema": "stoker.manifest.merge/1", "path": "m.stkm", "manifests": 2, "entries": 18, "bad": 1}
    good(stoker("manifest", "build", "whole.stkm", "clips"))
    assert (clips.parent / "m.stkm").read_bytes() == (clips.parent / "whole.stkm").read_bytes()
    done = stoker("manifest", "merge", "n.stkm", "m.stkm", "two.stkm")
    assert done.returncode == 2 and "stands in 'm.stkm' and in 'two.stkm'" in done.stderr


def test_bad_files_are_entries_with_their_sentence(stoker, clips):
    (clips / "empty.mp4").touch()
    (clips / "bad\udcff.mp4").write_bytes(b"nothing at all")
    (clips / "cut.tar").write_bytes(b"x" * 700)
    good(stoker("manifest", "build", "m.stkm", "clips"))
    shown = {os.path.basename(row["path"]): row["error"] for row in lines(stoker("manifest", "show", "--json", "--bad", "m.stkm"))}
    assert shown.keys() == {"bad\udcff.mp4", "cut.tar", "empty.mp4", "truncated_moov_at_end.mp4"}
    assert shown["empty.mp4"] == "the file is empty (0 bytes)" and "no tar archive" in shown["cut.tar"]
    good(stoker("manifest", "verify", "--deep", "m.stkm"))


def test_progress_is_said_when_it_is_asked_for(stoker, clips):
    done = good(stoker("manifest", "build", "m.stkm", "clips"))
    assert done.stderr == ""  # no terminal
    done = good(stoker("manifest", "build", "--fresh", "--progress", "m.stkm", "clips"))
    assert all(re.fullmatch(r"stoker manifest build: \d+ of 18 files, \d+ kept, \d+ cannot be used", line)
               for line in done.stderr.splitlines())  # none, if it takes less than a second
