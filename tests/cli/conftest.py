# SPDX-License-Identifier: Apache-2.0
"""What the command cases share: the program, and the golden clips."""

import os
import pathlib
import shutil
import subprocess

import pytest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "media"


@pytest.fixture(scope="session")
def program():
    found = os.environ.get("STOKER_PROGRAM") or shutil.which("stoker")
    assert found, "the stoker program is not on PATH (./dev run puts it there)"
    return found


@pytest.fixture
def stoker(program, tmp_path):
    """Call a command in a private folder; gives exit status, stdout and stderr as text."""

    def call(*arguments, **options):
        return subprocess.run([program, *map(str, arguments)], cwd=options.pop("cwd", tmp_path), capture_output=True,
                              text=True, timeout=120, stdin=subprocess.DEVNULL, **options)

    return call


@pytest.fixture(scope="session")
def golden():
    return GOLDEN
