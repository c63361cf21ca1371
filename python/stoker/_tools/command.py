# SPDX-License-Identifier: Apache-2.0
"""What the commands share: arguments whose errors read like those of the C commands, exit statuses, JSON on stdout."""

from __future__ import annotations

import argparse
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


def on_terminated(number, frame):
    raise SystemExit(128 + number)


def run(command: str, main) -> int:
    """Call ``main(arguments)``; gives the exit status after one line for whatever went wrong."""
    signal.signal(signal.SIGTERM, on_terminated)
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
        return status
    except Refusal as error:
        text, status, hint = str(error), error.status, error.hint
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        text, status, hint = "cannot write the output: Broken pipe", MACHINE, ""
        sys.stdout = open(os.devnull, "w")  # the interpreter flushes it once more when it ends
    except Exception as error:
        status, hint = status_of(error), ""
        if status == BUG and not isinstance(error, (AssertionError, errors.StokerError)):
            import traceback
            traceback.print_exc()
        text = f"{error.strerror}: '{error.filename}'" if isinstance(error, OSError) and error.filename else str(error)
        text = text or type(error).__name__
    print(f"stoker {command}: {text}" + (f"\nhint: {hint}" if hint else ""), file=sys.stderr)
    return status


def print_json(schema: str, **members) -> None:
    print(json.dumps({"schema": schema, **members}, separators=(",", ":")))
