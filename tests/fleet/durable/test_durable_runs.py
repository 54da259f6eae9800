"""Governed runs whose session outlives their process: a restart or another worker goes on with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError, OptionError, create_openbox_agentrt
from openbox_agentrt.acel import Metrics, TemporalContract, at_most_total, must_precede, response
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.acel.rulesfile import parse_rules
from openbox_agentrt.fleet import Fleet, RedisFleet, SessionBusyError
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider
from openbox_agentrt.traces.backtest import backtest
from openbox_agentrt.traces.formats import Recordings
from tests.fleet.redis_server import RedisServer
from tests.fleet.runs.pausing import loaded, saved
from tests.fleet.test_sessions import take_away


def rules(limit: int = 500) -> list[Any]:
    return [must_precede("verify", "refund"), at_most_total("refund", "amount", limit)]


def call(tool: str, **arguments: Any) -> Call:
    return Call(name=tool, arguments=arguments)


class Worker:
    """A governance with durable sessions, and a loop with three tools."""

    def __init__(self, stage: Any, kit: Any, done: list[str]) -> None:
        self.stage, self.kit, self.done = stage, kit, done
        self.governance = stage.governance

    def loop(self, *steps: Any) -> AgentLoop:
        def verify() -> str:
            self.done.append("verify")
            return "yes"

        def refund(amount: int) -> str:
            self.done.append(f"refund {amount}")
            return "refunded"

        tools = self.kit.registry({"verify": verify, "refund": refund})
        loop = AgentLoop(ScriptedProvider(*steps), tool_registry=tools)
        governed: AgentLoop = self.governance.govern_loop(loop)
        return governed

    async def run(self, *steps: Any, session: str = "c-1", checkpoint: str | None = None) -> Any:
        """Run with a session's id, or resume."""
        more: dict[str, Any] = {} if checkpoint is None else {"resume_checkpoint": loaded(checkpoint)}
        messages = [self.kit.user("Help.")] if checkpoint is None else []
        return await self.loop(*steps, "done").run(
            self.kit.agent("Support"), messages, tool_context={"session_id": session}, **more
        )


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def worker(make_stage: Any, kit: Any, done: list[str]) -> Any:
    async def make(fleet: Fleet, **options: Any) -> Worker:
        options = {"contracts": rules(), "sessions": "durable", "fleet": fleet, **options}
        return Worker(await make_stage(**options), kit, done)

    return make


async def test_another_worker_remembers_what_was_done(
    worker: Any, fleet: Fleet, other: Fleet, done: Any
) -> None:
    """Who was verified by one may be paid by the next; the limit is one for both, and for a third."""
    first, second = await worker(fleet), await worker(other)
    await first.run(call("verify"), call("refund", amount=300))
    await second.run(call("refund", amount=200))
    with pytest.raises(ContractRefusedError, match="0 left of 500"):
        await first.run(call("refund", amount=1))
    with pytest.raises(ContractRefusedError):
        await second.run(call("refund", amount=1), session="c-2")

    assert done == ["verify", "refund 300", "refund 200"]


async def test_a_restart_goes_on(worker: Any, open_one: Any, done: Any) -> None:
    """Closing a governance ends no durable session."""
    first = await worker(open_one())
    await first.run(call("verify"))
    await first.governance.aclose()
    second = await worker(open_one())

    await second.run(call("refund", amount=300))

    assert done == ["verify", "refund 300"]


