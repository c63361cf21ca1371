# SPDX-License-Identifier: Apache-2.0
"""A worker process of `stoker preprocess`: chunks of lines in, part files of tokens out.

It reads its ranges itself and writes its parts itself; over the pipe go only orders and figures (and the text of
compressed sources). A part appears under its name when it is whole. Nothing is held but one block, the table of pieces,
and the lengths of one chunk.
"""

from __future__ import annotations

import array
import contextlib
import itertools
import json
import os
import signal
import struct
import sys
import time
import zlib

from .command import writing

REPORT_S = 0.25
CHECK_BYTES = 64 << 10  # of each chunk: encoded whole too, and compared
DTYPES = {8: ("uint16", 2), 4: ("int32", 4)}


class Part:
    """PREFIX.bin and PREFIX.idx of one chunk and key, under temporary names until ``commit``."""

    def __init__(self, prefix: str, code: int) -> None:
        self.prefix, self.code = prefix, code
        self.lengths, self.documents = array.array("i"), array.array("q", [0])
        self.crc, self.size = 0, 0
        self.file = open(self._temporary(".bin"), "wb", buffering=0)

    def _temporary(self, suffix: str) -> str:
        return f"{self.prefix}{suffix}.{os.getpid()}"

    def add(self, tokens: bytes, lengths: bytes, documents: bytes) -> None:
        before = len(self.lengths)
        self.lengths.frombytes(lengths)
        added = array.array("q", documents)
        self.documents.extend(added if before == 0 else array.array("q", [before + end for end in added]))
        self.crc = zlib.crc32(tokens, self.crc)
        self.size += len(tokens)
        rest = memoryview(tokens)
        with writing(self.file.name):
            while rest:
                rest = rest[self.file.write(rest):]

    def commit(self) -> list:
        """Gives what the journal keeps: sizes and checksums, sequences, tokens."""
        width = DTYPES[self.code][1]
        offsets = array.array("q", itertools.accumulate((width * length for length in self.lengths), initial=0))
        offsets.pop()
        index = b"".join([struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, self.code, len(self.lengths), len(self.documents)),
                          *(_little(values) for values in (self.lengths, offsets, self.documents))])
        with writing(self._temporary(".idx")), open(self._temporary(".idx"), "wb") as file:
            file.write(index)
        self.file.close()
        for suffix in (".bin", ".idx"):
            os.replace(self._temporary(suffix), self.prefix + suffix)
        return [self.size, self.crc, len(index), zlib.crc32(index), len(self.lengths), self.size // width]

    def abort(self) -> None:
        self.file.close()
        for suffix in (".bin", ".idx"):
            try:
                os.unlink(self._temporary(suffix))
            except FileNotFoundError:
                pass


def _little(values: array.array) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


class BadLine(Exception):
    """A line that cannot be used, and the policy is to stop."""

    def __init__(self, offset: int, at: int, cause: str, key: int) -> None:
        super().__init__(cause)
        self.facts = dict(offset=offset, at=at, cause=cause, key=key)


class Worker:
    def __init__(self, pipe, settings: dict) -> None:
        import argparse

        from . import text_tokenizers
        from .._core import TextEncoder
        from .sentences import Splitter
        self.pipe = pipe
        self.keys, self.folder = settings["keys"], settings["folder"]
        self.code, self.skip = settings["code"], settings["skip"]
        self.tokenizer = tokenizer = text_tokenizers.make(argparse.Namespace(**settings["tokenizer"]))
        self.asks = tokenizer.rule in (text_tokenizers.WHOLE, text_tokenizers.SPACES, text_tokenizers.WORDS)
        self.checked = tokenizer.rule in (text_tokenizers.SPACES, text_tokenizers.WORDS) or bool(tokenizer.prefix) or \
            bool(tokenizer.suffix)
        self.eod = tokenizer.eod if settings["append_eod"] else None
        self.encoder = TextEncoder(self.keys, rule=tokenizer.rule, wide=self.code == 4, id_limit=tokenizer.id_limit,
                                   eod=-1 if self.eod is None else self.eod, prefix=tokenizer.prefix,
                                   suffix=tokenizer.suffix, guard=tokenizer.guard, cache_bytes=settings["cache_bytes"])
        self.splitter = None
        if settings["split"]:
            self.splitter = Splitter(*settings["split"])
            self.reader = TextEncoder(self.keys, rule=text_tokenizers.BYTES)
        self.reported = 0.0

    # ------------------------------------------------------------------------------------------------------- one chunk

    def work(self, source: int, number: int, blocks) -> None:
        self.parts = [Part(os.path.join(self.folder, part_name(source, number, key)), self.code)
                      for key in range(len(self.keys))]
        self.figures = dict(lines=0, documents=0, skipped=0, input=0)
        self.faults = []
        try:
            first = True
            for offset, block in blocks:
                if first and self.checked:
                    cut = block.find(b"\n", min(len(block), CHECK_BYTES)) + 1 or len(block)
                    self._block(offset, block[:cut], check=True)
                    offset, block = offset + cut, block[cut:]
                first = False
                if len(block):
                    self._block(offset, block)
                self._report()
            files = [part.commit() for part in self.parts]
        except BaseException:
            for part in self.parts:
                part.abort()
            raise
        self._report(always=True)
        self.pipe.send(("part", source, number, dict(self.figures, faults=self.faults, files=files)))

    def _report(self, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self.reported > REPORT_S:
            self.reported = now
            self.pipe.send(("progress", self.figures["documents"], self.figures["input"]))

    def _bad(self, offset: int, faults: list) -> None:
        for _, begin, at, cause, key in faults:
            if not self.skip:
                raise BadLine(offset + begin, offset + at, cause, key)
            if len(self.faults) < 16:
                self.faults.append([offset + begin, offset + at, cause, key])

    def _block(self, offset: int, block: bytes, check: bool = False) -> None:
        text = self._sentences(offset, block) if self.splitter else block
        lines, documents, fault_count, faults = self.encoder.feed(text)
        if fault_count:
            self._bad(offset, faults)
        if self.asks:
            unknown = self.encoder.unknown()
            if unknown:
                self.encoder.learn(self.tokenizer.encode(unknown))
        for key, part in enumerate(self.parts):
            taken = self.encoder.take(key)
            if check:
                self._check(text, key, taken, {begin for _, begin, _, _, _ in faults}, fault_count)
            part.add(*taken)
        figures = self.figures
        figures["lines"] += block.count(b"\n") + (not block.endswith(b"\n"))
        figures["documents"] += documents
        figures["skipped"] += fault_count
        figures["input"] += len(block)

    def _sentences(self, offset: int, block: bytes) -> bytes:
        """The block with the texts of its lines as lists of sentences. Lines are read and refused as always."""
        _, documents, fault_count, faults = self.reader.feed(block)
        if fault_count:
            self._bad(offset, faults)
            self.figures["skipped"] += fault_count
        rows = [{} for _ in range(documents)]
        for index, key in enumerate(self.keys):
            data, lengths, ends = self.reader.take(index)
            data = data[::2]  # the bytes of the texts, as uint16
            lengths, at, sequence = array.array("i", lengths), 0, 0
            for row, end in zip(rows, array.array("q", ends)):
                row[key] = []
                for sequence in range(sequence, end):
                    row[key] += self.splitter.split(data[at:at + lengths[sequence]].decode())
                    at += lengths[sequence]
                sequence = end
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()

    def _check(self, block: bytes, key: int, taken, bad: set, fault_count: int) -> None:
        """The first lines of a chunk once more, each text whole, as the reference does it."""
        if fault_count > len(bad):
            return  # more bad lines than are listed: which ones count is not known here
        expected, begin = array.array("H" if self.code == 8 else "i"), 0
        for line in block.split(b"\n"):
            if line and begin not in bad:
                value = json.loads(line)[self.keys[key]]
                ids = [number for text in ([value] if isinstance(value, str) else value)
                       for number in self.tokenizer.encode_text(text)]
                if ids and self.eod is not None:
                    ids.append(self.eod)
                expected.extend(ids)
            begin += len(line) + 1
        if expected.tobytes() != taken[0]:
            raise AssertionError("this tokenizer gives other ids for pieces of a text than for the whole text; "
                                 "give --whole-texts, and please report the tokenizer")


def part_name(source: int, number: int, key: int) -> str:
    return f"{source:06d}-{number:08d}-{key}"


def text_blocks(offset: int, text: bytes, block_bytes: int):
    """Blocks of whole lines of a text that is at hand."""
    at = 0
    while at < len(text):
        cut = len(text) if len(text) - at <= block_bytes else text.rfind(b"\n", at, at + block_bytes) + 1 or \
            text.find(b"\n", at + block_bytes) + 1 or len(text)
        yield offset + at, text[at:cut]
        at = cut


def main(pipe, settings: dict, parent: int) -> None:
    """Serve orders until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the workers are what runs side by side
    from .. import errors
    from .._core import die_with_parent
    from .command import Refusal, status_of, text_of
    from .text_input import BLOCK_BYTES, range_blocks
    if not die_with_parent(parent):
        return
    try:
        worker = Worker(pipe, settings)
        pipe.send(("ready",))
        while True:
            order = pipe.recv()
            if order is None:
                return
            if order[0] == "range":
                _, source, number, path, begin, end = order
                worker.work(source, number, range_blocks(path, begin, end))
            else:
                _, source, number, offset = order
                worker.work(source, number, text_blocks(offset, pipe.recv_bytes(), BLOCK_BYTES))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has ended the run
    except BadLine as error:
        message = "bad", source, error.facts
    except Refusal as error:
        message = "failed", str(error), error.status, error.hint
    except Exception as error:
        text = text_of(error) if isinstance(error, (errors.StokerError, OSError, AssertionError)) else \
            f"{type(error).__name__}: {error}"
        message = "failed", text, status_of(error), ""
    with contextlib.suppress(OSError):
        pipe.send(message)
