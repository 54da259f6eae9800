"""
Letting go of SQLite before this process forks.

SQLite keeps what it has locked in the memory of the process, and locks of its own around that. A fork in the
middle of a transaction would leave a child that waits for a thread which it does not have.
"""

from __future__ import annotations

import os
import threading
import weakref
from functools import cache
from typing import Protocol

_PATIENCE = 1.0


class ReleasedAtFork(Protocol):
    """Something with a connection, and the lock that is held while it is in use."""

    in_use: threading.Lock

    def close(self) -> None:
        """Let go of the connection. The next use makes another."""
        ...


_watched: weakref.WeakSet[ReleasedAtFork] = weakref.WeakSet()
_held: list[ReleasedAtFork] = []


def watch(one: ReleasedAtFork) -> None:
    """Close its connection before each fork of this process."""
    _register()
    _watched.add(one)


@cache
def _register() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_release, after_in_parent=_go_on, after_in_child=_go_on)


def _release() -> None:
    for one in list(_watched):
        # A store that hangs must not keep the process from forking.
        if one.in_use.acquire(timeout=_PATIENCE):
            _held.append(one)
            one.close()


def _go_on() -> None:
    while _held:
        _held.pop().in_use.release()
