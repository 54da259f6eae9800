"""Keep the memory of a session in a shared store, or find out why it cannot be kept there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ....fleet.errors import SessionMemoryError
from ...contracts.base import TemporalContract
from ...memory.state import StateStore
from ..call.session_gate import SessionGate
from ..engine import Engine
from ..plan.rule_set import RuleSet, SharedRules, shared_rules
from ..record.trace import Trace
from ..snapshot.snapshot import SnapshotError
from ..store.session_store import SessionStore

if TYPE_CHECKING:
    from .session_pieces import SessionPieces

_checked: WeakSet[RuleSet] = WeakSet()


def keep_in_store(engine: Engine, fleet: object, session_id: str | None, idle_seconds: float) -> None:
    """
    Keep the memory of a session in a store from its first call on.

    Raises:
        ValueError: There is no store, or no name; a contract has code of its own; or the state is no JSON.
    """
    make = getattr(fleet, "session", None)
    if make is None:
        raise ValueError("a durable session is kept in a store: give fleet=open_fleet(url)")
    if not session_id:
        raise ValueError("a durable session has a name, by which others find it: give session_id")
    rules = engine.store.book.rules
    pieces = _pieces(engine.store, engine.rows, engine.state, checked=rules in _checked)
    if isinstance(rules, SharedRules):
        # Sessions of one governance have the same: what is true of them need not be looked at for each.
        _checked.add(rules)
    session = make(session_id, pieces, idle_seconds=idle_seconds)
    gate = SessionGate(session, pieces, engine.records.count_outage)
    engine.state.admit(gate.admit)
    engine.keep_in(gate)


def check_durable(contracts: tuple[TemporalContract, ...], state: Mapping[str, Any]) -> None:
    """
    Accept contracts and the initial state of sessions that are to be durable.

    Raises:
        ValueError: A contract has code of its own, or the state is no JSON.
    """
    initial = StateStore(state)
    _pieces(SessionStore(shared_rules(contracts), initial), Trace(), initial)


def _pieces(store: SessionStore, rows: Trace, state: StateStore, *, checked: bool = False) -> SessionPieces:
    # Loaded where a session is durable: a hook is a process for each call, and no session of one is.
    from .session_pieces import SessionPieces

    try:
        return SessionPieces(store, rows, state, checked=checked)
    except (SnapshotError, SessionMemoryError) as error:
        raise ValueError(f"what it would remember cannot be kept: {error}") from error


def kept_of(engine: Engine) -> SessionGate:
    """
    Give the way to the store that keeps the memory of a session.

    Raises:
        ValueError: It is in this process alone.
    """
    if engine.kept is None:
        raise ValueError("the session is not durable")
    return engine.kept
