"""
Let time pass as what it does: something that is remembered gets older than its window.

Windows are all that contracts know of time. So a search need not try waits: it takes either way when
something that is remembered is too old. Freely, each cell may forget the oldest that it remembers at any
time, whatever others do, which is more than any session can; in a zone, only what ages allow that a session
can have. What never happens in either never happens, however long sessions wait, and calls last. A call
that succeeds does so at any time after it began, as far as a zone knows, also while others begin.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from .ages import ages_of, with_ages
from .cell_view import CellView
from .levels import level_of, next_window, past_next
from .state import Expiry, Flight, State, Transition, sort_flights
from .zone import NOW, Pair, Zone, added, apart, can_become, later, patterns, with_end, within

__all__ = ("CellPart", "Windows")

FLYING, ENTRY = -1, -2
"""In the place of a cell: a call under way, and an entry of the session's state."""

ALL, SOME = "all", "some"
"""Of calls that are owed an answer: whether some that are no older are left."""

# What a session remembers as of the end of a call, and not as of its beginning.
_OF_ENDS = frozenset({"marks", "step", "tokens", "fresh", "values", "words"})

# Of ages in a zone, only the order counts. Each is as little as to be in every window.
_RANK = 2.0**-30
_MOST_CLOCKS = 10


class CellPart(NamedTuple):
    """What a cell remembers, of one value of its key if it has one."""

    place: int
    name: str | None
    frozen: Any


