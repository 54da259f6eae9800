"""Contracts about tools that a loop does not have."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from agent_rt import AgentLoop, Toolbase, ToolDefinition, ToolRegistry

from openbox_agentrt import OptionError
from openbox_agentrt.acel import at_most_n_times, must_precede
from openbox_agentrt.testing import ScriptedProvider


def loop_with(kit: Any, *tools: str) -> AgentLoop:
    return AgentLoop(ScriptedProvider(), tool_registry=kit.registry({tool: lambda: 1 for tool in tools}))


async def test_a_misspelt_tool_is_said_with_the_nearest_name(
    make_stage: Any, kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and the loop is governed all the same."""
    stage = await make_stage(contracts=[at_most_n_times("refnd", 1)])

    with caplog.at_level(logging.WARNING):
        stage.governance.govern_loop(loop_with(kit, "refund", "lookup"))
        stage.governance.govern_loop(loop_with(kit, "refund", "lookup"))

    (warning,) = [record.getMessage() for record in caplog.records]
    assert "'refnd'" in warning
    assert warning.endswith("did you mean 'refund'")


async def test_strict_refuses_it(make_stage: Any, kit: Any) -> None:
    """For who wants to know before anything runs."""
    stage = await make_stage(contracts=[must_precede("backup", "delte")])

    with pytest.raises(OptionError, match="'delte'") as caught:
        stage.governance.govern_loop(loop_with(kit, "backup", "delete"), strict=True)

    assert caught.value.nearest == "delete"


async def test_what_is_there_or_no_tool_is_not_said(
    make_stage: Any, kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Model calls, prompts and runs are no tools; patterns, deferred and switched-off tools are fine."""
    stage = await make_stage(
        contracts=[
            at_most_n_times("llm_call", 9),
            must_precede("user_prompt", "run_ended"),
            at_most_n_times(lambda tool, args: False, 1),
            at_most_n_times("late", 1),
            at_most_n_times("off", 1),
        ]
    )
    registry = ToolRegistry()
    registry.register_deferred("late", lambda: ToolDefinition("late", "later", {"type": "object"}))
    registry.register(kit.definition("off"))
    registry.disable("off")
    toolbase = await Toolbase.initialize(tool_registry=registry)

    with caplog.at_level(logging.WARNING):
        stage.governance.govern_loop(AgentLoop(ScriptedProvider(), tool_registry=registry), strict=True)
        stage.governance.govern_loop(AgentLoop(ScriptedProvider(), tool_registry=toolbase), strict=True)

    assert caplog.records == []


async def test_a_tool_of_another_loop_is_known(make_stage: Any, kit: Any) -> None:
    """A session's contracts hold over all of its loops."""
    stage = await make_stage(contracts=[at_most_n_times("lookup", 1), at_most_n_times("refund", 1)])
    stage.governance.govern_loop(loop_with(kit, "lookup"))

    stage.governance.govern_loop(loop_with(kit, "refund"), strict=True)


async def test_a_loop_without_a_registry_says_nothing(make_stage: Any) -> None:
    """Nobody can list what its executor runs."""
    stage = await make_stage(contracts=[at_most_n_times("refund", 1)])

    stage.governance.govern_loop(AgentLoop(ScriptedProvider()), strict=True)
