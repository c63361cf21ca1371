# SPDX-License-Identifier: Apache-2.0
"""Items and batches of GPT datasets: asked of the C library in one call, made tensors here.

Where a subclass brings a text of its own (``_query_document_sample_shuffle_indices``), the item is made of it by NumPy,
with the same rules.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .. import _core, errors
from . import failures, tensors

__all__ = ["batch", "maker", "maker_of_many", "order_of", "reads_own_text", "text_of"]


def order_of(config: Any) -> tuple[str, ...]:
    """Keys of an item."""
    if config.inter_document_masking:
        return ("tokens", "labels", "loss_mask", "position_ids", "cu_seqlens", "max_seqlen")
    if config.create_attention_mask:
        return ("tokens", "labels", "attention_mask", "loss_mask", "position_ids")
    return ("tokens", "labels", "loss_mask", "position_ids")


def layout_of(config: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each member of an item."""
    length = config.sequence_length
    known: dict[str, tuple[str, tuple[int, ...]]] = {
        "tokens": ("<i8", (length,)),
        "labels": ("<i8", (length,)),
        "attention_mask": ("|b1", (1, length, length)),
        "loss_mask": ("<f4", (length,)),
        "position_ids": ("<i8", (length,)),
        "cu_seqlens": ("<i4", (length + 1,)),
        "max_seqlen": ("<i4", ()),
    }
    return {name: known[name] for name in order_of(config)}


def reads_own_text(kind: type) -> bool:
    """Does a class make its items of a text that the C library does not know?"""
    from .gpt import GPTDataset

    name = "_query_document_sample_shuffle_indices"
    return getattr(kind, name) is not getattr(GPTDataset, name)


def _causal_mask(length: int) -> numpy.ndarray:
    return ~numpy.tri(length, dtype=bool)[None]


def _constant_names(config: Any) -> tuple[str, ...]:
    """Members that are the same in all items."""
    if config.inter_document_masking:
        return ()
    names = ("attention_mask",) if config.create_attention_mask and not config.reset_attention_mask else ()
    return names if config.reset_position_ids else (*names, "position_ids")


@functools.lru_cache(maxsize=16)
def _constant(name: str, length: int) -> numpy.ndarray:
    """One for all datasets of the process: an attention mask of 4,096 tokens has 16 MiB."""
    return _causal_mask(length) if name == "attention_mask" else numpy.arange(length, dtype=numpy.int64)


def _constants(config: Any) -> dict[str, numpy.ndarray]:
    return {name: _constant(name, config.sequence_length) for name in _constant_names(config)}


def form_of(config: Any, pad: int) -> dict[str, Any]:
    """What the C dataset must know of its items. Members that are the same in all items are not made there."""
    constants = _constant_names(config)
    return {
        "pad": pad,
        "eod": config.tokenizer.eod,
        "reset_position_ids": bool(config.reset_position_ids),
        "reset_attention_mask": bool(config.reset_attention_mask),
        "eod_mask_loss": bool(config.eod_mask_loss),
        "attention_mask": "attention_mask" in order_of(config) and "attention_mask" not in constants,
        "position_ids": "position_ids" not in constants,
        "documents": bool(config.inter_document_masking),
    }


@functools.lru_cache(maxsize=16)
def _joiner(layout: Any, constant_names: tuple[str, ...], length: int, order: tuple[str, ...]) -> Callable[..., Any]:
    """The same for all datasets of a configuration."""
    constants = {name: tensors.to_tensor(_constant(name, length)) for name in constant_names}
    return tensors.joiner(dict(layout), constants, order)


def _constant_tensors(config: Any) -> dict[str, Any]:
    return {name: tensors.to_tensor(value) for name, value in _constants(config).items()}


def _makes_tensors(core: Any, config: Any) -> bool:
    """Has the C dataset make tensors, where PyTorch offers the functions for that (2.10 and later)."""
    exchange = tensors.exchange_or_none()
    if exchange is not None:
        core.set_tensors(exchange, _constant_tensors(config))
    return exchange is not None


