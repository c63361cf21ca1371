# SPDX-License-Identifier: Apache-2.0
"""Sound: the samples of the ffmpeg program, windows that are slices of the whole, spectrograms of the public speech
models; the same through the loader."""

import math
import os
import pathlib
import pickle
import random
import shutil
import subprocess
import sys
import wave

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from stoker import SampleError, errors
from stoker.audio import AudioDataset, log_mel, probe_audio, read_audio
from stoker.torch import DistributedDataLoader

SOUNDS = pathlib.Path(__file__).resolve().parent.parent / "fuzz/corpus/audio"
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/media"
WHOLE = sorted(str(path) for path in SOUNDS.glob("valid_*"))
RATE, SAMPLES = 16000, 20000

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg program")


def known(channel=0, rate=RATE, count=SAMPLES, start=0):
    """What the files of the corpus hold (make_audio_corpus.py)."""
    t = (start + np.arange(count)) / rate
    return (0.5 * np.sin(2 * np.pi * 440 * t), 0.25 * np.sin(2 * np.pi * 1320 * t))[channel]


def has_spectrograms():
    try:
        log_mel(np.zeros(400, np.float32))
    except errors.UnsupportedError:
        return False
    return True


needs_mel = pytest.mark.skipif(not has_spectrograms(), reason="built without KISS FFT")


def ffmpeg(path, *options):
    command = ["ffmpeg", "-v", "error", "-i", path, *options, "-f", "f32le", "-"]
    return np.frombuffer(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, np.float32)


# ------------------------------------------------------------------------------------------------------------- samples


@needs_ffmpeg
@pytest.mark.parametrize("path", WHOLE, ids=[os.path.basename(path) for path in WHOLE])
def test_whole_files_are_the_samples_of_ffmpeg(path):
    sound, facts = read_audio(path, as_numpy=True)
    assert (
        facts["lost"] == 0
        and facts["total"] == facts["valid"] == sound.shape[1] == probe_audio(path, exact=True)["samples"]
    )
    expected = ffmpeg(path).reshape(-1, facts["channels"]).T
    # An MP4 says by the length of its last packet what is padding, which the ffmpeg program plays.
    padding = expected.shape[1] - sound.shape[1]
    assert 0 <= padding < 2048 if path.endswith("m4a") else padding == 0
    assert np.array_equal(sound, expected[:, : sound.shape[1]])


@needs_ffmpeg
@pytest.mark.parametrize("name", ["valid_wav_s16_stereo", "valid_flac_mka_stereo", "valid_caf_f32"])
@pytest.mark.parametrize("rate", [8000, 22050, 48000])
def test_resampled_mono_is_that_of_ffmpeg(name, rate):
    sound, facts = read_audio(SOUNDS / name, rate=rate, channels=1, as_numpy=True)
    expected = ffmpeg(SOUNDS / name, "-ac", "1", "-ar", str(rate), "-rematrix_maxval", "1")
    assert facts["total"] == math.ceil(SAMPLES * rate / RATE)
    assert abs(len(expected) - facts["total"]) <= 1
    count = min(len(expected), facts["total"])
    # The program may mix in 16 bits, rounded twice.
    assert np.abs(sound[0, :count] - expected[:count]).max() < 1e-4


def test_windows_are_slices_of_the_whole():
    rng = random.Random(1)
    for path in WHOLE:
        for form in ({}, {"rate": 11025, "channels": 1}, {"rate": 44100, "channels": 2, "dtype": "int16"}):
            whole, facts = read_audio(path, as_numpy=True, **form)
            for _ in range(4):
                start, count = rng.randrange(facts["total"]), rng.randrange(1, facts["total"])
                part, what = read_audio(
                    path, seconds=count / facts["rate"], start=start / facts["rate"], as_numpy=True, **form
                )
                valid = min(count, facts["total"] - start)
                assert (what["start"], what["count"], what["valid"], what["total"]) == (
                    start,
                    count,
                    valid,
                    facts["total"],
                )
                assert np.array_equal(part[:, :valid], whole[:, start : start + valid])
                assert not part[:, valid:].any()


