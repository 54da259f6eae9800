"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openbox_core.contracts.events import rfc3339_from_datetime

from openbox_agentrt._plain.clock import utc_clock
from openbox_agentrt._plain.times import rfc3339
from openbox_agentrt._wire.payloads import json_safe


@given(
    moment=st.datetimes(min_value=datetime(1000, 1, 2), max_value=datetime(9999, 12, 30)),
    zone=st.sampled_from([None, UTC, timezone(timedelta(hours=-5, minutes=-30))]),
)
def test_times_are_written_as_openbox_core_writes_them(moment: datetime, zone: tzinfo | None) -> None:
    """To the millisecond, in UTC."""
    moment = moment.replace(tzinfo=zone)

    assert rfc3339(moment) == rfc3339_from_datetime(moment)


@pytest.mark.parametrize("seconds", [0, 1.25, 1_767_323_045.678])
def test_seconds_since_1970_are_a_time(seconds: float) -> None:
    """A ledger keeps numbers, and Core reads text."""
    assert rfc3339(seconds) == rfc3339(datetime.fromtimestamp(seconds, UTC))


class Timestamp(datetime):
    """What pandas, pendulum and freezegun make of the class."""


def test_a_subclass_is_a_time_as_well() -> None:
    """A policy over a date must see it, whichever library it came from."""
    moment = Timestamp(2026, 12, 25, 1, 2, 3, 456789, tzinfo=UTC)

    assert rfc3339(moment) == "2026-12-25T01:02:03.456Z"
    assert rfc3339(Timestamp(2026, 12, 25)) == "2026-12-25T00:00:00.000Z"
    assert json_safe([moment]) == ["2026-12-25T01:02:03.456Z"]


@given(st.lists(st.floats(0, 4_000_000_000), min_size=1))
def test_records_tell_the_time_as_datetime_does(moments: list[float]) -> None:
    """Whatever second it is, and whichever was before, it is told to the microsecond."""
    left = iter(moments)
    now = utc_clock(lambda: next(left))

    for moment in moments:
        told = now()
        parsed = datetime.fromisoformat(told)
        assert parsed.tzinfo is UTC
        assert len(told) == 32
        assert abs(parsed.timestamp() - moment) < 2e-6