def maker(dataset: Any) -> Callable[[int | None], dict[str, Any]]:
    """The function that makes one item."""
    if reads_own_text(type(dataset)):
        return lambda idx: _from_own_text(dataset, idx)
    config, core = dataset.config, dataset._core_dataset()
    fetch = core.tensors if _makes_tensors(core, config) else None
    if fetch is None:
        parts = core.parts
        join = _joiner(tuple(core.layout().items()), _constant_names(config), config.sequence_length, order_of(config))

        def fetch(idx: int | None) -> dict[str, Any]:
            return join(parts(idx))

    def make(idx: int | None) -> dict[str, Any]:
        try:
            return fetch(idx)
        except errors.StokerError as error:
            raise failures.of_item(error, dataset._name()) from None

    return make


def maker_of_many(dataset: Any) -> Callable[[Sequence[int | None]], list[dict[str, Any]]]:
    """The function that makes a list of items. They share one block of memory, which lives as long as any of them."""
    from .gpt import GPTDataset

    if reads_own_text(type(dataset)) or type(dataset).__getitem__ is not GPTDataset.__getitem__:
        return lambda indices: [dataset[idx] for idx in indices]
    core = dataset._core_dataset()
    if _makes_tensors(core, dataset.config):
        fetch = core.tensors_of_many
    else:
        parts = core.parts_of_many
        split = tensors.splitter(core.layout(), _constant_tensors(dataset.config), order_of(dataset.config))

        def fetch(indices: Sequence[int]) -> list[dict[str, Any]]:
            return split(parts(indices), len(indices))

    def make(indices: Sequence[int | None]) -> list[dict[str, Any]]:
        if None in indices:
            return [dataset[idx] for idx in indices]
        try:
            return fetch(indices)
        except errors.StokerError as error:
            raise failures.of_item(error, dataset._name()) from None

    return make


# -------------------------------------------------------------------------------------------------------------- batches


def destinations(
    layout: dict[str, tuple[str, tuple[int, ...]]],
    count: int,
    out: dict[str, Any] | None,
    pin_memory: bool,
    shared: bool,
) -> tuple[dict[str, Any], dict[str, numpy.ndarray]]:
    """(what the user gets, the same memory as arrays) for so many items."""
    members = {name: (text, (count, *shape)) for name, (text, shape) in layout.items()}
    if out is None:
        return tensors.allocate(members, pin_memory, shared)
    if list(out) != list(members):
        raise ValueError(f"out has the members {', '.join(map(str, out))}; expected {', '.join(members)}")
    return out, {name: tensors.plain(name, out[name], *member) for name, member in members.items()}


def fill(dataset: Any, indices: Sequence[int], arrays: dict[str, numpy.ndarray]) -> None:
    """Items ``indices`` into rows of ``arrays``."""
    if reads_own_text(type(dataset)):
        for row, idx in enumerate(indices):
            for name, value in _from_own_text(dataset, idx).items():
                arrays[name][row] = value
        return
    constants = _constants(dataset.config)
    for name, value in constants.items():
        arrays[name][...] = value
    wanted = {name: array for name, array in arrays.items() if name not in constants}
    try:
        dataset._core_dataset().batch(indices, wanted)
    except errors.StokerError as error:
        raise failures.of_item(error, dataset._name()) from None


def batch(dataset: Any, indices: Sequence[int], out: Any, pin_memory: bool, shared: bool) -> dict[str, Any]:
    indices = [operator.index(idx) for idx in indices]
    result, arrays = destinations(layout_of(dataset.config), len(indices), out, pin_memory, shared)
    fill(dataset, indices, arrays)
    return result


# -------------------------------------------------------------------------------------------------------------- workers


