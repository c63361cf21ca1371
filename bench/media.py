# SPDX-License-Identifier: Apache-2.0
"""./dev bench media: videos and images into batches, stoker against tuned PyAV, torchcodec and Pillow in DataLoader.

Cells: S, M and L of the profile set, `mixed` (the OpenVid-like set, batches of the targets S, M and L in turn) and `images` (the
cell `web` of ./dev bench images). Two workers each, the same CPU set, an epoch each in an order that rotates, so that one round
is one pair for every comparison. The settings of a baseline are the best of its grid (bench/contenders.py), chosen on another
order of samples. Checked first: the same number of samples, and the same picture in every frame.

The full form (15 pairs, 40 clips a cell) takes about 25 minutes on two free cores, `--pairs 3 --clips 15` about five; with fewer
than 15 pairs nothing is recorded. Run with a JSON object as its argument, this file is one contender, driven over pipes.
"""

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time

import numpy
import torch

import contenders
import harness
import images
import media_sets

NAMES = ["stoker", "pyav", "torchcodec"]
MARKS = {"S": {"pyav": 1.5, "torchcodec": 1.2}, "M": {"pyav": 1.6, "torchcodec": 1.2}, "L": {"pyav": 5.0, "torchcodec": 1.2}}
BATCH = {"S": 8, "M": 4, "L": 2}
BATCH_MIXED = 4
PAIRS_MIN = 15  # what a figure that is kept takes
TUNE_CLIPS = 15
TUNE_SEED, REPORT_SEED = 21, 22
LEVELS_APART_MAX = 3.0  # of 255: scalers differ in details, another frame or sample differs by far more


# ------------------------------------------------------------------------------------------------------------- contenders

def make_loaders(name, setting, dtype, parts):
    """Iterables whose batches are taken in turn. A part is clips with one target: paths, frames, side, batch_size, order."""
    if name == "stoker" and len(parts) > 1:
        # Loaders of one host share the workers. Together they hold fewer batches ahead than the deeper baseline does.
        setting = dict(setting, prefetch_factor=1)
    if name == "stoker" or len(parts) == 1:
        return [contenders.make_loader(name, setting, dtype=dtype, **part) for part in parts]
    kind = contenders.PyavVideos if name == "pyav" else contenders.TorchcodecVideos
    datasets = [kind(part["paths"], part["frames"], part["side"], dtype, setting["access"]) for part in parts]
    starts = [0, *itertools.accumulate(map(len, datasets))]
    batches = [[[start + place for place in part["order"][at:at + part["batch_size"]]]
                for at in range(0, len(part["order"]), part["batch_size"])] for part, start in zip(parts, starts)]
    turns = [batch for turn in itertools.zip_longest(*batches) for batch in turn if batch is not None]
    return [torch.utils.data.DataLoader(torch.utils.data.ConcatDataset(datasets), batch_sampler=turns,
                                        num_workers=contenders.WORKERS, prefetch_factor=setting["prefetch_factor"],
                                        persistent_workers=True, worker_init_fn=contenders.one_thread)]


def in_turn(loaders):
    running = [iter(loader) for loader in loaders]
    while running:
        for each in list(running):
            try:
                yield next(each)
            except StopIteration:
                running.remove(each)


def contender(form):
    torch.set_num_threads(1)
    loaders = make_loaders(**form)

    def check():
        return dict(signature=[each for batch in in_turn(loaders) for each in contenders.signature(batch)])

    def epoch():
        start, samples = time.perf_counter(), 0
        for batch in in_turn(loaders):
            contenders.touch(batch)
            samples += len(batch)
            del batch  # the consumer holds one batch at a time, whatever the loader
        return dict(seconds=time.perf_counter() - start, samples=samples)

    harness.serve(dict(check=check, epoch=epoch))


# ------------------------------------------------------------------------------------------------------------------ cells

def parts_of(cell, count, seed):
    """What the contenders of a cell load: clips, target, order."""
    rng = random.Random(seed)
    if cell != "mixed":
        clips = media_sets.profile_set((cell,))[:count]
        return [dict(paths=[clip["path"] for clip in clips], frames=clips[0]["frames"], side=clips[0]["side"],
                     batch_size=BATCH[cell], order=rng.sample(range(len(clips)), len(clips)))]
    clips, parts = media_sets.openvid_set()[:count], []
    for target in media_sets.OPENVID["targets"]:
        mine = [clip for clip in clips if clip["target"] == target]
        parts.append(dict(paths=[clip["path"] for clip in mine], frames=mine[0]["frames"], side=mine[0]["side"],
                          batch_size=BATCH_MIXED, order=rng.sample(range(len(mine)), len(mine))))
    return parts


