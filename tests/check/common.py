# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the tree, comments taken out of C, and TAP.

A check is a module with RULES: an ordered mapping of a rule's name to a function that gets a Tree and returns a list of
violations ("file:line: what is wrong and what would be right"), or raises Skip. selftest.py calls the same functions on
fixture trees.
"""

import argparse
import pathlib
import re
import sys

# Not ours, or made: never looked at.
IGNORED = {".git", ".venv", ".cache", "build", "golden", "corpus", "__pycache__", "subprojects"}


class Skip(Exception):
    """The rule cannot be looked at here; the text says why."""


class Tree:
    def __init__(self, root, build=None):
        self.root = pathlib.Path(root)
        self.build = pathlib.Path(build) if build else None

    def files(self, folders, suffixes):
        """Paths below the root, sorted; folders that do not exist hold none."""
        found = []
        for folder in folders:
            for path in sorted((self.root / folder).rglob("*")):
                parts = path.relative_to(self.root).parts
                if any(part in IGNORED or part.startswith("build-") for part in parts[:-1]):
                    continue
                if path.suffix in suffixes and path.is_file():
                    found.append(path)
        return found

    def name(self, path):
        return path.relative_to(self.root).as_posix()

    def text(self, path):
        return path.read_text(encoding="utf-8", errors="replace")


def without_comments(text, keep_strings=False):
    """C text with comments (and strings) blanked out, so that line numbers and columns stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            if keep_strings:
                return token
            return token[0] + " " * (len(token) - 2) + token[-1]
        return re.sub(r"[^\n]", " ", token)

    return pattern.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def run(rules, description):
    """Main program of a check: one TAP line a rule, its violations as comments below it."""
    here = pathlib.Path(__file__).resolve().parent.parent.parent
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", default=here, help="the tree to look at (this one by default)")
    parser.add_argument("--build", help="its build folder, for the rules that read objects")
    options = parser.parse_args()
    tree = Tree(options.root, options.build)
    failed = False
    print(f"1..{len(rules)}")
    for number, (name, rule) in enumerate(rules.items(), 1):
        try:
            violations = rule(tree)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}")
            continue
        print(f"{'not ok' if violations else 'ok'} {number} - {name}")
        for violation in violations:
            print(f"# {violation}")
        failed = failed or bool(violations)
    sys.stdout.flush()
    return 1 if failed else 0
