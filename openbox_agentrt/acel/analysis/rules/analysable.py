"""
Which contracts can be analysed: those that are declared with words whose meaning is known here.

A contract with code of its own, a matcher that is a function, an option or a memory that this part does not
know: such a contract is not analysed, and named. It can only refuse more, so what is shown to be impossible
without it is impossible with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from ...contracts.base import TemporalContract
from ...contracts.declaration import Declaration
from ...contracts.options import Options
from ...contracts.registry import CLASSES
from ...contracts.rules import Cell, Guard, Rule
from ..conditions.followed import open_parts, tools_told_by
from ..patterns.automaton import UnknownPatternError, of_pattern

__all__ = ("field_paths", "guards_of", "key_paths", "patterns_of", "rules_of", "why_unknown")

# A call waits for nobody in a search, so it does not matter whether it would be judged again.
_OPTIONS = frozenset(
    (
        *("key", "fold", "except_", "within", "recheck", "mode", "on_violation"),
        *("id", "description", "severity", "remedy"),
        # In a search there is one session, whoever else counts with it.
        *("per", "tz", "scope", "forever", "overshoot", "name"),
        *("when", "facts"),
    )
)
_CELLS = frozenset(
    (
        *("tally", "stamps", "marks", "sum", "distinct", "tokens", "pending", "latest", "step", "fresh"),
        *("values", "words", "secrets", "flights"),
    )
)
_GUARDS = frozenset(
    (
        "need",
        "ban",
        "cap",
        "condition",
        "spend",
        "distinct",
        "token",
        "next",
        "state",
        "settled",
        "overdue",
        "never",
        "fresh",
        "known",
        "kept_out",
    )
)
_PARTS = frozenset(
    (
        *("kind", "of", "label", "forms", "key", "within", "field", "fold", "refund"),
        *("text", "negative", "saving", "lasting", "estimate", "match", "given"),
        *("per", "tz", "scale"),
    )
)
# What an option is that says nothing.
_NOTHING_SAID = (None, False, ())
_TEMPLATES = frozenset(
    (
        "alternate_precedence",
        "at_most_in_flight",
        "at_most_n_times",
        "at_most_total",
        "came_from",
        "cannot_follow_without",
        "chain_precedence",
        "existence",
        "init",
        "keeps_out",
        "max_distinct",
        "must_precede",
        "mutually_exclusive",
        "never",
        "never_after",
        "only",
        "rate_limit",
        "required_before_session_end",
        "requires",
        "requires_state",
        "response",
    )
)


def why_unknown(contract: TemporalContract) -> str | None:
    """Say why a contract is not analysed; None if it is."""
    if not isinstance(contract, Declaration) or CLASSES.get(contract.template) is not type(contract):
        return "it has code of its own"
    if contract.template not in _TEMPLATES:
        return f"{contract.template} is not analysed"
    if contract.asked_at_end and (parts := open_parts(contract)):
        return f"its condition is asked at the end of a session, and nobody knows there: {parts[0]:.60}"
    if contract.template == "at_most_in_flight" and contract.when is not None and tools_told_by(contract):
        # Whether a call under way counts was said when it began, and a state of a search does not keep it.
        return "its condition is about what happened before a call began, which is not followed while it runs"
    for option in sorted(name.rstrip("_") for name in Options.__annotations__.keys() - _OPTIONS):
        if getattr(contract, option, getattr(contract.reach, option, None)) not in _NOTHING_SAID:
            return f"the option {option!r} is not analysed"
    if getattr(contract, "clock", None) is not None:
        return "it has a clock of its own"
    for rule in rules_of(contract):
        kinds: set[str] = {guard.kind for guard in rule.guards if guard.kind not in _GUARDS}
        kinds |= {what for cell in _cells(rule) for what in _unknown_of(cell)}
        if kinds:
            return f"{min(kinds)!r} is not analysed"
    return _unknown_matcher(contract)


def rules_of(contract: Declaration) -> Iterator[Rule]:
    """Give the rules of a contract, for every combination of its roles that has one of its own."""
    return map(contract.rule_for, contract.combinations())


def guards_of(contract: Declaration) -> Iterator[Guard]:
    """Give the comparisons of a contract, those of the end of a session included."""
    for rule in rules_of(contract):
        yield from rule.guards
    yield from contract.at_end


def patterns_of(form: list[Any]) -> Iterator[tuple[str, str, str]]:
    """Find the patterns in the form of a selector: the tool, the pattern, and the argument."""
    word, *rest = form
    if word in ("matching", "not_matching"):
        yield rest[0], rest[1], rest[2]
    elif word == "any_of":
        for inner in rest:
            yield from patterns_of(inner)


def key_paths(contract: Declaration, tool: str | None) -> list[str]:
    """Give what is the key of a contract, in calls of a tool or of all that it names."""
    form = None if contract.split is None else contract.split.form()
    if isinstance(form, dict):
        return list(form.values()) if tool is None else [form[tool]] * (tool in form)
    return [] if form is None else [form] if isinstance(form, str) else list(form)


def field_paths(contract: Declaration, kind: str) -> set[str]:
    """Give the arguments whose values the comparisons of some kind add up or tell apart."""
    cells = [guard.cell for guard in guards_of(contract) if guard.kind == kind]
    return {cell.field for cell in cells if cell is not None and cell.field is not None}


def _unknown_of(cell: Cell) -> Iterator[str]:
    if cell.kind not in _CELLS:
        yield cell.kind
    for part in fields(cell):
        if part.name not in _PARTS and getattr(cell, part.name) != part.default:
            yield part.name


def _cells(rule: Rule) -> Iterator[Cell]:
    yield from (move.cell for move in rule.moves)
    for guard in rule.guards:
        yield from (cell for cell in (guard.cell, guard.other, *guard.sources) if cell is not None)


def _unknown_matcher(contract: Declaration) -> str | None:
    for role in contract.roles:
        for word in _words(role.selector.form()):
            if word not in ("tool", "matching", "not_matching", "any_of"):
                return "a matcher is a function"
        for _, pattern, _ in patterns_of(role.selector.form()):
            try:
                of_pattern(pattern)
            except UnknownPatternError as error:
                return f"pattern {pattern!r:.60}: {error}"
    return None


def _words(form: list[Any]) -> Iterator[str]:
    yield form[0]
    if form[0] == "any_of":
        for inner in form[1:]:
            yield from _words(inner)
