# SPDX-License-Identifier: Apache-2.0
"""Equality with the public processors: grids and token counts on 10,000 random shapes each, and pixel values, against
transformers where it is installed, and against Pillow and torch in any case."""

import pathlib
import random

import numpy as np
import pytest
import torch
from PIL import Image

from processors import load, smart_resize
from stoker import _core, presets
from stoker.media import ImageDataset, VideoDataset

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/media"
CLIPS = ["h264_bframes_g12.mp4", "rot90.mp4", "vp9_odd227x171.webm", "fullrange_bt709.mp4", "hevc10_opengop.mp4"]
SHAPES = 10_000
# Mean and 99th percentile of the difference, in levels of 255.
MEAN_MAX, P99_MAX, FAST_MEAN_MAX = 0.2, 1.0, 1.5


def shapes(seed, largest=4000):
    draw = random.Random(seed)
    for _ in range(SHAPES):
        # Small and large pictures alike, and extreme ones.
        height, width = (int(2 ** draw.uniform(3, np.log2(largest))) for _ in range(2))
        yield draw.randint(1, 200), height, width


def planned(preset, media, frames, height, width, **overrides):
    try:
        return presets.tokens(preset, media=media, frames=frames, height=height, width=width, **overrides)
    except _core_error() as error:
        assert "200 times" in str(error)
        return None


def _core_error():
    from stoker import errors

    return errors.DataError


def expected(call):
    """The size that the public function gives, or None where it refuses the aspect ratio."""
    try:
        return call()
    except ValueError as error:
        assert "aspect ratio" in str(error)
        return None


def compare_sizes(preset, media, call, frames_of=lambda frames: frames, **overrides):
    wrong, refused = [], 0
    for frames, height, width in shapes(preset + media):
        frames = frames_of(frames)
        ours, theirs = planned(preset, media, frames, height, width, **overrides), expected(lambda: call(frames, height, width))
        refused += theirs is None
        if (ours is None) != (theirs is None) or (ours and (ours["height"], ours["width"]) != tuple(theirs)):
            wrong.append((frames, height, width, ours, theirs))
    assert not wrong, f"{len(wrong)} of {SHAPES} differ, the first: {wrong[0]}"
    assert refused < SHAPES / 10


@pytest.mark.parametrize("preset", ["qwen2-vl", "qwen2.5-vl"])
def test_sizes_of_qwen2_vl_images_equal_the_processor(preset):
    resize = smart_resize("qwen2_vl.image_processing_qwen2_vl")
    rule = presets.describe(preset)["image"]
    compare_sizes(preset, "image", lambda _, h, w: resize(h, w, 28, rule["min_pixels"], rule["max_pixels"]))
    compare_sizes(preset, "image", lambda _, h, w: resize(h, w), min_pixels=56 * 56, max_pixels=28 * 28 * 1280)


def test_sizes_of_qwen2_vl_videos_equal_the_processor():
    resize = smart_resize("qwen2_vl.video_processing_qwen2_vl")
    rule = presets.describe("qwen2-vl")["video"]
    compare_sizes("qwen2-vl", "video", lambda _, h, w: resize(h, w, 28, rule["min_pixels"], rule["max_pixels"]))


def test_sizes_of_qwen2_vl_videos_with_a_budget_equal_the_processor():
    processor = load("Qwen2VLVideoProcessor")(cap_pixels_per_frame=True)
    from transformers.models.qwen2_vl import video_processing_qwen2_vl as module

    sizes = []

    class Stop(Exception):
        pass

    def record(height, width, **keywords):
        sizes.append(original(height, width, **keywords))
        raise Stop

    original, module.smart_resize = module.smart_resize, record

    def call(frames, height, width):
        # Shape alone: a tensor that takes no memory.
        video = torch.empty(1, dtype=torch.uint8).expand(1, frames, 3, height, width)
        try:
            processor.resize(video, processor.size, processor.resample, factor=28, cap_pixels_per_frame=True)
        except Stop:
            return sizes.pop()

    try:
        compare_sizes("qwen2-vl", "video", call, total_pixels=int(128000 * 28 * 28 * 0.9))
    finally:
        module.smart_resize = original


def test_sizes_of_qwen3_vl_videos_equal_the_processor():
    resize = smart_resize("qwen3_vl.video_processing_qwen3_vl")
    rule = presets.describe("qwen3-vl")["video"]

    def call(frames, height, width):
        return resize(frames, height, width, 2, 32, rule["min_pixels"], rule["max_pixels"])

    compare_sizes("qwen3-vl", "video", call, frames_of=lambda frames: frames + 1)  # it refuses one frame


