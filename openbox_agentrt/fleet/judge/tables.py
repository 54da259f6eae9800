"""The judge needs this of a store that is tables: small reads and writes inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..steps import LeaseState
from ..wire import WireCell, WirePlan
from .cell import CellState, Ticket


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


@dataclass(slots=True)
class SessionRow:
    """
    A session as it is kept, beside the pieces of its memory.

    `owner` holds it and is empty when nobody does; `writer` has written `version`; `ended` when it is over.
    """

    birth: str
    owner: str
    version: int = 0
    writer: str = ""
    ended: bool = False


class Tables(Protocol):
    """The rows of a store, within one transaction."""

    def generation(self) -> str: ...
    def set_generation(self, generation: str) -> None: ...
    def lost_at(self) -> int: ...
    def set_lost_at(self, at: int) -> None: ...
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
    def session(self, name: str, now: int) -> SessionRow | None: ...
    def set_session(self, name: str, row: SessionRow, dies: int) -> None: ...
    def pieces(self, name: str) -> dict[str, str]: ...
    def change_pieces(self, name: str, changed: Mapping[str, str], dropped: Iterable[str]) -> None: ...
    def clear_pieces(self, name: str) -> None: ...
