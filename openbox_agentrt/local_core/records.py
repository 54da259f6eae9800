"""Describe what a local Core keeps: events with answers, the state of runs, approvals, refused requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from .wire import decode


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


def decoded(body: bytes) -> dict[str, Any]:
    """Decode the body of an event that was accepted."""
    value: dict[str, Any] = decode(body)[1]
    return value
