"""What became of a tool call, whatever its failure looks like to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt.acel import must_precede
from openbox_agentrt.testing import Call, ScriptedProvider

BEFORE_DELETE = [must_precede("backup", "delete")]


def raises(**_: Any) -> Any:
    raise OSError("disk full")


def says_so(**_: Any) -> Any:
    return {"isError": True, "content": [{"type": "text", "text": "disk full"}]}


def langchain(**_: Any) -> Any:
    return {"tool_call_id": "1", "status": "error", "content": "disk full"}


async def slow(**_: Any) -> Any:
    import asyncio

    await asyncio.sleep(5)


@pytest.mark.parametrize(
    ("backup", "settings"),
    [
        pytest.param(raises, {"error_behavior": "return_error"}, id="raised, and made a value of"),
        pytest.param(says_so, {}, id="isError"),
        pytest.param(langchain, {}, id="status of langchain"),
        pytest.param(slow, {"timeout_seconds": 0.05, "error_behavior": "return_error"}, id="timeout"),
    ],
)
async def test_a_failed_call_allows_nothing(
    make_stage: Any, kit: Any, backup: Callable[..., Any], settings: dict[str, Any]
) -> None:
    """Contracts do not take it for done, and Core's row has failed; the model reads what it always read."""
    stage = await make_stage(None, contracts=BEFORE_DELETE, on_tool_block="return_error")
    deleted: list[str] = []
    tools = {"backup": backup, "delete": lambda: deleted.append("all")}
    loop = AgentLoop(
        ScriptedProvider(Call(name="backup"), Call(name="delete"), "done"),
        tool_registry=kit.registry(tools, fields=settings),
    )

    result = await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert deleted == []
    assert stage.completed("backup")["status"] == "failed"
    assert result.termination_reason == "completed"


async def test_the_row_says_what_was_raised(make_stage: Any, kit: Any) -> None:
    """And what the model was given in its place, which Core has to see as well."""
    stage = await make_stage(None)
    registry = stage.governance.wrap_tool_registry(
        kit.registry({"backup": raises}, fields={"error_behavior": "return_error"})
    )

    async with stage.governance.run_scope():
        value = await registry.execute(kit.call("backup"))

    row = stage.completed("backup")
    assert row["error"] == {"type": "OSError", "message": "disk full"}
    assert row["activity_output"] == value


@pytest.mark.parametrize(
    ("said", "status", "deletes"),
    [("ok", "completed", 1), ("failed", "failed", 0), ("unknown", "failed", 0), ("nonsense", "failed", 0)],
)
async def test_the_user_knows_better(make_stage: Any, kit: Any, said: str, status: str, deletes: int) -> None:
    """A hook by tool name decides; one that says nothing that is known leaves the call counted as failed."""
    stage = await make_stage(
        None,
        contracts=BEFORE_DELETE,
        on_tool_block="return_error",
        outcomes={"backup": lambda result: said if result == {"code": 7} else "ok"},
    )
    deleted: list[str] = []
    tools = {"backup": lambda: {"code": 7}, "delete": lambda: deleted.append("all")}
    loop = AgentLoop(
        ScriptedProvider(Call(name="backup"), Call(name="delete"), "done"), tool_registry=kit.registry(tools)
    )

    await stage.governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])

    assert stage.completed("backup")["status"] == status
    assert len(deleted) == deletes


async def test_an_activity_of_ones_own_can_say_it(make_stage: Any) -> None:
    """Without an exception, which the block may need for something else."""
    stage = await make_stage(None)

    async with stage.governance.run_scope(), stage.governance.activity("fetch", [1]) as activity:
        activity.output, activity.outcome = {"code": 500}, "failed"

    row = stage.completed("fetch")
    assert (row["status"], row["activity_output"]) == ("failed", {"code": 500})
    assert row["error"]["type"] == "UnsuccessfulCall"
