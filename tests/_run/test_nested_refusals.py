"""Refusals of nested I/O find their run and activity, also where no ContextVar tells."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest
from openbox_core.contracts.context import ActivityContext

from openbox_agentrt import GovernanceBlockedError, GovernanceHaltError, UngovernedCallError


def elsewhere(function: Any, *args: Any, **kwargs: Any) -> Any:
    """In a context that knows of no run, as in a thread that a tool starts for itself."""
    return contextvars.Context().run(function, *args, **kwargs)


def context_of(run: Any, activity_id: str | None = None) -> ActivityContext:
    return ActivityContext(
        workflow_id=run.workflow_id, run_id=run.run_id, activity_id=activity_id, activity_type="fetch"
    )


async def test_a_halt_finds_its_run_by_its_ids(make_stage: Any) -> None:
    """The hook names the workflow; that is enough to stop it."""
    stage = await make_stage()
    refusals = stage.governance._runs.refusals

    async def halted() -> None:
        async with stage.governance.run_scope() as run:
            halt = GovernanceHaltError("stop", event="fetch")
            elsewhere(refusals.refused, halt, latches=True, context=context_of(run))
            assert run.halted is not None
            assert run.halted.event == "fetch"

    with pytest.raises(GovernanceHaltError):
        await halted()


async def test_a_refusal_finds_its_activity_by_its_ids(make_stage: Any) -> None:
    """So the activity knows what was refused inside it."""
    stage = await make_stage()
    refusals = stage.governance._runs.refusals
    error = GovernanceBlockedError("no", event="fetch")

    async with stage.governance.run_scope() as run, stage.governance.activity("fetch") as work:
        elsewhere(refusals.refused, error, latches=False, context=context_of(run, work.id))
        assert run.open_activities[work.id].refusals == [error]

    assert error.decision is not None
    assert error.decision.verdict.value == "block"
    assert error.decision in run.decisions


async def test_a_refusal_of_nobody_is_let_go(make_stage: Any) -> None:
    """A request outside of any run, or of a run that is gone, concerns nobody here."""
    stage = await make_stage()
    refusals = stage.governance._runs.refusals
    error = GovernanceBlockedError("no")

    elsewhere(refusals.refused, error, latches=False, context=None)
    elsewhere(refusals.refused, error, latches=False, context=ActivityContext(workflow_id="gone"))

    assert error.decision is None
    assert elsewhere(refusals.cancelled, None) is None


async def test_a_waiting_request_hears_that_its_run_is_over(make_stage: Any) -> None:
    """An approval that comes too late starts nothing."""
    stage = await make_stage()
    refusals = stage.governance._runs.refusals

    async with stage.governance.run_scope() as run:
        assert elsewhere(refusals.cancelled, context_of(run)) is None

    assert isinstance(elsewhere(refusals.cancelled, context_of(run)), UngovernedCallError)


async def test_two_runs_are_told_apart(make_stage: Any) -> None:
    """Inside one run, a refusal that names the other belongs to the other."""
    stage = await make_stage()
    refusals = stage.governance._runs.refusals

    async with stage.governance.run_scope() as outer, stage.governance.run_scope() as inner:
        error = GovernanceBlockedError("no", event="fetch")
        refusals.refused(error, latches=False, context=context_of(outer))

    assert error.decision in outer.decisions
    assert error.decision not in inner.decisions
