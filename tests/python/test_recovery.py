# SPDX-License-Identifier: Apache-2.0
"""After an accident of the plane or of user code: the loader goes on, or says clearly why not."""

import os
import signal

import pytest
from datasets import D
from support import wait_until

from stoker import errors
from stoker.torch import DistributedDataLoader

pytestmark = pytest.mark.limit(60)


def _same(i):
    return i


def _end_dataserver(plane):
    """Killed while no iteration runs."""
    server = plane.processes("dataserver")[0].pid
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not plane.processes("dataserver"), 10, "the DataServer to end")
    wait_until(lambda: not plane.processes("python-worker"), 10, "its workers to end")


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("then", ["same loader", "another loader", "closed loader"])
def test_dataserver_killed_between_iterations(plane, persistent, then):
    options = dict(batch_size=4, num_workers=2, persistent_workers=persistent)
    loader = DistributedDataLoader(D(_same, 16), **options)
    expected = [batch.tolist() for batch in loader]
    _end_dataserver(plane)
    if then == "closed loader":
        loader.close()
    elif then == "another loader":
        loader = DistributedDataLoader(D(_same, 16), **options)
    for _ in range(2):
        try:
            got = [batch.tolist() for batch in loader]
        except errors.DataServerError:  # the end was not noticed before iter() was over: once
            got = [batch.tolist() for batch in loader]
        assert got == expected
