"""A governed loop is a copy that differs in its parts and in nothing else."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
from agent_rt import (
    AgentLoop,
    ContextAssembler,
    ExecutionBudget,
    InMemoryEventStore,
    InMemoryIdempotencyStore,
    Toolbase,
)

from openbox_agentrt import GovernanceBlockedError, GovernedAgentLoop, current_run
from openbox_agentrt._loop.stand_in import is_governed
from openbox_agentrt.testing import Call, ScriptedProvider


class Custom(AgentLoop):
    """A user's subclass, with slots and an attribute of its own."""

    __slots__ = ("extra", "inside")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.extra = "extra"

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        self.inside = current_run()
        return await super().run(*args, **kwargs)


def no_tool(event: dict[str, Any]) -> Any:
    return "BLOCK" if event.get("activity_type") == "add" else None


@pytest.mark.parametrize("cls", [AgentLoop, Custom])
async def test_a_governed_loop_is_of_both_types(make_stage: Any, cls: Any) -> None:
    """`isinstance` holds for AgentLoop, for the loop's own type and for the governed one."""
    stage = await make_stage()
    loop = cls(ScriptedProvider())

    governed = stage.governance.govern_loop(loop)

    assert isinstance(governed, AgentLoop)
    assert isinstance(governed, cls)
    assert isinstance(governed, GovernedAgentLoop)
    assert not isinstance(loop, GovernedAgentLoop)


def test_a_governed_loop_is_not_made_by_hand() -> None:
    """The class on its own has no judge: nothing would be governed."""
    with pytest.raises(TypeError, match=r"made by governance\.govern_loop"):
        GovernedAgentLoop(ScriptedProvider())


async def test_a_loop_of_a_governed_class_is_governed(make_stage: Any, kit: Any) -> None:
    """Libraries make a second loop of the type of the first; that one has a judge."""
    stage = await make_stage(no_tool)
    cls = type(stage.governance.govern_loop(AgentLoop(ScriptedProvider())))

    loop = cls(
        ScriptedProvider(Call(name="add")), tool_registry=kit.registry({"add": lambda: pytest.fail("ran")})
    )

    with pytest.raises(GovernanceBlockedError):
        await loop.run(kit.agent(), [kit.user("hi")])


@pytest.mark.parametrize("name", ["run", "run_streaming"])
async def test_signatures_are_kept(make_stage: Any, name: str) -> None:
    """What a caller may pass is what the original takes."""
    stage = await make_stage()
    loop = AgentLoop(ScriptedProvider())

    governed = stage.governance.govern_loop(loop)

    assert inspect.signature(getattr(governed, name)) == inspect.signature(getattr(loop, name))
    assert inspect.iscoroutinefunction(getattr(governed, name))


async def test_what_is_shared_stays_shared(make_stage: Any, kit: Any) -> None:
    """Budgets, stores, assemblers and guardrails are the very objects of the original."""
    stage = await make_stage()
    toolbase = await Toolbase.initialize(tool_registry=kit.registry({}))
    loop = AgentLoop(
        ScriptedProvider(),
        tool_registry=toolbase,
        execution_budget=ExecutionBudget(),
        event_store=InMemoryEventStore(),
        context_assembler=ContextAssembler(),
    )

    governed = stage.governance.govern_loop(loop)

    parts = {"provider", "tool_registry"}
    for name, value in vars(loop).items():
        assert (getattr(governed, name) is value) is (name not in parts), name


async def test_a_subclass_keeps_its_run_and_its_attributes(make_stage: Any, kit: Any) -> None:
    """Its own `run` happens inside the governed run."""
    stage = await make_stage()
    governed = stage.governance.govern_loop(Custom(ScriptedProvider("hi")))

    await governed.run(kit.agent(), [kit.user("hello")])

    assert governed.extra == "extra"
    assert governed.inside.workflow_id == stage.events("WorkflowStarted")[0]["workflow_id"]


