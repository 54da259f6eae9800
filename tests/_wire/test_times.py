"""Times as the wire has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo

from hypothesis import given
from hypothesis import strategies as st
from openbox_core.contracts.events import rfc3339_from_datetime

from openbox_agentrt._wire.run_identity import RunIdentity
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
