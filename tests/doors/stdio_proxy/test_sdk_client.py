"""The SDK's client, the proxy, and a server of the SDK that knows nothing of contracts: three processes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

HERE = Path(__file__).parent
PAY_ONCE: Any = ("at_most_n_times", ["pay"], {"n": 1})
BACKUP_FIRST: Any = ("cannot_follow_without", ["delete", "backup"], {})
BROKEN_FIRST: Any = ("cannot_follow_without", ["delete", "broken_backup"], {})

Rules = Callable[..., Path]


def behind(rules: Path) -> Any:
    proxy = ["-m", "openbox_agentrt.cli", "proxy", "--rules", str(rules)]
    command = [*proxy, "--", sys.executable, str(HERE / "plain_server.py")]
    return stdio_client(StdioServerParameters(command=sys.executable, args=command))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_whole_conversation(rules: Rules, mode: str) -> None:
    """Listing, progress, large results, resources and calls work as without the proxy; contracts hold."""
    steps_seen: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None = None, message: str | None = None) -> None:
        steps_seen.append((progress, total))

    async with Client(behind(rules(PAY_ONCE, BACKUP_FIRST)), mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= {"pay", "backup", "delete"}
        steps = await client.call_tool("steps", progress_callback=note)
        [block] = steps.content
        assert block.type == "text"
        assert len(block.text) == 300_000
        resource = await client.read_resource("memo://a")
        assert "memo" in resource.model_dump_json()

        answers = [await client.call_tool("pay", {"amount": n}) for n in range(3)]
        assert [bool(answer.is_error) for answer in answers] == [False, True, True]
        refused = await client.call_tool("delete", {"name": "a"})
        assert refused.structured_content is not None
        assert refused.structured_content["acel_halted"] is True
        await client.call_tool("backup")
        assert not (await client.call_tool("delete", {"name": "a"})).is_error

    assert steps_seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_arguments_are_of_the_types_that_the_server_lists(rules: Rules, mode: str) -> None:
    """The client has listed nothing; the proxy asks, and the server would have made a number of the text."""
    async with Client(behind(rules(PAY_ONCE)), mode=mode) as client:
        refused = await client.call_tool("pay", {"amount": "3"})
        allowed = await client.call_tool("pay", {"amount": 3})

    assert refused.is_error
    assert "argument 'amount' is a text, and the tool declares a number" in refused.model_dump_json()
    assert not allowed.is_error


async def test_failures_and_cancellations(rules: Rules) -> None:
    """A failed call allows nothing; a call that the client gives up on does not hold up the next."""
    async with Client(behind(rules(BROKEN_FIRST)), mode="legacy") as client:
        assert (await client.call_tool("broken_backup")).is_error
        assert (await client.call_tool("no_such_tool")).is_error
        with anyio.move_on_after(0.2):
            await client.call_tool("slow")
        assert "ACEL HALT" in (await client.call_tool("delete", {"name": "a"})).model_dump_json()
