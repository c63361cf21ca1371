# SPDX-License-Identifier: Apache-2.0
"""./dev bench images: image files into batches, stoker against DataLoader + Pillow.

Sets: `web` (400 JPEGs of the sizes of web collections, 333 to 640 pixels a side) and `photo` (80 of 1280 to 2560 pixels). Each
comparison is a pair: `exact` against Pillow as it is, `fast` against Pillow with draft(), which decodes reduced as well (without
a mark: of large files both spend nearly all their time in the same decoder of entropy codes). Each
contender lives in a process of its own with two workers in the same CPU set; they take turns, an epoch each, in an order
that rotates. The settings of a baseline are the best of its grid. Checked first: the same pictures, within a level for exact
pairs.

Run with a JSON object as its argument, this file is one contender, driven over pipes.
"""

import argparse
import fcntl
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy
import torch

import contenders
import harness
import media_sets

SIDE = 224
MARKS = {"stoker": 1.5}  # of the lower end of the interval, against Pillow as people use it
BATCH = 32
PAIRS = {"stoker": "pillow", "stoker_fast": "pillow_draft"}
NAMES = [name for pair in PAIRS.items() for name in pair]
# box: scale only what the crop keeps, instead of cropping what was scaled.
GRID = [dict(box=box, prefetch_factor=depth) for box in (False, True) for depth in (2, 4)]
LEVELS_APART_MAX = {"stoker": 0.1, "stoker_fast": 3.0}  # box and reduced decoding move edges a little
VERSION = 1
SETS = {
    "web": dict(count=400, sizes=[(500, 375), (375, 500), (500, 333), (333, 500), (640, 480), (640, 427), (480, 640)]),
    "photo": dict(count=80, sizes=[(1280, 853), (853, 1280), (1920, 1280), (2048, 1536), (1536, 2048), (2560, 1706)]),
}


# --------------------------------------------------------------------------------------------------------------- pictures

def make_set(name):
    """Paths of a set, made once: frames of real footage in pieces and sizes drawn from a seed, as JPEG of quality 75 to 95."""
    from PIL import Image
    folder = media_sets.CACHE / f"images-{name}-{VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            harness.log(f"images: making the set {name}")
            folder.mkdir(exist_ok=True)
            raw = subprocess.run(["ffmpeg", "-v", "error", "-i", media_sets.real_clips()["cockatoo"], "-vf", "fps=4",
                                  "-pix_fmt", "rgb24", "-f", "rawvideo", "-"], stdout=subprocess.PIPE, check=True).stdout
            frames = numpy.frombuffer(raw, numpy.uint8).reshape(-1, 720, 1280, 3)
            rng = random.Random(media_sets.SEED)
            for i in range(SETS[name]["count"]):
                picture = frames[int(rng.random() * len(frames))]
                (width, height), quality = media_sets.pick(rng, SETS[name]["sizes"]), 75 + int(rng.random() * 21)
                share = 0.5 + rng.random() * 0.5  # of the footage's height that is shown
                high = int(720 * share)
                wide = min(1280, high * width // height)
                x, y = int(rng.random() * (1280 - wide + 1)), int(rng.random() * (720 - high + 1))
                image = Image.fromarray(picture[y:y + high, x:x + wide]).resize((width, height), Image.Resampling.BICUBIC)
                noise = numpy.random.default_rng(i).normal(0, 4, (height, width, 1))  # a sensor's, at its own resolution
                image = Image.fromarray(numpy.clip(numpy.asarray(image) + noise, 0, 255).astype(numpy.uint8))
                file = io.BytesIO()
                image.save(file, "JPEG", quality=quality)
                (folder / f"{i:04d}.jpg").write_bytes(file.getvalue())
            (folder / "done").touch()
    return sorted(str(path) for path in folder.glob("*.jpg"))


# ------------------------------------------------------------------------------------------------------------- contenders

class PillowImages(torch.utils.data.Dataset):
    """Decode, scale and crop with Pillow, then one affine step in torch."""

    def __init__(self, paths, dtype, draft, box):
        self.paths, self.dtype, self.draft, self.box = paths, getattr(torch, dtype), draft, box
        self.affine = contenders.coefficients(dtype)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from PIL import Image
        image = Image.open(self.paths[index])
        if self.draft:
            # Half as large again as what is wanted, as stoker's own rule is: draft() never goes below what it is told.
            width, height = contenders.scaled_size(*image.size, SIDE)
            image.draft("RGB", (width * 3 // 2, height * 3 // 2))
        image = image.convert("RGB")
        width, height = contenders.scaled_size(*image.size, SIDE)
        left, top = round((width - SIDE) / 2), round((height - SIDE) / 2)
        if self.box:
            x, y = image.width / width, image.height / height
            image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR,
                                 (left * x, top * y, (left + SIDE) * x, (top + SIDE) * y))
        else:
            image = image.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + SIDE, top + SIDE))
        pixels = torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1)
        if self.affine is None:
            return pixels.contiguous()
        scale, shift = self.affine
        return pixels.to(self.dtype, memory_format=torch.contiguous_format).mul_(scale.view(3, 1, 1)).add_(shift.view(3, 1, 1))


