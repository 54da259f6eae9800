"""A list with one good text opens no door, whatever the door makes of what it is sent."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop
from langchain_core.tools import StructuredTool
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from pydantic import ValidationError

from openbox_agentrt import ContractRefusedError
from openbox_agentrt.acel import ContractViolation, Session, must_precede, only
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.match.matchers import any_of, matching
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.doors.claude_code import HookSettings, before_tool
from openbox_agentrt.doors.langchain import govern_tool
from openbox_agentrt.doors.mcp import ACELMiddleware
from openbox_agentrt.doors.openai import run_tool_calls
from openbox_agentrt.doors.stdio_proxy import StdioGate
from openbox_agentrt.testing import Call, ScriptedProvider

INSIDE = matching("send", r"@example\.com$", field="to")
RULES = {"only": [{"tool": "send", "matches": r"@example\.com$", "field": "to"}, "run_*"]}
GOOD = ["ann@example.com", "bob@example.com"]
MIXED = ["eve@evil.io", "ann@example.com"]

Ran = list[Any]


def contract() -> Template:
    return only(any_of(INSIDE, "run_*"))


def sender(ran: Ran) -> Callable[[list[str]], str]:
    def send(to: list[str]) -> str:
        ran.append(to)
        return "sent"

    return send


async def a_function(to: Any, ran: Ran, folder: Path) -> None:
    with contextlib.suppress(ContractViolation):
        guard(Session(contracts=[contract()]), "send", sender(ran))(to)


async def openai_functions(to: Any, ran: Ran, folder: Path) -> None:
    function = {"name": "send", "arguments": json.dumps({"to": to})}
    call = {"id": "c1", "type": "function", "function": function}
    run_tool_calls(Session(contracts=[contract()]), [call], {"send": sender(ran)})


async def langchain(to: Any, ran: Ran, folder: Path) -> None:
    tool = StructuredTool.from_function(sender(ran), name="send", description="Send.")
    call = {"name": "send", "args": {"to": to}, "id": "c1", "type": "tool_call"}
    # What is no list of texts, the tool refuses by itself.
    with contextlib.suppress(ValidationError):
        govern_tool(Session(contracts=[contract()]), tool).invoke(call)


async def a_typed_mcp_server(to: Any, ran: Ran, folder: Path) -> None:
    gate = ACELMiddleware(Session(contracts=[contract()]))
    server: MCPServer[Any] = MCPServer("mail", middleware=[gate], log_level="CRITICAL")
    server.tool("send", structured_output=False)(sender(ran))
    async with Client(InMemoryTransport(server), mode="legacy") as client:
        await client.call_tool("send", {"to": to})


async def the_proxy(to: Any, ran: Ran, folder: Path) -> None:
    gate = StdioGate(Session(contracts=[contract()]), schemas={})
    params = {"name": "send", "arguments": {"to": to}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    passage = gate.from_client(json.dumps(body).encode() + b"\n")
    if passage.to_server:
        ran.append(json.loads(passage.to_server)["params"]["arguments"]["to"])


async def a_hook(to: Any, ran: Ran, folder: Path) -> None:
    (folder / "rules.json").write_text(json.dumps(RULES))
    settings = HookSettings(rules=str(folder / "rules.json"), state_dir=str(folder / "state"))
    event = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "send"}
    answer = before_tool(json.dumps({**event, "tool_input": {"to": to}}).encode(), settings)
    if '"deny"' not in answer.stdout:
        ran.append(to)


DOORS = [a_function, openai_functions, langchain, a_typed_mcp_server, the_proxy, a_hook]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize(
    "to", [MIXED, MIXED[::-1], json.dumps(MIXED), [MIXED[1], None]], ids=["list", "reversed", "JSON", "null"]
)
async def test_one_good_text_opens_nothing(door: Any, to: Any, tmp_path: Path) -> None:
    """Of a list, of JSON that a typed door makes a list of, and beside nothing."""
    ran: Ran = []

    await door(to, ran, tmp_path)

    assert ran == []


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_good_texts_pass(door: Any, tmp_path: Path) -> None:
    """All of them together."""
    ran: Ran = []

    await door(GOOD, ran, tmp_path)

    assert ran == [GOOD]


@pytest.mark.parametrize("to", [MIXED, json.dumps(MIXED)], ids=["list", "JSON"])
async def test_a_loop_s_call_is_no_prerequisite(make_stage: Any, kit: Any, to: Any) -> None:
    """A mail to somebody inside that went outside as well allows nothing after it."""
    stage = await make_stage(contracts=[must_precede(INSIDE, "pay")])
    ran: Ran = []
    handlers = {"send": lambda to: sender(ran)(to), "pay": lambda: ran.append("paid")}
    provider = ScriptedProvider(Call(name="send", arguments={"to": to}), Call(name="pay"), "done")
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=kit.registry(handlers)))

    with pytest.raises(ContractRefusedError):
        await loop.run(kit.agent(), [kit.user("go")])

    assert ran == [to]
