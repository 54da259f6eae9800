"""Registries and Toolbases: what stays as it was, and what is judged."""

from __future__ import annotations

import asyncio
import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from agent_rt import (
    ActionBlockedError,
    AgentLoop,
    AgentRunLimits,
    ApprovalManager,
    GuardrailResult,
    PermissionEngine,
    PermissionRule,
    RateLimit,
    RateLimiter,
    RateLimitExceededError,
    Toolbase,
    ToolExecutionContext,
    ToolLifecycleHooks,
    ToolProgramExecutor,
    ToolRegistry,
)

from openbox_agentrt import GovernanceBlockedError, GovernanceHaltError
from openbox_agentrt.testing import Call, Reply, ScriptedProvider


def on_start(tool: str, answer: Any) -> Any:
    return lambda e: answer if e["event_type"] == "ActivityStarted" and e["activity_type"] == tool else None


async def test_a_governed_registry_is_its_registry(make_stage: Any, kit: Any) -> None:
    """Types, late registrations, versions and writes are those of the original."""
    stage = await make_stage()
    registry = kit.registry({"add": lambda: 1})
    governed = stage.governance.wrap_tool_registry(registry)

    governed.register(kit.definition("later"), handler=kit.handler(lambda: 2))
    governed.permission_engine = "engine"

    assert isinstance(governed, ToolRegistry)
    assert governed.version == registry.version == 2
    assert [tool.name for tool in governed.list()] == ["add", "later"]
    assert registry.permission_engine == "engine"
    assert governed.get("add").definition is registry.get("add").definition


async def test_wrapping_twice_is_wrapping_once(make_stage: Any, kit: Any) -> None:
    """A second stand-in would judge every call twice."""
    stage = await make_stage()
    governed = stage.governance.wrap_tool_registry(kit.registry({}))

    assert stage.governance.wrap_tool_registry(governed) is governed


async def test_a_governed_registry_can_be_copied_and_not_pickled(make_stage: Any, kit: Any) -> None:
    """A copy is governed as well; a pickle would lose its judge, and says so."""
    stage = await make_stage(lambda e: "BLOCK" if e.get("activity_type") == "add" else None)
    governed = stage.governance.wrap_tool_registry(kit.registry({"add": lambda: pytest.fail("ran")}))

    for other in (copy.copy(governed), copy.deepcopy(governed)):
        with pytest.raises(GovernanceBlockedError):
            async with stage.governance.run_scope():
                await other.execute(kit.call("add"))
    with pytest.raises(TypeError, match="a governed ToolRegistry cannot be pickled"):
        pickle.dumps(governed)


async def test_setting_something_on_the_type_of_a_stand_in_changes_nothing_else(
    make_stage: Any, kit: Any
) -> None:
    """Agent-RT's own class, and so every other registry of the process, stays as it is."""
    stage = await make_stage()
    governed = stage.governance.wrap_tool_registry(kit.registry({}))
    original = ToolRegistry.execute

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(governed), "execute", lambda *args: pytest.fail("ran"))

        assert ToolRegistry.execute is original


async def test_a_subclass_of_a_registry_keeps_its_own_execute(make_stage: Any, kit: Any) -> None:
    """Its part runs, and zero-argument `super` in it works."""

    class Counting(ToolRegistry):
        calls = 0

        async def execute(self, call: Any, *args: Any, **kwargs: Any) -> Any:
            self.__class__.calls += 1
            return {"counted": await super().execute(call, *args, **kwargs)}

    stage = await make_stage()
    registry = Counting()
    registry.register(kit.definition("add"), handler=kit.handler(lambda: 3))

    async with stage.governance.run_scope():
        value = await stage.governance.wrap_tool_registry(registry).execute(kit.call("add"))

    assert value == {"counted": 3}
    assert Counting.calls == 1


async def test_tools_of_a_kind_of_their_own_are_run(make_stage: Any, kit: Any) -> None:
    """A registry may keep tools with further fields, and with slots for all of them."""

    @dataclass(frozen=True, slots=True)
    class Tool:
        definition: Any
        handler: Any
        enabled: bool = True
        contextual_handler: Any = None

    class Own(ToolRegistry):
        def get(self, name: str) -> Any:
            registered = super().get(name)
            return Tool(registered.definition, registered.handler)

    stage = await make_stage()
    registry = Own()
    registry.register(kit.definition("add"), handler=kit.handler(lambda: 3))

    async with stage.governance.run_scope():
        assert await stage.governance.wrap_tool_registry(registry).execute(kit.call("add")) == 3


