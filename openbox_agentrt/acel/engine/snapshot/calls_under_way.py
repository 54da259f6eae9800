"""
Calls under way, kept beside a snapshot by whoever goes on with the very same session.

A snapshot takes a call under way for one whose end nobody knows. Memory has it as it was reserved, and a
ticket is all that memory needs to settle it, so with its tickets such a call is settled after a restore as it
would have been before. That is so where `Mover.settles_by_ticket` says it: for counts, windows, totals,
values and facts, by key as well. What else remembers may hold more of a call than can be written down: such
a call is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...._plain.arguments import plain_args
from ...._plain.freezing import freeze, thawed
from ...memory.cell import Mover
from ...memory.keyed import KeyedMover
from ...reservation import Reservation

if TYPE_CHECKING:
    from ..engine import Engine


def kept_call(call: Reservation) -> dict[str, Any] | None:
    """Give what is needed to settle a call under way after a restore; None where that cannot be given."""
    plan = call.plan
    conditional = any(entry.contract.is_asked_when for entry, _ in plan.asked)
    if conditional or plan.spec is not None or plan.fleet or call.special or call.early:
        return None
    tickets = [_kept(mover, ticket) for mover, ticket in call.tickets or ()]
    return None if None in tickets else {"step": call.step, "tickets": tickets}


def resumed_call(engine: Engine, tool: str, args: Mapping[str, Any], kept: Mapping[str, Any]) -> Reservation:
    """
    Go on with a call that was kept, in a session that was restored from the snapshot beside it.

    Raises:
        ValueError: It does not fit the contracts of the session.
    """
    plan = engine.store.book.plan(tool)
    call = Reservation(engine, plan.tool, plain_args(args), plan)
    call.step = int(kept["step"])
    if plan.asked:
        call.extra = plan.ask(call.args)
    pairs = zip(call.movers(), kept["tickets"], strict=True)
    call.tickets = [(mover, _taken_up(mover, *ticket)) for mover, ticket in pairs] or None
    call.under_way = engine.store.under_way
    call.under_way[call.step] = None
    return call


def _kept(mover: Mover, ticket: Any) -> list[Any] | None:
    """Give a ticket as data, after the key that it is of."""
    if type(mover) is not KeyedMover:
        return [None, freeze(ticket, exact=True)] if mover.settles_by_ticket else None
    if ticket is None:
        return [None, None]
    key, _, within, inner = ticket
    return [key, freeze(inner, exact=True)] if within.settles_by_ticket else None


def _taken_up(mover: Mover, key: str | None, ticket: Any) -> Any:
    given = _as_given(thawed(ticket))
    return given if key is None or not isinstance(mover, KeyedMover) else mover.take_up(key, given)


def _as_given(ticket: Any) -> Any:
    """Give the tuples that JSON has made lists of."""
    return tuple(map(_as_given, ticket)) if isinstance(ticket, list) else ticket
