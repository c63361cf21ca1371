#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the sources of src/ and sim/, with the commands of a build folder and the choice of .clang-tidy.

It takes a second or two a file, so what was found clean is remembered in the build folder under a digest of the source,
of the headers of this tree that it includes, and of the choice of checks, and looked at again only when one of them
changes.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import common
import layers


def sources(tree):
    """What the build compiles of src/ and sim/, tests left out: their macros are cmocka's."""
    table = tree.build / "compile_commands.json" if tree.build else None
    if table is None or not table.is_file():
        raise common.Skip("no compile_commands.json")
    inside = {(tree.root / folder).resolve() for folder in ("src", "sim")}
    found = set()
    for entry in json.loads(table.read_text()):
        path = (tree.build / entry["directory"] / entry["file"]).resolve()
        if inside & set(path.parents) and not path.name.endswith("_test.c") and path.is_file():
            found.add(path)
    return sorted(found)


def digests(tree, paths):
    """Digest of all of this tree that a verdict on each source depends on."""
    always = [tree.root / ".clang-tidy", pathlib.Path(__file__).resolve().parent / "analyzer.h"]
    found = {}
    for source in paths:
        seen, waiting = set(), [*always, source]
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            for _, _, header in layers.includes(tree, path):
                waiting += [folder / header for folder in (tree.root / "src", tree.root / "include", tree.root)
                            if (folder / header).is_file()]
        digest = hashlib.sha256()
        for path in sorted(seen):
            digest.update(path.read_bytes())
        found[source] = digest.hexdigest()
    return found


def check_tidy(tree):
    program = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if not program:
        raise common.Skip("clang-tidy is not installed")
    paths = sources(tree)
    if not paths:
        raise common.Skip("the build compiles nothing of src/ or sim/")
    memory = tree.build / "tidy-clean.txt"  # grows as files are found clean: a run that is cut short was not in vain
    clean = set(memory.read_text().split()) if memory.is_file() else set()
    digest = digests(tree, paths)

    def look(path):
        if digest[path] in clean:
            return []
        # The commands are the compiler's of the build, which may know warnings that clang does not.
        command = [program, "--quiet", "-p", tree.build, f"--config-file={tree.root / '.clang-tidy'}",
                   "--extra-arg=-Wno-unknown-warning-option"]
        if tree.name(path) != "src/base/error.c":  # defines what the header redefines
            command += ["--extra-arg=-include", f"--extra-arg={pathlib.Path(__file__).resolve().parent / 'analyzer.h'}"]
        result = subprocess.run([*command, path], capture_output=True, text=True)
        found = re.findall(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", result.stdout, re.MULTILINE)
        if result.returncode == 0 and not found:
            with memory.open("a") as file:
                file.write(f"{digest[path]}\n")
        elif not found:
            return [f"{tree.name(path)}: clang-tidy failed: {(result.stderr or result.stdout).strip()[-300:]}"]
        return [f"{os.path.relpath(file, tree.root)}:{line}: {message}" for file, line, message in found]

    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        found = sorted({violation for violations in pool.map(look, paths) for violation in violations})
    clean = set(memory.read_text().split()) if memory.is_file() else set()
    memory.write_text("".join(f"{digest[path]}\n" for path in paths if digest[path] in clean))
    return found


RULES = {"clang-tidy finds nothing in src and sim": check_tidy}

if __name__ == "__main__":
    sys.exit(common.run(RULES, __doc__))
