"""What the documents say is so: the prompts for a real agent, played by a client, and what can be pasted."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from openbox_agentrt.acel.config import parse_rules
from openbox_agentrt.cli import COMMANDS
from openbox_agentrt.doors.mcp.server_module import load_module

ROOT = Path(__file__).parents[3]
AGENTS = (ROOT / "docs" / "TESTING_WITH_REAL_AGENTS.md").read_text()
GUIDE = (ROOT / "docs" / "mcp.md").read_text()

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Step = tuple[str, dict[str, Any], str | None]

CLOSED = "the ticket of a refund is still open"
OPEN: Step = ("open_ticket", {"customer_id": "c"}, None)
VERIFY: Step = ("verify_customer", {"ticket_id": "T-c"}, None)
CLOSE: Step = ("close_ticket", {"ticket_id": "T-c"}, None)


def refund(amount: Any, broken: str | None = None) -> Step:
    return ("issue_refund", {"ticket_id": "T-c", "amount": amount}, broken)


CONVERSATIONS: dict[str, list[Step]] = {
    "a task that breaks nothing": [OPEN, VERIFY, refund(40), CLOSE],
    "no refund before verification": [OPEN, refund(60, "needs verify_customer"), VERIFY, refund(60)],
    "another customer": [
        OPEN,
        VERIFY,
        ("issue_refund", {"ticket_id": "T-d", "amount": 20}, "needs verify_customer"),
    ],
    "800 dollars": [OPEN, VERIFY, refund(800, "500 left of 500")],
    "split": [OPEN, VERIFY, refund(300), refund(200), refund(300, "0 left of 500")],
    "a negative amount": [OPEN, VERIFY, refund(-300, "at_most_total"), refund(600, "500 left of 500")],
    "an amount in words": [OPEN, VERIFY, refund("three hundred", "valid number")],
    "a ticket that was never opened": [("close_ticket", {"ticket_id": "T-ghost"}, "needs open_ticket")],
    "a closed ticket": [OPEN, VERIFY, CLOSE, refund(20, CLOSED)],
    "an instruction from the data": [refund(450, "needs verify_customer")],
    "the way out": [("escalate_to_human", {"ticket_id": "T-c", "reason": "angry"}, None)],
}


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
async def test_a_conversation_with_the_support_agent(conversation: list[Step]) -> None:
    """Each prompt of the document meets the contract that it says it meets."""
    server, session = load_module(str(ROOT / "examples" / "support_agent_server.py")).build_server()

    async with Client(server) as client:
        refused = 0
        for tool, arguments, broken in conversation:
            result = await client.call_tool(tool, arguments)
            assert bool(result.is_error) is (broken is not None), result
            assert broken is None or broken in result.model_dump_json()
            refused += bool(result.is_error)

    assert session.evidence.verify()
    assert len(session.evidence) == refused


@pytest.mark.parametrize("document", [AGENTS, GUIDE], ids=["agents", "guide"])
def test_what_can_be_pasted_is_well_formed(document: str) -> None:
    """JSON parses, rules are understood, and every command exists."""
    for language, block in re.findall(r"```(json|yaml)\n(.*?)```", document, re.DOTALL):
        if language == "json":
            json.loads(block)
        else:
            assert parse_rules(block).contracts
    commands = set(re.findall(r"openbox-agentrt (?:\"\], )?([a-z-]+) ", document))

    assert commands, "found no command: this test would pass without checking anything"
    assert commands <= set(COMMANDS), commands


def test_configurations_start_the_servers_that_they_name() -> None:
    """The arguments of a pasted configuration are those of the command line."""
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", AGENTS, re.DOTALL)]
    servers = [server for block in blocks for server in block["mcpServers"].values()]

    assert {server["args"][0] for server in servers} == {"serve", "proxy"}
    for server in servers:
        assert server["command"].endswith("openbox-agentrt")
        for argument in server["args"]:
            example = argument.removeprefix("/ABSOLUTE/PATH/")
            assert not example.startswith("examples/") or (ROOT / example).is_file()


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of the guide is Python that runs, in order."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}

    for block in blocks:
        exec(block, names)

    assert len(blocks) >= 4
    names["log"].close()


async def test_the_refusal_in_the_guide_is_the_one_that_comes() -> None:
    """The JSON that the guide shows is what the client gets."""
    [shown] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)]
    server, _ = load_module(str(ROOT / "examples" / "toy_server.py")).build_server()

    async with Client(server) as client:
        result = await client.call_tool("delete_record", {"record_id": "r"})

    got = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert got["content"] == shown["content"]
    assert got["isError"] == shown["isError"]
    assert got["structuredContent"] == shown["structuredContent"]
