"""Describe where a local Core keeps what it remembers: in this process, or in a file."""

from __future__ import annotations

import os

from .file_store import FileEventStore
from .memory_store import MemoryEventStore

EventStore = FileEventStore | MemoryEventStore
"""What a local Core remembers. One thread at a time may use it. Both have the same methods."""


def store_at(path: str | os.PathLike[str]) -> EventStore:
    """Open the store in a file, or one in memory if that is named ``:memory:``."""
    return MemoryEventStore() if os.fspath(path) == ":memory:" else FileEventStore(path)
