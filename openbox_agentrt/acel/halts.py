"""Halts of this process, heeded by sessions that no governance has: those of doors with contracts alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .session import engine_of

if TYPE_CHECKING:
    from .._halt import Halt
    from .session import Session


class ProcessHalts:
    """
    Hold what somebody has halted in this process. Any thread may use it.

    Attributes:
        known: The halts, oldest first.
    """

    def __init__(self) -> None:
        self.known: tuple[Halt, ...] = ()
        self._lock = threading.Lock()

    def add(self, halt: Halt) -> None:
        """Halt what `halt` names in every door of this process, at its next call."""
        with self._lock:
            self.known = (*self.known, halt)

    def forget(self, halts: Sequence[Halt]) -> None:
        """Leave alone what is used from now on. Sessions that were halted stay so."""
        with self._lock:
            self.known = tuple(halt for halt in self.known if not any(halt is one for one in halts))


HALTS = ProcessHalts()


def heed(session: Session) -> None:
    """Halt a session that is about to judge a call, if somebody has said so in this process."""
    if HALTS.known:
        for halt in HALTS.known:
            engine_of(session).hear(halt)
