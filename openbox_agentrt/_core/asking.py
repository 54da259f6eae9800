"""What a run needs of Core."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from ..decision import Answer
    from ..errors import GovernanceError

__all__ = ("Gate",)


class Gate(Protocol):
    """Questions and reports. Retries, budgets, breakers and fail policies are behind it: see `CoreGate`."""

    async def judge(self, event: EventEnvelope, *, destructive: bool = False) -> Answer: ...

    async def approve(
        self,
        answer: Answer,
        *,
        workflow_id: str,
        run_id: str,
        activity_id: str,
        cancelled: Callable[[], GovernanceError | None],
        event: str | None = None,
    ) -> None: ...

    async def approved(
        self, answer: Answer, *, workflow_id: str, run_id: str, activity_id: str, event: str | None = None
    ) -> bool: ...

    async def report(self, event: EventEnvelope) -> Answer | None: ...
