"""Ask a person, once about one piece of work, and take down what they decide."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from .._halt import Halt
from .approvals import HALTED, Approval, State, UndecidableApprovalError
from .halts import all_subjects_of
from .store import EventStore
from .wire import Event


class ApprovalDesk:
    """
    Keep the approvals of all runs. One thread at a time may use it.

    Args:
        clock: Seconds since 1970.
        seconds: How long an approval stays open; ``None`` without end.
    """

    def __init__(self, store: EventStore, *, clock: Callable[[], float], seconds: float | None) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds

    def covers(self, event: Event) -> bool:
        """Tell whether `event` is an operation inside an activity that a person has approved."""
        return event.hook and any(
            approval.state == "approved" and not approval.about_operation for approval in self._of(event)
        )

    def ask(self, event: Event, reason: str) -> tuple[Approval, bool]:
        """
        Ask about `event`; return the approval, and whether it is a new one.

        A prompt and the screening before its first model call are one piece of work, and so is a row that is
        asked about twice. An operation inside an activity is another one each time.
        """
        asked = [] if event.hook else [one for one in self._of(event) if not one.about_operation]
        if asked:
            return asked[-1], False
        now = self._clock()
        approval = Approval(
            id=str(uuid.uuid4()),
            workflow_id=event.workflow_id,
            run_id=event.run_id,
            activity_id=event.row,
            activity_type=event.activity_type or str(event.payload.get("signal_name", "")),
            reason=reason,
            event=event.payload,
            created_at=now,
            expires_at=None if self._seconds is None else now + self._seconds,
            state="pending",
        )
        self._store.add_approval(approval)
        return approval, True

    def close(self, event: Event, *, halted: bool) -> None:
        """Let what nobody waits for any more expire: `event` has ended its activity, or its run."""
        if event.terminal or halted:
            ended = self._store.approvals(workflow_id=event.workflow_id, run_id=event.run_id, state="pending")
        elif event.event_type == "ActivityCompleted":
            ended = [approval for approval in self._of(event) if approval.state == "pending"]
        else:
            return
        for approval in ended:
            self._store.decide(approval.id, "expired", note="", by="", now=self._clock())

    def withdraw(self, halt: Halt) -> None:
        """Let what waits where everything is halted expire: it does not run, whatever a person says now."""
        for approval in self._store.approvals(state="pending"):
            if (halt.kind, halt.value) in all_subjects_of(
                approval.run_id, approval.event, self._store.opening
            ):
                note = f"{HALTED}{halt.why}"
                self._store.decide(approval.id, "expired", note=note, by=halt.by, now=self._clock())

    def pending(self) -> list[Approval]:
        """List what waits for a person, oldest first."""
        now = self._clock()
        return [one for one in self._store.approvals(state="pending") if one.as_of(now) == "pending"]

    def polled(self, ids: Mapping[str, str]) -> Approval | None:
        """Find what an agent waits for: the latest of its activity, unless it names one."""
        asked = {"id": ids["approval_id"]} if ids["approval_id"] else {}
        found = self._store.approvals(
            workflow_id=ids["workflow_id"], run_id=ids["run_id"], activity_id=ids["activity_id"], **asked
        )
        # An activity can be asked about more than once, since each of its operations can need approval.
        return found[-1] if found else None

    def decide(self, wanted: str, state: State, *, note: str, by: str) -> Approval:
        """
        Take a decision down.

        Args:
            wanted: The approval, or the activity that waits.

        Raises:
            UndecidableApprovalError: There is none, there are several, or it is decided or expired already.
        """
        found = self._store.approvals(id=wanted) or self._store.approvals(activity_id=wanted)
        now = self._clock()
        pending = [one for one in found if one.as_of(now) == "pending"]
        if not found:
            raise UndecidableApprovalError(f"no approval has the id {wanted!r}")
        if not pending:
            raise UndecidableApprovalError(f"approval {wanted!r} is {found[-1].as_of(now)} already")
        if len(pending) > 1:
            raise UndecidableApprovalError(
                f"{len(pending)} approvals of {wanted!r} are pending: name one by its own id"
            )
        if not self._store.decide(pending[0].id, state, note=note, by=by, now=now):
            raise UndecidableApprovalError(f"approval {wanted!r} was decided by someone else just now")
        return self._store.approvals(id=pending[0].id)[0]

    def _of(self, event: Event) -> list[Approval]:
        return self._store.approvals(
            workflow_id=event.workflow_id, run_id=event.run_id, activity_id=event.row
        )
