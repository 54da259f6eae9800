"""
Calls under way, kept beside a snapshot by whoever goes on with the very same session.

A snapshot takes a call under way for one whose end nobody knows. Memory has it as it was reserved, and a
ticket is all that memory needs to settle it, so with its tickets such a call is settled after a restore as it
would have been before. That is so for counts, windows and totals. What else remembers may hold more of a call
than can be written down: such a call is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ..._plain.arguments import plain_args
from ..._plain.freezing import freeze, thawed
from ..memory.tally import Tally
from ..memory.total import Sum
from ..memory.window import Marks, Stamps
from ..reservation import Reservation

if TYPE_CHECKING:
    from .engine import Engine

_KEPT: Final = (Tally, Stamps, Marks, Sum)


def kept_call(call: Reservation) -> dict[str, Any] | None:
    """Give what is needed to settle a call under way after a restore; None where that cannot be given."""
    plan = call.plan
    conditional = any(entry.contract.is_asked_when for entry, _ in plan.asked)
    if conditional or plan.spec is not None or plan.fleet or call.special or call.early:
        return None
    tickets = call.tickets or ()
    if any(type(mover) not in _KEPT for mover, _ in tickets):
        return None
    return {"step": call.step, "tickets": [freeze(ticket, exact=True) for _, ticket in tickets]}


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
    tickets = [_as_given(thawed(ticket)) for ticket in kept["tickets"]]
    call.tickets = list(zip(call.movers(), tickets, strict=True)) or None
    with engine.store.lock:
        engine.store.flying += 1
    return call


def _as_given(ticket: Any) -> Any:
    """Give the tuples that JSON has made lists of."""
    return tuple(map(_as_given, ticket)) if isinstance(ticket, list) else ticket
