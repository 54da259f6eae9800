"""
Data in a shape: which names a mapping may have, and what stands under each.

Only shapes are checked here: names, types, closed sets. What a template makes of its arguments is the
template's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ..._picklable import PicklableError
from ..._values import dataclass

Place: TypeAlias = tuple[str | int, ...]
"""The way to a value: names in mappings and positions in lists."""

Kind: TypeAlias = Literal[
    "text",
    "count",
    "number",
    "flag",
    "scalar",
    "list",
    "mapping",
    "key",
    "matcher",
    "matchers",
    "names",
    "any",
]

_WANTED: dict[Kind, tuple[str, tuple[type, ...]]] = {
    "text": ("text", (str,)),
    "count": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "flag": ("true or false", (bool,)),
    "scalar": ("text, a number, true, false or null", (str, int, float, bool, type(None))),
    "list": ("a list", (list, tuple)),
    "mapping": ("a mapping", (dict,)),
    "key": ("text, a list or a mapping", (str, list, tuple, dict)),
    "matcher": ("the name of a tool or a matcher", (str, dict)),
    "matchers": ("a matcher or a list of matchers", (str, list, tuple, dict)),
    "names": ("text or a list of texts", (str, list, tuple)),
    "any": ("a value", (object,)),
}
_KINDS = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Field:
    """
    A name that a mapping may have.

    Attributes:
        kind: What stands under it.
        required: Whether it has to be there. One that does not may be null, which says nothing.
        among: The texts that it may be; empty for any.
    """

    kind: Kind
    required: bool = False
    among: tuple[str, ...] = ()


class SpecError(PicklableError, ValueError):
    """
    Rules that are given as data say something that is not understood. Nothing was built.

    Attributes:
        problem: What is wrong, in one line.
        place: The way to the value that is wrong.
        where: The place as it is written in messages; empty if the problem says it.
    """

    def __init__(self, problem: str, place: Place = (), *, where: str | None = None) -> None:
        self.problem = problem
        self.place = place
        self.where = written(place) if where is None else where
        super().__init__(f"{self.where}: {problem}" if self.where else problem)


def written(place: Place) -> str:
    """Write a place as one reads it: ``contracts[2].args[0]``, ``groups['refunds'][1]``."""
    text = ""
    for position, part in enumerate(place):
        if isinstance(part, int):
            text += f"[{part}]"
        elif position == 1 and place[0] in ("groups", "state", "initial_state"):
            text += f"[{part!r}]"
        else:
            text += f".{part}" if text else part
    return text


def kind_of(value: object) -> str:
    """Name the kind of a value, as one calls it in a file."""
    return _KINDS.get(type(value), f"a value of type {type(value).__name__}")


def check_kind(value: object, kind: Kind, place: Place) -> None:
    """
    Accept a value of a kind.

    Raises:
        SpecError: It is of another.
    """
    wanted, types = _WANTED[kind]
    if isinstance(value, types) and (not isinstance(value, bool) or kind in ("flag", "scalar", "any")):
        return
    problem = f"must be {wanted}, got {kind_of(value)}"
    if len(place) == 1 and isinstance(place[0], str):
        # As acel-core writes it: 'contracts' must be a list.
        raise SpecError(f"{place[0]!r} {problem}", place, where="")
    raise SpecError(problem, place)


def _unknown(name: object, fields: Mapping[str, Field]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, fields, n=1) if isinstance(name, str) else []
    return f"has an unknown key {name!r:.80}" + (f", did you mean {near[0]!r}" if near else "")


def shaped(data: Mapping[Any, Any], fields: Mapping[str, Field], place: Place) -> dict[str, Any]:
    """
    Read a mapping that has certain names.

    Returns:
        What stands under each name that says something.

    Raises:
        SpecError: It has other names, or something else stands under one.
    """
    found = {}
    for name, value in data.items():
        field = fields.get(name)
        if field is None:
            raise SpecError(_unknown(name, fields), (*place, name), where=written(place))
        if value is None and not field.required and field.kind not in ("list", "mapping", "flag"):
            continue
        here = (*place, name)
        check_kind(value, field.kind, here)
        if field.among and value not in field.among:
            raise SpecError(f"must be one of {', '.join(field.among)}, got {value!r:.80}", here)
        found[name] = value
    for name, field in fields.items():
        if field.required and name not in found:
            raise SpecError(f"has no {name!r}", place)
    return found
