"""
A step of a journal says of a call how it was asked for, and how it ended.

What may not be seen of a call is not in these forms; a mark in its place says that nothing follows from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...._plain.same import is_same
from ...match.keys import Key
from ...memory.deferred import Guess
from ..plan.planned_call import PlannedCall


def reserved_form(call: PlannedCall) -> dict[str, Any]:
    """Say what was reserved for a call in the store of the fleet."""
    if call.lease is None:
        return {}
    return {"lease": call.lease.id, **({"local": True} if call.lease.local else {})}


def _taken_for(deferred: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {"guess": value.amount} if isinstance(value, Guess) else value
        for name, value in deferred.items()
    }


def asked_form(call: PlannedCall, *, late: bool) -> dict[str, Any]:
    """Say how a call was asked for, and whether it was let through; `late` if arguments come with its end."""
    asked: dict[str, Any] = {"allowed": call.admitted}
    if not late or not call.admitted:
        # Of a call that was refused there is no end, and its violation holds what it was asked with too.
        asked["args"] = call.args
    if call.deferred:
        deferred = call.deferred
        asked["deferred"] = _taken_for(deferred) if isinstance(deferred, Mapping) else sorted(deferred)
    if call.about.run:
        asked["of_run"] = call.about.run
    if call.about.subject:
        asked["subject"] = dict(call.about.subject)
    if call.early:
        asked["early"] = True
    if call.watched:
        asked["watched"] = True
    return asked


def keys_form(call: PlannedCall, folded: Iterable[Key]) -> dict[str, Any]:
    """Say what the keys of a call are whose spellings are folded: no marker of an argument tells it."""
    keys = {key.text: value for key in folded if isinstance(value := call.key(key), str)}
    return {"keys": keys} if keys else {}


def learnt_form(call: PlannedCall, *, concealed: bool) -> dict[str, Any]:
    """Say what contracts have learnt from the result of a call, or only for what, if it is concealed."""
    learnt = call.from_result(call.learnt)
    if not learnt:
        return {}
    return {"concealed": sorted(learnt)} if concealed else {"learnt": learnt}


def ended_late_form(event: str, call: PlannedCall) -> dict[str, Any]:
    """Say how a call ended whose arguments come only now."""
    ended: dict[str, Any] = {} if not call.measured else {"measured": dict(call.measured)}
    if event == "abort":
        # It never ran. Unless somebody refused it, nobody has said what may be seen of it.
        seen = call.shown
        same = seen is not None and is_same(seen, call.args)
        return ended if seen is None else {**ended, "args": seen, **({} if same else {"shown": True})}
    ran = call.args if call.final is None else call.final
    if call.shown is not None or not is_same(ran, call.args):
        # What was judged may not be seen, so nothing follows from what is.
        ended["shown"] = True
    return {**ended, "args": ran if call.shown is None else call.shown}


def ended_form(call: PlannedCall) -> dict[str, Any]:
    """Say what of a call was known only at its end."""
    ended: dict[str, Any] = {}
    if call.final is not None:
        # Where it may not be seen what ran, nothing follows from what is.
        ended |= {"final": call.final} if call.shown is None else {"shown": True}
    if call.measured:
        ended["measured"] = dict(call.measured)
    return ended
