# SPDX-License-Identifier: Apache-2.0
"""Token datasets whose batches workers make without Python.

A dataset says that it is one by a method ``_native_source()``. It returns a ``_core.Source`` (made by
``_core.token_source()``) whose sample i is what ``dataset[i]`` is, or None if this dataset cannot be served so, for
example because a subclass overrides ``__getitem__``.
"""

from __future__ import annotations

import operator

import torch

from . import _tree, errors

__all__ = ["TokenView", "token_view"]

_DTYPES = {4: torch.float32, 5: torch.int64, 6: torch.int16, 7: torch.int32, 8: torch.bool}


def token_view(dataset, indices=None):
    """A TokenView if samples of ``dataset`` can be made without Python, else None."""
    hook = getattr(type(dataset), "_native_source", None)
    source = hook(dataset) if hook is not None else None
    return None if source is None else TokenView(source, indices)


class TokenView:
    """A source of token data, or a Subset of one: how indices become ids, and leaves of a batch its members."""

    return_index = False
    owner = None  # no fields beside the tokens

    def __init__(self, source, indices=None) -> None:
        self.dataset = self  # what is asked of the dataset of a view is answered here
        self._handle = source
        self._names = source.names
        self._count = source.count
        self._indices = indices

    def _source(self):
        return self._handle

    def position(self, index) -> int:
        if self._indices is not None:
            index = self._indices[index]
        if index is None:
            raise errors.UnsupportedError(
                "the padding item (index None) is not made by native workers; use it with num_workers=0, or pad the batch"
            )
        position = operator.index(index)
        if not -self._count <= position < self._count:
            raise IndexError(f"index {position} is outside a dataset of {self._count} samples")
        return position % self._count

    def rebuild(self, batch, collated: bool) -> dict:
        """The members of a batch, as the default collate function would give them; without it, of its one sample."""
        made = {}
        for number, name in enumerate(self._names):
            leaf = batch.leaf(number)
            if leaf.size < _tree.INLINE_BYTES:  # a small leaf must not keep a slab (rule A5)
                flat = torch.frombuffer(bytearray(leaf), dtype=torch.uint8)
            else:
                flat = torch.from_dlpack(leaf)
            value = flat.view(_DTYPES[leaf.dtype]).view(leaf.shape)
            made[name] = value if collated else value[0]
        return made
