"""Who a client is, what a client without a key is told, and when its session ends."""

import asyncio
import gc
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from openbox_agentrt.acel import Session, at_most_n_times, required_before_session_end
from openbox_agentrt.doors.mcp import ClientKey, SessionEnd, attach, by_connection, by_principal
from openbox_agentrt.doors.mcp.clients import NoSessionError
from openbox_agentrt.doors.mcp.keys import find_key
from openbox_agentrt.doors.mcp.sessions import SessionTable, TooManySessionsError
from openbox_agentrt.testing import ManualClock

OpenShop = Callable[..., Any]
Connect = Callable[..., AbstractAsyncContextManager[Client]]
Serve = Callable[..., AbstractAsyncContextManager[str]]

LASTING = pytest.mark.parametrize(
    ("transport", "mode"),
    [("in process", "auto"), ("in process", "legacy"), ("in memory", "auto"), ("in memory", "legacy")],
)


def pay_once() -> list[Any]:
    return [at_most_n_times("pay", 1)]


async def paid(client: Client) -> bool:
    return not (await client.call_tool("pay", {"amount": 1})).is_error


class Tokens:
    """Takes ``<client>/<subject>`` for a token."""

    async def verify_token(self, token: str) -> AccessToken | None:
        client, _, subject = token.partition("/")
        return AccessToken(token=token, client_id=client, scopes=[], subject=subject or None)


AUTHENTICATED = {
    "token_verifier": Tokens(),
    "auth": AuthSettings(issuer_url=AnyHttpUrl("https://issuer.example"), resource_server_url=None),
}


