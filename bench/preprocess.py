# SPDX-License-Identifier: Apache-2.0
"""./dev bench preprocess: JSON lines to token files, `stoker preprocess` against the reference's approach.

The reference's approach: a pool of processes, lines through imap() in groups of 32, json.loads() and the tokenizers library's
encode() for each line, ids back as a list, one document after another converted by NumPy and written. The library is called
directly, not through the transformers package as the reference does, and nothing is synced: both make the baseline faster.
Both have the same file, the same tokenizer.json and the same number of workers; runs are in turns, from the start of the
program to its end; the outputs are compared byte for byte. --stages says where the time of one core goes.
"""

import argparse
import hashlib
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time

import harness
import text_sets

PASS_MARK = 2.0
NAMES = ["stoker", "pool"]
SAMPLE_S = 0.5


# ------------------------------------------------------------------------------------------------------------ reference

class Encoder:
    tokenizer = None

    def __init__(self, path, eod):
        self.path, self.eod = path, eod

    def initializer(self):
        from tokenizers import Tokenizer
        Encoder.tokenizer = Tokenizer.from_file(self.path)

    def encode(self, line):
        ids = Encoder.tokenizer.encode(json.loads(line)["text"], add_special_tokens=False).ids
        if ids:
            ids.append(self.eod)
        return ids, len(line)


def pool(source, tokenizer, prefix, workers):
    """The reference-like program."""
    import multiprocessing
    import numpy
    from tokenizers import Tokenizer
    encoder = Encoder(tokenizer, Tokenizer.from_file(tokenizer).token_to_id("<|endoftext|>"))
    lengths, documents = [], [0]
    with open(source, encoding="utf-8") as lines, open(f"{prefix}.bin", "wb") as data, \
            multiprocessing.Pool(workers, initializer=encoder.initializer) as processes:
        for ids, _ in processes.imap(encoder.encode, lines, 32):
            data.write(numpy.array(ids, dtype=numpy.uint16).tobytes(order="C"))
            if ids:
                lengths.append(len(ids))
            documents.append(len(lengths))
    sizes = numpy.array(lengths, dtype=numpy.int32)
    offsets = numpy.zeros(len(sizes), dtype=numpy.int64)
    numpy.cumsum(2 * sizes[:-1].astype(numpy.int64), out=offsets[1:])
    with open(f"{prefix}.idx", "wb") as index:
        index.write(struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, len(sizes), len(documents)))
        index.write(sizes.tobytes() + offsets.tobytes() + numpy.array(documents, dtype=numpy.int64).tobytes())


# ------------------------------------------------------------------------------------------------------------- measuring

def command(name, source, tokenizer, prefix, workers):
    if name == "pool":
        return [sys.executable, os.path.abspath(__file__), json.dumps(dict(source=str(source), tokenizer=str(tokenizer),
                                                                          prefix=prefix, workers=workers))]
    return [os.environ.get("STOKER_PROGRAM", "stoker"), "preprocess", "--input", str(source), "--output-prefix", prefix,
            "--tokenizer-model", str(tokenizer), "--append-eod", "--workers", str(workers), "--json"]


