# SPDX-License-Identifier: Apache-2.0
"""./dev bench tokens: token data, stoker.megatron against megatron-core (and NumPy), the same calls on the same files.

Cells: build-30 (30 epochs of a million documents), build-many (6,153 documents, 19,673 epochs), shuffle, blend-10, -100, -1000
and -repeat, items, fetched (the same through the fetcher of PyTorch's loader), batches, prefixes (up to the first item),
prefixes-read (up to the 2,000th: most datasets were used), write and merge (neither waits for the disk), write-synced and
merge-synced (stoker does, its default). Builds of an index always wait for the disk in stoker, never in megatron-core. Each
contender lives in a process of its own; rounds alternate, and every round of both must give the same bytes. Peak memory is what
the process's own peak rose by during the round.
"""

import argparse
import os
import shutil
import sys

import numpy

import harness
import token_contender

CACHE = os.path.join(os.environ.get("STOKER_CACHE", os.path.join(os.path.dirname(harness.BENCH), ".cache")), "tokens")
NAMES = ["stoker", "megatron-core"]
# cell: task, pass mark on the lower end, form
CELLS = {
    "build-30": ("build", 5.0, dict(data="million", samples=23_400_000, sequence_length=1024)),
    "build-many": ("build", 5.0, dict(data="epochs", samples=29_500_000, sequence_length=4096)),
    "shuffle": ("shuffle", 8.0, dict(count=50_000_000)),
    "blend-10": ("blend", 1.5, dict(datasets=10, kinds=0, size=10_000_000)),
    "blend-100": ("blend", 4.0, dict(datasets=100, kinds=0, size=10_000_000)),
    "blend-1000": ("blend", 15.0, dict(datasets=1000, kinds=0, size=10_000_000)),
    "blend-repeat": ("blend", 50.0, dict(datasets=1000, kinds=5, size=10_000_000)),
    "items": ("items", 10.0, dict(data="text", samples=20_000, items=4000, sequence_length=4096)),
    "fetched": ("fetched", 10.0, dict(data="text", samples=20_000, items=4000, sequence_length=4096)),
    "batches": ("batches", 0.5, dict(data="text", samples=20_000, items=4096, batch=1024, sequence_length=4096)),
    "prefixes": ("prefixes", 10.0, dict(prefixes=1000, read=1, samples=20_000, sequence_length=256)),
    "prefixes-read": ("prefixes", None, dict(prefixes=1000, read=2000, samples=20_000, sequence_length=256)),
    "write": ("write", 3.0, dict(documents=20_000, sync=False)),  # like with like
    "write-synced": ("write", None, dict(documents=20_000, sync=True)),
    "merge": ("merge", 5.0, dict(data="text", sync=False)),
    "merge-synced": ("merge", None, dict(data="text", sync=True)),
}
PEAK_SHARE = 0.5  # of the reference's, for the builds


def write_index(prefix, lengths):
    """PREFIX.idx of documents of one uint16 sequence each, as in docs/reference/token-files.md, independent of both packages."""
    ends = numpy.concatenate([[0], numpy.cumsum(lengths, dtype=numpy.int64)])
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + numpy.uint64(1).tobytes() + numpy.uint8(8).tobytes())
        file.write(numpy.uint64(len(lengths)).tobytes() + numpy.uint64(len(lengths) + 1).tobytes())
        file.write(lengths.astype(numpy.int32).tobytes() + (ends[:-1] * 2).tobytes())
        file.write(numpy.arange(len(lengths) + 1, dtype=numpy.int64).tobytes())
    return int(ends[-1])


def corpus(name):
    """A prefix in the cache. The data files of the index builds are holes: no token of them is read."""
    os.makedirs(CACHE, exist_ok=True)
    prefix = os.path.join(CACHE, name)
    if os.path.exists(f"{prefix}.bin"):
        return prefix
    draw = numpy.random.default_rng(dict(million=1, epochs=2, text=3)[name])
    if name == "million":
        lengths = numpy.minimum(draw.geometric(1 / 799, 1_000_000), 100_000)
    elif name == "epochs":
        lengths = draw.integers(1, 2000, 6153)
    else:
        lengths = draw.integers(200, 3000, 60_000)
    tokens = write_index(prefix, lengths)
    with open(f"{prefix}.bin.part", "wb") as file:
        if name == "text":
            file.write(draw.integers(1, 49_000, tokens, dtype=numpy.uint16).tobytes())
        else:
            file.truncate(tokens * 2)
    os.rename(f"{prefix}.bin.part", f"{prefix}.bin")
    return prefix


def many(count):
    folder = os.path.join(CACHE, f"many-{count}")
    prefixes = [os.path.join(folder, f"part_{i:05d}") for i in range(count)]
    os.makedirs(folder, exist_ok=True)
    for i, prefix in enumerate(prefixes):
        if not os.path.exists(f"{prefix}.bin"):
            draw = numpy.random.default_rng(i)
            tokens = write_index(prefix, draw.integers(50, 400, 100))
            draw.integers(1, 49_000, tokens, dtype=numpy.uint16).tofile(f"{prefix}.bin")
    return prefixes


