"""From an event to its answer: what the run may still do, what was answered before, what the policy says."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from .._ids import new_id
from .._plain.times import rfc3339
from .approvals import Approval
from .failures import place_of
from .judge import PolicyJudge
from .policy import PolicyDecision
from .store import EventStore, RunEnd, decoded
from .wire import Event

Guard = Callable[[dict[str, Any]], Mapping[str, Any] | None]

logger = logging.getLogger(__name__)

_ACTIONS = {"allow": "continue", "halt": "stop", "require_approval": "require-approval"}


class Evaluator:
    """
    Answer events, and write down what was answered.

    The caller takes care that one thread at a time evaluates: an event and its repetition must not be
    judged side by side.

    Args:
        approval_seconds: How long an approval stays open; ``None`` without end.
        on_approval: Called with every approval that is asked for, once it is written down.
    """

    def __init__(
        self,
        *,
        store: EventStore,
        judge: PolicyJudge,
        guard: Guard | None,
        clock: Callable[[], float],
        approval_seconds: float | None,
        on_approval: Callable[[Approval], None],
    ) -> None:
        self._store = store
        self._judge = judge
        self._guard = guard
        self._clock = clock
        self._approval_seconds = approval_seconds
        self._on_approval = on_approval

    def answer(self, event: Event, caller: Mapping[str, str]) -> bytes:
        """
        Answer `event`, as JSON.

        An event with the ids of an earlier one gets the earlier answer and is not judged again: the
        earlier one may wait for a person by now. A run that was halted, or has ended, gets HALT.
        """
        now = self._clock()
        if event.key is None:
            said, _ = self._judged(event, now)
            self._store.add(event, said, now=now, caller=caller)
            return said
        session = self._store.session(event.workflow_id, event.run_id)
        earlier = self._store.first(event)
        if earlier is not None:
            said = earlier.answer
            changed = _without_time(decoded(earlier.body)) != _without_time(event.payload)
            if changed:
                logger.warning(
                    "%s of %s has the ids of an earlier event and another content; it was not judged",
                    event.event_type,
                    event.workflow_id,
                )
            # The very event that ended or halted the run is answered as before, or its sender could
            # not retry it. Anything else would be let in after the end.
            stopped = self._stop(session)
            if stopped is not None and not event.terminal and json.loads(said)["verdict"] != "halt":
                said = stopped
            self._store.add(event, said, now=now, caller=caller, same_as=earlier.seq, changed=changed)
            return said
        stopped = self._stop(session)
        if stopped is not None:
            said, halted = stopped, session.halted
        else:
            said, decision = self._judged(event, now)
            halted = (decision.reason or "halted by the policy") if decision.verdict == "halt" else None
        self._store.add(event, said, now=now, caller=caller)
        sealed_by = session.sealed_by or (event.event_type if event.terminal else None)
        if (sealed_by, halted) != session:
            self._store.set_session(event.workflow_id, event.run_id, RunEnd(sealed_by, halted))
        return said

    def _judged(self, event: Event, now: float) -> tuple[bytes, PolicyDecision]:
        decision = self._judge.rule(
            event.payload, lambda: self._store.history(event.workflow_id, event.run_id)
        )
        answer = self._answer(decision.verdict, decision.reason)
        answer["policy_id"] = self._judge.name
        if self._guard is not None and (found := self._guarded(event, self._guard)):
            answer["guardrails_result"] = dict(found)
        if decision.verdict == "require_approval" and event.asks:
            approval = self._approval(event, decision, now)
            answer["approval_id"] = approval.id
            if approval.expires_at is not None:
                answer["approval_expiration_time"] = rfc3339(approval.expires_at)
        # A policy may say null to leave a field out, such as an approval id.
        if decision.extra:
            answer.update(decision.extra)
            answer = {key: value for key, value in answer.items() if value is not None}
        return _encoded(answer), decision

    def _answer(self, verdict: str, reason: str) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "verdict": verdict,
            # Older SDKs read the action alone, and take a missing one for "continue".
            "action": _ACTIONS.get(verdict, verdict),
            "governance_event_id": new_id(),
        }
        if reason:
            answer["reason"] = reason
        return answer

    def _stop(self, session: RunEnd) -> bytes | None:
        if session.halted is not None:
            return _encoded(self._answer("halt", f"the run was halted: {session.halted}"))
        if session.sealed_by is not None:
            return _encoded(self._answer("halt", f"the run has ended with {session.sealed_by}"))
        return None

    def _guarded(self, event: Event, guard: Guard) -> Mapping[str, Any] | None:
        if event.hook:
            return None
        try:
            found = guard(event.payload)
            if found is not None:
                json.dumps(found, allow_nan=False)
            return found
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            # Fail-closed: data that could not be looked at must not pass as if nothing were in it.
            logger.error("the guardrails failed on %s: %s", event.event_type, place_of(error))
            reason = {"type": "guardrails", "field": "", "reason": "the guardrails failed"}
            return {"validation_passed": False, "reasons": [reason]}

    def _approval(self, event: Event, decision: PolicyDecision, now: float) -> Approval:
        approval = Approval(
            id=str(uuid.uuid4()),
            workflow_id=event.workflow_id,
            run_id=event.run_id,
            # A prompt is polled by the row of its pre-screen: a signal has none.
            activity_id=event.activity_id or f"{event.run_id}-pre",
            activity_type=event.activity_type or str(event.payload.get("signal_name", "")),
            reason=decision.reason,
            event=event.payload,
            created_at=now,
            expires_at=None if self._approval_seconds is None else now + self._approval_seconds,
            state="pending",
            note="",
        )
        self._store.add_approval(approval)
        self._on_approval(approval)
        return approval


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return _ENCODER.encode(answer)
    except (TypeError, ValueError):
        # A policy's own values may have keys that are no text, or half a character.
        return json.dumps(answer).encode()


def _without_time(payload: Mapping[str, Any]) -> dict[str, Any]:
    # A sender may stamp a retry anew.
    return {key: value for key, value in payload.items() if key != "timestamp"}


_ENCODER = msgspec.json.Encoder()