async def test_governing_twice_is_governing_once(make_stage: Any, kit: Any) -> None:
    """A second copy would tell Core everything twice."""
    stage = await make_stage()
    governed = stage.governance.govern_loop(AgentLoop(ScriptedProvider("hi")))

    assert stage.governance.govern_loop(governed) is governed


async def test_a_copy_of_a_governed_loop_is_governed(make_stage: Any, kit: Any) -> None:
    """Copying does not take governance off."""
    stage = await make_stage(no_tool)
    governed = stage.governance.govern_loop(
        AgentLoop(
            ScriptedProvider(Call(name="add")),
            tool_registry=kit.registry({"add": lambda: pytest.fail("ran")}),
        )
    )

    with pytest.raises(GovernanceBlockedError):
        await copy.copy(governed).run(kit.agent(), [kit.user("hi")])


@pytest.mark.parametrize("how", ["attribute", "dict"])
async def test_parts_that_are_set_later_are_governed(make_stage: Any, kit: Any, how: str) -> None:
    """Giving a governed loop another provider or registry does not step around governance."""
    stage = await make_stage(no_tool)
    governed = stage.governance.govern_loop(AgentLoop(ScriptedProvider()))
    new = {
        "provider": ScriptedProvider(Call(name="add")),
        "tool_registry": kit.registry({"add": lambda: pytest.fail("ran")}),
        "idempotency_store": InMemoryIdempotencyStore(),
    }
    for name, value in new.items():
        if how == "attribute":
            setattr(governed, name, value)
            assert is_governed(getattr(governed, name))
        else:
            vars(governed)[name] = value

    with pytest.raises(GovernanceBlockedError):
        await governed.run(kit.agent(), [kit.user("hi")])


async def test_the_same_registry_set_as_executor_is_the_same_stand_in(make_stage: Any, kit: Any) -> None:
    """In either order."""
    stage = await make_stage()
    registry = kit.registry({})
    governed = stage.governance.govern_loop(AgentLoop(ScriptedProvider()))

    governed.tool_executor = registry
    governed.tool_registry = registry

    assert governed.tool_registry is governed.tool_executor


@pytest.mark.parametrize("name", ["run", "run_streaming"])
async def test_run_cannot_be_replaced(make_stage: Any, name: str) -> None:
    """A function set in its place would step around the run scope."""
    stage = await make_stage()
    governed = stage.governance.govern_loop(AgentLoop(ScriptedProvider()))

    with pytest.raises(TypeError, match="cannot be replaced"):
        setattr(governed, name, lambda *_: None)


async def test_methods_of_another_loop_cannot_be_set(make_stage: Any) -> None:
    """They would act on that loop, which nobody judges."""
    stage = await make_stage()
    governed = stage.governance.govern_loop(AgentLoop(ScriptedProvider()))

    with pytest.raises(TypeError, match="not governed"):
        governed._run_impl = AgentLoop(ScriptedProvider())._run_impl


async def test_a_bound_method_of_the_original_acts_on_the_copy(make_stage: Any, kit: Any) -> None:
    """An instance that replaced its `run` by another of its methods keeps doing so, governed."""

    class Traced(AgentLoop):
        def __init__(self, provider: Any) -> None:
            super().__init__(provider)
            self.run = self._traced  # type: ignore[method-assign]  # what users do
            self.on_done = self._done
            self.traced: list[Any] = []

        async def _traced(self, *args: Any, **kwargs: Any) -> Any:
            self.traced.append(self)
            return await AgentLoop.run(self, *args, **kwargs)

        def _done(self) -> Any:
            return self

    stage = await make_stage()
    loop = Traced(ScriptedProvider("hi"))
    governed = stage.governance.govern_loop(loop)

    await governed.run(kit.agent(), [kit.user("hello")])

    assert governed.traced == [governed]
    assert governed.on_done() is governed
    assert loop.on_done() is loop
    assert stage.story()[-1] == "WorkflowCompleted completed"


