# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the cluster tests."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import support  # noqa: E402


@pytest.fixture
def runtime(tmp_path):
    """A private runtime. At the end of a test that passed nothing of it may be left; after a failure it is ended."""
    made = support.Runtime(tmp_path)
    try:
        yield made
        made.expect_clean()
    finally:
        made.kill_all()
