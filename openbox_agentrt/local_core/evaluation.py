"""From an event to its answer: what the run may still do, what was answered before, what the policy says."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec

from .._ids import new_id
from .._plain.times import rfc3339
from .approval_desk import ApprovalDesk
from .approvals import Approval
from .halts import all_subjects_of, subjects_of
from .judge import Judgement, PolicyJudge
from .policy import PolicyDecision
from .records import Answered, RunEnd, decoded
from .store import EventStore
from .wire import Event

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

SESSION_EVENTS = 1000
"""So many events of a run are shown to a policy that looks back."""

_CLAIM_SECONDS = 60.0
"""For so long an event waits for somebody who has begun to judge it and may have died since."""

_ALLOWED = Judgement(PolicyDecision(verdict="allow"))
_NOT_ENDED = RunEnd()
_ACTIONS = {"allow": "continue", "halt": "stop", "require_approval": "require-approval"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedElsewhere:
    """The same event is being judged, here or by another process: whoever asks has to ask again."""

    event: Event
    caller: Mapping[str, str]


Reply = bytes | Future[bytes] | JudgedElsewhere
"""An answer, one that is still to come, or none yet."""


class Apart(Protocol):
    """Run something while nothing else uses the store."""

    def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...


class Evaluator:
    """
    Answer events, and write down what was answered.

    Args:
        apart: Runs what uses the store. The caller of `answer` takes care of that itself.
        on_approval: Called with every approval that is asked for, once it is written down.
    """

    def __init__(
        self,
        *,
        store: EventStore,
        judge: PolicyJudge,
        desk: ApprovalDesk,
        apart: Apart,
        clock: Callable[[], float],
        on_approval: Callable[[Approval], None],
    ) -> None:
        self._store = store
        self._judge = judge
        self._apart = apart
        self._clock = clock
        self._desk = desk
        self._on_approval = on_approval

    def answer(self, event: Event, caller: Mapping[str, str]) -> Reply:
        """
        Answer `event`, as JSON.

        An event with the ids of an earlier one gets the earlier answer and is not judged again: the
        earlier one may wait for a person by now. With another content it is no retry, and blocked. A run
        that was halted, or has ended, gets HALT.
        """
        if self._judge.at_once:
            return self._write_down(event, caller, _ALLOWED)[0]
        if event.key is not None:
            # First, so that an answer that comes between is seen.
            now = self._clock()
            claimed = self._store.claim(event, now=now, until=now + _CLAIM_SECONDS)
            if self._needs_no_judge(event):
                return self._write_down(event, caller, None)[0]
            if not claimed:
                return JudgedElsewhere(event=event, caller=caller)
        answered: Future[bytes] = Future()
        history = partial(
            self._apart, self._store.history, event.workflow_id, event.run_id, latest=SESSION_EVENTS
        )
        self._judge.judge(event, history, partial(self._judged, event, caller, answered))
        return answered

    def _judged(
        self,
        event: Event,
        caller: Mapping[str, str],
        answered: Future[bytes],
        judgement: Judgement | None,
    ) -> None:
        try:
            # Raises when the core was closed meanwhile, and only then there is no judgement.
            said, approval = self._apart(self._write_down, event, caller, judgement)
            if approval is not None:
                self._on_approval(approval)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the answer gets it
            answered.set_exception(error)
        else:
            answered.set_result(said)

    def _needs_no_judge(self, event: Event) -> bool:
        return self._run_end(event) != _NOT_ENDED or self._store.first(event) is not None

    def _run_end(self, event: Event) -> RunEnd:
        """Say how far the run has come. A halt that somebody has written down ends it here, if not before."""
        end = self._store.run_end(event.workflow_id, event.run_id)
        if end.halted is not None:
            return end
        halt = self._store.halt_on(subjects_of(event.run_id, event.payload))
        if halt is None and event.payload.get("multi_agent_session_id") and self._store.halts():
            around = all_subjects_of(event.run_id, event.payload, self._store.opening)
            halt = self._store.halt_on(around)
        if halt is None:
            return end
        end = RunEnd(end.sealed_by, halt.why)
        self._store.set_run_end(event.workflow_id, event.run_id, end)
        return end

    def _write_down(
        self, event: Event, caller: Mapping[str, str], judgement: Judgement | None
    ) -> tuple[bytes, Approval | None]:
        """Answer by what the run has had, or else by `judgement`: it may have ended during the judging."""
        with self._store.together():
            if event.key is None:
                assert judgement is not None
                said, approval = self._composed(event, judgement)
                self._store.add(event, said, now=self._clock(), caller=caller)
                return said, approval
            end = self._run_end(event)
            earlier = self._store.first(event)
            if earlier is not None:
                return self._repeated(event, caller, earlier, end), None
            return self._first(event, caller, judgement, end)

    def _repeated(self, event: Event, caller: Mapping[str, str], earlier: Answered, end: RunEnd) -> bytes:
        said = earlier.answer
        changed = _without_time(decoded(earlier.body)) != _without_time(event.payload)
        if changed:
            logger.warning(
                "%s of %s has the ids of an earlier event and another content; it was not judged",
                event.event_type,
                event.workflow_id,
            )
            if event.asks:
                said = _encoded(self._answer("block", "a changed input needs a new activity id"))
        # The very event that ended or halted the run is answered as before, or its sender could
        # not retry it. Anything else would be let in after the end.
        stopped = self._stop(end)
        if stopped is not None and not event.terminal and json.loads(said)["verdict"] != "halt":
            said = stopped
        now = self._clock()
        self._store.add(event, said, now=now, caller=caller, same_as=earlier.seq, changed=changed)
        return said

    def _first(
        self, event: Event, caller: Mapping[str, str], judgement: Judgement | None, end: RunEnd
    ) -> tuple[bytes, Approval | None]:
        said, approval, halted = self._stop(end), None, end.halted
        if said is None:
            assert judgement is not None
            said, approval = self._composed(event, judgement)
            if judgement.decision.verdict == "halt":
                halted = judgement.decision.reason or "halted by the policy"
        self._store.add(event, said, now=self._clock(), caller=caller)
        sealed_by = end.sealed_by or (event.event_type if event.terminal else None)
        if not self._judge.at_once:  # else nothing ever waits
            self._desk.close(event, halted=halted is not None)
        if (sealed_by, halted) != end:
            self._store.set_run_end(event.workflow_id, event.run_id, RunEnd(sealed_by, halted))
        return said, approval

    def _composed(self, event: Event, judgement: Judgement) -> tuple[bytes, Approval | None]:
        decision, approval, is_new = judgement.decision, None, False
        if decision.verdict == "require_approval" and self._desk.covers(event):
            decision = decision.approved()
        answer = self._answer(decision.verdict, decision.reason)
        answer["policy_id"] = self._judge.name
        if judgement.guardrails is not None:
            answer["guardrails_result"] = dict(judgement.guardrails)
        if decision.verdict == "require_approval" and event.asks:
            approval, is_new = self._desk.ask(event, decision.reason)
            answer["approval_id"] = approval.id
            if approval.expires_at is not None:
                answer["approval_expiration_time"] = rfc3339(approval.expires_at)
        # A policy may say null to leave a field out, such as an approval id.
        if decision.extra:
            answer.update(decision.extra)
            answer = {key: value for key, value in answer.items() if value is not None}
        return _encoded(answer), approval if is_new else None

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

    def _stop(self, end: RunEnd) -> bytes | None:
        if end.halted is not None:
            return _encoded(self._answer("halt", f"the run was halted: {end.halted}"))
        if end.sealed_by is not None:
            return _encoded(self._answer("halt", f"the run has ended with {end.sealed_by}"))
        return None


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
