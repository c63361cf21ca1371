# SPDX-License-Identifier: Apache-2.0
"""docs/reference/python.md says what the code says: signatures, keys of stats(), variables, modules."""

import ast
import importlib
import inspect
import pathlib
import re

import pytest

from stoker import captions, manifest, manifests, media, webdataset
from stoker.torch import DistributedDataLoader

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text()
DOCUMENTED = {
    "VideoDataset": media.VideoDataset,
    "ImageDataset": media.ImageDataset,
    "Augment": media.Augment,
    "AudioDataset": media.AudioDataset,
    "probe_audio": media.probe_audio,
    "ManifestDataset": manifests.ManifestDataset,
    "WebDataset": webdataset.WebDataset,
    "stoker.captions.Captions": captions.Captions,
    "build": manifest.build,
    "TarShard": manifest.TarShard,
}


def parameters_of(text):
    """(name, default) of what stands between the brackets."""
    arguments = ast.parse(f"def f({text}): pass").body[0].args
    absent = [inspect.Parameter.empty]
    plain = arguments.posonlyargs + arguments.args
    defaults = absent * (len(plain) - len(arguments.defaults)) + [ast.literal_eval(node) for node in arguments.defaults]
    found = [(one.arg, value) for one, value in zip(plain, defaults, strict=True)]
    for one, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((one.arg, absent[0] if node is None else ast.literal_eval(node)))
    return found


@pytest.mark.parametrize("name", DOCUMENTED)
def test_signatures_are_those_of_the_code(name):
    text = re.search(rf"`{re.escape(name)}\(([^`]*)\)`", PAGE).group(1)
    shown = inspect.signature(DOCUMENTED[name]).parameters.values()
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    assert parameters_of(" ".join(text.split())) == [(one.name, one.default) for one in shown if one.kind not in variadic]


def test_every_key_of_stats_is_listed():
    section = PAGE.split("`stats()` gives", 1)[1].split("\n\n**", 1)[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.M)
    assert listed[-3:] == ["rounds", "samples_given", "bytes_moved"]  # with load_balance_config
    loader = DistributedDataLoader([1, 2, 3], batch_size=1)
    assert listed[:-3] == list(loader.stats())


def test_every_variable_is_listed():
    sources = [*(ROOT / "python" / "stoker").rglob("*.py"), ROOT / "src" / "cli" / "cmd_dataserver.c"]
    read = {name for path in sources for name in re.findall(r"(?:get|getenv|environ)[(\[]\"(STOKER_[A-Z_]+)\"", path.read_text())}
    assert {"STOKER_POLICY", "STOKER_JOURNAL", "STOKER_PROGRAM"} <= read
    section = PAGE.split("\n## Environment\n", 1)[1]
    assert read <= set(re.findall(r"`(STOKER_[A-Z_]+)`", section))


def test_every_module_is_listed():
    table = PAGE.split("\n## ", 1)[0]
    listed = set(re.findall(r"^\| `stoker\.(\w+)`", table, re.M))
    there = {path.stem for path in (ROOT / "python" / "stoker").glob("*.py") if not path.stem.startswith("_")}
    assert listed == there
    for name in ("samplers", "presets", "webdataset", "manifests"):
        row = re.search(rf"^\| `stoker\.{name}` \| (.*)$", table, re.M).group(1)
        assert all(f"`{public}`" in row for public in importlib.import_module(f"stoker.{name}").__all__)
