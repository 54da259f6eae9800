"""
Name where a value may come from: the user's request, results of calls, or a list.

    "prompt"                                                     the request names it
    {"tool": "get_contacts", "path": "contacts.*.iban"}          it stands there in a result
    {"tool": "read_inbox", "path": "*.body", "named": True}      a text that stands there names it
    {"values": ["DE02..."]}                                      it is one of these
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..._values import dataclass
from ..events import USER_PROMPT
from ..match.matchers import ToolMatcher, label
from ..match.paths import FieldPath
from ..match.selector import Selector, select
from ..wording import shown

PROMPT = "prompt"

SourceGiven: TypeAlias = str | Mapping[str, Any]
"""A source as it is given, see above. Where a tool is named, there may be any matcher."""

_KEYS = frozenset({"tool", "path", "named"})
_PROMPT_FIELD = "prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    One source of values that is a call.

    Attributes:
        tool: Which calls, as they were given.
        selector: The same.
        path: Where in their result the values stand; None for the result itself.
        named: Whether they are named in texts there.
        given: Whether it is a path of the arguments.
    """

    tool: ToolMatcher
    selector: Selector
    path: str | None = None
    named: bool = False
    given: bool = False

    def form(self) -> Any:
        """Say in JSON which source it is."""
        return PROMPT if self.given else ["result", self.selector.form(), self.path, self.named]

    def text(self) -> str:
        """Write it as it is written in the text of a contract."""
        if self.given:
            return PROMPT
        where = label(self.tool) + ("" if self.path is None else f":{self.path}")
        return f"named in {where}" if self.named else where

    def described(self) -> str:
        """Say where a value may come from, for whoever is refused."""
        if self.given:
            return "the user's own words"
        where = "" if self.path is None else f" at {self.path}"
        result = f"a result of {label(self.tool)}{where}"
        return f"what is named in {result}" if self.named else result


def read_sources(given: object) -> tuple[tuple[Source, ...], tuple[Any, ...]]:
    """
    Read sources, each once.

    Returns:
        Those that are calls, and the values that are listed.

    Raises:
        TypeError: One has another shape.
        ValueError: There is none, or a path is none.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise TypeError(f"sources must be a list, got {shown(given)}")
    if not given:
        raise ValueError("sources must name one or more, got none")
    calls: dict[Any, Source] = {}
    listed: list[Any] = []
    for one in given:
        if isinstance(one, Mapping) and "values" in one:
            listed += listed_in(one)
        else:
            source = _source(one)
            calls.setdefault((source.selector.identity, source.path, source.named, source.given), source)
    return tuple(calls.values()), tuple(listed)


def listed_in(one: Mapping[str, Any]) -> list[Any]:
    """
    Read a source that lists values.

    Raises:
        TypeError: It has another shape.
        ValueError: It lists nothing.
    """
    values = one["values"]
    if len(one) > 1 or isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"a source of values must be {{values: [...]}}, got {shown(dict(one))}")
    if not values:
        raise ValueError("a source of values must list one or more, got none")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise TypeError(f"a listed value must be text or a number, got {shown(value)}")
    return list(values)


def _source(given: object) -> Source:
    if given == PROMPT:
        return Source(
            tool=USER_PROMPT, selector=select(USER_PROMPT), path=_PROMPT_FIELD, named=True, given=True
        )
    if not isinstance(given, Mapping) or not {"tool"} <= given.keys() <= _KEYS:
        problem = "a source must be prompt, {tool, path, named} or {values}"
        raise TypeError(f"{problem}, got {shown(given)}")
    path, named = given.get("path"), given.get("named", False)
    if path is not None:
        FieldPath(path)
    if not isinstance(named, bool):
        raise TypeError(f"named must be true or false, got {shown(named)}")
    return Source(tool=given["tool"], selector=select(given["tool"]), path=path, named=named)
