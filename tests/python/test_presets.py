# SPDX-License-Identifier: Apache-2.0
"""Presets: token counts of the published examples, and datasets of patches alone and through the loaders."""

import contextlib
import pathlib
import pickle
import shutil

import numpy as np
import pytest
import torch

from stoker import _patches, errors, manifest, presets
from stoker.media import ImageDataset, VideoDataset
from stoker.torch import DistributedDataLoader

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/media"
CLIPS = [GOLDEN / name for name in ("h264_bframes_g12.mp4", "rot90.mp4", "vp9_odd227x171.webm", "vfr.mp4", "fragmented.mp4")]


def clips(paths=CLIPS, preset="qwen2-vl", **keywords):
    return VideoDataset(paths, preset=preset, **{"min_pixels": 3136, "max_pixels": 25088, **keywords})


def expect_equal(batch, dataset, indices):
    wanted = presets.collate([dataset[i] for i in indices])
    assert list(batch) == list(wanted)
    for name, value in wanted.items():
        assert batch[name].dtype == value.dtype
        assert torch.equal(batch[name], value), name


def test_tokens_of_the_published_examples():
    utils = {"frames": 64, "height": 1080, "width": 1920}
    assert presets.tokens("qwen-vl-utils", **utils)["tokens"] == 23040
    assert presets.tokens("qwen-vl-utils", **utils)["grid_thw"] == (32, 40, 72)
    small = presets.tokens("qwen-vl-utils", frames=16, height=224, width=224)
    assert (small["height"], small["width"], small["tokens"]) == (336, 336, 1152)
    assert presets.tokens("qwen-vl-utils", frames=16, height=360, width=640)["tokens"] == 2392
    assert presets.tokens("videomae")["tokens"] == 1568
    assert presets.tokens("videomae")["visible"] == 160
    assert presets.tokens("videomae", frames=64, height=448, width=448)["tokens"] == 25088
    assert presets.tokens("wan")["tokens"] == 32760
    assert presets.tokens("wan", height=720, width=1280)["tokens"] == 75600
    assert presets.tokens("wan", frames=16, height=224, width=224)["tokens"] == 784
    assert presets.tokens("qwen2-vl", media="image", height=480, width=640)["frames"] == 1


def test_tokens_by_rate_from_the_facts_of_a_file():
    plan = presets.tokens("qwen-vl-utils", frames=300, duration_s=10.0, height=1080, width=1920)
    assert plan["frames"] == 20
    assert plan["tokens"] == 10 * 20 * 36
    assert presets.tokens("qwen-vl-utils", frames=300, duration_s=10.0, height=1080, width=1920, fps=1)["frames"] == 10


def test_a_wrong_name_or_setting_is_named():
    with pytest.raises(errors.CallerError, match="preset='qwen9' is not one of 'qwen2-vl'"):
        presets.tokens("qwen9")
    with pytest.raises(errors.CallerError, match="min_frames=2: no such setting for images of preset='qwen2-vl'"):
        presets.tokens("qwen2-vl", media="image", height=9, width=9, min_frames=2)
    with pytest.raises(errors.CallerError, match="tubelet=1: no such setting of preset='videomae'"):
        presets.tokens("videomae", tubelet=1)
    with pytest.raises(errors.CallerError, match="needs the height and width"):
        presets.tokens("qwen2-vl", frames=4)
    with pytest.raises(errors.CallerError, match="cannot be given together"):
        clips(frames=4, fps=2)
    with pytest.raises(errors.CallerError, match="size=224: no such setting"):
        clips(size=224)
    with pytest.raises(errors.CallerError, match="not uint8"):
        clips(dtype="uint8", mean=(0, 0, 0))
    with pytest.raises(errors.CallerError, match="has no patches that merge"):
        ImageDataset(CLIPS, preset="videomae")


