#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers: each stands alone in C11 and in C++, and each function says who owns, which threads
and which errors."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import common


def public_headers(tree):
    return tree.files(["include/stoker"], {".h"})


def compile_alone(tree, compiler, language, standard):
    """Each header included twice, first of all, and each _INIT macro used."""
    bad = []
    for path in public_headers(tree):
        header = path.relative_to(tree.root / "include").as_posix()
        lines = [f"#include <{header}>", f"#include <{header}>"]
        for macro in re.findall(r"^#define STOKER_(\w+)_INIT\b", tree.text(path), re.MULTILINE):
            name = macro.lower()
            lines += [f"stoker_{name} make_{name}(void);",
                      f"stoker_{name} make_{name}(void) {{ stoker_{name} value = STOKER_{macro}_INIT; return value; }}"]
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "alone.cc" if language == "c++" else "alone.c")
            with open(source, "w") as file:
                file.write("\n".join(lines) + "\n")
            result = subprocess.run([*compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                                     "-pedantic", "-x", language, "-I", tree.root / "include", source],
                                    capture_output=True, text=True)
        if result.returncode != 0:
            reason = next((line for line in result.stderr.splitlines() if "error:" in line), "does not compile")
            bad.append(f"{tree.name(path)}: not valid {language} ({standard}) on its own: "
                       f"{reason.split('error:')[-1].strip()}")
    return bad


def check_c(tree):
    compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or shutil.which("gcc")]  # CC="ccache cc"
    if not compiler[0]:
        raise common.Skip("no C compiler")
    return compile_alone(tree, compiler, "c", "c11")


def check_cxx(tree):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++-14")
    if not compiler:
        raise common.Skip("no C++ compiler")
    return compile_alone(tree, [compiler], "c++", "c++11")


def declarations(text):
    """(position, name, comment right above it or None) of each STOKER_API function."""
    code = common.without_comments(text)
    for match in re.finditer(r"^STOKER_API\b[^;{]*?\b(stoker_\w+)\s*\(", code, re.MULTILINE):
        before = text[:match.start()].rstrip()
        comment = None
        if before.endswith("*/"):
            comment = before[before.rfind("/*"):]
        yield match.start(), match.group(1), comment


def check_documented(tree):
    bad = []
    for path in public_headers(tree):
        text = tree.text(path)
        for position, name, comment in declarations(text):
            where = f"{tree.name(path)}:{common.line_of(text, position)}"
            if comment is None or not comment.startswith("/**"):
                bad.append(f"{where}: {name}() has no /** comment right above it")
                continue
            words = re.findall(r"^ \* (Owns|Threads|Errors):", comment, re.MULTILINE)
            if words != ["Owns", "Threads", "Errors"]:
                bad.append(f"{where}: {name}() says {words or 'none'} of Owns:, Threads:, Errors: "
                           f"(all three, in this order)")
    return bad


def check_guards(tree):
    """C++ callers need the C names, and every header a guard of its own name."""
    bad = []
    for path in public_headers(tree):
        text = tree.text(path)
        guard = f"STOKER_{path.stem.upper()}_H"
        if not re.search(rf"^#ifndef {guard}\n#define {guard}$", text, re.MULTILINE):
            bad.append(f"{tree.name(path)}: no include guard {guard}")
        if "STOKER_API" in text and 'extern "C"' not in text:
            bad.append(f'{tree.name(path)}: declares functions without extern "C" for C++')
    return bad


RULES = {
    "public headers are self-contained C11": check_c,
    "public headers are valid C++": check_cxx,
    "public functions say Owns, Threads, Errors": check_documented,
    "public headers have guards and C linkage": check_guards,
}

if __name__ == "__main__":
    sys.exit(common.run(RULES, __doc__))
