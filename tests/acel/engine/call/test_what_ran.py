"""What ran is what counts, also where other arguments ran than were judged."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    at_most_n_times,
    at_most_total,
    chain_precedence,
    matching,
    max_distinct,
    must_precede,
    mutually_exclusive,
    never,
    never_after,
    rate_limit,
    required_before_session_end,
    requires_state,
    response,
)
from openbox_agentrt.acel.contracts.base import PersonsHalt, TemporalContract
from openbox_agentrt.acel.memory.deferred import Guess
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.acel.verdict import Verdict
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.testing import ManualClock

LS, PUSH, SECRET, PYTEST = ({"command": text} for text in ("ls", "git push", "cat secret", "pytest"))


def bash(pattern: str) -> Any:
    return matching("Bash", pattern)


def ran_as(session: Session, tool: str, judged: dict[str, Any], ran: dict[str, Any]) -> None:
    """Let a call be judged with some arguments and run with others."""
    reservation = session.reserve(tool, judged)
    assert reservation.allowed
    reservation.commit("done", args=ran)


def test_a_prerequisite_is_that_of_the_customer_that_was_checked() -> None:
    """Not that of the one that was to be checked."""
    session = Session(contracts=[must_precede("verify", "refund", key="id")])

    ran_as(session, "verify", {"id": 1}, {"id": 2})

    assert not session.reserve("refund", {"id": 1}).allowed
    assert session.reserve("refund", {"id": 2}).allowed


@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(at_most_n_times("refund", 1, key="id"), id="count"),
        pytest.param(rate_limit("refund", 1, 60, key="id"), id="rate"),
        pytest.param(at_most_total("refund", "n", 5, key="id"), id="total"),
        pytest.param(max_distinct("refund", "to", 1, key="id"), id="distinct"),
    ],
)
def test_a_limit_per_customer_counts_both(contract: TemporalContract) -> None:
    """The customer that the call was let through for, and the one that it was done for."""
    session = Session(contracts=[contract])

    ran_as(session, "refund", {"id": 1, "n": 5, "to": "x"}, {"id": 2, "n": 5, "to": "x"})

    assert not session.reserve("refund", {"id": 2, "n": 5, "to": "y"}).allowed
    assert not session.reserve("refund", {"id": 1, "n": 5, "to": "y"}).allowed
    assert session.reserve("refund", {"id": 3, "n": 5, "to": "y"}).allowed
    assert session.violations[0].step == 2


@pytest.mark.parametrize(
    ("contract", "ran", "refused"),
    [
        pytest.param(at_most_n_times(bash("push"), 1), PUSH, PUSH, id="at_most_n_times"),
        pytest.param(rate_limit(bash("push"), 1, 60), PUSH, PUSH, id="rate_limit"),
        pytest.param(never_after(bash("push"), bash("secret")), SECRET, PUSH, id="never_after"),
        pytest.param(mutually_exclusive(bash("push"), bash("secret")), PUSH, SECRET, id="mutually_exclusive"),
        pytest.param(mutually_exclusive(bash("push"), bash("secret")), SECRET, PUSH, id="and the other way"),
    ],
)
def test_what_only_the_call_that_ran_is_counts(
    contract: TemporalContract, ran: dict[str, Any], refused: dict[str, Any]
) -> None:
    """A hook that turns `ls` into a push has used up the push."""
    session = Session(contracts=[contract])

    ran_as(session, "Bash", LS, ran)

    assert session.violations == []
    assert not session.reserve("Bash", refused).allowed


def test_a_prerequisite_that_ran_counts_whatever_was_judged() -> None:
    """The tests ran, so they ran."""
    session = Session(contracts=[must_precede(bash("pytest"), bash("push"))])

    ran_as(session, "Bash", LS, PYTEST)

    assert session.reserve("Bash", PUSH).allowed


@pytest.mark.parametrize(
    ("contract", "before"),
    [
        pytest.param(at_most_n_times(bash("push"), 1), [PUSH], id="at_most_n_times"),
        pytest.param(never_after(bash("push"), bash("secret")), [SECRET], id="never_after"),
        pytest.param(must_precede(bash("pytest"), bash("push")), [], id="must_precede"),
        pytest.param(alternate_precedence(bash("pytest"), bash("push")), [], id="alternate_precedence"),
        pytest.param(chain_precedence(bash("pytest"), bash("push")), [], id="chain_precedence"),
        pytest.param(requires_state(bash("push"), "open", True), [], id="requires_state"),
    ],
)
def test_what_could_not_be_refused_any_more_is_recorded(
    contract: TemporalContract, before: list[dict[str, Any]]
) -> None:
    """Once, as a violation that stopped nothing."""
    session = Session(contracts=[contract])
    for args in before:
        session.call("Bash", args)

    ran_as(session, "Bash", LS, PUSH)

    assert [(v.spec, v.blocked, v.args) for v in session.violations] == [(contract.spec, False, PUSH)]
    assert session.verdict(contract) is Verdict.VIOLATED


def test_what_was_judged_stays_counted_where_it_limits() -> None:
    """A call that was let through as a push has used up the push, whatever it was turned into."""
    session = Session(contracts=[at_most_n_times(bash("push"), 1)])

    ran_as(session, "Bash", PUSH, LS)

    assert not session.reserve("Bash", PUSH).allowed


def test_the_values_that_were_used_are_those_that_ran() -> None:
    """A recipient that was replaced got nothing."""
    session = Session(contracts=[max_distinct("send", "to", 2)])

    ran_as(session, "send", {"to": ["ann", "bob"]}, {"to": ["eve"]})

    assert session.violations == []
    assert session.reserve("send", {"to": "ann"}).allowed
    assert not session.reserve("send", {"to": "bob"}).allowed


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("amount", ["500", -5, True, None])
def test_an_amount_that_ran_and_cannot_be_read_is_recorded(amount: Any, failed: bool) -> None:
    """It would have been refused; what was judged stays counted."""
    contract = at_most_total("pay", "amount", 500)
    session = Session(contracts=[contract])

    reservation = session.reserve("pay", {"amount": 1})
    if failed:
        reservation.abort(OSError(), ran=True, args={"amount": amount})
    else:
        reservation.commit("done", args={"amount": amount})

    assert [(v.spec, v.blocked) for v in session.violations] == [(contract.spec, False)]
    assert session.verdict(contract) is Verdict.VIOLATED
    assert session.reserve("pay", {"amount": 499}).allowed
    assert not session.reserve("pay", {"amount": 500}).allowed


def test_more_values_than_the_limit_are_recorded() -> None:
    """As an amount is that grew over its limit."""
    session = Session(contracts=[max_distinct("send", "to", 1)])

    ran_as(session, "send", {"to": "ann"}, {"to": ["ann", "eve"]})

    assert [violation.spec for violation in session.violations] == ["max_distinct(send, to, n=1)"]


@pytest.mark.parametrize("end", ["failed", "lost"])
def test_a_call_that_did_not_succeed_keeps_its_final_arguments(end: str) -> None:
    """What it may have done, it did with them."""
    contracts = [at_most_total("pay", "n", 10), at_most_n_times(matching("pay", "eve", field="to"), 1)]
    session = Session(contracts=contracts)

    reservation = session.reserve("pay", {"n": 1, "to": "ann"})
    if end == "failed":
        reservation.abort(ValueError("x"), ran=True, args={"n": 8, "to": "eve"})
    else:
        reservation.lose(args={"n": 8, "to": "eve"})

    assert not session.reserve("pay", {"n": 0, "to": "eve"}).allowed
    assert not session.reserve("pay", {"n": 3, "to": "ann"}).allowed
    assert session.reserve("pay", {"n": 2, "to": "ann"}).allowed


def test_a_call_that_failed_with_other_arguments_is_no_prerequisite() -> None:
    """Neither as what was judged nor as what ran."""
    session = Session(contracts=[must_precede(bash("pytest"), bash("push"))])

    session.reserve("Bash", PYTEST).abort(ran=True, args=LS)
    session.reserve("Bash", LS).abort(ran=True, args=PYTEST)

    assert not session.reserve("Bash", PUSH).allowed


def test_a_call_that_never_ran_has_no_final_arguments() -> None:
    """It is taken back as what was judged, and nothing else counts."""
    session = Session(contracts=[at_most_n_times(bash("push"), 1)])

    session.reserve("Bash", LS).abort(args=PUSH)

    assert session.reserve("Bash", PUSH).allowed


def test_what_is_owed_is_owed_for_what_ran() -> None:
    """A payment that a hook made of a question needs its receipt."""
    session = Session(contracts=[response(matching("do", "pay", field="what"), "receipt")])

    ran_as(session, "do", {"what": "ask"}, {"what": "pay"})

    assert [violation.needs for violation in session.end_session()] == ["receipt"]


def test_a_key_that_can_no_longer_be_read_allows_nothing() -> None:
    """And stays counted for the value that was judged."""
    contracts = [must_precede("verify", "refund", key="id"), at_most_n_times("verify", 1, key="id")]
    session = Session(contracts=contracts)

    ran_as(session, "verify", {"id": 1}, {})

    assert not session.reserve("refund", {"id": 1}).allowed
    assert not session.reserve("verify", {"id": 1}).allowed


@pytest.mark.parametrize(
    "settle",
    [
        pytest.param(lambda r: r.commit(measured={"tokens": 7}), id="succeeded"),
        pytest.param(lambda r: r.abort(ran=True, measured={"tokens": 7}), id="failed"),
        pytest.param(lambda r: r.lose(measured={"tokens": 7}), id="lost"),
    ],
)
@pytest.mark.parametrize("estimate", [None, 5])
def test_an_amount_that_was_measured_counts_however_the_call_ended(
    settle: Callable[[Any], None], estimate: int | None
) -> None:
    """In the place of what it was taken for."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 10, estimate=estimate)])

    settle(session.reserve("llm_call", deferred=("tokens",)))

    assert session.reserve("llm_call", {"tokens": 3}).allowed
    assert not session.reserve("llm_call", {"tokens": 1}).allowed


