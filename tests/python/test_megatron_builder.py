# SPDX-License-Identifier: Apache-2.0
"""The builder: which datasets come of which blends, threads and their context, ranks and their barriers."""

import contextvars
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from megatron_data import corpus, options

numpy = pytest.importorskip("numpy")

from stoker.megatron import (  # noqa: E402
    BlendedDataset,
    BlendedMegatronDatasetBuilder,
    GPTDataset,
    GPTDatasetConfig,
    MegatronDataset,
    Split,
)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "megatron"
HERE = os.path.dirname(__file__)


def yes():
    return True


def prepare(folder, count=2):
    """Prefixes data/a, data/b... of 30 documents of 20 tokens each."""
    (folder / "data").mkdir(exist_ok=True)
    return [corpus(folder / "data" / chr(97 + number), seed=number) for number in range(count)]


def build(folder, sizes, cls=GPTDataset, builder=None, **changes):
    config = GPTDatasetConfig(**options(path_to_cache=str(folder / "cache"), **changes))
    return BlendedMegatronDatasetBuilder(cls, sizes, yes, config, **(builder or {})).build()


def kinds(splits):
    return [None if one is None else [type(x).__name__ for x in one] if isinstance(one, list) else type(one).__name__
            for one in splits]  # fmt: skip


# ------------------------------------------------------------------------------------------- arguments that cannot be


@pytest.mark.parametrize("size", [-1, "16", 2**64, float("nan"), float("inf"), [16], -0.5 - 1])
@pytest.mark.parametrize("weights", [None, [1, 1]])
def test_sizes_that_cannot_be_are_named(size, weights, tmp_path):
    prefixes = prepare(tmp_path)
    with pytest.raises(ValueError, match="sizes: valid is .*; expected") as caught:
        build(tmp_path, [5, size, 2], blend=(prefixes, weights), split="8,1,1")
    assert "\n" not in str(caught.value)


def test_sizes_of_a_weighted_blend_may_be_fractions(tmp_path):
    got = build(tmp_path, [4.5, 3, numpy.int64(2)], blend=(prepare(tmp_path), [1, 1]), split="8,1,1")
    assert [len(one) for one in got] == [6, 4, 2]


BLENDS = [
    ("a", "blend is 'a'; expected (list of prefixes, list of weights or None)"),
    ("ab", "blend is 'ab'; expected (list"),
    ((["a"],), "blend is (['a'],); expected (list"),
    (3, "blend is 3; expected (list"),
    (("a", None), "blend: the prefixes are 'a'; expected a list of texts"),
    (({"a": 1}, None), "blend: the prefixes are {'a': 1}; expected a list of texts"),
    ((["a", None], None), "blend: prefix 1 is None; expected a text"),
    (([b"a"], None), "blend: prefix 0 is b'a'; expected a text"),
    ((["a"], ["1"]), "blend: weight 0 is '1'; expected a number"),
    ((["a"], [None]), "blend: weight 0 is None; expected a number"),
    ((["a"], "None"), "blend: the weights are 'None'; expected a list of numbers, or None"),
    ((["a"], 1), "blend: the weights are 1; expected a list of numbers, or None"),
]


@pytest.mark.parametrize("blend, words", BLENDS, ids=str)
def test_blends_that_cannot_be_are_named(blend, words):
    with pytest.raises(ValueError) as caught:
        GPTDatasetConfig(**options(blend=blend, split="1"))
    assert words in str(caught.value)
    with pytest.raises(ValueError) as caught:
        GPTDatasetConfig(**{**options(blend_per_split=[None, blend, None]), "blend": None, "split": None})
    assert words.replace("blend", "blend_per_split, valid", 1) in str(caught.value)


@pytest.mark.parametrize("surplus", [float("nan"), float("inf"), "x", None])
def test_a_surplus_that_cannot_be_is_named(surplus):
    with pytest.raises(ValueError, match=f"mid_level_dataset_surplus is {surplus!r}; expected a finite number"):
        GPTDatasetConfig(**options(mid_level_dataset_surplus=surplus))


def test_a_surplus_of_more_samples_than_can_be_is_named(tmp_path):
    with pytest.raises(ValueError, match="a surplus of 1e.300 makes more than"):
        build(tmp_path, [5, 3, 2], blend=(prepare(tmp_path), [1, 1]), split="8,1,1", mid_level_dataset_surplus=1e300)


