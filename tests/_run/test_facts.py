"""What tools tell in a governed run, and the conditions that read it."""

from __future__ import annotations

from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError
from openbox_agentrt.acel import fact, requires
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider

CONTRACTS = [
    requires(
        "cancel",
        "facts.order[args.id].status == 'pending' && session.user_prompt == 1 && subject.tenant == 'a'",
        facts=[fact("look_up", "order", key="id", values={"status": "status"})],
    )
]


async def cancelled(make_stage: Any, kit: Any, *calls: Call, status: str = "pending") -> list[str]:
    """A model that makes some calls; gives what was cancelled."""
    stage = await make_stage(core=LocalCore(guardrails=False), contracts=CONTRACTS)
    gone: list[str] = []
    tools = kit.registry(
        {"look_up": lambda id: {"id": id, "status": status}, "cancel": lambda id: gone.append(id)}
    )
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider(*calls, "done"), tool_registry=tools))
    async with stage.governance.run_scope(subject={"tenant": "a"}):
        await loop.run(kit.agent(), [kit.user("Cancel my order.")])
    return gone


LOOK_UP, CANCEL = (Call(name=name, arguments={"id": "W1"}) for name in ("look_up", "cancel"))


async def test_what_was_looked_up_lets_a_call_through(make_stage: Any, kit: Any) -> None:
    """With the count of an event, and whom the run is about."""
    assert await cancelled(make_stage, kit, LOOK_UP, CANCEL) == ["W1"]


@pytest.mark.parametrize(
    ("calls", "status"),
    [((CANCEL,), "pending"), ((LOOK_UP, CANCEL), "sent")],
    ids=["unknown", "another status"],
)
async def test_what_was_not_does_not(make_stage: Any, kit: Any, calls: tuple[Call, ...], status: str) -> None:
    """The tool does not run."""
    with pytest.raises(ContractRefusedError, match="requires"):
        await cancelled(make_stage, kit, *calls, status=status)
