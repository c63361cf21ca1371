# SPDX-License-Identifier: Apache-2.0
"""The result of a Python batch in shared memory, and back: structure as a pickle, large arrays as leaves beside it.

A batch region is  ``leaf | leaf | ... | skeleton``; every leaf starts on a 256-byte boundary. The skeleton is a
pickle of

    (tree, nodes, stores, notes)

where ``tree`` is the pickled structure in which each tensor or array is a numbered slot, ``nodes[i]`` says how slot i
views a store, and a store is either bytes in the skeleton (less than 64 KiB: a private copy, rule A5) or (offset,
size) in the region.

What is kept: types of all containers and objects; identity (one object met twice is one object again); tensors that
share a storage go on sharing it; strides of dense tensors. Sparse, quantised, nested and subclassed tensors, object
arrays and array subclasses travel as an ordinary pickle. Objects whose class lives in ``__main__`` get the class of
that name in the rank's own ``__main__``.
"""

from __future__ import annotations

import io
import pickle
import sys

import cloudpickle

from . import _core

__all__ = ["ALIGNMENT", "INLINE_BYTES", "PAST_CACHE_BYTES", "Encoding", "decode", "encode", "memory", "plain_tensor"]

ALIGNMENT = 256
INLINE_BYTES = 64 * 1024
PAST_CACHE_BYTES = 8 << 20  # a smaller batch may be found in a cache that its reader shares with the worker


def _slot(number):
    raise pickle.UnpicklingError("a slot of a stoker batch can be loaded by stoker only")


def _main(qualname):
    target = sys.modules["__main__"]
    for part in qualname.split("."):
        target = getattr(target, part)
    return target


def _align(value: int) -> int:
    return (value + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


class _Pickler(cloudpickle.Pickler):
    """Numbers plain tensors and arrays instead of writing them."""

    def __init__(self, file) -> None:
        super().__init__(file, protocol=5)
        self.slots = []
        self._torch = sys.modules.get("torch")
        self._numpy = sys.modules.get("numpy")

    def reducer_override(self, obj):
        kind = type(obj)
        if self._torch is not None and kind is self._torch.Tensor:
            if obj.requires_grad and not obj.is_leaf:  # as the stock loader
                raise RuntimeError(
                    "a non-leaf tensor that requires grad cannot be sent from a worker: autograd does not cross"
                    " processes; call detach() on it"
                )
            if plain_tensor(self._torch, obj):
                return self._number(obj)
            return NotImplemented
        if self._numpy is not None and kind is self._numpy.ndarray:
            return NotImplemented if obj.dtype.hasobject else self._number(obj)
        if isinstance(obj, type) and obj.__module__ == "__main__" and "<locals>" not in obj.__qualname__:
            return _main, (obj.__qualname__,)
        return super().reducer_override(obj)

    def _number(self, obj):
        self.slots.append(obj)
        return _slot, (len(self.slots) - 1,)


def plain_tensor(torch, tensor) -> bool:
    """Is it its memory and its strides, and nothing else?"""
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
        and not getattr(tensor, "__dict__", None)
    )


class _Store:
    """Bytes of one leaf: ``address`` of memory that ``owner`` keeps alive."""

    def __init__(self, address: int, size: int, owner) -> None:
        self.address, self.size, self.owner = address, size, owner
        self.offset = None  # in the region, once placed; None for inline stores


class Encoding:
    """A batch that was pickled but not yet placed: knows how many bytes it needs, then writes itself."""

    def __init__(self, tree: bytes, nodes: list, stores: list, notes) -> None:
        self._tree, self._nodes, self._stores, self._notes = tree, nodes, stores, notes
        self._skeleton_bytes = b""
        self.skeleton_offset = 0
        self.skeleton_size = 0
        self.used = 0
        self.must_grow = False  # leaves moved within the region that holds them: write to another one

    def place(self, address: int, occupied: int, capacity: int) -> int:
        """Give every leaf its place in a region that is mapped at ``address``; returns the bytes needed.

        Leaves that lie in the first ``occupied`` bytes (collated there) and apart from each other stay where they are.
        The others go behind them: what lies there may be the source of a copy, or kept by the user. If that is more than
        ``capacity`` bytes, all leaves move.
        """
        large = [store for store in self._stores if store.size >= INLINE_BYTES]
        inside = [s for s in large if s.address < address + occupied and address < s.address + s.size]
        free = address
        for store in sorted(inside, key=lambda store: store.address):
            end = store.address + store.size
            if free <= store.address and end <= address + occupied and (store.address - address) % ALIGNMENT == 0:
                store.offset = store.address - address
                free = end
        end = occupied
        for store in large:
            if store.offset is None:
                store.offset = _align(end)
                end = store.offset + store.size
        self.skeleton_offset = _align(end)
        self._skeleton_bytes = skeleton = self._skeleton()
        needed = self.skeleton_offset + len(skeleton)
        if needed > capacity and occupied:  # all must move, without the gaps of what was collated and then dropped
            for store in large:
                store.offset = None
            self.must_grow = True
            return self.place(0, 0, capacity)
        self.skeleton_size = len(skeleton)
        self.used = needed
        return needed

    def _skeleton(self) -> bytes:
        stores = [(store.offset, store.size) if store.offset is not None else _read(store) for store in self._stores]
        return pickle.dumps((self.skeleton_offset, self._tree, self._nodes, stores, self._notes), protocol=5)

    def write(self, region, address: int) -> None:
        """Copy what is not there yet into ``region`` (a writable buffer mapped at ``address``), and the skeleton."""
        view = memoryview(region).cast("B")
        for store in self._stores:
            if store.offset is not None and store.address != address + store.offset:
                _copy(view[store.offset : store.offset + store.size], memory(store.address, store.size))
        skeleton = self._skeleton_bytes
        view[self.skeleton_offset : self.skeleton_offset + len(skeleton)] = skeleton


