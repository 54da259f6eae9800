"""
Reports that an outage kept from Core.

A completion that Core never hears of leaves a row open for ever, and so does a run that never ends. What
could not be told is kept, told when Core answers again, and once more when the governance is closed. Core
seals a workflow at its last event, so what comes later in a workflow waits behind what is kept of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

__all__ = ("OverdueReports",)

MOST_KEPT: Final = 4096
"""Reports that are kept. What comes then is lost: memory must not grow as long as Core is away."""

WORKFLOWS_AT_ONCE: Final = 16

_POLL_SECONDS: Final = 0.01


class OverdueReports:
    """
    What is kept, workflow by workflow in its order.

    Args:
        tell: Tells Core; returns whether it need not be told again, and raises nothing but cancellation.
    """

    def __init__(self, tell: Callable[[EventEnvelope], Awaitable[bool]]) -> None:
        self._tell = tell
        self._kept: dict[str, deque[EventEnvelope]] = {}
        self._being_told: set[str] = set()
        self._teller: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return sum(len(kept) for kept in tuple(self._kept.values()))

    def holds(self, event: EventEnvelope) -> bool:
        """Whether something of the workflow of `event` is kept, so that `event` has to wait behind it."""
        return _workflow(event) in self._kept

    def keep(self, event: EventEnvelope) -> bool:
        """Keep `event`; False when there are too many already."""
        if len(self) >= MOST_KEPT:
            return False
        self._kept.setdefault(_workflow(event), deque()).append(event)
        return True

    def tell_soon(self) -> None:
        """Tell Core in the background, unless that is being done."""
        teller = self._teller
        if not self._kept or (teller is not None and not teller.done() and not teller.get_loop().is_closed()):
            return
        # An empty context: the reports belong to no activity and must not be attributed to one.
        self._teller = asyncio.get_running_loop().create_task(
            self.tell_all(), name="openbox-overdue-reports", context=Context()
        )

    async def tell_all(self) -> None:
        """Tell Core what is kept, several workflows at a time. Stops where Core does not answer."""
        left = deque(self._kept)

        async def work() -> None:
            while left:
                if not await self._tell_workflow(left.popleft()):
                    left.clear()

        await asyncio.gather(*(work() for _ in range(min(len(left), WORKFLOWS_AT_ONCE))))

    async def give_up_after(self, seconds: float) -> int:
        """
        Tell Core what is kept, and forget what it does not take.

        Returns:
            The number of reports that were given up.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.tell_all()
                # By the background, which may run in another loop, whose events cannot be awaited here.
                while self._being_told:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            pass  # fail-open by nature: what is not told by now is counted as lost
        teller, self._teller = self._teller, None
        if teller is not None and teller.get_loop() is asyncio.get_running_loop():
            teller.cancel()
        lost = len(self)
        self._kept.clear()
        return lost

    async def _tell_workflow(self, workflow_id: str) -> bool:
        kept = self._kept.get(workflow_id)
        if kept is None or workflow_id in self._being_told:
            return True
        self._being_told.add(workflow_id)
        try:
            while kept:
                if not await self._tell(kept[0]):
                    return False
                kept.popleft()
            self._kept.pop(workflow_id, None)
            return True
        finally:
            self._being_told.discard(workflow_id)


def _workflow(event: EventEnvelope) -> str:
    return str(event.payload.get("workflow_id", ""))
