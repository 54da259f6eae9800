"""
The one place that asks Core.

Every question has a total budget, and each is tried within its own, whatever became of others. Only an
outage - no connection, no answer in time, 429, 5xx - is asked again, with the same ids, which Core
deduplicates. While Core has not been answering for some time, a breaker keeps a question to one short try,
and reports wait. What comes of an outage is the fail policy's to say; everything else that goes wrong - a
4xx, an answer that is not understood, an error inside openbox_core - is on the strict side whatever the
policy.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from openbox_core.contracts.events import EventEnvelope
from openbox_core.errors import OpenBoxAuthError

from .._breaker import FREE, Breaker, Permit
from .._plain.times import rfc3339, utc_now
from ..decision import Answer, Verdict
from ..errors import GovernanceError, GovernanceUnavailableError
from ..lifecycle_events import PartialEvent
from .approvals import ApprovalKey, ApprovalWait, PollAnswer
from .attempt import TOO_MANY_REQUESTS, Attempts, Outage, stamped
from .counts import GateCounts
from .reports import ReportQueue

if TYPE_CHECKING:
    from openbox_core.runtime import OpenBoxRuntime

    from ..options import GovernanceOptions


log = logging.getLogger(__name__)

MAX_ATTEMPTS = 4
FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 2.0
LAST_TRY_SECONDS = 1.0
"""Time that a wait which Core asks for leaves for a last attempt, where the budget ends before it."""


class CoreGate:
    """
    Questions and reports to Core, for all runs of one governance.

    Args:
        runtime: openbox_core's runtime. It may come from elsewhere, with a transport of its own.
        breaker: Shared with the transport, so that openbox_core's hooks profit from it too.
        clock: Monotone time in seconds.
        sleep: Waits between attempts and polls.
        now: Time of day, for timestamps and the end of approvals.

    Attributes:
        counts: What the gate has done so far.
        reports: Reports of all runs that Core does not have yet.
        approvals: Asks Core what people have decided.
        waiting: How many calls wait for a person now.
    """

    def __init__(
        self,
        runtime: OpenBoxRuntime,
        options: GovernanceOptions,
        *,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._runtime = runtime
        self._options = options
        self._breaker = Breaker(clock=clock) if breaker is None else breaker
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._in_outage = False
        self._attempts = Attempts(runtime, on_unknown=options.on_unknown_verdict, now=now)
        self.counts = GateCounts()
        self.waiting = 0
        self.reports = ReportQueue(
            self._report, self._stamped, self.counts, catch_up_seconds=options.gate_budget / 2
        )
        max_wait = options.approval_max_wait_ms
        self.approvals = ApprovalWait(
            runtime.client,
            interval_seconds=options.approval_poll_interval_ms / 1000,
            max_wait_seconds=None if max_wait is None else max_wait / 1000,
            clock=clock,
            now=now,
            sleep=sleep,
        )

    @property
    def breaker(self) -> Breaker:
        """The state of the line to Core."""
        return self._breaker

    async def judge(self, event: EventEnvelope, *, destructive: bool = False) -> Answer:
        """
        Ask about `event`, which has not happened yet.

        Args:
            destructive: Whether the event is one that ``fail_closed_destructive`` keeps closed in an outage.

        Returns:
            Core's answer, or under ``fail_open`` an ALLOW with `Answer.unreachable` set.

        Raises:
            GovernanceUnavailableError: Core could not be asked and the call may not pass without, Core did
                not take the question, or it allowed something of which it could be shown only a part.
            OpenBoxAuthError: Core answered 401 or 403, under any policy.
        """
        outcome = await self._ask(event, self._options.gate_budget)
        if isinstance(outcome, Outage):
            return self._without_core(event, outcome, destructive)
        if outcome.local:
            self.counts.not_understood += 1
        if isinstance(event, PartialEvent) and not outcome.verdict.should_stop():
            # Fail-closed: what Core was not shown may be what it would have stopped.
            self.counts.refused += 1
            raise GovernanceUnavailableError(
                "core could be shown only a part of it",
                kind="unreadable",
                event=event.activity_type,
                remedy="raise max_payload_bytes, or pass less at once",
            )
        return outcome

    async def settle(self, *, seconds: float) -> int:
        """
        Tell Core what it does not have yet, for the last time. An outage that goes on is not waited for.

        Returns:
            The number of reports that were given up.
        """
        return await self.reports.settle(seconds=seconds)

    async def _report(
        self, event: EventEnvelope, *, seconds: float | None = None, urgent: bool = False
    ) -> Answer | Outage | None:
        """Tell Core of `event`, which has happened. Never enforced, and raises nothing but cancellation."""
        budget = self._options.gate_budget if seconds is None else min(seconds, self._options.gate_budget)
        try:
            return await self._ask(event, budget, is_report=True, urgent=urgent)
        except Exception as error:  # noqa: BLE001
            # Fail-open by nature: the work has been done, and a report cannot undo it.
            self.counts.reports_lost += 1
            log.warning("a %s report was not taken by openbox core: %s", event.event_type.value, error)
            return None

    async def approve(
        self, key: ApprovalKey, *, cancelled: Callable[[], GovernanceError | None] = lambda: None
    ) -> PollAnswer:
        """
        Wait for the person who is to decide; return only when the call is approved.

        The run may have been halted meanwhile: look again before the call starts.

        Raises:
            ApprovalRejectedError: A person said no.
            ApprovalExpiredError: The approval ran out.
            GovernanceHaltError: Somebody halted what waits.
            ApprovalTimeoutError: Nobody decided in time.
            GovernanceUnavailableError: Core does not take the question.
            OpenBoxAuthError: Core answered 401 or 403.
            GovernanceError: Whatever `cancelled` returned.
        """
        self.waiting += 1
        try:
            return await self.approvals.decided(key, cancelled=cancelled)
        finally:
            self.waiting -= 1

    async def _ask(
        self, event: EventEnvelope, budget: float, *, is_report: bool = False, urgent: bool = False
    ) -> Answer | Outage:
        event_time = event.timestamp or rfc3339(self._now())
        ends = self._clock() + budget
        left, backoff, number = budget, FIRST_BACKOFF, 0
        outage: Outage | None = None
        breaker, permit = self._breaker, FREE
        while left > 0:
            if not breaker.is_sound:
                leave = breaker.to_tell() if is_report and not urgent else breaker.to_ask()
                if leave is None:
                    self.counts.breaker_skipped += 1
                    outage = outage or Outage(
                        reason="core was not told, it has not been answering", skipped=True
                    )
                    break
                permit = leave
            self.counts.requests += 1
            try:
                limit = left if permit.limit is None else min(left, permit.limit)
                outcome = await self._attempts.ask(event, event_time, limit)
            except BaseException as error:
                self._failed(error, permit)
                raise
            if isinstance(outcome, Answer):
                if not breaker.is_sound:
                    breaker.answered()
                if self._in_outage or self.reports.has_stalled:
                    self._outage_is_over()
                return outcome
            self._unanswered(outcome, permit)
            outage = outcome if outage is None else replace(outcome, said=outcome.said or outage.said)
            number += 1
            wait = self._wait(outage, permit, number, backoff, ends - self._clock(), is_report)
            if wait is None:
                break
            await self._sleep(wait)
            backoff = min(2 * backoff, LONGEST_BACKOFF)
            left = ends - self._clock()
            if left > 0:
                self._retried()
        outage = replace(outage or Outage(reason="there was no time to ask core"), asked_at=event_time)
        self._outage(outage, is_report=is_report)
        return outage

    def _unanswered(self, outage: Outage, permit: Permit) -> None:
        if outage.status == TOO_MANY_REQUESTS:
            # Core is there, and has asked for patience.
            self._breaker.abandoned(permit)
        else:
            self._breaker.failed(permit)

    def _wait(
        self, outage: Outage, permit: Permit, number: int, backoff: float, left: float, is_report: bool
    ) -> float | None:
        """Seconds until the next attempt; None when there is to be none."""
        # Jitter, so that many questions that failed together do not come back together.
        wait = backoff * (0.5 + random.random() / 2)
        if is_report or not (outage.retry_after or outage.status == TOO_MANY_REQUESTS):
            wait = max(wait, outage.retry_after)
            more = number < MAX_ATTEMPTS and permit.limit is None and wait < left
            return wait if more else None
        # A question waits as long as Core asks for, within its budget, and tries once more at its end.
        latest = left - min(LAST_TRY_SECONDS, self._options.gate_budget / 4)
        wait = min(max(wait, outage.retry_after), latest)
        return wait if wait > 0 else None

    def _failed(self, error: BaseException, permit: Permit) -> None:
        """An attempt ended with `error`; what that says about the line to Core."""
        refusal = error if isinstance(error, GovernanceUnavailableError) else None
        self.counts.refused += refusal is not None
        if isinstance(error, OpenBoxAuthError) or (refusal is not None and refusal.status is not None):
            self._breaker.answered()
            self._outage_is_over()
        else:
            # Nothing: it was cancelled, most of the time, or the event could not be put to Core.
            self._breaker.abandoned(permit)

    def _without_core(self, event: EventEnvelope, outage: Outage, destructive: bool) -> Answer:
        policies = (self._options.on_api_error, self._runtime.config.on_api_error)
        if "fail_closed" in policies or (destructive and self._options.fail_closed_destructive):
            # Fail-closed: without an answer the call does not run.
            self.counts.fail_closed += 1
            raise GovernanceUnavailableError(
                outage.reason, kind="outage", status=outage.status, event=event.activity_type
            )
        if outage.said is not None:
            # Fail-closed under either policy: a no that came with an error, or half of an answer, is no yes.
            self.counts.not_understood += 1
            return outage.said
        # Fail-open: the call passes ungoverned, and is recorded as such.
        self.counts.fail_open += 1
        log.warning("%s passed ungoverned: %s", _named(event), outage.reason)
        reason = f"passed ungoverned: {outage.reason}"
        return Answer(verdict=Verdict.ALLOW, reason=reason, unreachable=True, local=True)

    def _outage(self, outage: Outage, *, is_report: bool) -> None:
        self.counts.outages += 1
        # One report that Core does not take is no outage, as long as it answers what it is asked.
        known = outage.skipped or (is_report and not self._breaker.is_open)
        if not self._in_outage and not known:
            self._in_outage = True
            log.warning(
                "openbox core does not answer (%s); on_api_error is %s",
                outage.reason,
                self._options.on_api_error,
            )

    def _retried(self) -> None:
        self.counts.retries += 1
        record = getattr(self._options.metrics, "record_retry", None)
        if record is not None:
            try:
                record()
            except Exception:
                # Fail-open for the count: it must not keep the question from being asked.
                log.exception("the metrics failed on a retry")

    def _outage_is_over(self) -> None:
        if self._in_outage:
            self._in_outage = False
            log.warning("openbox core answers again")
        if self.reports.has_stalled:
            self.reports.core_answers()

    def _stamped(self, event: EventEnvelope) -> EventEnvelope:
        # Once, so that a retry says when it happened and not when it was asked again.
        return stamped(event, rfc3339(self._now()))


def _named(event: EventEnvelope) -> str:
    agent = event.payload.get("agent_name") or event.payload.get("workflow_type")
    return f"{event.activity_type or event.payload.get('signal_name')!r} of agent {agent!r}"
