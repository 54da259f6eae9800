"""The time as records carry it."""

import datetime

from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.evidence.timestamps import utc_clock


@given(st.lists(st.floats(0, 4_000_000_000), min_size=1))
def test_it_is_what_datetime_says(moments: list[float]) -> None:
    """Whatever second it is, and whichever was before, it is told to the microsecond."""
    left = iter(moments)
    now = utc_clock(lambda: next(left))

    for moment in moments:
        told = now()
        parsed = datetime.datetime.fromisoformat(told)
        assert parsed.tzinfo is datetime.UTC
        assert len(told) == 32
        assert abs(parsed.timestamp() - moment) < 2e-6
