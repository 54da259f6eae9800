"""Times as the wire has them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

__all__ = ("rfc3339", "stamped")


def rfc3339(moment: datetime) -> str:
    """`moment` in UTC, in milliseconds, with a ``Z``; a naive one counts as UTC."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def stamped(event: EventEnvelope, time: str) -> EventEnvelope:
    """`event` with `time`, unless it has a time of its own."""
    return event if event.timestamp else replace(event, timestamp=time)