def test_stereo_becomes_the_mean_and_mono_both():
    stereo, _ = read_audio(SOUNDS / "valid_flac_mka_stereo", as_numpy=True)
    mono, _ = read_audio(SOUNDS / "valid_flac_mka_stereo", channels=1, as_numpy=True)
    assert np.abs(mono[0] - stereo.mean(0)).max() < 1e-7
    both, _ = read_audio(SOUNDS / "valid_flac", channels=2, as_numpy=True)
    one, _ = read_audio(SOUNDS / "valid_flac", as_numpy=True)
    assert np.array_equal(both[0], one[0]) and np.array_equal(both[1], one[0])


@needs_ffmpeg
def test_six_channels_are_mixed_as_by_ffmpeg(tmp_path):
    sources = "|".join(f"0.3*sin({300 + 100 * c}*t)" for c in range(6))
    subprocess.run(
        [
            "ffmpeg",
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            f"aevalsrc={sources}:s=16000:d=1:c=5.1",
            "-c:a",
            "pcm_f32le",
            tmp_path / "six.wav",
        ],
        check=True,
    )
    for channels in (1, 2):
        sound, facts = read_audio(tmp_path / "six.wav", channels=channels, as_numpy=True)
        expected = ffmpeg(tmp_path / "six.wav", "-ac", str(channels), "-rematrix_maxval", "1").reshape(-1, channels).T
        assert facts["channels"] == channels and np.abs(sound - expected).max() < 1e-6
    assert read_audio(tmp_path / "six.wav", as_numpy=True)[0].shape == (6, 16000)


def test_real_files_of_debian_packages():
    """Words at 48 kHz, mono PCM (alsa-utils), and Vorbis (sound-theme-freedesktop)."""
    found = sorted(pathlib.Path("/usr/share/sounds").glob("alsa/*.wav")) + sorted(
        pathlib.Path("/usr/share/sounds").glob("freedesktop/stereo/*.oga")
    )
    if not found:
        pytest.skip("neither alsa-utils nor sound-theme-freedesktop is installed")
    for path in found:
        facts = probe_audio(path)
        sound, what = read_audio(path, as_numpy=True)
        assert what["total"] == facts["samples"] and what["lost"] == 0
        if path.suffix == ".wav":
            with wave.open(str(path)) as file:
                raw = np.frombuffer(file.readframes(file.getnframes()), np.int16).reshape(-1, file.getnchannels()).T
            assert np.array_equal(sound, raw.astype(np.float32) / 32768)
        half = what["total"] // 2
        part, _ = read_audio(path, start=half / what["rate"], as_numpy=True)
        assert np.array_equal(part, sound[:, half:])


def test_situation_46_corrupt_audio(tmp_path):
    """Every damaged file is one clear error, or gives sound of its length; nothing hangs, crashes or leaks."""
    rng = random.Random(46)
    outcomes = {"sound": 0, "error": 0}
    for path in WHOLE:
        data = pathlib.Path(path).read_bytes()
        for kind in range(6):
            broken = bytearray(data)
            if kind < 3:
                for _ in range(4**kind):
                    broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            else:
                del broken[rng.randrange(len(broken)) :]
            target = tmp_path / "broken"
            target.write_bytes(broken)
            try:
                sound, facts = read_audio(target, as_numpy=True)
                assert sound.shape == (facts["channels"], facts["total"])
                outcomes["sound"] += 1
            except errors.StokerError as error:
                assert error.message and "\n" not in error.message and "broken" in str(error)
                outcomes["error"] += 1
    assert min(outcomes.values()) > 10, outcomes


# -------------------------------------------------------------------------------------------------------- spectrograms


