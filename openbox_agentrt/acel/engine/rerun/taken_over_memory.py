"""Find what a session remembered when it went on from elsewhere, by its own log or that of who left it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ...._plain.freezing import thawed
from ...memory.cell import LiveCell
from ...memory.keyed import Keyed
from ..snapshot.snapshot import cells_of, common_memory, remember
from ..store.session_store import SessionStore
from .comparison import Comparison
from .hidden_parts import has_hidden
from .journal_rules import RerunError
from .moved_sessions import LeftMemory, Moves
from .recorded_step import RecordedStep
from .unseen_memory import UnseenMemory


class FollowedMemory:
    """
    Follow the memory of one session over its moves.

    Args:
        found: Takes note of what differs.
        unseen: Knows what of the memory the steps do not show.
        moves: Knows what other sessions left.

    Attributes:
        is_hidden: Whether the session went on with a memory that no log shows: how it stands is unknown.
    """

    def __init__(self, found: Comparison, unseen: UnseenMemory, moves: Moves) -> None:
        self.is_hidden = False
        self._is_step_hidden = False
        # What others left that the contracts here do not count: it is kept for whoever does. And whether
        # that is all that is kept.
        self._beside: dict[str, Any] = {}
        self._is_whole = True
        self._found = found
        self._rules = found.rules
        self._unseen = unseen
        self._moves = moves

    def resume(self, store: SessionStore, step: int) -> None:
        """Go on at the step of a call, if it is the first after a memory that is hidden."""
        if self._is_step_hidden:
            store.step, self._is_step_hidden = step - 1, False

    def leave(self, says: Mapping[str, Any], store: SessionStore) -> None:
        """Take note of what the session remembers, if another went on with it."""
        run, mark = says["run"], says["mark"]
        if not self._moves.is_wanted(run, mark):
            return
        is_known = not (self.is_hidden or self._unseen.is_any or None in self._rules.contracts)
        with store.lock:
            names = frozenset(cells_of(store))
        if not is_known:
            self._moves.leave(run, mark, LeftMemory(None, names))
            return
        beside = {name: cell for name, cell in self._beside.items() if name not in names}
        memory = _memory_of(store)
        memory["cells"] |= {name: cell for name, cell in beside.items() if cell is not None}
        self._moves.leave(run, mark, LeftMemory(memory, names | beside.keys(), self._is_whole))

    def replace(self) -> None:
        """Take note that other contracts count from here on. What is kept beside them is not known then."""
        self._beside, self._is_whole = {}, False

    def restore(self, step: RecordedStep, store: SessionStore, make: Callable[[], SessionStore]) -> None:
        """
        Go on with what the session remembered, and compare it with what it was left with.

        Args:
            step: What the log says.
            store: The session.
            make: Makes a session of the same contracts that remembers nothing.
        """
        shown = step.says["memory"]
        shown = None if shown is None or has_hidden(shown) else self._as_rebuilt(thawed(shown))
        left = self._moves.left_for(step.says)
        if left is not None:
            self._found.moved += 1
        elif self._moves.is_missed(step.says):
            self._found.differ(step, "a memory that it says another log left", "none that is left there")
        elif "mark" not in step.says:
            self._found.restored += 1
        elif shown is None or shown["step"]:
            self._found.unproven += 1
        memory = shown
        if left is not None and left.memory is not None and shown is None:
            memory = {**left.memory, "time": step.says.get("at", left.memory["time"])}
        if left is not None and left.memory is not None and shown is not None:
            for name in _different(left.memory, shown, left.cells, make):
                self._found.differ(step, f"remembers {name}", "not as it was left in another log")
        self._go_on(memory, store)
        self._beside = self._kept_beside(left, store)
        self._is_whole = left is not None and left.is_whole
        if left is not None and shown is None and memory is not None and not left.is_whole:
            with store.lock:
                # What nobody is known to have left may be kept for it all the same.
                kept = cells_of(store).keys() - left.cells
            self._unseen.hide_cells(kept, store.book.rules)

    def _kept_beside(self, left: LeftMemory | None, store: SessionStore) -> dict[str, Any]:
        if left is None or left.memory is None:
            return {}
        with store.lock:
            names = left.cells - cells_of(store).keys()
        return {name: left.memory["cells"].get(name) for name in names}

    def _as_rebuilt(self, memory: Mapping[str, Any]) -> dict[str, Any]:
        """Name contracts as they are called that were built again; a log names them as they were written."""
        pairs = zip(self._rules.texts, self._rules.contracts, strict=True)
        specs = {text: contract.spec for text, contract in pairs if contract is not None}

        def renamed(named: Any) -> Any:
            text, *more = [named] if isinstance(named, str) else named
            base, mark, rest = text.rpartition(" #")
            # One that may be mixed up with another is followed by a hash.
            known = specs.get(base, base)
            return [specs.get(text, f"{known}{mark}{rest}"), *more]

        return {
            **memory,
            "since": [*map(renamed, memory["since"])],
            "violated": [*map(renamed, memory["violated"])],
        }

    def _go_on(self, memory: Mapping[str, Any] | None, store: SessionStore) -> None:
        if memory is not None and None in self._rules.contracts:
            raise RerunError("contracts that are code cannot be told what they remembered")
        self.is_hidden = self._is_step_hidden = memory is None
        with store.lock:
            store.forget()
            if memory is not None:
                self._unseen.forget()
                remember(store, memory, migrate=True)


def _memory_of(store: SessionStore) -> dict[str, Any]:
    """Give what a store remembers, as a log shows it."""
    with store.lock:
        # What a person has halted is no part of it: every process hears of it by itself.
        is_halted = store.shut is not None and store.shut.by_person
        common = {**common_memory(store), **({"closed": None} if is_halted else {})}
        cells = {}
        for name, cell in cells_of(store).items():
            # Asked first: what is over is forgotten when a cell is looked at.
            dumped = None if cell.idle() else _dumped(cell)
            if dumped is not None:
                cells[name] = dumped
    plain: dict[str, Any] = json.loads(json.dumps({**common, "cells": cells}))
    return plain


def _dumped(cell: LiveCell) -> Any:
    if type(cell) is not Keyed:
        return cell.dump()
    values = cell.dump_changed(whole=True)
    return {value: dumped for value, dumped in values.items() if dumped is not None} or None


def _different(
    left: Mapping[str, Any],
    shown: Mapping[str, Any],
    known: Collection[str],
    make: Callable[[], SessionStore],
) -> Iterator[str]:
    """Name what is not the same in two memories, of what both can have."""
    # Of both at the same time: what is over by then may have been forgotten by one of them already.
    times = [memory["time"] for memory in (left, shown) if memory["time"] is not None]
    same = {"time": max(times, default=None)}
    one, other = (_remembered({**memory, **same}, make()) for memory in (left, shown))
    for name in ("step", "closed", "violated", "since"):
        if _sorted(one[name]) != _sorted(other[name]):
            yield name
    for name in sorted(one["cells"].keys() | other["cells"].keys()):
        if name in known and one["cells"].get(name) != other["cells"].get(name):
            yield name


def _remembered(memory: Mapping[str, Any], store: SessionStore) -> dict[str, Any]:
    with store.lock:
        remember(store, memory, migrate=True)
    return _memory_of(store)


def _sorted(value: Any) -> Any:
    return sorted(map(json.dumps, value)) if isinstance(value, list) else value
