"""
Calls that wait for a person, kept in the store of the fleet: another process may go on with their run.

Each is a parked lease there, which holds what contracts of the fleet have reserved for the call, or nothing.
With it are kept the ids that its approval is polled by and, as hashes, what was judged and in whose
conversation. The names of the leases travel in the checkpoint, and so does what was redacted, see
`carried_redactions`.
Whoever resumes it takes the leases over, which one process can do once, so that a person's yes is used once.

A run that is nested in another one is kept like any other, with the session that the runs around it belong
to. Those that wait inside a run end with it, in whichever process that is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..._plain.digest import text_digest
from ..._plain.same import same_text
from ...acel.events import RUN_ENDED
from ...fleet.errors import FleetError
from ...fleet.plan import FleetPlan
from ...lifecycle_events import workflow_completed
from ...message_extraction import last_user_text
from ..close import close_run, let_go
from ..redaction.carried_redactions import Carried, CarriedInput, carried_digest, carry
from ..report_answers import apply_report_answer
from ..told_input import Told, told_by
from .parked_run import (
    LeaseStore,
    ParkedAnswer,
    ParkedLease,
    ParkedNote,
    ParkedRun,
    WaitingActivity,
    WaitingRun,
    post_never_made,
    read_note,
    write_note,
)

if TYPE_CHECKING:
    from ..._wire.identity import RunIdentity
    from ...fleet.answers import Lease
    from ..state import RunState

log = logging.getLogger(__name__)

FOR_EVER: Final = 366 * 86_400.0
"""Seconds that a call waits in the store where nothing bounds how long a person may take."""

GRACE: Final = 60.0
"""Seconds that a lease outlasts the wait: until then, its end says whether another process took it."""


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
        self._ending: dict[asyncio.Task[None], RunState] = {}

    async def park(self, run: RunState, messages: Sequence[Any]) -> None:
        """
        Keep what waits in `run`, so that it can be resumed elsewhere.

        `RunState.parked` says what is kept, and `RunState.carried` what the checkpoint has to carry.

        Args:
            run: The run, which stops for an approval.
            messages: What was said in it so far.
        """
        run.parked, run.carried = {}, None
        try:
            if await self._park_all(run, messages):
                return
            await self.retake(run)
        except (FleetError, ValueError) as error:
            log.warning("a run that waits for a person can be resumed in this process only: %s", error)
        run.parked, run.carried = {}, None

    async def _park_all(self, run: RunState, messages: Sequence[Any]) -> bool:
        """Park the calls that wait, one after the other. Returns whether all of them are."""
        waiting: list[tuple[str, WaitingActivity]] = [
            (key, activity) for key, activities in run.paused.items() for activity in activities
        ]
        hash_key = secrets.token_hex(16)
        run.carried = _carried(run, messages, waiting, hash_key)
        told = WaitingRun(
            identity=run.identity,
            conversation=_conversation(run.agent_name, run.session_id, messages),
            session_id=run.member.session_id,
            nested=tuple(_nested_leases(run)),
            hash_key="" if run.carried is None else hash_key,
            carried=carried_digest(run.carried),
        )
        for key, activity in waiting:
            lease = await self._park(told, key, activity)
            if lease is None:
                return False
            run.parked[activity.id] = lease
        return True

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
        carried: Carried | None,
        *,
        agent_name: str | None,
        session_id: str | None,
        inside: bool = False,
    ) -> ParkedRun | None:
        """
        Take over a run that another process left waiting.

        Args:
            leases: Names of the leases of its calls.
            messages: What was said in it.
            carried: What its checkpoint says was redacted.
            agent_name: Name of the agent that goes on.
            session_id: Its session.
            inside: Whether it goes on inside another run, as only one may that was.

        Returns:
            The run; None if it was taken before, its wait is over, or it is somebody else's.

        Raises:
            FleetUnavailableError: The store does not answer.
        """
        asked = _conversation(agent_name, session_id, messages), carried_digest(carried)
        calls: list[ParkedLease] = []
        try:
            for name in leases:
                call = await self._adopt(name)
                if call is not None:
                    calls.append(call)
                if call is None or not _goes_on(call.note.run, calls[0].note.run, asked, inside=inside):
                    for note, lease in calls:
                        await self._park_lease(lease, note)
                    return None
        except BaseException:
            # The store went away in the middle, or nobody waits any more: what was taken is given back.
            self._give_back([call.lease for call in calls])
            raise
        if not calls:
            return None
        return ParkedRun(store=self._store, calls=tuple(calls), messages=messages, carried=carried)

    def end(self, run: RunState) -> None:
        """Close `run`, whose wait is over, unless another process took it. Does not wait."""
        run.ending, run.suspended = True, False
        self._begin(run, self._end(run))

    def end_nested(self, run: RunState) -> None:
        """Close the runs nested in `run` that wait and that no process has taken. Does not wait."""
        if run.nested_leases:
            self._begin(run, self._end_nested(run, run.nested_leases))

    async def settle(self, run: RunState | None = None, /, *, seconds: float | None = None) -> None:
        """Wait for what `end` and `end_nested` have begun in this event loop: for `run`, or for all."""
        loop = asyncio.get_running_loop()
        ending = [
            task
            for task, ends in tuple(self._ending.items())
            if task.get_loop() is loop and (run is None or ends is run)
        ]
        if ending:
            await asyncio.wait(ending, timeout=seconds)

    def _begin(self, run: RunState, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._ending[task] = run
        task.add_done_callback(self._ending.pop)

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

    async def _end_nested(self, run: RunState, leases: Sequence[str]) -> None:
        """Close by their leases the runs that waited inside `run` when this process took it over."""
        ended: dict[str, RunIdentity] = {}
        try:
            for name in leases:
                call = await self._adopt(name)
                if call is None:
                    continue  # it went on somewhere, or has ended
                note, lease = call
                self._give_back([lease])
                ended[note.run.identity.run_id] = note.run.identity
                post_never_made(run, note.run.identity, note.activity_id, note.event)
                await self._end_nested(run, note.run.nested)
        except FleetError as error:
            log.warning("a nested run that waits is left to its deadline: %s", error)
        if run.services.options.send_run_end_event:
            for identity in ended.values():
                end = workflow_completed(identity, termination_reason="waiting_for_approval")
                # A HALT in the answer stops the runs around it, as where it ends in its own process.
                run.reports.post(end, heed=partial(apply_report_answer, run, event=RUN_ENDED))

    async def _adopt(self, name: str) -> ParkedLease | None:
        """Take over a lease that a call of a run was parked with; None if there is none to be taken."""
        lease = await self._store.aadopt(name)
        if lease is None:
            return None
        note = read_note(lease.note)
        if note is None:
            # Whoever wrote that, such as another version of this program, may still go on with it.
            await self._store.apark(lease, self._seconds, note=lease.note)
            return None
        return ParkedLease(note, lease)

    async def _park(self, run: WaitingRun, key: str, activity: WaitingActivity) -> Lease | None:
        reservation, answer = activity.reservation, activity.answer
        if answer is None:
            return None
        lease = None if reservation is None else reservation.lease
        if lease is None:
            # No contract of the fleet is about it: the lease holds nothing, and is there to be taken once.
            lease = (await self._store.areserve(FleetPlan(cells=()))).lease
        if lease is None or lease.local:
            return None
        note = ParkedNote(
            run=run,
            activity_id=activity.id,
            event=activity.request.event,
            call=call_digest(key),
            until=time.time() + self._seconds,
            answer=ParkedAnswer.of(answer),
        )
        return lease if await self._park_lease(lease, note) else None

    def _give_back(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._store.finish(lease, "undo")

    async def _park_lease(self, lease: Lease, note: ParkedNote) -> bool:
        return await self._store.apark(lease, max(0.0, note.until - time.time()), note=write_note(note))


def call_digest(key: str) -> str:
    """Name a call by a hash of its id, its tool and its arguments."""
    return text_digest(key)


def _conversation(agent_name: str | None, session_id: str | None, messages: Sequence[Any]) -> str:
    said = msgspec.json.encode([agent_name, session_id, text_digest(last_user_text(messages))])
    return hashlib.sha256(said).hexdigest()


def _goes_on(run: WaitingRun, first: WaitingRun, asked: tuple[str, str | None], *, inside: bool) -> bool:
    """Tell whether a parked call is one of the run that is asked for, as the first of its calls is."""
    if inside and run.identity.parent_workflow_id is None:
        return False
    return (run.conversation, run.carried) == asked and run.identity == first.identity


def _carried(
    run: RunState, messages: Sequence[Any], waiting: Sequence[tuple[str, WaitingActivity]], hash_key: str
) -> Carried | None:
    """Write down what the checkpoint has to say of redactions; None where nothing was redacted."""
    if run.redactions.is_empty and not any(activity.is_redacted() for _, activity in waiting):
        return None
    inputs = {
        activity.id: CarriedInput(
            judged=_judged(key, activity), used=activity.content if activity.is_redacted() else None
        )
        for key, activity in waiting
    }
    return carry(run.redactions, messages, inputs, hash_key)


def _judged(key: str, activity: WaitingActivity) -> Told | None:
    """Tell what contracts have judged; None where that is what the model asks for, which `key` holds."""
    asked = json.loads(key)[2]
    if asked == same_text(activity.request.arguments):
        return None
    return told_by(json.loads(asked), activity.request.arguments, activity.content)


def _nested_leases(run: RunState) -> Iterable[str]:
    """Name the leases of what waits inside `run`, here or as another process has left it."""
    here = [
        lease.id for nested in run.nested_suspended if nested.suspended for lease in nested.parked.values()
    ]
    return dict.fromkeys((*run.nested_leases, *here))
