"""
One HTTP client per event loop, and one per process for synchronous use.

openbox_core keeps one asynchronous client. Used from a second ``asyncio.run`` it fails with "Event loop is
closed", and under ``fail_open`` a failure lets the call pass: a BLOCK became an ALLOW in every other run. A
connection belongs to the loop that opened it, so each loop gets a client of its own, which ends with the
loop.

How it ends: a suspended async generator is started on the loop. ``asyncio.run`` closes those before the
loop, and this one closes the client. Nothing is left for the garbage collector, whether or not anybody
calls `aclose`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import httpx

__all__ = ("LoopClients", "ProcessClient")

_LIMITS = httpx.Limits(max_connections=200, max_keepalive_connections=50, keepalive_expiry=30.0)


@dataclass(slots=True, eq=False)
class _Entry:
    client: httpx.AsyncClient
    keeper: AsyncGenerator[None, None]


class LoopClients:
    """
    Asynchronous clients, by event loop. Safe to use from any number of loops and threads, and after a fork.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._entries: dict[asyncio.AbstractEventLoop, _Entry] = {}
        self._left_to_parent: list[object] = []

    async def get(self) -> httpx.AsyncClient:
        """The client of the running loop."""
        if os.getpid() != self._pid:
            # The parent's connections. To use or close them here would disturb the parent's answers.
            self._left_to_parent.append(self._entries)
            self._entries, self._pid = {}, os.getpid()
        loop = asyncio.get_running_loop()
        entry = self._entries.get(loop)
        if entry is None or entry.client.is_closed:
            self._forget_closed_loops()
            # The environment is trusted for proxies and certificates, as openbox_core's own client does.
            client = httpx.AsyncClient(limits=_LIMITS, follow_redirects=False)
            entry = _Entry(client=client, keeper=self._keep(loop, client))
            self._entries[loop] = entry
            await entry.keeper.asend(None)
        return entry.client

    async def aclose(self) -> None:
        """Close the running loop's client, and ask the other running loops to close theirs."""
        here = asyncio.get_running_loop()
        for loop, entry in list(self._entries.items()):
            if loop is here:
                await entry.keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_close(entry.keeper), loop)

    def __len__(self) -> int:
        return len(self._entries)

    async def _keep(
        self, loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient
    ) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._entries.get(loop) is not None and self._entries[loop].client is client:
                del self._entries[loop]
            await client.aclose()

    def _forget_closed_loops(self) -> None:
        # Loops that were closed without ending their generators, which only hand-made loops are.
        for loop in [loop for loop in list(self._entries) if loop.is_closed()]:
            self._entries.pop(loop, None)


async def _close(keeper: AsyncGenerator[None, None]) -> None:
    await keeper.aclose()


class ProcessClient:
    """The synchronous client of this process."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()
        self._left_to_parent: list[object] = []

    def get(self) -> httpx.Client:
        """The client; after a fork, a new one."""
        if os.getpid() != self._pid:
            # The lock may have been held by a thread that does not exist here.
            self._left_to_parent.append(self._client)
            self._client, self._lock, self._pid = None, threading.Lock(), os.getpid()
        with self._lock:
            if self._client is None or self._client.is_closed:
                self._client = httpx.Client(limits=_LIMITS, follow_redirects=False)
                # At the latest when the interpreter exits, but not in a child that exits before its parent.
                weakref.finalize(self, _close_in, self._pid, self._client)
            return self._client

    def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        client = self._client
        if client is not None:
            _close_in(self._pid, client)


def _close_in(pid: int, client: httpx.Client) -> None:
    if os.getpid() == pid:
        client.close()
