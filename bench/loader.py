# SPDX-License-Identifier: Apache-2.0
"""./dev bench loader: videos into batches, stoker against DataLoader + PyAV and DataLoader + torchcodec.

One cell is a profile and an element type. Each contender lives in a process of its own, with as many workers as the others,
in the same CPU set; the contenders of a cell take turns (an idle one costs nothing), an epoch each, in an order that rotates,
so that one round is one pair for every comparison. The settings of a baseline are the best of its grid, chosen on another
order of samples than the one that is reported. Checked first: same number of samples, and the same picture in every frame.
"""

import argparse
import json
import os
import random
import sys
import tempfile

import numpy

import contenders
import harness
import media_sets

PASS_MARKS = {"S": 1.2, "M": 1.3, "L": 2.0}
BATCH = {"S": 8, "M": 4, "L": 2, "X": 2}
NAMES = ["stoker", "pyav", "torchcodec"]
TUNE_SEED, REPORT_SEED = 11, 12
LEVELS_APART_MAX = 3.0  # of 255: scalers differ in details, another frame or sample differs by far more


def start(name, setting, scratch, **form):
    return harness.Contender(name, contenders.__file__, dict(form, name=name, setting=setting), STOKER_BENCH_SCRATCH=scratch)


def measure(contender):
    result, cpu, peak = contender.measure("epoch")
    return dict(rate=result["samples"] / result["seconds"], cpu=cpu / result["samples"], peak=peak)


def order_of(count, seed):
    ids = list(range(count))
    random.Random(seed).shuffle(ids)
    return ids


def tune(name, scratch, form):
    """Best setting of a baseline's grid: two epochs each after a warm one."""
    grid = contenders.GRID[name]
    if len(grid) == 1:
        return grid[0]
    best, best_rate = None, 0.0
    for setting in grid:
        contender = start(name, setting, scratch, **form)
        try:
            contender.ask("epoch")
            rates = [epoch["samples"] / epoch["seconds"] for epoch in (contender.ask("epoch"), contender.ask("epoch"))]
            rate = sum(rates) / 2
            harness.log(f"  {name} {setting}: {rate:.1f} samples/s")
            if rate > best_rate:
                best, best_rate = setting, rate
        except RuntimeError as error:
            harness.log(f"  {name} {setting}: left out, {error}")
        finally:
            contender.close()
    if best is None:
        raise SystemExit(f"loader: no setting of {name} works")
    return best


def check_equal(running, samples):
    """Every sample of every contender shows the same pictures as stoker's; returns levels apart, mean over all."""
    signatures = {name: numpy.array(contender.ask("check")["signature"]) for name, contender in running.items()}
    reference = signatures["stoker"]
    apart = {}
    for name, values in signatures.items():
        if values.shape != reference.shape or len(values) != samples:
            raise SystemExit(f"loader: {name} gave {values.shape}, stoker {reference.shape}, {samples} samples asked")
        worst = numpy.abs(values - reference).mean(axis=(1, 2)).max()
        if worst > LEVELS_APART_MAX:
            place = int(numpy.abs(values - reference).mean(axis=(1, 2)).argmax())
            raise SystemExit(f"loader: sample at place {place} of {name} is {worst:.1f} levels from stoker's")
    pictures = {name: numpy.load(contender.ask("first")["path"]) for name, contender in running.items()}
    scale = 1.0 if pictures["stoker"].dtype == numpy.uint8 else 255 * sum(contenders.STD) / 3
    for name, values in pictures.items():
        if (values.shape, values.dtype) != (pictures["stoker"].shape, pictures["stoker"].dtype):
            raise SystemExit(f"loader: {name} gave {values.shape} {values.dtype}")
        apart[name] = float(numpy.abs(values.astype(numpy.float32) - pictures["stoker"]).mean() * scale)
    return apart


def run_cell(profile, dtype, pairs, scratch):
    clips = media_sets.profile_set((profile,))
    form = dict(paths=[clip["path"] for clip in clips], frames=clips[0]["frames"], side=clips[0]["side"], dtype=dtype,
                batch_size=BATCH[profile])
    harness.log(f"cell {profile} {dtype}: choosing settings")
    tuning = dict(form, order=order_of(len(clips), TUNE_SEED))
    settings = {name: tune(name, scratch, tuning) for name in NAMES}
    order = order_of(len(clips), REPORT_SEED)
    running = {}
    try:
        for name in NAMES:
            running[name] = start(name, settings[name], scratch, **form, order=order)
        apart = check_equal(running, len(order))
        harness.log(f"cell {profile} {dtype}: {pairs} rounds of {len(order)} samples; levels apart from stoker: "
                    + ", ".join(f"{name} {apart[name]:.2f}" for name in NAMES[1:]))
        for contender in running.values():
            contender.ask("epoch")
        rounds = []
        for turn in range(pairs):
            names = NAMES[turn % 3:] + NAMES[:turn % 3]
            rounds.append({name: measure(running[name]) for name in names})
            harness.log(f"  {turn + 1}/{pairs}: " + ", ".join(f"{name} {rounds[-1][name]['rate']:.1f}" for name in NAMES))
    finally:
        for contender in running.values():
            contender.close()
    return summarise(profile, dtype, settings, apart, rounds)


