"""
The question that one call puts to a shared store: its contracts of the fleet, as cells, guards and moves.

What cannot be evaluated - a key that is missing, an amount that is none - is decided here, and never gets to
the store. What the store answers is put into the words of the contracts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from ...._plain.amounts import read_amount, show
from ....fleet.amounts import from_units, to_units
from ....fleet.answers import BrokenGuard, Lease, Measured, Reserved
from ....fleet.errors import UnitsError
from ....fleet.plan import FleetCell, FleetGuard, FleetMove, FleetPlan
from ...contracts.declaration import Declaration
from ...contracts.rules import Cell, Guard, Move
from ...events import RUN_ENDED
from ...match.paths import FieldError
from ...match.selector import Hit, ask
from ...memory.distinct import Distinct
from ...memory.guard import Breach, blocked_by, tell_renewal
from ...memory.periodic import renewal_at
from ...memory.total import Sum
from ..plan.outline import FiledContract
from ..plan.planned_call import PlannedCall

SECOND = 1_000_000


class _Undecided(Exception):
    """A guard or a move cannot be evaluated. It says why."""


@dataclass(slots=True)
class FleetQuestion:
    """
    Hold what a call asks of the store, and whose question each guard is.

    Attributes:
        contracts: The contracts of the fleet that are about the call.
        cells: Each cell once, with its key.
        asked: The guards, each with its contract.
        moves: The moves, each once for its cell.
        broken: What is broken before anybody is asked.
        watching: Whether nothing of it refuses.
        again: Whether only contracts count that want to look again at a call that waited.
        at_end: Whether the run has ended, and nobody waits for the store: it is only told.
    """

    contracts: list[Declaration] = field(default_factory=list)
    cells: dict[tuple[Cell, str], FleetCell] = field(default_factory=dict)
    asked: list[tuple[Declaration, Guard, FleetGuard]] = field(default_factory=list)
    moves: dict[tuple[int, str], tuple[Cell, FleetMove]] = field(default_factory=dict)
    broken: list[Breach] = field(default_factory=list)
    watching: bool = False
    again: bool = False
    at_end: bool = False

    @property
    def is_asked(self) -> bool:
        """Tell whether the store is asked."""
        return bool(self.contracts) and not self.at_end

    @property
    def plan(self) -> FleetPlan:
        """Give the plan for the store."""
        return FleetPlan(
            cells=tuple(self.cells.values()),
            guards=tuple(guard for _, _, guard in self.asked),
            moves=tuple(move for _, move in self.moves.values()),
        )

    def stops(self) -> bool:
        """
        Tell whether the store is not asked, because something is broken already.

        Of a call that is only watched, it is asked about what is left: other contracts count it.
        """
        has_more = self.watching and (self.asked or self.moves)
        return not has_more and blocked_by(self.broken)

    def breaches(self, answer: Reserved) -> list[Breach]:
        """Put what the store answered into words, each contract once."""
        found = {id(breach.contract): breach for breach in self.broken}
        for broken in answer.broken:
            contract, guard, asked = self.asked[broken.guard]
            breach = _told(contract, guard, tuple(self.cells)[asked.cell][0], broken, answer.now)
            found.setdefault(id(contract), breach)
        return [breach for breach in found.values() if breach.contract.recheck or not self.again]

    def unanswered(self, why: str, retry_after: float | None) -> list[Breach]:
        """Say of every contract that nobody could be asked."""
        return [Breach(contract=contract, fault=why, retry_after=retry_after) for contract in self.contracts]

    def measured(self, call: PlannedCall, ran: FleetQuestion | None) -> Measured:
        """Say what was known only after the call, or what ran instead of what was judged."""
        told: dict[int, int | tuple[str, ...]] = {}
        for place, (cell, move) in enumerate(self.moves.values()):
            value = _value_measured(cell, call)
            if value is None and ran is not None and cell.kind in ("sum", "distinct"):
                other = list(ran.moves.values())[place][1]
                value = other.values if cell.kind == "distinct" else other.amount
                value = None if value in (move.amount, move.values) else value
            if value is not None:
                told[place] = value
        return told

    def is_held_by(self, lease: Lease) -> bool:
        """Tell whether a lease that was reserved before is about the same cells."""
        # Imported here: a session without a store does without what a store needs.
        from ....fleet.wire import cell_id

        return lease.cells == tuple(cell_id(cell) for cell in self.cells.values())

    def is_same(self, other: FleetQuestion) -> bool:
        """Tell whether it changes the same cells, by other amounts perhaps."""
        return list(self.cells.values()) == list(other.cells.values()) and list(self.moves) == list(
            other.moves
        )


def question_of(call: PlannedCall, *, watching: bool, again: bool = False) -> FleetQuestion:
    """
    Make the question of a call.

    Args:
        call: The call, whose plan has contracts of the fleet.
        watching: Whether nothing of it refuses.
        again: Whether only contracts refuse that want to look at it again.
    """
    question = FleetQuestion(watching=watching, again=again, at_end=call.tool == RUN_ENDED)
    for filed, settled, fault in _settled(call):
        contract = filed.contract
        rule = filed.rule(settled)
        if not rule.guards and not rule.moves:
            continue
        question.contracts.append(contract)
        enforced = not watching and contract.mode == "enforce" and (contract.recheck or not again)
        try:
            guards = [(guard, _guard(question, contract, guard, call, enforced)) for guard in rule.guards]
            moves = [made for move in rule.moves if (made := _move(question, contract, move, call))]
        except _Undecided as error:
            broken = Breach(contract=contract, fault=fault or str(error), stops=not question.at_end)
            question.broken.append(broken)
            continue
        for guard, made_guard in guards:
            if made_guard is None:
                question.broken.append(Breach(contract=contract, needs=guard.needs, fault=fault))
            else:
                question.asked.append((contract, guard, made_guard))
        for cell, made_move in moves:
            _add_move(question, cell, made_move)
    return question


def _settled(call: PlannedCall) -> Iterator[tuple[FiledContract, tuple[bool, ...], str | None]]:
    """Find out which roles of each contract the call has, and what of that could not be told."""
    for filed, hits in call.plan.fleet:
        fault: str | None = None
        settled = []
        for role, hit in zip(filed.contract.roles, hits, strict=True):
            answer = _answer(hit, call.args)
            if isinstance(answer, str):
                fault, answer = answer, role.strict
            settled.append(answer)
        if any(settled):
            yield filed, tuple(settled), fault


def _answer(hit: Hit, args: dict[str, Any]) -> bool | str:
    return hit if isinstance(hit, bool) else ask(hit, args)


def _cell(question: FleetQuestion, cell: Cell, call: PlannedCall) -> int:
    key = "" if cell.key is None else call.key(cell.key)
    if isinstance(key, FieldError):
        raise _Undecided(str(key))
    known = question.cells
    if (cell, key) not in known:
        known[cell, key] = FleetCell(
            kind=cell.kind,  # type: ignore[arg-type]  # only contracts of these kinds are let in
            name=cell.fleet_name(),
            key=key,
            within=None if cell.within is None else int(cell.within * SECOND),
            per=cell.per,
            tz=cell.tz,
            scale=cell.scale,
        )
    return list(known).index((cell, key))


def _guard(
    question: FleetQuestion, contract: Declaration, guard: Guard, call: PlannedCall, enforced: bool
) -> FleetGuard | None:
    """Make a guard; None for one that holds for no call."""
    if guard.kind == "never" or guard.cell is None:
        return None
    cell = guard.cell
    made = FleetGuard(
        kind=guard.kind,  # type: ignore[arg-type]  # only contracts of these kinds are let in
        cell=_cell(question, cell, call),
        n=int(guard.n) if guard.kind != "spend" else to_units(Decimal(guard.n), cell.scale),
        enforced=enforced,
    )
    if guard.kind == "spend":
        return replace(made, amount=_units(contract, cell, call))
    if guard.kind == "distinct":
        return replace(made, values=_values(cell, call))
    return made


def _move(
    question: FleetQuestion, contract: Declaration, move: Move, call: PlannedCall
) -> tuple[Cell, FleetMove] | None:
    """Make a move; None where all that is lost is a prerequisite, which then does not count."""
    cell = move.cell
    try:
        place = _cell(question, cell, call)
    except _Undecided:
        if move.strict:
            raise
        return None
    made = FleetMove(cell=place, refund=cell.refund)
    if cell.kind == "tokens":
        return cell, replace(made, kind="give" if move.role == "give" else "take", once=not cell.saving)
    if cell.kind == "sum":
        amount = _units(contract, cell, call)
        return cell, replace(made, amount=amount, deferred=amount is None)
    if cell.kind == "distinct":
        values = _values(cell, call)
        return cell, replace(made, values=values, deferred=values is None)
    return cell, made


def _add_move(question: FleetQuestion, cell: Cell, move: FleetMove) -> None:
    limits = [guard.n for _, _, guard in question.asked if (guard.cell, guard.kind) == (move.cell, "spend")]
    # A cell that several contracts look at is moved once.
    question.moves[move.cell, move.kind] = cell, replace(move, limit=min(limits, default=None))


def _units(contract: Declaration, cell: Cell, call: PlannedCall) -> int | None:
    """Read the units of a call; None where they are measured after it."""
    reader = Sum(cell.field or "", text=cell.text, negative=cell.negative, estimate=cell.estimate)
    if reader.is_deferred(call):
        estimate = reader.estimate(call)
        if not estimate and not contract.reach.overshoot:
            raise _Undecided(
                f"{cell.field} is known only after the call: give the contract estimate= or overshoot=True"
            )
        amount: Any = estimate or None
    else:
        amount = reader.amount(call)
    if isinstance(amount, ValueError):
        raise _Undecided(str(amount))
    try:
        return None if amount is None else to_units(Decimal(amount), cell.scale)
    except UnitsError:
        # Its own message has the amount in it, which no refusal has.
        raise _Undecided(f"{cell.field} is too large, or has more than {cell.scale} decimals") from None


def _values(cell: Cell, call: PlannedCall) -> tuple[str, ...] | None:
    reader = Distinct(cell.field or "", fold=cell.fold)
    if reader.is_deferred(call):
        return None
    values = reader.values(call)
    if isinstance(values, FieldError):
        raise _Undecided(str(values))
    return tuple(values)


def _value_measured(cell: Cell, call: PlannedCall) -> int | tuple[str, ...] | None:
    measured, name = call.measured or {}, cell.field or ""
    if name not in measured:
        return None
    if cell.kind == "sum":
        try:
            amount = read_amount(measured[name], text=cell.text, negative=cell.negative)
            return to_units(Decimal(amount), cell.scale)
        except ValueError:
            # fail-closed: what is not told was not measured, and the cell refuses from then on.
            return None
    if cell.kind == "distinct":
        values = Distinct(name, fold=cell.fold).read(measured)
        return None if isinstance(values, FieldError) else tuple(values)
    return None


def _told(contract: Declaration, guard: Guard, cell: Cell, broken: BrokenGuard, now: int) -> Breach:
    breach = Breach(contract=contract, needs=guard.needs)
    if guard.kind == "spend":
        left = max(0, to_units(Decimal(guard.n), cell.scale) - broken.total)
        breach.remaining = f"{show(from_units(left, cell.scale))} left of {show(guard.n)}"
        if broken.unread:
            breach.fault = f"{cell.field} was not measured"
    elif guard.kind == "cap":
        breach.remaining = f"0 left of {guard.n}"
    elif guard.kind == "distinct":
        breach.remaining = f"{max(0, int(guard.n) - (broken.known or 0))} left of {guard.n}"
    if broken.free_at is not None and breach.fault is None:
        breach.retry_after = max(0.0, (broken.free_at - now) / SECOND)
    if cell.per is not None and broken.period_end is not None and guard.kind not in ("need", "token"):
        tell_renewal(breach, renewal_at(cell.per, cell.tz, broken.period_end / SECOND))
    return breach
