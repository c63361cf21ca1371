# SPDX-License-Identifier: Apache-2.0
"""`stoker preprocess`: JSON lines to the token files of Megatron-LM, in parallel, resumable, in bounded memory.

This process plans chunks, hands them to workers, keeps the journal, and merges the parts in their order as they become
complete. The output depends on the input and the arguments, not on workers or interruptions.
"""

from __future__ import annotations

import collections
import multiprocessing
import multiprocessing.connection
import os
import sys
import time

from . import partitions, sentences, text_input, text_tokenizers, text_worker, worker_counts
from .command import DATA, DONE, MACHINE, Parser, Refusal, print_json, run
from .journal import Journal

WARNINGS_MAX = 10  # lines about skipped lines, then their number only


def parser() -> Parser:
    made = Parser("preprocess")
    made.add_argument("--input", nargs="+", required=True)
    made.add_argument("--json-keys", nargs="+", default=["text"])
    made.add_argument("--output-prefix", required=True)
    made.add_argument("--workers", type=int)
    made.add_argument("--append-eod", action="store_true")
    made.add_argument("--split-sentences", action="store_true")
    made.add_argument("--sentence-splitter", choices=sentences.SPLITTERS, default="nltk")
    made.add_argument("--keep-newlines", action="store_true")
    made.add_argument("--lang", default="english")
    made.add_argument("--partitions", type=int, default=1)
    made.add_argument("--keep-sequential-samples", action="store_true")
    worker_counts.add_arguments(made)
    text_tokenizers.add_arguments(made)
    made.add_argument("--on-error", choices=["raise", "skip"], default="raise")
    made.add_argument("--restart", action="store_true")
    made.add_argument("--chunk-bytes", type=int)
    made.add_argument("--cache-bytes", type=int, default=0)
    made.add_argument("--log-interval", type=int, default=1000)
    made.add_argument("--progress", action="store_true", default=None)
    made.add_argument("--no-progress", action="store_false", dest="progress")
    made.add_argument("--json", action="store_true")
    return made


def check(arguments) -> None:
    for name, low in (("workers", 1), ("partitions", 1), ("log_interval", 1), ("chunk_bytes", 1), ("cache_bytes", 0),
                      ("max_documents", 1)):
        value = getattr(arguments, name)
        if value is not None and value < low:
            raise Refusal(f"--{name.replace('_', '-')} {value} is below {low}")
    if arguments.workers is None:
        arguments.workers = len(os.sched_getaffinity(0))
    twice = [key for key, count in collections.Counter(arguments.json_keys).items() if count > 1]
    if twice:
        raise Refusal(f"--json-keys has '{twice[0]}' twice")
    bad = [key for key in arguments.json_keys if "/" in key or "\0" in key or key == ""]
    if bad:
        raise Refusal(f"--json-keys '{bad[0]}' cannot be part of a file name")
    folder = os.path.dirname(os.path.abspath(arguments.output_prefix))
    if not os.path.isdir(folder):
        raise Refusal(f"--output-prefix: there is no folder '{folder}'", MACHINE)
    if os.path.basename(arguments.output_prefix) == "":
        raise Refusal(f"--output-prefix '{arguments.output_prefix}' has no name after its folder")


# ----------------------------------------------------------------------------------------------------------- progress

class Progress:
    """The reference's lines on stderr, every --log-interval documents, at most one a second."""

    def __init__(self, interval: int, shown: bool | None) -> None:
        self.interval, self.shown = interval, sys.stderr.isatty() if shown is None else shown
        self.begin = self.last = time.monotonic()
        self.running: dict[int, tuple[int, int]] = {}  # of chunks at work, by worker
        self.documents = self.bytes = self.printed = 0

    def report(self, worker: int, documents: int, size: int) -> None:
        self.running[worker] = documents, size
        self._print()

    def part(self, worker: int, documents: int, size: int) -> None:
        self.running.pop(worker, None)
        self.documents += documents
        self.bytes += size
        self._print()

    def _print(self) -> None:
        now = time.monotonic()
        if not self.shown or now - self.last < 1:
            return
        documents = self.documents + sum(value for value, _ in self.running.values())
        if documents // self.interval <= self.printed // self.interval:
            return
        self.last, self.printed = now, documents
        size, seconds = self.bytes + sum(value for _, value in self.running.values()), now - self.begin
        print(f"Processed {documents} documents ({documents / seconds} docs/s, {size / seconds / 2**20} MB/s).",
              file=sys.stderr, flush=True)


