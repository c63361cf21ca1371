# SPDX-License-Identifier: Apache-2.0
"""What every mid-level dataset is: a split of one prefix, with an identity that names its caches.

Users derive datasets of their own from :class:`MegatronDataset`; the builder and BlendedDataset ask nothing more of
them.
"""

from __future__ import annotations

import abc
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from . import identity
from .config import BlendedMegatronDatasetConfig
from .splits import Split

__all__ = ["MegatronDataset", "description_of", "pad_token_of"]

_log = logging.getLogger("stoker")

#: No token has this id.
_NO_PAD = -1


class MegatronDataset(abc.ABC):
    """A split of one low-level dataset, made of it by ``num_samples`` and a configuration.

    Args:
        dataset: the low-level dataset.
        dataset_path: the prefix exactly as it was given, None for mock data.
        indices: int32 array, numbers of the low-level elements that belong to the split; None if they were not looked
            at (fast_cache_load).
        num_samples: samples that are wanted; None: one epoch.
        index_split: which split it is.
        config: the configuration of the build.
    """

    def __init__(
        self,
        dataset: Any,
        dataset_path: str | None,
        indices: Any,
        num_samples: int | None,
        index_split: Split,
        config: BlendedMegatronDatasetConfig,
    ) -> None:
        self.dataset = dataset
        self.dataset_path = dataset_path
        self.indices = indices
        self.num_samples = num_samples
        self.index_split = index_split
        self.config = config
        self._own = {
            "class": type(self).__name__,
            "dataset_path": dataset_path,
            "num_samples": num_samples,
            "index_split": index_split.name,
        }
        prepared = identity.prepared(config)
        self._part = prepared.part(self._key_config_attributes())
        self._extras = self._extra_identifiers()
        self._identifiers: OrderedDict[str, Any] | None = None
        self._description: str | None = None
        self._hash: str | None = None
        self._pad_token_id: int = prepared.once(pad_token_of)

    # The identity is fixed when the object is made, but written at its first use: a deferred dataset of a thousand
    # needs none before its first item.

    def _all_identifiers(self) -> OrderedDict[str, Any]:
        found: OrderedDict[str, Any] = OrderedDict(self._own)
        found.update(zip(self._part.names, self._part.values, strict=True))
        found.update(self._extras)
        return found

    @property
    def unique_identifiers(self) -> OrderedDict[str, Any]:
        """What the identity is made of, in order; a change counts in blends of this dataset."""
        if self._identifiers is None:
            self._identifiers = self._all_identifiers()
        return self._identifiers

    @unique_identifiers.setter
    def unique_identifiers(self, value: OrderedDict[str, Any]) -> None:
        self._identifiers = value

    def _describe(self, depth: int) -> str:
        if self._names_differ():
            return identity.dataset_text(self._own, self._part, self._extras, depth)
        return identity.text_of(self._all_identifiers()).replace(
            "\n", "\n" + "    " * depth
        )  # the last of a name counts

    def _names_differ(self) -> bool:
        names = (*self._own, *self._part.names, *self._extras)
        return len(set(names)) == len(names)

    @property
    def unique_description(self) -> str:
        """Its JSON text."""
        if self._description is None:
            self._description = self._describe(0)
        return self._description

    @unique_description.setter
    def unique_description(self, value: str) -> None:
        self._description, self._hash = value, None

    @property
    def unique_description_hash(self) -> str:
        """MD5 of the text, which names cache files."""
        if self._hash is None:
            self._hash = identity.hash_of(self.unique_description)
        return self._hash

    @unique_description_hash.setter
    def unique_description_hash(self, value: str) -> None:
        self._hash = value

    @staticmethod
    def numel_low_level_dataset(low_level_dataset: Any) -> int:
        """Number of elements that the splits divide."""
        raise NotImplementedError

    @staticmethod
    def build_low_level_dataset(dataset_path: str | None, config: Any) -> Any:
        """The low-level dataset behind a prefix."""
        raise NotImplementedError

    @staticmethod
    def _key_config_attributes() -> list[str]:
        """Names of the attributes of the configuration that are part of the identity, in order."""
        return ["random_seed", "sequence_length", "split", "split_matrix", "tokenizer"]

    def _extra_identifiers(self) -> Mapping[str, Any]:
        """Identifiers behind those of the configuration."""
        return {}

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of items."""

    @abc.abstractmethod
    def __getitem__(self, idx: int) -> dict[str, Any]:
        """One item."""

    def __repr__(self) -> str:
        name, split = type(self).__name__, self.index_split.name
        return f"{name}({self.dataset_path!r}, {split}, {self.num_samples} samples asked for)"


def description_of(dataset: MegatronDataset, depth: int) -> str:
    """The identity of a mid-level dataset as it stands ``depth`` levels deep, also if its ``unique_identifiers`` were
    changed after it was made."""
    if dataset._identifiers is None or dataset._identifiers == dataset._all_identifiers():
        return dataset._describe(depth)
    return identity.text_of(dataset._identifiers).replace("\n", "\n" + "    " * depth)


def _special_tokens(tokenizer: Any) -> list[Any]:
    try:
        tokens = [token for name, token in tokenizer.special_tokens_dict.items() if name != "pad_token"]
    except Exception:
        tokens = []
    if tokens:
        return tokens
    for name in ("eos", "eod"):
        try:
            tokens.append(getattr(tokenizer, name))
        except Exception:  # the tokenizer has none, and says so in its own way
            continue
    return tokens


def pad_token_of(config: BlendedMegatronDatasetConfig) -> int:
    """The pad id that items use: that of the tokenizer, or -1 if it has none or shares it with another special
    token."""
    tokenizer = config.tokenizer
    try:
        pad = tokenizer.pad
    except Exception:  # as above
        return _NO_PAD
    if pad is None:
        return _NO_PAD
    if pad != _NO_PAD and pad in _special_tokens(tokenizer):
        if config.allow_ambiguous_pad_tokens:
            _log.warning("pad id %s is also the id of another special token: it is masked wherever it stands", pad)
        else:
            _log.warning(
                "pad id %s is also the id of another special token: items are padded, but not masked, with it", pad
            )
            return _NO_PAD
    return pad
