# SPDX-License-Identifier: Apache-2.0
"""The result tree in a region of memory and back (rules A5, A6; situations 58, 59, 60), without a plane."""

import collections
import pathlib
import pickle

import numpy as np
import pytest
import torch

from stoker import _tree

Point = collections.namedtuple("Point", "x y")


class Tagged(dict):
    def __init__(self, *args, tag=None):
        super().__init__(*args)
        self.tag = tag


class Region:
    """A slab of its own address, as a worker sees it, and what the rank gets of it."""

    def __init__(self, size):
        self.memory = np.zeros(size + 256, np.uint8)
        self.start = -self.memory.ctypes.data % 256
        self.address = self.memory.ctypes.data + self.start
        self.view = memoryview(self.memory)[self.start :]

    def leaf(self, skeleton_offset, offset, size):
        assert offset % 256 == 0 and offset + size <= skeleton_offset
        return bytearray(self.view[offset : offset + size])


def travel(obj):
    encoding = _tree.encode(obj)
    region = Region(encoding.place(0, 0, 0))
    encoding.write(region.view, region.address)
    skeleton = bytes(region.view[encoding.skeleton_offset : encoding.skeleton_offset + encoding.skeleton_size])
    return _tree.decode(skeleton, region.leaf)[0]


TENSORS = [
    torch.arange(10),
    torch.zeros((0, 2)),
    torch.zeros((0, 5)).mT,
    torch.zeros((3, 0, 2), dtype=torch.bfloat16),
    torch.tensor(3.5),
    torch.tensor(True),
    torch.randn(40, 30).T,
    torch.randn(300, 200).T,
    torch.randn(400, 300)[::2, ::3],
    torch.randn(300, 1).expand(300, 100),
    torch.ones(1).expand(1 << 20),
    torch.randn(70000).to(torch.bfloat16),
    torch.randn(70000).to(torch.float16),
    torch.randn(50000, dtype=torch.complex64),
    torch.randint(0, 2, (90000,)).bool(),
    torch.randn(100000)[7:90000],
    torch.randn(3, requires_grad=True),
    torch.randn(2, 2).conj(),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{str(t.dtype)[6:]}{tuple(t.shape)}")
def test_tree_keeps_tensors(tensor):
    got = travel({"t": tensor})["t"]
    assert type(got) is torch.Tensor
    assert got.dtype == tensor.dtype and got.shape == tensor.shape and got.requires_grad == tensor.requires_grad
    assert torch.equal(got, tensor)


ARRAYS = [
    np.arange(10)[::-1],
    np.random.rand(300, 200)[..., ::-1],
    np.random.rand(300, 200).T,
    np.asfortranarray(np.random.rand(400, 100)),
    np.broadcast_to(np.arange(4.0), (50000, 4)),
    np.zeros((0, 3), np.float16),
    np.array(5),
    np.array(["a", "bc"]),
    np.array([(1, 2.5)] * 9000, dtype=[("a", "i4"), ("b", "f8")]),
    np.array(["2020-01-01"] * 9000, dtype="M8[ns]"),
    np.array([{"a": 1}, None], dtype=object),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype.str}{a.shape}")
def test_tree_keeps_arrays(array):
    got = travel([array])[0]
    assert type(got) is np.ndarray and got.dtype == array.dtype and got.flags.writeable
    assert np.array_equal(got, array)
    assert got.flags.f_contiguous == pickle.loads(pickle.dumps(array, 5)).flags.f_contiguous


def test_59_tree_keeps_types_of_containers():
    tagged = Tagged({"k": torch.ones(3)}, tag="t")
    obj = {
        "named": Point({"a": [1, 2.5, "s"]}, (None, b"bytes")),
        "path": pathlib.Path("a/b"),
        "set": {1, 2},
        "numpy": np.float32(2.5),
        "tagged": tagged,
        "ordered": collections.OrderedDict(a=torch.zeros(2)),
    }
    got = travel(obj)
    assert type(got["named"]) is Point and got["named"] == obj["named"]
    assert got["path"] == obj["path"] and type(got["path"]) is type(obj["path"])
    assert type(got["tagged"]) is Tagged and got["tagged"].tag == "t"
    assert type(got["numpy"]) is np.float32 and type(got["ordered"]) is collections.OrderedDict
    assert got["set"] == {1, 2}


@pytest.mark.parametrize("size", [10, 100_000])
def test_tree_keeps_identity_and_shared_storage(size):
    whole = torch.arange(float(size))
    array = np.arange(size)
    got = travel([whole, whole, whole[size // 2 :], array, array])
    assert got[0] is got[1] and got[3] is got[4]
    got[0][-1] = -5
    assert got[2][-1] == -5
    assert torch.equal(got[2][:-1], whole[size // 2 : -1])


def test_tree_falls_back_to_a_pickle():
    sparse = torch.eye(300).to_sparse()
    parameter = torch.nn.Parameter(torch.ones(3))
    quantised = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    got = travel((sparse, parameter, quantised, np.ma.masked_array([1, 2], [0, 1])))
    assert torch.equal(got[0].to_dense(), sparse.to_dense())
    assert type(got[1]) is torch.nn.Parameter and torch.equal(got[1], parameter)
    assert torch.equal(got[2].dequantize(), quantised.dequantize())
    assert type(got[3]) is np.ma.MaskedArray


def test_tree_refuses_what_the_stock_loader_refuses():
    with pytest.raises(RuntimeError, match="non-leaf"):
        travel(torch.ones(3, requires_grad=True) * 2)


def test_a6_one_storage_per_leaf():
    base = torch.zeros(1 << 20)
    got = travel({"a": base[:50000], "b": torch.zeros(60000)})
    assert got["a"].untyped_storage().nbytes() < 1 << 20
    assert got["b"].untyped_storage().nbytes() == 240000


def test_a5_small_leaves_are_private():
    encoding = _tree.encode({"a": torch.zeros(16383), "b": torch.zeros(16384)})
    encoding.place(0, 0, 0)
    assert [store.offset is None for store in encoding._stores] == [True, False]


def test_tree_leaves_collated_tensors_in_place():
    region = Region(1 << 20)
    there = torch.frombuffer(region.view, dtype=torch.float32, count=50000, offset=512)
    there.copy_(torch.arange(50000.0))
    elsewhere = torch.randn(40000)
    encoding = _tree.encode([elsewhere, there])
    needed = encoding.place(region.address, 512 + 200000, 1 << 20)
    assert needed <= 1 << 20 and not encoding.must_grow
    assert [store.offset for store in encoding._stores] == [_tree._align(200512), 512]
    encoding.write(region.view, region.address)
    skeleton = bytes(region.view[encoding.skeleton_offset : needed])
    got = _tree.decode(skeleton, region.leaf)[0]
    assert torch.equal(got[0], elsewhere) and torch.equal(got[1], torch.arange(50000.0))


def test_tree_moves_to_a_larger_region():
    small = Region(300_000)
    there = torch.frombuffer(small.view, dtype=torch.float32, count=50000, offset=0)
    there.copy_(torch.arange(50000.0))
    obj = [there, torch.randn(90000)]
    encoding = _tree.encode(obj)
    needed = encoding.place(small.address, 200000, 300_000)
    assert needed > 300_000 or encoding.must_grow
    large = Region(needed)
    encoding.write(large.view, large.address)
    got = _tree.decode(bytes(large.view[encoding.skeleton_offset : needed]), large.leaf)[0]
    assert all(torch.equal(a, b) for a, b in zip(got, obj))


@pytest.mark.parametrize("seed", range(60))
def test_tree_copies_overwrite_nothing_that_is_still_to_be_copied(seed):
    """Views of tensors that lie in the region, from any place in them and in any order, beside private ones."""
    chance = np.random.default_rng(seed)
    capacity = int(chance.choice([1_000_000, 2_000_000, 4_000_000]))
    region = Region(capacity)
    occupied, leaves = 0, []
    for _ in range(chance.integers(1, 5)):
        size = int(chance.integers(70_000, 200_000))
        there = torch.frombuffer(region.view, dtype=torch.uint8, count=size, offset=_tree._align(occupied))
        occupied = _tree._align(occupied) + size
        there.copy_(torch.from_numpy(chance.integers(0, 256, size, dtype=np.uint8)))
        first = int(chance.choice([0, 1, 256, 1000, size - 66_000]))
        leaves.append(there[first : size - int(chance.integers(0, 3000))])
    leaves += [torch.from_numpy(chance.integers(0, 256, 100_000, dtype=np.uint8)) for _ in range(chance.integers(0, 4))]
    leaves = [leaves[k] for k in chance.permutation(len(leaves))]
    expected = [leaf.clone() for leaf in leaves]
    encoding = _tree.encode(leaves)
    needed = encoding.place(region.address, occupied, capacity)
    if needed > capacity or encoding.must_grow:
        region = Region(needed)
    encoding.write(region.view, region.address)
    got = _tree.decode(bytes(region.view[encoding.skeleton_offset : needed]), region.leaf)[0]
    assert len(got) == len(expected) and all(torch.equal(a, b) for a, b in zip(got, expected))


def test_tree_notes_travel():
    encoding = _tree.encode(1, [(3, "ValueError: x")])
    region = Region(encoding.place(0, 0, 0))
    encoding.write(region.view, region.address)
    assert _tree.decode(bytes(region.view[: encoding.used]), region.leaf) == (1, [(3, "ValueError: x")])
