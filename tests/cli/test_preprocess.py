# SPDX-License-Identifier: Apache-2.0
"""stoker preprocess: the reference's files, every kind of input and tokenizer, bad lines, interruption."""

import gzip
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

TOOLS = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron" / "tools" / "preprocess"
RUNS = json.loads((TOOLS / "preprocess.json").read_text())["runs"]
WORDS = ("the of and to in is that for it as with was on be by are this which from at an or we have not their been the "
         "token's don't it's naïve café straße Ωmega привет мир 日本語 emoji 😀 <|endoftext|> </s> x=1 3.14 2024-05-01 "
         "http://example.org/a_b?c=d (see below) \"quoted\" [12] C++ foo_bar --flag=value").split(" ")
GAPS = [" "] * 30 + ["  ", "\n", "\n\n", " \n ", "\t", "\u00a0", "\u3000 ", ", ", ". "]


def texts(count, seed=1):
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        made.append("".join(rng.choice(WORDS) + rng.choice(GAPS) for _ in range(rng.randrange(60))))
    return made


def write_lines(path, values, key="text"):
    path.write_text("".join(json.dumps({key: value}, ensure_ascii=bool(i % 2)) + "\n" for i, value in enumerate(values)))


def dataset(prefix):
    """(dtype code, documents: list of sequences: list of ids), read by the description of the format alone."""
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    magic, version, code, sequences, entries = struct.unpack_from("<9sQBQQ", index)
    assert magic == b"MMIDIDX\0\0" and version == 1 and len(index) == 34 + 12 * sequences + 8 * entries
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    offsets = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    documents = struct.unpack_from(f"<{entries}q", index, 34 + 12 * sequences)
    data = pathlib.Path(f"{prefix}.bin").read_bytes()
    letter, width = {8: ("H", 2), 4: ("i", 4)}[code]
    rows = [list(struct.unpack_from(f"<{length}{letter}", data, offset)) for length, offset in zip(lengths, offsets)]
    assert len(data) == width * sum(lengths)
    return code, [rows[begin:end] for begin, end in zip(documents, documents[1:])]


def files_of(folder, pattern="out_*"):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob(pattern))}


def need(module):
    return pytest.importorskip(module, reason=f"the optional package {module} is not installed")


# -------------------------------------------------------------------------------------------------------------- golden

@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["name"])
def test_same_files_as_the_reference(stoker, tmp_path, run):
    shutil.copy(TOOLS / "in.jsonl", tmp_path)
    done = stoker("preprocess", *run["arguments"])
    assert done.returncode == 0, done.stderr
    got = {name: digest for name, digest in files_of(tmp_path, "*").items() if name != "in.jsonl"}
    assert got == run["files"]


# ---------------------------------------------------------------------------------------------------------- tokenizers