def test_sizes_of_qwen3_vl_images_equal_the_processor():
    resize = smart_resize("qwen2_vl.image_processing_qwen2_vl")
    rule = presets.describe("qwen3-vl")["image"]
    compare_sizes("qwen3-vl", "image", lambda _, h, w: resize(h, w, 32, rule["min_pixels"], rule["max_pixels"]))


def test_number_of_frames_equals_the_processors():
    from transformers.video_utils import VideoMetadata

    qwen2, qwen3 = load("Qwen2VLVideoProcessor")(), load("Qwen3VLVideoProcessor")()
    draw, overshoots = random.Random(7), 0
    for _ in range(2000):
        frames, fps = draw.randint(4, 20000), draw.choice([12, 15, 23.976, 24, 25, 29.97, 30, 60])
        metadata = VideoMetadata(total_num_frames=frames, fps=fps, duration=frames / fps)
        for preset, processor in (("qwen2-vl", qwen2), ("qwen3-vl", qwen3)):
            settings = presets.patch_settings(preset, "video", {})
            ours = _core.frames_count(frames, frames / fps, **presets.frame_arguments(settings))
            theirs = processor.sample_frames(metadata, fps=2.0)
            # Its torch.arange() by a rounded step now and then gives one index too many for what it asked for.
            most = {"qwen2-vl": ours + 1, "qwen3-vl": ours}[preset]
            assert ours <= len(theirs) <= most, (preset, frames, fps)
            overshoots += len(theirs) > ours
    assert overshoots < 200


def test_grids_and_rows_equal_the_processors_own_output():
    draw = random.Random(3)
    processors = {
        "qwen2-vl": load("Qwen2VLVideoProcessor")(cap_pixels_per_frame=False),
        "qwen3-vl": load("Qwen3VLVideoProcessor")(
            cap_pixels_per_frame=False, size={"shortest_edge": 4096, "longest_edge": 200704}
        ),
    }
    for _ in range(12):
        frames, height, width = draw.randint(2, 9), draw.randint(30, 200), draw.randint(30, 200)
        video = torch.zeros(frames, 3, height, width, dtype=torch.uint8)
        for preset, processor in processors.items():
            overrides = {"max_pixels": 200704} if preset == "qwen3-vl" else {}
            ours = presets.tokens(preset, frames=frames, height=height, width=width, **overrides)
            theirs = processor(video, do_sample_frames=False, return_tensors="pt")
            assert tuple(theirs["video_grid_thw"][0].tolist()) == ours["grid_thw"]
            assert theirs["pixel_values_videos"].shape == (ours["patches"], ours["values"])


def frames_of(path, indices):
    data, count, height, width = _core.frames(path, list(indices))
    return torch.frombuffer(data, dtype=torch.uint8).reshape(count, height, width, 3).permute(0, 3, 1, 2)


def levels(ours, theirs, std):
    """Mean and 99th percentile of the difference in levels of 255; `std` has a row of values."""
    scale = np.asarray(std, np.float64) * 255
    # Whole levels, but for the last bits of float32.
    apart = np.round(np.abs(ours.double().numpy() - theirs.double().numpy()) * scale, 4)
    return apart.mean(), np.percentile(apart, 99)


