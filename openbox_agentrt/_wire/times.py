"""Times as the wire has them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

__all__ = ("rfc3339", "stamped")


_ENCODER: Final = msgspec.json.Encoder()
_WITH_MICROSECONDS: Final = len('"2026-01-02T03:04:05.678901Z"')


def rfc3339(moment: datetime) -> str:
    """`moment` in UTC, in milliseconds, with a ``Z``; a naive one counts as UTC."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if type(moment) is not datetime:
        # A subclass, such as those of pandas and freezegun, which the encoder does not take.
        return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
    text = _ENCODER.encode(moment).decode()  # in quotes, with six digits or none
    return f"{text[1:24]}Z" if len(text) == _WITH_MICROSECONDS else f"{text[1:20]}.000Z"


def stamped(event: EventEnvelope, time: str) -> EventEnvelope:
    """`event` with `time`, unless it has a time of its own."""
    return event if event.timestamp else replace(event, timestamp=time)
