"""View what a session remembers cell by cell, each as far as contracts can tell apart what it holds."""

from __future__ import annotations

from collections.abc import Iterable

from ...._plain.amounts import Amount, add
from ...contracts.declaration import Declaration
from ...contracts.rules import Cell
from ...contracts.watched import cell_of, count_of
from ...memory.session_memory import SessionMemory
from ..conditions.followed import asked_by
from ..rules.analysable import guards_of, rules_of
from .cell_view import CellView

__all__ = ("views_of",)


def views_of(contracts: Iterable[Declaration], memory: SessionMemory, unit: Amount) -> list[CellView]:
    """Look at the memory of contracts, those cells first that others need when they are loaded."""
    contracts = list(contracts)
    views = _Views(memory)
    for contract in contracts:
        for rule in rules_of(contract):
            for move in rule.moves:
                views.of(move.cell)
        for watch in contract.watches:
            views.of(watch.move.cell)
    for contract in contracts:
        _note_limits(contract, views, unit)
        _note_asked(contract, views)
    most = max((max(view.starts, view.successes) for view in views.values()), default=1)
    oldest = max((view.cell.within or 0.0 for view in views.values()), default=0.0)
    for view in views.values():
        view.tokens = max(2, min(most, 8))
        view.oldest = oldest + 1
    return sorted(views.values(), key=lambda view: view.cell.kind != "latest")


class _Views(dict[Cell, CellView]):
    """The views of cells, each made when it is first asked for."""

    def __init__(self, memory: SessionMemory) -> None:
        super().__init__()
        self._memory = memory

    def of(self, cell: Cell) -> CellView:
        return self.setdefault(cell, CellView(cell, self._memory.cell(cell, 0)))


def _note_limits(contract: Declaration, views: _Views, unit: Amount) -> None:
    for guard in guards_of(contract):
        if guard.cell is None:
            continue
        view = views.of(guard.cell)
        if guard.kind in ("ban", "cap"):
            view.starts = max(view.starts, int(guard.n))
        elif guard.kind == "need":
            view.successes = max(view.successes, int(guard.n))
        elif guard.kind == "spend" and not guard.cell.negative:
            over = add(guard.n, unit)
            view.most = over if view.most is None else max(view.most, over)
        elif guard.kind == "next" and guard.other is not None:
            view.latest = views.of(guard.other)
    for guard in contract.at_end:
        # A value that was tried is owed something, also where it never succeeded.
        if guard.cell is not None and guard.cell.key is not None:
            views[guard.cell].starts = max(views[guard.cell].starts, 1)


def _note_asked(contract: Declaration, views: _Views) -> None:
    """Note what conditions tell apart of what calls have told, and of how many there were."""
    for asked in asked_by(contract):
        for fact in asked.facts:
            read = (place.value for place in asked.reading.compared if place.name == fact.label)
            views[cell_of(fact)].told |= frozenset(read)
        for tool, numbers in asked.reading.counts.items():
            view = views[count_of(tool)]
            view.successes = max(view.successes, max(numbers) + 1)
