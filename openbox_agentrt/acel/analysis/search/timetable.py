"""
Say when something happens on a way that a search has found: as early as its windows allow.

The way is gone once more, with ages that say at which step each thing was remembered. What was too old then,
or was not, says how far moments are apart. Such bounds have an earliest solution, or no session goes so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from .engine_machine import Machine
from .explore import Edge, Explored, edges_to
from .named_rows import Called, row_of
from .state import Expiry, State
from .trace_row import TraceRow

__all__ = ("way_to",)

_Bound: TypeAlias = "tuple[int, int, Fraction, bool]"
"""A moment, one from which it is so far away at least, and whether it is more than that."""

# A step of a way, as an age that is in every window.
_STEP = 2.0**-20


def way_to(found: Explored, place: int) -> tuple[list[TraceRow], Called]:
    """
    Write the way to a state as a trace.

    Where time is taken either way, and no waits lead there so, nor calls that last, they are a little longer
    than each window.

    Returns:
        The rows, and how the values of keys in the state are called in them.
    """
    edges = edges_to(found.edges, place)
    (machine,) = found.world.machines
    is_timed = any(edge.step.passing for edge in edges)
    times = _times(machine, edges) if is_timed else [(0.0, 0.0)] * (len(edges) + 1)
    rows: list[TraceRow] = []
    called, now = Called(), 0.0
    for edge, (begins, ends) in zip(edges, times, strict=False):
        if edge.step.passing is None:
            rows += [TraceRow(kind="wait", seconds=begins - now)] if begins > now else []
            row = row_of(found.world, edge.step, called, edge.outcome)
            rows.append(replace(row, seconds=ends - begins) if ends > begins else row)
            now = ends
        called.rename(edge.names)
    last = times[-1][0]
    rows += [TraceRow(kind="wait", seconds=last - now)] if last > now else []
    return rows, called


def _times(machine: Machine, edges: Sequence[Edge]) -> list[tuple[float, float]]:
    """Say when each step of a way begins and ends, and when the next one can."""
    bounds = _bounds(machine, edges)
    count = 2 * len(edges) + 2
    if bounds is not None:
        for little in _littles(machine, count):
            found = _earliest(count, [*_ordered(edges), *bounds], little)
            if found is not None:
                moments = [*map(float, found[1:]), float(found[-1])]
                return list(zip(moments[::2], moments[1::2], strict=True))
    longest = sum(machine.windows.widths, Fraction(0)) + 1
    waits = [longest if edge.step.passing else Fraction(0) for edge in edges]
    passed = [float(sum(waits[: n + 1])) for n in range(len(edges) + 1)]
    return list(zip(passed, passed, strict=True))


def _ordered(edges: Sequence[Edge]) -> Iterator[_Bound]:
    """Let steps happen one after another, and calls alone last."""
    for n, edge in enumerate(edges):
        begins, ends = 2 * n + 1, 2 * n + 2
        yield ends, begins, Fraction(0), False
        yield ends + 1, ends, Fraction(0), False
        if edge.step.kind is None or edge.outcome not in ("ok", "failed"):
            yield begins, ends, Fraction(0), False


def _littles(machine: Machine, moments: int) -> Iterator[Fraction]:
    """Give how much more is more: at first as people write it, then as little as may be needed."""
    unit = machine.windows.unit
    yield from (Fraction(1), Fraction(2) ** math.floor(math.log2(unit / 30)))
    yield Fraction(2) ** math.floor(math.log2(unit / moments))


def _earliest(count: int, bounds: Sequence[_Bound], little: Fraction) -> list[Fraction] | None:
    """Solve bounds by the longest ways between moments; None if there is a circle among these."""
    times = [Fraction(0)] * count
    for _ in range(count):
        changed = False
        for moment, other, least, is_more in bounds:
            earliest = times[other] + least + (little if is_more else 0)
            if earliest > times[moment]:
                times[moment], changed = earliest, True
        if not changed:
            return times
    return None


def _bounds(machine: Machine, edges: Sequence[Edge]) -> list[_Bound] | None:
    """Go a way once more, and say how far its moments are apart; None if it cannot be gone."""
    state = replace(machine.first(), zone=None)
    found: list[_Bound] = []
    for n, edge in enumerate(edges):
        state, moment = machine.windows.ticked(state, _STEP), 2 * n + 1
        passing = edge.step.passing
        meant = () if passing is None else machine.windows.meant(state, passing)
        if meant is None:
            return None
        found += _still(machine, state, moment) if passing is None else _gone(machine, state, moment, meant)
        _, ends = machine.answer(state, edge.step)
        if edge.outcome not in ends:
            return None
        ended = machine.windows.ticked(ends[edge.outcome], _STEP, but_ends=True)
        state = machine.values.renamed(ended, edge.names)
    return [*found, *_still(machine, machine.windows.ticked(state, _STEP), 2 * len(edges) + 1)]


def _still(machine: Machine, state: State, moment: int) -> Iterator[_Bound]:
    """What is no older than its window came at most that long before."""
    for _, age, window in machine.windows.lasting(state):
        yield moment - round(age / _STEP), moment, -Fraction(str(window)), False


def _gone(machine: Machine, state: State, moment: int, passing: Iterable[Expiry]) -> Iterator[_Bound]:
    """What is older than its window came more than that before."""
    ages = {expiry: (age, window) for expiry, age, window in machine.windows.lasting(state)}
    for expiry in passing:
        age, window = ages[expiry]
        yield moment, moment - round(age / _STEP), Fraction(str(window)), True
