"""A governance, as far as a door needs it: it has Core judge a piece of work."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from openbox_agentrt.acel.events import Outcome


class JudgedWork(Protocol):
    """
    Hold a piece of work that Core judged, while it runs and after it.

    Attributes:
        output: What it gave; after the block, what may be seen of it.
        outcome: What became of it.
        withheld: Whether nothing of the output may be seen; known after the block.
    """

    output: Any
    outcome: Outcome | None
    withheld: bool

    @property
    def input(self) -> list[Any]: ...


class Governance(Protocol):
    """Provide what a door needs of a governance. `OpenBoxAgentRTGovernance` has it."""

    def activity(
        self, activity_type: str, activity_input: Any = ()
    ) -> AbstractAsyncContextManager[JudgedWork]: ...
