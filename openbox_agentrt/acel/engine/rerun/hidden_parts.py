"""
Parts of recorded calls that a log hides: redacted, cut to their size, or not written at all.

What rests on them cannot be derived again. Here it is told which contracts that concerns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...contracts.rules import Cell
from ...match.keys import Key
from ...memory.cell import LearnsFrom
from ...memory.guard import LiveGuard
from ...memory.keyed import Keyed, Room
from ..plan.planned_call import PlannedCall

_HIDDEN = "***REDACTED("


def reading_hidden(call: PlannedCall, given: Any, keys: Collection[str]) -> set[int]:
    """
    Find the contracts, by identity, to which it matters what stands in the hidden arguments of a call.

    Args:
        call: The call.
        given: Its arguments as a log shows them.
        keys: The keys of which the log tells what they are.
    """
    asked = {id(entry.contract) for entry, _ in call.plan.asked}
    for guard in call.plan.guards:
        if _hides_of_guard(guard, given, keys):
            asked.add(id(guard.contract))
    return asked


def _hides_of_guard(guard: LiveGuard, given: Any, keys: Collection[str]) -> bool:
    condition, cell, field = guard.guard.condition, guard.guard.cell, guard.guard.field
    if condition is not None and _reads_hidden(condition.reads.args, given):
        return True
    if field is not None and _is_hidden_at(given, field):
        # What stands there is compared with what calls have found out, and no marker is.
        return True
    if cell is not None:
        return _hides_of_cell(cell, given, keys)
    return isinstance(guard, Room) and _hides_of_room(guard, given, keys)


def _hides_of_cell(cell: Cell, given: Any, keys: Collection[str]) -> bool:
    """Tell whether what a cell counts or is split by is hidden."""
    # What was redacted is still the same for the same value. What was cut is not, what `fold` makes one has
    # several markers, and how much an amount was no marker says.
    told_apart = cell.kind == "distinct" and cell.fold is None
    if cell.field is not None and (
        _is_hidden_at(given, cell.field, marked=not told_apart)
        or _is_hidden_on_the_way(given, cell.field, to_the_end=True)
    ):
        return True
    return cell.key is not None and _hides_key(cell.key, given, keys)


def _hides_of_room(room: Room, given: Any, keys: Collection[str]) -> bool:
    keyed = room.cell.whole()
    return isinstance(keyed, Keyed) and _hides_key(keyed.key, given, keys)


def _hides_key(key: Key, given: Any, keys: Collection[str]) -> bool:
    if key.text in keys:
        return False
    if given is None or has_hidden(given, marked=key.fold is not None):
        return True
    return any(_is_hidden_on_the_way(given, path) for path in _paths_of(key.form()))


def _paths_of(form: Any) -> list[str]:
    if isinstance(form, str):
        return [form]
    return list(form.values() if isinstance(form, dict) else form)


def _is_hidden_on_the_way(given: Any, path: str, *, to_the_end: bool = False) -> bool:
    """Tell whether what a path leads through is hidden as a whole, or `to_the_end` what is there."""
    *steps, last = path.split(".")
    for step in steps:
        given = given.get(step) if isinstance(given, dict) else None
        if isinstance(given, str):
            return _HIDDEN in given
        if _is_redacted(given):
            return True
    return to_the_end and isinstance(given, dict) and _is_redacted(given.get(last))


def _is_redacted(value: Any) -> bool:
    return isinstance(value, dict) and "$redacted" in value


def reads_hidden_in_fleet(call: PlannedCall, given: Any, keys: Collection[str]) -> bool:
    """Tell whether it matters to a contract of the fleet what stands in the hidden arguments of a call."""
    for filed, hits in call.plan.fleet:
        if not all(isinstance(hit, bool) for hit in hits):
            # It looks at arguments to tell whether a call is its business.
            return True
        rule = filed.rule(tuple(bool(hit) for hit in hits))
        cells = (*(guard.cell for guard in rule.guards), *(move.cell for move in rule.moves))
        if any(cell is not None and _hides_of_cell(cell, given, keys) for cell in cells):
            return True
    return False


def not_shown(call: PlannedCall, step: Mapping[str, Any]) -> set[str]:
    """Find what contracts have learnt from a call and the step does not show, by the names that they use."""
    learns = learning_movers(call)
    hidden: set[str] = learns.keys() & step.get("concealed", ())
    learnt = step.get("learnt", {})
    hidden |= learns.keys() - seen_in(learnt).keys() if has_hidden(learnt) else set()
    if step.get("shown") or has_hidden(call.args if call.final is None else call.final):
        hidden |= {name for name, source in learns.items() if source == "arguments"}
    return hidden


def has_hidden(value: Any, *, marked: bool = True) -> bool:
    """Tell whether a part of recorded arguments is not what contracts saw: cut, or `marked` as redacted."""
    if value is None:
        return False
    if isinstance(value, str):
        return marked and _HIDDEN in value
    if isinstance(value, list):
        return any(has_hidden(item, marked=marked) for item in value)
    if isinstance(value, dict):
        return value.get("$cut") == "size" or any(has_hidden(item, marked=marked) for item in value.values())
    return False


def is_as_seen(args: Any) -> bool:
    """Tell quickly of arguments that are flat whether they stand in the log as contracts saw them."""
    if type(args) is not dict:
        return False
    for value in args.values():
        kind = type(value)
        if kind is str:
            if _HIDDEN in value:
                return False
        elif kind is dict or kind is list:
            return False
    return "$cut" not in args and "$mapping" not in args


def seen_in(learnt: Mapping[str, Any]) -> dict[str, Any]:
    """Pick what a log shows of what was learnt from a call, by the names of the memory that it is for."""
    return {name: found for name, found in learnt.items() if name != "$cut" and not has_hidden(found)}


def learning_movers(call: PlannedCall) -> dict[str, LearnsFrom]:
    """Name the memory that learns from a call, with what of the call it learns from."""
    return {mover.learns: mover.learns_from for mover in call.movers() if mover.learns is not None}


def _reads_hidden(names: Collection[str] | None, given: Any) -> bool:
    """Tell whether a condition reads an argument that is hidden; `names` is None if it reads them all."""
    if names is None:
        return given is None or has_hidden(given)
    return any(_is_hidden_at(given, name) for name in names)


def _is_hidden_at(args: Any, path: str, *, marked: bool = True) -> bool:
    if not isinstance(args, dict):
        return True
    first = path.split(".")[0]
    if "$cut" in args or "$mapping" in args:
        return True
    if first == "*":
        return has_hidden(args, marked=marked)
    return any(has_hidden(args[name], marked=marked) for name in (path, first) if name in args)
