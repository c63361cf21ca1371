# SPDX-License-Identifier: Apache-2.0
"""What model families make of pictures and clips: every constant, where it is published, and token counts for planning.

A preset is given by name to :class:`stoker.media.VideoDataset` and :class:`stoker.media.ImageDataset`; keywords beside
it override single constants. :func:`tokens` says what a sample costs without opening a file.

Three kinds of families:

``patches``
    Vision-language models whose patches merge (Qwen2-VL and its successors). Samples differ in size: items are dicts
    of ``pixel_values`` and a grid, batches put the patches of all samples one after the other, as the processors of
    ``transformers`` do.
``tubelets``
    Encoders of tubelets (VideoMAE). Samples have one size.
``latents``
    Models behind a causal video autoencoder (Wan). Samples have one size; the latents are made by the user's model.
"""

from __future__ import annotations

import copy
import operator

from . import _core, errors

__all__ = ["collate", "describe", "names", "tokens"]

_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_HALF = (0.5, 0.5, 0.5)

# Rules of sizes: numbers of stoker/vision.h.
_LIMITS = {"frame": 0, "clip": 1}
_DETAILS = {"whole_factor": 1, "grow_first": 2, "even_frames": 4}
_SAMPLING = {"uniform": 0, "step": 1}

_QWEN2_VL = {
    "kind": "patches",
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "mean": _CLIP_MEAN,
    "std": _CLIP_STD,
    "image": {
        # preprocessor_config.json of Qwen/Qwen2-VL-7B-Instruct: min_pixels 3136, max_pixels 12845056
        "limits": "frame",
        "min_pixels": 4 * 28 * 28,
        "max_pixels": 16384 * 28 * 28,
    },
    "video": {
        # transformers 5, Qwen2VLVideoProcessor: size, min_frames, max_frames; fps as in the reference (2.0)
        "limits": "frame",
        "min_pixels": 128 * 28 * 28,
        "max_pixels": 768 * 28 * 28,
        "sampling": "step",
        "fps": 2.0,
        "min_frames": 4,
        "max_frames": 768,
        "frame_factor": 2,
    },
}

_PRESETS = {
    # transformers: models/qwen2_vl (Qwen2VLImageProcessor, Qwen2VLVideoProcessor)
    "qwen2-vl": _QWEN2_VL,
    # Qwen2.5-VL uses the same two processors, and its published configuration has the same values.
    "qwen2.5-vl": _QWEN2_VL,
    # The package qwen-vl-utils, vision_process.py: what the authors' own training and evaluation scripts call.
    "qwen-vl-utils": {
        "kind": "patches",
        "patch_size": 14,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "mean": _CLIP_MEAN,
        "std": _CLIP_STD,
        "details": ("whole_factor",),
        "image": {
            # IMAGE_MIN_TOKEN_NUM 4, IMAGE_MAX_TOKEN_NUM 16384
            "limits": "frame",
            "min_pixels": 4 * 28 * 28,
            "max_pixels": 16384 * 28 * 28,
        },
        "video": {
            # VIDEO_MIN_TOKEN_NUM 128, VIDEO_MAX_TOKEN_NUM 768, total 24576 tokens, FPS 2, FRAME_FACTOR 2
            "limits": "frame",
            "min_pixels": 128 * 28 * 28,
            "max_pixels": 768 * 28 * 28,
            "total_pixels": 24576 * 28 * 28,
            "sampling": "uniform",
            "fps": 2.0,
            "min_frames": 4,
            "max_frames": 768,
            "frame_factor": 2,
        },
    },
    # transformers: models/qwen3_vl (Qwen3VLVideoProcessor; images by Qwen2VLImageProcessor), preprocessor_config.json
    # and video_preprocessor_config.json of Qwen/Qwen3-VL-8B-Instruct
    "qwen3-vl": {
        "kind": "patches",
        "patch_size": 16,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "mean": _HALF,
        "std": _HALF,
        "image": {"limits": "frame", "min_pixels": 65536, "max_pixels": 16777216},
        "video": {
            "limits": "clip",
            "min_pixels": 4096,
            "max_pixels": 25165824,
            "details": ("grow_first", "even_frames"),
            "sampling": "uniform",
            "fps": 2.0,
            "min_frames": 4,
            "max_frames": 768,
            "frame_factor": 1,
        },
    },
    # transformers: models/videomae (VideoMAEVideoProcessor: short side 224, bilinear, centre crop); mean and std of
    # preprocessor_config.json of MCG-NJU/videomae-base; tubelet 2, patch 16, masking 0.9: Tong et al. 2022
    "videomae": {
        "kind": "tubelets",
        "tubelet_size": 2,
        "patch_size": 16,
        "mask_ratio": 0.9,
        "dense": {
            "frames": 16,
            "size": 224,
            "dtype": "float32",
            "mean": _IMAGENET_MEAN,
            "std": _IMAGENET_STD,
            "layout": "TCHW",
            "resize": "short_side_crop",
        },
    },
    # Wan 2.1, wan/configs (vae_stride 4, 8, 8; patch_size 1, 2, 2; z_dim 16; 81 frames of 480 x 832): values in -1..1,
    # channels first, as its VAE takes them
    "wan": {
        "kind": "latents",
        "channels": 16,
        "stride_t": 4,
        "stride": 8,
        "patch_t": 1,
        "patch": 2,
        "dense": {
            "frames": 81,
            "size": (480, 832),
            "dtype": "float32",
            "mean": _HALF,
            "std": _HALF,
            "layout": "CTHW",
            "resize": "short_side_crop",
        },
    },
}

