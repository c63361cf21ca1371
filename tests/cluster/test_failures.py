# SPDX-License-Identifier: Apache-2.0
"""Deaths, stops, signals and tight machines: real processes, one runtime per test.

The numbers in the names are situations that users of other loaders met (docs/explanation/situations.md), B7 is the
rule for finding the one DataServer of a job (docs/explanation/rules.md). A hang is always a failure: every wait has a
limit. STOKER_LONG=1 runs the long forms.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import support
from scripts import MIB, script, with_prelude
from support import finish, finish_well, wait_until


def in_mount_namespace(commands):
    """Prefix that runs a command in a private mount namespace after the shell `commands`; skips without permission."""
    prefix = ["unshare", "-m", "sh", "-c", f'{commands} && exec "$@"', "sh"]
    probe = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"no private mount namespace here: {probe.stderr.strip()}")
    return prefix


TINY_SHM = "mount --make-rprivate / && mount -t tmpfs -o size=16m tmpfs /dev/shm"

LARGE_SAMPLES = """
    loader = DistributedDataLoader(Numbers(24, size=MIB4), batch_size=8, num_workers=2)
    for batch in loader:
        say(*ids(batch))
""".replace("MIB4", str(4 * MIB // 8))


# ------------------------------------------------------------------------------------ 1. shared memory, memory growth


def test_situation_01_tiny_dev_shm(runtime):
    process = script(runtime, LARGE_SAMPLES, prefix=in_mount_namespace(TINY_SHM))
    assert finish_well(process).split() == [str(i) for i in range(24)]


def test_situation_01_tiny_directory_is_an_error_with_figures(runtime):
    folder = runtime.folder / "shm"
    folder.mkdir()
    prefix = in_mount_namespace(f"mount --make-rprivate / && mount -t tmpfs -o size=16m tmpfs '{folder}'")
    process = script(runtime, LARGE_SAMPLES, prefix=prefix, environment={"STOKER_SHM_DIR": str(folder)})
    status, _, err = finish(process)
    assert status == 1, err
    message = err.strip().splitlines()[-1]
    assert re.search(r"\d+\.\d MiB needed, \d+\.\d MiB available", message), err
    assert str(folder) in message and "max_bytes" in message


def test_situation_02_chosen_directory_is_used_and_emptied(runtime):
    folder = runtime.folder / "shm"
    folder.mkdir()
    body = """
        loader = DistributedDataLoader(Numbers(24, size=100000), batch_size=8, num_workers=2)
        kept = next(iter(loader))
        say("holding")
        sys.stdin.readline()
        if sys.argv[1] == "end":
            say(*ids(kept))
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    for how in ("end", "kill"):
        process = script(runtime, body, how, prefix=in_mount_namespace(TINY_SHM),
                         environment={"STOKER_SHM_DIR": str(folder)})
        assert process.read_line() == "holding"
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        assert f" {folder}/" in maps, "the batch does not lie in the directory"
        assert list(folder.iterdir()) == []  # unlinked from the start
        status, out, err = finish(process) if how == "kill" else (0, finish_well(process), "")
        assert status == (-signal.SIGKILL if how == "kill" else 0), err
        runtime.expect_clean()
        assert list(folder.iterdir()) == []


