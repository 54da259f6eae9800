"""Prerequisites that have to come after the latest call of another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..contracts.rules import MAX_IN_WINDOW
from ..match.keys import Key
from .call import JudgedCall
from .cell import ForwardingMover, LiveCell, Mover, Role, RoleMover
from .clock import MonotoneClock
from .guard import Breach, CellGuard
from .keyed import Keyed


class Voids:
    """
    Remember from which step on prerequisites count, since a call that voids those before was let through.

    Attributes:
        top: That step, of the calls that have ended.
        flying: Those of calls under way, by the step of each.
        seen: The latest prerequisite that was let through.
    """

    __slots__ = ("flying", "seen", "top")

    def __init__(self) -> None:
        self.top = 0
        self.flying: dict[int, int] = {}
        self.seen = 0

    def open(self, call: JudgedCall) -> int:
        """Void what was given before a call; also what began meanwhile, if it is late or waited."""
        step = call.step
        self.flying[step] = max(self.seen, step) + 1 if call.late or self.seen > step else step
        return step

    def close(self, step: int) -> None:
        """Keep it, since the call ran."""
        self.top = max(self.top, self.flying.pop(step, 0))

    def cancel(self, step: int) -> None:
        """Take it back, since the call never ran."""
        self.flying.pop(step, None)

    def resume(self, top: int) -> None:
        """Go on where `latest` was given, in place of everything else."""
        self.top, self.seen = top, 0
        self.flying.clear()

    def latest(self) -> int:
        """Give the step before which nothing counts."""
        return max(self.top, *self.flying.values()) if self.flying else self.top


class Fresh(LiveCell):
    """
    Keep the prerequisites that succeeded since the latest call that voids them.

    Of two of which one began later and ended later, only that one is kept: whenever the other counts, it
    does.

    Attributes:
        common: What voids the prerequisites of every key.
        own: What voids those of this one.
        marks: Of each prerequisite its step and when it ended, in the order of the steps.
    """

    __slots__ = ("common", "marks", "own", "timeline", "within")

    def __init__(
        self,
        common: Voids | None = None,
        *,
        timeline: MonotoneClock | None = None,
        within: float | None = None,
    ) -> None:
        self.own = Voids()
        self.common = self.own if common is None else common
        self.timeline = timeline
        self.within = within
        self.marks: list[tuple[int, float]] = []

    def mover(self, role: Role) -> Mover:
        return _Void(self, self.own) if role == "void" else _Mark(self)

    def begin(self, step: int) -> int:
        """Take note that a prerequisite begins."""
        self.own.seen = max(self.own.seen, step)
        self.common.seen = max(self.common.seen, step)
        return step

    def mark(self, step: int) -> None:
        """Take note that one succeeded."""
        if step < max(self.own.top, self.common.top):
            return
        # It ended last, so what began before it counts no longer than it does.
        kept = [mark for mark in self.marks if mark[0] > step]
        self.marks = [(step, 0.0 if self.timeline is None else self.timeline.now), *kept][:MAX_IN_WINDOW]

    def voided(self) -> int:
        """Give the step before which nothing counts."""
        return max(self.own.latest(), self.common.latest())

    def some(self) -> bool:
        """Tell whether a prerequisite counts."""
        least = self.voided()
        return any(step >= least and self._recent(at) for step, at in self.marks)

    def idle(self) -> bool:
        top = max(self.own.top, self.common.top)
        self.marks = [mark for mark in self.marks if mark[0] >= top and self._recent(mark[1])]
        # What was voided is gone, and what begins later counts anyway.
        return not self.marks and not self.own.flying

    def last_step(self) -> int:
        return max([self.own.latest(), *(step for step, _ in self.marks)])

    def dump(self) -> dict[str, Any]:
        return {"voided": self.own.latest(), "marks": [list(mark) for mark in self.marks]}

    def load(self, data: dict[str, Any]) -> None:
        self.own.resume(int(data["voided"]))
        self.marks = [(int(step), float(at)) for step, at in data["marks"]]

    def _recent(self, at: float) -> bool:
        return self.timeline is None or self.within is None or self.timeline.now - at <= self.within


class FreshByKey(Keyed):
    """Keep them for each value of an argument. A call without that argument voids those of every value."""

    __slots__ = ("common",)

    def __init__(
        self,
        key: Key,
        make: Callable[[Voids], Fresh],
        *,
        bound: int,
        timeline: MonotoneClock | None = None,
    ) -> None:
        self.common = Voids()
        super().__init__(key, lambda: make(self.common), bound=bound, timeline=timeline, forgets=True)

    def mover(self, role: Role) -> Mover:
        by_key = super().mover(role)
        return _VoidByKey(self, by_key) if role == "void" else by_key

    def idle(self) -> bool:
        return super().idle() and not self.common.flying

    def dump(self) -> dict[str, Any]:
        return {"voided": self.common.latest(), "values": super().dump()}

    def load(self, data: dict[str, Any]) -> None:
        self.common.resume(int(data["voided"]))
        super().load(data["values"])


class _Mark(RoleMover):
    __slots__ = ()

    role = "give"
    cell: Fresh

    def reserve(self, call: JudgedCall) -> int:
        return self.cell.begin(call.step)

    def commit(self, ticket: int, call: JudgedCall) -> None:
        self.cell.mark(ticket)


class _Void(RoleMover):
    __slots__ = ("_voids",)

    role = "void"

    def __init__(self, cell: Fresh | FreshByKey, voids: Voids) -> None:
        super().__init__(cell)
        self._voids = voids

    def reserve(self, call: JudgedCall) -> int:
        return self._voids.open(call)

    def commit(self, ticket: int, call: JudgedCall) -> None:
        self._voids.close(ticket)

    fail = lose = commit

    def undo(self, ticket: int, call: JudgedCall) -> None:
        self._voids.cancel(ticket)


class _VoidByKey(ForwardingMover):
    """Void what one value has, or what every value has if the call names none."""

    __slots__ = ("_by_key", "_common")

    cell: FreshByKey

    def __init__(self, cell: FreshByKey, by_key: Mover) -> None:
        super().__init__(cell, "void")
        self._by_key = by_key
        self._common = _Void(cell, cell.common)

    def reserve(self, call: JudgedCall) -> tuple[Mover, Any]:
        mover = self._by_key if isinstance(call.key(self.cell.key), str) else self._common
        return mover, mover.reserve(call)

    def is_same(self, call: JudgedCall, ran: JudgedCall) -> bool:
        keys = call.key(self.cell.key), ran.key(self.cell.key)
        return keys[0] == keys[1] or not any(isinstance(key, str) for key in keys)


class IsFresh(CellGuard):
    """Require a prerequisite that succeeded since the latest call that voids them."""

    __slots__ = ()

    def holds(self, cell: Any, call: JudgedCall) -> bool:
        return bool(cell.some())

    def detail(self, breach: Breach, cell: Any, call: JudgedCall) -> None:
        breach.blame = cell.voided() or None
