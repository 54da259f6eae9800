"""Governed runs that count in a store: interrupted anywhere, and with the server gone in the middle."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError
from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, must_precede, never_after
from openbox_agentrt.acel.events import RUN_ENDED
from openbox_agentrt.fleet import Fleet, RedisFleet
from openbox_agentrt.testing import Call, ScriptedProvider
from tests.fleet.redis_server import RedisServer

DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}


def counted(fleet: Fleet, paid: int) -> bool:
    """Tell whether as many calls stand in the store as were paid."""

    def fits(limit: int) -> bool:
        reservation = Session(contracts=[at_most_n_times("pay", limit, **DAY)], fleet=fleet).reserve("pay")
        if reservation.allowed:
            reservation.abort()
        return reservation.allowed

    return fits(paid + 1) and not fits(paid)


async def test_a_run_that_is_cancelled_anywhere_counts_what_it_did(
    make_stage: Any, kit: Any, fleet: Fleet, other: Fleet
) -> None:
    """Whatever it waits for - the store, Core, the tool - what ran is counted, and nothing else is."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 1000, **DAY)], fleet=fleet)
    paid: list[int] = []

    async def pay(amount: int) -> str:
        paid.append(amount)
        await asyncio.sleep(0)
        return "paid"

    async def run() -> None:
        provider = ScriptedProvider(Call(name="pay", arguments={"amount": 1}), "done")
        loop = AgentLoop(provider, tool_registry=kit.registry({"pay": pay}))
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("pay")])

    interrupted = 0
    for turns in range(0, 60, 4):
        task = asyncio.create_task(run())
        for _ in range(turns):
            # A turn of the loop, or an answer of the store, which comes from another thread.
            await asyncio.sleep(0.0005)
        task.cancel()
        interrupted += isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)

    assert interrupted
    assert paid
    for _ in range(600):
        if counted(other, len(paid)):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{len(paid)} were paid, and the store has counted others")


async def test_parallel_calls_of_two_workers_pay_up_to_the_limit(
    make_stage: Any, fleet: Fleet, other: Fleet
) -> None:
    """Forty at once, half of them in each worker."""
    rules = [at_most_total("pay", "amount", 500, key="$subject.customer", **DAY)]
    stages = [await make_stage(contracts=rules, fleet=worker) for worker in (fleet, other)]
    paid: list[int] = []

    async def pay(stage: Any) -> None:
        async with (
            stage.governance.run_scope(subject={"customer": "c-7"}),
            stage.governance.activity("pay", {"amount": 100}),
        ):
            paid.append(100)
            await asyncio.sleep(0)

    outcomes = await asyncio.gather(*(pay(stages[n % 2]) for n in range(40)), return_exceptions=True)

    assert sum(paid) == 500
    assert sum(isinstance(outcome, ContractRefusedError) for outcome in outcomes) == 35


async def test_a_server_that_is_gone_in_the_middle_breaks_no_run(
    make_stage: Any, server: RedisServer
) -> None:
    """Its calls are refused with the reason; when it is back, they go on by themselves, in the same run."""
    with closing(RedisFleet(server.url, timeout_seconds=0.5)) as fleet:
        stage = await make_stage(contracts=[at_most_n_times("pay", 100, **DAY)], fleet=fleet)

        refused: list[ContractRefusedError] = []

        async def pay() -> bool:
            try:
                async with stage.governance.activity("pay", {"amount": 1}):
                    return True
            except ContractRefusedError as error:
                refused.append(error)
                return False

        async def until(*, paid: bool) -> None:
            for _ in range(600):
                if await pay() is paid:
                    return
                await asyncio.sleep(0.05)
            pytest.fail(
                "the store came back, and nothing was paid" if paid else "the store was gone, and it paid"
            )

        async with stage.governance.run_scope() as run:
            await until(paid=True)
            server.kill()
            await until(paid=False)
            async with stage.governance.activity("look"):
                pass
            server.start()
            await until(paid=True)

    assert run.ended
    assert {error.decision and error.decision.fleet for error in refused} == {"unavailable"}
    assert "the fleet's store does not answer" in str(refused[0])
    assert stage.story()[-1] == "WorkflowCompleted completed"


@pytest.mark.parametrize("meanwhile", [False, True], ids=["nothing happened", "excluded meanwhile"])
async def test_a_call_that_waited_for_a_person_is_judged_again_in_the_store(
    make_stage: Any, fleet: Fleet, other: Fleet, meanwhile: bool
) -> None:
    """What another worker did while the person was asked keeps the call from running."""
    rules = [never_after("send", "close", recheck=True, **DAY)]
    stage = await make_stage(
        lambda event: "REQUIRE_APPROVAL" if event.get("activity_type") == "send" else None,
        contracts=rules,
        fleet=fleet,
        approval_poll_interval_ms=5,
    )
    sent: list[int] = []

    async def run() -> None:
        async with stage.governance.run_scope(), stage.governance.activity("send"):
            sent.append(1)

    running = asyncio.create_task(run())
    approval = await stage.core.await_approval()
    if meanwhile:
        closed = await Session(contracts=rules, fleet=other).areserve("close", started=True)
        assert closed.allowed
    stage.core.approve(approval)
    if meanwhile:
        with pytest.raises(ContractRefusedError, match="no earlier close"):
            await running
    else:
        await running

    assert sent == ([] if meanwhile else [1])


async def test_the_end_of_a_run_counts_in_the_store(make_stage: Any, fleet: Fleet, other: Fleet) -> None:
    """For every worker, once the run has ended."""
    rules = [must_precede(RUN_ENDED, "report", **DAY)]
    stage = await make_stage(contracts=rules, fleet=fleet)
    session = Session(contracts=rules, fleet=other)
    async with stage.governance.run_scope():
        assert await asyncio.to_thread(session.would, "report") is not None

    for _ in range(600):
        if await asyncio.to_thread(session.would, "report") is None:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the end of the run was not told to the store")
