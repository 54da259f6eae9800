"""
Fill a trace with what conditions read, until a real session shows what a search has only found possible.

A search takes a condition that it does not follow either way. So the arguments and the facts that it reads
are missing in a trace, and a session refuses it. Here they are put in: calls that tell the facts, and values
of the shape that the conditions give away, changed step by step towards what is looked for. What a session
answers is all that counts; that nothing was found so says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ...condition.condition import Condition
from ...condition.fact import Fact
from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ...match.names import normal_name
from ..conditions.token_reader import NotUnderstoodError
from ..search.trace_row import TraceRow
from .expression import read_expression
from .made_values import ValueMaker
from .value_shapes import Shape, ShapeReader

__all__ = ("Distance", "TraceFilling", "fill", "filling_of")

Distance: TypeAlias = "tuple[int, ...]"
"""Says how far a trace as it happened is from what is looked for; it is there if all is 0."""

_MOST_TOLD = 8
_STALE = 60


@dataclass(slots=True)
class _Place:
    """A place in a trace that conditions read: an argument of a call, or what it tells."""

    row: int
    shape: Shape
    path: str
    in_result: bool = False


@dataclass(slots=True)
class TraceFilling:
    """
    A trace, and what conditions read of it.

    Attributes:
        rows: The trace, with calls that tell facts put in.
        places: The places whose values are chosen.
        values: The value of each.
        maker: What makes them.
    """

    rows: list[TraceRow]
    places: list[_Place]
    values: list[Any]
    maker: ValueMaker = field(repr=False)

    def written(self) -> list[TraceRow]:
        """Write the trace with the values in their places."""
        rows = list(self.rows)
        for place, value in zip(self.places, self.values, strict=True):
            row = rows[place.row]
            path = place.path.split(".") if place.path else []
            if place.in_result:
                rows[place.row] = replace(row, result=_with(row.result, path, value))
            else:
                rows[place.row] = replace(row, args=_with(row.args or {}, path, value))
        return rows

    @property
    def size(self) -> int:
        """How long the values are."""
        return len(repr(self.values))

    def anew(self) -> TraceFilling:
        """Give the same with other values."""
        made = [_filled(_given(self.rows[p.row], p), self.maker.made(p.shape)) for p in self.places]
        return replace(self, values=made)

    def changed(self) -> TraceFilling:
        """Give the same with one value changed."""
        number = self.maker.chosen(range(len(self.places)))
        values = list(self.values)
        values[number] = self.maker.changed(self.places[number].shape, values[number])
        return replace(self, values=values)


def fill(
    filling: TraceFilling,
    play: Callable[[list[TraceRow]], Sequence[TraceRow]],
    distance: Callable[[Sequence[TraceRow], Sequence[TraceRow]], Distance],
    most: int,
) -> bool:
    """
    Change a filling towards what is looked for.

    Args:
        filling: What to begin with.
        play: Lets a trace happen in a session.
        distance: Says how far a trace is, by how it was meant and how it happened.
        most: How many sessions are tried.

    Returns:
        Whether a session shows it.
    """
    best, near, since = filling, None, 0
    for number in range(most if filling.places else 1):
        if number - since > _STALE:
            best, near, since = best.anew(), None, number
        tried = best if near is None else best.changed()
        rows = tried.written()
        far = distance(rows, play(rows))
        if not any(far):
            return True
        since = number if near is None or far < near else since
        # As near, the smaller one is better, and a larger one a way to what is nearer.
        if (
            near is None
            or far < near
            or (far == near and (tried.size <= best.size or filling.maker.happens(0.4)))
        ):
            best, near = tried, far
    return False


def filling_of(
    rows: Sequence[TraceRow],
    contracts: Iterable[TemporalContract],
    now: float,
    ways: Mapping[str, Sequence[TraceRow]] | None = None,
) -> TraceFilling:
    """
    Find what the conditions of contracts read of a trace, and choose values for all of it.

    Args:
        rows: The trace.
        contracts: The contracts.
        now: The time at which it begins.
        ways: Of tools, traces to a call that is let through.
    """
    asking = [c for c in contracts if isinstance(c, Declaration) and c.conditions and not c.asked_at_end]
    asked = _Asked(asking, ways or {})
    every = asked.with_told(rows)
    shapes = asked.shapes(every)
    maker = ValueMaker(now, shapes.spans)
    places = list(asked.places(every, shapes))
    for place in places:
        if (given := _given(every[place.row], place)) is not None:
            place.shape.note(given)
    return TraceFilling(every, places, [None] * len(places), maker).anew()


class _Asked:
    """Know what conditions read of calls."""

    def __init__(self, contracts: Sequence[Declaration], ways: Mapping[str, Sequence[TraceRow]]) -> None:
        self._contracts = contracts
        self._ways = ways
        facts = (fact for c in contracts for condition in c.conditions for fact in condition.facts)
        self._facts = {fact.label: fact for fact in facts}

    def _conditions(self, tool: str) -> Iterator[Condition]:
        for contract in self._contracts:
            # A prerequisite counts whatever a condition says.
            if contract.everywhere or any(
                role.strict and role.selector.on(tool) is not False for role in contract.roles
            ):
                yield from contract.conditions

    def with_told(self, rows: Sequence[TraceRow]) -> list[TraceRow]:
        """Put calls in that tell what is read, each before the first call that reads it."""
        known: set[str] = set()
        found: list[TraceRow] = []
        for row in rows:
            self._put(row, known, found, _MOST_TOLD)
        return found

    def _put(self, row: TraceRow, known: set[str], found: list[TraceRow], left: int) -> None:
        """Put a row behind others, and before it those that tell what it reads."""
        facts = [fact for condition in self._conditions(row.tool) for fact in condition.facts]
        for fact in facts if row.kind == "call" and left else ():
            if fact.label not in known:
                known.add(fact.label)
                for before in self._way_to(fact.tools[0], {row.tool for row in found}):
                    self._put(before, known, found, left - 1)
        found.append(row)
        known |= self._told(row.tool) if row.kind == "call" else set()

    def _way_to(self, tool: str, called: Collection[str]) -> Iterator[TraceRow]:
        """Give the calls that lead to one of a tool, without those that there were."""
        way = self._ways.get(tool, ())
        yield from (row for row in way[:-1] if row.kind == "call" and row.tool not in called)
        yield way[-1] if way else TraceRow(kind="call", tool=tool, args={})

    def _told(self, tool: str) -> set[str]:
        return {fact.label for fact in self._told_by(tool)}

    def _told_by(self, tool: str) -> Iterator[Fact]:
        return (fact for fact in self._facts.values() if normal_name(tool) in fact.tools)

    def shapes(self, rows: Iterable[TraceRow]) -> ShapeReader:
        """Find what the values look like that are read of the calls of a trace."""
        found = ShapeReader()
        for tool in dict.fromkeys(row.tool for row in rows if row.kind == "call"):
            for condition in self._conditions(tool):
                try:
                    found.read(tool, read_expression(condition.form), condition.facts)
                except NotUnderstoodError:
                    # Without it there is less to go by.
                    continue
            for fact in self._told_by(tool):
                found.tell(fact, tool)
        return found

    def places(self, rows: Sequence[TraceRow], shapes: ShapeReader) -> Iterator[_Place]:
        """Find the places of a trace that are read."""
        for number, row in enumerate(rows):
            if row.kind != "call":
                continue
            args = shapes.args.get(row.tool, Shape()).found()
            yield from (_Place(number, inner, name) for name, inner in args.fields.items())
            if row.outcome == "ok":
                yield from self._told_places(number, row.tool, shapes)

    def _told_places(self, number: int, tool: str, shapes: ShapeReader) -> Iterator[_Place]:
        for fact in self._told_by(tool):
            values = shapes.facts.get(fact.label, Shape()).found().fields
            if fact.key is not None and fact.key.of == "result":
                yield _Place(number, shapes.keys[fact.label], fact.key.path or "", in_result=True)
            for name, source in fact.values:
                if source.of == "result" and name in values:
                    yield _Place(number, values[name], source.path or "", in_result=True)


def _given(row: TraceRow, place: _Place) -> Any:
    """Give the value that a trace has in a place, if it has one."""
    given = row.result if place.in_result else row.args
    for part in place.path.split(".") if place.path else ():
        given = given.get(part) if isinstance(given, Mapping) else None
    return given


def _filled(given: Any, made: Any) -> Any:
    """Fill a value with what it lacks."""
    if isinstance(given, dict) and isinstance(made, dict):
        return {**made, **{name: _filled(inner, made.get(name)) for name, inner in given.items()}}
    return made if given is None else given


def _with(whole: Any, path: Sequence[str], value: Any) -> Any:
    """Put a value into a place; behind a ``*``, an element of a list into each of its places."""
    if not path:
        return value
    first, *rest = path
    if first == "*":
        old = whole if isinstance(whole, list) else []
        new = value if isinstance(value, list) else [value]
        # Of several lists of parts of the elements, one may be shorter.
        count = max(len(old), len(new)) if new else len(old)
        return [
            _with(old[n] if n < len(old) else None, rest, new[min(n, len(new) - 1)]) if new else old[n]
            for n in range(count)
        ]
    if first.isdigit():
        return [_with(whole[0] if isinstance(whole, list) and whole else None, rest, value)]
    inner = whole if isinstance(whole, dict) else {}
    return {**inner, first: _with(inner.get(first), rest, value)}
