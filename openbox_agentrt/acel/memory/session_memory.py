"""
All the memory of one session: from the names of cells and guards to the things themselves.

Kinds that few contracts have are loaded where one is made: a hook is a process for each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from ..contracts.rules import Cell, CellKind, Guard, Move
from ..match.selector import ById
from .clock import Clock, MonotoneClock, steady_clock
from .distinct import Differ, Distinct
from .guard import LiveGuard, NeverHolds
from .keyed import Keyed, Room
from .state import InState, StateStore
from .tally import Ban, Cap, Need, Tally
from .total import Spend, Sum
from .window import Marks, Stamps, WindowCap

if TYPE_CHECKING:
    from ..condition.condition import Condition
    from ..contracts.base import TemporalContract
    from .cell import LiveCell, Mover
    from .condition import LiveCondition
    from .digests import Digests

_SOURCES: frozenset[CellKind] = frozenset({"values", "words", "secrets"})


class SessionMemory:
    """
    Hold the cells of one session, each made when a contract first names it.

    Attributes:
        state: The session's state.
    """

    __slots__ = (
        "_cells",
        "_clock",
        "_digests",
        "_has_kept_digests",
        "_max_keys",
        "_timeline",
        "_timelines",
        "state",
    )

    def __init__(self, state: StateStore, clock: Clock | None, *, max_keys: int) -> None:
        self.state = state
        self._clock = clock
        self._timeline: MonotoneClock | None = None
        self._max_keys = max_keys
        self._cells: dict[tuple[Cell, int], LiveCell] = {}
        self._digests: Digests | None = None
        self._has_kept_digests = False
        self._timelines: dict[ById, MonotoneClock] | None = None

    @property
    def digests(self) -> Digests:
        """Give what makes digests of values, under a key that is made when it is first needed."""
        if self._digests is None:
            from .digests import Digests

            self._digests = Digests()
        return self._digests

    @property
    def digest_key(self) -> bytes | None:
        """Give the key of the digests, if anything is remembered by them, here or elsewhere."""
        has_digests = self._has_kept_digests or any(cell.kind in _SOURCES for cell, _ in self._cells)
        return self.digests.key if has_digests else None

    def keep_digest_key(self, key: bytes) -> None:
        """Go on with a key by which something is remembered, if only for contracts that are not here."""
        self.digests.key, self._has_kept_digests = key, True

    @property
    def timeline(self) -> MonotoneClock:
        """Give the session's time, which begins when it is first needed."""
        if self._timeline is None:
            self._timeline = MonotoneClock(steady_clock() if self._clock is None else self._clock)
        return self._timeline

    @property
    def now(self) -> float | None:
        """Give the latest time, if any was needed yet."""
        shown = None if self._timeline is None else self._timeline.now
        return None if shown is None or shown == -math.inf else shown

    @property
    def clock_fault(self) -> str | None:
        """Say why the time is not known, if it was needed and the clock did not show it."""
        return None if self._timeline is None else self._timeline.fault

    def cell(self, cell: Cell, since: int = 0) -> LiveCell:
        """
        Find the piece of memory of that name.

        A contract sees the calls that come after it was added, so it shares memory with those only that
        were added at the same step.
        """
        live = self._cells.get((cell, since))
        if live is None:
            live = self._cells[cell, since] = self._make(cell)
        return live

    @property
    def pieces(self) -> Mapping[tuple[Cell, int], LiveCell]:
        """Give every piece of memory, by its name and the step after which its contracts were added."""
        return self._cells

    def cells(self) -> list[tuple[str, LiveCell]]:
        """List every piece of memory with its name."""
        return [
            (f"{cell.unique_name()} since {since}" if since else cell.unique_name(), live)
            for (cell, since), live in self._cells.items()
        ]

    def keep_only(self, named: Collection[Cell]) -> None:
        """Forget every piece of memory that is not named. A call under way still settles what it moved."""
        self._cells = {name: live for name, live in self._cells.items() if name[0] in named}

    def forget(self) -> None:
        """Forget every piece of memory. A call under way still settles what it moved."""
        self._cells, self._has_kept_digests = {}, False

    @property
    def size(self) -> int:
        """Count the pieces of memory."""
        return len(self._cells)

    def is_idle(self) -> bool:
        """Tell whether no piece of memory remembers anything."""
        return all(cell.idle() for cell in self._cells.values())

    def forget_run(self, run: str) -> None:
        """Drop what is remembered of a run that is over, by contracts that are about one run."""
        for cell in self._cells.values():
            cell.forget_run(run)

    def timelines(self) -> list[MonotoneClock]:
        """List every clock that is in use."""
        own = () if self._timeline is None else (self._timeline,)
        return [*own, *(self._timelines or {}).values()]

    def guard(self, contract: TemporalContract, guard: Guard, since: int) -> LiveGuard:
        """Make a guard that looks at its memory."""
        if guard.kind == "state":
            return InState(contract, guard, self.state, None if guard.within is None else self.timeline)
        if guard.kind == "never":
            return NeverHolds(contract, guard)
        if guard.kind == "known":
            from .values import Known

            sources: list[Any] = [self.cell(source, since) for source in guard.sources]
            return Known(contract, guard, sources, self.digests)
        if guard.kind == "condition":
            assert guard.condition is not None
            from .condition import Holds

            return Holds(contract, guard, self.condition(guard.condition))
        assert guard.cell is not None
        cell = self.cell(guard.cell, since)
        match guard.kind:
            case "need":
                return Need(contract, guard, cell)
            case "ban":
                return Ban(contract, guard, cell)
            case "cap":
                return (WindowCap if type(cell) is Stamps else Cap)(contract, guard, cell)
            case "spend":
                return Spend(contract, guard, cell)
            case "distinct":
                return Differ(contract, guard, cell)
            case "token":
                from .tokens import HasToken

                return HasToken(contract, guard, cell)
            case "next":
                assert guard.other is not None
                from .order import Next

                return Next(contract, guard, cell, self.cell(guard.other, since))
            case "fresh":
                from .fresh import IsFresh

                return IsFresh(contract, guard, cell)
            case "settled":
                from .owed import Settled

                return Settled(contract, guard, cell)
            case "kept_out":
                from .kept_out import KeptOut

                return KeptOut(contract, guard, cell)
            case "overdue":
                from .owed import Overdue

                return Overdue(contract, guard, cell)
        assert_never(guard.kind)

    def condition(self, condition: Condition) -> LiveCondition:
        """Bind a condition to what it reads."""
        from ..contracts.watched import cell_of, count_of
        from .condition import LiveCondition

        facts: dict[str, Any] = {fact.name: self.cell(cell_of(fact), 0) for fact in condition.facts}
        tallies: dict[str, Any] = {tool: self.cell(count_of(tool), 0) for tool in condition.reads.tools}
        return LiveCondition(
            condition,
            facts=facts,
            tallies=tallies,
            timeline=self.timeline if condition.reads.now else None,
        )

    def watcher(self, move: Move) -> Mover:
        """Give what follows a call to memory that conditions read. It is one for all contracts."""
        return self.mover(move, 0)

    def mover(self, move: Move, since: int) -> Mover:
        """Give what follows a call to the memory that it changes."""
        return self.cell(move.cell, since).mover(move.role)

    def room(self, contract: TemporalContract, move: Move, since: int) -> LiveGuard | None:
        """Make the guard that keeps memory bounded, where a move can make it grow."""
        cell = self.cell(move.cell, since)
        if isinstance(cell.whole(), Keyed) or move.role == "open":
            return Room(contract, Guard(kind="need"), cell, strict=move.strict)
        return None

    def keep_times(self) -> None:
        """From now on, remember when state entries were written."""
        self.state.keep_times(self._now)

    def _now(self) -> float:
        shown = self.timeline.look()
        return self.timeline.now if isinstance(shown, str) else max(shown, self.timeline.now)

    def _timeline_of(self, cell: Cell) -> MonotoneClock | None:
        if cell.within is None and cell.per is None:
            return None
        if isinstance(cell.clock, ById):
            clock: Any = cell.clock.it
            if self._timelines is None:
                self._timelines = {}
            return self._timelines.setdefault(cell.clock, MonotoneClock(clock))
        return self.timeline

    def _make(self, cell: Cell) -> LiveCell:
        if cell.is_tally:
            return Tally(refund=cell.refund)
        timeline = self._timeline_of(cell)
        if cell.kind in _SOURCES:
            return self._source(cell, timeline)
        if cell.per is None or timeline is None:
            return self._whole(cell, timeline)
        # Loaded here: it brings calendars, which most contracts do without.
        from .periodic import Periodic

        return Periodic(lambda: self._whole(cell, None), per=cell.per, tz=cell.tz, timeline=timeline)

    def _whole(self, cell: Cell, timeline: MonotoneClock | None) -> LiveCell:
        if cell.kind == "fresh" and cell.key is not None:
            from .fresh import Fresh, FreshByKey

            make_fresh = partial(Fresh, timeline=timeline, within=cell.within)
            return FreshByKey(cell.key, make_fresh, bound=self._max_keys, timeline=timeline)
        make = _maker(cell, timeline, self._max_keys)
        if cell.key is None:
            return make()
        forgets = cell.kind in ("latest", "step")
        return Keyed(cell.key, make, bound=self._max_keys, timeline=timeline, forgets=forgets)

    def _source(self, cell: Cell, timeline: MonotoneClock | None) -> LiveCell:
        from ..match.provenance import reading_of
        from .kept_out import Secrets
        from .values import Values, Words

        kind = Secrets if cell.kind == "secrets" else Words if cell.kind == "words" else Values
        return kind(
            cell.name(),
            cell.field,
            reading_of(cell.match or "exact", cell.fold),
            digests=self.digests,
            bound=self._max_keys,
            learns_from="arguments" if cell.given else "result",
            timeline=timeline,
            within=cell.within,
        )


