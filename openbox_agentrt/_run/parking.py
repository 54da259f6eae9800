"""
Calls that wait for a person, kept in the store of the fleet: another process may go on with their run.

Each is a parked lease there, which holds what contracts of the fleet have reserved for the call, or nothing.
With it are kept the ids that its approval is polled by and, as hashes, what was judged and in whose
conversation. The names of the leases travel in the checkpoint. Whoever resumes it takes the leases over,
which one process can do once, so that a person's yes is used once.

What was redacted is known to one process only, so a run in which something was is not kept here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from .._plain.digest import text_digest
from .._wire.error_info import error_info
from .._wire.identity import RunIdentity
from ..decision import Answer, Verdict
from ..fleet.errors import FleetError
from ..fleet.plan import FleetPlan
from ..lifecycle_events import activity_completed
from ..message_extraction import last_user_text
from .close import close_run, let_go

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..acel.reservation import Reservation
    from ..errors import GovernanceError
    from ..fleet.answers import Finished, How, Lease, Reserved
    from .state import RunState


log = logging.getLogger(__name__)

FOR_EVER: Final = 366 * 86_400.0
"""Seconds that a call waits in the store where nothing bounds how long a person may take."""

GRACE: Final = 60.0
"""Seconds that a lease outlasts the wait: until then, its end says whether another process took it."""

UNUSED: Final = error_info(
    type="AbandonedActivity", message="the run was resumed and ended before the call was made again"
)


class LeaseStore(Protocol):
    """Keep the leases of calls that wait."""

    async def areserve(self, plan: FleetPlan, /) -> Reserved: ...

    async def apark(self, lease: Lease, seconds: float, /, *, note: str = "") -> bool: ...

    async def aadopt(self, lease_id: str, /) -> Lease | None: ...

    def finish(self, lease: Lease, how: How, /) -> Future[Finished]: ...


class _Waiting(Protocol):
    """The part of an activity that waits which is kept."""

    @property
    def id(self) -> str: ...

    @property
    def answer(self) -> Answer | None: ...

    @property
    def reservation(self) -> Reservation | None: ...

    @property
    def request(self) -> Any: ...

    def is_redacted(self) -> bool: ...


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """Say what a parked lease is about. `call` and `conversation` are hashes, `until` a time of day."""

    run: RunIdentity
    activity_id: str
    event: str
    call: str
    conversation: str
    until: float
    reason: str | None = None
    policy_id: str | None = None
    risk_score: float | None = None
    trust_tier: str | None = None
    constraints: tuple[str, ...] = ()
    approval_id: str | None = None
    approval_expires_at: datetime | None = None

    @property
    def answer(self) -> Answer:
        """Give the answer that requires the approval."""
        return Answer(
            verdict=Verdict.REQUIRE_APPROVAL,
            reason=self.reason,
            policy_id=self.policy_id,
            risk_score=self.risk_score,
            trust_tier=self.trust_tier,
            constraints=self.constraints,
            approval_id=self.approval_id,
            approval_expires_at=self.approval_expires_at,
        )


_NOTES = msgspec.json.Decoder(_Note)


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
    """

    activity_id: str
    event: str
    answer: Answer
    lease: Lease
    run: RunState
    store: LeaseStore

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
        ended = activity_completed(
            self.run.identity, self.activity_id, self.event, status="failed", error=UNUSED
        )
        self.run.reports.post(ended)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParkedRun:
    """Hold a run that another process left waiting, whose leases are this one's now."""

    identity: RunIdentity
    store: LeaseStore
    calls: tuple[tuple[_Note, Lease], ...] = field(default=())

    def give_back(self) -> None:
        """Give up what was taken over: no run goes on with it. Does not wait."""
        for _, lease in self.calls:
            self.store.finish(lease, "undo")

    def enter(self, run: RunState) -> None:
        """Let `run` go on as this one: its calls find what was judged."""
        run.resumed = True
        for note, lease in self.calls:
            call = ParkedCall(
                activity_id=note.activity_id,
                event=note.event,
                answer=note.answer,
                lease=lease,
                run=run,
                store=self.store,
            )
            run.open_activities[note.activity_id] = call
            run.taken_over.setdefault(note.call, []).append(call)


