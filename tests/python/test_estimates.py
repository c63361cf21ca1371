# SPDX-License-Identifier: Apache-2.0
"""estimate_cost() of a user's dataset: called once a sample, honoured, and never a part of what is delivered."""

import json
import time

import pytest
import torch

from stoker import _estimate, _plane, errors
from stoker.torch import DistributedDataLoader


class Estimated(torch.utils.data.Dataset):
    """Sample i burns about i / 10 milliseconds and says so, in seconds, ten times too much."""

    def __len__(self):
        return 64

    def estimate_cost(self, index):
        return index * 1e-3

    def __getitem__(self, index):
        end = time.thread_time() + index * 1e-4
        while time.thread_time() < end:
            pass
        return torch.tensor(index)


def loader_status():
    return json.loads(_plane.held().status())["loaders"][0]


@pytest.mark.parametrize("fan_out", [1, 2])
def test_estimates_are_sent_and_what_they_cost_is_learned(fan_out):
    loader = DistributedDataLoader(Estimated(), batch_size=4, num_workers=1, fan_out=fan_out, persistent_workers=True)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [[4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3] for i in range(16)]
    status = loader_status()
    assert status["costs_learned"] > 8  # the first of the worker teaches nothing, the very first sample costs nothing
    loader.close()


def test_a_dataset_without_estimates_is_learned_too():
    class Plain(Estimated):
        estimate_cost = None

    loader = DistributedDataLoader(Plain(), batch_size=8, num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 8
    assert loader_status()["costs_learned"] > 4
    loader.close()


def test_a_bad_estimate_is_raised_in_its_own_step():
    class Wrong(Estimated):
        def estimate_cost(self, index):
            return -1.0 if index == 9 else 0.001

    loader = DistributedDataLoader(Wrong(), batch_size=4, num_workers=1)
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2, 3]
    assert next(iterator).tolist() == [4, 5, 6, 7]
    with pytest.raises(errors.CallerError, match=r"estimate_cost\(9\) of the dataset Wrong is -1.0, expected 0 to"):
        next(iterator)
    assert next(iterator).tolist() == [12, 13, 14, 15]
    loader.close()


@pytest.mark.parametrize("made", ["2.5", b"1", None, float("nan"), float("inf"), -1, -1e-9, 1e7, 10**400, 1j, [], {}, object()])
def test_an_estimate_that_is_no_time_is_named(made):
    class Odd(Estimated):
        def estimate_cost(self, index):
            return made if index == 3 else 0.001

    with pytest.raises(errors.CallerError, match=r"^estimate_cost\(3\) of the dataset Odd is .*, expected 0 to 1e\+06 seconds$"):
        _estimate.of_batch(Odd(), [1, 3])
    assert _estimate.of_batch(Odd(), [1, 2]) == (2, 2000000)


@pytest.mark.parametrize("fan_out", [1, 2])
@pytest.mark.parametrize("kind", [KeyError, StopIteration, OverflowError, RuntimeError])
def test_an_estimate_that_raises_is_named_in_its_own_step(kind, fan_out):
    class Raising(Estimated):
        def estimate_cost(self, index):
            if index == 5:
                raise kind("no such row")
            return 0.001

    loader = DistributedDataLoader(Raising(), batch_size=4, num_workers=1, fan_out=fan_out)
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2, 3]
    with pytest.raises(errors.CallerError, match=r"estimate_cost\(5\) of the dataset Raising raised .*no such row") as caught:
        next(iterator)
    assert isinstance(caught.value.__cause__, kind)
    assert next(iterator).tolist() == [8, 9, 10, 11]
    loader.close()


def test_cost_profile_is_where_predictions_start(tmp_path):
    row = {"schema": "stoker.cost/1", "path": "a.mp4", "kind": "h264", "samples": 1, "pixels_in": 10**7, "bytes_in": 10**5,
           "pixels_out": 10**6, "cpu_ns": 3 * 10**7, "wall_ns": 3 * 10**7, "input_bytes": 2 * 10**5, "output_bytes": 3}
    path = tmp_path / "costs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for _ in range(40)) + '{"schema": "stoker.profile/1"}\n\n')
    loader = DistributedDataLoader(Estimated(), batch_size=8, num_workers=1, cost_profile=path, persistent_workers=True)
    assert len(list(loader)) == 8
    assert loader_status()["costs_learned"] > 40
    loader.close()


def test_a_cost_profile_of_another_kind_is_told_what_it_is(tmp_path):
    (tmp_path / "clips.stkm").write_bytes(b"STKM" + b"\xff" * 200)
    with pytest.raises(errors.CallerError, match="is a manifest of scans; rows of `stoker profile"):
        iter(DistributedDataLoader(Estimated(), num_workers=1, cost_profile=tmp_path / "clips.stkm"))
    (tmp_path / "clips.jsonl").write_text('{"path": "a.mp4"}\n')
    with pytest.raises(errors.CallerError, match="no row of schema stoker.cost/1; `stoker profile SOURCE... > FILE` writes"):
        iter(DistributedDataLoader(Estimated(), num_workers=1, cost_profile=tmp_path / "clips.jsonl"))


@pytest.mark.parametrize("text, message", [
    ("", "has no row of schema stoker.cost/1"),
    ('{"schema": "stoker.cost/1"}\n', "line 1 is no row of stoker.cost/1"),
    ("\n[1]\n", "line 2 is no row of stoker.cost/1"),
    ("{\n", "line 1 is no row of stoker.cost/1"),
])
def test_a_bad_cost_profile_is_named(tmp_path, text, message):
    path = tmp_path / "costs.jsonl"
    path.write_text(text)
    with pytest.raises(errors.CallerError, match=message):
        iter(DistributedDataLoader(Estimated(), num_workers=1, cost_profile=path))
    with pytest.raises(errors.CallerError, match="cannot be read"):
        iter(DistributedDataLoader(Estimated(), num_workers=1, cost_profile=tmp_path / "none.jsonl"))
