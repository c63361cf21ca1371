#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_manifest from docs/reference/source-blobs.md alone: good blobs, and bad ones that differ in one thing.

    make_manifest_corpus.py FOLDER
"""

import pathlib
import struct
import sys


def blob(magic, body, version=None, size=None):
    version = version or VERSIONS.get(magic, 1)
    return struct.pack("<IIQ", magic, version, 16 + len(body) if size is None else size) + body


def augment(crop=0, pad=0, colour=(0, 0, 0), scale=(0, 0), ratio=(0, 0), flip=0, jitter=(0, 0, 0, 0)):
    return struct.pack("<II3Bx9f", crop, pad, *colour, *scale, *ratio, flip, *jitter)


def patches(paths, media=0, rule=(14, 2, 2, 0, 0, 3136, 50176, 0, 0), frames=(0, 4, 0.0, 0, 0, 0), std=(0, 0, 0), facts=None,
            rows=100000, count=None, listed=None):
    form = struct.pack("<I5I4Q", media, *rule) + struct.pack("<2Id3I", *frames) + struct.pack("<2I", 0, 4)
    form += struct.pack("<6f", 0, 0, 0, *std) + struct.pack("<Id4I", 0, 0.0, 0, 0, 0, 0)
    facts = [(640, 360, 300, 10.0)] * len(paths) if facts is None else facts
    table = b"".join(struct.pack("<2IQd", *fact) for fact in facts)
    listed = blob(PATCHES, bytes(72) + files(paths)) if listed is None else listed
    return form.ljust(240, b"\0") + struct.pack("<2Q", rows, len(facts) if count is None else count) + table + listed


def images(paths, width=16, height=8, dtype=1, resize=0, partial=0, background=(0, 0, 0), alpha=0, change=None):
    form = struct.pack("<8I", width, height, dtype, 0, resize, 1, 0, alpha) + bytes(background) + b"\0"
    form += struct.pack("<2I6fI", partial, 0, 0, 0, 0, 0, 0, 0, 0) + (augment() if change is None else change)
    return form + files(paths)


def media(paths, frames=4, width=16, height=8, dtype=1, layout=0, mean=(0, 0, 0), std=(0, 0, 0), damaged=0.0, fps=0.0,
          more=(0,) * 12, background=(0, 0, 0), resize=0, mode=(0, 0), change=None, **table):
    form = struct.pack("<7I", frames, width, height, dtype, layout, resize, 0) + struct.pack("<6f", *mean, *std)
    form += struct.pack("<IdQ", 0, damaged, 0)
    form += struct.pack("<d12I", fps, *more) + bytes(background) + b"\0" + struct.pack("<3I", *mode, 0)
    return form + (augment() if change is None else change) + files(paths, **table)


def files(paths, count=None, offsets=None, text=None):
    text = b"".join(path + b"\0" for path in paths) if text is None else text
    entries, offset = b"", 0
    for index, path in enumerate(paths):
        entries += struct.pack("<QQq", offsets[index] if offsets else offset, 1000 + index, 1_700_000_000_000_000_000)
        offset += len(path) + 1
    return struct.pack("<QQ", len(paths) if count is None else count, len(text)) + entries + text


def process(arguments, environment, cwd=b"", samples=7, counts=None):
    texts = b"".join(text + b"\0" for text in [*arguments, *environment, cwd])
    return struct.pack("<QII", samples, *(counts or (len(arguments), len(environment)))) + texts


MEDIA, IMAGES, PROCESS, PATCHES = 0x564B5453, 0x494B5453, 0x504B5453, 0x504C5453
VERSIONS = {MEDIA: 3, IMAGES: 2}
PATHS = [b"/a.mp4", b"/data/b.webm", b"/c \xc3\xa9.mkv"]
INPUTS = {
    "valid_media_three": blob(MEDIA, media(PATHS)),
    "valid_media_none": blob(MEDIA, media([])),
    "valid_media_float": blob(MEDIA, media(PATHS[:1], dtype=4, layout=1, mean=(.5, .4, .3), std=(.2, .2, .2), damaged=-1.0)),
    "valid_media_rate": blob(MEDIA, media(PATHS, fps=2.5, more=(2, 0, 2, 4, 2, 1, 1, 1, 1, 1, 1, 1), background=(9, 8, 7))),
    "valid_media_random": blob(MEDIA, media(PATHS, more=(6, 3) + (0,) * 10)),
    "bad_media_sampling": blob(MEDIA, media(PATHS, more=(7,) + (0,) * 11)),
    "bad_media_fps": blob(MEDIA, media(PATHS, fps=float("nan"), more=(2,) + (0,) * 11)),
    "bad_media_stride": blob(MEDIA, media(PATHS, more=(0, 2) + (0,) * 10)),
    "bad_media_background": blob(MEDIA, media(PATHS, background=(1, 0, 0))),
    "bad_media_magic": blob(MEDIA + 1, media(PATHS)),
    "bad_media_version": blob(MEDIA, media(PATHS), version=1),
    "bad_media_size": blob(MEDIA, media(PATHS), size=17),
    "bad_media_frames": blob(MEDIA, media(PATHS, frames=0)),
    "bad_media_huge": blob(MEDIA, media(PATHS, frames=65536, width=65536, height=65536)),
    "bad_media_dtype": blob(MEDIA, media(PATHS, dtype=5)),
    "bad_media_mean": blob(MEDIA, media(PATHS, mean=(.5, 0, 0))),
    "bad_media_nan": blob(MEDIA, media(PATHS, dtype=4, mean=(float("nan"), 0, 0))),
    "bad_media_count": blob(MEDIA, media(PATHS, count=4)),
    "bad_media_count_wraps": blob(MEDIA, media(PATHS, count=(1 << 64) // 24 + 1)),
    "bad_media_offset": blob(MEDIA, media(PATHS, offsets=[0, 6, 20])),
    "bad_media_offset_far": blob(MEDIA, media(PATHS, offsets=[0, 7, (1 << 64) - 1])),
    "bad_media_unended": blob(MEDIA, media(PATHS[:1], text=b"/a.mp4x")),
    "bad_media_empty_path": blob(MEDIA, media([b""])),
    "bad_media_rest": blob(MEDIA, media(PATHS[:1], text=b"/a.mp4\0/b.mp4\0")),
    "bad_media_long_path": blob(MEDIA, media([b"/" + b"x" * 4095])),
    "valid_images": blob(IMAGES, images(PATHS)),
    "valid_images_marked": blob(IMAGES, images(PATHS[:1], dtype=3, resize=1, partial=2, alpha=1, background=(1, 2, 3))),
    "bad_images_kept": blob(IMAGES, images(PATHS, width=0, height=0, resize=2)),
    "bad_images_background": blob(IMAGES, images(PATHS, background=(1, 2, 3))),
    "bad_images_size": blob(IMAGES, images(PATHS, width=0)),
    "valid_images_random": blob(IMAGES, images(PATHS, change=augment(2, 0, (0, 0, 0), (.2, .9), (.5, 2), .5, (.4, .3, .2, .1)))),
    "valid_media_exact": blob(MEDIA, media(PATHS, resize=2, mode=(1, 1), change=augment(colour=(9, 8, 7), flip=.5))),
    "bad_media_filter": blob(MEDIA, media(PATHS, mode=(0, 1))),
    "bad_media_crop": blob(MEDIA, media(PATHS, change=augment(3))),
    "bad_media_hue": blob(MEDIA, media(PATHS, change=augment(jitter=(0, 0, 0, .75)))),
    "bad_images_scale": blob(IMAGES, images(PATHS, change=augment(2, scale=(.5, .25)))),
    "bad_images_flip": blob(IMAGES, images(PATHS, change=augment(flip=float("nan")))),
    "valid_patches": blob(PATCHES, patches(PATHS)),
    "valid_patches_none": blob(PATCHES, patches([])),
    "valid_patches_rate": blob(PATCHES, patches(PATHS, rule=(16, 2, 2, 1, 6, 4096, 25165824, 0, 786432),
                                                frames=(1, 0, 2.0, 4, 768, 2), std=(.5, .5, .5))),
    "valid_patches_of_images": blob(PATCHES, patches(PATHS, 1, frames=(0, 0, 0.0, 0, 0, 0), facts=[(64, 48, 1, 0.0)] * 3)),
    "valid_patches_of_nothing": blob(PATCHES, patches(PATHS, facts=[(0, 0, 0, 0.0), (7, 65536, 2**64 - 1, float("nan")),
                                                                    (2**32 - 1, 2**32 - 1, 2**64 - 1, 1e308)])),
    "valid_patches_too_few_rows": blob(PATCHES, patches(PATHS, rows=1)),
    "bad_patches_rule": blob(PATCHES, patches(PATHS, rule=(0, 2, 2, 0, 0, 3136, 50176, 0, 0))),
    "bad_patches_frames": blob(PATCHES, patches(PATHS, frames=(0, 0, float("nan"), 0, 0, 0))),
    "bad_patches_rows": blob(PATCHES, patches(PATHS, rows=2**64 - 1)),
    "bad_patches_count": blob(PATCHES, patches(PATHS, count=4)),
    "bad_patches_count_wraps": blob(PATCHES, patches(PATHS, count=(1 << 64) // 24 + 1)),
    "bad_patches_other_list": blob(PATCHES, patches(PATHS, listed=blob(PATCHES, bytes(72) + files(PATHS[:2])))),
    "bad_patches_no_list": blob(PATCHES, patches(PATHS, listed=b"")),
    "bad_images_version": blob(IMAGES, images(PATHS), version=1),
    "valid_process": blob(PROCESS, process([b"/usr/bin/python3", b"-m", b"x", b""], [b"A=1", b"B="], b"/tmp")),
    "valid_process_least": blob(PROCESS, process([b"a"], [])),
    "bad_process_no_argument": blob(PROCESS, process([], [b"A=1"])),
    "bad_process_empty_program": blob(PROCESS, process([b"", b"x"], [])),
    "bad_process_few_texts": blob(PROCESS, process([b"a"], [b"A=1"], counts=(2, 1))),
    "bad_process_more_texts": blob(PROCESS, process([b"a", b"b"], [], counts=(1, 0))),
    "bad_process_many": blob(PROCESS, process([b"a"], [], counts=(1 << 31, 1 << 31))),
    "bad_short": b"STKV",
    "bad_nothing": b"",
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
