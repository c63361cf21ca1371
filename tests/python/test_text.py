# SPDX-License-Identifier: Apache-2.0
"""Lines to tokens: chunks of every size hold every line once, and lines are JSON exactly where json.loads() says so."""

import json
import random

import pytest

from stoker._core import TextEncoder
from stoker._tools.text_input import Source, range_blocks, stream_chunks
from stoker._tools.text_worker import text_blocks


@pytest.mark.parametrize("seed", range(6))
def test_chunks_hold_every_line_once(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "lines"
    for _ in range(40):
        data = b"".join(bytes([rng.randrange(97, 123)]) * rng.choice([0, 1, 2, 5, 30, 200]) + b"\n" for _ in range(rng.randrange(30)))
        if rng.random() < 0.3:
            data = data[:-1]
        path.write_bytes(data)
        size = rng.choice([1, 2, 3, 7, 50, 1000])
        block = rng.choice([1, 2, 8, 64, 4096])
        ranges = []
        for number in range(-(-len(data) // size)):
            blocks = list(range_blocks(str(path), number * size, min((number + 1) * size, len(data)), block))
            for offset, text in blocks:
                assert data[offset:offset + len(text)] == text and (text.endswith(b"\n") or offset + len(text) == len(data))
            ranges.append(b"".join(text for _, text in blocks))
            whole = b"".join(text for _, text in text_blocks(0, ranges[-1], block))
            assert whole == ranges[-1]
        assert b"".join(ranges) == data
        streamed = list(stream_chunks(Source(str(path)), size))
        assert [number for number, _, _ in streamed] == list(range(len(streamed)))
        while ranges and ranges[-1] == b"":
            ranges.pop()
        assert [text for _, _, text in streamed] == ranges


VALUES = [1, -0.5, 1e300, None, True, "x", "é\n\"\\/", "😀", [], {}, [1, [2, {"a": "b"}]], {"text": "inner"}, float("inf"),
          float("nan"), ["a", "b"], "", ["", "\u0000"]]


def random_line(rng):
    members = {rng.choice(["text", "te", "x", "é"]): rng.choice(VALUES) for _ in range(rng.randrange(5))}
    if rng.random() < 0.8:
        members["text"] = rng.choice(["a b", "é", ["x", "y"], "t" * 20, "\t"])
    line = bytearray(json.dumps(members, ensure_ascii=rng.random() < 0.5, indent=None).encode())
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        at = rng.randrange(len(line))
        action = rng.randrange(4)
        if action == 0:
            del line[at]
        elif action == 1:
            line[at] = rng.choice(b'"\\{}[]:,0123456789.eE+-tfnu \t\x01\x80\xc3\xff')
        elif action == 2:
            line.insert(at, rng.choice(b'"\\{}[]:,019.eE+-u \t'))
        else:
            line[at:at] = line[at:at + rng.randrange(8)]
    return bytes(line).replace(b"\n", b" ")


def expected(line):
    """Texts as bytes; None if the reference could not use the line."""
    try:
        value = json.loads(line.decode())["text"]
        texts = [value] if isinstance(value, str) else value
        return [text.encode() for text in texts] if isinstance(texts, list) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@pytest.mark.parametrize("seed", range(4))
def test_lines_are_json_where_python_says_so(seed):
    rng = random.Random(seed)
    encoder = TextEncoder(["text"], rule=3)
    good = bad = 0
    for _ in range(20000):
        line = random_line(rng) or b" "
        lines, documents, faults, listed = encoder.feed(line)
        wanted = expected(line)
        if line.count(b'"text"') > 1 and (wanted is None) != (documents == 0):
            continue  # of two members with the name, only the last one's value counts for Python
        assert (documents == 1) == (wanted is not None), (line, listed, wanted)
        if wanted is None:
            bad += 1
            assert faults == 1 and 0 <= listed[0][2] <= len(line) and listed[0][3]
            continue
        good += 1
        tokens, lengths, _ = encoder.take(0)
        assert tokens[::2] == b"".join(wanted) and not any(tokens[1::2])
        assert len(lengths) == 4 * sum(1 for text in wanted if text)
    assert good > 5000 and bad > 2000


def test_encoder_refuses_what_it_was_not_asked():
    encoder = TextEncoder(["text"], rule=2)
    encoder.feed(b'{"text": "one two"}')
    assert encoder.unknown() == ["one", " two"]
    with pytest.raises(ValueError, match="2 pieces"):
        encoder.learn([[1]])
    with pytest.raises(OverflowError):
        encoder.learn([[1], [1 << 40]])
    with pytest.raises(ValueError, match="70000"):
        encoder.learn([[1], [70000]])
    encoder.learn([[1], [2, 3]])
    assert encoder.take(0) == (b"\1\0\2\0\3\0", b"\3\0\0\0", b"\1" + 7 * b"\0")
    assert encoder.counters() == (2, 2, 0)


PATTERNS = {
    "GPT-2": None,
    "Llama 3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "Qwen 2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "GPT-4o": (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
               r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
               r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
}


@pytest.mark.parametrize("pattern", [r"\p{N}+| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+", r"\s+|\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+",
                                     r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+|\s+(?!\S)"])
def test_patterns_that_keep_runs_of_spaces_together_are_not_cut(pattern):
    from stoker._tools import text_tokenizers
    assert not text_tokenizers.is_safe_pattern(pattern)
    assert text_tokenizers.is_safe_pattern(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def test_added_tokens_that_are_normalized_are_not_looked_for_in_the_text():
    from stoker._tools import text_tokenizers
    split = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    for normalized, safe in ((True, False), (False, True)):
        rule, _ = text_tokenizers.cut_rule(dict(normalizer={"type": "NFC"}, model={"type": "BPE"}, pre_tokenizer=split,
                                                added_tokens=[dict(content="K-9", normalized=normalized)]))
        assert (rule != text_tokenizers.WHOLE) == safe


@pytest.mark.parametrize("special", [["<|end|>"], ["-"], ["@@", "<x"], ["foo", "ab1"], ["'", "é|"]], ids=str)
@pytest.mark.parametrize("normalizer", [None, "NFC"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_pieces_have_the_ids_of_the_whole(pattern, normalizer, special):
    """Every border of characters that rules speak of, many times, with a vocabulary that merges across all of them."""
    library = pytest.importorskip("tokenizers", reason="the optional package tokenizers is not installed")
    from stoker._tools import text_tokenizers
    from tokenizers import normalizers, pre_tokenizers, trainers
    rng = random.Random(f"{pattern} {normalizer} {special}")
    bits = [*" \n\t\r'.-/#(<|>@_aZ5", "  ", "\n\n", "'s", "'LL", "foo", "ab1", "é", "e\u0301", "\u00a0", "\u3000", "日", "٣",
            "<|end|>", "@@", "\x0b", "\x1c", "\u2028", "ſ", "ς"]
    texts = ["".join(rng.choice(bits) for _ in range(rng.randrange(1, 14))) for _ in range(3000)]
    made = library.Tokenizer(library.models.BPE())
    if PATTERNS[pattern]:
        made.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(library.Regex(PATTERNS[pattern]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer:
        made.normalizer = getattr(normalizers, normalizer)()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=3000, show_progress=False, special_tokens=special,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = text_tokenizers.HuggingFace(made, False)
    if not (normalizer and "é|" in special):
        assert tokenizer.rule == text_tokenizers.WORDS
    encoder = TextEncoder(["text"], rule=tokenizer.rule, guard=tokenizer.guard, wide=True)
    encoder.feed("".join(json.dumps({"text": text}) + "\n" for text in texts).encode())
    encoder.learn(tokenizer.encode(encoder.unknown()))
    tokens, lengths, _ = encoder.take(0)
    tokens, lengths, at = memoryview(tokens).cast("i"), memoryview(lengths).cast("i"), 0
    for text, length in zip([text for text in texts if made.encode(text).ids], lengths, strict=True):
        assert list(tokens[at:at + length]) == made.encode(text).ids, repr(text)
        at += length