def native_source(dataset: Any, parts: Sequence[Any], blend: Any = None) -> Any:
    """The C source of a dataset that is made of these GPT datasets; None if Python has a say in its items."""
    from .blended import BlendedDataset
    from .gpt import GPTDataset

    if not _unchanged(type(dataset), GPTDataset if blend is None else BlendedDataset):
        return None
    if any(not isinstance(part, GPTDataset) or not _unchanged(type(part), GPTDataset) for part in parts):
        return None
    first = parts[0]
    form = form_of(first.config, first._pad_token_id)
    form["attention_mask"] = "attention_mask" in order_of(first.config)
    del form["position_ids"]
    try:
        return _core.token_source([part._core_dataset() for part in parts], blend=blend, count=len(dataset), **form)
    except errors.UnsupportedError:  # a reader of the caller's, which workers do not have
        return None


def _unchanged(kind: type, base: type) -> bool:
    """Are items of ``kind`` those of ``base``?"""
    names = ("__getitem__", "__getitems__", "__len__", "_query_document_sample_shuffle_indices")
    return all(getattr(kind, name, None) is getattr(base, name, None) for name in names)


# ------------------------------------------------------------------------------------------------------------ in Python


def text_of(dataset: Any, idx: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """(padded text, sequence numbers, lengths of the parts) of an item."""
    count = len(dataset)
    position = operator.index(idx)
    if not -count <= position < count:
        raise IndexError(f"index {position} is outside {dataset._name()}, which has {count} samples")
    try:
        parts = dataset._core_dataset().text(position % count)
    except errors.StokerError as error:
        raise failures.of_item(error, dataset._name()) from None
    text, numbers, lengths = (numpy.frombuffer(part, numpy.int64) for part in parts)
    full = dataset.config.sequence_length + bool(dataset.config.add_extra_token_to_sequence)
    if text.size < full:
        text = numpy.concatenate([text, numpy.full(full - text.size, dataset._pad_token_id, numpy.int64)])
    return text, numbers, lengths


def _from_own_text(dataset: Any, idx: int | None) -> dict[str, Any]:
    if dataset.config.inter_document_masking:
        raise errors.UnsupportedError(
            f"{type(dataset).__name__} brings a text of its own: the parts that inter_document_masking needs are unknown"
        )
    text, _ = dataset._query_document_sample_shuffle_indices(0 if idx is None else idx)
    made = _assemble(numpy.array(text, dtype=numpy.int64), dataset)
    if idx is None:
        made["loss_mask"][:] = 0
    return {name: tensors.to_tensor(made[name]) for name in order_of(dataset.config)}


def _assemble(text: numpy.ndarray, dataset: Any) -> dict[str, numpy.ndarray]:
    """The members of an item from its padded text."""
    config, pad = dataset.config, dataset._pad_token_id
    length = config.sequence_length
    if config.add_extra_token_to_sequence:
        tokens, labels = text[:-1].copy(), text[1:].copy()
    else:
        tokens, labels = text, numpy.append(text[1:], pad)
    if tokens.size != length:
        raise ValueError(
            f"{type(dataset).__name__} brought a text of {text.size} tokens; expected"
            f" {length + bool(config.add_extra_token_to_sequence)}"
        )
    loss_mask = numpy.ones(length, numpy.float32)
    position_ids = numpy.arange(length, dtype=numpy.int64)
    attention_mask = _causal_mask(length) if config.create_attention_mask else None
    ends = numpy.flatnonzero(tokens == config.tokenizer.eod)
    if config.eod_mask_loss:
        loss_mask[ends] = 0
    for end in ends:
        if config.reset_attention_mask and attention_mask is not None:
            attention_mask[0, end + 1 :, : end + 1] = True
        if config.reset_position_ids:
            position_ids[end + 1 :] = numpy.arange(length - end - 1)
    loss_mask[labels == pad] = 0
    tokens[tokens == pad] = 0
    labels[labels == pad] = 0
    made = {"tokens": tokens, "labels": labels, "loss_mask": loss_mask, "position_ids": position_ids}
    if attention_mask is not None:
        made["attention_mask"] = attention_mask
    return made
