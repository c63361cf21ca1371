# SPDX-License-Identifier: Apache-2.0
"""The helpers must see what they are there to find."""

import os
import signal

import pytest
import support

HOLDER = """
    import mmap, os, socket, sys
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\\0stoker-" + os.environ["STOKER_TEST_ID"])
    segment = os.memfd_create("stoker")
    os.ftruncate(segment, 8 << 20)
    os.posix_fallocate(segment, 0, 8 << 20)
    if sys.argv[1] == "map":
        view = mmap.mmap(segment, 8 << 20)
        os.close(segment)
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["open", "map"])
def test_leftovers_of_a_test_are_found(runtime, how):
    assert not runtime.leftovers()
    holder = runtime.script(HOLDER, how)
    assert holder.read_line() == "ready"
    left = runtime.leftovers()
    assert [process.pid for process in left.processes] == [holder.pid]
    assert left.sockets == [f"@stoker-{runtime.id}"]
    assert len(left.segments) == 1
    with pytest.raises(AssertionError, match="left after"):
        runtime.expect_clean(0.1)
    os.kill(holder.pid, signal.SIGKILL)
    runtime.expect_clean()


def test_orphans_are_found_and_ended(runtime):
    process = runtime.start(["sh", "-c", "sleep 1000 & echo $!"])
    orphan = int(process.read_line())
    process.wait()
    support.wait_until(lambda: [found.pid for found in runtime.processes()] == [orphan], what="the orphan alone")
    runtime.kill_all()
    assert not runtime.leftovers()


def test_memory_of_open_and_mapped_segments_counts_once(runtime):
    text = """
        import mmap, os, sys
        segment = os.memfd_create("stoker")
        os.posix_fallocate(segment, 0, 64 << 20)
        for part in range(2):
            print("ready", flush=True)
            sys.stdin.readline()
            view = mmap.mmap(segment, 64 << 20)
            view[:32 << 20] = bytes(32 << 20)
    """
    process = runtime.script(text)
    assert process.read_line() == "ready"
    before = support.memory_use([process.pid])
    process.say()
    assert process.read_line() == "ready"
    after = support.memory_use([process.pid])
    assert before > 64 << 20
    assert abs(after - before) < 8 << 20  # the interpreter's own pages move a little
    support.finish_well(process)


def test_memory_of_a_group_of_its_own(runtime):
    try:
        group = runtime.memory_group()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    process = runtime.script("import sys; kept = bytearray(b'x') * (50 << 20); print(1, flush=True); sys.stdin.read()",
                             preexec_fn=group.enter)
    process.read_line()
    assert support.memory_use([process.pid]) > 50 << 20
    support.finish_well(process)
