# SPDX-License-Identifier: Apache-2.0
"""Randomness of a sample: a function of (seed, epoch, sample key, occurrence), whichever worker makes it (rule B3).

``random``, ``numpy.random`` and torch's default generator are seeded from one BLAKE2b digest. NumPy and torch are
seeded only when something has imported them: this module imports neither.
"""

from __future__ import annotations

import hashlib
import pickle
import random
import sys
import threading

from . import _core

__all__ = ["batch_digest", "draw", "enter", "key_bytes", "leave", "restore", "sample_digest", "save", "seed_all"]

_current = threading.local()


def key_bytes(key) -> bytes:
    """Canonical bytes of a sample key: any picklable value. Equal integers of any kind give equal bytes.

    >>> key_bytes(7) == key_bytes(True + 6)
    True
    """
    if type(key) is not bool and hasattr(key, "__index__"):
        return b"i%d" % key.__index__()
    if type(key) is str:
        return b"s" + key.encode("utf-8", "surrogatepass")
    if type(key) is tuple:
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in map(key_bytes, key))
    return b"p" + pickle.dumps(key, protocol=4)


def sample_digest(seed: int, epoch: int, key, occurrence: int) -> bytes:
    """40 bytes for one sample."""
    state = hashlib.blake2b(b"sample %d %d %d " % (seed, epoch, occurrence), digest_size=40)
    state.update(key_bytes(key))
    return state.digest()


def batch_digest(seed: int, epoch: int, keys, occurrences) -> bytes:
    """40 bytes for the collation of one batch."""
    state = hashlib.blake2b(b"batch %d %d " % (seed, epoch), digest_size=40)
    for key, occurrence in zip(keys, occurrences):
        part = key_bytes(key)
        state.update(b"%d %d " % (occurrence, len(part)))
        state.update(part)
    return state.digest()


def enter(seed: int, epoch: int, occurrence: int) -> None:
    """Until :func:`leave`, this thread makes a sample of a loader: its randomness replaces that of datasets themselves."""
    _current.sample = (seed, epoch, occurrence)


def leave() -> None:
    _current.sample = None


def draw(seed: int, epoch: int, position: int) -> int:
    """Where the randomness of item ``position`` of a native dataset comes from. ``seed`` and ``epoch`` are the dataset's
    own; where a loader asks for the item, its own count, so that workers in C and in Python draw the same."""
    sample = getattr(_current, "sample", None)
    seed, epoch, occurrence = (seed, epoch, 0) if sample is None else sample
    return _core.sample_draw(seed, epoch, position, occurrence)


def seed_all(digest: bytes) -> None:
    """Seed every generator that is loaded in this process."""
    random.seed(int.from_bytes(digest[:16], "little"))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed([int.from_bytes(digest[i : i + 4], "little") for i in (16, 20, 24, 28)])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(int.from_bytes(digest[32:40], "little") >> 1)


def save():
    """State of the generators of this process, for restore()."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (
        random.getstate(),
        numpy.random.get_state() if numpy is not None else None,
        torch.default_generator.get_state() if torch is not None else None,
    )


def restore(state) -> None:
    """Put the generators back to a saved state."""
    random.setstate(state[0])
    if state[1] is not None:
        sys.modules["numpy"].random.set_state(state[1])
    if state[2] is not None:
        sys.modules["torch"].default_generator.set_state(state[2])
