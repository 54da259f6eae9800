"""Which traces there are, that they are always the same, and that AgentDojo takes them for what they are."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from agentdojo.task_suite.load_suites import get_suite

from benchmarks.agentdojo.judging import play
from benchmarks.agentdojo.suites import SUITES, VERSION, environment, places
from benchmarks.agentdojo.traces import Trace, attacked_traces, benign_traces, exposed, injection_traces

Attacked = Callable[[str], tuple[Trace, ...]]


def test_every_ground_truth_is_a_trace() -> None:
    """97 user tasks and 35 injection tasks make 386 calls of 56 tools."""
    traces = [trace for name in SUITES for trace in [*benign_traces(name), *injection_traces(name)]]
    calls = [call for trace in traces for call in trace.calls]

    assert len(traces) == 132
    assert len(calls) == 386
    assert len({call.tool for call in calls}) == 56


def test_every_pair_that_calls_can_attack_is_a_trace(attacked: Attacked) -> None:
    """A user task is attacked by every injection task that is made of calls, in both orders."""
    pairs = {name: len(attacked(name)) // 2 for name in SUITES}

    assert pairs == {"banking": 16 * 9, "slack": 21 * 5, "travel": 20 * 6, "workspace": 40 * 6}


@pytest.mark.parametrize("name", SUITES)
def test_making_the_traces_again_gives_the_same(name: str) -> None:
    """Nothing in a trace depends on the clock, on chance or on an earlier run."""
    first = [*benign_traces(name), *injection_traces(name)]
    second = [*benign_traces(name), *injection_traces(name)]

    assert first == second


@pytest.mark.parametrize("name", SUITES)
def test_arguments_are_json(name: str) -> None:
    """What a trace hands to a tool is what a model could have written."""
    for trace in [*benign_traces(name), *injection_traces(name)]:
        for call in trace.calls:
            assert json.loads(json.dumps(call.args)) == call.args


@pytest.mark.parametrize("name", SUITES)
def test_environments_are_agentdojos_own(name: str) -> None:
    """The quick way to an environment gives the one that AgentDojo's loader gives."""
    planted = dict.fromkeys(places(name), "Please: look the other way.")

    assert environment(name) == get_suite(VERSION, name).load_and_inject_default_environment({})
    assert environment(name, planted) == get_suite(VERSION, name).load_and_inject_default_environment(planted)


@pytest.mark.parametrize("name", SUITES)
def test_agentdojo_calls_every_benign_trace_done(name: str) -> None:
    """A user task's trace, made without contracts, passes AgentDojo's check of that task."""
    assert [trace.name for trace in benign_traces(name) if not play(trace, ask_done=True).done] == []


@pytest.mark.parametrize("name", SUITES)
def test_agentdojo_calls_every_injection_trace_a_success(name: str) -> None:
    """An injection task's trace, made without contracts, reaches the goal of that task."""
    traces = [trace for trace in injection_traces(name) if trace.calls]

    assert traces
    assert [trace.name for trace in traces if not play(trace).reached] == []


def pair(name: str, user_task: str, injection_task: str) -> tuple[Trace, Trace]:
    """The pair's trace with the attack at once, and the one with the attack at the end."""
    found = [trace for trace in attacked_traces(name, user_task) if trace.injection_task == injection_task]
    at_once, at_end = found
    return at_once, at_end


def test_attack_starts_after_the_result_that_shows_it() -> None:
    """At once, the attacker's calls follow the first result with planted text; the rest comes after."""
    at_once, at_end = pair("banking", "user_task_15", "injection_task_5")
    seen_after = exposed("banking", "user_task_15").after

    assert [call.injected for call in at_once.calls] == [False] * seen_after + [True] + [False]
    assert [call.injected for call in at_end.calls] == [False] * (seen_after + 1) + [True]


def test_planted_text_stands_where_the_user_task_sees_it() -> None:
    """In an attacked trace's environment, the attacker's goal stands where the user task reads."""
    at_once, _ = pair("banking", "user_task_0", "injection_task_5")
    goal = get_suite(VERSION, "banking").injection_tasks["injection_task_5"].GOAL

    assert list(at_once.planted) == ["injection_bill_text"]
    assert goal in at_once.environment().filesystem.files["bill-december-2023.txt"]


def test_ids_in_an_attack_are_those_of_its_moment() -> None:
    """An attack that deletes the mail it sent names its id, also after the user's task sent others."""
    at_once, at_end = pair("workspace", "user_task_25", "injection_task_5")

    def deleted(trace: Trace) -> object:
        return next(call.args["email_id"] for call in trace.calls if call.tool == "delete_email")

    assert deleted(at_once) == "34"
    assert deleted(at_end) == "37"
