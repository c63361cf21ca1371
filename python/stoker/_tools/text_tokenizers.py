# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of `stoker preprocess`: from the arguments to ids, and where a text may be cut for them.

A tokenizer is used piece by piece (``encode``); ``encode_text`` is what the reference does with a whole text, and what
the workers compare the pieces with. ``rule`` says how texts are cut: see docs/decisions/0136.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib

from .command import DATA, USAGE, Refusal, need

WHOLE, SPACES, WORDS, BYTES, NUMBERS = range(5)
TYPES = ["HuggingFaceTokenizer", "GPT2BPETokenizer", "SentencePieceTokenizer", "ByteLevelTokenizer", "NullTokenizer"]
EOD_NAMES = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<EOD>"]


def optimal_code(vocabulary: int) -> int:
    """Code of the smallest element type that the reference chooses for so many entries: uint16 or int32."""
    return 8 if vocabulary < 65500 else 4


class Tokenizer:
    """``rule``, ``guard``, ``prefix``, ``suffix``: for the encoder; ``vocabulary``; ``eod`` (None: it has none)."""

    rule = WHOLE
    guard = b""
    prefix: list[int] = []
    suffix: list[int] = []
    id_limit = 0
    eod: int | None = None
    vocabulary: int

    def encode(self, pieces: list[str]) -> list[list[int]]:
        raise AssertionError("this rule asks for no pieces")

    def encode_text(self, text: str) -> list[int]:
        raise AssertionError("this rule asks for no texts")


# --------------------------------------------------------------------------------------------------------- tokenizers

# Alternatives of pre-tokenizing patterns after which cuts are safe: a space only ever begins a match, or belongs to a run
# of spaces; letters and digits are never in one match with another ASCII character that follows them, but for contractions.
SAFE_ALTERNATIVES = {
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"'(?i:[sdmt]|ll|ve|re)",
    r" ?\p{L}+", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}+",
    r" ?\p{N}+", r"\p{N}{1,3}", r"\p{N}", r"\p{N}+",
    r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*", r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+", r"\s*[\r\n]", r"\s+(?!\S)", r"\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
}
NEEDED_KINDS = [r"\p{L", r"\p{N}", r"[^\s\p{L}\p{N}]+", r"\s+"]  # every character is matched by one of these


def alternatives(pattern: str) -> list[str]:
    """The pattern cut at the bars that stand outside of all brackets."""
    found, depth, inside, at, begin = [], 0, False, 0, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif inside:
            inside = character != "]"
        elif character == "[":
            inside = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            found.append(pattern[begin:at])
            begin = at + 1
        at += 1
    return [*found, pattern[begin:]]


def is_safe_pattern(pattern: str) -> bool:
    """The alternatives for runs of spaces must be the last ones and in this order: without the first, or after the second, the
    last space of a run does not begin the next word."""
    parts = alternatives(pattern)
    if len(parts) < 2 or parts[-2:] != [r"\s+(?!\S)", r"\s+"] or r"\s+" in parts[:-2]:
        return False
    return all(part in SAFE_ALTERNATIVES for part in parts) and \
        all(any(kind in part for part in parts) for kind in NEEDED_KINDS)


def is_safe_split(pre_tokenizer) -> bool:
    """Does the pre-tokenizer (as its file describes it) begin a new word at every cut?"""
    steps = [pre_tokenizer]
    if pre_tokenizer and pre_tokenizer["type"] == "Sequence":
        steps = pre_tokenizer["pretokenizers"]
    if len(steps) == 1 and steps[0] and steps[0]["type"] == "ByteLevel":
        return steps[0].get("use_regex", True)
    if len(steps) != 2 or steps[0]["type"] != "Split" or steps[1]["type"] != "ByteLevel":
        return False
    split, level = steps
    return split.get("behavior") == "Isolated" and not split.get("invert") and not level.get("use_regex", True) and \
        not level.get("add_prefix_space") and is_safe_pattern(split["pattern"].get("Regex", ""))


def adds_space(pre_tokenizer) -> bool:
    """Is a space put before a piece that has none? Then pieces must begin with one, but for the first of a text."""
    return any(step.get("add_prefix_space") for step in pre_tokenizer.get("pretokenizers", [pre_tokenizer]))


