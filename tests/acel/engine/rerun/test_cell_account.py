"""What logs show of one cell of a fleet's store, against what the store said of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbox_agentrt.acel.engine.rerun.cell_account import CellAccount
from openbox_agentrt.fleet.plan import FleetCell

MOMENT = st.integers(0, 1000)


@pytest.mark.parametrize("within", [None, 100], ids=["for good", "in a window"])
@given(
    calls=st.lists(st.tuples(MOMENT, st.integers(0, 300)), max_size=12),
    said=st.lists(st.tuples(MOMENT, st.integers(0, 3)), max_size=8),
)
def test_successes_are_those_that_the_store_knew_of(
    within: int | None, calls: list[tuple[int, int]], said: list[tuple[int, int]]
) -> None:
    """Granted in the window that a moment is in, and certainly settled by then."""
    cell = CellAccount(FleetCell(kind="tally" if within is None else "stamps", name="n", within=within))
    cell.successes = [(granted, granted + took) for granted, took in calls]
    cell.success_said = [(now, number, f"{place}") for place, (now, number) in enumerate(said)]

    told = {line.partition(":")[0] for line in cell.contradictions()}

    oldest = 0 if within is None else within - 1 - 2 * -(-within // 100)
    assert told == {
        where
        for now, number, where in cell.success_said
        if sum(
            settled <= now and (within is None or granted >= now - oldest)
            for granted, settled in cell.successes
        )
        > number
    }
