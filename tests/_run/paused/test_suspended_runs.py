"""Runs that stop for an approval and are resumed from a checkpoint."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from agent_rt import (
    AgentCheckpoint,
    AgentLoop,
    AgentRunLimits,
    ContentPart,
    ModelMessage,
    ToolLifecycleHooks,
    ToolRegistry,
)

from openbox_agentrt import (
    ApprovalExpiredError,
    ApprovalRejectedError,
    GovernanceHaltError,
    UngovernedCallError,
    current_run,
)
from openbox_agentrt.testing import Call, Reply, ScriptedProvider
from tests.fleet.runs.pausing import loaded, saved


def on_tools(answer: Any, *names: str) -> Any:
    return lambda event: (
        answer if event["event_type"] == "ActivityStarted" and event["activity_type"] in names else None
    )


RISKY = on_tools("REQUIRE_APPROVAL", "risky")
WAITS = {"error": {"type": "tool_not_executed", "tool": "risky", "reason": "waiting_for_approval"}}


def run_id_of(result: Any) -> str:
    (named,) = (part.data["error"]["openbox_run_id"] for part in result.messages[-1].content)
    return str(named)


def checkpoint(result: Any, agent: Any, **changes: Any) -> AgentCheckpoint:
    fields = {
        "checkpoint_id": "c",
        "agent_name": agent.name,
        "messages": result.messages,
        "turns": result.turns,
        "tool_calls": result.tool_calls,
        "total_tokens": result.total_tokens,
    }
    return AgentCheckpoint(**{**fields, **changes})


class Paused:
    """A run that waits for a person, and how to go on with it."""

    def __init__(self, stage: Any, kit: Any, tools: Any, *steps: Any, registry: Any = None) -> None:
        self.stage = stage
        self.kit = kit
        self.agent = kit.agent()
        self.provider = ScriptedProvider(*steps)
        registry = kit.registry(tools) if registry is None else registry
        self.loop = stage.governance.govern_loop(AgentLoop(self.provider, tool_registry=registry))

    async def start(self, text: str = "go", **kwargs: Any) -> Any:
        return await self.loop.run(self.agent, [self.kit.user(text)], **kwargs)

    async def resume(self, result: Any, *, changes: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        return await self.loop.run(
            self.agent, [], resume_checkpoint=checkpoint(result, self.agent, **(changes or {})), **kwargs
        )


@pytest.fixture
def ran() -> list[Any]:
    return []


@pytest.fixture
def pause(make_stage: Any, kit: Any, ran: list[Any]) -> Any:
    """Makes a stage with a risky tool, in pause mode."""

    async def make(policy: Any = RISKY, *, arguments: Any = None, **options: Any) -> Paused:
        stage = await make_stage(policy, approval_mode="pause", **options)

        def risky(**args: Any) -> str:
            ran.append(args)
            return "done it"

        return Paused(
            stage, kit, {"risky": risky}, Call(name="risky", arguments=arguments or {"x": 1}), "finished"
        )

    return make


async def test_a_run_stops_for_an_approval(pause: Any, ran: list[Any]) -> None:
    """With Agent-RT's own termination reason; the workflow and the call stay open at Core meanwhile."""
    paused = await pause()

    result = await paused.start()

    assert result.termination_reason == "waiting_for_approval"
    assert ran == []
    assert paused.stage.events("WorkflowCompleted", "WorkflowFailed") == []
    assert [a.activity_type for a in paused.stage.core.pending_approvals()] == ["risky"]


async def test_a_resumed_run_goes_on_under_the_same_ids(pause: Any, ran: list[Any]) -> None:
    """The approved call runs, it is not judged a second time, and the workflow ends once."""
    paused = await pause()
    result = await paused.start()
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])

    resumed = await paused.resume(result)

    assert resumed.termination_reason == "completed"
    assert ran == [{"x": 1}]
    assert paused.stage.story() == [
        "WorkflowStarted",
        "SignalReceived user_prompt",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "ActivityStarted risky",
        "ActivityCompleted risky completed",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "WorkflowCompleted completed",
    ]
    assert len({event["run_id"] for event in paused.stage.events()}) == 1


