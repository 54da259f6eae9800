"""
What is about to happen, in the words that the judges need, and what became of it.

Structs, because every activity makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from .._run.contracts import Reservation
    from ..decision import Answer, Decision

Fit = Callable[[Any], Any]


class Case(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """
    One thing that may happen only if nobody objects.

    Attributes:
        event: ``user_prompt``, ``llm_call``, a tool name or an activity type: what contracts and decisions
            call it.
        activity_id: Its row at Core; None for a signal, which has none.
        envelope: Builds the event for Core; None when that gate is switched off.
        arguments: What local contracts judge.
        content: The input itself: a prompt, or arguments.
        fit: Lays Core's redaction over `content`: the same object when nothing changes. Raises when it does
            not fit.
        destructive: Whether it may stay closed in an outage although Core is configured to fail open.
        deferred: Arguments that are known only afterwards, such as token counts.
        pausable: Whether the loop that runs it can stop for an approval and come back.
    """

    event: str
    activity_id: str | None
    envelope: Callable[[], EventEnvelope] | None
    arguments: Mapping[str, Any] | None = None
    content: Any = None
    fit: Fit | None = None
    destructive: bool = False
    deferred: Collection[str] = ()
    pausable: bool = False

    def arguments_of(self, content: Any) -> Mapping[str, Any] | None:
        """What contracts see of the input that really ran; None when it is what they have judged."""
        if content is self.content:
            return None
        if isinstance(content, Mapping):
            return content
        if isinstance(content, str):
            return {**(self.arguments or {}), "prompt": content}
        first = content[0] if isinstance(content, list) and len(content) == 1 else None
        return first if isinstance(first, Mapping) else {"input": content}


class Ruling(msgspec.Struct, kw_only=True, eq=False):
    """
    The case may go on, with what has to be kept.

    Attributes:
        decision: The record; the last one, after an approval.
        reservation: To be committed or aborted by whoever runs the case; None without contracts.
        content: The input to use: the case's own, or a redacted copy.
        guards: Context managers that constraint handlers want around the work.
    """

    decision: Decision
    reservation: Reservation | None = None
    content: Any = None
    guards: tuple[Any, ...] = ()


class ApprovalPending(Exception):
    """A person has to decide, and the run can stop for it. No error: the row stays open."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__("an approval is pending")
        self.waiting = waiting


class Waiting(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What has to be kept while a person decides."""

    case: Case
    answer: Answer
    reservation: Reservation | None
    facts: Mapping[str, Any]
