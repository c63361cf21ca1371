# SPDX-License-Identifier: Apache-2.0
"""What tests with real processes share: a private runtime that knows everything a test started.

Each test gets a `Runtime` (fixture `runtime`). All processes that it starts, and all that those start, carry
STOKER_TEST_ID in their environment, so that processes, abstract sockets and shared segments can be counted and ended
per test, whatever became of their parents, and beside other jobs on the same machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid

MARKER = "STOKER_TEST_ID"
# A process that is just executing a program shows no environment: nothing is gone before several looks in a row say so.
CLEAN_LOOKS = 3
LONG = os.environ.get("STOKER_LONG") == "1"


@dataclasses.dataclass(frozen=True)
class Process:
    """One process that carries the marker of a test."""

    pid: int
    parent: int
    state: str
    command: tuple[str, ...]

    @property
    def kind(self) -> str:
        """'dataserver', 'worker' (native), 'python-worker' (template or forked worker), or 'other'."""
        words = self.command
        if len(words) > 1 and os.path.basename(words[0]) == "stoker" and words[1] in ("dataserver", "worker"):
            return words[1]
        if "stoker.worker" in words:
            return "python-worker"
        return "other"


@dataclasses.dataclass(frozen=True)
class Leftovers:
    """What is left of a test; false if nothing is."""

    processes: list[Process]
    sockets: list[str]
    segments: list[str]

    def __bool__(self) -> bool:
        return bool(self.processes or self.sockets or self.segments)


def wait_until(condition, timeout_s: float = 30.0, what: str = "the condition"):
    """Call `condition` until it gives something true, and give that. AssertionError after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s in vain for {what}; last: {result!r}")
        time.sleep(0.01)


def _read(path: str, default: bytes = b"") -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return default


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def describe(pid: int) -> Process | None:
    """The process as it is now, None if it has ended and been collected."""
    stat = _read(f"/proc/{pid}/stat").decode(errors="replace")
    if not stat:
        return None
    fields = stat[stat.rindex(")") + 2:].split()
    command = tuple(word.decode(errors="replace") for word in _read(f"/proc/{pid}/cmdline").split(b"\0")[:-1])
    return Process(pid, int(fields[1]), fields[0], command)


def _open_files(pid: int) -> list[tuple[str, str]]:
    """(path below /proc, what it points to) for every descriptor of a process that we may look into."""
    found = []
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                path = f"/proc/{pid}/fd/{number}"
                found.append((path, os.readlink(path)))
    return found


def share(pid: int) -> int:
    """Bytes of the proportional share of one process."""
    for line in _read(f"/proc/{pid}/smaps_rollup").decode().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def memory_use(pids: list[int]) -> int:
    """Bytes of memory that the processes use together, shared pages counted once.

    The use of their memory cgroup (without file cache) if they have one for themselves; else the sum of their
    proportional shares, plus those pages of shared segments that one of them holds open and none has mapped."""
    group = _own_group(pids)
    if group is not None:
        return _group_use(group)
    total = 0
    mapped: dict[int, int] = {}  # segment -> its part of the shares
    segments: dict[int, int] = {}  # segment -> bytes in memory
    for pid in pids:
        total += share(pid)
        inode = None
        for line in _read(f"/proc/{pid}/smaps").decode(errors="replace").splitlines():
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                inode = int(words[4]) if len(words) > 5 and words[5].startswith("/memfd:stoker") else None
            elif inode is not None and words[0] == "Pss:":
                mapped[inode] = mapped.get(inode, 0) + int(words[1]) * 1024
        for path, target in _open_files(pid):
            if target.startswith("/memfd:stoker"):
                with contextlib.suppress(OSError):
                    info = os.stat(path)
                    segments[info.st_ino] = info.st_blocks * 512
    for inode, size in segments.items():
        total += max(0, size - mapped.get(inode, 0))
    return total


def _memory_group(pid: int) -> str | None:
    """Folder of the memory cgroup of a process."""
    version_2 = None
    for line in _read(f"/proc/{pid}/cgroup").decode().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return f"/sys/fs/cgroup/memory{path}"
        if not controllers:
            version_2 = f"/sys/fs/cgroup{path}"
    return version_2 if version_2 and os.path.exists(f"{version_2}/memory.current") else None


def _own_group(pids: list[int]) -> str | None:
    groups = {_memory_group(pid) for pid in pids if os.path.exists(f"/proc/{pid}")}
    if len(groups) != 1 or None in groups:
        return None
    group = groups.pop()
    members = {int(word) for word in _read(f"{group}/cgroup.procs").split()}
    return group if members and members <= set(pids) else None


