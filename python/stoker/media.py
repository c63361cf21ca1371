# SPDX-License-Identifier: Apache-2.0
"""Video, image and sound files as map-style datasets that are decoded in C (sound: stoker.audio).

Given to a stoker loader with the default collate function, a :class:`VideoDataset` or an :class:`ImageDataset` is
decoded by worker processes that run no Python. ``dataset[i]`` decodes in the calling process, so it works with any
other loader, too.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Sequence

from . import _augment, _core, _files, _patches, errors, manifest, presets
from ._augment import Augment
from ._files import sample_error
from .audio import AUDIO_EXTENSIONS, AudioDataset, log_mel, probe_audio, read_audio

__all__ = [
    "AUDIO_EXTENSIONS",
    "AudioDataset",
    "log_mel",
    "probe_audio",
    "read_audio",
    "Augment",
    "IMAGE_EXTENSIONS",
    "VIDEO_EXTENSIONS",
    "ImageDataset",
    "VideoDataset",
    "decode_plan",
    "probe",
    "probe_image",
    "read_frames",
    "read_image",
]

#: What a directory is searched for, in lower case.
VIDEO_EXTENSIONS = frozenset(
    ".3gp .asf .avi .flv .gif .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .ogv .ts .vob .webm .wmv".split()
)
#: The same for images. What a file is, its bytes decide.
IMAGE_EXTENSIONS = frozenset(".apng .gif .jfif .jpe .jpeg .jpg .png .webp".split())

_LAYOUTS = {"TCHW": 0, "CTHW": 1, "THWC": 2}
_RESIZES = {"short_side_crop": 0, "exact": 1, "pad": 2}
_VIDEO_MODES = {"fast": 0, "exact": 1}
_SHORT_CLIPS = {"repeat_last": 0, "error": 1}
_SAMPLINGS = {"uniform": 0, "step": 1, "rate": 2, "first": 3, "middle": 4, "last": 5, "random": 6}
_ROUNDINGS = {"floor": 0, "nearest": 1}
_SPREADS = {"uniform": 0, "step": 1}
_UNTAGGED = {"bt601": 0, "bt709": 1, "by_size": 2}
_IMAGE_LAYOUTS = {"CHW": 0, "HWC": 1}
_IMAGE_RESIZES = {"short_side_crop": 0, "exact": 1, "keep": 2, "pad": 3}
_FILTERS = {"bilinear": 0, "bicubic": 1}
_MODES = {"exact": 0, "fast": 1}
_PARTIAL = {"error": 0, "accept": 1}
_MARK = 2  # accept, and say so beside each sample


def probe(path: str | os.PathLike, exact: bool = False) -> dict:
    """Facts about one file: codec, width, height (after rotation), rotation, frames, duration_s, bytes, mtime_ns; and of
    its first frame sar (a pair; ``(0, 1)`` if unknown), pixel_format, bit_depth, matrix, range, interlaced, alpha.

    Frames are those of the packet table; with ``exact`` the file is decoded once and its frames are counted.
    """
    return _core.probe(path, exact=exact)


def _picture(untagged: str, apply_sar: bool, rotation: bool, background: Sequence[int] | None) -> dict:
    """The keywords of the C functions."""
    return {
        "untagged": _files.choice("untagged", untagged, _UNTAGGED),
        "apply_sar": bool(apply_sar),
        "ignore_rotation": not rotation,
        "background": None if background is None else tuple(map(operator.index, background)),
    }


def _frame_numbers(indices) -> list[int] | None:
    if indices is None:
        return None
    numbers = [operator.index(index) for index in indices]
    for number in numbers:
        if not 0 <= number < 2**63:
            raise errors.CallerError(f"indices: frame {number} of a clip, whose frames are numbered from 0")
    return numbers


def read_frames(
    path: str | os.PathLike,
    indices: Iterable[int] | None = None,
    seconds: Iterable[float] | None = None,
    size: int | Sequence[int] | None = None,
    *,
    plan: bytes | None = None,
    untagged: str = "bt601",
    apply_sar: bool = False,
    rotation: bool = True,
    background: Sequence[int] | None = None,
    as_numpy: bool = False,
):
    """Decode frames of one video: uint8, shape ``(frames, height, width, 3)``, R, G, B.

    Args:
        path: a video file.
        indices: numbers of presented frames from 0, in any order, repeats allowed.
        seconds: instead, times from 0: the frames that are shown then. The first frame is shown from second 0 on, each
            until the next one, the last for as long as the file says. Without both, all frames.
        size: output pixels, one number for a square or ``(height, width)``; None keeps that of the file.
        plan: instead, the ``"bytes"`` of a :func:`decode_plan`: the frames that it keeps, in ascending order.
        untagged, apply_sar, rotation, background: as for :class:`VideoDataset`.
        as_numpy: a NumPy array even where PyTorch is installed.

    Raises :class:`stoker.CallerError` for a frame or a time outside of the clip, naming both figures, and
    :class:`stoker.DataError` for files that cannot be decoded, or that a plan was not made for.
    """
    height, width = (0, 0) if size is None else _files.size_of(size)
    data, count, height, width = _core.frames(
        path,
        indices=_frame_numbers(indices),
        seconds=None if seconds is None else [float(second) for second in seconds],
        width=width,
        height=height,
        plan=plan,
        **_picture(untagged, apply_sar, rotation, background),
    )
    item, memory = _files.empty((count, height, width, 3), "uint8", as_numpy)
    if count:
        memoryview(memory.reshape(-1))[:] = data
    return item


def decode_plan(
    path: str | os.PathLike, indices: Iterable[int] | None = None, seconds: Iterable[float] | None = None
) -> dict:
    """The plan by which :func:`read_frames` would decode these frames of a file that is whole; nothing is decoded.

    Returns hash, by_time (jumps between key frames; else everything from the start), skips (frames that nothing refers to
    are left out), packets and frames of the file, segments (first packet, the one after the last, decode time of the
    first), kept (frames; none means all), packets_sent, bytes_sent, predicted_s, and bytes: the plan to keep or to run.
    """
    return _core.frame_plan(
        path,
        indices=_frame_numbers(indices),
        seconds=None if seconds is None else [float(second) for second in seconds],
    )


class VideoDataset(_files.FileDataset):
    """A fixed number of frames of each video file, as one tensor.

    Args:
        source: a folder (searched in sorted order for :data:`VIDEO_EXTENSIONS`), one video file, a manifest of scans
            (:mod:`stoker.manifest`: nothing is looked at again, members of tar shards are read in place, files that
            cannot be used are left out), a list (a text file with one path a line, or JSON lines with a ``path``), or
            an iterable of paths.
        frames: frames per clip; by rate the most that there may be.
        size: output pixels, one number for a square or ``(height, width)``.
        dtype: ``"uint8"``, ``"float16"``, ``"bfloat16"`` (needs PyTorch) or ``"float32"``, or a torch dtype of that
            name.
        mean, std: three numbers each, of values scaled to 0..1, for R, G, B; not with uint8.
        layout: ``"TCHW"``, ``"CTHW"`` or ``"THWC"``.
        resize: ``"short_side_crop"`` scales the short side and crops the centre, ``"exact"`` ignores the aspect ratio,
            ``"pad"`` shows the whole picture in the middle of pixels of ``augment.pad_colour``.
        short_clip: a clip with fewer frames repeats its last one (``"repeat_last"``) or is an error (``"error"``).
        damaged_max: largest share of a clip's promised frames that may be undecodable (default 0.5).
        return_index: items are ``(video, index)`` and batches ``(video, int64 tensor)``.
        as_numpy: items are NumPy arrays even where PyTorch is installed.
        sampling: which of the n presented frames: ``"uniform"`` (frame ``rint(i*(n-1)/(frames-1))``), ``"step"`` (frame
            ``floor(i*n/frames)``), ``"rate"`` (``fps`` frames a second), or a clip of consecutive frames: ``"first"``,
            ``"middle"``, ``"last"`` or ``"random"``.
        stride: of clips: each frame is that many after the one before.
        fps, min_frames, max_frames, frame_factor: by rate: ``n/rate*fps`` frames (default 2 a second), but at least
            min_frames (4), at most max_frames (768), ``frames`` and n, and a multiple of frame_factor (2).
        rounding: to that multiple, ``"floor"`` or ``"nearest"``; public processors differ.
        spread: of frames by rate, ``"uniform"`` or ``"step"``, as above.
        untagged: the matrix of files that name none: ``"bt601"`` (as the ffmpeg program), ``"bt709"`` or ``"by_size"``
            (BT.709 from 1280 pixels wide or more than 576 high).
        apply_sar: make pixels square, by the width; else pixels are taken as they are stored.
        rotation: turn pictures as the file says.
        background: R, G, B from 0 to 255, over which transparent pixels are put; None drops alpha.
        seed: of random clips that are asked for by ``dataset[i]``, with :meth:`set_epoch`; a stoker loader brings its
            own.
        return_frames: items are ``(video, frames)`` or ``(video, index, frames)``, and batches have an int64 tensor: how
            many of the frames are no repeats of the last.
        mode: ``"fast"`` scales on the way from YUV to RGB, ``"exact"`` converts at full size and scales then: the bytes
            of Pillow's ``resize()``, at two to three times the price.
        filter: of the exact mode, ``"bilinear"`` or ``"bicubic"``, both antialiased.
        augment: an :class:`Augment`: random parts, mirroring and colours, the same for all frames of a clip.
        preset: a model family by name (:mod:`stoker.presets`), whose constants stand where no keyword is given; without
            one, frames and size are needed. For families of patches items are dicts that differ in size: see
            :class:`VideoPatches`.
        settings: of families of patches, in place of single constants of the preset.

    Items are torch tensors if PyTorch is installed (NumPy arrays else, or with ``as_numpy=True``) of shape
    ``(frames, 3, height, width)`` in the order of ``layout``. A clip of fewer frames than wanted gives each once, then
    its last one again. Where a random clip begins is a function of (seed, epoch, index, earlier uses of the index in
    this epoch), whichever worker decodes it.

    A file that is missing or damaged raises :class:`stoker.SampleError` when its item is asked for. Sizes and times
    of the files are read when the dataset is made; a file that was changed since then is a mismatch.
    """

    return_frames = False
    _noun = "clips"

    def __new__(cls, *arguments, preset: str | None = None, **keywords):
        patches = cls is VideoDataset and preset is not None and presets.kind_of(preset) == "patches"
        return super().__new__(VideoPatches if patches else cls)

    @_patches.with_preset
    def __init__(
        self,
        source: str | os.PathLike | Iterable[str | os.PathLike],
        frames: int,
        size: int | Sequence[int],
        dtype="uint8",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        layout: str = "TCHW",
        resize: str = "short_side_crop",
        short_clip: str = "repeat_last",
        damaged_max: float | None = None,
        return_index: bool = False,
        as_numpy: bool = False,
        *,
        sampling: str = "uniform",
        stride: int = 1,
        fps: float | None = None,
        min_frames: int | None = None,
        max_frames: int | None = None,
        frame_factor: int | None = None,
        rounding: str = "floor",
        spread: str = "uniform",
        untagged: str = "bt601",
        apply_sar: bool = False,
        rotation: bool = True,
        background: Sequence[int] | None = None,
        seed: int = 0,
        return_frames: bool = False,
        mode: str = "fast",
        filter: str = "bilinear",
        augment: Augment | None = None,
    ) -> None:
        dtype = str(dtype).removeprefix("torch.")
        height, width = _files.size_of(size)
        self.seed = operator.index(seed)
        self.random = sampling == "random" or (augment is not None and augment.is_random)
        self.return_frames = bool(return_frames)
        self.dtype = dtype
        self.layout = layout
        self.return_index = bool(return_index)
        self.as_numpy = bool(as_numpy)
        self._form = {
            "frames": _files.whole("frames", frames),
            "width": width,
            "height": height,
            "dtype": _files.choice("dtype", dtype, _files.DTYPES),
            "layout": _files.choice("layout", layout, _LAYOUTS),
            "resize": _files.choice("resize", resize, _RESIZES),
            "short_clip": _files.choice("short_clip", short_clip, _SHORT_CLIPS),
            "mean": None if mean is None else tuple(map(float, mean)),
            "std": None if std is None else tuple(map(float, std)),
            "damaged_max": _share(damaged_max),
            "sampling": _files.choice("sampling", sampling, _SAMPLINGS),
            "stride": _count("stride", stride),
            "fps": _rate(fps),
            "frames_min": _count("min_frames", min_frames),
            "frames_max": _count("max_frames", max_frames),
            "frame_factor": _count("frame_factor", frame_factor),
            "rounding": _files.choice("rounding", rounding, _ROUNDINGS),
            "spread": _files.choice("spread", spread, _SPREADS),
            "count_frames": self.return_frames,
            "mode": _files.choice("mode", mode, _VIDEO_MODES),
            "filter": _files.choice("filter", filter, _FILTERS),
            "augment": _augment.arguments(augment),
            **_picture(untagged, apply_sar, rotation, background),
        }
        paths, self._listing = _files.find_listed(source, VIDEO_EXTENSIONS, "video")
        self.paths = _files.kept(paths)
        self._source()  # forms and paths are checked now, not in a worker

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of one item."""
        sizes = {"T": self._form["frames"], "C": 3, "H": self._form["height"], "W": self._form["width"]}
        return tuple(sizes[letter] for letter in self.layout)

    def _make_source(self):
        return _core.video_source(self._listing or self.paths, **self._places, **self._form)

    def __getitem__(self, index):
        if not self.return_frames:
            return super().__getitem__(index)
        position = self._position(index)
        video, frames = self._decode_counted(position)
        return (video, position, frames) if self.return_index else (video, frames)

    def _decode_counted(self, position: int):
        """Both tensors of a sample are in one block: the video, and behind it, at a multiple of 256 bytes, the count."""
        block, memory = _files.empty((self._source().describe(position)["sample_bytes"],), "uint8", self.as_numpy)
        self._materialise(position, memory)
        size = math.prod(self.shape) * (4 if self.dtype == "float32" else 1 if self.dtype == "uint8" else 2)
        if block is memory:
            if self.dtype == "bfloat16":
                _files.empty((0,), self.dtype, True)  # says why that is not possible
            video = block[:size].view(self.dtype).reshape(self.shape)
        else:
            video = block[:size].view(_files.torch_dtype(self.dtype)).view(self.shape)
        return video, int.from_bytes(memory[-8:].tobytes(), "little")


