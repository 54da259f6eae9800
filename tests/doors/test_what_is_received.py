"""Whatever is sent, contracts judged what the tool received: through every door that reads arguments."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from agent_rt import (
    AgentConfig,
    AgentLoop,
    ContentPart,
    ModelMessage,
    ModelSettings,
    ToolDefinition,
    ToolRegistry,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ListToolsResult, TextContent
from mcp_types import Tool as ListedTool
from pydantic import BaseModel, Field

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt._plain.arguments import plain_arguments
from openbox_agentrt.acel import Session, Verdict
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.doors.langchain import contract_middleware
from openbox_agentrt.doors.mcp import ACELMiddleware
from openbox_agentrt.doors.openai import arun_tool_calls
from openbox_agentrt.doors.stdio_proxy import StdioGate
from openbox_agentrt.testing import Call, ScriptedProvider

NAMES = st.sampled_from(
    ["customer", "to", "request", "note", "memo", "price", "customer ", "Customer", "extra", "__openbox"]
)
TEXTS = st.sampled_from(["7", " 7", "07", "7.0", '["a"]', "[]", '{"cmd": "x"}', "null", "true", "", "\u200b"])
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | TEXTS
INNER = LEAVES | st.lists(LEAVES, max_size=2)
VALUES = INNER | st.dictionaries(st.sampled_from(["cmd", "sizes", "n", "count", "N"]), INNER, max_size=3)
MORE = st.dictionaries(NAMES, VALUES, max_size=5)
CALLS = st.lists(MORE.map(lambda more: {"customer": 7, **more}), min_size=1, max_size=6)

Calls = list[dict[str, Any]]


class Request(BaseModel):
    cmd: str
    sizes: list[int] = Field(default_factory=lambda: [1])
    count: int = Field(1, validation_alias="n")


class Door:
    """
    What stands on both sides of a door.

    Attributes:
        judged: The arguments of each call that was let through, as the contracts saw them.
        received: Those with which the tool then ran.
    """

    def __init__(self) -> None:
        self.judged: Calls = []
        self.received: Calls = []
        self.session = Session()
        self.session.register_tool("buy", precondition=self.look)

    def look(self, state: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
        self.judged.append(json.loads(json.dumps(args)))
        return True

    def take(self, args: Mapping[str, Any]) -> str:
        self.received.append(json.loads(json.dumps(plain_arguments(args))))
        return "bought"

    def typed_server(self, *gates: ACELMiddleware) -> MCPServer[Any]:
        """A server of the SDK that makes values of its types of what is sent."""
        server: MCPServer[Any] = MCPServer("shop", middleware=list(gates), log_level="CRITICAL")

        @server.tool(structured_output=False)
        def buy(
            customer: int,
            to: list[str] | None = None,
            request: Request | None = None,
            note: Annotated[str, Field(validation_alias="memo")] = "none",
            price: float = 1.0,
        ) -> str:
            return self.take(
                {"customer": customer, "to": to, "request": request, "note": note, "price": price}
            )

        return server

    def check(self, calls: Sequence[object]) -> None:
        assert self.judged == self.received
        assert len(self.received) <= len(calls)


@given(calls=CALLS)
def test_a_typed_mcp_server(calls: Calls) -> None:
    """Values of its types, under the names of its own parameters, with its defaults."""
    door = Door()

    async def run() -> None:
        server = door.typed_server(ACELMiddleware(door.session))
        async with Client(InMemoryTransport(server), mode="legacy") as client:
            for call in calls:
                await client.call_tool("buy", call)

    asyncio.run(run())

    door.check(calls)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "integer"},
        "to": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string", "default": "none"},
        "price": {"type": "number", "default": 1.0},
    },
}


@given(calls=CALLS)
def test_an_mcp_server_without_types(calls: Calls) -> None:
    """What was sent, with the defaults of the schema that it lists: it fills these in itself."""
    door = Door()

    async def called(ctx: Any, params: Any) -> CallToolResult:
        text = door.take({"note": "none", "price": 1.0, **params.arguments})
        return CallToolResult(content=[TextContent(type="text", text=text)])

    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[ListedTool(name="buy", input_schema=SCHEMA)])

    async def run() -> None:
        server: Server[Any] = Server("low", on_call_tool=called, on_list_tools=listed)
        server.middleware.append(ACELMiddleware(door.session))
        async with Client(server, mode="legacy") as client:
            for call in calls:
                await client.call_tool("buy", call)

    asyncio.run(run())

    door.check(calls)


@given(calls=CALLS)
def test_a_typed_server_behind_the_proxy(calls: Calls) -> None:
    """The proxy knows no types, and lets through only what these do not make other values of.

    It knows the names that are listed, and the defaults that are; the rest no type takes.
    """
    door, numbers = Door(), itertools.count(1)
    gate, server = StdioGate(door.session), door.typed_server()

    async def run() -> None:
        async with Client(InMemoryTransport(server), mode="legacy") as client:
            tools = [tool.model_dump(by_alias=True) for tool in (await client.list_tools()).tools]
            gate.from_client(_line(method="tools/list", id="list"))
            gate.from_server(_line(id="list", result={"tools": tools}))
            for call in calls:
                number = next(numbers)
                asked = {"name": "buy", "arguments": call}
                line = gate.from_client(_line(method="tools/call", id=number, params=asked)).to_server
                if line:
                    before = len(door.received)
                    result = await client.call_tool("buy", json.loads(line)["params"]["arguments"])
                    gate.from_server(_line(id=number, result=result.model_dump(by_alias=True)))
                    if len(door.received) == before:
                        # Its own types did not take them: nothing ran.
                        door.judged.pop()

    asyncio.run(run())

    door.judged = [_listed(judged) for judged in door.judged]
    door.received = [_sent(*both) for both in zip(door.received, door.judged, strict=True)]
    door.check(calls)


def _listed(judged: dict[str, Any]) -> dict[str, Any]:
    """Leave out what no tool takes."""
    found = {name: value for name, value in judged.items() if name in LISTED}
    if isinstance(found["request"], dict):
        inner = found["request"].items()
        found["request"] = {name: value for name, value in inner if name in ("cmd", "sizes", "n")}
    return found


def _sent(received: dict[str, Any], judged: dict[str, Any]) -> dict[str, Any]:
    """Say it in the names of the wire, without the default that is made by code, which is not listed."""
    sent = {LISTED_AS.get(name, name): value for name, value in received.items()}
    if isinstance(sent["request"], dict):
        request = {LISTED_AS.get(name, name): value for name, value in sent["request"].items()}
        asked = judged["request"]
        sent["request"] = {name: value for name, value in request.items() if name != "sizes" or name in asked}
    return sent


LISTED = ("customer", "to", "request", "memo", "price")
LISTED_AS = {"note": "memo", "count": "n"}


def _line(**body: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **body}).encode() + b"\n"


@given(calls=CALLS)
def test_a_governed_loop(calls: Calls) -> None:
    """A tool of Agent-RT, whose handler takes what the model wrote."""
    door = Door()
    seen: Calls = []

    class Watching(TemporalContract):
        def _step(self, tool: str, args: Any) -> Verdict:
            if tool == "buy":
                seen.append(json.loads(json.dumps(args)))
            return Verdict.UNKNOWN

    async def buy(arguments: Mapping[str, Any], token: Any) -> str:
        return door.take(arguments)

    async def run() -> None:
        registry = ToolRegistry()
        registry.register(
            ToolDefinition(name="buy", description="Buy.", input_schema={"type": "object"}), handler=buy
        )
        async with await create_openbox_agentrt(core="off", contracts=[Watching("watching")]) as governance:
            provider = ScriptedProvider(*(Call(name="buy", arguments=call) for call in calls), "done")
            loop = governance.govern_loop(AgentLoop(provider, tool_registry=registry))
            asked = ModelMessage("user", (ContentPart("text", "Buy."),))
            await loop.run(AgentConfig("helper", "You help.", ModelSettings("model-1")), [asked])

    asyncio.run(run())

    # Asked first, and then told: each call twice.
    assert seen[::2] == seen[1::2] == door.received
    assert door.received


@given(calls=CALLS)
def test_tools_of_a_langchain_agent(calls: Calls) -> None:
    """Through the middleware, as an agent calls them."""
    door = Door()

    def buy(
        customer: int, to: list[str] | None = None, request: Request | None = None, price: float = 1.0
    ) -> str:
        return door.take({"customer": customer, "to": to, "request": request, "price": price})

    tool = StructuredTool.from_function(buy, description="Buy.", handle_validation_error=True)
    middleware = contract_middleware(door.session)

    async def handle(request: ToolCallRequest) -> Any:
        assert request.tool is not None
        return await request.tool.ainvoke(request.tool_call)

    async def run() -> None:
        for number, call in enumerate(calls):
            asked: Any = {"name": "buy", "args": call, "id": f"call_{number}", "type": "tool_call"}
            request = ToolCallRequest(asked, tool, {}, None)  # type: ignore[arg-type]
            assert isinstance(await middleware.awrap_tool_call(request, handle), ToolMessage)

    asyncio.run(run())

    door.check(calls)


@given(calls=CALLS)
def test_functions_that_an_openai_model_calls(calls: Calls) -> None:
    """One turn with all of them, whose arguments are text."""
    door = Door()

    async def buy(customer: Any, note: str = "none", **more: Any) -> str:
        return door.take({"customer": customer, "note": note, **more})

    asked = [
        {"id": f"c{n}", "type": "function", "function": {"name": "buy", "arguments": json.dumps(call)}}
        for n, call in enumerate(calls)
    ]
    asyncio.run(arun_tool_calls(door.session, asked, {"buy": buy}, on_tool_error="message"))

    door.check(calls)
    assert len(door.received) == len(calls)


@given(calls=CALLS)
def test_a_guarded_function_that_is_awaited(calls: Calls) -> None:
    """With its defaults, whatever its other arguments are called."""
    door = Door()

    async def buy(customer: Any, request: Any = None, **more: Any) -> str:
        return door.take({"customer": customer, "request": request, **more})

    guarded = guard(door.session, "buy", buy)

    async def run() -> None:
        for call in calls:
            await guarded(**call)

    asyncio.run(run())

    door.check(calls)
    assert len(door.received) == len(calls)
