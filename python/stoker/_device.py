# SPDX-License-Identifier: Apache-2.0
"""Copies to a device on a stream of our own (rule A7).

The slab of a batch must not be reused before the copy out of it has run, and the consumer's stream must not read
before the copy has run. So: copy on our stream, record an event, make the consumer's stream wait for it, and hold the
host batch until the event has fired. Streams and events are injected, so that the order of calls is tested without a
device.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

__all__ = ["Deferred", "Mover", "to_device"]


class Deferred:
    """Objects that are kept until an event has fired; events of one stream fire in order."""

    def __init__(self) -> None:
        self._kept = collections.deque()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, event, held) -> None:
        self._kept.append((event, held))

    def release(self) -> None:
        """Drop what has fired. Never waits."""
        while self._kept and self._kept[0][0].query():
            self._kept.popleft()

    def synchronise(self) -> None:
        """Wait for all, and drop them."""
        while self._kept:
            self._kept[0][0].synchronize()
            self._kept.popleft()


def to_device(data, move):
    """The same structure with ``move`` applied to each tensor; what has a ``to`` method of its own is a tensor here."""
    if hasattr(data, "to") and hasattr(data, "device"):
        return move(data)
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        moved = {key: to_device(value, move) for key, value in data.items()}
        if isinstance(data, MutableMapping):
            result = copy.copy(data)
            result.update(moved)
            return result
        return type(data)(moved)
    if isinstance(data, tuple):
        moved = [to_device(value, move) for value in data]
        return type(data)(*moved) if hasattr(data, "_fields") else type(data)(moved)
    if isinstance(data, Sequence):
        moved = [to_device(value, move) for value in data]
        if isinstance(data, MutableSequence):
            result = copy.copy(data)
            for i, value in enumerate(moved):
                result[i] = value
            return result
        return type(data)(moved)
    return data


class Mover:
    """Moves batches to one device.

    ``streams`` has: ``make()`` (a stream of our own), ``current()`` (the consumer's), ``using(stream)`` (a context in
    which copies run on that stream) and ``record(stream)`` (an event behind all work that the stream has).
    """

    def __init__(self, device, streams) -> None:
        self._device = device
        self._streams = streams
        self._stream = streams.make()
        self.deferred = Deferred()

    @classmethod
    def for_loader(cls, loader):
        """A mover for the loader's ``device=``, or None where there is nothing to move."""
        device = loader.device
        if device is None or device.type == "cpu":
            return None
        return cls(device, _TorchStreams(device))

    def move(self, data, batch):
        """``data`` on the device; ``batch`` and the host tensors are held until the copy has run."""
        self.deferred.release()
        consumer = self._streams.current()
        moved_tensors = []

        def move(tensor):
            moved = tensor.to(self._device, non_blocking=True)
            moved_tensors.append(moved)
            return moved

        with self._streams.using(self._stream):
            moved = to_device(data, move)
        event = self._streams.record(self._stream)
        consumer.wait_event(event)
        for tensor in moved_tensors:
            tensor.record_stream(consumer)  # its memory is not given to our stream again while the consumer uses it
        self.deferred.keep(event, (batch, data))
        return moved

    def __del__(self) -> None:
        try:
            self.deferred.synchronise()
        except Exception:  # at exit the device may be gone, and its copies with it
            pass


class _TorchStreams:
    """torch's streams of one device."""

    def __init__(self, device) -> None:
        import torch

        self._device = device
        self._module = torch.get_device_module(device)

    def make(self):
        return self._module.Stream(device=self._device)

    def current(self):
        return self._module.current_stream(self._device)

    def using(self, stream):
        return self._module.stream(stream)

    def record(self, stream):
        return stream.record_event()