async def test_resuming_too_early_pauses_again(pause: Any, ran: list[Any]) -> None:
    """Nobody has decided: nothing runs, Core is asked for the decision and not for another judgement."""
    paused = await pause()
    result = await paused.start()

    again = await paused.resume(result)
    assert again.termination_reason == "waiting_for_approval"
    assert len(paused.stage.events("ActivityStarted")) == 2
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])
    final = await paused.resume(again)

    assert final.termination_reason == "completed"
    assert ran == [{"x": 1}]


@pytest.mark.parametrize(
    ("decide", "error"), [("reject", ApprovalRejectedError), ("expire", ApprovalExpiredError)]
)
async def test_a_no_is_raised_when_the_run_is_resumed(
    pause: Any, ran: list[Any], decide: str, error: type[Exception]
) -> None:
    """The row is closed with it, and the run fails."""
    paused = await pause()
    result = await paused.start()
    getattr(paused.stage.core, decide)(paused.stage.core.pending_approvals()[0])

    with pytest.raises(error):
        await paused.resume(result)

    assert ran == []
    assert paused.stage.completed("risky")["error"]["type"] == error.__name__
    assert paused.stage.story()[-1] == "WorkflowFailed"


async def test_a_no_can_be_told_to_the_model(pause: Any, kit: Any, ran: list[Any]) -> None:
    """With ``return_error``, the run goes on without the call."""
    paused = await pause(on_tool_block="return_error")
    result = await paused.start()
    paused.stage.core.reject(paused.stage.core.pending_approvals()[0], "too dangerous")

    resumed = await paused.resume(result)

    assert resumed.termination_reason == "completed"
    assert [error["type"] for error in kit.tool_errors(resumed)] == ["governance_blocked"]


async def test_an_approval_is_for_these_arguments_only(pause: Any, kit: Any, ran: list[Any]) -> None:
    """A checkpoint whose call was changed is another call: it is judged, and needs an approval of its own."""
    paused = await pause()
    result = await paused.start()
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])
    forged = [
        replace(m, tool_calls=(kit.call("risky", {"x": 1000}),)) if m.tool_calls else m
        for m in result.messages
    ]

    again = await paused.resume(result, changes={"messages": tuple(forged)})

    assert again.termination_reason == "waiting_for_approval"
    assert ran == []


async def test_an_approval_is_used_once(pause: Any, ran: list[Any]) -> None:
    """Resuming the same checkpoint a second time asks again."""
    paused = await pause()
    result = await paused.start()
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])
    await paused.resume(result)

    again = await paused.resume(result)

    assert again.termination_reason == "waiting_for_approval"
    assert ran == [{"x": 1}]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"agent_name": "somebody"}, id="agent"),
        pytest.param({"text": "another question"}, id="user's words"),
    ],
)
async def test_an_approval_belongs_to_its_run(
    pause: Any, kit: Any, ran: list[Any], other: dict[str, str]
) -> None:
    """The same call id and arguments in somebody else's conversation is another call."""
    paused = await pause()
    theirs = await paused.start("delete mine")
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])
    stranger = Paused(paused.stage, kit, {"risky": lambda **args: pytest.fail("ran")}, "never said")
    stranger.agent = kit.agent(other.get("agent_name", "helper"))
    waiting = {"error": {**WAITS["error"], "openbox_run_id": run_id_of(theirs)}}
    messages = (
        kit.user(other.get("text", "delete mine")),
        ModelMessage("assistant", (), (kit.call("risky", {"x": 1}),)),
        ModelMessage("tool", (ContentPart("json", data=waiting),), tool_call_id="call_1"),
    )

    result = await stranger.loop.run(
        stranger.agent,
        [],
        resume_checkpoint=AgentCheckpoint("c2", stranger.agent.name, messages),
    )

    assert result.termination_reason == "waiting_for_approval"


