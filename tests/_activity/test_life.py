"""The life of an activity: which step may follow which, and that it is closed once."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from openbox_agentrt import UngovernedCallError
from openbox_agentrt._activity.activity import Activity
from openbox_agentrt._activity.decide import decide
from openbox_agentrt._activity.life import MOVES, State, Step
from openbox_agentrt._activity.perform import perform
from openbox_agentrt._activity.request import custom_request
from openbox_agentrt._run.close import close_run


def test_the_table_knows_every_state_and_step() -> None:
    """A state or a step that is added has to be put into it."""
    assert set(MOVES) == set(get_args(State))
    assert {step for steps in MOVES.values() for step in steps} == set(get_args(Step))


def test_every_state_can_be_closed_once() -> None:
    """Whatever happens, there is a way out; and from there only the way to another row."""
    for state, steps in MOVES.items():
        assert steps.get("close") == (None if state == "closed" else "closed")
    assert set(MOVES["closed"]) == {"anew"}


def test_nothing_runs_that_was_not_allowed() -> None:
    """The work begins in one state only."""
    assert [state for state, steps in MOVES.items() if "begin" in steps] == ["allowed"]


async def test_what_was_let_through_does_not_start_after_its_run(make_stage: Any) -> None:
    """The last look before the work is at the activity itself, which its run has closed meanwhile."""
    stage = await make_stage(None)
    ran: list[str] = []

    async def work() -> None:
        ran.append("it ran")

    async with stage.governance.run_scope() as run:
        activity = Activity(run, custom_request(run, "late", [1]))
        await decide(activity)
        close_run(run, None)
        with pytest.raises(UngovernedCallError, match="'late'"):
            await perform(activity, work)

    assert ran == []
    ends = [event for event in stage.core.events() if event["event_type"] == "ActivityCompleted"]
    assert [event["status"] for event in ends] == ["failed"]


async def test_it_cannot_wait_without_having_asked(make_stage: Any) -> None:
    """A step that the table does not have is a mistake of ours, and says which."""
    stage = await make_stage(None)

    async with stage.governance.run_scope() as run:
        activity = Activity(run, custom_request(run, "early", [1]))
        with pytest.raises(RuntimeError, match="an activity that is new cannot wait"):
            activity.move("wait")
