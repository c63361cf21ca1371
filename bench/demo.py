# SPDX-License-Identifier: Apache-2.0
"""./dev demo: real videos to two training ranks, through stoker's embedded plane and through the stock loader.

Two ranks synchronise every step with an all-reduce, as data-parallel training does, and compute for a nominal window (slept,
so that the CPUs are the loaders'). The window is fixed before the first round, as a share of the time that all CPUs need to
decode the samples of one step with PyAV: a training job that its loader can just about feed. The stock side is DataLoader + PyAV in its tuned form (bench/contenders.py) with a
DistributedSampler. Both get the same samples in the same order and the same total number of workers. Rounds alternate.
What arrived is checked by its pictures: each sample is matched with signatures of every clip, made beforehand by PyAV.
"""

import argparse
import collections
import json
import os
import socket
import subprocess
import sys
import time

import numpy
import torch

import contenders
import harness
import media_sets

RANKS = 2
FRAMES, SIDE, DTYPE = 16, 224, "float32"
BATCH = 4
PASSES = 4  # over the clips, in one epoch
EPOCHS = 2
PREFETCH = 4  # batches ahead, for each worker of a rank
WARM_STEPS = 4  # of each round, not measured: workers start, files are read first
WINDOW_SHARE = 0.6
SEED = 5
SIDES = ["stoker", "stock"]


def per_rank_workers():
    return max(1, len(os.sched_getaffinity(0)) // RANKS)


# --------------------------------------------------------------------------------------------------------------- a rank

class TimedOrder(torch.utils.data.DistributedSampler):
    """DistributedSampler that notes when each batch was asked for: the stock loader draws a batch to request it."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.asked = collections.deque()

    def __iter__(self):
        self.asked.clear()
        for position, index in enumerate(super().__iter__()):
            if position % BATCH == 0:
                self.asked.append(time.monotonic())
            yield index


def collate_timed(samples):
    """default_collate, and the time at which the batch was ready in the worker."""
    return torch.utils.data.default_collate(samples), time.monotonic()


def open_stock(paths):
    dataset = contenders.PyavVideos(paths, FRAMES, SIDE, DTYPE, "seek")
    sampler = TimedOrder(dataset, RANKS, int(os.environ["RANK"]), shuffle=True, seed=SEED)
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, sampler=sampler, num_workers=per_rank_workers(),
                                         prefetch_factor=PREFETCH, persistent_workers=True, collate_fn=collate_timed,
                                         worker_init_fn=contenders.one_thread)
    return loader, sampler


def open_stoker(paths):
    from stoker.media import VideoDataset
    from stoker.torch import DistributedDataLoader
    dataset = VideoDataset(paths, frames=FRAMES, size=SIDE, dtype=DTYPE, mean=contenders.MEAN, std=contenders.STD)
    sampler = torch.utils.data.DistributedSampler(dataset, RANKS, int(os.environ["RANK"]), shuffle=True, seed=SEED)
    loader = DistributedDataLoader(dataset, batch_size=BATCH, sampler=sampler, num_workers=per_rank_workers(),
                                   prefetch_factor=PREFETCH, persistent_workers=True)
    return loader, sampler


def small_signature(batch):
    """A few thousand pixels of each sample, averaged over a 7 x 7 grid: enough to tell the clips apart, cheap."""
    scale, shift = contenders.coefficients(DTYPE)
    pixels = (batch[:, ::5, :, ::8, ::8] - shift.view(1, 1, 3, 1, 1)) / scale.view(1, 1, 3, 1, 1)
    return pixels.unflatten(4, (7, -1)).unflatten(3, (7, -1)).mean(dim=(4, 6)).flatten(1)


def rank_main(side, paths, window_s):
    """One rank of one round; the report goes to stdout as JSON, preceded by a line `start` and one `stop`."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    loader, sampler = (open_stoker if side == "stoker" else open_stock)(paths)
    gradient = torch.zeros(256 * 1024)
    waits, ready, signatures = [], [], []
    step = 0
    samples = 0
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        iterator = iter(loader)
        while True:
            if step == WARM_STEPS:
                torch.distributed.barrier()
                replies.write("start\n")
                replies.flush()
                begin = time.monotonic()
                samples = 0
            asked = time.monotonic()
            try:
                item = next(iterator)
            except StopIteration:
                break
            wait = time.monotonic() - asked
            if side == "stoker":
                batch, latency = item, loader.stats()["ready_s"]
            else:
                batch, done = item
                latency = done - sampler.asked.popleft()
            contenders.touch(batch)
            signatures.append(small_signature(batch))
            samples += len(batch)
            if step >= WARM_STEPS:
                waits.append(wait)
                ready.append(latency)
            del item, batch
            time.sleep(window_s)
            torch.distributed.all_reduce(gradient)
            step += 1
    torch.distributed.barrier()
    seconds = time.monotonic() - begin
    replies.write("stop\n")
    replies.flush()
    sys.stdin.readline()  # stay alive until the parent has read the clocks
    planned = [index for epoch in range(EPOCHS) for index in plan(len(paths), epoch, int(os.environ["RANK"]))]
    replies.write(json.dumps(dict(seconds=seconds, samples=samples, waits=waits, ready=ready, planned=planned,
                                  signatures=torch.cat(signatures).tolist())) + "\n")
    replies.flush()
    del loader
    torch.distributed.destroy_process_group()


def plan(count, epoch, rank):
    sampler = torch.utils.data.DistributedSampler(range(count), RANKS, rank, shuffle=True, seed=SEED)
    sampler.set_epoch(epoch)
    return list(sampler)


# ------------------------------------------------------------------------------------------------------------- a round

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_round(side, paths, window_s, number):
    """Start the ranks as a launcher would, wait for their reports, and take CPU time and memory of all processes."""
    group = f"{os.getpid()}-demo-{side}-{number}"
    environment = dict(os.environ, WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(free_port()), TORCHELASTIC_RUN_ID=group, TORCHELASTIC_RESTART_COUNT="0",
                       **{harness.MARKER: group})
    ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank", side], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
             for rank in range(RANKS)]
    meter = harness.Meter(group)
    try:
        for process in ranks:
            process.stdin.write(json.dumps([paths, window_s]) + "\n")
            process.stdin.flush()
        for process in ranks:
            expect(process, side, "start")
        meter.start()
        for process in ranks:
            expect(process, side, "stop")
        cpu, peak = meter.stop()
        reports = []
        for process in ranks:
            process.stdin.write("\n")
            process.stdin.flush()
            reports.append(json.loads(process.stdout.readline()))
        for process in ranks:
            if process.wait(60) != 0:
                raise SystemExit(f"demo: a {side} rank ended with {process.returncode}")
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()
    return reports, cpu, peak