async def test_of_two_workers_at_once_one_is_refused(
    worker: Any, fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as the other has the session, with the reason, and when to ask again."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.05)
    first, second = await worker(fleet), await worker(other)

    async with first.governance.run_scope("Hello", session_id="c-1"):
        with pytest.raises(ContractRefusedError, match="in use by another worker") as refused:
            await second.run(call("verify"))
    assert (refused.value.refusal.broken[0].retry_after or 0) > 0

    await second.run(call("verify"))


async def test_a_second_worker_waits_for_the_first(
    worker: Any, fleet: Fleet, other: Fleet, done: Any
) -> None:
    """A few seconds, and goes on with what that did."""
    first, second = await worker(fleet), await worker(other)
    async with first.governance.run_scope("Hello", session_id="c-1"):
        waiting = asyncio.create_task(second.run(call("refund", amount=300)))
        async with first.governance.activity("verify"):
            await asyncio.sleep(0.1)
        assert not waiting.done()
    await waiting

    assert done == ["refund 300"]


async def test_nothing_runs_on_a_memory_that_another_worker_has_gone_on_with(
    worker: Any, fleet: Fleet, done: Any
) -> None:
    """The lease was over while Core was asked: the call is refused, and the next one knows of the other."""

    taken = False

    def asked(event: Any) -> None:
        nonlocal taken
        is_refund = event.get("activity_type") == "refund" and event["event_type"] == "ActivityStarted"
        if is_refund and not taken:
            taken = True
            take_away(fleet)

    first = await worker(fleet, core=LocalCore(asked), on_tool_block="return_error")
    await first.run(call("verify"))
    result = await first.run(call("refund", amount=300), call("refund", amount=100))

    assert done == ["verify", "refund 100"]
    told = str(result.messages)
    assert "another worker went on with the session meanwhile" in told


@pytest.mark.parametrize("same", [True, False], ids=["same process", "another one"])
async def test_a_pause_leaves_the_session_to_others(
    worker: Any, fleet: Fleet, other: Fleet, done: Any, same: bool
) -> None:
    """While a person is asked, another worker may go on; the run that is resumed remembers all of it."""
    core = LocalCore(lambda event: "REQUIRE_APPROVAL" if event.get("activity_type") == "refund" else None)
    pauses: dict[str, Any] = {"core": core, "approval_mode": "pause"}
    first, second = await worker(fleet, **pauses), await worker(other, **pauses)
    result = await first.run(call("verify"), call("refund", amount=300))
    assert result.termination_reason == "waiting_for_approval"

    await second.run(call("verify"))
    (waiting,) = core.pending_approvals()
    core.approve(waiting)
    checkpoint = saved(result.messages)
    await (first if same else second).run(checkpoint=checkpoint)

    assert done == ["verify", "verify", "refund 300"]


@pytest.mark.parametrize("policy", ["refuse", "local"])
async def test_a_store_that_is_away_is_seen(worker: Any, server: RedisServer, done: Any, policy: Any) -> None:
    """Refused, or counted in this process alone, which the decision and the metrics say; then it goes on."""
    metrics = Metrics()
    fleet = RedisFleet(server.url, on_outage=policy)
    decisions: list[Any] = []
    first = await worker(fleet, metrics=metrics, on_decision=decisions.append)
    await first.run(call("verify"))
    server.stop()
    began = asyncio.get_running_loop().time()

    if policy == "refuse":
        with pytest.raises(ContractRefusedError, match="the fleet's store does not answer"):
            await first.run(call("refund", amount=300))
        assert "unavailable" in [each.fleet for each in decisions]
    else:
        await first.run(call("refund", amount=300))
        assert "local" in [each.fleet for each in decisions]
    assert metrics.snapshot()["fleet_outages"][policy]
    assert asyncio.get_running_loop().time() - began < 20
    server.go_on()
    for _ in range(200):
        try:
            await first.run(call("refund", amount=200))
            break
        except ContractRefusedError:
            await asyncio.sleep(0.05)

    assert done == ["verify", "refund 300", "refund 200"][:: 1 if policy == "local" else 2]
    fleet.close()


async def test_a_session_that_was_ended_is_over_for_all(worker: Any, fleet: Fleet, other: Fleet) -> None:
    """What is unmet is told once; a run that comes later begins anew, whoever runs it."""
    more = {"contracts": [*rules(), response("verify", "refund")]}
    first, second = await worker(fleet, **more), await worker(other, **more)
    await first.run(call("verify"))

    unmet = await second.governance.aend_session("c-1")

    assert [each.spec for each in unmet] == ["response(verify, refund)"]
    with pytest.raises(ContractRefusedError, match="must_precede"):
        await first.run(call("refund", amount=1))
    with pytest.raises(KeyError):
        await second.governance.aend_session("c-7")
    with pytest.raises(RuntimeError, match="aend_session"):
        first.governance.end_session("c-1")


async def test_a_session_in_use_is_not_ended_by_another(
    worker: Any, fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that it is in use."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.05)
    first, second = await worker(fleet), await worker(other)
    async with first.governance.run_scope("Hello", session_id="c-1"):
        with pytest.raises(SessionBusyError):
            await second.governance.aend_session("c-1")


class Own(TemporalContract):
    """A contract that is code."""

    def _step(self, tool: str, args: Any) -> Any:
        return self.verdict


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({"fleet": None}, "there is no store", id="no store"),
        pytest.param({"contracts": [Own("own")]}, "has code of its own", id="code"),
        pytest.param({"contracts": lambda: None}, "builds each session itself", id="built elsewhere"),
        pytest.param({"contract_scope": "run"}, "no two runs share anything", id="one run"),
        pytest.param({"sessions": "forever"}, "memory", id="no such place"),
    ],
)
async def test_what_cannot_be_kept_is_an_error_at_the_start(options: dict[str, Any], problem: str) -> None:
    """Before anything runs."""
    given = {"sessions": "durable", "contracts": rules(), "fleet": "sqlite:///fleet.db", **options}
    with pytest.raises(OptionError, match=problem):
        await create_openbox_agentrt(environ={}, core="off", **given)


MOVED = {
    "contracts": [
        {"template": "must_precede", "args": ["verify", "refund"]},
        {"template": "at_most_total", "args": ["refund", "amount", 500], "scope": "fleet", "forever": True},
    ]
}


async def test_evidence_of_a_session_that_moved_is_no_difference(
    worker: Any, fleet: Fleet, other: Fleet, tmp_path: Path
) -> None:
    """What it brought along is not in the log, and is counted so; what the fleet's store said is followed."""
    path = tmp_path / "second.jsonl"
    contracts = parse_rules(MOVED).contracts
    first = await worker(fleet, contracts=contracts)
    second = await worker(other, contracts=contracts, evidence=path, record="steps", redact_fields=["card"])
    await first.run(call("verify"))
    await second.run(call("refund", amount=300))
    await second.governance.aclose()

    report = rerun_file(path)
    assert (report.differences, report.problems, report.on_fleet) == ((), (), 1)
    assert report.not_derivable > 0
    found = backtest(Recordings([str(path)]).events(), parse_rules(MOVED))
    # A contract of the fleet counts what is recorded, whichever session it was in.
    assert [(each.refused, each.unknown) for each in found.contracts] == [(0, 1), (0, 0)]
