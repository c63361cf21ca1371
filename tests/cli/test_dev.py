# SPDX-License-Identifier: Apache-2.0
"""./dev help: every benchmark is named, and what is named is there."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ALIASES = {"index", "place"}  # cells of tokens; a program in C


def test_help_names_every_benchmark():
    done = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and done.stderr == ""
    lines = re.search(r"^  bench .*\n((?: {22}\S.*\n)+)", done.stdout, re.M).group(1)
    named = {name.replace("-", "_") for name in lines.split()}
    assert ALIASES < named
    texts = {path.stem: path.read_text() for path in (ROOT / "bench").glob("*.py")}
    assert named - ALIASES <= set(texts)
    programs = {name for name, text in texts.items() if re.search(r'^"""\./dev bench ', text, re.M)}
    assert "redistribute" in programs and programs <= named
