# SPDX-License-Identifier: Apache-2.0
"""stoker decode: arrays against the reference's colours, errors that leave nothing behind, Ctrl-C."""

import json
import os
import signal
import subprocess
import time

import numpy
import pytest


def test_all_frames_have_the_colours_of_the_reference(stoker, golden, tmp_path):
    expected = json.loads((golden / "expected.json").read_text())["clips"]
    for name, clip in expected.items():
        if not clip.get("decoded_frames"):
            continue
        assert stoker("decode", golden / name, "--frames", "all", "-o", "all.npy").returncode == 0
        frames = numpy.load(tmp_path / "all.npy")
        width, height = clip["dims_after_rotation"]
        assert frames.dtype == numpy.uint8 and frames.shape == (clip["decoded_frames"], height, width, 3)
        for index, mean in clip["mean_rgb"].items():
            assert numpy.abs(frames[int(index)].mean((0, 1)) - mean).max() <= 1.0


def test_listed_frames_come_in_the_order_of_the_list(stoker, golden, tmp_path):
    clip = golden / "h264_bframes_g12.mp4"
    assert stoker("decode", clip, "--frames", "all", "-o", "all.npy").returncode == 0
    assert stoker("decode", clip, "--frames=9,0,59,9", "--output=some.npy").returncode == 0
    everything, some = numpy.load(tmp_path / "all.npy"), numpy.load(tmp_path / "some.npy")
    assert numpy.array_equal(some, everything[[9, 0, 59, 9]])


def test_frames_by_time(stoker, golden, tmp_path):
    clip = golden / "h264_bframes_g12.mp4"  # 60 frames, 30 a second
    assert stoker("decode", clip, "--frames", "45,0,9", "-o", "number.npy").returncode == 0
    assert stoker("decode", clip, "--seconds", "1.5,.03,0.3", "-o", "time.npy").returncode == 0
    assert numpy.array_equal(numpy.load(tmp_path / "number.npy"), numpy.load(tmp_path / "time.npy"))
    done = stoker("decode", clip, "--seconds", "2", "-o", "late.npy")
    assert done.returncode == 2 and "second 2 is asked for, the clip lasts 2 seconds" in done.stderr


def test_only_files_are_replaced(stoker, golden, tmp_path):
    clip = golden / "h264_bframes_g12.mp4"
    (tmp_path / "folder").mkdir()
    for name, kind in (("folder", "folder"), ("/dev/null", "device")):
        done = stoker("decode", clip, "--frames", "1", "-o", name)
        assert done.returncode == 2 and f"cannot create '{name}': a {kind}" in done.stderr
    assert os.listdir(tmp_path) == ["folder"] and not os.path.isfile("/dev/null")


def test_plan_is_printed_and_nothing_is_decoded(stoker, golden, tmp_path):
    clip = golden / "h264_bframes_g12.mp4"
    plan = json.loads(stoker("decode", clip, "--frames", "59,1", "--plan", "--json").stdout)
    assert plan["schema"] == "stoker.plan/1" and plan["by_time"] and plan["skips"]
    assert plan["packets"] == plan["frames"] == 60 and plan["kept"] == [1, 59]
    for packet in plan["kept_packet"]:
        assert any(first <= packet < end for first, end in zip(plan["segment_first"], plan["segment_end"]))
    assert plan["packets_sent"] == sum(plan["segment_end"]) - sum(plan["segment_first"])
    again = json.loads(stoker("decode", clip, "--frames", "1,59", "--plan", "--json").stdout)
    assert again == plan
    text = stoker("decode", clip, "--frames", "1,59", "--plan").stdout
    assert plan["hash"] in text and "keeps 2 of 60 frames" in text
    everything = json.loads(stoker("decode", clip, "--frames", "all", "--plan", "--json").stdout)
    assert not everything["by_time"] and everything["kept"] == [] and everything["packets_sent"] == 60
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("arguments, text", [
    (["--frames", "0", "--seconds", "0", "-o", "o"], "expected one"), (["-o", "o"], "neither --frames nor --seconds"),
    (["--frames", "0", "--plan", "-o", "o"], "--output is given with --plan"),
    (["--frames", "0", "--json", "-o", "o"], "without --plan"), (["--seconds", "1,-2", "-o", "o"], "--seconds is '1,-2'"),
    (["--seconds", "1,", "-o", "o"], "expected times"), (["--frames", "0"], "--output is not given"),
])
def test_options_that_do_not_go_together(stoker, golden, arguments, text):
    done = stoker("decode", golden / "rot90.mp4", *arguments)
    assert done.returncode == 2 and text in done.stderr


def test_size(stoker, golden, tmp_path):
    assert stoker("decode", golden / "rot90.mp4", "--frames", "0", "--size", "90x160", "-o", "o.npy").returncode == 0
    small = numpy.load(tmp_path / "o.npy")
    assert small.shape == (1, 160, 90, 3)
    assert stoker("decode", golden / "rot90.mp4", "--frames", "0", "-o", "o.npy").returncode == 0  # replaces the file
    whole = numpy.load(tmp_path / "o.npy")
    halved = whole.reshape(1, 160, 2, 90, 2, 3).mean((2, 4))
    assert numpy.abs(halved - small).mean() < 6


@pytest.mark.parametrize("name, frames, status, text", [
    ("audio_only.m4a", "0", 3, "no video stream"),
    ("truncated_moov_at_end.mp4", "0", 3, "moov atom not found"),
    ("zero_frames.mp4", "all", 3, "no frames"),
    ("absent.mp4", "0", 3, "No such file"),
    ("rot90.mp4", "25", 2, "the last of 25 frames is 24"),
])
def test_failures_leave_no_file(stoker, golden, tmp_path, name, frames, status, text):
    done = stoker("decode", golden / name, "--frames", frames, "-o", "o.npy")
    assert done.returncode == status and done.stdout == ""
    assert text in done.stderr and name in done.stderr and done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_folder_that_does_not_exist(stoker, golden):
    done = stoker("decode", golden / "rot90.mp4", "--frames", "0", "-o", "nowhere/o.npy")
    assert done.returncode == 4 and "nowhere" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_no_half_file(program, golden, tmp_path, number):
    """A long list keeps it busy; the signal comes once the temporary file is there."""
    frames = ",".join(str(index % 60) for index in range(200000))
    process = subprocess.Popen([program, "decode", golden / "h264_bframes_g12.mp4", "--frames", frames[:100000], "--size",
                                "1600x1200", "-o", "o.npy"], cwd=tmp_path, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not os.listdir(tmp_path) and process.poll() is None and time.monotonic() < deadline:
        os.sched_yield()
    assert [name for name in os.listdir(tmp_path) if name.startswith("o.npy.")]
    process.send_signal(number)
    assert process.wait(10) == 128 + number
    assert os.listdir(tmp_path) == []
