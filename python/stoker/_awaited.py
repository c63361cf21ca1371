# SPDX-License-Identifier: Apache-2.0
"""Whom a rank waits for in an exchange, as the DataServer knows it: for warnings and errors."""

from __future__ import annotations

import json

from . import _plane, errors

_ANSWER_S = 2.0


def _status() -> dict:
    """The state of the DataServer; nothing of it if it does not answer."""
    client = _plane.held()
    try:
        return json.loads(client.status(_ANSWER_S)) if client is not None else {"loaders": [], "ranks": []}
    except (TimeoutError, errors.StokerError):
        return {"loaders": [], "ranks": []}


def absent(rank: int, number: int) -> set:
    """The ranks that have not come to this rank's gathering; empty if the DataServer does not answer."""
    return {
        other
        for loader in _status()["loaders"]
        if loader["rank"] == rank and loader.get("exchange", {}).get("number") == number
        for other in loader["exchange"]["awaits"]
    }


def named(ranks) -> str:
    """Ranks with their process ids where they are known, for people."""
    pids = {rank["rank"]: rank["pid"] for rank in _status()["ranks"] if rank["state"] == "connected"}
    names = [f"{rank} (pid {pids[rank]})" if pids.get(rank) else str(rank) for rank in sorted(ranks)]
    return f"rank{'s' if len(names) > 1 else ''} {', '.join(names)}"
