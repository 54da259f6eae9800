"""What governance says about a loop: what is governed, and what it found to escape."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from agent_rt import AgentLoop, Toolbase, ToolProgramExecutor, ToolRegistry

from openbox_agentrt.testing import ScriptedProvider


def paths(coverage: Any) -> dict[str, str]:
    return {escape.path: escape.kind for escape in coverage.escapes}


async def test_a_governed_loop_is_covered(make_stage: Any, kit: Any) -> None:
    """Its parts are named, and nothing escapes."""
    stage = await make_stage()
    loop = stage.governance.govern_loop(
        AgentLoop(ScriptedProvider(), tool_registry=kit.registry({"add": lambda: 1}))
    )

    coverage = stage.governance.coverage(loop)

    assert coverage.governed == ("provider", "tool_registry")
    assert coverage.complete
    assert coverage.not_visible
    assert str(coverage).splitlines()[:2] == [
        "governed: provider, tool_registry",
        "judged inside an activity: nothing",
    ]


async def test_an_ordinary_loop_is_not(make_stage: Any) -> None:
    """Unless every run of the process is governed."""
    stage = await make_stage()
    loop = AgentLoop(ScriptedProvider())

    assert paths(stage.governance.coverage(loop)) == {"loop": "not on this governance"}
    stage.governance.install()
    assert stage.governance.coverage(loop).complete
    stage.governance.uninstall()


async def test_other_attributes_are_looked_at(make_stage: Any, kit: Any) -> None:
    """A second provider, registry or loop in an attribute, a list or a dictionary."""

    class Custom(AgentLoop):
        def __init__(self) -> None:
            super().__init__(ScriptedProvider())
            self.fallback = ScriptedProvider()
            self.others = [{"expert": AgentLoop(ScriptedProvider())}]
            self.tools = ToolRegistry()

    stage = await make_stage()

    coverage = stage.governance.coverage(stage.governance.govern_loop(Custom()))

    assert paths(coverage) == {
        "loop.fallback": "provider",
        "loop.others[0]['expert']": "loop",
        "loop.tools": "registry",
    }
    assert not coverage.complete


async def test_what_is_governed_in_other_attributes_is_no_escape(make_stage: Any) -> None:
    """Wrapping it is the remedy."""

    class Custom(AgentLoop):
        fallback: Any
        expert: Any

    stage = await make_stage()
    loop = Custom(ScriptedProvider())
    loop.fallback = stage.governance.wrap_provider(ScriptedProvider())
    loop.expert = stage.governance.govern_loop(AgentLoop(ScriptedProvider()))

    assert stage.governance.coverage(stage.governance.govern_loop(loop)).complete


def handlers_with(thing: Any, kit: Any) -> dict[str, Any]:
    """Ways in which a tool's handler may hold something."""

    async def closure(arguments: Any, token: Any) -> Any:
        return thing

    async def default(arguments: Any, token: Any, held: Any = thing) -> Any: ...

    async def positional(held: Any, arguments: Any, token: Any) -> Any: ...

    class Holder:
        def __init__(self) -> None:
            self.held = thing

        async def method(self, arguments: Any, token: Any) -> Any: ...

        async def __call__(self, arguments: Any, token: Any) -> Any: ...

    @functools.wraps(closure)
    async def wrapped(*args: Any) -> Any: ...

    return {
        "closure": closure,
        "default": default,
        "partial": functools.partial(positional, thing),
        "method": Holder().method,
        "callable": Holder(),
        "wrapped": wrapped,
    }


@pytest.mark.parametrize("way", ["closure", "default", "partial", "method", "callable", "wrapped"])
async def test_handlers_are_looked_into(make_stage: Any, kit: Any, way: str) -> None:
    """A sub-agent's own loop inside a tool escapes, wherever the handler keeps it."""
    stage = await make_stage()
    registry = ToolRegistry()
    loop = AgentLoop(ScriptedProvider())
    registry.register(kit.definition("ask"), handler=handlers_with(loop, kit)[way])

    coverage = stage.governance.coverage(
        stage.governance.govern_loop(AgentLoop(ScriptedProvider(), tool_registry=registry))
    )

    (escape,) = coverage.escapes
    assert escape.path.startswith("tool 'ask'")
    assert escape.kind == "loop"
    assert "govern_loop" in escape.remedy


