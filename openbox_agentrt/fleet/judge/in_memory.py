"""Tables as dicts, for one process: what counts during an outage, and what tests compare the stores with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..periods import SECOND
from ..steps import LeaseState, Step, StepAnswer
from ..wire import WireCell, WirePlan
from .cell import CellState, Rows, Saved
from .ledger import Ledger
from .tables import LeaseRow, SessionRow, WorkerRow


def wall_clock() -> int:
    """Give the host's time in microseconds."""
    return time.time_ns() // 1000


class MemoryRows:
    """Rows of one cell."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, int]] = {}

    def get(self, at: str) -> tuple[int, int] | None:
        return self._rows.get(at)

    def set(self, at: str, edge: int, value: int) -> None:
        self._rows[at] = (edge, value)

    def drop(self, at: str) -> None:
        self._rows.pop(at, None)

    def clear(self) -> None:
        self._rows.clear()

    def size(self) -> int:
        return len(self._rows)

    def older(self, than: int) -> list[tuple[str, int]]:
        return [(at, value) for at, (edge, value) in self._rows.items() if edge < than]

    def all(self) -> list[tuple[int, int]]:
        return sorted(self._rows.values())

    def first(self) -> tuple[str, int]:
        at, (edge, _) = min(self._rows.items(), key=lambda row: (row[1][0], row[0]))
        return at, edge

    def bound(self, latest: int) -> None:
        """Let no edge be later."""
        self._rows = {at: (min(edge, latest), value) for at, (edge, value) in self._rows.items()}


class MemoryTables:
    """Keep all tables in dicts. They grow with the leases, for as long as the process lives."""

    def __init__(self) -> None:
        self._generation = ""
        self._lost_at = 0
        self._workers: dict[str, WorkerRow] = {}
        self._leases: dict[str, LeaseRow] = {}
        self._dies: dict[str, int] = {}
        self._cells: dict[str, tuple[Saved, Rows]] = {}
        self._sessions: dict[str, tuple[SessionRow, int]] = {}
        self._pieces: dict[str, dict[str, str]] = {}

    def generation(self) -> str:
        return self._generation

    def set_generation(self, generation: str) -> None:
        self._generation = generation

    def lost_at(self) -> int:
        return self._lost_at

    def set_lost_at(self, at: int) -> None:
        self._lost_at = at

    def worker(self, worker: str) -> WorkerRow | None:
        return self._workers.get(worker)

    def set_worker(self, worker: str, row: WorkerRow) -> None:
        self._workers[worker] = row

    def drop_worker(self, worker: str) -> None:
        self._workers.pop(worker, None)

    def overdue(self, now: int) -> tuple[str, ...]:
        return tuple(name for name, row in self._workers.items() if row.until < now)

    def has_open(self, worker: str) -> bool:
        return bool(self.open_leases(worker))

    def open_leases(self, worker: str) -> dict[str, WirePlan]:
        """List what a worker has not finished."""
        return {
            name: row.plan
            for name, row in self._leases.items()
            if row.worker == worker and row.state in ("r", "s") and row.plan is not None
        }

    def lease(self, lease: str) -> LeaseRow | None:
        return self._leases.get(lease)

    def add_lease(self, lease: str, row: LeaseRow, dies: int | None) -> None:
        self._leases[lease] = row
        if dies is not None:
            self._dies[lease] = dies

    def set_state(self, lease: str, state: LeaseState, dies: int | None) -> None:
        row = self._leases[lease]
        row.state = state
        if state in ("c", "f"):
            row.plan, row.tickets = None, ()
        if dies is not None:
            self._dies[lease] = dies

    def set_owner(self, lease: str, worker: str) -> None:
        self._leases[lease].worker = worker

    def set_note(self, lease: str, note: str) -> None:
        self._leases[lease].note = note

    def cell(self, spec: WireCell, now: int) -> CellState:
        saved, rows = self._cells.get(spec.id) or (Saved(), MemoryRows())
        return CellState(spec, replace(saved), rows, now)

    def save(self, cell: CellState) -> None:
        cell.saved.now = cell.now
        self._cells[cell.spec.id] = (cell.saved, cell.rows)

    def mend(self, cell: str, now: int) -> bool:
        if cell not in self._cells:
            return False
        saved, rows = self._cells[cell]
        saved.mend(now)
        rows.bound(now)
        return True

    def session(self, name: str, now: int) -> SessionRow | None:
        row, dies = self._sessions.get(name, (None, 0))
        return row if dies >= now else None

    def set_session(self, name: str, row: SessionRow, dies: int) -> None:
        self._sessions[name] = (row, dies)

    def pieces(self, name: str) -> dict[str, str]:
        return dict(self._pieces.get(name, {}))

    def change_pieces(self, name: str, changed: Mapping[str, str], dropped: Iterable[str]) -> None:
        pieces = self._pieces.setdefault(name, {})
        pieces.update(changed)
        for piece in dropped:
            pieces.pop(piece, None)

    def clear_pieces(self, name: str) -> None:
        self._pieces.pop(name, None)

    def sweep(self, now: int) -> None:
        """Forget leases and sessions that are over."""
        for name in [name for name, (_, dies) in self._sessions.items() if dies < now]:
            del self._sessions[name]
            self.clear_pieces(name)
        for lease in [name for name, dies in self._dies.items() if dies < now]:
            del self._dies[lease], self._leases[lease]


class MemoryLine:
    """
    A store in this process, locked for one batch of steps at a time.

    Args:
        tables: The rows.
        clock: The time in microseconds.
    """

    def __init__(
        self,
        tables: MemoryTables | None = None,
        *,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self._tables = MemoryTables() if tables is None else tables
        self._lock = threading.Lock()
        self._clock = clock

    def run(self, steps: Sequence[Step]) -> list[StepAnswer]:
        with self._lock:
            return [Ledger(self._tables, self._clock()).take(step) for step in steps]

    def open_leases(self, worker: str) -> dict[str, WirePlan]:
        with self._lock:
            return self._tables.open_leases(worker)

    def tell(self, names: dict[str, bytes]) -> None:
        """Nobody looks at a store in this process from outside of it."""

    def sweep(self, seconds: float) -> bool:
        with self._lock:
            self._tables.sweep(self._clock() - SECOND)
        return False

    def close(self) -> None:
        """There is nothing to let go of."""