def start(name, setting, dtype, parts):
    return harness.Contender(name, __file__, dict(name=name, setting=setting, dtype=dtype, parts=parts))


def measure(running):
    result, cpu, peak = running.measure("epoch")
    return dict(rate=result["samples"] / result["seconds"], cpu=cpu / result["samples"], peak=peak)


def tune(name, dtype, parts, epochs):
    """Best setting of a baseline's grid, after a warm epoch each."""
    grid, best, best_rate = contenders.GRID[name], None, 0.0
    for setting in grid if len(grid) > 1 else []:
        running = start(name, setting, dtype, parts)
        try:
            running.ask("epoch")
            rate = sum(epoch["samples"] / epoch["seconds"] for epoch in (running.ask("epoch") for _ in range(epochs))) / epochs
            harness.log(f"  {name} {setting}: {rate:.1f} samples/s")
            if rate > best_rate:
                best, best_rate = setting, rate
        except RuntimeError as error:
            harness.log(f"  {name} {setting}: left out, {error}")
        finally:
            running.close()
    if len(grid) > 1 and best is None:
        raise SystemExit(f"media: no setting of {name} works")
    return best or grid[0]


def check_equal(running, samples):
    """Every sample of every contender shows the pictures of stoker's; levels apart, mean over all samples."""
    signatures = {name: running[name].ask("check")["signature"] for name in NAMES}
    apart = {}
    for name in NAMES:
        if len(signatures[name]) != samples:
            raise SystemExit(f"media: {name} gave {len(signatures[name])} samples of {samples}")
        distances = []
        for place, (ours, theirs) in enumerate(zip(signatures["stoker"], signatures[name])):
            ours, theirs = numpy.array(ours), numpy.array(theirs)
            distance = numpy.abs(ours - theirs).mean() if ours.shape == theirs.shape else float("inf")
            if distance > LEVELS_APART_MAX:
                raise SystemExit(f"media: sample at place {place} of {name} is {distance:.1f} levels from stoker's")
            distances.append(distance)
        apart[name] = float(numpy.mean(distances))
    return apart


def run_cell(cell, dtype, pairs, clips):
    harness.log(f"cell {cell} {dtype}: choosing settings")
    settings = {name: tune(name, dtype, parts_of(cell, min(clips, TUNE_CLIPS), TUNE_SEED), 2 if pairs >= PAIRS_MIN else 1)
                for name in NAMES}
    parts = parts_of(cell, clips, REPORT_SEED)
    samples = sum(len(part["order"]) for part in parts)
    running, rounds = {}, []
    try:
        for name in NAMES:
            running[name] = start(name, settings[name], dtype, parts)
        apart = check_equal(running, samples)  # a whole epoch, which warms everything too
        harness.log(f"cell {cell} {dtype}: {pairs} rounds of {samples} samples; means of frames apart from stoker's: "
                    + ", ".join(f"{name} {apart[name]:.2f}" for name in NAMES[1:]))
        for turn in range(pairs):
            names = NAMES[turn % len(NAMES):] + NAMES[:turn % len(NAMES)]
            rounds.append({name: measure(running[name]) for name in names})
            harness.log(f"  {turn + 1}/{pairs}: " + ", ".join(f"{name} {rounds[-1][name]['rate']:.1f}" for name in NAMES))
    finally:
        for each in running.values():
            each.close()
    result = dict(cell=cell, dtype=dtype, pairs=pairs, samples=samples, settings=settings, levels_apart=apart,
                  marks=MARKS.get(cell, {}))
    result["contenders"] = {name: {key: harness.median_interval([turn[name][key] for turn in rounds])[0]
                                   for key in ("rate", "cpu", "peak")} for name in NAMES}
    # No loader can be faster than the least CPU work that any of them needs for a sample, on all CPUs.
    least = min(value["cpu"] for value in result["contenders"].values())
    result["ideal"] = len(os.sched_getaffinity(0)) / least if least > 0 else None
    result["ratios"] = {name: harness.median_interval([turn["stoker"]["rate"] / turn[name]["rate"] for turn in rounds])
                        for name in NAMES[1:]}
    result["passed"] = all(result["ratios"][name][1] >= mark for name, mark in result["marks"].items())
    return result


