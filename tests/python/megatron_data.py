# SPDX-License-Identifier: Apache-2.0
"""Small token corpora for tests, written here byte by byte so that no part under test makes its own input."""

from collections import OrderedDict

import numpy

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}
FLAGS = {"reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False}


class Tokenizer:
    """Only what a dataset needs of a tokenizer."""

    def __init__(self, vocab_size=1000, eod=999, pad=None):
        self.unique_identifiers = OrderedDict([("class", "tests.Tokenizer"), ("vocab_size", str(vocab_size))])
        self.vocab_size = vocab_size
        self.eod = eod
        if pad is not None:
            self.pad = pad


def write(prefix, documents, dtype="uint16"):
    """PREFIX.bin and PREFIX.idx of documents of one sequence each."""
    arrays = [numpy.asarray(document, dtype=dtype) for document in documents]
    lengths = numpy.array([array.size for array in arrays], dtype="<i4")
    ends = numpy.cumsum(lengths.astype("<i8") * numpy.dtype(dtype).itemsize)
    offsets = numpy.concatenate([[0], ends])[: len(arrays)].astype("<i8")
    head = b"MMIDIDX\0\0" + numpy.array([1], "<u8").tobytes() + bytes([CODES[dtype]])
    head += numpy.array([len(arrays), len(arrays) + 1], "<u8").tobytes()
    with open(f"{prefix}.idx", "wb") as file:
        file.write(head + lengths.tobytes() + offsets.tobytes() + numpy.arange(len(arrays) + 1, dtype="<i8").tobytes())
    with open(f"{prefix}.bin", "wb") as file:
        file.write(b"".join(array.tobytes() for array in arrays))
    return str(prefix)


def corpus(prefix, count=30, length=20, seed=0, vocabulary=999, dtype="uint16", eod=None):
    """Random documents; a ``length`` that is a pair gives lengths from, to."""
    random = numpy.random.default_rng(seed)
    low, high = length if isinstance(length, tuple) else (length, length + 1)
    documents = [random.integers(0, vocabulary, random.integers(low, high)) for _ in range(count)]
    if eod is not None:
        documents = [numpy.append(document, eod) for document in documents]
    return write(prefix, documents, dtype)


def options(**changes):
    """Arguments of a GPTDatasetConfig."""
    return {"random_seed": 1, "sequence_length": 8, "tokenizer": Tokenizer(), **FLAGS, **changes}
