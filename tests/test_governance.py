"""A governed run, end to end: what Core is told, in which order, and what its answers do."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from openbox_agentrt import (
    ApprovalExpiredError,
    ApprovalRejectedError,
    GovernanceBlockedError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceOptions,
    GuardrailsValidationError,
    OpenBoxAgentRTGovernance,
    UngovernedCallError,
    create_openbox_agentrt,
    current_run,
)
from openbox_agentrt._run.record import write
from openbox_agentrt._run.state import MOST_DECISIONS
from openbox_agentrt.decision import Verdict
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.options import OPTIONS
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

FAILED = {"validation_passed": False, "reasons": [{"type": "t", "field": "f", "reason": "rude"}]}
EVERY_EVENT = [
    "WorkflowStarted",
    "SignalReceived user_prompt",
    "ActivityStarted llm_call",
    "ActivityCompleted llm_call completed",
    "ActivityStarted add",
    "ActivityCompleted add completed",
    "ActivityStarted llm_call",
    "ActivityCompleted llm_call completed",
    "WorkflowCompleted completed",
]


def adder(kit: Any, *steps: Any) -> Any:
    """A loop with one tool and a scripted model."""
    from agent_rt import AgentLoop

    provider = ScriptedProvider(*(steps or (Call(name="add", arguments={"a": 1, "b": 2}), "three")))
    return AgentLoop(provider, tool_registry=kit.registry({"add": lambda a, b: {"sum": a + b}}))


def on(event_type: str, activity: str | None, answer: Any) -> Any:
    """A policy that answers `answer` to one kind of event."""

    def policy(event: dict[str, Any]) -> Any:
        what = event.get("activity_type") or event.get("signal_name")
        return answer if event["event_type"] == event_type and what == activity else None

    return policy


async def test_a_run_is_told_in_order(make_stage: Any, kit: Any) -> None:
    """The workflow, the prompt, each model and tool call with its end, and the end of the workflow."""
    stage = await make_stage()

    result = await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])

    assert result.termination_reason == "completed"
    assert stage.story() == EVERY_EVENT


async def test_the_original_loop_is_not_changed(make_stage: Any, kit: Any) -> None:
    """Governing makes a copy: the loop that was passed in tells Core nothing."""
    stage = await make_stage()
    loop = adder(kit)
    before = dict(vars(loop))
    stage.governance.govern_loop(loop)

    await loop.run(kit.agent(), [kit.user("1 + 2?")])

    assert vars(loop) == before
    assert stage.events() == []


async def test_the_first_model_call_takes_over_the_prescreen(make_stage: Any, kit: Any) -> None:
    """The prompt is not judged twice, also when it comes behind earlier messages of a chat."""
    stage = await make_stage()
    loop = stage.governance.govern_loop(adder(kit, "hello"))
    history = [kit.user("earlier"), kit.user("now")]

    await loop.run(kit.agent(), history)

    (started,) = stage.events("ActivityStarted")
    (completed,) = stage.events("ActivityCompleted")
    assert started["activity_id"] == completed["activity_id"] == f"{started['run_id']}-pre"
    assert started["activity_input"] == [{"prompt": "now"}, {"role": "user", "prompt": "earlier"}]
    assert completed["activity_output"]["completion"] == "hello"


async def test_a_prescreen_that_no_call_takes_over_is_closed(make_stage: Any, kit: Any) -> None:
    """A run may end without a model call; the row of its prompt is closed before the workflow."""
    stage = await make_stage()

    async with stage.governance.run_scope("hello"):
        pass

    assert stage.story() == [
        "WorkflowStarted",
        "SignalReceived user_prompt",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "WorkflowCompleted completed",
    ]
    assert stage.events("ActivityCompleted")[0]["activity_output"]["completion"] is None


@pytest.mark.parametrize("prompt", ["", "  \n\t"], ids=["empty", "blank"])
async def test_a_blank_prompt_is_no_signal(make_stage: Any, kit: Any, prompt: str) -> None:
    """Without a prompt there is neither a signal nor a pre-screen; the model call is judged all the same."""
    stage = await make_stage()
    loop = stage.governance.govern_loop(adder(kit, "hello"))

    await loop.run(kit.agent(), [kit.user(prompt)])

    assert stage.story() == [
        "WorkflowStarted",
        "ActivityStarted llm_call",
        "ActivityCompleted llm_call completed",
        "WorkflowCompleted completed",
    ]
    assert stage.events("ActivityStarted")[0]["activity_input"] == [{"prompt": ""}]


@pytest.mark.parametrize(
    ("event_type", "activity", "told"),
    [
        pytest.param("SignalReceived", "user_prompt", 3, id="prompt"),
        pytest.param("ActivityStarted", "llm_call", 5, id="pre-screen"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param({"decision": "BLOCK", "reason": "no"}, GovernanceBlockedError, id="block"),
        pytest.param({"decision": "HALT", "reason": "no"}, GovernanceHaltError, id="halt"),
    ],
)
async def test_a_refused_prompt_reaches_no_model(
    make_stage: Any, kit: Any, event_type: str, activity: str, told: int, answer: Any, error: type[Exception]
) -> None:
    """The model is not called, the workflow fails once, and the caller gets the refusal."""
    stage = await make_stage(on(event_type, activity, answer))
    loop = adder(kit, "never said")

    with pytest.raises(error, match="no"):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("hello")])

    assert loop.provider.requests == []
    assert len(stage.events()) == told
    assert stage.story()[-1] == "WorkflowFailed"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param({"decision": "BLOCK", "reason": "no"}, GovernanceBlockedError, id="block"),
        pytest.param({"decision": "HALT", "reason": "no"}, GovernanceHaltError, id="halt"),
    ],
)
async def test_a_refused_tool_does_not_run(
    make_stage: Any, kit: Any, answer: Any, error: type[Exception]
) -> None:
    """The tool's handler is not reached; its row and the workflow are closed with the refusal."""
    stage = await make_stage(on("ActivityStarted", "add", answer))
    ran: list[Any] = []
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda **args: ran.append(args)})

    with pytest.raises(error, match="no") as caught:
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    assert ran == []
    assert not caught.value.ran  # type: ignore[attr-defined]  # each of the two has it
    assert stage.completed("add")["error"]["type"] == error.__name__
    assert stage.story()[-1] == "WorkflowFailed"


