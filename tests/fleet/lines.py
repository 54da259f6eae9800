"""Connections to a store of each kind, with a clock that tests set by hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from openbox_agentrt.fleet.judge.in_memory import MemoryLine
from openbox_agentrt.fleet.redis.line import RedisLine
from openbox_agentrt.fleet.sqlite import SqliteLine
from openbox_agentrt.fleet.steps import StoreLine

KINDS = ("memory", "sqlite", "redis")


def open_line(kind: str, folder: Path, url: str, clock: Callable[[], int]) -> StoreLine:
    """Open a store that nobody used: in memory, in a file of `folder`, or on the server at `url`."""
    if kind == "memory":
        return MemoryLine(clock=clock)
    if kind == "sqlite":
        return SqliteLine(folder / "fleet.db", timeout_seconds=20, clock=clock)
    return RedisLine(url, uuid.uuid4().hex, timeout_seconds=20, clock=clock)