@pytest.mark.parametrize("seed", ["16", 1.5, None])
def test_a_seed_that_cannot_be_is_named(seed, tmp_path):
    with pytest.raises(TypeError, match=f"random_seed is {seed!r}; expected a whole number"):
        build(tmp_path, [5, 3, 2], blend=(prepare(tmp_path)[:1], None), split="8,1,1", random_seed=seed)


# ---------------------------------------------------------------------------------------------------------------- cases


def test_one_prefix_without_weight_is_no_blend(tmp_path):
    a, _ = prepare(tmp_path)
    got = build(tmp_path, [5, 3, 2], blend=([a], None), split="8,1,1")
    assert kinds(got) == ["GPTDataset"] * 3 and [len(one) for one in got] == [59, 7, 7]


def test_one_prefix_with_a_weight_is_a_blend(tmp_path):
    a, _ = prepare(tmp_path)
    got = build(tmp_path, [5, 3, 2], blend=([a], [0.2]), split="8,1,1")
    assert kinds(got) == ["BlendedDataset"] * 3 and [len(one) for one in got] == [5, 3, 2]
    assert got[0].weights == [1.0]


def test_weighted_blend_may_exceed_its_size(tmp_path):
    got = build(tmp_path, [5, 3, 2], blend=(prepare(tmp_path), [1, 2]), split="8,1,1")
    assert [len(one) for one in got] == [6, 3, 3]
    assert [[child.num_samples for child in one.datasets] for one in got] == [[3, 5], [2, 3], [2, 3]]


def test_empty_splits_are_none(tmp_path):
    a, b = prepare(tmp_path)
    assert kinds(build(tmp_path, [5, 0, 0], blend=([a], None), split="1,0,0")) == ["GPTDataset", None, None]
    assert kinds(build(tmp_path, [5, 0, 0], blend=([a, b], [1.0, 1.0]), split="1,0,0")) == [
        "BlendedDataset",
        None,
        None,
    ]


def test_unweighted_blend_with_and_without_size(tmp_path):
    got = build(tmp_path, [5, 10**6, None], blend=(prepare(tmp_path), None), split="8,1,1")
    assert [one.size for one in got] == [5, 14, None]
    assert [len(one) for one in got] == [5, 14, 14]
    assert got[2].weights == [7, 7] and got[1].weights == [0.5, 0.5]


def test_per_split_blends(tmp_path):
    a, b = prepare(tmp_path)
    got = build(tmp_path, [5, None, None], blend_per_split=[([a], [7.0]), ([a, b], None), None])
    assert kinds(got) == ["GPTDataset", "BlendedDataset", None]  # the weight of one prefix does not count
    assert [len(one) for one in got[:2]] == [74, 148]
    weighted = build(tmp_path, [5, 6, None], blend_per_split=[([a], None), ([a, b], [1.0, 1.0]), None])
    assert len(weighted[1]) == 6


def test_several_validation_sets(tmp_path):
    a, b = prepare(tmp_path)
    blends = [([a], None), ([a, b], None), None]
    got = build(tmp_path, [5, None, None], blend_per_split=blends, multiple_validation_sets=True, full_validation=True)
    assert kinds(got) == ["GPTDataset", ["GPTDataset"] * 2, None]
    one = build(tmp_path, [5, 4, None], blend_per_split=[([a], None), ([b], None), None], multiple_validation_sets=True)
    assert kinds(one) == ["GPTDataset", ["GPTDataset"], None]
    with pytest.raises(AssertionError, match="full_validation"):
        build(tmp_path, [5, 4, None], blend_per_split=blends, multiple_validation_sets=True, full_validation=True)


@pytest.mark.parametrize(
    ("sizes", "changes", "words"),
    [
        ([None, 1, 1], {"blend": (["a", "b"], [1.0, 2.0]), "split": "1"}, "size_is_none => weights_are_none.*train"),
        ([1, None, 1], {"blend_per_split": [None, (["a", "b"], [1.0, 2.0]), None]}, "size_is_none.*valid"),
        ([1, 1], {"blend": (["a"], None), "split": "1"}, "sizes has 2 entries"),
        ([1, 1, 1], {"blend": (["a", "b"], [1.0, 0.0]), "split": "1"}, "prefix 'b' has the weight 0.0"),
        ([1, 1, 1], {"blend": (["a", "b"], [1.0, -2.0]), "split": "1"}, "prefix 'b' has the weight -2.0"),
        ([1, 1, 1], {"blend": (["a", "b"], [float("inf"), 2.0]), "split": "1"}, "prefix 'a' has the weight inf"),
        ([1, 1, 1], {"blend": ([], []), "split": "1"}, "0 prefixes"),
        ([1, 1, 1], {"blend": (["a"] * 32767, None), "split": "1"}, "32767 prefixes"),
    ],
)
def test_refused_before_anything_is_opened(tmp_path, sizes, changes, words):
    with pytest.raises(AssertionError, match=words):
        build(tmp_path, sizes, **changes)


