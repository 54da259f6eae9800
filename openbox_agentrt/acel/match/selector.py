"""A matcher, compiled: which tools it is about, and what is left to ask about a call."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeAlias

from ..._plain.arguments import plain_args
from ..callbacks import discard, fault_text, is_awaitable
from .matchers import (
    AnyOf,
    Args,
    ContentMatch,
    FieldPattern,
    Predicate,
    ToolMatcher,
    check_matcher,
    is_glob,
    label,
    name_matches,
    names_any,
)
from .names import normal_name
from .paths import FieldError

# True and False are final for every call of a tool; a predicate has to be asked per call.
Hit: TypeAlias = bool | Predicate


# Names that are no other matcher's text.
_PLAIN = r"[\w.:/*?-]+"


class ById:
    """An object that equals itself only, whatever it thinks about equality, and always hashes."""

    __slots__ = ("it",)

    def __init__(self, it: object) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


class Selector(ABC):
    """
    A parameter of a contract that stands for calls, compiled.

    Attributes:
        label: As it is written in the contract.
        identity: Equal for two selectors that accept the same calls by construction.
        names: The tool names that it can be about, or None if only asking tells.
        asks: Whether what it means depends on the arguments of a call.
    """

    __slots__ = ("asks", "identity", "label", "names")

    def __init__(
        self, text: str, identity: Hashable, names: frozenset[str] | None, *, asks: bool = True
    ) -> None:
        self.label = text
        self.identity = identity
        self.names = names
        self.asks = asks

    @abstractmethod
    def on(self, tool: str, *, strict: bool = True) -> Hit:
        """
        Tell whether calls of `tool`, a name in NFC, are meant: yes, no, or ask for each call.

        With `strict` a call counts as meant if it may be, as for what forbids; without, if it must be, as for
        what allows.
        """

    @abstractmethod
    def form(self) -> list[Any]:
        """Say in JSON which calls are meant: the same for every way of writing it."""

    def text(self) -> str:
        """Write it for people, the same for every way of writing it in a contract."""
        return normal_name(self.label)

    def knows(self, tool: str) -> bool:
        """Tell whether it names `tool`. What is about every tool, ``*`` or a function, names none."""
        return self.on(tool) is not False


def is_plain(form: Sequence[Any]) -> bool:
    """Tell of the form of a matcher whether its text can be that of no other."""
    word, *rest = form
    if word == "tool":
        return re.fullmatch(_PLAIN, rest[0]) is not None
    return word in ("any_of", "except", "must") and all(map(is_plain, rest))


def select(matcher: ToolMatcher) -> Selector:
    """
    Compile a matcher into a selector.

    Raises:
        TypeError: It is neither a name nor a callable, or it is async.
        ValueError: It is an empty name.
    """
    check_matcher(matcher)
    if isinstance(matcher, str):
        return _Names(matcher)
    if isinstance(matcher, ContentMatch) and type(matcher).__call__ is ContentMatch.__call__:
        return _Contents(matcher)
    if isinstance(matcher, AnyOf):
        return _Union(label(matcher), [select(inner) for inner in matcher.matchers])
    return _Calls(matcher)


def ask(predicate: Predicate, args: Args) -> bool | str:
    """Ask a predicate, and give the fault that keeps it from answering."""
    try:
        answer = predicate(args)
        if answer is True or answer is False:
            return answer
        if is_awaitable(answer):
            discard(answer)
            return "the matcher gave something to await"
        return bool(answer)
    except FieldError as error:
        # It names the field and never its value.
        return str(error)
    except Exception as error:  # noqa: BLE001 - the caller takes the strict side of its contract
        return fault_text("the matcher", error)


class _Names(Selector):
    __slots__ = ("_pattern",)

    def __init__(self, name: str) -> None:
        self._pattern = normal_name(name)
        names = None if is_glob(name) else frozenset({self._pattern})
        super().__init__(name, ("name", self._pattern), names, asks=False)

    def on(self, tool: str, *, strict: bool = True) -> Hit:
        return name_matches(self._pattern, tool)

    def knows(self, tool: str) -> bool:
        return not names_any(self._pattern) and name_matches(self._pattern, tool)

    def form(self) -> list[Any]:
        return ["tool", self._pattern]


class _Contents(Selector):
    __slots__ = ("_pattern", "_predicate")

    def __init__(self, matcher: ContentMatch) -> None:
        self._pattern = normal_name(matcher.tool)
        self._predicate = matcher.predicate
        same = self._predicate if type(self._predicate) is FieldPattern else ById(self._predicate)
        names = None if is_glob(self._pattern) else frozenset({self._pattern})
        super().__init__(label(matcher), ("content", self._pattern, same), names)

    def on(self, tool: str, *, strict: bool = True) -> Hit:
        if not name_matches(self._pattern, tool):
            return False
        predicate = self._predicate
        if type(predicate) is FieldPattern:
            return predicate.question(strict=strict)
        # Somebody else's code, which must not change what is recorded.
        return lambda args: predicate(plain_args(args))

    def knows(self, tool: str) -> bool:
        return not names_any(self._pattern) and name_matches(self._pattern, tool)

    def form(self) -> list[Any]:
        predicate = self._predicate
        if type(predicate) is FieldPattern:
            word = "not_matching" if predicate.negated else "matching"
            return [word, self._pattern, predicate.pattern, predicate.field, *["line"] * predicate.line]
        return ["function", self._pattern, self.label]


class _Calls(Selector):
    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str, Args], object]) -> None:
        self._function = function
        super().__init__(label(function), ("call", ById(function)), None)

    def on(self, tool: str, *, strict: bool = True) -> Hit:
        function = self._function
        return lambda args: function(tool, plain_args(args))

    def form(self) -> list[Any]:
        return ["function", self.label]

    def knows(self, tool: str) -> bool:
        return False


class _Union(Selector):
    __slots__ = ("_inner",)

    def __init__(self, text: str, inner: Sequence[Selector]) -> None:
        self._inner = tuple(inner)
        names: frozenset[str] | None = frozenset()
        for selector in inner:
            names = None if names is None or selector.names is None else names | selector.names
        same = frozenset(part.identity for part in self._flat())
        (identity,) = same if len(same) == 1 else [("any", same)]
        super().__init__(text, identity, names, asks=any(selector.asks for selector in inner))

    def on(self, tool: str, *, strict: bool = True) -> Hit:
        hits = [selector.on(tool, strict=strict) for selector in self._inner]
        if any(hit is True for hit in hits):
            return True
        predicates = [hit for hit in hits if not isinstance(hit, bool)]
        return _either(predicates) if predicates else False

    def form(self) -> list[Any]:
        forms = [selector.form() for selector in self._parts()]
        return forms[0] if len(forms) == 1 else ["any_of", *forms]

    def text(self) -> str:
        texts = [selector.text() for selector in self._parts()]
        return texts[0] if len(texts) == 1 else f"any_of({', '.join(texts)})"

    def _parts(self) -> list[Selector]:
        """List what it is made of, each once, in an order of its own."""
        known = {json.dumps(part.form()): part for part in self._flat()}
        return [part for _, part in sorted(known.items())]

    def _flat(self) -> Iterator[Selector]:
        for selector in self._inner:
            yield from selector._flat() if isinstance(selector, _Union) else (selector,)

    def knows(self, tool: str) -> bool:
        return any(selector.knows(tool) for selector in self._inner)


def _either(predicates: Sequence[Predicate]) -> Predicate:
    def predicate(args: Args) -> bool:
        # A plain yes outweighs a fault; a fault outweighs a no.
        fault: Exception | None = None
        for inner in predicates:
            try:
                if inner(args):
                    return True
            except Exception as error:  # noqa: BLE001 - kept, and raised below unless another says yes
                fault = error
        if fault is not None:
            try:
                raise fault
            finally:
                # Else it and this frame keep each other, and with them a call that nobody holds any more.
                fault = None
        return False

    return predicate
