# SPDX-License-Identifier: Apache-2.0
"""Made-up token data, the same in every process, for runs without a corpus."""

from __future__ import annotations

import functools
import logging
from typing import Any

import numpy

from .config import GPTDatasetConfig
from .gpt import GPTDataset
from .splits import Split

__all__ = ["MockGPTDataset", "MockGPTLowLevelDataset"]

_log = logging.getLogger("stoker")


@functools.cache
def _lengths(count: int, longest: int) -> numpy.ndarray:
    lengths = numpy.random.default_rng(0).integers(1, longest, count, dtype=numpy.int32)
    lengths.flags.writeable = False
    return lengths


class MockGPTLowLevelDataset:
    """100,000 sequences of 1 to 4,095 tokens: 1, 2, 3... modulo the vocabulary, the last one the end of document."""

    size = 100000
    max_sequence_length = 4096

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @property
    def sequence_lengths(self) -> numpy.ndarray:
        """int32 [size], read-only."""
        return _lengths(self.size, self.max_sequence_length)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, idx: int) -> numpy.ndarray:
        """int64 array of one sequence."""
        length = self.sequence_lengths[idx]
        sequence = numpy.arange(1, length + 1, dtype=numpy.int64) % self.tokenizer.vocab_size
        sequence[-1] = self.tokenizer.eod
        return sequence

    def get(self, idx: int, offset: int = 0, length: int | None = None) -> numpy.ndarray:
        """``length`` tokens of a sequence from ``offset`` on; None: all of the rest."""
        return self[idx][offset : None if length is None else offset + length]


class MockGPTDataset(GPTDataset):
    """A :class:`GPTDataset` over made-up data. Without ``path_to_cache`` its index is built in memory."""

    def __init__(
        self,
        dataset: MockGPTLowLevelDataset,
        dataset_path: str | None,
        indices: Any,
        num_samples: int | None,
        index_split: Split,
        config: GPTDatasetConfig,
    ) -> None:
        if not config.mock:
            raise AssertionError("MockGPTDataset needs a configuration without blend and blend_per_split")
        super().__init__(dataset, dataset_path, indices, num_samples, index_split, config)

    @staticmethod
    def numel_low_level_dataset(low_level_dataset: Any) -> int:
        """Number of its sequences."""
        return len(low_level_dataset)

    @staticmethod
    def build_low_level_dataset(dataset_path: str | None, config: GPTDatasetConfig) -> Any:
        """The made-up sequences; ``dataset_path`` is not used."""
        return MockGPTLowLevelDataset(config.tokenizer)

    def _low_level(self) -> tuple[Any, dict[str, Any]]:
        tokenizer = self.config.tokenizer
        return None, {"mock": (tokenizer.vocab_size, tokenizer.eod)}

    def _open(self) -> Any:
        if not self.config.path_to_cache:
            _log.warning("%s: path_to_cache is None, so the index is built in memory, in each process", self._name())
        return super()._open()