# -------------------------------------------------------------------------------------------------------------- output

class Output:
    """The token files of a run of sources, one pair a key; parts are appended in order as soon as they are there."""

    def __init__(self, prefixes: list[str], first: int, end: int, code: int) -> None:
        self.prefixes, self.end, self.code = prefixes, end, code
        self.next = (first, 0)
        self.builders = None
        self.facts = [collections.Counter() for _ in prefixes]

    def advance(self, journal: Journal) -> None:
        """Append what is complete up to the first gap."""
        from .._core import IndexedBuilder
        if self.builders is None:
            self.builders = [IndexedBuilder(prefix + ".bin", dtype_code=self.code) for prefix in self.prefixes]
        source, number = self.next
        while source < self.end:
            if source in journal.ends and number >= journal.ends[source]:
                source, number = source + 1, 0
                continue
            if (source, number) not in journal.parts:
                break
            record = journal.parts[source, number]
            for key, (builder, facts) in enumerate(zip(self.builders, self.facts)):
                builder.add_index(os.path.join(journal.folder, text_worker.part_name(source, number, key)))
                facts.update(documents=record["documents"], sequences=record["files"][key][4],
                             tokens=record["files"][key][5])
            number += 1
        self.next = source, number

    @property
    def is_complete(self) -> bool:
        return self.next[0] >= self.end

    def finish(self) -> None:
        for prefix, builder in zip(self.prefixes, self.builders):
            builder.finalize(prefix + ".idx")

    def close(self) -> None:
        for builder in self.builders or []:
            builder.close()


# ----------------------------------------------------------------------------------------------------------------- run

