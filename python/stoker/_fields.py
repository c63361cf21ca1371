# SPDX-License-Identifier: Apache-2.0
"""Media files with something beside them: what datasets of captions, classes and other small fields share.

The media are decoded by workers without Python. The fields never go there: a loader reads those of a batch in the rank,
when the batch is handed out, by the numbers of its samples.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Sequence

from . import _files, _patches, errors, media

__all__ = ["KINDS", "FieldDataset", "check_kind", "kind_of_name", "make_media"]

KINDS = ("video", "image", "audio")
_CLASSES = {"video": media.VideoDataset, "image": media.ImageDataset, "audio": media.AudioDataset}
# A .gif is both: by its name alone it is a video.
_EXTENSIONS = {"video": media.VIDEO_EXTENSIONS, "image": media.IMAGE_EXTENSIONS, "audio": media.AUDIO_EXTENSIONS}


def kind_of_name(name: str) -> str | None:
    """What a file with this name is taken for, by its extension."""
    extension = os.path.splitext(name)[1].lower()
    return next((kind for kind, extensions in _EXTENSIONS.items() if extension in extensions), None)


def extensions_of(kind: str) -> frozenset[str]:
    return _EXTENSIONS[kind]


def check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise errors.CallerError(f"kind={kind!r} is not one of {', '.join(map(repr, KINDS))}")
    return kind


def make_media(kind: str, paths: _files.Paths, keywords: dict) -> _files.FileDataset:
    """The dataset of the media alone."""
    made = _CLASSES[kind](paths, **keywords)
    if isinstance(made, _patches.PatchDataset) and paths.parts is not None:
        raise errors.UnsupportedError(
            f"preset={keywords.get('preset')!r} needs files of their own; samples of this source are members of tar shards"
        )
    return made


class _Collate:
    """Of samples that differ in size, with their fields."""

    def __init__(self, names: Sequence[str], collate) -> None:
        self._names = frozenset(names)
        self._collate = collate

    def __call__(self, samples: list[dict]) -> dict:
        from torch.utils.data import default_collate

        media = [{name: value for name, value in sample.items() if name in self._names} for sample in samples]
        rest = [{name: value for name, value in sample.items() if name not in self._names} for sample in samples]
        return {**self._collate(media), **default_collate(rest)}


class _Ahead(list):
    """Numbers of the samples of a batch, and the fields that are read for them."""

    rows: concurrent.futures.Future


class FieldDataset:
    """Sample i is a dict: the media under the name of their kind, and the fields of sample i.

    ``media`` is the dataset of the media alone; subclasses say what the fields of a sample are.
    """

    #: The collate function of samples that differ in size; None: the default one.
    collate_fn = None

    fields: tuple[str, ...]
    captions = None  # a Captions, and the field that it is for
    _caption_field = ""
    _thread = None

    def __init__(self, kind: str, paths: _files.Paths, keywords: dict, captions=None) -> None:
        self.kind = kind
        if captions is not None:
            self._caption_field = captions.choose(self.fields)
            self.captions = captions
        self.media = make_media(kind, paths, keywords)
        if isinstance(self.media, _patches.PatchDataset):
            self.collate_fn = _Collate(self.media._source().names, self.media.collate_fn)

    @property
    def paths(self) -> Sequence[str]:
        """Of the media, in order; a member of a shard is ``"shard.tar::member"``."""
        return self.media.paths

    def read_fields(self, position: int) -> dict:
        """The fields of a sample, without its media."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.media)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.media!r})"

    def set_epoch(self, epoch: int) -> None:
        """Of the random choices in items that are asked for by ``dataset[i]``; a stoker loader counts its own epochs."""
        self.media.set_epoch(epoch)

    def describe(self, index: int) -> dict:
        """What is known of the media of a sample before they are decoded: see those datasets."""
        return self.media.describe(index)

    def _names(self) -> list[str]:
        """Of what the dataset of the media gives, in its order."""
        names = [self.kind] + ["index"] * self.media.return_index
        for name in ("frames", "partial", "window"):
            names += [name] * bool(getattr(self.media, f"return_{name}", False))
        return names

    def _taken(self) -> set[str]:
        """Names that a field cannot have."""
        taken = set(self._names())
        if self.captions is not None:
            taken.update(self.captions.NAMES)
        if self.collate_fn is not None:
            taken.update(self.collate_fn._names)
        return taken

    def _named(self, made) -> dict:
        names = self._names()
        parts = made if len(names) > 1 else [made]
        if self.collate_fn is None:
            return dict(zip(names, parts, strict=True))
        return {**parts[0], **dict(zip(names[1:], parts[1:], strict=True))}

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_thread"}

    def _rows(self, positions: Sequence[int]) -> list[dict]:
        """Fields, and tokens of their captions."""
        rows = [self.read_fields(position) for position in positions]
        if self.captions is None:
            return rows
        for position, row in zip(positions, rows, strict=True):
            if not isinstance(row[self._caption_field], str):
                raise errors.SampleError(
                    f"the field {self._caption_field!r} is no text: {errors.show(row[self._caption_field])}",
                    f"sample {position}: {self.paths[position]}",
                )
        made = self.captions([row[self._caption_field] for row in rows], self.media.as_numpy)
        return [{**row, **tokens} for row, tokens in zip(rows, made, strict=True)]

    def __getitem__(self, index) -> dict:
        position = self.media._position(index)
        return {**self._named(self.media[position]), **self._rows([position])[0]}

    def ahead(self, index):
        """What join() gets for these samples, whose fields are read meanwhile, beside the thread that trains."""
        if self._thread is None or self._thread[0] != os.getpid():
            self._thread = (os.getpid(), concurrent.futures.ThreadPoolExecutor(1, "stoker-fields"))
        ids = _Ahead(index)
        ids.rows = self._thread[1].submit(self._rows, list(index))
        return ids

    def join(self, made, index, collated: bool) -> dict:
        """A batch of media (``collated``; else one sample) and the fields of its samples, as the default collate function
        has them."""
        if not collated:
            return {**self._named(made), **self._rows([index])[0]}
        from torch.utils.data import default_collate

        rows = index.rows.result() if isinstance(index, _Ahead) else self._rows(index)
        return {**self._named(made), **default_collate(rows)}
