"""Time is monotone, windows have one documented boundary, and a clock that fails makes nothing laxer."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    at_most_n_times,
    at_most_total,
    cannot_follow_without,
    chain_precedence,
    existence,
    init,
    max_distinct,
    must_precede,
    mutually_exclusive,
    never_after,
    rate_limit,
    required_before_session_end,
    requires_state,
    response,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.memory.clock import MonotoneClock, steady_clock
from openbox_agentrt.testing import ManualClock

FIRST = {"n": 1, "to": "a"}
THEN = {"n": 1, "to": "b"}


@pytest.mark.parametrize("age", [0, 10, 10.001], ids=["at once", "at the boundary", "after it"])
@pytest.mark.parametrize(
    ("contract", "allowed_while_it_counts"),
    [
        (must_precede("a", "b", within=10), True),
        (cannot_follow_without("b", "a", within=10), True),
        (alternate_precedence("a", "b", within=10), True),
        (chain_precedence("a", "b", within=10), True),
        (init("a", within=10), True),
        (never_after("b", "a", within=10), False),
        (mutually_exclusive("a", "b", within=10), False),
        (at_most_n_times("?", 1, within=10), False),
        (at_most_total("?", "n", 1, within=10), False),
        (max_distinct("?", "to", 1, within=10), False),
        (rate_limit("?", 1, 10), False),
    ],
    ids=lambda value: getattr(value, "spec", None),
)
def test_the_boundary_of_a_window(
    contract: TemporalContract, allowed_while_it_counts: bool, age: float
) -> None:
    """A call that is exactly as old as the window is long still counts; an older one does not."""
    clock = ManualClock(1000)
    session = Session(contracts=[contract], clock=clock.time)
    session.call("a", FIRST)

    clock.advance(age)

    counts = age <= 10
    assert session.reserve("b", THEN).allowed is (allowed_while_it_counts is counts)


@pytest.mark.parametrize("age", [0, 10, 10.001], ids=["at once", "at the boundary", "after it"])
@pytest.mark.parametrize(
    "contract", [required_before_session_end("a", within=10), existence("a", 1, within=10)]
)
def test_what_the_end_requires_may_be_too_old(contract: TemporalContract, age: float) -> None:
    """A success long ago does not fulfil what has to be recent."""
    clock = ManualClock(1000)
    session = Session(contracts=[contract], clock=clock.time)
    session.call("a")

    clock.advance(age)

    assert bool(session.end_session()) is (age > 10)


@pytest.mark.parametrize("age", [0, 10, 10.001], ids=["at once", "at the boundary", "after it"])
def test_a_state_entry_may_be_too_old(age: float) -> None:
    """With `within`, it must have been written recently; what was there at the start was written then."""
    clock = ManualClock(1000)
    session = Session(
        {"role": "admin"}, contracts=[requires_state("x", "role", "admin", within=10)], clock=clock.time
    )
    assert session.reserve("x").allowed

    clock.advance(age)

    assert session.reserve("x").allowed is (age <= 10)
    session.state.set("role", "admin")
    assert session.reserve("x").allowed


def test_a_state_entry_that_was_never_written_is_not_recent() -> None:
    """It has no time, so it cannot be in it."""
    session = Session(contracts=[requires_state("x", "role", None, within=10)])

    assert not session.reserve("x").allowed


def test_a_prerequisite_is_as_old_as_its_success() -> None:
    """Not as its start: an approval that took an hour counts from when it was given."""
    clock = ManualClock(1000)
    session = Session(contracts=[must_precede("approve", "pay", within=60)], clock=clock.time)
    approval = session.reserve("approve")
    clock.advance(3600)
    approval.commit()

    clock.advance(60)

    assert session.reserve("pay").allowed


def test_a_limited_call_is_as_old_as_its_start() -> None:
    """However long it takes."""
    clock = ManualClock(1000)
    session = Session(contracts=[rate_limit("pay", 1, 60)], clock=clock.time)
    first = session.reserve("pay")
    clock.advance(61)
    first.commit()

    assert session.reserve("pay").allowed


@pytest.mark.parametrize("jump", [-1, -3600, -1e9])
def test_a_clock_that_steps_back_stands_still(jump: float) -> None:
    """Setting the clock back neither opens a limit nor keeps it closed beyond its length."""
    now = [1000.0]
    session = Session(contracts=[rate_limit("pay", 1, 60)], clock=lambda: now[0])
    session.call("pay")
    now[0] += jump

    assert not session.reserve("pay").allowed
    now[0] = 1061
    assert session.reserve("pay").allowed


@pytest.mark.parametrize(
    "shown", [float("nan"), math.inf, None, "12", True, 10**400, ValueError("x")], ids=lambda v: repr(v)[:12]
)
def test_a_clock_that_fails_makes_nothing_laxer(shown: Any) -> None:
    """A limit refuses, a prerequisite does not count, and the fault is in the record."""
    broken = [False]

    def clock() -> Any:
        if not broken[0]:
            return 1000.0
        if isinstance(shown, Exception):
            raise shown
        return shown

    contracts = [
        rate_limit("pay", 5, 60),
        at_most_total("spend", "n", 100, within=60),
        max_distinct("send", "to", 5, within=60),
        never_after("late", "marker", within=60),
        must_precede("a", "b", within=60),
        alternate_precedence("a", "c", within=60),
        chain_precedence("a", "d", within=60),
        requires_state("e", "k", 1, within=60),
        at_most_n_times("keyed", 5, key="n", within=60),
    ]
    session = Session({"k": 1}, contracts=contracts, clock=clock)
    session.call("a", {"n": 1})
    broken[0] = True

    for tool in ("pay", "spend", "send", "late", "b", "c", "d", "e", "keyed"):
        reservation = session.reserve(tool, {"n": 1, "to": "x"})
        assert reservation.refusal is not None, tool
        assert "clock" in str(reservation.refusal.broken[0].fault), tool

    broken[0] = False
    assert session.reserve("pay").allowed


def test_a_clock_that_fails_at_the_end_reports_what_it_cannot_tell() -> None:
    """Fulfilled in time, or not: it is not known, so it is reported."""
    broken = [False]
    session = Session(
        contracts=[required_before_session_end("a", within=60)],
        clock=lambda: float("nan") if broken[0] else 1000.0,
    )
    session.call("a")
    broken[0] = True

    (violation,) = session.end_session()

    assert violation.fault == "the clock gave no finite number"


def test_only_contracts_about_time_look_at_the_clock() -> None:
    """A clock is not read for nothing."""
    looks = []

    def clock() -> float:
        looks.append(1)
        return 1000.0

    session = Session(contracts=[at_most_n_times("a", 5), rate_limit("b", 5, 60)], clock=clock)

    session.call("a")
    session.call("c")
    assert not looks
    session.call("b")
    assert looks


def test_a_contract_may_have_a_clock_of_its_own() -> None:
    """As with acel-core; it does not touch the session's time."""
    own = ManualClock(5)
    session = Session(
        contracts=[rate_limit("a", 1, 60, clock=own.monotonic), rate_limit("b", 1, 60)], clock=lambda: 1e9
    )
    session.call("a")
    session.call("b")

    own.advance(61)

    assert session.reserve("a").allowed
    assert not session.reserve("b").allowed