async def test_a_patched_execute_is_used(make_stage: Any, kit: Any) -> None:
    """A method that was replaced on the instance is what runs, after the gate."""
    stage = await make_stage()
    registry = kit.registry({"add": lambda: 3})

    async def execute(call: Any, *args: Any) -> str:
        return "patched"

    registry.execute = execute

    async with stage.governance.run_scope():
        value = await stage.governance.wrap_tool_registry(registry).execute(kit.call("add"))

    assert value == "patched"
    assert stage.completed("add")["activity_output"] == "patched"


async def test_a_registry_that_forwards_is_used_as_it_is(make_stage: Any, kit: Any) -> None:
    """A stand-in of the user's own, or a mock, has no `execute` on its class."""

    class Forwarding:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    stage = await make_stage()
    inner = kit.registry({"add": lambda: 3}, fields={"timeout_seconds": 5.0})

    async with stage.governance.run_scope():
        value = await stage.governance.wrap_tool_registry(Forwarding(inner)).execute(kit.call("add"))

    assert value == 3


async def test_contextual_handlers_get_their_context(make_stage: Any, kit: Any) -> None:
    """Services, request context and limits arrive as the registry made them."""
    stage = await make_stage()
    registry = ToolRegistry(services={"db": "database"})
    seen: list[ToolExecutionContext] = []

    async def handler(arguments: Any, context: ToolExecutionContext) -> int:
        seen.append(context)
        return 1

    registry.register(kit.definition("add", timeout_seconds=5.0), contextual_handler=handler)

    async with stage.governance.run_scope():
        await stage.governance.wrap_tool_registry(registry).execute(kit.call("add"), None, {"user_id": "u"})

    (context,) = seen
    assert context.services == {"db": "database"}
    assert context.request_context == {"user_id": "u"}
    assert context.limits.timeout_seconds == 5.0


async def test_tools_registered_during_a_run_are_governed(make_stage: Any, kit: Any) -> None:
    """The loop sees the new version, offers the tool, and its call is judged."""
    stage = await make_stage(on_start("late", "BLOCK"), on_tool_block="return_error")
    registry = ToolRegistry()
    loop = AgentLoop(ScriptedProvider(Call(name="early"), Call(name="late"), "done"), tool_registry=registry)

    def early() -> str:
        registry.register(kit.definition("late"), handler=kit.handler(lambda: pytest.fail("ran")))
        return "registered"

    registry.register(kit.definition("early"), handler=kit.handler(early))

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert [error["tool"] for error in kit.tool_errors(result)] == ["late"]


async def test_tools_of_a_toolbase_are_governed(make_stage: Any, kit: Any) -> None:
    """Through the Toolbase, and through the registry that it shows."""
    stage = await make_stage(on_start("add", "BLOCK"))
    toolbase = await Toolbase.initialize(tool_registry=kit.registry({"add": lambda: pytest.fail("ran")}))
    governed = stage.governance.wrap_tool_registry(toolbase)

    assert isinstance(governed, Toolbase)
    assert {d.name for d in governed.definitions()} == {"add", "tool_search"}
    for way in (governed, governed.registry):
        with pytest.raises(GovernanceBlockedError):
            async with stage.governance.run_scope():
                await way.execute(kit.call("add"))


async def test_a_loop_with_a_toolbase(make_stage: Any, kit: Any) -> None:
    """Screening, search and MCP tools work as before, and each call is a row."""
    stage = await make_stage()

    class Client:
        server_info = "known"

        async def list_tools(self) -> list[Any]:
            return [{"name": "remote", "input_schema": {"type": "object"}}]

        async def call_tool(self, name: str, arguments: Any) -> str:
            return f"{name} called"

    toolbase = await Toolbase.initialize(
        tool_registry=kit.registry({"add": lambda: 3}), mcp_clients={"srv": Client()}
    )
    steps: list[Any] = [
        Call(name="tool_search", arguments={"query": "add"}),
        Call(name="mcp.srv.remote"),
        "done",
    ]
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider(*steps), tool_registry=toolbase))

    result = await loop.run(kit.agent(), [kit.user("go")])

    assert result.termination_reason == "completed"
    assert stage.completed("mcp.srv.remote")["activity_output"] == "remote called"
    assert stage.completed("tool_search")["status"] == "completed"


async def test_a_program_executor_over_a_governed_registry(make_stage: Any, kit: Any) -> None:
    """Agent-RT's program executor is governed when it is built with the governed registry."""
    stage = await make_stage()
    governed = stage.governance.wrap_tool_registry(
        kit.registry({"add": lambda: 3}, fields={"timeout_seconds": 5.0})
    )

    async with stage.governance.run_scope():
        (result,) = await ToolProgramExecutor(governed).execute([kit.call("add")])

    assert result.value == 3
    assert stage.completed("add")["activity_output"] == 3