def cut_rule(description: dict) -> tuple[int, bytes]:
    """Rule and guard bytes for a tokenizer file. WHOLE where safety is not plain to see."""
    normalizer, model = description.get("normalizer"), description["model"]
    if normalizer and normalizer["type"] != "NFC":
        return WHOLE, b""
    if model.get("type", "BPE") != "BPE" or model.get("dropout") or not is_safe_split(description.get("pre_tokenizer")):
        return WHOLE, b""
    guard = set()
    for token in description.get("added_tokens", []):
        text = token["content"]
        if token.get("lstrip") or token.get("rstrip") or token.get("single_word") or any(c.isspace() for c in text):
            return WHOLE, b""
        if normalizer and token.get("normalized", True):  # looked for in the normalized text: it may begin with another byte
            return WHOLE, b""
        guard.add(text.encode()[0])
    return (SPACES, b"") if adds_space(description["pre_tokenizer"]) else (WORDS, bytes(sorted(guard)))


class HuggingFace(Tokenizer):
    def __init__(self, tokenizer, with_special_tokens: bool) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.with_special_tokens = with_special_tokens
        self._batch = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)  # since tokenizers 0.20
        self.vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
        self.rule, self.guard = cut_rule(json.loads(tokenizer.to_str()))
        if with_special_tokens:
            self._find_special_tokens()

    def _find_special_tokens(self) -> None:
        """What the file's post-processor puts around a text."""
        for probe in ("a", "one two", "Ω 1"):
            inner, outer = self._plain([probe])[0], self.encode_text(probe)
            for begin in range(len(outer) - len(inner) + 1):
                if outer[begin:begin + len(inner)] == inner:
                    break
            else:
                raise Refusal("the post-processor of this tokenizer does more than put ids around a text; give "
                              "--tokenizer-hf-no-include-special-tokens", DATA)
            found = outer[:begin], outer[begin + len(inner):]
            if probe != "a" and found != (self.prefix, self.suffix):
                raise Refusal("the post-processor of this tokenizer puts different ids around different texts; give "
                              "--tokenizer-hf-no-include-special-tokens", DATA)
            self.prefix, self.suffix = found

    def _plain(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._batch(texts, add_special_tokens=False)]

    encode = _plain

    def encode_text(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=self.with_special_tokens).ids

    def id_of(self, token: str) -> int | None:
        return self.tokenizer.token_to_id(token)


def configured_eod(folder: pathlib.Path) -> str | None:
    """The end-of-sentence token that the files beside a tokenizer.json name."""
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        try:
            token = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(token, dict):
            token = token.get("content")
        if isinstance(token, str):
            return token
    return None


def hugging_face(arguments) -> HuggingFace:
    library = need("tokenizers", "tokenizers", "a tokenizer.json file")
    path = pathlib.Path(arguments.tokenizer_model)
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise Refusal(f"--tokenizer-model '{arguments.tokenizer_model}' is no tokenizer.json file and no folder with one "
                      "(names of hubs are not looked up: download the file first)", DATA)
    try:
        made = library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise Refusal(f"'{path}' is no tokenizer file: {error}", DATA) from None
    tokenizer = HuggingFace(made, not arguments.tokenizer_hf_no_include_special_tokens)
    named = configured_eod(path.parent)
    if named is not None:
        tokenizer.eod = tokenizer.id_of(named)
    else:
        found = [number for number in map(tokenizer.id_of, EOD_NAMES) if number is not None]
        tokenizer.eod = found[0] if len(found) == 1 else None
    return tokenizer


def gpt2(arguments) -> HuggingFace:
    library = need("tokenizers", "tokenizers", "a GPT-2 vocabulary")
    for name in ("vocab_file", "merge_file"):
        if getattr(arguments, name) is None:
            raise Refusal(f"GPT2BPETokenizer needs --{name.replace('_', '-')}")
        if not os.path.isfile(getattr(arguments, name)):
            raise Refusal(f"'{getattr(arguments, name)}' is no file", DATA)
    try:
        made = library.Tokenizer(library.models.BPE.from_file(arguments.vocab_file, arguments.merge_file))
    except Exception as error:
        raise Refusal(f"'{arguments.vocab_file}' and '{arguments.merge_file}' are no GPT-2 vocabulary: {error}", DATA) from None
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if made.token_to_id("<|endoftext|>") is not None:
        made.add_special_tokens(["<|endoftext|>"])
    tokenizer = HuggingFace(made, False)
    tokenizer.eod = made.token_to_id("<|endoftext|>")
    return tokenizer


# ------------------------------------------------------------------------------------------------------ SentencePiece

