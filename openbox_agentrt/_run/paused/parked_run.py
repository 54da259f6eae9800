"""Keep a run that waits for a person in the store of the fleet, and go on with one from there."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

import msgspec

from ..._wire.error_info import error_info
from ..._wire.identity import RunIdentity
from ...decision import Answer, Verdict
from ...fleet.plan import FleetPlan
from ...lifecycle_events import activity_completed
from ..redaction.carried_redactions import Carried, CarriedInput, input_of, relearn
from ..report_answers import apply_report_answer

if TYPE_CHECKING:
    from ...acel.reservation import Reservation
    from ...errors import GovernanceError
    from ...fleet.answers import Finished, How, Lease, Reserved
    from ..state import RunState

_UNUSED: Final = error_info(
    type="AbandonedActivity", message="the run was resumed and ended before the call was made again"
)


class LeaseStore(Protocol):
    """Keep the leases of calls that wait."""

    async def areserve(self, plan: FleetPlan, /) -> Reserved: ...

    async def apark(self, lease: Lease, seconds: float, /, *, note: str = "") -> bool: ...

    async def aadopt(self, lease_id: str, /) -> Lease | None: ...

    def finish(self, lease: Lease, how: How, /) -> Future[Finished]: ...


class WaitingActivity(Protocol):
    """Show the part of an activity that waits which is kept."""

    @property
    def id(self) -> str: ...

    @property
    def answer(self) -> Answer | None: ...

    @property
    def reservation(self) -> Reservation | None: ...

    @property
    def request(self) -> Any: ...

    @property
    def content(self) -> Any: ...

    def is_redacted(self) -> bool: ...


class WaitingRun(msgspec.Struct, frozen=True, kw_only=True):
    """
    Say which run waits, and what has to be there for it to go on.

    Attributes:
        identity: The run.
        conversation: A hash of whose conversation it is in.
        session_id: The session that it has to do with: its own, or that of the runs around it.
        nested: The leases of runs nested in it that wait as well.
        hash_key: The key of the hashes in what the checkpoint carries; empty where nothing was redacted.
        carried: A hash of all that it carries.
    """

    identity: RunIdentity
    conversation: str
    session_id: str | None = None
    nested: tuple[str, ...] = ()
    hash_key: str = ""
    carried: str | None = None


class ParkedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Hold of an answer that requires an approval what may be kept, under the names that it has there."""

    reason: str | None
    policy_id: str | None
    risk_score: float | None
    trust_tier: str | None
    constraints: tuple[str, ...]
    approval_id: str | None
    approval_expires_at: datetime | None

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """Take it out of an answer."""
        return cls(**{name: getattr(answer, name) for name in cls.__struct_fields__})

    def restored(self) -> Answer:
        """Give the answer again."""
        return Answer(verdict=Verdict.REQUIRE_APPROVAL, **msgspec.structs.asdict(self))


class ParkedNote(msgspec.Struct, frozen=True, kw_only=True):
    """
    Say what a parked lease is about.

    Attributes:
        run: The run that waits.
        activity_id: The row of the call at Core.
        event: The tool that it calls.
        call: A hash of the call as the model asks for it.
        until: The time of day when the wait is over.
        answer: Why a person is asked.
    """

    run: WaitingRun
    activity_id: str
    event: str
    call: str
    until: float
    answer: ParkedAnswer


_NOTES = msgspec.json.Decoder(ParkedNote)


class ParkedLease(NamedTuple):
    """A lease of a call that waits, taken over by this process, and what it is about."""

    note: ParkedNote
    lease: Lease


@dataclass(slots=True, kw_only=True, eq=False)
class ParkedCall:
    """
    Hold a call that another process left waiting, until it is made again in the run that was resumed.

    Attributes:
        activity_id: Its row at Core.
        answer: Why a person is asked.
        lease: What is reserved for it.
        event: The tool that it calls.
        run: The run that goes on with it.
        store: Where the lease is.
        carried: Its input, where something was redacted.
    """

    activity_id: str
    event: str
    answer: Answer
    lease: Lease
    run: RunState
    store: LeaseStore
    carried: CarriedInput | None = None

    def note_refusal(self, error: GovernanceError) -> None:
        """Do nothing: it does not run yet, so nothing can be refused inside it."""

    def take_lease(self, lease: Lease) -> bool:
        """Take none: it has its own."""
        return False

    def let_go(self) -> None:
        """Close it, since nobody can take it over a second time."""
        self.abandon(None)

    def abandon(self, error: BaseException | None) -> None:
        """Close its row and give back its lease: the run ends and has not made the call. Does not wait."""
        self.run.open_activities.pop(self.activity_id, None)
        self.store.finish(self.lease, "undo")
        post_never_made(self.run, self.run.identity, self.activity_id, self.event)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParkedRun:
    """
    Hold a run that another process left waiting, whose leases are this one's now.

    Attributes:
        store: Where they are.
        calls: Its calls, one at least.
        messages: What was said in it.
        carried: What was redacted of that.
    """

    store: LeaseStore
    calls: tuple[ParkedLease, ...]
    messages: Sequence[Any] = ()
    carried: Carried | None = None

    @property
    def run(self) -> WaitingRun:
        """Say which run it is; all of its calls do."""
        return self.calls[0].note.run

    def give_back(self) -> None:
        """Give up what was taken over: no run goes on with it. Does not wait."""
        for _, lease in self.calls:
            self.store.finish(lease, "undo")

    def enter(self, run: RunState) -> None:
        """
        Let `run` go on as this one: its calls find what was judged.

        Raises:
            GovernanceUnavailableError: More was redacted in its conversation than is kept.
        """
        if self.carried is not None:
            relearn(run.redactions, self.messages, self.carried, self.run.hash_key)
        run.resumed = True
        run.nested_leases = self.run.nested
        for note, lease in self.calls:
            call = ParkedCall(
                activity_id=note.activity_id,
                event=note.event,
                answer=note.answer.restored(),
                lease=lease,
                run=run,
                store=self.store,
                carried=input_of(self.carried, note.activity_id),
            )
            run.open_activities[note.activity_id] = call
            run.taken_over.setdefault(note.call, []).append(call)


def post_never_made(run: RunState, whose: RunIdentity, activity_id: str, event: str) -> None:
    """
    Close the row of a call that nobody has made. Does not wait.

    Args:
        run: The run that closes it, which a HALT in Core's answer stops.
        whose: The run that the call waited in: `run`, or one nested in it.
        activity_id: The row.
        event: The tool.
    """
    end = activity_completed(whose, activity_id, event, status="failed", error=_UNUSED)
    run.reports.post(end, heed=partial(apply_report_answer, run, event=event, activity_id=activity_id))


def write_note(note: ParkedNote) -> str:
    """Write what a lease is parked with."""
    return msgspec.json.encode(note).decode()


def read_note(text: str) -> ParkedNote | None:
    """Read what was said of a lease; None if it was parked by another program and is no call of a run."""
    try:
        return _NOTES.decode(text)
    except msgspec.MsgspecError:
        return None
