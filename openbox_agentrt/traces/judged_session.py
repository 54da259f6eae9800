"""One session of a recording, as far as it was judged, and many of them without holding all in memory."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

from ..acel.engine.engine import Engine
from ..acel.engine.plan.rule_set import SharedRules
from ..acel.engine.snapshot.lent_engine import CellNumbers, LentEngine, SetAside
from ..acel.memory.clock import SetClock
from ..acel.reservation import Reservation
from ..acel.session import Session, engine_of
from .events import Began
from .spilled import Spilled

__all__ = ("JudgedSession", "JudgedSessions", "Seat", "seat_for")

MOST_OPEN = 200
"""So many sessions are kept in memory; the others wait in a file."""


class Seat(NamedTuple):
    """
    An engine that judges one recorded session after the other.

    Attributes:
        engine: The engine.
        clock: Its time.
        lent: Lends it.
    """

    engine: Engine
    clock: SetClock
    lent: LentEngine


def seat_for(rules: SharedRules, numbers: CellNumbers, **options: Any) -> Seat:
    """Make a seat for recorded sessions that are judged by these rules."""
    clock = SetClock()
    engine = engine_of(Session(contracts=rules, halt_on_violation=False, clock=clock, **options))
    # What is found is counted elsewhere.
    engine.forgo_records()
    return Seat(engine, clock, LentEngine(engine, numbers))


@dataclass(slots=True)
class JudgedSession:
    """
    Hold what is known of a recorded session, and the seat in which it is judged.

    Attributes:
        seat: Where it is judged.
        name: Its name.
        has_results: Whether every result that a contract learns from was recorded.
        has_prompts: Whether what the user said was recorded, and
        hides_prompts: without its text.
        is_resumed: Whether it went on with a memory that nobody knows here.
        has_state: Whether it is known what its state holds.
        runs: The runs that are not over.
        miscounted: Contracts that cannot have counted all that they count, by position.
        refused_by: Contracts that refused a call of it, by position.
        left: What its memory is known by, as long as nothing has happened since it was left.
        where: Where its latest call stands.
        is_timed: Whether any time of it is known.
        is_spread: Whether it was found to be in several files in no order of time.
        goes_back: Whether it was found to be in a file in no order of time.
        owing: Contracts by which something was owed at an end, by position.
        flying: The calls that are under way.
    """

    seat: Seat
    name: str
    has_results: bool = True
    has_prompts: bool = False
    hides_prompts: bool = False
    is_resumed: bool = False
    has_state: bool = True
    runs: set[str] = field(default_factory=set)
    miscounted: frozenset[int] = frozenset()
    refused_by: frozenset[int] = frozenset()
    owing: frozenset[int] = frozenset()
    left: str | None = None
    where: str = ""
    is_timed: bool = False
    is_spread: bool = False
    goes_back: bool = False
    flying: dict[Began, Reservation] = field(default_factory=dict)

    @property
    def engine(self) -> Engine:
        """Give the engine that judges it."""
        return self.seat.engine

    def pass_time(self, at: float) -> None:
        """Let its time go on, unless it is later already. The first one is when it began, with its state."""
        clock = self.seat.clock
        if not self.is_timed:
            self.is_timed = True
            state = self.engine.state
            state.resume(dict.fromkeys(state.written(), at))
        if at > clock.now:
            clock.now = at

    def to_bytes(self) -> bytes:
        """Write down what it is, for its seat is wanted. It is of no use afterwards."""
        written = (_own(self), self.seat.clock.now, tuple(self.seat.lent.set_aside()))
        return pickle.dumps(written, protocol=pickle.HIGHEST_PROTOCOL)

    @classmethod
    def from_bytes(cls, data: bytes, seat: Seat) -> JudgedSession:
        """Go on with what `to_bytes` wrote, in any seat of the same rules."""
        own, seat.clock.now, aside = pickle.loads(data)
        seat.lent.go_on(SetAside(*aside))
        return cls(seat, *own)


# All but the seat, which is the first, and calls under way, which are the last and of which there are none.
_own = attrgetter(*(part.name for part in fields(JudgedSession)[1:-1]))


class JudgedSessions:
    """
    Keep any number of sessions: those that were in use last in memory, and the others in a file.

    Args:
        rules: The contracts of each.
        state: The state that each begins with.
        most: So many are kept in memory at most, those with calls under way aside.
    """

    def __init__(self, rules: SharedRules, state: Mapping[str, Any], *, most: int) -> None:
        self._rules = rules
        self._state = state
        self._most = self._full = most
        self._numbers = CellNumbers()
        self._open: OrderedDict[str, JudgedSession] = OrderedDict()
        self._free: list[Seat] = []
        self._spilled: Spilled | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> JudgedSession:
        kept = self._open.get(name)
        if kept is None:
            # Before, so that the one that is asked for is not among those that are put away.
            if len(self._open) >= self._full:
                self._spill()
            kept = self._open[name] = self._found(name)
        else:
            self._open.move_to_end(name)
        return kept

    def __iter__(self) -> Iterator[JudgedSession]:
        yield from list(self._open.values())
        seat = self._seat()
        for name, data in () if self._spilled is None else self._spilled:
            if name not in self._open:
                yield JudgedSession.from_bytes(data, seat)

    def go_on(self, old: str, new: str, mark: str) -> bool:
        """Go on with a session under a new name; tell whether it is there as it was left, with that mark."""
        if not self._is_known(old):
            return False
        kept = self[old]
        if kept.left != mark or kept.flying:
            return False
        self._count -= self._is_known(new)
        for name in (old, new):
            self._open.pop(name, None)
            if self._spilled is not None:
                self._spilled.drop(name)
        kept.name, self._open[new] = new, kept
        return True

    def _is_known(self, name: str) -> bool:
        return name in self._open or (self._spilled is not None and self._spilled.get(name) is not None)

    def _found(self, name: str) -> JudgedSession:
        data = None if self._spilled is None else self._spilled.get(name)
        seat = self._seat()
        if data is not None:
            return JudgedSession.from_bytes(data, seat)
        self._count += 1
        seat.clock.now = 0.0
        seat.lent.begin(self._state)
        return JudgedSession(seat, name)

    def _seat(self) -> Seat:
        return self._free.pop() if self._free else seat_for(self._rules, self._numbers)

    def _spill(self) -> None:
        """Put half of the sessions into the file, those that were not used for longest."""
        half = self._most // 2
        idle = [name for name, kept in self._open.items() if not kept.flying]
        # What contracts remember that have code of their own is theirs, so sessions stay in memory.
        written = {} if self._rules.custom else {n: self._open[n].to_bytes() for n in idle[:half]}
        if self._spilled is None:
            self._spilled = Spilled()
        self._spilled.put(written)
        for name in written:
            self._free.append(self._open.pop(name).seat)
        # Those with calls under way stay, and are not looked at again for each that is added.
        self._full = self._most if len(self._open) < self._most else len(self._open) + max(half, 1)
