"""
The part of a hook's call that is counted in a store which many processes share.

The process that lets a call through ends before the call does, so what it reserved stands in the log, and
the process after the call finishes it. A call whose end is never reported stays counted, and allows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from openbox_agentrt.acel.session import Session, engine_of
from openbox_agentrt.doors.claude_code.fleet_answers import HeardStore, lease_in, lease_line
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.fleet import FleetError, open_fleet
from openbox_agentrt.fleet.halts import halts_in_force
from openbox_agentrt.fleet.opening import open_halts

if TYPE_CHECKING:
    from openbox_agentrt.acel import Reservation
    from openbox_agentrt.acel.contracts.template import Template
    from openbox_agentrt.doors.claude_code.event import HookEvent
    from openbox_agentrt.fleet import How

SECONDS = 5.0
"""How long a hook waits for the store. Nothing else waits for the hook but the call."""


def reserve_in_fleet(
    contracts: tuple[Template, ...], event: HookEvent, url: str | None, keeper: Any, *, step: int
) -> tuple[Reservation, Mapping[str, Any]]:
    """
    Judge a call by the contracts of the fleet, and reserve it in their store.

    Gives the call, and what the line of it says of the store.

    Args:
        contracts: The contracts.
        event: The call.
        url: The store.
        keeper: Keeps the violations.
        step: Its step in the session.

    Raises:
        HookFault: There is no store, or it cannot be used.
    """
    if url is None:
        raise HookFault(
            "the rules have contracts with scope: fleet, and no store is given", remedy="--fleet URL"
        )
    try:
        store = open_fleet(url, timeout_seconds=SECONDS)
        try:
            heard = HeardStore(store)
            session = Session(contracts=contracts, fleet=heard, session_id=event.session_id, evidence=keeper)
            engine_of(session).store.step = step - 1
            reservation = session.reserve(event.tool, event.args, started=True)
            if reservation.allowed:
                # Its end is for another process to tell.
                reservation.claim()
            leased = {} if reservation.lease is None else {"lease": lease_line(reservation.lease)}
            return reservation, {**leased, **heard.line(reservation.question)}
        finally:
            store.close()
    except FleetError as error:
        raise HookFault(f"the store cannot be used: {error}") from error


def halted_in_fleet(url: str, session_id: str) -> str | None:
    """
    Say why a person has halted a session in every process with a store; None if nobody has.

    Raises:
        HookFault: The store cannot be asked.
    """
    try:
        with closing(open_halts(url, create=True)) as rows:
            halts = halts_in_force(rows)
    except FleetError as error:
        raise HookFault(f"whether the session is halted cannot be known: {error}") from error
    return next((halt.why for halt in halts if (halt.kind, halt.value) == ("session", session_id)), None)


def finish_in_fleet(line: Mapping[str, Any], url: str | None, how: How) -> None:
    """
    Tell the store how a call ended.

    Raises:
        HookFault: It could not be told. The call stays counted, and allows nothing.
    """
    if url is None:
        raise HookFault("the call is reserved in a store, and none is given", remedy="--fleet URL")
    lease = lease_in(line)
    try:
        store = open_fleet(url, timeout_seconds=SECONDS)
        try:
            store.finish(lease, how, soon=False).result(timeout=SECONDS)
        finally:
            store.close()
    except (FleetError, TimeoutError) as error:
        raise HookFault(f"the store was not told how the call ended: {error}") from error
