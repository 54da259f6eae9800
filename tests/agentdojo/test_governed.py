"""AgentDojo's ground truths, made by a real agent loop under governance, with their real tools."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.agentdojo import agent
from benchmarks.agentdojo.contracts import session
from benchmarks.agentdojo.judging import play
from benchmarks.agentdojo.traces import Trace, attacked_traces, benign_traces, injection_traces
from openbox_agentrt import ContractRefusedError
from openbox_agentrt.local_core import LocalCore

SUITES = ("banking", "workspace")
TRACES = [trace for name in SUITES for trace in [*benign_traces(name), *injection_traces(name)]]
ALL = pytest.mark.parametrize("trace", [pytest.param(trace, id=trace.name) for trace in TRACES])

# When something was made: the only thing that differs between two runs of one trace.
CLOCK_FIELDS = frozenset({"last_modified", "timestamp"})


def permissive() -> LocalCore:
    """A Core that allows everything, and does not replace the addresses that these tasks are about."""
    return LocalCore()


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


BENIGN = [trace for trace in TRACES if trace.kind == "benign"]
# One that asks for nothing but a payment, one that asks for several effects, and the two whose attacks get
# furthest: a bill that says whom to pay, and a deletion that is allowed once.
ATTACKED = [
    trace
    for name, *tasks in [
        ("banking", "user_task_0", "user_task_4", "user_task_15"),
        ("workspace", "user_task_13", "user_task_35"),
    ]
    for trace in attacked_traces(name, *tasks)
]


async def under_contract(trace: Trace, make_stage: Any, **options: Any) -> Any:
    """A stage whose runs are under the rules of the suite."""
    return await make_stage(core=permissive(), contracts=lambda: session(trace.suite), **options)


def calls_at_core(stage: Any, trace: Trace) -> list[str]:
    """The tools that Core was asked about, in order."""
    tools = {call.tool for call in trace.calls}
    return [
        event["activity_type"] for event in stage.events("ActivityStarted") if event["activity_type"] in tools
    ]


@pytest.mark.parametrize("trace", [pytest.param(trace, id=trace.name) for trace in BENIGN])
async def test_contracts_let_a_benign_run_through(trace: Trace, make_stage: Any) -> None:
    """Under the rules of its suite, a user task runs as it does without governance."""
    stage = await under_contract(trace, make_stage)

    expected_env, expected = await ungoverned(trace)
    env, result = await governed(trace, stage.governance)

    assert state_of(env) == state_of(expected_env)
    assert answers(result) == answers(expected)
    assert calls_at_core(stage, trace) == [call.tool for call in trace.calls]


@pytest.mark.parametrize("trace", [pytest.param(trace, id=trace.name) for trace in ATTACKED])
async def test_contracts_stop_in_a_run_what_they_stop_in_a_trace(trace: Trace, make_stage: Any) -> None:
    """A run under attack ends in the environment of the played trace: what was refused did not happen."""
    stage = await under_contract(trace, make_stage, on_tool_block="return_error")
    played_env = trace.environment()
    played = play(trace, session(trace.suite), env=played_env)

    env, result = await governed(trace, stage.governance)

    refused = [one.call for one in played.refused]
    made = [call.tool for call in trace.calls if not any(call is one for one in refused)]
    assert played.refused
    assert state_of(env) == state_of(played_env)
    assert calls_at_core(stage, trace) == made
    assert result.termination_reason == "completed"


async def test_an_attack_ends_the_run_where_refusals_are_raised(make_stage: Any) -> None:
    """By default, the first refused call ends the run, and nothing after it happens."""
    trace = next(one for one in ATTACKED if one.name == "banking/user_task_15/injection_task_5/at-once")
    stage = await under_contract(trace, make_stage)
    env = trace.environment()
    loop = stage.governance.govern_loop(agent.loop(trace, env))

    with pytest.raises(ContractRefusedError) as refused:
        await loop.run(agent.AGENT, agent.request(trace), limits=agent.LIMITS)

    assert refused.value.refusal.tool == "send_money"
    assert {one.id for one in refused.value.refusal.broken} >= {"payment-cap"}
    assert calls_at_core(stage, trace) == [call.tool for call in trace.calls if not call.injected][:4]
    assert [event["event_type"] for event in stage.events("WorkflowCompleted", "WorkflowFailed")] == [
        "WorkflowFailed"
    ]


async def test_nothing_comes_from_a_request_that_was_never_made(make_stage: Any) -> None:
    """In a run without a prompt, there is no password that the user has named."""
    trace = next(one for one in BENIGN if one.name == "banking/user_task_14")
    stage = await under_contract(trace, make_stage, on_tool_block="return_error")
    env = trace.environment()
    loop = stage.governance.govern_loop(agent.loop(trace, env))

    await loop.run(agent.AGENT, [], limits=agent.LIMITS)

    assert [call.tool for call in trace.calls] == ["get_most_recent_transactions", "update_password"]
    assert calls_at_core(stage, trace) == ["get_most_recent_transactions"]
    assert state_of(env) == state_of(trace.environment())
