"""Every run without a session id opens a session: that has to be cheap, however many contracts there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times

Count = Callable[..., Any]

MOST_STEPS = 800
"""Instructions of opening one, those of libraries included, and a tenth more."""


@pytest.mark.parametrize("number", [20, 2000])
def test_a_session_is_opened_in_a_few_hundred_instructions(work_of: Count, number: int) -> None:
    """Its contracts are compiled once, for all that are given the same tuple."""
    contracts = tuple(at_most_n_times(f"tool_{place}", 3) for place in range(number))
    Session(contracts=contracts)
    steps = work_of(lambda: Session(contracts=contracts), everywhere=True).steps

    assert 0.5 * MOST_STEPS < steps < MOST_STEPS
