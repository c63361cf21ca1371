#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What objects ask for: the pure core is pure, the library is quiet, unsafe functions are used nowhere, and the shared
library exports stoker_* alone. Reads the objects of a build folder with nm; the rule on names in the text needs
none."""

import json
import re
import shutil
import subprocess
import sys

import common

PURE = ["base", "index", "sched", "wire"]
# Memory and text of known length, and what compilers and linkers put in by themselves.
PURE_ALLOWED = set("memcpy memmove memset memcmp memchr strlen strcmp strncmp sqrt".split())
# __cpu_model is what a run-time choice of instructions reads; it changes the speed, never a result.
COMPILER = re.compile(r"_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__tls_get_addr|__(mem|str)\w+_chk|__cpu_model")
# Formatting of errors, and the end of a program whose invariant is broken.
ALLOWED = {
    "base/error.c": set("vsnprintf snprintf strerror".split()),
    "base/assert.c": set("fprintf stderr abort".split()),
}

# name: what is used instead.
BANNED = {
    "strcpy": "memcpy with a known length", "strcat": "snprintf", "strncpy": "memcpy with a known length",
    "strncat": "snprintf", "stpcpy": "memcpy with a known length", "sprintf": "snprintf", "vsprintf": "vsnprintf",
    "gets": "fgets", "strtok": "strchr or strspn", "localtime": "localtime_r", "gmtime": "gmtime_r",
    "asctime": "strftime",
    "ctime": "strftime", "atoi": "strtol with checks", "atol": "strtol with checks", "atoll": "strtoll with checks",
    "atof": "strtod with checks", "rand": "a seeded generator", "srand": "a seeded generator",
    "random": "a seeded generator", "tmpnam": "memfd or mkstemp", "mktemp": "mkstemp", "system": "stk_process_spawn",
    "popen": "stk_process_spawn", "alloca": "the heap", "usleep": "a wait for the event",
    "sleep": "a wait for the event", "nanosleep": "a wait for the event",
}

# The library reads no environment, installs no signal handler, never exits, never prints: only the program does.
LOUD = set("""getenv secure_getenv setenv putenv unsetenv clearenv signal sigaction exit quick_exit printf vprintf puts
    putchar perror fputs fputc fprintf vfprintf stdout stderr""".split())
LOUD_ALLOWED = {
    "base/assert.c": {"fprintf", "stderr"},
    "sys/process.c": {"sigaction"},  # back to default, in the child that is about to become another program
}


def is_sanitized(tree):
    options = tree.build / "meson-info/intro-buildoptions.json"
    if not options.is_file():
        return False
    values = {option["name"]: option["value"] for option in json.loads(options.read_text())}
    return values.get("b_sanitize", "none") not in ("none", [])


def undefined(path):
    """Names that an object asks of others."""
    output = subprocess.run(["nm", "-u", path], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in output.splitlines() if line.split()}


def objects(tree):
    """(module, source, undefined names) of each object of the static libraries of src/, without tests."""
    if tree.build is None:
        raise common.Skip("no build folder given")
    if not shutil.which("nm"):
        raise common.Skip("nm is not installed")
    if is_sanitized(tree):
        raise common.Skip("objects of a sanitizer build call the sanitizer")
    found = []
    for path in sorted(tree.build.glob("src/*/lib*.a.p/*.c.o")):
        names = undefined(path)
        module, source = path.parent.parent.name, path.name[:-2]
        if (tree.root / "src" / module / source).is_file():  # an object of a source that is gone says nothing
            found.append((module, f"{module}/{source}", names))
    if not found:
        raise common.Skip(f"no objects in {tree.build}")
    return found


def check_pure(tree):
    bad = []
    for module, source, names in objects(tree):
        if module not in PURE:
            continue
        for name in sorted(names - PURE_ALLOWED - ALLOWED.get(source, set())):
            if not name.startswith(("stk_", "stoker_")) and not COMPILER.fullmatch(name):
                bad.append(f"src/{source}: pure code may not use {name}()")
    return bad


def check_simulator(tree):
    """What decides in the simulator is as pure as what it drives; its shell (files, memory, output) is the program."""
    if tree.build is None or not shutil.which("nm"):
        raise common.Skip("no build folder given, or no nm")
    if is_sanitized(tree):
        raise common.Skip("objects of a sanitizer build call the sanitizer")
    found = sorted(tree.build.glob("sim/lib*.a.p/*.c.o"))
    if not found:
        raise common.Skip(f"no objects of sim/ in {tree.build}")
    bad = []
    for path in found:
        source = path.name[:-2]
        if not (tree.root / "sim" / source).is_file():
            continue
        for name in undefined(path):
            if not name.startswith(("stk_", "sim_")) and name not in PURE_ALLOWED and not COMPILER.fullmatch(name):
                bad.append(f"sim/{source}: what decides may not use {name}()")
    return bad


def check_quiet(tree):
    bad = []
    for module, source, names in objects(tree):
        if module == "cli":
            continue
        for name in sorted(names & LOUD - LOUD_ALLOWED.get(source, set())):
            bad.append(f"src/{source}: the library may not use {name}: "
                       f"no environment, signal handlers, exits or prints in it")
    return bad


def check_banned(tree):
    bad = []
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for path in tree.files(["src", "include", "python", "examples", "sim"], {".c", ".h"}):
        text = common.without_comments(tree.text(path))
        for match in pattern.finditer(text):
            bad.append(f"{tree.name(path)}:{common.line_of(text, match.start())}: {match.group(1)}() is banned; "
                       f"use {BANNED[match.group(1)]}")
    return bad


def library(tree):
    if tree.build is None:
        raise common.Skip("no build folder given")
    found = [path for path in sorted(tree.build.rglob("libstoker.so*")) if path.is_file() and not path.is_symlink() and
             ".p/" not in path.as_posix() and path.suffix != ".symbols"]
    if not found or not shutil.which("nm"):
        raise common.Skip("no libstoker.so in the build folder, or no nm")
    output = subprocess.run(["nm", "-D", "--defined-only", found[0]], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in output.splitlines() if line.split()}


def check_exports(tree):
    return [f"libstoker.so exports {name}: only stoker_* may be seen from outside"
            for name in sorted(library(tree)) if not name.startswith("stoker_")]


def check_complete(tree):
    exported = library(tree)
    bad = []
    for path in tree.files(["include"], {".h"}):
        text = common.without_comments(tree.text(path))
        for match in re.finditer(r"STOKER_API\b[^;(]*?\b(stoker_\w+)\s*\(", text):
            if match.group(1) not in exported:
                bad.append(f"{tree.name(path)}:{common.line_of(text, match.start())}: {match.group(1)}() is declared, "
                           f"but libstoker.so does not export it")
    return bad


RULES = {
    "unsafe functions are used nowhere": check_banned,
    "pure objects use the short list only": check_pure,
    "the simulator decides by pure code only": check_simulator,
    "the library is quiet": check_quiet,
    "the library exports stoker_* only": check_exports,
    "the library exports all that is declared": check_complete,
}

if __name__ == "__main__":
    sys.exit(common.run(RULES, __doc__))
