#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_journal from docs/reference/journal.md alone: good journals, and bad ones that differ in one
thing.

    make_journal_corpus.py FOLDER
"""

import pathlib
import struct
import sys

EVENT = """server lane group workers items host to_host pool job rank part weight class_id flags failed saturated data_known
    data_host pools sequence wait_ns window_ns cpu_ns io_ns margin_ns wall_ns output_bytes budget_bytes inflight_bytes
    load_ns latency_ns bytes_per_s samples pixels_in bytes_in pixels_out hint_ns""".split()
TYPES = """SERVER_JOIN SERVER_LEAVE LANE_OPEN LANE_BEGIN LANE_CLOSE REQUEST RESULT STEP HEARTBEAT LINK FAILURE CANCEL
    TICK""".split()
MS = 1_000_000


def number(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def head(servers=4, lanes=2, tasks=8, hosts=2, jobs=1, links=2, models=4, policy=0, hold=0, copy=150, budget=0, version=1,
         magic=b"STKJRNL\0"):
    values = [servers, lanes, tasks, hosts, jobs, links, models, policy, 0, 0, 0, 0, hold, copy, 0, 0, 0, budget]
    return magic + number(version) + b"".join(number(value) for value in values)


def event(kind, **fields):
    present = sum(1 << EVENT.index(name) for name, value in fields.items() if value)
    body = b"".join(number(fields[name]) for name in EVENT if fields.get(name))
    return number(TYPES.index(kind)) + number(present) + body


def step(time, *events, count=None, actions=0, digest=0):
    body = b"".join(events)
    return b"\1" + number(time) + number(len(events) if count is None else count) + body + number(actions) + struct.pack(
        "<Q", digest)


def session():
    """Servers join, ranks work, one server leaves."""
    out = step(1, *(event("SERVER_JOIN", server=i, host=i // 2, pool=i % 2, workers=2) for i in range(4)))
    for lane in range(2):
        out += step(1, event("LANE_OPEN", lane=lane, server=2 * lane, host=lane, pools=3, group=5, weight=lane + 1,
                             budget_bytes=5000), event("LANE_BEGIN", lane=lane))
    for sequence in range(6):
        for lane in range(2):
            out += step(10 * MS, event("REQUEST", lane=lane, sequence=sequence, items=4, class_id=3, output_bytes=3000,
                                       data_known=1, data_host=1, samples=4, pixels_in=80_000_000, bytes_in=2_000_000,
                                       pixels_out=3_000_000))
        out += step(200 * MS, event("RESULT", lane=0, sequence=sequence, cpu_ns=90 * MS, wall_ns=95 * MS,
                                    output_bytes=3000),
                    event("STEP", lane=0, sequence=sequence, window_ns=150 * MS), event("TICK"))
    out += step(MS, event("HEARTBEAT", server=1, workers=3, load_ns=5 * MS, latency_ns=MS, saturated=1),
                event("LINK", host=0, to_host=1, bytes_per_s=10**9, latency_ns=MS, inflight_bytes=10**6))
    out += step(MS, event("FAILURE", lane=1, sequence=2, server=2), event("CANCEL", lane=1, sequence=3),
                event("SERVER_LEAVE", server=3), event("LANE_CLOSE", lane=1))
    return out


def corpus():
    good = head() + session()
    yield "valid_session", good + b"\2\0"
    yield "valid_hold_and_budget", head(hold=1, budget=1000, policy=0) + session()
    yield "valid_round_robin", head(policy=3, models=0) + session()
    yield "valid_least_request", head(policy=2) + session() + b"\2\1"
    yield "valid_cut_off", good[:-20]
    yield "valid_head_alone", head()
    huge = (1 << 64) - 1
    yield "valid_large_numbers", head() + session() + step(
        huge >> 3, event("REQUEST", lane=0, sequence=huge, items=(1 << 32) - 1, cpu_ns=huge, io_ns=huge, margin_ns=huge,
                         output_bytes=huge, data_known=1, data_host=(1 << 32) - 1, samples=huge, pixels_in=huge,
                         bytes_in=huge, pixels_out=huge, hint_ns=huge, class_id=(1 << 32) - 1),
        event("STEP", lane=0, sequence=huge, window_ns=huge), event("HEARTBEAT", server=0, workers=(1 << 32) - 1,
                                                                    load_ns=huge, latency_ns=huge),
        event("LINK", host=1, to_host=0, bytes_per_s=huge, latency_ns=huge, inflight_bytes=huge), event("TICK"))
    yield "bad_empty", b""
    yield "bad_magic", head(magic=b"STKJRNX\0")
    yield "bad_version", head(version=2)
    yield "bad_no_servers", head(servers=0)
    yield "bad_engine_too_large", head(tasks=1 << 24, lanes=1 << 20, servers=1 << 20)
    yield "bad_tasks", head(tasks=(1 << 24) + 1)
    yield "bad_policy", head(policy=4)
    yield "bad_tag", head() + b"\3"
    yield "bad_end", head() + b"\2\2"
    yield "bad_event_type", head() + b"\1\0\1\x0d\0\0" + bytes(8)
    yield "bad_event_count", head() + step(0, count=65537)
    yield "bad_more_events_than_fit", head() + step(0, *[event("TICK")] * 65)
    yield "bad_unknown_field", head() + step(0, number(12) + number(1 << 37))
    yield "bad_number_too_long", head() + step(0, number(0) + number(1) + b"\xff" * 11) + bytes(8)
    yield "bad_flag_of_two", head() + step(0, event("RESULT", failed=2)) + bytes(8)
    yield "bad_time", head() + step(huge >> 1)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in corpus():
        (folder / name).write_bytes(data)


main()
