"""
Runs that wait for a person, between the run that stopped and the one that resumes it.

A suspended run stays open at Core: its workflow is not sealed, the row of the pending call neither. The run
that is resumed from a checkpoint goes on with the same ids, and the call is not judged a second time, which
would reset the person's decision.

Which run a checkpoint continues is never guessed from its content: two users may say the same words, and
models repeat call ids. Agent-RT leaves a placeholder in the messages for each call that waits; the id of the
run is written into it, and so comes back with the checkpoint, wherever that was kept. A checkpoint that is
resumed in another process finds nothing here: what waits is in the store of the fleet, see `fleet_parking`,
or its calls are judged afresh.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from ..._plain.same import same_text
from ...message_extraction import last_user_text
from ..close import close_run, close_waiting, let_go

if TYPE_CHECKING:
    from agent_rt import AgentCheckpoint, AgentRunResult, ModelMessage

    from ..redaction.carried_redactions import Carried
    from ..state import RunState

RUN_ID: Final = "openbox_run_id"
"""Name of the run's id in the placeholder of a call that waits."""

LEASES: Final = "openbox_leases"
"""Name of the leases in the store of the fleet, in the same place."""

CARRIED: Final = "openbox_redacted"
"""Name of what another process needs of the redactions, in the same place."""


def call_key(call_id: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Name the call that an approval is bound to: this one, with these arguments."""
    return json.dumps([call_id, tool, same_text(arguments)])


def marked(result: AgentRunResult, run: RunState) -> AgentRunResult:
    """Write the id of `run`, and what is kept of it elsewhere, into the placeholders of what waits."""
    told: dict[str, Any] = {RUN_ID: run.run_id}
    if run.parked:
        told[LEASES] = [lease.id for lease in run.parked.values()]
        if run.carried is not None:
            told[CARRIED] = run.carried
    messages = tuple(_marked(message, told) for message in result.messages)
    return replace(result, messages=messages)


@dataclass(frozen=True, slots=True, eq=False)
class _Suspended:
    """Keep a run, the last words of its user, and since when it waits."""

    run: RunState
    last_words: str
    since: float
    alarm: asyncio.TimerHandle | None


class SuspendedRuns:
    """
    Keep the suspended runs of one governance. Safe for several threads.

    Args:
        max_wait_ms: A run that nobody resumes in this time is closed; None keeps it until the governance
            closes.
    """

    def __init__(self, max_wait_ms: int | None) -> None:
        self._max_wait = None if max_wait_ms is None else max_wait_ms / 1000
        self._suspended: dict[str, _Suspended] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._suspended)

    def suspend(self, run: RunState) -> None:
        """Keep `run`, whose result says that it waits for an approval."""
        self._close_forgotten()
        run.suspended = True
        if run.session.kept is not None:
            _rest(run)
        if run.parent is not None:
            run.parent.nested_suspended.append(run)
        alarm = None
        if self._max_wait is not None:
            # The loop may be gone by then, so that others look at it too: see `_close_forgotten`.
            alarm = asyncio.get_running_loop().call_later(self._max_wait, self._close, run.run_id)
        with self._lock:
            words = last_user_text(run.result.messages)
            self._suspended[run.run_id] = _Suspended(run, words, monotonic(), alarm)

    def take(
        self, checkpoint: AgentCheckpoint, *, agent_name: str | None, session_id: str | None
    ) -> RunState | None:
        """Find the run that `checkpoint` continues, if it is here. It can be continued once."""
        self._close_forgotten()
        run_ids = runs_in(checkpoint.messages)
        if len(run_ids) != 1:
            return None
        (run_id,) = run_ids
        found = self._suspended.get(run_id)
        if found is None or not found.run.suspended:
            return None
        run = found.run
        asked = (agent_name, session_id, last_user_text(checkpoint.messages))
        if (run.agent_name, run.session_id, found.last_words) != asked:
            return None  # somebody else's conversation that quotes the id
        if self._remove(run_id) is None:
            return None  # taken by another thread meanwhile
        run.suspended = False
        run.resumed = True
        if run.rests:
            run.rests = False
            run.services.sessions.wake(run.session)
        return run

    def close(self) -> None:
        """
        Close every suspended run that nobody can resume any more, and forget those that another process can.
        Does not wait.
        """
        for run_id in tuple(self._suspended):
            found = self._remove(run_id)
            if found is not None and found.run.suspended:
                if found.run.parked:
                    let_go(found.run)
                else:
                    close_run(found.run, None)

    def _close_forgotten(self) -> None:
        for run_id, each in tuple(self._suspended.items()):
            late = self._max_wait is not None and monotonic() - each.since > self._max_wait
            if late or not each.run.suspended:
                self._close(run_id)

    def _close(self, run_id: str) -> None:
        found = self._remove(run_id)
        if found is None or not found.run.suspended:
            return
        close_waiting(found.run)

    def _remove(self, run_id: str) -> _Suspended | None:
        with self._lock:
            found = self._suspended.pop(run_id, None)
        if found is not None and found.alarm is not None:
            found.alarm.cancel()
        return found


def _rest(run: RunState) -> None:
    """
    Leave the session to others while a person is asked, unless a run around this one goes on with it.

    What waits is given back: whoever goes on with the run has it judged by what the session remembers then.
    """
    for each in (run, *run.nested_suspended):
        for activity in [activity for activities in each.paused.values() for activity in activities]:
            activity.rest()
    if not run.parent_shares_session:
        run.rests = True
        run.services.sessions.rest(run.session)


def _marked(message: ModelMessage, told: Mapping[str, Any]) -> ModelMessage:
    if not any(_waits(part.data) for part in message.content):
        return message
    parts = tuple(
        replace(part, data={"error": {**_untold(part.data["error"]), **told}}) if _waits(part.data) else part
        for part in message.content
    )
    return replace(message, content=parts)


def runs_in(messages: Sequence[ModelMessage]) -> frozenset[str]:
    """Give the ids of the runs whose calls wait."""
    return frozenset(run_id for run_id in _told(messages, RUN_ID) if isinstance(run_id, str))


def _told(messages: Sequence[ModelMessage], name: str) -> Iterator[Any]:
    """Give what stands under `name` in the placeholders of the last turn, those of the calls that wait."""
    for message in reversed(messages):
        if message.role != "tool":
            return
        for part in message.content:
            if _waits(part.data) and name in part.data["error"]:
                yield part.data["error"][name]


def leases_in(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """Give the names of the leases of the calls that wait; none unless all placeholders name the same."""
    told = {tuple(names) for names in _told(messages, LEASES) if _are_names(names)}
    return told.pop() if len(told) == 1 else ()


def carried_in(messages: Sequence[ModelMessage]) -> Carried | None:
    """Give what the placeholders carry of redactions; whether it is as it was, the store says."""
    return next((found for found in _told(messages, CARRIED) if isinstance(found, Mapping)), None)


def _are_names(names: object) -> bool:
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


def _untold(error: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in error.items() if name not in (RUN_ID, LEASES, CARRIED)}


def _waits(data: object) -> bool:
    error = data.get("error") if isinstance(data, Mapping) else None
    return isinstance(error, Mapping) and error.get("reason") == "waiting_for_approval"
