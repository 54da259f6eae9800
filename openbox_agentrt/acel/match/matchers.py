"""
Which calls a contract is about.

A name stands for the tool of that name, ``"db_*"`` for every tool whose name fits (``*`` is any
text, ``?`` one character), `any_of` for several of these, `matching` for the calls of a tool whose
argument contains a pattern, and a function ``(tool, args) -> bool`` for anything else.

Patterns are searched for by RE2 in time that is linear in the argument, so no argument can stall
the gate. RE2 has no look-around and no back-references, and its ``\\w``, ``\\d`` and ``\\b`` mean ASCII.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from itertools import chain
from typing import Any, TypeAlias

from ..callbacks import is_async
from ..wording import shown
from .names import normal_name
from .paths import MISSING, FieldError, FieldPath, UnreadableError
from .patterns import Searcher
from .texts import each_text_of, line_of, texts_of

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
        if not name_matches(self.tool, normal_name(tool)):
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

    Of an argument with several texts, one may have the pattern and another not. Asked by what forbids or
    limits, it `may_match`: one text is enough. Asked by what allows, it `must_match`: every text has to.

    One that is `negated` accepts the calls in which the pattern is not found: for what forbids, those with a
    text in which it is not, or without the argument; for what allows, those with no text in which it is.

    With `line`, a list of words is one text for what allows, the line that they make.
    """

    __slots__ = ("_field", "_searcher", "field", "line", "negated", "pattern")

    def __init__(self, pattern: str, field: str, *, negated: bool = False, line: bool = False) -> None:
        self.pattern = pattern
        self.field = field
        self.negated = negated
        self.line = line
        self._field = FieldPath(field)
        self._searcher = Searcher(pattern)

    def __call__(self, args: Args) -> bool:
        return self.may_match(args)

    def question(self, *, strict: bool) -> Predicate:
        """Give `may_match` for what forbids or limits, `must_match` for what allows, or as good as that."""
        if self.negated:
            return self.may_match if strict else self.must_match
        return self._in_any if strict else self._in_all

    def may_match(self, args: Args) -> bool:
        """Tell whether the call may be one that is meant, for what forbids or limits such calls."""
        return not self._in_all(args) if self.negated else self._in_any(args)

    def must_match(self, args: Args) -> bool:
        """Tell whether the call is one that is meant however it is read, for what allows such calls."""
        if not self.negated:
            return self._in_all(args)
        # Of an argument that is not there, nobody knows by what other name the tool reads it.
        return self._value(args) is not None and not self._in_any(args)

    def _in_any(self, args: Args) -> bool:
        value = args.get(self.field) if self._field.plain else self._value(args)
        if type(value) is str:
            return self._searcher.search(value) is not None
        return value is not None and self._searcher.finds(
            chain(self._field.names(args), texts_of(value, self.field))
        )

    def _in_all(self, args: Args) -> bool:
        value = self._value(args, whole=True)
        if self.line and (line := line_of(value)) is not None:
            value = line
        if type(value) is str:
            return self._searcher.search(value) is not None
        return value is not None and self._searcher.is_in_each(each_text_of(value, self.field))

    def _value(self, args: Args, *, whole: bool = False) -> Any:
        """
        Find what is searched; None where nothing is there, which is no match, as with acel-core.

        Of many values, those that are missing are passed over, unless the `whole` is wanted.
        """
        if self._field.plain:
            return args.get(self.field)
        if self._field.many:
            every = self._field.find(args)
            found = [value for value in every if value is not MISSING]
            if self.field in args:
                return [*found, args[self.field]]
            return None if not found or (whole and len(found) < len(every)) else found
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

    def _parts(self) -> tuple[str, str, bool, bool]:
        return self.pattern, self.field, self.negated, self.line


def _rebuild_pattern(pattern: str, field: str, negated: bool, line: bool = False) -> FieldPattern:
    return FieldPattern(pattern, field, negated=negated, line=line)


class AnyOf:
    """The calls that one of several matchers accepts."""

    def __init__(self, matchers: tuple[ToolMatcher, ...]) -> None:
        self.matchers = matchers

    def __call__(self, tool: str, args: Args) -> bool:
        return any(
            name_matches(matcher, normal_name(tool)) if isinstance(matcher, str) else matcher(tool, args)
            for matcher in self.matchers
        )

    def __str__(self) -> str:
        return f"any_of({', '.join(map(label, self.matchers))})"

    def __repr__(self) -> str:
        return f"<{self}>"


# Ours, which are asked at once. To look into a function, Python loads what reads source code.
_SYNCHRONOUS: frozenset[object] = frozenset({ContentMatch, FieldPattern, AnyOf})


def matching(tool: str, pattern: str, *, field: str = "command", line: bool = False) -> ContentMatch:
    """
    Mean the calls of `tool` whose argument `field` contains `pattern`, whatever the case.

    A call without that argument is no match. A list or an object has several texts. Where a match forbids or
    limits, one is enough: any text in it, the words of a list as one line too, or its JSON. Where a match
    allows - a prerequisite, what answers, `only`, ``except`` - each text has to contain the pattern. A value
    that cannot be looked into is a fault: the contract takes its strict side.

    Args:
        tool: Name of the tool.
        pattern: What is searched for, in RE2's syntax.
        field: Name or path of the argument.
        line: Whether a list of words is one command line, where a match allows.

    Raises:
        PatternError: RE2 cannot compile the pattern.
        ValueError: `field` is no name or path.
    """
    return _content(tool, FieldPattern(pattern, field, line=line), "~")


def not_matching(tool: str, pattern: str, *, field: str = "command", line: bool = False) -> ContentMatch:
    """
    Mean the calls of `tool` whose argument `field` does not contain `pattern`.

    It says nothing of other tools. Where a match forbids or limits, a call is meant unless each text contains
    the pattern, and also without the argument. Where a match allows, it is meant if the argument is there
    and no text of it contains the pattern.

    Args:
        tool: Name of the tool.
        pattern: What is searched for, in RE2's syntax.
        field: Name or path of the argument.
        line: Whether a list of words is one command line, where its having the pattern allows.

    Raises:
        PatternError: RE2 cannot compile the pattern.
        ValueError: `field` is no name or path.
    """
    return _content(tool, FieldPattern(pattern, field, negated=True, line=line), "!~")


def _content(tool: str, predicate: FieldPattern, sign: str) -> ContentMatch:
    line = ", line" if predicate.line else ""
    text = f"{tool}({predicate.field}{sign}/{predicate.pattern}/{line})"
    return ContentMatch(tool, predicate, label=text)


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
    elif type(matcher) not in _SYNCHRONOUS and is_async(matcher):
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


def names_any(name: str) -> bool:
    """Tell whether a name stands for every tool there may be, and so names none in particular."""
    return is_glob(name) and not name.strip("*?")


def name_matches(pattern: str, tool: str) -> bool:
    """Tell whether a name or a pattern over names stands for `tool`, a name in NFC."""
    return bool(_glob(normal_name(pattern))(tool)) if is_glob(pattern) else normal_name(pattern) == tool


@functools.lru_cache(maxsize=1024)
def _glob(pattern: str) -> Callable[[str], Any]:
    import fnmatch

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
    if type(predicate) not in _SYNCHRONOUS and is_async(predicate):
        raise TypeError("a predicate of a matcher must not be async: a coroutine is not a truth value")