def probe_image(image: str | os.PathLike | bytes) -> dict:
    """Facts about one image, from its header: format, width, height (after orientation), orientation, channels,
    bit_depth, bytes, mtime_ns. ``image`` is a path, or the bytes of a file."""
    return _core.probe_image(image)


def _image_form(size, dtype, mean, std, layout, resize, filter, mode, background, orientation, partial, max_pixels):
    """The keywords of the C functions."""
    keep = resize == "keep"
    if (size is None) != keep:
        raise errors.CallerError(f"size={size!r} with resize={resize!r}: a size is given if and only if it is not kept")
    height, width = (0, 0) if keep else _files.size_of(size)
    pixels = 0 if max_pixels is None else operator.index(max_pixels)
    if max_pixels is not None and not 1 <= pixels <= 2**30:
        raise errors.CallerError(f"max_pixels={max_pixels!r} is not between 1 and 2**30")
    return {
        "width": width,
        "height": height,
        "dtype": _files.choice("dtype", str(dtype).removeprefix("torch."), _files.DTYPES),
        "layout": _files.choice("layout", layout, _IMAGE_LAYOUTS),
        "resize": _files.choice("resize", resize, _IMAGE_RESIZES),
        "filter": _files.choice("filter", filter, _FILTERS),
        "mode": _files.choice("mode", mode, _MODES),
        "background": None if background is None else tuple(map(operator.index, background)),
        "ignore_orientation": not orientation,
        "partial": _files.choice("partial", partial, _PARTIAL),
        "pixels_max": pixels,
        "mean": None if mean is None else tuple(map(float, mean)),
        "std": None if std is None else tuple(map(float, std)),
    }


