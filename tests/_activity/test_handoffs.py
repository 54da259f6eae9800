"""When one agent's run starts another agent's, Core is told who handed over to whom."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from openbox_agentrt.local_core import LocalCore

GIVER = "did:aip:11111111-1111-4111-8111-111111111111"
TAKER = "did:aip:22222222-2222-4222-8222-222222222222"


def identity(did: str) -> dict[str, str]:
    seed = did[-1].encode() * 32
    return {"agent_did": did, "agent_private_key": base64.b64encode(seed).decode()}


async def nest(make_stage: Any, giver: dict[str, str], taker: dict[str, str]) -> tuple[LocalCore, Any, Any]:
    core = LocalCore()
    outer = await make_stage(core=core, **giver)
    inner = await make_stage(core=core, **taker)
    async with outer.governance.run_scope() as parent, inner.governance.run_scope() as child:
        pass
    return core, parent, child


async def test_a_run_of_another_agent_sends_a_handoff(make_stage: Any) -> None:
    """Sent by the taker, after its workflow has begun; it names the giver and the session they share."""
    core, parent, child = await nest(make_stage, identity(GIVER), identity(TAKER))

    (record,) = [record for record in core.records() if record.event["event_type"] == "Handoff"]
    assert record.caller["agent_did"] == TAKER
    assert record.event["from_agent_did"] == GIVER
    assert record.event["multi_agent_session_id"] == parent.multi_agent_session_id
    assert child.multi_agent_session_id == parent.multi_agent_session_id
    types = [record.event["event_type"] for record in core.records()]
    assert types[:3] == ["WorkflowStarted", "WorkflowStarted", "Handoff"]


@pytest.mark.parametrize(
    ("giver", "taker"),
    [
        (identity(GIVER), identity(GIVER)),
        (identity(GIVER), {}),
        ({}, identity(TAKER)),
        ({}, {}),
    ],
    ids=["the same agent", "a taker without identity", "a giver without identity", "nobody has one"],
)
async def test_otherwise_there_is_none(make_stage: Any, giver: dict[str, str], taker: dict[str, str]) -> None:
    """Nothing was handed over, or nobody could say so."""
    core, _, _ = await nest(make_stage, giver, taker)

    assert "Handoff" not in [record.event["event_type"] for record in core.records()]


async def test_a_run_of_its_own_hands_nothing_over(make_stage: Any) -> None:
    """There is no run around it."""
    stage = await make_stage(**identity(TAKER))

    async with stage.governance.run_scope():
        pass

    assert [event["event_type"] for event in stage.events()] == ["WorkflowStarted", "WorkflowCompleted"]
