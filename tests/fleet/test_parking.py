"""A run that waits for a person outlives its process: whichever worker resumes it uses the yes, once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError, GovernanceUnavailableError
from openbox_agentrt.acel import Session
from openbox_agentrt.fleet import Fleet, RedisFleet
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.local_core.server import running
from openbox_agentrt.testing import Call, ScriptedProvider
from tests.fleet.pausing import loaded, rules, saved
from tests.fleet.redis_server import RedisServer


def asks(event: Any) -> Any:
    return "REQUIRE_APPROVAL" if event.get("activity_type") == "refund" else None


class Worker:
    """A governance with a worker of the store, and a loop that pays back."""

    def __init__(self, stage: Any, kit: Any, paid: list[int], *steps: Any) -> None:
        self.stage, self.kit = stage, kit

        def refund(amount: int) -> str:
            paid.append(amount)
            return "refunded"

        loop = AgentLoop(ScriptedProvider(*steps), tool_registry=kit.registry({"refund": refund}))
        self.loop = stage.governance.govern_loop(loop)

    async def begin(self) -> str:
        """Run until a person is asked, and give the checkpoint as text."""
        result = await self.loop.run(self.kit.agent("Support"), [self.kit.user("Refund 300.")])
        assert result.termination_reason == "waiting_for_approval"
        return saved(result.messages)

    async def resume(self, checkpoint: str) -> Any:
        return await self.loop.run(self.kit.agent("Support"), [], resume_checkpoint=loaded(checkpoint))


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def core() -> LocalCore:
    return LocalCore(asks)


@pytest.fixture
def worker(make_stage: Any, kit: Any, paid: list[int], core: LocalCore) -> Any:
    """Makes workers that ask one Core."""

    async def make(fleet: Fleet, *steps: Any, **options: Any) -> Worker:
        options = {"contracts": rules(), "approval_mode": "pause", "fleet": fleet, **options}
        stage = await make_stage(core=core, **options)
        return Worker(stage, kit, paid, *(steps or (Call(name="refund", arguments={"amount": 300}), "done")))

    return make


def left(fleet: Fleet, amount: int) -> bool:
    """Tell whether so much is left in the store."""
    reservation = Session(contracts=rules(), fleet=fleet).reserve("refund", {"amount": amount})
    if reservation.allowed:
        reservation.abort()
    return reservation.allowed


def approve(core: LocalCore) -> None:
    (waiting,) = core.pending_approvals()
    core.approve(waiting)


async def test_another_worker_goes_on_with_the_yes(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Under the same ids, on what was reserved when the person was asked: 300 of 500 are never free."""
    first, second = await worker(fleet), await worker(other, "done")
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    fleet.close()
    assert not left(other, 300)
    approve(core)

    result = await second.resume(checkpoint)

    assert result.termination_reason == "completed"
    assert paid == [300]
    assert left(other, 200)
    assert not left(other, 201)
    assert first.stage.story() == [
        "WorkflowStarted",
        "SignalReceived user_prompt",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "ActivityStarted refund",
        "ActivityCompleted refund completed",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "WorkflowCompleted completed",
    ]
    assert len({event["run_id"] for event in first.stage.events()}) == 1


