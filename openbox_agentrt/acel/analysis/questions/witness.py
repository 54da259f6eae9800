"""A trace that was found is tried on a real session of all contracts before anybody is told of it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...._plain.amounts import Amount
from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ...engine.plan.rule_set import RuleSet
from ...match.names import normal_name
from ...match.selector import ById
from ...memory.clock import SetClock
from ...memory.periodic import span_of
from ...reservation import Reservation
from ...session import Session, engine_of
from ..calls.alphabet import unit_of
from ..named import name_of
from ..rules.subject import Surroundings, subject_of
from ..search.trace_row import TraceRow

__all__ = ("UNSHOWN", "confirmed", "played", "played_along", "until_refused")

UNSHOWN = "no arguments and facts were found with which a session shows it"


class _Player:
    """Let rows happen in a session."""

    def __init__(
        self, contracts: Sequence[TemporalContract], state: Mapping[str, Any], under: Surroundings | None
    ) -> None:
        under = Surroundings(dict(subject_of(contracts))) if under is None else under
        self._clock = SetClock(under.start)
        self._flying: list[tuple[TraceRow, Reservation]] = []
        self._session = Session(
            state,
            contracts=_compiled(tuple(map(ById, contracts))),
            clock=self._clock,
            halt_on_violation=False,
            subject=under.subject or None,
            trace_window=0,
            max_trace=0,
            fleet="alone",
        )

    def play(self, row: TraceRow) -> TraceRow:
        """Let one row happen, and tell how it did."""
        if row.kind == "wait":
            self._clock.now += row.seconds
            self._clock.now = span_of(*row.until, self._clock.now)[1] if row.until else self._clock.now
            return row
        if row.kind == "write":
            assert row.entry is not None
            return self._written(row, *row.entry)
        if row.kind == "end":
            unmet = engine_of(self._session).store.unmet()
            return replace(row, by=tuple(name_of(breach.contract) for breach in unmet))
        return self._ended(row) if row.kind == "finish" else self._called(row)

    def _ended(self, row: TraceRow) -> TraceRow:
        place = next((p for p, (of, _) in enumerate(self._flying) if _same_call(of, row)), None)
        if place is None:
            return replace(row, outcome="refused")
        self._flying.pop(place)[1].abort(ran=True)
        return row

    def _called(self, row: TraceRow) -> TraceRow:
        call = self._session.reserve(row.tool, row.args)
        if not call.allowed:
            broken = () if call.refusal is None else call.refusal.broken
            return replace(row, outcome="refused", result=None, by=tuple(b.id or b.contract for b in broken))
        watched = tuple(v.id or v.spec for v in call.violations)
        self._clock.now += row.seconds
        match row.outcome:
            case "started":
                self._flying.append((row, call))
            case "failed":
                call.abort(ran=True)
            case _:
                call.commit(result=row.result)
        return replace(row, outcome="ok" if row.outcome == "refused" else row.outcome, by=watched)

    def _written(self, row: TraceRow, entry: str, value: Any) -> TraceRow:
        before = self._session.state.get(entry)
        if isinstance(value, dict) and isinstance(before, dict):
            value = {**before, **value}
        self._session.state.set(entry, value)
        return row


@functools.lru_cache(maxsize=64)
def _compiled(contracts: tuple[ById, ...]) -> RuleSet:
    """Compile copies of contracts once, so that those of whoever asks stay as they are."""
    own: list[Any] = [copy.copy(contract.it) for contract in contracts]
    return RuleSet(own, alone=True)


def played(
    rows: Iterable[TraceRow],
    contracts: Sequence[TemporalContract],
    state: Mapping[str, Any],
    under: Surroundings | None = None,
) -> list[TraceRow]:
    """
    Let a trace happen in a new session of all contracts, and tell how each row did.

    An amount of nothing is written as the smallest that there is, where that goes as well.

    Args:
        rows: The trace.
        contracts: The contracts.
        state: The state that the session begins with.
        under: What the session is about, and when it begins.
    """
    rows = list(rows)
    near = _near(rows, contracts)
    return _best_read(rows, lambda some: _played(some, near, state, under), near)


def played_along(
    rows: Sequence[TraceRow],
    contracts: Sequence[TemporalContract],
    state: Mapping[str, Any],
    under: Surroundings | None = None,
) -> list[TraceRow]:
    """Let a trace happen as far as it goes: to the first row that ends otherwise, or to its last row."""
    player = _Player(_near(rows, contracts), state, under)
    found: list[TraceRow] = []
    for row in rows:
        found.append(player.play(row))
        if found[-1].outcome != row.outcome:
            break
    return found


def confirmed(
    rows: Sequence[TraceRow], contracts: Sequence[TemporalContract], state: Mapping[str, Any], *, by: str
) -> tuple[TraceRow, ...] | None:
    """
    Do as `played`, and give the trace if all went as it says, and a contract objected to its last row.

    It does not where a call is refused for something that a search takes either way, such as a condition.
    """
    done = played(rows, contracts, state)
    same = all(row.outcome == found.outcome for row, found in zip(rows[:-1], done[:-1], strict=True))
    return tuple(done) if same and by in done[-1].by else None


def until_refused(
    rows: Iterable[TraceRow], contracts: Sequence[TemporalContract], state: Mapping[str, Any]
) -> list[TraceRow]:
    """Do as `played`, as far as to the first call that is refused."""
    rows = list(rows)
    near = _near(rows, contracts)
    return _best_read(rows, lambda some: _until_refused(some, near, state), near)


def _played(
    rows: Sequence[TraceRow],
    contracts: Sequence[TemporalContract],
    state: Mapping[str, Any],
    under: Surroundings | None,
) -> list[TraceRow]:
    player = _Player(contracts, state, under)
    return [player.play(row) for row in rows]


def _until_refused(
    rows: Sequence[TraceRow], contracts: Sequence[TemporalContract], state: Mapping[str, Any]
) -> list[TraceRow]:
    player = _Player(contracts, state, None)
    found = []
    for row in rows:
        found.append(player.play(row))
        if found[-1].outcome == "refused":
            break
    return found


def _near(rows: Sequence[TraceRow], contracts: Iterable[TemporalContract]) -> list[TemporalContract]:
    """Leave out the contracts that no row is about: of many, a session takes long to make."""
    tools = {normal_name(row.tool) for row in rows if row.tool}
    ends = any(row.kind == "end" for row in rows)
    return [contract for contract in contracts if _is_near(contract, tools, ends)]


def _is_near(contract: TemporalContract, tools: Collection[str], ends: bool) -> bool:
    if not isinstance(contract, Declaration) or contract.everywhere or (ends and contract.at_end):
        return True
    if contract.names is not None:
        return not contract.names.isdisjoint(tools)
    return any(role.selector.on(tool) is not False for role in contract.roles for tool in tools)


def _best_read(
    rows: list[TraceRow],
    play: Callable[[Sequence[TraceRow]], list[TraceRow]],
    contracts: Sequence[TemporalContract],
) -> list[TraceRow]:
    plain = play(rows)
    unit = unit_of(contract for contract in contracts if isinstance(contract, Declaration))
    filled = [replace(row, args=_without_nothing(row.args, unit)) for row in rows]
    if filled == rows:
        return plain
    found = play(filled)
    return found if list(map(_ending, found)) == list(map(_ending, plain)) else plain


def _without_nothing(value: Any, unit: Amount) -> Any:
    """Write 1 in the last place of the limits for each amount of 0. Texts are no amounts."""
    if isinstance(value, dict):
        return {name: _without_nothing(inner, unit) for name, inner in value.items()}
    return unit if type(value) is int and value == 0 else value


def _same_call(one: TraceRow, other: TraceRow) -> bool:
    return (one.tool, one.args) == (other.tool, other.args)


def _ending(row: TraceRow) -> tuple[str, tuple[str, ...]]:
    return row.outcome, row.by
