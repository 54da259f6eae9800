"""The comparisons that decide, and when waiting helps."""

from __future__ import annotations

from ..answers import BrokenGuard
from ..wire import WireGuard
from .cell import CellState


def holds(guard: WireGuard, cell: CellState) -> bool:
    """Tell whether a guard holds for the cell as it is."""
    saved, n = cell.saved, guard.n
    if guard.k == "need":
        return _has(cell, n)
    if guard.k == "ban":
        return cell.count() == 0
    if guard.k == "cap":
        return cell.count() < n
    if guard.k == "token":
        return saved.total >= 1
    if saved.unread is not None:
        return False
    if guard.k == "spend":
        return saved.total < n if guard.a is None else saved.total + guard.a <= n
    known = cell.rows.size()
    if guard.v is None:
        return known < n
    return known + sum(cell.rows.get(value) is None for value in guard.v) <= n


def broken(position: int, guard: WireGuard, cell: CellState) -> BrokenGuard:
    """Say how a cell stands whose guard does not hold."""
    saved = cell.saved
    return BrokenGuard(
        guard=position,
        live=saved.live,
        done=saved.done,
        total=saved.total,
        known=cell.rows.size() if cell.spec.k == "distinct" else None,
        unread=saved.unread is not None,
        last=saved.last,
        free_at=_free_at(guard, cell),
        period_end=cell.end,
    )


def _has(cell: CellState, n: int) -> bool:
    if cell.spec.w is None:
        return cell.saved.done >= n
    if n == 1:
        # One success is kept exactly; the bucket's oldest would end too soon.
        return cell.saved.last is not None and cell.now - cell.saved.last <= cell.spec.w
    return cell.saved.total >= n


def _free_at(guard: WireGuard, cell: CellState) -> int | None:
    if guard.k in ("need", "token"):
        return None
    if cell.end is not None:
        return cell.end if _fits(guard, 0) else None
    if cell.spec.w is None or guard.k == "distinct" or cell.saved.unread is not None:
        return None
    left = cell.saved.total
    for edge, value in cell.rows.all():
        left -= value
        if _fits(guard, left):
            return edge + cell.spec.w + 1
    return None


def _fits(guard: WireGuard, left: int) -> bool:
    if guard.k == "spend" and guard.a is not None:
        return left + guard.a <= guard.n
    if guard.k == "distinct" and guard.v is not None:
        return left + len(guard.v) <= guard.n
    return left < (1 if guard.k == "ban" else guard.n)