def make_loader(name, setting, paths, dtype, order):
    order = contenders.Order(order)
    if name.startswith("stoker"):
        from stoker.media import ImageDataset
        from stoker.torch import DistributedDataLoader
        normal = {} if dtype == "uint8" else dict(mean=contenders.MEAN, std=contenders.STD)
        dataset = ImageDataset(paths, SIDE, dtype=dtype, mode="fast" if name == "stoker_fast" else "exact", **normal)
        return DistributedDataLoader(dataset, batch_size=BATCH, sampler=order, num_workers=contenders.WORKERS,
                                     persistent_workers=True, prefetch_factor=4)
    dataset = PillowImages(paths, dtype, name == "pillow_draft", setting["box"])
    return torch.utils.data.DataLoader(dataset, batch_size=BATCH, sampler=order, num_workers=contenders.WORKERS,
                                       prefetch_factor=setting["prefetch_factor"], persistent_workers=True,
                                       worker_init_fn=contenders.one_thread)


def contender(form):
    torch.set_num_threads(1)
    loader = make_loader(**form)

    def first():
        path = os.path.join(os.environ["STOKER_BENCH_SCRATCH"], f"{form['name']}.npy")
        numpy.save(path, torch.cat(list(loader)).numpy())
        return dict(path=path)

    def epoch():
        start, samples = time.perf_counter(), 0
        for batch in loader:
            contenders.touch(batch)
            samples += len(batch)
            del batch  # the consumer holds one batch at a time, whatever the loader
        return dict(seconds=time.perf_counter() - start, samples=samples)

    harness.serve(dict(first=first, epoch=epoch))


# ------------------------------------------------------------------------------------------------------------------ cells

def start(name, setting, scratch, **form):
    return harness.Contender(name, __file__, dict(form, name=name, setting=setting), STOKER_BENCH_SCRATCH=scratch)


def measure(running):
    result, cpu, peak = running.measure("epoch")
    return dict(rate=result["samples"] / result["seconds"], cpu=cpu / result["samples"], peak=peak)


def tune(name, scratch, form):
    """The best setting of a baseline: two epochs each after a warm one, on another order of samples."""
    best, best_rate = None, 0.0
    for setting in GRID:
        running = start(name, setting, scratch, **form)
        try:
            running.ask("epoch")
            rate = sum(epoch["samples"] / epoch["seconds"] for epoch in (running.ask("epoch"), running.ask("epoch"))) / 2
        finally:
            running.close()
        harness.log(f"  {name} {setting}: {rate:.1f} images/s")
        if rate > best_rate:
            best, best_rate = setting, rate
    return best


def check_equal(running, dtype):
    """Mean difference of each pair, in levels; a pair that is too far apart ends the benchmark."""
    apart = {}
    for ours, theirs in PAIRS.items():
        a, b = (numpy.load(running[name].ask("first")["path"]) for name in (ours, theirs))
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise SystemExit(f"images: {ours} gave {a.shape} {a.dtype}, {theirs} {b.shape} {b.dtype}")
        scale = 1.0 if dtype == "uint8" else 255 * sum(contenders.STD) / 3
        apart[ours] = float(numpy.abs(a.astype(numpy.float32) - b).mean() * scale)
        if apart[ours] > LEVELS_APART_MAX[ours]:
            raise SystemExit(f"images: {ours} and {theirs} are {apart[ours]:.2f} levels apart")
    return apart


