#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_tar: archives by Python's tarfile, and index files from docs/reference/manifest.md alone; good ones, and bad ones
that differ in one thing.

    make_tar_corpus.py FOLDER
"""

import io
import pathlib
import struct
import sys
import tarfile


def archive(members, format=tarfile.USTAR_FORMAT, end=True, **fields):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(data))
        size = tar.offset
    return out.getvalue()[: size + (1024 if end else 0)]


def patched(data, at, new, sum_again=True):
    data = bytearray(data)
    data[at : at + len(new)] = new
    if sum_again:
        data[148:156] = b" " * 8
        data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


def index(members, dropped=0, version=1, archive_bytes=10240, count=None, offsets=None, text=None, size=None):
    names = b"".join(name + b"\0" for name, _, _ in members) if text is None else text
    entries, at = b"", 0
    for number, (name, offset, length) in enumerate(members):
        entries += struct.pack("<3Q", offset, length, offsets[number] if offsets else at)
        at += len(name) + 1
    body = entries + names
    head = struct.pack("<IIQQqQQQ", 0x584B5453, version, 64 + len(body) if size is None else size, archive_bytes, 5,
                       len(members) if count is None else count, len(names), dropped)
    hash = 0xCBF29CE484222325
    for byte in head + body:
        hash = (hash ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return head + struct.pack("<Q", hash) + body


TWO = [("a/0.jpg", b"jpg"), ("a/0.txt", b"caption")]
LISTED = [(b"a/0.jpg", 512, 3), (b"a/0.txt", 1536, 7), (b"b.mp4", 3072, 0)]
LONG = [("d" * 80 + "/" + "e" * 80 + ".mp4", b"x")]
INPUTS = {
    "valid_ustar": archive(TWO),
    "valid_ustar_prefix": archive(LONG),
    "valid_gnu_long": archive(LONG, tarfile.GNU_FORMAT),
    "valid_gnu_big_number": archive(TWO, tarfile.GNU_FORMAT, mtime=2**40),
    "valid_pax_long": archive([("é" * 70 + ".mp4", b"x")], tarfile.PAX_FORMAT),
    "valid_pax_time": archive(TWO[:1], tarfile.PAX_FORMAT, mtime=1.5),
    "valid_without_end": archive(TWO, end=False),
    "valid_twice": archive(TWO[:1] * 2),
    "valid_folder": archive([("a", b"")], type=tarfile.DIRTYPE),
    "valid_link": archive([("a", b"")], type=tarfile.SYMTYPE, linkname="b"),
    "bad_sparse": archive([("a", b"")], type=tarfile.GNUTYPE_SPARSE),
    "bad_sum": patched(archive(TWO), 0, b"b", sum_again=False),
    "bad_size": patched(archive(TWO), 124, b"99999999999\0"),
    "bad_size_negative": patched(archive(TWO), 124, b"\xff" * 12),
    "bad_size_huge": patched(archive(TWO), 124, b"\x80" + b"\x7f" * 11),
    "bad_size_past_end": patched(archive(TWO), 124, b"00000100000\0"),
    "bad_no_name": patched(archive(TWO), 0, b"\0" * 100),
    "bad_cut": archive(TWO)[:1200],
    "bad_gzip": b"\x1f\x8b\x08" + b"\0" * 600,
    "bad_zstd": b"\x28\xb5\x2f\xfd" + b"\0" * 8,
    "bad_text": b"hello, world" * 60,
    "bad_nothing": b"",
    "bad_extended_alone": archive(LONG, tarfile.GNU_FORMAT)[:1024],
    "valid_index": index(LISTED),
    "valid_index_empty": index([]),
    "valid_index_dropped": index(LISTED, dropped=3),
    "bad_index_version": index(LISTED, version=2),
    "bad_index_size": index(LISTED, size=1),
    "bad_index_count": index(LISTED, count=4),
    "bad_index_count_huge": index(LISTED, count=1 << 61),
    "bad_index_past_end": index(LISTED, archive_bytes=1540),
    "bad_index_offset": index(LISTED, offsets=[0, 8, 17]),
    "bad_index_twice": index(LISTED[:1] * 2),
    "bad_index_empty_name": index([(b"", 512, 0)]),
    "bad_index_unended": index(LISTED[:1], text=b"a/0.jpgx"),
    "bad_index_rest": index(LISTED[:1], text=b"a/0.jpg\0b\0"),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