async def test_a_blocked_tool_as_an_error_for_the_model(make_stage: Any, kit: Any) -> None:
    """With ``return_error`` the model sees a tool error in Agent-RT's own shape, and the run goes on."""
    stage = await make_stage(
        on("ActivityStarted", "add", {"decision": "BLOCK", "reason": "no sums"}), on_tool_block="return_error"
    )

    result = await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])

    assert result.termination_reason == "completed"
    (error,) = kit.tool_errors(result)
    assert error == {"type": "governance_blocked", "tool": "add", "message": "'add' was blocked: no sums"}
    assert stage.story()[-1] == "WorkflowCompleted completed"


async def test_a_halt_ends_the_run_whatever_the_option_says(make_stage: Any, kit: Any) -> None:
    """``return_error`` is for blocks; a HALT is raised."""
    stage = await make_stage(on("ActivityStarted", "add", "HALT"), on_tool_block="return_error")

    with pytest.raises(GovernanceHaltError):
        await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])


async def test_a_halt_at_the_start_of_the_workflow_stops_the_first_gate(make_stage: Any, kit: Any) -> None:
    """The start is not enforced, but its HALT is remembered, and Core is not asked again."""
    stage = await make_stage(on("WorkflowStarted", None, "HALT"))
    loop = adder(kit, "never said")

    with pytest.raises(GovernanceHaltError):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("hello")])

    assert loop.provider.requests == []
    assert stage.story() == ["WorkflowStarted", "WorkflowFailed"]


async def test_a_halt_in_the_answer_to_a_report_stops_what_comes_next(make_stage: Any, kit: Any) -> None:
    """The model's response stands, the tool that it asks for does not start."""
    stage = await make_stage(on("ActivityCompleted", "llm_call", "HALT"))
    ran: list[Any] = []
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda **args: ran.append(args)})

    with pytest.raises(GovernanceHaltError):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    assert ran == []
    assert stage.events("ActivityStarted")[-1]["activity_type"] == "llm_call"


