"""
Tell how the contracts of a session stand, value by value of their keys.

What is told is what the guards would compare a call with. It is for people to look at: whether one particular
call would be refused is what `SessionStore.would` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...._plain.amounts import add, show, subtract
from ...contracts.base import SessionRule, TemporalContract
from ...contracts.declaration import Declaration
from ...memory.call import JudgedCall
from ...memory.distinct import Differ
from ...memory.guard import CellGuard, LiveGuard
from ...memory.keyed import Keyed, Room
from ...memory.owed import Overdue, Settled
from ...memory.tally import Ban, Cap, Need
from ...memory.tokens import HasToken
from ...memory.total import Spend
from ..plan.planned_call import PlannedCall
from .session_store import SessionStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """
    Tell the standing of a contract for one value of its key.

    Attributes:
        contract: The contract.
        key: The value, as it is told apart; None for a contract without a key, and for all other values.
        others: Whether it is about all values that were not seen yet.
        used: What is used of the limit, as text; None where there is no limit.
        limit: The limit, as text.
        left: What is left of it.
        share: Which part of the limit is used, from 0 to 1.
        needs: What has to happen before a call is let through; None if nothing does.
        owed: How many calls wait for an answer that has to come.
        refuses: Whether every call is refused that it guards.
        retry_after: Seconds until one is not refused any more, if time is all it takes.
    """

    contract: TemporalContract
    key: str | None = None
    others: bool = False
    used: str | None = None
    limit: str | None = None
    left: str | None = None
    share: float = 0.0
    needs: str | None = None
    owed: int = 0
    refuses: bool = False
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStanding:
    """
    Tell how a contract in the memory of a session stands for one call.

    Attributes:
        standing: How it stands, for the value of the key that the call has.
        takes: What the call takes of the limit, as text; None where there is no limit, or where it is
            measured only after the call.
        after: What is used when the call has run; None where there is no limit.
        left: What is left of the limit then.
        met: What has to happen before such a call, and has.
        period: In words, which period is counted; empty for all of the session.
        anew_at: When that begins anew, in seconds; None for what does not.
    """

    standing: Standing
    takes: str | None = None
    after: str | None = None
    left: str | None = None
    met: str | None = None
    period: str = ""
    anew_at: float | None = None


def standings_for(store: SessionStore, call: PlannedCall, *, counted: bool) -> list[CallStanding]:
    """
    List how the contracts stand that are about a call. Nothing moves.

    Args:
        call: The call.
        counted: Whether it is under way, so that what it takes is counted already.
    """
    store.unmet()  # its clocks go on to now
    if call.extra is None and call.plan.asked:
        call.extra = call.plan.ask(call.args)
    with store.lock:
        if call.extra is not None and call.extra.open:
            # Conditions that say when a contract is asked read what moves under the lock.
            call.plan.decide(call, call.extra)
        guards = [*call.plan.guards, *(() if call.extra is None else call.extra.guards)]
        return [_for_call(guard, call, counted) for guard in guards if _is_told(guard, call)]


def _is_told(guard: LiveGuard, call: PlannedCall) -> bool:
    if isinstance(guard.contract, SessionRule) or isinstance(guard, Room):
        return False
    return not isinstance(guard, CellGuard) or guard.cell.at(call) is not None


def _for_call(guard: LiveGuard, call: PlannedCall, counted: bool) -> CallStanding:
    if not isinstance(guard, CellGuard):
        contract: Any = guard.contract
        return CallStanding(standing=Standing(contract=contract, refuses=not guard.passes(call)))
    cell, n = guard.cell.at(call), guard.guard.n
    split = getattr(guard.contract, "split", None)
    key = None if split is None else call.key(split)
    standing = _standing(guard, cell, str(key) if key else None, others=False)
    renewal = guard.cell.renewal()
    found = CallStanding(
        standing=standing,
        met=None if standing.refuses else guard.guard.needs,
        period="" if renewal is None else renewal.this,
        anew_at=None if renewal is None else renewal.at,
    )
    takes: Any = cell.amount(call) if isinstance(guard, Spend) else 1 if isinstance(guard, Cap) else None
    if standing.limit is None or takes is None or isinstance(takes, ValueError):
        return found
    used = cell.spent() if isinstance(guard, Spend) else cell.started()
    before = subtract(used, takes) if counted else used
    after = used if counted else add(used, takes)
    return replace(
        found,
        standing=replace(standing, used=show(before)),
        takes=show(takes),
        after=show(after),
        left=show(max(subtract(n, after), 0)),
    )


def standings(store: SessionStore) -> list[Standing]:
    """List how each contract of a session stands now. Nothing moves."""
    store.unmet()  # its clocks go on to now
    with store.lock:
        return [one for contract in store.contracts for one in _of(store, contract)]


def _of(store: SessionStore, contract: TemporalContract) -> Iterator[Standing]:
    if not isinstance(contract, Declaration):
        yield Standing(contract=contract)
        return
    bound = store.book.bound_to(contract)
    every: list[LiveGuard] = [guard for rule in bound.every_rule() for guard in rule.guards]
    guards: dict[tuple[Any, ...], LiveGuard] = {}
    for guard in (*every, *bound.at_end()):
        if not isinstance(guard, Room):
            guards.setdefault((type(guard), id(getattr(guard, "cell", guard)), guard.guard.n), guard)
    if not guards:
        yield Standing(contract=contract)
    for guard in guards.values():
        yield from _by_value(guard)


def _by_value(guard: LiveGuard) -> Iterator[Standing]:
    if not isinstance(guard, CellGuard):
        yield Standing(contract=guard.contract, needs=guard.guard.needs)  # type: ignore[arg-type]
        return
    cells: Iterable[tuple[str | None, Any]] = guard.cell.each()
    for key, cell in cells:
        yield _standing(guard, cell, key, others=False)
    if isinstance(guard.cell, Keyed) and not isinstance(guard, Settled | Overdue):
        yield _standing(guard, guard.cell.blank, None, others=True)


def _standing(guard: CellGuard, cell: Any, key: str | None, *, others: bool) -> Standing:
    contract: Any = guard.contract
    n = guard.guard.n
    match guard:
        case Spend():
            used = cell.spent()
            return _limited(contract, key, others, used, n, full=used >= n or cell.unread is not None)
        case Cap():
            used = cell.started()
            free = cell.free_at(int(n)) if used >= n and n else None
            return _limited(contract, key, others, used, n, full=used >= n, wait=_until(cell, free))
        case Differ():
            used = len(cell.known())
            return _limited(contract, key, others, used, n, full=False)
        case Need():
            met = cell.succeeded() >= n
        case HasToken():
            met = bool(cell.left())
        case Ban():
            banned = bool(cell.started())
            wait = _until(cell, cell.free_at(1) if banned else None)
            return Standing(contract=contract, key=key, others=others, refuses=banned, retry_after=wait)
        case Settled() | Overdue():
            return Standing(contract=contract, key=key, others=others, owed=len(cell.owed()))
        case _:
            met = guard.holds(cell, JudgedCall("", {}))
    needs = None if met else guard.guard.needs
    return Standing(contract=contract, key=key, others=others, needs=needs, refuses=not met)


def _limited(
    contract: Any, key: str | None, others: bool, used: Any, n: Any, *, full: bool, wait: float | None = None
) -> Standing:
    left = subtract(n, used)
    return Standing(
        contract=contract,
        key=key,
        others=others,
        used=show(used),
        limit=show(n),
        left=show(max(left, 0)),
        share=min(1.0, float(used) / float(n)) if n else 1.0,
        refuses=full,
        retry_after=wait,
    )


def _until(cell: Any, moment: float | None) -> float | None:
    if moment is None or cell.timeline is None:
        return None
    return max(0.0, float(moment - cell.timeline.now))
