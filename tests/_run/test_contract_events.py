"""What contracts see of a governed run: every event once, with what really happened."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from agent_rt import AgentLoop, ToolRegistry

from openbox_agentrt import (
    ApprovalRejectedError,
    ContractRefusedError,
    GovernanceBlockedError,
    GuardrailsValidationError,
)
from openbox_agentrt.acel import (
    EvidenceLog,
    Session,
    at_most_n_times,
    at_most_total,
    must_precede,
    never_after,
    postcondition,
    precondition,
    required_before_session_end,
)
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, Reply, ScriptedProvider


def on(activity: str, answer: Any) -> Callable[[Mapping[str, Any]], Any]:
    """A policy that answers to the start of one activity only."""
    return lambda event: (
        answer
        if event["event_type"] == "ActivityStarted" and event.get("activity_type") == activity
        else None
    )


class World:
    """A governed loop, and the session that its runs have."""

    def __init__(self, stage: Any, kit: Any, session: Session, provider: Any, registry: Any, **loop: Any):
        self.stage, self.kit, self.session, self.provider = stage, kit, session, provider
        self.loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry, **loop))

    async def run(self, text: str = "go", *, agent: Any = None, **kwargs: Any) -> Any:
        return await self.loop.run(agent or self.kit.agent(), [self.kit.user(text)], **kwargs)

    def seen(self) -> list[str]:
        return [row["tool"] for row in self.session.trace]


@pytest.fixture
def world(make_stage: Any, kit: Any) -> Callable[..., Any]:
    """Makes worlds whose session is looked at after the run; runs share it."""

    async def make(
        *steps: Any,
        policy: Any = None,
        contracts: Any = (),
        tools: Any = None,
        registry: Any = None,
        loop: Any = None,
        core: Any = None,
        **options: Any,
    ) -> World:
        session = Session(contracts=contracts)
        stage = await make_stage(policy, core=core, contracts=lambda: session, session_id="s", **options)
        registry = registry or kit.registry(tools or {"send": lambda **_: "sent", "read": lambda **_: "mail"})
        return World(stage, kit, session, ScriptedProvider(*steps), registry, **(loop or {}))

    return make


async def test_every_event_of_a_run_is_one_of_the_session(world: Any) -> None:
    """Its start, the prompt, model calls, tools, and its end, in their order."""
    here = await world(Call(name="read"), Call(name="send"), "done")

    await here.run()

    assert here.seen() == [
        "run_started", "user_prompt", "llm_call", "read", "llm_call", "send", "llm_call", "run_ended",
    ]  # fmt: skip


async def test_a_custom_activity_is_an_event_under_its_type(make_stage: Any) -> None:
    """With its first argument, if that is its only one."""
    session = Session()
    stage = await make_stage(contracts=lambda: session)

    async with stage.governance.run_scope(), stage.governance.activity("index", {"size": 3}) as activity:
        activity.output = "ok"

    row = session.trace[1]
    assert (row["tool"], row["args"], row["result"]) == ("index", {"size": 3}, "ok")


async def test_model_calls_can_be_limited(world: Any) -> None:
    """The pre-screen of the prompt is the first of them, and not one more."""
    here = await world(
        Call(name="read"), Call(name="read"), "done", contracts=[at_most_n_times("llm_call", 2)]
    )

    with pytest.raises(ContractRefusedError, match="llm_call"):
        await here.run()

    assert len(here.provider.requests) == 2


async def test_a_pre_screen_that_is_not_the_next_call_does_not_count_as_one(
    make_stage: Any, kit: Any
) -> None:
    """A model call about something else comes first: together they are one call, unless both happen."""
    from agent_rt import ModelRequest

    session = Session(contracts=[at_most_n_times("llm_call", 2)])
    stage = await make_stage(contracts=lambda: session)
    provider = stage.governance.wrap_provider(ScriptedProvider("a", "b"))

    def request(text: str) -> Any:
        return ModelRequest((kit.user(text),))

    async with stage.governance.run_scope("screened"):
        await provider.complete(request("another text"))
        assert session.in_flight == 0
        await provider.complete(request("screened"))
        with pytest.raises(ContractRefusedError):
            await provider.complete(request("screened"))

    assert [row["tool"] for row in session.trace].count("llm_call") == 2


async def test_a_pre_screen_whose_turn_is_over_is_refused_and_closed(make_stage: Any, kit: Any) -> None:
    """Other calls have used up the limit before it came to it."""
    from agent_rt import ModelRequest

    session = Session(contracts=[at_most_n_times("llm_call", 1)])
    stage = await make_stage(contracts=lambda: session)
    provider = stage.governance.wrap_provider(ScriptedProvider("a"))

    async with stage.governance.run_scope("screened"):
        await provider.complete(ModelRequest((kit.user("another text"),)))
        with pytest.raises(ContractRefusedError):
            await provider.complete(ModelRequest((kit.user("screened"),)))

    assert sorted(e["status"] for e in stage.events("ActivityCompleted")) == ["completed", "failed"]


async def test_an_unused_pre_screen_counts_as_no_call(make_stage: Any) -> None:
    """Nothing was asked of a model."""
    session = Session(contracts=[at_most_n_times("llm_call", 0)], mode="shadow")
    stage = await make_stage(contracts=lambda: session, session_id="s")

    async with stage.governance.run_scope("hello"):
        pass

    assert "llm_call" not in [row["tool"] for row in session.trace]
    assert session.in_flight == 0


async def test_order_holds_between_tools(world: Any) -> None:
    """``never_after("send", "read")``: once mail was read, nothing is sent."""
    here = await world(Call(name="read"), Call(name="send"), contracts=[never_after("send", "read")])

    with pytest.raises(ContractRefusedError, match="never_after"):
        await here.run()

    assert "send" not in here.seen()


async def test_prompts_can_be_limited(make_stage: Any) -> None:
    """The run with the second prompt of the session ends with it."""
    stage = await make_stage(contracts=[at_most_n_times("user_prompt", 1)])
    async with stage.governance.run_scope("one", session_id="s"):
        pass

    with pytest.raises(ContractRefusedError, match="user_prompt"):
        async with stage.governance.run_scope("two", session_id="s"):
            pass
    assert stage.story()[-1] == "WorkflowFailed"


async def test_an_obligation_can_be_about_prompts(make_stage: Any) -> None:
    """Without a prompt there is none."""
    stage = await make_stage(contracts=[required_before_session_end("user_prompt")], on_unmet="raise")

    async with stage.governance.run_scope("hello"):
        pass
    with pytest.raises(Exception, match="user_prompt"):
        async with stage.governance.run_scope():
            pass


@pytest.mark.parametrize("streams", [False, True], ids=["completed", "streamed"])
@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "total_tokens"])
async def test_tokens_are_added_when_they_are_known(world: Any, field: str, streams: bool) -> None:
    """Once the total is reached, no model is called any more; streams count like anything else."""
    spent = {"input_tokens": 60, "output_tokens": 40, "total_tokens": 100}[field]
    replies = [
        Reply(calls=(Call(name="read"),), input_tokens=60, output_tokens=40),
        Reply(text="done", input_tokens=60, output_tokens=40),
    ]
    fits = await world(*replies, contracts=[at_most_total("llm_call", field, spent + 1)])
    full = await world(*replies, contracts=[at_most_total("llm_call", field, spent)])

    async def consume(here: Any) -> None:
        if not streams:
            await here.run()
            return

        async def ignore(event: Any) -> None: ...

        await here.loop.run_streaming(here.kit.agent(), [here.kit.user("go")], ignore)

    await consume(fits)
    with pytest.raises(ContractRefusedError, match=field):
        await consume(full)

    assert (len(fits.provider.requests), len(full.provider.requests)) == (2, 1)


async def test_going_over_a_total_is_on_record(world: Any) -> None:
    """What was spent cannot be refused any more, but the evidence has it."""
    log = EvidenceLog()
    rule = at_most_total("llm_call", "total_tokens", 10)
    here = await world(Reply(text="done", input_tokens=60, output_tokens=40), contracts=[rule], evidence=log)

    await here.run()

    assert [bundle.violation["spec"] for bundle in log.bundles] == [rule.spec]


async def test_cost_is_what_the_loop_estimates(world: Any) -> None:
    """With a cost estimator on the loop, a cap on the cost of a session holds."""
    here = await world(
        Call(name="read"), "done", contracts=[at_most_total("llm_call", "cost", 2)],
        loop={"cost_estimator": lambda response: 2.0},
    )  # fmt: skip

    with pytest.raises(ContractRefusedError, match="cost"):
        await here.run()


@pytest.mark.parametrize("estimator", [None, lambda response: 1 / 0], ids=["none", "one that fails"])
async def test_a_cost_that_nobody_knows_refuses_the_next_call(world: Any, estimator: Any) -> None:
    """A cap on it cannot be held otherwise."""
    here = await world(
        Call(name="read"), "done", contracts=[at_most_total("llm_call", "cost", 2)],
        loop={"cost_estimator": estimator},
    )  # fmt: skip

    with pytest.raises(ContractRefusedError, match="cost"):
        await here.run()

    assert len(here.provider.requests) == 1


REFUSALS = {
    "block": ("BLOCK", GovernanceBlockedError),
    "rejected": ("REQUIRE_APPROVAL", ApprovalRejectedError),
    "guardrail": (None, GuardrailsValidationError),
}


@pytest.mark.parametrize(("answer", "error"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_call_that_somebody_else_stops_gives_its_reservation_back(
    make_stage: Any, answer: Any, error: type[Exception]
) -> None:
    """Core, a person and a guardrail alike: the call has not happened, and the limit is as it was."""
    failed = {"validation_passed": False, "reasons": [{"type": "t", "field": "f", "reason": "odd"}]}
    core = LocalCore(on("pay", answer), guardrails=on("pay", None if answer else failed))
    session = Session(contracts=[at_most_n_times("pay", 1)])
    stage = await make_stage(core=core, contracts=lambda: session, approval_poll_interval_ms=5)

    async def reject() -> None:
        if answer == "REQUIRE_APPROVAL":
            core.reject(await core.await_approval())

    person = asyncio.create_task(reject())
    async with stage.governance.run_scope():
        for _ in range(1 if answer == "REQUIRE_APPROVAL" else 3):
            with pytest.raises(error):
                async with stage.governance.activity("pay"):
                    pass
        await person
        assert session.in_flight == 0
        assert session.reserve("pay").allowed

    assert "pay" not in [row["tool"] for row in session.trace]


async def test_a_local_refusal_costs_no_round_trip(make_stage: Any) -> None:
    """Core is not asked about the call; it hears of it by a signal, which is no goal of the user's."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 0)])

    async with stage.governance.run_scope():
        before = len(stage.events())
        with pytest.raises(ContractRefusedError):
            async with stage.governance.activity("pay"):
                pass
        assert len(stage.events()) == before

    (signal,) = stage.events("SignalReceived")
    assert stage.events("ActivityStarted", "ActivityCompleted") == []
    assert signal["signal_name"] == "contract_violation"
    assert signal["contract_violation"]["event"] == "pay"
    assert "signal_args" not in signal


