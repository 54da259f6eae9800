"""A call that has waited is judged again, as if it came when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    any_of,
    at_most_in_flight,
    at_most_n_times,
    at_most_total,
    must_precede,
    never,
    never_after,
    rate_limit,
    requires_state,
    rules_hash,
)
from openbox_agentrt.acel.contracts.identity import meaning_of
from openbox_agentrt.acel.contracts.rebuilding import rebuilt
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.acel.reservation import ReservationError
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def waits(contract: Template, clock: ManualClock, *before: str, meanwhile: tuple[str, ...] = ()) -> Any:
    """A call of `pay` that is let through and waits for an hour."""
    session = Session({"open": True}, contracts=[contract], clock=clock.time)
    for tool in before:
        session.call(tool)
    call = session.reserve("pay", {"amount": 5})
    assert call.allowed
    for tool in meanwhile:
        assert session.reserve(tool, {"amount": 5}).allowed
    clock.advance(3600)
    return call


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        pytest.param({"within": 60}, False, id="within"),
        pytest.param({"within": 7200}, True, id="still fresh"),
        pytest.param({"within": 60, "recheck": False}, True, id="not wanted"),
        pytest.param({}, True, id="nothing about time"),
    ],
)
def test_a_prerequisite_may_be_too_old_by_now(
    options: dict[str, Any], holds: bool, clock: ManualClock
) -> None:
    """By default where time matters, and only there."""
    call = waits(must_precede("find", "pay", **options), clock, "find")

    assert call.recheck() is holds
    assert call.allowed is holds
    assert call.finished is not holds


@pytest.mark.parametrize(
    ("contract", "meanwhile", "holds"),
    [
        pytest.param(must_precede("find", "pay", since="user_prompt"), ("user_prompt",), False, id="since"),
        pytest.param(
            must_precede("find", "pay", since="user_prompt", recheck=False),
            ("user_prompt",),
            True,
            id="since, not wanted",
        ),
        pytest.param(never_after("pay", "close"), ("close",), True, id="not by default"),
        pytest.param(never_after("pay", "close", recheck=True), ("close",), False, id="excluded meanwhile"),
        pytest.param(at_most_n_times("pay", 1, recheck=True), (), True, id="it is not in its own way"),
        pytest.param(at_most_total("pay", "amount", 5, recheck=True), (), True, id="nor its amount"),
        pytest.param(at_most_in_flight("pay", 1, recheck=True), (), True, id="nor its flight"),
        pytest.param(rate_limit("pay", 1, 60), (), True, id="nor its place in a window"),
        pytest.param(
            must_precede("find", "pay", since=any_of("pay", "user_prompt")), (), True, id="nor what it voids"
        ),
    ],
)
def test_what_came_meanwhile(
    contract: Template, meanwhile: tuple[str, ...], holds: bool, clock: ManualClock
) -> None:
    """Counts if the contract wants to know."""
    assert waits(contract, clock, "find", meanwhile=meanwhile).recheck() is holds


def test_two_that_waited_do_not_run_in_one_window(clock: ManualClock) -> None:
    """Each was alone in its window when it was let through; they would run together."""
    session = Session(contracts=[rate_limit("pay", 1, 60)], clock=clock.time)
    first = session.reserve("pay")
    clock.advance(61)
    second = session.reserve("pay")
    assert second.allowed
    clock.advance(61)

    assert first.recheck()
    assert not second.recheck()

    assert second.refusal is not None
    assert second.refusal.broken[0].retry_after is not None
    clock.advance(second.refusal.broken[0].retry_after)
    assert session.reserve("pay").allowed


def test_a_refused_one_never_ran(clock: ManualClock) -> None:
    """Nothing of it is counted, and there is nothing left to settle."""
    contracts = [must_precede("find", "pay", within=60), at_most_n_times("pay", 1)]
    session = Session(contracts=contracts, clock=clock.time)
    session.call("find")
    call = session.reserve("pay")
    clock.advance(61)

    assert not call.recheck()

    assert session.in_flight == 0
    assert [violation.blocked for violation in session.violations] == [True]
    with pytest.raises(ReservationError):
        call.commit()
    with pytest.raises(ReservationError):
        call.recheck()
    session.call("find")
    assert session.reserve("pay").allowed


def test_the_state_is_looked_at_again(clock: ManualClock) -> None:
    """Where the contract says so."""
    session = Session({"open": True}, contracts=[requires_state("pay", "open", True, recheck=True)])
    call = session.reserve("pay")
    session.state.set("open", False)

    assert not call.recheck()


def test_a_session_that_was_halted_or_ended_meanwhile() -> None:
    """Nothing runs in it any more."""
    session = Session(contracts=[at_most_n_times("pay", 5)])
    call = session.reserve("pay")
    session.end_session()

    assert not call.recheck()


def test_watching_only(clock: ManualClock) -> None:
    """It is recorded, and runs."""
    session = Session(contracts=[must_precede("find", "pay", within=60)], clock=clock.time, mode="shadow")
    session.call("find")
    call = session.reserve("pay")
    clock.advance(61)

    assert call.recheck()

    assert [violation.blocked for violation in session.violations] == [False]
    call.commit()


def test_what_is_voided_while_it_waits(clock: ManualClock) -> None:
    """A write that ran after the second yes has used it up, whichever was let through first."""
    contract = must_precede("confirm", "write", since="write")
    session = Session(contracts=[contract], clock=clock.time)
    session.call("confirm")
    first = session.reserve("write")
    session.call("confirm")

    assert first.recheck()
    first.commit()

    assert not session.reserve("write").allowed


def test_what_marks_counts_from_when_it_runs(clock: ManualClock) -> None:
    """A login that waited for a person bans from then on, not from when it was asked for."""
    session = Session(contracts=[never_after("send", "login", within=60)], clock=clock.time)
    call = session.reserve("login")
    clock.advance(3600)
    assert call.recheck()
    call.commit()
    clock.advance(30)

    assert not session.reserve("send").allowed


def test_it_is_derived_again(tmp_path: Path, clock: ManualClock) -> None:
    """From the steps of the log, with what it refused and what it let run."""
    path = tmp_path / "e.jsonl"
    contracts = [must_precede("find", "pay", within=60), rate_limit("pay", 3, 600)]
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=contracts, clock=clock.time, evidence=evidence)
        for wait in (10, 61, 20, 300):
            session.call("find")
            call = session.reserve("pay")
            clock.advance(wait)
            if call.recheck():
                call.commit()
        assert not session.reserve("pay").allowed

    report = rerun_file(path)

    assert (report.differences, report.problems, report.not_derivable) == ((), (), 0)
    assert report.derived == 13
    changed = path.read_text().replace('"allowed":false,"at"', '"allowed":true,"at"', 1)
    assert changed != path.read_text()
    path.write_text(changed)
    assert rerun_file(path).differences


def test_its_form() -> None:
    """It is part of what a contract means where it is said, and `never` has nothing to look at again."""
    plain, said = must_precede("a", "b", within=5), must_precede("a", "b", within=5, recheck=False)

    assert rules_hash([plain]) != rules_hash([said])
    assert "recheck" not in meaning_of(plain)
    again = rebuilt(meaning_of(said))
    assert again is not None
    assert again.recheck is False
    assert said.spec == "must_precede(a, b, within=5, recheck=False)"
    with pytest.raises(TypeError, match="never has no option 'recheck'"):
        never("a", recheck=True)
    with pytest.raises(TypeError, match="recheck must be True or False, got 1"):
        must_precede("a", "b", recheck=1)  # type: ignore[arg-type]
