# SPDX-License-Identifier: Apache-2.0
"""This process's place in its job: one client per process, found through the launcher's environment (rule B7).

The C library reads no environment; this file does. Variables that are read: RANK, WORLD_SIZE, LOCAL_RANK,
LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT, SLURM_JOB_ID,
SLURM_STEP_ID, STOKER_PROGRAM, STOKER_SHM_DIR, STOKER_CONNECT_TIMEOUT (seconds). docs/reference/python.md lists them.
"""

from __future__ import annotations

import atexit
import itertools
import json
import logging
import os
import shutil
import sys
import threading

from . import _core, errors

__all__ = ["client", "close", "discard", "drain_log", "held", "interruptible", "program", "rank_and_world"]

_JOB = (
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "WORLD_SIZE",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
)
#: How batches may be placed.
POLICIES = ("deadline", "cost", "least_request", "round_robin")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_log = logging.getLogger("stoker")

_lock = threading.Lock()
_client = None
_opening: list[threading.Event] = []  # of calls of interruptible() that may still run
_pid = None  # of the process that opened it: a forked child opens its own


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise errors.CallerError(f"the environment variable {name} is {text!r}, a number was expected") from None


def rank_and_world() -> tuple[int, int]:
    """(rank, world size) from torch.distributed if it is initialised, else from the environment, else (0, 1)."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    world = _number("WORLD_SIZE", 1)
    rank = _number("RANK", 0)
    if world > 1 and "RANK" not in os.environ:
        raise errors.CallerError(f"WORLD_SIZE is {world}, but RANK is not set: the launcher must set both")
    if not 0 <= rank < max(world, 1):
        raise errors.CallerError(f"RANK is {rank}, WORLD_SIZE is {world}")
    return rank, max(world, 1)


def _local_rank_and_world() -> tuple[int, int]:
    world = _number("LOCAL_WORLD_SIZE", 0)
    if world <= 0:  # some launchers set LOCAL_RANK alone
        return 0, 1
    rank = _number("LOCAL_RANK", 0)
    if not 0 <= rank < world:
        raise errors.CallerError(f"LOCAL_RANK is {rank}, LOCAL_WORLD_SIZE is {world}: expected 0 to {world - 1}")
    return rank, world


def _connect_timeout() -> float:
    text = os.environ.get("STOKER_CONNECT_TIMEOUT") or "10"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise errors.CallerError(
            f"the environment variable STOKER_CONNECT_TIMEOUT is {text!r}, a number of seconds above 0 was expected"
        )
    return seconds


def job_key() -> str | None:
    """Text that all ranks of this job share; None without a launcher: then this process is alone."""
    if not any(name in os.environ for name in ("WORLD_SIZE", "TORCHELASTIC_RUN_ID")):
        return None
    text = "\n".join(f"{name}={os.environ.get(name, '')}" for name in _JOB)
    if not any(os.environ.get(name) for name in _JOB if name not in ("WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")):
        text += f"\nparent={os.getppid()}"  # ranks that a script started by hand: nothing else tells two jobs apart
    return text


def program() -> str | None:
    """Path of the ``stoker`` program: STOKER_PROGRAM, else beside this interpreter or this package, else on PATH."""
    given = os.environ.get("STOKER_PROGRAM")
    if given:
        if not os.access(given, os.X_OK):
            raise errors.CallerError(f"STOKER_PROGRAM is {given!r}, which is no program")
        return given
    folders = [os.path.join(sys.prefix, "bin"), os.path.dirname(sys.executable or "")]
    folder = os.path.dirname(os.path.abspath(__file__))
    for _ in range(5):  # PREFIX/lib/python3.11/site-packages/stoker
        folder = os.path.dirname(folder)
        folders.append(os.path.join(folder, "bin"))
    for folder in folders:
        candidate = os.path.join(folder, "stoker")
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return shutil.which("stoker")


def interruptible(function, **arguments):
    """Call a function of the C library that may block for long, so that Ctrl-C is seen at once. What was interrupted
    goes on by itself, and its result is dropped; at exit it ends with the process."""
    if threading.current_thread() is not threading.main_thread():
        return function(**arguments)  # signals are seen in the main thread
    outcome = []

    def run() -> None:
        try:
            outcome.append((function(**arguments), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            done.set()

    done = threading.Event()  # Thread.join() takes a thread for dead when Ctrl-C interrupts it
    _opening[:] = [other for other in _opening if not other.is_set()] + [done]
    threading.Thread(target=run, name="stoker-open", daemon=True).start()
    for turn in itertools.count(1):
        if done.wait(0.05):
            break
        if turn % 40 == 0:  # what is said meanwhile, of a DataServer that is stopped, is not kept until the end
            drain_log()
    result, error = outcome.pop()
    if error is not None:
        raise error
    return result


def _check_policy(found, policy: str | None) -> None:
    """The DataServer may be another rank's, or have been started for another loader."""
    if policy is None:
        return
    has = json.loads(found.status())["engine"]["policy"].replace("-", "_")
    if has != policy:
        raise errors.CallerError(
            f"policy={policy!r}: the DataServer of this job places batches by {has!r}; all loaders of a job have one policy,"
            " which its first loader chooses"
        )


def client(policy: str | None = None):
    """The client of this process, opened on first use. ``policy``: what its DataServer must place batches by."""
    global _client, _pid
    with _lock:
        if _client is not None and _pid == os.getpid() and not _client.closed:
            _check_policy(_client, policy)
            return _client
        path = program()
        if path is None:
            raise errors.CallerError(
                "the stoker program was not found beside this interpreter or on PATH; set STOKER_PROGRAM to its path"
            )
        rank, world = rank_and_world()
        local_rank, local_world = _local_rank_and_world()
        _client = interruptible(
            _core.Client,
            job_key=job_key(),
            program=path,
            shm_dir=os.environ.get("STOKER_SHM_DIR") or None,
            rank=rank,
            world_size=world,
            local_rank=local_rank,
            local_world_size=local_world,
            connect_timeout=_connect_timeout(),
            policy=None if policy is None else policy.replace("_", "-"),
        )
        _pid = os.getpid()
        _check_policy(_client, policy)
        return _client


def drain_log() -> None:
    """Pass records of the C library to the logger ``stoker``."""
    if _client is None or _pid != os.getpid():
        return
    for level, name, text, lost in _client.drain_log():
        if lost:
            _log.warning("%d log records were lost", lost)
        _log.log(_LEVELS[level], "%s: %s", name, text)


def held():
    """The client that client() would check first; None if there is none."""
    return _client


def discard(lost) -> None:
    """Forget a client whose DataServer is gone; the next loader starts another one."""
    global _client
    with _lock:
        if _client is lost:  # another loader may have opened the next one already
            _client = None


def close() -> None:
    """Leave the job; batches stay valid. A later loader connects again."""
    global _client
    with _lock:
        held, _client = _client, None
        if not all(done.is_set() for done in _opening):
            return  # someone pressed Ctrl-C during a call that still runs; the end of the process closes the connection
        if held is not None and _pid == os.getpid():
            held.close()


def _after_fork() -> None:
    """The parent's client is of no use in a child, and closing it is the parent's affair."""
    global _client, _lock
    _lock = threading.Lock()
    _client = None


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close)