async def test_a_checkpoint_of_another_process_is_judged_afresh(
    pause: Any, make_stage: Any, kit: Any, ran: list[Any]
) -> None:
    """Nothing is remembered there: the call needs an approval of its own, in a run of its own."""
    paused = await pause()
    result = await paused.start()
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])
    elsewhere = await pause()

    again = await elsewhere.resume(result)

    assert again.termination_reason == "waiting_for_approval"
    assert ran == []


async def test_several_calls_wait_side_by_side(make_stage: Any, kit: Any) -> None:
    """Each is decided on its own, and what was finished is not run again."""
    ran: list[str] = []
    stage = await make_stage(
        on_tools("REQUIRE_APPROVAL", "a", "b"), approval_mode="pause", on_tool_block="return_error"
    )

    def tool(name: str) -> Any:
        def work() -> str:
            ran.append(name)
            return name

        return work

    tools = {name: tool(name) for name in ("a", "b", "free")}
    steps = Reply(calls=(Call(name="free"), Call(name="a"), Call(name="b")))
    paused = Paused(stage, kit, tools, steps, "finished")

    result = await paused.start(limits=AgentRunLimits(concurrent_tool_calls=True))
    first, second = stage.core.pending_approvals()
    stage.core.approve(first)
    stage.core.reject(second)
    resumed = await paused.resume(result)

    assert resumed.termination_reason == "completed"
    assert ran == ["free", first.activity_type]
    assert len(kit.tool_errors(resumed)) == 1


async def test_the_same_call_twice_waits_twice(make_stage: Any, kit: Any) -> None:
    """Models repeat call ids; each call has its own approval."""
    ran: list[int] = []
    stage = await make_stage(RISKY, approval_mode="pause")
    steps = Reply(calls=(Call(name="risky", id="same"), Call(name="risky", id="same")))
    paused = Paused(stage, kit, {"risky": lambda: ran.append(1)}, steps, "finished")

    result = await paused.start(limits=AgentRunLimits(concurrent_tool_calls=True))
    pending = stage.core.pending_approvals()
    assert len(pending) == 2
    for approval in pending:
        stage.core.approve(approval)
    await paused.resume(result)

    assert stage.core.orphans() == []


async def test_rewritten_arguments_that_need_an_approval(make_stage: Any, kit: Any) -> None:
    """The approval is for what a hook made of the arguments; resumed, it becomes that and runs."""
    ran: list[Any] = []

    async def rewrite(call: Any, definition: Any) -> Any:
        return replace(call, arguments={"x": 2})

    stage = await make_stage(
        lambda e: "REQUIRE_APPROVAL" if e.get("activity_input") == [{"x": 2}] else None, approval_mode="pause"
    )
    registry = ToolRegistry(ToolLifecycleHooks(pre_call=rewrite))
    registry.register(kit.definition("risky"), handler=kit.handler(lambda x: ran.append(x)))
    paused = Paused(stage, kit, {}, Call(name="risky", arguments={"x": 1}), "finished", registry=registry)

    result = await paused.start()
    assert result.termination_reason == "waiting_for_approval"
    stage.core.approve(stage.core.pending_approvals()[0])
    resumed = await paused.resume(result)

    assert resumed.termination_reason == "completed"
    assert ran == [2]


@pytest.mark.parametrize("behavior", ["raise", "return_error"])
async def test_a_tool_cannot_swallow_a_pause(make_stage: Any, kit: Any, behavior: str) -> None:
    """A second judgement inside ``return_error`` still pauses the run."""

    async def rewrite(call: Any, definition: Any) -> Any:
        return replace(call, arguments={"x": 2})

    stage = await make_stage(
        lambda e: "REQUIRE_APPROVAL" if e.get("activity_input") == [{"x": 2}] else None, approval_mode="pause"
    )
    registry = ToolRegistry(ToolLifecycleHooks(pre_call=rewrite))
    registry.register(
        kit.definition("risky", error_behavior=behavior), handler=kit.handler(lambda x: pytest.fail("ran"))
    )
    paused = Paused(stage, kit, {}, Call(name="risky", arguments={"x": 1}), "never said", registry=registry)

    result = await paused.start()

    assert result.termination_reason == "waiting_for_approval"


