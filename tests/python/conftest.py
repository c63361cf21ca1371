# SPDX-License-Identifier: Apache-2.0
"""Every test has a time limit, and leaves no process, socket or segment of the plane behind."""

import faulthandler
import gc
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cluster"))

import support  # noqa: E402

LIMIT_S = 180


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): time limit of a test, instead of the usual one")


@pytest.fixture(autouse=True)
def time_limit(request):
    """A hang is a failure: stacks of all threads, then an exception in the main thread."""
    marker = request.node.get_closest_marker("limit")
    seconds = marker.args[0] if marker else LIMIT_S

    def late(number, frame):
        faulthandler.dump_traceback(all_threads=True)
        raise TimeoutError(f"the test took more than {seconds} s")

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture
def runtime(tmp_path):
    """A private runtime for processes that the test starts; nothing of it may be left."""
    made = support.Runtime(tmp_path)
    try:
        yield made
        made.expect_clean()
    finally:
        made.kill_all()


@pytest.fixture(autouse=True)
def plane(tmp_path_factory, monkeypatch, time_limit):
    """This process as a rank of its own job, in a runtime that ends clean."""
    made = support.Runtime(tmp_path_factory.mktemp("plane"))
    for name in list(os.environ):
        if name.startswith(("TORCHELASTIC_", "SLURM_")) or name in (
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "LOCAL_WORLD_SIZE",
            "MASTER_ADDR",
            "MASTER_PORT",
            "STOKER_SHM_DIR",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv(support.MARKER, made.id)
    yield made
    gc.collect()
    if "stoker._plane" in sys.modules:  # pure tests run without the extension module
        sys.modules["stoker._plane"].close()
    gc.collect()
    try:
        made.expect_clean()
    finally:
        made.kill_all()