def run_images(dtype, pairs, scratch):
    """The cell of ./dev bench images in the form of the others, without the pair that has no mark."""
    cell = images.run_cell("web", dtype, pairs, scratch)
    names = ["stoker", "pillow"]
    return dict(cell="images", dtype=dtype, pairs=pairs, settings={name: cell["settings"][name] for name in names},
                levels_apart=cell["levels_apart"], marks={"pillow": images.MARKS["stoker"]}, ideal=None,
                contenders={name: cell["contenders"][name] for name in names}, ratios={"pillow": cell["ratios"]["stoker"]},
                passed=cell["passed"])


# ----------------------------------------------------------------------------------------------------------------- report

def report(cells):
    rows = []
    for cell in cells:
        for name, value in cell["contenders"].items():
            ratio = mark = ""
            if name != "stoker":
                middle, low, high = cell["ratios"][name]
                ratio = f"{middle:.2f}x ({low:.2f}-{high:.2f})"
                if name in cell["marks"]:
                    mark = f">= {cell['marks'][name]}: {'pass' if low >= cell['marks'][name] else 'FAIL'}"
            share = f"{value['rate'] / cell['ideal']:.0%}" if cell["ideal"] else ""
            rows.append([f"{cell['cell']} {cell['dtype']}", name, f"{value['rate']:.1f}", share, f"{value['cpu'] * 1e3:.1f}",
                         f"{value['peak'] / 2**20:.0f}", ratio, mark])
    return harness.table(["cell", "loader", "samples/s", "of ideal", "CPU ms/sample", "peak MiB", "stoker against it (95 %)",
                          "mark"], rows)


def record(cell, note):
    rows = [(f"stoker/{name}", *span, cell["pairs"], "ratio of samples/s") for name, span in cell["ratios"].items()]
    for name, value in cell["contenders"].items():
        rows += [(f"{name} {key}", value[field], value[field], value[field], cell["pairs"], unit) for key, field, unit in
                 (("samples_per_second", "rate", "1/s"), ("cpu_seconds_per_sample", "cpu", "s"),
                  ("peak_memory_bytes", "peak", "B"))]
    harness.record("media", f"{cell['cell']} {cell['dtype']}", rows, note)


def main():
    parser = argparse.ArgumentParser(prog="dev bench media", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cells", default="S,M,L,mixed,images", help="of S, M, L, mixed, images")
    parser.add_argument("--dtype", default="float32", choices=["float32", "uint8"])
    parser.add_argument("--pairs", type=int, default=PAIRS_MIN)
    parser.add_argument("--clips", type=int, default=40, help="clips of a cell, at most what its set has")
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.add_argument("--no-record", action="store_true", help="leave results.csv and RESULTS.md as they are")
    arguments = parser.parse_args()
    chosen = arguments.cells.split(",")
    if unknown := set(chosen) - {"S", "M", "L", "mixed", "images"}:
        parser.error(f"no cell {', '.join(sorted(unknown))}; there are: S, M, L, mixed, images")
    if arguments.pairs < 1 or arguments.clips < 3:
        parser.error(f"--pairs {arguments.pairs} --clips {arguments.clips}: at least 1 pair and 3 clips")
    keep = arguments.pairs >= PAIRS_MIN and not arguments.no_record
    note = f"{harness.load_note()}; {harness.versions()}"
    cells = []
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        for name in chosen:
            cells.append(run_images(arguments.dtype, arguments.pairs, scratch) if name == "images" else
                         run_cell(name, arguments.dtype, arguments.pairs, arguments.clips))
            harness.log("\n".join(report(cells[-1:])))
            if keep:
                record(cells[-1], note)
    lines = report(cells)
    if keep and len(set(chosen)) == 5:
        harness.publish("media", [f"`./dev bench media --pairs {arguments.pairs} --clips {arguments.clips}` on "
                                  f"{harness.machine()}; {note}.", "", *lines])
    if arguments.json:
        print(json.dumps(dict(schema="stoker.bench.media/1", machine=harness.machine(), note=note, cells=cells)))
    else:
        print(f"{contenders.WORKERS} workers each, one CPU set of {len(os.sched_getaffinity(0))}; {note}")
        print("\n".join(lines))
        print("Ratio: median of paired rounds with a bootstrap 95 % interval, to whose lower end a mark applies"
              + ("." if arguments.pairs >= PAIRS_MIN else f"; fewer than {PAIRS_MIN} pairs prove nothing, and are not recorded."))
    return 0 if all(cell["passed"] for cell in cells) else 1


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        contender(json.loads(sys.argv[1]))
    else:
        sys.exit(main())
