"""Calls of MCP clients that Core judges too, with the SDK's client and a local Core."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Annotated, Any

import pytest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from pydantic import AliasChoices, AliasPath, Field

from openbox_agentrt.acel import Session, at_most_n_times, cannot_follow_without
from openbox_agentrt.doors.mcp import ACELMiddleware
from openbox_agentrt.doors.mcp.attach import attach
from openbox_agentrt.errors import GovernanceUnavailableError
from openbox_agentrt.local_core import LocalCore

OpenShop = Callable[..., Any]
Connect = Callable[..., AbstractAsyncContextManager[Client]]
MakeStage = Callable[..., Any]

TRANSPORTS = pytest.mark.parametrize(
    ("transport", "mode"), [("in process", "auto"), ("in memory", "legacy"), ("http", "auto")]
)


def verdict(**by_type: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A policy that gives starts of these activities these verdicts."""

    def policy(event: dict[str, Any]) -> dict[str, Any]:
        if event["event_type"] != "ActivityStarted":
            return {"verdict": "allow"}
        return {"verdict": by_type.get(event.get("activity_type", ""), "allow"), "reason": "policy says so"}

    return policy


@TRANSPORTS
async def test_an_allowed_call_is_a_row_of_its_clients_run(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage, transport: str, mode: str
) -> None:
    """All calls of a client are activities of one run, which ends when the client goes."""
    stage = await make_stage()
    shop = open_shop(governance=stage.governance, attached=True)

    async with connect(shop, transport, mode) as client:
        await client.call_tool("backup")
        result = await client.call_tool("pay", {"amount": 3})
        assert not result.is_error

    assert shop.ran == ["backup", "pay"]
    assert stage.story() == [
        "WorkflowStarted",
        "ActivityStarted backup",
        "ActivityCompleted backup completed",
        "ActivityStarted pay",
        "ActivityCompleted pay completed",
        "WorkflowCompleted completed",
    ]
    assert stage.completed("pay")["activity_output"] == {"paid": 3.0}
    assert len({event["workflow_id"] for event in stage.events()}) == 1


@TRANSPORTS
async def test_a_call_that_core_blocks_does_not_run(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage, transport: str, mode: str
) -> None:
    """The client is told the reason; the reservation is taken back, so the call is not counted."""
    stage = await make_stage(verdict(backup="block"))
    shop = open_shop(
        lambda: [at_most_n_times("backup", 1), cannot_follow_without("delete", "backup")],
        governance=stage.governance,
        attached=True,
    )

    async with connect(shop, transport, mode) as client:
        first = await client.call_tool("backup")
        second = await client.call_tool("backup")
        delete = await client.call_tool("delete", {"name": "a"})

    assert shop.ran == []
    assert first.structured_content is not None
    assert "policy says so" in first.model_dump_json()
    assert first.structured_content["violation"]["kind"] == "policy"
    assert second.structured_content is not None
    assert second.structured_content["violation"]["kind"] == "policy", (
        "a blocked call did not use up the limit"
    )
    assert delete.structured_content is not None
    assert delete.structured_content["violation"]["kind"] == "temporal"


async def test_core_hears_of_a_local_refusal(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """What the contracts refuse is not asked of Core, and shows on its dashboard."""
    stage = await make_stage()
    shop = open_shop(lambda: [at_most_n_times("pay", 0)], governance=stage.governance, attached=True)

    async with connect(shop, "in memory") as client:
        assert (await client.call_tool("pay", {"amount": 3})).is_error

    assert stage.events("ActivityStarted") == []
    [signal] = stage.events("SignalReceived")
    assert "signal_args" not in signal or not signal["signal_args"]


async def test_a_halt_lasts(open_shop: OpenShop, connect: Connect, make_stage: MakeStage) -> None:
    """After a HALT nothing of that client runs any more; another client is not concerned."""
    stage = await make_stage(verdict(delete="halt"))
    shop = open_shop(governance=stage.governance, attached=True)

    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(connect(shop, "in memory")) for _ in range(2)]
        assert (await one.call_tool("delete", {"name": "a"})).is_error
        assert (await one.call_tool("backup")).is_error
        assert not (await other.call_tool("backup")).is_error

    assert shop.ran == ["backup"]