def _read(image, form: dict, dtype: str, as_numpy: bool):
    """One image into new memory, and what the decode did."""
    height, width = form["height"], form["width"]
    if form["resize"] == _IMAGE_RESIZES["keep"]:
        facts = _core.probe_image(image)
        height, width = facts["height"], facts["width"]
        if form["ignore_orientation"] and facts["orientation"] >= 5:
            height, width = width, height
    shape = (3, height, width) if form["layout"] == _IMAGE_LAYOUTS["CHW"] else (height, width, 3)
    item, memory = _files.empty(shape, dtype, as_numpy)
    return item, _core.read_image(image, memory, **form)


def read_image(
    image: str | os.PathLike | bytes,
    size: int | Sequence[int] | None = None,
    dtype="uint8",
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    layout: str = "CHW",
    resize: str | None = None,
    filter: str = "bilinear",
    mode: str = "exact",
    background: Sequence[int] | None = None,
    orientation: bool = True,
    partial: str = "error",
    max_pixels: int | None = None,
    as_numpy: bool = False,
) -> tuple:
    """Decode one image, a path or the bytes of a file: ``(item, facts)``.

    The arguments are those of :class:`ImageDataset`; without a size, that of the file is kept. The facts are width,
    height, partial (the file is damaged, and what is missing is grey or black), reduced (a JPEG was decoded at
    1/reduced), bytes_read.
    """
    if resize is None:
        resize = "keep" if size is None else "short_side_crop"
    form = _image_form(
        size, dtype, mean, std, layout, resize, filter, mode, background, orientation, partial, max_pixels
    )
    return _read(image, form, str(dtype).removeprefix("torch."), as_numpy)