def run_cell(cell, pairs, scratch):
    task, mark, form = CELLS[cell]
    form = dict(form, task=task, scratch=scratch)
    if task in ("shuffle", "blend"):
        form.update(api=False)
    if "data" in form:
        form["prefix"] = corpus(form["data"])
    if "prefixes" in form:
        form["prefixes"] = many(form["prefixes"])
    names = NAMES[:1] if task == "batches" else NAMES
    running = {name: harness.Contender(name, token_contender.__file__, dict(form, contender=name)) for name in names}
    rounds = []
    try:
        for turn in range(pairs + 1):  # the first one warms up
            order = names if turn % 2 else names[::-1]
            result = {name: running[name].ask("round") for name in order}
            proofs = [{key: value for key, value in result[name].items() if key not in
                       ("seconds", "cpu", "peak", "batch_s", "copy_s")} for name in names]
            if any(proof != proofs[0] for proof in proofs):
                raise SystemExit(f"tokens: {cell}: {names} differ: {proofs}")
            if turn:
                rounds.append(result)
            harness.log(f"  {cell} {turn}/{pairs}: " + ", ".join(f"{name} {result[name]['seconds']:.3f} s" for name in names))
    finally:
        for contender in running.values():
            contender.close()
    return rounds


def report(cell, rounds, pairs, note):
    """Rows of the table, and true if the marks were reached."""
    task, mark, _ = CELLS[cell]
    if task == "batches":
        shares = [one["stoker"]["copy_s"] / one["stoker"]["batch_s"] for one in rounds]
        middle, low, high = harness.median_interval(shares)
        rate = sorted(one["stoker"]["bytes"] / one["stoker"]["batch_s"] for one in rounds)[len(rounds) // 2]
        harness.record("tokens", cell, [("share of memcpy", middle, low, high, pairs, "ratio"), ("rate", rate, rate, rate, pairs, "B/s")], note)
        verdict = "pass" if low >= mark else "MISSED"
        return [[cell, f"{rate / 1e9:.2f} GB/s", "", f"{middle:.0%} of memcpy ({low:.0%}-{high:.0%})", f">= {mark:.0%}: {verdict}", "", ""]]
    ratios = [one["megatron-core"]["seconds"] / one["stoker"]["seconds"] for one in rounds]
    middle, low, high = harness.median_interval(ratios)
    medians = {name: sorted(one[name]["seconds"] for one in rounds)[len(rounds) // 2] for name in NAMES}
    peaks = {name: max(one[name]["peak"] for one in rounds) for name in NAMES}
    harness.record("tokens", cell, [("ratio", middle, low, high, pairs, "ratio"),
                                    *((f"{name} seconds", medians[name], medians[name], medians[name], pairs, "s") for name in NAMES),
                                    *((f"{name} peak", peaks[name], peaks[name], peaks[name], pairs, "B") for name in NAMES)], note)
    verdict = f">= {mark:g}x: {'pass' if low >= mark else 'MISSED'}" if mark else ""
    memory = ""
    if task == "build":
        share = peaks["stoker"] / peaks["megatron-core"]
        memory = f"{share:.2f}, <= {PEAK_SHARE}: {'pass' if share <= PEAK_SHARE else 'MISSED'}"
    return [[cell, f"{medians['stoker'] * 1e3:.1f}", f"{medians['megatron-core'] * 1e3:.1f}", f"{middle:.1f}x ({low:.1f}-{high:.1f})",
             verdict, f"{peaks['stoker'] / 1048576:.0f} / {peaks['megatron-core'] / 1048576:.0f}", memory]]


def main():
    parser = argparse.ArgumentParser(prog="dev bench tokens", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cells", default=",".join(CELLS), help="comma-separated; all of them by default")
    parser.add_argument("--pairs", type=int, default=15)
    arguments = parser.parse_args()
    cells = arguments.cells.split(",")
    if not set(cells) <= set(CELLS):
        parser.error(f"cells are {', '.join(CELLS)}")
    try:
        import megatron.core
    except ImportError:
        raise SystemExit("tokens: megatron-core is not installed; ./dev build installs it") from None
    note = f"{harness.load_note()}; {harness.versions()}, megatron-core {megatron.core.__version__}"
    scratch = os.path.join(CACHE, "scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    rows = []
    for cell in cells:
        harness.log(f"cell {cell}")
        rows += report(cell, run_cell(cell, arguments.pairs, scratch), arguments.pairs, note)
    shutil.rmtree(scratch, ignore_errors=True)
    lines = harness.table(["cell", "stoker ms", "megatron-core ms", "ratio (95 %)", "mark", "peak MiB (stoker / other)", "share of peak"], rows)
    print("\n".join(lines))
    command = "`./dev bench tokens" + ("" if len(cells) == len(CELLS) else f" --cells {arguments.cells}") + f" --pairs {arguments.pairs}`"
    if len(cells) == len(CELLS):
        harness.publish("tokens", [f"{command} on {harness.machine()}; {note}. The shuffle is against NumPy.", "", *lines])
    return 0


if __name__ == "__main__":
    sys.exit(main())
