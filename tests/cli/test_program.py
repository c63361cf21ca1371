# SPDX-License-Identifier: Apache-2.0
"""The program itself: help, version, usage errors; and that the manual says what the option tables say."""

import pathlib
import re

import pytest

MANUAL = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "cli.md"
COMMANDS = ["probe", "decode", "index", "manifest", "quarantine", "profile", "dataserver", "worker", "preprocess"]


def test_help_lists_every_command(stoker):
    for arguments in (["help"], ["-h"], ["--help"]):
        done = stoker(*arguments)
        assert done.returncode == 0 and done.stderr == ""
        for command in COMMANDS:
            assert re.search(rf"^  {command} ", done.stdout, re.M)


def test_version(stoker):
    done = stoker("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"stoker \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["help", "nonsense"], ["probe"], ["probe", "--nonsense", "a"],
                                       ["probe", "--json=1", "a"], ["decode", "a"], ["decode", "a", "b", "--frames", "0"],
                                       ["decode", "a", "--frames"], ["decode", "a", "--frames", "0,x", "-o", "b"],
                                       ["decode", "a", "--frames", "", "-o", "b"], ["decode", "a", "--frames", "-1", "-o", "b"],
                                       ["decode", "a", "--frames", "0", "--size", "12", "-o", "b"],
                                       ["decode", "a", "--frames", "0", "--size", "0x5", "-o", "b"]])
def test_usage_errors_end_with_2_and_name_the_fault(stoker, arguments):
    done = stoker(*arguments)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_manual_agrees_with_help(stoker, command):
    """Synopsis and every option of the help stand in the command's section of the manual, and no option only there."""
    done = stoker(command, "--help")
    assert done.returncode == 0
    section = MANUAL.read_text().split(f"\n## stoker {command}\n", 1)[1].split("\n## ", 1)[0]
    synopsis = re.match(r"usage: (stoker .*)", done.stdout).group(1)
    assert synopsis in section
    of_help = set(re.findall(r"^  (?:-\w, | +)?--([\w-]+)", done.stdout, re.M)) - {"help"}
    of_manual = set(re.findall(r"^\| `(?:-\w, )?--([\w-]+)", section, re.M))
    assert of_help == of_manual
    assert stoker("help", command).stdout == done.stdout
