# SPDX-License-Identifier: Apache-2.0
"""The journal of a run of `stoker preprocess`: which parts are done, so that a run that was killed goes on.

A folder beside the output holds a lock, the parts, and `journal.jsonl`: first what the run is (input, tokenizer, options),
then one line a part with sizes and checksums, and one line a source whose end is known. A line that is cut, and what comes
after it, counts for nothing; so does a part whose files are not what its line says. Parts are not synced one by one: the
checksums find what a crash of the machine loses.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import zlib

from .command import DATA, MACHINE, USAGE, Refusal, writing
from .text_worker import part_name

SCHEMA = "stoker.preprocess.journal/1"


class Journal:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.parts: dict[tuple[int, int], dict] = {}
        self.ends: dict[int, int] = {}
        self.dealt: list[int] | None = None  # sizes of the partition files, if they are made
        self.file = None

    def begin(self, identity: dict, restart: bool, resumable: bool) -> None:
        """Lock the folder and take over what an earlier run has done."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            self.lock = open(os.path.join(self.folder, "lock"), "w")
        except OSError as error:
            raise Refusal(f"cannot write to '{self.folder}': {error.strerror}", MACHINE) from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refusal(f"another run writes the same output: '{self.folder}' is locked", USAGE) from None
        self.path = os.path.join(self.folder, "journal.jsonl")
        records = [] if restart or not resumable else self._read()
        if any("part" in record for record in records):  # a run that has done nothing is in nobody's way
            self._compare(records[0].get("identity", {}), identity)
        elif not records or records[0].get("identity") != json.loads(json.dumps(identity)):
            records = []
        keys = len(identity["keys"])
        for record in records[1:]:
            if "part" in record and self._is_whole(record, keys):
                self.parts[tuple(record["part"])] = record
            elif "end" in record:
                self.ends[record["end"]] = record["chunks"]
            elif "dealt" in record:
                self.dealt = record["dealt"]
        self._clean(keys)
        # Written anew: without cut lines, and without parts that are gone.
        with writing(self.path):
            self.file = open(self.path + ".new", "w", encoding="utf-8")
            self._write(dict(schema=SCHEMA, identity=identity))
            if self.dealt is not None:
                self._write(dict(dealt=self.dealt))
            for record in self.parts.values():
                self._write(record)
            for source, chunks in self.ends.items():
                self._write(dict(end=source, chunks=chunks))
            self.file.flush()
            os.replace(self.path + ".new", self.path)

    def _read(self) -> list[dict]:
        records = []
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    if not line.endswith("\n"):
                        break
                    records.append(json.loads(line))
        except FileNotFoundError:
            return []
        except ValueError:  # what was written when the machine stopped
            pass
        if records and records[0].get("schema") != SCHEMA:
            raise Refusal(f"'{self.path}' is of another version of stoker", DATA, "--restart begins anew")
        return records

    def _compare(self, before: dict, now: dict) -> None:
        before, now = json.loads(json.dumps(before)), json.loads(json.dumps(now))
        different = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if different:
            raise Refusal(f"'{self.folder}' holds an unfinished run that differs in: {', '.join(different)}", USAGE,
                          "give the same arguments to go on with it, or --restart to begin anew")

    def _is_whole(self, record: dict, keys: int) -> bool:
        files = record["files"]
        return len(files) == keys and all(
            same(os.path.join(self.folder, part_name(*record["part"], key)) + suffix, size, crc)
            for key, (bin_size, bin_crc, idx_size, idx_crc, _, _) in enumerate(files)
            for suffix, size, crc in ((".bin", bin_size, bin_crc), (".idx", idx_size, idx_crc)))

    def _clean(self, keys: int) -> None:
        """Remove what no line speaks of: parts of a run that was killed, half written ones."""
        known = {"lock", "journal.jsonl"} | {part_name(*part, key) + suffix for part in self.parts for key in range(keys)
                                             for suffix in (".bin", ".idx")}
        for name in os.listdir(self.folder):
            if name not in known and (name[:6].isdigit() or name.startswith("journal.")):
                os.unlink(os.path.join(self.folder, name))

    def _write(self, record: dict) -> None:
        self.file.write(json.dumps(record, separators=(",", ":")) + "\n")

    def part(self, source: int, number: int, facts: dict) -> None:
        record = dict(part=[source, number], **facts)
        self.parts[source, number] = record
        self._append(record)

    def end(self, source: int, chunks: int) -> None:
        self.ends[source] = chunks
        self._append(dict(end=source, chunks=chunks))

    def deal(self, sizes: list[int]) -> None:
        """The lines are dealt to partition files of these sizes."""
        self.dealt = sizes
        self._append(dict(dealt=sizes))

    def _append(self, record: dict) -> None:
        with writing(self.path):
            self._write(record)
            self.file.flush()

    def close(self) -> None:
        if self.file:
            with contextlib.suppress(OSError):  # each line was flushed, or its fault is told already
                self.file.close()

    def remove(self) -> None:
        """The run is done. The journal goes first: without it, nothing is taken over."""
        self.close()
        os.unlink(self.path)
        shutil.rmtree(self.folder)


def same(path: str, size: int, crc: int) -> bool:
    try:
        if os.path.getsize(path) != size:
            return False
        found = 0
        with open(path, "rb") as file:
            while data := file.read(1 << 20):
                found = zlib.crc32(data, found)
        return found == crc
    except OSError:
        return False
