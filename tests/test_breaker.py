"""The circuit breaker."""

from __future__ import annotations

import pytest

from openbox_agentrt import _breaker as module
from openbox_agentrt._breaker import Breaker, Permit
from openbox_agentrt.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breaker(clock: ManualClock) -> Breaker:
    return Breaker(failures=3, first_pause=1.0, longest_pause=8.0, first_limit=2.0, clock=clock.monotonic)


def admitted(breaker: Breaker) -> Permit:
    """Leave as a report gets it: when closed, or as the probe."""
    permit = breaker.to_tell()
    assert permit is not None
    return permit


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures of one moment open it, except where the test is about that."""
    monkeypatch.setattr(module, "SHORTEST_OUTAGE", 0.0)


def fail(breaker: Breaker, times: int = 3) -> None:
    for _ in range(times):
        breaker.failed(admitted(breaker))


def test_it_opens_after_failures_in_a_row(breaker: Breaker) -> None:
    """Two are not enough, and then reports wait."""
    fail(breaker, 2)
    assert breaker.to_tell() is not None
    assert not breaker.is_open

    fail(breaker, 1)

    assert breaker.is_open
    assert breaker.to_tell() is None


def test_open_it_keeps_a_question_short_and_keeps_none_back(breaker: Breaker) -> None:
    """What a policy blocks must not run unasked because others were not answered."""
    assert breaker.to_ask().limit is None
    fail(breaker)

    for _ in range(3):
        permit = breaker.to_ask()
        assert permit.limit == 2.0
        breaker.failed(permit)
    assert breaker.to_tell() is None


def test_an_answer_in_between_starts_the_count_again(breaker: Breaker) -> None:
    """One fault in a hundred never opens it."""
    for _ in range(100):
        fail(breaker, 2)
        breaker.answered()

    assert not breaker.is_open


def test_many_failures_of_one_moment_do_not_open_it(
    breaker: Breaker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset that cuts off a hundred requests is over before their retries."""
    monkeypatch.setattr(module, "SHORTEST_OUTAGE", 0.5)
    fail(breaker, 100)
    clock.advance(0.4)
    fail(breaker, 100)
    assert not breaker.is_open

    clock.advance(0.1)
    fail(breaker, 1)

    assert breaker.is_open


def test_one_wait_to_the_end_opens_nothing(breaker: Breaker, clock: ManualClock) -> None:
    """A Core that is slow for one event may be well for the next."""
    permit = admitted(breaker)
    clock.advance(30)

    breaker.failed(permit)

    assert not breaker.is_open


def test_half_open_it_lets_one_probe_through(breaker: Breaker, clock: ManualClock) -> None:
    """Also for a report, which waits while another one is out."""
    fail(breaker)
    clock.advance(1.0)

    probe = admitted(breaker)

    assert probe.limit == 2.0
    assert breaker.to_tell() is None


def test_a_probe_that_is_answered_closes_it(breaker: Breaker, clock: ManualClock) -> None:
    """And the next outage starts from the beginning."""
    fail(breaker)
    clock.advance(1.0)
    breaker.failed(admitted(breaker))
    clock.advance(2.0)
    admitted(breaker)

    breaker.answered()

    assert admitted(breaker).limit is None
    fail(breaker)
    clock.advance(1.0)
    assert admitted(breaker).limit == 2.0
    assert breaker.is_open


def test_a_probe_that_fails_doubles_the_pause_and_its_time(breaker: Breaker, clock: ManualClock) -> None:
    """Up to a longest pause; a slow Core is found in the end."""
    fail(breaker)
    seen = []
    for pause in (1.0, 2.0, 4.0, 8.0, 8.0):
        clock.advance(pause - 0.01)
        assert breaker.to_tell() is None
        clock.advance(0.01)
        probe = admitted(breaker)
        seen.append(probe.limit)
        breaker.failed(probe)

    assert seen == [2.0, 4.0, 8.0, 16.0, 32.0]


def test_an_abandoned_probe_makes_way_for_the_next(breaker: Breaker, clock: ManualClock) -> None:
    """Its task was cancelled, which says nothing about Core."""
    fail(breaker)
    clock.advance(1.0)

    breaker.abandoned(admitted(breaker))

    assert admitted(breaker).limit == 2.0


def test_a_probe_that_never_comes_back_does_not_block_for_ever(breaker: Breaker, clock: ManualClock) -> None:
    """Its thread died, or this is the child of a fork."""
    fail(breaker)
    clock.advance(1.0)
    admitted(breaker)
    clock.advance(100.0)

    assert breaker.to_tell() is not None


def test_late_failures_of_before_do_not_prolong_it(breaker: Breaker, clock: ManualClock) -> None:
    """Questions that were under way when it opened fail too, and are no probes."""
    early = admitted(breaker)
    fail(breaker)
    clock.advance(0.9)

    breaker.failed(early)
    clock.advance(0.1)

    assert breaker.to_tell() is not None


def test_a_late_answer_closes_it(breaker: Breaker) -> None:
    """Core is there, whoever found out."""
    fail(breaker)

    breaker.answered()

    assert not breaker.is_open


def test_where_an_answer_is_expected_the_next_attempt_is_a_probe(breaker: Breaker) -> None:
    """However long the pause; while nothing has failed for long, it changes nothing."""
    breaker.expect_answer()
    assert not breaker.is_open
    fail(breaker)
    assert breaker.to_tell() is None
    breaker.expect_answer()
    assert breaker.to_tell() is not None
    assert breaker.to_tell() is None