class Run:
    """One run. A call makes the token files; `measure` only finds out how long the work takes."""

    def __init__(self, arguments) -> None:
        self.arguments = arguments
        self.tokenizer = text_tokenizers.make(arguments)
        if arguments.append_eod and self.tokenizer.eod is None:
            raise Refusal("--append-eod: this tokenizer names no end-of-document token", DATA, "give --eod-id")
        if arguments.split_sentences:  # a splitter that is missing is said before anything is written
            sentences.Splitter(arguments.sentence_splitter, arguments.lang, arguments.keep_newlines)
        self.code = text_tokenizers.optimal_code(self.tokenizer.vocabulary)
        self.level = "sentence" if arguments.split_sentences else "document"
        self.sources = text_input.sources_of(arguments.input)
        if arguments.partitions > 1:
            partitions.check(self.sources, arguments)
        self.inputs = self.sources
        self.journal = Journal(arguments.output_prefix + ".stoker-preprocess")
        self.progress = Progress(arguments.log_interval, arguments.progress)
        self.workers: dict = {}  # connection: (process, number)
        self.idle: list = []
        self.readers = None
        self.outputs: list[Output] = []
        self.warned = 0

    def prefixes(self, stem: str) -> list[str]:
        return [f"{stem}_{key}_{self.level}" for key in self.arguments.json_keys]

    def identity(self) -> dict:
        arguments = self.arguments
        return dict(input=[source.facts() for source in self.inputs], keys=arguments.json_keys,
                    tokenizer=text_tokenizers.identity(arguments), chunk_bytes=self.chunk_bytes,
                    append_eod=arguments.append_eod, on_error=arguments.on_error, partitions=arguments.partitions,
                    sequential=arguments.keep_sequential_samples, split=self.split())

    def split(self) -> list | None:
        arguments = self.arguments
        return [arguments.sentence_splitter, arguments.lang, arguments.keep_newlines] if arguments.split_sentences else None

    def settings(self) -> dict:
        arguments = self.arguments
        return dict(keys=arguments.json_keys, folder=self.journal.folder, code=self.code,
                    skip=arguments.on_error == "skip", append_eod=arguments.append_eod, split=self.split(),
                    cache_bytes=arguments.cache_bytes,
                    tokenizer={name: value for name, value in vars(arguments).items()
                               if name.startswith("tokenizer_") or name in ("vocab_file", "merge_file", "vocab_size",
                                                                            "eod_id", "whole_texts")})

    def __call__(self) -> int:
        arguments = self.arguments
        begin = time.monotonic()
        self.chunk_bytes = arguments.chunk_bytes or text_input.chunk_bytes_for(self.inputs)
        streams = any(source.is_stream for source in self.inputs)
        self.journal.begin(self.identity(), arguments.restart, resumable=not streams)
        try:
            if arguments.partitions > 1:
                self.sources = partitions.prepare(self.inputs, arguments.partitions, arguments.keep_sequential_samples,
                                                  self.journal)
                self.outputs = [Output(self.prefixes(f"{arguments.output_prefix}_{index}"), index, index + 1, self.code)
                                for index in range(arguments.partitions)]
            else:
                self.outputs = [Output(self.prefixes(arguments.output_prefix), 0, len(self.sources), self.code)]
            if len(self.journal.parts):
                print(f"stoker preprocess: going on with {len(self.journal.parts)} parts of an earlier run",
                      file=sys.stderr)
            self._work()
            for source in self.inputs:
                source.check_unchanged()
            for output in self.outputs:
                output.finish()
            if arguments.partitions > 1:
                self._merge_partitions()
        finally:
            self._stop()
            for output in self.outputs:
                output.close()
            self.journal.close()
            is_complete = self.outputs and all(output.is_complete for output in self.outputs)
            if not self.journal.parts and not self.journal.dealt and not is_complete:
                self.journal.remove()  # nothing is lost
        self._summary(time.monotonic() - begin)
        self.journal.remove()
        return DONE

    def measure(self) -> tuple[int, int, float]:
        """Do the work without keeping it: (documents, bytes of input, seconds from the moment when all workers wait)."""
        self.chunk_bytes = self.arguments.chunk_bytes
        self.journal.begin(self.identity(), restart=True, resumable=False)
        try:
            self.outputs = [Output(self.prefixes(self.arguments.output_prefix), 0, len(self.sources), self.code)]
            self.outputs[0].advance(self.journal)  # makes its files, and imports what that takes, before the clock runs
            begin = self._work(together=True)
            seconds = time.monotonic() - begin
        finally:
            self._stop()
            for output in self.outputs:
                output.close()
            self.journal.close()
        return self.progress.documents, self.progress.bytes, seconds

    def _merge_partitions(self) -> None:
        from .._core import IndexedBuilder
        for key, prefix in enumerate(self.prefixes(self.arguments.output_prefix)):
            builder = IndexedBuilder(prefix + ".bin", dtype_code=self.code)
            try:
                for output in self.outputs:
                    builder.add_index(output.prefixes[key])
                builder.finalize(prefix + ".idx")
            finally:
                builder.close()

    # ------------------------------------------------------------------------------------------------------ scheduling

    def _orders(self) -> list[tuple]:
        """Chunks of plain sources that are not done, in order."""
        orders = []
        for index, source in enumerate(self.sources):
            if not source.is_plain:
                continue
            chunks = text_input.chunk_count(source, self.chunk_bytes)
            if index not in self.journal.ends:
                self.journal.end(index, chunks)
            for number in range(chunks):
                if (index, number) not in self.journal.parts:
                    begin = number * self.chunk_bytes
                    orders.append(("range", index, number, source.path, begin,
                                   min(begin + self.chunk_bytes, source.size)))
        return orders

    def _work(self, together: bool = False) -> float:
        """Gives the time at which the first order was ready to go; ``together``: not before all workers wait for one."""
        orders = self._orders()[::-1]
        streams = [(index, source) for index, source in enumerate(self.sources)
                   if not source.is_plain and not self._stream_is_done(index)]
        workers = self.arguments.workers
        self._start_workers(len(orders) + (workers if streams else 0))
        while together and len(self.idle) < len(self.workers):
            self._hear(1.0)
        begin = time.monotonic()
        self.readers = text_input.Readers(streams, self.chunk_bytes, max(1, min(4, workers)))
        while True:
            for output in self.outputs:
                output.advance(self.journal)
            while self.idle and orders:
                self._give(orders.pop())
            while self.idle and not orders:
                item = self.readers.get(wait=len(self.idle) == len(self.workers))
                if item is None:
                    break
                self._take(item)
            if not orders and self.readers.unfinished == 0 and len(self.idle) == len(self.workers):
                break
            self._hear(0.05 if self.readers.unfinished else 1.0)
        for output in self.outputs:
            output.advance(self.journal)
            if not output.is_complete:
                raise AssertionError(f"part {output.next} is missing")
        return begin

    def _stream_is_done(self, index: int) -> bool:
        return index in self.journal.ends and all(
            (index, number) in self.journal.parts for number in range(self.journal.ends[index]))

    def _take(self, item) -> None:
        if item[0] == "end":
            self.journal.end(item[1], item[2])
            return
        _, index, number, offset, text = item
        if (index, number) in self.journal.parts:
            return
        self._give(("text", index, number, offset), text)

    def _give(self, order, text: bytes | None = None) -> None:
        """An order to an idle worker, which may have ended since it was heard."""
        connection = self.idle.pop()
        try:
            connection.send(order)
            if text is not None:
                connection.send_bytes(text)
        except (BrokenPipeError, ConnectionResetError):
            raise self._loss(self.workers[connection]) from None

    def _start_workers(self, chunks: int) -> None:
        """As many as there is work for: small inputs need no more than one."""
        context = multiprocessing.get_context("spawn")
        for _ in range(min(self.arguments.workers, chunks)):
            ours, theirs = context.Pipe()
            process = context.Process(target=text_worker.main, args=(theirs, self.settings(), os.getpid()), daemon=True)
            process.start()
            theirs.close()
            self.workers[ours] = process

    @staticmethod
    def _loss(process) -> Refusal:
        process.join()
        code = process.exitcode
        return Refusal(f"a worker ended with {'signal ' + str(-code) if code < 0 else 'status ' + str(code)}"
                       + (" (out of memory?)" if code == -9 else ""), MACHINE,
                       "run the command again: it goes on where it was")

    def _hear(self, timeout: float) -> None:
        for connection in multiprocessing.connection.wait(list(self.workers), timeout if self.workers else 0):
            process = self.workers[connection]
            try:
                message = connection.recv()
            except (EOFError, ConnectionResetError):
                raise self._loss(process) from None
            kind = message[0]
            if kind == "ready":
                self.idle.append(connection)
            elif kind == "progress":
                self.progress.report(process.pid, *message[1:])
            elif kind == "part":
                _, source, number, facts = message
                self.idle.append(connection)
                self.progress.part(process.pid, facts["documents"], facts["input"])
                self._warn(source, facts)
                self.journal.part(source, number, facts)
            elif kind == "bad":
                raise Refusal(self._place(message[1], message[2]["offset"], message[2]["at"], message[2]["cause"],
                                          message[2]["key"]), DATA, "--on-error skip leaves such lines out")
            else:
                raise Refusal(message[1], message[2], message[3])

    def _place(self, source: int, offset: int, at: int, cause: str, key: int) -> str:
        found = self.sources[source]
        where = f"byte {at}"
        if not found.is_stream:
            where = f"line {text_input.line_number(found, offset)}, {where}"
        name = f" (key '{self.arguments.json_keys[key]}')" if key >= 0 else ""
        return f"{found.name}: {where}: {cause}{name}"

    def _warn(self, source: int, facts: dict) -> None:
        for offset, at, cause, key in facts["faults"]:
            if self.warned < WARNINGS_MAX:
                print(f"stoker preprocess: skipped: {self._place(source, offset, at, cause, key)}", file=sys.stderr)
            self.warned += 1

    def _stop(self) -> None:
        if self.readers:
            self.readers.stop()
        for connection, process in self.workers.items():
            try:
                connection.send(None)
            except OSError:
                pass
            connection.close()
        for process in self.workers.values():
            process.join(0.5)
            if process.is_alive():
                process.terminate()
                process.join()

    def _summary(self, seconds: float) -> None:
        arguments, records = self.arguments, self.journal.parts.values()
        skipped, lines = (sum(record[name] for record in records) for name in ("skipped", "lines"))
        rows = []
        for key, prefix in enumerate(self.prefixes(arguments.output_prefix)):
            facts = sum((output.facts[key] for output in self.outputs), collections.Counter())
            rows.append(dict(prefix=prefix, dtype=text_worker.DTYPES[self.code][0], documents=facts["documents"],
                             sequences=facts["sequences"], tokens=facts["tokens"]))
        if arguments.json:
            print_json("stoker.preprocess/1", lines=lines, skipped=skipped, seconds=round(seconds, 3), outputs=rows)
            return
        for row in rows:
            print("{prefix}: {documents} documents, {sequences} sequences, {tokens} tokens of {dtype}".format(**row))
        if skipped:
            print(f"{skipped} of {lines} lines were skipped")


def main(words: list[str]) -> int:
    arguments = parser().parse_args(words)
    check(arguments)
    if arguments.find_optimal_num_workers:
        return worker_counts.find(arguments, Run)
    return Run(arguments)()


if __name__ == "__main__":
    sys.exit(run("preprocess", main))
