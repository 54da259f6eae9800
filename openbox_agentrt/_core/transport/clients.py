"""
httpx clients: some for each event loop, and one per process for synchronous use.

They carry what `HttpLine` does not: requests to other addresses than Core's, through proxies that httpx alone
understands, and openbox_core's synchronous hooks.

Each asynchronous client has one request at a time, and so one connection. A client with many makes every
request that ends look at all that wait and at all connections: a thousand runs that start together kept it
busy for minutes.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx

from ..._loopback import LOOPBACK_HOSTS
from .loops import PerLoop

AT_ONCE: Final = 128
"""Requests of one loop that are under way at once; the others wait their turn, in order."""

KEPT_IDLE: Final = 16
"""Connections of one loop that stay open however long nothing is asked."""

IDLE_SECONDS: Final = 30.0
"""Time after which further connections are closed. Many runs ask in waves, and each wave needs them again."""

# What asks this machine goes through no proxy, whatever the environment says.
_DIRECT: Final = {f"all://{f'[{host}]' if ':' in host else host}": None for host in LOOPBACK_HOSTS}
_LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0)


@dataclass(slots=True, eq=False)
class _Clients:
    """The clients of one loop."""

    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    idle: deque[tuple[httpx.AsyncClient, float]] = field(default_factory=deque)
    closed: bool = False

    async def close(self) -> None:
        self.closed = True
        while self.idle:
            await self.idle.pop()[0].aclose()

    async def put_back(self, client: httpx.AsyncClient) -> None:
        """`client` has had its turn."""
        now = asyncio.get_running_loop().time()
        self.idle.append((client, now))
        # The one that was used last is taken first, so the one that nobody needs is at the other end.
        while len(self.idle) > KEPT_IDLE and now - self.idle[0][1] > IDLE_SECONDS:
            await self.idle.popleft()[0].aclose()


class LoopClients:
    """
    Asynchronous clients, by event loop. Safe to use from any number of loops and threads, and after a fork.
    """

    def __init__(self) -> None:
        self._loops = PerLoop(_Clients, _Clients.close)
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[httpx.AsyncClient]:
        """Wait for a turn on the running loop, and have a client for one request."""
        own = await self._loops.get()
        async with own.turns:
            client = own.idle.pop()[0] if own.idle else self._open()
            try:
                yield client
            finally:
                if own.closed:
                    await client.aclose()
                else:
                    await own.put_back(client)

    async def aclose(self) -> None:
        """Close the running loop's clients, and ask the other running loops to close theirs."""
        await self._loops.aclose()

    def __len__(self) -> int:
        """Count the loops that have clients."""
        return len(self._loops)

    def _open(self) -> httpx.AsyncClient:
        if self._tls is None:
            self._tls = httpx.create_ssl_context()
        # The environment is trusted for proxies and certificates, as openbox_core's own client does.
        return httpx.AsyncClient(verify=self._tls, limits=_LIMITS, mounts=_DIRECT, follow_redirects=False)


class ProcessClient:
    """The synchronous client of this process."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()
        self._left_to_parent: list[object] = []

    def get(self) -> httpx.Client:
        """Give the client; after a fork, a new one."""
        if os.getpid() != self._pid:
            # The lock may have been held by a thread that does not exist here.
            self._left_to_parent.append(self._client)
            self._client, self._lock, self._pid = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._client is None or self._client.is_closed:
                self._client = httpx.Client(limits=_LIMITS, mounts=_DIRECT, follow_redirects=False)
                # At the latest when the interpreter exits, but not in a child that exits before its parent.
                weakref.finalize(self, _close_in, self._pid, self._client)
            return self._client

    def close(self) -> None:
        """Close the connections of this process. A later request opens new ones."""
        client = self._client
        if client is not None:
            _close_in(self._pid, client)


def _close_in(pid: int, client: httpx.Client) -> None:
    if os.getpid() == pid:
        client.close()
