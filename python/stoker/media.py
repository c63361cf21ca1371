# SPDX-License-Identifier: Apache-2.0
"""Video files as a map-style dataset that is decoded in C.

Given to a stoker loader with the default collate function, a :class:`VideoDataset` is decoded by worker processes
that run no Python. ``dataset[i]`` decodes in the calling process, so it works with any other loader, too.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Sequence

from . import _core, errors

__all__ = ["VIDEO_EXTENSIONS", "VideoDataset", "probe"]

#: What a directory is searched for, in lower case.
VIDEO_EXTENSIONS = frozenset(
    ".3gp .asf .avi .flv .gif .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .ogv .ts .vob .webm .wmv".split()
)

_DTYPES = {"uint8": 1, "float16": 2, "bfloat16": 3, "float32": 4}
_LAYOUTS = {"TCHW": 0, "CTHW": 1, "THWC": 2}
_RESIZES = {"short_side_crop": 0, "exact": 1}
_SHORT_CLIPS = {"repeat_last": 0, "error": 1}


def probe(path: str | os.PathLike, exact: bool = False) -> dict:
    """Facts about one file: codec, width, height (after rotation), rotation, frames, duration_s, bytes, mtime_ns.

    Read from the packet table; with ``exact`` the file is decoded once and its frames are counted.
    """
    return _core.probe(path, exact=exact)


def _choice(name: str, value, choices: dict) -> int:
    if value not in choices:
        raise errors.CallerError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
    return choices[value]


def _walk(folder: str) -> list[str]:
    found = []
    for where, folders, files in os.walk(folder):
        folders.sort()
        found += [os.path.join(where, name) for name in files if os.path.splitext(name)[1].lower() in VIDEO_EXTENSIONS]
    return sorted(found)


def _manifest(path: str) -> list[str]:
    """Paths of a text file: one per line, or JSON lines with a ``path`` each (what ``stoker probe --json`` prints).
    Relative paths start at the manifest's folder; a JSON line with an ``error`` is left out."""
    folder = os.path.dirname(os.path.abspath(path))
    found = []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            if line.lstrip().startswith("{"):
                try:
                    entry = json.loads(line)
                    if entry.get("error"):
                        continue
                    line = entry["path"]
                except (ValueError, KeyError) as error:
                    raise errors.CallerError(
                        f"{path}, line {number}: a JSON object with a 'path' was expected ({error})"
                    ) from None
            found.append(os.path.normpath(os.path.join(folder, line)))
    return found


def _paths(source) -> list[str]:
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if os.path.isdir(text):
            found = _walk(text)
            if not found:
                raise errors.CallerError(f"no video file ({', '.join(sorted(VIDEO_EXTENSIONS))}) below {text!r}")
            return found
        if os.path.splitext(text)[1].lower() in VIDEO_EXTENSIONS:
            return [text]
        if not os.path.exists(text):
            raise errors.CallerError(
                f"{text!r} is neither a folder, nor a video file, nor a manifest: it does not exist"
            )
        return _manifest(text)
    return [os.fspath(path) for path in source]


