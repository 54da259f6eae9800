"""What a local Core keeps: events with their answers, the state of runs, approvals, refused requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from .._halt import Halt, HaltKind
from .approvals import Approval, State
from .halts import Opening
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """
    The events of a run so far, as a policy may look at them; repetitions are left out.

    Attributes:
        bodies: The latest of them, oldest first, as JSON.
        missing: The number of earlier ones that are not among `bodies`.
        totals: How many there were in all, by event type and activity type.
    """

    bodies: list[bytes]
    missing: int
    totals: Mapping[str, Mapping[str, int]]

    def as_json(self) -> bytes:
        """Write it as one line of JSON."""
        # Line breaks are but spaces between the values of JSON.
        events = b",".join(self.bodies).replace(b"\n", b" ").replace(b"\r", b" ")
        rest = msgspec.json.encode({"missing": self.missing, "totals": self.totals})
        return b'{"events":[' + events + b"]," + rest[1:]


class Answered(NamedTuple):
    """An event that was answered: its place, its body and its answer, as they were written."""

    seq: int
    body: bytes
    answer: bytes


class EventStore(Protocol):
    """Keep what a local Core remembers. One thread at a time may use it."""

    def close(self) -> None: ...

    def start_anew(self) -> None:
        """Open anew what a forked process cannot share with its parent."""

    def run_end(self, workflow_id: str, run_id: str) -> RunEnd: ...

    def set_run_end(self, workflow_id: str, run_id: str, end: RunEnd) -> None: ...

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

    def history(self, workflow_id: str, run_id: str, *, latest: int) -> RunHistory:
        """Look back on a run; at most so many of its events are whole."""

    def claim(self, event: Event, *, now: float, until: float) -> bool:
        """
        Reserve the judging of `event`, and tell whether that was possible.

        It is not while somebody else, in this process or in another, judges an event with the same ids. What
        was reserved is free again when the event is added, at the latest when `until` has come.
        """

    def together(self) -> AbstractContextManager[None]:
        """Make what is read and written meanwhile one step, also for other processes."""

    def records(self, workflow_id: str | None = None) -> list[Record]: ...

    def moves(self) -> Iterator[tuple[str, str, str, str, str, bool]]:
        """Yield ids, type, activity and "is a mere retry" of every event that is no hook, in order."""

    def add_halt(self, halt: Halt) -> None: ...

    def lift_halt(self, kind: HaltKind, value: str) -> int:
        """Forget halts; returns how many there were."""

    def halts(self) -> list[Halt]:
        """List the halts in force, oldest first."""

    def opening(self, workflow_id: str) -> Opening | None:
        """Find the run of a workflow and its first event; None if there is none."""

    def halt_on(self, subjects: Sequence[tuple[HaltKind, str]]) -> Halt | None:
        """Find the first halt that is about one of `subjects`."""

    def refuse(self, request: RefusedRequest) -> None: ...

    def refused(self) -> list[RefusedRequest]: ...

    def add_approval(self, approval: Approval) -> None: ...

    def approvals(self, **fields: str) -> list[Approval]:
        """List the approvals with the given values of `Approval`'s attributes, oldest first."""

    def decide(self, approval_id: str, state: State, *, note: str, by: str, now: float) -> bool:
        """Write a decision down, unless there is one. Says whether it was written."""


def decoded(body: bytes) -> dict[str, Any]:
    """Decode the body of an event that was accepted."""
    value: dict[str, Any] = decode(body)[1]
    return value
