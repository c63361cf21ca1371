#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_media_manifest from docs/reference/manifest.md alone: good manifests, and bad ones that differ in one thing.

    make_media_manifest_corpus.py FOLDER
"""

import pathlib
import struct
import sys

NONE = None
MASK = (1 << 64) - 1


def fnv(data):
    hash = 0xCBF29CE484222325
    for byte in data:
        hash = (hash ^ byte) * 0x100000001B3 & MASK
    return hash


def fnv32(data):
    return fnv(data) >> 32 ^ fnv(data) & 0xFFFFFFFF


def leb(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def zigzag(value):
    value = (value + (1 << 63) & MASK) - (1 << 63)  # of 64 bits
    return (value << 1 ^ value >> 63) & MASK


def table(packets):
    """packets: (pts, dts, size, flags)."""
    out, dts_then, step, pts_then = b"", 0, 0, 0
    for pts, dts, size, flags in packets:
        out += leb(size * 16 + flags + 4 * (pts is NONE) + 8 * (dts is NONE))
        out += leb(0 if dts is NONE else zigzag(dts - (dts_then + step)))
        out += leb(0 if pts is NONE else zigzag(pts - (pts_then if dts is NONE else dts)))
        if dts is not NONE:
            dts_then, step = dts, dts - dts_then
        if pts is not NONE:
            pts_then = pts
    return out


def entry(path=1, member=0, bytes=1000, mtime=-5, offset=0, at=0, size=0, sum=0, packets=0, keys=0, frames=0, exact=0xFFFFFFFF,
          packet_bytes=0, codec=7, error=0, status=0, width=64, height=48, rotation=90, flags=1, duration=1.5, rate=25.0, base=0.04,
          last=1.0):
    return struct.pack("<QQQqQQIIIIIIQQQiIIHH4d", path, member, bytes, mtime, offset, at, size, sum, packets, keys, frames, exact,
                       packet_bytes, codec, error, status, width, height, rotation, flags, duration, rate, base, last)


TEXT = b"\0a.mp4\0h264\0it is bad\0s.tar\0x/0.mp4\0"
BAD = dict(error=12, status=-11, codec=0, width=0, height=0, rotation=0, flags=0, duration=0.0, rate=0.0, base=0.0, last=0.0)
PACKETS = table([(1024, 0, 900, 1), (512, 512, 30, 0), (1536, 1024, 31, 2), (NONE, NONE, 5, 0), (7, NONE, 6, 0), (8, 2048, 1 << 20, 1)])


def good(**changes):
    return entry(**{**dict(size=len(PACKETS), sum=fnv32(PACKETS), packets=6, keys=2, frames=5, packet_bytes=1), **changes})


def manifest(entries, text=TEXT, tables=PACKETS, version=1, bad=None, size=None, count=None, text_at=None, id=None, rest=b""):
    body = b"".join(entries)
    bad = sum(struct.unpack_from("<i", e, 96)[0] != 0 for e in entries) if bad is None else bad
    at = 128 + len(body)
    tail = struct.pack("<10Q", len(entries) if count is None else count, 128, at if text_at is None else text_at, len(text),
                       at + len(text), len(tables), bad, fnv(body), fnv(text), fnv(tables)) + bytes(24)
    whole = at + len(text) + len(tables)
    return struct.pack("<IIQQ", 0x4D4B5453, version, whole if size is None else size, fnv(tail) if id is None else id) + tail + body + text + tables + rest


INPUTS = {
    "valid_three": manifest([good(), entry(**BAD), good(path=22, member=28, offset=512)]),
    "valid_none": manifest([], tables=b""),
    "valid_bad_table": manifest([good(sum=1)]),  # packets are checked when they are used
    "valid_shard": manifest([entry(**{**BAD, "flags": 2})], tables=b""),
    "bad_version": manifest([good()], version=2),
    "bad_size": manifest([good()], size=1000),
    "bad_count": manifest([good()], count=2),
    "bad_count_wraps": manifest([good()], count=(1 << 64) // 144 + 1),
    "bad_text_at": manifest([good()], text_at=300),
    "bad_rest": manifest([good()], rest=b"x"),
    "bad_text_begin": manifest([good()], text=b"x" + TEXT[1:]),
    "bad_text_end": manifest([good()], text=TEXT[:-1]),
    "bad_text_empty": manifest([], text=b"", tables=b""),
    "bad_bad": manifest([good()], bad=1),
    "bad_path_none": manifest([good(path=0)]),
    "bad_path_far": manifest([good(path=1 << 40)]),
    "bad_path_empty": manifest([good(path=len(TEXT) - 1)]),
    "bad_path_long": manifest([good(path=len(TEXT))], text=TEXT + b"x" * 4096 + b"\0"),
    "bad_member_far": manifest([good(member=len(TEXT))]),
    "bad_codec_none": manifest([good(codec=0)]),
    "bad_codec_far": manifest([good(codec=1 << 63)]),
    "bad_error_far": manifest([entry(**{**BAD, "error": 1 << 30})]),
    "bad_offset": manifest([good(offset=MASK)]),
    "bad_table_far": manifest([good(at=1)]),
    "bad_table_wraps": manifest([good(at=MASK)]),
    "bad_packets": manifest([good(packets=100)]),
    "bad_keys": manifest([good(keys=7)]),
    "bad_frames": manifest([good(frames=7)]),
    "bad_status": manifest([good(status=-11)]),
    "bad_status_positive": manifest([good(status=1, error=12)]),
    "bad_error_alone": manifest([good(error=12)]),
    "bad_rotation": manifest([good(rotation=45)]),
    "bad_flags": manifest([good(flags=4)]),
    "bad_width": manifest([good(width=0)]),
    "bad_duration": manifest([good(duration=float("nan"))]),
    "bad_rate": manifest([good(rate=-1.0)]),
    "bad_short": manifest([good()])[:100],
    "bad_nothing": b"",
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
