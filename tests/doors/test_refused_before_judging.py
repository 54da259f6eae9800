"""A call that is refused before it can be judged is in the evidence once, whatever the door."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from mcp import Client, MCPError
from mcp.client._memory import InMemoryTransport
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ListToolsResult
from mcp_types import Tool as ListedTool
from pydantic import ValidationError, validate_call

from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.acel.metrics import Metrics
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.doors.langchain import govern_tool
from openbox_agentrt.doors.mcp import ACELMiddleware
from openbox_agentrt.doors.openai import MalformedToolCallError, guard_openai_tool_call, run_tool_calls
from openbox_agentrt.doors.stdio_proxy import StdioGate

SECRET = "4111-1111-1111-1111"
LISTED = "the call is as its tool was listed"
CLEAR = "the call can be read in one way only"


def pay(amount: int) -> str:
    raise AssertionError("it is not to run")


async def a_function(session: Session) -> None:
    guarded: Any = guard(session, "pay", pay)
    with pytest.raises(TypeError):
        guarded(5, card=SECRET)


async def an_async_function(session: Session) -> None:
    async def apay(amount: int) -> str:
        return pay(amount)

    guarded: Any = guard(session, "pay", apay)
    with pytest.raises(TypeError):
        await guarded(5, card=SECRET)


async def a_validated_function(session: Session) -> None:
    guarded: Any = guard(session, "pay", validate_call(pay))
    with pytest.raises(ValidationError):
        guarded(SECRET)


async def a_langchain_tool(session: Session, **options: Any) -> None:
    tool = govern_tool(session, StructuredTool.from_function(pay, description="Pay.", **options))
    with pytest.raises(ValidationError):
        tool.invoke({"amount": SECRET})


async def an_awaited_langchain_tool(session: Session) -> None:
    tool = govern_tool(session, StructuredTool.from_function(pay, description="Pay."))
    with pytest.raises(ValidationError):
        await tool.ainvoke({"amount": SECRET})


async def a_langchain_tool_that_answers(session: Session) -> None:
    tool = StructuredTool.from_function(pay, description="Pay.", handle_validation_error=True)
    call = {"name": "pay", "args": {"amount": SECRET}, "id": "c1", "type": "tool_call"}
    assert govern_tool(session, tool).invoke(call).status == "error"


async def the_function_of_a_langchain_tool(session: Session) -> None:
    tool: Any = govern_tool(session, StructuredTool.from_function(pay, description="Pay."))
    with pytest.raises(TypeError):
        tool.func(amount=5, card=SECRET)


def chat(name: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


async def an_openai_call_that_does_not_fit(session: Session) -> None:
    with pytest.raises(MalformedToolCallError):
        guard_openai_tool_call(session, chat("pay", json.dumps({"card": SECRET})), pay)


async def an_openai_call_in_a_turn(session: Session) -> None:
    assert "does not fit" not in run_tool_calls(session, [chat("pay", '{"card": 1}')], {"pay": pay})[0]


async def an_openai_call_that_is_no_json(session: Session) -> None:
    assert run_tool_calls(session, [chat("pay", f'{{"card": {SECRET!r}')], {"pay": pay})


async def an_openai_call_of_no_tool(session: Session) -> None:
    assert run_tool_calls(session, [chat("pay", "{}")], {})


async def an_openai_call_without_an_id(session: Session) -> None:
    with pytest.raises(MalformedToolCallError):
        run_tool_calls(session, [chat("pay", "{}", id=None)], {"pay": pay})


async def a_typed_mcp_server(session: Session) -> None:
    server: MCPServer[Any] = MCPServer("shop", middleware=[ACELMiddleware(session)], log_level="CRITICAL")
    server.tool(structured_output=False)(pay)
    async with Client(InMemoryTransport(server), mode="legacy") as client:
        assert (await client.call_tool("pay", {"amount": SECRET})).is_error


def untyped_server(session: Session) -> Server[Any]:
    async def called(ctx: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[])

    async def listed(ctx: Any, params: Any) -> ListToolsResult:
        schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
        return ListToolsResult(tools=[ListedTool(name="pay", input_schema=schema)])

    server: Server[Any] = Server("low", on_call_tool=called, on_list_tools=listed)
    server.middleware.append(ACELMiddleware(session))
    return server


async def an_untyped_mcp_server(session: Session) -> None:
    async with Client(untyped_server(session), mode="legacy") as client:
        assert (await client.call_tool("pay", {"amount": SECRET})).is_error is (session.mode == "enforce")


def ask(gate: StdioGate, line: bytes) -> bytes:
    return gate.from_client(line).to_client


def pay_line(arguments: str, number: int = 1) -> bytes:
    params = f'{{"name":"pay","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'.encode()


SCHEMAS = {"pay": {"properties": {"amount": {"type": "integer"}}}}


async def the_proxy(session: Session) -> None:
    ask(StdioGate(session, schemas=SCHEMAS), pay_line(json.dumps({"amount": SECRET})))


async def the_proxy_and_a_key_twice(session: Session) -> None:
    ask(StdioGate(session, schemas=SCHEMAS), pay_line(f'{{"amount":1,"amount":"{SECRET}"}}'))


async def the_proxy_and_no_json(session: Session) -> None:
    ask(StdioGate(session, schemas=SCHEMAS), pay_line(f"{{'card':'{SECRET}'}}"))


BY_TYPE = [
    a_function,
    an_async_function,
    a_validated_function,
    a_langchain_tool,
    an_awaited_langchain_tool,
    a_langchain_tool_that_answers,
    the_function_of_a_langchain_tool,
    an_openai_call_that_does_not_fit,
    an_openai_call_in_a_turn,
    a_typed_mcp_server,
    an_untyped_mcp_server,
    the_proxy,
]
BY_READING = [
    an_openai_call_that_is_no_json,
    an_openai_call_of_no_tool,
    an_openai_call_without_an_id,
    the_proxy_and_a_key_twice,
    the_proxy_and_no_json,
]
Refuse = Callable[[Session], Awaitable[None]]


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
@pytest.mark.parametrize("refuse", BY_TYPE + BY_READING, ids=lambda door: door.__name__)
async def test_it_is_in_the_evidence_once(refuse: Refuse, mode: Any) -> None:
    """With its tool, its arguments and what is wrong with them, which holds no value. It counts nowhere."""
    metrics, limit = Metrics(), at_most_n_times("pay", 1)
    session = Session(mode=mode, metrics=metrics, contracts=[limit])

    await refuse(session)

    (found,) = (violation for violation in session.violations if violation.spec != limit.spec)
    assert (found.kind, found.mode, found.blocked) == ("session", mode, mode == "enforce")
    assert found.spec == (LISTED if refuse in BY_TYPE else CLEAR)
    assert found.tool in ("pay", "(unnamed)")
    assert found.fault
    assert SECRET not in found.fault
    if refuse in BY_TYPE and refuse is not an_openai_call_in_a_turn:
        assert SECRET in found.args.values()
    assert len(session.evidence) == 1
    assert metrics.snapshot()["violations_by_kind"] == {"session": 1}
    assert session.would("pay", {"amount": 1}) is None


async def test_a_call_whose_arguments_are_none() -> None:
    """The gate finds the client's session for it as well."""
    session = Session()
    async with Client(untyped_server(session), mode="legacy") as client:
        with pytest.raises(MCPError):
            await client.session._dispatcher.send_raw_request("tools/call", {"name": "pay", "arguments": 5})

    assert [(one.spec, one.tool) for one in session.violations] == [(CLEAR, "tools/call")]


async def test_a_call_that_could_not_be_judged() -> None:
    """It does not run, and whoever reads the evidence learns that it was made."""
    session = Session()

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(SECRET)

    session.reserve = broken  # type: ignore[method-assign]
    told = ask(StdioGate(session, schemas=SCHEMAS), pay_line('{"amount":1}'))

    assert b"could not be judged" in told
    (found,) = session.violations
    assert (found.spec, found.tool, found.fault) == (
        "the call can be judged",
        "pay",
        "judging it raised OSError",
    )


async def test_a_tool_behind_two_gates() -> None:
    """The outer one refuses it, once, and it never comes to the inner one."""
    inner, outer = Session(), Session()
    tool = govern_tool(inner, StructuredTool.from_function(pay, description="Pay."))
    with pytest.raises(ValidationError):
        govern_tool(outer, tool).invoke({"amount": SECRET})

    assert [len(session.violations) for session in (inner, outer)] == [0, 1]