@LASTING
async def test_clients_on_connections_of_their_own_do_not_share(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """Several clients of one server at once: each has its own counters."""
    shop = open_shop(pay_once)

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(shop, transport, mode)) for _ in range(3)]
        assert [await paid(client) for client in clients] == [True] * 3
        assert [await paid(client) for client in clients] == [False] * 3
        assert len(shop.gate.sessions()) == 3


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("json_response", [False, True], ids=["event stream", "json"])
async def test_clients_over_http_do_not_share(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect, mode: str, json_response: bool
) -> None:
    """Over streamable HTTP in its default mode, the MCP session id tells clients apart."""
    shop = open_shop(pay_once)

    async with serve_http(shop, json_response=json_response) as url, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect_url(url, mode=mode)) for _ in range(3)]
        assert [await paid(client) for client in clients] == [True] * 3
        assert [await paid(client) for client in clients] == [False] * 3


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_stateless_server_does_not_start(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a key, the handshake is refused, with the remedy, to the client and in the log."""
    shop = open_shop(pay_once)

    with caplog.at_level(logging.ERROR, "openbox_agentrt"):
        async with serve_http(shop, stateless_http=True) as url:
            with pytest.RaisesGroup(
                pytest.RaisesExc(MCPError, match="cannot tell its clients apart.*turn on authentication"),
                flatten_subgroups=True,
            ):
                async with connect_url(url, mode=mode):
                    raise AssertionError("the client was let in")

    assert shop.ran == []
    assert "pass key=..." in caplog.text


@pytest.mark.parametrize("stateless", [False, True])
async def test_a_call_without_a_key_is_refused(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect, stateless: bool
) -> None:
    """A client that skips the handshake gets a refusal for each call, not a session for each call."""
    shop = open_shop(pay_once)

    async with (
        serve_http(shop, stateless_http=stateless) as url,
        connect_url(url, mode="2026-07-28") as client,
    ):
        results = [await client.call_tool("pay", {"amount": 1}) for _ in range(4)]

    assert shop.ran == []
    assert all(result.is_error for result in results)
    assert "cannot tell its clients apart" in results[0].model_dump_json()


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_shadow_mode_without_a_key_lets_calls_pass(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A gate that only watches stops nothing, and says that it sees nothing."""
    shop = open_shop(pay_once, session=lambda: Session(mode="shadow"))

    with caplog.at_level(logging.WARNING, "openbox_agentrt"):
        async with serve_http(shop, stateless_http=True) as url, connect_url(url, mode=mode) as client:
            assert [await paid(client) for _ in range(3)] == [True] * 3

    assert "a call is not watched" in caplog.text
    assert shop.gate.sessions() == []


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_one_session_for_all_needs_no_key(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect, mode: str
) -> None:
    """A shared session counts across requests and clients, on a stateless server too."""
    session = Session()
    session.add_contracts(pay_once())
    shop = open_shop(shared=session)

    async with serve_http(shop, stateless_http=True) as url:
        answers = []
        for _ in range(2):
            async with connect_url(url, mode=mode) as client:
                answers += [await paid(client) for _ in range(2)]

    assert answers == [True, False, False, False]
    assert not shop.gate.is_per_connection
    assert shop.gate.sessions() == [session]
    assert session.reserve("backup").allowed, "the owner of a shared session ends it, not its clients"


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
@pytest.mark.parametrize("stateless", [False, True], ids=["sessions", "stateless"])
async def test_a_principal_is_a_key(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect, stateless: bool, mode: str
) -> None:
    """The same person is the same client on every connection; another person is another."""
    shop = open_shop(pay_once, server=AUTHENTICATED, key=by_principal)

    async with serve_http(shop, stateless_http=stateless) as url:
        answers = []
        for token in ("app/ann", "app/ann", "app/bob", "app", "app", "other/ann"):
            async with connect_url(url, mode=mode, headers={"authorization": f"Bearer {token}"}) as client:
                answers.append(await paid(client))

    assert answers == [True, False, True, True, False, True]


async def test_an_authenticated_client_without_a_session_is_keyed_by_its_principal(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect
) -> None:
    """Where there is neither session id nor connection, the principal is found without being asked for."""
    shop = open_shop(pay_once, server=AUTHENTICATED)

    ann = {"authorization": "Bearer app/ann"}
    async with serve_http(shop, stateless_http=True) as url, connect_url(url, headers=ann) as client:
        assert [await paid(client) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("stateless", [False, True], ids=["sessions", "stateless"])
@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_a_resolver_is_a_key(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect, stateless: bool, mode: str
) -> None:
    """A server may tell its clients apart in its own way, on any transport."""
    shop = open_shop(pay_once, key=lambda ctx: ctx.request.headers.get("x-tenant"))

    async with serve_http(shop, stateless_http=stateless) as url:
        answers = []
        for tenant in ("a", "a", "b"):
            async with connect_url(url, mode=mode, headers={"x-tenant": tenant}) as client:
                answers.append(await paid(client))
        async with connect_url(url, mode=mode) as client:
            answers.append(await paid(client))

    assert answers == [True, False, True, False]
    assert shop.ran == ["pay", "pay"]


async def test_a_resolver_that_fails_refuses(open_shop: OpenShop, connect: Connect) -> None:
    """A resolver's fault is no key, and its text stays inside."""

    def fail(ctx: Any) -> str:
        raise KeyError("tenant hunter2")

    shop = open_shop(pay_once, key=fail)

    async with connect(shop, "in memory", "legacy") as client:
        with pytest.raises(MCPError, match="could not be judged") as caught:
            await client.call_tool("pay", {"amount": 1})

    assert "hunter2" not in str(caught.value)
    assert shop.ran == []


async def test_a_resolver_that_has_to_be_awaited_refuses(open_shop: OpenShop, connect: Connect) -> None:
    """A coroutine is not a key: it would be another one for every call."""

    async def tenant(ctx: Any) -> str:
        return "a"

    shop = open_shop(pay_once, key=tenant)

    async with connect(shop, "in memory", "legacy") as client:
        with pytest.raises(MCPError, match="could not be judged"):
            await client.call_tool("pay", {"amount": 1})


async def test_a_factory_that_fails_refuses(open_shop: OpenShop, connect: Connect) -> None:
    """A client without a session has no calls."""

    def fail() -> Session:
        raise OSError("disk hunter2")

    shop = open_shop(session=fail)

    async with connect(shop, "in memory", "legacy") as client:
        with pytest.raises(MCPError, match="could not be judged"):
            await client.call_tool("pay", {"amount": 1})

    assert shop.ran == []


async def test_a_full_table_refuses_the_new_client(open_shop: OpenShop, connect: Connect) -> None:
    """Nobody else's session is given up for it."""
    shop = open_shop(pay_once, max_sessions=2)

    async with AsyncExitStack() as stack:
        first, second, third = [await stack.enter_async_context(connect(shop, "in memory")) for _ in range(3)]
        assert await paid(first)
        assert await paid(second)
        refused = await third.call_tool("pay", {"amount": 1})
        assert "too many clients" in refused.model_dump_json()
        assert not await paid(first)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["in process", "in memory"])
async def test_an_attached_gate_ends_a_session_with_its_client(
    open_shop: OpenShop, connect: Connect, transport: str, mode: str
) -> None:
    """When the client goes, its session ends, with what it still owed; another client's does not."""
    shop = open_shop(lambda: [required_before_session_end("backup")], attached=True)

    async with connect(shop, transport, mode) as staying:
        await paid(staying)
        async with connect(shop, transport, mode) as leaving:
            await paid(leaving)
        assert [len(end.unmet) for end in shop.ends] == [1]
        await staying.call_tool("backup")
    assert [len(end.unmet) for end in shop.ends] == [1, 0]
    assert not shop.ends[0].session.reserve("pay", {"amount": 1}).allowed


async def test_a_session_ends_with_its_connection(open_shop: OpenShop, connect: Connect) -> None:
    """Where the SDK keeps a connection for each client, its end is the session's, attached or not."""
    shop = open_shop(pay_once)

    async with connect(shop, "in memory", "legacy") as client:
        await paid(client)
        assert shop.ends == []

    assert [(end.reason, end.key.kind) for end in shop.ends] == [("client left", "connection")]


@pytest.mark.parametrize("transport", ["in process", "in memory"])
async def test_a_session_ends_when_its_channel_is_freed(
    open_shop: OpenShop, connect: Connect, transport: str
) -> None:
    """Without `attach`, a client of the current revision is noticed gone when Python frees its channel."""
    shop = open_shop(pay_once)

    async with connect(shop, transport) as client:
        await paid(client)
    del client
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)

    assert [end.reason for end in shop.ends] == ["client left"]
    assert shop.gate.sessions() == []


