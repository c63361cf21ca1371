# SPDX-License-Identifier: Apache-2.0
"""Tier 2 with samples of other forms (micro-batches, tokens, ragged patches, several loaders), and policies or ranks
that do not agree: an error on every rank, never a hang."""

import json
import os

import pytest
from test_balance import launch, results


def test_micro_batches_are_exchanged_as_the_sampler_makes_them(runtime):
    ranks = launch(runtime, 2, """
        class Micro(Sized):
            def __getitem__(self, indices):
                rows = [torch.full((KIB * 1024,), i % 251, dtype=torch.uint8) for i in indices]
                return torch.stack(rows), list(indices)
        lists = [[4 * m + 2 * k + RANK for k in range(2)] for m in range(8)]
        loader = DistributedDataLoader(
            Micro(32), batch_size=None, sampler=lists, num_workers=1,
            load_balance_config={"feature_fn": lambda s: {"cost": 10 if s[1][0] % 2 == 0 else 1}, "buffer_size": 8})
        seen = []
        for tensor, indices in loader:
            assert tensor.shape == (2, KIB * 1024)
            assert all(bool((row == i % 251).all()) for row, i in zip(tensor, indices))
            seen.append(list(indices))
            del tensor
        say(json.dumps(dict(seen=seen, stats=loader.stats())))
    """)
    told = results(ranks)
    whole = [[4 * m + 2 * k + rank for k in range(2)] for m in range(8) for rank in range(2)]
    assert sorted(told[0]["seen"] + told[1]["seen"]) == sorted(whole)  # none is cut
    for rank in told:
        assert len(rank["seen"]) == 8 and rank["stats"]["bytes_moved"] == 0
        assert sum(indices[0] % 2 == 0 for indices in rank["seen"]) == 4  # the dear ones are shared out
        assert rank["stats"]["samples_given"] == 4


def test_native_tokens_are_exchanged(runtime, tmp_path):
    ranks = launch(runtime, 2, f"""
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        from token_data import FORMS, Tokens
        folder = os.path.join({str(tmp_path)!r}, "of-rank", str(RANK))
        os.makedirs(folder)
        data = Tokens(folder, FORMS["plain"])
        loader = DistributedDataLoader(
            data, batch_size=4, num_workers=1, sampler=range(RANK, 48, 2),
            load_balance_config={{"feature_fn": lambda s: {{"tokens": 10 if RANK == 0 else 1}}, "buffer_size": 16}})
        assert loader._native is not None
        rows = [row.tolist() for batch in loader for row in batch["tokens"]]
        own = [data[i]["tokens"].tolist() for i in range(RANK, 48, 2)]
        say(json.dumps(dict(rows=rows, own=own, stats=loader.stats())))
    """)
    told = results(ranks)
    assert sorted(told[0]["rows"] + told[1]["rows"]) == sorted(told[0]["own"] + told[1]["own"])
    for rank in told:
        assert len(rank["rows"]) == 24 and rank["stats"]["samples_given"] == 12


def test_ragged_patches_are_exchanged(runtime):
    ranks = launch(runtime, 2, """
        from stoker.media import VideoDataset
        data = VideoDataset(clips(12).paths, preset="qwen2-vl", min_pixels=3136, max_pixels=25088, return_index=True)
        loader = DistributedDataLoader(
            data, batch_size=2, num_workers=1, collate_fn=list,
            load_balance_config={"feature_fn": lambda s: {"cost": 1 + 9 * (int(s[1]) % 2 == 0)}, "buffer_size": 12})
        shapes, seen = set(), []
        for batch in loader:
            for sample, i in batch:
                expected = data[int(i)][0]
                assert sample.keys() == expected.keys()
                for name, value in sample.items():
                    assert torch.equal(value, expected[name]), (i, name)
                shapes.add(tuple(max(sample.values(), key=torch.Tensor.numel).shape))
                seen.append(int(i))
            del batch, sample, value
        native = loader._inner[0]._native is not None
        say(json.dumps(dict(seen=seen, shapes=sorted(shapes), stats=loader.stats(), native=native)))
    """)
    told = results(ranks)
    assert sorted(told[0]["seen"] + told[1]["seen"]) == list(range(12))
    assert len({tuple(shape) for rank in told for shape in rank["shapes"]}) > 1  # samples differ in size
    for rank in told:
        assert rank["native"]
        assert sum(i % 2 == 0 for i in rank["seen"]) == 3 and rank["stats"]["samples_given"] == 3
        assert rank["stats"]["bytes_moved"] == 0