def redacting(event: Mapping[str, Any]) -> Any:
    if event["event_type"] == "ActivityStarted" and event.get("activity_type") == "send":
        return {"input_type": "activity_input", "redacted_input": [{"to": "***"}]}
    return None


async def test_a_redaction_by_core_is_what_commits_and_evidence_see(make_stage: Any, kit: Any) -> None:
    """The commit function, the trace, and the violations that come later - results that quote it too."""
    log = EvidenceLog()
    seen: list[Any] = []
    session = Session(contracts=[at_most_n_times("send", 1)])
    session.register_tool("send", commit=lambda state, args, result: seen.append(args))
    stage = await make_stage(
        core=LocalCore(guardrails=redacting), contracts=lambda: session, evidence=log, record="violations"
    )
    registry = stage.governance.wrap_tool_registry(
        kit.registry({"send": lambda to: f"sent to ada@example.org, shown as {to}"})
    )

    async with stage.governance.run_scope():
        await registry.execute(kit.call("send", {"to": "ada@example.org"}))
        with pytest.raises(ContractRefusedError):
            await registry.execute(kit.call("send", {"to": "ada@example.org"}))

    assert seen == [{"to": "***"}]
    assert session.trace[1]["args"] == {"to": "***"}
    assert "ada@example.org" not in repr(session.trace)
    assert "ada@example.org" not in repr([bundle.violation for bundle in log.bundles])
    assert len(log.bundles) == 1


