"""Calls whose end has not come yet, by the ids with which it will name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .events import Began, Ended

__all__ = ("OpenCalls",)

MOST_OPEN = 10_000
"""So many calls of a file wait for their ends; nobody knows how the oldest of more ended."""


class OpenCalls:
    """
    Hold the calls of a file that have begun and not ended.

    Args:
        unread: Counts what cannot be put together.
    """

    def __init__(self, unread: Counter[str]) -> None:
        self._unread = unread
        # An id is any JSON, by its text: 1 and "1" are two.
        self._open: dict[str, Began] = {}

    def add(self, id: object, call: Began) -> Iterator[Began | Ended]:
        """
        Give a call as it begins.

        Where one with its id is under way, nobody can say to which of them an end belongs, so both end as
        unknown; one that says the same is the same, written twice.
        """
        name = repr(id)
        other = self._open.get(name)
        if other is None:
            self._open[name] = call
            yield call
            if len(self._open) > MOST_OPEN:
                self._unread["calls whose end was not waited for any longer"] += 1
                yield _unknown(self._open.pop(next(iter(self._open))))
            return
        self._unread["an id that stands twice"] += 1
        if (other.tool, other.args) == (call.tool, call.args):
            return
        yield _unknown(self._open.pop(name))
        yield call
        yield _unknown(call)

    def __contains__(self, id: object) -> bool:
        return repr(id) in self._open

    def pop(self, id: object) -> Began | None:
        """Take the call out that ends; None where there is none."""
        return self._open.pop(repr(id), None)

    def rest(self) -> Iterator[Ended]:
        """End the calls that have no end: nobody knows what became of them."""
        for call in self._open.values():
            yield _unknown(call)
        self._open.clear()


def _unknown(call: Began) -> Ended:
    return Ended(call=call, outcome="unknown", at=call.at)
