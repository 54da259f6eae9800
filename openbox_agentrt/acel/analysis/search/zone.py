"""
Bound which ages several moments can have together: each of them, and how far each two are apart.

This is a difference bound matrix, as checkers of timed automata use it: one zone stands for sessions with
whatever waits. It is exact: bounds are whole numbers of a unit of which every window is a multiple, and what
is less is told from what is at most so much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

__all__ = (
    "NOW",
    "Pair",
    "Zone",
    "added",
    "apart",
    "can_become",
    "first_zone",
    "later",
    "patterns",
    "with_end",
    "within",
)

Zone: TypeAlias = "tuple[tuple[int, ...], ...]"
"""
Of the clocks in the row and the column, how much more the first shows at most.

A bound of `n` units is 2n + 1, or 2n if it is less than that. Clock 0 shows nothing; the others are ages,
and what has yet to come is younger than nothing.
"""

Pair: TypeAlias = "tuple[int, int]"
"""A clock, and a window in units that it can pass."""

NOW = 0
_NONE = 1 << 60
_SAME = 1


def first_zone() -> Zone:
    """Give the zone in which there are no moments."""
    return ((_SAME,),)


def later(zone: Zone) -> Zone:
    """Let any time pass."""
    return (zone[0], *((_NONE, *row[1:]) for row in zone[1:]))


def added(zone: Zone, clocks: Sequence[int]) -> Zone:
    """Give the zone of some clocks, in their order; where one is `NOW`, of a moment that is now."""
    places = (NOW, *clocks)
    return tuple(tuple(zone[a][b] for b in places) for a in places)


def with_end(zone: Zone) -> Zone:
    """Add a clock behind the others: of the end of a call that begins now, whenever it ends."""
    return (*((*row, _NONE) for row in zone), (*zone[NOW], _SAME))


def apart(zone: Zone, one: int, other: int, bound: int) -> Zone | None:
    """Let one clock show more than another by a bound at most; None if no ages are left."""
    if zone[one][other] <= bound:
        return zone
    if _sum(zone[other][one], bound) < _SAME:
        return None
    into = [_sum(row[one], bound) for row in zone]
    end = zone[other]
    return tuple(
        tuple(min(old, _sum(start, to)) for old, to in zip(row, end, strict=True))
        for row, start in zip(zone, into, strict=True)
    )


def within(zone: Zone | None, pairs: Iterable[Pair]) -> Zone | None:
    """Let some clocks show no more than their windows."""
    for clock, window in pairs:
        zone = None if zone is None else apart(zone, clock, NOW, 2 * window + 1)
    return zone


def patterns(zone: Zone, pairs: Sequence[Pair]) -> Iterator[tuple[Zone, frozenset[Pair]]]:
    """Give each set of pairs that can have passed, with the ages in which just these have."""
    if not pairs:
        yield zone, frozenset()
        return
    (clock, window), *others = pairs
    still = apart(zone, clock, NOW, 2 * window + 1)
    if still is not None:
        yield from patterns(still, others)
    past = apart(zone, NOW, clock, -2 * window)
    if past is not None:
        yield from ((ages, gone | {(clock, window)}) for ages, gone in patterns(past, others))


def can_become(zone: Zone, after: Zone) -> bool:
    """Tell whether from all ages of a zone, some time leads to ages of another one."""
    return all(
        mine <= bound
        for row, bounds in zip(zone[1:], after[1:], strict=True)
        for mine, bound in zip(row, bounds, strict=True)
    )


def _sum(one: int, other: int) -> int:
    if one >= _NONE or other >= _NONE:
        return _NONE
    return (one & ~1) + (other & ~1) | (one & other & 1)
