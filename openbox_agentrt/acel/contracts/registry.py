"""Contracts from plain data, such as ``{"template": "must_precede", "args": ["a", "b"]}``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..match.matchers import any_of, matching
from ..wording import shown
from .base import TemporalContract
from .counting import at_most_n_times, at_most_total, max_distinct, rate_limit
from .exclusion import mutually_exclusive, never_after
from .obligations import existence, required_before_session_end, response
from .precedence import (
    alternate_precedence,
    cannot_follow_without,
    chain_precedence,
    init,
    must_precede,
)
from .state import requires_state
from .template import Template

TEMPLATES: dict[str, Callable[..., Template]] = {
    "must_precede": must_precede,
    "at_most_n_times": at_most_n_times,
    "at_most_total": at_most_total,
    "never_after": never_after,
    "required_before_session_end": required_before_session_end,
    "cannot_follow_without": cannot_follow_without,
    "mutually_exclusive": mutually_exclusive,
    "rate_limit": rate_limit,
    "response": response,
    "alternate_precedence": alternate_precedence,
    "chain_precedence": chain_precedence,
    "existence": existence,
    "init": init,
    "max_distinct": max_distinct,
    "requires_state": requires_state,
}


def build_contract(spec: Mapping[str, Any]) -> Template:
    """
    The contract that a mapping describes.

    Args:
        spec: ``{"template": name, "args": [...], "kwargs": {...}}``. Where a tool is expected, there may
            be ``{"tool": name, "matches": pattern, "field": path}`` for the calls whose argument contains a
            pattern, or ``{"any_of": [...]}`` for several.

    Raises:
        ValueError: The template is unknown, or a value is out of range.
        TypeError: A value has the wrong type, or an argument is missing or too many.
    """
    template = spec.get("template")
    build = TEMPLATES.get(template) if isinstance(template, str) else None
    if build is None:
        raise ValueError(f"unknown template {shown(template)}; expected one of {sorted(TEMPLATES)}")
    args, kwargs = spec.get("args", []), spec.get("kwargs", {})
    if not isinstance(args, list | tuple):
        raise TypeError(f"'args' must be a list, got {type(args).__name__}")
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise TypeError(f"'kwargs' must be a mapping with text keys, got {shown(kwargs)}")
    return build(
        *[_resolve(value) for value in args], **{name: _resolve(value) for name, value in kwargs.items()}
    )


def rules_hash(contracts: Iterable[TemporalContract]) -> str:
    """
    A hash of a set of contracts: equal for equal rules in any order, whoever built them.

    A function used as a matcher takes part by its name only.
    """
    rules = sorted(json.dumps(_described(contract)) for contract in contracts)
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()


def _described(contract: TemporalContract) -> list[Any]:
    kind = type(contract)
    name = kind.template if issubclass(kind, Template) else f"{kind.__module__}.{kind.__qualname__}"
    roles = [role.selector.label for role in contract.roles] if isinstance(contract, Template) else []
    return [name, contract.spec, roles, contract.id, contract.mode, contract.severity, contract.on_violation]


def _resolve(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "any_of" in value:
        several = value["any_of"]
        if len(value) > 1 or not isinstance(several, list | tuple):
            raise ValueError(f"'any_of' must be the only key, and a list, got keys {sorted(map(str, value))}")
        return any_of(*[_resolve(one) for one in several])
    unknown = value.keys() - {"tool", "matches", "field"}
    if "tool" not in value or "matches" not in value or unknown:
        raise ValueError(
            "a content-matcher arg must have 'tool' and 'matches' keys "
            f"(optionally 'field'); got keys {sorted(map(str, value))}"
        )
    return matching(value["tool"], value["matches"], field=value.get("field", "command"))