def _group_use(group: str) -> int:
    stat = dict(line.split() for line in _read(f"{group}/memory.stat").decode().splitlines())
    current = _read(f"{group}/memory.current")
    if current:
        return int(current) - int(stat["active_file"]) - int(stat["inactive_file"])
    use = int(_read(f"{group}/memory.usage_in_bytes"))
    return use - int(stat["total_active_file"]) - int(stat["total_inactive_file"])


class MemoryGroup:
    """A memory cgroup below our own, for one test. OSError where the machine or user permits none."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        base = _memory_group(os.getpid())
        if base is None:
            raise OSError("no memory cgroup is visible")
        self.path = f"{base}/stk-test-{uuid.uuid4().hex[:12]}"
        os.mkdir(self.path)
        try:
            name = "memory.limit_in_bytes" if os.path.exists(f"{base}/memory.limit_in_bytes") else "memory.max"
            if not os.path.exists(f"{self.path}/{name}"):
                raise OSError("the memory controller is not handed down to new groups")
            if limit_bytes is not None:
                pathlib.Path(self.path, name).write_text(str(limit_bytes))
        except OSError:
            os.rmdir(self.path)
            raise

    def enter(self) -> None:
        """Move the calling process there; for preexec_fn."""
        with open(f"{self.path}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))

    def use(self) -> int:
        return _group_use(self.path)

    def close(self) -> None:
        def removed():
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
            return not os.path.exists(self.path)
        wait_until(removed, 30, "the memory cgroup to empty")


class Started(subprocess.Popen):
    """A process whose stdout and stderr are files: nobody has to read along, and the DataServer that a rank started may
    keep them open after the rank has ended (a pipe would then have no end)."""

    def __init__(self, command, base: pathlib.Path, **options) -> None:
        self.out_path, self.err_path = pathlib.Path(f"{base}.out"), pathlib.Path(f"{base}.err")
        self._read = 0
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            super().__init__(command, stdout=out, stderr=err, **options)

    def _rest(self) -> bytes:
        with open(self.out_path, "rb") as file:
            file.seek(self._read)
            return file.read()

    def read_line(self, timeout_s: float = 120.0) -> str:
        """The next line of stdout; AssertionError with stderr if the process ends before."""
        def line():
            ended = self.poll() is not None  # before the look at the file: what it wrote is there then
            text, end, _ = self._rest().partition(b"\n")
            if end:
                self._read += len(text) + 1
                return text.decode(errors="replace"), None
            return ended and (None, self.returncode)
        text, status = wait_until(line, timeout_s, f"a line of {self.args}")
        assert text is not None, f"exit {status} before a line came\n{self.err()}"
        return text

    def out(self) -> str:
        """Stdout behind the lines that were read."""
        return self._rest().decode(errors="replace")

    def err(self) -> str:
        return self.err_path.read_text(errors="replace")

    def say(self, text: str = "") -> None:
        """One line to its stdin."""
        self.stdin.write(text + "\n")
        self.stdin.flush()


class Runtime:
    """Starts the processes of one test and knows what is left of them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.id = uuid.uuid4().hex
        self.environment = {**os.environ, MARKER: self.id, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            self.environment.pop(name, None)
        for name in [name for name in self.environment if name.startswith(("TORCHELASTIC_", "STOKER_"))]:
            if name not in (MARKER, "STOKER_PROGRAM"):
                del self.environment[name]
        self._started: list[Started] = []
        self._groups: list[MemoryGroup] = []

    # ------------------------------------------------------------------------------------------------------- starting

    def write(self, name: str, text: str) -> pathlib.Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def start(self, command, environment: dict | None = None, **options) -> Started:
        """Start a command in a session of its own. Its stdin is a pipe: there it may wait until we let it go on."""
        options = {"stdin": subprocess.PIPE, "start_new_session": True, "text": True, "cwd": self.folder, **options}
        process = Started([str(word) for word in command], self.folder / f"process-{len(self._started)}",
                          env={**self.environment, **(environment or {})}, **options)
        self._started.append(process)
        return process

    def script(self, text: str, *arguments, environment: dict | None = None, prefix=(), **options) -> Started:
        """Start a Python script (its text) with the interpreter of the tests, behind the words of `prefix`."""
        path = self.write(f"script_{len(self._started)}.py", text)
        return self.start([*prefix, sys.executable, path, *arguments], environment, **options)

    def launch_ranks(self, count: int, text: str, *arguments, environment: dict | None = None,
                     **options) -> list[Started]:
        """Start `count` ranks of one job on this host, as a launcher would: same script, environment of torchrun."""
        path = self.write(f"ranks_{len(self._started)}.py", text)
        job = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(free_port())}
        return [self.start([sys.executable, path, *arguments],
                           {**job, "RANK": str(rank), "LOCAL_RANK": str(rank), **(environment or {})}, **options)
                for rank in range(count)]

    def memory_group(self, limit_bytes: int | None = None) -> MemoryGroup:
        """A memory cgroup for processes of this test (preexec_fn=group.enter), removed at its end. OSError if none."""
        group = MemoryGroup(limit_bytes)
        self._groups.append(group)
        return group

    # -------------------------------------------------------------------------------------------------------- looking

    def pids(self) -> list[int]:
        """Every process that carries the marker, dead ones that nobody has collected too."""
        mark = f"{MARKER}={self.id}".encode()
        return [pid for pid in _all_pids() if pid != os.getpid()
                and mark in _read(f"/proc/{pid}/environ").split(b"\0")]

    def processes(self, kind: str | None = None) -> list[Process]:
        found = [process for process in map(describe, self.pids()) if process is not None]
        return [process for process in found if kind is None or process.kind == kind]

    def sockets(self) -> list[str]:
        """Abstract sockets of stoker that one of our processes holds."""
        names = {}
        for line in _read("/proc/net/unix").decode(errors="replace").splitlines()[1:]:
            words = line.split()
            if len(words) > 7 and words[7].startswith("@stoker-"):
                names[f"socket:[{words[6]}]"] = words[7]
        return sorted({names[target] for pid in self.pids() for _, target in _open_files(pid) if target in names})

    def segments(self) -> list[str]:
        """Shared segments that one of our processes holds open or mapped: 'pid: name'."""
        found = set()
        for pid in self.pids():
            found |= {f"{pid}: {target}" for _, target in _open_files(pid) if target.startswith("/memfd:stoker")}
            for line in _read(f"/proc/{pid}/maps").decode(errors="replace").splitlines():
                words = line.split(maxsplit=5)
                if len(words) > 5 and words[5].startswith("/memfd:stoker"):
                    found.add(f"{pid}: {words[5]}")
        return sorted(found)

    def segment_bytes(self) -> int:
        """Bytes in memory of the segments that our processes hold open; the DataServer holds all of them."""
        sizes = {}
        for pid in self.pids():
            for path, target in _open_files(pid):
                if target.startswith("/memfd:stoker"):
                    with contextlib.suppress(OSError):
                        info = os.stat(path)
                        sizes[info.st_ino] = info.st_blocks * 512
        return sum(sizes.values())

    def leftovers(self) -> Leftovers:
        return Leftovers(self.processes(), self.sockets(), self.segments())

    def memory_use(self) -> int:
        return memory_use(self.pids())

    # ---------------------------------------------------------------------------------------------------------- ending

    def expect_clean(self, timeout_s: float = 10.0) -> None:
        """Wait until nothing is left of the test; our own children are collected on the way."""
        looks = 0

        def clean():
            nonlocal looks
            for process in self._started:
                process.poll()
            looks = 0 if self.leftovers() else looks + 1
            return looks == CLEAN_LOOKS
        try:
            wait_until(clean, timeout_s)
        except AssertionError:
            raise AssertionError(f"left after {timeout_s} s: {self.leftovers()}") from None

    def kill_all(self) -> None:
        """SIGKILL to everything that carries the marker, until nothing does."""
        looks = 0

        def gone():
            nonlocal looks
            for process in self._started:
                process.poll()
            alive = [process.pid for process in self.processes() if process.state != "Z"]
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            looks = 0 if alive else looks + 1
            return looks == CLEAN_LOOKS
        wait_until(gone, 30, "the processes of the test to die")
        for group in self._groups:
            group.close()
        self._groups.clear()
        for process in self._started:
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()


def finish(process: Started, timeout_s: float = 120.0) -> tuple[int, str, str]:
    """Close its stdin and wait for its end: exit status, unread stdout, stderr. AssertionError if it does not end."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise AssertionError(f"no end within {timeout_s} s: {process.args}\n{process.out()}\n{process.err()}") from None
    return status, process.out(), process.err()


def finish_well(process: Started, timeout_s: float = 120.0) -> str:
    """As finish, and the exit status must be 0; gives stdout."""
    status, out, err = finish(process, timeout_s)
    assert status == 0, f"exit {status}\n{out}\n{err}"
    return out


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
