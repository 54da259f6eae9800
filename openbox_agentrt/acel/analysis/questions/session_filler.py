"""Try traces with values for what conditions read, on sessions of all contracts, as long as it helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from ..filling.filled_traces import Distance, fill, filling_of
from ..search.trace_row import TraceRow
from .searched import Subject
from .witness import played_along

__all__ = ("SessionFiller",)

_MOST_PLAYED = 240
# So many traces with other calls are tried for one thing that is asked, and
_MOST_FILLED = 10
# so many about calls of one tool of which no session shows what is looked for: fewer where none ever has.
_MOST_FAILED = 16
_FEW_FAILED = 4


class SessionFiller:
    """
    Try traces that lack what conditions read.

    Args:
        subject: The rules. With the ways that are known come the calls that tell a fact.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._shown: set[str] = set()
        self._tried: dict[Hashable, set[Hashable]] = {}
        self._failed: Counter[str] = Counter()

    def shows(
        self,
        about: Hashable,
        rows: Sequence[TraceRow],
        distance: Callable[[Sequence[TraceRow], Sequence[TraceRow]], Distance],
    ) -> bool:
        """
        Tell whether a session shows what is asked, once its trace is filled.

        Args:
            about: What is asked. Traces with the same calls are tried once for it.
            rows: The trace.
            distance: Says how far a session is from showing it, by the trace and by how it happened.
        """
        tried = self._tried.setdefault(about, set())
        calls = tuple((row.kind, row.tool, row.outcome) for row in rows)
        last = rows[-1].tool
        most = _MOST_FAILED if last in self._shown else _FEW_FAILED
        if calls in tried or len(tried) >= _MOST_FILLED or self._failed[last] >= most:
            return False
        tried.add(calls)
        # What calls have told stays told, and what they count does: so the same once more may show it.
        found = any(self._is_shown(some, distance) for some in (rows, [*rows, *rows]))
        self._failed[last] = 0 if found else self._failed[last] + 1
        self._shown |= {last} if found else set()
        return found

    def _is_shown(
        self,
        rows: Sequence[TraceRow],
        distance: Callable[[Sequence[TraceRow], Sequence[TraceRow]], Distance],
    ) -> bool:
        subject = self._subject
        (under, *_) = subject.surroundings
        filling = filling_of(rows, subject.every, under.start, subject.ways)
        return bool(filling.places) and fill(
            filling,
            lambda tried: played_along(tried, subject.every, subject.state, under),
            distance,
            _MOST_PLAYED,
        )
