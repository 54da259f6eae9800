"""Sessions of a recording, each of them whole; of a large one some, chosen by their names."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from .events import Began, Ended, Resumed, TraceEvent

__all__ = ("SampledCall", "SampledSessions", "own_name")

MOST_WEIGHT = 2**28
"""So many bytes of calls are held, about."""

_CALL = 1_500
_PART = 60


class SampledCall(NamedTuple):
    """
    A call, and when it began and ended, counted in all that was recorded.

    Attributes:
        call: The call.
        end: Its end, or None where it has none.
        began: The number of its beginning.
        ended: That of its end.
    """

    call: Began
    end: Ended | None
    began: int
    ended: float = math.inf


class SampledSessions:
    """
    Hold the calls of sessions.

    Where they would be more than fit into memory, every other session is left out, again and again. Whether
    one is depends on its name alone.

    Attributes:
        calls: The calls of each session, in the order in which they began.
        moved: Sessions that went on elsewhere, under another name.
        share: The share of the sessions that is held.
        cut: How many calls were left out of a session that is too large by itself.
    """

    def __init__(self) -> None:
        self.calls: dict[str, dict[Began, SampledCall]] = {}
        self.moved: set[str] = set()
        self.share = 1.0
        self.cut = 0
        self._weights: dict[str, int] = {}
        self._weight = 0
        self._number = 0

    def take(self, event: TraceEvent) -> None:
        """Take what happened in."""
        self._number += 1
        if isinstance(event, Resumed):
            if event.of is not None and self._is_held(event.of):
                self.moved.add(event.of)
        elif isinstance(event, Began) and self._is_held(own_name(event.session)):
            self._add(event)
        elif isinstance(event, Ended):
            held = self.calls.get(event.call.session)
            if held is not None and event.call in held:
                held[event.call] = SampledCall(event.call, event, held[event.call].began, self._number)
                self._weigh(event.call.session, _weight_of(event.result))

    def _add(self, call: Began) -> None:
        if self._weight > MOST_WEIGHT:
            self.cut += 1
            return
        self.calls.setdefault(call.session, {})[call] = SampledCall(call, None, self._number)
        self._weigh(call.session, _CALL + _weight_of(call.args))

    def _weigh(self, session: str, weight: int) -> None:
        self._weights[session] = self._weights.get(session, 0) + weight
        self._weight += weight

        while self._weight > MOST_WEIGHT and self._thin_out():
            pass

    def _thin_out(self) -> bool:
        """Leave out half of the sessions; tell whether there were any to leave out."""
        places = sorted({_place(own_name(name)) for name in self.calls})
        if len(places) < 2:
            return False
        self.share = places[len(places) // 2]
        for name in [name for name in self.calls if not self._is_held(own_name(name))]:
            del self.calls[name]
            self._weight -= self._weights.pop(name)
        self.moved = {name for name in self.moved if self._is_held(name)}
        return True

    def _is_held(self, name: str) -> bool:
        return _place(name) < self.share


def own_name(session: str) -> str:
    """Give the name of a session without the run of the engine, which stands behind it in evidence."""
    return session.rpartition(" (")[0] or session


def _weight_of(value: Any) -> int:
    """Tell about how many bytes a value takes in memory."""
    weight = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        weight += _PART + (len(part) if isinstance(part, str) else 0)
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
    return weight


def _place(name: str) -> float:
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) / 2**32