async def test_an_unknown_tool_is_judged_before_the_registry_answers(make_stage: Any, kit: Any) -> None:
    """A subclass may know tools that `get` does not; Agent-RT's own answer is what is raised otherwise."""
    stage = await make_stage()

    with pytest.raises(KeyError, match="not registered"):
        async with stage.governance.run_scope():
            await stage.governance.wrap_tool_registry(ToolRegistry()).execute(kit.call("ghost"))

    assert stage.completed("ghost")["status"] == "failed"


async def test_permissions_stay_active(make_stage: Any, kit: Any) -> None:
    """Agent-RT's own engine says no behind the gate; the tool has not run."""
    engine = PermissionEngine([PermissionRule(effect="deny", tools=("add",))])
    stage = await make_stage()
    registry = kit.registry({"add": lambda: pytest.fail("ran")}, permission_engine=engine)

    with pytest.raises(PermissionError):
        async with stage.governance.run_scope():
            await stage.governance.wrap_tool_registry(registry).execute(kit.call("add"))

    assert stage.completed("add")["status"] == "failed"


async def test_action_blockers_stay_active(make_stage: Any, kit: Any) -> None:
    """They are asked after the gate, and what they refuse does not run."""
    stage = await make_stage()
    registry = kit.registry(
        {"add": lambda **_: pytest.fail("ran")}, action_blockers=[lambda call, definition: True]
    )

    with pytest.raises(ActionBlockedError):
        async with stage.governance.run_scope():
            await stage.governance.wrap_tool_registry(registry).execute(kit.call("add"))


async def test_rate_limits_stay_active(make_stage: Any, kit: Any) -> None:
    """The registry's own limiter counts the calls that governance lets through."""
    limiter = RateLimiter(RateLimit(limit=1, window_seconds=60))
    stage = await make_stage()
    governed = stage.governance.wrap_tool_registry(kit.registry({"add": lambda: 3}, rate_limiter=limiter))

    async with stage.governance.run_scope():
        await governed.execute(kit.call("add"))
        with pytest.raises(RateLimitExceededError):
            await governed.execute(kit.call("add"))


async def test_agent_rts_own_approvals_stay_active(make_stage: Any, kit: Any) -> None:
    """Its ApprovalManager pauses the run behind the gate; for Core that run is over, and says why."""
    stage = await make_stage()
    registry = kit.registry(
        {"add": lambda: pytest.fail("ran")},
        fields={"side_effect": "destructive"},
        approval_manager=ApprovalManager(),
    )
    loop = AgentLoop(ScriptedProvider(Call(name="add"), "never said"), tool_registry=registry)

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert result.termination_reason == "waiting_for_approval"
    assert stage.completed("add")["status"] == "cancelled"
    assert stage.completed("add")["error"]["type"] == "ApprovalRequiredError"
    assert stage.events("WorkflowCompleted")[0]["status"] == "waiting_for_approval"


async def test_hooks_and_guardrails_run_once(make_stage: Any, kit: Any) -> None:
    """In Agent-RT's order, with the registered definition."""
    log: list[str] = []
    registry = ToolRegistry(
        ToolLifecycleHooks(pre_call=_note(log, "pre", None), post_call=_note(log, "post"), audit=_audit(log)),
        tool_input_guardrails=[_guardrail(log, "input")],
        tool_output_guardrails=[_guardrail(log, "output")],
    )
    registry.register(kit.definition("add"), handler=kit.handler(lambda: log.append("tool")))
    stage = await make_stage()

    async with stage.governance.run_scope():
        await stage.governance.wrap_tool_registry(registry).execute(kit.call("add"))

    assert log == ["pre", "input", "audit start", "tool", "post", "output", "audit success"]


def _note(log: list[str], word: str, *result: Any) -> Any:
    async def hook(call: Any, definition: Any, value: Any = None) -> Any:
        log.append(word)
        return result[0] if result else value

    return hook


def _guardrail(log: list[str], word: str) -> Any:
    def guardrail(*_: Any) -> GuardrailResult:
        log.append(word)
        return GuardrailResult(action="allow")

    return guardrail


def _audit(log: list[str]) -> Any:
    async def hook(event: Any) -> None:
        log.append(f"audit {event.phase}")

    return hook


async def test_a_dry_run_completes_without_running(make_stage: Any, kit: Any) -> None:
    """Agent-RT answers with what would run; the handler is not reached."""
    stage = await make_stage()
    registry = kit.registry({"add": lambda **_: pytest.fail("ran")}, fields={"side_effect": "write"})

    async with stage.governance.run_scope():
        value = await stage.governance.wrap_tool_registry(registry).execute(
            kit.call("add", {"a": 1}), None, {"dry_run": True}
        )

    assert value.would_execute
    assert stage.completed("add")["activity_output"]["would_execute"] is True