@pytest.mark.parametrize("verdict", ["BLOCK", "HALT"])
async def test_an_answer_to_a_report_is_not_enforced(make_stage: Any, kit: Any, verdict: str) -> None:
    """What has succeeded stays a success when nothing comes after it."""
    stage = await make_stage(on("ActivityCompleted", "llm_call", verdict))

    result = await stage.governance.govern_loop(adder(kit, "hello")).run(kit.agent(), [kit.user("hi")])

    assert result.termination_reason == "completed"
    assert stage.story()[-1] == "WorkflowCompleted completed"


async def test_failed_guardrails_stop_a_call(make_stage: Any, kit: Any) -> None:
    """They outrank an ALLOW, and a redaction does not undo them."""

    def guard(event: dict[str, Any]) -> Any:
        if event.get("activity_type") != "add" or event["event_type"] != "ActivityStarted":
            return None
        reasons = [{"type": "pii", "field": "a", "reason": "a person's number"}]
        return {"validation_passed": False, "redacted_input": [{"a": 0}], "reasons": reasons}

    stage = await make_stage(core=LocalCore(guardrails=guard))

    with pytest.raises(GuardrailsValidationError, match="a person's number"):
        await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])


@pytest.mark.parametrize(
    ("decide", "error"),
    [
        pytest.param("approve", None, id="approved"),
        pytest.param("reject", ApprovalRejectedError, id="rejected"),
        pytest.param("expire", ApprovalExpiredError, id="expired"),
    ],
)
async def test_a_person_is_waited_for(
    make_stage: Any, kit: Any, decide: str, error: type[Exception] | None
) -> None:
    """The tool runs once a person has agreed, and not otherwise."""
    stage = await make_stage(on("ActivityStarted", "add", "REQUIRE_APPROVAL"), approval_poll_interval_ms=10)
    running = asyncio.create_task(
        stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])
    )
    approval = await stage.core.await_approval()
    assert not running.done()

    getattr(stage.core, decide)(approval)

    if error is None:
        assert (await running).termination_reason == "completed"
    else:
        with pytest.raises(error):
            await running


async def test_constraints_without_a_handler(make_stage: Any, kit: Any) -> None:
    """Under fail_open, one that nobody handles is logged and kept in the decision; the sandbox blocks."""
    stage = await make_stage(
        on("ActivityStarted", "add", {"decision": "CONSTRAIN", "constraints": ["log_more"]}),
        on_api_error="fail_open",
    )
    boxed = await make_stage(
        on("ActivityStarted", "add", {"decision": "CONSTRAIN", "constraints": ["run_in_sandbox"]})
    )
    seen: list[Any] = []
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda **_: seen.append(current_run())})

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])
    with pytest.raises(GovernanceBlockedError, match="run_in_sandbox"):
        await boxed.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])

    (run,) = seen
    (decision,) = [one for one in run.decisions if one.event == "add"]
    assert decision.constraints == ("log_more",)
    assert decision.verdict.value == "constrain"


@pytest.mark.parametrize("gate", ["tool", "model", "prompt", "activity"])
@pytest.mark.parametrize("posture", ["fail_open", "fail_closed"])
async def test_constrain_without_a_constraint(make_stage: Any, kit: Any, gate: str, posture: str) -> None:
    """There is something to put in place, and nobody knows what: it follows the fail policy."""

    def constrain(event: Any) -> Any:
        kind = event["event_type"], event.get("activity_type")
        wanted = {
            "tool": ("ActivityStarted", "add"),
            "model": ("ActivityStarted", "llm_call"),
            "prompt": ("SignalReceived", kind[1]),
            "activity": ("ActivityStarted", "own"),
        }
        return {"decision": "CONSTRAIN"} if kind == wanted[gate] else None

    stage = await make_stage(constrain, on_api_error=posture)
    ran = contextlib.nullcontext() if posture == "fail_open" else pytest.raises(GovernanceBlockedError)

    with ran:
        if gate == "activity":
            async with stage.governance.run_scope(), stage.governance.activity("own", [1]):
                pass
        else:
            await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])


