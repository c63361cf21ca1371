# SPDX-License-Identifier: Apache-2.0
"""--partitions: lines dealt to files beside the input, in turn or in consecutive runs, as the reference deals them."""

from __future__ import annotations

import os

from .command import DATA, Refusal
from .text_input import LINE_BYTES_MAX, STDIN, Source


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
    per_file = 0
    if sequential:
        per_file = -(-sum(1 for _ in whole_lines(sources)) // len(paths))
    temporary = [f"{path}.part.{os.getpid()}" for path in paths]
    files = []
    try:
        for path in temporary:
            files.append(open(path, "wb", buffering=1 << 18))
        for number, line in enumerate(whole_lines(sources)):
            files[number // per_file if sequential else number % len(paths)].write(line)
        for file in files:
            file.close()
        for old, new in zip(temporary, paths):
            os.replace(old, new)
    except BaseException:
        for file in files:
            file.close()
        for path in temporary:
            if os.path.exists(path):
                os.unlink(path)
        raise


def whole_lines(sources: list[Source]):
    """All lines in their order. The last line of a source that is not the last one gets a newline if it has none."""
    for source in sources:
        with source.open() as file:
            line = b"\n"
            for line in (_stream(file) if source.kind == "zstd" else file):
                if line.endswith(b"\n"):
                    yield line
            if not line.endswith(b"\n"):
                yield line if source is sources[-1] else line + b"\n"


def prepare(sources: list[Source], count: int, sequential: bool) -> list[Source]:
    """The partition files as sources: those that are there if they can be of this input, else made now."""
    if any(source.path == STDIN for source in sources):
        raise Refusal("--partitions needs files, not standard input: their lines are dealt to files beside the input")
    paths = names(sources[0].path, count)
    there = [path for path in paths if os.path.exists(path)]
    if len(there) == count and all(source.is_plain for source in sources):
        found, expected = sum(map(os.path.getsize, paths)), sum(source.size for source in sources)
        if not expected <= found <= expected + len(sources):
            raise Refusal(f"'{paths[0]}' to '{paths[-1]}' are there, but hold {found} bytes; the input has {expected}. "
                          "Remove them, or move what is not of this input", DATA)
    elif there:
        raise Refusal(f"'{there[0]}' is there, but not all {count} partition files; remove it, or move it away", DATA)
    else:
        deal(sources, paths, sequential)
    return [Source(path) for path in paths]
