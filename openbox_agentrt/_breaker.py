"""
A circuit breaker: while a service does not answer - Core, or a shared store - nothing waits for it for long.

Closed, it lets everything through. It opens after `failures` attempts in a row without an answer, never
for one: what is slow for one event may be well for the next. Open, it lets a question through as one
short try, since what a policy blocks must not run unasked because other questions failed; and it holds back
what can wait, or can be refused. After a pause it is half open: one attempt at a time goes through as a
probe. A probe that fails opens it again for twice as long, with twice the time for the next one, so that a
service that is merely slow is found again too.

No locks: a fork or a second thread may at worst see two probes instead of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

SHORTEST_OUTAGE = 0.5
"""
Seconds that failures in a row have to span. A hundred requests that one reset cut off are not an outage.
"""


class Permit(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """
    Leave to make one attempt. It is given back with exactly one of the breaker's methods.

    Attributes:
        started: When the attempt began, by the breaker's clock.
        limit: Seconds that the attempt may take; None for no limit of the breaker's.
    """

    started: float
    limit: float | None = None


FREE: Final = Permit(started=0.0)
"""Leave while closed: there is nothing to know about it."""


class Breaker:
    """
    State of the line to one service.

    Args:
        failures: Attempts in a row without an answer that open it.
        first_pause: Seconds until the first probe.
        longest_pause: Seconds that the pause grows to.
        first_limit: Seconds that the first probe may take, and any question while it is open.
        clock: Monotone time in seconds.

    Attributes:
        is_sound: Whether nothing has failed since the last answer. Every permit is `FREE` then, and an answer
            is no news.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        first_pause: float = 1.0,
        longest_pause: float = 30.0,
        first_limit: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._first_limit = first_limit
        self._clock = clock
        self.is_sound = True
        self._failed_in_a_row = 0
        self._failing_since = 0.0
        self._open_until: float | None = None
        self._pause = first_pause
        self._limit = first_limit
        self._probe: Permit | None = None

    @property
    def is_open(self) -> bool:
        """True while it has not been answering."""
        return self._open_until is not None

    @property
    def pause_left(self) -> float:
        """Seconds until the next probe; 0 while closed."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self._clock())

    def to_ask(self) -> Permit:
        """Give leave for one attempt of a question: a short one while open."""
        if self._open_until is None:
            return FREE
        now = self._clock()
        return self._next_probe(now) or Permit(started=now, limit=self._first_limit)

    def to_tell(self) -> Permit | None:
        """Give leave for one attempt of a report, or None while open."""
        return FREE if self._open_until is None else self._next_probe(self._clock())

    def answered(self) -> None:
        """An attempt got an answer, whatever it said: the service is there."""
        self.is_sound = True
        self._failed_in_a_row = 0
        self._open_until = None
        self._pause, self._limit = self._first_pause, self._first_limit
        self._probe = None

    def failed(self, permit: Permit) -> None:
        """The attempt got no answer."""
        now = self._clock()
        self.is_sound = False
        if self._failed_in_a_row == 0:
            self._failing_since = now
        self._failed_in_a_row += 1
        if self._open_until is not None:
            if permit is self._probe:
                self._pause = min(2 * self._pause, self._longest_pause)
                self._limit = 2 * self._limit
                self._open_until = now + self._pause
                self._probe = None
            return
        lasting = now - self._failing_since >= SHORTEST_OUTAGE
        if lasting and self._failed_in_a_row >= self._failures:
            self._open_until = now + self._pause

    def expect_answer(self) -> None:
        """Let the next attempt be a probe, however long the pause: there is reason to try again now."""
        if self._open_until is not None:
            self._open_until = self._clock()

    def abandoned(self, permit: Permit) -> None:
        """The attempt was given up before it had a result, for a reason that says nothing about it."""
        if permit is self._probe:
            self._probe = None

    def _next_probe(self, now: float) -> Permit | None:
        if self._open_until is None or now < self._open_until or self._probe_is_out(now):
            return None
        self._probe = Permit(started=now, limit=self._limit)
        return self._probe

    def _probe_is_out(self, now: float) -> bool:
        # A probe that never came back - its thread died, or this is a fork - must not block the next for
        # ever.
        probe = self._probe
        return probe is not None and now < probe.started + 2 * (probe.limit or 0.0) + self._longest_pause
