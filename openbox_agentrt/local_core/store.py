"""What a local Core keeps: events with their answers, the state of runs, approvals, refused requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .approvals import Approval, State
from .wire import Event, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """
    An event that was accepted, and its answer.

    Attributes:
        seq: Its place in the order of arrival, from 1.
        received_at: When it came, in seconds since 1970.
        event: The body, decoded.
        answer: What was answered.
        same_as: The `seq` of the event that this one repeats; ``None`` when it is the first.
        changed: It has the ids of `same_as`, but another content: not a retry.
        caller: What the caller said of itself: ``sdk`` and, for a signed request, ``agent_did``.
    """

    seq: int
    received_at: float
    event: dict[str, Any]
    answer: dict[str, Any]
    same_as: int | None
    changed: bool
    caller: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    """A request that was answered with an error."""

    received_at: float
    path: str
    status: int
    message: str


class RunEnd(NamedTuple):
    """A run may do nothing more once it was halted or has ended."""

    sealed_by: str | None = None
    halted: str | None = None


class Answered(NamedTuple):
    """An event that was answered: its place, its body and its answer, as they were written."""

    seq: int
    body: bytes
    answer: bytes


class EventStore(Protocol):
    """Keep what a local Core remembers. One thread at a time may use it."""

    def close(self) -> None: ...

    def session(self, workflow_id: str, run_id: str) -> RunEnd: ...

    def set_session(self, workflow_id: str, run_id: str, session: RunEnd) -> None: ...

    def first(self, event: Event) -> Answered | None:
        """Find the first event with the ids of `event`."""

    def add(
        self,
        event: Event,
        answer: bytes,
        *,
        now: float,
        caller: Mapping[str, str],
        same_as: int | None = None,
        changed: bool = False,
    ) -> None: ...

    def history(self, workflow_id: str, run_id: str) -> list[dict[str, Any]]:
        """List the events of a run so far, repetitions left out."""

    def records(self, workflow_id: str | None = None) -> list[Record]: ...

    def moves(self) -> Iterator[tuple[str, str, str, str, str, bool]]:
        """Yield ids, type, activity and "is a mere retry" of every event that is no hook, in order."""

    def refuse(self, request: RefusedRequest) -> None: ...

    def refused(self) -> list[RefusedRequest]: ...

    def add_approval(self, approval: Approval) -> None: ...

    def approvals(self, **fields: str) -> list[Approval]:
        """List the approvals with the given values of `Approval`'s attributes, oldest first."""

    def decide(self, approval_id: str, state: State, note: str) -> bool:
        """Write a decision down, unless there is one. Says whether it was written."""


def decoded(body: bytes) -> dict[str, Any]:
    """Decode the body of an event that was accepted."""
    value: dict[str, Any] = decode(body)[1]
    return value
