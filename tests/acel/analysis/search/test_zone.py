"""Zones of ages, against the sets of ages themselves, counted in quarters of a second."""

from __future__ import annotations

import itertools
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel.analysis.search.zone import (
    NOW,
    Zone,
    added,
    apart,
    can_become,
    first_zone,
    later,
    patterns,
    within,
)

PART = 4
LONGEST = 3
FEW = settings(max_examples=settings().max_examples // 4)
Ages: TypeAlias = frozenset[tuple[int, ...]]

windows = st.integers(1, LONGEST - 1)


def _has(zone: Zone, ages: tuple[int, ...]) -> bool:
    """Tell whether ages are in a zone, by what its bounds mean."""
    clocks = (0, *ages)
    return all(
        one - other < bound // 2 * PART or (bound & 1 and one - other == bound // 2 * PART)
        for (one, row), (other, place) in itertools.product(
            zip(clocks, zone, strict=True), zip(clocks, range(len(clocks)), strict=True)
        )
        for bound in (row[place],)
    )


def _waited(ages: Ages) -> Ages:
    return frozenset(tuple(age + wait for age in some) for some in ages for wait in range(LONGEST * PART + 1))


@FEW
@given(steps=st.lists(st.tuples(st.booleans(), windows), min_size=1, max_size=3))
def test_a_zone_has_the_ages_that_sessions_can_have(steps: list[tuple[bool, int]]) -> None:
    """Calls that are remembered, and windows of theirs that pass or do not: no ages more, and none less."""
    zone = first_zone()
    ages: Ages = frozenset({()})
    remembered: list[int] = []
    for passes, window in steps:
        remembered.append(window)
        zone = added(zone, [NOW, *range(1, len(remembered))])
        ages = frozenset((0, *some) for some in ages)
        pairs = [(clock, remembered[-clock]) for clock in range(len(remembered), 0, -1)]
        waited = _waited(ages)
        found = {gone: after for after, gone in patterns(later(zone), pairs)}
        real = {frozenset((n, w) for n, w in pairs if some[n - 1] > w * PART) for some in waited}

        assert set(found) == real

        chosen = max(found, key=lambda gone: (len(gone) if passes else -len(gone), sorted(gone)))
        zone = found[chosen]
        ages = frozenset(
            some for some in waited if frozenset((n, w) for n, w in pairs if some[n - 1] > w * PART) == chosen
        )

        assert all(_has(zone, some) for some in ages)


@given(window=windows, other=windows)
def test_from_all_ages_some_time_leads_to_where_everything_is_too_old(window: int, other: int) -> None:
    """Whether one of two passes first depends on how long ago each was; that both pass does not."""
    both = within(later(added(added(first_zone(), [NOW]), [NOW, 1])), [])
    old = None if both is None else within(later(added(both, [1, 2])), [(1, window), (2, other)])
    assert old is not None

    every = {gone: after for after, gone in patterns(later(old), [(2, other), (1, window)])}

    assert can_become(old, every[frozenset({(1, window), (2, other)})])
    assert can_become(old, every[frozenset()]) is True


def test_bounds_that_contradict_leave_no_ages() -> None:
    zone = later(added(first_zone(), [NOW]))
    young = within(zone, [(1, 2)])

    assert young is not None
    assert apart(young, NOW, 1, -4) is None
    assert apart(young, NOW, 1, -3) is not None