async def test_closing_the_governance_closes_paused_runs(pause: Any) -> None:
    """Nobody can resume them any more; their rows and workflows end, and say that they waited."""
    paused = await pause()
    await paused.start()

    await paused.stage.governance.aclose()

    assert paused.stage.completed("risky")["error"]["type"] == "AbandonedActivity"
    assert paused.stage.events("WorkflowCompleted")[0]["status"] == "waiting_for_approval"


async def test_a_paused_run_that_nobody_resumes_is_closed(
    pause: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that an approval may take, when the next run pauses."""
    from openbox_agentrt._run.paused import suspended_runs as pauses

    now = [0.0]
    monkeypatch.setattr(pauses, "monotonic", lambda: now[0])
    paused = await pause(approval_max_wait_ms=1000)
    forgotten = await paused.start()
    now[0] = 2.0

    again = await paused.resume(forgotten)
    await paused.stage.governance._runs.services.core.reports.settle(seconds=1)

    assert again.termination_reason == "waiting_for_approval"
    assert paused.stage.events("WorkflowCompleted")[0]["status"] == "waiting_for_approval"


async def test_forgotten_runs_are_closed_by_the_clock(pause: Any) -> None:
    """Nobody has to come by: the time that an approval may take is enough."""
    paused = await pause(approval_max_wait_ms=50)
    await paused.start()

    await asyncio.sleep(0.15)
    await paused.stage.governance._runs.services.core.reports.settle(seconds=1)

    assert len(paused.stage.governance._runs.suspended) == 0
    assert paused.stage.completed("risky")["error"]["type"] == "AbandonedActivity"
    assert paused.stage.events("WorkflowCompleted")[0]["status"] == "waiting_for_approval"


async def test_a_nested_run_is_closed_with_the_run_around_it(make_stage: Any, kit: Any) -> None:
    """Its workflow is part of one that has ended; an approval that comes later lets nothing run."""
    ran: list[int] = []
    stage = await make_stage(RISKY, approval_mode="pause")
    inner = Paused(stage, kit, {"risky": lambda: ran.append(1)}, Call(name="risky"), "never said")
    results: list[Any] = []

    async def ask() -> str:
        results.append(await inner.start())
        return "it waits"

    outer = Paused(stage, kit, {"ask": ask}, Call(name="ask"), "done")
    await outer.start()

    assert results[0].termination_reason == "waiting_for_approval"
    assert stage.completed("risky")["error"]["type"] == "AbandonedActivity"
    again = await inner.resume(results[0])
    assert again.termination_reason == "waiting_for_approval"
    assert ran == []
    # The run around it does not wait for what is reported of the nested one.
    await stage.governance.aclose()
    ends = {event["status"] for event in stage.events("WorkflowCompleted")}
    assert ends == {"waiting_for_approval", "completed"}


@pytest.mark.parametrize("kept", ["as it is", "as JSON"])
async def test_two_runs_that_look_the_same(make_stage: Any, kit: Any, kept: str) -> None:
    """The same words, call ids and arguments: the approval of one is not the other's, which was refused."""
    ran: list[Any] = []
    stage = await make_stage(RISKY, approval_mode="pause")

    def pausing() -> Paused:
        call = Call(name="risky", id="call_0", arguments={"amount": 500})
        return Paused(stage, kit, {"risky": lambda **args: ran.append(args)}, call, "finished")

    first, second = pausing(), pausing()
    results = [await first.start(), await second.start()]
    if kept == "as JSON":
        results = [replace(result, messages=loaded(saved(result.messages)).messages) for result in results]
    by_run = {approval.run_id: approval for approval in stage.core.pending_approvals()}
    assert len(by_run) == 2
    approved, rejected = by_run.values()
    stage.core.approve(approved)
    stage.core.reject(rejected, "not this one")

    with pytest.raises(ApprovalRejectedError, match="not this one"):
        await second.resume(results[1])
    assert ran == []
    assert (await first.resume(results[0])).termination_reason == "completed"
    assert ran == [{"amount": 500}]


async def test_a_checkpoint_that_does_not_name_its_run_continues_none(
    pause: Any, kit: Any, ran: list[Any]
) -> None:
    """Content alone says nothing: its calls are judged afresh, under ids of their own."""
    paused = await pause()
    result = await paused.start()
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])
    unnamed = tuple(
        replace(message, content=tuple(replace(part, data=WAITS) for part in message.content))
        if message.role == "tool"
        else message
        for message in result.messages
    )

    again = await paused.resume(result, changes={"messages": unnamed})

    assert again.termination_reason == "waiting_for_approval"
    assert ran == []


