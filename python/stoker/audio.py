# SPDX-License-Identifier: Apache-2.0
"""Windows of sound as a map-style dataset that is decoded in C, and log-mel spectrograms of the public speech models.

Given to a stoker loader with the default collate function, an :class:`AudioDataset` is decoded by worker processes
that run no Python. ``dataset[i]`` decodes in the calling process, so it works with any other loader, too.

A window equals the same slice of the whole decode, bit for bit (``seek="exact"``). Time 0 is the first sample that is
played: priming and padding that a file declares are gone.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping

from . import _core, _files, errors
from ._files import sample_error

__all__ = ["AUDIO_EXTENSIONS", "AudioDataset", "log_mel", "probe_audio", "read_audio"]

#: What a directory is searched for, in lower case.
AUDIO_EXTENSIONS = frozenset(
    ".aac .ac3 .aif .aifc .aiff .au .caf .flac .m4a .m4b .mka .mp2 .mp3 .oga .ogg .opus .snd .tta .w64 .wav .weba .wma"
    " .wv".split()
)

_DTYPES = {"float32": 4, "int16": 6}
_STARTS = {"middle": 1, "random": 2}
_SHORTS = {"pad": 0, "error": 1}
_SEEKS = {"exact": 0, "near": 1}

_SCALES = {"slaney": 0, "htk": 1}
_NORMS = {"area": 0, "none": 1}
_LOGS = {"log10": 0, "ln": 1, "linear": 2}
_PLAIN = {
    "bands": 80,
    "fft": 400,
    "window": None,
    "hop": 160,
    "power": 2,
    "scale": "slaney",
    "norm": "area",
    "log": "ln",
    "last_frame": True,
    "f_min": 0.0,
    "f_max": 0.0,
    "floor": 1e-10,
    "range": 0.0,
    "add": 0.0,
    "multiply": 1.0,
}
_WHISPER = _PLAIN | {"log": "log10", "last_frame": False, "range": 8.0, "add": 4.0, "multiply": 0.25}
_MELS = {"whisper": _WHISPER, "whisper-large-v3": _WHISPER | {"bands": 128}}
_PRESET_RATE = 16000  # of all of them: windows and filters are counted in its samples


def _preset_name(mel) -> str | None:
    return mel.get("preset") if isinstance(mel, Mapping) else mel


def _mel_form(mel, rate: int | None = None) -> tuple | None:
    """The numbers of a spectrogram in the order of C; None for none. ``rate``: that of the sound, if it is known."""
    if mel is None:
        return None
    if _preset_name(mel) in _MELS and rate not in (None, _PRESET_RATE):
        raise errors.CallerError(
            f"mel={_preset_name(mel)!r} is made for {_PRESET_RATE} samples per second, the sound has rate={rate}: files are"
            f" resampled with rate={_PRESET_RATE} of AudioDataset and read_audio; a dict without preset takes any rate"
        )
    if isinstance(mel, Mapping):
        chosen = dict(mel)
        preset = chosen.pop("preset", None)
        base = _PLAIN if preset is None else _preset(preset)
        unknown = sorted(set(chosen) - set(base))
        if unknown:
            raise errors.CallerError(f"mel has {', '.join(map(repr, unknown))}; known are {', '.join(base)} and preset")
        chosen = base | chosen
    else:
        chosen = _preset(mel)
    return (
        operator.index(chosen["bands"]),
        operator.index(chosen["fft"]),
        operator.index(chosen["fft"] if chosen["window"] is None else chosen["window"]),
        operator.index(chosen["hop"]),
        operator.index(chosen["power"]),
        _files.choice("scale", chosen["scale"], _SCALES),
        _files.choice("norm", chosen["norm"], _NORMS),
        _files.choice("log", chosen["log"], _LOGS),
        int(bool(chosen["last_frame"])),
        *(float(chosen[name]) for name in ("f_min", "f_max", "floor", "range", "add", "multiply")),
    )


def _preset(name) -> dict:
    if name not in _MELS:
        raise errors.CallerError(f"mel={name!r} is not one of {', '.join(map(repr, _MELS))}, nor a dict")
    return _MELS[name]


def _form(rate, channels, seconds, start, dtype, mel, short, seek, damaged_max) -> dict:
    """The keywords of the C functions."""
    dtype = str(dtype).removeprefix("torch.")
    placed = isinstance(start, str)
    if not placed and not (0 <= float(start) < float("inf")):
        raise errors.CallerError(f"start={start!r} is neither a number of seconds nor 'middle' nor 'random'")
    rate = _files.whole("rate", rate, 0)
    mel = _mel_form(mel, rate)
    return {
        "rate": rate,
        "channels": _files.whole("channels", channels, 0),
        "dtype": _files.choice("dtype", dtype, _DTYPES),
        "start_s": 0.0 if placed else float(start),
        "duration_s": float(seconds),
        "start": _files.choice("start", start, _STARTS) if placed else 0,
        "short_sound": _files.choice("short", short, _SHORTS),
        "seek": _files.choice("seek", seek, _SEEKS),
        "damaged_max": _share(damaged_max),
        "mel": mel,
    }


def _share(value: float | None) -> float:
    """0 means the default in C, a negative number none at all."""
    if value is None:
        return 0.0
    if not 0 <= value <= 1:
        raise errors.CallerError(f"damaged_max={value!r} is not between 0 and 1")
    return float(value) if value > 0 else -1.0


def probe_audio(path: str | os.PathLike, exact: bool = False) -> dict:
    """Facts about the sound of one file: codec, rate, channels, samples (of one channel; 0 if only a decode can tell),
    duration_s, bytes, mtime_ns.

    Read from the packets; with ``exact`` the file is decoded once and its samples are counted. The sound of videos is
    found too: the stream that is marked as default, else the first.
    """
    return _core.probe_audio(path, exact=exact)


def _wrap(block: bytearray, dtype: str, shape: tuple, as_numpy: bool):
    """A tensor, or array, over a block of bytes."""
    torch = None if as_numpy else _files._torch()
    if torch is not None:
        return torch.frombuffer(block, dtype=getattr(torch, dtype)).view(shape)
    import numpy

    return numpy.frombuffer(block, dtype).reshape(shape)


def read_audio(
    path: str | os.PathLike,
    seconds: float | None = None,
    rate: int | None = None,
    channels: int | None = None,
    start: float | str = 0.0,
    dtype="float32",
    mel: str | Mapping | None = None,
    short: str = "pad",
    seek: str = "exact",
    damaged_max: float | None = None,
    seed: int = 0,
    as_numpy: bool = False,
) -> tuple:
    """Decode a window of one file, or all of it: ``(sound, facts)``.

    The arguments are those of :class:`AudioDataset`; without ``seconds`` the window goes to the end, without ``rate``
    and ``channels`` those of the file are kept (with ``mel`` of a preset the rate is its 16000). The sound is
    (channels, samples), or with ``mel`` (bands, frames). The facts are rate, channels, and in samples of one channel start, count, valid (those of them that the file has), total
    (of the whole file), lost (undecodable, silent); frames of the spectrogram; bytes_read.
    """
    if rate is None and _preset_name(mel) in _MELS:
        rate = _PRESET_RATE
    form = _form(rate or 0, channels or 0, seconds or 0.0, start, dtype, mel, short, seek, damaged_max)
    block, facts = _core.read_audio(path, draw=_core.sample_draw(seed, 0, 0), **form)
    if form["mel"] is not None:
        return _wrap(block, "float32", (form["mel"][0], facts["frames"]), as_numpy), facts
    return _wrap(block, str(dtype).removeprefix("torch."), (facts["channels"], facts["count"]), as_numpy), facts


def log_mel(samples, rate: int = 16000, mel: str | Mapping = "whisper", as_numpy: bool = False):
    """The log-mel spectrogram of mono sound: float32 of shape (bands, frames).

    Args:
        samples: one dimension of float32, an array or tensor (any other type is converted).
        rate: samples per second. With a preset it must be 16000: nothing is resampled here.
        mel: ``"whisper"`` (80 bands), ``"whisper-large-v3"`` (128 bands), or a dict, see :class:`AudioDataset`.

    The models were trained on 30 s at 16 kHz: pad to 480,000 samples for their 3,000 frames.
    """
    import numpy

    form = _mel_form(mel, _files.whole("rate", rate))
    if form is None:
        raise errors.CallerError("mel=None: a name or a dict was expected")
    samples = numpy.ascontiguousarray(samples, numpy.float32)
    if samples.ndim != 1:
        raise errors.CallerError(f"samples have the shape {samples.shape}, expected one dimension")
    frames = _core.mel_frames(form, len(samples))
    out, memory = _files.empty((form[0], frames), "float32", as_numpy)
    _core.log_mel(samples, memory, _files.whole("rate", rate), form)
    return out


class AudioDataset(_files.FileDataset):
    """A window of each sound file, as one tensor.

    Args:
        source: a folder (searched in sorted order for :data:`AUDIO_EXTENSIONS`), one sound file, a manifest (a text
            file with one path a line, or JSON lines with a ``path``), or an iterable of paths. Files of a list may be
            videos: their sound is taken.
        seconds: length of the window, rounded to a sample.
        rate: samples per second of the items, whatever the files have.
        channels: 1 or 2. Stereo becomes mono as the mean, mono is copied to both; more channels are mixed with the
            weights of ffmpeg's ``-ac``, scaled so that nothing clips.
        start: seconds from the start of the sound, ``"middle"``, or ``"random"``: anywhere where the window fits, a
            function of (seed, epoch, index) only.
        dtype: ``"float32"`` (-1 to 1) or ``"int16"``, or a torch dtype of that name.
        mel: None: samples; else their spectrogram, of one channel, float32: ``"whisper"`` (80 bands),
            ``"whisper-large-v3"`` (128 bands; both as the public models want it), or a dict of bands, fft, window, hop,
            power, scale (``"slaney"``, ``"htk"``), norm (``"area"``, ``"none"``), log (``"log10"``, ``"ln"``,
            ``"linear"``), last_frame, f_min, f_max, floor, range, add, multiply, and preset, whose values the others
            replace. Presets need ``rate=16000``.
        short: a window that reaches past the end is filled with zeros (``"pad"``) or is an error (``"error"``).
        seek: ``"exact"``, or ``"near"``: AAC and Opus too are decoded from near the window; much faster in long files,
            but their made-up noise may differ from window to window.
        damaged_max: largest share of a window that may be undecodable, and is silent then (default 0.5).
        seed: of random windows in ``dataset[i]``; a stoker loader uses its own.
        return_index: items are ``(sound, index)`` and batches ``(sound, int64 tensor)``.
        return_window: items are ``(sound, window)`` or ``(sound, index, window)``; a window is three int64, in samples
            at ``rate``: its start, how many of its samples the file has, and the samples of the whole file.
        as_numpy: items are NumPy arrays even where PyTorch is installed.

    Items are torch tensors if PyTorch is installed (NumPy arrays else, or with ``as_numpy=True``) of shape
    (channels, samples), or (bands, frames) with ``mel``.

    A file that is missing, damaged or without sound raises :class:`stoker.SampleError` when its item is asked for.
    Sizes and times of the files are read when the dataset is made; a file that was changed since then is a mismatch.
    """

    _noun = "sounds"

    def __init__(
        self,
        source: str | os.PathLike | Iterable[str | os.PathLike],
        seconds: float,
        rate: int = 16000,
        channels: int = 1,
        start: float | str = 0.0,
        dtype="float32",
        mel: str | Mapping | None = None,
        short: str = "pad",
        seek: str = "exact",
        damaged_max: float | None = None,
        seed: int = 0,
        return_index: bool = False,
        return_window: bool = False,
        as_numpy: bool = False,
    ) -> None:
        self.dtype = str(dtype).removeprefix("torch.")
        self.return_index = bool(return_index)
        self.return_window = bool(return_window)
        self.as_numpy = bool(as_numpy)
        self.seed = operator.index(seed)
        self.random = start == "random"
        self._form = _form(rate, channels, seconds, start, dtype, mel, short, seek, damaged_max)
        self._form["mark"] = int(self.return_window)
        self.paths = _files.kept(_files.find(source, AUDIO_EXTENSIONS, "audio"))
        self._source()  # forms and paths are checked now, not in a worker

    @property
    def shape(self) -> tuple[int, int]:
        """Of one item."""
        count = round(self._form["duration_s"] * self._form["rate"])  # ties to even, as in C
        if self._form["mel"] is None:
            return (self._form["channels"], count)
        return (self._form["mel"][0], _core.mel_frames(self._form["mel"], count))

    def _make_source(self):
        return _core.audio_source(self.paths, **self._places, **self._form)

    def __getitem__(self, index):
        if not self.return_window:
            return super().__getitem__(index)
        position = self._position(index)
        sound, window = self._decode_marked(position)
        return (sound, position, window) if self.return_index else (sound, window)

    def _decode_marked(self, position: int):
        """The sound and its window, which lie in one block."""
        size = self._source().describe(position)["sample_bytes"]
        block, memory = _files.empty((size,), "uint8", self.as_numpy)
        try:
            self._source().materialise(position, memory, self._draw(position))
        except (errors.DataError, errors.UnsupportedError) as error:
            raise sample_error(error, position, self.paths[position]) from None
        rows, columns = self.shape
        used = rows * columns * (2 if self.dtype == "int16" else 4)
        if self.as_numpy or _files._torch() is None:
            sound, window = block[:used].view(self.dtype), block[size - 24 :].view("int64").copy()
            return sound.reshape(self.shape), window
        torch = _files._torch()
        window = block[size - 24 :].clone().view(torch.int64)
        return block[:used].view(getattr(torch, self.dtype)).view(self.shape), window
