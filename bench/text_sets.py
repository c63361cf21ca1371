# SPDX-License-Identifier: Apache-2.0
"""Make the JSON lines and the tokenizer that `./dev bench preprocess` reads: seeded, cached in .cache/text/.

    text_sets.py 20         a file of 20 MB, and the tokenizer
    text_sets.py 1000       of 1 GB (about two minutes)

The words are those of the documents that Debian installs: manual pages in all their languages, read-me files, licences,
changelogs. They are cut into paragraphs; documents are drawn from these, with a long-tailed length. A corpus larger than
its source would repeat itself, and whoever remembers words would look faster than on real text. So that this is not so,
every paragraph drawn again gets fresh numbers, and fresh spellings for every word that is rare in the source: rare words
go on being new, as they do in text that people wrote. The tokenizer is a byte-level BPE of 50,257 entries with GPT-2's
pre-tokenizer, trained on 20 MB of such text.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("STOKER_CACHE", ROOT / ".cache")) / "text"
SEED = 20240607
VERSION = 1  # raise it when the recipe changes
FOLDERS = ["/usr/share/common-licenses", "/usr/share/doc", "/usr/share/man", "/usr/share/perl"]
KINDS = {"", ".txt", ".md", ".rst", ".pod", ".Debian"}
FILE_BYTES_MAX = 400_000  # one huge changelog would be half of the corpus
SOURCE_BYTES_MAX = 120_000_000
RARE = 3  # words seen this often or less get fresh spellings
VOCABULARY = 50_257
SYLLABLES = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("", "", "n", "r", "s", "st", "ck")]


def log(text):
    print(text, file=sys.stderr, flush=True)


def source_files():
    found = []
    for folder in FOLDERS:
        for where, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                path = pathlib.Path(where, name)
                suffix = path.suffix if path.suffix != ".gz" else ".gz"
                if not path.is_symlink() and (suffix in KINDS or suffix == ".gz" or name == "copyright"):
                    found.append(path)
    random.Random(SEED).shuffle(found)
    return found


def read(path):
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
    with opened as file:
        data = file.read(FILE_BYTES_MAX)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[:error.start].decode() if error.start > FILE_BYTES_MAX - 8 else ""


MACRO = re.compile(r"^[.'][^\n]*\n?", re.M)
ESCAPE = re.compile(r"\\(?:f.|\*\(..|\[[^\]]*\]|&|[(].{2}|s[-+]?\d)")


def paragraphs():
    """All paragraphs of the source, each once, in a seeded order."""
    seen, result, total = set(), [], 0
    for path in source_files():
        text = read(path)
        if "\0" in text:
            continue
        if "/man/" in str(path):
            text = ESCAPE.sub("", MACRO.sub("", text)).replace("\\-", "-").replace('\\"', "")
        for part in re.split(r"\n\s*\n", text):
            part = part.strip("\n")
            if len(part) < 40 or hash_of(part) in seen:
                continue
            seen.add(hash_of(part))
            result.append(part)
            total += len(part)
        if total > SOURCE_BYTES_MAX:
            break
    random.Random(SEED).shuffle(result)
    log(f"source: {len(result)} paragraphs, {total / 1e6:.0f} MB")
    return result


def hash_of(text):
    import zlib
    return zlib.crc32(text.encode()), len(text)


WORD = re.compile(r"[A-Za-z]{3,}|\d+")


def varied(text, counts, rng):
    """The paragraph with fresh numbers and fresh rare words."""
    def fresh(match):
        word = match[0]
        if word.isdigit():
            return "".join(rng.choice("0123456789") for _ in word)
        if counts[word] > RARE:
            return word
        made = ""
        while len(made) < len(word):
            made += rng.choice(SYLLABLES)
        return made.capitalize() if word[0].isupper() else made
    return WORD.sub(fresh, text)


def write_lines(path, megabytes):
    rng = random.Random(SEED + 1)
    parts = paragraphs()
    counts = collections.Counter(word for part in parts for word in WORD.findall(part))
    written, at, turn = 0, 0, 0
    temporary = path.with_suffix(".part")
    with open(temporary, "w", encoding="utf-8") as file:
        while written < megabytes * 1_000_000:
            wanted, text = int(rng.lognormvariate(7.3, 1.0)), []
            while wanted > 0:
                part = parts[at] if turn == 0 else varied(parts[at], counts, rng)
                text.append(part)
                wanted -= len(part)
                at += 1
                if at == len(parts):
                    at, turn = 0, turn + 1
                    rng.shuffle(parts)
            line = json.dumps({"text": "\n\n".join(text), "meta": {"number": turn}}, ensure_ascii=False)
            file.write(line + "\n")
            written += len(line.encode()) + 1
    temporary.rename(path)
    log(f"{path}: {path.stat().st_size / 1e6:.0f} MB")


def lines(megabytes):
    """Path of a file of JSON lines of about so many megabytes."""
    path = CACHE / f"lines-v{VERSION}-{megabytes}.jsonl"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        write_lines(path, megabytes)
    return path


def tokenizer():
    """Path of the tokenizer.json."""
    path = CACHE / f"bpe-v{VERSION}-{VOCABULARY}.json"
    if not path.exists():
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"], show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        with open(lines(20), encoding="utf-8") as file:
            made.train_from_iterator((json.loads(line)["text"] for line in file), trainer)
        made.save(str(path))
        log(f"{path}: {made.get_vocab_size()} entries")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="text_sets.py", description=__doc__.split("\n", 1)[0])
    parser.add_argument("megabytes", type=int)
    lines(parser.parse_args().megabytes)
    tokenizer()