async def test_a_session_over_http_ends_when_the_client_deletes_it(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect
) -> None:
    """The SDK's client ends its MCP session when it leaves."""
    shop = open_shop(pay_once)

    async with serve_http(shop) as url:
        async with connect_url(url) as client:
            await paid(client)
        for _ in range(100):
            if shop.ends:
                break
            await asyncio.sleep(0.01)
        assert [(end.reason, end.key.kind) for end in shop.ends] == [("client left", "session")]


async def test_sessions_of_principals_end_with_the_server(
    open_shop: OpenShop, serve_http: Serve, connect_url: Connect
) -> None:
    """An attached gate settles every session when the server stops."""
    shop = open_shop(pay_once, server=AUTHENTICATED, key=by_principal, attached=True)

    async with serve_http(shop, stateless_http=True) as url:
        async with connect_url(url, headers={"authorization": "Bearer app/ann"}) as client:
            await paid(client)
        assert shop.ends == []

    assert [end.reason for end in shop.ends] == ["closed"]


async def test_a_quiet_client_is_noticed_without_another_call(open_shop: OpenShop, connect: Connect) -> None:
    """A timer ends the session; nobody has to come by."""
    shop = open_shop(pay_once, idle_timeout=0.05)

    async with connect(shop, "in memory") as client:
        await paid(client)
        for _ in range(100):
            if shop.ends:
                break
            await asyncio.sleep(0.01)
        assert [end.reason for end in shop.ends] == ["quiet"]


