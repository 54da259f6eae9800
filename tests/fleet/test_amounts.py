"""Amounts are whole units that every store adds exactly, or they are refused."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.fleet import Fleet, UnitsError
from openbox_agentrt.fleet.amounts import LARGEST, from_units, scale_of, to_units
from tests.fleet.plans import spend


def test_three_tenths_fit_exactly(fleet: Fleet) -> None:
    """0.1 three times is 0.3, and not a hair more."""
    scale = scale_of(Decimal("0.3"))
    plan = spend(to_units(Decimal("0.1"), scale), to_units(Decimal("0.3"), scale))

    assert [fleet.reserve(plan, started=True).lease is not None for _ in range(4)] == [True] * 3 + [False]


@pytest.mark.parametrize("amount", ["9007199254740993", "1e20", "-1e20", "Infinity", "NaN", "1e999999"])
def test_what_cannot_be_added_exactly_is_refused(amount: str) -> None:
    """It never gets to a store."""
    with pytest.raises(UnitsError, match="exactly"):
        to_units(Decimal(amount), 2)


def test_too_many_decimals_are_refused() -> None:
    """They would be lost."""
    for amount in ("0.001", "1e-999999"):
        with pytest.raises(UnitsError, match="more than 2 decimals"):
            to_units(Decimal(amount), 2)


@given(st.integers(-LARGEST, LARGEST), st.integers(0, 12))
def test_units_and_amounts_are_one(units: int, scale: int) -> None:
    """Nothing is lost on the way there and back."""
    assert to_units(from_units(units, scale), scale) == units


def test_a_sum_beyond_what_is_exact_refuses_from_then_on(fleet: Fleet) -> None:
    """By force, more may be put in than can be counted: then nobody is told that something is left."""
    fleet.reserve(spend(LARGEST, LARGEST), started=True, force=True)
    fleet.reserve(spend(1, LARGEST), started=True, force=True)

    answer = fleet.reserve(spend(0, LARGEST))

    assert answer.lease is None
    assert answer.broken[0].unread