class VideoDataset:
    """A fixed number of frames of each video file, as one tensor.

    Args:
        source: a folder (searched in sorted order for :data:`VIDEO_EXTENSIONS`), one video file, a manifest (a text
            file with one path a line, or JSON lines with a ``path``), or an iterable of paths.
        frames: frames per clip, sampled uniformly over its length (index ``rint(i*(n-1)/(frames-1))`` of n).
        size: output pixels, one number for a square or ``(height, width)``.
        dtype: ``"uint8"``, ``"float16"``, ``"bfloat16"`` (needs PyTorch) or ``"float32"``, or a torch dtype of that
            name.
        mean, std: three numbers each, of values scaled to 0..1, for R, G, B; not with uint8.
        layout: ``"TCHW"``, ``"CTHW"`` or ``"THWC"``.
        resize: ``"short_side_crop"`` scales the short side and crops the centre, ``"exact"`` ignores the aspect ratio.
        short_clip: a clip with fewer frames repeats its last one (``"repeat_last"``) or is an error (``"error"``).
        damaged_max: largest share of a clip's promised frames that may be undecodable (default 0.5).
        return_index: items are ``(video, index)`` and batches ``(video, int64 tensor)``.
        as_numpy: items are NumPy arrays even where PyTorch is installed.

    Items are torch tensors if PyTorch is installed (NumPy arrays else, or with ``as_numpy=True``) of shape
    ``(frames, 3, height, width)`` in the order of ``layout``.

    A file that is missing or damaged raises :class:`stoker.SampleError` when its item is asked for. Sizes and times
    of the files are read when the dataset is made; a file that was changed since then is a mismatch.
    """

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
    ) -> None:
        dtype = str(dtype).removeprefix("torch.")
        height, width = (size, size) if isinstance(size, int) else map(int, size)
        self.dtype = dtype
        self.layout = layout
        self.return_index = bool(return_index)
        self.as_numpy = bool(as_numpy)
        self._form = {
            "frames": operator.index(frames),
            "width": width,
            "height": height,
            "dtype": _choice("dtype", dtype, _DTYPES),
            "layout": _choice("layout", layout, _LAYOUTS),
            "resize": _choice("resize", resize, _RESIZES),
            "short_clip": _choice("short_clip", short_clip, _SHORT_CLIPS),
            "mean": None if mean is None else tuple(map(float, mean)),
            "std": None if std is None else tuple(map(float, std)),
            "damaged_max": _share(damaged_max),
        }
        if self._form["frames"] < 1 or height < 1 or width < 1:
            raise errors.CallerError(f"frames={frames!r} and size={size!r} must be positive")
        self.paths = tuple(_paths(source))
        self._core = None
        self._core_pid = None
        self._source()  # forms and paths are checked now, not in a worker

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of one item."""
        sizes = {"T": self._form["frames"], "C": 3, "H": self._form["height"], "W": self._form["width"]}
        return tuple(sizes[letter] for letter in self.layout)

    def __len__(self) -> int:
        return len(self.paths)

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_core"] = state["_core_pid"] = None
        return state

    def __repr__(self) -> str:
        return f"VideoDataset({len(self)} files, shape={self.shape}, dtype={self.dtype})"

    def _source(self):
        """The C source; made again where this object was unpickled."""
        if self._core is None:
            self._core = _core.video_source(self.paths, **self._form)
        return self._core

    def describe(self, index: int) -> dict:
        """What is known of an item before it is decoded: path, bytes, mtime_ns, shape, sample_bytes."""
        return self._source().describe(self._position(index))

    def _position(self, index) -> int:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is outside a dataset of {len(self)} clips")
        return position % len(self)

    def __getitem__(self, index):
        position = self._position(index)
        video = self._decode(position)
        return (video, position) if self.return_index else video

    def _decode(self, position: int):
        torch = None if self.as_numpy else _torch()
        if torch is not None:
            video = torch.empty(self.shape, dtype=getattr(torch, self.dtype))
            memory = video.view(torch.uint8).numpy()
        else:
            import numpy

            if self.dtype == "bfloat16":
                raise errors.UnsupportedError(
                    "dtype='bfloat16': NumPy has no such type; install PyTorch or use another dtype"
                )
            video = memory = numpy.empty(self.shape, self.dtype)
        try:
            self._source().materialise(position, memory)
        except errors.DataError as error:
            raise sample_error(error, position, self.paths[position]) from None
        return video


def sample_error(error: errors.StokerError, position: int, path: str) -> errors.SampleError:
    """The same failure as a SampleError that names the sample."""
    context = error.context or f"sample {position}: {path}"
    if not context.startswith("sample"):
        context = f"sample {position}: {context}"
    return errors.SampleError(error.message, context, error.status, error.os_error)


def _share(value: float | None) -> float:
    """0 means the default in C, a negative number none at all."""
    if value is None:
        return 0.0
    if not 0 <= value <= 1:
        raise errors.CallerError(f"damaged_max={value!r} is not between 0 and 1")
    return float(value) if value > 0 else -1.0


def _torch():
    """PyTorch if it is installed; imported on the first item, never by this module itself."""
    try:
        import torch
    except ImportError:
        return None
    return torch
