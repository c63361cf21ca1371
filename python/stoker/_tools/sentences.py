# SPDX-License-Identifier: Apache-2.0
"""Sentences of a text, for --split-sentences: by NLTK's Punkt, as the reference does it, or by a few rules without NLTK."""

from __future__ import annotations

import re

from .command import MACHINE, Refusal, need

PIECE_CHARACTERS = 1_000_000  # longer texts are cut before they are split, as the reference does it
SPLITTERS = ["nltk", "rules"]

# End marks with what closes quotes and brackets, then white space, then what begins a sentence.
BORDER = re.compile(r"""([.!?。！？]+["'”’)\]]*)(\s+)(?=["'“‘(\[]?[^\W_a-zß-öø-ÿ])""")
ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|Inc|Ltd|Co|Corp|No|Fig|e\.g|i\.e|cf|al|approx)"
                          r"|\b[A-Za-z])\.$")


def rule_spans(text: str):
    """(begin, end) of each sentence, without the white space between them."""
    begin = 0
    for match in BORDER.finditer(text):
        end = match.end(1)
        if text[end - 1] == "." and ABBREVIATION.search(text, max(begin, end - 12), end):
            continue
        yield begin, end
        begin = match.end(2)
    if begin < len(text):
        yield begin, len(text)


def nltk_spans(language: str):
    need("nltk", "nltk", "--split-sentences (or give --sentence-splitter rules)")
    import nltk
    try:
        from nltk.tokenize.punkt import PunktTokenizer
        return PunktTokenizer(language).span_tokenize
    except ImportError:  # NLTK before 3.9 keeps its models as pickles
        make = lambda: nltk.data.load(f"tokenizers/punkt/{language}.pickle").span_tokenize
    except LookupError:
        raise missing(language) from None
    try:
        return make()
    except LookupError:
        raise missing(language) from None


def missing(language: str) -> Refusal:
    return Refusal(f"NLTK has no sentence model for '{language}'", MACHINE,
                   "python3 -c \"import nltk; nltk.download('punkt_tab')\", or give --sentence-splitter rules")


class Splitter:
    """``split(text)`` gives the sentences of a text."""

    def __init__(self, kind: str, language: str, keep_newlines: bool) -> None:
        self.spans = nltk_spans(language) if kind == "nltk" else rule_spans
        self.keep_newlines = keep_newlines

    def split(self, text: str) -> list[str]:
        sentences = []
        for begin in range(0, len(text), PIECE_CHARACTERS):
            piece = text[begin:begin + PIECE_CHARACTERS]
            spans = list(self.spans(piece))
            if self.keep_newlines:  # the white space after a sentence stays with it
                ends = [start for start, _ in spans[1:]] + [len(piece)]
                spans = [(start, end) for (start, _), end in zip(spans, ends)]
            sentences += [piece[start:end] for start, end in spans]
        return sentences
