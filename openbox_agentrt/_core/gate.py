"""
The one place that asks Core.

Every question has a total budget. Only an outage - no connection, no answer in time, 429, 5xx, an answer
that is not JSON - is asked again, with the same ids, which Core deduplicates. A breaker keeps an outage
from costing its timeout at every event. What comes of an outage is the fail policy's to say; everything
else that goes wrong - a 4xx, an answer that is not understood, an error inside openbox_core - is on the
strict side whatever the policy.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from openbox_core.contracts.events import EventEnvelope
from openbox_core.errors import OpenBoxAuthError

from .._plain.times import rfc3339
from ..decision import Answer, Verdict
from ..errors import GovernanceError, GovernanceUnavailableError
from .approvals import ApprovalKey, ApprovalWait
from .attempt import Outage, attempt, stamped
from .breaker import Breaker, Permit
from .counts import GateCounts
from .overdue import OverdueReports

if TYPE_CHECKING:
    from openbox_core.runtime import OpenBoxRuntime

    from ..options import GovernanceOptions

__all__ = ("CoreGate", "GateCounts")

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 4
FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 2.0


class CoreGate:
    """
    Questions to Core, for all runs of one governance.

    Args:
        runtime: openbox_core's runtime. It may come from elsewhere, with a transport of its own.
        breaker: Shared with the transport, so that openbox_core's hooks profit from it too.
        clock: Monotone time in seconds.
        sleep: Waits between attempts and polls.
        now: Time of day, for timestamps and the end of approvals.
    """

    def __init__(
        self,
        runtime: OpenBoxRuntime,
        options: GovernanceOptions,
        *,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._runtime = runtime
        self._options = options
        self._options = options
        self._breaker = Breaker(clock=clock) if breaker is None else breaker
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._in_outage = False
        self.counts = GateCounts()
        self._overdue = OverdueReports(self._told)
        max_wait = options.approval_max_wait_ms
        self._approvals = ApprovalWait(
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
            GovernanceUnavailableError: Core could not be asked and the call may not pass without, or Core
                did not take the question.
            OpenBoxAuthError: Core answered 401 or 403, under any policy.
        """
        outcome = await self._ask(event, self._stamp(event))
        if isinstance(outcome, Answer):
            if outcome.local:
                self.counts.not_understood += 1
            return outcome
        return self._without_core(event, outcome, destructive)

    async def report(self, event: EventEnvelope) -> Answer | None:
        """
        Tell Core about `event`, which has happened. Retried like a question, and never enforced. What an
        outage keeps from Core is told after it.

        Returns:
            What Core had to say to it; None when Core has not heard of it yet, or never will, which is
            counted and logged. Raises nothing but cancellation.
        """
        stamp = self._stamp(event)
        if self._overdue.holds(event):
            # The next question that is answered says that the outage is over.
            self._keep(event, stamp)
            return None
        outcome = await self._report(event, stamp)
        if isinstance(outcome, Outage):  # the outage itself has been logged, once
            log.debug("a %s report did not reach openbox core: %s", event.event_type.value, outcome.reason)
            self._keep(event, stamp)
            return None
        return outcome

    async def settle(self, *, seconds: float) -> int:
        """
        Tell Core what an outage has kept from it, for the last time. An outage that goes on is not waited
        for.

        Returns:
            The number of reports that were given up.
        """
        if not len(self._overdue):
            return 0
        self._breaker.try_now()
        lost = await self._overdue.give_up_after(seconds)
        if lost:
            self.counts.reports_lost += lost
            log.warning("gave up %d reports that openbox core could not be told in an outage", lost)
        return lost

    def _keep(self, event: EventEnvelope, stamp: str) -> None:
        if self._overdue.keep(stamped(event, stamp)):
            self.counts.reports_late += 1
        else:
            self.counts.reports_lost += 1

    async def _told(self, event: EventEnvelope) -> bool:
        return not isinstance(await self._report(event, self._stamp(event)), Outage)

    async def _report(self, event: EventEnvelope, stamp: str) -> Answer | Outage | None:
        try:
            return await self._ask(event, stamp)
        except Exception as error:  # noqa: BLE001
            # Fail-open by nature: the work has been done, and a report cannot undo it.
            self.counts.reports_lost += 1
            log.warning("a %s report was not taken by openbox core: %s", event.event_type.value, error)
            return None

    async def approve(
        self,
        answer: Answer,
        *,
        workflow_id: str,
        run_id: str,
        activity_id: str,
        cancelled: Callable[[], GovernanceError | None] = lambda: None,
        event: str | None = None,
    ) -> None:
        """
        Wait for the person whom `answer` requires; return only when the call is approved.

        The run may have been halted meanwhile: look again before the call starts.

        Raises:
            ApprovalRejectedError: A person said no.
            ApprovalExpiredError: The approval ran out.
            ApprovalTimeoutError: Nobody decided in time.
            GovernanceUnavailableError: Core does not take the question.
            OpenBoxAuthError: Core answered 401 or 403.
            GovernanceError: Whatever `cancelled` returned.
        """
        key = ApprovalKey.of(answer, workflow_id, run_id, activity_id, event)
        await self._approvals.decided(key, cancelled=cancelled)

    async def approved(
        self, answer: Answer, *, workflow_id: str, run_id: str, activity_id: str, event: str | None = None
    ) -> bool:
        """
        Ask once whether the call is approved; False while nobody has decided.

        Raises:
            ApprovalRejectedError: A person said no.
            ApprovalExpiredError: The approval ran out.
            GovernanceUnavailableError: Core does not take the question.
            OpenBoxAuthError: Core answered 401 or 403.
        """
        return await self._approvals.is_approved(
            ApprovalKey.of(answer, workflow_id, run_id, activity_id, event)
        )

    async def _ask(self, event: EventEnvelope, stamp: str) -> Answer | Outage:
        left, backoff = self._options.gate_budget, FIRST_BACKOFF
        ends = self._clock() + left
        outage: Outage | None = None
        for number in range(MAX_ATTEMPTS):
            if number > 0:
                left = ends - self._clock()
            if left <= 0:
                break
            permit = self._breaker.admit()
            if permit is None:
                self.counts.breaker_skipped += 1
                skipped = "core was not asked, it has not been answering"
                outage = Outage(reason=skipped) if outage is None else replace(outage, reason=skipped)
                break
            self.counts.requests += 1
            if number > 0:
                self._retried()
            limit = left if permit.limit is None else min(left, permit.limit)
            try:
                outcome = await attempt(
                    self._runtime,
                    event,
                    stamp=stamp,
                    limit=limit,
                    on_unknown=self._options.on_unknown_verdict,
                    now=self._now,
                )
            except BaseException as error:
                self._failed(error, permit)
                raise
            if isinstance(outcome, Answer):
                self._answered()
                return outcome
            outage = outcome
            enough = min(limit, self._options.gate_budget / 2)
            waited = outage.timed_out and self._clock() - permit.started >= enough
            self._breaker.failed(permit, waited_to_the_end=waited)
            # Jitter, so that many runs that failed together do not come back together.
            wait = max(outage.retry_after, backoff * (0.5 + random.random() / 2))
            if number + 1 == MAX_ATTEMPTS or wait >= ends - self._clock():
                break
            await self._sleep(wait)
            backoff = min(2 * backoff, LONGEST_BACKOFF)
        outage = outage or Outage(reason="there was no time to ask core")
        self._outage(outage)
        return outage

    def _failed(self, error: BaseException, permit: Permit) -> None:
        """An attempt ended with `error`; what that says about the line to Core."""
        refusal = error if isinstance(error, GovernanceUnavailableError) else None
        self.counts.refused += refusal is not None
        if isinstance(error, OpenBoxAuthError) or (refusal is not None and refusal.status is not None):
            self._answered()
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
        # Fail-open: the call passes ungoverned, and is recorded as such.
        self.counts.fail_open += 1
        reason = f"passed ungoverned: {outage.reason}"
        return Answer(verdict=Verdict.ALLOW, reason=reason, unreachable=True, local=True)

    def _outage(self, outage: Outage) -> None:
        self.counts.outages += 1
        if not self._in_outage:
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

    def _answered(self) -> None:
        self._breaker.answered()
        if self._in_outage:
            self._in_outage = False
            log.warning("openbox core answers again")
        self._overdue.tell_soon()

    def _stamp(self, event: EventEnvelope) -> str:
        # Once, so that a retry says when it happened and not when it was asked again.
        return event.timestamp or rfc3339(self._now())