# Keywords of a family of patches, with those of the frames of videos.
_PATCH_KEYS = ("patch_size", "merge_size", "temporal_patch_size", "limits", "min_pixels", "max_pixels", "total_pixels",
               "frame_pixels", "details")  # fmt: skip
_FRAME_KEYS = ("sampling", "frames", "fps", "min_frames", "max_frames", "frame_factor")


def names() -> tuple[str, ...]:
    """The presets that there are."""
    return tuple(_PRESETS)


def describe(preset: str) -> dict:
    """Every constant of a preset, as a copy."""
    return copy.deepcopy(_find(preset))


def _find(preset: str) -> dict:
    if preset not in _PRESETS:
        raise errors.CallerError(f"preset={preset!r} is not one of {', '.join(map(repr, _PRESETS))}")
    return _PRESETS[preset]


def kind_of(preset: str) -> str:
    return _find(preset)["kind"]


def patch_settings(preset: str, media: str, overrides: dict) -> dict:
    """All constants of a family of patches for ``media``, with those in ``overrides`` (which is not changed) in their
    place; keys that mean nothing are refused by name."""
    family = _find(preset)
    if family["kind"] != "patches":
        raise errors.CallerError(f"preset={preset!r} has no patches that merge")
    allowed = _PATCH_KEYS + (_FRAME_KEYS if media == "video" else ())
    unknown = [name for name in overrides if name not in allowed]
    if unknown:
        raise errors.CallerError(f"{unknown[0]}={overrides[unknown[0]]!r}: no such setting for {media}s of preset={preset!r}")
    settings = {name: value for name, value in family.items() if name not in ("image", "video", "kind")}
    settings["details"] = tuple(settings.get("details", ()))
    settings.update(family[media])
    settings.update((name, value) for name, value in overrides.items() if value is not None)
    if overrides.get("frames") is not None and overrides.get("fps") is not None:
        raise errors.CallerError("frames= and fps= cannot be given together: a fixed number, or by rate")
    if overrides.get("frames") is not None:
        settings["fps"] = 0.0
    return settings


def rule_arguments(settings: dict) -> dict:
    """Of the C functions."""
    return {
        "patch": operator.index(settings["patch_size"]),
        "merge": operator.index(settings["merge_size"]),
        "temporal": operator.index(settings["temporal_patch_size"]),
        "limits": _choice("limits", settings["limits"], _LIMITS),
        "flags": sum(_choice("details", name, _DETAILS) for name in settings["details"]),
        "pixels_min": operator.index(settings["min_pixels"]),
        "pixels_max": operator.index(settings["max_pixels"]),
        "clip_pixels": operator.index(settings.get("total_pixels", 0)),
        "frame_pixels_max": operator.index(settings.get("frame_pixels", 0)),
    }


def frame_arguments(settings: dict) -> dict:
    fixed = operator.index(settings.get("frames", 0))
    by_rate = fixed == 0 and "fps" in settings
    return {
        "choice": _choice("sampling", settings.get("sampling", "uniform"), _SAMPLING),
        "frames": fixed,
        "rate": float(settings["fps"]) if by_rate else 0.0,
        "frames_min": operator.index(settings["min_frames"]) if by_rate else 0,
        "frames_max": operator.index(settings["max_frames"]) if by_rate else 0,
        "group": operator.index(settings["frame_factor"]) if by_rate else 0,
    }


