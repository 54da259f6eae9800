"""Ends that are told in the background: in order, all of them, and in time for the next gate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from openbox_core.contracts.events import EventEnvelope, EventType
from openbox_core.contracts.results import Verdict

from openbox_agentrt._core.counts import GateCounts
from openbox_agentrt._core.outbox import MOST_QUEUED, SENT_AT_ONCE, Outbox
from openbox_agentrt._core.reports import ReportQueue
from openbox_agentrt._core.transport.direct import LocalLine
from openbox_agentrt.decision import Answer
from openbox_agentrt.errors import GovernanceHaltError
from openbox_agentrt.testing import Call, Fault, FaultyCore, ScriptedProvider

ALLOW = Answer(verdict=Verdict.ALLOW)


def event(name: str) -> EventEnvelope:
    return EventEnvelope(event_type=EventType.SIGNAL_RECEIVED, payload={"name": name})


class SlowCore:
    """Answers when it is let, and keeps what it heard and how much at once."""

    def __init__(self, *, errors: int = 0) -> None:
        self.heard: list[str] = []
        self.most_at_once = 0
        self.open = asyncio.Event()
        self._now = 0
        self._errors = errors

    async def __call__(self, event: EventEnvelope, **how: Any) -> Answer:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await self.open.wait()
            await asyncio.sleep(0)
            if self._errors:
                self._errors -= 1
                raise ValueError("broken report")
            self.heard.append(event.payload["name"])
            return ALLOW
        finally:
            self._now -= 1


def ordered(core: SlowCore) -> Outbox:
    return ReportQueue(core, lambda event: event, GateCounts(), catch_up_seconds=1.0).outbox(ordered=True)


async def test_an_ordered_report_does_not_wait() -> None:
    """The work goes on while Core has not answered."""
    core = SlowCore()
    outbox = ordered(core)

    assert await outbox.send(event("a")) is None
    assert core.heard == []
    core.open.set()
    await outbox.settle()

    assert core.heard == ["a"]


async def test_reports_are_sent_one_after_the_other() -> None:
    """Those that nothing says to have run side by side."""
    core = SlowCore()
    outbox = ordered(core)
    names = [str(number) for number in range(20)]
    for name in names:
        await outbox.send(event(name))
    core.open.set()

    await outbox.settle()

    assert core.heard == names
    assert core.most_at_once == 1


async def test_what_ran_side_by_side_is_told_side_by_side() -> None:
    """Up to a limit; and what comes after waits for all of it."""
    core, around = SlowCore(), object()
    outbox = ordered(core)
    for number in range(SENT_AT_ONCE + 4):
        await outbox.send(event(f"beside {number}"), beside=around)
    await outbox.send(event("after"), beside=object())
    core.open.set()

    await outbox.settle()

    assert core.most_at_once == SENT_AT_ONCE
    assert core.heard[-1] == "after"
    assert len(core.heard) == SENT_AT_ONCE + 5


async def waiting_for_room(core: SlowCore) -> tuple[Outbox, asyncio.Task[Any]]:
    """A queue that is full, and who sends one more report."""
    outbox = ordered(core)
    for number in range(MOST_QUEUED):
        await outbox.send(event(str(number)))
    one_more = asyncio.create_task(outbox.send(event("one more")))
    await asyncio.sleep(0.01)
    return outbox, one_more


async def test_a_full_queue_makes_the_sender_wait() -> None:
    """It holds a bounded number of reports, and loses none."""
    core = SlowCore()
    outbox, one_more = await waiting_for_room(core)

    assert not one_more.done()
    core.open.set()
    await one_more

    assert outbox.pending == 0
    assert core.heard == [*map(str, range(MOST_QUEUED)), "one more"]


async def test_a_sender_that_is_cancelled_while_it_waits_loses_nothing() -> None:
    """Its report is in the queue already."""
    core = SlowCore()
    outbox, one_more = await waiting_for_room(core)

    one_more.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one_more
    core.open.set()
    await outbox.settle()

    assert core.heard[-1] == "one more"


async def test_a_report_that_fails_holds_back_none_beside_it() -> None:
    """Nor those behind it."""
    core, around = SlowCore(errors=1), object()
    outbox = ordered(core)
    for name in "abc":
        await outbox.send(event(name), beside=around)
    core.open.set()

    await outbox.settle()

    assert core.heard == ["b", "c"]


async def test_a_worker_that_is_cancelled_leaves_the_reports_to_the_next() -> None:
    """All of a batch: Core deduplicates what it has heard already."""
    core, around = SlowCore(), object()
    outbox = ordered(core)
    for name in "ab":
        await outbox.send(event(name), beside=around)
    await asyncio.sleep(0)
    worker = next(task for task in asyncio.all_tasks() if task.get_name() == "openbox-reports")

    worker.cancel()
    await asyncio.wait({worker})
    core.open.set()
    await outbox.settle()

    assert core.heard == ["a", "b"]


def turns(*, calls: int) -> ScriptedProvider:
    return ScriptedProvider(*[Call(name="add", arguments={"a": n}) for n in range(calls)], "done")


async def ignore(event: Any) -> None:
    """A caller that wants only the result."""


def governed(governance: Any, kit: Any, provider: ScriptedProvider) -> Any:
    from agent_rt import AgentLoop

    registry = kit.registry({"add": lambda a: a})
    return governance.govern_loop(AgentLoop(provider, tool_registry=registry))


def moves(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["event_type"], event.get("activity_type", "")) for event in events]


@pytest.mark.parametrize("streamed", [False, True], ids=["completed", "streamed"])
async def test_core_sees_the_same_run_in_the_same_order(make_stage: Any, kit: Any, streamed: bool) -> None:
    """Whether it is told inline or in the background."""
    told = {}
    for telemetry in ("inline", "ordered"):
        stage = await make_stage(telemetry=telemetry)
        loop = governed(stage.governance, kit, turns(calls=3))
        if streamed:
            await loop.run_streaming(kit.agent(), [kit.user("go")], on_event=ignore)
        else:
            await loop.run(kit.agent(), [kit.user("go")])
        told[telemetry] = moves(stage.events())

    assert len(told["inline"]) == 2 + 1 + 2 * 7
    assert told["ordered"] == told["inline"]


async def test_a_halt_in_the_answer_to_an_end_stops_the_next_gate(
    make_stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate waits for that answer, and Core is not asked about what may not start."""
    carry = LocalLine.carry

    async def slowly(self: LocalLine, *request: Any) -> Any:
        await asyncio.sleep(0.005)  # so that the next gate is on its way before there is an answer
        return await carry(self, *request)

    monkeypatch.setattr(LocalLine, "carry", slowly)

    def policy(event: Mapping[str, Any]) -> Any:
        ends = event["event_type"] == "ActivityCompleted" and event["activity_type"] == "add"
        return {"decision": "HALT", "reason": "enough"} if ends else None

    stage = await make_stage(policy, telemetry="ordered")
    loop = governed(stage.governance, kit, turns(calls=3))

    with pytest.raises(GovernanceHaltError, match="enough"):
        await loop.run(kit.agent(), [kit.user("go")])

    started = [event["activity_type"] for event in stage.events("ActivityStarted")]
    assert started == ["llm_call", "add"]


