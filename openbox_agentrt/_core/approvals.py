"""
Waiting for a person.

An approval is polled by the ids of the workflow, the run and the activity, since Core often sends no
approval id. The event is never evaluated again while waiting: that would reset what the person decided.
Silence is a no, and so is an approval that ran out, whatever was decided afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NoReturn

from openbox_core.contracts.results import ApprovalResult, PatchDirective
from openbox_core.errors import OpenBoxAuthError

from .._plain.strict_json import JsonError
from .._plain.times import utc_now
from .._plain.words import word
from .._wire.payloads import safe_text
from ..errors import (
    ApprovalExpiredError,
    ApprovalRejectedError,
    ApprovalTimeoutError,
    GovernanceError,
    GovernanceHaltError,
    GovernanceUnavailableError,
)
from .parsing import decoded, parse_time, patch_in
from .transport.exchange import APPROVAL, Exchange, recording

if TYPE_CHECKING:
    from openbox_core.client import EvaluationClient

    from ..decision import Answer


log = logging.getLogger(__name__)

MAX_UNANSWERED: Final = 60
"""Polls in a row without an answer after which nobody is expected to answer any more."""

_SLICE_SECONDS: Final = 1.0
_OVER: Final = frozenset({"halt", "stop", "expired", "timeout", "timed_out"})
_NO: Final = frozenset({"block", "blocked", "reject", "rejected", "deny", "denied", "decline", "declined"})


class ApprovalState(Enum):
    """State of an approval, as a poll tells it."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    HALTED = "halted"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalKey:
    """Name an approval by the ids that it is polled by, and say what its errors are about."""

    workflow_id: str
    run_id: str
    activity_id: str
    event: str | None = None
    approval_id: str | None = None
    expires_at: datetime | None = None

    @classmethod
    def of(
        cls, answer: Answer, *, workflow_id: str, run_id: str, activity_id: str, event: str | None = None
    ) -> ApprovalKey:
        """The key of the approval that `answer` requires."""
        return cls(
            workflow_id=workflow_id,
            run_id=run_id,
            activity_id=activity_id,
            event=event,
            approval_id=answer.approval_id,
            expires_at=answer.approval_expires_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PollAnswer:
    """
    One poll, read strictly.

    Attributes:
        reason: What the person said, or why one is asked.
        decided_by: The person who decided, when Core says who.
    """

    state: ApprovalState
    reason: str | None = None
    patch: PatchDirective | None = None
    decided_by: str | None = None


def parse_poll(raw: object, *, now: datetime) -> PollAnswer:
    """
    The state in `raw`, the decoded JSON of a poll.

    ``action`` is what the person decided and ``verdict`` what the policy said before; where one of them
    stops the call, it counts. A no is one in any of its words and wherever it stands, for nobody is to be
    waited for who has said it; a yes has only the words of the vocabulary. Other words are no decision.
    Running out beats an allow, and a halt, whose reason is in ``halted``, beats all.
    """
    if not isinstance(raw, Mapping):
        return PollAnswer(state=ApprovalState.UNANSWERED)
    reason, who, halted = (_text_in(raw, name) for name in ("reason", "decided_by", "halted"))
    if halted is not None:
        return PollAnswer(state=ApprovalState.HALTED, reason=halted)
    words = [word(raw.get(name)) for name in ("action", "verdict")]
    said = {*words, *(word(raw.get(name)) for name in ("status", "decision"))}
    expires_at = parse_time(raw.get("approval_expiration_time"))
    ran_out = expires_at is not None and now > expires_at
    if _says_expired(raw) or ran_out or said & _OVER:
        return PollAnswer(state=ApprovalState.EXPIRED, reason=reason)
    if said & _NO:
        patch = patch_in({**raw, "action": "block", "expired": False}, ApprovalResult.from_dict)
        return PollAnswer(state=ApprovalState.REJECTED, reason=reason, patch=patch, decided_by=who)
    decided = words[0] if words[0] else words[1]
    if decided in ("allow", "continue"):
        return PollAnswer(state=ApprovalState.APPROVED, reason=reason, decided_by=who)
    return PollAnswer(state=ApprovalState.PENDING, reason=reason)


def _text_in(raw: Mapping[str, Any], name: str) -> str | None:
    value = raw.get(name)
    # In whole characters: it becomes the message of an error, which somebody prints.
    return safe_text(value) if isinstance(value, str) and value.strip() else None


def _says_expired(raw: Mapping[str, Any]) -> bool:
    value = raw.get("expired", False)
    if isinstance(value, str):
        return value.strip().lower() not in ("", "false")
    return bool(value)


class ApprovalWait:
    """
    Waits for decisions through one client.

    Args:
        interval_seconds: Time between two polls.
        max_wait_seconds: Time after which nobody is waited for any longer; None waits for ever.
        clock: Monotone time in seconds.
        now: Time of day, for the moment at which an approval runs out.
        sleep: Waits; called with a second at most, so that a run that ended does not go on waiting.
    """

    def __init__(
        self,
        client: EvaluationClient,
        *,
        interval_seconds: float,
        max_wait_seconds: float | None,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self._interval = interval_seconds
        self._max_wait = max_wait_seconds
        self._clock = clock
        self._now = now
        self._sleep = sleep

    async def decided(
        self, key: ApprovalKey, *, cancelled: Callable[[], GovernanceError | None] = lambda: None
    ) -> PollAnswer:
        """
        Wait until the call is approved, and return only then.

        Args:
            cancelled: Asked before every poll and after the decision; an error that it returns is raised.

        Raises:
            ApprovalRejectedError: A person said no.
            ApprovalExpiredError: The approval ran out.
            GovernanceHaltError: Somebody halted what waits.
            ApprovalTimeoutError: Nobody decided in time, or Core could not be asked any more.
            GovernanceUnavailableError: Core does not take the question.
            OpenBoxAuthError: Core answered 401 or 403.
        """
        began = self._clock()
        unanswered = 0
        while True:
            _raise_if(cancelled())
            answer = await self.poll(key)
            self._raise_if_over(answer, key)
            if answer.state is ApprovalState.APPROVED:
                _raise_if(cancelled())
                return answer
            unanswered = unanswered + 1 if answer.state is ApprovalState.UNANSWERED else 0
            if unanswered >= MAX_UNANSWERED:
                raise ApprovalTimeoutError(
                    "core could not be asked any more", event=key.event, approval_id=key.approval_id
                )
            await self._pause(began, key, cancelled)

    async def asked_once(self, key: ApprovalKey) -> PollAnswer | None:
        """
        Ask once whether the call is approved; None while nobody has decided.

        Raises:
            ApprovalRejectedError: A person said no.
            ApprovalExpiredError: The approval ran out.
            GovernanceHaltError: Somebody halted what waits.
            GovernanceUnavailableError: Core does not take the question.
            OpenBoxAuthError: Core answered 401 or 403.
        """
        answer = await self.poll(key)
        self._raise_if_over(answer, key)
        return answer if answer.state is ApprovalState.APPROVED else None

    async def poll(self, key: ApprovalKey) -> PollAnswer:
        """
        Ask Core once for the decision.

        Raises:
            GovernanceUnavailableError: Core does not take the question.
            OpenBoxAuthError: Core answered 401 or 403.
        """
        with recording() as exchange:
            try:
                result = await self._client.apoll_approval(key.workflow_id, key.run_id, key.activity_id)
            except OpenBoxAuthError:
                raise
            except Exception as error:  # noqa: BLE001
                # Not approved: a poll that fails for whatever reason is no answer.
                log.warning("asking for an approval failed: %s", type(error).__name__)
                result = None
        _raise_for_status(exchange, key)
        return parse_poll(_raw(exchange, result), now=self._now())

    def _raise_if_over(self, answer: PollAnswer, key: ApprovalKey) -> None:
        if answer.state is ApprovalState.REJECTED:
            raise ApprovalRejectedError(
                answer.reason,
                event=key.event,
                approval_id=key.approval_id,
                patch=answer.patch,
                decided_by=answer.decided_by,
            )
        if answer.state is ApprovalState.HALTED:
            raise GovernanceHaltError(answer.reason or "", event=key.event)
        ran_out = key.expires_at is not None and self._now() > key.expires_at
        if answer.state is ApprovalState.EXPIRED or ran_out:
            raise ApprovalExpiredError(answer.reason, event=key.event, approval_id=key.approval_id)

    async def _pause(
        self, began: float, key: ApprovalKey, cancelled: Callable[[], GovernanceError | None]
    ) -> None:
        until = self._clock() + self._interval
        if self._max_wait is not None:
            deadline = began + self._max_wait
            if self._clock() >= deadline:
                raise ApprovalTimeoutError(
                    max_wait_ms=round(self._max_wait * 1000), event=key.event, approval_id=key.approval_id
                )
            until = min(until, deadline)
        while (left := until - self._clock()) > 0:
            _raise_if(cancelled())
            await self._sleep(min(left, _SLICE_SECONDS))


def _raise_if(error: GovernanceError | None) -> None:
    if error is not None:
        raise error


def _raise_for_status(exchange: Exchange, key: ApprovalKey) -> None:
    status = exchange.status
    # 404 says that Core does not know of the approval, which it may do in a moment.
    if status is None or status in (404, 408, 429) or status >= 500 or 200 <= status < 300:
        return
    _raise_unavailable(status, key)


def _raise_unavailable(status: int, key: ApprovalKey) -> NoReturn:
    raise GovernanceUnavailableError(
        f"core does not say whether it is approved: HTTP {status}",
        kind="refused",
        status=status,
        event=key.event,
    )


def _raw(exchange: Exchange, result: ApprovalResult | None) -> object:
    if exchange.status is not None:
        if exchange.body is None or not 200 <= exchange.status < 300 or not exchange.is_about(APPROVAL):
            return None
        try:
            return decoded(exchange.body)
        except JsonError:
            return None
    if result is None:
        return None
    # A client whose transport is not ours. openbox_core takes Go's zero time for a time long past, and writes
    # `expired` into the answer.
    raw = dict(result.raw)
    stamp = raw.get("approval_expiration_time")
    if stamp and parse_time(stamp) is None:
        raw.pop("expired", None)
    return raw
