#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include graph against src/LAYERS: what is not granted is forbidden, sideways too; what is granted must be
used."""

import pathlib
import re
import sys

import common

# Headers of C11 and of the system (POSIX, Linux): anybody may ask for them; what modules may do with them is the
# matter of symbols.py.
SYSTEM = set("""
    assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h setjmp.h signal.h
    stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h
    tgmath.h threads.h time.h
    uchar.h wchar.h wctype.h
    dirent.h dlfcn.h fcntl.h ftw.h getopt.h glob.h grp.h libgen.h poll.h pwd.h sched.h semaphore.h spawn.h strings.h
    syslog.h termios.h unistd.h utime.h
""".split())
SYSTEM_FOLDERS = ("sys/", "linux/", "asm/", "netinet/", "arpa/", "net/")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


class Layers:
    """src/LAYERS: lines `folder: granted folders`, then, after a comment that says so, `headers: files`."""

    def __init__(self, tree):
        self.grants, self.lines, self.foreign = {}, {}, []
        self.violations = []
        foreign_part = False
        for number, line in enumerate(tree.text(tree.root / "src/LAYERS").splitlines(), 1):
            foreign_part = foreign_part or line.startswith("# foreign header")
            line = line.split("#")[0].strip()
            if not line:
                continue
            left, colon, right = line.partition(":")
            if not colon:
                self.violations.append(f"src/LAYERS:{number}: no ':' in {line!r}")
            elif foreign_part:
                self.foreign.append((number, left.split(), right.split()))
            else:
                self.grants[left.strip()] = right.split()
                self.lines[left.strip()] = number


def includes(tree, path):
    """(line, '<' or '"', header) of every include of a file."""
    text = common.without_comments(tree.text(path), keep_strings=True)
    return [(common.line_of(text, match.start(2)), match.group(1), match.group(2)) for match in INCLUDE.finditer(text)]


def sources(tree):
    """What the table rules: the folders of src/, and the simulator, whose folder stands beside it."""
    for path in tree.files(["src", "sim"], {".c", ".h"}):
        parts = pathlib.PurePosixPath(inside_of(tree, path)).parts
        if len(parts) > 1:
            yield path, parts[0], parts[-1].endswith(("_test.c", "_fixture.h"))


def inside_of(tree, path):
    """The name by which others include it: from src/, or from the root for the simulator."""
    name = path.relative_to(tree.root).as_posix()
    return name.removeprefix("src/")


def is_header(tree, header):
    return (tree.root / "src" / header).is_file() or (header.startswith("sim/") and (tree.root / header).is_file())


def check_table(tree):
    layers = Layers(tree)
    bad = list(layers.violations)
    folders = {module for _, module, _ in sources(tree)}
    for folder, granted in layers.grants.items():
        where = f"src/LAYERS:{layers.lines[folder]}"
        if folder not in folders:
            bad.append(f"{where}: folder '{folder}' has no sources")
        for other in granted:
            if other not in layers.grants:
                bad.append(f"{where}: '{folder}' is granted '{other}', which has no line of its own")
    return bad


def check_acyclic(tree):
    layers = Layers(tree)
    bad, done = [], set()

    def visit(folder, trail):
        if folder in trail:
            cycle = trail[trail.index(folder):] + [folder]
            bad.append(f"src/LAYERS:{layers.lines[folder]}: grants go round: {' -> '.join(cycle)}")
            return
        if folder in done:
            return
        for other in layers.grants.get(folder, []):
            visit(other, trail + [folder])
        done.add(folder)

    for folder in layers.grants:
        visit(folder, [])
    return bad


def check_includes(tree):
    """Quoted includes: the own folder, granted folders, and for tests the support of tests."""
    layers = Layers(tree)
    bad = []
    for path, module, is_test in sources(tree):
        for line, bracket, header in includes(tree, path):
            where = f"{tree.name(path)}:{line}"
            if bracket == "<":
                if header.startswith("stoker/") and not (tree.root / "include" / header).is_file():
                    bad.append(f"{where}: <{header}> is not in include/")
                continue
            folder = header.split("/")[0]
            if header.endswith("_fixture.h") and not is_test:
                bad.append(f'{where}: "{header}" is for tests')
            if is_test and header.startswith("tests/support/"):
                continue
            if "/" not in header or not is_header(tree, header):
                bad.append(f'{where}: "{header}" is not a path from src/')
            elif module not in layers.grants:
                bad.append(f"{where}: folder '{module}' has no line in src/LAYERS")
            elif folder != module and folder not in layers.grants[module]:
                bad.append(f'{where}: includes "{header}"; missing grant in src/LAYERS: "{module}: {folder}"')
    return bad


def check_unused(tree):
    """A grant that nothing but tests uses would make the table untrue."""
    layers = Layers(tree)
    used = {(module, header.split("/")[0]) for path, module, is_test in sources(tree) if not is_test
            for _, bracket, header in includes(tree, path) if bracket == '"'}
    return [f"src/LAYERS:{layers.lines[folder]}: grant '{folder}: {other}' is not used"
            for folder, granted in layers.grants.items() for other in granted if (folder, other) not in used]


def matches(header, names):
    return any(header.startswith(name) if name.endswith("/") else header == name for name in names)


def check_foreign(tree):
    """Each foreign header in the files that src/LAYERS names, nowhere else; a test may use what its subject may."""
    layers = Layers(tree)
    bad, used = [], set()
    for path, module, _ in sources(tree):
        inside = inside_of(tree, path)
        for line, bracket, header in includes(tree, path):
            if bracket == '"' or header.startswith("stoker/"):
                continue
            where = f"{tree.name(path)}:{line}"
            entry = next((entry for entry in layers.foreign if matches(header, entry[1])), None)
            if entry:
                allowed = entry[2] + [name.replace(".c", "_test.c") for name in entry[2]]
                used.add((entry[0], inside))
                if inside not in allowed:
                    bad.append(f"{where}: <{header}> may be included by {', '.join(entry[2])} only "
                               f"(src/LAYERS:{entry[0]})")
            elif header not in SYSTEM and not header.startswith(SYSTEM_FOLDERS):
                bad.append(f'{where}: foreign header <{header}>; missing line in src/LAYERS: "{header}: {inside}"')
    for number, names, files in layers.foreign:
        for name in files:
            if (number, name) not in used:
                bad.append(f"src/LAYERS:{number}: {name} includes none of {' '.join(names)}")
    return bad


def check_internal(tree):
    bad = []
    for path, module, _ in sources(tree):
        for line, bracket, header in includes(tree, path):
            if header.endswith("_internal.h") and header.split("/")[0] != module:
                bad.append(f'{tree.name(path)}:{line}: "{header}" stays in {"" if header.startswith("sim/") else "src/"}{header.split("/")[0]}/')
    return bad


def check_programs(tree):
    """Examples and the extension module see the public API only; the public API sees itself only."""
    bad = []
    for path in tree.files(["examples", "python", "include"], {".c", ".h"}):
        public = tree.name(path).startswith("include/")
        for line, bracket, header in includes(tree, path):
            where = f"{tree.name(path)}:{line}"
            if bracket == '"' and (public or "/" in header or not (path.parent / header).is_file()):
                bad.append(f'{where}: "{header}": only the public headers, as <stoker/...>, may be included here')
            elif public and not header.startswith("stoker/") and header not in ("stddef.h", "stdint.h"):
                bad.append(f"{where}: foreign header <{header}> in a public header")
    return bad


RULES = {
    "src/LAYERS names what exists": check_table,
    "grants of src/LAYERS are acyclic": check_acyclic,
    "every include of src is granted": check_includes,
    "every grant is used": check_unused,
    "foreign headers stay in their files": check_foreign,
    "*_internal.h stays in its folder": check_internal,
    "programs and public headers include the public API only": check_programs,
}

if __name__ == "__main__":
    sys.exit(common.run(RULES, __doc__))
