"""
Whose conversation a span is of, where it does not say so itself.

The agent's span names it in most programs, and those of its tools do not. So a span is of the conversation of
the nearest span that it began in and that names one; else of the one that its trace names, if that is one.
"""

from __future__ import annotations

from collections.abc import Iterator

from .spilled import Spilled

__all__ = ("Conversations",)

MOST_TRACES = 10_000
"""Of so many traces it is known in memory whose they are; the others wait in a file."""

MOST_SPANS = 50_000
"""So many spans are known that others may begin in, the latest of them."""

MOST_ABOVE = 1_000
"""So many spans are looked through above one."""

# What stands for the name of a conversation where there are several: no name is empty.
_SEVERAL = ""


class Conversations:
    """
    Tell whose conversation the spans of a file are of.

    First every name is told (`named`), then each span in the order in which they began.
    """

    def __init__(self) -> None:
        self._of_trace: dict[str, str] = {}
        self._spilled: Spilled | None = None
        # By trace and id: what a span names, and the id of the one above.
        self._spans: dict[tuple[str, str], tuple[str | None, str]] = {}

    def named(self, trace: str, name: str) -> None:
        """Take note that a span of a trace names a conversation."""
        known = self._of_trace.setdefault(trace, name)
        if known != name:
            self._of_trace[trace] = _SEVERAL
        elif len(self._of_trace) > MOST_TRACES:
            self._spill()

    def began(self, trace: str, id: str, parent: str, name: str | None) -> None:
        """Take note of a span, and of what it names."""
        if id and (name is not None or parent):
            self._spans[trace, id] = name, parent
            if len(self._spans) > MOST_SPANS:
                del self._spans[next(iter(self._spans))]

    def of(self, trace: str, parent: str) -> str | None:
        """Give the conversation of a span that names none, or the trace where none does; None if unknown."""
        for name in self._above(trace, parent):
            if name is not None:
                return name
        name = self._named_by(trace)
        return trace if name is None else name or None

    def _named_by(self, trace: str) -> str | None:
        if self._spilled is None:
            return self._of_trace.get(trace)
        if self._of_trace:
            # Of a trace that is in both, each knows a part.
            self._spill()
        spilled = self._spilled.get(trace)
        return None if spilled is None else spilled.decode("utf-8", "surrogatepass")

    def _above(self, trace: str, parent: str) -> Iterator[str | None]:
        # Nobody keeps ids from naming each other in a circle.
        for _ in range(MOST_ABOVE):
            name, above = self._spans.get((trace, parent), (None, ""))
            yield name
            if not above:
                return
            parent = above

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = Spilled()
        written = {}
        for trace, name in self._of_trace.items():
            data = name.encode("utf-8", "surrogatepass")
            before = self._spilled.get(trace)
            written[trace] = data if before is None or before == data else b""
        self._spilled.put(written)
        self._of_trace.clear()
