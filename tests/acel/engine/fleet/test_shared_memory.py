"""Contracts whose memory is a store that processes share, judged by sessions of the engine alone."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    at_most_n_times,
    at_most_total,
    matching,
    max_distinct,
    must_precede,
    mutually_exclusive,
    never_after,
    rate_limit,
)
from openbox_agentrt.acel.metrics import Metrics
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.fleet.client.settling import settle_worker

DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}


def test_two_sessions_of_two_workers_share_a_budget(workers: Callable[..., SqliteFleet]) -> None:
    """And a refusal says what is left, and when there is more."""
    rules = (at_most_total("refund", "amount", 500, key="customer", **DAY),)
    one, other = (Session(contracts=rules, fleet=workers()) for _ in range(2))

    one.call("refund", {"customer": "c-7", "amount": 380})
    refused = other.reserve("refund", {"customer": "c-7", "amount": 120.01})
    other.call("refund", {"customer": "c-8", "amount": 500})
    other.call("refund", {"customer": "c-7", "amount": 120})

    assert refused.refusal is not None
    (broken,) = refused.refusal.broken
    assert broken.remaining == "120 left of 500 today, free again at 00:00 UTC"
    assert broken.retry_after is not None
    assert 0 < broken.retry_after <= 86_400
    assert one.violations == []
    assert [violation.spec for violation in other.violations] == [rules[0].spec]


@pytest.mark.parametrize(
    ("contract", "first", "then"),
    [
        pytest.param(at_most_n_times("a", 1, **DAY), ["a"], "a", id="at_most_n_times"),
        pytest.param(rate_limit("a", 1, 3600, scope="fleet"), ["a"], "a", id="rate_limit"),
        pytest.param(at_most_n_times("a", 1, scope="fleet", within=60), ["a"], "a", id="window"),
        pytest.param(never_after("a", "b", **DAY), ["b"], "a", id="never_after"),
        pytest.param(mutually_exclusive("a", "b", **DAY), ["b"], "a", id="mutually_exclusive"),
        pytest.param(max_distinct("a", "v", 1, **DAY), ["a"], "a", id="max_distinct"),
    ],
)
def test_what_one_worker_did_keeps_another_from_it(
    workers: Callable[..., SqliteFleet], contract: Any, first: list[str], then: str
) -> None:
    """For every contract that limits or excludes."""
    one, other = (Session(contracts=[contract], fleet=workers()) for _ in range(2))

    for tool in first:
        one.call(tool, {"v": 1})

    assert not other.reserve(then, {"v": 2}).allowed


@pytest.mark.parametrize(
    "contract",
    [must_precede("a", "b", scope="fleet", within=60), alternate_precedence("a", "b", **DAY)],
    ids=["must_precede", "alternate_precedence"],
)
def test_what_one_worker_did_lets_another(workers: Callable[..., SqliteFleet], contract: Any) -> None:
    """A success counts once it is committed; of the same worker at once."""
    one, other = (Session(contracts=[contract], fleet=workers()) for _ in range(2))

    refusal = one.reserve("b").refusal
    one.call("a")
    assert one.reserve("b", started=True).allowed or contract.template == "alternate_precedence"

    assert refusal is not None
    assert refusal.broken[0].needs == "a"
    if contract.template == "must_precede":
        one.reserve("x").commit()
        eventually(lambda: other.reserve("b").allowed)


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds that another process will do."""
    for _ in range(2000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came to hold")


def test_a_session_refuses_first_and_takes_back_what_the_store_refuses(
    workers: Callable[..., SqliteFleet],
) -> None:
    """Neither of the two counts a call that never ran."""
    rules = [at_most_n_times("a", 2), at_most_n_times("a", 1, key="k", **DAY)]
    session = Session(contracts=rules, fleet=workers())

    session.call("a", {"k": 1})
    assert not session.reserve("a", {"k": 1}).allowed
    session.call("a", {"k": 2})
    refused = session.reserve("a", {"k": 3})
    again = Session(contracts=rules, fleet=workers())

    assert refused.refusal is not None
    assert [broken.contract for broken in refused.refusal.broken] == [rules[0].spec]
    assert again.reserve("a", {"k": 3}).allowed
    assert session.in_flight == 0


@pytest.mark.parametrize("end", ["abort", "never started", "failed and refunded"])
def test_what_did_not_count_is_free_again(workers: Callable[..., SqliteFleet], end: str) -> None:
    """A call that never ran, and a failed one where the contract says so."""
    fleet = workers()
    refunds = end == "failed and refunded"
    rules = (at_most_n_times("a", 1, refund_on_failure=refunds, **DAY),)
    reservation = Session(contracts=rules, fleet=fleet).reserve("a")

    reservation.abort(ran=refunds)

    assert Session(contracts=rules, fleet=fleet).reserve("a").allowed


@pytest.mark.parametrize("end", ["failed", "lost", "dropped"])
def test_what_may_have_happened_stays_counted(workers: Callable[..., SqliteFleet], end: str) -> None:
    """A call that failed, one that nobody knows the end of, and a reservation that was dropped."""
    fleet = workers()
    rules = (at_most_n_times("a", 1, **DAY),)
    session = Session(contracts=rules, fleet=fleet)
    reservation = session.reserve("a", started=True)

    if end == "failed":
        reservation.abort(ran=True)
    elif end == "lost":
        reservation.lose()
    else:
        del reservation
        gc.collect()

    assert not session.reserve("a").allowed


def test_shadow_counts_and_refuses_nothing(workers: Callable[..., SqliteFleet]) -> None:
    """A session that watches, and a contract that does."""
    rules = (at_most_n_times("a", 1, **DAY),)
    watching = Session(contracts=rules, fleet=workers(), mode="shadow")
    for _ in range(3):
        watching.call("a")
    strict = Session(contracts=[at_most_n_times("a", 1, mode="shadow", **DAY)], fleet=workers())

    reservation = strict.reserve("a")

    assert [violation.blocked for violation in watching.violations] == [False, False]
    assert reservation.allowed
    assert [violation.mode for violation in reservation.violations] == ["shadow"]
    assert not Session(contracts=rules, fleet=workers()).reserve("a").allowed


def test_amounts_measured_later_are_taken_for_their_estimate(workers: Callable[..., SqliteFleet]) -> None:
    """Ten at once stay under the limit; what was measured takes the place of the estimate."""
    fleet = workers()
    rules = (at_most_total("llm", "tokens", 100, estimate=20, **DAY),)
    session = Session(contracts=rules, fleet=fleet)

    calls = [session.reserve("llm", deferred=["tokens"]) for _ in range(10)]
    allowed = [call for call in calls if call.allowed]
    for call in allowed:
        call.commit(measured={"tokens": 1})

    assert len(allowed) == 5
    assert session.reserve("llm", {}, deferred={"tokens": 95}).allowed
    assert not session.reserve("llm", {}, deferred={"tokens": 1}).allowed


def test_what_a_limit_counts_is_no_prerequisite(workers: Callable[..., SqliteFleet]) -> None:
    """A list with one text that matches counts for a ban or a limit over the pattern, and allows nothing."""
    inside = matching("send", "@example", field="to")
    rules = (at_most_n_times(inside, 5, **DAY), must_precede(inside, "pay", **DAY))
    session = Session(contracts=rules, fleet=workers())

    session.reserve("send", {"to": ["eve@evil", "ann@example"]}).commit()
    assert not session.reserve("pay").allowed
    session.reserve("send", {"to": ["ann@example"]}).commit()
    assert session.reserve("pay").allowed


def test_an_amount_nobody_can_estimate_needs_a_word(workers: Callable[..., SqliteFleet]) -> None:
    """Everything under way could pass the limit, so that is refused unless it is said."""
    fleet = workers()
    strict = Session(contracts=[at_most_total("llm", "tokens", 100, **DAY)], fleet=fleet)
    loose = Session(contracts=[at_most_total("llm", "tokens", 100, overshoot=True, **DAY)], fleet=fleet)

    refusal = strict.reserve("llm", deferred=["tokens"]).refusal
    call = loose.reserve("llm", deferred=["tokens"])
    call.commit(measured={"tokens": 101})

    assert refusal is not None
    assert "tokens is known only after the call: give the contract estimate=" in str(refusal.broken[0].fault)
    eventually(lambda: len(loose.violations) == 1)
    assert not loose.reserve("llm", deferred=["tokens"]).allowed


@pytest.mark.parametrize(
    ("amount", "fault"),
    [
        pytest.param(0.001, "amount is too large, or has more than 2 decimals", id="decimals"),
        pytest.param(10**20, "amount is too large, or has more than 2 decimals", id="large"),
        pytest.param(None, "amount is missing", id="missing"),
        pytest.param("9", "amount is not a number", id="text"),
    ],
)
def test_an_amount_that_cannot_be_added_exactly_is_refused(
    workers: Callable[..., SqliteFleet], amount: Any, fault: str
) -> None:
    """It says why, and not what the amount was."""
    session = Session(contracts=[at_most_total("pay", "amount", 10**6, **DAY)], fleet=workers())

    refusal = session.reserve("pay", {"amount": amount}).refusal

    assert refusal is not None
    assert refusal.broken[0].fault == fault


def test_a_third_of_thirty_cents_three_times(workers: Callable[..., SqliteFleet]) -> None:
    """Amounts are exact: 0.1 three times is 0.3."""
    session = Session(contracts=[at_most_total("pay", "amount", 0.3, **DAY)], fleet=workers())

    assert [session.reserve("pay", {"amount": 0.1}, started=True).allowed for _ in range(4)] == [
        True,
        True,
        True,
        False,
    ]


def test_other_arguments_ran_than_were_judged(workers: Callable[..., SqliteFleet]) -> None:
    """What ran is what counts, and what only was judged stays counted."""
    fleet = workers()
    session = Session(contracts=[at_most_total("pay", "amount", 100, key="c", **DAY)], fleet=fleet)

    session.reserve("pay", {"c": 1, "amount": 90}, started=True).commit(args={"c": 1, "amount": 10})
    session.reserve("pay", {"c": 2, "amount": 90}, started=True).commit(args={"c": 3, "amount": 90})

    assert session.reserve("pay", {"c": 1, "amount": 90}).allowed
    assert not session.reserve("pay", {"c": 2, "amount": 11}).allowed
    eventually(lambda: not session.reserve("pay", {"c": 3, "amount": 11}).allowed)


def test_a_contract_of_the_fleet_needs_a_store() -> None:
    """It would count one session's calls, and nobody would notice."""
    contract = at_most_n_times("a", 1, **DAY)

    with pytest.raises(ValueError, match=r"has scope 'fleet': give the session fleet=, or fleet='alone'"):
        Session(contracts=[contract])
    with pytest.raises(ValueError, match="has scope 'fleet'"):
        Session().add_contract(contract)
    alone = Session(contracts=[contract], fleet="alone")
    alone.call("a")
    assert not alone.reserve("a").allowed
    assert Session(contracts=[contract], fleet="alone").reserve("a").allowed


def test_rules_of_two_versions_share_the_cells_that_are_equal(
    workers: Callable[..., SqliteFleet], tmp_path: Path
) -> None:
    """A rolling deploy with another limit and one more contract goes on with what was counted."""
    fleet = workers()
    rule = {"template": "at_most_total", "args": ["pay", "amount", 500], "scope": "fleet", "per": "day"}
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps({"contracts": [rule]}))
    more = {"template": "at_most_n_times", "args": ["pay", 9], "scope": "fleet", "per": "day"}
    new.write_text(json.dumps({"contracts": [more, {**rule, "args": ["pay", "amount", 600]}]}))

    Session.from_rules(old, fleet=fleet).call("pay", {"amount": 450})
    refusal = Session.from_rules(new, fleet=fleet).reserve("pay", {"amount": 151}).refusal

    assert refusal is not None
    assert [broken.remaining for broken in refusal.broken] == [
        "150 left of 600 today, free again at 00:00 UTC"
    ]
    assert Session.from_rules(new, fleet=fleet).reserve("pay", {"amount": 150}).allowed


