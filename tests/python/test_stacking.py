# SPDX-License-Identifier: Apache-2.0
"""Large tensors stacked past the cache: the same batches as torch's own, and torch's own where it is not for them."""

import collections

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import collate as stock_collate

from stoker import _core, _stacking
from stoker.torch import DistributedDataLoader

MIB = 1 << 20


class Stacker:
    """The function under test as if in a worker, and what it left to torch."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: "in a worker")
        self.left = 0
        self._stack = _stacking.stacker(torch, self._stock)

    def _stock(self, batch, *, collate_fn_map=None):
        self.left += 1
        return torch.stack(list(batch), 0)

    def __call__(self, batch):
        return self._stack(batch, collate_fn_map=None)


@pytest.fixture
def stack(monkeypatch):
    return Stacker(monkeypatch)


def random_bytes(count, seed):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 2, count, dtype=np.uint8))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.int64, torch.complex64])
@pytest.mark.parametrize("extra", [0, 3])
def test_the_same_batch_as_torch(stack, dtype, extra):
    samples = [random_bytes(MIB + extra, seed).to(dtype).view(1, -1) for seed in range(9)]
    batch = stack(samples)
    assert stack.left == 0
    expected = torch.stack(samples)
    assert batch.dtype == expected.dtype and batch.shape == expected.shape and batch.stride() == expected.stride()
    assert torch.equal(batch, expected)


def test_samples_that_are_views_of_other_memory(stack):
    whole = random_bytes(9 * MIB + 9, 1)
    samples = [whole[k * MIB + k : (k + 1) * MIB + k] for k in range(9)]
    assert torch.equal(stack(samples), torch.stack(samples)) and stack.left == 0


def big(**how):
    return torch.zeros(MIB, **how)


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: [torch.zeros(MIB // 8) for _ in range(64)],  # many small ones
        lambda: [big(dtype=torch.uint8) for _ in range(7)],  # little in all
        lambda: [torch.zeros(2 * MIB)[::2] for _ in range(8)],
        lambda: [torch.zeros(1024, 2048).T for _ in range(8)],
        lambda: [big(requires_grad=True) for _ in range(8)],
        lambda: [torch.nn.Parameter(big()) for _ in range(8)],
        lambda: [big().as_subclass(Own) for _ in range(8)],
        lambda: [big() for _ in range(7)] + [big().as_subclass(Own)],
        lambda: [big() for _ in range(7)] + [big(dtype=torch.float64)],
        lambda: [torch.zeros(MIB, dtype=torch.complex64).conj() for _ in range(8)],
        lambda: [torch._efficientzerotensor(MIB) for _ in range(8)],
    ],
)
def test_what_is_left_to_torch(stack, make):
    samples = make()
    batch = stack(samples)
    assert stack.left == 1 and batch.shape[0] == len(samples)


def test_errors_are_torchs(stack):
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        stack([big() for _ in range(7)] + [torch.zeros(MIB + 1)])
    assert stack.left == 1


def test_outside_of_a_worker_torch_stacks(stack, monkeypatch):
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: None)
    stack([big() for _ in range(8)])
    assert stack.left == 1


def test_an_entry_of_the_user_stays(monkeypatch):
    def own(batch, *, collate_fn_map=None):
        return "own"

    monkeypatch.setitem(stock_collate.default_collate_fn_map, torch.Tensor, own)
    _stacking.install()
    assert default_collate([big(), big()]) == "own"


Both = collections.namedtuple("Both", "large small")


class Large(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return {"array": np.full((MIB + 1,), index, np.int16), "both": Both(random_bytes(2 * MIB, index), torch.tensor(index))}


def who_stacks(samples):
    return default_collate(samples), stock_collate.default_collate_fn_map[torch.Tensor].__module__


def test_batches_of_the_loader_are_those_of_the_stock_one():
    """The first batch is collated in private memory and copied, the others in the slab."""
    ours = DistributedDataLoader(Large(), batch_size=8, num_workers=1, collate_fn=who_stacks)
    stock = torch.utils.data.DataLoader(Large(), batch_size=8)
    count = 0
    for (batch, module), expected in zip(ours, stock):
        assert module == "stoker._stacking"
        assert type(batch["both"]) is Both and list(batch) == list(expected)
        assert torch.equal(batch["array"], expected["array"]) and batch["array"].dtype == torch.int16
        assert torch.equal(batch["both"].large, expected["both"].large)
        assert torch.equal(batch["both"].small, expected["both"].small)
        count += 1
    ours.close()
    assert count == 3


# --------------------------------------------------------------------------------------------------------------- copies


def test_copies_of_any_size_and_place():
    source = np.random.default_rng(3).integers(1, 256, 1000, dtype=np.uint8)
    for to in range(0, 70, 3):
        for of in range(0, 20, 7):
            for size in [0, 1, 15, 16, 63, 64, 65, 127, 128, 130, 500, 777]:
                target = np.zeros(1000, np.uint8)
                _core.copy_past_cache(memoryview(target)[to : to + size], [memoryview(source)[of : of + size]])
                assert (target[to : to + size] == source[of : of + size]).all()
                assert not target[:to].any() and not target[to + size :].any()


def test_sources_follow_one_another():
    target = bytearray(200)
    _core.copy_past_cache(target, [b"a" * 70, b"", b"b" * 100, b"c" * 30])
    assert target == b"a" * 70 + b"b" * 100 + b"c" * 30


@pytest.mark.parametrize("sources, error", [
    ([b"a" * 9], "the sources have more than the 8 bytes of the destination"),
    ([b"a" * 8, b"b"], "the sources have more than the 8 bytes"),
    ([b"a" * 7], "the sources have 7 bytes, the destination 8"),
    ([], "the sources have 0 bytes, the destination 8"),
])
def test_sizes_must_agree(sources, error):
    guarded = bytearray(24)
    with pytest.raises(ValueError, match=error):
        _core.copy_past_cache(memoryview(guarded)[8:16], sources)
    assert not any(guarded[:8]) and not any(guarded[16:])


def test_what_is_no_memory_is_refused():
    with pytest.raises(BufferError):
        _core.copy_past_cache(b"read only", [b"read only"])
    for sources in [[1], ["text"], 7]:
        with pytest.raises(TypeError):
            _core.copy_past_cache(bytearray(4), sources)