@pytest.mark.parametrize("name", ["run", "run_streaming", "_run_impl", "compile_plan"])
async def test_a_patch_that_would_run_on_the_original_is_refused(make_stage: Any, name: str) -> None:
    """Nothing can be said about a foreign function in such a place, so the loop is not governed at all."""
    stage = await make_stage()
    loop = AgentLoop(ScriptedProvider())
    setattr(loop, name, lambda *_: None)

    with pytest.raises(TypeError, match="patched on this AgentLoop"):
        stage.governance.govern_loop(loop)


async def test_a_provider_that_does_not_stay_set_is_refused(make_stage: Any) -> None:
    """A property that returns the raw provider every time cannot be governed from outside."""
    raw = ScriptedProvider()

    class Stubborn(AgentLoop):
        @property
        def provider(self) -> Any:
            return raw

        @provider.setter
        def provider(self, value: Any) -> None: ...

    stage = await make_stage()

    with pytest.raises(TypeError, match="'provider' of a GovernedStubborn cannot be governed"):
        stage.governance.govern_loop(Stubborn(raw))


async def test_the_callers_stop_callback_still_counts(make_stage: Any, kit: Any) -> None:
    """It is asked beside our own."""
    stage = await make_stage()
    governed = stage.governance.govern_loop(AgentLoop(ScriptedProvider("never said")))

    result = await governed.run(kit.agent(), [kit.user("hi")], stop_requested=lambda: True)

    assert result.termination_reason == "stop_requested"
    assert stage.events("WorkflowCompleted")[0]["status"] == "stop_requested"


async def test_a_subclass_with_a_run_of_its_own_signature(make_stage: Any, kit: Any) -> None:
    """A `run` that knows no ``stop_requested`` is not given one."""

    class Short(AgentLoop):
        async def run(self, agent: Any, messages: Any) -> Any:  # type: ignore[override]  # shorter
            return await super().run(agent, messages)

    stage = await make_stage()

    result = await stage.governance.govern_loop(Short(ScriptedProvider("hi"))).run(
        agent=kit.agent(), messages=[kit.user("hello")]
    )

    assert result.termination_reason == "completed"
    assert stage.events("SignalReceived")[0]["signal_args"] == ["hello"]


async def test_a_providers_own_timeouts_are_its_own(make_stage: Any, kit: Any) -> None:
    """Some libraries cancel their task for a timeout and leave it at that; that does not cancel the run."""
    import asyncio

    class OldTimeout(ScriptedProvider):
        async def complete(self, request: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                return await super().complete(request)  # it tries again, and succeeds

    stage = await make_stage()

    result = await stage.governance.govern_loop(AgentLoop(OldTimeout("hi"))).run(
        kit.agent(), [kit.user("go")]
    )

    assert result.termination_reason == "completed"


async def test_sessions_and_names(make_stage: Any, kit: Any) -> None:
    """The agent's name, unless an option names it, and the tool context's session travel with every event."""
    plain = await make_stage()
    named = await make_stage(session_id="s-1", agent_name="Boss")

    for stage in (plain, named):
        await stage.governance.govern_loop(AgentLoop(ScriptedProvider("hi"))).run(
            kit.agent("worker"), [kit.user("hello")], tool_context={"session_id": "s-2"}
        )

    keys = ("agent_name", "session_id", "workflow_type")
    assert {tuple(e[key] for key in keys) for e in plain.events()} == {("worker", "s-2", "worker")}
    assert {tuple(e[key] for key in keys) for e in named.events()} == {("Boss", "s-2", "Boss")}


async def test_two_governances_can_judge_one_loop(make_stage: Any, kit: Any) -> None:
    """Each tells its own Core, and either can refuse."""
    first = await make_stage()
    second = await make_stage(no_tool)
    loop = AgentLoop(
        ScriptedProvider(Call(name="add")), tool_registry=kit.registry({"add": lambda: pytest.fail("ran")})
    )

    governed = second.governance.govern_loop(first.governance.govern_loop(loop))
    with pytest.raises(GovernanceBlockedError):
        await governed.run(kit.agent(), [kit.user("hi")])

    assert first.story()[-1] == second.story()[-1] == "WorkflowFailed"
