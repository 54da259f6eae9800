"""Contracts that many processes share: how their cells stand in the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from .._halt import Halt
from ..fleet.amounts import from_units
from ..fleet.cell_words import counted_words
from ..fleet.errors import FleetConfigError
from ..fleet.halts import write_halt
from ..fleet.opening import open_halts
from ..fleet.steps import NoAnswerError
from ..fleet.survey import CellStand, survey

MOST = 200
_FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """
    Tell how one cell of the store stands.

    Attributes:
        used: The share of the limit that is used and settled, in per cent; None without a limit.
        flying: The share that is reserved or under way.
    """

    name: str
    key: str
    state: str
    used: float | None
    flying: float
    refuses: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """
    Show what a store says of its cells.

    Attributes:
        problem: Why it says nothing; empty if it does.
        workers: How many processes use it.
        cells: The cells that were looked at, by their names in the store.
    """

    url: str
    rows: tuple[FleetRow, ...] = ()
    workers: int = 0
    problem: str = ""
    cells: Mapping[str, CellStand] = field(default_factory=dict, repr=False)


class FleetState:
    """Ask a store, once a second at most. Any thread may use it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._view: FleetView | None = None
        self._until = 0.0

    def view(self) -> FleetView:
        """Say how its cells stand."""
        with self._lock:
            if self._view is None or time.monotonic() >= self._until:
                self._view = self._ask()
                self._until = time.monotonic() + _FRESH_SECONDS
            return self._view

    def halt(self, halt: Halt) -> None:
        """
        Tell every process with the store of a halt.

        Raises:
            FleetError: It was not told.
        """
        with closing(open_halts(self._url)) as rows:
            write_halt(rows, halt)

    def stand(self, cell: str) -> tuple[CellStand | None, str]:
        """Say how one cell stands, None if nothing is counted in it, and why that is not known."""
        view = self.view()
        if view.problem:
            return None, view.problem
        if cell not in view.cells and len(view.cells) >= MOST:
            return None, f"it is not among the {MOST} cells that are looked at here"
        return view.cells.get(cell), ""

    def _ask(self) -> FleetView:
        name = self._url.rpartition("@")[2] if "@" in self._url else self._url
        try:
            with closing(survey(self._url)) as store:
                cells = store.cells(MOST)
                rows = tuple(map(_row, cells))
                known = {cell.id: cell for cell in cells}
                return FleetView(url=name, rows=rows, workers=len(store.workers()), cells=known)
        except (FleetConfigError, NoAnswerError, OSError) as error:
            # Shown in the place of the cells: that a store is silent is what a person has to know.
            return FleetView(url=name, problem=f"the store does not answer ({type(error).__name__})")


def _row(cell: CellStand) -> FleetRow:
    scale = 0 if cell.about is None else cell.about.scale
    limit = None if cell.about is None else cell.about.limit

    def shown(units: int) -> str:
        return format(from_units(units, scale), "f")

    settled = max(0, cell.spent - cell.outstanding)
    if limit is None:
        state = f"{shown(cell.spent)} counted"
    else:
        flying = f", {shown(cell.outstanding)} in flight" if cell.outstanding else ""
        state = f"{shown(cell.free or 0)} left of {shown(limit)}: {shown(settled)} used{flying}"
    if cell.unread:
        state += "; refuses, since an amount is missing that nobody measured"
    return FleetRow(
        name=counted_words(cell),
        key=cell.key,
        state=state,
        used=None if not limit else min(100.0, 100 * settled / limit),
        flying=0.0 if not limit else min(100.0, 100 * cell.outstanding / limit),
        refuses=cell.unread or cell.free == 0,
    )
