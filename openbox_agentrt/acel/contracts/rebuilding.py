"""Contracts, made again of the canonical form that their identity is taken of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

from ..condition.fact import Fact, fact
from ..match.matchers import ToolMatcher, any_of, matching, not_matching
from .identity import meaning_of
from .parameters import ParameterKind, parameters_of
from .reach import Reach
from .registry import CLASSES
from .sources import PROMPT, SourceGiven
from .template import Template

_REACH = tuple(field.name for field in fields(Reach))
_MATCHERS = {"matching": matching, "not_matching": not_matching}
# Amounts are exact; times are what a clock gives, and a state and a list hold what a program wrote.
_FLOATS = ("window_seconds", "within", "value")


def rebuilt(form: Mapping[str, Any]) -> Template | None:
    """
    Make a contract of its canonical form.

    Returns:
        The contract, or None if part of it is code, or the form is not understood: what is made is never
        another contract than the one that was written down.
    """
    try:
        contract = _build(form)
    except (KeyError, TypeError, ValueError, IndexError):
        # A form of another version, or one that was made up.
        return None
    return contract if meaning_of(contract) == form else None


def _build(form: Mapping[str, Any]) -> Template:
    terms = form["terms"]
    if "clock" in terms:
        raise ValueError("a clock of its own is code")
    kinds = {parameter.name: parameter.kind for parameter in parameters_of(form["template"])}
    given: dict[str, Any] = {name: form[name] for name in ("id", "mode", "severity", "on_violation")}
    # A key of the arguments "number" and "5" is no number.
    given |= {name: form[name] for name in ("key", "fold")}
    # Said only where they are not the default.
    given |= {name: form[name] for name in _REACH if name in form}
    given["within"] = _float(form["within"])
    given["recheck"] = form.get("recheck")
    if form["except"] is not None:
        given["except_"] = _matcher(form["except"])
    given["when"] = form.get("when")
    given["facts"] = [_fact(fact) for fact in form.get("facts", ())]
    given |= {name: _term(value, kinds[name]) for name, value in terms.items()}
    given |= {name: _float(terms[name]) for name in _FLOATS if name in terms}
    return CLASSES[form["template"]](**given)


def _fact(form: Mapping[str, Any]) -> Fact:
    return fact(form["tools"], form["name"], key=form["key"], values=form["values"], fold=form["fold"])


def _term(value: Any, kind: ParameterKind) -> Any:
    match kind:
        case "tool":
            return _matcher(value)
        case "source":
            return _source(value)
        case "sources":
            return [_source(one) for one in value]
    return _value(value)


def _source(form: Any) -> SourceGiven:
    if form == PROMPT:
        return PROMPT
    word, *rest = form
    if word == "values":
        return {"values": [_float(value) for value in rest]}
    calls, path, named = rest
    return {"tool": _matcher(calls), "path": path, "named": named}


def _matcher(form: Any) -> ToolMatcher:
    word, *rest = form
    if word == "tool":
        (name,) = rest
        return str(name)
    if word == "any_of":
        return any_of(*map(_matcher, rest))
    tool, pattern, field, *line = rest
    return _MATCHERS[word](tool, pattern, field=field, line=line == ["line"])


def _float(value: Any) -> Any:
    found = _value(value)
    return float(found) if isinstance(found, Decimal) else found


def _value(value: Any) -> Any:
    match value:
        case ["number", str() as text]:
            return Decimal(text) if "." in text else int(text)
    return value
