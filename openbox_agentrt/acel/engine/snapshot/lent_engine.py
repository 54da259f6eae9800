"""
An engine that judges for one session after the other.

What a session remembers is set aside while another one has the engine, and costs a fraction of a snapshot:
rules are not compared, and plans of tools are made once for all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...contracts.base import SessionRule
from ...contracts.rules import Cell
from ...memory.cell import LiveCell
from ...memory.session_memory import SessionMemory
from ...memory.state import StateStore
from ..engine import Engine
from .snapshot import SHUT

__all__ = ("CellNumbers", "LentEngine", "SetAside")

MOST_PLANS = 200
"""So many tools are planned for the next session to have the engine."""


class SetAside(NamedTuple):
    """
    Hold what a session remembers, as plain data that means something in this process alone.

    Attributes:
        step: The position of its latest call.
        time: The latest time, if any was needed yet.
        shut: Why nothing is admitted any more.
        violated: Contracts that were broken, by identity.
        state: Its state.
        written: When entries of that were written.
        cells: What each piece of memory remembers, by its number.
    """

    step: int
    time: float | None
    shut: str | None
    violated: frozenset[int]
    state: dict[str, Any]
    written: dict[str, float]
    cells: dict[int, Any]


class CellNumbers:
    """
    Number the pieces of memory that engines with the very same rules have.

    Attributes:
        cells: Each piece of memory that was numbered.
        blanks: What each remembers in a new session.
        digest_key: Under which values are known again.
    """

    def __init__(self) -> None:
        self.digest_key = os.urandom(16)
        self.cells: list[Cell] = []
        self.blanks: list[Any] = []
        self._numbers: dict[Cell, int] = {}
        # In which nothing ever happens.
        self._new = SessionMemory(StateStore(), None, max_keys=1)

    def of(self, cell: Cell) -> int:
        """Give the number of a piece of memory."""
        number = self._numbers.get(cell)
        if number is None:
            number = self._numbers[cell] = len(self.cells)
            self.cells.append(cell)
            self.blanks.append(self._new.cell(cell).dump())
        return number


class LentEngine:
    """
    Lend an engine to one session after the other, of which each has no call under way when it is set aside.

    Its contracts are all declared, and none is added on the way.

    Args:
        engine: The engine, as it was made.
        numbers: Numbers its memory as that of the others that a session may go on with.
    """

    __slots__ = ("_cells", "_engine", "_numbers")

    def __init__(self, engine: Engine, numbers: CellNumbers) -> None:
        self._engine = engine
        self._numbers = numbers
        self._cells: dict[int, LiveCell] = {}
        # One for all, since what a session remembers by digests goes on in any of the engines.
        engine.store.memory.keep_digest_key(numbers.digest_key)

    def begin(self, state: Mapping[str, Any]) -> None:
        """Let a new session have it, with an initial state. The clock shows when that was written."""
        # What has ended of the one before must not be counted for this one.
        self._engine.store.settle()
        self._remember(_NEW)
        self._engine.state.renew(state)

    def set_aside(self) -> SetAside:
        """Give what the session that has it knows."""
        store, memory = self._engine.store, self._engine.store.memory
        store.settle()
        shut = store.shut
        with store.lock:
            if len(store.book.plans) > MOST_PLANS:
                store.book.plans.clear()
            return SetAside(
                step=store.step,
                time=memory.now,
                shut=None if shut is None else shut.spec,
                violated=store.violated,
                state=self._engine.state.snapshot(),
                written=memory.state.written(),
                cells=self._remembered(),
            )

    def go_on(self, aside: SetAside) -> None:
        """Let a session have it again that was set aside, from this engine or from another one."""
        self._remember(aside)
        self._engine.state.renew(aside.state, written=aside.written)

    def _remember(self, aside: SetAside) -> None:
        engine, memory = self._engine, self._engine.store.memory
        shut: SessionRule | None = None if aside.shut is None else SHUT[aside.shut]
        with engine.store.lock:
            engine.store.resume(step=aside.step, shut=shut, violated=aside.violated)
            for timeline in memory.timelines():
                timeline.now, timeline.fault = -math.inf, None
            if aside.time is not None:
                memory.timeline.advance(aside.time)
            cells, known, blanks = self._every_cell(), aside.cells, self._numbers.blanks
            if not known.keys() <= cells.keys():
                # Each is made when its tool is first called, and here it was not.
                for number in known:
                    memory.cell(self._numbers.cells[number])
                cells = self._every_cell()
            for number, cell in cells.items():
                cell.load(known[number] if number in known else blanks[number])

    def _remembered(self) -> dict[int, Any]:
        blanks, found = self._numbers.blanks, {}
        for number, cell in self._every_cell().items():
            # Some that matter to no call any more can still say which one is to blame.
            is_idle, dumped = cell.idle(), cell.dump()
            if not is_idle or dumped != blanks[number]:
                found[number] = dumped
        return found

    def _every_cell(self) -> dict[int, LiveCell]:
        pieces = self._engine.store.memory.pieces
        if len(pieces) > len(self._cells):
            self._cells = {self._numbers.of(cell): live for (cell, _), live in pieces.items()}
        return self._cells


_NEW = SetAside(0, None, None, frozenset(), {}, {}, {})