class Parking:
    """
    Keep the calls of suspended runs in a store that other processes share.

    Args:
        store: The store.
        max_wait_ms: How long they wait for a person; None for as long as it takes.
    """

    def __init__(self, store: LeaseStore, max_wait_ms: int | None) -> None:
        self._store = store
        self._seconds = FOR_EVER if max_wait_ms is None else max_wait_ms / 1000 + GRACE
        self._ending: set[asyncio.Task[None]] = set()

    async def park(self, run: RunState, messages: Sequence[Any]) -> None:
        """
        Keep what waits in `run`, so that it can be resumed elsewhere. `RunState.parked` says what is kept.

        Args:
            run: The run, which stops for an approval.
            messages: What was said in it so far.
        """
        waiting: list[tuple[str, _Waiting]] = [
            (key, activity) for key, activities in run.paused.items() for activity in activities
        ]
        run.parked = {}
        if run.parent is not None or run.nested_suspended or not run.redactions.is_empty:
            return
        if any(activity.is_redacted() or activity.answer is None for _, activity in waiting):
            return
        conversation = _conversation(run.agent_name, run.session_id, messages)
        try:
            for key, activity in waiting:
                lease = await self._park(run, key, activity, conversation)
                if lease is None:
                    await self.retake(run)
                    break
                run.parked[activity.id] = lease
            else:
                return
        except FleetError as error:
            log.warning("a run that waits for a person can be resumed in this process only: %s", error)
        run.parked = {}

    async def retake(self, run: RunState) -> bool:
        """
        Take over again what waits in a run of this process, before it goes on.

        Returns:
            Whether it may: not if another process took it, or the wait is over.

        Raises:
            FleetUnavailableError: The store does not answer.
        """
        taken: list[Lease] = []
        for activity_id, lease in tuple(run.parked.items()):
            mine = await self._store.aadopt(lease.id)
            if mine is None:
                self._give_back(taken)
                return False
            del run.parked[activity_id]
            activity = run.open_activities.get(activity_id)
            if activity is not None and activity.take_lease(mine):
                taken.append(mine)
            else:
                self._give_back([mine])
        return True

    async def take(
        self,
        leases: Sequence[str],
        messages: Sequence[Any],
        *,
        agent_name: str | None,
        session_id: str | None,
    ) -> ParkedRun | None:
        """
        Take over a run that another process left waiting.

        Args:
            leases: Names of the leases of its calls.
            messages: What was said in it.
            agent_name: Name of the agent that goes on.
            session_id: Its session.

        Returns:
            The run; None if it was taken before, its wait is over, or it is somebody else's.

        Raises:
            FleetUnavailableError: The store does not answer.
        """
        conversation = _conversation(agent_name, session_id, messages)
        calls: list[tuple[_Note, Lease]] = []
        try:
            for name in leases:
                lease = await self._store.aadopt(name)
                note = None if lease is None else _read(lease.note)
                if lease is not None and note is not None:
                    calls.append((note, lease))
                if note is None or note.conversation != conversation or note.run != calls[0][0].run:
                    for back, held in calls:
                        await self._park_again(held, back)
                    return None
        except BaseException:
            # The store went away in the middle, or nobody waits any more: what was taken is given back.
            self._give_back([lease for _, lease in calls])
            raise
        return ParkedRun(identity=calls[0][0].run, store=self._store, calls=tuple(calls)) if calls else None

    def end(self, run: RunState) -> None:
        """Close `run`, whose wait is over, unless another process took it. Does not wait."""
        task = asyncio.get_running_loop().create_task(self._end(run))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, run: RunState) -> None:
        try:
            mine = await self.retake(run)
        except FleetError as error:
            log.warning("nobody knows whether a run that waited was resumed elsewhere: %s", error)
            mine = False
        if mine:
            close_run(run, None)
        else:
            let_go(run)

    async def _park(self, run: RunState, key: str, activity: _Waiting, conversation: str) -> Lease | None:
        reservation, answer = activity.reservation, activity.answer
        assert answer is not None
        lease = None if reservation is None else reservation.lease
        if lease is None:
            # No contract of the fleet is about it: the lease holds nothing, and is there to be taken once.
            lease = (await self._store.areserve(FleetPlan(cells=()))).lease
        if lease is None or lease.local:
            return None
        note = _Note(
            run=run.identity,
            activity_id=activity.id,
            event=activity.request.event,
            call=call_digest(key),
            conversation=conversation,
            until=time.time() + self._seconds,
            reason=answer.reason,
            policy_id=answer.policy_id,
            risk_score=answer.risk_score,
            trust_tier=answer.trust_tier,
            constraints=answer.constraints,
            approval_id=answer.approval_id,
            approval_expires_at=answer.approval_expires_at,
        )
        return lease if await self._park_again(lease, note) else None

    def _give_back(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._store.finish(lease, "undo")

    async def _park_again(self, lease: Lease, note: _Note) -> bool:
        text = msgspec.json.encode(note).decode()
        return await self._store.apark(lease, max(0.0, note.until - time.time()), note=text)


def call_digest(key: str) -> str:
    """Name a call by a hash of its id, its tool and its arguments."""
    return text_digest(key)


def _conversation(agent_name: str | None, session_id: str | None, messages: Sequence[Any]) -> str:
    said = msgspec.json.encode([agent_name, session_id, text_digest(last_user_text(messages))])
    return hashlib.sha256(said).hexdigest()


def _read(text: str) -> _Note | None:
    try:
        return _NOTES.decode(text)
    except msgspec.MsgspecError:
        # Parked by another program: no call of a run.
        return None