async def test_a_constraint_is_put_around_the_work(make_stage: Any, kit: Any) -> None:
    """The context manager that a handler returns is open while the tool runs, and closed afterwards."""
    from contextlib import contextmanager

    log: list[str] = []

    @contextmanager
    def sandbox() -> Any:
        log.append("in")
        yield
        log.append("out")

    stage = await make_stage(
        on("ActivityStarted", "add", {"decision": "CONSTRAIN", "constraints": ["run_in_sandbox"]}),
        constraint_handlers={"run_in_sandbox": lambda decision: sandbox()},
    )
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda **_: log.append("tool")})

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    assert log == ["in", "tool", "out"]


async def test_a_constraint_whose_handler_fails_blocks(make_stage: Any, kit: Any) -> None:
    """A sandbox that could not be set up is no sandbox."""

    def broken(decision: Any) -> Any:
        raise OSError("no room")

    stage = await make_stage(
        on("ActivityStarted", "add", {"decision": "CONSTRAIN", "constraints": ["run_in_sandbox"]}),
        constraint_handlers={"run_in_sandbox": broken},
    )

    with pytest.raises(GovernanceBlockedError, match="handler of constraint"):
        await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])


async def test_tools_are_classified_for_policies(make_stage: Any, kit: Any) -> None:
    """The sentinel comes last, and only with fields that say something."""
    stage = await make_stage(tool_type_map={"add": "arithmetic"})
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda a, b: a + b}, fields={"side_effect": "write"})

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    started = next(e for e in stage.events("ActivityStarted") if e["activity_type"] == "add")
    assert started["activity_input"] == [
        {"a": 1, "b": 2},
        {"__openbox": {"tool_type": "arithmetic", "side_effect": "write"}},
    ]


async def test_skipped_tools_are_not_governed(make_stage: Any, kit: Any) -> None:
    """They run without a row; the run keeps a record that they did."""
    stage = await make_stage(on("ActivityStarted", "add", "BLOCK"), skip_tools=["add"])
    runs: list[Any] = []
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda **_: runs.append(current_run())})

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    assert [e for e in stage.events() if e.get("activity_type") == "add"] == []
    assert [d.source for d in runs[0].decisions if d.event == "add"] == ["skipped"]


@pytest.mark.leaves_rows_open("completions are reported although their starts are switched off")
@pytest.mark.parametrize(
    ("flag", "missing"),
    [
        ("send_run_start_event", {"WorkflowStarted"}),
        ("send_run_end_event", {"WorkflowCompleted completed"}),
        ("send_llm_start_event", {"ActivityStarted llm_call"}),
        ("send_llm_end_event", {"ActivityCompleted llm_call completed"}),
        ("send_tool_start_event", {"ActivityStarted add"}),
        ("send_tool_end_event", {"ActivityCompleted add completed"}),
    ],
)
async def test_events_can_be_switched_off(make_stage: Any, kit: Any, flag: str, missing: set[str]) -> None:
    """Each flag is about its own event."""
    stage = await make_stage(**{flag: False})

    await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])

    assert set(EVERY_EVENT) - set(stage.story()) == missing


@pytest.mark.leaves_rows_open("completions are reported although their starts are switched off")
@pytest.mark.parametrize(
    ("flag", "activity"), [("send_llm_start_event", "llm_call"), ("send_tool_start_event", "add")]
)
async def test_a_start_flag_switches_its_gate_off(
    make_stage: Any, kit: Any, flag: str, activity: str
) -> None:
    """What would be blocked runs, and the decision says that nobody was asked."""
    stage = await make_stage(on("ActivityStarted", activity, "BLOCK"), **{flag: False})
    runs: list[Any] = []
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda **_: runs.append(current_run())})

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    assert {d.source for d in runs[0].decisions if d.event == activity} == {"disabled"}


async def test_a_failing_tool_closes_its_row_with_the_error(make_stage: Any, kit: Any) -> None:
    """The original error is raised, and Core is told of it without an output."""
    stage = await make_stage()

    def fail(**_: Any) -> None:
        raise ValueError("no such number")

    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": fail})

    with pytest.raises(ValueError, match="no such number"):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    completed = stage.completed("add")
    assert completed["status"] == "failed"
    assert completed["error"] == {"type": "ValueError", "message": "no such number"}
    assert "activity_output" not in completed
    (failed,) = stage.events("WorkflowFailed")
    assert failed["error"] == {"type": "ValueError", "message": "no such number"}


