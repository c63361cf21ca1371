# SPDX-License-Identifier: Apache-2.0
"""Whole media files, mutated, through real workers.

    tests/fuzz/media_mutations.py --minutes 30 [--seed N] [--seeds FOLDER...]

Takes good files (golden media, the images of the fuzz corpus, and those of --seeds), flips, overwrites, cuts, repeats and
splices them, and asks a loader for each. What must hold: this process and the DataServer live, every file gives a
sample or one clean error of its own within the time limit, and nothing is written to stderr. A worker may crash; its
file is an error then, and is kept in --keep for the corpus.

Prints one JSON object; exit 0 if all of that held. The same --seed makes the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROUND = 128  # files of one loader
SEED_BYTES_MAX = 4 << 20
CLEAN = {"NOT_FOUND", "CORRUPT", "UNSUPPORTED", "LIMIT", "TIMEOUT"}
EXTREMES = (b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1", b"\xff" * 8)


def seeds(folders) -> tuple[list[bytes], list[bytes]]:
    """Good videos and good images."""
    videos = [path for path in sorted((HERE.parent / "golden/media").iterdir()) if path.suffix != ".json"]
    for folder in folders:
        videos += sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    images = sorted((HERE / "corpus/image").glob("valid_*"))
    return tuple([path.read_bytes() for path in paths if 0 < path.stat().st_size <= SEED_BYTES_MAX]
                 for paths in (videos, images))


def _place(chance: random.Random, size: int) -> int:
    """Where something is changed: headers and indexes stand at both ends."""
    near = min(size, 4096)
    where = chance.random()
    if where < 0.4:
        return chance.randrange(near)
    if where < 0.6:
        return size - 1 - chance.randrange(near)
    return chance.randrange(size)


def mutate(chance: random.Random, good: list[bytes]) -> bytes:
    """One file that is no longer good, most of the time."""
    data = bytearray(chance.choice(good))
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not data:
            break
        at, kind = _place(chance, len(data)), chance.randrange(8)
        if kind == 0:
            for _ in range(chance.choice((1, 4, 32))):
                data[_place(chance, len(data))] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at:at + chance.randrange(1, 64)] = chance.randbytes(chance.randrange(1, 64))
        elif kind == 2:
            value = chance.choice(EXTREMES)
            data[at:at + len(value)] = value
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            del data[at:at + chance.randrange(1, 1 << chance.randrange(1, 16))]
        elif kind == 5:
            data[at:at] = data[at:at + chance.randrange(1, 1 << chance.randrange(1, 16))]
        elif kind == 6:
            other = chance.choice(good)
            data[at:] = other[_place(chance, len(other)):]
        else:
            to, size = _place(chance, len(data)), chance.randrange(1, 256)
            data[to:to + size] = data[at:at + size]
    return bytes(data)


class Run:
    def __init__(self, options) -> None:
        self.options = options
        self.chance = random.Random(options.seed)
        self.videos, self.images = seeds(options.seeds)
        self.counts = {"files": 0, "samples": 0, "errors": 0, "crashes": 0, "overran": 0, "bad": []}
        self.statuses: dict[str, int] = {}

    def round(self, folder: pathlib.Path, count: int) -> None:
        from stoker import _plane
        from stoker.media import ImageDataset, VideoDataset
        from stoker.torch import DistributedDataLoader

        images = self.chance.random() < 0.25
        good = self.images if images else self.videos
        paths = []
        for index in range(count):
            path = folder / f"{self.counts['files'] + index}"
            path.write_bytes(mutate(self.chance, good))
            paths.append(path)
        if images:
            dataset = ImageDataset(paths, size=32, partial=self.chance.choice(("error", "accept")))
        else:
            dataset = VideoDataset(paths, frames=4, size=32, damaged_max=1.0)
        loader = DistributedDataLoader(dataset, batch_size=1, num_workers=2, timeout=300, sample_timeout_s=20,
                                       worker_max_bytes=1 << 30, stall_limit_s=120)
        iterator = iter(loader)
        for path in paths:
            self._take(iterator, path)
        pool = json.loads(_plane.client().status())["pool"]
        self.counts["crashes"], self.counts["overran"] = pool["crashed"], pool["killed_overran"]
        loader.close()
        for path in paths:
            path.unlink()

    def _take(self, iterator, path: pathlib.Path) -> None:
        import stoker
        from stoker import errors

        self.counts["files"] += 1
        try:
            next(iterator)
            self.counts["samples"] += 1
            return
        except stoker.SampleError as error:
            status, text = error.status, str(error)
        except errors.WorkerError as error:  # its decoder crashed twice
            status, text = error.status, str(error)
            self._keep(path, "crash")
        self.counts["errors"] += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        one_line = "\n" not in text and str(path) in text and text.startswith("sample ")
        if not one_line or (status not in CLEAN and status != "LOST"):
            self.counts["bad"].append(text[:300])
            self._keep(path, "unclean")
        if status == "TIMEOUT":
            self._keep(path, "slow")

    def _keep(self, path: pathlib.Path, why: str) -> None:
        if self.options.keep:
            self.options.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.options.keep / f"{why}-{self.options.seed}-{path.name}")

    def run(self) -> int:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            while self.counts["files"] < self.options.files or time.monotonic() - began < self.options.minutes * 60:
                self.round(pathlib.Path(folder), min(ROUND, self.options.files) if self.options.files else ROUND)
        self.counts["seconds"] = round(time.monotonic() - began, 1)
        print(json.dumps({"schema": "stoker.media_mutations/1", "seed": self.options.seed, **self.counts,
                          "statuses": self.statuses}))
        return 1 if self.counts["bad"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0, help="go on for so long")
    parser.add_argument("--files", type=int, default=0, help="and for at least so many files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", nargs="*", default=[], help="folders of more good files")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for files that crash a worker, or fail otherwise")
    return Run(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
