# SPDX-License-Identifier: Apache-2.0
"""VideoDataset in this process: what it finds, what its items look like, what it refuses. No plane is started."""

import inspect
import json
import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from datasets import CLIPS, CORRUPT, GOLDEN

from stoker import SampleError, errors
from stoker.media import ImageDataset, VideoDataset, probe


def test_probe_gives_facts_and_errors():
    facts = probe(GOLDEN / "rot90.mp4")
    assert facts["codec"] == "h264" and facts["rotation"] == 270 and facts["height"] > facts["width"]
    assert facts["frames"] == probe(GOLDEN / "rot90.mp4", exact=True)["frames"]
    with pytest.raises(errors.DataError, match="no video stream"):
        probe(GOLDEN / "audio_only.m4a")
    with pytest.raises(errors.DataError) as caught:
        probe(GOLDEN / "missing.mp4")
    assert caught.value.status == "NOT_FOUND"


def test_sources_of_paths(tmp_path):
    (tmp_path / "b").mkdir()
    shutil.copy(CLIPS[1], tmp_path / "b" / "2.MP4")
    shutil.copy(CLIPS[0], tmp_path / "a.mp4")
    (tmp_path / "notes.txt").write_text("not a video")
    found = [os.path.relpath(path, tmp_path) for path in VideoDataset(tmp_path, 2, 32).paths]
    assert found == ["a.mp4", "b/2.MP4"]
    (tmp_path / "list.txt").write_text("# clips\n\nb/2.MP4\n" + CLIPS[3] + "\n")
    assert VideoDataset(tmp_path / "list.txt", 2, 32).paths == (str(tmp_path / "b/2.MP4"), CLIPS[3])
    lines = [{"path": "a.mp4", "error": None}, {"path": "gone.mp4", "error": "no video stream"}, {"path": CLIPS[3]}]
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert VideoDataset(tmp_path / "list.jsonl", 2, 32).paths == (str(tmp_path / "a.mp4"), CLIPS[3])
    assert len(VideoDataset(CLIPS[0], 2, 32)) == 1
    (tmp_path / "empty").mkdir()
    for source, word in ((tmp_path / "empty", "no video file"), (tmp_path / "nowhere", "does not exist")):
        with pytest.raises(errors.CallerError, match=word):
            VideoDataset(source, 2, 32)
    (tmp_path / "bad.jsonl").write_text('{"file": 1}\n')
    with pytest.raises(errors.CallerError, match="bad.jsonl, line 1"):
        VideoDataset(tmp_path / "bad.jsonl", 2, 32)
    for text in ('{\n "path": "a.mp4"\n}\n', '{"path": 1}\n', '[{"path": "a.mp4"}]\n'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(errors.CallerError, match="x.json, line 1: .*one JSON object a line, with a 'path', was expected"):
            VideoDataset(tmp_path / "x.json", 2, 32)


def test_items():
    dataset = VideoDataset(CLIPS, frames=4, size=(32, 48))
    video = dataset[0]
    assert type(video) is torch.Tensor and video.dtype == torch.uint8 and video.shape == dataset.shape == (4, 3, 32, 48)
    assert torch.equal(dataset[-1], dataset[len(dataset) - 1]) and torch.equal(dataset[np.int64(1)], dataset[1])
    with pytest.raises(IndexError):
        dataset[len(CLIPS)]
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[2], dataset[2])
    indexed = VideoDataset(CLIPS, frames=4, size=(32, 48), return_index=True)
    assert indexed[-1][1] == len(CLIPS) - 1
    described = dataset.describe(1)
    assert described["path"] == CLIPS[1] and described["bytes"] == os.path.getsize(CLIPS[1])
    assert described["sample_bytes"] == video.nbytes and described["dtype"] == "uint8"
    array = VideoDataset(CLIPS, frames=4, size=(32, 48), as_numpy=True)[0]
    assert type(array) is np.ndarray and np.array_equal(array, video.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", torch.float32])
def test_normalised_items(dtype):
    mean, std = (0.5, 0.25, 0.1), (0.5, 0.2, 0.3)
    raw = VideoDataset(CLIPS, frames=2, size=32)[0].double() / 255
    expected = (raw - torch.tensor(mean).view(3, 1, 1).double()) / torch.tensor(std).view(3, 1, 1).double()
    got = VideoDataset(CLIPS, frames=2, size=32, dtype=dtype, mean=mean, std=std)[0]
    assert str(got.dtype).endswith(str(dtype).removeprefix("torch."))
    assert torch.allclose(got.double(), expected, atol=0.04 if "16" in str(dtype) else 1e-5)


def test_signatures_name_every_argument():
    for kind, needed in ((VideoDataset, ["source", "frames", "size", "sampling", "augment", "preset"]),
                         (ImageDataset, ["source", "size", "partial", "augment", "preset"])):
        signature = inspect.signature(kind)
        assert [name for name in signature.parameters if name in needed] == needed
        assert [one.name for one in signature.parameters.values() if one.kind is one.VAR_POSITIONAL] == []
        signature.bind("clips", preset="qwen2-vl", max_pixels=9)
        assert [name for name in signature.parameters if name not in kind.__doc__] == []

    class Own(VideoDataset):
        def __init__(self, folder):
            super().__init__(folder, 2, 32)

    assert list(inspect.signature(Own).parameters) == ["folder"]
    assert len(Own(CLIPS[:1])) == 1


def test_images_may_be_given_no_preset():
    assert ImageDataset(CLIPS[:1], 32, preset=None).shape == (3, 32, 32)


def test_forms_that_are_refused():
    for form in (dict(dtype="int8"), dict(layout="HWC"), dict(resize="crop"), dict(short_clip="drop"), dict(frames=0),
                 dict(size=0), dict(damaged_max=2), dict(mean=(1, 1, 1))):
        with pytest.raises(ValueError):
            VideoDataset(CLIPS, **{"frames": 2, "size": 32, **form})
    with pytest.raises(errors.UnsupportedError, match="bfloat16"):
        VideoDataset(CLIPS, 2, 32, dtype="bfloat16", as_numpy=True)[0]


def test_bad_files_name_sample_and_path(tmp_path):
    dataset = VideoDataset([CLIPS[0], CORRUPT, GOLDEN / "audio_only.m4a"], frames=2, size=32)
    for i in (1, 2):
        with pytest.raises(SampleError, match=f"sample {i}: .*{os.path.basename(dataset.paths[i])}"):
            dataset[i]


def test_a8_changed_file_is_a_mismatch(tmp_path):
    path = tmp_path / "clip.mp4"
    shutil.copy(CLIPS[0], path)
    dataset = VideoDataset([path], frames=2, size=32)
    shutil.copy(CLIPS[1], path)
    with pytest.raises(SampleError) as caught:
        dataset[0]
    assert caught.value.status == "MISMATCH"


def test_modules_do_not_import_torch():
    code = "import sys, stoker, stoker.media, stoker.worker, stoker._core; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