def test_an_amount_that_nobody_knows_lets_nothing_more_through() -> None:
    """A call that failed, was lost or never measured may have spent anything: for good, or for the window."""
    ends: list[Callable[[Any], None]] = [
        lambda call: call.lose(),
        lambda call: call.abort(ran=True),
        lambda call: call.commit(),
    ]
    for end, within in itertools.product(ends, (None, 60)):
        clock = ManualClock()
        limit = at_most_total("llm_call", "tokens", 10, within=within)
        session = Session(contracts=[limit], clock=clock.time)
        end(session.reserve("llm_call", deferred=("tokens",)))

        refusal = session.reserve("llm_call", deferred=("tokens",)).refusal
        assert refusal is not None
        assert refusal.broken[0].fault == "tokens was not measured"
        clock.advance(61)
        session = Session.restore(json.loads(json.dumps(session.snapshot())), [limit], clock=clock.time)
        assert session.reserve("llm_call", deferred=("tokens",)).allowed is (within is not None)


@pytest.mark.parametrize("end", ["commit", "abort", "lose"])
def test_what_a_call_was_not_let_through_as_is_recorded_however_it_ended(end: str) -> None:
    """It could not be refused any more: the arguments that ran, and the amount that was measured."""
    session = Session(contracts=[never(bash("push")), at_most_total("pay", "amount", 10)])
    ran = session.reserve("Bash", LS)
    paid = session.reserve("pay", {"amount": 1})
    measured = session.reserve("pay", deferred=["amount"])
    ran_otherwise = {"abort": {"ran": True}}.get(end, {})

    getattr(ran, end)(args=PUSH, **ran_otherwise)
    getattr(paid, end)(args={"amount": 9}, **ran_otherwise)
    getattr(measured, end)(measured={"amount": 5}, **ran_otherwise)

    assert [(violation.tool, violation.blocked) for violation in session.violations] == [
        ("Bash", False),
        ("pay", False),
    ]
    assert session.in_flight == 0