def test_the_event_loop_does_not_wait(workers: Callable[..., SqliteFleet]) -> None:
    """Reserve, start and commit are awaited, and a cancelled reserve leaves nothing reserved."""
    fleet = workers()
    session = Session(contracts=[at_most_n_times("a", 1, **DAY)], fleet=fleet)

    async def main() -> None:
        task = asyncio.create_task(session.areserve("a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.in_flight == 0
        reservation = await session.areserve("a")
        assert await reservation.astart()
        await reservation.acommit("done")
        assert not (await session.areserve("a")).allowed

    asyncio.run(main())


def test_an_outage_refuses_with_the_reason(
    workers: Callable[..., SqliteFleet], store_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The call does not run, and says when to try again; other tools go on."""
    caplog.set_level(logging.CRITICAL)
    store_path.write_bytes(b"not a database" * 100)
    metrics = Metrics()
    session = Session(
        contracts=[at_most_n_times("a", 1, **DAY)], fleet=workers(timeout_seconds=1), metrics=metrics
    )

    refusal = session.reserve("a").refusal
    session.call("b")

    assert refusal is not None
    assert refusal.broken[0].fault
    assert metrics.snapshot()["fleet_outages"] == {"refuse": 1}
    assert session.in_flight == 0


def test_the_steps_of_a_session_follow_again_without_the_store(
    workers: Callable[..., SqliteFleet], tmp_path: Path
) -> None:
    """What the store counted is taken from the record; what follows from it is derived."""
    log = tmp_path / "evidence.jsonl"
    rules = (at_most_n_times("a", 1, **DAY), at_most_n_times("b", 1))
    with EvidenceFile(log, record="steps") as file:
        session = Session(contracts=rules, fleet=workers(), evidence=file)
        session.call("a")
        assert not session.reserve("a").allowed
        session.call("b")
        assert not session.reserve("b").allowed
        session.end_session()

    report = rerun_file(log)

    assert '"lease":"' in log.read_text()
    assert (report.ok, report.derived, report.on_code, report.on_fleet) == (True, 7, 0, 2)


PAY = """
import sys
from openbox_agentrt.acel import Session
from openbox_agentrt.acel.temporal import at_most_n_times
from openbox_agentrt.fleet import open_fleet

fleet = open_fleet(sys.argv[1])
session = Session(contracts=[at_most_n_times("refund", 1, scope="fleet", forever=True)], fleet=fleet)
sys.stdin.readline()
reservation = session.reserve("refund", started=True)
if reservation.allowed:
    reservation.commit()
print("paid" if reservation.allowed else reservation.refusal.broken[0].remaining)
fleet.close()
"""


def test_three_processes_with_a_limit_of_one_pay_once(store_path: Path) -> None:
    """At the same time, with no session in common."""
    arguments = [sys.executable, "-c", PAY, f"sqlite:///{store_path}"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(arguments, **pipes) for _ in range(3)]

    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = sorted(process.communicate(timeout=60)[0].strip() for process in processes)

    assert said == ["0 left of 1", "0 left of 1", "paid"]


def test_what_ran_after_it_was_given_back_is_counted_and_told(workers: Callable[..., SqliteFleet]) -> None:
    """Its effect is real: it goes to the violations, and so to evidence and metrics."""
    fleet, other = workers(), workers()
    rules = (at_most_n_times("a", 1, **DAY),)
    session = Session(contracts=rules, fleet=fleet)
    reservation = session.reserve("a")
    line = other._connect()
    settle_worker(line, fleet.worker, person=True)
    line.close()

    reservation.commit()

    eventually(lambda: len(session.violations) == 1)
    (violation,) = session.violations
    assert violation.fault is not None
    assert "had been given back, and was counted all the same" in violation.fault
    assert not Session(contracts=rules, fleet=other).reserve("a").allowed
