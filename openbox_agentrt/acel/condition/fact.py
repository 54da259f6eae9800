"""Facts: what a successful call of a tool tells the session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ..._plain.spelling import Fold
from ..._values import dataclass, field
from ..match.names import normal_name
from ..match.paths import EACH, MISSING, FieldError, FieldPath
from ..match.spelling import key_text
from .values import cel_value, is_small

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class FactSource:
    """
    A place in a call that succeeded.

    Attributes:
        of: Whether it is in the result or among the arguments.
        path: Where; None for the result as a whole.
    """

    of: Literal["args", "result"]
    path: str | None
    _parsed: FieldPath | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parsed", None if self.path is None else FieldPath(self.path))

    @property
    def written(self) -> str:
        """Write it in full: ``result.status``, ``args.id``, ``result``."""
        return self.of if self.path is None else f"{self.of}.{self.path}"

    def read(self, args: Mapping[str, Any], result: Any) -> Any:
        """
        Find what stands there.

        Raises:
            FieldError: Nothing does.
        """
        whole, path = args if self.of == "args" else result, self._parsed
        if path is None:
            return whole
        if isinstance(whole, Mapping):
            return path.read(whole)
        # A list has paths too: `*` and positions.
        values = path.find(whole)
        if any(value is MISSING for value in values):
            raise FieldError(f"{path.text} is missing")
        return values if path.many else values[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """
    Hold what one call told.

    Attributes:
        key: About what, spelt as keys of contracts are; "" for a fact without a key.
        values: The values, as conditions see them.
    """

    key: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """
    A kind of fact that conditions read as ``facts.name[key].value``. Made by `fact`.

    Attributes:
        name: Its name.
        tools: The tools whose successful calls tell it, in NFC.
        key: Where the value stands that tells one from another; None if the latest is the only one.
        values: What is kept of a call, by name.
        fold: Which spellings of a key are one.
    """

    name: str
    tools: tuple[str, ...]
    key: FactSource | None
    values: tuple[tuple[str, FactSource], ...]
    fold: Fold | None = None

    @property
    def names(self) -> frozenset[str]:
        """The names of its values."""
        return frozenset(name for name, _ in self.values)

    @property
    def sources(self) -> tuple[FactSource, ...]:
        """List the places where its key and its values stand."""
        return tuple(source for source in (self.key, *dict(self.values).values()) if source is not None)

    @property
    def label(self) -> str:
        """Write it in one line: ``order[args.id] of get_order: status=result.status``."""
        key = "" if self.key is None else f"[{self.key.written}]"
        fold = "" if self.fold is None else f", fold={self.fold}"
        values = ", ".join(f"{name}={source.written}" for name, source in self.values)
        return f"{self.name}{key} of {', '.join(self.tools)}{fold}: {values}"

    def field_of(self, value: str | None) -> str:
        """Name the field that a value comes from, or, for None, the key."""
        source = self.key if value is None else dict(self.values)[value]
        parts = [] if source is None or source.path is None else source.path.split(".")
        return next((part for part in reversed(parts) if part != EACH), self.name)

    def spelt(self, key: Any) -> str:
        """
        Write a key as this fact's keys are kept.

        Raises:
            FieldError: It can be none.
        """
        return key_text(key, f"the key of facts.{self.name}", fold=self.fold)

    def told(self, args: Mapping[str, Any], result: Any) -> Told | None:
        """
        Read a call that succeeded. A value that is not there, or that conditions cannot hold, is left out.

        Returns:
            What it told; None if it does not say about what.
        """
        try:
            key = "" if self.key is None else self.spelt(self.key.read(args, result))
        except FieldError:
            return None
        values = {}
        for name, source in self.values:
            try:
                value = cel_value(source.read(args, result), name)
            except FieldError:
                # Forgetting can only refuse more: what reads it is a fault.
                continue
            if is_small(value):
                values[name] = value
        return Told(key=key, values=values)

    def form(self) -> dict[str, Any]:
        """Say in JSON what it is: the same for every way of writing it."""
        return {
            "name": self.name,
            "tools": list(self.tools),
            "key": None if self.key is None else self.key.written,
            "values": {name: source.written for name, source in self.values},
            "fold": self.fold,
        }


def fact(
    tool: str | Iterable[str],
    name: str,
    *,
    key: str | None = None,
    values: Mapping[str, str] | None = None,
    fold: Fold | None = None,
) -> Fact:
    """
    Let successful calls tell a fact.

    Args:
        tool: The tool, or several.
        name: What conditions call it.
        key: The argument that tells one from another, or ``result.path`` for a field of the result. Without
            it, the latest call tells the only one.
        values: What to keep, by name: a path in the result, ``args.path`` for an argument, or ``result`` for
            the result as a whole.
        fold: Which spellings of a key are one.

    Raises:
        TypeError: A tool, a name or a path is no text.
        ValueError: A name or a path is none.
    """
    tools: tuple[Any, ...] = (tool,) if isinstance(tool, str) else tuple(tool)
    if not tools or not all(isinstance(name, str) and name for name in tools):
        raise TypeError(f"a fact needs the names of the tools that tell it, got {tool!r:.80}")
    if any(mark in name for mark in "*?[" for name in tools):
        raise ValueError(f"a fact needs names of tools, not patterns, got {tool!r:.80}")
    texts: tuple[Any, ...] = (name, *(values or {}))
    for text in texts:
        if not isinstance(text, str) or not _NAME.fullmatch(text):
            raise ValueError(
                f"a name of a fact or of a value must be letters, digits and _, got {text!r:.80}"
            )
    if fold is not None and key is None:
        raise ValueError("fold needs a key")
    where = None if key is None else _source(key, "args")
    if where is not None and where.path is not None and FieldPath(where.path).many:
        raise ValueError(f"a key must name one value, got {key!r:.80}")
    return Fact(
        name=name,
        tools=tuple(sorted(set(map(normal_name, tools)))),
        key=where,
        values=tuple((text, _source(path, "result")) for text, path in sorted((values or {}).items())),
        fold=fold,
    )


def _source(path: Any, of: Literal["args", "result"]) -> FactSource:
    if path == "result":
        return FactSource("result", None)
    first, dot, rest = path.partition(".") if isinstance(path, str) else ("", "", "")
    if dot and first == "result":
        return FactSource("result", rest)
    return FactSource("args", rest) if dot and first == "args" else FactSource(of, path)