@pytest.mark.parametrize("mode", ["wait", "pause"])
@pytest.mark.parametrize(
    ("added", "asked"),
    [
        pytest.param({"tenant": "t1"}, 1, id="a field more"),
        pytest.param({"x": 2}, 2, id="another value"),
    ],
)
async def test_what_a_hook_adds_to_an_approved_call(
    make_stage: Any, kit: Any, mode: str, added: dict[str, Any], asked: int
) -> None:
    """A person is asked once about what they saw; what they did not see needs another yes."""
    ran: list[Any] = []

    async def rewrite(call: Any, definition: Any) -> Any:
        return replace(call, arguments={**call.arguments, **added})

    decisions: list[Any] = []
    stage = await make_stage(
        RISKY, approval_mode=mode, approval_poll_interval_ms=5, on_decision=decisions.append
    )
    registry = ToolRegistry(ToolLifecycleHooks(pre_call=rewrite))
    registry.register(kit.definition("risky"), handler=kit.handler(lambda **args: ran.append(args)))
    paused = Paused(stage, kit, {}, Call(name="risky", arguments={"x": 1}), "finished", registry=registry)
    yes: list[str] = []

    def approve(approval: Any) -> None:
        yes.append(approval.activity_id)
        stage.core.approve(approval)

    stage.core._listeners.each.append(approve)

    result = await paused.start()
    while result.termination_reason == "waiting_for_approval":
        await asyncio.sleep(0)
        result = await paused.resume(result)

    assert result.termination_reason == "completed"
    assert ran == [{"x": 1, **added}]
    decided = [each for each in decisions if each.event == "risky" and each.approval == "approved"]
    assert len({each.activity_id for each in decided if each.approval_seconds}) == asked


@pytest.mark.parametrize("mode", ["wait", "pause"])
async def test_what_the_person_said_reaches_the_decision(make_stage: Any, kit: Any, mode: str) -> None:
    """Who decided, and their note; and not the policy's own reason for asking."""
    answer = {"decision": "REQUIRE_APPROVAL", "reason": "money moves"}
    stage = await make_stage(on_tools(answer, "risky"), approval_mode=mode, approval_poll_interval_ms=5)
    noted: list[Any] = []
    for note in ("fine with me", ""):
        paused = Paused(
            stage, kit, {"risky": lambda: noted.append(current_run())}, Call(name="risky"), "done"
        )
        running = asyncio.create_task(paused.start())
        stage.core.approve(await stage.core.await_approval(), note, by="ann")
        result = await running
        if mode == "pause":
            await paused.resume(result)

    decided = [each for run in noted for each in run.decisions if each.event == "risky"]
    assert [(each.approval, each.decided_by, each.approval_note) for each in decided] == [
        ("approved", "ann", "fine with me"),
        ("approved", "ann", None),
    ]


