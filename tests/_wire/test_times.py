"""Times as the wire has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo

from hypothesis import given
from hypothesis import strategies as st
from openbox_core.contracts.events import rfc3339_from_datetime

from openbox_agentrt._wire.identity import RunIdentity
from openbox_agentrt._wire.payloads import json_safe
from openbox_agentrt._wire.times import rfc3339, stamped
from openbox_agentrt.lifecycle_events import workflow_started


@given(
    moment=st.datetimes(min_value=datetime(1000, 1, 2), max_value=datetime(9999, 12, 30)),
    zone=st.sampled_from([None, UTC, timezone(timedelta(hours=-5, minutes=-30))]),
)
def test_times_are_written_as_openbox_core_writes_them(moment: datetime, zone: tzinfo | None) -> None:
    """To the millisecond, in UTC."""
    moment = moment.replace(tzinfo=zone)

    assert rfc3339(moment) == rfc3339_from_datetime(moment)


def test_an_event_keeps_the_time_that_it_has() -> None:
    """A stamp says when it happened, and only once."""
    event = workflow_started(RunIdentity.mint())

    first = stamped(event, "2026-01-02T03:04:05.678Z")

    assert first.timestamp == "2026-01-02T03:04:05.678Z"
    assert stamped(first, "2027-01-02T03:04:05.678Z") is first


class Timestamp(datetime):
    """What pandas, pendulum and freezegun make of the class."""


def test_a_subclass_is_a_time_as_well() -> None:
    """A policy over a date must see it, whichever library it came from."""
    moment = Timestamp(2026, 12, 25, 1, 2, 3, 456789, tzinfo=UTC)

    assert rfc3339(moment) == "2026-12-25T01:02:03.456Z"
    assert rfc3339(Timestamp(2026, 12, 25)) == "2026-12-25T00:00:00.000Z"
    assert json_safe([moment]) == ["2026-12-25T01:02:03.456Z"]