async def test_outputs_that_core_redacts_are_not_in_the_evidence(make_stage: Any, kit: Any) -> None:
    """They are redacted after the commit, so the trace has a mark in the place of each result."""
    log = EvidenceLog()

    def hide(event: Mapping[str, Any]) -> Any:
        if event["event_type"] == "ActivityCompleted" and event.get("activity_type") == "read":
            return {"input_type": "activity_output", "redacted_input": "***"}
        return None

    sizes: list[int] = []
    session = Session(contracts=[at_most_n_times("read", 1)])
    session.register_tool("read", commit=lambda state, args, result: sizes.append(len(result)))
    stage = await make_stage(
        core=LocalCore(guardrails=hide), contracts=lambda: session, evidence=log, redact_outputs=True
    )
    registry = stage.governance.wrap_tool_registry(kit.registry({"read": lambda: "the secret plan"}))

    async with stage.governance.run_scope():
        assert await registry.execute(kit.call("read")) == "***"
        with pytest.raises(ContractRefusedError):
            await registry.execute(kit.call("read"))

    assert sizes == [len("the secret plan")]
    assert "secret plan" not in repr((session.trace, [bundle.violation for bundle in log.bundles]))
    assert "REDACTED" in session.trace[1]["result"]


async def test_a_screened_prompt_is_in_the_trace_by_its_hash(make_stage: Any) -> None:
    """Core redacts prompts in the pre-screen, which comes after the prompt's own gate."""
    session = Session()
    stage = await make_stage(contracts=lambda: session)

    async with stage.governance.run_scope("my card is 4111 1111"):
        pass

    row = next(row for row in session.trace if row["tool"] == "user_prompt")
    assert set(row["args"]) == {"prompt", "characters"}
    assert "4111 1111" not in repr(session.trace)


