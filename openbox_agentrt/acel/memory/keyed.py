"""One cell per value of an argument, and the guard that keeps their number bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..contracts.rules import Guard
from ..match.keys import Key
from .call import JudgedCall
from .cell import ForwardingMover, LiveCell, Mover, Role
from .clock import MonotoneClock
from .guard import Breach, CellGuard

if TYPE_CHECKING:
    from ..contracts.base import SessionRule, TemporalContract


class _KeyEntry:
    """Hold one value's cell, and count the calls under way that use it."""

    __slots__ = ("cell", "flying")

    def __init__(self, cell: LiveCell) -> None:
        self.cell = cell
        self.flying = 0

    def idle(self) -> bool:
        return not self.flying and self.cell.idle()


class Keyed(LiveCell):
    """
    Keep a cell for each value of an argument, up to a number of values.

    At the bound, cells that remember nothing any more make room. If there is none, a call with a new
    value is refused: forgetting a value would give it a fresh budget. A cell with `forgets` drops the
    oldest instead; that is for memory whose loss can only refuse more.

    Attributes:
        key: Where the value is.
        bound: How many values are remembered.
        blank: What is remembered of a value that did not occur.
    """

    key: Key

    __slots__ = (
        "_changed",
        "_entries",
        "_forgets",
        "_make",
        "_next_sweep",
        "blank",
        "bound",
        "key",
        "timeline",
    )

    def __init__(
        self,
        key: Key,
        make: Callable[[], LiveCell],
        *,
        bound: int,
        timeline: MonotoneClock | None = None,
        forgets: bool = False,
    ) -> None:
        self.key = key
        self.bound = bound
        self._make = make
        self.blank = make()
        self._entries: dict[str, _KeyEntry] = {}
        self.timeline = timeline
        self._forgets = forgets
        self._next_sweep = float("-inf")
        # Values that were touched since somebody asked for changes; None as long as nobody has.
        self._changed: set[str] | None = None

    def at(self, call: JudgedCall) -> LiveCell | None:
        key = call.key(self.key)
        if not isinstance(key, str):
            return None
        entry = self._entries.get(key)
        return (self.blank if entry is None else entry.cell).at(call)

    def has_room(self, call: JudgedCall) -> bool:
        """Tell whether the call's value is known, or can be remembered."""
        key = call.key(self.key)
        if not isinstance(key, str) or key in self._entries or len(self._entries) < self.bound:
            return True
        if self._forgets:
            return self._oldest() is not None
        self._sweep()
        return len(self._entries) < self.bound

    def mover(self, role: Role) -> Mover:
        return KeyedMover(self, role)

    def open(self, key: str) -> _KeyEntry | None:
        """Find the entry of a value, or make it if there is room."""
        entry = self._entries.get(key)
        if entry is None and self._forgets and len(self._entries) >= self.bound:
            oldest = self._oldest()
            if oldest is not None:
                self._drop(oldest)
        if self._changed is not None:
            self._changed.add(key)
        if entry is None and len(self._entries) < self.bound:
            entry = self._entries[key] = _KeyEntry(self._make())
        return entry

    def known(self, key: str) -> _KeyEntry:
        """
        Find the entry of a value.

        Raises:
            LookupError: There is none.
        """
        return self._entries[key]

    def close(self, key: str) -> None:
        """Drop the entry of a value if it remembers nothing."""
        if self._changed is not None:
            self._changed.add(key)
        entry = self._entries.get(key)
        if entry is not None and entry.idle():
            del self._entries[key]

    def touch(self, call: JudgedCall) -> None:
        key = call.key(self.key)
        if self._changed is not None and isinstance(key, str):
            self._changed.add(key)

    def fixed(self) -> bool:
        return False

    def forget_run(self, run: str) -> None:
        for value in [value for value in self._entries if self.key.within_run(value, run) is not None]:
            self._drop(value)

    def each(self) -> list[tuple[str | None, LiveCell]]:
        return [(key, entry.cell) for key, entry in self._entries.items()]

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        key = call.key(self.key)
        return isinstance(key, str) and key == ran.key(self.key)

    def unknown(self, call: JudgedCall) -> str | None:
        key = call.key(self.key)
        return super().unknown(call) if isinstance(key, str) else str(key)

    def idle(self) -> bool:
        return not self._entries

    def dump(self) -> dict[str, Any]:
        return {key: entry.cell.dump() for key, entry in self._entries.items()}

    def dump_changed(self, *, whole: bool, keep: bool = False) -> dict[str, Any]:
        """
        Give what it remembers of the values that were touched since this was last asked; None for nothing.

        The first time, and for the `whole`, all are given. To `keep` is to give the same once more.
        """
        touched = self._changed
        if not keep:
            self._changed = set()
        if whole or touched is None:
            touched = set(self._entries)
        entries = {value: self._entries.get(value) for value in touched}
        return {
            value: None if entry is None or entry.cell.idle() else entry.cell.dump()
            for value, entry in entries.items()
        }

    def track(self) -> None:
        """Note from now on which values are touched: what there is now is known."""
        self._changed = set()

    def load(self, data: dict[str, Any]) -> None:
        self._entries = {}
        self._changed = None
        self._next_sweep = float("-inf")
        for name, inner in data.items():
            key = self.key.spelt(name)
            if key in self._entries:
                raise ValueError(f"{self.key.text} has one value in two spellings")
            entry = self._entries[key] = _KeyEntry(self._make())
            entry.cell.load(inner)
        if self._forgets:
            # What was written down has no order, and the oldest is forgotten first.
            steps = sorted((entry.cell.last_step(), key) for key, entry in self._entries.items())
            self._entries = {key: self._entries[key] for _, key in steps}

    def _drop(self, value: str) -> None:
        del self._entries[value]
        if self._changed is not None:
            self._changed.add(value)

    def _oldest(self) -> str | None:
        return next((key for key, entry in self._entries.items() if not entry.flying), None)

    def _sweep(self) -> None:
        if self.timeline is not None and self.timeline.now >= self._next_sweep:
            # Looking at every entry is dear, so a flood of new values makes it happen 16 times per
            # window at most; in between, they are refused.
            for key in [key for key, entry in self._entries.items() if entry.idle()]:
                self._drop(key)
            self._next_sweep = self.timeline.now + (self.blank.within or 0.0) / 16


