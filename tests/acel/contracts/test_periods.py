"""Limits that count anew with each hour, day, week or month."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest

from openbox_agentrt.acel import Session, max_distinct
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.temporal import (
    at_most_n_times,
    at_most_total,
    must_precede,
    never_after,
)

BERLIN = ZoneInfo("Europe/Berlin")


class ManualClock:
    """A clock that is set by hand."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def at(*moment: int, zone: ZoneInfo | None = None) -> float:
    return datetime(*moment, tzinfo=zone or UTC).timestamp()  # type: ignore[misc, arg-type]


def allowed(session: Session, tool: str = "pay", **args: object) -> bool:
    reservation = session.reserve(tool, args)
    if reservation.allowed:
        reservation.commit()
    return reservation.allowed


def test_a_day_ends_at_midnight_to_the_millisecond() -> None:
    """23:59:59.999 is today, and 00:00:00 is not."""
    clock = ManualClock(at(2026, 5, 4, 12))
    session = Session(contracts=[at_most_n_times("pay", 1, per="day")], clock=clock)

    assert allowed(session)
    clock.now = at(2026, 5, 4, 23, 59, 59) + 0.999
    assert not allowed(session)
    clock.now = at(2026, 5, 5)
    assert allowed(session)


@pytest.mark.parametrize(
    ("day", "hours"),
    [pytest.param((2026, 3, 29), 23, id="summer begins"), pytest.param((2026, 10, 25), 25, id="it ends")],
)
def test_a_day_is_as_long_as_the_clocks_say(day: tuple[int, int, int], hours: int) -> None:
    """A calendar day across a change to and from summer time, in the zone of the contract."""
    midnight = at(*day, zone=BERLIN)
    clock = ManualClock(midnight)
    session = Session(contracts=[at_most_n_times("pay", 1, per="day", tz="Europe/Berlin")], clock=clock)

    assert allowed(session)
    clock.now = midnight + hours * 3600 - 0.001
    assert not allowed(session)
    clock.now = midnight + hours * 3600
    assert allowed(session)


@pytest.mark.parametrize(
    ("per", "last", "first", "told"),
    [
        ("hour", (2026, 5, 4, 13, 59, 59), (2026, 5, 4, 14), "this hour, free again at 14:00 UTC"),
        ("day", (2026, 5, 4, 23, 59, 59), (2026, 5, 5), "today, free again at 00:00 UTC"),
        ("week", (2026, 5, 10, 23, 59, 59), (2026, 5, 11), "this week, free again at 2026-05-11 00:00 UTC"),
        ("month", (2026, 5, 31, 23, 59, 59), (2026, 6, 1), "this month, free again at 2026-06-01 00:00 UTC"),
    ],
)
def test_each_period_says_when_it_is_free_again(
    per: str, last: tuple[int, ...], first: tuple[int, ...], told: str
) -> None:
    """A week begins on Monday."""
    clock = ManualClock(at(2026, 5, 4, 13))
    contract = at_most_total("pay", "amount", 500, key="customer", per=per)  # type: ignore[arg-type]
    session = Session(contracts=[contract], clock=clock)

    assert allowed(session, amount=380, customer="c")
    clock.now = at(*last)
    refusal = session.reserve("pay", {"amount": 121, "customer": "c"}).refusal

    assert refusal is not None
    (broken,) = refusal.broken
    assert broken.remaining == f"120 left of 500 {told}"
    assert broken.retry_after == 1
    assert allowed(session, amount=121, customer="other")
    clock.now = at(*first)
    assert allowed(session, amount=500, customer="c")


@pytest.mark.parametrize(
    ("contract", "first", "then"),
    [
        pytest.param(
            at_most_total("pay", "amount", 500, per="day"), {"amount": 1}, {"amount": 501}, id="sum"
        ),
        pytest.param(at_most_n_times("pay", 0, per="day"), None, {}, id="count"),
        pytest.param(max_distinct("pay", "to", 1, per="day"), {"to": "a"}, {"to": ["b", "c"]}, id="values"),
    ],
)
def test_a_call_that_never_fits_is_not_told_to_wait(
    contract: TemporalContract, first: dict[str, Any] | None, then: dict[str, Any]
) -> None:
    """What is free again at midnight is the budget, and it is too small."""
    session = Session(contracts=[contract], clock=ManualClock(at(2026, 5, 4, 12)))
    if first is not None:
        assert allowed(session, **first)

    refusal = session.reserve("pay", then).refusal

    assert refusal is not None
    (broken,) = refusal.broken
    assert broken.retry_after is None
    assert broken.remaining is not None
    assert broken.remaining.endswith("free again at 00:00 UTC")


def test_a_call_is_given_back_to_the_day_that_it_was_reserved_on() -> None:
    """What ends after midnight changes nothing of the new day."""
    clock = ManualClock(at(2026, 5, 4, 23))
    session = Session(contracts=[at_most_n_times("pay", 1, per="day")], clock=clock)
    pending = session.reserve("pay")

    clock.now = at(2026, 5, 5, 1)
    assert allowed(session)
    pending.abort()

    assert not allowed(session)


def test_a_prerequisite_and_an_exclusion_last_as_long_as_the_day() -> None:
    """A prerequisite is no budget, so nothing is said of when it is free again."""
    clock = ManualClock(at(2026, 5, 4, 12))
    session = Session(
        contracts=[must_precede("verify", "pay", per="day"), never_after("pay", "close", per="day")],
        clock=clock,
    )
    assert allowed(session, "verify")
    assert allowed(session, "pay")
    assert allowed(session, "close")
    refusal = session.reserve("pay").refusal
    assert refusal is not None
    assert refusal.broken[0].remaining == "free again at 00:00 UTC"

    clock.now = at(2026, 5, 5)
    refusal = session.reserve("pay").refusal

    assert refusal is not None
    (broken,) = refusal.broken
    assert (broken.needs, broken.remaining, broken.retry_after) == ("verify", None, None)


def test_a_snapshot_goes_on_in_the_same_day_and_not_in_the_next() -> None:
    """What was counted yesterday is not restored into today."""
    clock = ManualClock(at(2026, 5, 4, 12))
    contract = at_most_n_times("pay", 1, key="c", per="day")
    session = Session(contracts=[contract], clock=clock)
    assert allowed(session, c=1)
    snapshot = session.snapshot()

    assert not allowed(Session.restore(snapshot, [contract], clock=clock), c=1)
    clock.now = at(2026, 5, 5)
    assert allowed(Session.restore(snapshot, [contract], clock=clock), c=1)


@pytest.mark.parametrize("per", ["hour", "day", "week", "month"])
@pytest.mark.parametrize(
    "now", [1_780_315_200_000.0, 1e308, -1e308, 253_402_300_799.0], ids=["ms", "huge", "past", "last"]
)
def test_a_time_of_no_calendar_is_refused(per: Literal["hour", "day", "week", "month"], now: float) -> None:
    """A clock in milliseconds, say, shows no day: the call is refused and says why, and nothing is raised."""
    session = Session(contracts=[at_most_n_times("pay", 1, per=per)], clock=lambda: now)

    call = session.reserve("pay")

    assert not call.allowed
    assert call.refusal is not None
    assert call.refusal.broken[0].fault == "the clock shows no time of the calendar in seconds"