# Conditions on tools


async def test_registered_tools_keep_their_conditions(world: Any) -> None:
    """Precondition, postcondition and commit of a session apply to the governed tools."""
    here = await world(Call(name="read"), Call(name="send"), "done")
    here.session.register_tool("read", commit=lambda state, args, result: state.__setitem__("mail", result))
    here.session.register_tool("send", precondition=lambda state: state.get("mail") == "mail")

    await here.run()

    assert here.session.state["mail"] == "mail"
    assert here.seen().count("send") == 1


async def test_a_precondition_that_does_not_hold_refuses(world: Any) -> None:
    """Before anything runs."""
    here = await world(Call(name="send"))
    here.session.register_tool("send", precondition=lambda state: state.get("ready", False))

    with pytest.raises(ContractRefusedError):
        await here.run()
    assert "send" not in here.seen()


async def test_a_failed_postcondition_is_a_failed_call(world: Any) -> None:
    """The row is closed as failed, the model never sees the result, and nothing is allowed by it."""
    here = await world(
        Call(name="read"), "done", contracts=[must_precede("read", "send")], on_tool_block="return_error"
    )
    here.session.register_tool("read", postcondition=lambda state, result: result != "mail")

    result = await here.run()

    completed = here.stage.completed("read")
    assert (completed["status"], completed["error"]["type"]) == ("failed", "ContractRefusedError")
    told = repr(here.provider.requests[-1].messages)
    assert "'mail'" not in told
    assert "lambda" not in told
    assert [error["type"] for error in here.kit.tool_errors(result)] == ["governance_blocked"]


async def test_a_commit_function_that_fails_fails_the_call(world: Any) -> None:
    """What the contracts should know is not known: the result must not be used."""
    here = await world(Call(name="read"))
    here.session.register_tool("read", commit=lambda state, args, result: 1 / 0)

    with pytest.raises(ContractRefusedError) as caught:
        await here.run()
    assert caught.value.ran