def summarise(profile, dtype, settings, apart, rounds):
    cpus = len(os.sched_getaffinity(0))
    each = {}
    for name in NAMES:
        rate = harness.median_interval([turn[name]["rate"] for turn in rounds])[0]
        each[name] = dict(samples_per_second=rate, cpu_seconds_per_sample=harness.median_interval(
            [turn[name]["cpu"] for turn in rounds])[0], peak_memory_bytes=max(turn[name]["peak"] for turn in rounds),
            setting=settings[name], levels_apart=apart[name])
    # E2: no loader can be faster than the least CPU work that any of them needs for a sample, on all CPUs.
    ideal = cpus / min(value["cpu_seconds_per_sample"] for value in each.values())
    for value in each.values():
        value["share_of_ideal"] = value["samples_per_second"] / ideal
    ratios = {name: harness.median_interval([turn["stoker"]["rate"] / turn[name]["rate"] for turn in rounds])
              for name in NAMES[1:]}
    better = min(ratios, key=lambda name: ratios[name][0])
    mark = PASS_MARKS.get(profile)
    return dict(profile=profile, dtype=dtype, pairs=len(rounds), contenders=each, ideal_samples_per_second=ideal,
                ratios={name: dict(median=value[0], low=value[1], high=value[2]) for name, value in ratios.items()},
                better=better, pass_mark=mark, passed=None if mark is None else ratios[better][1] >= mark)


def report(cells):
    header = ["cell", "loader", "samples/s", "of ideal", "CPU ms/sample", "peak MiB", "stoker against it (95 %)", "mark"]
    rows = []
    for cell in cells:
        for name in NAMES:
            value = cell["contenders"][name]
            ratio = mark = ""
            if name != "stoker":
                span = cell["ratios"][name]
                ratio = f"{span['median']:.2f}x ({span['low']:.2f}-{span['high']:.2f})"
                if name == cell["better"] and cell["pass_mark"]:
                    mark = f">= {cell['pass_mark']}: {'pass' if cell['passed'] else 'FAIL'}"
            rows.append([f"{cell['profile']} {cell['dtype']}", name, f"{value['samples_per_second']:.1f}",
                         f"{value['share_of_ideal']:.0%}", f"{value['cpu_seconds_per_sample'] * 1e3:.1f}",
                         f"{value['peak_memory_bytes'] / 2**20:.0f}", ratio, mark])
    return harness.table(header, rows)


def record(cell, note):
    """A cell's figures go to the file when it is done: a run of all cells takes long and may be stopped."""
    rows = [(f"stoker/{name}", span["median"], span["low"], span["high"], cell["pairs"], "ratio of samples/s")
            for name, span in cell["ratios"].items()]
    for name, value in cell["contenders"].items():
        rows += [(f"{name} {key}", value[key], value[key], value[key], cell["pairs"], unit) for key, unit in
                 (("samples_per_second", "1/s"), ("cpu_seconds_per_sample", "s"), ("peak_memory_bytes", "B"))]
    harness.record("loader", f"{cell['profile']} {cell['dtype']}", rows, note)


def main():
    parser = argparse.ArgumentParser(prog="dev bench loader", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--profile", default="S,M,L", help="of S, M, L, X")
    parser.add_argument("--dtype", default="float32,uint8")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.add_argument("--no-record", action="store_true", help="leave results.csv and RESULTS.md as they are")
    arguments = parser.parse_args()
    note = f"{harness.load_note()}; {harness.versions()}"
    cells = []
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        for profile in arguments.profile.split(","):
            for dtype in arguments.dtype.split(","):
                cell = run_cell(profile, dtype, arguments.pairs, scratch)
                cells.append(cell)
                harness.log("\n".join(report([cell])))
                if not arguments.no_record:
                    record(cell, note)
    lines = report(cells)
    if not arguments.no_record and len(cells) == 6:
        harness.publish("loader", [f"`./dev bench loader --pairs {arguments.pairs}` on {harness.machine()}; {note}.", "",
                                   *lines, "", "Settings chosen: " + "; ".join(
                                       f"{cell['profile']} {cell['dtype']} {name} {cell['contenders'][name]['setting']}"
                                       for cell in cells for name in NAMES[1:]) + "."])
    if arguments.json:
        print(json.dumps(dict(schema="stoker.bench.loader/1", machine=harness.machine(), note=note, cells=cells)))
    else:
        print(f"{contenders.WORKERS} workers each, one CPU set of {len(os.sched_getaffinity(0))}; {note}")
        print("\n".join(lines))
        print("Ratio: median of paired rounds with a bootstrap 95 % interval; the mark applies to its lower end, against the "
              "better baseline. Ideal: the least CPU time of any loader per sample, on all CPUs.")
    return 0 if all(cell["passed"] is not False for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