def test_descriptors_tell_shape_and_tokens_of_what_is_decoded():
    dataset = clips(frames=6)
    for index in range(len(dataset)):
        described, item = dataset.describe(index), dataset[index]
        assert described["shape"] == item["pixel_values_videos"].shape
        assert described["tokens"] * 4 == described["shape"][0]
        assert item["video_grid_thw"].prod() == described["shape"][0]
        assert described["grid_thw"] == tuple(item["video_grid_thw"][0].tolist()) and described["dtype"] == "float32"
    assert dataset.shape == (None, 1176)


def test_descriptors_of_clips_by_rate_tell_the_grid_and_of_bad_files_none():
    dataset = clips(dtype="bfloat16")
    for index in range(len(dataset)):
        described = dataset.describe(index)
        assert described["grid_thw"] == tuple(dataset[index]["video_grid_thw"][0].tolist())
        assert described["dtype"] == "bfloat16"
    bad = VideoDataset([GOLDEN / "truncated_moov_at_end.mp4"], preset="qwen2-vl").describe(0)
    assert bad["grid_thw"] == (0, 0, 0) and bad["shape"] == (0, 1176)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_types_of_values(dtype):
    item = clips(frames=3, dtype=dtype)[1]["pixel_values_videos"]
    assert item.dtype == getattr(torch, dtype)
    full = clips(frames=3)[1]["pixel_values_videos"]
    if dtype == "uint8":
        std = np.repeat(presets.describe("qwen2-vl")["std"], 392)
        mean = np.repeat(presets.describe("qwen2-vl")["mean"], 392)
        assert np.abs((item.numpy() / 255 - mean) / std - full.numpy()).max() < 1e-5
    else:
        assert torch.equal(item, full.to(item.dtype))


def test_numpy_items_equal_tensors():
    tensors, arrays = clips()[0], clips(as_numpy=True)[0]
    for name in tensors:
        assert isinstance(arrays[name], np.ndarray)
        assert np.array_equal(tensors[name].numpy(), arrays[name])


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_put_the_patches_of_all_samples_one_after_the_other(workers):
    dataset = clips(dtype="bfloat16")
    with contextlib.closing(DistributedDataLoader(dataset, batch_size=2, num_workers=workers, shuffle=False)) as loader:
        batches = list(loader)
    assert [len(batch["video_grid_thw"]) for batch in batches] == [2, 2, 1]
    for number, batch in enumerate(batches):
        expect_equal(batch, dataset, range(2 * number, min(2 * number + 2, 5)))
    assert workers == 0 or loader._native is not None


def test_the_stock_loader_takes_the_collate_function_of_the_dataset():
    dataset = clips()
    loader = torch.utils.data.DataLoader(dataset, batch_size=3, collate_fn=dataset.collate_fn)
    for number, batch in enumerate(loader):
        expect_equal(batch, dataset, range(3 * number, min(3 * number + 3, 5)))


def test_indices_subsets_and_copies():
    dataset = pickle.loads(pickle.dumps(clips(return_index=True)))
    subset = torch.utils.data.Subset(dataset, [4, 1, 0])
    with contextlib.closing(DistributedDataLoader(subset, batch_size=3, num_workers=2)) as loader:
        assert loader._native is not None
        ((batch, indices),) = loader
    assert indices.tolist() == [4, 1, 0]
    expect_equal(batch, clips(), [4, 1, 0])


def test_single_samples_without_collation():
    dataset = clips()
    with contextlib.closing(DistributedDataLoader(dataset, batch_size=None, num_workers=2)) as loader:
        for index, item in enumerate(loader):
            assert torch.equal(item["pixel_values_videos"], dataset[index]["pixel_values_videos"])
            assert item["video_grid_thw"].shape == (1, 3)


def test_a_batch_outlives_loader_and_slab():
    dataset = clips()
    kept = []
    with contextlib.closing(DistributedDataLoader(dataset, batch_size=2, num_workers=2)) as loader:
        for _ in range(3):
            kept += list(loader)
    for number, batch in enumerate(kept):
        first = 2 * (number % 3)
        expect_equal(batch, dataset, range(first, min(first + 2, 5)))


