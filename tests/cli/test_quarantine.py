# SPDX-License-Identifier: Apache-2.0
"""stoker quarantine: list, export, clear."""

import json
import sqlite3

import pytest


@pytest.fixture
def bad(tmp_path):
    """A list with two files, made as docs/reference/quarantine.md says."""
    path = tmp_path / "bad.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript("""
            CREATE TABLE bad_file (path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
                status TEXT NOT NULL, error TEXT NOT NULL, count INTEGER NOT NULL, first_seen INTEGER NOT NULL,
                last_seen INTEGER NOT NULL, PRIMARY KEY (path, size, mtime_ns)) WITHOUT ROWID;
            PRAGMA application_id = 1398033233; PRAGMA user_version = 1;""")
        database.execute("INSERT INTO bad_file VALUES (?, 7, 9, 'CORRUPT', 'moov atom not found', 3, 0, 86400)",
                         (str(tmp_path / "b.mp4"),))
        database.execute("INSERT INTO bad_file VALUES ('/a \"quoted\".mp4', 0, 0, 'NOT_FOUND', 'gone', 1, 0, 60)")
    return path


def test_list_shows_each_file_and_the_digest(stoker, bad):
    done = stoker("quarantine", "list", str(bad))
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[1].split()[:3] == ["NOT_FOUND", "1", "1970-01-01T00:01:00Z"]
    assert lines[2].endswith("b.mp4: moov atom not found") and lines[2].split()[:2] == ["CORRUPT", "3"]
    assert lines[3].startswith("2 files, digest ") and len(lines[3].split()[-1]) == 64


def test_export_prints_json_lines(stoker, bad, tmp_path):
    done = stoker("quarantine", "export", str(bad))
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and len(entries) == 2
    assert entries[1] == {"schema": "stoker.quarantine/1", "path": str(tmp_path / "b.mp4"), "bytes": 7, "mtime_ns": 9,
                          "status": "CORRUPT", "error": "moov atom not found", "count": 3,
                          "first_seen": "1970-01-01T00:00:00Z", "last_seen": "1970-01-02T00:00:00Z"}
    assert stoker("quarantine", "list", "--json", str(bad)).stdout == done.stdout


def test_clear_removes_files_by_name_or_all(stoker, bad):
    done = stoker("quarantine", "clear", str(bad), "b.mp4", "/nowhere")
    assert (done.returncode, done.stdout) == (1, "1 entries removed\n")
    assert done.stderr == "stoker quarantine: '/nowhere' is not on the list\n"
    assert stoker("quarantine", "clear", str(bad), "--all").stdout == "1 entries removed\n"
    assert stoker("quarantine", "export", str(bad)).stdout == ""


@pytest.mark.parametrize("arguments, status, words", [
    ([], 2, "usage: stoker quarantine list|export|clear LIST"),
    (["show"], 2, "none of list, export, clear"),
    (["list"], 2, "needs the path"),
    (["clear", "LIST"], 2, "either files or --all"),
    (["clear", "LIST", "a", "--all"], 2, "either files or --all"),
    (["list", "LIST", "more"], 2, "unexpected argument 'more'"),
    (["list", "NOWHERE"], 3, "cannot open the quarantine list"),
    (["clear", "NOWHERE", "--all"], 3, "cannot open the quarantine list"),
    (["list", "WORDS"], 3, "is no quarantine list"),
])
def test_what_cannot_be_done_is_named(stoker, bad, tmp_path, arguments, status, words):
    (tmp_path / "words").write_text("notes of somebody, which are no database " * 9)
    names = {"LIST": bad, "NOWHERE": tmp_path / "nowhere", "WORDS": tmp_path / "words"}
    done = stoker("quarantine", *(str(names.get(argument, argument)) for argument in arguments))
    assert done.returncode == status and words in done.stderr and done.stdout == ""
    assert not (tmp_path / "nowhere").exists()