async def test_a_failing_model_closes_its_row_with_the_error(make_stage: Any, kit: Any) -> None:
    """Also the row of the pre-screen, when that is the one in use."""
    stage = await make_stage()
    loop = adder(kit, ConnectionError("no model"))

    with pytest.raises(ConnectionError):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("hello")])

    assert stage.completed("llm_call")["error"]["type"] == "ConnectionError"
    assert stage.story()[-1] == "WorkflowFailed"


async def test_the_last_event_tells_the_truth(make_stage: Any, kit: Any) -> None:
    """A run that stopped at a limit is not reported as completed."""
    from agent_rt import AgentRunLimits

    stage = await make_stage()
    loop = stage.governance.govern_loop(adder(kit))

    await loop.run(kit.agent(), [kit.user("1 + 2?")], limits=AgentRunLimits(max_turns=1))

    (ended,) = stage.events("WorkflowCompleted")
    assert ended["status"] == "max_turns"
    assert ended["workflow_output"] == {
        "result": "",
        "termination_reason": "max_turns",
        "turns": 1,
        "tool_calls": 1,
        "total_tokens": 15,
    }
    assert ended["activity_output"] == ended["workflow_output"]


async def test_decisions_are_observed(make_stage: Any, kit: Any) -> None:
    """Every decision goes to ``on_decision``, and what that raises changes nothing."""
    seen: list[Any] = []

    def observe(decision: Any) -> None:
        seen.append(decision.event)
        raise RuntimeError("observer")

    stage = await make_stage(on_decision=observe)

    await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])

    assert seen == ["user_prompt", "llm_call", "add", "llm_call"]


async def test_an_observer_may_be_awaited(
    make_stage: Any, kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside the run, which does not wait for it; closing does. What it raises is logged."""
    seen: list[Any] = []

    async def observe(decision: Any) -> None:
        await asyncio.sleep(0.02)
        seen.append(decision.event)
        raise RuntimeError("observer")

    stage = await make_stage(on_decision=observe)
    await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])
    await stage.governance.aclose()

    assert seen == ["user_prompt", "llm_call", "add", "llm_call"]
    assert caplog.text.count("on_decision failed on a decision") == 4


async def test_an_observer_is_awaited_in_a_thread_as_well(make_stage: Any) -> None:
    """Nested I/O of a tool's own thread has no event loop; its decisions are observed there."""
    seen: list[Any] = []

    async def observe(decision: Any) -> None:
        await asyncio.sleep(0)
        seen.append(decision.event)

    stage = await make_stage(on_decision=observe)
    async with stage.governance.run_scope() as run:
        await asyncio.to_thread(write, run, "in a thread", Verdict.ALLOW, "core")

    assert seen == ["in a thread"]


async def test_a_long_run_keeps_its_last_decisions(make_stage: Any) -> None:
    """A run that lasts for months must not grow with them; whoever observes has seen them all."""
    told: list[Any] = []
    stage = await make_stage(on_decision=lambda decision: told.append(decision.event))

    async with stage.governance.run_scope() as run:
        for number in range(MOST_DECISIONS + 5):
            write(run, str(number), Verdict.ALLOW, "core")

    assert len(run.decisions) == MOST_DECISIONS
    assert run.decisions[-1].event == str(MOST_DECISIONS + 4)
    assert len(told) == MOST_DECISIONS + 5


SLOWLY = {"decision": "CONSTRAIN", "constraints": ["slowly"]}


async def test_a_constraint_that_nobody_knows_is_not_in_place(make_stage: Any) -> None:
    """Fail-closed: nothing runs, and the error says what would let it."""
    stage = await make_stage(on("ActivityStarted", "pay", SLOWLY), on_api_error="fail_closed")

    async with stage.governance.run_scope() as run:
        with pytest.raises(GovernanceBlockedError, match="'slowly'") as caught:
            async with stage.governance.activity("pay", [1]):
                pytest.fail("it ran")

    assert caught.value.remedy == "put a handler for it into option 'constraint_handlers'"
    assert run.decisions[-1].constraints == ("slowly",)


async def test_a_constraint_that_nobody_knows_may_pass(make_stage: Any) -> None:
    """Fail-open: on record."""
    stage = await make_stage(on("ActivityStarted", "pay", SLOWLY), on_api_error="fail_open")

    async with stage.governance.run_scope() as run, stage.governance.activity("pay", [1]):
        pass

    assert run.decisions[-1].constraints == ("slowly",)


@pytest.mark.parametrize("answer", ["BLOCK", {"decision": "CONTINUE", "guardrails_result": FAILED}])
async def test_a_no_to_the_start_of_a_run_is_on_record(
    make_stage: Any, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    """A start is a report, so the run goes on; but that Core objected is not lost."""
    stage = await make_stage(
        core=LocalCore(
            lambda event: answer if event["event_type"] == "WorkflowStarted" else None, guardrails=False
        )
    )

    async with stage.governance.run_scope() as run:
        pass

    (decision,) = run.decisions
    assert (decision.event, decision.verdict, decision.source) == ("run_started", Verdict.ALLOW, "core")
    assert decision.reason
    assert "which is not enforced" in caplog.text


async def test_a_patch_is_surfaced_on_the_error(make_stage: Any, kit: Any) -> None:
    """Core's proposal is there to be looked at, and is not applied."""
    answer = {"decision": "BLOCK", "reason": "too much", "patch": {"new_input": {"a": 0, "b": 0}}}
    stage = await make_stage(on("ActivityStarted", "add", answer))

    with pytest.raises(GovernanceBlockedError) as caught:
        await stage.governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])

    assert caught.value.patch is not None
    assert caught.value.patch.new_input == {"a": 0, "b": 0}
    assert caught.value.decision is not None
    assert caught.value.decision.verdict.value == "block"


