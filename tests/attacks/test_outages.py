"""Core goes away in the middle of a run, and comes back."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from agent_rt import AgentLoop, ModelRequest

from openbox_agentrt import GovernanceUnavailableError, create_openbox_agentrt
from openbox_agentrt.testing import Call, Fault, FaultyCore, ScriptedProvider

FailPolicy = Literal["fail_open", "fail_closed"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries wait a hundredth of the usual time."""
    monkeypatch.setattr("openbox_agentrt._core.gate.FIRST_BACKOFF", 0.001)


@pytest.mark.parametrize(
    "fault", [Fault.respond(503), Fault.reset(), Fault.lost()], ids=["503", "reset", "lost"]
)
@pytest.mark.parametrize("policy", ["fail_open", "fail_closed"])
async def test_a_short_outage_leaves_no_row_open(kit: Any, fault: Fault, policy: FailPolicy) -> None:
    """What could not be told while Core was away is told when the governance is closed, at the latest."""
    with FaultyCore() as faulty:
        outage = faulty.always(fault, path="/evaluate")

        def tool() -> str:
            outage.__enter__()  # from here to the end of the run, Core is away
            return "done"

        governance = await create_openbox_agentrt(
            environ={},
            api_url=faulty.url,
            api_key=faulty.api_key,
            on_api_error=policy,
            install_instrumentation=False,
        )
        loop = AgentLoop(
            ScriptedProvider(Call(name="work"), "fine"), tool_registry=kit.registry({"work": tool})
        )
        async with governance:
            running = governance.govern_loop(loop).run(kit.agent(), [kit.user("go")])
            if policy == "fail_closed":
                with pytest.raises(GovernanceUnavailableError):
                    await running
            else:
                await running
            assert governance.counts["reports_late"] > 0
            outage.__exit__(None, None, None)

        assert governance.counts["reports_lost"] == 0
        assert faulty.core.open_workflows() == []
        # A start that Core never had is not made up afterwards: it would be judged as if it were to come.
        assert {orphan.problem for orphan in faulty.core.orphans()} <= {"completed without a start"}


async def test_a_held_stream_that_core_was_not_told_of_is_not_handed_on(kit: Any) -> None:
    """Fail-closed: it was held to be judged, and was not. The run goes on without it."""
    with FaultyCore() as faulty:
        outage = faulty.always(Fault.respond(503), path="/evaluate")

        def speak(_: Any) -> str:
            outage.__enter__()
            return "one two three"

        governance = await create_openbox_agentrt(
            environ={},
            api_url=faulty.url,
            api_key=faulty.api_key,
            on_api_error="fail_closed",
            buffer_streams=True,
            install_instrumentation=False,
        )
        async with governance:
            stream = governance.wrap_provider(ScriptedProvider(speak)).stream(
                ModelRequest(messages=(kit.user("hi"),), model="m")
            )
            async with governance.run_scope() as run:
                events = [event async for event in stream]
            outage.__exit__(None, None, None)

    assert [event.text for event in events] == ["the output is withheld by policy", None]
    assert [(each.event, each.source) for each in run.decisions if each.unreachable] == [
        ("llm_call", "unreachable")
    ]