def test_loaders_that_take_turns_keep_their_rounds_apart(runtime):
    ranks = launch(runtime, 2, """
        one = balanced(Sized(32), collate_fn=list, name="one")
        two = DistributedDataLoader(clips(12), batch_size=2, num_workers=1, collate_fn=list, name="two",
                                    load_balance_config={"feature_fn": lambda s: {"cost": 1 + 9 * (s[1] % 2 == 0)}})
        seen, shown = [], []
        loaders = [iter(one), iter(two)]
        while True:  # a round of one is used up in turn with a round of the other
            first, second = next(loaders[0], None), next(loaders[1], None)
            if first is None and second is None:
                break
            seen += [i for _, i in first or []]
            shown += [i for _, i in second or []]
            del first, second
        say(json.dumps(dict(seen=seen, shown=shown, moved=[one.stats()["bytes_moved"], two.stats()["bytes_moved"]])))
    """)
    told = results(ranks)
    assert sorted(told[0]["seen"] + told[1]["seen"]) == list(range(32))
    assert sorted(told[0]["shown"] + told[1]["shown"]) == list(range(12))
    assert all(rank["moved"] == [0, 0] for rank in told)


# ---- ranks that do not agree


ENDS = """
        try:
            for batch in loader:
                del batch
        except Exception as error:
            say(json.dumps([type(error).__name__, str(error)]))
            sys.stdin.readline()  # the process lives on: nobody may wait until it ends
        else:
            say("null")
"""


def ends(ranks):
    told = [json.loads(rank.read_line()) for rank in ranks]
    for rank in ranks:
        rank.say("")
    return told


@pytest.mark.parametrize("other", ['{"args": {"min_gain": 1.0}}', '{"args": {"transfer_cost": 1e9}}',
                                   '{"sort_fn": lambda features, args: [f["rank"] for f in features]}'])
@pytest.mark.parametrize("rank", [0, 1])
def test_policies_that_differ_are_told_to_all_ranks(runtime, other, rank):
    told = ends(launch(runtime, 2, f"""
        loader = balanced(Sized(64), collate_fn=list, config={other} if RANK == {rank} else {{}})
""" + ENDS))
    assert [name for name, _ in told] == ["CallerError"] * 2
    assert told[0][1] == told[1][1] and "must be the same" in told[0][1]


@pytest.mark.parametrize("sorted_by", ["", ', "sort_fn": lambda features, args: [1 - f["rank"] for f in features]'])
def test_a_rank_that_keeps_a_sample_is_told_to_those_that_wait_for_it(runtime, sorted_by):
    told = ends(launch(runtime, 2, f"""
        kept = []
        def keep(sample):
            if RANK == 1:
                kept.append(sample)
            return {{"cost": 1 + 9 * (RANK == 0)}}
        loader = balanced(Sized(64), collate_fn=list, config={{"feature_fn": keep{sorted_by}}})
""" + ENDS))
    assert "must not be kept" in told[1][1]
    assert told[0][0] == "PeerError" and "rank 1 has ended its iteration in the middle of a round" in told[0][1]


def test_features_that_cannot_be_end_the_round_of_all_ranks(runtime):
    told = ends(launch(runtime, 2, """
        loader = balanced(Sized(64), collate_fn=list,
                          config={"feature_fn": lambda s: {"cost": float("nan") if RANK == 1 else 1}})
""" + ENDS))
    assert all(one is not None for one in told)
    assert {name for name, _ in told} <= {"CallerError", "PeerError"}


def test_client_ranks_that_differ_are_told_to_all_ranks(runtime):
    told = ends(launch(runtime, 2, """
        loader = balanced(Sized(64), collate_fn=list, config={"client_ranks": [[0, 1]] if RANK == 0 else [[1, 0]]})
""" + ENDS))
    assert all(one is not None and one[0] == "CallerError" for one in told) and told[0][1] == told[1][1]
    assert "the lists of ranks that exchange differ: the list of rank" in told[0][1] and "at place 0" in told[0][1]


def test_a_rank_in_no_list_is_told_to_those_whose_list_has_it(runtime):
    told = ends(launch(runtime, 2, """
        loader = balanced(Sized(64), collate_fn=list, config={"client_ranks": [[0, 1]] if RANK == 0 else [[0], [1]]})
        if RANK == 1:
            iterator = iter(loader)
            next(iterator)
            say("null")
            sys.stdin.readline()  # in the middle of its epoch
            sys.exit(0)
""" + ENDS))
    assert told[0][0] == "PeerError" and "rank 1 has ended its iteration or exchanges with nobody" in told[0][1]


@pytest.mark.parametrize("function", ["sort_fn", "feature_fn"])
@pytest.mark.parametrize("how", ["sys.exit(3)", "raise StopIteration", "raise KeyError"])
def test_a_function_that_exits_or_stops_ends_the_round_of_all_ranks(runtime, function, how):
    rank = 0 if function == "sort_fn" else 1
    told = ends(launch(runtime, 2, f"""
        def ends_early(*arguments):
            if RANK == {rank}:
                {how}
            return {{"cost": 1}}
        loader = balanced(Sized(64), collate_fn=list, config={{"{function}": ends_early, **(
            {{"feature_fn": feature}} if "{function}" == "sort_fn" else {{}})}})
""" + ENDS.replace("except Exception", "except BaseException")))
    assert told[1 - rank][0] == "PeerError" and function in told[1 - rank][1] or f"rank {rank}" in told[1 - rank][1]
    expected = {"sys.exit(3)": "SystemExit", "raise StopIteration": "CallerError", "raise KeyError": "KeyError"}[how]
    assert told[rank][0] == expected


def test_a_sort_fn_that_changes_what_it_is_given_changes_nothing_else(runtime):
    ranks = launch(runtime, 2, """
        def spoil(features, args):
            made = [1 - one["rank"] for one in features]
            for one in features:
                one.clear()
            features.clear()
            return made
        loader = balanced(Sized(32), collate_fn=list, config={"sort_fn": spoil})
        seen = [i for batch in loader for _, i in batch]
        say(json.dumps(dict(seen=seen, rounds=loader.stats()["rounds"])))
    """)
    told = results(ranks)
    assert sorted(told[0]["seen"]) == list(range(1, 32, 2)) and sorted(told[1]["seen"]) == list(range(0, 32, 2))
    assert told[0]["rounds"] == told[1]["rounds"] == 2


def test_ranks_of_different_hash_seeds_agree(runtime):
    ranks = launch(runtime, 2, """
        os.environ["PYTHONHASHSEED"] = str(RANK + 1)
        if "again" not in sys.argv:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        from stoker.samplers import TokenAwareBatchSampler
        words = ["wide", "tall", "square", "long", "short", "round"]
        shapes = [words[i % 6] for i in range(64)]
        tokens = [100 + 10 * (i % 6) for i in range(64)]
        sampler = TokenAwareBatchSampler(tokens, 2, shapes=shapes, seed=4)
        plan = list(sampler.global_steps())
        loader = DistributedDataLoader(
            Sized(64), batch_sampler=sampler, num_workers=1, collate_fn=list,
            load_balance_config={"feature_fn": lambda s: {"cost": tokens[s[1]], **{word: 1 for word in set(words)}}})
        seen = [i for batch in loader for _, i in batch]
        say(json.dumps(dict(hash=hash("wide"), plan=plan, digest=sampler.state_dict()["digest"], seen=seen)))
    """)
    told = results(ranks)
    assert told[0]["hash"] != told[1]["hash"]
    assert told[0]["plan"] == told[1]["plan"] and told[0]["digest"] == told[1]["digest"]
    assert sorted(told[0]["seen"] + told[1]["seen"]) == list(range(64))
