# SPDX-License-Identifier: Apache-2.0
"""The identity of a tokenizer as Megatron-LM's training scripts build it, from the arguments that describe it.

A cache is found by a hash over it, so every text must be the reference's. It is that of current main; other releases differ
(docs/how-to/prepare-cache.md says how to take it from a cache that exists). No tokenizer is loaded for it.
"""

from __future__ import annotations

import json
from typing import Any

from .command import DATA, Refusal

CLASS = "megatron.core.tokenizers.text.text_tokenizer.MegatronTokenizerText"
TYPES = ["NullTokenizer", "HuggingFaceTokenizer", "SentencePieceTokenizer", "Llama2Tokenizer", "GPTSentencePieceTokenizer",
         "GPT2BPETokenizer", "TikTokenizer"]


class Tokenizer:
    """All that an index needs of a tokenizer."""

    def __init__(self, unique_identifiers: dict[str, Any], vocab_size: int | None, eod: int, pad: int | None) -> None:
        self.unique_identifiers, self.vocab_size, self.eod = unique_identifiers, vocab_size, eod
        if pad is not None:
            self.pad = pad


def add_arguments(parser) -> None:
    parser.add_argument("--tokenizer-type")
    parser.add_argument("--tokenizer-model")
    parser.add_argument("--tokenizer-identity")
    parser.add_argument("--vocab-size", type=int)
    parser.add_argument("--vocab-file")
    parser.add_argument("--merge-file")
    parser.add_argument("--null-tokenizer-eod-id", type=int)
    parser.add_argument("--null-tokenizer-pad-id", type=int)
    parser.add_argument("--tokenizer-special-tokens", nargs="+")
    parser.add_argument("--tokenizer-hf-no-use-fast", action="store_true")
    parser.add_argument("--tokenizer-hf-no-include-special-tokens", action="store_true")
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--tokenizer-sentencepiece-legacy", action="store_true")
    parser.add_argument("--tiktoken-pattern")
    parser.add_argument("--tiktoken-num-special-tokens", type=int, default=1000)


def _of(arguments, name: str, default: Any = None) -> Any:
    return getattr(arguments, name, default)


def _null(arguments) -> tuple[Any, dict]:
    options = {}
    for option, name in (("vocab_size", "vocab_size"), ("eod_id", "null_tokenizer_eod_id"), ("pad_id", "null_tokenizer_pad_id")):
        if _of(arguments, name) is not None:
            options[option] = _of(arguments, name)
    return None, options


def _transformers(arguments) -> dict:
    return dict(use_fast=not _of(arguments, "tokenizer_hf_no_use_fast", False),
                trust_remote_code=bool(_of(arguments, "trust_remote_code", False)),
                include_special_tokens=not _of(arguments, "tokenizer_hf_no_include_special_tokens", False),
                use_gigatoken=bool(_of(arguments, "use_gigatoken", False)))


def _hugging_face(arguments) -> tuple[Any, dict]:
    return _of(arguments, "tokenizer_model"), dict(
        chat_template=None, vocab_file=_of(arguments, "vocab_file"), merges_file=_of(arguments, "merge_file"),
        additional_special_tokens=_of(arguments, "tokenizer_special_tokens") or [], **_transformers(arguments))


def _gpt2(arguments) -> tuple[Any, dict]:
    return "GPT2BPETokenizer", dict(
        additional_special_tokens=_of(arguments, "tokenizer_special_tokens") or [], vocab_file=_of(arguments, "vocab_file"),
        merges_file=_of(arguments, "merge_file"), **_transformers(arguments))


def _sentence_piece(arguments) -> tuple[Any, dict]:
    return _of(arguments, "tokenizer_model"), dict(
        chat_template=None, ignore_extra_whitespaces=True, legacy=bool(_of(arguments, "tokenizer_sentencepiece_legacy", False)),
        special_tokens=_of(arguments, "tokenizer_special_tokens"))


def _tiktoken(arguments) -> tuple[Any, dict]:
    options: dict[str, Any] = dict(chat_template=None)
    for option, name in (("pattern", "tiktoken_pattern"), ("vocab_size", "vocab_size")):
        if _of(arguments, name):
            options[option] = _of(arguments, name)
    return _of(arguments, "tokenizer_model"), dict(
        options, num_special_tokens=_of(arguments, "tiktoken_num_special_tokens", 1000),
        special_tokens=_of(arguments, "tokenizer_special_tokens"))


MAKERS = {"NullTokenizer": _null, "HuggingFaceTokenizer": _hugging_face, "SentencePieceTokenizer": _sentence_piece,
          "Llama2Tokenizer": _sentence_piece, "GPTSentencePieceTokenizer": _sentence_piece, "GPT2BPETokenizer": _gpt2,
          "TikTokenizer": _tiktoken}


def _given(path: str) -> dict:
    """An identity from a file: a JSON object, or the description of a cache that has one."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except OSError as error:
        raise Refusal(f"--tokenizer-identity: cannot read '{path}': {error.strerror}", DATA) from None
    except ValueError as error:
        raise Refusal(f"--tokenizer-identity: '{path}' is no JSON: {error}", DATA) from None
    while isinstance(value, dict):
        if isinstance(value.get("tokenizer"), dict):
            value = value["tokenizer"]
        elif isinstance(value.get("datasets"), list) and value["datasets"]:
            value = value["datasets"][0]
        else:
            return value
    raise Refusal(f"--tokenizer-identity: '{path}' holds no JSON object", DATA)


def make(arguments) -> Tokenizer:
    """The tokenizer that the arguments describe."""
    vocabulary, kind = _of(arguments, "vocab_size"), _of(arguments, "tokenizer_type")
    eod = _of(arguments, "null_tokenizer_eod_id")
    if eod is None:
        eod = vocabulary - 1 if vocabulary else 0  # not part of any index
    pad = _of(arguments, "null_tokenizer_pad_id")
    if _of(arguments, "tokenizer_identity") is not None:
        return Tokenizer(_given(arguments.tokenizer_identity), vocabulary, eod, pad)
    if kind not in MAKERS:
        raise Refusal(f"--tokenizer-type {kind or '(not given)'}: known are {', '.join(TYPES)}; for others give "
                      "--tokenizer-identity with the description file of an existing cache")
    if kind not in ("NullTokenizer", "GPT2BPETokenizer") and _of(arguments, "tokenizer_model") is None:
        raise Refusal(f"{kind} needs --tokenizer-model, as the training script has it")
    if kind == "NullTokenizer" and vocabulary is None:
        raise Refusal("NullTokenizer needs --vocab-size")
    path, options = MAKERS[kind](arguments)
    return Tokenizer({"class": CLASS, "tokenizer_path": path, **{name: str(value) for name, value in options.items()}},
                     vocabulary, eod, pad)
