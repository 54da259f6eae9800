"""Wait in async code for what another thread brings."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_PATIENCE_SECONDS = 0.001
"""Most policies answer within this time, and then it is quicker to stand still than to go and come back."""


async def arrival(future: Future[T]) -> T:
    """Wait for the result of `future` without cancelling it."""
    try:
        return future.result(timeout=_PATIENCE_SECONDS)
    except TimeoutError:
        pass
    loop = asyncio.get_running_loop()
    came = asyncio.Event()

    def wake(done: Future[T]) -> None:
        # The loop may have ended meanwhile: nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(came.set)

    future.add_done_callback(wake)
    await came.wait()
    return future.result()
