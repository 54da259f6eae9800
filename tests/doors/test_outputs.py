"""What Core says to the report of a result has the same effect in every door, where outputs are enforced."""

import json
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest
from langchain_core.tools import tool
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer

from openbox_agentrt import GovernanceBlockedError
from openbox_agentrt.acel import Session, came_from, must_precede
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.doors.langchain import govern_tool
from openbox_agentrt.doors.mcp import ACELMiddleware
from openbox_agentrt.doors.openai import arun_tool_calls
from openbox_agentrt.local_core import LocalCore

MakeStage = Callable[..., Awaitable[Any]]
SECRET = "ann@example.com"


async def look(name: str) -> dict[str, Any]:
    return {"name": name, "mail": SECRET}


def answering(**answer: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A policy with this answer to every result."""

    def policy(event: dict[str, Any]) -> dict[str, Any]:
        return answer if event["event_type"] == "ActivityCompleted" else {"verdict": "allow"}

    return policy


BLOCKS = answering(verdict="block", reason="no mail")
REDACTS = answering(
    verdict="allow",
    guardrails_result={
        "validation_passed": True,
        "input_type": "activity_output",
        "redacted_input": {"name": "ann", "mail": "***"},
    },
)


async def a_function(governance: Any, session: Session) -> str:
    try:
        return str(await guard(session, "look", look, governance=governance)("ann"))
    except GovernanceBlockedError as error:
        return f"{error}, ran={error.ran}"


async def an_openai_turn(governance: Any, session: Session) -> str:
    call = {"id": "c", "function": {"name": "look", "arguments": '{"name": "ann"}'}}
    (answer,) = await arun_tool_calls(session, [call], {"look": look}, governance=governance)
    text: str = answer["content"]
    return text


async def a_langchain_tool(governance: Any, session: Session) -> str:
    governed = govern_tool(session, tool("look", description="Look.")(look), governance=governance)
    call = {"name": "look", "args": {"name": "ann"}, "id": "c", "type": "tool_call"}
    return str((await governed.ainvoke(call)).content)


async def an_mcp_server(governance: Any, session: Session) -> str:
    gate = ACELMiddleware(session, governance=governance)
    server: MCPServer[Any] = MCPServer("shop", middleware=[gate], log_level="CRITICAL")
    server.tool()(look)
    async with Client(InMemoryTransport(server), mode="legacy") as client:
        result = await client.call_tool("look", {"name": "ann"})
    await gate.aclose()
    return json.dumps(result.model_dump(mode="json"))


DOORS = [a_function, an_openai_turn, a_langchain_tool, an_mcp_server]
EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)


async def through(door: Any, stage: Any, session: Session) -> str:
    # A server's runs are its own.
    opened = nullcontext() if door is an_mcp_server else stage.governance.run_scope("go")
    async with opened:
        return str(await door(stage.governance, session))


@EVERY_DOOR
async def test_an_output_that_core_blocks_is_withheld(make_stage: MakeStage, door: Any) -> None:
    """The work was done and counts; nobody sees its result."""
    stage = await make_stage(core=LocalCore(BLOCKS, guardrails=False), outputs="enforce")
    session = Session(contracts=[must_precede("look", "next")])

    told = await through(door, stage, session)

    assert SECRET not in told
    assert "withheld by policy" in told
    assert "ran=False" not in told
    assert session.reserve("next").allowed


@EVERY_DOOR
async def test_an_output_that_core_redacts_is_handed_on_redacted(make_stage: MakeStage, door: Any) -> None:
    """In the place where it stood."""
    stage = await make_stage(core=LocalCore(REDACTS, guardrails=False), outputs="enforce")

    told = await through(door, stage, Session())

    assert SECRET not in told
    assert "***" in told
    assert "ann" in told


@EVERY_DOOR
async def test_what_core_redacts_vouches_as_it_is_shown(make_stage: MakeStage, door: Any) -> None:
    """What the agent gets to see is what it can use. The result itself is what was found out."""
    stage = await make_stage(core=LocalCore(REDACTS, guardrails=False), outputs="enforce")
    session = Session(contracts=[came_from("send", "to", [{"tool": "look", "path": "mail"}])])

    await through(door, stage, session)

    assert not session.would("send", {"to": "***"})
    assert not session.would("send", {"to": SECRET})
    assert session.would("send", {"to": "eve@example.com"})


@EVERY_DOOR
async def test_without_the_option_outputs_are_as_they_are(make_stage: MakeStage, door: Any) -> None:
    """It is off unless asked for."""
    stage = await make_stage(core=LocalCore(BLOCKS, guardrails=False))

    assert SECRET in await through(door, stage, Session())