def expect(process, side, word):
    line = process.stdout.readline().strip()
    if line != word:
        raise SystemExit(f"demo: a {side} rank ended with {process.wait()} before '{word}'")


def reference_signatures(clips):
    """Signature of every clip by PyAV, decoded once in this process, and the CPU seconds of one sample."""
    begin = time.process_time()
    dataset = contenders.PyavVideos([clip["path"] for clip in clips], FRAMES, SIDE, DTYPE, "sequential")
    signatures = torch.cat([small_signature(dataset[index].unsqueeze(0)) for index in range(len(dataset))]).numpy()
    return signatures, (time.process_time() - begin) / len(clips)


def count_faults(report, references):
    """Samples missing and repeated against the plan, and samples out of place, by what the pictures show."""
    seen = []
    for signature in numpy.array(report["signatures"]):
        distance = numpy.abs(references - signature).mean(axis=1)
        best = int(distance.argmin())
        seen.append(best if distance[best] < 4.0 else -1)
    planned = [index % len(references) for index in report["planned"]]
    wanted, got = collections.Counter(planned), collections.Counter(seen)
    missing = sum((wanted - got).values())
    repeated = sum(count for index, count in (got - wanted).items() if index >= 0)
    misplaced = sum(1 for a, b in zip(planned, seen) if a != b)
    return missing, repeated, misplaced