def reference_mel(
    x,
    rate=16000,
    bands=80,
    fft=400,
    window=400,
    hop=160,
    power=2,
    htk=False,
    area=True,
    f_min=0.0,
    f_max=None,
    last=False,
):
    """Mel power spectrogram by its definition, in double."""
    x = np.pad(x.astype(np.float64), fft // 2, mode="reflect")
    hann = np.zeros(fft)
    margin = (fft - window) // 2
    hann[margin : margin + window] = np.sin(np.pi * np.arange(window) / window) ** 2
    frames = (len(x) - fft) // hop + 1
    spectrum = np.abs(np.stack([np.fft.rfft(x[t * hop : t * hop + fft] * hann) for t in range(frames)], 1)) ** power

    def mel(f):
        f = np.asarray(f, np.float64)
        if htk:
            return 2595 * np.log10(1 + f / 700)
        return np.where(f < 1000, f / (200 / 3), 15 + np.log(np.maximum(f, 1000) / 1000) / (np.log(6.4) / 27))

    lines = np.arange(fft // 2 + 1) * rate / fft
    grid = np.linspace(0, rate / 2, 400001)
    edges = np.interp(np.linspace(mel(f_min), mel(f_max or rate / 2), bands + 2), mel(grid), grid)
    weights = np.zeros((bands, len(lines)))
    for b in range(bands):
        low, centre, high = edges[b : b + 3]
        weights[b] = np.interp(lines, [low, centre, high], [0, 1, 0], 0, 0) * (2 / (high - low) if area else 1)
    made = weights @ spectrum
    return made if last else made[:, : (len(x) - fft) // hop]


def reference_log(mel, whisper=True, floor=1e-10):
    logs = np.log10(np.maximum(mel, floor))
    return (np.maximum(logs, logs.max() - 8) + 4) / 4 if whisper else logs


def speech_like(seconds, seed=3):
    """Tones that glide, noise, and pauses."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * 16000)) / 16000
    x = (
        0.3 * np.sin(2 * np.pi * (200 * t + 40 * t * t))
        + 0.1 * np.sin(2 * np.pi * 2500 * t)
        + 0.02 * rng.normal(size=len(t))
    )
    return (x * (np.sin(2 * np.pi * 0.7 * t) > -0.3)).astype(np.float32)


@needs_mel
@pytest.mark.parametrize("mel, bands", [("whisper", 80), ("whisper-large-v3", 128)])
def test_log_mel_is_its_definition(mel, bands):
    x = np.pad(speech_like(7), (0, 16000 * 23))
    made = log_mel(x, mel=mel, as_numpy=True)
    assert made.shape == (bands, 3000) and made.dtype == np.float32
    expected = reference_log(reference_mel(x, bands=bands))
    assert np.abs(made - expected).max() < 1e-4


@needs_mel
def test_log_mel_is_that_of_the_public_feature_extractor():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    for bands, mel in ((80, "whisper"), (128, "whisper-large-v3")):
        extractor = transformers.WhisperFeatureExtractor(feature_size=bands)
        for seconds, seed in ((3, 1), (30, 2), (31, 3)):
            x = speech_like(seconds, seed)
            expected = extractor(x, sampling_rate=16000, return_tensors="np")["input_features"][0]
            made = log_mel(np.pad(x, (0, max(0, 480000 - len(x))))[:480000], mel=mel, as_numpy=True)
            assert made.shape == expected.shape
            assert np.abs(made - expected).max() < 1e-4 and np.abs(made - expected).mean() < 1e-6


@needs_mel
@pytest.mark.parametrize("mel, reference", [
    ({"bands": 64, "fft": 1024, "window": 800, "hop": 200, "log": "linear"},
     dict(bands=64, fft=1024, window=800, hop=200, last=True)),
    ({"bands": 40, "fft": 512, "hop": 128, "scale": "htk", "norm": "none", "power": 1, "f_min": 80,
      "f_max": 7600, "log": "linear"},
     dict(bands=40, fft=512, window=512, hop=128, power=1, htk=True, area=False, f_min=80, f_max=7600, last=True)),
    ({"preset": "whisper", "bands": 20, "log": "linear", "range": 0, "add": 0, "multiply": 1}, dict(bands=20)),
], ids=["wide", "htk", "preset"])  # fmt: skip
def test_configured_mel_is_its_definition(mel, reference):
    x = speech_like(2)
    made = log_mel(x, mel=mel, as_numpy=True)
    expected = reference_mel(x, **reference)
    assert made.shape == expected.shape
    assert np.abs(made - expected).max() < 2e-6 * expected.max()


@needs_mel
def test_mel_forms_that_are_refused():
    x = np.zeros(1000, np.float32)
    for mel in (
        "whispers",
        {"band": 80},
        {"bands": 0},
        {"scale": "bark"},
        {"preset": "x"},
        {"fft": 401},
        {"f_max": 9000},
        None,
    ):
        with pytest.raises((errors.CallerError, errors.StokerError)):
            log_mel(x, mel=mel)
    with pytest.raises(errors.StokerError, match="too short for a spectrogram, expected more than 200"):
        log_mel(x[:200])
    with pytest.raises(errors.CallerError, match="one dimension"):
        log_mel(x.reshape(10, 100))


@needs_mel
def test_mel_of_a_preset_is_for_16000_samples_per_second():
    path = str(SOUNDS / "valid_flac")
    for mel in ("whisper", "whisper-large-v3", {"preset": "whisper", "bands": 20}):
        for make in (
            lambda: AudioDataset([path], seconds=1, rate=44100, mel=mel),
            lambda: read_audio(path, seconds=1, rate=8000, mel=mel),
            lambda: log_mel(np.zeros(4000, np.float32), rate=22050, mel=mel),
        ):
            with pytest.raises(errors.CallerError, match="is made for 16000 samples per second, the sound has rate="):
                make()
    assert AudioDataset([path], seconds=1, rate=44100, mel={"bands": 20})[0].shape == (20, 276)


@needs_mel
def test_read_audio_resamples_for_the_mel_of_a_preset(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((known(rate=8000, count=8000) * 32767).astype("<i2").tobytes())
    made, facts = read_audio(tmp_path / "a.wav", mel="whisper")
    assert facts["rate"] == 16000 and made.shape == (80, 100)
    assert read_audio(tmp_path / "a.wav")[1]["rate"] == 8000


# ------------------------------------------------------------------------------------------------------------- dataset

PATHS = [
    str(SOUNDS / name) for name in ("valid_flac", "valid_mp3_stereo", "valid_opus_ogg", "valid_aac_m4a", "odd_wav_cut")
]


def test_items():
    dataset = AudioDataset(PATHS, seconds=0.5, start=0.25)
    assert len(dataset) == 5 and dataset.shape == (1, 8000) and "AudioDataset(5 files, shape=(1, 8000)" in repr(dataset)
    item = dataset[0]
    assert item.shape == (1, 8000) and item.dtype == torch.float32
    assert np.abs(item[0].numpy() - known(start=4000, count=8000)).max() < 1e-5
    pairs = AudioDataset(
        PATHS, seconds=0.5, start=0.25, channels=2, dtype=torch.int16, return_index=True, return_window=True
    )
    sound, index, window = pairs[-1]
    assert sound.shape == (2, 8000) and sound.dtype == torch.int16 and index == 4
    assert window.tolist() == [4000, 1000, 5000] and not sound[:, 1000:].any() and sound[:, :1000].any()
    array, window = AudioDataset(PATHS, seconds=0.5, as_numpy=True, return_window=True)[0]
    assert isinstance(array, np.ndarray) and isinstance(window, np.ndarray) and window.tolist() == [0, 8000, 20000]
    assert dataset.describe(1)["sample_bytes"] == 32000
    middle = AudioDataset(PATHS[:1], seconds=0.5, start="middle", return_window=True)[0][1]
    assert middle.tolist() == [6000, 8000, 20000]
    again = pickle.loads(pickle.dumps(pairs))
    assert torch.equal(again[1][0], pairs[1][0])


def test_random_windows_follow_seed_and_epoch():
    def starts(dataset, epoch):
        dataset.set_epoch(epoch)
        return [dataset[i][1][0].item() for i in range(4)]

    dataset, other = (AudioDataset(PATHS, 0.25, start="random", seed=seed, return_window=True) for seed in (1, 2))
    first = starts(dataset, 0)
    assert first == starts(dataset, 0) and first != starts(dataset, 1) and first != starts(other, 0)
    assert all(0 <= start <= 16000 for start in first) and len(set(first)) > 2


def test_sources_of_paths(tmp_path):
    for name in ("b.WAV", "a.flac", "c.txt"):
        shutil.copy(SOUNDS / "valid_small_wav", tmp_path / name)
    assert [os.path.basename(path) for path in AudioDataset(tmp_path, 0.01).paths] == ["a.flac", "b.WAV"]
    (tmp_path / "list.jsonl").write_text('{"path": "a.flac"}\n')
    assert len(AudioDataset(tmp_path / "list.jsonl", 0.01)) == 1
    with pytest.raises(errors.CallerError, match="no audio file"):
        AudioDataset(GOLDEN / "absent", 1) if (GOLDEN / "absent").exists() else AudioDataset(_empty(tmp_path), 1)


def _empty(folder):
    (folder / "empty").mkdir()
    return folder / "empty"


@pytest.mark.parametrize("form, text", [
    ({"seconds": 0}, "duration 0 s"),
    ({"rate": 50}, "rate 50"),
    ({"channels": 3}, "3 channels"),
    ({"dtype": "uint8"}, "dtype='uint8'"),
    ({"start": -1}, "start=-1"),
    ({"start": "end"}, "start='end'"),
    ({"short": "loop"}, "short='loop'"),
    ({"seek": "far"}, "seek='far'"),
    ({"damaged_max": 2}, "damaged_max=2"),
    ({"mel": "whisper", "channels": 2}, "2 channels with a spectrogram"),
    ({"mel": "whisper", "seconds": 0.01}, "too short for a spectrogram"),
])  # fmt: skip
def test_forms_that_are_refused(form, text):
    with pytest.raises(errors.StokerError, match=text):
        AudioDataset(PATHS, **({"seconds": 1.0} | form))


def test_bad_files_name_sample_and_path(tmp_path):
    paths = [str(SOUNDS / "bad_text"), str(GOLDEN / "rot90.mp4"), "/nowhere/a.wav", PATHS[4]]
    dataset = AudioDataset(paths, 1.0, short="error")
    for index, text in (
        (0, "bad_text"),
        (1, "no audio stream"),
        (2, "/nowhere/a.wav"),
        (3, "the sound has 5000 samples"),
    ):
        with pytest.raises(SampleError, match=text) as caught:
            dataset[index]
        assert f"sample {index}" in str(caught.value)


def test_a8_changed_file_is_a_mismatch(tmp_path):
    shutil.copy(PATHS[0], tmp_path / "a.flac")
    dataset = AudioDataset(tmp_path, 0.5)
    with open(tmp_path / "a.flac", "ab") as file:
        file.write(b"x")
    with pytest.raises(SampleError, match="when the source was made"):
        dataset[0]


def test_sound_of_videos():
    dataset = AudioDataset([GOLDEN / "audio_only.m4a"], 0.5, rate=44100)
    assert dataset[0].abs().max() > 0.05


# -------------------------------------------------------------------------------------------------------------- loader


def tensors(batch):
    return [batch] if isinstance(batch, torch.Tensor) else list(batch)


def equal(left, right):
    return len(left) == len(right) and all(
        all(torch.equal(a, b) for a, b in zip(tensors(x), tensors(y), strict=True))
        for x, y in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("form", [
    {},
    {"channels": 2, "dtype": "int16", "return_index": True},
    {"return_window": True},
    {"return_index": True, "return_window": True, "start": 0.3},
    pytest.param({"mel": "whisper"}, marks=needs_mel),
    pytest.param({"mel": "whisper", "return_window": True}, marks=needs_mel),
], ids=["plain", "int16", "window", "both", "mel", "mel-window"])  # fmt: skip
def test_loader_gives_what_the_stock_loader_gives(form):
    dataset = AudioDataset(PATHS, 0.5, **form)
    expected = list(DataLoader(dataset, batch_size=2))
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=2)
    assert loader._runs_native()
    assert equal(list(loader), expected)
    loader.close()
    part = DistributedDataLoader(Subset(dataset, [3, 1]), batch_size=None, num_workers=1)
    assert equal(list(part), [dataset[3], dataset[1]]) if not form.get("return_index") else len(list(part)) == 2
    part.close()


def test_b3_random_windows_do_not_depend_on_workers():
    dataset = AudioDataset(PATHS, 0.25, start="random", return_window=True)
    epochs = {}
    for workers in (0, 1, 2):
        loader = DistributedDataLoader(dataset, batch_size=2, num_workers=workers, seed=5)
        runs = []
        for epoch in range(2):
            loader.set_epoch(epoch)
            runs.append([tuple(part.clone() for part in batch) for batch in loader])
        loader.close()
        epochs[workers] = runs
    assert equal(epochs[0][0], epochs[1][0]) and equal(epochs[1][0], epochs[2][0])
    assert equal(epochs[0][1], epochs[2][1]) and not equal(epochs[1][0], epochs[1][1])


def test_loader_skips_or_raises():
    paths = [PATHS[0], str(SOUNDS / "bad_text"), PATHS[1]]
    dataset = AudioDataset(paths, 0.5)
    loader = DistributedDataLoader(dataset, batch_size=3, num_workers=1)
    with pytest.raises(SampleError, match="bad_text"):
        list(loader)
    loader.close()
    loader = DistributedDataLoader(dataset, batch_size=3, num_workers=1, on_error="skip")
    (batch,) = list(loader)
    assert torch.equal(batch[1], batch[0]) and loader.stats()["samples_skipped"] == 1
    loader.close()


def test_modules_do_not_import_torch():
    code = "import sys, stoker.audio, stoker.media; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
