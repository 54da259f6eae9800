"""
Which calls a contract is about.

A name stands for the tool of that name, ``"db_*"`` for every tool whose name fits (``*`` is any
text, ``?`` one character), `any_of` for several of these, `matching` for the calls of a tool whose
argument contains a pattern, and a function ``(tool, args) -> bool`` for anything else.

Patterns are searched for by RE2 in time that is linear in the argument, so no argument can stall
the gate. RE2 has no look-around and no back-references, and its ``\\w``, ``\\d`` and ``\\b`` mean ASCII.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from ..callbacks import is_async
from ..wording import shown
from .names import canonical
from .paths import MISSING, FieldError, FieldPath, UnreadableError
from .patterns import Searcher
from .texts import texts_of

Args: TypeAlias = dict[str, Any]
Predicate: TypeAlias = Callable[[Args], Any]
ToolMatcher: TypeAlias = str | Callable[[str, Args], Any]


class ContentMatch:
    """
    The calls of one tool whose arguments a predicate accepts.

    Asked directly, a predicate that raises is no match. A contract asks through `predicate` instead and
    takes the strict side: a ban that cannot be evaluated bans.
    """

    def __init__(self, tool: str, predicate: Predicate, *, label: str | None = None) -> None:
        _check_name(tool)
        _check_predicate(predicate)
        self.tool = tool
        self.predicate = predicate
        self.label = label or f"{tool}(matching custom predicate)"

    def __call__(self, tool: str, args: Args) -> bool:
        if not name_matches(self.tool, canonical(tool)):
            return False
        try:
            return bool(self.predicate(args))
        except Exception:  # noqa: BLE001 - acel-core's answer to a direct question; contracts do not ask here
            return False

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"<ContentMatch {self.label}>"


class FieldPattern:
    """
    A predicate that searches an argument for a pattern. Upper and lower case are the same.

    One that is `negated` accepts the calls in which the pattern is not found, because the argument is missing
    included.
    """

    __slots__ = ("_field", "_searcher", "field", "negated", "pattern")

    def __init__(self, pattern: str, field: str, *, negated: bool = False) -> None:
        self.pattern = pattern
        self.field = field
        self.negated = negated
        self._field = FieldPath(field)
        self._searcher = Searcher(pattern)

    def __call__(self, args: Args) -> bool:
        return self._finds(args) is not self.negated

    def _finds(self, args: Args) -> bool:
        value = self._value(args)
        if isinstance(value, str):
            return self._searcher.search(value) is not None
        return value is not None and self._searcher.finds(texts_of(value, self.field))

    def _value(self, args: Args) -> Any:
        """Find what is searched; None where nothing is there, which is no match, as with acel-core."""
        if self._field.many:
            found = [value for value in self._field.find(args) if value is not MISSING]
            return [*found, args[self.field]] if self.field in args else found
        try:
            return self._field.read(args)
        except UnreadableError:
            raise
        except FieldError:
            if self.field in args:
                raise
            return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldPattern):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_pattern, self._parts()

    def _parts(self) -> tuple[str, str, bool]:
        return self.pattern, self.field, self.negated


def _rebuild_pattern(pattern: str, field: str, negated: bool) -> FieldPattern:
    return FieldPattern(pattern, field, negated=negated)


class AnyOf:
    """The calls that one of several matchers accepts."""

    def __init__(self, matchers: tuple[ToolMatcher, ...]) -> None:
        self.matchers = matchers

    def __call__(self, tool: str, args: Args) -> bool:
        return any(
            name_matches(matcher, canonical(tool)) if isinstance(matcher, str) else matcher(tool, args)
            for matcher in self.matchers
        )

    def __str__(self) -> str:
        return f"any_of({', '.join(map(label, self.matchers))})"

    def __repr__(self) -> str:
        return f"<{self}>"


def matching(tool: str, pattern: str, *, field: str = "command") -> ContentMatch:
    """
    The calls of `tool` whose argument `field` contains `pattern`, whatever the case.

    A call without that argument is no match. Of a list or an object, every text in it is searched, the words
    of a list as one line too, and its JSON. A value that cannot be looked into is a fault: the contract
    takes its strict side.

    Raises:
        PatternError: RE2 cannot compile the pattern.
        ValueError: `field` is no name or path.
    """
    return ContentMatch(tool, FieldPattern(pattern, field), label=f"{tool}({field}~/{pattern}/)")


def not_matching(tool: str, pattern: str, *, field: str = "command") -> ContentMatch:
    """
    Mean the calls of `tool` whose argument `field` does not contain `pattern`, or is missing.

    It says of `tool` everything that `matching` does not, and nothing of other tools.

    Raises:
        PatternError: RE2 cannot compile the pattern.
        ValueError: `field` is no name or path.
    """
    negated = FieldPattern(pattern, field, negated=True)
    return ContentMatch(tool, negated, label=f"{tool}({field}!~/{pattern}/)")


def any_of(*matchers: ToolMatcher) -> AnyOf:
    """
    The calls that at least one of `matchers` accepts.

    Raises:
        ValueError: None was given.
        TypeError: One is neither a name nor callable.
    """
    if not matchers:
        raise ValueError("any_of needs at least one matcher")
    for matcher in matchers:
        check_matcher(matcher)
    return AnyOf(matchers)


def check_matcher(matcher: object) -> None:
    """
    Accept a name, a pattern over names, or a callable.

    Raises:
        TypeError: It is something else, or is async: a coroutine is not a truth value.
        ValueError: It is an empty name.
    """
    if isinstance(matcher, str):
        if not matcher:
            raise ValueError("a tool must be named, got ''")
    elif not callable(matcher):
        raise TypeError(f"a tool must be a name or a callable, got {shown(matcher)}")
    elif is_async(matcher):
        raise TypeError(f"a matcher must not be async, got {label(matcher)}")


def label(matcher: ToolMatcher) -> str:
    """Write a matcher as it stands in a contract. A plain function is named without its address."""
    if isinstance(matcher, str):
        return matcher
    written = str(matcher)
    if " at 0x" not in written:
        return written
    name = getattr(matcher, "__qualname__", type(matcher).__qualname__)
    return str(name).rpartition("<locals>.")[2]


def is_glob(name: str) -> bool:
    """Tell whether a name stands for several."""
    return "*" in name or "?" in name


def name_matches(pattern: str, tool: str) -> bool:
    """Tell whether a name or a pattern over names stands for `tool`, a name in NFC."""
    return bool(_glob(canonical(pattern))(tool)) if is_glob(pattern) else canonical(pattern) == tool


@functools.lru_cache(maxsize=1024)
def _glob(pattern: str) -> Callable[[str], Any]:
    # Only * and ?: a bracket is a character. re is safe here, since what fnmatch writes does not backtrack
    # into nested repeats, and names are short.
    escaped = pattern.replace("[", "[[]")
    return re.compile(fnmatch.translate(escaped)).match


@functools.lru_cache(maxsize=1024)
def _check_name(tool: object) -> None:
    if not isinstance(tool, str) or not tool:
        raise TypeError(f"a tool must be a name, got {shown(tool)}")


def _check_predicate(predicate: object) -> None:
    if not callable(predicate):
        raise TypeError(f"a predicate must be callable, got {shown(predicate)}")
    if is_async(predicate):
        raise TypeError("a predicate of a matcher must not be async: a coroutine is not a truth value")