async def test_a_person_halts_what_every_client_starts(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """Also of one that comes later; until then everything runs."""
    stage = await make_stage(agent_name="shop")
    shop = open_shop(governance=stage.governance, attached=True)

    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(connect(shop, "in memory"))
        assert not (await one.call_tool("backup")).is_error
        stage.governance.halt(agent="shop", reason="stop")
        assert (await one.call_tool("backup")).is_error
        other = await stack.enter_async_context(connect(shop, "in memory"))
        assert (await other.call_tool("backup")).is_error

    assert shop.ran == ["backup"]


async def test_a_failed_tool_is_a_failed_row(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """A result that is an error reaches the client as it is, and closes its row as failed."""
    stage = await make_stage()
    shop = open_shop(governance=stage.governance, attached=True)

    async with connect(shop, "in memory") as client:
        result = await client.call_tool("broken_backup")

    assert "disk full" in result.model_dump_json()
    assert stage.completed("broken_backup")["status"] == "failed"


async def test_redacted_arguments_are_what_the_tool_gets(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """Core replaces personal data in the arguments before the tool sees them."""
    stage = await make_stage(core=LocalCore(guardrails="everything"))
    shop = open_shop(governance=stage.governance, attached=True)

    async with connect(shop, "in memory") as client:
        result = await client.call_tool("delete", {"name": "ann@example.com"})

    assert "ann@example.com" not in result.model_dump_json()
    [end] = shop.ends
    assert "ann@example.com" not in str(end.session.trace)


@pytest.mark.parametrize(
    "alias",
    ["customerMail", AliasChoices("customerMail", "mail"), AliasChoices(AliasPath("x", 0), "customerMail")],
    ids=["a name", "a choice", "a path or a name"],
)
async def test_redacted_arguments_go_by_the_names_that_the_server_takes(
    connect: Connect, make_stage: MakeStage, alias: Any
) -> None:
    """Contracts and Core know them by the names of the function; the server wants its aliases."""
    stage = await make_stage(core=LocalCore(guardrails="everything"))
    server: MCPServer[Any] = MCPServer("shop", log_level="CRITICAL")
    told: list[str] = []
    attach(server, ACELMiddleware(Session(), governance=stage.governance))

    @server.tool(structured_output=False)
    def write(mail: Annotated[str, Field(validation_alias=alias)], copy: int = 1) -> str:
        told.append(mail)
        return "sent"

    async with Client(InMemoryTransport(server), mode="legacy") as client:
        result = await client.call_tool("write", {"customerMail": "ann@example.com"})

    assert not result.is_error
    assert told != ["ann@example.com"]
    assert len(told) == 1
    (asked,) = [e for e in stage.events("ActivityStarted") if e["activity_type"] == "write"]
    assert asked["activity_input"][0].keys() == {"mail", "copy"}


async def test_a_cancelled_call_closes_its_row(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """A client that gives up leaves nothing open at Core."""
    stage = await make_stage()
    shop = open_shop(governance=stage.governance, attached=True)

    async with connect(shop, "in memory", "legacy") as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await shop.started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await client.call_tool("backup")

    assert stage.completed("slow")["status"] == "cancelled"


async def test_a_core_that_cannot_be_reached_refuses(open_shop: OpenShop, connect: Connect) -> None:
    """Nothing runs, and the client is not told where Core is."""

    class Unreachable:
        def run_scope(self, prompt: str = "", *, session_id: str | None = None) -> Any:
            return nullcontext()

        @asynccontextmanager
        async def activity(self, activity_type: str, activity_input: Any = ()) -> AsyncIterator[Any]:
            raise GovernanceUnavailableError("core.internal:8443 refused the connection", event=activity_type)
            yield

    shop = open_shop(lambda: [at_most_n_times("pay", 1)], governance=Unreachable())

    async with connect(shop, "in memory") as client:
        results = [await client.call_tool("pay", {"amount": 1}) for _ in range(2)]

    assert shop.ran == []
    for result in results:
        assert result.structured_content is not None
        assert result.structured_content["violation"]["kind"] == "policy"
        assert "core.internal" not in result.model_dump_json()


async def test_a_governance_that_fails_lets_nothing_run(open_shop: OpenShop, connect: Connect) -> None:
    """A fault that is no decision is a refusal, and its text stays inside."""

    class Broken:
        def run_scope(self, prompt: str = "", *, session_id: str | None = None) -> Any:
            raise RuntimeError("key obx_live_hunter2")

        def activity(self, activity_type: str, activity_input: Any = ()) -> Any:
            raise AssertionError("never reached")

    shop = open_shop(governance=Broken())

    async with connect(shop, "in memory", "legacy") as client:
        with pytest.raises(Exception, match="could not be judged") as caught:
            await client.call_tool("pay", {"amount": 1})

    assert "hunter2" not in str(caught.value)
    assert shop.ran == []


async def test_one_session_for_all_is_one_run(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """Clients that share a session share a run; it ends when the gate is closed."""
    stage = await make_stage()
    shop = open_shop(governance=stage.governance, shared=Session(session_id="s-1"))

    for _ in range(2):
        async with connect(shop, "in memory") as client:
            await client.call_tool("backup")
    await shop.gate.aclose()

    assert stage.story().count("WorkflowStarted") == 1
    assert stage.story()[-1] == "WorkflowCompleted completed"


async def test_calls_at_once_share_the_run(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """The first calls of a client come together, and open one run."""
    stage = await make_stage()
    shop = open_shop(governance=stage.governance, attached=True)

    async with connect(shop, "in memory") as client:
        results = await asyncio.gather(*(client.call_tool("pay", {"amount": n}) for n in range(10)))

    assert not any(result.is_error for result in results)
    assert stage.story().count("WorkflowStarted") == 1
    assert stage.story().count("ActivityCompleted pay completed") == 10


async def test_a_session_that_the_governance_judges_by_counts_once(
    open_shop: OpenShop, connect: Connect, make_stage: MakeStage
) -> None:
    """The same session given to both is asked once for each call."""
    session = Session(contracts=[at_most_n_times("pay", 2), cannot_follow_without("delete", "broken_backup")])
    stage = await make_stage(contracts=lambda: session)
    shop = open_shop(governance=stage.governance, shared=session)

    async with connect(shop, "in memory") as client:
        paid = [await client.call_tool("pay", {"amount": 1}) for _ in range(3)]
        await client.call_tool("broken_backup")
        delete = await client.call_tool("delete", {"name": "a"})
    await shop.gate.aclose()

    assert [bool(result.is_error) for result in paid] == [False, False, True]
    assert delete.structured_content is not None
    assert delete.structured_content["violation"]["kind"] == "temporal"
    assert [row["tool"] for row in session.trace if row["tool"] == "pay"] == ["pay", "pay"]


async def test_a_refusal_stands_though_core_cannot_be_told(open_shop: OpenShop, connect: Connect) -> None:
    """What the contracts refuse is refused, whether or not a run can be opened to report it in."""

    class Unreachable:
        def run_scope(self, prompt: str = "", *, session_id: str | None = None) -> Any:
            raise GovernanceUnavailableError("core.internal:8443 refused the connection")

        def activity(self, activity_type: str, activity_input: Any = ()) -> Any:
            raise AssertionError("never reached")

    shop = open_shop(lambda: [at_most_n_times("pay", 0)], governance=Unreachable())

    async with connect(shop, "in memory") as client:
        refused = await client.call_tool("pay", {"amount": 1})
        unreachable = await client.call_tool("backup")

    assert refused.structured_content is not None
    assert refused.structured_content["violation"]["kind"] == "temporal"
    assert unreachable.structured_content is not None
    assert unreachable.structured_content["violation"]["kind"] == "policy"
    assert shop.ran == []
