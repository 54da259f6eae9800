"""Tell what the contracts of a plan read of a call, for records that do not hold all of it."""

from __future__ import annotations

from ...condition.condition import Condition
from ...contracts.rules import Cell, Guard
from ...events import USER_PROMPT
from ...memory.guard import CellGuard, LiveGuard
from ...memory.keyed import Room
from .tool_plan import Plan


def contracts_guarding(plan: Plan) -> frozenset[int]:
    """Find the contracts, by identity, that may object to a call of the tool."""
    found = {id(guard.contract) for guard in plan.guards}
    return frozenset(found | {id(entry.contract) for entry, _ in plan.asked})


def contracts_reading(
    plan: Plan,
    *,
    arguments: bool,
    times: bool,
    results: bool,
    prompts: bool,
    subject: bool,
    memory: bool,
    state: bool,
) -> frozenset[int]:
    """
    Find the contracts, by identity, that cannot be judged without something about the call.

    Args:
        arguments: The call's arguments are not known.
        times: Nobody knows when it was.
        results: What earlier calls returned is not known.
        prompts: What the user asked is not known.
        subject: Whom the call is about is not known.
        memory: What the session remembers is not known.
        state: What its state holds is not known.
    """
    found = {id(entry.contract) for entry, _ in plan.asked} if arguments else set()
    guards = [*plan.guards, *(g for entry, _ in plan.asked for r in entry.every_rule() for g in r.guards)]
    for guard in guards:
        clocked = guard.clocked()
        if (
            (arguments and _reads_arguments(guard))
            or (times and clocked is not None and clocked.timeline is not None)
            or (results and _reads_results(guard))
            or (prompts and any(USER_PROMPT in source.label for source in guard.guard.sources))
            or (subject and _reads_subject(guard))
            or (memory and _remembers(guard.guard))
            or (state and guard.guard.kind == "state")
        ):
            found.add(id(guard.contract))
    for entry, _ in plan.asked:
        when = entry.when
        if when is not None and (
            (times and when.timeline is not None)
            or (results and bool(when.condition.facts))
            or (subject and when.condition.reads.subject)
            or (memory and _reads_memory(when.condition))
        ):
            found.add(id(entry.contract))
    return frozenset(found)


def _reads_arguments(guard: LiveGuard) -> bool:
    cell, condition = guard.guard.cell, guard.guard.condition
    keyed = cell is not None and reads_arguments(cell)
    asks = condition is not None and (condition.reads.args is None or bool(condition.reads.args))
    roomy = isinstance(guard, Room) and guard.key is not None and guard.key.reads_arguments
    return keyed or asks or roomy or guard.guard.field is not None


def reads_arguments(cell: Cell) -> bool:
    """Tell whether it matters to a cell what stands in the arguments of a call that it is about."""
    return cell.field is not None or (cell.key is not None and cell.key.reads_arguments)


def _reads_subject(guard: LiveGuard) -> bool:
    cell, condition = guard.guard.cell, guard.guard.condition
    keyed = cell is not None and cell.key is not None and cell.key.reads_subject
    roomy = isinstance(guard, Room) and guard.key is not None and guard.key.reads_subject
    return keyed or roomy or (condition is not None and condition.reads.subject)


def _remembers(guard: Guard) -> bool:
    is_dated = guard.kind == "state" and guard.within is not None
    reads = guard.condition is not None and _reads_memory(guard.condition)
    return guard.cell is not None or is_dated or reads


def _reads_memory(condition: Condition) -> bool:
    return bool(condition.reads.facts or condition.reads.tools)


def _reads_results(guard: LiveGuard) -> bool:
    condition = guard.guard.condition
    learns = isinstance(guard, CellGuard) and guard.cell.learns is not None
    return learns or bool(guard.guard.sources) or (condition is not None and bool(condition.reads.facts))
