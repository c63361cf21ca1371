#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_decode_plan from docs/reference/decode-plan.md alone: good plans, and bad ones that differ in one
thing.

    make_decode_plan_corpus.py FOLDER
"""

import pathlib
import struct
import sys

NONE = 0xFFFFFFFF
SEGMENTS = ((0, 2, 0), (8, 10, 8))
KEPT = ((1, 1), (9, 9))


def plan(flags=3, packets=10, frames=10, segments=SEGMENTS, kept=KEPT, magic=0x504B5453, version=1, zero=0, counts=None):
    head = struct.pack("<8IQ", magic, version, flags, packets, frames, *(counts or (len(segments), len(kept))), zero, 77)
    return head + b"".join(struct.pack("<IIq", *s) for s in segments) + b"".join(struct.pack("<II", *k) for k in kept)


WHOLE = ((0, 10, -(2**63)),)
INPUTS = {
    "valid_by_time": plan(),
    "valid_by_time_sends_all": plan(flags=1),
    "valid_no_frames": plan(segments=(), kept=()),
    "valid_touching": plan(segments=((0, 8, 0), (8, 10, 8))),
    "valid_in_order": plan(flags=0, frames=4, segments=WHOLE, kept=((0, NONE), (3, NONE))),
    "valid_in_order_all": plan(flags=0, segments=WHOLE, kept=()),
    "valid_in_order_empty": plan(flags=0, packets=0, frames=0, segments=(), kept=()),
    "bad_empty": b"",
    "bad_short": plan()[:39],
    "bad_cut": plan()[:-1],
    "bad_long": plan() + b"\0",
    "bad_magic": plan(magic=1),
    "bad_version": plan(version=2),
    "bad_flags": plan(flags=2),
    "bad_flags_unknown": plan(flags=4),
    "bad_zero": plan(zero=1),
    "bad_counts_wrap": plan(counts=(0x10000000, NONE)),
    "bad_packets": plan(packets=NONE),
    "bad_segment_empty": plan(segments=((0, 2, 0), (9, 9, 0))),
    "bad_segment_overlap": plan(segments=((0, 2, 0), (1, 10, 0))),
    "bad_segment_outside": plan(segments=((0, 2, 0), (8, 11, 0))),
    "bad_segment_descending": plan(segments=SEGMENTS[::-1]),
    "bad_kept_outside": plan(frames=9),
    "bad_kept_twice": plan(kept=((9, 1), (9, 9))),
    "bad_kept_not_sent": plan(kept=((1, 1), (9, 7))),
    "bad_kept_without_packet": plan(kept=((1, 1), (9, NONE))),
    "bad_in_order_two": plan(flags=0, kept=()),
    "bad_in_order_part": plan(flags=0, segments=((0, 9, 0),), kept=()),
    "bad_in_order_packet": plan(flags=0, segments=WHOLE, kept=((1, 1),)),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