class ImageDataset(_files.FileDataset):
    """Image files (JPEG, PNG, WebP, GIF), each as one RGB tensor of one size.

    Args:
        source: a folder (searched in sorted order for :data:`IMAGE_EXTENSIONS`), one image file, a manifest (a text
            file with one path a line, or JSON lines with a ``path``), or an iterable of paths.
        size: output pixels, one number for a square or ``(height, width)``; None with ``resize="keep"``.
        dtype: ``"uint8"``, ``"float16"``, ``"bfloat16"`` (needs PyTorch) or ``"float32"``, or a torch dtype of that
            name.
        mean, std: three numbers each, of values scaled to 0..1, for R, G, B; not with uint8.
        layout: ``"CHW"`` or ``"HWC"``.
        resize: ``"short_side_crop"`` scales the short side and crops the centre, ``"exact"`` ignores the aspect ratio,
            ``"pad"`` shows the whole picture in the middle of pixels of ``augment.pad_colour``,
            ``"keep"`` keeps the size of each file (items differ in shape then, and are made by Python workers).
        filter: ``"bilinear"`` or ``"bicubic"``, both antialiased: the bytes of Pillow's ``resize()``.
        mode: ``"exact"``, or ``"fast"``: a JPEG of three times the wanted size or more is decoded at a half or a
            quarter of its size first.
        background: R, G, B from 0 to 255, over which transparent pixels are put; None drops alpha.
        orientation: apply the EXIF orientation.
        partial: a cut or damaged file is an error (``"error"``), or gives what can be decoded of it (``"accept"``).
        max_pixels: larger pictures are refused before they are decoded (default 178,956,970).
        return_index: items are ``(image, index)`` and batches ``(image, int64 tensor)``.
        return_partial: items are ``(image, partial)`` or ``(image, index, partial)``, and batches have a bool tensor;
            it is True for a file that is damaged. Needs ``partial="accept"``.
        as_numpy: items are NumPy arrays even where PyTorch is installed.
        augment: an :class:`Augment`: random parts, mirroring and colours. Not with ``resize="keep"``.
        seed: of what is random in items that are asked for by ``dataset[i]``, with :meth:`set_epoch`; a stoker loader
            brings its own.
        preset: a family of patches by name (:mod:`stoker.presets`): items are dicts that differ in size, see
            :class:`ImagePatches`, and other keywords (``settings``) are those of
            :class:`stoker._patches.PatchDataset`.

    Items are torch tensors if PyTorch is installed (NumPy arrays else, or with ``as_numpy=True``) of shape
    ``(3, height, width)`` with ``layout="CHW"``, ``(height, width, 3)`` with ``"HWC"``, of type ``dtype``: 0 to 255 as
    uint8, else 0 to 1, or normalised by ``mean`` and ``std``. Batches have the shape ``(batch, *shape)``.

    A file that is missing, damaged or no image raises :class:`stoker.SampleError` when its item is asked for. Sizes and
    times of the files are read when the dataset is made; a file that was changed since then is a mismatch.
    """

    _noun = "images"

    def __new__(cls, *arguments, preset: str | None = None, **keywords):
        patches = cls is ImageDataset and preset is not None
        return super().__new__(ImagePatches if patches else cls)

    def __init__(
        self,
        source: str | os.PathLike | Iterable[str | os.PathLike],
        size: int | Sequence[int] | None = None,
        dtype="uint8",
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        layout: str = "CHW",
        resize: str = "short_side_crop",
        filter: str = "bilinear",
        mode: str = "exact",
        background: Sequence[int] | None = None,
        orientation: bool = True,
        partial: str = "error",
        max_pixels: int | None = None,
        return_index: bool = False,
        return_partial: bool = False,
        as_numpy: bool = False,
        *,
        augment: Augment | None = None,
        seed: int = 0,
        preset: str | None = None,
    ) -> None:
        if preset is not None:
            raise errors.CallerError(f"preset={preset!r} needs ImageDataset itself, or a subclass of ImagePatches")
        self.seed = operator.index(seed)
        self.random = augment is not None and augment.is_random
        self.dtype = str(dtype).removeprefix("torch.")
        self.layout = layout
        self.return_index = bool(return_index)
        self.return_partial = bool(return_partial)
        self.as_numpy = bool(as_numpy)
        self._form = _image_form(
            size, dtype, mean, std, layout, resize, filter, mode, background, orientation, partial, max_pixels
        )
        self._form["augment"] = _augment.arguments(augment)
        if self.return_partial:
            if partial != "accept":
                raise errors.CallerError(f"return_partial=True with partial={partial!r}: there would be nothing to mark")
            self._form["partial"] = _MARK
        self.paths = _files.kept(_files.find(source, IMAGE_EXTENSIONS, "image"))
        self.native = resize != "keep"
        if not self.native and (self._parts is not None or _files.any_remote(self.paths)):
            raise errors.UnsupportedError("resize='keep' needs local files, not members of tar shards or addresses")
        if self.native:
            self._source()  # forms and paths are checked now, not in a worker

    @property
    def shape(self) -> tuple[int | None, int | None, int | None]:
        """Of one item; None where files differ."""
        sizes = {"C": 3, "H": self._form["height"] or None, "W": self._form["width"] or None}
        return tuple(sizes[letter] for letter in self.layout)

    def _make_source(self):
        if self._form["resize"] == _IMAGE_RESIZES["keep"]:
            raise errors.UnsupportedError("resize='keep': only images of one size can be described before they are read")
        return _core.image_source(self.paths, **self._places, **self._form)

    def __getitem__(self, index):
        position = self._position(index)
        if self.native and not self.return_partial:
            image = self._decode(position)
            return (image, position) if self.return_index else image
        if self.native:
            image, partial = self._decode_marked(position)
        else:
            try:
                image, facts = _read(self.paths[position], self._form, self.dtype, self.as_numpy)
            except (errors.DataError, errors.UnsupportedError) as error:
                raise sample_error(error, position, self.paths[position]) from None
            partial = facts["partial"]
        extra = (position,) * self.return_index + (partial,) * self.return_partial
        return (image, *extra) if extra else image


    def _decode_marked(self, position: int):
        """An item, and whether its file is damaged: two tensors of a native sample."""
        size = self._source().describe(position)["sample_bytes"]
        both, memory = _files.empty((size,), "uint8", self.as_numpy)
        try:
            self._source().materialise(position, memory, self._draw(position))
        except (errors.DataError, errors.UnsupportedError) as error:
            raise sample_error(error, position, self.paths[position]) from None
        image, _ = _files.empty(self.shape, self.dtype, self.as_numpy)
        if self.as_numpy or not hasattr(both, "view") or not hasattr(image, "data_ptr"):
            image.reshape(-1).view("uint8")[:] = both[: image.nbytes]
        else:
            image.view(-1).view(both.dtype).copy_(both[: image.nbytes])
        return image, bool(both[-1])