def test_sizes_of_splits_without_a_blend_do_not_matter(tmp_path):
    a, b = prepare(tmp_path)
    got = build(tmp_path, [5, None, None], blend_per_split=[([a, b], [1.0, 1.0]), None, None])
    assert kinds(got) == ["BlendedDataset", None, None]


def test_an_exhaustive_blend_with_an_empty_dataset_is_refused_by_name(tmp_path):
    a, _ = prepare(tmp_path)
    short = corpus(tmp_path / "data" / "short", count=1, length=5)
    with pytest.raises((AssertionError, ValueError), match="short"):
        build(tmp_path, [None, None, None], blend=([a, short], None), split="1,0,0")


# -------------------------------------------------------------------------------------------------------------- threads


def content(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.suffix in (".npy", ".txt")
    }


def test_threads_change_nothing(tmp_path):
    prefixes = prepare(tmp_path, 7)
    for name, threads in (("one", 1), ("many", 4)):
        (tmp_path / name).mkdir()
        got = build(tmp_path / name, [50, 5, 5], blend=(prefixes, [float(w) for w in range(1, 8)]), split="8,1,1",
                    num_dataset_builder_threads=threads)  # fmt: skip
        assert [child.dataset_path for child in got[0].datasets] == prefixes
    assert content(tmp_path / "one" / "cache") == content(tmp_path / "many" / "cache")


span = contextvars.ContextVar("span", default="none")


class Traced(MegatronDataset):
    """Notes the context that it is built in."""

    seen: list = []
    meeting = None

    @staticmethod
    def build_low_level_dataset(dataset_path, config):
        if Traced.meeting is not None:
            Traced.meeting.wait(30)
        Traced.seen.append((dataset_path, span.get(), threading.get_ident()))
        span.set(dataset_path)  # of this task only
        if dataset_path == "bad":
            raise RuntimeError("bad data")
        return range(10)

    @staticmethod
    def numel_low_level_dataset(low_level_dataset):
        return len(low_level_dataset)

    def __len__(self):
        return 100

    def __getitem__(self, idx):
        return {}


@pytest.mark.parametrize("threads", [1, 3])
def test_builder_tasks_run_in_a_copy_of_the_callers_context(tmp_path, threads):
    Traced.seen, Traced.meeting = [], threading.Barrier(3) if threads == 3 else None
    token = span.set("parent")
    try:
        build(tmp_path, [9, 0, 0], cls=Traced, blend=(["p", "q", "r"], [1.0, 1.0, 1.0]), split="1",
              num_dataset_builder_threads=threads)  # fmt: skip
        assert span.get() == "parent"
    finally:
        span.reset(token)
    assert sorted(path for path, _, _ in Traced.seen) == ["p", "q", "r"]
    assert {seen for _, seen, _ in Traced.seen} == {"parent"}
    assert len({thread for _, _, thread in Traced.seen}) == threads


def test_an_error_in_a_thread_is_raised(tmp_path):
    Traced.meeting = None
    with pytest.raises(RuntimeError, match="bad data"):
        build(
            tmp_path,
            [9, 0, 0],
            cls=Traced,
            blend=(["p", "bad", "r"], [1.0] * 3),
            split="1",
            num_dataset_builder_threads=2,
        )


# ---------------------------------------------------------------------------------------------------------------- ranks


class Counted:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


def test_barriers_may_be_the_callers(tmp_path):
    prefixes, barrier = prepare(tmp_path), Counted()
    build(tmp_path, [5, 3, 2], blend=(prefixes, [1, 2]), split="8,1,1", builder={"rank": 0, "barrier": barrier})
    assert barrier.count == 4
    config = GPTDatasetConfig(**options(path_to_cache=str(tmp_path / "cache"), blend=(prefixes, [1, 2]), split="8,1,1"))
    idle = Counted()
    got = BlendedMegatronDatasetBuilder(GPTDataset, [5, 3, 2], lambda: False, config, rank=1, barrier=idle).build()
    assert got == [None] * 3 and idle.count == 4


