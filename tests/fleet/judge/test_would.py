"""A call that is looked at before it is made, or looked at again before it runs, and the end of a run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    at_most_total,
    must_precede,
    never_after,
    rate_limit,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.events import RUN_ENDED
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.fleet import Fleet, SqliteFleet
from openbox_agentrt.fleet.judge.in_memory import MemoryLine
from openbox_agentrt.fleet.steps import Reserve
from tests.fleet.judge.test_same_answers import WORKERS, Clock, Program, beat, comparable

DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}


def sessions(fleet: Fleet, other: Fleet, *contracts: TemporalContract) -> tuple[Session, Session]:
    """One session of each of two workers."""
    return Session(contracts=contracts, fleet=fleet), Session(contracts=contracts, fleet=other)


def test_would_asks_the_store_and_moves_nothing(fleet: Fleet, other: Fleet) -> None:
    """However often it is asked; and it says what another worker did."""
    one, two = sessions(fleet, other, at_most_total("refund", "amount", 500, **DAY))
    one.call("refund", {"amount": 400})
    one.reserve("other")

    assert all(two.would("refund", {"amount": 100}) is None for _ in range(10))
    refused = two.would("refund", {"amount": 101})

    assert refused is not None
    assert refused.broken[0].remaining == "100 left of 500 today, free again at 00:00 UTC"
    assert (two.trace, two.violations, two.in_flight) == ([], [], 0)
    assert two.reserve("refund", {"amount": 100}).allowed


def test_would_says_what_the_session_says_first() -> None:
    """What its own contracts refuse costs no trip: this store cannot be reached."""
    with closing(SqliteFleet("/no/such/folder/fleet.db")) as fleet:
        session = Session(
            contracts=[at_most_n_times("pay", 0), at_most_n_times("pay", 1, **DAY)], fleet=fleet
        )
        refusal = session.would("pay")

    assert refusal is not None
    assert [broken.contract for broken in refusal.broken] == ["at_most_n_times(pay, n=0)"]


def test_would_says_that_nobody_can_be_asked() -> None:
    """As the call would be refused then."""
    with closing(SqliteFleet("/no/such/folder/fleet.db")) as fleet:
        session = Session(contracts=[at_most_n_times("pay", 1, **DAY)], fleet=fleet)
        refusal, reserved = session.would("pay"), session.reserve("pay").refusal

    assert refusal is not None
    assert reserved is not None
    assert refusal.message == reserved.message


def test_would_of_an_outage_counts_here_and_moves_nothing(server: Any) -> None:
    """With the outage counted locally, so is the answer."""
    from openbox_agentrt.fleet import RedisFleet

    server.stop()
    with closing(RedisFleet(server.url, timeout_seconds=0.5, on_outage="local")) as fleet:
        session = Session(contracts=[at_most_n_times("pay", 1, **DAY)], fleet=fleet)
        assert [session.would("pay") for _ in range(3)] == [None] * 3
        assert session.reserve("pay").allowed
        assert session.would("pay") is not None


@pytest.mark.parametrize("seed", range(10))
def test_dry_questions_change_no_other_answer(seed: int) -> None:
    """Two stores get the same steps, and one of them the dry questions as well."""
    clock = Clock()
    program, one, other = (
        Program(random.Random(seed), clock),
        MemoryLine(clock=clock),
        MemoryLine(clock=clock),
    )
    for line in (one, other):
        line.run([beat(worker) for worker in WORKERS])
    said = []
    for _ in range(400):
        was = clock.now
        step = program.step()
        # Any question carries the time of a cell forwards, and it never goes back.
        clock.now = max(was, clock.now)
        answer = one.run([step])[0]
        if isinstance(step, Reserve) and step.dry:
            said.append(answer.said)
        else:
            assert comparable(other.run([step])[0]) == comparable(answer), step

    assert {"ok", "no"} <= set(said), "this would pass without checking much"


async def test_what_another_worker_did_meanwhile_counts(fleet: Fleet, other: Fleet) -> None:
    """A call that waited for a person is judged again in the store, as it is in the session."""
    one, two = sessions(fleet, other, never_after("pay", "close", recheck=True, **DAY))
    call = await one.areserve("pay")
    assert call.allowed
    assert two.reserve("close").allowed

    assert call.recheck()
    assert not await call.arecheck()
    assert call.refusal is not None
    assert [violation.blocked for violation in call.violations] == [True]
    assert call.finished
    assert one.in_flight == 0


async def test_a_call_is_not_in_its_own_way(fleet: Fleet, other: Fleet) -> None:
    """The only place is its own; it is let through, counts once, and is free when it is given up."""
    one, two = sessions(fleet, other, rate_limit("pay", 1, 3600, scope="fleet"))
    call = await one.areserve("pay")
    assert call.allowed

    assert await call.arecheck()
    assert await call.arecheck()
    assert two.would("pay") is not None
    assert await call.astart()
    call.abort(ran=False)
    one.reserve("other")
    await eventually(lambda: two.would("pay") is None)


async def test_contracts_that_do_not_want_it_are_not_asked_again(fleet: Fleet, other: Fleet) -> None:
    """Nor do they refuse beside one that does."""
    contracts = (never_after("pay", "close", recheck=False, **DAY), rate_limit("pay", 1, 3600, scope="fleet"))
    one, two = sessions(fleet, other, *contracts)
    call = await one.areserve("pay")
    assert call.allowed
    assert two.reserve("close").allowed

    assert await call.arecheck()
    assert call.violations == ()
    assert await call.astart()
    call.commit()
    assert two.would("pay") is not None


async def test_in_shadow_mode_it_is_said_and_runs(fleet: Fleet, other: Fleet) -> None:
    """Once for the contract, and the call is counted."""
    contract = never_after("pay", "close", recheck=True, **DAY)
    one, two = (Session(contracts=[contract], fleet=each, mode="shadow") for each in (fleet, other))
    call = await one.areserve("pay")
    two.reserve("close")

    assert await call.arecheck()
    assert [violation.spec for violation in call.violations] == [contract.spec]
    call.commit()


async def test_the_end_of_a_run_counts_for_other_workers(fleet: Fleet, other: Fleet) -> None:
    """Though nobody waits for the store there, and nothing could refuse it."""
    one, two = sessions(fleet, other, must_precede(RUN_ENDED, "report", **DAY))
    assert two.would("report") is not None
    end = one.reserve(RUN_ENDED, {"status": "completed"})
    assert end.allowed
    assert end.lease is None
    end.commit()

    await eventually(lambda: two.would("report") is None)


async def test_the_decisions_can_be_derived_again(fleet: Fleet, other: Fleet, tmp_path: Path) -> None:
    """What is judged again, and what is only told, are steps of the log, and follow from it."""
    contracts = (
        never_after("pay", "close", recheck=False, **DAY),
        never_after("pay", "stop", recheck=True, **DAY),
        must_precede(RUN_ENDED, "report", **DAY),
    )
    log = EvidenceFile(tmp_path / "log.jsonl", record="steps")
    one = Session(contracts=contracts, fleet=fleet, session_id="s", evidence=log.for_session("s"))
    two = Session(contracts=contracts, fleet=other)
    first, second = await one.areserve("pay"), await one.areserve("pay")
    two.reserve("close")
    assert await first.arecheck()
    first.commit()
    two.reserve("stop")
    assert not await second.arecheck()
    one.reserve(RUN_ENDED).commit()
    one.end_session()
    log.close()

    report = rerun_file(tmp_path / "log.jsonl")

    assert report.differences == ()
    assert report.on_fleet == 4


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it does, for as long as a busy machine takes."""
    for _ in range(600):
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(0.02)
    pytest.fail("it never did")