async def test_a_no_says_whose_it_is(make_stage: Any, kit: Any) -> None:
    """In the error, its text, and the decision."""
    stage = await make_stage(RISKY, approval_poll_interval_ms=5)

    async def run() -> None:
        async with stage.governance.run_scope(), stage.governance.activity("risky", [1]):
            pytest.fail("it ran")

    running = asyncio.create_task(run())
    stage.core.reject(await stage.core.await_approval(), "not today", by="bob")

    with pytest.raises(ApprovalRejectedError, match="'risky' was rejected by 'bob': not today") as caught:
        await running
    assert caught.value.decision is not None
    assert (caught.value.decided_by, caught.value.decision.decided_by) == ("bob", "bob")


async def test_a_failing_sibling_ends_the_run(make_stage: Any, kit: Any) -> None:
    """Agent-RT lets a failure win over a pause: the run has failed, and nothing of it waits."""
    stage = await make_stage(RISKY, approval_mode="pause")

    def fail() -> None:
        raise ValueError("broken")

    tools = {"risky": lambda: pytest.fail("ran"), "fail": fail}
    paused = Paused(stage, kit, tools, Reply(calls=(Call(name="risky"), Call(name="fail"))))

    with pytest.raises(ValueError, match="broken"):
        await paused.start(limits=AgentRunLimits(concurrent_tool_calls=True))

    assert stage.completed("risky")["status"] == "failed"
    assert len(stage.governance._runs.suspended) == 0


async def test_a_halted_run_is_not_resumed(pause: Any, ran: list[Any]) -> None:
    """A HALT that comes while the run waits ends it when it goes on."""
    paused = await pause()
    result = await paused.start()
    run = paused.stage.governance._runs.suspended._suspended[
        next(iter(paused.stage.governance._runs.suspended._suspended))
    ].run
    paused.stage.core.approve(paused.stage.core.pending_approvals()[0])
    run.halt(GovernanceHaltError("from outside"), took_effect=True)

    with pytest.raises(GovernanceHaltError):
        await paused.resume(result)

    assert ran == []


async def test_outside_of_loops_a_person_is_waited_for(make_stage: Any, kit: Any) -> None:
    """Only a loop can stop and come back; elsewhere the call waits, also in pause mode."""
    stage = await make_stage(RISKY, approval_mode="pause", approval_poll_interval_ms=10)
    governed = stage.governance.wrap_tool_registry(kit.registry({"risky": lambda: "ran"}))

    async def run() -> Any:
        async with stage.governance.run_scope():
            return await governed.execute(kit.call("risky"))

    running = asyncio.create_task(run())
    stage.core.approve(await stage.core.await_approval())

    assert await running == "ran"


async def test_a_prompt_waits_also_in_pause_mode(make_stage: Any, kit: Any) -> None:
    """Agent-RT can pause for tools only."""
    stage = await make_stage(
        lambda e: "REQUIRE_APPROVAL" if e["event_type"] == "SignalReceived" else None,
        approval_mode="pause",
        approval_poll_interval_ms=10,
    )
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider("hi")))
    running = asyncio.create_task(loop.run(kit.agent(), [kit.user("go")]))
    stage.core.approve(await stage.core.await_approval())

    assert (await running).termination_reason == "completed"


async def test_a_paused_run_starts_nothing_meanwhile(make_stage: Any, kit: Any) -> None:
    """A task that the run has left behind cannot act for it while a person decides."""
    stage = await make_stage(RISKY, approval_mode="pause")
    left: list[asyncio.Task[None]] = []
    go = asyncio.Event()

    async def later() -> None:
        await go.wait()
        async with stage.governance.activity("behind the back"):
            pytest.fail("it ran")

    async def leave() -> str:
        left.append(asyncio.ensure_future(later()))
        return "left"

    paused = Paused(
        stage, kit, {"leave": leave, "risky": lambda: "x"}, Call(name="leave"), Call(name="risky"), "done"
    )
    await paused.start()
    go.set()

    with pytest.raises(UngovernedCallError):
        await left[0]
    stage.core.approve(stage.core.pending_approvals()[0])
    assert "behind the back" not in str(stage.events())