GPT2, LLAMA3, O200K = "gpt2", (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def bpe(path, pattern=GPT2, normalizer=None, around=False, prefix_space=False, entries=800):
    """A trained tokenizer.json; gives the library's object."""
    library = need("tokenizers")
    from tokenizers import normalizers, pre_tokenizers, processors, trainers
    made = library.Tokenizer(library.models.BPE())
    if pattern == GPT2:
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    elif pattern == "bert":
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        made.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(library.Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if normalizer:
        made.normalizer = getattr(normalizers, normalizer)()
    made.train_from_iterator(texts(200, seed=9), trainers.BpeTrainer(
        vocab_size=entries, special_tokens=["<|endoftext|>", "<s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if around:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A <|endoftext|>", special_tokens=[("<s>", made.token_to_id("<s>")),
                                                           ("<|endoftext|>", made.token_to_id("<|endoftext|>"))])
    made.save(str(path))
    return made


@pytest.mark.parametrize("form", [
    dict(), dict(pattern=LLAMA3), dict(pattern=O200K), dict(normalizer="NFC"), dict(pattern=LLAMA3, normalizer="NFKC"),
    dict(around=True), dict(prefix_space=True), dict(pattern="bert"), dict(pattern=r"\w+|\s+|.")], ids=str)
def test_ids_are_those_of_the_library_for_whole_texts(stoker, tmp_path, form):
    made = bpe(tmp_path / "tokenizer.json", **form)
    values = texts(400)
    values[7], values[8] = "", values[9].split("\n")
    write_lines(tmp_path / "in.jsonl", values)
    done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", "--tokenizer-model", "tokenizer.json",
                  "--append-eod", "--chunk-bytes", 20000, "--workers", 2)
    assert done.returncode == 0, done.stderr
    eod = made.token_to_id("<|endoftext|>")
    expected = []
    for value in values:
        sentences = [made.encode(text).ids for text in ([value] if isinstance(value, str) else value)]
        sentences = [ids for ids in sentences if ids]
        if sentences:
            sentences[-1].append(eod)
        expected.append(sentences)
    code, got = dataset(tmp_path / "out_text_document")
    assert code == 8 and got == expected


def test_special_tokens_around_texts_can_be_left_out(stoker, tmp_path):
    made = bpe(tmp_path / "tokenizer.json", around=True)
    values = texts(20)
    write_lines(tmp_path / "in.jsonl", values)
    done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", "--tokenizer-model", tmp_path,
                  "--tokenizer-hf-no-include-special-tokens")
    assert done.returncode == 0, done.stderr
    expected = [made.encode(value, add_special_tokens=False).ids for value in values]
    assert [document[0] if document else [] for document in dataset(tmp_path / "out_text_document")[1]] == expected


def test_pieces_and_whole_texts_give_the_same_bytes(stoker, tmp_path):
    bpe(tmp_path / "tokenizer.json")
    write_lines(tmp_path / "in.jsonl", texts(300))
    for name, more in (("out", []), ("whole", ["--whole-texts"]), ("tiny", ["--cache-bytes", "1"])):
        done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", name, "--tokenizer-model", "tokenizer.json", *more)
        assert done.returncode == 0, done.stderr
    digests = [list(files_of(tmp_path, f"{name}_*").values()) for name in ("out", "whole", "tiny")]
    assert digests[0] == digests[1] == digests[2] and len(digests[0]) == 2


def test_gpt2_vocabulary_and_merges(stoker, tmp_path):
    made = bpe(tmp_path / "tokenizer.json")
    made.model.save(str(tmp_path))
    write_lines(tmp_path / "in.jsonl", texts(50))
    for name, more in (("a", ["--tokenizer-model", "tokenizer.json", "--tokenizer-hf-no-include-special-tokens"]),
                       ("b", ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", "vocab.json", "--merge-file", "merges.txt"])):
        done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", name, "--append-eod", *more)
        assert done.returncode == 0, done.stderr
    assert dataset(tmp_path / "a_text_document") == dataset(tmp_path / "b_text_document")


def test_sentence_piece(stoker, tmp_path):
    library = need("sentencepiece")
    library.SentencePieceTrainer.train(sentence_iterator=iter(texts(300, seed=9)), model_prefix=str(tmp_path / "sp"),
                                       vocab_size=300, hard_vocab_limit=False, minloglevel=2)
    processor = library.SentencePieceProcessor(model_file=str(tmp_path / "sp.model"))
    values = texts(200)
    write_lines(tmp_path / "in.jsonl", values)
    for more in ([], ["--whole-texts"]):
        done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", "--tokenizer-model", "sp.model",
                      "--append-eod", *more)
        assert done.returncode == 0, done.stderr
        expected = [processor.encode(value) for value in values]
        assert [sum(document, []) for document in dataset(tmp_path / "out_text_document")[1]] == [
            ids + [processor.eos_id()] if ids else [] for ids in expected]


def test_bytes_as_ids(stoker, tmp_path):
    write_lines(tmp_path / "in.jsonl", ["é", "", ["a", "", "b"]])
    done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", "--tokenizer-type", "ByteLevelTokenizer",
                  "--append-eod", "--json")
    assert done.returncode == 0, done.stderr
    assert dataset(tmp_path / "out_text_document") == (8, [[[0xc3, 0xa9, 256]], [], [[97], [98, 256]]])
    report = json.loads(done.stdout)
    assert report["schema"] == "stoker.preprocess/1" and report["lines"] == 3 and report["skipped"] == 0
    assert report["outputs"] == [dict(prefix="out_text_document", dtype="uint16", documents=3, sequences=3, tokens=6)]


@pytest.mark.parametrize("arguments, status, text", [
    (["--tokenizer-model", "absent.json"], 3, "no tokenizer.json"),
    (["--tokenizer-model", "in.jsonl"], 3, "no tokenizer file"),
    (["--tokenizer-model", "in.model"], 3, "no SentencePiece model"),
    (["--tokenizer-type", "NullTokenizer"], 2, "--vocab-size"),
    (["--tokenizer-type", "GPT2BPETokenizer"], 2, "--vocab-file"),
    (["--tokenizer-type", "Nonsense"], 2, "invalid choice"),
    ([], 2, "no tokenizer is given"),
    (["--tokenizer-type", "ByteLevelTokenizer", "--eod-id", "65536"], 2, "65536"),
    (["--tokenizer-type", "ByteLevelTokenizer", "--json-keys", "a", "a"], 2, "twice"),
    (["--tokenizer-type", "ByteLevelTokenizer", "--workers", "0"], 2, "--workers"),
    (["--tokenizer-type", "ByteLevelTokenizer", "--input", "absent*"], 3, "absent*"),
    (["--tokenizer-type", "ByteLevelTokenizer", "--input", "-", "in.jsonl"], 2, "standard input"),
    (["--tokenizer-type", "ByteLevelTokenizer", "--output-prefix", "nowhere/out"], 4, "nowhere"),
    (["--tokenizer-type", "ByteLevelTokenizer", "--split-sentences", "--lang", "klingon"], 4, "klingon|nltk"),
])
def test_refusals(stoker, tmp_path, arguments, status, text):
    need("tokenizers"), need("sentencepiece")
    write_lines(tmp_path / "in.jsonl", ["a"])
    (tmp_path / "in.model").write_bytes(b"no model")
    done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", *arguments)
    assert done.returncode == status and done.stdout == ""
    assert any(part in done.stderr for part in text.split("|")), done.stderr
    assert done.stderr.startswith("stoker preprocess: ") and "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "in.model"]


def test_missing_package_is_named(stoker, tmp_path):
    write_lines(tmp_path / "in.jsonl", ["a"])
    (tmp_path / "packages").mkdir()
    for name in ("tokenizers", "sentencepiece", "zstandard"):
        (tmp_path / "packages" / f"{name}.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join(filter(None, [str(tmp_path / "packages"), os.environ.get("PYTHONPATH")]))
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "in.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")
    for package, more in (("tokenizers", ["--tokenizer-model", "t.json"]), ("sentencepiece", ["--tokenizer-model", "t.model"]),
                          ("zstandard", ["--tokenizer-type", "ByteLevelTokenizer", "--input", "in.zst"])):
        done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", *more,
                      env={**os.environ, "PYTHONPATH": path})
        assert done.returncode == 4 and f"pip install {package}" in done.stderr, done.stderr


# --------------------------------------------------------------------------------------------------------------- input

@pytest.fixture
def bytes_run(program, tmp_path):
    """Run with byte ids and small chunks; gives the process."""
    def call(*arguments, stdin=None):
        return subprocess.run([program, "preprocess", "--tokenizer-type", "ByteLevelTokenizer", "--append-eod",
                               "--output-prefix", "out", "--workers", "2", "--chunk-bytes", "3000",
                               *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=120, stdin=stdin)
    return call


@pytest.mark.parametrize("kind", ["plain", "gz", "zst", "stdin", "several", "pattern", "no newline at the end", "long line"])
def test_input_of_every_kind_gives_the_same_documents(bytes_run, tmp_path, kind):
    values = texts(100)
    if kind == "long line":
        values[50] = "long " * 20000
    write_lines(tmp_path / "in.jsonl", values)
    data = (tmp_path / "in.jsonl").read_bytes()
    stdin, arguments = subprocess.DEVNULL, ["in.jsonl"]
    if kind == "gz":
        (tmp_path / "in.gz").write_bytes(gzip.compress(data[:len(data) // 2]) + gzip.compress(data[len(data) // 2:]))
        arguments = ["in.gz"]
    elif kind == "zst":
        library = need("zstandard")
        half = len(data) // 2
        (tmp_path / "in.zst").write_bytes(b"".join(library.ZstdCompressor().compress(part) for part in (data[:half], data[half:])))
        arguments = ["in.zst"]
    elif kind == "stdin":
        stdin, arguments = open(tmp_path / "in.jsonl", "rb"), ["-"]
    elif kind in ("several", "pattern"):
        cut = [0, data.index(b"\n", 9000) + 1, data.index(b"\n", 9500) + 1, len(data)]
        for index in range(3):
            part = data[cut[index]:cut[index + 1]]
            (tmp_path / f"part{index}.jsonl").write_bytes(gzip.compress(part) if index == 1 else part)
        arguments = ["part*.jsonl"] if kind == "pattern" else [f"part{index}.jsonl" for index in range(3)]
    elif kind == "no newline at the end":
        (tmp_path / "in.jsonl").write_bytes(data[:-1])
    done = bytes_run("--input", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    expected = [[[*value.encode(), 256]] if value else [] for value in values]
    assert dataset(tmp_path / "out_text_document")[1] == expected
    assert not (tmp_path / "out.stoker-preprocess").exists()


@pytest.mark.parametrize("data, documents", [(b"", 0), (b'{"text": ""}', 1), (b'{"text": "a"}\r\n', 1)])
def test_small_inputs(bytes_run, tmp_path, data, documents):
    (tmp_path / "in.jsonl").write_bytes(data)
    done = bytes_run("--input", "in.jsonl")
    assert done.returncode == 0, done.stderr
    assert len(dataset(tmp_path / "out_text_document")[1]) == documents


def test_damaged_compressed_input(bytes_run, tmp_path):
    packed = gzip.compress(b'{"text": "a"}\n' * 10000)
    (tmp_path / "in.gz").write_bytes(packed[:-20])
    done = bytes_run("--input", "in.gz")
    assert done.returncode == 3 and "in.gz" in done.stderr and files_of(tmp_path) == {}


def test_several_keys_are_several_files(bytes_run, tmp_path):
    rows = [dict(a="1", b=["x", "y"], c=None), dict(b="z", a="")]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert bytes_run("--input", "in.jsonl", "--json-keys", "b", "a").returncode == 0
    assert dataset(tmp_path / "out_a_document")[1] == [[[49, 256]], []]
    assert dataset(tmp_path / "out_b_document")[1] == [[[120], [121, 256]], [[122, 256]]]


@pytest.mark.parametrize("sequential", [False, True])
def test_partitions_of_several_inputs(bytes_run, tmp_path, sequential):
    first, second = texts(30), texts(25, seed=5)
    write_lines(tmp_path / "a.jsonl", first)
    (tmp_path / "a.jsonl").write_bytes((tmp_path / "a.jsonl").read_bytes()[:-1])
    write_lines(tmp_path / "b.jsonl", second)
    more = ["--keep-sequential-samples"] if sequential else []
    for _ in range(2):  # the second time with the partition files of the first
        done = bytes_run("--input", "a.jsonl", "b.jsonl", "--partitions", "4", *more)
        assert done.returncode == 0, done.stderr
        values = first + second
        order = values if sequential else [values[i] for start in range(4) for i in range(start, 55, 4)]
        assert dataset(tmp_path / "out_text_document")[1] == [[[*value.encode(), 256]] if value else [] for value in order]
    (tmp_path / "a_2.jsonl").write_text("{}\n")
    done = bytes_run("--input", "a.jsonl", "b.jsonl", "--partitions", "4", *more)
    assert done.returncode == 3 and "a_0.jsonl" in done.stderr


# ----------------------------------------------------------------------------------------------------------- bad lines

def test_bad_lines_are_named_with_line_and_byte(bytes_run, tmp_path):
    good = json.dumps({"text": "good line"}) + "\n"
    (tmp_path / "in.jsonl").write_text(good * 700 + '{"text": 5}\n' + good)
    done = bytes_run("--input", "in.jsonl")
    assert done.returncode == 3 and done.stdout == ""
    assert f"in.jsonl: line 701, byte {len(good) * 700 + 9}: " in done.stderr and "key 'text'" in done.stderr
    assert files_of(tmp_path) == {}
    (tmp_path / "in.jsonl").write_text(good)
    assert "--restart" in bytes_run("--input", "in.jsonl").stderr
    assert bytes_run("--input", "in.jsonl", "--restart").returncode == 0


def test_a_run_that_has_done_nothing_leaves_nothing(bytes_run, tmp_path):
    (tmp_path / "in.jsonl").write_text("{\n")
    assert bytes_run("--input", "in.jsonl").returncode == 3
    assert os.listdir(tmp_path) == ["in.jsonl"]


def test_bad_lines_can_be_skipped_and_are_counted(bytes_run, tmp_path):
    lines = ['{"text": "a"}', "", "{", '{"text": "\\ud800"}', '{"x": "b"}', '{"text": "c"} d', '{"text": "e"}']
    (tmp_path / "in.jsonl").write_bytes("\n".join(lines).encode() + b'\n{"text": "\xff"}\n')
    done = bytes_run("--input", "in.jsonl", "--on-error", "skip", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lines"] == 8 and report["skipped"] == 6
    assert dataset(tmp_path / "out_text_document")[1] == [[[97, 256]], [[101, 256]]]
    for number in (2, 3, 4, 5, 6, 8):
        assert f"skipped: in.jsonl: line {number}, byte " in done.stderr


def test_ids_beyond_the_vocabulary(stoker, tmp_path):
    write_lines(tmp_path / "in.jsonl", ["1 2", "3 10"])
    done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", "--tokenizer-type", "NullTokenizer",
                  "--vocab-size", "10")
    assert done.returncode == 3 and "line 2" in done.stderr and "vocabulary" in done.stderr


# -------------------------------------------------------------------------------------------------------- interruption

def start(program, tmp_path, *more):
    return subprocess.Popen([program, "preprocess", "--input", "in.jsonl", "--output-prefix", "out", "--tokenizer-model",
                             "tokenizer.json", "--append-eod", "--workers", "2", "--chunk-bytes", "60000", *more],
                            cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            start_new_session=True)


def wait_for_parts(tmp_path, count, process):
    journal = tmp_path / "out.stoker-preprocess" / "journal.jsonl"
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_text().count('"part"') >= count:
            return
        time.sleep(0.001)
    assert process.poll() is None, process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_was_killed_goes_on(program, tmp_path, number):
    bpe(tmp_path / "tokenizer.json")
    write_lines(tmp_path / "in.jsonl", texts(6000))
    process = start(program, tmp_path)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    expected = files_of(tmp_path)
    for name in expected:
        (tmp_path / name).unlink()
    for count in (1, 3):  # well before the end, or it comes first
        process = start(program, tmp_path)
        wait_for_parts(tmp_path, count, process)
        os.killpg(process.pid, number) if number == signal.SIGKILL else process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
        assert files_of(tmp_path, "out_*.idx") == {}
    folder = tmp_path / "out.stoker-preprocess"
    journal = folder / "journal.jsonl"
    done = [json.loads(line)["part"] for line in journal.read_text().splitlines() if '"part"' in line]
    first, second = (folder / f"{source:06d}-{chunk:08d}-0.bin" for source, chunk in done[:2])
    first.write_bytes(first.read_bytes()[:-2] + b"\xff\xff")  # what a crash of the machine leaves
    second.unlink()
    with open(journal, "a") as file:
        file.write('{"part":[0,0],"fil')
    process = start(program, tmp_path)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert f"going on with {len(done) - 2} parts" in stderr
    assert files_of(tmp_path) == expected and not folder.exists()


def test_an_unfinished_run_with_other_arguments_is_not_mixed_in(program, bytes_run, tmp_path):
    bpe(tmp_path / "tokenizer.json")
    write_lines(tmp_path / "in.jsonl", texts(6000))
    process = start(program, tmp_path)
    wait_for_parts(tmp_path, 1, process)
    done = bytes_run("--input", "in.jsonl")
    assert done.returncode == 2 and "another run" in done.stderr
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = bytes_run("--input", "in.jsonl")
    assert done.returncode == 2 and "differs in: chunk_bytes, tokenizer" in done.stderr and "--restart" in done.stderr
    assert bytes_run("--input", "in.jsonl", "--restart").returncode == 0


def test_a_lost_worker_is_an_error_and_the_run_can_go_on(program, tmp_path):
    bpe(tmp_path / "tokenizer.json")
    write_lines(tmp_path / "in.jsonl", texts(6000))
    process = start(program, tmp_path)
    wait_for_parts(tmp_path, 1, process)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [int(pid) for pid in children if b"spawn_main" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(workers[0], signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 4 and "signal 9" in stderr
    process = start(program, tmp_path)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0 and "going on" in stderr


def test_a_worker_that_is_lost_before_its_next_order_is_named_too():
    from stoker._tools import preprocess
    from stoker._tools.command import Refusal

    for text in (None, b"{}\n"):
        ours, theirs = multiprocessing.Pipe()
        theirs.close()
        process = multiprocessing.get_context("fork").Process(target=signal.pause)
        process.start()
        process.kill()
        run = object.__new__(preprocess.Run)
        run.idle, run.workers = [ours], {ours: process}
        with pytest.raises(Refusal, match="a worker ended with signal 9"):
            run._give(("text", 0, 0, 0), text)


# ----------------------------------------------------------------------------------------------------------- sentences

def test_sentences_by_rules(stoker, tmp_path):
    write_lines(tmp_path / "in.jsonl", ["One two.  Three (4)! \"Five?\" Dr. Six vs. Seven.\nEight", "", "No end"])
    for name, more in (("out", []), ("kept", ["--keep-newlines"])):
        done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", name, "--tokenizer-type", "ByteLevelTokenizer",
                      "--split-sentences", "--sentence-splitter", "rules", "--append-eod", *more)
        assert done.returncode == 0, done.stderr
    expected = ["One two.", "Three (4)!", "\"Five?\"", "Dr. Six vs. Seven.", "Eight"]
    _, got = dataset(tmp_path / "out_text_sentence")
    assert got == [[[*text.encode()] + [256] * (text == "Eight") for text in expected], [], [[*b"No end", 256]]]
    _, kept = dataset(tmp_path / "kept_text_sentence")
    assert bytes(kept[0][0]).decode() == "One two.  " and bytes(kept[0][3]).decode() == "Dr. Six vs. Seven.\n"


def test_sentences_by_nltk_or_what_to_install(stoker, tmp_path):
    write_lines(tmp_path / "in.jsonl", ["One. Two."])
    done = stoker("preprocess", "--input", "in.jsonl", "--output-prefix", "out", "--tokenizer-type", "ByteLevelTokenizer",
                  "--split-sentences")
    if done.returncode == 0:
        assert dataset(tmp_path / "out_text_sentence")[1] == [[[*b"One."], [*b"Two."]]]
    else:
        assert done.returncode == 4 and "nltk" in done.stderr.lower() and "--sentence-splitter rules" in done.stderr


# -------------------------------------------------------------------------------------------------------------- others

def test_memory_does_not_grow_with_the_input(program, tmp_path):
    """The largest process of a run over 2 MB, and over 40 MB: the difference is what one chunk and one block hold."""
    call = ("import resource, subprocess, sys\n"
            "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n")
    peaks = []
    for megabytes in (2, 40):
        line = json.dumps({"text": "a text of some words " * 50}) + "\n"
        (tmp_path / "in.jsonl").write_text(line * (megabytes * 1_000_000 // len(line)))
        done = subprocess.run([sys.executable, "-c", call, program, "preprocess", "--input", "in.jsonl", "--output-prefix",
                               "out", "--tokenizer-type", "ByteLevelTokenizer", "--workers", "1", "--chunk-bytes",
                               "1000000"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout) * 1024)
    assert peaks[1] - peaks[0] < 16 << 20


def test_help_has_every_option(stoker):
    from stoker._tools.preprocess import parser
    done = stoker("preprocess", "--help")
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("      --")}
    assert listed == {name for action in parser()._actions for name in action.option_strings}


def test_progress_lines_are_the_references(bytes_run, tmp_path):
    """They come at most once a second, so a slow reader makes some."""
    from stoker._tools.preprocess import Progress
    import contextlib
    import io
    progress = Progress(1, True)
    progress.last -= 10
    with contextlib.redirect_stderr(io.StringIO()) as text:
        progress.report(1, 5, 1 << 20)
        progress.part(1, 7, 2 << 20)
    count, word, *_ = text.getvalue().split(" ")[1:]
    assert count == "5" and word == "documents"
    assert text.getvalue().endswith(" MB/s).\n") and text.getvalue().count("\n") == 1


def test_another_interpreter_without_stoker_is_named(program, tmp_path):
    done = subprocess.run([program, "preprocess", "--input", "x", "--output-prefix", "y"], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "STOKER_PYTHON": "/nonexistent/python3"}, timeout=60)
    assert done.returncode == 4 and "/nonexistent/python3" in done.stderr and "STOKER_PYTHON" in done.stderr


def test_input_that_changes_is_noticed(tmp_path):
    from stoker._tools.command import Refusal
    from stoker._tools.text_input import Source
    write_lines(tmp_path / "in.jsonl", ["a"])
    source = Source(str(tmp_path / "in.jsonl"))
    source.check_unchanged()
    write_lines(tmp_path / "in.jsonl", ["ab"])
    with pytest.raises(Refusal, match="changed"):
        source.check_unchanged()


# ------------------------------------------------------------------------------------------ pipes and standard streams

def shell(program, tmp_path, text, **more):
    """A line of bash in which $P is the command with byte ids; nothing of stoker is named in what it must not print."""
    line = f"{program} preprocess --tokenizer-type ByteLevelTokenizer --workers 1 --output-prefix out"
    return subprocess.run(["bash", "-c", text.replace("$P", line)], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          **more)


@pytest.mark.parametrize("text", [
    "$P --input <(cat in.jsonl)", "cat in.jsonl | $P --input /dev/stdin", "cat in.jsonl | $P --input -",
    "$P --input /dev/stdin < in.jsonl", "$P --input /dev/fd/3 3< in.jsonl", "$P --input <(head -1 in.jsonl) <(tail -n +2 in.jsonl)",
    "mkfifo fifo; (cat in.jsonl > fifo &); $P --input fifo"])
def test_pipes_are_read_as_streams(program, tmp_path, text):
    write_lines(tmp_path / "in.jsonl", ["ab", "c", "def"])
    for _ in range(2):  # the second time over the older output
        done = shell(program, tmp_path, f"rm -f fifo; {text}")
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert dataset(tmp_path / "out_text_document")[1] == [[[97, 98]], [[99]], [[100, 101, 102]]]
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.name != "fifo") == [".bin", ".idx", ".jsonl"]


@pytest.mark.parametrize("text, status, message", [
    ("$P --partitions 2 --input <(cat in.jsonl)", 2, "--partitions needs files, not a pipe: /dev/fd/"),
    ("cat in.jsonl | $P --partitions 2 --input -", 2, "--partitions needs files, not standard input"),
    ("cat in.jsonl | $P --input /dev/stdin /dev/stdin", 2, "the same pipe twice"),
    ("$P --input /dev/null", 3, "'/dev/null': it is a device"),
    ("$P --input /dev/stdin < /dev/zero", 3, "'/dev/stdin': it is a device"),
    ("$P --input .", 3, "'.': it is a folder"),
    ("$P --input - <&-", 3, "standard input ('-') is closed"),
    ("$P --input in.jsonl --partitions 99999999999999999999", 2, "--partitions 99999999999999999999 is above 4096"),
    ("ulimit -n 100; $P --input in.jsonl --partitions 90", 2, "needs 125 open files; this process may have 100"),
])
def test_what_cannot_be_read_is_one_sentence_before_anything_is_written(program, tmp_path, text, status, message):
    write_lines(tmp_path / "in.jsonl", ["ab"])
    done = shell(program, tmp_path, text)
    assert done.returncode == status and message in done.stderr and done.stdout == "", done.stderr
    assert [line[:5] for line in done.stderr.splitlines()[1:]] in ([], ["hint:"])
    assert os.listdir(tmp_path) == ["in.jsonl"]


def test_the_limit_of_open_files_is_enough_for_what_is_admitted(program, tmp_path):
    write_lines(tmp_path / "in.jsonl", texts(70))
    done = shell(program, tmp_path, "ulimit -n 100; $P --input in.jsonl --partitions 65")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("closed, expected", [(">&-", ""), ("2>&-", "out_text_document: 1 documents"), (">&- 2>&- <&-", "")])
def test_closed_streams(program, tmp_path, closed, expected):
    write_lines(tmp_path / "in.jsonl", ["ab"])
    (tmp_path / "bad.jsonl").write_text("no json\n")
    done = shell(program, tmp_path, f"$P --input in.jsonl {closed}")
    assert done.returncode == 0 and done.stdout.startswith(expected) and done.stderr == ""
    assert bool(done.stdout) == bool(expected)
    assert dataset(tmp_path / "out_text_document")[1] == [[[97, 98]]]
    done = shell(program, tmp_path, f"$P --input bad.jsonl {closed}")
    assert done.returncode == 3 and done.stdout == ""
    assert ("bad.jsonl: line 1" in done.stderr) == ("2>" not in closed)


@pytest.mark.parametrize("more", ["", "--json"])
def test_full_standard_streams(program, tmp_path, more):
    write_lines(tmp_path / "in.jsonl", ["ab"])
    done = shell(program, tmp_path, f"$P {more} --input in.jsonl > /dev/full")
    assert done.returncode == 4
    assert done.stderr == "stoker preprocess: cannot write the standard output: No space left on device\n"
    (tmp_path / "bad.jsonl").write_text("no json\n")  # lines about skipped lines are lost, the work goes on
    assert shell(program, tmp_path, f"$P {more} --on-error skip --input bad.jsonl 2> /dev/full").returncode == 0
    done = shell(program, tmp_path, "$P --input absent 2> /dev/full")
    assert done.returncode == 3 and done.stdout == ""


def test_faults_of_writing_name_the_file(tmp_path):
    from stoker._tools.command import Refusal, writing
    from stoker._tools.text_worker import Part
    part = Part(str(tmp_path / "part"), 8)
    part.file.close()
    part.file = open("/dev/full", "wb", buffering=0)
    with pytest.raises(Refusal, match="^cannot write '/dev/full': No space left on device$"):
        part.add(b"ab", b"", b"")
    with pytest.raises(Refusal, match="^cannot write 'there': No space left on device$"), writing("there"):
        raise OSError(28, os.strerror(28))


def test_partition_files_of_a_run_that_was_killed(program, tmp_path):
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n{"text": "b"}\n{"text": 1}\n'))
    command = "$P --partitions 2 --input in.jsonl.gz"
    assert shell(program, tmp_path, command).returncode == 3
    (tmp_path / "in_1.jsonl").write_text('{"text": "b"}\n')
    (tmp_path / "in_0.jsonl").write_text('{"text": "a"}\n{"text": 2}\n')
    done = shell(program, tmp_path, command)  # the sizes are those of the run before: its files are taken
    assert done.returncode == 3 and "in_0.jsonl: line 2" in done.stderr, done.stderr
    done = shell(program, tmp_path, f"{command} --restart")
    assert done.returncode == 3 and "'in_0.jsonl' to 'in_1.jsonl' are there" in done.stderr and "remove them" in done.stderr
    (tmp_path / "in_0.jsonl").unlink()
    done = shell(program, tmp_path, command)
    assert done.returncode == 3 and "not all 2 partition files (1 are)" in done.stderr and "remove them" in done.stderr
    (tmp_path / "in_1.jsonl").unlink()
    assert shell(program, tmp_path, f"{command} --on-error skip").returncode == 0


# ---------------------------------------------------------------------------------------------- the number of workers

FIND = ["--output-prefix", "out", "--tokenizer-type", "ByteLevelTokenizer", "--find-optimal-num-workers"]


def test_numbers_of_workers_are_compared_and_nothing_is_kept(stoker, tmp_path):
    write_lines(tmp_path / "in.jsonl", [text * 20 for text in texts(300)])
    before = files_of(tmp_path, "*")
    done = stoker("preprocess", "--input", "in.jsonl", *FIND, "--workers-to-check", 2, 1, 2, "--max-documents", 250, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "stoker.preprocess.workers/1"
    assert [(row["workers"], row["started"], row["documents"]) for row in report["rows"]] == [(2, 2, 250), (1, 1, 250)]
    lines = (tmp_path / "in.jsonl").read_bytes().split(b"\n")[:250]
    assert all(row["bytes"] == sum(map(len, lines)) + 250 and row["seconds"] > 0 for row in report["rows"])
    assert report["best"] == max(report["rows"], key=lambda row: row["documents_per_s"])["workers"]
    assert files_of(tmp_path, "*") == before and len(list(tmp_path.iterdir())) == 1


def test_table_names_the_best_number_of_workers(stoker, tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}'))
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n')
    done = stoker("preprocess", "--input", "a.jsonl.gz", "b.jsonl", *FIND, "--workers-to-check", 3, 4, "--partitions", 2)
    assert done.returncode == 0, done.stderr
    header, row, best = done.stdout.splitlines()
    assert header.split() == ["workers", "documents", "seconds", "docs/s", "MB/s"]
    assert row.split()[:2] == ["4", "2"] and best == "best: --workers 4"
    assert "3 workers are not tried" in done.stderr and "a larger --max-documents" in done.stderr


@pytest.mark.parametrize("text, arguments, status, message", [
    ('{"text": "a"}\n', ["--workers-to-check", "0"], 2, "--workers-to-check 0 is below 1"),
    ('{"text": "a"}\n', ["--workers-to-check", "3", "--partitions", "2"], 2, "none of 3 is a multiple of --partitions 2"),
    ('{"text": "a"}\n', ["--max-documents", "0"], 2, "--max-documents 0 is below 1"),
    ("", ["--workers-to-check", "1"], 3, "no document in the input"),
    ('{"text": "a"}\n{"text": 1}\n', ["--workers-to-check", "1"], 3, "in.jsonl: line 2"),
], ids=["zero", "partitions", "no-lines", "empty", "bad-line"])
def test_workers_that_cannot_be_compared(stoker, tmp_path, text, arguments, status, message):
    (tmp_path / "in.jsonl").write_text(text)
    done = stoker("preprocess", "--input", "in.jsonl", *FIND, *arguments)
    assert done.returncode == status and message in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"] and done.stdout == ""
