"""What Agent-RT adds to the things that are wrapped fails here, and not silently in production."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from agent_rt import (
    AgentLoop,
    IdempotencyStore,
    InMemoryIdempotencyStore,
    ModelProvider,
    StreamingModelProvider,
    Toolbase,
    ToolExecutor,
    ToolRegistry,
)

from openbox_agentrt._loop.attributes import PARTS
from openbox_agentrt._loop.executor import GovernedExecutor
from openbox_agentrt._loop.idempotency import FilteredIdempotencyStore
from openbox_agentrt._loop.other_calls import JUDGED
from openbox_agentrt._loop.provider import FORWARDED, GovernedProvider, GovernedStreamingProvider
from openbox_agentrt._loop.registry import GovernedRegistry, GovernedToolbase

REGISTRY_MEMBERS = {
    "capability_descriptors",
    "deferred_names",
    "definitions",
    "definitions_in_namespace",
    "disable",
    "enable",
    "execute",
    "get",
    "list",
    "load",
    "namespaces",
    "qualified_name",
    "register",
    "register_deferred",
    "unregister",
    "version",
}
"""Of these, only `execute` runs a tool; `get` hands out a tool whose handler can be called."""

TOOLBASE_MEMBERS = {
    "capability_descriptors",
    "definitions",
    "execute",
    "get",
    "initialize",
    "version",
    "visibility_filter",
}

LOOP_ATTRIBUTES = {
    "_default_input_guardrail_count",
    "_default_output_guardrail_count",
    "capability_grant",
    "context_assembler",
    "cost_estimator",
    "deadline",
    "event_store",
    "execution_budget",
    "finalizers",
    "idempotency_store",
    "input_guardrails",
    "loop_detector",
    "metrics",
    "output_guardrails",
    "prompt_injection_defense",
    "provider",
    "rate_limiter",
    "response_failure_classifier",
    "token_ledger",
    "tool_executor",
    "tool_filter",
    "tool_registry",
}

LOOP_METHODS = {"_run_impl", "compile_plan", "run", "run_streaming"}


def members(cls: type[Any]) -> set[str]:
    found = {name for base in cls.__mro__ for name in vars(base) if not name.startswith("_")}
    assert found, "found no members: this guard would pass without checking anything"
    return found


@pytest.mark.parametrize(
    ("wrapper", "protocol"),
    [
        (GovernedProvider, ModelProvider),
        (GovernedStreamingProvider, StreamingModelProvider),
        (GovernedExecutor, ToolExecutor),
        (FilteredIdempotencyStore, IdempotencyStore),
    ],
)
def test_a_wrapper_spells_out_its_protocol(wrapper: type[Any], protocol: type[Any]) -> None:
    """Every member of the protocol is defined at class level: nothing of it is left to forwarding."""
    assert members(protocol) <= members(wrapper)


def test_only_the_streaming_wrapper_streams() -> None:
    """A provider that cannot stream must not seem to."""
    assert "stream" not in members(GovernedProvider)


@pytest.mark.parametrize(
    ("cls", "known"),
    [(ToolRegistry, REGISTRY_MEMBERS), (Toolbase, TOOLBASE_MEMBERS)],
    ids=["registry", "toolbase"],
)
def test_the_members_of_registries_are_known(cls: type[Any], known: set[str]) -> None:
    """A new method may be a new way to run a tool: look at it, then add it here."""
    assert members(cls) == known


@pytest.mark.parametrize("wrapper", [GovernedRegistry, GovernedToolbase])
def test_registry_wrappers_take_what_registries_take(wrapper: type[Any]) -> None:
    """`execute` passes on whatever comes after the call."""
    parameters = list(inspect.signature(wrapper.execute).parameters.values())

    assert [p.kind for p in parameters[2:]] == [
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ]


def test_the_attributes_of_a_loop_are_known() -> None:
    """A new attribute may be a new way to act: look at it, then add it here."""
    from openbox_agentrt.testing import ScriptedProvider

    assert set(vars(AgentLoop(ScriptedProvider()))) == LOOP_ATTRIBUTES
    assert set(PARTS) <= LOOP_ATTRIBUTES


def test_the_methods_of_a_loop_are_known() -> None:
    """All runs go through `run`; a new entry point would not."""
    assert {name for name, value in vars(AgentLoop).items() if inspect.isfunction(value)} - {
        "__init__"
    } == LOOP_METHODS


def test_streaming_runs_go_through_run() -> None:
    """Only `run` is overridden, which is enough as long as `run_streaming` calls it."""
    assert "self.run(" in inspect.getsource(AgentLoop.run_streaming)


def test_the_loop_uses_nothing_else_of_its_parts() -> None:
    """What the loop calls on provider, registry and executor is what the wrappers govern or forward."""
    import re

    source = inspect.getsource(AgentLoop)
    used = set(re.findall(r"self\.(?:provider|tool_registry|tool_executor)\.(\w+)", source))

    assert used == {"complete", "stream", "name", "definitions", "version", "get", "execute"}


def test_stores_are_read_and_written_only() -> None:
    """The filter stands in for exactly these two."""
    assert members(InMemoryIdempotencyStore) == {"get", "put"}


def test_other_members_of_providers_are_listed() -> None:
    """Two are judged, since what they are given reaches a model; two are forwarded, and ask no model."""
    assert set(JUDGED) == {"create_batch", "embed"}
    assert set(FORWARDED) == {"count_tokens", "list_models"}