def _choice(name: str, value, choices: dict) -> int:
    if value not in choices:
        raise errors.CallerError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
    return choices[value]


def dense_keywords(preset: str, given: dict) -> dict:
    """Keywords of a dataset of one size: those of the preset, and what was given instead of them."""
    family = _find(preset)
    if "dense" not in family:
        raise errors.CallerError(
            f"preset={preset!r}: its samples differ in size; use VideoDataset itself, or a subclass of VideoPatches"
        )
    return {**family["dense"], **given}


def tokens(
    preset: str,
    *,
    height: int | None = None,
    width: int | None = None,
    frames: int | None = None,
    duration_s: float | None = None,
    media: str = "video",
    **overrides,
) -> dict:
    """What a model of this family makes of one sample; no file is opened.

    Args:
        preset: a name of :func:`names`.
        height, width: pixels of the file, after rotation. Families of one size need none: theirs is taken.
        frames, duration_s: frames and seconds of the file. Without ``duration_s`` the ``frames`` are those that the
            model gets. Families of one size need neither.
        media: ``"video"`` or ``"image"``.
        overrides: constants of the preset, as for the datasets (``max_pixels``, ``fps``, ``mask_ratio``...).

    Returns:
        A dict with ``tokens`` and ``frames`` (that the model gets), ``height`` and ``width`` (after the resize), and

        - for patches: ``grid_thw``, ``patches`` (rows of the sample), ``values`` (of one row);
        - for tubelets: ``visible`` (tokens that tube masking leaves to the encoder);
        - for latents: ``latent`` (channels, t, h, w), ``frames_used``.
    """
    family = _find(preset)
    if media not in ("video", "image"):
        raise errors.CallerError(f"media={media!r} is not one of 'video', 'image'")
    if family["kind"] == "patches":
        return _patch_tokens(preset, media, height, width, frames, duration_s, overrides)
    if media != "video":
        raise errors.CallerError(f"preset={preset!r} is for videos")
    settings = {**family, **overrides}
    known = set(family) - {"kind", "dense"} | {"frames"}
    for name in overrides:
        if name not in known:
            raise errors.CallerError(f"{name}={overrides[name]!r}: no such setting of preset={preset!r}")
    size = family["dense"]["size"]
    default_height, default_width = (size, size) if isinstance(size, int) else size
    clip = {
        "clip_frames": operator.index(family["dense"]["frames"] if frames is None else frames),
        "height": operator.index(default_height if height is None else height),
        "width": operator.index(default_width if width is None else width),
    }
    if family["kind"] == "tubelets":
        plan = _core.tubelet_plan(
            **clip, tubelet=settings["tubelet_size"], patch=settings["patch_size"], masked=settings["mask_ratio"]
        )
    else:
        names = ("channels", "stride_t", "stride", "patch_t", "patch")
        plan = _core.latent_plan(**clip, **{name: settings[name] for name in names})
    return {**plan, "frames": clip["clip_frames"], "height": clip["height"], "width": clip["width"]}


def _patch_tokens(preset, media, height, width, frames, duration_s, overrides) -> dict:
    if height is None or width is None:
        raise errors.CallerError(f"preset={preset!r} needs the height and width of the picture")
    settings = patch_settings(preset, media, overrides)
    if media == "image":
        count = 1
    elif frames is None:
        raise errors.CallerError(f"preset={preset!r} needs the number of frames of the clip")
    elif duration_s is None:
        count = operator.index(frames)
    else:
        count = _core.frames_count(operator.index(frames), float(duration_s), **frame_arguments(settings))
    plan = _core.patch_plan(count, operator.index(width), operator.index(height), **rule_arguments(settings))
    plan["values"] = plan.pop("row_values")
    return {**plan, "frames": count}


def collate(samples):
    """A batch of samples of patches, as the processors give it: tensors of the same name one after the other, along
    their first dimension; with ``return_index`` a list of that and an int64 tensor of indices. The collate function of
    datasets whose samples differ in size."""
    import torch

    if isinstance(samples[0], tuple):
        parts, indices = zip(*samples, strict=True)
        return [collate(parts), torch.tensor(indices)]
    return {name: torch.cat([torch.as_tensor(sample[name]) for sample in samples]) for name in samples[0]}
