"""
Runs that wait for a person, between the run that stopped and the one that resumes it.

A paused run stays open at Core: its workflow is not sealed, the row of the pending call neither. The run
that is resumed from a checkpoint goes on with the same ids, and the call is not judged a second time, which
would reset the person's decision. What belongs together is found by what the checkpoint holds: the pending
calls, by call id, tool and canonical arguments, and the user's last words; and by agent and session. A
checkpoint that is resumed in another process finds nothing here, and its calls are judged afresh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from .._plain.same import canonical
from ..message_extraction import last_user_text
from .close import close_run

if TYPE_CHECKING:
    from .state import RunState


def call_key(call_id: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Name the call that an approval is bound to: this one, with these arguments."""
    return json.dumps([call_id, tool, canonical(arguments)])


@dataclass(frozen=True, slots=True, eq=False)
class _Suspended:
    """Keep what a resumed run is recognised by."""

    run: RunState
    agent_name: str | None
    session_id: str | None
    last_words: str
    since: float


class SuspendedRuns:
    """
    Keep the paused runs of one governance.

    Args:
        max_wait_ms: A run that nobody resumes in this time is closed; None keeps it until the governance
            closes.
    """

    def __init__(self, max_wait_ms: int | None) -> None:
        self._max_wait = None if max_wait_ms is None else max_wait_ms / 1000
        self._suspended: list[_Suspended] = []

    def __len__(self) -> int:
        return len(self._suspended)

    def suspend(self, run: RunState) -> None:
        """Keep `run`, whose result says that it waits for an approval."""
        self._close_forgotten()
        run.suspended = True
        self._suspended.append(
            _Suspended(run, run.agent_name, run.session_id, last_user_text(run.result.messages), monotonic())
        )

    def take(self, checkpoint: Any, *, agent_name: str | None, session_id: str | None) -> RunState | None:
        """Find the run that `checkpoint` continues, if it is here. It can be continued once."""
        self._close_forgotten()
        pending = _pending_keys(checkpoint.messages)
        last_words = last_user_text(checkpoint.messages)
        for suspended in self._suspended:
            same = (suspended.agent_name, suspended.session_id, suspended.last_words) == (
                agent_name,
                session_id,
                last_words,
            )
            if same and not pending.isdisjoint(suspended.run.paused):
                self._suspended.remove(suspended)
                suspended.run.suspended = False
                suspended.run.resumed = True
                suspended.run.result = None
                return suspended.run
        return None

    def close(self) -> None:
        """Close every paused run: nobody can resume it any more. Does not wait."""
        while self._suspended:
            self._end(self._suspended.pop())

    def _close_forgotten(self) -> None:
        if self._max_wait is None:
            return
        for suspended in tuple(self._suspended):
            if monotonic() - suspended.since > self._max_wait:
                self._suspended.remove(suspended)
                self._end(suspended)

    @staticmethod
    def _end(suspended: _Suspended) -> None:
        suspended.run.suspended = False
        close_run(suspended.run, None)


def _pending_keys(messages: Sequence[Any]) -> set[str]:
    """Give the keys of the calls in the last assistant turn; those that were not paused match nothing."""
    for message in reversed(messages):
        if message.role == "assistant":
            return {call_key(call.id, call.name, call.arguments) for call in message.tool_calls}
    return set()
