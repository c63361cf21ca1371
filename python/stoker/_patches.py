# SPDX-License-Identifier: Apache-2.0
"""Datasets of patches: video and image files as vision-language models take them (see :mod:`stoker.presets`).

Samples differ in size. How large each is, its file's size, frame count and duration say, which are read when the
dataset is made (from the headers, or from a manifest that has them): nothing is decoded for it.
"""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
import operator
import os
import struct

from . import _core, _files, errors, manifest, presets
from ._files import sample_error

__all__ = ["PatchDataset", "with_preset"]

_MEDIA = {"video": 0, "image": 1}
_MODES = {"exact": 0, "fast": 1}
_SHORT_CLIPS = {"repeat_last": 0, "error": 1}
_PARTIAL = {"error": 0, "accept": 1}
_FACTS = struct.Struct("=IIQd")  # stoker_clip_facts
_ALIGNMENT = 256  # of the tensors of a sample


def preset_signature(init, first: str = "self") -> inspect.Signature:
    """What users see of an initialiser that takes ``preset=`` too: with a preset nothing but the source is needed, and
    ``settings`` are keywords of families of patches."""
    _, source, *others = inspect.signature(init).parameters.values()
    keyword, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    shown = [inspect.Parameter(first, inspect.Parameter.POSITIONAL_OR_KEYWORD), source]
    others = [one for one in others if one.name not in ("preset", "settings")]
    for one in others:
        optional = one.default is empty
        shown.append(one.replace(default=None, annotation=f"{one.annotation} | None") if optional else one)
    shown.append(inspect.Parameter("preset", keyword, default=None, annotation="str | None"))
    shown.append(inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(shown, return_annotation="None")


def with_preset(init):
    """An initialiser that takes ``preset=`` too: the keywords of that family stand where none was given."""
    parameters = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def wrapper(self, *arguments, preset: str | None = None, **keywords):
        if preset is None:
            init(self, *arguments, **keywords)
            return
        given = dict(zip(parameters, arguments, strict=False)) | keywords
        self.preset = preset
        init(self, **presets.dense_keywords(preset, given))

    wrapper.__signature__ = preset_signature(init)
    return wrapper


def _read_facts(media: str, path: str, orientation: bool) -> bytes:
    """Zeros for a file that cannot be described: its sample fails when it is asked for."""
    try:
        if media == "video":
            facts = _core.probe(path)
            return _FACTS.pack(facts["width"], facts["height"], facts["frames"], facts["duration_s"])
        facts = _core.probe_image(path)
        height, width = facts["height"], facts["width"]
        if not orientation and facts["orientation"] >= 5:
            height, width = width, height
        return _FACTS.pack(width, height, 1, 0.0)
    except errors.StokerError:
        return bytes(_FACTS.size)


def read_facts(media: str, paths, orientation: bool = True) -> bytes:
    """Facts of all files, read by several threads: most of it is waiting for the disk."""
    if not paths:
        return b""
    with concurrent.futures.ThreadPoolExecutor(min(32, 2 * (os.cpu_count() or 1), len(paths))) as pool:
        return b"".join(pool.map(lambda path: _read_facts(media, path, orientation), paths))


def scanned(path) -> tuple[list[str], bytes]:
    """Files of a manifest of scans (:mod:`stoker.manifest`) and what it knows of them. A file that was changed since is
    looked at again; a bad one has no facts."""
    paths, facts = [], []
    for entry in manifest.Manifest(path):
        if entry["member"] is not None:
            raise errors.UnsupportedError(
                f"{path!r} lists a member of the shard {entry['path']!r}: patches are made of files only"
            )
        if entry["error"] is not None:
            continue
        name = entry["path"]
        paths.append(name)
        try:
            found = os.stat(name)
            same = (found.st_size, found.st_mtime_ns) == (entry["bytes"], entry["mtime_ns"])
        except OSError:
            same = True  # it is told when its sample is asked for
        if same:
            frames = entry["frames"] if entry["frames_exact"] is None else entry["frames_exact"]
            facts.append(_FACTS.pack(entry["width"], entry["height"], frames, entry["duration_s"]))
        else:
            facts.append(_read_facts("video", name, True))
    return paths, b"".join(facts)


class PatchDataset(_files.FileDataset):
    """What the datasets of videos and images have in common when their samples are patches. ``media`` is one of them.

    Keywords of both, beside those of the preset (:mod:`stoker.presets`): ``dtype`` (default ``"float32"``; ``"uint8"``
    gives levels, without mean and std), ``mean``, ``std``, ``mode`` (``"exact"`` or ``"fast"``), ``return_index``,
    ``as_numpy``. Of videos: ``short_clip``, ``damaged_max``. Of images: ``background``, ``orientation``, ``partial``,
    ``max_pixels_decoded``.

    Items are dicts: ``pixel_values_videos`` (patches, values) and ``video_grid_thw`` (1, 3) int64, or ``pixel_values``
    and ``image_grid_thw``. :attr:`collate_fn` puts the items of a batch one after the other.
    """

    media: str
    #: Of loaders that are not stoker's: ``DataLoader(dataset, collate_fn=dataset.collate_fn)``.
    collate_fn = staticmethod(presets.collate)

    def _set_up(self, paths, preset: str, keywords: dict, facts: bytes | None = None) -> None:
        presets.patch_settings(preset, self.media, {})  # a family of patches?
        family = presets.describe(preset)
        own = {
            "dtype": "float32",
            "mean": family["mean"],
            "std": family["std"],
            "mode": "exact",
            "return_index": False,
            "as_numpy": False,
        }
        if self.media == "video":
            own |= {"short_clip": "repeat_last", "damaged_max": None}
        else:
            own |= {"background": None, "orientation": True, "partial": "error", "max_pixels_decoded": None}
        given = {name: keywords.pop(name) for name in tuple(keywords) if name in own}
        own |= given
        self.preset = preset
        self.dtype = str(own["dtype"]).removeprefix("torch.")
        self.return_index = bool(own["return_index"])
        self.as_numpy = bool(own["as_numpy"])
        if self.dtype == "uint8":
            if given.get("mean") is not None or given.get("std") is not None:
                raise errors.CallerError("mean and std need a floating-point dtype, not uint8")
            own["mean"] = own["std"] = None
        self._settings = presets.patch_settings(preset, self.media, keywords)
        self._form = self._make_form(own)
        self.paths = tuple(paths)
        if _files.any_remote(self.paths):
            raise errors.UnsupportedError("patches are made of local files: their headers are read when the dataset is made")
        if facts is None:
            facts = read_facts(self.media, self.paths, bool(own.get("orientation", True)))
        self._facts = facts
        self._source()  # forms and paths are checked now, not in a worker

    def _make_form(self, own: dict) -> dict:
        form = {
            "media": _MEDIA[self.media],
            **presets.rule_arguments(self._settings),
            **presets.frame_arguments(self._settings if self.media == "video" else {}),
            "mode": _files.choice("mode", own["mode"], _MODES),
            "dtype": _files.choice("dtype", self.dtype, _files.DTYPES),
            "mean": None if own["mean"] is None else tuple(map(float, own["mean"])),
            "std": None if own["std"] is None else tuple(map(float, own["std"])),
            "short_clip": 0,
            "damaged_max": 0.0,
            "background": None,
            "ignore_orientation": False,
            "partial": 0,
            "max_pixels": 0,
        }
        if self.media == "video":
            form["short_clip"] = _files.choice("short_clip", own["short_clip"], _SHORT_CLIPS)
            form["damaged_max"] = _share(own["damaged_max"])
            return form
        form["background"] = None if own["background"] is None else tuple(map(operator.index, own["background"]))
        form["ignore_orientation"] = not own["orientation"]
        form["partial"] = _files.choice("partial", own["partial"], _PARTIAL)
        pixels = own["max_pixels_decoded"]
        form["max_pixels"] = 0 if pixels is None else operator.index(pixels)
        return form

    def _make_source(self):
        return _core.patch_source(self.paths, self._facts, **self._form)

    @property
    def shape(self) -> tuple[None, int]:
        """Of the patches of one item: their number differs."""
        rule = self._settings
        return (None, 3 * rule["temporal_patch_size"] * rule["patch_size"] ** 2)

    def describe(self, index: int) -> dict:
        """What is known of an item before it is decoded: path, bytes, mtime_ns, shape (patches, values), dtype (its name),
        sample_bytes, tokens, and grid_thw: groups of frames, rows and columns of patches; ``(0, 0, 0)`` for a file that
        cannot be used."""
        described = super().describe(index)
        return described | {"grid_thw": self._grid(self._position(index))}

    def _grid(self, position: int) -> tuple[int, int, int]:
        width, height, frames, duration_s = _FACTS.unpack_from(self._facts, position * _FACTS.size)
        if not (width and height and frames):
            return (0, 0, 0)
        count = 1
        if self.media == "video":
            rule = presets.frame_arguments(self._settings)
            count = rule["frames"] or _core.frames_count(frames, duration_s, **rule)
        return _core.patch_plan(count, width, height, **presets.rule_arguments(self._settings))["grid_thw"]

    def __getitem__(self, index):
        position = self._position(index)
        item = self._decode(position)
        return (item, position) if self.return_index else item

    def _decode(self, position: int):
        described = self._source().describe(position)
        rows, values = described["shape"]
        item, memory = _files.empty((described["sample_bytes"],), "uint8", self.as_numpy)
        try:
            self._source().materialise(position, memory)
        except (errors.DataError, errors.UnsupportedError) as error:
            raise sample_error(error, position, self.paths[position]) from None
        return self._split(item, rows, values)

    def _split(self, item, rows: int, values: int) -> dict:
        """The two tensors of a sample, as the C library lays them out."""
        size = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4}[self.dtype] * rows * values
        grid_at = -(-size // _ALIGNMENT) * _ALIGNMENT
        pixels, grid = item[:size], item[grid_at : grid_at + 24]
        if hasattr(item, "storage_offset"):
            import torch

            made = (pixels.view(getattr(torch, self.dtype)), grid.clone().view(torch.int64))
        else:
            if self.dtype == "bfloat16":
                raise errors.UnsupportedError("dtype='bfloat16': NumPy has no such type; install PyTorch or use another")
            made = (pixels.view(self.dtype), grid.copy().view("int64"))
        return dict(zip(self._source().names, (made[0].reshape(rows, values), made[1].reshape(1, 3)), strict=True))


def _share(value) -> float:
    """0 means the default in C, a negative number none at all."""
    if value is None:
        return 0.0
    if not 0 <= value <= 1:
        raise errors.CallerError(f"damaged_max={value!r} is not between 0 and 1")
    return float(value) if value > 0 else -1.0
