#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the corpus of fuzz_jsonl: lines that json.loads() takes and that have a text, and lines that differ in one thing.

    make_jsonl_corpus.py FOLDER
"""

import pathlib
import sys

INPUTS = {
    "valid_text": b'{"text": "a b, c."}',
    "valid_list": b'{"text": ["a", "", "b <|end|> c"]}',
    "valid_empty_list": b'{"text":[]}',
    "valid_escapes": rb'{"text": "\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"}',
    "valid_wide": '{"text": "caf\u00e9 \u3000 \u65e5\u672c \U0001f600 x"}'.encode(),
    "valid_twice": b'{"text": ["a"], "text": "b"}',
    "valid_escaped_key": rb'{"te\u0078t": "a"}',
    "valid_numbers": b'{"n": [0, -1, 2.5, 1e9, -1.5E-3, NaN, -Infinity], "text": "a"}',
    "valid_nested": b'{"x": {"y": [{}, [], {"z": [[1, {"text": 3}]]}]}, "text": "a"}\r',
    "valid_lone_elsewhere": rb'{"x": "\udc00", "\ud800": 1, "text": "a"}',
    "bad_empty": b"",
    "bad_space": b"  ",
    "bad_list": b'["text"]',
    "bad_mark": b'\xef\xbb\xbf{"text": "a"}',
    "bad_cut": b'{"text": "a',
    "bad_cut_escape": b'{"text": "a\\',
    "bad_cut_unicode": b'{"text": "a\\u00',
    "bad_cut_character": b'{"text": "a\xe2\x82',
    "bad_escape": b'{"text": "\\x"}',
    "bad_lone": rb'{"text": "\ud800"}',
    "bad_surrogate_bytes": b'{"text": "\xed\xa0\x80"}',
    "bad_overlong": b'{"text": "\xc0\x80"}',
    "bad_control": b'{"text": "a\x00b"}',
    "bad_number": b'{"x": 01, "text": "a"}',
    "bad_kind": b'{"text": [1]}',
    "bad_no_key": b'{"x": "text"}',
    "bad_more": b'{"text": "a"}{}',
    "bad_deep": b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b', "text": "a"}',
    "bad_swapped": b'{"x": [1}, "text": "a"]',
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in INPUTS.items():
        (folder / name).write_bytes(data)
