# SPDX-License-Identifier: Apache-2.0
"""./dev bench handoff: a 64 MiB batch from worker to rank, stoker against a torch worker queue.

The dataset holds its samples in memory, so that making a batch is one copy of 64 MiB by torch's own default_collate, in both
loaders the same code; what differs is where the batch is put and how it reaches the rank. The rank then reads one byte of
every page. One worker each, two batches ahead, rounds in turns. The figure is the time from one batch to the next, beside
that of a plain copy of 64 MiB in warm memory.
"""

import argparse
import json
import os
import sys
import time

import torch

import harness

BATCH_BYTES = 64 << 20
SAMPLES = 8  # of a batch
BATCHES = 60  # of a round
PASS_MARK = 5.0
NAMES = ["stoker", "torch"]


class Resident(torch.utils.data.Dataset):
    """Samples that lie in memory; each one differs, so that what arrives can be checked."""

    def __init__(self):
        size = BATCH_BYTES // SAMPLES
        self.samples = [torch.full((size,), index + 1, dtype=torch.uint8) for index in range(SAMPLES)]

    def __len__(self):
        return SAMPLES * BATCHES

    def __getitem__(self, index):
        return self.samples[index % SAMPLES]


def contender(name):
    torch.set_num_threads(1)
    if name == "stoker":
        from stoker.torch import DistributedDataLoader
        loader = DistributedDataLoader(Resident(), batch_size=SAMPLES, num_workers=1, prefetch_factor=2,
                                       persistent_workers=True)
    else:
        loader = torch.utils.data.DataLoader(Resident(), batch_size=SAMPLES, num_workers=1, prefetch_factor=2,
                                             persistent_workers=True)
    expected = sum(range(1, SAMPLES + 1)) * BATCH_BYTES // SAMPLES // 4096

    def round_():
        seconds = []
        start = time.perf_counter()
        for batch in loader:
            if int(batch.view(-1)[::4096].sum(dtype=torch.int64)) != expected:
                raise RuntimeError("wrong bytes")
            del batch
            now = time.perf_counter()
            seconds.append(now - start)
            start = now
        if len(seconds) != BATCHES:
            raise RuntimeError(f"{len(seconds)} batches of {BATCHES}")
        return dict(seconds=sum(seconds[5:]) / len(seconds[5:]))  # the first ones wait for a cold pipeline

    harness.serve(dict(round=round_))


def copy_seconds():
    source = torch.ones(BATCH_BYTES, dtype=torch.uint8)
    target = torch.zeros(BATCH_BYTES, dtype=torch.uint8)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser(prog="dev bench handoff", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.add_argument("--no-record", action="store_true", help="leave results.csv and RESULTS.md as they are")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    note = f"{harness.load_note()}; {harness.versions()}"
    running = {}
    rounds = []
    try:
        for name in NAMES:
            running[name] = harness.Contender(name, os.path.abspath(__file__), dict(contender=name))
            running[name].ask("round")
        for turn in range(arguments.pairs):
            names = NAMES if turn % 2 == 0 else NAMES[::-1]
            results = {name: running[name].measure("round") for name in names}
            rounds.append({name: dict(seconds=answer["seconds"], cpu=cpu / BATCHES, peak=peak)
                           for name, (answer, cpu, peak) in results.items()})
            harness.log(f"  {turn + 1}/{arguments.pairs}: " + ", ".join(
                f"{name} {rounds[-1][name]['seconds'] * 1e3:.2f} ms" for name in NAMES))
    finally:
        for process in running.values():
            process.close()
    plain = copy_seconds()
    ratio, low, high = harness.median_interval([turn["torch"]["seconds"] / turn["stoker"]["seconds"] for turn in rounds])
    passed = low >= PASS_MARK
    rows, record = [], [("torch/stoker", ratio, low, high, arguments.pairs, "ratio of seconds")]
    for name in NAMES:
        seconds, cpu = (harness.median_interval([turn[name][key] for turn in rounds])[0] for key in ("seconds", "cpu"))
        peak = max(turn[name]["peak"] for turn in rounds)
        rows.append([name, f"{seconds * 1e3:.2f}", f"{plain / seconds:.0%}", f"{cpu * 1e3:.2f}", f"{peak / 2**20:.0f}",
                     f"{ratio:.2f}x ({low:.2f}-{high:.2f})" if name == "torch" else "",
                     f">= {PASS_MARK:.0f}: {'pass' if passed else 'FAIL'}" if name == "torch" else ""])
        record += [(f"{name} seconds", seconds, seconds, seconds, arguments.pairs, "s")]
    lines = harness.table(["loader", "ms/batch", "of memcpy speed", "CPU ms/batch", "peak MiB", "stoker against it (95 %)",
                           "mark"], rows)
    if not arguments.no_record:
        harness.record("handoff", "64 MiB", record, note)
        harness.publish("handoff", [f"`./dev bench handoff --pairs {arguments.pairs}` on {harness.machine()}; {note}.", "",
                                    *lines])
    if arguments.json:
        print(json.dumps(dict(schema="stoker.bench.handoff/1", machine=harness.machine(), note=note, median=ratio, low=low,
                              high=high, pass_mark=PASS_MARK, passed=passed, copy_seconds=plain, rounds=rounds)))
    else:
        print("\n".join(lines))
    return 0 if passed else 1


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        contender(json.loads(sys.argv[1])["contender"])
    else:
        sys.exit(main())