def test_a_failed_call_that_is_refunded_was_none() -> None:
    """Where the contract says that failures are given back."""
    limit = at_most_total("llm_call", "tokens", 10, refund_on_failure=True)
    session = Session(contracts=[limit])

    session.reserve("llm_call", deferred=("tokens",)).abort(ran=True)

    assert session.reserve("llm_call", deferred=("tokens",)).allowed


def test_a_guess_bounds_calls_side_by_side() -> None:
    """Alone, a call is let through while anything is left; what is said in the contract comes first."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 1000)])
    guessed = {"tokens": Guess(990)}

    flying = [session.reserve("llm_call", deferred=guessed) for _ in range(10)]
    assert [call.allowed for call in flying] == [True] + [False] * 9
    assert flying[1].refusal is not None
    assert flying[1].refusal.broken[0].needs == "the calls under way to be measured, or an estimate that fits"
    flying[0].commit(measured={"tokens": 900})

    alone = session.reserve("llm_call", deferred=guessed)
    assert alone.allowed
    alone.abort(ran=True)  # it may have spent what was guessed
    assert not session.reserve("llm_call", {"tokens": 1}).allowed

    said = Session(contracts=[at_most_total("llm_call", "tokens", 1000, estimate=100)])
    assert sum(said.reserve("llm_call", deferred=guessed).allowed for _ in range(20)) == 10


def test_a_success_that_nobody_measured_is_no_guess() -> None:
    """What was guessed says nothing about what was spent."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 1000)])

    session.reserve("llm_call", deferred={"tokens": Guess(1)}).commit()

    assert not session.reserve("llm_call", deferred={"tokens": Guess(1)}).allowed


