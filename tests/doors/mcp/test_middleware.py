"""The gate in an MCP server, seen by the SDK's own client over every transport."""

import asyncio
import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    at_most_total,
    cannot_follow_without,
    matching,
    must_precede,
)
from openbox_agentrt.doors.mcp import ACELMiddleware

OpenShop = Callable[..., Any]
Connect = Callable[..., AbstractAsyncContextManager[Client]]

EVERYWHERE = pytest.mark.parametrize(
    ("transport", "mode"),
    [
        (transport, mode)
        for transport in ("in process", "in memory", "http")
        for mode in ("auto", "legacy", "2026-07-28")
        # Over HTTP, this revision needs a principal or a resolver: see test_clients.py.
        if (transport, mode) != ("http", "2026-07-28")
    ],
)


def pay_once() -> list[Any]:
    return [at_most_n_times("pay", 1)]


def backup_first() -> list[Any]:
    return [cannot_follow_without("delete", "backup"), must_precede("broken_backup", "pay")]


def text(result: CallToolResult) -> str:
    [block] = result.content
    assert block.type == "text"
    return block.text


@EVERYWHERE
async def test_a_limit_holds(open_shop: OpenShop, connect: Connect, transport: str, mode: str) -> None:
    """Of four payments, the one that the contract allows runs."""
    shop = open_shop(pay_once)

    async with connect(shop, transport, mode) as client:
        results = [await client.call_tool("pay", {"amount": n}) for n in range(4)]

    assert shop.ran == ["pay"]
    assert [bool(result.is_error) for result in results] == [False, True, True, True]


@EVERYWHERE
async def test_a_limit_holds_for_calls_at_once(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """Calls in flight count: of ten at once, one runs."""
    shop = open_shop(lambda: [at_most_n_times("slow", 1)])

    async with connect(shop, transport, mode) as client:
        calls = [asyncio.create_task(client.call_tool("slow")) for _ in range(10)]
        await shop.started.wait()
        early, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        while len(early) < 9:
            early, _ = await asyncio.wait(calls, timeout=0.01)
        shop.release.set()
        results = [await call for call in calls]

    assert shop.ran == ["slow"]
    assert sum(bool(result.is_error) for result in results) == 9


@EVERYWHERE
async def test_a_refused_call_is_repaired_by_what_it_needs(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """A refusal concerns its call only; once the prerequisite has run, the same call is let through."""
    shop = open_shop(backup_first)

    async with connect(shop, transport, mode) as client:
        refused = await client.call_tool("delete", {"name": "a"})
        await client.call_tool("backup")
        allowed = await client.call_tool("delete", {"name": "a"})

    assert refused.is_error
    assert not allowed.is_error
    assert shop.ran == ["backup", "delete"]


@EVERYWHERE
async def test_a_result_that_is_an_error_allows_nothing(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """A prerequisite whose result is an error has not happened."""
    shop = open_shop(backup_first)

    async with connect(shop, transport, mode) as client:
        failed = await client.call_tool("broken_backup")
        refused = await client.call_tool("pay", {"amount": 1})

    assert failed.is_error
    assert text(refused).startswith("ACEL HALT")
    assert shop.ran == ["broken_backup"]


async def test_an_unknown_tool_allows_nothing(open_shop: OpenShop, connect: Connect) -> None:
    """Calling a tool that the server does not have satisfies no prerequisite."""
    shop = open_shop(lambda: [cannot_follow_without("delete", "approve")])

    async with connect(shop, "in memory") as client:
        unknown = await client.call_tool("approve")
        refused = await client.call_tool("delete", {"name": "a"})

    assert unknown.is_error
    assert refused.is_error
    assert shop.ran == []


async def test_invalid_arguments_allow_nothing(open_shop: OpenShop, connect: Connect) -> None:
    """A call whose arguments the tool rejects satisfies no prerequisite."""
    shop = open_shop(lambda: [cannot_follow_without("backup", "delete")])

    async with connect(shop, "in memory") as client:
        invalid = await client.call_tool("delete", {"nome": 1})
        refused = await client.call_tool("backup")

    assert invalid.is_error
    assert refused.is_error
    assert shop.ran == []


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"name": 1},
        {"name": ["pay"]},
        {"name": "pay", "arguments": [1]},
        {"name": "pay", "arguments": "x"},
    ],
    ids=["no params", "no name", "number", "list", "arguments in a list", "arguments as text"],
)
async def test_a_malformed_call_is_refused_before_anything_looks_at_it(
    open_shop: OpenShop, connect: Connect, params: dict[str, Any] | None
) -> None:
    """What cannot be read as a call is an invalid request, and reaches no handler."""
    shop = open_shop(pay_once)

    async with connect(shop, "in memory", "legacy") as client:
        with pytest.raises(MCPError, match="Invalid request parameters") as caught:
            await client.session._dispatcher.send_raw_request("tools/call", params)

    assert caught.value.code == -32602
    assert shop.ran == []


