#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_idx from docs/reference/token-files.md alone: good index files, and bad ones that differ in one thing.

    make_idx_corpus.py FOLDER
"""

import pathlib
import struct
import sys

SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}
MAGIC = b"MMIDIDX\0\0"


def index(lengths=(5, 1, 7), documents=(0, 2, 3), code=8, offsets=None, modes=b"", magic=MAGIC, version=1, n=None, d=None,
          order="<"):
    if offsets is None:
        ends = [0]
        for length in lengths:
            ends.append(ends[-1] + length * SIZES.get(code, 1))
        offsets = ends[:-1]
    head = magic + struct.pack(f"{order}QBQQ", version, code, len(lengths) if n is None else n,
                               len(documents) if d is None else d)
    return (head + struct.pack(f"{order}{len(lengths)}i", *lengths) + struct.pack(f"{order}{len(offsets)}q", *offsets)
            + struct.pack(f"{order}{len(documents)}q", *documents) + modes)


GOOD = index()
INPUTS = {
    "valid_three": GOOD,
    "valid_empty": index((), (0,)),
    "valid_empty_sequences": index((0, 0, 4, 0), (0, 0, 3, 4, 4)),
    "valid_shuffled_offsets": index(offsets=(16, 0, 2)),
    "valid_overlapping": index(offsets=(0, 0, 0)),
    "valid_trailing_bytes": GOOD + b"more",
    "valid_modes": index(modes=b"\x00\x05\xff"),
    **{f"valid_type_{code}": index(code=code) for code in SIZES},
    "valid_many": index((1,) * 25, tuple(range(26)), code=1),
    "bad_nothing": b"",
    "bad_magic": index(magic=b"MMIDIDY\0\0"),
    "bad_version": index(version=2),
    "bad_big_endian": index(order=">"),
    "bad_type_0": index(code=0),
    "bad_type_9": index(code=9),
    "bad_header_cut": GOOD[:33],
    "bad_lengths_cut": GOOD[:45],
    "bad_offsets_cut": GOOD[:69],
    "bad_documents_cut": GOOD[:-1],
    "bad_many_sequences": index(n=1 << 62),
    "bad_count_wraps_12": index(n=(1 << 64) // 12 + 1),
    "bad_count_wraps_4": index(n=(1 << 62) + 3),
    "bad_count_all_ones": index(n=(1 << 64) - 1),
    "bad_many_documents": index(d=1 << 61),
    "bad_no_documents": index(documents=()),
    "bad_length_negative": index(lengths=(5, -1, 7), offsets=(0, 10, 12)),
    "bad_length_least": index(lengths=(5, -(1 << 31), 7), offsets=(0, 10, 12)),
    "bad_length_past_the_end": index(lengths=(5, 1, 1 << 30), offsets=(0, 10, 12)),
    "bad_offset_negative": index(offsets=(0, -2, 12)),
    "bad_offset_far": index(offsets=(0, 10, (1 << 63) - 1)),
    "bad_offset_sum_wraps": index(lengths=(5, 1, (1 << 31) - 1), offsets=(0, 10, (1 << 63) - 2)),
    "bad_offset_past_the_end": index(offsets=(0, 10, 28)),
    "bad_documents_begin": index(documents=(1, 2, 3)),
    "bad_documents_fall": index(documents=(0, 2, 1, 3)),
    "bad_documents_negative": index(documents=(0, -1, 3)),
    "bad_documents_end": index(documents=(0, 2, 4)),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
