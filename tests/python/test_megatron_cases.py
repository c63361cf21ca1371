# SPDX-License-Identifier: Apache-2.0
"""The fixed cases of whole builds, made by the reference: cache files, indexes and items, byte for byte."""

import importlib.util
import json
import os
import pathlib
import sys

import pytest

pytest.importorskip("numpy")

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron"
CASES = sorted(path.name for path in (FOLDER / "datasets").iterdir() if (path / "case.json").exists())


def runner():
    name = "run_dataset_cases"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    assert list(runner().run_case(str(FOLDER / "datasets" / name))) == []


def test_all_cases_are_there():
    assert len(CASES) == 23


def built(name, folder, changes=()):
    """The splits of a case, built in ``folder``, which becomes the current one."""
    case = json.loads((FOLDER / "datasets" / name / "case.json").read_text())
    if not (folder / "data").exists():
        (folder / "data").symlink_to(FOLDER / "datasets" / name / "data")
    os.chdir(folder)
    return runner().build(case, dict(changes))[1]


def test_the_second_pass_of_fast_load_reads_what_the_first_wrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "19_fast_cache_load_second_pass"
    second = json.loads((FOLDER / "datasets" / name / "case.json").read_text())["second_pass"]
    first = built(name, tmp_path)
    items = [[dataset[i] for i in range(len(dataset))] for dataset in first[:2]]
    lengths = [len(dataset) for dataset in first[:2]]
    del first
    files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    again = built(name, tmp_path, second)
    assert again[2] is None
    assert [len(dataset) for dataset in again[:2]] == lengths
    for dataset, wanted in zip(again[:2], items, strict=True):
        for i, item in enumerate(wanted):
            got = dataset[i]
            assert list(got) == list(item)
            assert all((got[key] == item[key]).all() for key in item if key != "dataset_id")
            assert got.get("dataset_id") == item.get("dataset_id")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()} == files


def test_an_oversampling_blend_names_the_dataset_that_is_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # nothing of the blend was kept
        with pytest.raises(IndexError) as caught:
            built("22_oversample_error", tmp_path)
        text = str(caught.value)
        assert "requests 46 samples from GPTDataset number 1 in excess of its size 45" in text
        assert "mid_level_dataset_surplus may be increased" in text and "data/k1" in text
    assert not list((tmp_path / "cache").glob("*-BlendedDataset-*.npy"))


def test_a_negative_offset_is_an_assertion_error_as_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError) as caught:
        built("23_empty_last_document_partial_error", tmp_path)
    assert "valid" in str(caught.value)