class Windows:
    """
    Let what is remembered get older than its windows.

    Args:
        views: The cells.
        entries: Of each entry of the state whose age matters, the windows, in their order.
        flights: The same of calls that are under way.

    Attributes:
        widths: How long they are.
        unit: A time of which all are multiples.
        crowded: Whether a state was left out in which too many ages would have to be followed.
    """

    def __init__(
        self,
        views: Sequence[CellView],
        entries: Mapping[str, Sequence[float]],
        flights: Sequence[float],
    ) -> None:
        self._views = views
        self._windowed = [place for place, view in enumerate(views) if view.cell.within is not None]
        self._entries = entries
        self._flights = flights
        every = {*map(self.window, self._windowed), *flights, *(w for of in entries.values() for w in of)}
        self.widths = [Fraction(str(width)) for width in sorted(every)]
        self.unit = _common_part(self.widths)
        self._units = {width: int(Fraction(str(width)) / self.unit) for width in every}
        self.crowded = False

    def window(self, place: int) -> float:
        """Give the window of a cell that has one."""
        found = self._views[place].cell.within
        assert found is not None
        return found

    def pieces(self, cells: Sequence[Any]) -> Iterator[CellPart]:
        """List what cells with windows remember."""
        for place in self._windowed:
            if self._views[place].is_mapping:
                yield from (CellPart(place, name, frozen) for name, frozen in cells[place])
            else:
                yield CellPart(place, None, cells[place])

    def young(self, piece: CellPart) -> list[int]:
        """List which of what is remembered is no older than the window, the oldest first."""
        view = self._views[piece.place]
        ages = ages_of(view.cell.kind, piece.frozen)
        return [position for position, age in enumerate(ages) if age < view.oldest]

    # What can pass

    def steps(self, state: State) -> Iterator[Transition]:
        """List what can get too old next."""
        every = tuple(self._each(state, whole=True))
        if not every:
            return
        if state.zone is None:
            yield Transition(passing=every)
        else:
            yield from self._in_zone(state, state.zone)
        places = (FLYING, ENTRY) if state.zone is not None else None
        for expiry in self._each(state, whole=False):
            alone = (expiry,)
            if alone != every and (places is None or expiry[0] in places):
                yield Transition(passing=alone, surely=False)

    def _each(self, state: State, *, whole: bool) -> Iterator[Expiry]:
        """Give all that can get too old, or what can do so first of each cell."""
        for piece in self.pieces(state.cells):
            young = self.young(piece)
            kind = self._views[piece.place].cell.kind
            if not young:
                continue
            if kind == "pending" and state.zone is None:
                yield from ((*piece[:2], how) for how in ((ALL,) if whole else (ALL, SOME)))
            elif kind in ("values", "words"):
                yield from ((*piece[:2], piece.frozen[at][1]) for at in young)
            else:
                yield from ((*piece[:2], n) for n in (range(len(young)) if whole else range(1)))
        for flight in state.flying:
            if next_window(self._flights, flight[0]) is not None:
                yield FLYING, None, self._text_of(flight)
        for name, _, age in state.entries:
            if next_window(self._entries.get(name, ()), age) is not None:
                yield ENTRY, name, 0

    def _in_zone(self, state: State, zone: Zone) -> Iterator[Transition]:
        expiries = self._pairs(state.cells)
        # Of what is older, and in a shorter window, more is known early.
        pairs = sorted(expiries, key=lambda pair: (-pair[0], pair[1]))
        for ages, gone in patterns(later(zone), pairs):
            if gone:
                passing = tuple(expiry for pair in pairs if pair in gone for expiry in expiries[pair])
                yield Transition(passing=passing, surely=can_become(zone, ages))

    def _pairs(self, cells: Sequence[Any]) -> dict[Pair, list[Expiry]]:
        """Find what is remembered by its clock in the zone and its window."""
        found: dict[Pair, list[Expiry]] = {}
        for expiry, age, window in self._remembered(cells):
            found.setdefault((round(age / _RANK), self._units[window]), []).append(expiry)
        return found

    def _remembered(self, cells: Sequence[Any]) -> Iterator[tuple[Expiry, float, float]]:
        """Give what cells remember that is no older than its window: its age, and that window."""
        for piece in self.pieces(cells):
            kind = self._views[piece.place].cell.kind
            ages = ages_of(kind, piece.frozen)
            for n, at in enumerate(self.young(piece)):
                which = piece.frozen[at][1] if kind in ("values", "words") else n
                yield (*piece[:2], which), ages[at], self.window(piece.place)

    # What it does

    def passed(self, state: State, expiries: Collection[Expiry]) -> State:
        """Let something get too old. What is too old has yet to be forgotten."""
        gone: dict[tuple[int, str | None], list[int | str]] = {}
        for place, name, which in expiries:
            gone.setdefault((place, name), []).append(which)
        changed: dict[int, dict[str | None, Any]] = {}
        for piece in self.pieces(state.cells):
            if piece[:2] in gone:
                changed.setdefault(piece.place, {})[piece.name] = self._older(piece, gone[piece[:2]])
        cells = self._with(state.cells, changed)
        passed = self._flights_meant(state.flying, gone.get((FLYING, None), ()))
        flying = [
            (past_next(self._flights, flight[0]), *flight[1:]) if n in passed else flight
            for n, flight in enumerate(state.flying)
        ]
        entries = tuple(
            (name, value, past_next(self._entries[name], age) if (ENTRY, name) in gone else age)
            for name, value, age in state.entries
        )
        return replace(state, cells=cells, entries=entries, flying=sort_flights(flying))

    def _text_of(self, flight: Flight) -> str:
        """Name calls under way that are alike but for their ages in one window."""
        return repr((next_window(self._flights, flight[0]), *flight[1:]))

    def _flights_meant(self, flying: Sequence[Flight], texts: Iterable[int | str]) -> list[int]:
        """Find the oldest calls under way that some texts name."""
        found: list[int] = []
        for text in texts:
            alike = (n for n, flight in enumerate(flying) if n not in found and self._text_of(flight) == text)
            found += [next(alike)]
        return found

    def _older(self, piece: CellPart, gone: Sequence[int | str]) -> Any:
        view = self._views[piece.place]
        ages = list(ages_of(view.cell.kind, piece.frozen))
        young = self.young(piece)
        if gone[0] == SOME and ages[young[0]] == 0.0:
            # Of calls whose ages are not followed, others are left.
            return with_ages("pending", piece.frozen, [view.oldest, *ages])
        for at in self._meant(piece, young, gone):
            ages[at] = view.oldest
        return with_ages(view.cell.kind, piece.frozen, ages)

    def _meant(self, piece: CellPart, young: Sequence[int], gone: Sequence[int | str]) -> list[int]:
        if gone[0] in (ALL, SOME) and self._is_owed(piece.place):
            return list(young) if gone[0] == ALL else list(young[:1])
        return [young[w] if isinstance(w, int) else _place_of(piece.frozen, w) for w in gone]

    def _with(self, cells: Sequence[Any], changed: Mapping[int, Mapping[str | None, Any]]) -> tuple[Any, ...]:
        found = list(cells)
        for place, of in changed.items():
            if self._views[place].is_mapping:
                found[place] = tuple((name, of.get(name, frozen)) for name, frozen in cells[place])
            else:
                found[place] = of[None]
        return tuple(found)

    # Ages

    def aged(self, state: State, change: Mapping[float, float] | float, *, but_ends: bool = False) -> State:
        """
        Give other ages to what is no older than its window: by a table, or by so much more.

        With `but_ends`, what is remembered as of the end of a call that ends now stays as it is.
        """
        changed: dict[int, dict[str | None, Any]] = {}
        for piece in self.pieces(state.cells):
            kind = self._views[piece.place].cell.kind
            ages = list(ages_of(kind, piece.frozen))
            stay = but_ends and kind in _OF_ENDS
            for at in (at for at in self.young(piece) if ages[at] or not stay):
                ages[at] = ages[at] + change if isinstance(change, float) else change[ages[at]]
            changed.setdefault(piece.place, {})[piece.name] = with_ages(kind, piece.frozen, ages)
        return replace(state, cells=self._with(state.cells, changed))

    def ticked(self, state: State, step: float, *, but_ends: bool = False) -> State:
        """Let everything be a little older, and nothing too old, see `aged`."""
        aged = self.aged(state, step, but_ends=but_ends)
        entries = tuple((name, value, age + step) for name, value, age in state.entries)
        return replace(
            aged, entries=entries, flying=tuple((flight[0] + step, *flight[1:]) for flight in state.flying)
        )

    def lasting(self, state: State) -> Iterator[tuple[Expiry, float, float]]:
        """Give what is no older than a window: its age, as far as it is counted, and that window."""
        yield from self._remembered(state.cells)
        for n, flight in enumerate(state.flying):
            window = next_window(self._flights, flight[0])
            if window is not None:
                yield (FLYING, None, n), flight[0] - level_of(self._flights, flight[0]), window
        for name, _, age in state.entries:
            windows = self._entries.get(name, ())
            window = next_window(windows, age)
            if window is not None:
                yield (ENTRY, name, 0), age - level_of(windows, age), window

    def meant(self, state: State, expiries: Iterable[Expiry]) -> list[Expiry] | None:
        """Tell of which ages, as `lasting` gives them, is said that they pass; None if there are too few."""
        expiries = list(expiries)
        texts = [which for place, _, which in expiries if place == FLYING]
        found: list[Expiry] = [(FLYING, None, n) for n in self._flights_meant(state.flying, texts)]
        owed = {piece[:2]: len(self.young(piece)) for piece in self.pieces(state.cells)}
        for place, name, which in expiries:
            if place != FLYING and which in (ALL, SOME) and self._is_owed(place):
                count = owed.get((place, name), 0)
                if count < (2 if which == SOME else 1):
                    return None
                found += [(place, name, n) for n in (range(count) if which == ALL else range(1))]
            elif place != FLYING:
                found.append((place, name, which))
        return found

    def _is_owed(self, place: int) -> bool:
        return place >= 0 and self._views[place].cell.kind == "pending"

    def in_zone(self, state: State, zone: Zone) -> State | None:
        """
        Follow the ages of a state from a zone of before, in which ages are known by their ranks.

        Args:
            state: The state.
            zone: The ages before something new was remembered.

        Returns:
            The state with its ages ranked anew, and whatever time has passed; None if it is left out.
        """
        lasted = self.aged(state, _RANK, but_ends=True)
        ages = sorted({age for _, age, _ in self._remembered(lasted.cells)})
        if len(ages) > _MOST_CLOCKS:
            self.crowded = True
            return None
        # Each is one rank older than in the zone of before. Whenever a call ends, it is not before it began.
        clocks = [len(zone) if age == 0.0 else round(age / _RANK) - 1 for age in ages]
        known = added(with_end(zone), clocks)
        ranked = self.aged(lasted, {age: rank * _RANK for rank, age in enumerate(ages, 1)})
        found = within(later(known), self._pairs(ranked.cells))
        assert found is not None
        return replace(ranked, zone=found)

    def zone_after(self, state: State, expiries: Collection[Expiry]) -> Zone:
        """Give the ages of a state with a zone once something, and nothing else, got too old."""
        assert state.zone is not None
        zone: Zone | None = later(state.zone)
        for pair, of in self._pairs(state.cells).items():
            gone = any(expiry in expiries for expiry in of)
            clock, window = pair
            bound = (NOW, clock, -2 * window) if gone else (clock, NOW, 2 * window + 1)
            zone = None if zone is None else apart(zone, *bound)
        assert zone is not None
        return zone


def _common_part(parts: Collection[Fraction]) -> Fraction:
    """Give a number of which some others are multiples."""
    return Fraction(math.gcd(*(p.numerator for p in parts)) or 1, math.lcm(*(p.denominator for p in parts)))


def _place_of(frozen: Sequence[tuple[float, str]], text: str | int) -> int:
    return next(at for at, (_, known) in enumerate(frozen) if known == text)