def measure(words):
    """Seconds, CPU seconds and peak bytes of a program and of all that it starts."""
    group = f"preprocess-{os.getpid()}-{time.monotonic_ns()}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.Popen(words, env={**os.environ, harness.MARKER: group}, stdout=subprocess.DEVNULL)
    peak, done = [0], threading.Event()

    def watch():
        while not done.wait(SAMPLE_S):
            peak[0] = max(peak[0], harness.memory_bytes(harness.group_pids(group)))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    status = process.wait()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    if status != 0:
        raise RuntimeError(f"{words[0]} ended with {status}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return dict(seconds=seconds, cpu=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak=peak[0])


def digest(prefix):
    made = hashlib.sha256()
    for suffix in (".bin", ".idx"):
        with open(prefix + suffix, "rb") as file:
            made.update(hashlib.file_digest(file, "sha256").digest())
    return made.hexdigest()


def stages(source, tokenizer):
    """CPU milliseconds of one core for a megabyte of lines, by step."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer
    from stoker import _core
    from stoker._tools import text_tokenizers
    data = source.read_bytes()[:20_000_000]
    data = data[:data.rfind(b"\n") + 1]
    spent = {}

    def timed(name, call):
        start = time.process_time()
        result = call()
        spent[name] = spent.get(name, 0.0) + (time.process_time() - start) * 1e3 / (len(data) / 1e6)
        return result

    texts = timed("pool: json.loads", lambda: [json.loads(line)["text"] for line in data.splitlines()])
    plain, batch = Tokenizer.from_file(str(tokenizer)), Tokenizer.from_file(str(tokenizer))
    timed("pool: encode, a text at a time", lambda: [plain.encode(text, add_special_tokens=False).ids for text in texts])
    timed("(encode_batch_fast, whole texts)",
          lambda: [found.ids for found in batch.encode_batch_fast(texts, add_special_tokens=False)])
    mine = text_tokenizers.HuggingFace(Tokenizer.from_file(str(tokenizer)), False)
    encoder = _core.TextEncoder(["text"], rule=mine.rule, guard=mine.guard)
    at = 0
    while at < len(data):
        end = data.rfind(b"\n", at, at + (1 << 20)) + 1 or len(data)
        timed("stoker: lines, cuts, table", lambda: encoder.feed(data[at:end]))
        unknown = timed("stoker: hand over", encoder.unknown)
        ids = timed("stoker: tokenizer, unknown pieces", lambda: mine.encode(unknown))
        timed("stoker: hand over", lambda: encoder.learn(ids))
        timed("stoker: tokens", lambda: encoder.take(0))
        at = end
    pieces, unknown, _ = encoder.counters()
    for name, value in spent.items():
        print(f"{value:9.2f} ms/MB  {name}")
    print(f"{pieces} pieces, {unknown} of them unknown ({unknown / pieces:.1%}) in {len(data) / 1e6:.0f} MB")


def main():
    parser = argparse.ArgumentParser(prog="dev bench preprocess", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--stages", action="store_true", help="only say where the time of one core goes")
    parser.add_argument("--json", action="store_true", help="the same as JSON on stdout")
    parser.add_argument("--no-record", action="store_true", help="leave results.csv and RESULTS.md as they are")
    arguments = parser.parse_args()
    source, tokenizer = text_sets.lines(arguments.megabytes), text_sets.tokenizer()
    if arguments.stages:
        return stages(source, tokenizer)
    from importlib import metadata
    note = f"{harness.load_note()}; " + ", ".join(f"{name} {metadata.version(name)}" for name in ("tokenizers", "numpy"))
    rounds, digests = [], set()
    with open(source, "rb") as file:  # into the page cache: the disk is not what is measured
        while file.read(1 << 24):
            pass
    with tempfile.TemporaryDirectory(dir=text_sets.CACHE) as folder:
        for turn in range(arguments.pairs):
            results = {}
            for name in NAMES if turn % 2 == 0 else NAMES[::-1]:
                prefix = os.path.join(folder, name)
                results[name] = measure(command(name, source, tokenizer, prefix if name == "stoker" else prefix + "_out",
                                                arguments.workers))
                made = prefix + ("_text_document" if name == "stoker" else "_out")
                digests.add(digest(made))
                for suffix in (".bin", ".idx"):
                    os.unlink(made + suffix)
            rounds.append(results)
            harness.log(f"  {turn + 1}/{arguments.pairs}: " + ", ".join(f"{name} {results[name]['seconds']:.1f} s" for name in NAMES))
    if len(digests) != 1:
        raise RuntimeError("the outputs differ")
    size = source.stat().st_size / 1e6
    ratio, low, high = harness.median_interval([turn["pool"]["seconds"] / turn["stoker"]["seconds"] for turn in rounds])
    cpu_ratio = harness.median_interval([turn["pool"]["cpu"] / turn["stoker"]["cpu"] for turn in rounds])[0]
    passed = low >= PASS_MARK
    rows, record = [], [("pool/stoker", ratio, low, high, arguments.pairs, "ratio of seconds"),
                        ("pool/stoker CPU", cpu_ratio, cpu_ratio, cpu_ratio, arguments.pairs, "ratio of CPU seconds")]
    for name in NAMES:
        seconds, cpu = (harness.median_interval([turn[name][key] for turn in rounds])[0] for key in ("seconds", "cpu"))
        peak = max(turn[name]["peak"] for turn in rounds)
        rows.append([name, f"{seconds:.1f}", f"{size / seconds:.1f}", f"{cpu / size * 1e3:.0f}", f"{peak / 2**20:.0f}",
                     f"{ratio:.2f}x ({low:.2f}-{high:.2f})" if name == "pool" else "",
                     f">= {PASS_MARK:.0f}: {'pass' if passed else 'FAIL'}" if name == "pool" else ""])
        record.append((f"{name} seconds", seconds, seconds, seconds, arguments.pairs, "s"))
    lines = harness.table(["program", "seconds", "MB/s", "CPU ms/MB", "peak MiB", "stoker against it (95 %)", "mark"], rows)
    cell = f"{arguments.megabytes} MB, {arguments.workers} workers"
    if not arguments.no_record:
        harness.record("preprocess", cell, record, note)
        harness.publish("preprocess", [f"`./dev bench preprocess --megabytes {arguments.megabytes} --workers {arguments.workers} "
                                       f"--pairs {arguments.pairs}` on {harness.machine()}; {note}.", "", *lines])
    if arguments.json:
        print(json.dumps(dict(schema="stoker.bench.preprocess/1", machine=harness.machine(), note=note, median=ratio, low=low,
                              high=high, pass_mark=PASS_MARK, passed=passed, cpu_ratio=cpu_ratio, rounds=rounds)))
    else:
        print("\n".join(lines))
    return 0 if passed else 1


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        form = json.loads(sys.argv[1])
        pool(form["source"], form["tokenizer"], form["prefix"], form["workers"])
    else:
        sys.exit(main())
