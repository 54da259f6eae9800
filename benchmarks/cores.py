"""Cores to measure against: one that answers at once, and one that answers in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

QUIET_TURNS = 50
"""Turns of the event loop without a new request after which nothing else is on its way."""


class InstantCore:
    """Allows everything, and takes no time for it: what is left is the cost of asking."""

    api_key = "obx_test_instant"

    def __init__(self) -> None:
        self.requests = 0

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """The same answer, whatever is asked."""
        self.requests += 1
        return 200, {"content-type": "application/json"}, b'{"verdict": "allow", "action": "continue"}'


class SteppingLine:
    """
    Answers requests in steps: all that are on their way together, once nothing else happens.

    A step is what a round trip is to a run, without a clock: `steps` counts the round trips on the critical
    path, `requests` all of them.
    """

    def __init__(self, governance: Any) -> None:
        self.requests = 0
        self.steps = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._line = governance.runtime.client.line
        self._carry = self._line.carry

    async def run(self, work: Any) -> None:
        """Let `work`, a coroutine, run to its end."""
        self._line.carry = self._hold
        try:
            running = asyncio.ensure_future(work)
            while not running.done():
                await self._quiet()
                waiting, self._waiting = self._waiting, []
                self.steps += bool(waiting)
                for request in waiting:
                    request.set_result(None)
            await running
        finally:
            del self._line.carry

    async def _hold(self, *request: Any) -> Any:
        self.requests += 1
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn
        return await self._carry(*request)

    async def _quiet(self) -> None:
        seen, quiet = len(self._waiting), 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == seen else 0
            seen = len(self._waiting)
