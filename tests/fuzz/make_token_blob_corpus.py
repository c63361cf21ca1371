#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_token_blob from docs/reference/source-blobs.md alone: good blobs, and bad ones that differ in one thing.

    make_token_blob_corpus.py FOLDER
"""

import pathlib
import struct
import sys

IN_BLOB = (1 << 64) - 1
MAGIC = 0x544B5453


class Parts:
    """Texts and arrays in the making."""

    def __init__(self):
        self.texts, self.arrays = b"", b""

    def text(self, value):
        at = len(self.texts)
        self.texts += value + b"\0"
        return at

    def array(self, kind, columns, values):
        self.arrays += bytes(-len(self.arrays) % 16)
        at = len(self.arrays)
        code = {1: "h", 2: "i", 3: "I", 4: "q"}[kind]
        self.arrays += struct.pack(f"<{len(values)}{code}", *values)
        return struct.pack("<IIQQ", kind, columns, len(values) // columns, at)


def files(parts, folder=b"/cache", stem=b"hash-GPTDataset-train"):
    return struct.pack("<QQ", parts.text(folder), parts.text(stem)) + bytes(72)


def inside(*arrays):
    return struct.pack("<QQ", IN_BLOB, 0) + b"".join(arrays).ljust(72, b"\0")


def gpt_arrays(parts, document=(0, 1), sample=(0, 0, 0, 4, 0, 8), shuffle=(1, 0)):
    return inside(parts.array(2, 1, document), parts.array(2, 2, sample), parts.array(3, 1, shuffle))


def dataset(parts, index, kind=2, prefix=b"/data/a", access=0, multimodal=0, dtype=0, vocabulary=50, split=b"train"):
    where = parts.text(prefix) if kind == 1 else 0
    head = struct.pack("<IIIIQQQiIQqqQQQ", kind, access, multimodal, dtype, where, 0, 0, 3, 0, 0, vocabulary, 49,
                       100000 if kind == 2 else 7, 0, parts.text(split))
    return head + index


def blob(parts, datasets, blend=bytes(88), count=2, length=4, flags=1, number=None, version=1, magic=MAGIC, size=None,
         texts=None, arrays=None):
    body = struct.pack("<QQqqIIQQ", count, length, -1, 49, flags, len(datasets) if number is None else number,
                       len(parts.texts) if texts is None else texts, len(parts.arrays) if arrays is None else arrays)
    body += blend + b"".join(datasets) + parts.texts
    body += bytes(-(16 + len(body)) % 16) + parts.arrays
    return struct.pack("<IIQ", magic, version, 16 + len(body) if size is None else size) + body


def one(index=None, blob_more=None, **more):
    parts = Parts()
    data = [dataset(parts, (index or gpt_arrays)(parts), **more)]
    return blob(parts, data, **(blob_more or {}))


def blended(numbers=(0, 1), samples=(0, 0), flags=65):
    parts = Parts()
    blend = inside(parts.array(1, 1, numbers), parts.array(4, 1, samples))
    return blob(parts, [dataset(parts, gpt_arrays(parts)), dataset(parts, gpt_arrays(parts))], blend, flags=flags)


def odd_array(parts):
    index = gpt_arrays(parts)
    return index[:16 + 16] + struct.pack("<Q", 4) + index[16 + 24:]


INPUTS = {
    "valid_mock": one(),
    "valid_mock_no_extra_token": one(blob_more=dict(flags=0)),
    "valid_masks": one(blob_more=dict(flags=1 | 2 | 4 | 8 | 16)),
    "valid_documents": one(blob_more=dict(flags=1 | 32)),
    "valid_blend": blended(),
    "valid_files": one(files, kind=1, access=1, dtype=8),
    "valid_none": one(blob_more=dict(count=0)),
    "valid_sample_outside": one(lambda p: gpt_arrays(p, sample=(0, 0, 0, 1 << 30, 7, 8))),
    "valid_document_outside": one(lambda p: gpt_arrays(p, document=(0, -5))),
    "valid_shuffle_outside": one(lambda p: gpt_arrays(p, shuffle=(1, 1 << 31))),
    "valid_rows_disagree": one(lambda p: gpt_arrays(p, shuffle=(1, 0, 0))),
    "valid_blend_outside": blended(numbers=(0, -1), samples=(0, 1 << 40)),
    "valid_blend_short": blended(numbers=(0,), samples=(0,)),
    "valid_huge_mask": one(blob_more=dict(flags=16, length=(1 << 31) - 2)),
    "bad_magic": one(blob_more=dict(magic=MAGIC + 1)),
    "bad_version": one(blob_more=dict(version=2)),
    "bad_size": one(blob_more=dict(size=17)),
    "bad_count": one(blob_more=dict(count=1 << 63)),
    "bad_length_zero": one(blob_more=dict(length=0)),
    "bad_length_large": one(blob_more=dict(length=1 << 31)),
    "bad_flags": one(blob_more=dict(flags=128)),
    "bad_mask_and_documents": one(blob_more=dict(flags=16 | 32)),
    "bad_no_dataset": blob(Parts(), []),
    "bad_two_without_blend": blended(flags=1),
    "bad_many_datasets": one(blob_more=dict(number=32767)),
    "bad_texts_long": one(blob_more=dict(texts=(1 << 64) - 1)),
    "bad_arrays_long": one(blob_more=dict(arrays=1 << 40)),
    "bad_kind": one(kind=3),
    "bad_access": one(files, kind=1, access=2),
    "bad_multimodal": one(files, kind=1, multimodal=2),
    "bad_dtype": one(files, kind=1, dtype=9),
    "bad_vocabulary": one(vocabulary=0),
    "bad_relative_prefix": one(files, kind=1, prefix=b"data/a"),
    "bad_long_prefix": one(files, kind=1, prefix=b"/" + b"x" * 4095),
    "bad_stem_with_slash": one(lambda p: files(p, stem=b"a/b"), kind=1),
    "bad_stem_empty": one(lambda p: files(p, stem=b""), kind=1),
    "bad_relative_folder": one(lambda p: files(p, folder=b"cache"), kind=1),
    "bad_array_at_four": one(odd_array),
    "bad_array_type": one(lambda p: inside(struct.pack("<IIQQ", 5, 1, 1, 0))),
    "bad_array_columns": one(lambda p: inside(struct.pack("<IIQQ", 2, 3, 0, 0))),
    "bad_array_rows": one(lambda p: inside(struct.pack("<IIQQ", 2, 1, (1 << 62) + 1, 0))),
    "bad_short": struct.pack("<IIQ", MAGIC, 1, 16),
    "bad_nothing": b"",
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
