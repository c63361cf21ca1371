# SPDX-License-Identifier: Apache-2.0
"""Random transforms of images and videos: equal to Pillow and torchvision for the same choices, functions of (seed,
epoch, index) alone, the same for all frames, the same in every worker."""

import math
import collections
import contextlib
import pathlib

import numpy as np
import pytest
import torch
from PIL import Image

from processors import load, load_torchvision
from stoker import _core, errors, presets
from stoker.media import Augment, ImageDataset, VideoDataset
from stoker.torch import DistributedDataLoader

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/media"
CLIP = GOLDEN / "h264_bframes_g12.mp4"
EVERYTHING = Augment(crop="resized", flip=0.5, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder, draw, paths = tmp_path_factory.mktemp("pictures"), np.random.default_rng(11), []
    for number, (height, width) in enumerate([(90, 120), (300, 200), (64, 64), (150, 400)]):
        y, x = np.mgrid[:height, :width]
        picture = np.stack([x * 255 / width, y * 255 / height, (x // 6 + y // 9) % 2 * 255], -1)
        picture = np.clip(picture + draw.normal(0, 20, picture.shape), 0, 255).astype(np.uint8)
        paths.append(folder / f"{number}.png")
        Image.fromarray(picture).save(paths[-1])
    return paths


def hwc(tensor):
    return tensor.permute(1, 2, 0).numpy()


def test_a_resized_crop_is_a_crop_and_a_resize(pictures):
    """The part is not told; of all parts of the picture, one must give the bytes of the item."""
    dataset = ImageDataset(pictures, 24, augment=Augment(crop="resized", scale=(0.9, 1.0), ratio=(1.0, 1.0)), filter="bicubic")
    for index in (0, 2):
        picture, item = Image.open(pictures[index]), hwc(dataset[index])
        found = 0
        sides = [int(side) for side in range(8, min(picture.size) + 1) if 0.89 <= side * side / np.prod(picture.size) <= 1.01]
        for side in sides:
            for top in range(picture.height - side + 1):
                for left in range(picture.width - side + 1):
                    part = picture.crop((left, top, left + side, top + side))
                    found += np.array_equal(np.asarray(part.resize((24, 24), Image.Resampling.BICUBIC)), item)
        if sides:
            assert found >= 1, index


def test_random_crops_are_parts_of_the_scaled_picture(pictures):
    dataset = ImageDataset(pictures, 40, augment=Augment(crop="random"))
    for index, path in enumerate(pictures):
        picture = Image.open(path)
        scale = 40 / min(picture.size)
        size = tuple(40 if side == min(picture.size) else int(side * 40 / min(picture.size)) for side in picture.size)
        assert scale and 40 in size
        whole = np.asarray(picture.resize(size, Image.Resampling.BILINEAR))
        seen = set()
        for epoch in range(30):
            dataset.set_epoch(epoch)
            item = hwc(dataset[index])
            places = [
                (top, left)
                for top in range(size[1] - 39)
                for left in range(size[0] - 39)
                if np.array_equal(whole[top : top + 40, left : left + 40], item)
            ]
            assert places
            seen.add(places[0])
        assert len(seen) > min(5, max(size) - 40)


def test_pixels_around_have_the_pad_colour(pictures):
    dataset = ImageDataset(pictures, 40, augment=Augment(crop="random", crop_pad=12, pad_colour=(9, 200, 77)))
    shares = []
    for epoch in range(40):
        dataset.set_epoch(epoch)
        item = hwc(dataset[2]).reshape(-1, 3)
        shares.append((item == (9, 200, 77)).all(-1).mean())
    assert 0.1 < np.mean(shares) < 0.6
    letter = ImageDataset(pictures, 60, resize="pad", augment=Augment(pad_colour=(1, 2, 3)))
    for index, path in enumerate(pictures):
        picture, item = Image.open(path), hwc(letter[index])
        width, height = (60, max(1, picture.height * 60 // picture.width))
        if picture.width < picture.height:
            width, height = max(1, picture.width * 60 // picture.height), 60
        wanted = np.full((60, 60, 3), (1, 2, 3), np.uint8)
        top, left = (60 - height) // 2, (60 - width) // 2
        wanted[top : top + height, left : left + width] = picture.resize((width, height), Image.Resampling.BILINEAR)
        assert np.array_equal(item, wanted)


def test_flips_mirror_whole_pictures(pictures):
    plain = ImageDataset(pictures, 32)
    dataset = ImageDataset(pictures, 32, augment=Augment(flip=0.5))
    flipped = collections.Counter()
    for epoch in range(60):
        dataset.set_epoch(epoch)
        for index in range(4):
            item, upright = dataset[index], plain[index]
            same, mirrored = torch.equal(item, upright), torch.equal(item, upright.flip(-1))
            assert same or mirrored
            flipped[mirrored] += 1
    assert 80 < flipped[True] < 160


def _greyscale(picture):
    return np.floor(picture @ np.array([0.2989, 0.587, 0.114], np.float32))


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
def test_one_change_of_colour_is_a_blend_of_the_picture(pictures, name):
    """An independent version in NumPy: some factor within the bounds must explain the picture, to a level."""
    plain = ImageDataset(pictures, 48)
    dataset = ImageDataset(pictures, 48, augment=Augment(**{name: 0.5}))
    for index in range(4):
        before, after = hwc(plain[index]).astype(np.float32), hwc(dataset[index]).astype(np.float32)
        grey = _greyscale(before)
        other = {"brightness": 0 * before, "contrast": 0 * before + grey.mean(), "saturation": grey[..., None] + 0 * before}[name]
        inside = (after > 0) & (after < 255) & (np.abs(before - other) > 20)
        factor = np.median((after[inside] + 0.5 - other[inside]) / (before[inside] - other[inside]))
        assert 0.49 <= factor <= 1.51
        assert np.abs(np.floor(np.clip(factor * before + (1 - factor) * other, 0, 255)) - after).max() <= 1.5


def test_colours_equal_torchvision(pictures):
    if load_torchvision() is None:
        pytest.skip("torchvision is not installed")
    from torchvision.transforms import functional

    plain = ImageDataset(pictures, 64)
    apply = {"brightness": functional.adjust_brightness, "contrast": functional.adjust_contrast,
             "saturation": functional.adjust_saturation, "hue": functional.adjust_hue}  # fmt: skip
    for name, function in apply.items():
        bound = 0.5 if name == "hue" else 0.8
        dataset = ImageDataset(pictures, 64, augment=Augment(**{name: bound}))
        for index in range(4):
            item = dataset[index].int()
            low, high = (-bound, bound) if name == "hue" else (1 - bound, 1 + bound)
            factors = np.linspace(low, high, 81)
            best = min(factors, key=lambda factor: (function(plain[index], factor).int() - item).abs().float().mean())
            fine = np.linspace(best - (high - low) / 80, best + (high - low) / 80, 81)
            apart = min(((function(plain[index], f).int() - item).abs().float().mean().item() for f in fine if name != "hue" or abs(f) <= 0.5))
            assert apart <= 0.35, (name, index, apart)


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_all_frames_of_a_clip_are_changed_alike(mode):
    """Each frame of a clip equals the same frame of a clip of one frame that holds it: same part, mirror and colours."""
    augment = Augment(crop="random", flip=0.5, brightness=0.5, saturation=0.5, hue=0.2)
    several = VideoDataset([CLIP], 4, 48, augment=augment, mode=mode)
    single = VideoDataset([CLIP], 1, 48, augment=augment, mode=mode)
    assert torch.equal(several[0][0], single[0][0])
    plain = VideoDataset([CLIP], 4, 48, augment=Augment(flip=1.0), mode=mode)
    assert torch.equal(plain[0].flip(-1), VideoDataset([CLIP], 4, 48, mode=mode)[0])


def test_exact_videos_equal_pillow():
    data, count, height, width = _core.frames(CLIP, [0, 59])
    frames = np.frombuffer(data, np.uint8).reshape(count, height, width, 3)
    for filter, pillow in (("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC)):
        clip = VideoDataset([CLIP], 2, (100, 90), resize="exact", mode="exact", filter=filter, layout="THWC")[0]
        for frame, item in zip(frames, clip.numpy(), strict=True):
            assert np.array_equal(np.asarray(Image.fromarray(frame).resize((90, 100), pillow)), item)


def test_a_turned_clip_is_cropped_as_it_is_seen():
    path = GOLDEN / "rot90.mp4"
    data, count, height, width = _core.frames(path, [0])
    frame = Image.fromarray(np.frombuffer(data, np.uint8).reshape(count, height, width, 3)[0])
    whole = np.asarray(frame.resize((48, int(height * 48 / width)), Image.Resampling.BILINEAR))
    dataset = VideoDataset([path], 1, 48, layout="THWC", mode="exact", augment=Augment(crop="random"))
    tops = set()
    for epoch in range(12):
        dataset.set_epoch(epoch)
        item = dataset[0][0].numpy()
        tops |= {top for top in range(len(whole) - 47) if np.array_equal(whole[top : top + 48], item)}
    assert len(tops) > 3


@pytest.mark.parametrize("make", ["image", "video"])
def test_randomness_is_a_function_of_seed_epoch_and_index(pictures, make):
    def dataset(seed=0):
        if make == "image":
            return ImageDataset(pictures, 32, augment=EVERYTHING, seed=seed)
        return VideoDataset([CLIP] * 4, 3, 32, augment=EVERYTHING, seed=seed)

    first, again, other = dataset(), dataset(), dataset(seed=1)
    for index in (3, 0, 2, 1):
        assert torch.equal(first[index], again[index])
        assert not torch.equal(first[index], other[index])
    again.set_epoch(1)
    assert not torch.equal(first[0], again[0])
    if make == "video":
        assert not torch.equal(first[0], first[1])  # the same file, another index


@pytest.mark.parametrize("make", ["image", "video"])
def test_b3_every_worker_and_order_makes_the_same_batches(pictures, make):
    if make == "image":
        dataset = ImageDataset(pictures * 3, 32, augment=EVERYTHING)
    else:
        dataset = VideoDataset([CLIP, GOLDEN / "rot90.mp4"] * 4, 3, 32, augment=EVERYTHING)
    runs = []
    for workers in (0, 1, 3):
        with contextlib.closing(DistributedDataLoader(dataset, batch_size=3, num_workers=workers, seed=5)) as loader:
            runs.append([list(loader) for _ in range(2)])
    for run in runs[1:]:
        for ours, first in zip(run, runs[0], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, first, strict=True))
    assert not torch.equal(runs[0][0][0], runs[0][1][0])  # another epoch


def test_marked_images_are_changed_too(pictures):
    dataset = ImageDataset(pictures, 32, augment=EVERYTHING, partial="accept", return_partial=True)
    plain = ImageDataset(pictures, 32, augment=EVERYTHING)
    for index in range(4):
        image, partial = dataset[index]
        assert torch.equal(image, plain[index]) and partial is False


def test_orientation_is_applied_before_the_crop(tmp_path, pictures):
    upright = Image.open(pictures[0])
    for orientation, turn in ((6, Image.Transpose.ROTATE_90), (3, Image.Transpose.ROTATE_180), (2, Image.Transpose.FLIP_LEFT_RIGHT)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = tmp_path / f"{orientation}.png"
        upright.transpose(turn).save(path, exif=exif)
        for augment in (EVERYTHING, Augment(crop="random", crop_pad=3, flip=0.5)):
            assert torch.equal(
                ImageDataset([path], 32, augment=augment)[0], ImageDataset([pictures[0]], 32, augment=augment)[0]
            )


def test_a_wrong_value_is_named(pictures):
    for wrong, message in (
        ({"crop": "resize"}, "crop='resize' is not one of 'centre', 'random', 'resized'"),
        ({"flip": 2}, "flip is 2, expected 0 to 1"),
        ({"flip": math.nan}, "flip is nan"),
        ({"crop_pad": 3}, "crop_pad is 3"),
        ({"pad_colour": (1, 2)}, "pad_colour is"),
        ({"scale": (0.5, 0.1)}, "scale is"),
        ({"ratio": (0.001, 1)}, "ratio is"),
        ({"saturation": -1}, "saturation is -1"),
        ({"hue": 0.6}, "hue is 0.6, expected 0 to 0.5"),
    ):
        with pytest.raises(errors.CallerError, match=message):
            Augment(**wrong)
    with pytest.raises(errors.CallerError, match="size of the file is kept"):
        ImageDataset(pictures, resize="keep", augment=EVERYTHING)[0]
    with pytest.raises(errors.CallerError, match="bicubic filter needs the exact mode"):
        VideoDataset([CLIP], 2, 32, filter="bicubic")
    with pytest.raises(errors.CallerError, match="cannot be cropped at random"):
        VideoDataset([CLIP], 2, 32, resize="pad", augment=Augment(crop="random"))


@pytest.mark.parametrize("name", ["h264_bframes_g12.mp4", "vp9_odd227x171.webm", "rot90.mp4"])
def test_videomae_videos_equal_the_processor(name):
    family = presets.describe("videomae")["dense"]
    processor = load("VideoMAEVideoProcessor")(image_mean=list(family["mean"]), image_std=list(family["std"]))
    count = _core.probe(GOLDEN / name)["frames"]
    indices = [round(i * (count - 1) / 15) for i in range(16)]
    data, count, height, width = _core.frames(GOLDEN / name, indices)
    video = torch.frombuffer(data, dtype=torch.uint8).reshape(count, height, width, 3).permute(0, 3, 1, 2)
    theirs = processor(video, return_tensors="pt")["pixel_values"][0]
    scale = torch.tensor(family["std"])[None, :, None, None] * 255
    for mode, mean_max in (("exact", 0.2), ("fast", 1.5)):
        ours = VideoDataset([GOLDEN / name], preset="videomae", mode=mode)[0]
        assert ours.shape == theirs.shape
        apart = ((ours - theirs).abs() * scale).flatten().double().numpy().round(4)
        print(f"# videomae {name} {mode}: mean {apart.mean():.3f}, p99 {np.percentile(apart, 99):.2f} levels")
        assert apart.mean() <= mean_max
        assert mode == "fast" or np.percentile(apart, 99) <= 1
