"""Every run without a session id opens a session: that has to be cheap, however many contracts there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times, must_precede, never_after

Count = Callable[..., Any]

MOST_STEPS = 730
"""Instructions of opening one, those of libraries included, and a tenth more."""
MOST_WITH_A_CALL = 1_620
"""The same of opening one, a call and its end."""


@pytest.mark.parametrize("number", [20, 2000])
def test_a_session_is_opened_in_a_few_hundred_instructions(work_of: Count, number: int) -> None:
    """Its contracts are compiled once, for all that are given the same tuple."""
    contracts = tuple(at_most_n_times(f"tool_{place}", 3) for place in range(number))
    Session(contracts=contracts)
    steps = work_of(lambda: Session(contracts=contracts), everywhere=True).steps

    assert 0.5 * MOST_STEPS < steps < MOST_STEPS


def test_the_first_call_of_a_session_is_planned_in_a_few_hundred_instructions(work_of: Count) -> None:
    """What contracts say of a tool is laid out once for all sessions, and a session adds its numbers."""
    contracts = tuple(at_most_n_times(f"tool_{place}", 3) for place in range(20))

    def first() -> None:
        Session(contracts=contracts).reserve("tool_0", {"id": 7}).commit({"ok": True})

    first()

    assert 0.5 * MOST_WITH_A_CALL < work_of(first, everywhere=True).steps < MOST_WITH_A_CALL


MOST_OF_A_CONTRACT = 2_800
MOST_OF_A_SESSION = 2_000
MOST_OF_A_CALLED_SESSION = 4_000
"""Bytes of each that stay. Ten thousand open sessions that called a tool are 40 MB at most."""


def test_ten_thousand_contracts_are_small(held_by: Count) -> None:
    """What a contract holds is what is written in it, and not a dictionary of its own."""

    def opened() -> Session:
        kinds = (
            lambda n: at_most_n_times(f"tool_{n}", 3),
            lambda n: must_precede(f"first_{n}", f"tool_{n}"),
            lambda n: never_after(f"end_{n}", f"tool_{n}"),
        )
        return Session(contracts=[kinds[number % 3](number) for number in range(600)])

    assert 1000 < held_by(opened) / 600 < MOST_OF_A_CONTRACT


def test_open_sessions_are_small(held_by: Count) -> None:
    """Memory comes as tools are called, and a session that calls one has what that one needs."""
    contracts = tuple(at_most_n_times(f"tool_{number}", 3) for number in range(20))

    def called() -> Session:
        session = Session(contracts=contracts)
        session.reserve("tool_0", {"id": 7}).commit({"ok": True})
        return session

    called()

    assert 500 < held_by(lambda: [Session(contracts=contracts) for _ in range(50)]) / 50 < MOST_OF_A_SESSION
    assert 1000 < held_by(lambda: [called() for _ in range(50)]) / 50 < MOST_OF_A_CALLED_SESSION
