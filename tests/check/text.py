#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every file holds to: its licence line, no open markers, 120 columns, a size that one can read, a test beside
it."""

import pathlib
import re
import sys

import common

OUTLIERS = "tests/check/outliers.txt"
TESTED_ELSEWHERE = "tests/check/tested_elsewhere.txt"
LINES_MAX = 600
COLUMNS_MAX = 120
CODE = ["src", "include", "python", "sim", "tests", "bench", "examples"]


def check_licence(tree):
    bad = []
    for path in tree.files(CODE, {".c", ".h", ".py", ".pyi", ".sh"}):
        head = tree.text(path).splitlines()[:2]
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
            bad.append(f"{tree.name(path)}:1: opens without 'SPDX-License-Identifier: Apache-2.0'")
    return bad


def check_markers(tree):
    bad = []
    marker = re.compile(r"\b(TODO|FIXME|XXX)\b")
    for path in tree.files(["src", "include", "python", "sim"], {".c", ".h", ".py", ".pyi", ".build"}):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if match := marker.search(line):
                bad.append(f"{tree.name(path)}:{number}: marker {match.group(1)}; an open question is 'NOTE(topic):' "
                           f"with what would settle it")
    return bad


def check_columns(tree):
    bad = []
    for path in tree.files(CODE, {".c", ".h"}):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if len(line) > COLUMNS_MAX:
                bad.append(f"{tree.name(path)}:{number}: {len(line)} columns, at most {COLUMNS_MAX}")
            if line != line.rstrip() or "\t" in line:
                bad.append(f"{tree.name(path)}:{number}: tab or space at the end of the line")
    return bad


def outliers(tree):
    entries = {}
    path = tree.root / OUTLIERS
    for number, line in enumerate(tree.text(path).splitlines() if path.is_file() else [], 1):
        fields = line.split("#")[0].split()
        if fields:
            entries[fields[0]] = (int(fields[1]), number)
    return entries


def check_size(tree):
    """A file over the limit stands in the list with its length; the list may only shrink, and so may what is on it."""
    bad, entries = [], outliers(tree)
    for path in tree.files(CODE, {".c"}):
        name, lines = tree.name(path), len(tree.text(path).splitlines())
        listed, number = entries.pop(name, (None, None))
        if listed is None and lines > LINES_MAX:
            bad.append(f"{name}: {lines} lines, at most {LINES_MAX}: split it")
        elif listed is not None and lines > listed:
            bad.append(f"{name}: {lines} lines, at most {listed} ({OUTLIERS}:{number}): outliers only shrink")
        elif listed is not None and lines <= LINES_MAX:
            bad.append(f"{OUTLIERS}:{number}: {name} has {lines} lines now: take it off the list")
        elif listed is not None and lines < listed:
            bad.append(f"{OUTLIERS}:{number}: {name} has {lines} lines now: write that figure")
    for name, (_, number) in entries.items():
        bad.append(f"{OUTLIERS}:{number}: {name} does not exist")
    return bad


def check_tests_beside(tree):
    """x.c has x_test.c beside it; the program is tested by its command cases. Parts of one machine that cannot be
    told apart from outside stand in a list, each with the test that drives it."""
    bad, elsewhere = [], {}
    listing = tree.root / TESTED_ELSEWHERE
    for number, line in enumerate(tree.text(listing).splitlines() if listing.is_file() else [], 1):
        fields = line.split("#")[0].split()
        if fields:
            elsewhere[fields[0]] = number
            for path in fields:
                if not (tree.root / path).is_file():
                    bad.append(f"{TESTED_ELSEWHERE}:{number}: {path} does not exist")
            if len(fields) != 2:
                bad.append(f"{TESTED_ELSEWHERE}:{number}: expected a source and its test")
    for path in tree.files(["src"], {".c"}):
        module = path.relative_to(tree.root / "src").parts[0]
        if path.name.endswith("_test.c") or module in ("cli", "lib"):
            continue
        has_test = pathlib.Path(path.parent, path.stem + "_test.c").is_file()
        number = elsewhere.get(tree.name(path))
        if has_test and number:
            bad.append(f"{TESTED_ELSEWHERE}:{number}: {tree.name(path)} has a test beside it now: take it off the list")
        elif not has_test and not number:
            bad.append(f"{tree.name(path)}: no {path.stem}_test.c beside it")
    return bad


RULES = {
    "files open with their licence": check_licence,
    "no open markers": check_markers,
    "lines fit 120 columns": check_columns,
    "files stay readable in size": check_size,
    "every source has a test beside it": check_tests_beside,
}

if __name__ == "__main__":
    sys.exit(common.run(RULES, __doc__))