def _maker(cell: Cell, timeline: MonotoneClock | None, max_keys: int) -> Callable[[], LiveCell]:
    within, refund = cell.within, cell.refund
    match cell.kind:
        case "tally":
            return lambda: Tally(refund=refund)
        case "stamps":
            assert timeline is not None
            assert within is not None
            return lambda: Stamps(timeline, within, refund=refund)
        case "marks":
            assert timeline is not None
            assert within is not None
            return lambda: Marks(timeline, within, lasting=cell.lasting)
        case "sum":
            return lambda: Sum(
                cell.field or "",
                text=cell.text,
                negative=cell.negative,
                refund=refund,
                estimate=cell.estimate,
                timeline=timeline,
                within=within,
            )
        case "distinct":
            return lambda: Distinct(
                cell.field or "", fold=cell.fold, refund=refund, timeline=timeline, within=within
            )
        case "tokens":
            from .tokens import Tokens

            return lambda: Tokens(saving=cell.saving, refund=refund, timeline=timeline, within=within)
        case "pending":
            from .owed import Pending

            return lambda: Pending(timeline=timeline, within=within)
        case "latest":
            from .order import Latest

            return Latest
        case "step":
            from .order import StepMark

            return lambda: StepMark(timeline=timeline, within=within)
        case "fresh":
            from .fresh import Fresh

            return lambda: Fresh(timeline=timeline, within=within)
        case "flights":
            from .flights import Flights

            return lambda: Flights(timeline=timeline, within=within)
        case "values" | "words" | "secrets":
            raise AssertionError("a source is one piece of memory")
        case "facts":
            assert cell.fact is not None
            from .facts import FactMemory

            fact = cell.fact
            return lambda: FactMemory(fact, bound=max_keys)
    assert_never(cell.kind)