async def test_parts_cannot_be_used_outside_a_run(make_stage: Any, kit: Any) -> None:
    """A governed provider, registry or executor that is called on its own refuses, and nothing runs."""
    from agent_rt import ModelRequest

    stage = await make_stage()
    provider = ScriptedProvider("never said")
    registry = kit.registry({"add": lambda **_: pytest.fail("ran")})

    with pytest.raises(UngovernedCallError, match="'llm_call' was called outside"):
        await stage.governance.wrap_provider(provider).complete(ModelRequest(messages=(kit.user("hi"),)))
    with pytest.raises(UngovernedCallError, match="'add' was called outside"):
        await stage.governance.wrap_tool_registry(registry).execute(kit.call("add"))
    with pytest.raises(UngovernedCallError, match="'add' was called outside"):
        await stage.governance.wrap_tool_executor(registry).execute(kit.call("add"))

    assert provider.requests == []
    assert stage.events() == []


async def test_parts_work_inside_a_run_scope(make_stage: Any, kit: Any) -> None:
    """Work that is not an AgentLoop is governed by wrapping what it uses."""
    from agent_rt import ModelRequest

    stage = await make_stage()
    provider = stage.governance.wrap_provider(ScriptedProvider("hello"))
    registry = stage.governance.wrap_tool_registry(kit.registry({"add": lambda a, b: a + b}))

    async with stage.governance.run_scope("hi", agent_name="script") as run:
        inside = current_run()
        await provider.complete(ModelRequest(messages=(kit.user("hi"),)))
        run.result = await registry.execute(kit.call("add", {"a": 1, "b": 2}))

    assert inside is run
    assert current_run() is None
    assert stage.events("WorkflowStarted")[0]["workflow_type"] == "script"
    assert stage.events("WorkflowCompleted")[0]["workflow_output"]["result"] == 3


