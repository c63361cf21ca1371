# SPDX-License-Identifier: Apache-2.0
"""The public processors that stoker's transforms stand for, if they are installed: transformers, and torchvision under
it. Nothing is downloaded; processors are made from the constants of stoker.presets."""

import importlib
import os
import sys

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def load_torchvision():
    """torchvision, or None. Its wheel is linked against the CUDA build of torch: beside the build for CPUs its compiled
    operators do not load, and importing its Python part fails when it describes them. Resizing is torch's own; so the
    operators are declared, without a kernel, and the descriptions are dropped."""
    if importlib.util.find_spec("torchvision") is None:
        return None
    import torch

    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "does not exist" not in str(error):
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    register = torch.library.register_fake
    torch.library.register_fake = lambda *arguments, **keywords: lambda function: function
    try:
        return importlib.import_module("torchvision")
    finally:
        torch.library.register_fake = register


def load(name: str):
    """A processor class of transformers; skips the test where it cannot be had."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    if load_torchvision() is None:
        pytest.skip("torchvision is not installed")
    import transformers

    return getattr(transformers, name)


def smart_resize(module: str):
    """The function of that name of a module of transformers.models."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    if load_torchvision() is None:
        pytest.skip("torchvision is not installed")
    return importlib.import_module(f"transformers.models.{module}").smart_resize
