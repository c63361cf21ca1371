# SPDX-License-Identifier: Apache-2.0
"""What the commands share: arguments whose errors read like those of the C commands, exit statuses, JSON on stdout."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import sys

from .. import errors

DONE, NO, USAGE, DATA, MACHINE, PEER, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130


class Refusal(Exception):
    """A command that ends with a message: its text, the exit status, and what to try next."""

    def __init__(self, text: str, status: int = USAGE, hint: str = "") -> None:
        super().__init__(text)
        self.status, self.hint = status, hint


class Parser(argparse.ArgumentParser):
    """Without abbreviations; ``-h`` is the program's. Errors are one line and a hint, with exit status 2."""

    def __init__(self, command: str) -> None:
        super().__init__(prog=f"stoker {command}", add_help=False, allow_abbrev=False)
        self.command = command

    def error(self, message: str):
        raise Refusal(message, hint=f"stoker {self.command} --help")


def status_of(error: BaseException) -> int:
    """Exit status for an exception, as the C commands have it for a status code."""
    if isinstance(error, errors.CallerError):
        return USAGE if error.status == "INVALID_ARGUMENT" else DATA if error.status == "UNSUPPORTED" else BUG
    if isinstance(error, errors.DataError):
        return DATA
    if isinstance(error, (errors.MachineError, MemoryError, OSError)):
        return MACHINE if not isinstance(error, FileNotFoundError) else DATA
    if isinstance(error, errors.PeerError):
        return PEER
    return BUG


def need(module: str, package: str, purpose: str):
    """Import an optional package, or say what to install."""
    import importlib
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Refusal(f"{purpose} needs the Python package {package}, which cannot be imported: {error}", MACHINE,
                      f"{sys.executable} -m pip install {package}") from None


@contextlib.contextmanager
def writing(path: str):
    """What fails within is the writing of `path`: the system does not name a file that is open."""
    try:
        yield
    except OSError as error:
        raise Refusal(f"cannot write '{error.filename or path}': {error.strerror or error}", MACHINE) from None


def text_of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: '{error.filename}'" if error.filename else error.strerror
    return str(error) or type(error).__name__


class _Output(io.FileIO):
    """Standard output, whose faults say that they are its own."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            error.of_output = True
            raise


class _Errors(io.FileIO):
    """Standard error. What it cannot take is lost, as there is nowhere to say so; the work goes on."""

    def write(self, data):
        with contextlib.suppress(OSError):
            return super().write(data)
        return len(data)


def open_streams() -> None:
    """Streams that are closed are open to nowhere from here on, so that no other file, and no other process's, takes
    their number. Standard input stays None: who wants it must say that there is none."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free: this one
            os.set_inheritable(number, True)
    for name, number, kind in (("stdout", 1, _Output), ("stderr", 2, _Errors)):
        stream = getattr(sys, name)
        if stream is not None and not (stream is getattr(sys, f"__{name}__") and stream.fileno() == number):
            continue  # a caller in Python has put its own there
        made = io.TextIOWrapper(io.BufferedWriter(kind(number, "w", closefd=False)),
                                encoding=stream.encoding if stream else "utf-8",
                                errors=stream.errors if stream else "backslashreplace",
                                line_buffering=number == 2 or os.isatty(number))
        setattr(sys, name, made)


def drop_output() -> None:
    """What is still to be written there goes nowhere: the interpreter tries once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def on_terminated(number, frame):
    raise SystemExit(128 + number)


def run(command: str, main) -> int:
    """Call ``main(arguments)``; gives the exit status after one line for whatever went wrong."""
    signal.signal(signal.SIGTERM, on_terminated)
    open_streams()
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
        return status
    except Refusal as error:
        text, status, hint = str(error), error.status, error.hint
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        status, hint, text = status_of(error), "", text_of(error)
        if getattr(error, "of_output", False):
            text = f"cannot write the standard output: {error.strerror}"
            drop_output()
        elif status == BUG and not isinstance(error, (AssertionError, errors.StokerError)):
            import traceback
            traceback.print_exc()
    print(f"stoker {command}: {text}" + (f"\nhint: {hint}" if hint else ""), file=sys.stderr)
    return status


def print_json(schema: str, **members) -> None:
    print(json.dumps({"schema": schema, **members}, separators=(",", ":")))
