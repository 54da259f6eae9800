"""Halts of one governance: nothing more starts in a run, in a session, or by an agent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from .._halt import Halt, HaltKind
from ..acel.halts import HALTS
from ..decision import Verdict
from ..errors import GovernanceHaltError
from .observers import HALTED
from .record import refused

if TYPE_CHECKING:
    from .state import RunState


_NAMES: Final[dict[HaltKind, str]] = {"run": "run_id", "session": "session_id", "agent": "agent_name"}
"""Where a run says what it may have been halted by."""


class HaltSource(Protocol):
    """Tell of what is halted in every process that shares a store."""

    def watch(self, listener: Halts) -> None: ...

    def begin(self) -> None: ...

    def halt(self, halt: Halt) -> None: ...


class Halts:
    """Halt the runs that are open, and those that open later. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: WeakSet[RunState] = WeakSet()
        self._halts: list[Halt] = []
        self._source: HaltSource | None = None
        self._decreed: list[Halt] = []

    def watch(self, run: RunState) -> None:
        """Halt `run` whenever it is meant, now or later."""
        if self._source is not None:
            self._source.begin()  # a process that was forked has to listen for itself
        with self._lock:
            self._open.add(run)
            halt = next((halt for halt in self._halts if _is_about(halt, run)), None)
        if halt is not None:
            _halt(run, halt)

    def follow(self, source: HaltSource) -> None:
        """Halt what is halted in a store that processes share, from now on."""
        self._source = source
        source.watch(self)
        source.begin()

    def decree(self, halt: Halt) -> int:
        """
        Halt what is meant here, in all doors of this process, and in every process that shares the store.

        Returns:
            How many runs of this governance were open.

        Raises:
            FleetUnavailableError: The store does not answer. In this process it is halted.
        """
        done = self.halt(halt)
        self._decreed.append(halt)
        HALTS.add(halt)
        if self._source is not None:
            self._source.halt(halt)
        return done

    def close(self) -> None:
        """Leave doors of this process alone that are used from now on."""
        HALTS.forget(self._decreed)

    def hear(self, halt: Halt, *, lifted: bool) -> None:
        """Take note of what the store says. Runs that were halted stay so when that is lifted."""
        if not lifted:
            self.halt(halt)
            return
        HALTS.forget([one for one in self._decreed if one.name == halt.name])
        with self._lock:
            self._halts = [one for one in self._halts if one.name != halt.name]

    def halt(self, halt: Halt) -> int:
        """
        Halt the runs that are meant, and those that open later.

        Returns:
            How many of them were open.
        """
        with self._lock:
            self._halts.append(halt)
            meant = [run for run in self._open if _is_about(halt, run) and not run.ended]
        for run in meant:
            _halt(run, halt)
        return len(meant)


def _is_about(halt: Halt, run: RunState) -> bool:
    return bool(getattr(run, _NAMES[halt.kind]) == halt.value)


def _halt(run: RunState, halt: Halt) -> None:
    if run.halted is not None:
        return
    error = GovernanceHaltError(halt.why)
    refused(run, error, HALTED, Verdict.HALT, "halted", {"reason": halt.why, "decided_by": halt.by or None})
    run.halt(error, took_effect=False)
