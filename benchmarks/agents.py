"""Agents of several shapes, bare and governed, whose model and tools take no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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

from openbox_agentrt.testing import Call, Reply, ScriptedProvider
from openbox_agentrt.testing.script import Step

AGENT = AgentConfig("calculator", "You add.", ModelSettings("model-1"))
QUESTION = ModelMessage("user", (ContentPart("text", "How much is 1 + 2, and 3 + 4, and so on?"),))
LIMITS = AgentRunLimits(max_turns=10_000, max_tool_calls=10_000)
ADD = Call(name="add", arguments={"a": 1, "b": 2})

Govern = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    What an agent does.

    Attributes:
        calls: Tool calls, one after the other or all in one turn.
        parallel: All in one turn.
        streamed: The model streams.
    """

    name: str
    calls: int
    parallel: bool = False
    streamed: bool = False

    @property
    def activities(self) -> int:
        """Model calls and tool calls of a run."""
        turns = (2 if self.parallel else self.calls + 1) if self.calls else 1
        return turns + self.calls

    def loop(self) -> Any:
        """A new agent."""
        steps: list[Step] = [Reply(calls=(ADD,) * self.calls)] if self.parallel else [ADD] * self.calls
        registry = ToolRegistry()
        registry.register(ToolDefinition("add", "adds", {"type": "object"}), handler=_add)
        return AgentLoop(ScriptedProvider(*steps, "done"), tool_registry=registry)

    async def run(self, govern: Govern = lambda loop: loop) -> None:
        """Run a new agent once."""
        await self.play(govern(self.loop()))

    async def play(self, loop: Any) -> None:
        """Run this agent."""
        if self.streamed:
            result = await loop.run_streaming(AGENT, [QUESTION], on_event=_ignore, limits=LIMITS)
        else:
            limits = replace(LIMITS, concurrent_tool_calls=self.parallel)
            result = await loop.run(AGENT, [QUESTION], limits=limits)
        check_finished(result)


SHAPES = (
    Shape(name="no tools", calls=0),
    Shape(name="1 call", calls=1),
    Shape(name="10 calls", calls=10),
    Shape(name="100 calls", calls=100),
    Shape(name="10 calls in parallel", calls=10, parallel=True),
    Shape(name="10 calls, streamed", calls=10, streamed=True),
)


def check_finished(result: Any) -> None:
    """
    Accept the result of a run that did what it was to do.

    Raises:
        RuntimeError: It ended otherwise, such as at a limit: its figures would be of another run.
    """
    if result.termination_reason != "completed":
        raise RuntimeError(f"a run ended with {result.termination_reason!r}, so its figures mean nothing")


async def _add(arguments: Mapping[str, Any], token: object) -> Any:
    return {"sum": arguments["a"] + arguments["b"]}


async def _ignore(event: Any) -> None:
    """Only the result is wanted."""
