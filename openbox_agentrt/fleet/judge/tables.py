"""The judge needs this of a store that is tables: small reads and writes inside one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..steps import LeaseState
from ..wire import WireCell, WirePlan
from .cell import CellState, Ticket

__all__ = ("LeaseRow", "Tables", "WorkerRow")


@dataclass(slots=True)
class LeaseRow:
    """
    A lease as it is kept. Without a plan it is a tombstone: its id is used up.

    `note` is for whoever adopts it.
    """

    state: LeaseState
    worker: str
    plan: WirePlan | None = None
    tickets: tuple[Ticket, ...] = ()
    note: str = ""


@dataclass(slots=True)
class WorkerRow:
    """A worker as it is kept: when its lease is over, and how many steps it has changed something with."""

    until: int
    ops: int = 0


class Tables(Protocol):
    """The rows of a store, within one transaction."""

    def generation(self) -> str: ...
    def set_generation(self, generation: str) -> None: ...
    def worker(self, worker: str) -> WorkerRow | None: ...
    def set_worker(self, worker: str, row: WorkerRow) -> None: ...
    def drop_worker(self, worker: str) -> None: ...
    def overdue(self, now: int) -> tuple[str, ...]: ...
    def has_open(self, worker: str) -> bool: ...
    def lease(self, lease: str) -> LeaseRow | None: ...
    def add_lease(self, lease: str, row: LeaseRow, dies: int | None) -> None: ...
    def set_state(self, lease: str, state: LeaseState, dies: int | None) -> None: ...
    def set_owner(self, lease: str, worker: str) -> None: ...
    def set_note(self, lease: str, note: str) -> None: ...
    def cell(self, spec: WireCell, now: int) -> CellState: ...
    def save(self, cell: CellState) -> None: ...
    def mend(self, cell: str, now: int) -> bool: ...
