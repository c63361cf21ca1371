# SPDX-License-Identifier: Apache-2.0
"""What every benchmark here needs: paired statistics, the cost of a group of processes, and where results go.

A contender is a set of processes: the one that was started and all that it started, detached ones included. They are found
by a marker in their environment, because a DataServer leaves the process tree of the rank that started it. CPU time is the
sum over those processes (and their reaped children) between two moments at which all of them live; memory is the sum of
proportional set sizes, in which shared memory that nobody has mapped yet is counted by the size of its file.
"""

import contextlib
import csv
import datetime
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import threading
import time

BENCH = pathlib.Path(__file__).resolve().parent
RESULTS_CSV = BENCH / "results.csv"
RESULTS_MD = BENCH / "RESULTS.md"
MARKER = "STOKER_BENCH_GROUP"
TICK = os.sysconf("SC_CLK_TCK")


def log(text):
    print(text, file=sys.stderr, flush=True)


# ----------------------------------------------------------------------------------------------------------- statistics

def median_interval(values, confidence=0.95, draws=5000, seed=1):
    """Median and its bootstrap interval: (median, low, high)."""
    rng = random.Random(seed)
    middle = statistics.median(values)
    if len(values) < 2:
        return middle, middle, middle
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(draws))
    cut = (1 - confidence) / 2
    return middle, medians[int(cut * draws)], medians[min(draws - 1, int((1 - cut) * draws))]


def percentile(values, share):
    """Nearest-rank percentile; 0 for no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(-(-share * len(ordered) // 1)) - 1))]


# ------------------------------------------------------------------------------------------------------------ processes

def group_pids(name):
    """Processes whose environment carries MARKER=name."""
    needle = f"{MARKER}={name}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if needle in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue
    return found


def cpu_seconds(pids):
    """User and system time of the processes and of the children that they have reaped."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            total += sum(int(value) for value in fields[11:15])
        except OSError:
            continue
    return total / TICK


def _rollup(pid):
    sizes = {}
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            parts = line.split()
            if len(parts) == 3 and parts[2] == "kB":
                sizes[parts[0]] = int(parts[1]) * 1024
    return sizes


def memory_bytes(pids):
    """Memory of a group: PSS, with shared memory counted by its files where that is more than what is mapped."""
    private = shared = 0
    files = {}
    for pid in pids:
        try:
            sizes = _rollup(pid)
            shared += sizes.get("Pss_Shmem:", 0)
            private += sizes.get("Pss:", 0) - sizes.get("Pss_Shmem:", 0)
            for fd in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{fd}"
                if os.readlink(path).startswith(("/memfd:", "/dev/shm/")):
                    status = os.stat(path)
                    files[status.st_dev, status.st_ino] = status.st_blocks * 512
        except OSError:
            continue
    return private + max(shared, sum(files.values()))


class Meter:
    """Watches a group: peak memory while it runs, CPU time between start() and stop()."""

    def __init__(self, group, period_s=0.25):
        self.group = group
        self.period_s = period_s
        self.samples = []  # (seconds since start, bytes)

    def start(self):
        self.samples = []
        self.pids = group_pids(self.group)
        self.begin_cpu = cpu_seconds(self.pids)
        self.begin = time.monotonic()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while True:
            self.samples.append((time.monotonic() - self.begin, memory_bytes(self.pids)))
            if self.done.wait(self.period_s):
                return

    def stop(self):
        """CPU seconds, peak bytes."""
        pids = group_pids(self.group)
        cpu = cpu_seconds(pids) - self.begin_cpu
        self.done.set()
        self.thread.join()
        return cpu, max(size for _, size in self.samples)


class Contender:
    """A program under test in its own process, which answers one line of JSON to each command line."""

    def __init__(self, name, script, form, **environment):
        self.name, self.form = name, form
        self.group = f"{os.getpid()}-{name}-{random.getrandbits(32):08x}"
        self.process = subprocess.Popen([sys.executable, script, json.dumps(form)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment, MARKER: self.group})

    def ask(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def measure(self, command):
        """Answer, CPU seconds and peak bytes of one command."""
        meter = Meter(self.group)
        meter.start()
        answer = self.ask(command)
        return answer, *meter.stop()

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(handlers):
    """The other end of a Contender: answer commands from stdin until it closes."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may write among the replies
    for line in sys.stdin:
        replies.write(json.dumps(handlers[line.strip()]()) + "\n")
        replies.flush()


# -------------------------------------------------------------------------------------------------------------- results

def machine():
    model = "unknown CPU"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) / 1048576
    return f"{len(os.sched_getaffinity(0))} CPUs ({model}), {memory:.0f} GiB, Linux {platform.release()}"


def versions():
    from importlib import metadata
    names = ["torch", "av", "torchcodec", "numpy"]
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


def load_note():
    """What else ran: the one-minute load when the benchmark began, above which ratios should be read with care."""
    return f"load {os.getloadavg()[0]:.1f} before the run"


CSV_FIELDS = ["time", "benchmark", "cell", "measure", "value", "low", "high", "pairs", "unit", "note"]


def record(benchmark, cell, rows, note):
    """Append rows (measure, value, low, high, pairs, unit) to results.csv."""
    fresh = not RESULTS_CSV.exists()
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open(RESULTS_CSV, "a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(CSV_FIELDS)
        for measure, value, low, high, pairs, unit in rows:
            writer.writerow([now, benchmark, cell, measure, f"{value:.6g}", f"{low:.6g}", f"{high:.6g}", pairs, unit, note])


def publish(section, lines):
    """Replace one section of RESULTS.md (from its heading to the next)."""
    heading = f"## {section}"
    text = RESULTS_MD.read_text() if RESULTS_MD.exists() else "# Results\n"
    parts = text.split("\n## ")
    kept = [part for part in parts[1:] if part.split("\n", 1)[0] != section]
    body = "\n".join([heading, "", *lines]).rstrip() + "\n"
    kept.append(body[3:])
    order = {"loader": 0, "handoff": 1, "memory": 2, "demo": 3, "tokens": 4, "preprocess": 5, "images": 6, "media": 7}
    kept.sort(key=lambda part: order.get(part.split("\n", 1)[0].split()[0], 9))
    RESULTS_MD.write_text(parts[0].rstrip() + "\n" + "".join("\n## " + part.rstrip() + "\n" for part in kept))


def table(header, rows):
    """A Markdown table; also readable in a terminal."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines
