# SPDX-License-Identifier: Apache-2.0
"""Tier 2 over real processes: samples change their rank, no byte moves, every sample comes once, nobody hangs."""

import collections
import json
import signal

import pytest
import scripts
import support
import torch
from stoker import _balance, errors
from stoker.torch import DistributedDataLoader, keep_current_assignment, projected_gain, rebalance_assignment

PRELUDE = """
    import json
    RANK = int(os.environ["RANK"])
    KIB = 256

    class Sized(torch.utils.data.Dataset):
        '''Sample i costs i % 7 + 1, and those of rank 0 (even ones) ten times that.'''
        def __init__(self, count, bad=()):
            self.count, self.bad = count, bad
        def __len__(self):
            return self.count
        def __getitem__(self, i):
            if i in self.bad:
                raise ValueError(f"sample {i} is bad")
            return torch.full((KIB * 1024,), i % 251, dtype=torch.uint8), i

    def cost(i):
        return (i % 7 + 1) * (10 if i % 2 == 0 else 1)

    def feature(sample):
        return {"cost": cost(int(sample[1]))}

    def where(tensor):
        '''The file and the place in it that a tensor lies in: equal in two processes only for the same memory.'''
        at = tensor.data_ptr()
        for line in open("/proc/self/maps"):
            span, _, offset, device, inode, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if start <= at < end:
                return [device, int(inode), int(offset, 16) + at - start]

    def balanced(dataset, **options):
        config = {"feature_fn": feature, "buffer_size": 16}
        config.update(options.pop("config", {}))
        return DistributedDataLoader(dataset, batch_size=2, num_workers=1, load_balance_config=config, **options)
"""


def launch(runtime, count, body):
    return runtime.launch_ranks(count, scripts.with_prelude(PRELUDE) + scripts.textwrap.dedent(body))


def results(ranks):
    return [json.loads(support.finish_well(rank, 150).strip().splitlines()[-1]) for rank in ranks]


def features(*loads):
    """One rank's costs in each argument."""
    return [{"rank": rank, "cost": cost} for rank, costs in enumerate(loads) for cost in costs]


# ---- policies


def test_rebalance_evens_the_load_and_keeps_the_counts():
    round_ = features([9, 8, 7], [1, 2, 3])
    made = rebalance_assignment(round_)
    assert collections.Counter(made) == {0: 3, 1: 3}
    assert max(sum(f["cost"] for f, rank in zip(round_, made) if rank == r) for r in (0, 1)) == 16
    assert projected_gain(round_) == pytest.approx(1 - 16 / 24)
    assert keep_current_assignment(round_) == [0, 0, 0, 1, 1, 1]


def test_costs_may_be_fractions_or_tokens_and_ranks_any_numbers():
    round_ = [{"rank": rank, "tokens": tokens} for rank, tokens in [(7, 0.9), (7, 0.8), (3, 0.1), (3, 0.2)]]
    assert sorted(rebalance_assignment(round_)) == [3, 3, 7, 7]
    assert projected_gain(round_) == pytest.approx(1 - 1.0 / 1.7, rel=1e-6)
    assert projected_gain([]) == 0.0 and rebalance_assignment([]) == []
    with pytest.raises(errors.CallerError, match="name no cost"):
        projected_gain([{"rank": 0, "a": 1, "b": 2}])


@pytest.mark.parametrize("args, kept", [({}, False), ({"min_gain": 0.34}, True), ({"min_gain": 0.33}, False),
                                        ({"transfer_cost": 3}, False), ({"transfer_cost": 8}, True)])
def test_gate_keeps_the_assignment_unless_it_pays(args, kept):
    round_ = features([9, 8, 7], [1, 2, 3])  # 24 becomes 16: a third; each rank receives one or two
    assert (_balance.gated_assignment(round_, args) == keep_current_assignment(round_)) == kept


@pytest.mark.parametrize("value", [10**400, -(10**400), pytest.param(10**5000, id="huge"), float("nan"), -1, float("inf"), "3", [1, 2], None, torch.zeros(2)])
def test_a_cost_that_cannot_be_names_the_feature_and_feature_fn(value):
    with pytest.raises(errors.CallerError, match="'cost'.*") as caught:
        projected_gain([{"rank": 0, **_balance.features_of(lambda sample: {"cost": value}, None)}])
    assert "feature_fn" in str(caught.value)
    with pytest.raises(errors.CallerError, match="feature 'cost' of feature_fn"):
        projected_gain([{"rank": 0, "cost": value}])


@pytest.mark.parametrize("name", ["min_gain", "transfer_cost"])
@pytest.mark.parametrize("value", [10**400, "3", [], -1, float("nan"), float("inf"), object()])
def test_a_threshold_that_cannot_be_is_named(name, value):
    with pytest.raises(errors.CallerError, match=f"{name}=.* in 'args' of load_balance_config"):
        _balance.gated_assignment(features([9, 8], [1, 2]), {name: value})


def test_the_dearest_transfer_of_the_cheapest_samples_is_never_worth_it():
    round_ = features([9e-300, 8e-300], [1e-300, 2e-300])
    assert _balance.gated_assignment(round_, {"transfer_cost": 1e300}) == keep_current_assignment(round_)


@pytest.mark.parametrize("config, words", [
    ([], "a dict was expected"),
    ({}, "feature_fn"),
    ({"feature_fn": len, "sortfn": len}, "sortfn"),
    ({"feature_fn": len, "buffer_size": 0}, "buffer_size"),
    ({"feature_fn": len, "client_ranks": [[0], [0]]}, "twice"),
    ({"feature_fn": len, "client_ranks": [[0, 1]]}, "names rank 1, there are 1"),
    ({"feature_fn": len, "sort_fn": 3}, "sort_fn"),
])
def test_a_config_that_cannot_be_is_refused_by_name(config, words):
    with pytest.raises(errors.CallerError, match=words):
        DistributedDataLoader(range(4), num_workers=1, load_balance_config=config)


@pytest.mark.parametrize("options, words", [({"num_workers": 0}, "num_workers=0"), ({"on_error": "skip"}, "on_error='skip'"),
                                            ({"fan_out": 2}, "fan_out"), ({"pad_value": 0.0}, "pad_value")])
def test_what_does_not_go_with_rounds_is_refused_by_name(options, words):
    with pytest.raises(errors.CallerError, match=words):
        DistributedDataLoader(range(4), **{"num_workers": 1, **options}, load_balance_config={"feature_fn": len})


def test_alone_it_gives_what_the_stock_loader_gives():
    data = [torch.full((3,), i) for i in range(11)]
    config = {"feature_fn": lambda sample: {"cost": int(sample[0])}, "buffer_size": 6}
    loader = DistributedDataLoader(data, batch_size=2, num_workers=1, load_balance_config=config)
    for _ in range(2):
        ours = list(loader)
        stock = list(torch.utils.data.DataLoader(data, batch_size=2))
        assert len(ours) == len(stock) and all(torch.equal(a, b) for a, b in zip(ours, stock))
    loader.close()


def test_requests_run_ahead_of_the_round():
    drawn = []

    class Watched(torch.utils.data.SequentialSampler):
        def __iter__(self):
            for index in super().__iter__():
                drawn.append(index)
                yield index

    data = [torch.full((3,), i) for i in range(60)]
    config = {"feature_fn": lambda sample: {"cost": 1}, "buffer_size": 6}
    for depth, ahead in [(2, 12), (7, 14), (40, 18)]:  # this round and the next; prefetch_factor; three rounds
        loader = DistributedDataLoader(
            data, batch_size=2, sampler=Watched(data), num_workers=1, prefetch_factor=depth, load_balance_config=config)
        drawn.clear()
        iterator = iter(loader)
        for given in (2, 4, 6, 8):
            next(iterator)
            assert len(drawn) == given + ahead
        assert sum(len(batch) for batch in iterator) == 52
        loader.close()


# ---- ranks


def test_c2_an_exchange_moves_no_byte(runtime):
    ranks = launch(runtime, 2, """
        seen, had = {}, {}
        def note(sample):
            had[int(sample[1])] = where(sample[0])
            return feature(sample)
        loader = balanced(Sized(32), collate_fn=list, config={"feature_fn": note})
        batches = 0
        for batch in loader:
            batches += 1
            for tensor, i in batch:
                assert tensor.numel() == KIB * 1024 and bool((tensor == i % 251).all()), i
                seen[i] = where(tensor)
            del batch, tensor
        stats = loader.stats()
        say(json.dumps(dict(seen=seen, had=had, batches=batches, stats=stats, state=loader.balance_state)))
    """)
    told = results(ranks)
    had = {**told[0]["had"], **told[1]["had"]}
    moved = [i for rank in told for i in rank["seen"] if i not in rank["had"]]
    assert moved and sum(rank["stats"]["samples_given"] for rank in told) == len(moved)
    for rank in told:
        assert rank["batches"] == 8 and len(rank["seen"]) == 16
        assert rank["stats"]["bytes_moved"] == 0 and rank["stats"]["copies"] == 0
        for i, place in rank["seen"].items():
            assert place == had[i]  # the very memory that the other rank's worker wrote
    assert sorted(int(i) for rank in told for i in rank["seen"]) == list(range(32))
    assert told[0]["state"] == told[1]["state"]
    assert len(told[0]["state"]["assignment"]) == 16 and told[0]["state"]["taken"] == 4


def test_a_dense_batch_copies_each_sample_once(runtime):
    ranks = launch(runtime, 2, """
        loader = balanced(Sized(32))
        ids = [int(i) for tensors, numbers in loader for i in numbers]
        say(json.dumps(dict(ids=ids, stats=loader.stats(), size=KIB * 1024)))
    """)
    told = results(ranks)
    assert sorted(i for rank in told for i in rank["ids"]) == list(range(32))
    for rank in told:
        assert rank["stats"]["bytes_moved"] == 16 * (rank["size"] + 8)  # the tensor, and the number


def test_rounds_are_the_same_in_every_run_and_lower_the_load(runtime):
    body = """
        loader = balanced(Sized(64), collate_fn=list, shuffle=True, seed=5)
        epochs = []
        for epoch in range(2):
            loader.set_epoch(epoch)
            epochs.append([[i for _, i in batch] for batch in loader])
        say(json.dumps(dict(epochs=epochs, costs=[cost(i) for i in range(64)])))
    """
    first, second = results(launch(runtime, 2, body)), results(launch(runtime, 2, body))
    assert first == second
    assert first[0]["epochs"][0] != first[0]["epochs"][1]
    for epoch in range(2):
        costs = first[0]["costs"]
        loads = [[sum(costs[i] for batch in rank["epochs"][epoch][4 * r:4 * r + 4] for i in batch) for r in range(4)]
                 for rank in first]
        for mine, other in zip(*loads):
            assert max(mine, other) <= 1.2 * (mine + other) / 2


def test_sort_fn_of_the_first_rank_decides_for_all(runtime):
    ranks = launch(runtime, 3, """
        def swap(features, args):
            assert RANK == 1, "only the first of the list sorts"
            assert [f["rank"] for f in features] == [1] * (len(features) // 2) + [0] * (len(features) // 2)
            return [args["swap"][f["rank"]] for f in features]
        loader = balanced(Sized(24), collate_fn=list,
                          config={"sort_fn": swap, "client_ranks": [[1, 0]], "args": {"swap": [1, 0]}})
        say(json.dumps([i for batch in loader for _, i in batch]))
    """)
    told = results(ranks)
    assert told[0] == list(range(1, 24, 3)) and told[1] == list(range(0, 24, 3))  # each the other's, in order
    assert told[2] == list(range(2, 24, 3))  # in no list: its own


def test_ranks_may_end_at_different_times(runtime):
    ranks = launch(runtime, 2, """
        data = Sized(64)
        loader = balanced(data, collate_fn=list, sampler=range(RANK, 60 if RANK else 20, 2))
        say(json.dumps([[i for _, i in batch] for batch in loader]))
    """)
    told = results(ranks)
    assert len(told[0]) == 5 and len(told[1]) == 15  # the batches that each sampler has
    assert sorted(i for rank in told for batch in rank for i in batch) == sorted([*range(0, 20, 2), *range(1, 60, 2)])


def test_a_bad_sample_is_told_to_all_ranks(runtime):
    ranks = launch(runtime, 2, """
        loader = balanced(Sized(32, bad={5}), collate_fn=list)
        try:
            list(loader)
        except Exception as error:
            say(json.dumps([type(error).__name__, str(error)]))
    """)
    told = results(ranks)
    assert told[1] == ["ValueError", told[1][1]] and "sample 5 is bad" in told[1][1]
    assert told[0][0] == "PeerError" and "rank 1 could not make its part of round 0" in told[0][1]
    assert "sample 5 is bad" in told[0][1]


def test_a_bad_sample_is_replaced_by_policy(runtime):
    ranks = launch(runtime, 2, """
        loader = balanced(Sized(32, bad={5}), collate_fn=list, on_error="replace")
        ids = [i for batch in loader for _, i in batch]
        say(json.dumps(dict(ids=ids, skipped=loader.stats()["samples_skipped"])))
    """)
    told = results(ranks)
    assert sorted(i for rank in told for i in rank["ids"]) == sorted([*range(5), 6, *range(6, 32)])


@pytest.mark.parametrize("place", ["feature_fn", "sort_fn", "short", "stranger"])
def test_a_policy_that_fails_is_told_to_all_ranks(runtime, place):
    ranks = launch(runtime, 2, f"""
        place = {place!r}
        def fail(*arguments):
            if place == "feature_fn" and RANK == 1:
                return feature(*arguments)
            if place == "short":
                return [0]
            if place == "stranger":
                return [9] * len(arguments[0])
            raise KeyError("ouch")
        config = {{place: fail}} if place == "feature_fn" else {{"sort_fn": fail}}
        loader = balanced(Sized(32), collate_fn=list, config=config)
        try:
            list(loader)
        except Exception as error:
            say(json.dumps([type(error).__name__, str(error)]))
    """)
    told = results(ranks)
    assert told[1][0] == "PeerError" and told[0][0] in ("KeyError", "CallerError")
    words = {"short": "returned 1 ranks for 16 samples", "stranger": "rank 9"}.get(place, "ouch")
    assert words in told[0][1] and words in told[1][1]


def test_death_of_a_rank_inside_a_round_is_told(runtime):
    ranks = launch(runtime, 2, """
        def wait(sample):
            if RANK == 1 and int(sample[1]) >= 17:
                say("inside")
                sys.stdin.readline()
            return feature(sample)
        loader = balanced(Sized(64), collate_fn=list, config={"feature_fn": wait})
        try:
            for batch in loader:
                del batch
        except Exception as error:
            say(json.dumps([type(error).__name__, str(error)]))
    """)
    assert ranks[1].read_line().strip() == "inside"
    ranks[1].send_signal(signal.SIGKILL)
    ranks[1].wait()
    (told,) = results(ranks[:1])
    assert told[0] == "PeerError" and "rank 1 has left" in told[1]


@pytest.mark.parametrize("where", ["feature_fn", "sort_fn"])
def test_a_rank_that_does_not_come_is_named(runtime, where):
    ranks = launch(runtime, 3, f"""
        import logging
        from stoker import _rounds
        _rounds._SLICE_S = _rounds._TELL_S = 0.2
        said = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        logging.getLogger("stoker").addHandler(handler)
        def wait(result, place):
            if RANK == 0 and place == "{where}":
                say(os.getpid())
                sys.stdin.readline()
            return result
        config = {{"feature_fn": lambda sample: wait(feature(sample), "feature_fn"),
                  "sort_fn": lambda features, args: wait([f["rank"] for f in features], "sort_fn")}}
        loader = balanced(Sized(48), collate_fn=list, timeout=3 if RANK == 1 else 60, config=config)
        try:
            next(iter(loader))
        except Exception as error:
            say(json.dumps([type(error).__name__, str(error), said]))
    """)
    pid = ranks[0].read_line().strip()
    told = results(ranks[1:])
    ranks[0].kill()
    ranks[0].wait()
    waits = f"of the ranks [0, 1, 2] waits for rank 0 (pid {pid})"
    assert told[0][0] == "RuntimeError" and waits in told[0][1]  # then it has left, which the last rank is told
    assert all(any(waits in line for line in said) for _, _, said in told)


def test_a_rank_that_stops_early_is_told(runtime):
    ranks = launch(runtime, 2, """
        loader = balanced(Sized(64), collate_fn=list)
        try:
            for number, batch in enumerate(loader):
                del batch
                if RANK == 1 and number == 3:
                    break
        except Exception as error:
            say(json.dumps([type(error).__name__, str(error)]))
        else:
            loader.close()
            say(json.dumps(None))
    """)
    told = results(ranks)
    assert told[1] is None
    assert told[0][0] == "PeerError" and ("rank 1 has ended its iteration" in told[0][1] or "has left" in told[0][1])


PREPARED = """
        def prepare(iterator):
            # as many calls of next() would: nothing of the coming round may wait for its boundary
            while iterator._rounds._made is None:
                iterator._rounds._prepare(False)
"""


@pytest.mark.parametrize("policy", ["built-in", "sort_fn"])
def test_the_coming_round_is_prepared_while_this_one_is_taken(runtime, policy):
    ranks = launch(runtime, 2, PREPARED + f"""
        from stoker.torch import rebalance_assignment
        config = {{"sort_fn": lambda features, args: rebalance_assignment(features)}} if {policy!r} == "sort_fn" else {{}}
        loader = balanced(Sized(64), collate_fn=list, config=config)
        seen, ahead = [], []
        iterator = iter(loader)
        for batch in iterator:
            seen.append([int(sample[1]) for sample in batch])
            assert all(bool((sample[0] == sample[1] % 251).all()) for sample in batch)
            del batch
            if len(seen) in (1, 9):
                prepare(iterator)
            if len(seen) in (1, 4, 9, 12):
                ahead.append([loader.balance_state["round"], loader.stats()["rounds"], loader.stats()["samples_given"]])
        say(json.dumps([seen, ahead, list(loader) and loader.stats()["samples_given"], [
            [int(sample[1]) for sample in batch] for batch in loader]]))
    """)
    told = results(ranks)
    for seen, ahead, given, again in told:
        assert [entry[:2] for entry in ahead] == [[0, 1], [0, 1], [2, 3], [2, 3]]
        assert ahead[0][2] == ahead[1][2] < ahead[2][2] == ahead[3][2]  # what was given before the boundary is all
        assert seen == again and given > 0  # what is prepared when changes nothing
    assert sorted(i for rank in told for batch in rank[0] for i in batch) == list(range(64))


def test_a_rank_may_leave_a_round_that_is_prepared(runtime):
    ranks = launch(runtime, 2, PREPARED + """
        loader = balanced(Sized(64), collate_fn=list)
        told = None
        iterator = iter(loader)
        try:
            for number, batch in enumerate(iterator):
                del batch
                if number == 0:
                    prepare(iterator)
                if RANK == 1 and number == 1:
                    break
        except Exception as error:
            told = [number, type(error).__name__, str(error)]
        del iterator
        again = [int(sample[1]) for batch in loader for sample in batch]
        say(json.dumps([told, again]))
    """)
    (told, first), (nothing, second) = results(ranks)
    assert nothing is None and told[1] == "PeerError" and "rank 1 has ended its iteration" in told[2]
    assert told[0] >= 3  # the batches of the round that was held are good
    assert sorted(first + second) == list(range(64))


def test_a_rank_that_has_dropped_its_loader_is_not_awaited(runtime):
    ranks = launch(runtime, 2, """
        import time
        told = None
        loader = balanced(Sized(64), collate_fn=list)
        if RANK == 1:
            batch = next(iter(loader))
            del batch, loader
            while not os.path.exists("over"):  # it lives on, and makes nothing
                time.sleep(0.05)
        else:
            try:
                for batch in loader:
                    del batch
                    time.sleep(0.2)
            except Exception as error:
                told = [type(error).__name__, str(error)]
            open("over", "w").close()
        say(json.dumps(told))
    """)
    told, nothing = results(ranks)
    assert nothing is None and told[0] == "PeerError" and told[1].startswith("rank 1 has "), told


def test_a_bad_sample_of_the_coming_round_is_raised_at_its_boundary(runtime):
    ranks = launch(runtime, 2, PREPARED + """
        loader = balanced(Sized(64, bad=(21,)), collate_fn=list)
        iterator, number = iter(loader), 0
        try:
            for batch in iterator:
                number += 1
                del batch
                if number == 1:
                    prepare(iterator)
        except Exception as error:
            say(json.dumps([number, type(error).__name__, str(error)]))
    """)
    told = results(ranks)
    assert [entry[0] for entry in told] == [4, 4]
    assert sorted(entry[1] for entry in told) == ["PeerError", "ValueError"]
    assert all("sample 21 is bad" in entry[2] for entry in told)


def test_a_user_who_keeps_batches_gets_copies(runtime):
    ranks = launch(runtime, 2, """
        loader = balanced(Sized(96), collate_fn=list, max_bytes=64 << 20)
        kept = list(loader)
        for batch in kept:
            for tensor, i in batch:
                assert bool((tensor == i % 251).all()), i
        say(json.dumps(dict(ids=[i for batch in kept for _, i in batch], copies=loader.stats()["copies"])))
    """)
    told = results(ranks)
    assert sorted(i for rank in told for i in rank["ids"]) == list(range(96))
    assert all(rank["copies"] > 0 for rank in told)


def test_a1_a_round_is_cut_to_what_can_be_reserved(runtime):
    ranks = launch(runtime, 2, """
        loader = balanced(Sized(64), collate_fn=list, max_bytes=16 << 20, config={"buffer_size": 64})
        ids, most = [], 0
        for batch in loader:
            ids += [i for _, i in batch]
            most = max(most, len(loader.balance_state["assignment"]))
            del batch
        say(json.dumps(dict(ids=ids, most=most)))
    """)
    told = results(ranks)
    assert sorted(i for rank in told for i in rank["ids"]) == list(range(64))
    assert told[0]["most"] == told[1]["most"] < 64


def test_native_samples_are_exchanged(runtime):
    ranks = launch(runtime, 2, """
        loader = DistributedDataLoader(
            clips(12), batch_size=2, num_workers=1, collate_fn=list,
            load_balance_config={"feature_fn": lambda sample: {"cost": 1 + 100 * (sample[1] % 2 == 0)}, "buffer_size": 12})
        import stoker.media
        data, ids = clips(12), []
        for batch in loader:
            for video, i in batch:
                assert torch.equal(video, data[i][0]), i
                ids.append(i)
            del batch, video
        say(json.dumps(dict(ids=ids, stats=loader.stats())))
    """)
    told = results(ranks)
    assert sorted(i for rank in told for i in rank["ids"]) == list(range(12))
    assert all(sum(i % 2 == 0 for i in rank["ids"]) == 3 for rank in told)
    assert all(rank["stats"]["bytes_moved"] == 0 and rank["stats"]["samples_given"] == 3 for rank in told)


def test_launch_sets_the_config_of_later_loaders():
    from stoker import torch as module

    with pytest.raises(errors.CallerError):
        DistributedDataLoader.launch(load_balance_config={"feature_fn": 1})
    DistributedDataLoader.launch(load_balance_config={"feature_fn": lambda sample: {"cost": int(sample)}})
    try:
        loader = DistributedDataLoader(range(5), batch_size=2, num_workers=1)
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
        assert loader.stats()["rounds"] == 1
        loader.close()
    finally:
        module._launched = None
