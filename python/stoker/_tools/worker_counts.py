# SPDX-License-Identifier: Apache-2.0
"""--find-optimal-num-workers of `stoker preprocess`: the same sample of the input with each number of workers.

The sample is the first lines, copied once, so that every count reads the same plain file from the page cache. The clock
runs from the moment when all workers have loaded their tokenizer until the last part is merged: a long run is made of
that. Nothing is kept.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile

from . import partitions, text_input
from .command import DATA, DONE, Refusal, print_json, writing

CHUNKS_PER_WORKER = 4  # so that the end of a short run is not one worker at work and the others waiting
CHUNK_BYTES_MIN = 64 << 10


def add_arguments(parser) -> None:
    parser.add_argument("--find-optimal-num-workers", action="store_true")
    parser.add_argument("--workers-to-check", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--max-documents", type=int, default=100000)


def counts_of(arguments) -> list[int]:
    """The counts to try, each once; as in the reference, those that cannot be shared out to the partitions are left out."""
    counts = list(dict.fromkeys(arguments.workers_to_check))
    for count in counts:
        if count < 1:
            raise Refusal(f"--workers-to-check {count} is below 1")
    fitting = [count for count in counts if count % arguments.partitions == 0]
    if not fitting:
        raise Refusal(f"--workers-to-check: none of {', '.join(map(str, counts))} is a multiple of --partitions "
                      f"{arguments.partitions}")
    if left_out := [count for count in counts if count not in fitting]:
        print(f"stoker preprocess: {', '.join(map(str, left_out))} workers are not tried: no multiple of --partitions "
              f"{arguments.partitions}", file=sys.stderr)
    return fitting


def take_sample(sources: list[text_input.Source], path: str, lines: int) -> None:
    with writing(path), open(path, "wb") as file:
        file.writelines(itertools.islice(partitions.whole_lines(sources), lines))


def find(arguments, run_class) -> int:
    """Try the counts, print a table and the best; gives the exit status."""
    counts = counts_of(arguments)
    sources = text_input.sources_of(arguments.input)
    folder = tempfile.mkdtemp(prefix=".stoker-workers-", dir=os.path.dirname(os.path.abspath(arguments.output_prefix)))
    try:
        path = os.path.join(folder, "sample")
        take_sample(sources, path, arguments.max_documents)
        size = os.path.getsize(path)
        chunk_bytes = arguments.chunk_bytes or max(CHUNK_BYTES_MIN, size // (CHUNKS_PER_WORKER * max(counts)))
        name = sources[0].name if len(sources) == 1 else f"first {arguments.max_documents} lines of the input"
        rows = [_try(arguments, run_class, count, path, name, chunk_bytes) for count in counts]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _report(arguments, rows)
    return DONE


def _try(arguments, run_class, count: int, path: str, name: str, chunk_bytes: int) -> dict:
    own = argparse.Namespace(**vars(arguments))
    own.input, own.output_prefix = [path], os.path.join(os.path.dirname(path), "out")
    own.workers, own.partitions, own.chunk_bytes, own.progress = count, 1, chunk_bytes, False
    run = run_class(own)
    run.sources[0].name = name
    started = min(count, text_input.chunk_count(run.sources[0], chunk_bytes))
    if arguments.progress or (arguments.progress is None and sys.stderr.isatty()):
        print(f"stoker preprocess: trying {count} workers", file=sys.stderr, flush=True)
    documents, size, seconds = run.measure()
    if documents == 0:
        raise Refusal("there is no document in the input to try the workers with", DATA)
    return dict(workers=count, started=started, documents=documents, bytes=size, seconds=round(seconds, 4),
                documents_per_s=round(documents / seconds, 1), mb_per_s=round(size / seconds / 2**20, 3))


def _report(arguments, rows: list[dict]) -> None:
    best = max(rows, key=lambda row: row["documents_per_s"])
    short = [row for row in rows if row["started"] < row["workers"]]
    if short:
        print(f"stoker preprocess: the sample gives work to no more than {short[0]['started']} workers; a larger "
              "--max-documents tells more", file=sys.stderr)
    if arguments.json:
        print_json("stoker.preprocess.workers/1", best=best["workers"], rows=rows)
        return
    print(f"{'workers':>7} {'documents':>10} {'seconds':>9} {'docs/s':>12} {'MB/s':>9}")
    for row in rows:
        print("{workers:>7} {documents:>10} {seconds:>9.3f} {documents_per_s:>12.1f} {mb_per_s:>9.3f}".format(**row))
    print(f"best: --workers {best['workers']}")
