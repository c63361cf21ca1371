#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of tests/fuzz/fuzz_audio.c, which the C tests of sound use too: `make_audio_corpus.py FOLDER`.

All sounds but the `valid_small_` ones are 20,000 samples at 16 kHz (1.25 s): left 0.5 sin(2 pi 440 t), right (where
there is one) 0.25 sin(2 pi 1320 t), so that a test can say what a sample must be. The files that lie in the
repository were encoded by the ffmpeg program of Debian 12 (5.1.9); another version may write other bytes. `valid_`
files decode whole, `bad_` files are refused, `odd_` files are neither: some of what they promise is not there.
"""

import math
import pathlib
import struct
import subprocess
import sys
import tempfile

RATE, SAMPLES = 16000, 20000
#: name: (channels, container of ffmpeg, options)
ENCODED = {
    "valid_wav_s16_stereo": (2, "wav", "-c:a pcm_s16le"),
    "valid_wav_s24": (1, "wav", "-c:a pcm_s24le"),
    "valid_wav_u8": (1, "wav", "-c:a pcm_u8"),
    "valid_wav_alaw": (1, "wav", "-c:a pcm_alaw"),
    "valid_wav_adpcm": (1, "wav", "-c:a adpcm_ms"),
    "valid_au_mulaw": (1, "au", "-c:a pcm_mulaw"),
    "valid_caf_f32": (1, "caf", "-c:a pcm_f32le"),
    "valid_flac": (1, "flac", "-c:a flac -frame_size 1152"),
    "valid_flac_mka_stereo": (2, "matroska", "-c:a flac -frame_size 1152"),
    "valid_alac_m4a": (1, "ipod", "-c:a alac"),
    "valid_mp3": (1, "mp3", "-c:a libmp3lame -b:a 24k"),
    "valid_mp3_stereo": (2, "mp3", "-c:a libmp3lame -b:a 64k"),
    "valid_mp2": (1, "mp2", "-c:a mp2 -b:a 48k"),
    "valid_aac_m4a": (1, "ipod", "-c:a aac -b:a 32k"),
    "valid_aac_adts": (1, "adts", "-c:a aac -b:a 32k"),
    "valid_vorbis_ogg": (1, "ogg", "-c:a libvorbis -q:a 2"),
    "valid_vorbis_webm_stereo": (2, "webm", "-c:a libvorbis -q:a 2"),
    "valid_opus_ogg": (1, "ogg", "-c:a libopus -b:a 24k"),
    "valid_opus_webm": (1, "webm", "-c:a libopus -b:a 24k"),
    "valid_small_wav": (1, "wav", "-t 0.02 -c:a pcm_s16le"),
    "valid_small_adpcm": (1, "wav", "-t 0.02 -c:a adpcm_ima_wav -block_size 128"),
    "valid_small_flac": (1, "flac", "-t 0.02 -c:a flac -frame_size 192"),
    "valid_small_mp3": (1, "mp3", "-t 0.1 -c:a libmp3lame -b:a 16k"),
    "valid_small_aac_m4a": (1, "ipod", "-t 0.1 -c:a aac -b:a 16k"),
    "valid_small_opus_ogg": (1, "ogg", "-t 0.06 -c:a libopus -b:a 16k"),
}


def wave(channels):
    """The sound as a WAV file of 32-bit floats."""
    values = []
    for i in range(SAMPLES):
        values.append(0.5 * math.sin(2 * math.pi * 440 * i / RATE))
        if channels == 2:
            values.append(0.25 * math.sin(2 * math.pi * 1320 * i / RATE))
    data = struct.pack(f"<{len(values)}f", *values)
    head = struct.pack("<HHIIHH", 3, channels, RATE, RATE * 4 * channels, 4 * channels, 32)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt \x10\0\0\0"
        + head
        + b"data"
        + struct.pack("<I", len(data))
        + data
    )


def encode(folder, channels, container, options):
    source, target = folder / "in.wav", folder / "out"
    source.write_bytes(wave(channels))
    exact = "-fflags +bitexact -flags:a +bitexact -map_metadata -1 -threads 1"
    command = f"ffmpeg -v error -y -i {source} {options} {exact} -f {container} {target}"
    subprocess.run(command.split(), check=True)
    return target.read_bytes()


def corpus():
    made = {}
    with tempfile.TemporaryDirectory() as name:
        for key, (channels, container, options) in ENCODED.items():
            made[key] = encode(pathlib.Path(name), channels, container, options)
    mp3, flac, wav = made["valid_mp3"], made["valid_flac"], made["valid_wav_s16_stereo"]
    hole = len(flac) // 2
    made["odd_wav_cut"] = wav[: 44 + 4 * 5000]
    made["odd_flac_hole"] = flac[:hole] + bytes(64) + flac[hole + 64 :]
    made["odd_flac_cut"] = flac[: len(flac) * 3 // 4]
    made["odd_mp3_cut_front"] = mp3[len(mp3) * 3 // 4 :]
    made["bad_opus_cut"] = made["valid_opus_ogg"][:1000]
    made["bad_empty"] = b""
    made["bad_text"] = b"<html>no such sound</html>"
    made["bad_wav_head"] = wav[:40]
    made["bad_playlist"] = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"
    made["bad_flac_noise"] = flac[:86] + bytes((17 * i * i + 3 * i) % 251 for i in range(400))
    return made


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in corpus().items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