@pytest.mark.parametrize("params", [None, {"name": b"pay"}, ["pay"], {"name": "pay", "arguments": "x"}])
async def test_a_malformed_call_goes_no_further_than_the_gate(params: Any) -> None:
    """The gate refuses it itself: what comes after it may read it otherwise."""

    async def handler(ctx: Any) -> Any:
        raise AssertionError("the call went on")

    ctx: Any = SimpleNamespace(method="tools/call", params=params, protocol_version="2025-11-25")
    with pytest.raises(MCPError, match="Invalid request parameters"):
        await ACELMiddleware(Session())(ctx, handler)


async def test_a_cancelled_call_stays_counted_and_allows_nothing(
    open_shop: OpenShop, connect: Connect
) -> None:
    """A client that gives up leaves a call whose outcome is unknown."""
    shop = open_shop(lambda: [at_most_n_times("slow", 1), cannot_follow_without("delete", "slow")])

    async with connect(shop, "in memory", "legacy") as client:
        with anyio.move_on_after(0.2):
            await client.call_tool("slow")
        again = await client.call_tool("slow")
        delete = await client.call_tool("delete", {"name": "a"})

    assert shop.ran == ["slow"]
    assert again.is_error
    assert delete.is_error


async def test_a_client_that_leaves_during_a_call_settles_it(open_shop: OpenShop, connect: Connect) -> None:
    """Nothing stays in flight when the client goes."""
    shop = open_shop(lambda: [cannot_follow_without("delete", "slow")], attached=True)

    async with connect(shop, "in memory") as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await shop.started.wait()
    with pytest.raises(MCPError):
        await call

    [end] = shop.ends
    assert end.session.trace == []
    assert [end.reason] == ["closed"]


async def test_money_is_counted_as_the_tool_gets_it(open_shop: OpenShop, connect: Connect) -> None:
    """Amounts add up over calls, and a number sent as text is the number that the server makes of it."""
    shop = open_shop(lambda: [at_most_total("pay", "amount", limit=500)])

    async with connect(shop, "in memory") as client:
        results = [
            await client.call_tool("pay", {"amount": amount}) for amount in (300, 250, "100", 200, 0.5)
        ]

    assert [bool(result.is_error) for result in results] == [False, True, False, True, False]


