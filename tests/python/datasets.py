# SPDX-License-Identifier: Apache-2.0
"""Datasets and comparisons that the tests of this folder share."""

import collections
import pathlib

import numpy as np
import torch
from torch.utils.data import Dataset

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "media"
CLIPS = [
    str(GOLDEN / name)
    for name in (
        "h264_bframes_g12.mp4",
        "vfr.mp4",
        "editlist_cut.mp4",
        "vp9_odd227x171.webm",
        "rot90.mp4",
        "fragmented.mp4",
        "mpeg4_bframes_nopts.avi",
    )
]
CORRUPT = str(GOLDEN / "truncated_moov_at_end.mp4")

Point = collections.namedtuple("Point", "x y")


class D(Dataset):
    """Item i is f(i)."""

    def __init__(self, f, count=20):
        self.f, self.count = f, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.f(index)


class Tensors(Dataset):
    """Recognisable tensors of ``size`` float32 each."""

    def __init__(self, count=23, size=40_000, bad=()):
        self.count, self.size, self.bad = count, size, frozenset(bad)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index in self.bad:
            raise ValueError(f"sample {index} is bad")
        return torch.arange(self.size, dtype=torch.float32) + index, index


class Nested(Dataset):
    """Everything that default_collate knows."""

    def __len__(self):
        return 11

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return {
            "big": torch.randn(200, 100, generator=generator),
            "half": torch.randn(30_000, generator=generator).to(torch.bfloat16),
            "array": np.full((3, 4), i, np.int16),
            "scalar": np.float32(i),
            "point": Point(torch.tensor(i), {"list": [i, float(i), f"s{i}"]}),
            "bytes": b"%d" % i,
            "empty": torch.zeros((0, 2)),
            "turned": torch.arange(60_000).view(200, 300).T + i,
        }


def waits_for(folder, waits):
    """A function for D: item i is i, and item i of ``waits`` is not ready before item ``waits[i]`` was begun."""
    folder = str(folder)

    def f(i):
        import os
        import time

        open(os.path.join(folder, str(i)), "w").close()
        deadline_s = time.monotonic() + 60
        while i in waits and not os.path.exists(os.path.join(folder, str(waits[i]))):
            assert time.monotonic() < deadline_s, f"sample {waits[i]} was not begun while sample {i} was being made"
            time.sleep(0.005)
        return i

    return f


def same(a, b):
    """Equal in type, dtype, shape and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def same_epoch(a, b):
    a, b = list(a), list(b)
    assert len(a) == len(b)
    for i, (x, y) in enumerate(zip(a, b)):
        assert same(x, y), f"batch {i} differs: {x} != {y}"
