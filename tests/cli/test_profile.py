# SPDX-License-Identifier: Apache-2.0
"""stoker profile: rows, the choice of files, what it says of predictions, exit status."""

import json

FIELDS = ["schema", "path", "kind", "form", "samples", "pixels_in", "bytes_in", "pixels_out", "cpu_ns", "wall_ns",
          "input_bytes", "output_bytes", "locality"]


def rows(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_rows_say_what_was_decoded(stoker, golden):
    clip = golden / "h264_bframes_g12.mp4"
    done = stoker("profile", "--frames", "4", "--size", "64x48", clip)
    assert done.returncode == 0
    [row] = rows(done)
    assert list(row) == FIELDS
    assert row["schema"] == "stoker.cost/1" and row["kind"] == "h264" and row["path"] == str(clip)
    assert row["form"] == {"frames": 4, "width": 64, "height": 48}
    assert row["pixels_out"] == 4 * 64 * 48 and row["output_bytes"] == 3 * row["pixels_out"]
    assert row["input_bytes"] == clip.stat().st_size >= row["bytes_in"] > 0
    assert row["cpu_ns"] > 0 and row["wall_ns"] > 0
    assert "1 samples measured, 0 could not be read" in done.stderr


def test_folders_lists_and_the_choice_by_seed(stoker, golden, tmp_path):
    names = [[row["path"] for row in rows(stoker("profile", "--frames", "2", "--size", "32x32", "--samples", "3",
                                                 "--seed", seed, golden))] for seed in ("1", "1", "2")]
    assert names[0] == names[1] and len(names[0]) == 3 and names[0] != names[2]
    (tmp_path / "clips.txt").write_text(f"# two\n{golden / 'vfr.mp4'}\n{golden / 'rot90.mp4'}\n")
    done = stoker("profile", "--frames", "2", "--size", "32x32", tmp_path / "clips.txt")
    assert sorted(row["path"] for row in rows(done)) == [str(golden / "rot90.mp4"), str(golden / "vfr.mp4")]


def test_bad_files_are_named_and_left_out(stoker, golden):
    done = stoker("profile", "--frames", "2", "--size", "32x32", "--json", golden / "truncated_moov_at_end.mp4", golden / "vfr.mp4")
    assert done.returncode == 0
    *measured, summary = rows(done)
    assert [row["path"] for row in measured] == [str(golden / "vfr.mp4")]
    assert summary == {"schema": "stoker.profile/1", "samples": 1, "unreadable": 1}
    assert "truncated_moov_at_end.mp4: " in done.stderr
    assert stoker("profile", golden / "truncated_moov_at_end.mp4").returncode == 3


def test_a_file_that_is_not_there_is_named_once(stoker):
    done = stoker("profile", "nothere.mp4")
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "stoker profile: cannot open 'nothere.mp4': No such file or directory"
    assert done.stderr.count("nothere.mp4") == 1


def test_enough_samples_are_judged(stoker, golden, tmp_path):
    (tmp_path / "clips.txt").write_text("\n".join([str(golden / "vfr.mp4"), str(golden / "rot90.mp4")] * 15))
    done = stoker("profile", "--frames", "2", "--size", "32x32", "--json", tmp_path / "clips.txt")
    summary = rows(done)[-1]
    assert summary["samples"] == 30 and summary["taught"] == 15
    assert 0 <= summary["error_median"] <= summary["error_p95"]
    assert "are predicted within" in done.stderr


def test_wrong_options_are_usage_errors(stoker, golden):
    for options in (["--size", "64"], ["--size", "0x1"], ["--frames", "0"], ["--samples", "5000"], ["--repeat", "0"],
                    ["--seed", "x"]):
        done = stoker("profile", *options, golden)
        assert done.returncode == 2 and options[0] in done.stderr
    assert stoker("profile").returncode == 2
