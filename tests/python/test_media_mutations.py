# SPDX-License-Identifier: Apache-2.0
"""A short run of the driver that sends mutated media files through workers; the long one is tests/fuzz/media_mutations.py."""

import json
import pathlib

import pytest
from support import finish_well

DRIVER = pathlib.Path(__file__).resolve().parent.parent / "fuzz/media_mutations.py"


@pytest.mark.limit(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_files_are_samples_or_clean_errors(runtime, tmp_path, seed):
    import sys

    process = runtime.start([sys.executable, DRIVER, "--files", "192", "--seed", str(seed), "--keep", tmp_path / "kept"])
    found = json.loads(finish_well(process, 280))
    kept = sorted(path.name for path in tmp_path.glob("kept/*"))
    assert found["files"] >= 192 and found["bad"] == [] and found["samples"] > 0 and found["errors"] > 0
    assert (found["crashes"], found["overran"], kept) == (0, 0, [])
    assert process.err() == ""