def test_the_default_clock_is_the_time_and_never_goes_back() -> None:
    """Seconds since the epoch, advancing with the monotonic clock."""
    clock = steady_clock()

    first, second = clock(), clock()

    assert abs(first - time.time()) < 5
    assert second >= first


def test_a_timeline_recovers() -> None:
    """A fault lasts until the clock shows a time again; whole numbers are times too."""
    timeline = MonotoneClock(lambda: 7)
    timeline.advance("broken")
    assert timeline.fault == "broken"

    timeline.advance(timeline.look())

    assert timeline.now == 7.0
    assert not timeline.fault


def late_session(**options: Any) -> tuple[Session, ManualClock]:
    """A session in which every `a` is owed a `b` within ten seconds."""
    clock = ManualClock(1000)
    return Session(contracts=[response("a", "b", 10, **options)], clock=clock.time), clock


def test_a_late_answer_is_reported_and_not_refused() -> None:
    """Refusing the answer would not bring it in time."""
    session, clock = late_session()
    session.call("a")
    clock.advance(11)

    answer = session.reserve("b")

    assert answer.allowed
    assert [(v.blame, v.blocked, v.needs) for v in answer.violations] == [(1, False, "b")]
    answer.commit()
    assert session.end_session() == []


def test_an_answer_that_takes_too_long_is_late() -> None:
    """It has answered when it has succeeded, not when it began."""
    session, clock = late_session()
    session.call("a")
    answer = session.reserve("b")
    clock.advance(11)
    answer.commit()

    assert [v.tool for v in session.end_session()] == ["<session-end>"]


