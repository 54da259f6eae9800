"""Stand-ins for values that cannot be looked into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from .._values import dataclass

WhyUnseen: TypeAlias = Literal["cycle", "too deep", "unreadable", "opaque"]


@dataclass(frozen=True, slots=True)
class Unseen:
    """
    Stand for a value that cannot be looked into.

    It is no text, number, list or mapping, so that nothing that reads those takes it for a value; whoever
    needs the value has to refuse, since it is there and nobody knows what it is. Records and Core get its
    text.

    Attributes:
        why: "cycle" for a container inside itself, "too deep", "unreadable" if its own code raised, "opaque"
            for an object that shows no fields.
        kind: Full name of its type, or None where that says nothing.
    """

    why: WhyUnseen
    kind: str | None = None

    def __str__(self) -> str:
        return f"<{self.why}>" if self.kind is None else f"<{self.why} {self.kind}>"


def unseen_in(value: Any) -> Iterator[Unseen]:
    """Find every stand-in in plain data."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Unseen):
            yield part
        elif isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple | set | frozenset):
            waiting.extend(part)
