# SPDX-License-Identifier: Apache-2.0
"""./dev bench predict: how well the cost of a sample is known before it is decoded.

Decodes the profile set (`./dev media profile`) in three forms (16 frames of 224, 32 of 336, 64 of 448) with one thread, teaches
a new model 200 samples drawn at random, and predicts all others. The figure is |predicted - actual| / actual of CPU time,
over 50 draws; beside it what the built-in figures give alone. Each sample is decoded once, as a run learns from it;
`--repeat 3` takes the least of three decodes, which leaves out what else runs on the machine. `--shuffle` begins at other
draws. `sigma` is the deviation of log(predicted / actual) of a normal distribution with the same median error.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import media_sets
from stoker import _core, _plane

FORMS = [(16, 224), (32, 336), (64, 448)]
TAUGHT = 200
DRAWS = 50
NORMAL_MEDIAN = 0.6745  # of |x| where x is normal with deviation 1
MARKS = dict(median=0.12, p95=0.35)
FIELDS = ("samples", "pixels_in", "bytes_in", "pixels_out", "cpu_ns", "wall_ns", "input_bytes", "output_bytes")


def measure(clips, repeat):
    rows = []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as paths:
        paths.writelines(clip["path"] + "\n" for clip in clips)
        paths.flush()
        for frames, side in FORMS:
            done = subprocess.run(
                [_plane.program(), "profile", "--frames", str(frames), "--size", f"{side}x{side}", "--samples", "4096",
                 "--repeat", str(repeat), paths.name], stdout=subprocess.PIPE, check=True, text=True)
            rows += [json.loads(line) for line in done.stdout.splitlines()]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--shuffle", type=int, default=0, metavar="SEED", help="of the first draw")
    parser.add_argument("--rows", metavar="FILE", help="read what was measured before, or write it")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.rows and os.path.exists(args.rows):
        with open(args.rows, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    else:
        rows = measure(media_sets.profile_set(), args.repeat)
        if args.rows:
            with open(args.rows, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
    packed = [_core.cost_row(row["kind"], *(row[name] for name in FIELDS)) for row in rows]
    results = []
    for draw in range(DRAWS):
        order = list(packed)
        random.Random(args.shuffle + draw).shuffle(order)
        results.append(_core.cost_judge(b"".join(order), TAUGHT))
    figures = {name: sorted(result[name] for result in results)[DRAWS // 2] for name in results[0]}
    report = dict(schema="stoker.bench.predict/1", samples=len(rows), taught=TAUGHT, draws=DRAWS, repeat=args.repeat,
                  shuffle=args.shuffle, marks=MARKS, sigma=round(figures["median"] / NORMAL_MEDIAN, 3),
                  **{name: round(value, 4) for name, value in figures.items()})
    decodes = "one decode each" if args.repeat == 1 else f"the least of {args.repeat} decodes each"
    if args.json:
        print(json.dumps(report))
    else:
        print(f"{len(rows)} samples, {decodes}, {TAUGHT} taught, {DRAWS} draws (their median)")
        print(f"error: median {figures['median']:.1%} (mark {MARKS['median']:.0%}), p95 {figures['p95']:.1%} "
              f"(mark {MARKS['p95']:.0%}), worst {figures['worst']:.0%}; sigma {report['sigma']:.2f}")
        print(f"by the built-in figures alone: median {figures['prior_median']:.1%}, p95 {figures['prior_p95']:.1%}")
    return 0 if all(figures[name] < mark for name, mark in MARKS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
