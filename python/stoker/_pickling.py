# SPDX-License-Identifier: Apache-2.0
"""How a Python dataset travels to its template process, and how an exception travels back (rule B4).

Objects of ``__main__``, of notebooks, and lambdas go by value (cloudpickle); everything else by reference, found
through the rank's own ``sys.path``. What cannot travel is named, with a way out. Arrays and plain tensors go as raw
bytes, so that the digest of an unchanged dataset is cheap and equal each time.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import sys
import traceback

import cloudpickle

from . import errors

__all__ = ["dump_exception", "dump_payload", "load_exception", "load_payload"]

_DETAIL_BYTES = 256 * 1024


def _tensor(raw, dtype, shape, stride, requires_grad):
    import torch

    tensor = torch.empty(0, dtype=getattr(torch, dtype))
    if len(raw):
        tensor.set_(torch.frombuffer(raw, dtype=torch.uint8).untyped_storage(), 0, shape, stride)
    else:
        tensor = torch.empty_strided(shape, stride, dtype=getattr(torch, dtype))
    return tensor.requires_grad_() if requires_grad else tensor


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj):
        if isinstance(obj, type):
            # pickle leaves this list in a class when it meets an instance: put it there before the class is written,
            # or the first pickle of a class by value would differ from the second.
            copyreg._slotnames(obj)
        torch = sys.modules.get("torch")
        if torch is not None and type(obj) is torch.Tensor:
            from ._tree import plain_tensor

            if not plain_tensor(torch, obj):
                return NotImplemented
            dense = obj.detach().contiguous()
            raw = torch.empty(0, dtype=torch.uint8).set_(
                dense.untyped_storage(), dense.storage_offset() * dense.element_size(), (dense.nbytes,), (1,)
            )
            name = str(obj.dtype).partition(".")[2]
            return _tensor, (bytearray(raw.numpy()), name, tuple(obj.shape), dense.stride(), obj.requires_grad)
        return super().reducer_override(obj)


def _dumps(obj) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(obj)
    return file.getvalue()


def _parts(obj):
    """(how to write it, value) of what an object holds."""
    if isinstance(obj, dict):
        return [(f"[{key!r}]", value) for key, value in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(f"[{i}]", value) for i, value in enumerate(obj)]
    found = [(f".{name}", value) for name, value in getattr(obj, "__dict__", {}).items()]
    code, cells = getattr(obj, "__code__", None), getattr(obj, "__closure__", None)
    if code is not None and cells:
        found += [(f" (its variable {name!r})", cell.cell_contents) for name, cell in zip(code.co_freevars, cells)]
    return found


def _culprit(name: str, obj, depth: int = 0):
    """(name, object, cause) of the innermost part that cannot be pickled, or None."""
    try:
        _dumps(obj)
        return None
    except Exception as error:
        cause = error
    if depth < 8:
        for suffix, value in _parts(obj):
            found = _culprit(name + suffix, value, depth + 1)
            if found is not None:
                return found
    return name, obj, cause


def dump_payload(objects: dict) -> bytes:
    """Pickle the dataset and the functions that go with it; ``objects``: names in messages -> values."""
    try:
        body = _dumps(objects)
    except Exception as error:
        for name, value in objects.items():
            found = _culprit(name, value)
            if found is not None:
                where, value, cause = found
                raise errors.UnsupportedError(
                    f"{where} (of type {type(value).__module__}.{type(value).__qualname__}) cannot be sent to the"
                    f" worker processes: {cause}. Make it on first use in __getitem__, make it in worker_init_fn, leave"
                    " it out in __getstate__, or set num_workers=0"
                ) from error
        raise
    frame = {"sys_path": [str(entry) for entry in sys.path], "argv": list(getattr(sys, "argv", [])), "body": body}
    return pickle.dumps(frame, protocol=5)


def load_payload(data) -> dict:
    """The objects of dump_payload(), in another process. Takes over the rank's sys.path first."""
    frame = pickle.loads(data)
    sys.path[:] = frame["sys_path"]
    sys.argv[:] = frame["argv"]
    return pickle.loads(frame["body"])


class _KeyErrorMessage(str):
    """KeyError shows the repr of its argument; a traceback in it must stay readable."""

    def __repr__(self) -> str:
        return self


def dump_exception(error: BaseException, where: str, key) -> bytes:
    """What a rank needs to raise ``error`` again: its class, its traceback as text, the key of the sample (or None)."""
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except BaseException:  # an exception whose attributes raise
        text = errors.describe(error)
    if len(text) > _DETAIL_BYTES:
        text = text[: _DETAIL_BYTES // 2] + "\n...\n" + text[-_DETAIL_BYTES // 2 :]
    facts = {"name": type(error).__name__, "where": where, "text": text, "key": None, "class": None, "stoker": None}
    if isinstance(error, errors.StokerError):
        facts["stoker"] = (error.message, error.context, error.status, error.os_error)
    for name, value in (("key", key), ("class", type(error))):
        try:
            from ._tree import encode  # classes of __main__ by name, others by reference

            facts[name] = encode(value)._tree
        except Exception:
            facts[name] = None
    return pickle.dumps(facts, protocol=5)


def load_exception(detail: bytes) -> Exception:
    """The exception to raise in the rank: the same type, with the worker's traceback as its message."""
    facts = pickle.loads(detail)
    message = f"Caught {facts['name']} {facts['where']}.\nOriginal {facts['text']}"
    try:
        kind = pickle.loads(facts["class"])
    except Exception:
        kind = RuntimeError
    if not issubclass(kind, Exception) or issubclass(kind, StopIteration):
        kind = RuntimeError  # SystemExit would end the rank, StopIteration its epoch
    try:
        if facts["stoker"] is not None:
            error = kind(*facts["stoker"])
        elif kind is KeyError:
            error = kind(_KeyErrorMessage(message))
        elif getattr(kind, "message", None):
            error = kind(message=message)
        else:
            error = kind(message)
    except Exception:  # a class with an __init__ of its own
        error = RuntimeError(message)
    if facts["stoker"] is not None:
        error.add_note(message)
    if facts["key"] is not None:
        try:
            error.sample_key = pickle.loads(facts["key"])
        except Exception:
            pass
    return error


def template_command(package_parent: str) -> list[str]:
    """The command of a template: this interpreter with the same flags, and this very package whatever the cwd holds."""
    import subprocess

    if not sys.executable:
        raise errors.UnsupportedError(
            "sys.executable is empty, so no worker process can be started; set it, or use num_workers=0"
        )
    code = f"import sys; sys.path.append({package_parent!r}); from stoker.worker import main; main()"
    return [sys.executable, *subprocess._args_from_interpreter_flags(), "-P", "-c", code, "stoker.worker"]


def package_parent() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
