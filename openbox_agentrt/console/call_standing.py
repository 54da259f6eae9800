"""
Show how a call that waits stands with its contracts, and what it leaves of their limits.

It is read from the session that its evidence tells of, where the call is under way and so counted already,
and from the store of the fleet. Where one of the two is not there, that is said: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .._plain.amounts import show, subtract
from .._plain.arguments import plain_args
from ..acel.contracts.base import TemporalContract
from ..acel.engine.fleet.fleet_question import FleetQuestion, question_of
from ..acel.engine.plan.planned_call import PlannedCall
from ..acel.engine.store.standing import CallStanding, standings_for
from ..acel.match.names import normal_name
from ..fleet.amounts import from_units
from ..fleet.periods import PRESENT
from ..fleet.wire import cell_id
from ..local_core.approvals import Approval
from . import values, words
from .sessions import KnownSession, LiveSessions, tells_apart
from .sources import Sources

_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractLine:
    """
    Tell how one contract stands for a call.

    Attributes:
        name: Its id, or its kind.
        says: How it stands.
        leaves: What is left when the call has run; empty where nothing is used up.
        unknown: Whether it is not known here.
        refuses: Whether it does not let the call through.
    """

    name: str
    says: str
    leaves: str = ""
    unknown: bool = False
    refuses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingOfCall:
    """
    Tell how the contracts stand that concern a call.

    Attributes:
        problem: Why nothing is known; empty if something is.
        says: What they say of it, in a sentence.
        allowed: Whether they let it through.
        lines: Each of them.
    """

    problem: str = ""
    says: str = ""
    allowed: bool = True
    lines: tuple[ContractLine, ...] = ()


def standing_of(sources: Sources, sessions: LiveSessions, approval: Approval) -> StandingOfCall:
    """Say how the contracts stand that concern a call which waits for a person."""
    if not sources.logs:
        return StandingOfCall(problem="no evidence is followed here: --evidence FILE names it")
    names = {str(approval.event.get("session_id") or ""), approval.run_id, approval.workflow_id} - {""}
    known = sessions.named(names)
    if known is None or not _is_there(known, approval):
        # It was asked a moment ago, perhaps, and its steps were not read yet.
        sources.refresh()
        known = sessions.named(names)
    if known is None:
        problem = 'the evidence tells no steps: record="steps" writes them'
        if sessions.tells:
            problem = "the evidence tells of no steps of this session"
        return StandingOfCall(problem=problem)
    if known.store is None:
        return StandingOfCall(problem=f"the steps of this session cannot be followed: {known.problem}")
    return _in_session(sources, known, approval)


def _is_there(known: KnownSession, approval: Approval) -> bool:
    return any(call.tool == normal_name(approval.activity_type) for call in known.under_way)


def _in_session(sources: Sources, known: KnownSession, approval: Approval) -> StandingOfCall:
    assert known.store is not None
    tool, args = approval.activity_type, dict(values.named_values(approval.event))
    if known.under_way:
        with known.recognising:
            _recognise(sources, known, approval)
    call = known.asked.get(approval.id)
    if any(not one.args for one in _unrecognised(known, tool)) and args:
        problem = "another call of this tool is under way, whose arguments the evidence does not tell yet"
        return StandingOfCall(problem=problem)
    counted = call is not None
    refused: tuple[str, ...] = ()
    shut = known.store.shut
    if counted and shut is not None and shut.by_person:
        # It was reserved before that was said, and is refused when it is judged again.
        refused = (shut.says or shut.spec,)
    if call is None:
        call = PlannedCall(normal_name(tool), plain_args(args), known.store.book.plan(tool))
        refusal = known.would(tool, args)
        refused = () if refusal is None else tuple(one.describe() for one in refusal.broken)
    with known.lock:
        found = [_line(sources, known, one) for one in standings_for(known.store, call, counted=counted)]
        found += _of_fleet(sources, known, call, counted=counted)
    refused += tuple(f"{one.name}: {one.says}" for one in found if one.refuses)
    if refused:
        return StandingOfCall(says=f"would refuse it now: {'; '.join(refused)}", allowed=False)
    return StandingOfCall(says=_says(len({one.name for one in found})), lines=tuple(found))


def _recognise(sources: Sources, known: KnownSession, approval: Approval) -> None:
    """
    Find the calls under way that wait for a person, in the order in which they were asked about.

    A governance writes down the arguments of a call when it has ended, so one that waits may have none yet:
    it is counted with those that the person sees.
    """
    session = approval.event.get("session_id")
    pending = sources.reader.pending(sources.now(), limit=_MOST)
    alike = [one for one in pending if one.event.get("session_id") == session]
    for one in sorted(alike, key=lambda one: one.created_at):
        if one.id in known.asked:
            continue
        args = dict(values.named_values(one.event))
        left = _unrecognised(known, one.activity_type)
        found = next((call for call in left if call.args == args), None)
        unseen = next((call for call in left if not call.args), None)
        if found is None and unseen is not None:
            found = known.show_arguments(unseen, args)
        if found is not None:
            known.asked[one.id] = found


def _unrecognised(known: KnownSession, tool: str) -> list[PlannedCall]:
    taken = set(map(id, known.asked.values()))
    return [call for call in known.under_way if call.tool == normal_name(tool) and id(call) not in taken]


def _says(count: int) -> str:
    if count == 0:
        return "none is about this tool"
    if count == 1:
        return "the one about this tool allows it"
    return "both about this tool allow it" if count == 2 else f"all {count} about this tool allow it"


def _line(sources: Sources, known: KnownSession, one: CallStanding) -> ContractLine:
    stands = one.standing
    contract = stands.contract
    name = _name(known, contract)
    if one.after is None:
        return ContractLine(name=name, says=f"{one.met} came before" if one.met else "allows it")
    whose = _whose(sources, contract, stands.key)
    period = one.period or _window(contract)
    says = _used(f"{stands.used} of {stands.limit}", period, whose, f"{one.after}")
    anew = "" if one.anew_at is None else f" until {words.clock(one.anew_at)[:5]} UTC"
    return ContractLine(name=name, says=says, leaves=f"{one.left} of {stands.limit}{whose}{anew}")


def _of_fleet(
    sources: Sources, known: KnownSession, call: PlannedCall, *, counted: bool
) -> Iterator[ContractLine]:
    if not call.plan.fleet:
        return
    question = question_of(call, watching=False)
    for contract in dict.fromkeys(question.contracts):
        yield _shared(sources, known, contract, question, counted=counted)


def _shared(
    sources: Sources,
    known: KnownSession,
    contract: TemporalContract,
    question: FleetQuestion,
    *,
    counted: bool,
) -> ContractLine:
    name = _name(known, contract)
    if sources.fleet is None:
        says = "counts in a store that processes share, which is not known here: --fleet URL names it"
        return ContractLine(name=name, says=says, unknown=True)
    asked = next((guard for one, _, guard in question.asked if one is contract), None)
    if asked is None or asked.kind not in ("spend", "cap"):
        return ContractLine(name=name, says="is asked in the store that processes share")
    cell = list(question.cells.values())[asked.cell]
    stand, problem = sources.fleet.stand(cell_id(cell))
    if problem:
        return ContractLine(name=name, says=problem, unknown=True)
    takes = asked.amount or 0 if asked.kind == "spend" else 1
    used = 0 if stand is None else stand.spent
    before, after = (max(0, used - takes), used) if counted else (used, used + takes)
    shown = [show(from_units(units, cell.scale)) for units in (before, after, asked.n)]
    whose = _whose(sources, contract, cell.key)
    left = show(max(subtract(from_units(asked.n, cell.scale), from_units(after, cell.scale)), 0))
    period = "" if cell.per is None else PRESENT[cell.per]
    says = _used(f"{shown[0]} of {shown[2]}", period, whose, shown[1])
    refuses = after > asked.n and not counted and contract.mode != "shadow"
    return ContractLine(name=name, says=says, leaves=f"{left} of {shown[2]}{whose}", refuses=refuses)


def _name(known: KnownSession, contract: TemporalContract) -> str:
    name = contract.id or known.text_of(contract).partition("(")[0]
    return f"{name} (shadow)" if contract.mode == "shadow" else name


def _window(contract: TemporalContract) -> str:
    within = getattr(contract, "within", None)
    return "" if within is None else f"in {words.left(within)}"


def _whose(sources: Sources, contract: TemporalContract, key: str | None) -> str:
    """Name the value of the key, with a mark in its place if nobody may see it."""
    if not key:
        return ""
    hidden = any(map(sources.redactor.hides, tells_apart(contract)))
    return f" for {sources.redactor.marker(key) if hidden else key}"


def _used(share: str, period: str, whose: str, after: str) -> str:
    return f"{share} used{' ' if period else ''}{period}{whose}, this makes {after}"
