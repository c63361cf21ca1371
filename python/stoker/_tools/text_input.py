# SPDX-License-Identifier: Apache-2.0
"""Input of `stoker preprocess`: files of lines, plain or compressed, or standard input, cut into chunks.

Chunk n of a source holds the lines that begin in bytes n * size to (n + 1) * size - 1 of its text. So chunks depend on the
input and their size alone, not on who works on them. Chunks of a plain file are ranges that a worker reads by itself;
compressed sources and standard input are read here, in threads (decompression runs without the interpreter lock), and
their chunks are handed over.
"""

from __future__ import annotations

import contextlib
import glob
import os
import queue
import stat
import sys
import threading

from .command import DATA, USAGE, Refusal, need

STDIN = "-"
BLOCK_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 30
CHUNK_BYTES_MIN, CHUNK_BYTES_MAX = 16 << 20, 256 << 20
CHUNKS_WANTED = 4096  # more make the folder of parts slow


def _kind_of(mode: int) -> str:
    return "folder" if stat.S_ISDIR(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def is_descriptor(path: str) -> bool:
    """Whether the path is that of an open file of this process (/dev/stdin, /dev/fd/3), which is another one in a worker."""
    while os.path.islink(path):
        if os.path.realpath(os.path.dirname(path)).startswith("/proc/"):
            return True
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return False


class Source:
    """One input: its path, how it is read, and what would show that it changed between two runs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "standard input" if path == STDIN else path
        self.size = self.mtime_ns = 0
        if path == STDIN:
            self.kind = "stdin"
            if sys.stdin is None:
                raise Refusal("standard input ('-') is closed; expected lines of JSON there", DATA)
            return
        try:
            facts = os.stat(path)  # opening a pipe would take what is in it
            if stat.S_ISFIFO(facts.st_mode):
                self.kind = "pipe"
                return
            if is_descriptor(path):
                self.path = os.path.realpath(path)
            if not stat.S_ISREG(facts.st_mode):
                raise Refusal(f"cannot read '{path}': it is a {_kind_of(facts.st_mode)}; expected a file or a pipe", DATA)
            with open(self.path, "rb") as file:
                magic = file.read(4)
                opened = os.fstat(file.fileno())
        except OSError as error:
            raise Refusal(f"cannot read '{path}': {error.strerror}", DATA) from None
        if not os.path.samestat(facts, opened):
            raise Refusal(f"cannot read '{path}': it was replaced, or has no name any more", DATA)
        self.size, self.mtime_ns = opened.st_size, opened.st_mtime_ns
        self.kind = "gzip" if magic[:2] == b"\x1f\x8b" else "zstd" if magic == b"\x28\xb5\x2f\xfd" else "plain"

    @property
    def is_plain(self) -> bool:
        return self.kind == "plain"

    @property
    def is_stream(self) -> bool:
        """It can be read once, from begin to end, and nobody knows where that is."""
        return self.kind in ("stdin", "pipe")

    def facts(self) -> list:
        return [self.path if self.path == STDIN else os.path.abspath(self.path), self.size, self.mtime_ns]

    def check_unchanged(self) -> None:
        if not self.is_stream:
            facts = os.stat(self.path)
            if (facts.st_size, facts.st_mtime_ns) != (self.size, self.mtime_ns):
                raise Refusal(f"'{self.path}' was changed while it was read", DATA)

    @contextlib.contextmanager
    def open(self):
        """The text of the source as a binary file."""
        if self.kind == "stdin":
            yield sys.stdin.buffer
        elif self.kind in ("plain", "pipe"):
            with open(self.path, "rb") as file:
                yield file
        elif self.kind == "gzip":
            import gzip
            with gzip.open(self.path, "rb") as file:
                yield file
        else:
            library = need("zstandard", "zstandard", "a .zst file")
            with open(self.path, "rb") as file:
                yield library.ZstdDecompressor().stream_reader(file, read_across_frames=True)

    @contextlib.contextmanager
    def reading(self):
        """Damage within is an error that names the file."""
        try:
            yield
        except (OSError, EOFError, ValueError) as error:
            raise Refusal(f"cannot read '{self.name}': {getattr(error, 'strerror', None) or error}", DATA) from None
        except Exception as error:
            if type(error).__name__ in ("ZstdError", "error"):
                raise Refusal(f"cannot read '{self.name}': {error}", DATA) from None
            raise

    def read(self, file, size: int) -> bytes:
        """Some bytes of the text; empty at its end."""
        with self.reading():
            return file.read(size)


def sources_of(patterns: list[str]) -> list[Source]:
    """The inputs in their order; a pattern stands for what it matches, sorted."""
    paths = []
    for pattern in patterns:
        if pattern == STDIN or os.path.exists(pattern):
            paths.append(pattern)
            continue
        found = sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
        if not found:
            raise Refusal(f"--input '{pattern}': no such file", DATA)
        paths += found
    if paths.count(STDIN) and len(paths) > 1:
        raise Refusal("standard input ('-') cannot be read together with files", USAGE)
    sources = [Source(path) for path in paths]
    pipes = [os.stat(source.path) for source in sources if source.kind == "pipe"]
    if len({(facts.st_dev, facts.st_ino) for facts in pipes}) < len(pipes):
        raise Refusal("--input has the same pipe twice; it can be read once", USAGE)
    return sources


def chunk_bytes_for(sources: list[Source]) -> int:
    total = sum(source.size for source in sources)
    return min(CHUNK_BYTES_MAX, max(CHUNK_BYTES_MIN, total // CHUNKS_WANTED))


def chunk_count(source: Source, chunk_bytes: int) -> int:
    """Chunks of a plain source."""
    return -(-source.size // chunk_bytes)


def too_long(name: str, offset: int) -> Refusal:
    return Refusal(f"{name}: the line at byte {offset} is longer than {LINE_BYTES_MAX} bytes", DATA)


def range_blocks(path: str, begin: int, end: int, block_bytes: int = BLOCK_BYTES):
    """(offset, block) of whole lines that begin in [begin, end) of a plain file. A block is longer than asked for only if
    a single line is."""
    with open(path, "rb", buffering=0) as file:
        at = begin
        if begin > 0:  # a line that began before belongs to the chunk before
            at = begin - 1
            while True:
                data = os.pread(file.fileno(), block_bytes, at)
                newline = data.find(b"\n")
                if newline >= 0 or not data:
                    at += newline + 1 if data else 0
                    break
                at += len(data)
        held, searched = bytearray(), 0
        while at < end:
            data = os.pread(file.fileno(), block_bytes, at + len(held))
            held += data
            if at + len(held) >= end:  # up to the end of the line that holds byte end - 1
                cut = held.find(b"\n", max(searched, end - 1 - at))
                if cut < 0 and not data:
                    cut = len(held) - 1
            else:
                cut = held.rfind(b"\n", searched) if data else len(held) - 1
            if cut < 0 and data:
                searched = len(held)
                if searched > LINE_BYTES_MAX:
                    raise too_long(path, at)
                continue
            if not held:
                return
            yield at, bytes(held[:cut + 1])
            at += cut + 1
            del held[:cut + 1]
            searched = 0
            if not data:
                return


def stream_chunks(source: Source, chunk_bytes: int):
    """(number, offset, text) of the chunks of a source that is read from its begin to its end. A chunk in which no line
    begins is empty."""
    with source.open() as file:
        held, offset, following = bytearray(), 0, 0
        data = b"-"
        while data:
            number = offset // chunk_bytes
            end = (number + 1) * chunk_bytes  # the chunk has the line that holds byte end - 1, whole
            cut, searched = -1, max(0, end - 1 - offset)
            while cut < 0:
                if offset + len(held) >= end:
                    cut = held.find(b"\n", searched)
                    searched = max(searched, len(held)) if cut < 0 else searched
                    if cut < 0 and len(held) > LINE_BYTES_MAX + chunk_bytes:
                        raise too_long(source.name, offset)
                if cut < 0:
                    data = source.read(file, BLOCK_BYTES)
                    if not data:
                        cut = len(held) - 1
                        break
                    held += data
            if cut >= 0:
                for empty in range(following, number):
                    yield empty, offset, b""
                following = number + 1
                yield number, offset, bytes(held[:cut + 1])
                offset += cut + 1
                del held[:cut + 1]


class Readers:
    """Reads several streams in threads; ``get`` gives their chunks, and the end of each, as they come."""

    def __init__(self, sources: list[tuple[int, Source]], chunk_bytes: int, threads: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.waiting = queue.SimpleQueue()
        for source in sources:
            self.waiting.put(source)
        self.ready = queue.Queue(maxsize=threads)
        self.stopped = False
        self.unfinished = len(sources)
        for _ in range(min(threads, len(sources))):
            threading.Thread(target=self._read, daemon=True).start()

    def _put(self, item) -> None:
        while not self.stopped:
            try:
                return self.ready.put(item, timeout=0.2)
            except queue.Full:
                continue

    def _read(self) -> None:
        while not self.stopped:
            try:
                index, source = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                last = -1
                for number, offset, text in stream_chunks(source, self.chunk_bytes):
                    self._put(("chunk", index, number, offset, text))
                    last = number
                    if self.stopped:
                        return
                self._put(("end", index, last + 1))
            except BaseException as error:
                self._put(("error", error))
                return

    def get(self, wait: bool):
        """("chunk", source, number, offset, text) or ("end", source, chunks); None if there is none (yet)."""
        if self.unfinished == 0:
            return None
        try:
            item = self.ready.get(timeout=0.05) if wait else self.ready.get_nowait()
        except queue.Empty:
            return None
        if item[0] == "error":
            raise item[1]
        if item[0] == "end":
            self.unfinished -= 1
        return item

    def stop(self) -> None:
        self.stopped = True


def line_number(source: Source, offset: int) -> int:
    """Number, from 1, of the line that holds byte `offset` of the text."""
    count, at = 1, 0
    with source.open() as file:
        while at < offset:
            data = file.read(min(BLOCK_BYTES, offset - at))
            if not data:
                break
            count += data.count(b"\n")
            at += len(data)
    return count
