"""What the gate relies on in the SDK: its low-level server, its other transports, its private names."""

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.server import Server, ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)

from openbox_agentrt.acel import Session, at_most_n_times, cannot_follow_without
from openbox_agentrt.acel.events import Outcome
from openbox_agentrt.doors.mcp import ACELMiddleware, attach
from openbox_agentrt.doors.mcp.keys import find_key
from openbox_agentrt.doors.mcp.outcome import read_answer
from openbox_agentrt.doors.outcome import CallEnd

OpenShop = Callable[..., Any]
Connect = Callable[..., AbstractAsyncContextManager[Client]]


def lowlevel(answer: Callable[[CallToolRequestParams], Any], *contracts: Any) -> Server[Any]:
    """A low-level server under contract, whose tools answer like this."""

    async def call(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Any:
        return answer(params)

    async def listed(ctx: ServerRequestContext[Any, Any], params: object) -> ListToolsResult:
        return ListToolsResult(
            tools=[Tool(name=name, input_schema={"type": "object"}) for name in ("pay", "ok")]
        )

    server: Server[Any] = Server("low", on_call_tool=call, on_list_tools=listed)
    attach(server, ACELMiddleware(session_factory=lambda: Session(contracts=contracts)))
    return server


def done(text: str = "done") -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_low_level_server_is_gated(mode: str) -> None:
    """A server without tools of its own, only a handler."""
    server = lowlevel(lambda params: done(), at_most_n_times("pay", 1))

    async with Client(server, mode=mode) as client:
        answers = [await client.call_tool("pay", {}) for _ in range(2)]

    assert [bool(answer.is_error) for answer in answers] == [False, True]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_handler_that_raises_allows_nothing(mode: str) -> None:
    """An error in the place of a result is a failed call."""

    def answer(params: CallToolRequestParams) -> CallToolResult:
        if params.name == "backup":
            raise MCPError(-32000, "disk full")
        return done()

    server = lowlevel(answer, cannot_follow_without("delete", "backup"))

    async with Client(server, mode=mode) as client:
        with pytest.raises(MCPError, match="disk full"):
            await client.call_tool("backup", {})
        assert (await client.call_tool("delete", {})).is_error


async def test_a_call_that_asks_for_input_first_is_one_call() -> None:
    """The rounds of a call that needs input from the client count once, when it is done."""
    rounds: list[str | None] = []

    def answer(params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        rounds.append(params.request_state)
        if len(rounds) % 3:
            return InputRequiredResult(request_state=f"round {len(rounds)}")
        return done()

    server = lowlevel(answer, at_most_n_times("pay", 1))

    async with Client(server) as client:
        first = await client.call_tool("pay", {})
        second = await client.call_tool("pay", {})

    assert not first.is_error
    assert second.is_error
    assert rounds == [None, "round 1", "round 2"]


@pytest.mark.parametrize("code", [-32042, -32000])
async def test_an_error_that_asks_for_input_is_no_call(code: int) -> None:
    """ "URL elicitation required" gives the call back to its limit; any other error does not."""
    calls: list[str] = []

    def answer(params: CallToolRequestParams) -> CallToolResult:
        calls.append(params.name)
        if len(calls) == 1:
            raise MCPError(code, "first something else")
        return done()

    server = lowlevel(answer, at_most_n_times("pay", 1))

    async with Client(server) as client:
        with pytest.raises(MCPError):
            await client.call_tool("pay", {})
        second = await client.call_tool("pay", {})

    assert bool(second.is_error) is (code != -32042)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_server_over_sse_is_gated(open_shop: OpenShop) -> None:
    """The transport of old: one stream for each client."""
    import asyncio

    import uvicorn

    shop = open_shop(lambda: [at_most_n_times("pay", 1)])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            shop.server.sse_app(), log_level="critical", ws="none", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn offers no event for it
            await asyncio.sleep(0.005)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/sse"
        for _ in range(2):
            async with Client(sse_client(url), mode="legacy") as client:
                answers = [await client.call_tool("pay", {"amount": 1}) for _ in range(2)]
                assert [bool(answer.is_error) for answer in answers] == [False, True]
        server.should_exit = True
        await serving


@pytest.mark.parametrize(
    ("transport", "mode"),
    [("in process", "auto"), ("in process", "legacy"), ("in memory", "auto"), ("http", "legacy")],
)
async def test_the_sdk_still_shows_its_connections(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """The private attributes that keys are read off are there; without them every client would be refused."""
    found: list[Any] = []

    async def look(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            found.append(find_key(ctx))
        return await call_next(ctx)

    shop = open_shop(server=None)
    shop.server.middleware.insert(0, look)
    async with connect(shop, transport, mode) as client:
        for _ in range(2):
            await client.call_tool("backup")

    assert found[0] is not None
    assert found[0] == found[1]
    assert found[0].anchor is found[1].anchor


@pytest.mark.parametrize(
    ("result", "outcome", "value"),
    [
        ({"content": [], "structuredContent": {"a": 1}}, "ok", {"a": 1}),
        ({"content": [{"type": "text", "text": '{"a": 1}'}]}, "ok", {"a": 1}),
        ({"content": [{"type": "text", "text": "plain"}]}, "ok", {"text": "plain"}),
        ({"content": [{"type": "image"}, {"type": "text", "text": "2"}]}, "ok", 2),
        ({"content": [{"type": "text", "text": "[" * 100_000}]}, "ok", {"text": "[" * 100_000}),
        ({"content": []}, "ok", {}),
        ({"structuredContent": 0}, "ok", 0),
        ({"content": [], "isError": True}, "failed", {}),
        ({"content": [], "isError": 0.0}, "ok", {}),
        ({"content": [], "isError": "no"}, "failed", {}),
        ({"resultType": "input_required"}, "aborted", None),
        ({"resultType": "other", "content": []}, "unknown", {"resultType": "other", "content": []}),
        ({}, "unknown", {}),
        (None, "unknown", None),
        (done("3"), "ok", 3),
    ],
)
def test_what_became_of_a_call(result: Any, outcome: Outcome, value: Any) -> None:
    """Every form that a result takes, and only a complete one without an error is ok."""
    assert read_answer("tools/call", result) == CallEnd(outcome, value)
