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