def run_cell(name, dtype, pairs, scratch):
    paths = make_set(name)
    ids = list(range(len(paths)))
    orders = [random.Random(seed).sample(ids, len(ids)) for seed in (11, 12)]
    harness.log(f"cell {name} {dtype}: choosing settings")
    form = dict(paths=paths, dtype=dtype)
    settings = {each: {} if each.startswith("stoker") else tune(each, scratch, dict(form, order=orders[0])) for each in NAMES}
    running, rounds = {}, []
    try:
        for each in NAMES:
            running[each] = start(each, settings[each], scratch, **form, order=orders[1])
        apart = check_equal(running, dtype)
        harness.log(f"cell {name} {dtype}: {pairs} rounds of {len(ids)} images; levels apart: {apart}")
        for turn in range(pairs):
            names = NAMES[turn % len(NAMES):] + NAMES[:turn % len(NAMES)]
            rounds.append({each: measure(running[each]) for each in names})
            harness.log(f"  {turn + 1}/{pairs}: " + ", ".join(f"{each} {rounds[-1][each]['rate']:.0f}" for each in NAMES))
    finally:
        for each in running.values():
            each.close()
    cell = dict(set=name, dtype=dtype, pairs=pairs, settings=settings, levels_apart=apart, marks=MARKS)
    cell["contenders"] = {each: {key: harness.median_interval([turn[each][key] for turn in rounds])[0]
                                 for key in ("rate", "cpu", "peak")} for each in NAMES}
    cell["ratios"] = {ours: harness.median_interval([turn[ours]["rate"] / turn[theirs]["rate"] for turn in rounds])
                      for ours, theirs in PAIRS.items()}
    cell["passed"] = all(cell["ratios"][ours][1] >= mark for ours, mark in MARKS.items())
    return cell


def report(cells):
    rows = []
    for cell in cells:
        for name in NAMES:
            value, ratio, mark = cell["contenders"][name], "", ""
            if name in PAIRS:
                middle, low, high = cell["ratios"][name]
                ratio = f"{middle:.2f}x ({low:.2f}-{high:.2f}) {PAIRS[name]}"
                if name in MARKS:
                    mark = f">= {MARKS[name]}: {'pass' if low >= MARKS[name] else 'FAIL'}"
            rows.append([f"{cell['set']} {cell['dtype']}", name, f"{value['rate']:.0f}", f"{value['cpu'] * 1e3:.2f}",
                         f"{value['peak'] / 2**20:.0f}", ratio, mark])
    return harness.table(["cell", "loader", "images/s", "CPU ms/image", "peak MiB", "against (95 %)", "mark"], rows)


def record(cell, note):
    rows = [(f"{ours}/{PAIRS[ours]}", *span, cell["pairs"], "ratio of images/s") for ours, span in cell["ratios"].items()]
    for name, value in cell["contenders"].items():
        rows += [(f"{name} {key}", value[field], value[field], value[field], cell["pairs"], unit) for key, field, unit in
                 (("images_per_second", "rate", "1/s"), ("cpu_seconds_per_image", "cpu", "s"), ("peak_memory_bytes", "peak", "B"))]
    harness.record("images", f"{cell['set']} {cell['dtype']}", rows, note)


def main():
    parser = argparse.ArgumentParser(prog="dev bench images", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--set", default="web,photo", help="of web, photo")
    parser.add_argument("--dtype", default="float32,uint8")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.add_argument("--no-record", action="store_true", help="leave results.csv and RESULTS.md as they are")
    arguments = parser.parse_args()
    from importlib import metadata
    note = f"{harness.load_note()}; {harness.versions()}, pillow {metadata.version('pillow')}"
    cells = []
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as scratch:
        for name in arguments.set.split(","):
            for dtype in arguments.dtype.split(","):
                cell = run_cell(name, dtype, arguments.pairs, scratch)
                cells.append(cell)
                harness.log("\n".join(report([cell])))
                if not arguments.no_record:
                    record(cell, note)
    lines = report(cells)
    if not arguments.no_record and len(cells) == 4:
        harness.publish("images", [f"`./dev bench images --pairs {arguments.pairs}` on {harness.machine()}; {note}.", "", *lines])
    if arguments.json:
        print(json.dumps(dict(schema="stoker.bench.images/1", machine=harness.machine(), note=note, cells=cells)))
    else:
        print(f"{contenders.WORKERS} workers each, one CPU set of {len(os.sched_getaffinity(0))}; {note}")
        print("\n".join(lines))
    return 0 if all(cell["passed"] for cell in cells) else 1


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        contender(json.loads(sys.argv[1]))
    else:
        sys.exit(main())
