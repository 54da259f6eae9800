"""
An answer of the store of a fleet, as a step of a journal holds it, and the decision that follows from it.

Nobody can ask the store again what it said. What can be told is whether the question follows from the rules
and the call, whether the numbers in the answer break the guards that it names, and whether the call was let
through or refused as that demands. The numbers themselves are the store's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ....fleet.answers import BrokenGuard, Lease, Reserved
from ....fleet.plan import FleetCell, FleetGuard, FleetPlan
from ...contracts.base import TemporalContract
from ...memory.guard import Breach, blocked_by
from ..plan.planned_call import PlannedCall
from .fleet_question import FleetQuestion

_NOTHING = asdict(BrokenGuard(guard=0))


def answer_form(call: PlannedCall, places: Mapping[int, int]) -> dict[str, Any]:
    """
    Give what the store answered as data; nothing where it was decided without asking.

    Args:
        call: The call, with its question.
        places: Where the contracts stand in the rules of the journal, by their identity.
    """
    answer = call.answer
    if answer is None:
        return {}
    if isinstance(answer, str):
        return {"answer": {"unavailable": answer}}
    if isinstance(answer, Lease):
        return {"answer": {"held": answer.id}}
    form: dict[str, Any] = {"now": answer.now, "generation": answer.generation}
    if answer.lease is not None:
        form["lease"] = answer.lease.id
        if answer.lease.local:
            form["local"] = True
    if answer.broken:
        form["broken"] = [_broken_form(call.question, broken, places) for broken in answer.broken]
    return {"answer": form}


@dataclass(frozen=True, slots=True)
class FollowedAnswer:
    """
    Say what follows from an answer.

    Attributes:
        allowed: Whether the call may run.
        breaches: What it breaks.
        rests_on_code: Whether a contract that cannot be built again has a part in it.
    """

    allowed: bool
    breaches: list[Breach]
    rests_on_code: bool = False


@dataclass(slots=True)
class AnsweredPlan:
    """
    Hold an answer with the question that it is of, and how the call ended.

    Attributes:
        number: Position of the step in the log.
        plan: What was asked.
        form: The answer as `answer_form` gave it.
        places: The guards of the plan that the answer names, in its order.
        how: How the call ended; None if the log does not say.
        ended: Position of the step that says it.
        altered: Whether something else ran, or was measured, than was asked for.
    """

    number: int
    plan: FleetPlan
    form: Mapping[str, Any]
    places: Sequence[int]
    how: str | None = None
    ended: int = 0
    altered: bool = False

    def broken(self) -> Iterator[tuple[Mapping[str, Any], FleetGuard]]:
        """Give the numbers of the answer with the guards that they are about."""
        for place, form in zip(self.places, self.form.get("broken", ()), strict=False):
            yield form, self.plan.guards[place]


def answered(
    number: int,
    question: FleetQuestion,
    form: Mapping[str, Any],
    contracts: Sequence[TemporalContract | None],
) -> AnsweredPlan:
    """Put an answer that was followed beside its question."""
    places = [_place(question, each, contracts) for each in form.get("broken", ())]
    known = [place for place in places if place is not None]
    return AnsweredPlan(number, question.plan, form, known if len(known) == len(places) else ())


def follow_answer(
    question: FleetQuestion, form: Mapping[str, Any] | None, contracts: Sequence[TemporalContract | None]
) -> FollowedAnswer:
    """
    Derive a decision from the question that the rules ask, and the answer that is recorded.

    Args:
        question: The question, built again.
        form: The answer as `answer_form` gave it; None if it was decided without asking.
        contracts: The contracts of the journal, in its order; None for those that are code.

    Raises:
        ValueError: It is no answer to this question.
    """
    if question.stops():
        if form is not None:
            raise ValueError("the store was asked about a call that is decided without it")
        return FollowedAnswer(False, question.broken)
    if form is None:
        raise ValueError("the store was not asked")
    if "unavailable" in form:
        breaches = question.unanswered(str(form["unavailable"]), None)
        return FollowedAnswer(not blocked_by(breaches), breaches)
    if "held" in form:
        return FollowedAnswer(True, question.broken)
    recorded = form.get("broken", ())
    # A contract is called by its text where it had been replaced when the answer came.
    kept = [each for each in recorded if isinstance(each["of"], int) and contracts[each["of"]] is not None]
    on_code = len(kept) < len(recorded)
    broken = tuple(_really_broken(question, kept, contracts))
    guards = [question.asked[each.guard][2] for each in broken]
    granted = "lease" in form and not any(guard.enforced for guard in guards)
    answer = Reserved(lease=None, broken=broken, now=form["now"])
    return FollowedAnswer(granted, question.breaches(answer), on_code)


def _broken_form(question: FleetQuestion, broken: BrokenGuard, places: Mapping[int, int]) -> dict[str, Any]:
    # The order of guards is that of the rules as they were given, and a journal has another. So each is named
    # by its contract, and its place among the guards of that.
    contract = question.asked[broken.guard][0]
    nth = sum(each is contract for each, _, _ in question.asked[: broken.guard])
    told = {name: value for name, value in asdict(broken).items() if value != _NOTHING[name]}
    told.pop("guard", None)
    return {"of": places.get(id(contract), contract.spec), "nth": nth, **told}


def _really_broken(
    question: FleetQuestion,
    recorded: Sequence[Mapping[str, Any]],
    contracts: Sequence[TemporalContract | None],
) -> Iterator[BrokenGuard]:
    """Give the guards that the numbers of an answer break."""
    cells = tuple(question.cells.values())
    for form in recorded:
        place = _place(question, form, contracts)
        if place is None:
            raise ValueError("the store answered about a guard that was not asked")
        told = {name: value for name, value in form.items() if name not in ("of", "nth")}
        broken = replace(BrokenGuard(guard=place), **told)
        guard = question.asked[broken.guard][2]
        if _breaks(guard, cells[guard.cell], broken):
            yield broken


def _place(
    question: FleetQuestion, form: Mapping[str, Any], contracts: Sequence[TemporalContract | None]
) -> int | None:
    """Find the guard that an answer is about among those that were asked."""
    contract = contracts[form["of"]] if isinstance(form["of"], int) else None
    own = [place for place, asked in enumerate(question.asked) if asked[0] is contract]
    return own[form["nth"]] if form["nth"] < len(own) else None


def _breaks(guard: FleetGuard, cell: FleetCell, broken: BrokenGuard) -> bool:
    """Tell whether the numbers of a cell break a guard, as the store has to judge it."""
    count = broken.live if cell.within is None else broken.total
    match guard.kind:
        case "need":
            if cell.within is None:
                return broken.done < guard.n
            # When a single success was over depends on the cell's own time, which is not told.
            return guard.n == 1 or broken.total < guard.n
        case "ban":
            return count > 0
        case "cap":
            return count >= guard.n
        case "token":
            return broken.total < 1
        case "spend":
            spent = 0 if guard.amount is None else guard.amount
            over = broken.total >= guard.n if guard.amount is None else broken.total + spent > guard.n
            return broken.unread or over
        case "distinct":
            known = broken.known or 0
            # Which of the values are new is not told.
            over = known >= guard.n if guard.values is None else known + len(set(guard.values)) > guard.n
            return broken.unread or over
