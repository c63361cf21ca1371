#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encode an example of every message from the tables of docs/reference/messages.md alone.

    make_wire_corpus.py [FOLDER]          write the corpus (tests/fuzz/corpus/wire by default)
    make_wire_corpus.py --check [FOLDER]  TAP: the corpus is what the page says

The C decoder must accept every file that is called valid_* and refuse every one called bad_*. So the page, which is
meant to be enough for a second implementation, is one, and cannot drift from the first.
"""

import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/reference/messages.md"
CORPUS = ROOT / "tests/fuzz/corpus/wire"
VERSION = int(re.search(r"\| 4 \| u16 \| version \| (\d+) \|", PAGE.read_text())[1])

KEY = bytes(range(0x30, 0x3a)) + b"abcdef" * 9
REGION = dict(slab_id=11, segment_id=12, segment_bytes=1 << 22, offset=65536, size=4096, fd_sent=1)
NO_REGION = dict(slab_id=0, segment_id=0, segment_bytes=0, offset=0, size=0, fd_sent=0)
NO_DRAW = dict(draw=0, rows=0, row=0)
NO_PLACE = dict(**NO_DRAW, samples=0, index=0, from_index=0)
IDS = struct.pack("<3Q", 17, 259, 2**64 - 1)
LEAVES = [dict(dtype=4, ndim=3, shape=(2, 3, 5), offset=256, size=120),
          dict(dtype=5, ndim=1, shape=(2,), offset=512, size=16)]

# Values by body; what is not named is 1 for an integer and empty for bytes. A list gives several messages.
VALUES = {
    "hello": [dict(key=KEY, version=b"0.1.0", rank=3, world_size=4, local_rank=1, local_world_size=2,
                   pid=4711, cpu_mask=b"\x0f\x01"),
              dict(key=KEY, version=b"9", rank=0, world_size=1, local_rank=0, local_world_size=256, pid=2**31 - 1)],
    "loader_open": [dict(kind=1, on_error=1, sample_bytes=7, max_bytes=1 << 31, name="données".encode(),
                         digest=bytes(range(32)), quarantine=b"/data/bad.sqlite", profile=struct.pack("<10Q", *range(10))),
                    dict(kind=2, on_error=2, isolation=2, sample_bytes=0, batch_samples_max=65536, num_workers=1024,
                         digest=bytes(32))],
    "loader_ref": [dict(), dict(loader_id=2**32 - 1, generation=2**32 - 1)],
    "request": [dict(ids=IDS, samples=0), dict(ids=IDS, draws=IDS, samples=0, estimate_ns=2**64 - 1),
                dict(payload=b"\x80\x05]\x94.", samples=65536, estimate_ns=0)],
    "release": [dict(slabs=IDS)],
    "step": [dict(wait_ns=0, window_ns=2**64 - 1)],
    "welcome": [dict(pid=4712, version=b"0.1.0")],
    "verdict": [dict(status=0), dict(status=-23, text=b"needs 4 of 3 bytes", detail=b"\x80pickle")],
    "ready": [dict(region=REGION, skeleton_offset=3840, skeleton_size=100, leaves=LEAVES, flags=0),
              dict(region=REGION, skeleton_offset=0, skeleton_size=4096, leaves=[]),
              dict(region=NO_REGION, skeleton_offset=0, skeleton_size=0,
                   leaves=[dict(dtype=1, ndim=2, shape=(0, 2**64 - 1), offset=0, size=0)])],
    "failed": [dict(status=-11, text=b"sample 17: clips/a.mp4: moov atom not found", detail=b"\x80pickle")],
    "unmap": [dict()],
    "notice": [dict(level=3, id=b"worker_replaced", text=b"worker 3 was killed")],
    "status": [dict(), dict(text=b'{"schema":"stoker.status"}')],
    "gather": [dict(ranks=struct.pack("<2I", 0, 7), data=b"features"), dict()],
    "gathered": [dict(status=0, data=b"\1\0\0\0x"), dict(status=-30, text=b"rank 3 has left")],
    "give": [dict(ready=b"a READY")],
    "source": [dict(kind=2), dict(kind=0)],
    "task": [dict(kind=1, target=REGION, samples=4, index=3, from_index=0, rows=2**64 - 1, row=2304),
             dict(kind=2, target=REGION, samples=65536, index=0, from_index=65535, **NO_DRAW, **{"from": REGION}),
             dict(kind=3, payload=b"p", **NO_PLACE), dict(kind=3, target=REGION, payload=b"p", **NO_PLACE)],
    "need": [dict(size=2**64 - 1)],
    "grant": [dict(status=0, region=REGION), dict(status=-21, text=b"no memory")],
    "done": [dict(status=0, used=500, skeleton_offset=400, skeleton_size=100),
             dict(status=-31, used=0, skeleton_offset=0, skeleton_size=0, text=b"timed out", detail=b"\x80pickle")],
    "template_report": [dict(status=0, pid=0), dict(status=-40, pid=0, text=b"no module named x", detail=b"\x80pickle"),
                        dict(status=0, pid=2**31 - 1, worker_id=1023)],
}

# One broken message for each kind of refusal: (file, message, its body's values, what is done to the encoding).
BAD = [
    ("trailing_byte", "NEED", dict(), lambda data: data + b"\0"),
    ("magic", "NEED", dict(), lambda data: b"X" + data[1:]),
    ("version", "NEED", dict(), lambda data: data[:4] + b"\1" + data[5:]),
    ("reserved", "NEED", dict(), lambda data: data[:24] + b"\1" + data[25:]),
    ("fd_count", "NEED", dict(), lambda data: data[:8] + b"\5" + data[9:]),
    ("body_size_huge", "NEED", dict(), lambda data: data[:12] + b"\xff\xff\xff\xff" + data[16:]),
    ("length_past_end", "NOTICE", dict(id=b"x", text=b"abc"), lambda data: data[:-7] + b"\4\0\0\0abc"),
    ("length_huge", "NOTICE", dict(id=b"x"), lambda data: data[:-4] + b"\xff\xff\xff\xff"),
    ("both_ids_and_payload", "REQUEST", dict(ids=IDS, payload=b"p", samples=0), None),
    ("neither_ids_nor_payload", "REQUEST", dict(samples=0), None),
    ("ids_cut", "REQUEST", dict(ids=IDS[:-1], samples=0), None),
    ("draws_of_some_ids", "REQUEST", dict(ids=IDS, draws=IDS[:-8], samples=0), None),
    ("samples_beside_ids", "REQUEST", dict(ids=IDS, samples=3), None),
    ("profile_cut", "LOADER_OPEN", dict(kind=1, digest=bytes(32), profile=bytes(79)), None),
    ("too_many_samples", "REQUEST", dict(payload=b"p", samples=65537), None),
    ("gather_ranks_cut", "GATHER", dict(ranks=bytes(7)), None),
    ("gathered_failure_with_data", "GATHERED", dict(status=-30, data=b"x"), None),
    ("give_of_nothing", "GIVE", dict(), None),
    ("slab_zero", "RELEASE", dict(slabs=bytes(8)), None),
    ("status_positive", "DONE", dict(status=1), None),
    ("status_unknown", "DONE", dict(status=-9), None),
    ("rank_outside_world", "HELLO", dict(key=KEY, version=b"1", rank=4, world_size=4, local_rank=0), None),
    ("key_upper_case", "HELLO", dict(key=KEY.upper(), version=b"1", rank=0, local_rank=0), None),
    ("region_outside_segment", "GRANT", dict(status=0, region={**REGION, "size": 1 << 22}), None),
    ("region_wraps", "GRANT", dict(status=0, region={**REGION, "offset": 2**64 - 1, "size": 2}), None),
    ("region_without_slab", "GRANT", dict(status=-21, region={**NO_REGION, "segment_id": 1}), None),
    ("leaf_size_wraps", "READY", dict(region=REGION, skeleton_offset=0, skeleton_size=0,
                                      leaves=[dict(dtype=4, ndim=2, shape=(2**62, 4), offset=0, size=0)]), None),
    ("leaf_ndim", "READY", dict(region=REGION, skeleton_offset=0, skeleton_size=0,
                                leaves=[dict(dtype=1, ndim=9, shape=(1,) * 9, offset=0, size=1)]), None),
    ("leaf_count", "READY", dict(region=REGION, skeleton_offset=0, skeleton_size=0,
                                 leaves=[dict(dtype=1, ndim=1, shape=(1,), offset=0, size=1)] * 9), None),
    ("copy_of_other_size", "TASK", dict(kind=2, target=REGION, samples=2, **NO_DRAW, **{"from": {**REGION, "size": 8}}), None),
    ("place_outside_batch", "TASK", dict(kind=1, target=REGION, samples=4, index=4, from_index=0), None),
    ("place_of_a_copy", "TASK", dict(kind=2, target=REGION, samples=2, from_index=2, **NO_DRAW, **{"from": REGION}), None),
    ("batch_with_places", "TASK", dict(kind=3, payload=b"p", **NO_DRAW, samples=1, index=0, from_index=0), None),
    ("draw_of_a_copy", "TASK", dict(kind=2, target=REGION, samples=2, index=0, from_index=1, draw=1, rows=0, row=0,
                                    **{"from": REGION}), None),
    ("rows_of_a_copy", "TASK", dict(kind=2, target=REGION, samples=2, index=0, from_index=1, draw=0, rows=1, row=0,
                                    **{"from": REGION}), None),
    ("row_outside_batch", "TASK", dict(kind=1, target=REGION, samples=4, index=3, from_index=0, rows=5, row=6), None),
    ("make_without_target", "TASK", dict(kind=1, samples=1, index=0, from_index=0), None),
]


def read_page():
    """Tables of the page: fields by body (or struct), and (type, message, body) of every message."""
    bodies, messages, title = {}, [], None
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip()
        row = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        is_type = len(row) >= 3 and re.fullmatch(r"(ndim × )?(u|i)(32|64)|bytes|text|region|leaves", row[1])
        if is_type and re.fullmatch(r"\w+", title):
            bodies.setdefault(title, []).append((row[0], row[1]))
        elif len(row) == 5 and row[0].isdigit():
            messages.append((int(row[0]), row[1], row[3]))
    return bodies, sorted(set(messages))


def encode_struct(bodies, name, values):
    unknown = set(values) - {field for field, _ in bodies[name]}
    if unknown:
        raise SystemExit(f"{PAGE}: {name} has no field {sorted(unknown)}")
    out = b""
    for field, kind in bodies[name]:
        if kind in ("bytes", "text"):
            value = values.get(field, b"")
            out += struct.pack("<I", len(value)) + value
        elif kind == "region":
            out += encode_struct(bodies, "region", values.get(field, NO_REGION))
        elif kind == "leaves":
            leaves = values.get(field, [])
            out += struct.pack("<I", len(leaves)) + b"".join(encode_struct(bodies, "leaf", leaf) for leaf in leaves)
        elif kind.startswith("ndim"):
            out += b"".join(struct.pack("<Q", dimension) for dimension in values[field])
        else:
            out += struct.pack({"u32": "<I", "i32": "<i", "u64": "<Q", "i64": "<q"}[kind], values.get(field, 1))
    return out


def frame(number, body):
    return struct.pack("<IHHHHIQQ", 0x314b5453, VERSION, number, 0, 0, len(body), 0x0123456789abcdef, 0) + body


def make():
    bodies, messages = read_page()
    files = {}
    for number, message, body in messages:
        if body == "empty":
            files[f"valid_{message.lower()}"] = frame(number, b"")
            continue
        for index, values in enumerate(VALUES[body]):
            files[f"valid_{message.lower()}_{index}"] = frame(number, encode_struct(bodies, body, values))
    by_name = {message: (number, body) for number, message, body in messages}
    for name, message, values, damage in BAD:
        number, body = by_name[message]
        data = frame(number, encode_struct(bodies, body, values))
        files[f"bad_{name}"] = damage(data) if damage else data
    return files


def main():
    check = sys.argv[1:2] == ["--check"]
    folder = pathlib.Path(sys.argv[-1]) if len(sys.argv) > 1 + check else CORPUS
    files = make()
    if not check:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return 0
    present = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(("valid_", "bad_"))}
    names = sorted(set(files) | set(present))
    wrong = [name for name in names if files.get(name) != present.get(name)]
    for number, name in enumerate(names, 1):
        print(f"{'not ok' if name in wrong else 'ok'} {number} - {name} is what docs/reference/messages.md says")
    print(f"1..{len(names)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