def test_sessions_end_with_the_process() -> None:
    """A server that just stops still settles what its sessions owed."""
    program = (
        "from openbox_agentrt.acel import Session, required_before_session_end\n"
        "from openbox_agentrt.doors.mcp import ACELMiddleware, ClientKey\n"
        "def build():\n"
        "    session = Session()\n"
        "    session.add_contract(required_before_session_end('backup'))\n"
        "    return session\n"
        "gate = ACELMiddleware(session_factory=build,\n"
        "    on_session_end=lambda end: print(end.reason, [v.spec for v in end.unmet]))\n"
        "with gate._clients._table.use(ClientKey(kind='resolver', value='a')): pass\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "closed ['required_before_session_end(backup)']\n"


def key(value: str, **more: Any) -> ClientKey:
    return ClientKey(kind="resolver", value=value, **more)


def test_a_quiet_session_ends() -> None:
    """It ends a full timeout after its last call, not before, and the next call opens a new one."""
    clock = ManualClock()
    ends: list[SessionEnd] = []
    table = SessionTable(Session, idle_timeout=60, clock=clock.monotonic, on_end=ends.append)
    with table.use(key("a")) as first:
        pass
    clock.advance(59)
    with table.use(key("a")) as again:
        pass
    clock.advance(59)
    table.sweep()
    assert again is first
    assert ends == []
    clock.advance(1)
    table.sweep()
    with table.use(key("a")) as later:
        pass

    assert [end.reason for end in ends] == ["quiet"]
    assert later is not first


def test_a_session_in_use_is_not_quiet() -> None:
    """A call that runs longer than the timeout keeps its session."""
    clock = ManualClock()
    ends: list[SessionEnd] = []
    table = SessionTable(Session, idle_timeout=60, clock=clock.monotonic, on_end=ends.append)

    with table.use(key("a")):
        clock.advance(600)
        table.sweep()
        assert ends == []
    clock.advance(60)
    table.sweep()

    assert len(ends) == 1


def test_a_principal_goes_quiet_by_default_and_a_connection_does_not() -> None:
    """A client whose going can be noticed keeps its session however long it thinks."""
    clock = ManualClock()
    ends: list[SessionEnd] = []
    table = SessionTable(Session, clock=clock.monotonic, on_end=ends.append)
    anchor = SimpleNamespace()
    with table.use(key("a")), table.use(key("b", anchor=anchor)):
        pass
    clock.advance(24 * 3600)
    table.sweep()

    assert [end.key.value for end in ends] == ["a"]


@pytest.mark.parametrize("options", [{"idle_timeout": 0}, {"idle_timeout": -1}, {"max_sessions": 0}])
def test_limits_are_checked(options: dict[str, Any]) -> None:
    """A limit that could never hold is an error at once."""
    with pytest.raises(ValueError, match="must be"):
        SessionTable(Session, **options)


def test_a_callback_that_fails_does_not_reach_another_client(caplog: pytest.LogCaptureFixture) -> None:
    """The end of one session happens inside the call of another."""

    def fail(end: SessionEnd) -> None:
        raise OSError("disk full")

    clock = ManualClock()
    table = SessionTable(Session, idle_timeout=60, clock=clock.monotonic, on_end=fail)
    with table.use(key("a")):
        pass
    clock.advance(61)
    with table.use(key("b")):
        pass

    assert "could not be ended properly" in caplog.text


def test_keys_of_one_value_and_two_kinds_differ() -> None:
    """A resolver's "x" is not the session id "x"."""
    table = SessionTable(Session)
    with (
        table.use(ClientKey(kind="resolver", value="x")) as one,
        table.use(ClientKey(kind="session", value="x")) as two,
    ):
        assert one is not two


@pytest.mark.parametrize("error", [NoSessionError(reason="r", remedy="m"), TooManySessionsError(limit=3)])
def test_errors_survive_pickling(error: Exception) -> None:
    """Errors cross process boundaries."""
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_an_sdk_that_hides_its_connection_gives_no_key() -> None:
    """If the SDK's private attribute goes, the gate refuses instead of counting per request."""
    ctx = SimpleNamespace(session=SimpleNamespace(), lifespan_context={})

    assert by_connection(ctx) is None
    assert find_key(ctx) is None


def test_a_gate_is_attached_once(open_shop: OpenShop) -> None:
    """Attaching a gate that is in the list already does not judge calls twice."""
    shop = open_shop(pay_once)

    assert attach(shop.server, shop.gate) is shop.gate
    assert shop.server.middleware.count(shop.gate) == 1


async def test_sessions_can_be_set_up_further(open_shop: OpenShop, connect: Connect) -> None:
    """Contracts of a rules file are added to the sessions of a gate that a module has built."""
    shop = open_shop()
    shop.gate.extend(lambda session: session.add_contracts(pay_once()))

    for _ in range(2):
        async with connect(shop, "in memory") as client:
            assert [await paid(client) for _ in range(2)] == [True, False]


async def test_a_shared_session_can_be_set_up_further(open_shop: OpenShop, connect: Connect) -> None:
    """The same for the one session of all clients; closing the gate leaves it open."""
    session = Session()
    shop = open_shop(shared=session)
    shop.gate.extend(lambda session: session.add_contracts(pay_once()))

    async with connect(shop, "in memory") as client:
        assert [await paid(client) for _ in range(2)] == [True, False]
    shop.gate.close()

    assert session.closed is None


def test_closing_a_gate_ends_its_sessions(open_shop: OpenShop) -> None:
    """Those of the keys that are asked for, or all."""
    shop = open_shop(pay_once)
    table = shop.gate._clients._table
    for name in ("a", "b"):
        with table.use(key(name)):
            pass

    shop.gate.close(only=lambda key: key.value == "a")
    assert [end.key.value for end in shop.ends] == ["a"]
    shop.gate.close()
    assert [end.key.value for end in shop.ends] == ["a", "b"]


async def test_a_client_that_comes_back_from_a_quiet_time_has_one_session(
    open_shop: OpenShop, connect: Connect
) -> None:
    """Its new session takes the place of the one that went quiet, and ends with the connection."""
    clock = ManualClock()
    shop = open_shop(pay_once, idle_timeout=60, clock=clock.monotonic)

    async with connect(shop, "in memory", "legacy") as client:
        assert await paid(client)
        clock.advance(61)
        assert await paid(client)
        assert len(shop.gate.sessions()) == 1

    assert [end.reason for end in shop.ends] == ["quiet", "client left"]
