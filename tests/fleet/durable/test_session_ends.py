"""How a durable session ends, what is told of it, and what the calls leave that were under way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from openbox_agentrt.acel import Session, Verdict, at_most_total, existence
from openbox_agentrt.fleet import Fleet, FleetUnavailableError, RedisFleet, SessionBusyError
from openbox_agentrt.testing import ManualClock


def one_of(fleet: Fleet) -> Session:
    return Session(contracts=[existence("pay", 1)], fleet=fleet, durable=True, session_id="c-1")


def ended(session: Session) -> list[str]:
    return [violation.spec for violation in session.end_session()]


def ended_by_with(session: Session) -> list[str]:
    with session:
        return session.unmet()


def stand_of(session: Session) -> list[str]:
    return [] if session.verdict(session.contracts[0]) is Verdict.SATISFIED else ["existence(pay, n=1)"]


def kept_in_snapshot(session: Session) -> list[str]:
    again = Session.restore(session.snapshot(), session.contracts)
    return again.unmet()


TELLS = [ended, ended_by_with, Session.unmet, stand_of, kept_in_snapshot]


@pytest.mark.parametrize("tell", TELLS)
@pytest.mark.parametrize("paid", [True, False], ids=["met", "unmet"])
@pytest.mark.parametrize("ahead", [True, False], ids=["taken ahead", "taken by it"])
async def test_what_is_unmet_is_told_by_a_process_that_never_had_the_session(
    fleet: Fleet, other: Fleet, tell: Callable[[Session], list[str]], paid: bool, ahead: bool
) -> None:
    """It takes the session first: nothing is claimed of what another process has met."""
    mine = one_of(fleet)
    if paid:
        mine.call("pay", result="paid")
    mine.release()
    theirs = one_of(other)
    if ahead:
        await theirs.ahold()

    assert tell(theirs) == ([] if paid else ["existence(pay, n=1)"])


@pytest.mark.parametrize("tell", TELLS)
def test_who_cannot_take_the_session_tells_nothing_of_it(
    fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch, tell: Callable[[Session], list[str]]
) -> None:
    """Another process has it, and goes on; the error of a block that ends with it is not replaced."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.0)
    mine, theirs = one_of(fleet), one_of(other)
    mine.call("pay", result="paid")

    with pytest.raises(SessionBusyError, match="in use by another worker"):
        tell(theirs)

    with pytest.raises(RuntimeError, match="mine") as caught, theirs:
        raise RuntimeError("mine")
    assert "the session was not ended" in caught.value.__notes__[0]
    assert mine.call("pay", result="paid") == "paid"


def test_without_its_store_a_session_is_ended_by_who_may_count_alone() -> None:
    """Elsewhere it is an error that says so, and the session is open."""
    nowhere = "redis://127.0.0.1:1"
    with closing(RedisFleet(nowhere)) as strict, closing(RedisFleet(nowhere, on_outage="local")) as alone:
        session = one_of(strict)
        with pytest.raises(FleetUnavailableError):
            session.end_session()
        assert session.closed is None
        assert ended(one_of(alone)) == ["existence(pay, n=1)"]


def test_a_call_that_its_worker_left_under_way_may_have_spent_until_now(fleet: Fleet, other: Fleet) -> None:
    """Nobody measured it: its window begins when another worker goes on, not when its own read a clock."""
    clock = ManualClock(time.time())
    rules = [at_most_total("ask", "tokens", 5, within=100)]
    options: Any = {"contracts": rules, "durable": True, "session_id": "c-1", "clock": clock.time}
    mine = Session(fleet=fleet, **options)
    call = mine.reserve("ask", deferred=["tokens"], started=True)
    clock.advance(120)
    mine.release()

    theirs = Session(fleet=other, **options)
    refused = theirs.reserve("ask", {"tokens": 1}).refusal
    assert refused is not None
    assert refused.broken[0].fault == "tokens was not measured"
    clock.advance(101)
    assert theirs.reserve("ask", {"tokens": 1}).allowed
    call.abort()
