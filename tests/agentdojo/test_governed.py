"""AgentDojo's ground truths, made by a real agent loop under governance, with their real tools."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.agentdojo import agent
from benchmarks.agentdojo.traces import Trace, benign_traces, injection_traces
from openbox_agentrt.local_core import LocalCore

SUITES = ("banking", "workspace")
TRACES = [trace for name in SUITES for trace in [*benign_traces(name), *injection_traces(name)]]
ALL = pytest.mark.parametrize("trace", [pytest.param(trace, id=trace.name) for trace in TRACES])

# When something was made: the only thing that differs between two runs of one trace.
CLOCK_FIELDS = frozenset({"last_modified", "timestamp"})


def permissive() -> LocalCore:
    """A Core that allows everything, and does not replace the addresses that these tasks are about."""
    return LocalCore(guardrails=False)


def without_times(value: Any) -> Any:
    """An environment's dump, without what a clock put into it."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in CLOCK_FIELDS}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value


def state_of(env: Any) -> Any:
    """An environment in a form that can be compared."""
    return without_times(env.model_dump(mode="json"))


def answers(result: Any) -> list[Any]:
    """What the model was told, in order."""
    return [
        without_times(part.data) if part.type == "json" else part.text
        for message in result.messages
        if message.role == "tool"
        for part in message.content
    ]


async def ungoverned(trace: Trace) -> tuple[Any, Any]:
    """The environment after the trace, and the run's result, without governance."""
    env = trace.environment()
    result = await agent.loop(trace, env).run(agent.AGENT, agent.request(trace), limits=agent.LIMITS)
    return env, result


async def governed(trace: Trace, governance: Any) -> tuple[Any, Any]:
    """The same, under governance."""
    env = trace.environment()
    loop = governance.govern_loop(agent.loop(trace, env))
    result = await loop.run(agent.AGENT, agent.request(trace), limits=agent.LIMITS)
    return env, result


@ALL
async def test_governed_run_leaves_the_same_environment(trace: Trace, make_stage: Any) -> None:
    """Where Core allows everything, the tools do what they do without governance, and say the same."""
    stage = await make_stage(core=permissive())

    expected_env, expected = await ungoverned(trace)
    env, result = await governed(trace, stage.governance)

    assert state_of(env) == state_of(expected_env)
    assert answers(result) == answers(expected)
    assert result.termination_reason == expected.termination_reason == "completed"
    assert result.tool_calls == len(trace.calls)


@ALL
async def test_every_call_has_one_row_and_the_run_one_end(trace: Trace, make_stage: Any) -> None:
    """Core was told of each call once, in order, and that it ended, and once that the run ended."""
    stage = await make_stage(core=permissive())

    await governed(trace, stage.governance)

    tools = {call.tool for call in trace.calls}
    started = [event for event in stage.events("ActivityStarted") if event["activity_type"] in tools]
    completed = [event for event in stage.events("ActivityCompleted") if event["activity_type"] in tools]
    ends = [event["event_type"] for event in stage.events("WorkflowCompleted", "WorkflowFailed")]
    assert [event["activity_type"] for event in started] == [call.tool for call in trace.calls]
    assert Counter(event["activity_id"] for event in completed) == Counter(
        event["activity_id"] for event in started
    )
    assert ends == ["WorkflowCompleted"]