async def test_registries_are_looked_at(make_stage: Any, kit: Any) -> None:
    """A patched `execute`, services, and executors of tool programs, in a Toolbase as well."""
    stage = await make_stage()
    inner = ToolRegistry(
        services={"models": ScriptedProvider(), "programs": ToolProgramExecutor(ToolRegistry())}
    )
    inner.execute = lambda *args: None  # type: ignore[method-assign, assignment]  # patched on the instance
    toolbase = await Toolbase.initialize(tool_registry=inner)

    coverage = stage.governance.coverage(
        stage.governance.govern_loop(AgentLoop(ScriptedProvider(), tool_registry=toolbase))
    )

    assert paths(coverage) == {
        "registry.execute": "patched method",
        "registry.services['models']": "provider",
        "registry.services['programs']": "executor",
    }


async def test_a_patched_run_is_reported(make_stage: Any) -> None:
    """On a loop that is not governed yet."""
    stage = await make_stage()
    loop = AgentLoop(ScriptedProvider())
    loop.run = lambda *args: None  # type: ignore[method-assign, assignment]  # patched on the instance

    assert paths(stage.governance.coverage(loop))["loop.run"] == "patched method"


async def test_gates_that_are_switched_off_are_reported(make_stage: Any) -> None:
    """A start flag is no observability switch."""
    stage = await make_stage(send_llm_start_event=False, send_tool_start_event=False, skip_tools=["search"])
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider()))

    coverage = stage.governance.coverage(loop)

    assert paths(coverage) == {"model calls": "option", "tool calls": "option"}
    assert coverage.skipped_tools == ("search",)


async def test_missing_hooks_are_reported(make_stage: Any) -> None:
    """A second governance of the process has no hooks for nested requests, and says so."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = await make_stage(install_instrumentation=True)
        second = await make_stage(install_instrumentation=True)
    loops = [stage.governance.govern_loop(AgentLoop(ScriptedProvider())) for stage in (first, second)]

    assert "httpx" in first.governance.coverage(loops[0]).instrumented
    assert paths(second.governance.coverage(loops[1])) == {
        "nested HTTP requests and queries": "instrumentation"
    }


async def test_only_loops_are_looked_at(make_stage: Any) -> None:
    """Anything else is a mistake."""
    stage = await make_stage()

    with pytest.raises(TypeError, match=r"coverage looks at an agent_rt\.AgentLoop"):
        stage.governance.coverage(object())


class Executor:
    """Runs tools, in the way of Agent-RT."""

    async def execute(self, call: Any, token: Any = None) -> str:
        return "done"


class Cursor:
    """Runs statements, in the way of databases."""

    async def execute(self, sql: str, parameters: Any = ()) -> str:
        return "done"


@pytest.mark.parametrize(("thing", "kind"), [(Executor(), "executor"), (Cursor(), None)])
async def test_executors_are_looked_for(make_stage: Any, kit: Any, thing: Any, kind: str | None) -> None:
    """One that a handler holds runs tools that nobody judges; a cursor does not."""
    stage = await make_stage()
    registry = ToolRegistry()
    registry.register(kit.definition("ask"), handler=handlers_with(thing, kit)["closure"])

    coverage = stage.governance.coverage(
        stage.governance.govern_loop(AgentLoop(ScriptedProvider(), tool_registry=registry))
    )

    assert [escape.kind for escape in coverage.escapes] == ([] if kind is None else [kind])


async def test_the_loops_own_provider_escapes_where_it_is_held_raw(make_stage: Any, kit: Any) -> None:
    """The loop has a stand-in for it; a handler that kept the provider itself has not."""
    stage = await make_stage()
    provider, registry = ScriptedProvider(), ToolRegistry()
    registry.register(kit.definition("ask"), handler=handlers_with(provider, kit)["closure"])

    coverage = stage.governance.coverage(
        stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))
    )

    assert paths(coverage) == {"tool 'ask': thing": "provider"}
