# SPDX-License-Identifier: Apache-2.0
"""Arguments of `stoker index build` that cannot be meant, refused before anything is read: each by its name, with what was
given and what is expected."""

from __future__ import annotations

import math
import os
import re
import sys

from . import tokenizer_identity
from .command import DATA, Refusal

LIMIT = 2**63 - 1
#: Least and largest value. What the reference tool refuses with a message of its own is left to it (None).
RANGES = {
    "seq_length": (1, 2**31 - 2), "train_iters": (0, LIMIT), "train_samples": (0, LIMIT), "micro_batch_size": (1, LIMIT),
    "global_batch_size": (None, LIMIT), "eval_global_batch_size": (1, LIMIT), "prepare_cache_world_size": (None, LIMIT),
    "world_size": (1, LIMIT), "start_eval_at_iter": (0, LIMIT), "eval_iters": (0, LIMIT), "eval_interval": (None, LIMIT),
    "seed": (0, 2**32 - 1), "num_dataset_builder_threads": (1, 4096), "tensor_model_parallel_size": (1, LIMIT),
    "pipeline_model_parallel_size": (1, LIMIT), "context_parallel_size": (1, LIMIT), "vocab_size": (1, LIMIT),
    "tiktoken_num_special_tokens": (0, LIMIT), "mid_level_dataset_surplus": (0, 1e9),
}
#: These read their model from a file; the others may have the name of a hub.
OF_FILES = {"SentencePieceTokenizer", "Llama2Tokenizer", "GPTSentencePieceTokenizer", "TikTokenizer"}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def numbers(arguments) -> None:
    for name, (least, most) in RANGES.items():
        value = getattr(arguments, name)
        if value is None:
            continue
        if not math.isfinite(value) or value > most or (least is not None and value < least):
            raise Refusal(f"{_option(name)} is {value}; expected " + (
                f"at most {most}" if least is None else f"{least} to {most}"))


def split(text: str | None) -> None:
    """The reference takes any run of digits and dots for a number and passes over the rest; so does the identity."""
    from .._megatron.splits import parse_and_normalize_split
    if text is None:
        return
    try:
        shares = parse_and_normalize_split(text)
    except (ValueError, AssertionError) as error:
        raise Refusal(f"--split '{text}': {error}") from None
    if not all(map(math.isfinite, shares)):
        raise Refusal(f"--split '{text}': the sum of its numbers must be above zero, and one that can be divided by")
    if re.search(r"[^0-9.,/ ]", text):
        shown = ", ".join(re.findall(r"[.0-9]+", text))
        print(f"stoker index build: --split '{text}' is read as {shown}: only digits and dots count", file=sys.stderr)


def tokenizer_files(arguments) -> None:
    """Files that the training will want; a mistyped name would make caches that it never finds."""
    kind, model = arguments.tokenizer_type, arguments.tokenizer_model
    if arguments.tokenizer_identity is not None or kind not in tokenizer_identity.MAKERS:
        return
    wanted = [("--vocab-file", arguments.vocab_file), ("--merge-file", arguments.merge_file)]
    is_path = model is not None and (model == "" or model.startswith(("/", "./", "../", "~")))
    if kind in OF_FILES or (kind == "HuggingFaceTokenizer" and is_path):
        wanted.append(("--tokenizer-model", model))
    for option, path in wanted:
        if path is not None and not os.path.exists(path):
            raise Refusal(f"{option}: there is no '{path}'", DATA,
                          "--tokenizer-identity takes the identity from an existing cache, where the tokenizer is not at hand")


def target_sizes(sizes: list[int | None]) -> None:
    for name, size in zip(("train", "valid", "test"), sizes):
        if size is not None and size > LIMIT // 2:
            raise Refusal(f"{size} {name} samples are asked for; an index holds at most {LIMIT // 2}")


def data_file(path: str | None) -> None:
    """--data-args-path: text, or an error that names it."""
    if path is not None:
        with open(path, encoding="utf-8") as file:
            try:
                file.read()
            except ValueError as error:
                raise Refusal(f"--data-args-path '{path}' is no text: {error}", DATA) from None


def check(arguments) -> None:
    if arguments.data_cache_path == "":
        raise Refusal("--data-cache-path is empty")
    numbers(arguments)
    split(arguments.split)
    tokenizer_files(arguments)
    if arguments.data_path is None:
        data_file(arguments.data_args_path)
