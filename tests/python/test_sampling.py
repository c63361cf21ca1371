# SPDX-License-Identifier: Apache-2.0
"""Which frames a clip's sample holds, frames by time and by plan, and the randomness of clips in every kind of loader."""

import math

import numpy as np
import pytest
import torch
from datasets import CLIPS, GOLDEN
from torch.utils.data import DataLoader, Dataset, Subset

from stoker import SampleError, errors
from stoker.media import VideoDataset, decode_plan, probe, read_frames
from stoker.torch import DistributedDataLoader

CLIP = CLIPS[0]  # 60 frames, 30 a second
SHORT = GOLDEN / "gif_delays.gif"  # 8 frames


def frames_of(dataset, index=0):
    """Numbers of the frames of an item, found by their pixels (the last of equal ones)."""
    every = VideoDataset(dataset.paths, probe(dataset.paths[index])["frames"], 32)[index]
    numbers = {frame.numpy().tobytes(): number for number, frame in enumerate(every)}
    assert len(numbers) == len(every)
    return [numbers[frame.numpy().tobytes()] for frame in dataset[index]]


def rint(top, bottom):
    return round(top / bottom) if bottom else 0  # Python rounds half to even


@pytest.mark.parametrize("form, expected", [
    (dict(), [rint(i * 59, 8) for i in range(9)]),
    (dict(sampling="step"), [i * 60 // 9 for i in range(9)]),
    (dict(sampling="first", stride=3), list(range(0, 27, 3))),
    (dict(sampling="middle", stride=3), list(range(17, 44, 3))),
    (dict(sampling="last", stride=3), list(range(35, 62, 3))),
    (dict(sampling="rate"), [0, 20, 39, 59] + [59] * 5),  # 2 s at 2 a second
    (dict(sampling="rate", spread="step"), [0, 15, 30, 45] + [45] * 5),
    (dict(sampling="rate", fps=4), [rint(i * 59, 7) for i in range(8)] + [59]),
    (dict(sampling="rate", fps=30), [rint(i * 59, 7) for i in range(8)] + [59]),
    (dict(sampling="rate", fps=3.5, min_frames=2), [0, 12, 24, 35, 47, 59] + [59] * 3),
    (dict(sampling="rate", fps=3.5, rounding="nearest", frame_factor=4), [rint(i * 59, 7) for i in range(8)] + [59]),
    (dict(sampling="rate", fps=1, max_frames=6, min_frames=6), [0, 12, 24, 35, 47, 59] + [59] * 3),
])
def test_conventions(form, expected):
    assert frames_of(VideoDataset([CLIP], 9, 32, **form)) == expected


def test_random_clip_moves_with_the_epoch_and_the_seed():
    dataset = VideoDataset([CLIP], 4, 32, sampling="random", stride=2)
    starts = []
    for epoch in range(12):
        dataset.set_epoch(epoch)
        frames = frames_of(dataset)
        assert np.diff(frames).tolist() == [2, 2, 2]
        assert frames_of(dataset) == frames
        starts.append(frames[0])
    assert len(set(starts)) > 6 and 0 <= min(starts) and max(starts) <= 53
    again = VideoDataset([CLIP], 4, 32, sampling="random", stride=2)
    other = VideoDataset([CLIP], 4, 32, sampling="random", stride=2, seed=1)
    for dataset in (again, other):
        dataset.set_epoch(3)
    assert frames_of(again)[0] == starts[3]
    assert {frames_of(other)[0], starts[3]} != {starts[3]}


def test_short_clips_say_how_many_frames_they_have():
    dataset = VideoDataset([SHORT, CLIP], 12, 32, return_frames=True)
    video, frames = dataset[0]
    assert frames == 8 and torch.equal(video[7], video[11]) and not torch.equal(video[6], video[7])
    assert dataset[1][1] == 12
    assert torch.equal(video, VideoDataset([SHORT], 12, 32)[0])
    by_rate = VideoDataset([CLIP], 16, 32, sampling="rate", fps=3, return_frames=True, return_index=True)
    assert by_rate[0][1:] == (0, 6)
    as_numpy = VideoDataset([SHORT], 12, (32, 48), dtype="float32", layout="CTHW", return_frames=True, as_numpy=True)[0]
    assert as_numpy[0].shape == (3, 12, 32, 48) and as_numpy[0].dtype == np.float32 and as_numpy[1] == 8
    with pytest.raises(SampleError, match="8 frames, which gives 3; 4 are wanted"):
        VideoDataset([SHORT], 4, 32, sampling="first", stride=3, short_clip="error")[0]
    with pytest.raises(errors.UnsupportedError, match="bfloat16"):
        VideoDataset([SHORT], 4, 32, dtype="bfloat16", return_frames=True, as_numpy=True)[0]


def test_count_of_frames_in_batches():
    dataset = VideoDataset([SHORT, CLIP, SHORT], 12, 32, return_frames=True)
    expected = list(DataLoader(dataset, batch_size=3))
    for workers in (0, 2):
        (videos, counts), = DistributedDataLoader(dataset, batch_size=3, num_workers=workers)
        assert counts.dtype == torch.int64 and counts.tolist() == [8, 12, 8]
        assert torch.equal(videos, expected[0][0]) and torch.equal(counts, expected[0][1])
    indexed = VideoDataset([SHORT, CLIP], 12, 32, return_frames=True, return_index=True)
    (_, index, counts), = DistributedDataLoader(indexed, batch_size=2, num_workers=1)
    assert index.tolist() == [0, 1] and counts.tolist() == [8, 12]
    alone = list(DistributedDataLoader(indexed, batch_size=None, num_workers=1))
    assert [item[1:] for item in alone] == [[0, 8], [1, 12]] or [tuple(item[1:]) for item in alone] == [(0, 8), (1, 12)]


class Wrapped(Dataset):
    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[index]


def test_b3_random_clips_do_not_depend_on_who_decodes_them():
    dataset = VideoDataset(CLIPS[:4], 2, 32, sampling="random")

    def run(data, workers, sampler=None, epoch=3, **options):
        loader = DistributedDataLoader(data, batch_size=2, num_workers=workers, seed=11, sampler=sampler, **options)
        loader.set_epoch(epoch)
        return torch.cat(list(loader))

    reference = run(dataset, 1)
    for workers in (0, 2):
        assert torch.equal(run(dataset, workers), reference)
        assert torch.equal(run(Wrapped(dataset), workers), reference)  # decoded inside workers in Python
    assert not torch.equal(run(dataset, 2, epoch=4), reference)
    alone = VideoDataset(CLIPS[:4], 2, 32, sampling="random", seed=11)
    alone.set_epoch(3)
    assert torch.equal(torch.stack([alone[i] for i in range(4)]), reference)
    assert torch.equal(run(Subset(dataset, [2, 0]), 1), reference[[2, 0]])
    often = [1] * 6  # occurrences differ
    drawn = {video.numpy().tobytes() for video in run(dataset, 2, sampler=often)}
    assert len(drawn) > 3 and reference[1].numpy().tobytes() in drawn
    assert torch.equal(run(dataset, 2, sampler=often), run(dataset, 0, sampler=often))


def test_b3_persistent_workers_see_the_epoch():
    dataset = VideoDataset(CLIPS[:2], 2, 32, sampling="random")
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=1, seed=1, persistent_workers=True)
    seen = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        seen.append(torch.cat(list(loader)))
    assert torch.equal(seen[0], seen[2]) and not torch.equal(seen[0], seen[1])


def test_frames_by_number_and_by_time():
    every = read_frames(CLIP)
    assert type(every) is torch.Tensor and every.dtype == torch.uint8 and every.shape == (60, 240, 320, 3)
    some = read_frames(CLIP, [45, 0, 45], size=(24, 32))
    assert some.shape == (3, 24, 32, 3) and torch.equal(some[0], some[2])
    assert torch.equal(some, read_frames(CLIP, seconds=[1.5, 0, 1.5333], size=(24, 32))[[0, 1, 0]])
    assert torch.equal(read_frames(CLIP, [7])[0], every[7])
    array = read_frames(CLIP, (np.int64(3),), as_numpy=True)
    assert type(array) is np.ndarray and np.array_equal(array[0], every[3].numpy())
    assert read_frames(CLIP, []).shape[0] == 0
    for wrong in (dict(indices=[60]), dict(seconds=[2]), dict(seconds=[-1]), dict(seconds=[math.nan])):
        with pytest.raises(errors.CallerError, match="is asked for"):
            read_frames(CLIP, **wrong)
    with pytest.raises(ValueError, match="both indices and seconds"):
        read_frames(CLIP, [0], [0])


def test_a_plan_is_kept_and_run_again():
    plan = decode_plan(CLIP, [50, 3])
    assert plan["kept"] == [3, 50] and plan["by_time"] and plan["packets_sent"] < plan["packets"] == 60
    assert torch.equal(read_frames(CLIP, plan=plan["bytes"]), read_frames(CLIP, [3, 50]))
    assert decode_plan(CLIP, [3, 50])["hash"] == plan["hash"] != decode_plan(CLIP, [3, 51])["hash"]
    assert decode_plan(CLIP, seconds=[0.1, 1.67])["hash"] == plan["hash"]
    with pytest.raises(errors.DataError) as caught:
        read_frames(CLIPS[1], plan=plan["bytes"])
    assert caught.value.status == "MISMATCH"
    with pytest.raises(errors.DataError, match="plan: 8 bytes"):
        read_frames(CLIP, plan=b"STKP\0\0\0\0")


def test_pictures_as_the_options_say():
    rotated = GOLDEN / "rot90.mp4"
    stored, seen = read_frames(rotated, [0], rotation=False), read_frames(rotated, [0])
    assert torch.equal(seen[0], torch.rot90(stored[0], 1, (0, 1)))  # 270 degrees clockwise
    assert read_frames(GOLDEN / "sar16_11.mp4", [0], apply_sar=True).shape[2] > read_frames(GOLDEN / "sar16_11.mp4", [0]).shape[2]
    tagged, untagged = GOLDEN / "fullrange_bt709.mp4", CLIP
    assert torch.equal(read_frames(tagged, [0], untagged="bt709"), read_frames(tagged, [0]))
    assert not torch.equal(read_frames(untagged, [0], untagged="bt709"), read_frames(untagged, [0]))
    dataset = VideoDataset([rotated], 2, (20, 30), resize="exact", rotation=False)
    assert torch.equal(dataset[0][0].permute(1, 2, 0), read_frames(rotated, [0], size=(20, 30), rotation=False)[0])


def test_options_that_mean_nothing_are_refused():
    for form in (dict(sampling="all"), dict(stride=2), dict(stride=0), dict(fps=2), dict(sampling="rate", fps=0),
                 dict(sampling="rate", rounding="up"), dict(sampling="rate", frame_factor=9), dict(untagged="bt2020"),
                 dict(background=(0, 0, 256)), dict(background=(0, 0)), dict(sampling="random", stride=-1)):
        with pytest.raises(ValueError):
            VideoDataset([CLIP], 8, 32, **form)
