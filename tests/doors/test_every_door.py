"""Every way in behaves alike: the checks of the kit, through each of them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.prebuilt.tool_node import ToolCallRequest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import TextContent

from openbox_agentrt.acel import ContractViolation, Session
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.doors.langchain import contract_middleware, govern_tool
from openbox_agentrt.doors.mcp import ACELMiddleware
from openbox_agentrt.doors.openai import arun_tool_calls, guard_openai_tool_call, run_tool_calls
from openbox_agentrt.doors.stdio_proxy import StdioGate
from tests.doors.kit import CHECKS, Call, Came, MakeCall, Tool

MCP_ERROR = {"isError": True, "content": [{"type": "text", "text": "declined"}]}


def functions(tool: Tool) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """The tool as a function, and as one that is awaited."""

    def run(amount: int, note: str = "none") -> Any:
        result = tool.run(amount, note)
        return MCP_ERROR if tool.does == "reports" else result

    async def arun(amount: int, note: str = "none") -> Any:
        result = await tool.arun(amount, note)
        return MCP_ERROR if tool.does == "reports" else result

    return run, arun


def caught(error: Exception) -> Came:
    if isinstance(error, ContractViolation):
        return Came("refused", str(error) if error.refusal is None else error.refusal.message)
    if isinstance(error, OSError):
        return Came("error", str(error))
    raise error


def returned(result: Any) -> Came:
    return Came("error", str(result)) if result == MCP_ERROR else Came("result", str(result))


@asynccontextmanager
async def a_function(session: Session, tool: Tool) -> AsyncIterator[Call]:
    guarded = guard(session, tool.name, functions(tool)[0], outcome=tool.outcome)

    async def call(**args: Any) -> Came:
        try:
            return returned(guarded(**args))
        except Exception as error:  # noqa: BLE001 - sorted by kind
            return caught(error)

    yield call


@asynccontextmanager
async def an_async_function(session: Session, tool: Tool) -> AsyncIterator[Call]:
    guarded = guard(session, tool.name, functions(tool)[1], outcome=tool.outcome)

    async def call(**args: Any) -> Came:
        try:
            return returned(await guarded(**args))
        except Exception as error:  # noqa: BLE001 - sorted by kind
            return caught(error)

    yield call


def chat(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": tool.name, "arguments": json.dumps(args)}}


@asynccontextmanager
async def one_openai_call(session: Session, tool: Tool) -> AsyncIterator[Call]:
    async def call(**args: Any) -> Came:
        try:
            result = guard_openai_tool_call(
                session, chat(tool, args), functions(tool)[1], outcome=tool.outcome
            )
            return returned(await result if hasattr(result, "__await__") else result)
        except Exception as error:  # noqa: BLE001 - sorted by kind
            return caught(error)

    yield call


def told(answers: list[dict[str, Any]]) -> Came:
    (answer,) = answers
    text = answer["content"]
    if '"refused": true' in text:
        return Came("refused", text)
    return Came("error" if "tool_failed" in text or "isError" in text else "result", text)


@asynccontextmanager
async def an_openai_turn(session: Session, tool: Tool) -> AsyncIterator[Call]:
    async def call(**args: Any) -> Came:
        tools = {tool.name: functions(tool)[0]}
        return told(
            run_tool_calls(session, [chat(tool, args)], tools, on_tool_error="message", outcome=tool.outcome)
        )

    yield call


@asynccontextmanager
async def an_async_openai_turn(session: Session, tool: Tool) -> AsyncIterator[Call]:
    async def call(**args: Any) -> Came:
        tools = {tool.name: functions(tool)[1]}
        return told(
            await arun_tool_calls(
                session, [chat(tool, args)], tools, on_tool_error="message", outcome=tool.outcome
            )
        )

    yield call


def langchain_tool(tool: Tool) -> BaseTool:
    def run(amount: int, note: str = "none") -> str:
        result = tool.run(amount, note)
        if tool.does == "reports":
            raise ToolException("declined")
        return result

    async def arun(amount: int, note: str = "none") -> str:
        result = await tool.arun(amount, note)
        if tool.does == "reports":
            raise ToolException("declined")
        return result

    return StructuredTool.from_function(run, arun, name=tool.name, description="Pay.", handle_tool_error=True)


def message(answer: Any) -> Came:
    assert isinstance(answer, ToolMessage)
    text = str(answer.content)
    if answer.status == "error":
        return Came("refused" if '"refused": true' in text else "error", text)
    return Came("result", text)


def langchain_call(tool: Tool, args: dict[str, Any]) -> Any:
    return {"name": tool.name, "args": args, "id": "call_1", "type": "tool_call"}


@asynccontextmanager
async def a_langchain_tool(session: Session, tool: Tool) -> AsyncIterator[Call]:
    governed = govern_tool(session, langchain_tool(tool), outcome=tool.outcome)

    async def call(**args: Any) -> Came:
        try:
            return message(governed.invoke(langchain_call(tool, args)))
        except OSError as error:
            return caught(error)

    yield call


@asynccontextmanager
async def an_awaited_langchain_tool(session: Session, tool: Tool) -> AsyncIterator[Call]:
    governed = govern_tool(session, langchain_tool(tool), outcome=tool.outcome)

    async def call(**args: Any) -> Came:
        try:
            return message(await governed.ainvoke(langchain_call(tool, args)))
        except OSError as error:
            return caught(error)

    yield call


@asynccontextmanager
async def a_langchain_agent(session: Session, tool: Tool) -> AsyncIterator[Call]:
    middleware, original = contract_middleware(session, outcome=tool.outcome), langchain_tool(tool)

    async def handle(request: ToolCallRequest) -> Any:
        assert request.tool is not None
        return await request.tool.ainvoke(request.tool_call)

    async def call(**args: Any) -> Came:
        request = ToolCallRequest(langchain_call(tool, args), original, {}, None)  # type: ignore[arg-type]
        try:
            return message(await middleware.awrap_tool_call(request, handle))
        except OSError as error:
            return caught(error)

    yield call


@asynccontextmanager
async def an_mcp_server(session: Session, tool: Tool) -> AsyncIterator[Call]:
    gate = ACELMiddleware(session, outcome=tool.outcome and (lambda value: "failed"))
    server: MCPServer[Any] = MCPServer("shop", middleware=[gate], log_level="CRITICAL")

    @server.tool(tool.name, structured_output=False)
    async def pay(amount: int, note: str = "none") -> str:
        result = await tool.arun(amount, note)
        if tool.does == "reports":
            raise ToolError("declined")
        return result

    async with Client(InMemoryTransport(server), mode="legacy") as client:

        async def call(**args: Any) -> Came:
            result = await client.call_tool(tool.name, args)
            assert isinstance(result.content[0], TextContent)
            text = result.content[0].text
            if result.is_error:
                return Came("refused" if text.startswith("ACEL HALT") else "error", text)
            return Came("result", text)

        yield call


@asynccontextmanager
async def the_proxy(session: Session, tool: Tool) -> AsyncIterator[Call]:
    gate, ids = StdioGate(session, outcome=tool.outcome), itertools.count(1)
    schema = {"properties": {"amount": {"type": "integer"}, "note": {"type": "string", "default": "none"}}}
    gate.from_client(line(method="tools/list", id="list"))
    listed = [{"name": tool.name, "inputSchema": schema}]
    gate.from_server(line(id="list", result={"tools": listed}))

    async def call(**args: Any) -> Came:
        number = next(ids)
        params = {"name": tool.name, "arguments": args}
        passage = gate.from_client(line(method="tools/call", id=number, params=params))
        if passage.to_client:
            return answered(passage.to_client)
        args = json.loads(passage.to_server)["params"]["arguments"]
        try:
            text, failed = await tool.arun(args["amount"], args.get("note", "none")), tool.does == "reports"
        except OSError as error:
            text, failed = str(error), True
        except asyncio.CancelledError:
            gate.from_client(line(method="notifications/cancelled", params={"requestId": number}))
            raise
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
        return answered(gate.from_server(line(id=number, result=result)))

    def answered(raw: bytes) -> Came:
        result = json.loads(raw)["result"]
        text = result["content"][0]["text"]
        if result["isError"]:
            return Came("refused" if text.startswith("ACEL HALT") else "error", text)
        return Came("result", text)

    yield call


def line(**body: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **body}).encode() + b"\n"


DOORS: list[MakeCall] = [
    a_function,
    an_async_function,
    one_openai_call,
    an_openai_turn,
    an_async_openai_turn,
    a_langchain_tool,
    an_awaited_langchain_tool,
    a_langchain_agent,
    an_mcp_server,
    the_proxy,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_every_door(door: MakeCall, check: Callable[[MakeCall], Awaitable[None]]) -> None:
    """What holds for one way in holds for all."""
    await check(door)