def test_rank_zero_must_build():
    config = GPTDatasetConfig(**options(blend=(["a"], None), split="1"))
    with pytest.raises(AssertionError, match="is_built_on_rank must be true on rank 0"):
        BlendedMegatronDatasetBuilder(GPTDataset, [1, 1, 1], lambda: False, config, rank=0, barrier=Counted())
    for half in ({"rank": 0}, {"barrier": Counted()}):
        with pytest.raises(ValueError, match="rank"):
            BlendedMegatronDatasetBuilder(GPTDataset, [1, 1, 1], yes, config, **half)


class Unwritable(Traced):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        raise PermissionError(errno.EACCES, "Permission denied", "cache")


def test_an_os_error_of_rank_zero_names_the_folder(tmp_path):
    changes = {"cls": Unwritable, "blend": (["p"], None), "split": "1"}
    with pytest.raises(Exception, match="cannot write its dataset caches to .*cache.*Permission denied") as caught:
        build(tmp_path, [5, 0, 0], builder={"rank": 0, "barrier": Counted()}, **changes)
    assert type(caught.value) is Exception and isinstance(caught.value.__cause__, OSError)
    with pytest.raises(PermissionError):
        build(tmp_path, [5, 0, 0], **changes)


def test_a_cache_folder_that_cannot_be_made(tmp_path):
    a, _ = prepare(tmp_path)
    (tmp_path / "cache").write_text("a file is in the way")
    with pytest.raises(OSError, match="cache"):
        build(tmp_path, [5, 3, 2], blend=([a], None), split="8,1,1")
    with pytest.raises(Exception, match="rank 0 cannot write its dataset caches"):
        build(tmp_path, [5, 3, 2], blend=([a], None), split="8,1,1", builder={"rank": 0, "barrier": Counted()})


TWO_RANKS = """
    import json, sys
    sys.path.insert(0, {here!r})
    import torch.distributed as distributed
    from megatron_data import options
    from stoker.megatron import *

    rank, run = int(sys.argv[1]), json.loads(sys.argv[3])
    distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
    waited, barrier = [], distributed.barrier
    def counted():
        waited.append(None)
        barrier()
    distributed.barrier = counted
    for name in ("blend", "blend_per_split"):
        if name in run["config"]:
            run["config"][name] = [None if x is None else tuple(x) for x in run["config"][name]]
            if name == "blend":
                run["config"][name] = tuple(run["config"][name][0:2]) if run["config"][name] else None
    config = GPTDatasetConfig(**options(**run["config"]))
    if run.get("own_cache"):
        config.path_to_cache += str(rank)
    built = run.get("rank1_builds", True) or rank == 0
    got = BlendedMegatronDatasetBuilder(GPTDataset, run["sizes"], lambda: built, config).build()
    print(json.dumps(dict(lengths=[None if one is None else len(one) for one in got], barriers=len(waited))))
    barrier()
    distributed.destroy_process_group()
"""

PER_SPLIT = [5, None, None]
RUNS = {
    "single prefix": ({"blend": [["data/a"], None], "split": "8,1,1"}, [5, 3, 2], {}),
    "two prefixes, weights 1 and 2": ({"blend": [["data/a", "data/b"], [1, 2]], "split": "8,1,1"}, [5, 3, 2], {}),
    "per-split: train one prefix, valid two prefixes without weights, no test": (
        {"blend_per_split": [[["data/a"], None], [["data/a", "data/b"], None], None]}, PER_SPLIT, {}
    ),
    "single prefix, rank 1 does not build": (
        {"blend": [["data/a"], None], "split": "8,1,1"}, [5, 3, 2], {"rank1_builds": False}
    ),
    "two prefixes weighted, rank 1 does not build": (
        {"blend": [["data/a", "data/b"], [1, 2]], "split": "8,1,1"}, [5, 3, 2], {"rank1_builds": False}
    ),
    "fast_cache_load, per-split train one prefix": (
        {"blend_per_split": [[["data/a"], None], None, None], "fast_cache_load": True}, PER_SPLIT, {"warm": True}
    ),
    "fast_cache_load, per-split valid two prefixes": (
        {"blend_per_split": [None, [["data/a", "data/b"], None], None], "fast_cache_load": True}, PER_SPLIT,
        {"warm": True},
    ),
    "single prefix, every rank its own empty cache folder": (
        {"blend": [["data/a"], None], "split": "8,1,1"}, [5, 3, 2], {"own_cache": True}
    ),
}  # fmt: skip
RECORDED = {run["name"]: run for run in json.loads((GOLDEN / "distributed" / "two_ranks.json").read_text())["runs"]}