@pytest.mark.parametrize("estimate", [None, 4])
def test_an_amount_under_way_is_unknown_in_a_snapshot(estimate: int | None) -> None:
    """Without an estimate nothing more is let through where it goes on; with one, what is left is."""
    contract = at_most_total("llm_call", "tokens", 20, estimate=estimate)
    session = Session(contracts=[contract])
    flying = session.reserve("llm_call", deferred=("tokens",))
    session.reserve("llm_call", deferred=("tokens",)).commit(measured={"tokens": 1})
    session.reserve("llm_call", deferred=("tokens",)).abort(ran=True, measured={"tokens": 4})
    session.reserve("llm_call", deferred=("tokens",)).abort()

    restored = Session.restore(session.snapshot(), [contract])

    assert restored.reserve("llm_call", {"tokens": 1}).allowed is (estimate is not None)
    assert not restored.reserve("llm_call", {"tokens": 15}).allowed
    flying.commit(measured={"tokens": 1})
    assert Session.restore(session.snapshot(), [contract]).reserve("llm_call", {"tokens": 1}).allowed


def test_an_amount_under_way_is_unknown_from_when_the_snapshot_is_taken() -> None:
    """What a call spends until then, it spends then: the window begins anew."""
    contract = at_most_total("llm_call", "tokens", 20, within=60)
    clock = ManualClock()
    session = Session(contracts=[contract], clock=clock.time)
    flying = session.reserve("llm_call", deferred=("tokens",))
    clock.advance(50)
    restored = Session.restore(session.snapshot(), [contract], clock=clock.time)
    clock.advance(50)

    assert not restored.reserve("llm_call", {"tokens": 1}).allowed
    clock.advance(11)
    assert restored.reserve("llm_call", {"tokens": 1}).allowed
    flying.commit(measured={"tokens": 1})


@pytest.mark.parametrize(
    ("estimate", "deferred"), [(4, ("tokens",)), (None, {"tokens": 4}), (9, {"tokens": 4})]
)
def test_calls_side_by_side_cannot_pass_a_budget_that_is_measured_later(
    estimate: int | None, deferred: Any
) -> None:
    """Each is taken for its estimate while it is under way: the contract's, or the call's own."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 10, estimate=estimate)])

    flying = [session.reserve("llm_call", deferred=deferred) for _ in range(10)]

    assert [reservation.allowed for reservation in flying].count(True) == 2
    for reservation in flying[:2]:
        reservation.commit(measured={"tokens": 1})
    assert session.reserve("llm_call", deferred=deferred).allowed


def test_an_estimate_stays_where_nothing_was_measured() -> None:
    """A call that failed or got lost is taken for what it may have spent; one that never ran is not."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 10, estimate=4)])

    session.reserve("llm_call", deferred=("tokens",)).abort(ran=True)
    session.reserve("llm_call", deferred=("tokens",)).abort()
    session.reserve("llm_call", deferred=("tokens",)).lose()

    assert not session.reserve("llm_call", deferred=("tokens",)).allowed
    assert session.reserve("llm_call", {"tokens": 2}).allowed


