"""A paying server, and the SDK's client on every transport."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared._httpx_utils import create_mcp_http_client

from openbox_agentrt.acel import Session
from openbox_agentrt.doors.mcp import ACELMiddleware, SessionEnd, attach

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@dataclass
class Shop:
    """A server under contract, and what its tools did."""

    gate: ACELMiddleware
    server: MCPServer[Any]
    ends: list[SessionEnd]
    ran: list[str] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)


def add_tools(shop: Shop) -> None:
    server, ran = shop.server, shop.ran

    @server.tool()
    def pay(amount: float) -> dict[str, Any]:
        ran.append("pay")
        return {"paid": amount}

    @server.tool()
    def backup() -> dict[str, Any]:
        ran.append("backup")
        return {"done": True}

    @server.tool()
    def broken_backup() -> dict[str, Any]:
        ran.append("broken_backup")
        raise ToolError("disk full")

    @server.tool()
    def delete(name: str) -> dict[str, Any]:
        ran.append("delete")
        return {"deleted": name}

    @server.tool()
    async def slow(name: str = "x") -> dict[str, Any]:
        ran.append("slow")
        shop.started.set()
        await shop.release.wait()
        return {"slept": name}

    @server.resource("memo://{name}")
    def memo(name: str) -> str:
        ran.append(f"memo {name}")
        return f"memo {name}"

    @server.prompt()
    def greet(who: str) -> str:
        ran.append(f"greet {who}")
        return f"Hello {who}"


@pytest.fixture
def open_shop() -> Callable[..., Shop]:
    """Build a server whose clients each get a session with these contracts."""

    def build(
        contracts: Callable[[], Iterable[Any]] = tuple,
        *,
        session: Callable[[], Session] | None = None,
        shared: Session | None = None,
        attached: bool = False,
        server: dict[str, Any] | None = None,
        **gate: Any,
    ) -> Shop:
        ends: list[SessionEnd] = []

        def factory() -> Session:
            made = Session() if session is None else session()
            made.add_contracts(contracts())
            return made

        if shared is None:
            gate |= {"session_factory": factory, "on_session_end": ends.append}
        middleware = ACELMiddleware(shared, **gate)
        options = {"log_level": "CRITICAL", **(server or {})}
        if not attached:
            options["middleware"] = [middleware]
        built: MCPServer[Any] = MCPServer("shop", **options)
        if attached:
            attach(built, middleware)
        shop = Shop(middleware, built, ends)
        add_tools(shop)
        return shop

    return build


@asynccontextmanager
async def over_http(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI app on the loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, log_level="critical", lifespan="on", ws="none", timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn offers no event for it
            await asyncio.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await serving


@pytest.fixture
def serve_http() -> Callable[..., AbstractAsyncContextManager[str]]:
    """Serve a shop over streamable HTTP; gives the URL."""

    def serve(shop: Shop, **options: Any) -> AbstractAsyncContextManager[str]:
        return over_http(shop.server.streamable_http_app(**options))

    return serve


@pytest.fixture
def connect() -> Connect:
    """Connect the SDK's client to a shop, over a transport by name."""

    @asynccontextmanager
    async def client(shop: Shop, transport: str, mode: str = "auto") -> AsyncIterator[Client]:
        if transport == "in process":
            async with Client(shop.server, mode=mode) as connected:
                yield connected
        elif transport == "in memory":
            async with Client(InMemoryTransport(shop.server), mode=mode) as connected:
                yield connected
        else:
            assert transport == "http"
            async with (
                over_http(shop.server.streamable_http_app()) as url,
                Client(url, mode=mode) as connected,
            ):
                yield connected

    return client


@pytest.fixture
def connect_url() -> Connect:
    """Connect the SDK's client to a URL, with headers."""

    @asynccontextmanager
    async def client(
        url: str, *, mode: str = "auto", headers: dict[str, str] | None = None
    ) -> AsyncIterator[Client]:
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as connected,
        ):
            yield connected

    return client
