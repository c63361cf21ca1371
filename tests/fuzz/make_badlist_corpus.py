# SPDX-License-Identifier: Apache-2.0
"""Makes corpus/badlist: snapshots of quarantine lists as docs/reference/quarantine.md says, and broken ones."""

import pathlib
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus/badlist"


def blob(*entries, magic=b"STKB", version=1, size=None, count=None, tail=b""):
    body = b"".join(path + b"\0" + struct.pack("<Qq", bytes_, time) for path, bytes_, time in entries) + tail
    return (magic + struct.pack("<IQQ", version, len(body) + 24 if size is None else size,
                                len(entries) if count is None else count) + body)


A, B = (b"/a", 1, 2), (b"/b", 3, -4)
FILES = {
    "valid_empty": blob(),
    "valid_one": blob(A),
    "valid_versions": blob(A, (b"/a", 1, 3), (b"/a", 2, -9), B, ("/ä".encode(), 2**64 - 1, -2**63)),
    "bad_nothing": b"",
    "bad_header_cut": blob()[:-1],
    "bad_magic": blob(A, magic=b"STKX"),
    "bad_version": blob(A, version=2),
    "bad_size": blob(A, size=999),
    "bad_count_more": blob(A, count=2),
    "bad_count_less": blob(A, B, count=1),
    "bad_count_huge": blob(A, count=2**63),
    "bad_falling": blob(B, A),
    "bad_twice": blob(A, A),
    "bad_path_empty": blob((b"", 1, 2)),
    "bad_path_long": blob((b"x" * 4096, 1, 2)),
    "bad_path_without_end": blob(tail=b"/abc", count=1),
    "bad_version_cut": blob(tail=b"/a\0" + bytes(15), count=1),
}

if __name__ == "__main__":
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, data in FILES.items():
        (CORPUS / name).write_bytes(data)