class KeyedMover(ForwardingMover):
    """Follow a call to the cell of its value."""

    __slots__ = ()

    cell: Keyed

    def reserve(self, call: JudgedCall) -> Any:
        key = call.key(self.cell.key)
        entry = self.cell.open(key) if isinstance(key, str) else None
        if entry is None:
            return None
        entry.flying += 1
        mover = entry.cell.mover(self.role)
        return key, entry, mover, mover.reserve(call)

    def take_up(self, key: str, inner: Any) -> Any:
        """
        Make the ticket of a call that was under way when the memory was written down.

        Args:
            key: Its value.
            inner: Its ticket in the cell of that value.

        Raises:
            LookupError: Nothing is remembered of the value.
        """
        entry = self.cell.known(key)
        entry.flying += 1
        return key, entry, entry.cell.mover(self.role), inner

    def landed(self, ticket: Any) -> Iterator[tuple[Mover, Any]]:
        if ticket is not None:
            key, entry, mover, inner = ticket
            entry.flying -= 1
            yield mover, inner
            self.cell.close(key)


class Room(CellGuard):
    """Require that there is memory for what the call would change."""

    __slots__ = ("_strict",)

    def __init__(
        self, contract: TemporalContract | SessionRule, guard: Guard, cell: LiveCell, *, strict: bool
    ) -> None:
        super().__init__(contract, guard, cell)
        self._strict = strict

    @property
    def key(self) -> Key | None:
        """Give the key without whose value a call is refused, if there is one."""
        keyed = self.cell.whole()
        return keyed.key if self._strict and isinstance(keyed, Keyed) else None

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return not cell.full()

    def passes(self, call: JudgedCall) -> bool:
        keyed = self.cell.whole()
        if isinstance(keyed, Keyed):
            if not isinstance(call.key(keyed.key), str):
                return not self._strict
            if not keyed.has_room(call):
                return False
        cell = self.cell.at(call)
        return cell is None or self.holds(cell, call)

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        breach.needs = None
        keyed = self.cell.whole()
        if isinstance(keyed, Keyed) and not keyed.has_room(call):
            breach.fault = f"{keyed.key.text} has more than {keyed.bound} values"
        else:
            breach.fault = "as many calls are owed an answer as can be kept"