async def test_a_custom_activity_is_judged_and_closed(make_stage: Any) -> None:
    """A user's own work has a row like any other, with redacted input and its output."""

    def guard(event: dict[str, Any]) -> Any:
        if event.get("activity_type") != "send" or event["event_type"] != "ActivityStarted":
            return None
        return {"validation_passed": True, "redacted_input": [{"to": "[hidden]"}]}

    stage = await make_stage(core=LocalCore(guardrails=guard))

    async with (
        stage.governance.run_scope(),
        stage.governance.activity("send", {"to": "ann@example.org"}) as work,
    ):
        assert work.input == [{"to": "[hidden]"}]
        work.output = {"sent": 1}

    assert stage.events("ActivityStarted")[0]["activity_input"] == [{"to": "ann@example.org"}]
    assert stage.completed("send")["activity_output"] == {"sent": 1}


async def test_a_refused_custom_activity_does_not_run(make_stage: Any) -> None:
    """The block is not entered, and the row is closed."""
    stage = await make_stage(on("ActivityStarted", "send", "BLOCK"))

    with pytest.raises(GovernanceBlockedError):
        async with stage.governance.run_scope(), stage.governance.activity("send"):
            pytest.fail("ran")


async def test_a_halted_run_does_not_even_reach_tools_that_are_not_governed(
    make_stage: Any, kit: Any
) -> None:
    """A skipped tool is not judged, but the loop stops before it."""
    stage = await make_stage(on("ActivityCompleted", "llm_call", "HALT"), skip_tools=["add"])
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": lambda **_: pytest.fail("ran")})

    with pytest.raises(GovernanceHaltError):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])


async def test_a_nested_run_names_its_parent(make_stage: Any, kit: Any) -> None:
    """A loop inside a tool is a run of its own, in the session that it shares with the run around it."""
    stage = await make_stage()
    child = stage.governance.govern_loop(adder(kit, "child says"))

    async def ask(**_: Any) -> str:
        result = await child.run(kit.agent("expert"), [kit.user("sub-question")])
        return str(result.final_response.message.content[0].text)

    loop = adder(kit, Call(name="ask"), "done")
    loop.tool_registry = kit.registry({"ask": ask})

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("question")])

    outer, inner = stage.events("WorkflowStarted")
    assert "parent_workflow_id" not in outer
    assert inner["parent_workflow_id"] == outer["workflow_id"]
    shared = inner["multi_agent_session_id"]
    assert {e.get("multi_agent_session_id") for e in stage.events() if e["run_id"] == inner["run_id"]} == {
        shared
    }
    assert stage.completed("ask")["multi_agent_session_id"] == shared


async def test_a_halt_of_a_nested_run_stops_the_run_around_it(make_stage: Any, kit: Any) -> None:
    """Also when the tool that runs the nested loop swallows everything."""
    stage = await make_stage(on("ActivityStarted", "forbidden", "HALT"))
    child_loop = adder(kit, Call(name="forbidden"), "never said")
    child_loop.tool_registry = kit.registry({"forbidden": lambda: pytest.fail("ran")})
    child = stage.governance.govern_loop(child_loop)

    async def ask(**_: Any) -> str:
        try:
            await child.run(kit.agent("expert"), [kit.user("sub-question")])
        except Exception:  # noqa: BLE001
            # The point of the test: a tool that lets nothing out.
            return "it failed, never mind"
        return "ok"

    loop = adder(kit, Call(name="ask"), "never said either")
    loop.tool_registry = kit.registry({"ask": ask})

    with pytest.raises(GovernanceHaltError):
        await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("question")])

    assert len(loop.provider.requests) == 1
    assert len(stage.events("WorkflowFailed")) == 2


async def test_closing_twice_is_closing_once() -> None:
    """`aclose` is idempotent."""
    governance = await create_openbox_agentrt(core=LocalCore(), environ={}, install_instrumentation=False)

    await governance.aclose()
    await governance.aclose()


async def test_a_closed_governance_starts_no_run(kit: Any) -> None:
    """A loop that it governs does not go on ungoverned, nor behind its back."""
    core = LocalCore()
    governance = await create_openbox_agentrt(core=core, environ={}, install_instrumentation=False)
    loop = adder(kit, "never said")
    governed = governance.govern_loop(loop)
    await governance.aclose()

    with pytest.raises(GovernanceError, match="has been closed"):
        await governed.run(kit.agent(), [kit.user("hi")])

    assert loop.provider.requests == []
    assert core.events() == []


