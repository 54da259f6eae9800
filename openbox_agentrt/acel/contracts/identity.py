"""
The identity of a set of rules: a hash that is equal for equal rules.

It is taken of what the rules mean - template, which calls, numbers by value, names in normal form - and never
of how they are written: a tool that is *named* like a ban on a pattern is another rule than the ban.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..._plain.digest import text_digest
from ..._plain.spelling import spelt_number
from ..match.selector import select
from .base import TemporalContract
from .declaration import Declaration
from .parameters import ParameterKind, parameters_of
from .registry import CLASSES

if TYPE_CHECKING:
    from .sources import Source


def rules_hash(contracts: Iterable[TemporalContract], state: Mapping[str, Any] | None = None) -> str:
    """
    Hash a set of contracts, and the state that a session begins with where rules say one.

    It is equal for equal rules in any order, however they are written.

    A function used as a matcher takes part by its name only, and so does a contract with code of its own by
    its class and its text.
    """
    forms = [*map(meaning_of, contracts), *([{"state": _data(state)}] if state else [])]
    return forms_hash(forms)


def forms_hash(forms: Iterable[Mapping[str, Any]]) -> str:
    """Hash the canonical forms of a set of contracts, as `rules_hash` does."""
    rules = sorted(json.dumps(form, sort_keys=True) for form in forms)
    return text_digest("\n".join(rules))


def meaning_of(contract: TemporalContract) -> dict[str, Any]:
    """
    Say in JSON what a contract means, without what people are told about it.

    Of a template, ``terms`` has every argument by its name: calls in the form of `Selector.form`, numbers as
    ``["number", "12.5"]``, everything else as it is. Conditions and the facts that they read are there only
    where there are some. A contract with code of its own has ``code`` instead.
    """
    said: dict[str, Any] = {
        "id": contract.id,
        "mode": contract.mode,
        "severity": contract.severity,
        "on_violation": contract.on_violation,
    }
    if isinstance(contract, Declaration):
        said |= {
            "template": contract.template,
            "key": None if contract.split is None else contract.split.form(),
            "fold": contract.fold,
            "except": None if contract.excepted is None else contract.excepted.form(),
            "within": _value(contract.within),
            **contract.reach.said(),
        }
        if contract.rechecks is not None:
            said["recheck"] = contract.rechecks
        if contract.when is not None:
            said["when"] = contract.when.form
        if contract.facts:
            said["facts"] = [fact.form() for fact in contract.facts]
        if CLASSES.get(contract.template) is type(contract):
            return {**said, "terms": _terms(contract)}
        said["roles"] = [role.selector.form() for role in contract.roles]
    kind = type(contract)
    return {**said, "code": [f"{kind.__module__}.{kind.__qualname__}", contract.spec]}


def _terms(contract: Declaration) -> dict[str, Any]:
    terms = {}
    for parameter in parameters_of(contract.template):
        value = getattr(contract, parameter.name)
        if value is None and parameter.kind == "tool":
            continue
        terms[parameter.name] = _term(contract, parameter.kind, value)
    if getattr(contract, "clock", None) is not None:
        # Which one cannot be said. That it is not the session's can.
        terms["clock"] = "its own"
    return terms


def _term(contract: Declaration, kind: ParameterKind, value: Any) -> Any:
    match kind:
        case "tool":
            return select(value).form()
        case "source":
            return value.form()
        case "sources":
            return _sources(value, getattr(contract, "listed", ()))
    return _value(value)


def _sources(calls: Iterable[Source], listed: Iterable[Any]) -> list[Any]:
    forms = [source.form() for source in calls]
    values = sorted(map(_value, listed), key=json.dumps)
    # In an order of their own, since theirs means nothing.
    return [*sorted(forms, key=json.dumps), *([["values", *values]] if values else [])]


def _value(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return ["number", spelt_number(value)]


def _data(value: Any) -> Any:
    """Give data with its numbers by value."""
    if isinstance(value, Mapping):
        return {str(name): _data(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_data(part) for part in value]
    return _value(value)