def row_std(preset, values):
    std = presets.describe(preset)["std"]
    return np.repeat(np.asarray(std), values // 3)


@pytest.mark.parametrize("name", CLIPS)
@pytest.mark.parametrize("preset", ["qwen2-vl", "qwen3-vl"])
def test_videos_equal_the_processor(name, preset):
    limits = {"min_pixels": 3136, "max_pixels": 50176}
    if preset == "qwen2-vl":
        processor = load("Qwen2VLVideoProcessor")(cap_pixels_per_frame=False)
    else:
        limits["max_pixels"] *= 6
        processor = load("Qwen3VLVideoProcessor")(cap_pixels_per_frame=False)
    processor.size = {"shortest_edge": limits["min_pixels"], "longest_edge": limits["max_pixels"]}
    for mode in ("exact", "fast"):
        dataset = VideoDataset([GOLDEN / name], preset=preset, frames=5, sampling="uniform", mode=mode, **limits)
        item = dataset[0]
        count = _core.probe(GOLDEN / name)["frames"]
        video = frames_of(GOLDEN / name, [round(i * (count - 1) / 4) for i in range(5)])
        theirs = processor(video, do_sample_frames=False, size=processor.size, return_tensors="pt")
        assert torch.equal(item["video_grid_thw"], theirs["video_grid_thw"])
        mean, p99 = levels(item["pixel_values_videos"], theirs["pixel_values_videos"], row_std(preset, dataset.shape[1]))
        print(f"# {preset} {name} {mode}: mean {mean:.3f}, p99 {p99:.2f} levels")
        if mode == "exact":
            assert mean <= MEAN_MAX and p99 <= P99_MAX, (mean, p99)
        else:
            assert mean <= FAST_MEAN_MAX, mean


def pictures(folder):
    """Pictures with edges, slopes and noise, of sizes that are enlarged and reduced."""
    draw = np.random.default_rng(5)
    paths = []
    for number, (height, width) in enumerate([(40, 60), (333, 500), (700, 420), (1000, 64)]):
        y, x = np.mgrid[:height, :width]
        picture = np.stack([x * 255 / width, y * 255 / height, (x // 8 + y // 8) % 2 * 255], -1)
        picture = np.clip(picture + draw.normal(0, 12, picture.shape), 0, 255).astype(np.uint8)
        path = folder / f"{number}.png"
        Image.fromarray(picture).save(path)
        paths.append(path)
    return paths


@pytest.mark.parametrize("preset", ["qwen2-vl", "qwen3-vl"])
@pytest.mark.parametrize("backend", ["Qwen2VLImageProcessor", "Qwen2VLImageProcessorPil"])
def test_images_equal_the_processor(tmp_path, preset, backend):
    family = presets.describe(preset)
    limits = {"min_pixels": 3136, "max_pixels": 100352}
    make = load(backend)
    processor = make(
        patch_size=family["patch_size"],
        image_mean=list(family["mean"]),
        image_std=list(family["std"]),
        size={"shortest_edge": limits["min_pixels"], "longest_edge": limits["max_pixels"]},
    )
    dataset = ImageDataset(pictures(tmp_path), preset=preset, **limits)
    for index, path in enumerate(dataset.paths):
        item, theirs = dataset[index], processor(Image.open(path), return_tensors="pt")
        assert torch.equal(item["image_grid_thw"], theirs["image_grid_thw"])
        mean, p99 = levels(item["pixel_values"], theirs["pixel_values"], row_std(preset, dataset.shape[1]))
        print(f"# {preset} {backend} {path}: mean {mean:.3f}, p99 {p99:.2f} levels")
        assert mean <= MEAN_MAX and p99 <= P99_MAX, (mean, p99)


def patches_of(picture, plan, preset):
    """Rows of a picture (uint8 height, width, 3) in NumPy, from the documented order alone."""
    family = presets.describe(preset)
    p, m, q = family["patch_size"], family["merge_size"], family["temporal_patch_size"]
    _, h, w = plan["grid_thw"]
    values = (picture.astype(np.float32) / 255 - np.asarray(family["mean"], np.float32)) / np.asarray(family["std"], np.float32)
    blocks = values.reshape(h // m, m, p, w // m, m, p, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    return np.repeat(blocks[:, :, :, :, :, None], q, axis=5).reshape(h * w, 3 * q * p * p)


@pytest.mark.parametrize("preset", ["qwen2-vl", "qwen3-vl"])
def test_images_equal_pillow_and_torch(tmp_path, preset):
    """Without transformers: the same steps with Pillow's and torch's bicubic filters."""
    dataset = ImageDataset(pictures(tmp_path), preset=preset, min_pixels=3136, max_pixels=100352)
    for index, path in enumerate(dataset.paths):
        picture, ours = Image.open(path), dataset[index]["pixel_values"]
        plan = presets.tokens(
            preset, media="image", height=picture.height, width=picture.width, min_pixels=3136, max_pixels=100352
        )
        size = (plan["width"], plan["height"])
        pillow = np.asarray(picture.resize(size, Image.Resampling.BICUBIC))
        assert np.abs(ours.numpy() - patches_of(pillow, plan, preset)).max() < 1e-5
        tensor = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)[None]
        torched = torch.nn.functional.interpolate(tensor, size[::-1], mode="bicubic", antialias=True)
        torched = torched[0].permute(1, 2, 0).numpy()
        mean, p99 = levels(ours, torch.from_numpy(patches_of(torched, plan, preset)), row_std(preset, dataset.shape[1]))
        assert mean <= MEAN_MAX and p99 <= P99_MAX, (mean, p99)
