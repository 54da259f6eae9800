"""
The shapes in a rules file, for msgspec to check, and what its findings mean in words.

Only shapes are checked here: names, types, closed sets. What a template makes of its arguments is the
template's business.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar, get_args

import msgspec

from ..verdict import Mode, OnViolation, Severity
from .document import Document
from .errors import ConfigError
from .positions import Place, written

__all__ = ("AnyOfShape", "ContractShape", "GroupShape", "MatcherShape", "RulesShape", "shaped")

T = TypeVar("T")

_WORDS = {
    "array": "a list",
    "object": "a mapping",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}


_CLOSED = {"severity": get_args(Severity), "mode": get_args(Mode), "on_violation": get_args(OnViolation)}


class RulesShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    schema: str | None = msgspec.field(name="$schema", default=None)
    description: str | None = None
    allow_empty: bool = False
    state: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    initial_state: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    groups: dict[str, Any] = {}
    contracts: list[Any] = []


class ContractShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One contract."""

    template: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    id: str | None = None
    description: str | None = None
    severity: Severity | None = None
    mode: Mode | None = None
    remedy: str | None = None
    on_violation: OnViolation | None = None
    key: str | None = None
    within: float | None = None

    def options(self) -> dict[str, Any]:
        """What stands beside the template, as far as it is given."""
        names = ("id", "description", "severity", "mode", "remedy", "on_violation", "key", "within")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class GroupShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A group in the place of a contract."""

    group: str


class MatcherShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The calls of a tool whose argument contains a pattern."""

    tool: str
    matches: str
    field: str = "command"


class AnyOfShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Several tools."""

    any_of: list[Any]


def shaped(data: Any, shape: type[T], document: Document, place: Place) -> T:
    """
    Data of a document in a shape.

    Raises:
        ConfigError: If it has another. It names the place, and the line where that is known.
    """
    try:
        return msgspec.convert(data, shape, strict=True)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        inner = (*place, *_steps(path.removesuffix("`")))
        unknown = re.fullmatch(r"Object contains unknown field `(.+)`", text, re.DOTALL)
        problem = f"has an unknown key {unknown[1]!r:.80}" if unknown else _in_words(text, inner)
        where = written(inner)
        if unknown:
            inner = (*inner, unknown[1])
        elif not place and len(inner) == 1:
            # As acel-core writes it: 'contracts' must be a list.
            problem, where = f"{where!r} {problem}", ""
        raise ConfigError(problem, path=document.name, line=document.line_of(inner), where=where) from None


def _steps(path: str) -> Place:
    steps: list[str | int] = []
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
        steps.append(name if name else int(index))
    return tuple(steps)


def _in_words(text: str, place: Place) -> str:
    if match := re.fullmatch(r"Expected `(.+?)`(?:, got `(.+?)`)?", text):
        wanted = [_WORDS.get(kind, kind) for kind in match[1].split(" | ") if kind != "null"]
        got = _WORDS.get(match[2], match[2])
        return f"must be {' or '.join(wanted)}, got {got}"
    if match := re.fullmatch(r"Object missing required field `(.+)`", text):
        return f"has no {match[1]!r}"
    if match := re.fullmatch(r"Invalid enum value (.+)", text, re.DOTALL):
        return f"must be one of {', '.join(_CLOSED[str(place[-1])])}, got {match[1]:.80}"
    return text.lower()