async def test_a_prompt_can_have_conditions(make_stage: Any) -> None:
    """It is an event like the others: one whose postcondition fails ends the run."""
    session = Session()
    session.register_tool("user_prompt", postcondition=lambda state, result: False)
    stage = await make_stage(contracts=lambda: session)

    with pytest.raises(ContractRefusedError, match="user_prompt"):
        async with stage.governance.run_scope("hello"):
            pass
    assert stage.story()[-1] == "WorkflowFailed"


READY = precondition(lambda state, args: args.get("to") == "ada", description="only to ada")
SOUND = postcondition(lambda state, result: result == "sent", description="was sent")


@READY
@SOUND
async def plain(arguments: Mapping[str, Any], token: object) -> str:
    return str(arguments["reply"])


@READY
@SOUND
async def contextual(arguments: Mapping[str, Any], context: object) -> str:
    return str(arguments["reply"])


class Mailer:
    @READY
    @SOUND
    async def send(self, arguments: Mapping[str, Any], token: object) -> str:
        return str(arguments["reply"])


async def general(reply: str, arguments: Mapping[str, Any], token: object) -> str:
    return reply


ASYNC_READY = precondition(functools.partial(lambda state, args: asyncio.sleep(0, args.get("to") == "ada")))


@ASYNC_READY
@SOUND
async def awaiting(arguments: Mapping[str, Any], token: object) -> str:
    return str(arguments["reply"])


HANDLERS: dict[str, dict[str, Any]] = {
    "function": {"handler": plain},
    "bound method": {"handler": Mailer().send},
    "partial": {"handler": functools.partial(plain)},
    "contextual": {"contextual_handler": contextual},
    "async condition": {"handler": awaiting},
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS.keys())
@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"to": "ada", "reply": "sent"}, "sent"),
        ({"to": "eve", "reply": "sent"}, "before"),
        ({"to": "ada", "reply": "lost"}, "after"),
    ],
    ids=["good", "before", "after"],
)
async def test_conditions_on_a_handler_are_picked_up(
    make_stage: Any, kit: Any, handler: Any, arguments: Any, outcome: str
) -> None:
    """Whatever kind of handler it is."""
    registry = ToolRegistry()
    registry.register(kit.definition("send"), **handler)
    stage = await make_stage(contracts=[])
    governed = stage.governance.wrap_tool_registry(registry)

    async with stage.governance.run_scope():
        if outcome == "sent":
            assert await governed.execute(kit.call("send", arguments)) == "sent"
        else:
            with pytest.raises(ContractRefusedError) as caught:
                await governed.execute(kit.call("send", arguments))
            assert caught.value.ran is (outcome == "after")


async def test_what_was_registered_comes_before_what_decorates(make_stage: Any, kit: Any) -> None:
    """Conditions that were put on the session on purpose are not replaced by those of the handler."""
    session = Session()
    session.register_tool("send", precondition=lambda state: True)
    registry = ToolRegistry()
    registry.register(kit.definition("send"), handler=plain)
    stage = await make_stage(contracts=lambda: session)
    governed = stage.governance.wrap_tool_registry(registry)

    async with stage.governance.run_scope():
        assert await governed.execute(kit.call("send", {"to": "eve", "reply": "lost"})) == "lost"


# Nothing lost, nothing counted twice


async def test_a_retry_after_an_error_counts_as_what_it_is(make_stage: Any, kit: Any) -> None:
    """A call that ran and failed has an unknown effect: it stays counted, and the retry is another one."""
    session = Session(contracts=[at_most_n_times("pay", 2), must_precede("pay", "ship")])
    stage = await make_stage(contracts=lambda: session)
    closed = [True, False, False]

    def pay() -> str:
        if closed.pop(0):
            raise ValueError("the bank is closed")
        return "paid"

    registry = stage.governance.wrap_tool_registry(kit.registry({"pay": pay}))
    async with stage.governance.run_scope():
        with pytest.raises(ValueError, match="bank"):
            await registry.execute(kit.call("pay"))
        assert not session.reserve("ship").allowed
        await registry.execute(kit.call("pay"))
        with pytest.raises(ContractRefusedError):
            await registry.execute(kit.call("pay"))
        assert session.reserve("ship").allowed