def bad_clips(tmp_path):
    """Good ones, one that is no video, one that is described and then cut."""
    (tmp_path / "text.mp4").write_bytes(b"no video at all" * 100)
    paths = [CLIPS[0], tmp_path / "text.mp4", CLIPS[1], CLIPS[2]]
    return paths


def test_bad_samples_raise_by_name(tmp_path):
    with contextlib.closing(DistributedDataLoader(clips(bad_clips(tmp_path)), batch_size=4, num_workers=2)) as loader:
        with pytest.raises(errors.SampleError, match="text.mp4"):
            next(iter(loader))


@pytest.mark.parametrize("policy, shown", [("skip", [0, 0, 2, 3]), ("replace", [0, 2, 2, 3])])
def test_bad_samples_are_replaced_in_a_layout_of_their_own(tmp_path, policy, shown):
    dataset = clips(bad_clips(tmp_path))
    for workers in (0, 2):
        with contextlib.closing(DistributedDataLoader(dataset, batch_size=4, num_workers=workers, on_error=policy)) as loader:
            (batch,) = loader
            expect_equal(batch, dataset, shown)
            assert loader.stats()["samples_skipped"] == 1


def test_a_changed_file_is_a_mismatch(tmp_path):
    path = tmp_path / "clip.mp4"
    shutil.copy(CLIPS[0], path)
    dataset = clips([path])
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(errors.SampleError, match="bytes, it had"):
        dataset[0]


def test_a_manifest_of_scans_tells_what_is_known(tmp_path, monkeypatch):
    folder = tmp_path / "clips"
    folder.mkdir()
    for path in CLIPS[:3]:
        shutil.copy(path, folder)
    (folder / "bad.mp4").write_bytes(b"no video at all" * 100)
    manifest.build(tmp_path / "clips.manifest", folder)
    listed = clips(sorted(path for path in folder.iterdir() if path.name != "bad.mp4"))
    monkeypatch.setattr(_patches, "_read_facts", None)  # nothing is looked at again
    dataset = clips(tmp_path / "clips.manifest")
    assert sorted(dataset.paths) == sorted(listed.paths)
    for index, path in enumerate(dataset.paths):
        ours, theirs = dataset.describe(index), listed.describe(listed.paths.index(path))
        assert (ours["shape"], ours["tokens"]) == (theirs["shape"], theirs["tokens"])
        assert torch.equal(dataset[index]["pixel_values_videos"], listed[listed.paths.index(path)]["pixel_values_videos"])


def test_images_of_all_sizes_in_one_batch(tmp_path):
    from PIL import Image

    draw, paths = np.random.default_rng(1), []
    for number, (height, width) in enumerate([(60, 80), (200, 90), (33, 250)]):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(draw.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(paths[-1])
    dataset = ImageDataset(paths, preset="qwen3-vl", min_pixels=1024, max_pixels=20000, dtype="float16")
    with contextlib.closing(DistributedDataLoader(dataset, batch_size=3, num_workers=2)) as loader:
        (batch,) = loader
    expect_equal(batch, dataset, range(3))
    assert batch["image_grid_thw"][:, 0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("preset, shape", [("videomae", (16, 3, 224, 224)), ("wan", (3, 81, 480, 832))])
def test_families_of_one_size_are_forms_of_the_dense_dataset(preset, shape):
    dataset = VideoDataset(CLIPS, preset=preset)
    assert type(dataset) is VideoDataset
    assert dataset.shape == shape
    smaller = VideoDataset(CLIPS, preset=preset, frames=5, size=64)
    item = smaller[0]
    assert item.dtype == torch.float32
    family = presets.describe(preset)["dense"]
    plain = VideoDataset(
        CLIPS, 5, 64, dtype="float32", mean=family["mean"], std=family["std"], layout=family["layout"]
    )
    assert torch.equal(item, plain[0])