async def test_nothing_is_lost_when_core_stumbles(kit: Any) -> None:
    """Half of the requests fail once or more; the run ends with every row closed, in order."""
    from openbox_agentrt import create_openbox_agentrt

    with FaultyCore(seed=7) as core:
        governance = await create_openbox_agentrt(
            api_url=core.url,
            api_key=core.api_key,
            telemetry="ordered",
            on_api_error="fail_closed",
            install_instrumentation=False,
            validate=False,
            environ={},
        )
        async with governance:
            loop = governed(governance, kit, turns(calls=3))
            with core.always(Fault.respond(503, retry_after=0.001), path="evaluate", chance=0.2):
                await loop.run(kit.agent(), [kit.user("go")])
        first = [record.event for record in core.core.records() if record.same_as is None]

        assert core.core.orphans() == []
        assert core.core.open_workflows() == []
        assert len(first) == 2 + 1 + 2 * 7
        kinds = [kind for kind, _ in moves(first)][2:-1]
        assert kinds == ["ActivityStarted", "ActivityCompleted"] * 7


async def test_a_nested_run_waits_for_what_ended_around_it(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Core hears of the end of the outer activity before it is asked about the inner one."""
    carry = LocalLine.carry

    async def slowly(self: LocalLine, method: str, path: str, headers: Any, body: bytes) -> Any:
        if b"ActivityCompleted" in body and b"outer" in body:
            await asyncio.sleep(0.02)
        return await carry(self, method, path, headers, body)

    monkeypatch.setattr(LocalLine, "carry", slowly)
    stage = await make_stage(telemetry="ordered")
    async with stage.governance.run_scope():
        async with stage.governance.activity("outer"):
            pass
        async with stage.governance.run_scope(), stage.governance.activity("inner"):
            pass

    told = [move for move in moves(stage.events()) if move[1] in ("outer", "inner")]
    assert told.index(("ActivityCompleted", "outer")) < told.index(("ActivityStarted", "inner"))
