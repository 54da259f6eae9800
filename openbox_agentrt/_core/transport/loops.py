"""
Things that belong to the event loop that opened them, such as connections.

Used from a second loop they fail with "Event loop is closed", and under ``fail_open`` a failure lets a call
pass: a BLOCK became an ALLOW in every other ``asyncio.run``. So each loop has one of its own, which ends with
the loop: a suspended async generator is started on it, ``asyncio.run`` closes those before the loop, and this
one closes the thing. Nothing is left for the garbage collector, whether or not anybody calls `aclose`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """
    One thing for each event loop. Safe to use from any number of loops and threads, and after a fork.

    Args:
        open: Makes the one of the running loop.
        close: Closes it, on its loop.
        let_go: Forgets it, when its loop was closed without ending its generators, which only loops that are
            made by hand are. Nothing can be awaited for it any more.
    """

    def __init__(
        self,
        open: Callable[[], T],
        close: Callable[[T], Awaitable[None]],
        let_go: Callable[[T], None] = lambda _: None,
    ) -> None:
        self._open = open
        self._close = close
        self._let_go = let_go
        self._pid = os.getpid()
        self._entries: dict[asyncio.AbstractEventLoop, T] = {}
        self._keepers: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}
        self._left_to_parent: list[object] = []

    async def get(self) -> T:
        """Give the running loop's, and open it first if need be."""
        if os.getpid() != self._pid:
            # The parent's connections. To use or close them here would disturb the parent's answers.
            self._left_to_parent.append((self._entries, self._keepers))
            self._entries, self._keepers, self._pid = {}, {}, os.getpid()
        loop = asyncio.get_running_loop()
        entry = self._entries.get(loop)
        if entry is None:
            self._forget_closed_loops()
            entry = self._entries[loop] = self._open()
            keeper = self._keepers[loop] = self._keep(loop, entry)
            await keeper.asend(None)
        return entry

    async def aclose(self) -> None:
        """Close the running loop's, and ask the other running loops to close theirs."""
        here = asyncio.get_running_loop()
        for loop, keeper in list(self._keepers.items()):
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_finish(keeper), loop)

    def __len__(self) -> int:
        """Count the loops that have one."""
        return len(self._entries)

    async def _keep(self, loop: asyncio.AbstractEventLoop, entry: T) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._entries.get(loop) is entry:
                del self._entries[loop]
                self._keepers.pop(loop, None)
            await self._close(entry)

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in list(self._entries) if loop.is_closed()]:
            entry = self._entries.pop(loop, None)
            self._keepers.pop(loop, None)
            if entry is not None:
                self._let_go(entry)


async def _finish(keeper: AsyncGenerator[None, None]) -> None:
    await keeper.aclose()