async def test_a_constraint_on_a_prompt_cannot_be_put_around_it(make_stage: Any) -> None:
    """A handler that wants to surround the work has none to surround, so the prompt is refused."""
    from contextlib import nullcontext

    stage = await make_stage(
        on("SignalReceived", "user_prompt", {"decision": "CONSTRAIN", "constraints": ["quiet"]}),
        constraint_handlers={"quiet": lambda decision: nullcontext()},
    )

    with pytest.raises(GovernanceBlockedError, match="cannot be put around a prompt"):
        async with stage.governance.run_scope("hello"):
            pytest.fail("ran")


async def test_a_guard_may_swallow_the_error_of_the_work(make_stage: Any, kit: Any) -> None:
    """Then the tool has given nothing, and the run goes on. The tool has failed all the same."""
    from contextlib import suppress

    def fail(**_: Any) -> None:
        raise ValueError("swallowed")

    stage = await make_stage(
        on("ActivityStarted", "add", {"decision": "CONSTRAIN", "constraints": ["careful"]}),
        constraint_handlers={"careful": lambda decision: suppress(ValueError)},
    )
    loop = adder(kit)
    loop.tool_registry = kit.registry({"add": fail})

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("1 + 2?")])

    assert result.termination_reason == "completed"
    assert stage.completed("add")["status"] == "failed"
    assert stage.completed("add")["error"] == {"type": "ValueError", "message": "swallowed"}


def test_a_governance_is_used_from_several_event_loops(kit: Any) -> None:
    """Each ``asyncio.run`` has its own loop; a BLOCK stays a BLOCK in each, and any of them may close."""
    core = LocalCore(on("ActivityStarted", "add", "BLOCK"))
    governance = asyncio.run(create_openbox_agentrt(core=core, environ={}, install_instrumentation=False))

    async def once() -> None:
        with pytest.raises(GovernanceBlockedError):
            await governance.govern_loop(adder(kit)).run(kit.agent(), [kit.user("1 + 2?")])

    for _ in range(3):
        asyncio.run(once())
    asyncio.run(governance.aclose())

    assert core.orphans() == []


async def test_the_local_core_of_the_factory_is_closed_with_the_governance() -> None:
    """``core="local"`` makes one that belongs to the governance, and can be looked at until it is closed."""
    governance = await create_openbox_agentrt(core="local", environ={}, install_instrumentation=False)
    async with governance:
        async with governance.run_scope("hello"):
            pass
        core = governance.core
        assert len(core.events()) == 5

    with pytest.raises(RuntimeError, match="closed"):
        core.events()


async def test_replies_are_described_for_core(make_stage: Any, kit: Any) -> None:
    """All keys of a model's output are there, null where the provider did not say."""
    stage = await make_stage()
    loop = adder(kit, Reply(text="hello", input_tokens=None, output_tokens=None))

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("hi")])

    assert stage.completed("llm_call")["activity_output"] == {
        "llm_model": "scripted-1",
        "input_tokens": None,
        "output_tokens": None,
        "total_tokens": None,
        "completion": "hello",
        "has_tool_calls": False,
        "finish_reason": "stop",
    }


def test_what_a_governance_offers() -> None:
    """Nothing is public that is not promised; a new name is a promise."""
    assert {name for name in dir(OpenBoxAgentRTGovernance) if not name.startswith("_")} == {
        "aclose",
        "aend_session",
        "activity",
        "activity_scope",
        "counts",
        "coverage",
        "end_session",
        "halt",
        "govern_loop",
        "install",
        "reload",
        "rules_hash",
        "run_scope",
        "runtime",
        "uninstall",
        "wrap_provider",
        "wrap_tool_executor",
        "wrap_tool_registry",
    }


def test_what_options_offer() -> None:
    """The options themselves, and a few questions about them."""
    offered = {name for name in dir(GovernanceOptions(core="local")) if not name.startswith("_")}

    assert offered - set(OPTIONS) == {
        "asks_core",
        "enforces_outputs",
        "gate_budget",
        "reports_in_background",
        "resolve",
        "to_config",
        "withholds_unjudged_output",
    }