@pytest.mark.leaves_rows_open
async def test_a_yes_is_used_once(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Two resume at the same time, twice in one worker and in the one that still lives: one of them pays."""
    first = await worker(fleet)
    second, third = await worker(other, "done"), await worker(other, "done")
    checkpoint = await first.begin()
    approve(core)

    results = await asyncio.gather(
        *(each.resume(checkpoint) for each in (second, third, first)), return_exceptions=True
    )

    assert paid == [300]
    completed = [r for r in results if getattr(r, "termination_reason", None) == "completed"]
    assert len(completed) == 1


@pytest.mark.leaves_rows_open
async def test_who_still_lives_goes_on_itself(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """The lease is taken back from the store, so nobody else can."""
    first, second = await worker(fleet), await worker(other, "done", contracts=rules(1000))
    checkpoint = await first.begin()
    approve(core)

    assert (await first.resume(checkpoint)).termination_reason == "completed"
    again = await second.resume(checkpoint)

    assert again.termination_reason == "waiting_for_approval"
    assert paid == [300]


async def test_too_early_waits_again_anywhere(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Nobody has decided: it is parked once more, and the question is not put a second time."""
    first, second = await worker(fleet), await worker(other, "done")
    checkpoint = await first.begin()

    result = await second.resume(checkpoint)
    assert result.termination_reason == "waiting_for_approval"
    await second.stage.governance.aclose()
    third = await worker(fleet, "done")
    approve(core)

    assert (await third.resume(saved(result.messages))).termination_reason == "completed"
    assert paid == [300]


@pytest.mark.leaves_rows_open
async def test_a_call_without_contracts_is_kept_too(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Its lease holds nothing and is there to be taken once."""
    first, second = await worker(fleet, contracts=None), await worker(other, "done", contracts=None)
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core)

    assert (await second.resume(checkpoint)).termination_reason == "completed"
    again = await second.resume(checkpoint)

    assert again.termination_reason == "waiting_for_approval"
    assert paid == [300]


@pytest.mark.leaves_rows_open
async def test_other_arguments_are_judged_afresh(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """What was judged is kept as a hash in the store: who changes the checkpoint has no yes."""
    first, second = await worker(fleet), await worker(other, "done", contracts=rules(1000))
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core)

    result = await second.resume(checkpoint.replace('"amount": 300', '"amount": 400'))

    assert result.termination_reason == "waiting_for_approval"
    assert paid == []


@pytest.mark.leaves_rows_open
async def test_somebody_elses_conversation_does_not_take_it(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """Whoever quotes the lease's name in other words gets nothing, and takes nothing from its owner."""
    first, second = await worker(fleet), await worker(other, "done", "done", contracts=rules(1000))
    checkpoint = await first.begin()
    await first.stage.governance.aclose()
    approve(core)

    stolen = await second.resume(checkpoint.replace("Refund 300.", "Refund me."))
    assert stolen.termination_reason == "waiting_for_approval"
    assert paid == []

    assert (await second.resume(checkpoint)).termination_reason == "completed"
    assert paid == [300]


@pytest.mark.leaves_rows_open
async def test_what_was_redacted_is_resumed_here_only(
    make_stage: Any, kit: Any, fleet: Fleet, other: Fleet, paid: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Another process has only the raw arguments, which must not be used, and says so."""

    def redacts(event: Any) -> Any:
        if event.get("activity_type") != "refund":
            return None
        return {
            "verdict": "require_approval",
            "guardrails_result": {"input_type": "activity_input", "redacted_input": [{"amount": 1}]},
        }

    core = LocalCore(redacts)
    options: Any = {"contracts": rules(1000), "approval_mode": "pause", "core": core}
    steps = (Call(name="refund", arguments={"amount": 300}), "done")
    first = Worker(await make_stage(fleet=fleet, **options), kit, paid, *steps)
    second = Worker(await make_stage(fleet=other, **options), kit, paid, "done")

    checkpoint = await first.begin()

    assert "openbox_leases" not in checkpoint
    assert (await second.resume(checkpoint)).termination_reason == "waiting_for_approval"
    assert "waits for an approval in another process" in caplog.text


@pytest.mark.leaves_rows_open
async def test_a_store_that_is_away_loses_no_yes(
    worker: Any, core: LocalCore, server: RedisServer, paid: list[int]
) -> None:
    """The run is not resumed, with the reason, and can be when the store is back."""
    with closing(RedisFleet(server.url)) as one, closing(RedisFleet(server.url)) as another:
        one.timeout_seconds = 20
        first, second = await worker(one), await worker(another, "done")
        checkpoint = await first.begin()
        approve(core)

        server.stop()
        one.timeout_seconds = 0.2
        for each in (first, second):
            with pytest.raises(GovernanceUnavailableError, match="does not answer"):
                await each.resume(checkpoint)
        server.go_on()
        one.timeout_seconds = 20

        assert (await first.resume(checkpoint)).termination_reason == "completed"
    assert paid == [300]


@pytest.mark.leaves_rows_open
@pytest.mark.parametrize("heard", [True, False], ids=["heard of it", "has not heard"])
async def test_a_yes_outlives_the_data_of_the_store_where_the_run_was_paused(
    worker: Any, core: LocalCore, server: RedisServer, paid: list[int], heard: bool
) -> None:
    """Its worker tells the store again what it waits with; nothing is reserved twice, and no yes is."""
    with (
        closing(RedisFleet(server.url, timeout_seconds=20)) as one,
        closing(RedisFleet(server.url, timeout_seconds=20)) as another,
    ):
        first, second = await worker(one), await worker(another, "done")
        checkpoint = await first.begin()
        server.ask("FLUSHALL")
        if heard:
            assert not left(one, 300)
        approve(core)

        assert (await first.resume(checkpoint)).termination_reason == "completed"
        assert paid == [300]
        assert left(another, 200)
        assert not left(another, 201)
        with pytest.raises(ContractRefusedError, match="200 left of 500"):
            await second.resume(checkpoint)
    assert paid == [300]


@pytest.mark.leaves_rows_open
async def test_another_process_has_no_yes_that_the_store_has_lost(
    worker: Any, core: LocalCore, server: RedisServer, paid: list[int]
) -> None:
    """The call is judged afresh there, and takes what the first worker does not find reserved any more."""
    with (
        closing(RedisFleet(server.url, timeout_seconds=20)) as one,
        closing(RedisFleet(server.url, timeout_seconds=20)) as another,
    ):
        first, second = await worker(one), await worker(another)
        checkpoint = await first.begin()
        server.ask("FLUSHALL")
        approve(core)

        assert (await second.resume(checkpoint)).termination_reason == "waiting_for_approval"
        with pytest.raises(ContractRefusedError, match="200 left of 500"):
            await first.resume(checkpoint)
    assert paid == []


async def test_a_wait_that_is_over_closes_the_run_unless_another_has_it(
    worker: Any, core: LocalCore, fleet: Fleet, other: Fleet, paid: list[int]
) -> None:
    """The worker that paused reports an end only of what nobody else went on with."""
    first = await worker(fleet, approval_max_wait_ms=1_000_000)
    second = await worker(other, "done")
    checkpoint = await first.begin()
    approve(core)
    assert (await second.resume(checkpoint)).termination_reason == "completed"
    suspended = first.stage.governance._runs.suspended
    (run_id,) = suspended._suspended

    suspended._close(run_id)
    await asyncio.gather(*first.stage.governance._runs.parking._ending)

    assert [each for each in first.stage.story() if each.startswith("Workflow")] == [
        "WorkflowStarted",
        "WorkflowCompleted completed",
    ]
    assert paid == [300]


async def test_a_wait_that_is_over_gives_back_what_was_reserved(
    worker: Any, fleet: Fleet, other: Fleet
) -> None:
    """And the run is closed at Core, by the one process that has it."""
    first = await worker(fleet, approval_max_wait_ms=1_000_000)
    await first.begin()
    suspended = first.stage.governance._runs.suspended
    (run_id,) = suspended._suspended

    suspended._close(run_id)
    await asyncio.gather(*first.stage.governance._runs.parking._ending)

    await first.stage.governance.aclose()
    assert first.stage.story()[-1].startswith("Workflow")
    for _ in range(600):
        if left(other, 500):
            return
        await asyncio.sleep(0.02)
    pytest.fail("what was reserved for the call is not free")


@pytest.fixture
def begun(open_one: Callable[[], Fleet], core: LocalCore, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a worker in a process of its own, which asks Core over HTTP; it ends with the test."""
    with running(core) as core_url:
        command = [sys.executable, "-m", "tests.fleet.pausing", open_one().url, core_url, str(tmp_path)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with child:
            yield child
            child.kill()


@pytest.mark.leaves_rows_open
async def test_a_worker_that_is_killed_loses_no_yes(
    worker: Any,
    core: LocalCore,
    fleet: Fleet,
    other: Fleet,
    begun: subprocess.Popen[str],
    tmp_path: Path,
    paid: list[int],
) -> None:
    """What it reserved outlives it, and one of two that resume at once pays it."""
    assert begun.stdout is not None
    assert begun.stdout.readline().strip() == "waiting_for_approval"
    begun.kill()
    begun.wait()
    approve(core)
    checkpoint = (tmp_path / "checkpoint").read_text()
    workers = [await worker(each, "done", contracts=rules(1000)) for each in (fleet, other)]

    results = await asyncio.gather(*(each.resume(checkpoint) for each in workers))

    assert sorted(each.termination_reason for each in results) == ["completed", "waiting_for_approval"]
    assert paid == [300]
    (done,) = [e for e in core.records() if e.event.get("activity_type") == "refund" and "status" in e.event]
    assert done.event["status"] == "completed"