@EVERYWHERE
async def test_what_the_client_is_told(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """A refusal names the contract and what it needs, in acel-core's shape, and nothing of other calls."""

    def session() -> Session:
        made = Session({"token": "hunter2"})
        made.register_tool("pay", precondition=lambda state: state.get("token") == "swordfish")
        return made

    shop = open_shop(backup_first, session=session)

    async with connect(shop, transport, mode) as client:
        await client.call_tool("backup", {"note": "s3cret-argument"})
        delete = await client.call_tool("broken_backup", {"note": "s3cret-argument"})
        pay = await client.call_tool("pay", {"amount": 4711})

    assert delete.is_error
    assert text(pay).startswith("ACEL HALT: call to 'pay' refused at step 3")
    assert pay.structured_content is not None
    assert pay.structured_content["acel_halted"] is True
    violation = pay.structured_content["violation"]
    assert set(violation) == {"kind", "spec", "tool", "step"}
    said = pay.model_dump_json()
    for secret in ("hunter2", "swordfish", "s3cret-argument", "4711", "trace", "state_snapshot"):
        assert secret not in said
    assert "must_precede(broken_backup, pay)" in said
    assert "a precondition of pay" in said
    assert len(said) < 2_000


async def test_refused_calls_cost_little_whatever_they_hold(open_shop: OpenShop, connect: Connect) -> None:
    """A client that asks again and again with large arguments does not make the server grow."""
    shop = open_shop(shared=Session(contracts=[at_most_n_times("delete", 0)], max_trace=10))
    async with connect(shop, "in memory", "legacy") as client:

        async def ask(times: int) -> int:
            for number in range(times):
                refused = await client.call_tool("delete", {"name": f"{number}" * 300_000})
                assert refused.is_error
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        before = await ask(5)
        grown = await ask(40) - before
        tracemalloc.stop()

    assert shop.ran == []
    assert grown < 2_000_000


async def test_the_remedy_of_a_contract_is_told(open_shop: OpenShop, connect: Connect) -> None:
    """A contract's own advice reaches the model."""

    def contracts() -> list[Any]:
        contract = at_most_n_times("pay", 0)
        contract.remedy = "ask finance@example.com"
        return [contract]

    shop = open_shop(contracts)

    async with connect(shop, "in memory") as client:
        refused = await client.call_tool("pay", {"amount": 1})

    assert text(refused).endswith("; ask finance@example.com")


async def test_a_result_that_breaks_a_postcondition_is_withheld(
    open_shop: OpenShop, connect: Connect
) -> None:
    """The tool has run, but what it returned does not reach the client."""

    def session() -> Session:
        made = Session()
        made.register_tool("pay", postcondition=lambda state, result: result["paid"] < 100)
        return made

    shop = open_shop(session=session)

    async with connect(shop, "in memory") as client:
        good = await client.call_tool("pay", {"amount": 12})
        bad = await client.call_tool("pay", {"amount": 4711})

    assert not good.is_error
    assert bad.is_error
    assert shop.ran == ["pay", "pay"]
    assert "471147" not in bad.model_dump_json()
    assert bad.structured_content is not None
    assert bad.structured_content["violation"]["kind"] == "postcondition"


@EVERYWHERE
async def test_shadow_mode_watches(open_shop: OpenShop, connect: Connect, transport: str, mode: str) -> None:
    """In shadow mode every call runs, and what it would have broken is recorded."""
    sessions: list[Session] = []

    def session() -> Session:
        sessions.append(Session(mode="shadow"))
        return sessions[-1]

    shop = open_shop(pay_once, session=session)

    async with connect(shop, transport, mode) as client:
        results = [await client.call_tool("pay", {"amount": n}) for n in range(3)]

    assert shop.ran == ["pay"] * 3
    assert not any(result.is_error for result in results)
    assert [len(session.violations) for session in sessions if session.trace] == [2]


async def test_everything_else_passes(open_shop: OpenShop, connect: Connect) -> None:
    """Listing tools, reading resources and getting prompts are nobody's calls unless they are gated."""
    shop = open_shop(lambda: [at_most_n_times("resources/read", 0), at_most_n_times("prompts/get", 0)])

    async with connect(shop, "in memory") as client:
        assert len((await client.list_tools()).tools) == 5
        await client.read_resource("memo://a")
        await client.get_prompt("greet", {"who": "Bo"})

    assert shop.ran == ["memo a", "greet Bo"]


@EVERYWHERE
async def test_resources_can_be_gated(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """Reads are counted under the method's name, and singled out by their URI."""
    shop = open_shop(
        lambda: [
            at_most_n_times("resources/read", 2),
            at_most_n_times(matching("resources/read", "^memo://secret", field="uri"), 0),
        ],
        gate=("tools/call", "resources/read"),
    )

    async with connect(shop, transport, mode) as client:
        await client.read_resource("memo://a")
        with pytest.raises(MCPError, match=r"^ACEL HALT: call to 'resources/read' refused") as caught:
            await client.read_resource("memo://secret")
        await client.read_resource("memo://b")
        with pytest.raises(MCPError, match="ACEL HALT"):
            await client.read_resource("memo://c")

    assert shop.ran == ["memo a", "memo b"]
    assert caught.value.data["acel_halted"] is True


async def test_prompts_can_be_gated(open_shop: OpenShop, connect: Connect) -> None:
    """Prompts are singled out by name and by argument."""
    shop = open_shop(
        lambda: [at_most_n_times(matching("prompts/get", "^Eve$", field="arguments.who"), 0)],
        gate=["prompts/get"],
    )

    async with connect(shop, "in memory") as client:
        await client.get_prompt("greet", {"who": "Bo"})
        with pytest.raises(MCPError, match="ACEL HALT"):
            await client.get_prompt("greet", {"who": "Eve"})

    assert shop.ran == ["greet Bo"]


@pytest.mark.parametrize("gate", [["tools/list"], ["tools/call", "ping"], "tool"])
def test_what_cannot_be_gated_is_an_error(gate: Any) -> None:
    """A misspelt method would gate nothing, so it is refused."""
    with pytest.raises(ValueError, match="gate must hold some of"):
        ACELMiddleware(Session(), gate=gate)


def test_one_name_as_text_is_one_name() -> None:
    """A method given as text is that method, not its letters."""
    assert ACELMiddleware(Session(), gate="tools/call")._gate == {"tools/call"}


@pytest.mark.parametrize("both", [True, False])
def test_exactly_one_source_of_sessions(both: bool) -> None:
    """A session and a factory exclude each other, and one is needed."""
    with pytest.raises(ValueError, match="exactly one of session and session_factory"):
        ACELMiddleware(*([Session()] if both else []), session_factory=Session if both else None)


async def test_a_judge_that_fails_lets_nothing_run(
    open_shop: OpenShop, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine fault is a refusal, and its text stays inside."""
    shop = open_shop()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(Session, "areserve", fail)
    async with connect(shop, "in memory", "legacy") as client:
        with pytest.raises(MCPError, match="could not be judged") as caught:
            await client.call_tool("pay", {"amount": 1})

    assert "hunter2" not in str(caught.value)
    assert shop.ran == []


def test_the_door_loads_without_the_sdk() -> None:
    """Importing the door needs no `mcp`; using it without is an error that names the extra."""
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from openbox_agentrt.doors.mcp import ACELMiddleware\n"
        "from openbox_agentrt.acel import Session\n"
        "try: ACELMiddleware(Session())\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "mcp needs the extra 'mcp': pip install" in done.stdout


def test_results_are_json() -> None:
    """The slim halt is plain JSON."""
    from openbox_agentrt.doors.mcp.refusal import unjudged

    text, data = unjudged("x" * 1_000, reason="no", remedy="yes")

    assert len(text) < 300
    assert json.loads(json.dumps(data)) == data
