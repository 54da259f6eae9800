"""Describe what a session can be in, in a search, and what can happen next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ...._plain.calendar import Per
from ..calls.call_kind import CallKind
from .zone import Zone

__all__ = (
    "Answer",
    "Expiry",
    "Flight",
    "Outcome",
    "State",
    "Transition",
    "Try",
    "aged_flights",
    "hashable",
    "sort_flights",
    "with_entry",
    "with_flight",
    "without_flight",
)

Outcome: TypeAlias = Literal["ok", "failed", "lost", "started", "refused"]

Flight: TypeAlias = "tuple[float, CallKind, tuple[tuple[str, str], ...]]"
"""A call that is under way: for how long, its kind, and the values of its keys."""


Expiry: TypeAlias = "tuple[int, str | None, int | str]"
"""
Something that gets older than its window: the place of the cell, the value of its key, and which of what it
remembers, counted from the oldest one that is no older, or the text. See `passing`.
"""


@dataclass(frozen=True, slots=True)
class State:
    """
    Hold everything that a session remembers.

    Attributes:
        cells: What each cell does.
        entries: The entries of the session's state, and for how long each has been there.
        shut: Whether nothing is admitted any more.
        flying: The calls that are under way and that a contract counts, and for how long each has been.
        zone: Which ages what the cells remember can have together; None if that is not followed.
    """

    cells: tuple[Any, ...]
    entries: tuple[tuple[str, Any, float], ...]
    shut: bool = False
    flying: tuple[Flight, ...] = ()
    zone: Zone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """
    Something that can happen next: a call, its end, a time that passes, or code that writes an entry.

    Attributes:
        kind: Of a call, its kind.
        values: Of a call, the values of its keys by path.
        seconds: Of a time, how long.
        passing: Of a time of whatever length, what gets older than its window, and nothing else does.
        surely: Of such a time, whether it can pass so in every session that is in the state.
        period: Of a time, the period of the calendar and its time zone that it ends.
        ended: Whether it is not the call that happens, but its end, with a failure.
        entry: Of what is written, the entry, its value, and which of a mapping's.
    """

    kind: CallKind | None = None
    values: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    passing: tuple[Expiry, ...] | None = None
    surely: bool = True
    period: tuple[Per, str] | None = None
    ended: bool = False
    entry: tuple[str, Any, str | None] | None = None

    @property
    def is_whole(self) -> bool:
        """Tell whether it is a call that has every argument that is a key."""
        given = dict(self.values)
        return self.kind is not None and all(
            path in given for path, _ in self.kind.slots if path not in dict(self.kind.results)
        )


@dataclass(slots=True)
class Try:
    """
    Hold the answer of the engine to a call.

    Attributes:
        broken: The contracts that it breaks.
        blocking: Those of them for which it is refused.
        admitted: Whether it was let through.
    """

    broken: frozenset[int]
    blocking: frozenset[int]
    admitted: bool


Answer: TypeAlias = "tuple[Try | None, dict[Outcome, State]]"
"""What is said of a step, and the state after each way in which it can end."""


def sort_flights(flying: Iterable[Flight]) -> tuple[Flight, ...]:
    """Put calls that are under way into an order, the oldest first."""
    return tuple(sorted(flying, key=lambda flight: (-flight[0], flight[1].tool, repr(flight[1:]))))


def with_flight(state: State, flight: Flight) -> State:
    """Let one more call be under way."""
    return replace(state, flying=sort_flights((*state.flying, flight)))


def without_flight(state: State, kind: CallKind, values: tuple[tuple[str, str], ...]) -> State:
    """Let the oldest of some calls that are alike end."""
    place = next(p for p, flight in enumerate(state.flying) if flight[1:] == (kind, values))
    return replace(state, flying=state.flying[:place] + state.flying[place + 1 :])


def aged_flights(flying: Iterable[Flight], seconds: float, oldest: float) -> tuple[Flight, ...]:
    """Let time pass for calls that are under way, up to an age from which all are alike."""
    return sort_flights((min(age + seconds, oldest), kind, values) for age, kind, values in flying)


def with_entry(state: State, name: str, value: Any, of: str | None) -> State:
    """Set an entry of a session's state, or what a mapping in it holds `of` something."""
    known = {entry: (value, age) for entry, value, age in state.entries}
    if of is not None:
        before = known.get(name, ((), 0.0))[0]
        inner = dict(before) if isinstance(before, tuple) else {}
        value = hashable({**inner, of: value})
    known[name] = (value, 0.0)
    entries = tuple((entry, value, age) for entry, (value, age) in sorted(known.items()))
    return replace(state, entries=entries)


def hashable(value: Any) -> Any:
    """Write a mapping as something that a state can hold."""
    return tuple(sorted(value.items())) if isinstance(value, dict) else value