for _class in (VideoDataset, ImageDataset):  # __new__ takes anything; this is what users may give
    _class.__new__.__signature__ = _patches.preset_signature(_class.__init__, "cls")


class VideoPatches(_patches.PatchDataset, VideoDataset):
    """What ``VideoDataset(source, preset="qwen2-vl")`` is: clips as patches of a vision-language model."""

    media = "video"

    def __init__(self, source, *, preset: str, **keywords) -> None:
        if isinstance(source, (str, os.PathLike)) and manifest.is_manifest(source):
            paths, facts = _patches.scanned(source)
            self._set_up(paths, preset, keywords, facts)
        else:
            self._set_up(_files.find(source, VIDEO_EXTENSIONS, "video"), preset, keywords)


class ImagePatches(_patches.PatchDataset, ImageDataset):
    """What ``ImageDataset(source, preset="qwen2-vl")`` is: images as patches of a vision-language model."""

    media = "image"
    return_partial = False

    def __init__(self, source, *, preset: str, **keywords) -> None:
        self._set_up(_files.find(source, IMAGE_EXTENSIONS, "image"), preset, keywords)


def _count(name: str, value: int | None) -> int:
    """0 means the default in C."""
    if value is None:
        return 0
    if not 1 <= operator.index(value) < 2**32:
        raise errors.CallerError(f"{name}={value!r} must be positive")
    return operator.index(value)


def _rate(value: float | None) -> float:
    if value is None:
        return 0.0
    if not 0 < value <= 1000:
        raise errors.CallerError(f"fps={value!r} is not between 0 and 1000 frames a second")
    return float(value)


def _share(value: float | None) -> float:
    """0 means the default in C, a negative number none at all."""
    if value is None:
        return 0.0
    if not 0 <= value <= 1:
        raise errors.CallerError(f"damaged_max={value!r} is not between 0 and 1")
    return float(value) if value > 0 else -1.0
