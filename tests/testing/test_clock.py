"""Time that passes only when a test says so."""

from __future__ import annotations

import pytest

from openbox_agentrt.testing import ManualClock


def test_time_stands_still() -> None:
    """Nothing passes until the test says so."""
    clock = ManualClock(now=1000.0)

    assert (clock.monotonic(), clock.time()) == (0.0, 1000.0)


async def test_sleep_advances_both_clocks() -> None:
    """A sleep returns at once, and the time has passed."""
    clock = ManualClock(now=1000.0)

    await clock.sleep(60)

    assert (clock.monotonic(), clock.time()) == (60.0, 1060.0)
    assert clock.sleeps == [60]


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_time_does_not_run_backwards(seconds: float) -> None:
    """A negative or undefined step is a mistake."""
    with pytest.raises(ValueError, match="forward only"):
        ManualClock().advance(seconds)


def test_the_wall_clock_starts_now() -> None:
    """Without a start the wall clock is the machine's, so expiry times make sense to a real client."""
    assert ManualClock().time() > 1_700_000_000