def summarise(rounds, references, deadline_s):
    waits = [wait for reports, _, _ in rounds for report in reports for wait in report["waits"]]
    ready = [value for reports, _, _ in rounds for report in reports for value in report["ready"]]
    rates = [sum(report["samples"] for report in reports) / max(report["seconds"] for report in reports)
             for reports, _, _ in rounds]
    cpus = [cpu / sum(report["samples"] for report in reports) for reports, cpu, _ in rounds]
    faults = numpy.array([count_faults(report, references) for reports, _, _ in rounds for report in reports]).sum(axis=0)
    return dict(samples_per_second=float(numpy.median(rates)), input_wait_p50_s=harness.percentile(waits, 0.50),
                input_wait_p95_s=harness.percentile(waits, 0.95), batch_ready_p95_s=harness.percentile(ready, 0.95),
                deadline_miss_rate=sum(wait > deadline_s for wait in waits) / max(1, len(waits)),
                samples_missing=int(faults[0]), samples_repeated=int(faults[1]), samples_misplaced=int(faults[2]),
                cpu_seconds_per_sample=float(numpy.median(cpus)), peak_memory_bytes=int(max(peak for _, _, peak in rounds)),
                steps=len(waits), rates=rates)


ROWS = [("samples/s", "samples_per_second", "{:.1f}"), ("input wait p50", "input_wait_p50_s", "{:.3f} s"),
        ("input wait p95", "input_wait_p95_s", "{:.3f} s"), ("batch-ready p95", "batch_ready_p95_s", "{:.3f} s"),
        ("deadline-miss rate", "deadline_miss_rate", "{:.1%}"), ("CPU per sample", "cpu_seconds_per_sample", "{:.3f} s"),
        ("peak memory", "peak_memory_bytes", "{:.0f} MiB"), ("samples missing", "samples_missing", "{}"),
        ("samples repeated", "samples_repeated", "{}"), ("samples out of place", "samples_misplaced", "{}")]


def main():
    parser = argparse.ArgumentParser(prog="dev demo", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.add_argument("--rounds", type=int, default=3, help="of each side, in turns")
    parser.add_argument("--rank", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return rank_main(arguments.rank, *json.loads(sys.stdin.readline()))
    torch.set_num_threads(1)
    clips = media_sets.demo_set()
    paths = [clip["path"] for clip in clips] * PASSES
    references, sample_s = reference_signatures(clips)
    window_s = round(WINDOW_SHARE * sample_s * BATCH * RANKS / len(os.sched_getaffinity(0)), 3)
    deadline_s = max(0.010, 0.02 * window_s)  # the same for both
    harness.log(f"demo: {len(clips)} clips decoded for reference; window {window_s * 1e3:.0f} ms")
    rounds = {side: [] for side in SIDES}
    for number in range(arguments.rounds):
        for side in (SIDES if number % 2 == 0 else SIDES[::-1]):
            rounds[side].append(run_round(side, paths, window_s, number))
            reports = rounds[side][-1][0]
            rate = sum(report["samples"] for report in reports) / max(report["seconds"] for report in reports)
            harness.log(f"demo: round {number + 1}/{arguments.rounds} {side}: {rate:.1f} samples/s")
    results = {side: summarise(rounds[side], references, deadline_s) for side in SIDES}
    speedup = float(numpy.median([a / b for a, b in zip(results["stoker"].pop("rates"), results["stock"].pop("rates"))]))
    setting = dict(ranks=RANKS, workers_total=RANKS * per_rank_workers(), clips=len(clips), real_clips=2,
                   samples_per_epoch=len(paths), epochs=EPOCHS, batch_size=BATCH, frames=FRAMES, side=SIDE, dtype=DTYPE,
                   window_s=window_s, data_deadline_s=deadline_s, rounds=arguments.rounds)
    if arguments.json:
        print(json.dumps(dict(schema="stoker.demo/1", machine=harness.machine(), setting=setting, speedup=speedup, **results)))
        return 0
    print(f"{len(clips)} clips ({setting['real_clips']} of a camera), {FRAMES} frames @ {SIDE}, {DTYPE}; {RANKS} ranks, "
          f"batch {BATCH} each, {setting['workers_total']} workers in all, window {window_s * 1e3:.0f} ms; "
          f"a wait over data_deadline_s = {deadline_s * 1e3:.0f} ms is a miss\n")
    rows = []
    for label, key, form in ROWS:
        values = [results[side][key] / (2**20 if key == "peak_memory_bytes" else 1) for side in SIDES]
        if isinstance(results["stoker"][key], int) and key != "peak_memory_bytes":
            values = [int(value) for value in values]
        rows.append([label, *(form.format(value) for value in values)])
    print("\n".join(harness.table(["", "stoker", "DataLoader + PyAV"], rows)))
    print(f"\nstoker delivers {speedup:.2f} times the samples/s (median of {arguments.rounds} paired rounds)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