def test_situation_05_slow_consumer_is_bounded_and_flat(runtime):
    seconds = 60 if support.LONG else 10
    budget = 256 * MIB
    body = f"""
        loader = DistributedDataLoader(Numbers(10**6, size={8 * MIB // 8}), batch_size=8, num_workers=2,
                                       max_bytes={budget}, prefetch_batches=16)
        for step, batch in enumerate(loader):
            batch.sum()
            say(step)
            if step == {seconds}:
                break
            time.sleep(1)
    """
    try:
        group = runtime.memory_group()
    except OSError:
        group = None  # memory_use() then adds up what the processes have
    process = script(runtime, body, preexec_fn=group.enter if group else None)
    uses, held = [], []
    for step in range(seconds + 1):
        assert process.read_line() == str(step)
        uses.append(runtime.memory_use())
        held.append(runtime.segment_bytes())
    finish_well(process)
    assert max(held) <= budget
    # Private: two workers that each make a batch of 64 MiB, and the interpreters with torch (measured: 150 MiB each).
    assert max(uses) <= budget + 2 * 64 * MIB + 4 * 300 * MIB, [use // MIB for use in uses]
    half = len(uses) // 2  # what comes and goes between two looks is a private batch of each worker
    assert max(uses[half:]) <= max(uses[1:half + 1]) + 2 * 64 * MIB, [use // MIB for use in uses]


def test_situation_08_few_descriptors(runtime):
    body = """
        class Leaves(torch.utils.data.Dataset):
            def __len__(self):
                return 500
            def __getitem__(self, i):
                return {f"leaf{k}": torch.full((40000,), i) for k in range(8)}
        count = lambda: len(os.listdir("/proc/self/fd"))
        loader = DistributedDataLoader(Leaves(), batch_size=1, num_workers=2, max_bytes=128 << 20)
        before = count()
        kept = list(loader)
        peak = count()
        assert [int(batch["leaf7"][0, -1]) for batch in kept] == list(range(500))
        del kept
        loader.close()
        say(before, peak, count())
    """
    process = script(runtime, body, prefix=["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"])
    status, out, err = finish(process)
    if status != 0:
        assert "ulimit -n" in err and "64" in err, err
        return
    before, peak, after = map(int, out.split())
    assert peak <= 64 and after <= before + 4


# ----------------------------------------------------------------------------- 2. death, hangs, shutdown, leftovers


LOADERS = {
    "python": "DistributedDataLoader(Numbers(400, size=20000, cost_s=0.002), batch_size=4, num_workers=4, "
              "stall_limit_s=20)",
    "native": "DistributedDataLoader(clips(400), batch_size=4, num_workers=4, stall_limit_s=20)",
}

EPOCH = """
    import logging
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    loader = {loader}
    seen = []
    for step, batch in enumerate(loader):
        seen += ids(batch)
        if step == 5:
            say("running")
            sys.stdin.readline()
    assert seen == list(range(400)), seen
    say("retried", loader.stats()["tasks_retried"])
"""


def workers_of(runtime, kind):
    """Processes that make samples: native workers, or forked Python workers (children of the template)."""
    if kind == "native":
        return runtime.processes("worker")
    python = runtime.processes("python-worker")
    templates = {process.pid for process in python}
    return [process for process in python if process.parent in templates]


@pytest.mark.parametrize("kind", ["python", "native"])
def test_situation_09_killed_worker_costs_a_retry(runtime, kind):
    process = script(runtime, EPOCH.format(loader=LOADERS[kind]))
    assert process.read_line() == "running"
    victims = workers_of(runtime, kind)
    assert len(victims) == 4
    os.kill(victims[0].pid, signal.SIGKILL)
    wait_until(lambda: victims[0].pid not in [worker.pid for worker in workers_of(runtime, kind)])
    out = finish_well(process)
    assert out.startswith("retried")


@pytest.mark.parametrize("kind", ["python", "native"])
def test_situation_09_stopped_worker_is_replaced_with_a_warning(runtime, kind):
    process = script(runtime, EPOCH.format(loader=LOADERS[kind]))
    assert process.read_line() == "running"
    victims = workers_of(runtime, kind)
    for victim in victims:  # all of them: whichever holds a task is stopped
        os.kill(victim.pid, signal.SIGSTOP)
    status, out, err = finish(process, 120)
    assert status == 0, err
    warnings = [line for line in err.splitlines() if "state T" in line]
    assert any(f"pid {victim.pid}" in line for line in warnings for victim in victims), err


def test_dead_dataserver_is_named_within_two_seconds(runtime):
    body = """
        from stoker import errors
        loader = DistributedDataLoader(Numbers(10**6, cost_s=0.05), batch_size=4, num_workers=2)
        iterator = iter(loader)
        next(iterator)
        say("running")
        try:
            for batch in iterator:
                pass
        except errors.DataServerError as error:
            say(time.monotonic())
            say(error)
    """
    process = script(runtime, body)
    assert process.read_line() == "running"
    (server,) = runtime.processes("dataserver")
    killed = time.monotonic()
    os.kill(server.pid, signal.SIGKILL)
    raised, message = finish_well(process).splitlines()
    assert float(raised) - killed < 2.0
    assert str(server.pid) in message and "DataServer" in message


FOREVER = """
    loader = {loader}
    say("started")
    while True:
        for step, batch in enumerate(loader):
            if step == 3:
                say("running")
"""
FOREVER_LOADERS = {
    "python": "DistributedDataLoader(Numbers(10**5, cost_s=0.005), batch_size=4, num_workers=2)",
    "native": "DistributedDataLoader(clips(2000), batch_size=4, num_workers=2)",
}


@pytest.mark.parametrize(("kind", "whom"), [("python", "ranks"), ("native", "everything")])
def test_situation_12_killed_group_starts_again(runtime, kind, whom):
    """kill -9 of the ranks or of all processes at once, three times; then a run starts normally."""
    port = str(support.free_port())
    for _ in range(3):
        ranks = runtime.launch_ranks(2, with_prelude(FOREVER.format(loader=FOREVER_LOADERS[kind])),
                                     environment={"MASTER_PORT": port})
        for rank in ranks:
            assert rank.read_line() == "started"
            assert rank.read_line() == "running"
        assert len(runtime.processes("dataserver")) == 1
        victims = [rank.pid for rank in ranks] if whom == "ranks" else runtime.pids()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        for rank in ranks:
            rank.wait()
        # Started again at once, while the old DataServer may still be ending.
    ranks = runtime.launch_ranks(2, with_prelude("""
        for batch in DistributedDataLoader(Numbers(64), batch_size=4, num_workers=2):
            say(*ids(batch))
    """), environment={"MASTER_PORT": port})
    seen = sorted(int(word) for rank in ranks for word in finish_well(rank).split())
    assert seen == list(range(64))


@pytest.mark.parametrize("kind", ["python", "native"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_situation_15_signal_ends_all_at_once(runtime, kind, number):
    loader = FOREVER_LOADERS[kind].replace("num_workers=2", "num_workers=8")
    process = script(runtime, FOREVER.format(loader=loader))
    assert process.read_line() == "started"
    assert process.read_line() == "running"
    took = signal_and_wait(process, number)
    assert process.returncode in (-number, 128 + number)  # a shell reports both as 130 (SIGINT)
    runtime.expect_clean(10)
    # An interpreter with torch takes seconds to end by itself on a busy machine; ours may take two more.
    bare = script(runtime, "say('waits'); signal.pause()")
    assert bare.read_line() == "waits"
    assert took < 2.0 + signal_and_wait(bare, number)


def signal_and_wait(process, number):
    sent = time.monotonic()
    os.killpg(process.pid, number)
    process.wait(60)
    return time.monotonic() - sent


@pytest.mark.parametrize("kind", ["python", "native"])
def test_situation_18_one_exec_per_worker_at_most(runtime, kind):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = runtime.folder / "trace"
    loader = LOADERS[kind].replace("400", "64").replace("num_workers=4", "num_workers=8")
    body = f"loader = {loader}\nsay(sum(len(ids(batch)) for batch in loader))"
    process = script(runtime, body, prefix=["strace", "-f", "-qq", "-e", "trace=execve", "-o", str(trace)])
    assert finish_well(process, 240) == "64\n"
    runtime.expect_clean()
    execs = [line for line in trace.read_text().splitlines() if "execve(" in line and line.rstrip().endswith("= 0")]
    # Importing torch may ask ldconfig for libraries, where that is on the PATH.
    execs = [line for line in execs if "/ldconfig\"" not in line]
    # The rank itself, the DataServer, then: one template for all Python workers, or each native worker.
    assert len(execs) <= (3 if kind == "python" else 2 + 8), "\n".join(execs)


# ------------------------------------------------------------------------------------------- B7: the one DataServer

# Without torch, so that fifty of them start in seconds.
JOIN = """
    import sys
    from stoker import _plane
    client = _plane.client()
    print(client.server_pid, flush=True)
    sys.stdin.readline()
    _plane.close()
"""


def join_ranks(runtime, count, **options):
    return runtime.launch_ranks(count, JOIN, **options)


def test_b7_fifty_concurrent_starts_meet_in_one_server(runtime):
    ranks = join_ranks(runtime, 50)
    servers = {int(rank.read_line()) for rank in ranks}
    assert len(servers) == 1
    assert {process.pid for process in runtime.processes("dataserver")} == servers
    for rank in ranks:
        finish_well(rank)
    runtime.expect_clean()


def test_b7_owner_killed_before_the_server_runs(runtime):
    """The name is bound by someone who dies before (or after) he listens; the ranks that wait take over."""
    environment = {"MASTER_PORT": str(support.free_port())}
    (rank,) = join_ranks(runtime, 1, environment=environment)
    rank.read_line()
    (name,) = runtime.sockets()
    finish_well(rank)
    runtime.expect_clean()
    for listens in (False, True):
        owner = runtime.script(f"""
            import signal, socket
            holder = socket.socket(socket.AF_UNIX)
            holder.bind({chr(0) + name[1:]!r})
            if {listens}:
                holder.listen(256)
            print("bound", flush=True)
            signal.pause()
        """)
        assert owner.read_line() == "bound"
        (rank,) = join_ranks(runtime, 1, environment=environment)
        if listens:  # until it is in the queue of a listener that will never accept
            wait_until(lambda: connections_to(name) >= 1, 30, "the rank to connect")
        else:
            wait_until(lambda: waits_for_name(rank.pid), 30, "the rank to try")
        os.kill(owner.pid, signal.SIGKILL)
        server = int(rank.read_line())
        assert [process.pid for process in runtime.processes("dataserver")] == [server]
        finish_well(rank)
        runtime.expect_clean()


def connections_to(name):
    """Sockets of that name beyond the listening one: each stands for a connection."""
    lines = pathlib.Path("/proc/net/unix").read_text(errors="replace").splitlines()
    return sum(line.endswith(name) for line in lines) - 1


def waits_for_name(pid):
    """The interpreter has loaded the package, and a thread of it sleeps between two tries."""
    if "_core" not in pathlib.Path(f"/proc/{pid}/maps").read_text():
        return False
    return any("poll" in path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/wchan"))


def test_b7_two_jobs_at_once(runtime):
    body = """
        for batch in DistributedDataLoader(Numbers(int(sys.argv[1]), cost_s=0.001), batch_size=4, num_workers=2):
            say(*ids(batch))
    """
    jobs = [runtime.launch_ranks(2, with_prelude(body), count) for count in ("40", "60")]
    for job, count in zip(jobs, (40, 60)):
        seen = sorted(int(word) for rank in job for word in finish_well(rank).split())
        assert seen == list(range(count))


def test_b7_two_jobs_have_two_servers(runtime):
    jobs = [join_ranks(runtime, 2), join_ranks(runtime, 2)]
    servers = [{int(rank.read_line()) for rank in job} for job in jobs]
    assert [len(found) for found in servers] == [1, 1]
    assert servers[0] != servers[1]
    for job in jobs:
        for rank in job:
            finish_well(rank)


def test_b7_torchrun_with_a_restart(runtime):
    """Rank 1 of the first round dies; torchrun starts both again, and the second round sees every sample once."""
    body = with_prelude("""
        turn = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        rank = int(os.environ["RANK"])
        loader = DistributedDataLoader(Numbers(80, cost_s=0.002), batch_size=4, num_workers=2)
        with open(f"{sys.argv[1]}/seen-{turn}-{rank}", "w") as file:
            for step, batch in enumerate(loader):
                if turn == 0 and rank == 1 and step == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
                print(*ids(batch), file=file, flush=True)
    """)
    path = runtime.write("train.py", body)
    process = runtime.start([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts",
                             "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{support.free_port()}",
                             "--monitor-interval", "0.1", path, runtime.folder])
    status, out, err = finish(process, 240)
    assert status == 0, out + err
    seen = [(runtime.folder / f"seen-1-{rank}").read_text().split() for rank in (0, 1)]
    assert sorted(int(word) for words in seen for word in words) == list(range(80))
    assert (runtime.folder / "seen-0-1").read_text().count("\n") == 3
