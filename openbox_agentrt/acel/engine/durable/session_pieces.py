"""
The memory of a session in pieces, so that what one call has changed is written and no more.

A piece is a cell; of a cell with a key, each value of the key; and what belongs to no cell. Names of cells
are hashed, since they are long. Which cells a call may have changed, its plan tells; what else may have
changed something makes every cell be looked at. Those are compared with what was given before, and only
values of a key are not: there may be many, so they are noted when they change.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from ...._plain.digest import text_digest
from ....fleet.errors import SessionMemoryError
from ...contracts.base import SessionRule
from ...memory.cell import LiveCell
from ...memory.keyed import Keyed
from ...memory.state import StateStore
from ...wording import shown
from ..plan.planned_call import PlannedCall
from ..record.trace import Trace
from ..snapshot.snapshot import begin_since, cells_of, common_memory, is_json, remember
from ..store.session_store import SessionStore
from .piece_marks import PieceMarks

MOST_CALLS: Final = 1000

HEAD: Final = "head"
STATE: Final = "state"


class SessionPieces:
    """
    Give what has changed in the memory of a session, and load it again. Safe for several threads.

    Args:
        store: What the contracts remember.
        rows: The trace, of which the length and the hash are kept.
        state: The state.
        checked: Whether the same contracts were accepted before.

    Raises:
        SnapshotError: A contract has code of its own, whose memory cannot be kept, or two have one name.
        SessionMemoryError: The initial state is no JSON.
    """

    def __init__(self, store: SessionStore, rows: Trace, state: StateStore, *, checked: bool = False) -> None:
        self._store = store
        self._rows = rows
        self._state = state
        self._initial = state.view().snapshot()
        self._told: dict[str, str | None] = {}
        self._names: dict[int, str] = {}
        # Appending is atomic and takes no lock: a call may be found lost by a finalizer, anywhere.
        self._calls: deque[PlannedCall] = deque()
        self._all = False
        # Only where somebody reads them.
        self._marks = PieceMarks() if store.journal else None
        _written(STATE, self._initial)
        # Refused when it is written: later, it would keep every change of the session from being kept.
        state.check(partial(_written, STATE))
        if not checked:
            self.check()

    def check(self) -> None:
        """
        Accept the contracts in force.

        Raises:
            SnapshotError: See above.
        """
        with self._store.lock:
            cells_of(self._store)

    def note(self, call: PlannedCall) -> None:
        """Note that a call may have changed what it moves."""
        if len(self._calls) >= MOST_CALLS:
            # Nobody has written for a while: rather than all of these, every cell is looked at.
            self._all = True
            self._calls.clear()
        self._calls.append(call)

    def note_all(self) -> None:
        """Note that anything may have changed."""
        self._all = True

    def changes(self, *, whole: bool) -> dict[str, str | None]:
        """See `fleet.client.sessions.Memory`."""
        # What was dropped is settled by whoever takes the lock next: who goes on elsewhere never does.
        self._store.settle()
        state = self._state.view().snapshot()
        with self._store.lock:
            calls = [self._calls.popleft() for _ in range(len(self._calls))]
            if whole:
                self._told.clear()
            found = self._found(calls, state, whole=whole, keep=False)
            self._mark(found, whole=whole)
        self._store.tell()
        changed = {
            name: piece for name, piece in found.items() if self._told.get(name) != piece or _is_of_key(name)
        }
        self._told |= {name: piece for name, piece in changed.items() if not _is_of_key(name)}
        return changed

    def leave(self) -> None:
        """See `fleet.client.sessions.Memory`: whoever reads the steps has to know before they are over."""
        if self._marks is None:
            return
        self._store.settle()
        state = self._state.view().snapshot()
        with self._store.lock:
            found = self._found(list(self._calls), state, whole=False, keep=True)
            self._mark(found, whole=False)
        self._store.tell()

    def load(self, pieces: Mapping[str, str]) -> None:
        """See `fleet.client.sessions.Memory`. Without any, the session begins anew."""
        halt = self._persons_halt()
        try:
            head = json.loads(pieces[HEAD]) if HEAD in pieces else {}
            state = json.loads(pieces[STATE]) if STATE in pieces else dict(self._initial)
            self._tell_of_replaced(state)
            common = self._at_present({**_BLANK, **head.get("memory", {})})
            with self._store.lock:
                self._calls.clear()
                self._told = {name: piece for name, piece in pieces.items() if not _is_of_key(name)}
                self._names, self._all = {}, False
                was_new = not self._store.step
                self._store.forget()
                # First: it says by which names some of the pieces are kept.
                begin_since(self._store, common["since"])
                memory = {**common, "cells": self._read(pieces)}
                remember(self._store, memory, migrate=True)
                self._store.shut = halt or self._store.shut
                self._track()
                self._state.load(state)
            self._rows.resume([], *head.get("trace", (0, "")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._begin_anew(halt)
            raise SessionMemoryError(f"what is kept of the session cannot be read: {error}") from error
        marks = self._marks
        if marks is not None:
            marks.reset(pieces)
        if pieces or not was_new:
            mark = None if marks is None else marks.mark()
            self._store.note_restored(memory, state, mark=mark, left_by=head.get("left_by"))

    def _at_present(self, common: dict[str, Any]) -> dict[str, Any]:
        """Let the session go on now: calls that were left under way may have spent something until then."""
        if common["time"] is None:
            return common  # no clock was ever asked
        shown = self._store.memory.timeline.look()
        return common if isinstance(shown, str) else {**common, "time": max(shown, float(common["time"]))}

    def _tell_of_replaced(self, state: Mapping[str, Any]) -> None:
        """Name what was changed where it lies, which nothing can refuse: it is lost now."""
        told = self._told.get(STATE)
        before = self._initial if told is None else json.loads(told)
        now = self._state.view().snapshot()
        lost = [key for key in now if _differs(now, before, key) and _differs(now, state, key)]
        if lost:
            import logging

            text = (
                "state %s was changed here and not written: what the store keeps of the session replaces it"
            )
            logging.getLogger(__name__).warning(text, ", ".join(map(shown, lost)))

    def _begin_anew(self, halt: SessionRule | None) -> None:
        """Remember nothing: of what could not be read, a part may have been taken in."""
        memory = {**_BLANK, "cells": {}}
        with self._store.lock:
            self._store.forget()
            remember(self._store, memory, migrate=True)
            self._store.shut = halt
        self._store.note_restored(memory, self._state.view().snapshot())

    # Called with the lock held.

    def _found(
        self, calls: list[PlannedCall], state: dict[str, Any], *, whole: bool, keep: bool
    ) -> dict[str, str | None]:
        """Give what may have changed. To `keep` is to give the same once more."""
        everything = whole or self._all
        # Until all is written down: after an error, everything is looked at again.
        self._all = True
        found: dict[str, str | None] = {HEAD: self._head(), STATE: _written(STATE, state)}
        for name, cell in self._cells(None if everything else calls):
            found |= _pieces(name, cell, whole=whole, keep=keep)
        self._all = keep and everything
        return found

    def _mark(self, found: Mapping[str, str | None], *, whole: bool) -> None:
        if self._marks is None:
            return
        if whole:
            self._marks.reset(found)
        else:
            self._marks.put(found)
        self._store.note_left(self._marks.mark())

    def _track(self) -> None:
        for _, cell in self._store.memory.cells():
            if type(cell) is Keyed:
                cell.track()

    def _head(self) -> str:
        length, digest = self._rows.mark()
        memory = common_memory(self._store)
        if self._persons_halt() is not None:
            # Every process hears of it by itself, and of its end.
            memory["closed"] = None
        left_by = {"left_by": self._store.journal} if self._store.journal else {}
        return _written(HEAD, {"memory": memory, "trace": [length, digest], **left_by})

    def _persons_halt(self) -> SessionRule | None:
        shut = self._store.shut
        return shut if shut is not None and shut.by_person else None

    def _cells(self, calls: list[PlannedCall] | None) -> Iterator[tuple[str, LiveCell]]:
        live = self._store.memory.cells
        if calls is None or len(self._names) != self._store.memory.size:
            self._names = {id(cell): _hashed(name) for name, cell in live()}
        if calls is None:
            yield from ((self._names[id(cell)], cell) for _, cell in live())
            return
        moved = {id(cell): cell for call in calls for cell in _moved_by(call)}
        for key, cell in moved.items():
            # One that is not among them was forgotten since, with the contracts that named it.
            if key in self._names:
                yield self._names[key], cell

    def _read(self, pieces: Mapping[str, str]) -> dict[str, Any]:
        named = {_hashed(name): name for name in cells_of(self._store)}
        cells: dict[str, Any] = {}
        for piece, text in pieces.items():
            if piece in (HEAD, STATE):
                continue
            # What no contract here counts is left where it is: others may.
            name = named.get(piece.partition(":")[0])
            if name is None:
                continue
            if _is_of_key(piece):
                value, dumped = json.loads(text)
                cells.setdefault(name, {})[value] = dumped
            else:
                cells[name] = json.loads(text)
        return cells


_BLANK: Final[Mapping[str, Any]] = {
    "step": 0,
    "time": None,
    "closed": None,
    "since": (),
    "violated": (),
    "written": {},
}


def _pieces(name: str, cell: LiveCell, *, whole: bool, keep: bool) -> dict[str, str | None]:
    if type(cell) is not Keyed:
        return {name: None if cell.idle() else _written(name, cell.dump())}
    found: dict[str, str | None] = {}
    for value, dumped in cell.dump_changed(whole=whole, keep=keep).items():
        piece = f"{name}:{_hashed(value)}"
        found[piece] = None if dumped is None else _written(piece, [value, dumped])
    return found


def _moved_by(call: PlannedCall) -> Iterator[LiveCell]:
    for each in (call, call.ran):
        if each is not None:
            yield from each.plan.counts
            for mover in each.movers():
                cell = getattr(mover, "cell", mover)
                if isinstance(cell, LiveCell):
                    yield cell


def _differs(now: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    return key not in other or _as_kept(now[key]) != _as_kept(other[key])


def _as_kept(value: Any) -> Any:
    """Give a value as it comes back from the store, or itself where it cannot be kept."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return value  # it was spoilt, and differs from all that is kept


def _is_of_key(piece: str) -> bool:
    return ":" in piece


@lru_cache(8192)
def _hashed(name: str) -> str:
    return text_digest(name)[:16]


def _written(name: str, value: Any) -> str:
    try:
        # Not msgspec: a text that is not Unicode is written as well, and read as it was.
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        entry = next((key for key, part in value.items() if not is_json(part)), "") if name == STATE else name
        raise SessionMemoryError(f"{name} {shown(entry)} of the session is not JSON") from error
