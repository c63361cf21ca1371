# SPDX-License-Identifier: Apache-2.0
"""--partitions: lines dealt to files beside the input, in turn or in consecutive runs, as the reference deals them."""

from __future__ import annotations

import contextlib
import os
import resource

from .command import DATA, Refusal, writing
from .text_input import LINE_BYTES_MAX, STDIN, Source

PARTITIONS_MAX = 4096  # each has files that are open all the time
FILES_OTHER, FILES_WORKER = 32, 3  # open files beside those of the partitions
BUFFER_BYTES, BUFFERS_BYTES_MAX = 1 << 18, 64 << 20


def names(first_input: str, count: int) -> list[str]:
    """{input stem}_{i}{ext}; a compressed input's lines go to plain files."""
    stem, ext = os.path.splitext(first_input)
    if ext in (".gz", ".zst"):
        stem, ext = os.path.splitext(stem)
    return [f"{stem}_{index}{ext}" for index in range(count)]


def _stream(file):
    """Lines of a reader that has no lines of its own (zstandard)."""
    held = b""
    while data := file.read(1 << 20):
        held += data
        *lines, held = held.split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(held) > LINE_BYTES_MAX:
            raise Refusal(f"a line longer than {LINE_BYTES_MAX} bytes", DATA)
    if held:
        yield held


def deal(sources: list[Source], paths: list[str], sequential: bool) -> None:
    """Write the files; each appears when it is whole."""
    per_file, buffer_bytes = 0, min(BUFFER_BYTES, BUFFERS_BYTES_MAX // len(paths))
    if sequential:
        per_file = -(-sum(1 for _ in whole_lines(sources)) // len(paths))
    temporary = [f"{path}.part.{os.getpid()}" for path in paths]
    files = []
    try:
        with writing(paths[0]):
            for path in temporary:
                files.append(open(path, "wb", buffering=buffer_bytes))
            for number, line in enumerate(whole_lines(sources)):
                files[number // per_file if sequential else number % len(paths)].write(line)
            for file in files:
                file.close()
            for old, new in zip(temporary, paths):
                os.replace(old, new)
    except BaseException:
        for file in files:
            with contextlib.suppress(OSError):  # what it holds is given up
                file.close()
        for path in temporary:
            if os.path.exists(path):
                os.unlink(path)
        raise


def whole_lines(sources: list[Source]):
    """All lines in their order. The last line of a source that is not the last one gets a newline if it has none."""
    for source in sources:
        with source.reading(), source.open() as file:
            line = b"\n"
            for line in (_stream(file) if source.kind == "zstd" else file):
                if line.endswith(b"\n"):
                    yield line
            if not line.endswith(b"\n"):
                yield line if source is sources[-1] else line + b"\n"


def check(sources: list[Source], arguments) -> None:
    """What cannot be, before anything is written."""
    for source in sources:
        if source.is_stream:
            raise Refusal(f"--partitions needs files, not {'a pipe: ' if source.path != STDIN else ''}{source.name}, as "
                          "their lines are dealt to files beside the input")
    count, limit = arguments.partitions, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if count > PARTITIONS_MAX:
        raise Refusal(f"--partitions {count} is above {PARTITIONS_MAX}")
    needed = count * len(arguments.json_keys) + FILES_WORKER * min(arguments.workers, count) + FILES_OTHER
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise Refusal(f"--partitions {count} needs {needed} open files; this process may have {limit}",
                      hint="ulimit -n raises the limit")


def prepare(sources: list[Source], count: int, sequential: bool, journal) -> list[Source]:
    """The partition files as sources: those that are there if they can be of this input, else made now."""
    paths = names(sources[0].path, count)
    there = [path for path in paths if os.path.exists(path)]
    if len(there) == count and journal.dealt == list(map(os.path.getsize, paths)):
        pass  # an earlier run with this input has made them
    elif len(there) == count and all(source.is_plain for source in sources):
        found, expected = sum(map(os.path.getsize, paths)), sum(source.size for source in sources)
        if not expected <= found <= expected + len(sources):
            raise Refusal(f"'{paths[0]}' to '{paths[-1]}' are there, but hold {found} bytes; the input has {expected}. "
                          "Remove them, or move what is not of this input", DATA)
    elif len(there) == count:
        raise Refusal(f"'{paths[0]}' to '{paths[-1]}' are there, and whether they are of this compressed input is not "
                      "known; remove them, or move them away", DATA)
    elif there:
        raise Refusal(f"'{there[0]}' is there, but not all {count} partition files ({len(there)} are); an earlier run may "
                      "have left them: remove them, or move them away", DATA)
    else:
        deal(sources, paths, sequential)
    sizes = list(map(os.path.getsize, paths))
    if journal.dealt != sizes:
        journal.deal(sizes)
    return [Source(path) for path in paths]