async def test_a_model_call_that_failed_is_counted_once_and_its_retry_once(make_stage: Any, kit: Any) -> None:
    """Tokens of the failed one are unknown and none; the pre-screen belongs to the first."""
    from agent_rt import ModelRequest

    session = Session(
        contracts=[at_most_n_times("llm_call", 2), at_most_total("llm_call", "total_tokens", 15)]
    )
    stage = await make_stage(contracts=lambda: session)
    provider = stage.governance.wrap_provider(ScriptedProvider(Reply(error=OSError("reset")), "hello"))
    request = ModelRequest((kit.user("hi"),))

    async with stage.governance.run_scope("hi"):
        with pytest.raises(OSError, match="reset"):
            await provider.complete(request)
        await provider.complete(request)
        refusal = session.reserve("llm_call", {}, deferred=("total_tokens",)).refusal

    assert refusal is not None
    assert {broken.kind for broken in refusal.broken} == {"temporal"}
    assert len(refusal.broken) == 2


async def test_a_repair_turn_of_structured_output_is_one_more_model_call(world: Any) -> None:
    """And its tokens are added once."""
    from agent_rt import AgentOutputRequirements

    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    here = await world(
        Reply(text="not json", input_tokens=10, output_tokens=5),
        Reply(text='{"n": 1}', input_tokens=10, output_tokens=5),
        contracts=[at_most_n_times("llm_call", 2), at_most_total("llm_call", "total_tokens", 31)],
    )

    result = await here.run(agent=here.kit.agent(output=AgentOutputRequirements(schema=schema)))

    assert result.structured_output == {"n": 1}
    assert here.seen().count("llm_call") == 2
    refusal = here.session.reserve("llm_call", {}, deferred=("total_tokens",)).refusal
    assert refusal is None or "total" not in refusal.message


def checkpoint(result: Any, agent: Any) -> Any:
    from agent_rt import AgentCheckpoint

    return AgentCheckpoint(
        checkpoint_id="c",
        agent_name=agent.name,
        messages=result.messages,
        turns=result.turns,
        tool_calls=result.tool_calls,
        total_tokens=result.total_tokens,
    )


@pytest.mark.parametrize("decision", ["approve", "reject", "nobody"])
async def test_a_pause_holds_its_reservation_until_somebody_decides(world: Any, decision: str) -> None:
    """It counts once: kept when the call runs, given back when it never does."""
    here = await world(
        Call(name="send"), "done", policy=on("send", "REQUIRE_APPROVAL"), approval_mode="pause",
        contracts=[at_most_n_times("send", 1)],
    )  # fmt: skip
    agent = here.kit.agent()

    paused = await here.run(agent=agent)
    assert paused.termination_reason == "waiting_for_approval"
    assert here.session.in_flight == 1
    assert not here.session.reserve("send").allowed

    if decision == "nobody":
        await here.stage.governance.aclose()
        assert here.session.in_flight == 0
        return
    approval = here.stage.core.pending_approvals()[0]
    getattr(here.stage.core, decision)(approval)
    resume = here.loop.run(agent, [], resume_checkpoint=checkpoint(paused, agent))
    if decision == "approve":
        assert (await resume).termination_reason == "completed"
    else:
        with pytest.raises(ApprovalRejectedError):
            await resume

    assert here.session.in_flight == 0
    assert here.session.reserve("send").allowed is (decision == "reject")
    assert here.seen().count("run_started") == here.seen().count("run_ended") == 1
    assert here.seen().count("user_prompt") == 1


async def test_a_call_that_a_person_approved_too_late_is_refused(world: Any) -> None:
    """What allowed it is void by then; it was reserved, and never ran."""
    decisions: list[Any] = []
    here = await world(
        Call(name="read"),
        Call(name="send"),
        policy=on("send", "REQUIRE_APPROVAL"),
        approval_mode="pause",
        contracts=[must_precede("read", "send", since="new_mail"), at_most_n_times("send", 1)],
        on_decision=decisions.append,
    )
    agent = here.kit.agent()
    paused = await here.run(agent=agent)
    here.session.call("new_mail")
    here.stage.core.approve(here.stage.core.pending_approvals()[0])

    with pytest.raises(ContractRefusedError, match="needs read after the latest new_mail"):
        await here.loop.run(agent, [], resume_checkpoint=checkpoint(paused, agent))

    assert here.session.in_flight == 0
    assert "send" not in here.seen()
    (decision,) = [each for each in decisions if each.event == "send"]
    assert (decision.verdict.value, decision.source, decision.acel) == ("block", "contracts", "refused")
    assert decision.approval == "approved"