def test_what_is_overdue_is_reported_once() -> None:
    """By the next call that the contract is about; by others it goes unnoticed until the end."""
    session, clock = late_session()
    session.call("a")
    session.call("a")
    clock.advance(11)
    session.call("unrelated")
    assert session.violations == []

    session.call("a")
    session.call("a")

    assert [(v.step, v.blame) for v in session.violations] == [(4, 1)]
    assert [v.blame for v in session.end_session()] == [4]


def test_late_answers_per_key() -> None:
    """Each value is owed its own answer."""
    session, clock = late_session(key="id")
    session.call("a", {"id": 1})
    session.call("a", {"id": 2})
    session.call("b", {"id": 2})
    clock.advance(11)

    session.call("a", {"id": 2})
    assert session.violations == []
    session.call("b", {"id": 1})

    assert [v.blame for v in session.violations] == [1]


def test_unanswered_calls_are_bounded() -> None:
    """At the bound, one more is refused rather than an old one forgotten."""
    session, _ = late_session()
    for _ in range(10_000):
        session.call("a")

    reservation = session.reserve("a")

    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].fault == "as many calls are owed an answer as can be kept"
    session.call("b")
    assert session.reserve("a").allowed


def spends() -> list[TemporalContract]:
    return [at_most_total("pay", "n", 5, within=100)]


def names_people() -> list[TemporalContract]:
    return [max_distinct("pay", "to", 1, within=100)]


@pytest.mark.parametrize(
    ("rules", "judged", "ran", "other"),
    [
        pytest.param(spends(), {"n": 0}, {"n": 5}, {"n": 5}, id="nothing"),
        pytest.param(spends(), {"n": 1}, {"n": 5}, {"n": 5}, id="less"),
        pytest.param(names_people(), {"to": []}, {"to": "a"}, {"to": "b"}, id="nobody"),
        pytest.param(names_people(), {"to": "c"}, {"to": "a"}, {"to": "b"}, id="somebody else"),
    ],
)
@pytest.mark.parametrize("ends", ["commit", "abort"])
@pytest.mark.parametrize(("at", "allowed"), [(100, False), (101, True)])
def test_what_ran_counts_from_when_its_call_was_let_through(
    rules: list[TemporalContract],
    judged: dict[str, Any],
    ran: dict[str, Any],
    other: dict[str, Any],
    ends: str,
    at: int,
    allowed: bool,
) -> None:
    """Whatever it was judged with, and however late it ended: as it would have with the same arguments."""
    clock = ManualClock(1000)
    session = Session(contracts=rules, clock=clock.time)
    call = session.reserve("pay", judged)
    clock.advance(60)
    if ends == "commit":
        call.commit(args=ran)
    else:
        call.abort(ran=True, args=ran)
    clock.advance(at - 60)

    assert session.reserve("pay", other).allowed is allowed


def test_what_makes_room_counts_from_when_it_has_succeeded() -> None:
    """Also where nothing was to be given back, or something else."""
    clock = ManualClock(1000)
    contract = at_most_total("pay", "n", 5, within=100, allow_negative=True)
    session = Session(contracts=[contract], clock=clock.time)
    calls = [session.reserve("pay", {"n": n}) for n in (0, -1, -5)]
    clock.advance(60)
    session.call("pay", {"n": 5})
    for call in calls[:2]:
        call.commit(args={"n": -5})
    calls[2].commit()

    clock.advance(90)

    assert session.reserve("pay", {"n": 15}).allowed
