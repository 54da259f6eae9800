"""Halts of one governance: nothing more starts in a run, in a session, or by an agent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakSet

from ..decision import Verdict
from ..errors import GovernanceHaltError
from .record import refused

if TYPE_CHECKING:
    from .state import RunState

__all__ = ("HALTED", "Halts")

HALTED: Final = "halted"
"""The event of the decision that a halt is."""


class _Halt(NamedTuple):
    name: str
    value: str
    reason: str
    by: str

    def is_about(self, run: RunState) -> bool:
        return bool(getattr(run, self.name) == self.value)


class Halts:
    """Halt the runs that are open, and those that open later. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: WeakSet[RunState] = WeakSet()
        self._halts: list[_Halt] = []

    def watch(self, run: RunState) -> None:
        """Halt `run` whenever it is meant, now or later."""
        with self._lock:
            self._open.add(run)
            halt = next((halt for halt in self._halts if halt.is_about(run)), None)
        if halt is not None:
            _halt(run, halt)

    def halt(self, name: str, value: str, *, reason: str, by: str) -> int:
        """
        Halt the runs whose `name` is `value`, and those that open later.

        Returns:
            How many of them were open.
        """
        halt = _Halt(name, value, reason, by)
        with self._lock:
            self._halts.append(halt)
            meant = [run for run in self._open if halt.is_about(run) and not run.ended]
        for run in meant:
            _halt(run, halt)
        return len(meant)


def _halt(run: RunState, halt: _Halt) -> None:
    if run.halted is not None:
        return
    reason = f"{halt.reason} (halted by {halt.by})" if halt.by else halt.reason
    error = GovernanceHaltError(reason, event=HALTED)
    refused(run, error, HALTED, Verdict.HALT, "halted", reason=reason, decided_by=halt.by or None)
    run.halt(error, took_effect=False)