async def test_one_object_as_registry_and_executor_stays_one(make_stage: Any, kit: Any) -> None:
    """Agent-RT's command line passes the same object twice."""
    stage = await make_stage()
    registry = kit.registry({})

    governed = stage.governance.govern_loop(AgentLoop(ScriptedProvider(), registry, registry))

    assert governed.tool_executor is governed.tool_registry


async def test_the_model_sees_the_same_definitions(make_stage: Any, kit: Any) -> None:
    """Governance changes nothing in what is offered to the model."""
    stage = await make_stage()
    registry = kit.registry({"add": lambda: 3}, fields={"timeout_seconds": 5.0})
    provider = ScriptedProvider("done")

    await stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry)).run(
        kit.agent(), [kit.user("go")]
    )

    assert provider.requests[0].tools == registry.definitions()


async def test_siblings_of_a_halted_call_do_not_start(make_stage: Any, kit: Any) -> None:
    """In a parallel batch, whatever has not begun when the HALT comes does not begin."""
    order: list[str] = []

    def policy(event: dict[str, Any]) -> Any:
        if event["event_type"] != "ActivityStarted" or event["activity_type"] == "llm_call":
            return None
        order.append(event["activity_type"])
        return "HALT" if event["activity_type"] == "first" else None

    stage = await make_stage(policy)
    registry = kit.registry({"first": lambda: pytest.fail("ran"), "second": lambda: pytest.fail("ran")})
    provider = ScriptedProvider(Reply(calls=(Call(name="first"), Call(name="second"))))
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    with pytest.raises(GovernanceHaltError):
        await loop.run(kit.agent(), [kit.user("go")], limits=AgentRunLimits(concurrent_tool_calls=True))

    assert order == ["first"]


async def test_a_rejected_call_of_a_batch_does_not_stop_the_others(make_stage: Any, kit: Any) -> None:
    """With ``return_error``, the model gets an error for one call and results for the rest."""
    stage = await make_stage(
        on_start("risky", "REQUIRE_APPROVAL"), on_tool_block="return_error", approval_poll_interval_ms=10
    )
    registry = kit.registry({"risky": lambda: pytest.fail("ran"), "safe": lambda: "fine"})
    provider = ScriptedProvider(Reply(calls=(Call(name="risky"), Call(name="safe"))), "done")
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))
    running = asyncio.create_task(
        loop.run(kit.agent(), [kit.user("go")], limits=AgentRunLimits(concurrent_tool_calls=True))
    )

    stage.core.reject(await stage.core.await_approval())
    result = await running

    assert [error["type"] for error in kit.tool_errors(result)] == ["governance_blocked"]
    assert stage.completed("safe")["activity_output"] == "fine"


async def test_a_refusal_is_not_kept_by_the_idempotency_store(make_stage: Any, kit: Any) -> None:
    """The same call may be allowed the next time; a result is kept as before."""
    from agent_rt import InMemoryIdempotencyStore

    answers = iter(["BLOCK"])
    stage = await make_stage(
        lambda e: next(answers, None) if e.get("activity_type") == "add" and "activity_input" in e else None,
        on_tool_block="return_error",
    )
    store = InMemoryIdempotencyStore()
    ran: list[int] = []

    async def once() -> Any:
        provider = ScriptedProvider(Call(name="add", id="same"), "done")
        loop = AgentLoop(
            provider, tool_registry=kit.registry({"add": lambda: ran.append(1)}), idempotency_store=store
        )
        return await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")], task_id="t")

    assert kit.tool_errors(await once()) != []
    assert kit.tool_errors(await once()) == []
    assert kit.tool_errors(await once()) == []
    assert ran == [1]


async def test_two_governances_judge_a_tool_call_once_each(make_stage: Any, kit: Any) -> None:
    """The one that is asked first runs what the other governs."""
    ran: list[Any] = []
    inner, outer = await make_stage(), await make_stage()
    loop = AgentLoop(
        ScriptedProvider(Call(name="add"), "done"), tool_registry=kit.registry({"add": lambda: ran.append(1)})
    )
    twice = outer.governance.govern_loop(inner.governance.govern_loop(loop))

    await twice.run(kit.agent(), [kit.user("Go on.")])

    assert ran == [1]
    for stage in (inner, outer):
        assert [line for line in stage.story() if "add" in line] == [
            "ActivityStarted add",
            "ActivityCompleted add completed",
        ]
