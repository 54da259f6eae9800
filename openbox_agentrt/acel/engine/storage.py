"""
What a session asks of its memory.

`store.MemoryStore` answers it in this process. A store that many workers share can take its place
without touching a contract: a contract only says which guards hold and which cells move, as plain data
(`rules`), and each of these methods is one atomic step over those cells - a script, for a store that runs
scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..contracts.base import TemporalContract
    from ..memory.call import Call
    from ..memory.guards import Breach
    from .plan import Plan


class Store(Protocol):
    """
    What a session asks of its memory. Every method is atomic, and may be called from any thread.

    Attributes:
        step: Position of the latest call.
        flying: How many calls are under way.
    """

    step: int
    flying: int

    def add(self, contract: TemporalContract) -> None:
        """Watch a contract from now on."""

    def plan(self, tool: str) -> Plan:
        """What has to be done for calls of a tool."""

    def reserve(
        self, call: Call, *, at: float | None = None, force: bool = False, refuse: object = False
    ) -> list[Breach] | None:
        """Judge a call, and let it through if no contract in force objects."""

    def commit(self, call: Call, *, at: float | None = None) -> list[Breach] | None:
        """A call ran and succeeded. Returns limits that only what was measured shows to be broken."""

    def abort(self, call: Call, *, ran: bool, at: float | None = None) -> None:
        """A call failed, or never ran."""

    def lose(self, call: Call) -> None:
        """Nobody knows how a call ended."""
