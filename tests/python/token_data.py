# SPDX-License-Identifier: Apache-2.0
"""Token datasets over the extension alone, with and without native workers: for tests of the loader."""

import os
import struct

import numpy as np
import torch

from stoker import _core

LENGTH = 24


def write(prefix, base, documents=60):
    """Token files of ``documents`` sequences of 5 to 40 tokens: uint16, ``base`` plus the position."""
    lengths = np.arange(documents, dtype=np.int32) % 36 + 5
    tokens = np.concatenate([np.arange(length, dtype=np.uint16) + base for length in lengths])
    tokens.tofile(f"{prefix}.bin")
    offsets = np.concatenate([[0], np.cumsum(lengths.astype(np.int64) * 2)[:-1]]).astype(np.int64)
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1))
        file.write(lengths.tobytes() + offsets.tobytes() + np.arange(documents + 1, dtype=np.int64).tobytes())


class Tokens(torch.utils.data.Dataset):
    """A GPT dataset over the extension alone, with and without native workers."""

    def __init__(self, folder, form=None, cache=True, defer=False, prefixes=("a",), sizes=None, native=True):
        self.folder, self.form, self.cache, self.defer = str(folder), dict(form or {}), cache, defer
        self.prefixes, self.sizes, self.native = prefixes, sizes, native
        for number, prefix in enumerate(prefixes):
            if not os.path.exists(self._path(prefix) + ".idx"):
                write(self._path(prefix), 100 * number)
        if defer:  # what is deferred must have been built
            Tokens(folder, form, cache, False, prefixes, sizes)
        self._open()

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _where(self, name):
        folder = self._path("cache") if self.cache else None
        return dict(folder=folder, stem=f"stem-{name}", description="{}", defer=self.defer)

    def _open(self):
        self.parts = [
            _core.GptDataset(
                _core.IndexedFile(self._path(prefix)), seed=4, sequence_length=LENGTH, samples=90, **self._where(prefix)
            )
            for prefix in self.prefixes
        ]
        self.blend = None if self.sizes is None else _core.BlendIndex(sizes=self.sizes, **self._where("blend"))
        self.maps = None

    def __getstate__(self):
        return {**self.__dict__, "parts": None, "blend": None, "maps": None}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._open()

    def __len__(self):
        return self.parts[0].count() if self.sizes is None else sum(self.sizes)

    def _native_source(self):
        if not self.native:
            return None
        return _core.token_source(self.parts, blend=self.blend, count=len(self), **self.form)

    def __getitem__(self, index):
        item = {}
        part, sample = self.parts[0], index
        if self.blend is not None:
            if self.maps is None:
                self.maps = [np.frombuffer(one[0], one[1]) for one in self.blend.arrays().values()]
            item["dataset_id"] = self.maps[0][index]
            part, sample = self.parts[self.maps[0][index]], self.maps[1][index]
        part.set_form(**self.form)
        block = part.item(sample)
        for name, (offset, dtype, shape) in part.layout().items():
            count = int(np.prod(shape, dtype=np.int64))
            array = np.frombuffer(block, "?" if dtype == "|b1" else dtype, count, offset).reshape(shape)
            item[name] = torch.from_numpy(array.copy())
        return item


FORMS = {
    "plain": dict(pad=-1, eod=3),
    "masks": dict(
        pad=7, eod=3, reset_position_ids=True, reset_attention_mask=True, eod_mask_loss=True, attention_mask=True
    ),
    "documents": dict(pad=-1, eod=3, documents=True),
}