def memory(address: int, size: int) -> memoryview:
    """Memory that the caller keeps alive."""
    import ctypes

    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def _copy(to: memoryview, of: memoryview) -> None:
    if len(of) >= PAST_CACHE_BYTES:
        _core.copy_past_cache(to, [of])
    else:
        to[:] = of


def _read(store: _Store) -> bytes:
    return bytes(memory(store.address, store.size)) if store.size else b""


def encode(obj, notes=None) -> Encoding:
    """Pickle ``obj``; its tensors and arrays are borrowed until the encoding is written or dropped."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(obj)
    nodes, stores = _layout(pickler.slots)
    return Encoding(file.getvalue(), nodes, stores, notes)


def _layout(slots):
    torch = sys.modules.get("torch")
    nodes: list = [None] * len(slots)
    stores: list[_Store] = []
    shared: dict[int, list[int]] = {}
    for i, obj in enumerate(slots):
        if torch is None or type(obj) is not torch.Tensor:
            nodes[i] = _array_node(obj, stores)
        elif obj.numel() == 0:
            nodes[i] = ("t", None, 0, _name(obj.dtype), tuple(obj.shape), obj.stride(), obj.requires_grad)
        else:
            shared.setdefault(obj.untyped_storage()._cdata, []).append(i)
    for members in shared.values():
        _tensor_nodes(members, slots, nodes, stores)
    return nodes, stores


def _name(dtype) -> str:
    return str(dtype).partition(".")[2]


def _span(tensor) -> int:
    """Bytes from the first element to the end of the last."""
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def _tensor_nodes(members, slots, nodes, stores) -> None:
    """Nodes of the tensors of one storage. A lone tensor that skips much of its span is made dense; tensors that share
    a storage travel with the bytes that they cover."""
    if len(members) == 1:
        tensor = slots[members[0]]
        if _span(tensor) > tensor.numel() * tensor.element_size():
            tensor = tensor.detach().contiguous()
        stores.append(_Store(tensor.data_ptr(), _span(tensor), tensor))
        nodes[members[0]] = _tensor_node(tensor, len(stores) - 1, 0, slots[members[0]].requires_grad)
        return
    first = min(slots[i].storage_offset() * slots[i].element_size() for i in members)
    first -= first % 16  # views of other element types stay aligned
    end = max(slots[i].storage_offset() * slots[i].element_size() + _span(slots[i]) for i in members)
    storage = slots[members[0]].untyped_storage()
    stores.append(_Store(storage.data_ptr() + first, end - first, storage))
    for i in members:
        start = slots[i].storage_offset() * slots[i].element_size() - first
        nodes[i] = _tensor_node(slots[i], len(stores) - 1, start, slots[i].requires_grad)


def _tensor_node(tensor, store, start, requires_grad):
    return ("t", store, start, _name(tensor.dtype), tuple(tensor.shape), tensor.stride(), requires_grad)


def _array_node(array, stores):
    numpy = sys.modules["numpy"]
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    dense = numpy.asarray(array, order=order)
    if order == "C":
        dense = numpy.ascontiguousarray(dense)
    stores.append(_Store(dense.ctypes.data, dense.nbytes, dense))
    return ("a", len(stores) - 1, array.dtype, array.shape, order)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, slot) -> None:
        super().__init__(file)
        self._slot = slot

    def find_class(self, module, name):
        if module == __name__ and name == "_slot":
            return self._slot
        return super().find_class(module, name)


def decode(skeleton, region):
    """Rebuild (object, notes). ``region(skeleton_offset, offset, size)`` gives the memory of a large leaf."""
    skeleton_offset, tree, nodes, stores, notes = pickle.loads(skeleton)
    memory: dict[int, object] = {}
    built: dict[int, object] = {}

    def store_of(number, as_tensor):
        if number not in memory:
            store = stores[number]
            large = type(store) is tuple
            held = region(skeleton_offset, *store) if large else bytearray(store)
            if as_tensor:
                import torch

                lent = hasattr(held, "__dlpack__")
                held = torch.from_dlpack(held) if lent else torch.frombuffer(held, dtype=torch.uint8)
                held = held.untyped_storage()
            memory[number] = held
        return memory[number]

    def slot(number):
        if number not in built:
            node = nodes[number]
            built[number] = _tensor(node, store_of) if node[0] == "t" else _array(node, store_of)
        return built[number]

    return _Unpickler(io.BytesIO(tree), slot).load(), notes


def _tensor(node, store_of):
    import torch

    _, store, start, dtype, shape, stride, requires_grad = node
    dtype = getattr(torch, dtype)
    if store is None:  # a zero-size leaf is made fresh (rule A6)
        tensor = torch.empty_strided(shape, stride, dtype=dtype)
    else:
        tensor = torch.empty(0, dtype=dtype)
        tensor.set_(store_of(store, True), start // tensor.element_size(), shape, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _array(node, store_of):
    import numpy

    _, store, dtype, shape, order = node
    if 0 in shape or dtype.itemsize == 0:
        return numpy.empty(shape, dtype, order)
    return numpy.ndarray(shape, dtype, store_of(store, False), order=order)
