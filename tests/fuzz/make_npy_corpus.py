#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_npy from docs/reference/token-index.md alone: good files, and bad ones that differ in one thing.

    make_npy_corpus.py FOLDER
"""

import pathlib
import struct
import sys


def npy(text, data=b"", version=(1, 0), length=None, magic=b"\x93NUMPY", whole=128):
    text = text.encode() if isinstance(text, str) else text
    text = text + b" " * (whole - 10 - len(text) - 1) + b"\n"
    return magic + bytes(version) + struct.pack("<H", len(text) if length is None else length) + text + data


def header(descr="'<i4'", order="False", shape="(3,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


THREE = struct.pack("<3i", 1, 2, 3)
INPUTS = {
    "valid_i2": npy(header("'<i2'"), THREE[:6]),
    "valid_i4": npy(header(), THREE),
    "valid_u4": npy(header("'<u4'"), THREE),
    "valid_i8": npy(header("'<i8'"), THREE * 2),
    "valid_two_columns": npy(header(shape="(3, 2)"), THREE * 2),
    "valid_nothing": npy(header(shape="(0,)")),
    "valid_no_rows_two_columns": npy(header(shape="(0, 2)")),
    "valid_other_order": npy("{'shape': (3,), 'fortran_order': False, 'descr': '<i4'}", THREE),
    "valid_double_quotes": npy(header('"<i4"'), THREE),
    "valid_long_header": npy(header(), THREE, whole=1024),
    "valid_sixteen": npy(header(), THREE, whole=80),
    "bad_empty": b"",
    "bad_short": b"\x93NUMPY\x01\x00\x76",
    "bad_magic": npy(header(), THREE, magic=b"\x93NUMPX"),
    "bad_version_two": npy(header(), THREE, version=(2, 0)),
    "bad_version_minor": npy(header(), THREE, version=(1, 1)),
    "bad_length_far": npy(header(), THREE, length=65535),
    "bad_length_zero": npy(header(), THREE, length=0),
    "bad_length_odd": npy(header(), THREE, length=119),
    "bad_cut": npy(header(), THREE)[:-1],
    "bad_trailing": npy(header(), THREE + b"\0"),
    "bad_big_endian": npy(header("'>i4'"), THREE),
    "bad_float": npy(header("'<f4'"), THREE),
    "bad_object": npy(header("'|O'"), THREE),
    "bad_structured": npy(header("[('a', '<i4')]"), THREE),
    "bad_fortran": npy(header(order="True"), THREE),
    "bad_scalar": npy(header(shape="()"), THREE[:4]),
    "bad_three_dimensions": npy(header(shape="(1, 1, 3)"), THREE),
    "bad_three_columns": npy(header(shape="(1, 3)"), THREE),
    "bad_negative": npy(header(shape="(-3,)"), THREE),
    "bad_rows_wrap": npy(header(shape="(4611686018427387907,)"), THREE),
    "bad_rows_past_64_bits": npy(header(shape="(18446744073709551619,)"), THREE),
    "bad_twice": npy("{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", THREE),
    "bad_missing": npy("{'descr': '<i4', 'shape': (3,), }", THREE),
    "bad_unclosed": npy("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), ", THREE),
    "bad_call": npy("__import__('os').abort()", THREE),
    "bad_zero_byte": npy(header().encode() + b"\0", THREE),
    "bad_nested": npy("{" * 100, THREE),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
