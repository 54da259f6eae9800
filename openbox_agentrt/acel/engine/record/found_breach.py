"""From what a call breaks to what is recorded and told about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...._values import dataclass
from ...contracts.base import SessionRule
from ...refusal import MAX_NAME, Broken

if TYPE_CHECKING:
    from ...contracts.tools import Asked
    from ...match.keys import Key
    from ...memory.guard import Breach
    from ...verdict import Kind, Mode

# So many values of a key are told for which a contract is unmet at the end.
MAX_VALUES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBreach:
    """
    A contract that was found broken.

    Attributes:
        broken: What is said about it.
        mode: Whether it was in force.
        stops: Whether it is a reason to refuse the call.
    """

    broken: Broken
    mode: Mode
    stops: bool


def of_breach(breach: Breach, mode: Mode) -> FoundBreach:
    """Tell of a contract over the session that is broken, in a session that is in `mode`."""
    rule, needs = breach.contract, breach.needs
    if breach.values and breach.key is not None:
        count = len(breach.values)
        needs = f"{needs}, for {count} value{'s' * (count > 1)} of {breach.key.written}"
    broken = Broken(
        contract=rule.spec,
        label=rule.label if isinstance(rule, SessionRule) else None,
        id=rule.id,
        kind="session" if isinstance(rule, SessionRule) else "temporal",
        blame=breach.blame,
        needs=needs,
        retry_after=breach.retry_after,
        remaining=breach.remaining,
        severity=rule.severity,
        remedy=rule.remedy,
        on_violation=rule.on_violation,
        fault=breach.fault,
        **(_said(rule, breach) if isinstance(rule, SessionRule) else {}),
    )
    watched = mode == "shadow" and not (isinstance(rule, SessionRule) and rule.by_person)
    return FoundBreach(broken=broken, mode="shadow" if watched else rule.mode, stops=breach.blocks())


def _said(rule: SessionRule, breach: Breach) -> dict[str, Any]:
    says = breach.fault if rule.says is None else rule.says
    return {"reason": rule.code, "says": says, "of_store": rule.of_store}


def values_of(breach: Breach) -> dict[str, Any] | None:
    """
    Give the values of a key for which a contract is unmet at the end, or None.

    They are put as arguments are, so that a key that must not be recorded as it is, is not.
    """
    if not breach.values or breach.key is None:
        return None
    named: dict[str, Any] = {}
    for path, values in _columns(breach.key, breach.values[:MAX_VALUES]).items():
        nested: Any = values
        first, *names = path.split(".")
        for name in reversed(names):
            nested = {name: nested}
        # Of an argument and what is inside it, the second keeps its path.
        named[path if first in named else first] = nested
    return named


def _columns(key: Key, values: list[str]) -> dict[str, list[str]]:
    form = key.form()
    if isinstance(form, list):
        # Several arguments together; what is long is kept as its hash.
        rows = [json.loads(value) if value.startswith("[") else [value] * len(form) for value in values]
        return {path: [row[place] for row in rows] for place, path in enumerate(form)}
    return dict.fromkeys(form.values() if isinstance(form, dict) else [form], values)


def of_conditions(tool: str, kind: Kind, failed: Asked, mode: Mode) -> list[FoundBreach]:
    """Tell of conditions of a tool that do not hold."""
    # A description that was read out of the source is not for outsiders.
    label = f"a {kind} of {tool[:MAX_NAME]}"
    return [
        _condition(kind, check.description, answer.fault, mode, label if check.derived else None)
        for check, answer in failed
    ]


def of_commit(tool: str, fault: str, mode: Mode) -> FoundBreach:
    """Tell of a commit function that could not write."""
    return _condition("postcondition", f"commit of {tool}", fault, mode)


def _condition(
    kind: Kind, description: str, fault: str | None, mode: Mode, label: str | None = None
) -> FoundBreach:
    broken = Broken(contract=description, label=label, kind=kind, fault=fault)
    return FoundBreach(broken=broken, mode=mode, stops=True)