class SentencePiece(Tokenizer):
    """Whole texts: normalisation joins and drops spaces by rules of the model (a literal U+2581 counts as one), so no cut is
    safe for all of them."""

    def __init__(self, processor) -> None:
        self.processor = processor
        self.vocabulary = processor.get_piece_size()
        self.eod = processor.eos_id() if processor.eos_id() >= 0 else None
        self.rule = WHOLE

    def encode(self, pieces: list[str]) -> list[list[int]]:
        return self.processor.encode(pieces, num_threads=1)

    def encode_text(self, text: str) -> list[int]:
        return self.processor.encode(text)


def sentence_piece(arguments) -> SentencePiece:
    library = need("sentencepiece", "sentencepiece", "a SentencePiece model")
    if not os.path.isfile(arguments.tokenizer_model):
        raise Refusal(f"--tokenizer-model '{arguments.tokenizer_model}' is no file", DATA)
    try:
        return SentencePiece(library.SentencePieceProcessor(model_file=arguments.tokenizer_model))
    except (RuntimeError, OSError) as error:
        raise Refusal(f"'{arguments.tokenizer_model}' is no SentencePiece model: {error}", DATA) from None


# ---------------------------------------------------------------------------------------------------- without a library

class ByteLevel(Tokenizer):
    """Ids 0 to 255 are the bytes of the UTF-8 text; 256 ends a document."""

    rule, vocabulary, eod = BYTES, 257, 256

    def encode_text(self, text: str) -> list[int]:
        return list(text.encode())


class Null(Tokenizer):
    """The text holds the ids, as decimal numbers; the last id of the vocabulary ends a document."""

    rule = NUMBERS

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = self.id_limit = vocabulary
        self.eod = vocabulary - 1

    def encode_text(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]


# --------------------------------------------------------------------------------------------------------- arguments

def add_arguments(parser) -> None:
    parser.add_argument("--tokenizer-type", choices=TYPES)
    parser.add_argument("--tokenizer-model")
    parser.add_argument("--tokenizer-hf-no-include-special-tokens", action="store_true")
    parser.add_argument("--vocab-file")
    parser.add_argument("--merge-file")
    parser.add_argument("--vocab-size", type=int)
    parser.add_argument("--eod-id", type=int)
    parser.add_argument("--whole-texts", action="store_true")


def type_of(arguments) -> str:
    if arguments.tokenizer_type:
        return arguments.tokenizer_type
    model = arguments.tokenizer_model
    if model is None:
        raise Refusal("no tokenizer is given: --tokenizer-model FILE or --tokenizer-type TYPE")
    return "SentencePieceTokenizer" if model.endswith(".model") else "HuggingFaceTokenizer"


def make(arguments) -> Tokenizer:
    """The tokenizer that the arguments ask for."""
    kind = type_of(arguments)
    if kind in ("HuggingFaceTokenizer", "SentencePieceTokenizer") and arguments.tokenizer_model is None:
        raise Refusal(f"{kind} needs --tokenizer-model")
    if kind == "NullTokenizer":
        if arguments.vocab_size is None or not 1 <= arguments.vocab_size <= 1 << 31:
            raise Refusal("NullTokenizer needs --vocab-size, from 1 to 2147483648")
        tokenizer = Null(arguments.vocab_size)
    elif kind == "ByteLevelTokenizer":
        tokenizer = ByteLevel()
    else:
        makers = {"HuggingFaceTokenizer": hugging_face, "GPT2BPETokenizer": gpt2, "SentencePieceTokenizer": sentence_piece}
        tokenizer = makers[kind](arguments)
    if arguments.whole_texts and tokenizer.rule in (SPACES, WORDS):
        tokenizer.rule = WHOLE
    if arguments.eod_id is not None:
        tokenizer.eod = arguments.eod_id
    limit = 1 << (16 if optimal_code(tokenizer.vocabulary) == 8 else 31)
    if tokenizer.eod is not None and not 0 <= tokenizer.eod < (tokenizer.id_limit or limit):
        raise Refusal(f"end-of-document id {tokenizer.eod} is not below {tokenizer.id_limit or limit}", USAGE)
    return tokenizer


def identity(arguments) -> dict:
    """What decides about ids, for the journal of a run: names, versions and digests of files."""
    facts = {"type": type_of(arguments), "special": not arguments.tokenizer_hf_no_include_special_tokens,
             "vocab_size": arguments.vocab_size, "eod_id": arguments.eod_id}
    for name in ("tokenizer_model", "vocab_file", "merge_file"):
        path = getattr(arguments, name)
        if path is not None and os.path.isdir(path):
            path = os.path.join(path, "tokenizer.json")
        if path is not None and os.path.isfile(path):
            with open(path, "rb") as file:
                facts[name] = hashlib.sha256(file.read()).hexdigest()
    return facts
