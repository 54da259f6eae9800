"""
Data in a shape: msgspec checks it, and what it finds is said in words, with the place.

Only shapes are checked here: names, types, closed sets. What a template makes of its arguments is the
template's business.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, TypeVar, get_args

import msgspec

from ..violations import Mode, OnViolation, Severity

__all__ = ("Place", "SpecError", "kind_of", "shaped", "written")

T = TypeVar("T")

Place: TypeAlias = tuple[str | int, ...]
"""The way to a value: names in mappings and positions in lists."""

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
_KINDS = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


class SpecError(ValueError):
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

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.problem, self.place, self.where)


def _rebuild(problem: str, place: Place, where: str) -> SpecError:
    return SpecError(problem, place, where=where)


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


def shaped(data: Any, shape: type[T], place: Place) -> T:
    """
    Read data in a shape.

    Raises:
        SpecError: It has another.
    """
    try:
        return msgspec.convert(data, shape, strict=True)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        inner = (*place, *_steps(path.removesuffix("`")))
        unknown = re.fullmatch(r"Object contains unknown field `(.+)`", text, re.DOTALL)
        if unknown:
            problem = f"has an unknown key {unknown[1]!r:.80}"
            raise SpecError(problem, (*inner, unknown[1]), where=written(inner)) from None
        problem = _in_words(text, inner)
        if not place and len(inner) == 1:
            # As acel-core writes it: 'contracts' must be a list.
            raise SpecError(f"{written(inner)!r} {problem}", inner, where="") from None
        raise SpecError(problem, inner) from None


def _steps(path: str) -> Place:
    steps: list[str | int] = []
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
        steps.append(name if name else int(index))
    return tuple(steps)


def _in_words(text: str, place: Place) -> str:
    if match := re.fullmatch(r"Expected `(.+?)`(?:, got `(.+?)`)?", text):
        wanted = [_WORDS.get(kind, kind) for kind in match[1].split(" | ") if kind != "null"]
        return f"must be {' or '.join(wanted)}, got {_WORDS.get(match[2], match[2])}"
    if match := re.fullmatch(r"Object missing required field `(.+)`", text):
        return f"has no {match[1]!r}"
    if match := re.fullmatch(r"Invalid enum value (.+)", text, re.DOTALL):
        return f"must be one of {', '.join(_CLOSED[str(place[-1])])}, got {match[1]:.80}"
    return text.lower()
