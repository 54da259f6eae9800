"""
A call changes a cell in each of its phases.

What keeps other calls out counts when a call is let through; what lets them through counts when it succeeded.
"""

from __future__ import annotations

from ..wire import WireMove
from .cell import DEFERRED, NO_TICKET, PLAIN, CellState, Ticket


def reserve(move: WireMove, cell: CellState) -> Ticket:
    """Take note that a call is let through, and return what `settle` needs."""
    kind = cell.spec.k
    if kind == "tally":
        cell.saved.live += 1
        cell.moved = True
        return cell.ticket(PLAIN)
    if kind == "stamps":
        return cell.ticket(cell.put(1))
    if move.d:
        return cell.ticket(DEFERRED)
    if kind == "sum" and (move.a or 0) > 0:
        return cell.ticket(cell.put(move.a or 0))
    if kind == "distinct":
        cell.use(move.v or ())
        return cell.ticket(str(cell.now))
    if move.k == "take" and cell.saved.total >= 1:
        return _take_token(cell)
    return cell.ticket(NO_TICKET)


def settle(
    move: WireMove,
    cell: CellState,
    ticket: Ticket,
    to: str,
    seen: int | tuple[str, ...] | None,
    lease: str,
) -> bool:
    """
    Take note of how a call ended: `to` is the state of its lease.

    Returns:
        Whether what was measured broke the move's limit.
    """
    if to == "g" or (to == "f" and move.r):
        _undo(move, cell, ticket)
    elif to == "u":
        if ticket[0] == DEFERRED:
            cell.miss(lease)
    elif cell.spec.k in ("sum", "distinct"):
        return _measure(move, cell, ticket, seen, lease)
    elif to == "c":
        _succeed(move, cell, ticket)
    return False


def _take_token(cell: CellState) -> Ticket:
    if cell.spec.w is None:
        ticket = cell.ticket(PLAIN)
        cell.take(PLAIN, 1)
        return ticket
    at, edge = cell.rows.first()
    ticket = cell.ticket(at, edge=edge)
    cell.take(at, 1)
    return ticket


def _succeed(move: WireMove, cell: CellState, ticket: Ticket) -> None:
    kind = cell.spec.k
    if kind == "tally":
        if ticket[1] == cell.saved.period:
            cell.saved.done += 1
            cell.moved = True
    elif kind == "marks":
        cell.put(1)
        cell.saved.last = cell.now
    elif move.k == "give":
        cell.saved.given += 1
        if move.o:
            cell.empty()
        cell.put(1)


def _measure(
    move: WireMove, cell: CellState, ticket: Ticket, seen: int | tuple[str, ...] | None, lease: str
) -> bool:
    if seen is None:
        if ticket[0] == DEFERRED:
            cell.miss(lease)
        elif cell.spec.k == "sum" and (move.a or 0) < 0:
            cell.put(move.a or 0)
        return False
    _undo(move, cell, ticket)
    if isinstance(seen, int):
        cell.put(seen)
        return move.n is not None and cell.saved.total > move.n
    cell.use(seen)
    return move.n is not None and cell.rows.size() > move.n


def _undo(move: WireMove, cell: CellState, ticket: Ticket) -> None:
    at, period, _, _ = ticket
    if at in (NO_TICKET, DEFERRED) or period != cell.saved.period:
        return
    kind = cell.spec.k
    if kind == "tally":
        cell.saved.live = max(0, cell.saved.live - 1)
        cell.moved = True
    elif kind == "stamps":
        cell.take(at, 1)
    elif kind == "sum":
        cell.take(at, move.a or 0)
    elif kind == "distinct":
        # Once its own use is out of the window, every use that is counted is somebody else's.
        if cell.spec.w is None or cell.now - int(at) <= cell.spec.w:
            cell.unuse(move.v or ())
    elif move.k == "take":
        _give_back(move, cell, ticket)


def _give_back(move: WireMove, cell: CellState, ticket: Ticket) -> None:
    at, _, given, edge = ticket
    if move.o and given != cell.saved.given:
        return
    if edge is not None and cell.spec.w is not None:
        if cell.now - edge > cell.spec.w:
            return
        old = cell.rows.get(at) or (edge, 0)
        cell.rows.set(at, old[0], old[1] + 1)
    cell.saved.total += 1
    cell.moved = True
