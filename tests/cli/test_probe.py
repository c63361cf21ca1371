# SPDX-License-Identifier: Apache-2.0
"""stoker probe: the JSON lines against the reference's facts, the table, folders, exit status."""

import json
import os
import subprocess

FIELDS = ["schema", "path", "codec", "width", "height", "rotation", "frames", "duration_s", "bytes", "error",
          "sar", "pixel_format", "bit_depth", "matrix", "range", "interlaced", "alpha",
          "audio"]


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_agrees_with_the_reference(stoker, golden):
    expected = json.loads((golden / "expected.json").read_text())["clips"]
    for flags in ([], ["--exact"]):
        done = stoker("probe", "--json", *flags, *[golden / name for name in expected])
        assert done.returncode == 3 and done.stderr == ""  # two of them cannot be used
        for row, (name, clip) in zip(lines(done), expected.items(), strict=True):
            assert list(row) == FIELDS
            assert row["path"] == str(golden / name) and row["bytes"] == clip["bytes"]
            if clip["open"] != "ok" or clip["video"] is None:
                assert row["codec"] is None and row["error"] and "\n" not in row["error"]
                continue
            assert row["error"] is None
            assert row["codec"] == clip["video"]["codec_name"]
            assert [row["width"], row["height"]] == clip["dims_after_rotation"]
            assert row["frames"] == clip["decoded_frames"]
            assert row["rotation"] == -clip["video"]["rotation_ccw_deg_side_data"] % 360
            if name != "truncated_faststart.mp4" and clip["container_duration"]:
                assert abs(row["duration_s"] - float(clip["container_duration"])) < 0.1


def test_a_file_that_crashes_a_decoder_is_one_row(stoker, golden):
    """An assertion of libavcodec 59 fails in it; other versions may read it. The next file is read in any case."""
    bad, good = golden.parents[1] / "fuzz/corpus/media/crash_h264_assert.mkv", golden / "h264_bframes_g12.mp4"
    for flags in ([], ["--exact"]):
        done = stoker("probe", "--json", *flags, bad, good)
        rows = lines(done)
        assert done.returncode in (0, 3) and [row["path"] for row in rows] == [str(bad), str(good)]
        assert rows[1]["error"] is None and rows[1]["frames"] == 60
        if rows[0]["error"]:
            assert done.returncode == 3 and rows[0]["bytes"] == bad.stat().st_size
            assert "crashed (signal 6" in rows[0]["error"]


def test_pictures_are_told(stoker, golden):
    rows = {row["path"].rpartition("/")[2]: row for row in lines(stoker("probe", "--json", golden))}
    colour = [(rows[name]["pixel_format"], rows[name]["bit_depth"], rows[name]["matrix"], rows[name]["range"])
              for name in ("fullrange_bt709.mp4", "hevc10_opengop.mp4", "rot90.mp4")]
    assert colour == [("yuvj420p", 8, "bt709", "full"), ("yuv420p10le", 10, "bt709", "limited"),
                      ("yuv420p", 8, None, None)]
    assert [name for name, row in rows.items() if row["interlaced"]] == ["interlaced_tff.mkv"]
    assert [name for name, row in rows.items() if row["alpha"]] == ["alpha_qtrle.mov", "gif_delays.gif"]
    assert rows["sar16_11.mp4"]["sar"] == "16:11" and rows["rot90.mp4"]["sar"] == "1:1"
    assert rows["audio_only.m4a"]["pixel_format"] is None and rows["audio_only.m4a"]["alpha"] is False


def test_no_video_stream_is_said_exactly(stoker, golden):
    row, = lines(stoker("probe", "--json", golden / "audio_only.m4a"))
    assert row["error"] == "no video stream"
    assert row["audio"] == {"codec": "aac", "rate": 44100, "channels": 1, "duration_s": row["audio"]["duration_s"]}
    assert abs(row["audio"]["duration_s"] - 1) < 0.05


def test_sound_is_told_beside_pictures_or_alone(stoker, golden, tmp_path):
    sounds = golden.parent.parent / "fuzz/corpus/audio"
    done = stoker("probe", "--json", sounds / "valid_mp3_stereo", golden / "rot90.mp4", sounds / "bad_text")
    mp3, silent, text = lines(done)
    assert done.returncode == 3
    assert mp3["error"] == "no video stream" and mp3["codec"] is None
    assert mp3["audio"] == {"codec": "mp3", "rate": 16000, "channels": 2, "duration_s": 1.25}
    assert silent["error"] is None and silent["audio"] is None
    assert text["error"] and text["audio"] is None
    adpcm, = lines(stoker("probe", "--json", "--exact", sounds / "valid_wav_adpcm"))
    assert adpcm["audio"]["duration_s"] == 20360 / 16000
    both = tmp_path / "both.mkv"
    subprocess.run(["ffmpeg", "-v", "error", "-i", golden / "rot90.mp4", "-f", "wav", "-i",
                    sounds / "valid_wav_s16_stereo", "-c:v", "copy", "-c:a", "flac", both], check=True)
    row, = lines(stoker("probe", "--json", both))
    assert row["error"] is None and row["codec"] == "h264" and row["frames"] > 0
    assert row["audio"] == {"codec": "flac", "rate": 16000, "channels": 2, "duration_s": 1.25}


def test_folders_are_walked_in_sorted_order(stoker, golden, tmp_path):
    for name in ("b/2.mp4", "b/1.mp4", "a.mp4", ".hidden.mp4"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        os.symlink(golden / "rot90.mp4", path)
    for name in ("b/loop", "b/again"):
        os.symlink(tmp_path, tmp_path / name)
    done = stoker("probe", "--json", ".")
    assert done.returncode == 0
    assert [row["path"] for row in lines(done)] == ["./a.mp4", "./b/1.mp4", "./b/2.mp4"]


def test_missing_files_and_odd_names_are_reported(stoker, tmp_path):
    odd = os.fsencode(tmp_path) + b"/bad\xff name.mp4"
    with open(odd, "wb"):
        pass
    done = stoker("probe", "--json", "absent.mp4", ".")
    assert done.returncode == 3
    absent, empty = lines(done)
    assert "absent.mp4" in absent["error"] and "No such file" in absent["error"]
    assert empty["path"] == "./bad� name.mp4" and "empty" in empty["error"]


def test_table_has_a_row_per_file(stoker, golden):
    done = stoker("probe", golden / "rot90.mp4", golden / "audio_only.m4a")
    head, good, bad = done.stdout.splitlines()
    assert head.split() == ["codec", "size", "turn", "frames", "seconds", "bytes", "path"]
    assert good.split()[:5] == ["h264", "180x320", "270", "25", "1.000"]
    assert bad.endswith("audio_only.m4a: no video stream")


def test_output_that_cannot_be_written_is_an_error(program, golden):
    import subprocess
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, "probe", golden / "rot90.mp4"], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=60)
    assert done.returncode == 4 and "cannot write" in done.stderr
