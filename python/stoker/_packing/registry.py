# SPDX-License-Identifier: Apache-2.0
"""Schedulers by the name that ``config.sequence_packing_scheduler`` gives."""

from __future__ import annotations

from ..errors import CallerError

_schedulers: dict[str, type] = {}


def register_scheduler(name: str, scheduler: type | None = None):
    """Let ``config.sequence_packing_scheduler = name`` choose this class; with one argument, a class decorator.

    The class takes the arguments of :class:`BasePackingScheduler`. A name is given once.
    """
    if scheduler is None:
        return lambda later: register_scheduler(name, later)
    if _schedulers.setdefault(name, scheduler) is not scheduler:
        raise CallerError(f"the packing scheduler {name!r} is registered already, as {_schedulers[name].__qualname__}")
    return scheduler


def scheduler_names() -> list[str]:
    """Names that are known now."""
    return sorted(_schedulers)


def scheduler_named(name: str) -> type:
    try:
        return _schedulers[name]
    except (KeyError, TypeError):
        raise CallerError(
            f"config.sequence_packing_scheduler is {name!r}, known are {', '.join(scheduler_names())}"
        ) from None
