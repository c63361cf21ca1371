# SPDX-License-Identifier: Apache-2.0
"""./dev bench memory: a consumer ten times too slow, for a minute; memory must stay under its bound, and flat.

First the loader's own pace is measured with a fast consumer, then the consumer sleeps ten times that between batches. The
memory of all processes of the loader (rank, DataServer, templates, workers) is sampled twice a second, and the bound is

    max_bytes + workers x largest batch (Python datasets only: a result of unknown size is first made privately) + constant

over the memory that the rank had before the loader was opened. The constant covers what is no batch: the code and heaps of
the processes (CONSTANT_BYTES, stated there). Flat: the second half of the minute peaks at most 2 % of the bound above the first.
"""

import argparse
import json
import os
import sys
import time

import torch

import contenders
import harness
import media_sets

SLOWER = 10
BATCH = 8
WORKERS = 2
# DataServer: 32 MiB. A native worker holds a decoder: 96 MiB each. A Python template or worker holds an interpreter with torch
# (about 180 MiB, half of it shared between the workers of one template): 160 MiB each.
CONSTANT_BYTES = {"native": (32 + WORKERS * 96) << 20, "python": (32 + (WORKERS + 1) * 160) << 20}
MAX_BYTES = {"native": 256 << 20, "python": 256 << 20}
PYTHON_SAMPLE = 4 << 20  # bytes


class Noise(torch.utils.data.Dataset):
    """A Python dataset whose samples are made with each call."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.full((PYTHON_SAMPLE,), index % 251, dtype=torch.uint8)


def contender(kind):
    torch.set_num_threads(1)
    state = {}

    def open_():
        from stoker.torch import DistributedDataLoader
        options = dict(batch_size=BATCH, num_workers=WORKERS, max_bytes=MAX_BYTES[kind])
        if kind == "native":
            from stoker.media import VideoDataset
            paths = [clip["path"] for clip in media_sets.profile_set(("S",))] * 200
            dataset = VideoDataset(paths, frames=16, size=224, dtype="float32", mean=contenders.MEAN, std=contenders.STD)
        else:
            dataset = Noise()
        state["loader"] = DistributedDataLoader(dataset, **options)
        state["iterator"] = iter(state["loader"])
        for _ in range(4):
            batch = next(state["iterator"])
            contenders.touch(batch)
        start = time.monotonic()
        for _ in range(12):
            batch = next(state["iterator"])
            contenders.touch(batch)
        state["pace"] = (time.monotonic() - start) / 12
        return dict(pace=state["pace"], batch_bytes=batch.numel() * batch.element_size())

    def slow():
        end = time.monotonic() + state["seconds"]
        batches = 0
        while time.monotonic() < end:
            batch = next(state["iterator"])
            contenders.touch(batch)
            batches += 1
            time.sleep(min(SLOWER * state["pace"], max(0.0, end - time.monotonic())))
            del batch
        return dict(batches=batches)

    state["seconds"] = json.loads(sys.argv[1])["seconds"]
    harness.serve(dict(idle=lambda: {}, open=open_, slow=slow))


def run_kind(kind, seconds):
    process = harness.Contender(kind, os.path.abspath(__file__), dict(contender=kind, seconds=seconds))
    try:
        process.ask("idle")
        before = harness.memory_bytes(harness.group_pids(process.group))
        opened = process.ask("open")
        meter = harness.Meter(process.group, period_s=0.5)
        meter.start()
        slow = process.ask("slow")
        meter.stop()
    finally:
        process.close()
    samples = [(at, size - before) for at, size in meter.samples]
    bound = MAX_BYTES[kind] + CONSTANT_BYTES[kind] + (WORKERS * opened["batch_bytes"] if kind == "python" else 0)
    first = max(size for at, size in samples if at <= seconds / 2)
    second = max(size for at, size in samples if at > seconds / 2)
    return dict(kind=kind, bound_bytes=bound, max_bytes=MAX_BYTES[kind], constant_bytes=CONSTANT_BYTES[kind],
                batch_bytes=opened["batch_bytes"], pace_s=opened["pace"], batches=slow["batches"], before_bytes=before,
                first_half_peak_bytes=first, second_half_peak_bytes=second, growth_of_bound=(second - first) / bound,
                passed=max(first, second) <= bound and second - first <= 0.02 * bound,
                samples=[(round(at, 1), size) for at, size in samples])


def main():
    parser = argparse.ArgumentParser(prog="dev bench memory", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kind", default="native,python")
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout, with every sample of memory")
    parser.add_argument("--no-record", action="store_true", help="leave results.csv and RESULTS.md as they are")
    arguments = parser.parse_args()
    note = harness.load_note()
    kinds = [run_kind(kind, arguments.seconds) for kind in arguments.kind.split(",")]
    rows = [[kind["kind"], f"{kind['batch_bytes'] / 2**20:.0f}", f"{kind['pace_s'] * 1e3:.0f}", kind["batches"],
             f"{kind['first_half_peak_bytes'] / 2**20:.0f}", f"{kind['second_half_peak_bytes'] / 2**20:.0f}",
             f"{kind['bound_bytes'] / 2**20:.0f} ({kind['max_bytes'] >> 20} + {kind['constant_bytes'] >> 20}"
             + (f" + {WORKERS} x {kind['batch_bytes'] >> 20})" if kind["kind"] == "python" else ")"),
             f"{kind['growth_of_bound']:+.1%}", "pass" if kind["passed"] else "FAIL"] for kind in kinds]
    lines = harness.table(["dataset", "batch MiB", "pace ms", "batches", "peak MiB, 1st half", "2nd half", "bound MiB",
                           "growth", "mark"], rows)
    if not arguments.no_record:
        for kind in kinds:
            value = max(kind["first_half_peak_bytes"], kind["second_half_peak_bytes"])
            harness.record("memory", kind["kind"], [("peak/bound", value / kind["bound_bytes"], 0, 1, 1, "ratio")], note)
        harness.publish("memory", [f"`./dev bench memory --seconds {arguments.seconds:.0f}` on {harness.machine()}; {note}. "
                                   "Memory over that of the rank before the loader was opened.", "", *lines])
    if arguments.json:
        print(json.dumps(dict(schema="stoker.bench.memory/1", machine=harness.machine(), note=note, kinds=kinds)))
    else:
        print("\n".join(lines))
    return 0 if all(kind["passed"] for kind in kinds) else 1


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        contender(json.loads(sys.argv[1])["contender"])
    else:
        sys.exit(main())
