# SPDX-License-Identifier: Apache-2.0
"""The Python of the documentation runs as written: the blocks of one page, in order, in one fresh folder with clips in it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLIPS = ["h264_bframes_g12.mp4", "hevc10_opengop.mp4", "rot90.mp4", "vfr.mp4", "vp9_odd227x171.webm"]
BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_as_written(page, tmp_path):
    (tmp_path / "clips").mkdir()
    for name in CLIPS:
        shutil.copy(ROOT / "tests" / "golden" / "media" / name, tmp_path / "clips")
    blocks = BLOCK.findall(page.read_text())
    files = {attribute.split("file=")[1].strip(): text for attribute, text in blocks if "file=" in attribute}
    (tmp_path / "page.py").write_text("\n".join(text for attribute, text in blocks if "file=" not in attribute))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    run([sys.executable, "page.py"], tmp_path)
    for name in files:
        run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", name], tmp_path)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout[-4000:]