@pytest.mark.parametrize("estimate", ["4", -1, float("nan"), True])
def test_an_estimate_is_an_amount(estimate: Any) -> None:
    """Both in a contract and of a call."""
    with pytest.raises(ValueError, match="estimate"):
        at_most_total("llm_call", "tokens", 10, estimate=estimate)
    with pytest.raises(ValueError, match="estimate"):
        Session().reserve("llm_call", deferred={"tokens": estimate})


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_budget_that_was_overshot_halts_a_session_where_its_contract_halts(mode: Any) -> None:
    """What it could not refuse, it ends. A session that only watches goes on."""
    contract = at_most_total("llm_call", "tokens", 10, on_violation="halt")
    session = Session(contracts=[contract], mode=mode)

    session.reserve("llm_call", deferred=("tokens",)).commit(measured={"tokens": 11})

    assert session.reserve("other").allowed is (mode == "shadow")
    assert (session.closed is None) is (mode == "shadow")


def test_a_contract_that_halts_outlasts_the_halt_of_a_person() -> None:
    """What was under way when a person stopped the session may break it, and nobody lifts that."""
    contract = at_most_total("llm_call", "tokens", 10, on_violation="halt")
    session = Session(contracts=[contract])
    under_way = session.reserve("llm_call", deferred=("tokens",))
    store = engine_of(session).store
    store.halt(PersonsHalt("look at it first"), of="somebody")
    assert not session.reserve("other").allowed

    under_way.commit(measured={"tokens": 11})
    store.lift(of="somebody")

    assert not session.reserve("other").allowed


def test_an_answer_that_is_overdue_halts_a_session_where_its_contract_halts() -> None:
    """With the call that shows it, which is refused for that."""
    now = [1000.0]
    contract = response("ask", "answer", 60, on_violation="halt")
    session = Session(contracts=[contract], clock=lambda: now[0])
    session.call("ask")
    now[0] += 61

    refused = session.reserve("answer")

    assert not refused.allowed
    assert [(v.spec, v.blocked) for v in refused.violations] == [
        (contract.spec, False),
        ("the session was not halted", True),
    ]
    assert not session.reserve("other").allowed


def test_two_contracts_of_one_shape_are_both_reported() -> None:
    """Each has its own id and its own advice."""
    now = [1000.0]
    twice = [response("ask", "answer", 60, id=name) for name in ("first", "second")]
    session = Session(contracts=twice, clock=lambda: now[0])
    session.call("ask")
    now[0] += 61

    session.call("ask")

    assert [violation.id for violation in session.violations] == ["first", "second"]
    now[0] += 61
    assert [violation.id for violation in session.end_session()] == ["first", "second"]


def test_two_duties_of_one_shape_are_both_reported() -> None:
    """At the end, too."""
    session = Session(contracts=[required_before_session_end("log", id=name) for name in ("one", "two")])

    assert [violation.id for violation in session.end_session()] == ["one", "two"]


@pytest.mark.parametrize("ran", [True, False], ids=["succeeded", "failed"])
def test_an_amount_that_ran_counts_where_none_could_be_read_before(ran: bool) -> None:
    """In a contract that watches, which let it through."""
    session = Session(contracts=[at_most_total("pay", "amount", 5, mode="shadow")])
    call = session.reserve("pay", {"amount": "?"})
    call.commit(args={"amount": 5}) if ran else call.abort(OSError(), ran=True, args={"amount": 5})
    assert session.reserve("pay", {"amount": 1}).violations


def test_an_amount_that_is_old_and_was_not_measured_breaks_nothing_later() -> None:
    clock = ManualClock()
    session = Session(contracts=[at_most_total("llm", "n", 5, within=10)], clock=clock.time)
    first, second = (session.reserve("llm", deferred={"n": 1}) for _ in range(2))
    first.commit(measured={"n": "?"})
    assert [violation.step for violation in session.violations] == [1]
    clock.advance(11)

    second.commit(measured={"n": 1})

    assert [violation.step for violation in session.violations] == [1]


def test_what_only_ran_is_in_a_window_from_then_on(tmp_path: Path) -> None:
    """And not from when the other call was let through, which may have waited long for a person."""
    clock = ManualClock()
    log = tmp_path / "log.jsonl"
    with EvidenceFile(log, record="steps") as evidence:
        session = Session(
            contracts=[rate_limit(bash("git push"), 1, 60)], clock=clock.time, evidence=evidence
        )
        call = session.reserve("Bash", LS)
        clock.advance(600)
        call.commit(args=PUSH)
        clock.advance(59)

        again = session.reserve("Bash", PUSH)

        assert again.refusal is not None
        assert again.refusal.broken[0].retry_after == pytest.approx(1, abs=0.1)
    assert rerun_file(log).ok
