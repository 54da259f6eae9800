"""A call is judged before it runs, and has happened only once it ran."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any, Literal

import pytest

from openbox_agentrt.acel import (
    ReservationError,
    Session,
    alternate_precedence,
    any_of,
    at_most_in_flight,
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
    response,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.engine.plan.planned_call import PlannedCall
from openbox_agentrt.acel.reservation import Reservation
from openbox_agentrt.acel.session import engine_of

Outcome = Literal["flying", "commit", "failed", "never ran", "bad result", "dropped"]
OUTCOMES: tuple[Outcome, ...] = ("flying", "commit", "failed", "never ran", "bad result", "dropped")


def outcome_of_first(session: Session, outcome: Outcome, tool: str = "first") -> Reservation | None:
    """Let a first call through, and end it."""
    session.register_tool("first", postcondition=lambda state, result: result != "bad")
    reservation = session.reserve(tool, {"n": 3})
    assert reservation.allowed
    match outcome:
        case "flying":
            return reservation
        case "commit":
            assert reservation.commit("good") is None
        case "failed":
            reservation.abort(ValueError("x"), ran=True)
        case "never ran":
            reservation.abort()
        case "bad result":
            assert reservation.commit("bad") is not None
        case "dropped":
            del reservation
            gc.collect()
    return None


# What allows another call, and after which outcome of the first call the second is allowed.
ALLOWS = [
    pytest.param(must_precede("first", "then"), id="must_precede"),
    pytest.param(must_precede("first", "then", within=60), id="must_precede within"),
    pytest.param(must_precede("first", "then", key="n"), id="must_precede key"),
    pytest.param(cannot_follow_without("then", "first"), id="cannot_follow_without"),
    pytest.param(alternate_precedence("first", "then"), id="alternate_precedence"),
    pytest.param(alternate_precedence("first", "then", within=60), id="alternate_precedence within"),
    pytest.param(chain_precedence("first", "then"), id="chain_precedence"),
    pytest.param(chain_precedence("first", "then", key="n"), id="chain_precedence key"),
    pytest.param(init("first"), id="init"),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("contract", ALLOWS)
def test_what_allows_counts_from_a_success(contract: TemporalContract, outcome: Outcome) -> None:
    """A prerequisite that is under way, failed, was never run or got lost allows nothing."""
    session = Session(contracts=[contract])

    held = outcome_of_first(session, outcome)

    assert session.reserve("then", {"n": 3}).allowed is (outcome == "commit")
    assert (held is not None) is (outcome == "flying")


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(required_before_session_end("first"), id="required_before_session_end"),
        pytest.param(required_before_session_end("first", within=60), id="required within"),
        pytest.param(existence("first", 1), id="existence"),
    ],
)
def test_what_the_end_requires_counts_from_a_success(contract: TemporalContract, outcome: Outcome) -> None:
    """A call that did not succeed does not fulfil what the session owes."""
    session = Session(contracts=[contract])

    held = outcome_of_first(session, outcome)

    assert [v.spec for v in session.end_session()] == ([] if outcome == "commit" else [contract.spec])
    assert held is None or not held.finished


def limits(**refund: Any) -> list[TemporalContract]:
    return [
        at_most_n_times("first", 1, **refund),
        at_most_n_times("first", 1, within=60, **refund),
        at_most_n_times("first", 1, key="n", **refund),
        at_most_total("first", "n", 5, **refund),
        at_most_total("first", "n", 5, within=60, **refund),
        rate_limit("first", 1, 60, **refund),
        max_distinct("first", "other", 1, **refund),
        max_distinct("first", "other", 1, within=60, **refund),
    ]


@pytest.mark.parametrize("refund", [False, True], ids=["kept", "refunded"])
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("which", range(8), ids=[contract.spec for contract in limits()])
def test_what_limits_counts_from_the_reservation(which: int, outcome: Outcome, refund: bool) -> None:
    """It is taken back if the call never ran; if it failed, only if the contract refunds."""
    contract = limits(**({"refund_on_failure": True} if refund else {}))[which]
    session = Session(contracts=[contract])
    session.register_tool("first", postcondition=lambda state, result: result != "bad")

    first = session.reserve("first", {"n": 3, "other": "x"})
    match outcome:
        case "commit":
            first.commit("good")
        case "failed":
            first.abort(ran=True)
        case "never ran":
            first.abort()
        case "bad result":
            first.commit("bad")
        case "dropped":
            del first
            gc.collect()

    taken_back = outcome == "never ran" or (refund and outcome in ("failed", "bad result"))
    assert session.reserve("first", {"n": 3, "other": "y"}).allowed is taken_back


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(never_after("then", "first"), id="never_after"),
        pytest.param(never_after("then", "first", within=60), id="never_after within"),
        pytest.param(never_after("then", "first", key="n"), id="never_after key"),
        pytest.param(mutually_exclusive("first", "then"), id="mutually_exclusive"),
        pytest.param(mutually_exclusive("then", "first", within=60), id="mutually_exclusive within"),
    ],
)
def test_what_excludes_counts_from_the_reservation(contract: TemporalContract, outcome: Outcome) -> None:
    """It is taken back only if the call never ran."""
    session = Session(contracts=[contract])

    held = outcome_of_first(session, outcome)

    assert session.reserve("then", {"n": 3}).allowed is (outcome == "never ran")
    assert held is None or not held.finished


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_what_is_owed_an_answer(outcome: Outcome) -> None:
    """A call that ran in any way is owed its answer; one that never ran is not."""
    session = Session(contracts=[response("first", "then")])

    held = outcome_of_first(session, outcome)

    assert bool(session.end_session()) is (outcome != "never ran")
    assert held is None or not held.finished


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("refund", [False, True], ids=["kept", "refunded"])
def test_a_prerequisite_that_was_used_up(outcome: Outcome, refund: bool) -> None:
    """It comes back if the call that used it never ran, or failed and is refunded."""
    session = Session(contracts=[alternate_precedence("permit", "first", refund_on_failure=refund)])
    session.call("permit")

    held = outcome_of_first(session, outcome)

    back = outcome == "never ran" or (refund and outcome in ("failed", "bad result"))
    assert session.reserve("first").allowed is back
    assert held is None or not held.finished


def test_a_refused_call_moves_nothing() -> None:
    """The same call is judged the same way again, and what would repair it is let through."""
    session = Session(contracts=[must_precede("check", "delete"), at_most_n_times("delete", 1)])

    for _ in range(3):
        refused = session.reserve("delete")
        assert [b.contract for b in refused.refusal.broken] == ["must_precede(check, delete)"]  # type: ignore[union-attr]  # refused, so it is there

    session.call("check")
    assert session.reserve("delete").allowed


def test_fifty_at_once_cannot_pass_a_limit_of_two() -> None:
    """Calls that run side by side count against each other."""
    session = Session(contracts=[at_most_n_times("pay", 2)])

    flying = [session.reserve("pay") for _ in range(50)]

    assert [r.allowed for r in flying].count(True) == 2


@pytest.mark.parametrize("second", ["commit", "abort"])
@pytest.mark.parametrize("first", ["commit", "abort"])
def test_a_reservation_is_used_once(first: str, second: str) -> None:
    """Using it twice is an error, and moves nothing."""
    session = Session(contracts=[at_most_n_times("pay", 5)])
    reservation = session.reserve("pay")
    getattr(reservation, first)()

    with pytest.raises(ReservationError, match="is finished"):
        getattr(reservation, second)()

    assert session.in_flight == 0


@pytest.mark.parametrize("use", ["commit", "abort"])
def test_a_refused_reservation_cannot_be_used(use: str) -> None:
    """A call that was refused cannot be committed all the same."""
    session = Session(contracts=[at_most_n_times("pay", 0)])
    reservation = session.reserve("pay")

    with pytest.raises(ReservationError, match="was refused"):
        getattr(reservation, use)()


async def test_a_reservation_is_used_once_on_the_async_path() -> None:
    """`acommit` claims it as `commit` does."""
    session = Session()
    reservation = session.reserve("pay")
    await reservation.acommit()

    with pytest.raises(ReservationError):
        await reservation.acommit()


def test_a_dropped_reservation_is_settled() -> None:
    """A call whose task died is no longer under way, stays counted, and is counted once."""
    session = Session(contracts=[at_most_n_times("pay", 2), must_precede("pay", "ship")])
    session.reserve("pay")
    gc.collect()

    assert session.in_flight == 0
    assert not session.reserve("ship").allowed
    last = session.reserve("pay")
    assert last.allowed
    assert not session.reserve("pay").allowed


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda session: session.reserve("other").commit(), id="a call that time is nothing to"),
        pytest.param(lambda session: session.in_flight, id="counting those under way"),
        pytest.param(lambda session: session.contracts[0].verdict, id="how a contract stands"),
        pytest.param(lambda session: session.snapshot(), id="a snapshot"),
    ],
)
def test_a_dropped_call_that_was_to_be_measured_blocks_from_when_it_is_missed(
    look: Callable[[Session], object],
) -> None:
    """Nobody knows what it spent, or until when: whatever looks first, it does not count as long past."""
    now = [0.0]
    limit = at_most_total("pay", "n", 10, within=60)
    session = Session(contracts=[limit], clock=lambda: now[0])
    session.reserve("pay", deferred=["n"])
    gc.collect()
    now[0] = 100.0

    look(session)

    assert not session.reserve("pay", {"n": 1}).allowed
    now[0] = 161.0
    assert session.reserve("pay", {"n": 1}).allowed


def test_a_dropped_call_is_no_longer_under_way_where_time_matters() -> None:
    """Whoever asks reads the clock for it."""
    session = Session(contracts=[at_most_total("pay", "n", 10, within=60)], clock=lambda: 5.0)
    session.reserve("pay", deferred=["n"])
    gc.collect()
    session.reserve("other").commit()

    assert session.in_flight == 0


@pytest.mark.parametrize(
    "timed",
    [
        pytest.param(at_most_in_flight("x", 9, within=60), id="at_most_in_flight"),
        pytest.param(at_most_total("x", "n", 9, within=60), id="at_most_total"),
        pytest.param(must_precede("x", "z", within=60), id="must_precede"),
        pytest.param(response("x", "z", within=60), id="response"),
        pytest.param(at_most_n_times("x", 9, per="day"), id="per day"),
    ],
)
def test_what_is_dropped_and_never_ran_gives_back_at_once_what_it_took(timed: TemporalContract) -> None:
    """Nobody has to look at a clock for that: the other call is none of the contract that has one."""
    session = Session(contracts=[at_most_n_times(any_of("x", "y"), 1), timed])

    session.reserve("x", {"n": 1}).forgo()

    assert session.reserve("y").allowed


def test_a_refused_reservation_is_not_settled_when_dropped() -> None:
    """There is nothing to settle."""
    session = Session(contracts=[at_most_n_times("pay", 0)])
    session.reserve("pay")
    gc.collect()

    assert session.in_flight == 0


def test_a_failed_call_gives_back_exactly_what_it_took() -> None:
    """Amounts and counts are as they were, whatever came in between."""
    session = Session(contracts=[at_most_total("pay", "n", 10), at_most_n_times("pay", 3)])
    first, second = session.reserve("pay", {"n": 4}), session.reserve("pay", {"n": 5})
    first.abort()
    third = session.reserve("pay", {"n": 5})
    second.abort()
    third.commit()

    assert session.reserve("pay", {"n": 5}).allowed
    assert not session.reserve("pay", {"n": 0.5}).allowed


def test_what_really_ran_is_in_the_trace() -> None:
    """Arguments that were redacted after judging are what the trace holds."""
    session = Session()

    session.reserve("send", {"to": "a", "body": "secret"}).commit("ok", args={"to": "a", "body": "***"})

    assert session.trace == [{"step": 1, "tool": "send", "args": {"to": "a", "body": "***"}, "result": "ok"}]


def test_a_limit_counts_what_really_ran() -> None:
    """An amount that was lowered afterwards counts as what it became."""
    session = Session(contracts=[at_most_total("pay", "n", 10)])

    session.reserve("pay", {"n": 9}).commit(args={"n": 2})

    assert session.reserve("pay", {"n": 8}).allowed


def test_an_amount_that_grew_over_the_limit_is_recorded() -> None:
    """It cannot be refused any more, and is not passed over."""
    session = Session(contracts=[at_most_total("pay", "n", 10)])

    session.reserve("pay", {"n": 1}).commit(args={"n": 20})

    assert [(v.spec, v.blocked) for v in session.violations] == [("at_most_total(pay, n, limit=10)", False)]
    assert not session.reserve("pay", {"n": 0}).allowed


def test_a_prerequisite_that_what_ran_does_not_match_is_none() -> None:
    """A redaction that takes away what made the call a prerequisite takes the prerequisite away."""
    from openbox_agentrt.acel import matching

    session = Session(contracts=[must_precede(matching("bash", "pytest"), matching("bash", "git push"))])

    session.reserve("bash", {"command": "pytest"}).commit(args={"command": "true"})

    assert not session.reserve("bash", {"command": "git push"}).allowed
    session.reserve("bash", {"command": "pytest"}).commit(args={"command": "pytest -q"})
    assert session.reserve("bash", {"command": "git push"}).allowed


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("begin", ["reserve", "precheck"])
def test_a_copy_of_a_call_is_the_call(begin: str, copied: Callable[[Any], Any]) -> None:
    """Who drops a copy has not dropped the call, and who ends one has ended it."""
    session = Session(contracts=[must_precede("first", "then")])
    call = getattr(session, begin)("first")

    del_me = copied(call)
    assert del_me is call
    del del_me
    gc.collect()

    assert session.in_flight == 1
    call.commit()
    assert session.reserve("then").allowed


def test_a_reservation_begins_as_any_call_of_its_plan() -> None:
    """It sets by itself, for speed, all that the calls that it is one of set."""
    session = Session(contracts=[must_precede("first", "then")])
    plan = session.reserve("then").plan
    plain = PlannedCall("then", {"n": 1}, plan)
    call = Reservation(engine_of(session), "then", {"n": 1}, plan)

    names = {name for kind in PlannedCall.__mro__ for name in getattr(kind, "__slots__", ())} - {"__dict__"}

    assert {name: getattr(call, name) for name in names} == {name: getattr(plain, name) for name in names}
