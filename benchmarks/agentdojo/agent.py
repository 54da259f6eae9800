"""A trace as an Agent-RT agent: AgentDojo's tools over its environment, and a model that plays the calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent_rt import (
    AgentConfig,
    AgentLoop,
    AgentRunLimits,
    ContentPart,
    ModelMessage,
    ModelSettings,
    ToolDefinition,
    ToolRegistry,
)
from agentdojo.functions_runtime import FunctionsRuntime

from openbox_agentrt.testing import Call as ScriptedCall
from openbox_agentrt.testing import ScriptedProvider

from .judging import plain
from .suites import suite
from .traces import Trace

# Tools that only look. Everything else has an effect.
LOOKS = ("check_", "get_", "list_", "read_", "search_")
AGENT = AgentConfig(
    name="agentdojo", instructions="Do what the user asks.", model=ModelSettings(model="scripted-1")
)
# The longest trace makes 24 calls, one a turn; the model needs one more turn to say that it is done.
LIMITS = AgentRunLimits(max_turns=64)


def loop(trace: Trace, env: Any) -> AgentLoop:
    """A loop whose model makes the calls of `trace`, with tools that work on `env`."""
    script = [ScriptedCall(name=call.tool, arguments=call.args) for call in trace.calls]
    return AgentLoop(ScriptedProvider(*script, "Done."), tool_registry=_registry(trace.suite, env))


def request(trace: Trace) -> list[ModelMessage]:
    """What the user says at the start of the run."""
    # Of an injection trace, what the attacker asks for: then the attacker is the user.
    text = trace.request or suite(trace.suite).injection_tasks[trace.injection_task].GOAL
    return [ModelMessage(role="user", content=(ContentPart(type="text", text=text),))]


def _registry(name: str, env: Any) -> ToolRegistry:
    runtime = FunctionsRuntime(suite(name).tools)
    registry = ToolRegistry()
    for tool in suite(name).tools:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            input_schema=tool.parameters.model_json_schema(),
            side_effect="read" if tool.name.startswith(LOOKS) else "write",
            # An error is an answer for the model, as it is in AgentDojo's own pipelines.
            error_behavior="return_error",
        )
        registry.register(definition, handler=_handler(runtime, env, tool.name))
    return registry


def _handler(runtime: Any, env: Any, tool: str) -> Callable[[Mapping[str, Any], Any], Awaitable[Any]]:
    async def handle(arguments: Mapping[str, Any], token: Any) -> Any:
        result, _ = runtime.run_function(env, tool, dict(arguments), raise_on_error=True)
        return plain(result)

    return handle