@pytest.mark.parametrize("waited", [59, 61])
async def test_a_call_that_waits_for_a_poll_is_judged_again(make_stage: Any, waited: int) -> None:
    """When the person has said yes, and before it runs."""
    now = [1_700_000_000.0]
    session = Session(contracts=[must_precede("find", "send", within=60)], clock=lambda: now[0])
    stage = await make_stage(
        on("send", "REQUIRE_APPROVAL"), contracts=lambda: session, approval_poll_interval_ms=5
    )

    async def run() -> None:
        async with stage.governance.run_scope():
            async with stage.governance.activity("find"):
                pass
            async with stage.governance.activity("send"):
                pass

    running = asyncio.create_task(run())
    approval = await stage.core.await_approval()
    now[0] += waited
    stage.core.approve(approval)
    if waited > 60:
        with pytest.raises(ContractRefusedError):
            await running
    else:
        await running
    assert session.in_flight == 0


async def test_an_approval_that_nobody_gave_leaves_a_decision(world: Any) -> None:
    """When the governance closes, the paused run ends, and the record says why the call never ran."""
    told: list[Any] = []
    here = await world(
        Call(name="send"),
        policy=on("send", "REQUIRE_APPROVAL"),
        approval_mode="pause",
        on_decision=told.append,
    )
    await here.run()
    assert [d for d in told if d.event == "send"] == []

    await here.stage.governance.aclose()

    (decision,) = [d for d in told if d.event == "send"]
    assert (decision.verdict.value, decision.approval) == ("block", "timeout")
    assert decision.core_verdict.value == "require_approval"


async def test_a_cancelled_call_stays_counted_and_allows_nothing(make_stage: Any) -> None:
    """Its effect is unknown."""
    session = Session(contracts=[at_most_n_times("pay", 1), must_precede("pay", "ship")])
    stage = await make_stage(contracts=lambda: session)
    inside = asyncio.Event()

    async def work() -> None:
        async with stage.governance.activity("pay"):
            inside.set()
            await asyncio.Event().wait()

    async with stage.governance.run_scope():
        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.reserve("pay").allowed
        assert not session.reserve("ship").allowed
    assert session.in_flight == 0


async def test_a_commit_that_is_cancelled_is_an_unknown_outcome(make_stage: Any) -> None:
    """The task dies while an async postcondition is asked: counted, allows nothing, row closed."""
    asked = asyncio.Event()

    async def slow(state: Any, result: Any) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    session = Session(contracts=[at_most_n_times("pay", 1), must_precede("pay", "ship")])
    session.register_tool("pay", postcondition=slow)
    stage = await make_stage(contracts=lambda: session)

    async def work() -> None:
        async with stage.governance.activity("pay"):
            pass

    async with stage.governance.run_scope():
        task = asyncio.create_task(work())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.reserve("pay").allowed
        assert not session.reserve("ship").allowed
        assert session.in_flight == 0

    assert stage.completed("pay")["status"] == "cancelled"


async def test_a_dry_run_has_not_happened(make_stage: Any, kit: Any) -> None:
    """Agent-RT answers it itself: the tool was let through and did not run."""
    session = Session(contracts=[at_most_n_times("send", 1)])
    stage = await make_stage(contracts=lambda: session)
    registry = kit.registry({"send": lambda: "sent"}, fields={"side_effect": "consequential"})
    loop = stage.governance.govern_loop(
        AgentLoop(ScriptedProvider(Call(name="send"), "ok"), tool_registry=registry)
    )

    await loop.run(kit.agent(), [kit.user("go")], tool_context={"dry_run": True})

    assert "send" not in [row["tool"] for row in session.trace]