def two_ranks(folder, run):
    code = textwrap.dedent(TWO_RANKS).format(here=HERE)
    run = {**run, "config": {**run["config"], "path_to_cache": "cache"}}
    ranks = [
        subprocess.Popen([sys.executable, "-c", code, str(rank), str(folder / "rendezvous"), json.dumps(run)],
                         cwd=folder,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]  # fmt: skip
    try:
        results = [process.communicate(timeout=120) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], results
    return [json.loads(out.splitlines()[-1]) for out, _ in results]


@pytest.mark.parametrize("name", RUNS)
def test_two_ranks(tmp_path, name):
    pytest.importorskip("torch")
    prepare(tmp_path)
    config, sizes, more = RUNS[name]
    if more.get("warm"):
        here = os.getcwd()
        os.chdir(tmp_path)
        try:
            slow = {key: value for key, value in config.items() if key != "fast_cache_load"}
            slow["blend_per_split"] = [None if blend is None else tuple(blend) for blend in slow["blend_per_split"]]
            build(pathlib.Path(), sizes, **slow)
        finally:
            os.chdir(here)
    got = two_ranks(tmp_path, {"config": config, "sizes": sizes, **more})
    recorded = RECORDED[name]
    if "rank1_error" in recorded:  # a rank with a folder of its own builds its own
        assert got == [{"lengths": [59, 7, 7], "barriers": 3}] * 2
        assert content(tmp_path / "cache0") == content(tmp_path / "cache1")
    else:
        assert [one["lengths"] for one in got] == [recorded["rank0"], recorded["rank1"]]
        assert [one["barriers"] for one in got] == [recorded["barriers"]] * 2


def test_every_recorded_run_of_two_ranks_is_run():
    assert set(RUNS) == set(RECORDED)


ALONE = """
    import json, sys
    sys.path.insert(0, {here!r})
    from megatron_data import options
    from stoker.megatron import *
    import select
    print("ready", flush=True)
    sys.stdin.readline()
    config = GPTDatasetConfig(**options(blend=(["data/a", "data/b", "data/c"], [1.0, 2.0, 3.0]), split="8,1,1",
                                        path_to_cache="cache"))
    got = BlendedMegatronDatasetBuilder(GPTDataset, [3000, 300, 30], lambda: True, config).build()
    print(json.dumps([[len(one), one[len(one) - 1]["tokens"].tolist()] for one in got]))
"""


def test_ranks_without_a_group_build_at_once(tmp_path):
    prepare(tmp_path, 3)
    code = textwrap.dedent(ALONE).format(here=HERE)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    try:
        for process in ranks:
            assert process.stdout.readline() == "ready\n"
        for process in ranks:
            process.stdin.write("\n")
            process.stdin.flush()
        results = [json.loads(process.communicate(timeout=120)[0]) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert all(result == results[0] for result in results)
    alone = tmp_path / "alone"
    alone.mkdir()
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        build(
            pathlib.Path("alone"),
            [3000, 300, 30],
            blend=(["data/a", "data/b", "data/c"], [1.0, 2.0, 3.0]),
            split="8,1,1",
        )
    finally:
        os.chdir(here)
    assert content(tmp_path / "cache") == content(alone / "cache") and len(content(alone / "cache")) == 45


def test_the_generic_builder_without_ranks():
    assert BlendedMegatronDatasetBuilder.build_generic_dataset(dict, yes, True, [(1, 2)]) == {1: 2}


# -------------------------------------------------------------------------------------------------------- many prefixes


def test_a_thousand_prefixes(tmp_path):
    prefixes = prepare(tmp_path, 1)
    many = []
    for number in range(1000):
        for extension in ("idx", "bin"):
            os.link(f"{prefixes[0]}.{extension}", tmp_path / "data" / f"p{number}.{extension}")
        many.append(str(tmp_path / "data" / f"p{number}"))
    weights = [1.0 + number % 7 for number in range(1000)]
    blends = [(many, weights), None, None]
    train = build(tmp_path, [4000, None, None], blend_per_split=blends)[0]
    assert isinstance(train, BlendedDataset) and len(train.datasets) == 1000
    again = build(tmp_path, [4000, None, None], blend_per_split=blends, fast_cache_load=True, defer_npy_index_mmap=True,
                  sequences_per_dataset={prefix: (30, 31) for prefix in many})[0]  # fmt: skip
    assert len(again) == len(train) and again.unique_description == train.unique_description
    assert train.unique_description == json.dumps(json.loads(train.unique_description), indent=4)
    for idx in (0, 17, len(train) - 1):
        assert again[idx]["tokens"].tolist() == train[idx]["tokens"].tolist()
    assert train.datasets[999].index_split is Split.train


# ----------------------------------------------------------------------------------------------------- waiting for others


def test_ctrl_c_ends_the_wait_for_another_builder(tmp_path):
    """The builder that holds the lock is stopped; who waits for it must be able to leave."""
    prefix = corpus(tmp_path / "a", count=40)
    code = f"""
import os, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
from megatron_data import options
from stoker.megatron import *
config = GPTDatasetConfig(**options(blend=([{prefix!r}], None), split="1,0,0", path_to_cache={str(tmp_path / "c")!r}))
print("begin", flush=True)
BlendedMegatronDatasetBuilder(GPTDataset, [40, None, None], lambda: True, config).build()
print("built", flush=True)
"""
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, capture_output=True, text=True).stdout.split() == ["begin", "built"]
    (lock,) = [path for path in (tmp_path / "c").iterdir() if path.suffix == ".lock"]
    for path in (tmp_path / "c").glob("*.npy"):
        path.unlink()
    with open(lock, "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        waiting = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waiting.stdout.readline() == "begin\n"
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1.5)  # it waits
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(20) != 0
        assert "KeyboardInterrupt" in waiting.stderr.read()
    assert subprocess.run(run, capture_output=True, text=True).stdout.split() == ["begin", "built"]


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_build(tmp_path, threads):
    """The signal comes when the first build has taken its lock. Nothing half-written is left, and the next run builds."""
    prefixes = [corpus(tmp_path / name, count=40) for name in "ab"]
    code = f"""
import os, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
from megatron_data import options
from stoker.megatron import *
config = GPTDatasetConfig(**options(blend=({prefixes!r}, [0.5, 0.5]), split="1,0,0", num_dataset_builder_threads={threads},
                                    path_to_cache={str(tmp_path / "c")!r}))
print("begin", flush=True)
try:
    BlendedMegatronDatasetBuilder(GPTDataset, [int(sys.argv[1]), 0, 0], lambda: True, config).build()
    print("built")
except KeyboardInterrupt:
    print("interrupted", *[name for name in os.listdir({str(tmp_path / "c")!r}) if not name.endswith(".lock")])
"""
    run = [sys.executable, "-c", code]
    building = subprocess.Popen([*run, "40000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert building.stdout.readline() == "begin\n"
    while not list((tmp_path).glob("c/.*.lock")) and building.poll() is None:
        os.sched_yield()
    building.send_signal(signal.SIGINT)
    out, err = building.communicate(timeout=60)
    assert (out, err, building.returncode) == ("interrupted\n", "", 0)
    assert subprocess.run([*run, "40"], capture_output=True, text=True).stdout.split() == ["begin", "built"]


def test_an_empty_cache_path_is_none(tmp_path):
    prefix = corpus(tmp_path / "a", count=40)
    config = GPTDatasetConfig(**options(blend=([prefix], None), split="1,0,0", path_to_cache=""))
    BlendedMegatronDatasetBuilder(GPTDataset, [40, None, None], lambda: True, config).build()
    assert list((tmp_path / "a" / "cache").rglob("*-shuffle_index.npy"))


@pytest.mark.parametrize("seed", [-1, 2**32, 2**64 + 5])
def test_seeds_that_numpy_does_not_take(tmp_path, seed):
    prefix = corpus(tmp_path / "a", count=40)
    config = GPTDatasetConfig(**options(blend=([prefix], None), split="1,0,0", random_seed=seed))
    with pytest.raises(ValueError, match=f"Seed must be between 0 and 2.*{seed}"):
        BlendedMegatronDatasetBuilder(GPTDataset, [40, None, None], lambda: True, config).build()
