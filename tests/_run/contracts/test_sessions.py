"""Which runs share contracts, who ends a session, and what is unmet then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError, GovernanceBlockedError, GovernanceHaltError, current_run
from openbox_agentrt.acel import (
    EvidenceLog,
    Metrics,
    at_most_n_times,
    at_most_total,
    must_precede,
    required_before_session_end,
)
from openbox_agentrt.errors import UnmetContractError
from openbox_agentrt.testing import ManualClock, ScriptedProvider

TWICE = at_most_n_times("pay", 2)
TIDY = required_before_session_end("tidy")


async def pay(stage: Any, **scope: Any) -> Any:
    async with stage.governance.run_scope(**scope) as run, stage.governance.activity("pay", {"amount": 1}):
        return run


async def act(stage: Any, activity: str) -> None:
    async with stage.governance.activity(activity):
        pass


async def test_runs_of_one_session_share_limits(make_stage: Any) -> None:
    """The third payment of the session is refused, in whichever run it is."""
    stage = await make_stage(contracts=[TWICE])
    await pay(stage, session_id="s")
    await pay(stage, session_id="s")

    with pytest.raises(ContractRefusedError):
        await pay(stage, session_id="s")


async def test_runs_of_several_sessions_do_not(make_stage: Any) -> None:
    """Nor do runs without a session."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 1)])

    for session_id in ("s", "t", None, None):
        await pay(stage, session_id=session_id)


async def test_with_the_scope_run_each_run_counts_for_itself(make_stage: Any) -> None:
    """Although they have one session id."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 1)], contract_scope="run")

    await pay(stage, session_id="s")
    await pay(stage, session_id="s")


async def test_parallel_runs_of_a_session_cannot_pass_a_limit_together(make_stage: Any) -> None:
    """All of them are in flight at once; two get through."""
    stage = await make_stage(contracts=[TWICE])

    outcomes = await asyncio.gather(*(pay(stage, session_id="s") for _ in range(10)), return_exceptions=True)

    refused = [outcome for outcome in outcomes if isinstance(outcome, ContractRefusedError)]
    assert len(refused) == 8


async def test_a_nested_run_uses_the_session_of_its_parent(make_stage: Any) -> None:
    """Its calls count there, and its end does not end it."""
    stage = await make_stage(contracts=[TWICE, must_precede("backup", "delete")])

    async with stage.governance.run_scope() as parent:
        async with stage.governance.run_scope() as child:
            await act(stage, "backup")
            await act(stage, "pay")
        await act(stage, "delete")
        await act(stage, "pay")
        with pytest.raises(ContractRefusedError):
            await act(stage, "pay")

    assert child.contracts is parent.contracts


async def test_a_nested_run_has_its_parents_session_whatever_its_own_id(make_stage: Any) -> None:
    """A sub-agent does not get out of its parent's limits by a session id of its own."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 1)])

    async with stage.governance.run_scope(session_id="outer"):
        await act(stage, "pay")
        with pytest.raises(ContractRefusedError):
            await pay(stage, session_id="inner")


async def test_a_nested_run_names_its_parent_to_core(make_stage: Any) -> None:
    """And both carry one multi-agent session id, the parent from then on."""
    stage = await make_stage()

    async with stage.governance.run_scope() as parent, stage.governance.run_scope() as child:
        await act(stage, "pay")

    started = {event["workflow_id"]: event for event in stage.events("WorkflowStarted")}
    assert started[child.workflow_id]["parent_workflow_id"] == parent.workflow_id
    assert "parent_workflow_id" not in started[parent.workflow_id]
    ended = {event["workflow_id"]: event for event in stage.events("WorkflowCompleted")}
    shared = {event["multi_agent_session_id"] for event in ended.values()}
    assert shared == {child.multi_agent_session_id} == {parent.multi_agent_session_id}


async def test_a_run_without_nested_runs_has_no_multi_agent_session(make_stage: Any) -> None:
    """There is nobody to share it with."""
    stage = await make_stage()

    run = await pay(stage)

    assert run.multi_agent_session_id is None
    assert not any("multi_agent_session_id" in event for event in stage.events())


async def test_a_halt_in_a_child_stops_the_parent(make_stage: Any) -> None:
    """Even if the child's caller swallows it."""
    halting = lambda event: "HALT" if event.get("activity_type") == "wipe" else None  # noqa: E731
    stage = await make_stage(halting, contracts=[TWICE])

    async def swallowing() -> None:
        async with stage.governance.run_scope():
            with pytest.raises(GovernanceHaltError):
                async with stage.governance.run_scope():
                    await act(stage, "wipe")
            with pytest.raises(GovernanceHaltError):
                await act(stage, "pay")

    with pytest.raises(GovernanceHaltError):
        await swallowing()

    assert [event["error"]["type"] for event in stage.events("WorkflowFailed")] == ["GovernanceHaltError"] * 2
    assert "ActivityStarted pay" not in stage.story()


async def test_a_run_between_two_of_another_governance_does_not_end_their_session(make_stage: Any) -> None:
    """The innermost run uses the session of the outermost, which goes on after it."""
    outer = await make_stage(contracts=[TIDY])
    inner = await make_stage()

    async with outer.governance.run_scope() as run:
        async with inner.governance.run_scope(), outer.governance.run_scope() as nested:
            pass
        assert nested.contracts is run.contracts
        await act(outer, "tidy")

    assert [decision.acel for decision in run.decisions] == ["allowed"]


async def test_a_run_inside_one_of_another_governance_ends_its_own_session(make_stage: Any) -> None:
    """The two have nothing to do with each other's contracts."""
    outer, inner = await make_stage(contracts=[TWICE]), await make_stage(contracts=[TIDY])

    async with outer.governance.run_scope() as around, inner.governance.run_scope() as run:
        pass

    assert [decision.acel for decision in run.decisions] == ["unmet"]
    assert not around.decisions


async def test_what_a_run_leaves_unmet_is_reported_everywhere(make_stage: Any) -> None:
    """Evidence, metric, observer, decision and a signal to Core; the run ends as it would have."""
    log, metrics = EvidenceLog(), Metrics()
    told: list[Any] = []
    stage = await make_stage(contracts=[TIDY], evidence=log, metrics=metrics, on_decision=told.append)

    async with stage.governance.run_scope("hello") as run:
        run.result = "done"

    (signal,) = [event for event in stage.events("SignalReceived") if event["signal_name"] != "user_prompt"]
    assert signal["contract_violation"]["contracts"] == [TIDY.spec]
    assert signal["contract_violation"]["enforced"] is False
    assert "signal_args" not in signal
    assert [bundle.violation["spec"] for bundle in log.bundles] == [TIDY.spec]
    assert metrics.snapshot()["violations_by_contract"] == {TIDY.spec: 1}
    assert told[-1] is run.decisions[-1]
    assert (told[-1].event, told[-1].acel, told[-1].verdict.value) == ("run_ended", "unmet", "allow")
    assert stage.story()[-1] == "WorkflowCompleted completed"


async def test_unmet_obligations_can_be_an_error(make_stage: Any) -> None:
    """With ``on_unmet="raise"``; the workflow has failed with it, once."""
    stage = await make_stage(contracts=[TIDY], on_unmet="raise")

    with pytest.raises(UnmetContractError, match="required_before_session_end"):
        async with stage.governance.run_scope() as run:
            pass

    assert run.decisions[-1].verdict.value == "block"
    (event,) = stage.events("WorkflowFailed", "WorkflowCompleted")
    assert event["error"]["type"] == "UnmetContractError"


async def test_an_error_of_the_run_is_not_replaced_by_what_is_unmet(make_stage: Any) -> None:
    """What went wrong first is what the caller has to know."""
    stage = await make_stage(contracts=[TIDY], on_unmet="raise")

    with pytest.raises(KeyError):
        async with stage.governance.run_scope() as run:
            raise KeyError("x")

    assert run.decisions[-1].acel == "unmet"


async def test_shadow_never_raises_what_is_unmet(make_stage: Any) -> None:
    """It is recorded."""
    log = EvidenceLog()
    stage = await make_stage(contracts=[TIDY], on_unmet="raise", contracts_mode="shadow", evidence=log)

    async with stage.governance.run_scope():
        pass

    assert len(log.bundles) == 1


async def test_only_the_owner_ends_a_session(make_stage: Any) -> None:
    """A run of a shared session leaves it open, and so does a nested run: nothing is unmet yet."""
    log = EvidenceLog()
    stage = await make_stage(contracts=[TIDY], evidence=log, on_unmet="raise")

    async with stage.governance.run_scope(session_id="s"), stage.governance.run_scope():
        pass
    async with stage.governance.run_scope(session_id="s"):
        await act(stage, "tidy")

    assert stage.governance.end_session("s") == ()
    assert log.bundles == []


async def test_ending_a_session_says_what_is_unmet(make_stage: Any) -> None:
    """To the caller, the evidence, the metrics and the observer; Core's workflows are sealed by then."""
    log, metrics = EvidenceLog(), Metrics()
    told: list[Any] = []
    stage = await make_stage(contracts=[TIDY], evidence=log, metrics=metrics, on_decision=told.append)
    run = await pay(stage, session_id="s")
    before = len(stage.events())

    unmet = stage.governance.end_session("s")

    assert [violation.spec for violation in unmet] == [TIDY.spec]
    assert len(log.bundles) == 1
    assert metrics.snapshot()["violations_by_contract"] == {TIDY.spec: 1}
    assert (told[-1].event, told[-1].acel, told[-1].run_id) == ("session_ended", "unmet", run.run_id)
    assert len(stage.events()) == before


async def test_a_session_that_is_ended_begins_anew(make_stage: Any) -> None:
    """With counts at nothing; and it cannot be ended twice."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 1)])
    await pay(stage, session_id="s")
    stage.governance.end_session("s")

    with pytest.raises(KeyError):
        stage.governance.end_session("s")
    await pay(stage, session_id="s")


async def test_a_run_that_is_under_way_when_its_session_ends_starts_nothing_more(make_stage: Any) -> None:
    """What it has in flight may finish."""
    stage = await make_stage(contracts=[TWICE])

    async with stage.governance.run_scope(session_id="s"):
        async with stage.governance.activity("pay"):
            stage.governance.end_session("s")
        with pytest.raises(ContractRefusedError, match="session"):
            await act(stage, "pay")


async def test_closing_the_governance_ends_the_sessions_that_are_open(make_stage: Any) -> None:
    """What is unmet in them is in the evidence then."""
    log = EvidenceLog()
    told: list[Any] = []
    stage = await make_stage(contracts=[TIDY], evidence=log, on_decision=told.append)
    for session_id in ("s", "t"):
        await pay(stage, session_id=session_id)

    await stage.governance.aclose()

    assert len(log.bundles) == 2
    assert [decision.event for decision in told[-2:]] == ["session_ended"] * 2


async def test_a_builder_may_end_another_session(make_stage: Any) -> None:
    """User code is not run under a lock that it could need itself."""
    from openbox_agentrt.acel import Session

    stages: list[Any] = []

    def build(name: str) -> Session:
        if name == "second":
            stages[0].governance.end_session("first")
        return Session()

    stages.append(await make_stage(contracts=build))
    await pay(stages[0], session_id="first")
    await asyncio.wait_for(pay(stages[0], session_id="second"), 5)


async def test_there_is_a_bound_for_open_sessions(make_stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One more is refused and said: forgetting one would forget what its limits have counted."""
    stage = await make_stage(contracts=[TWICE], max_sessions=2)
    for session_id in ("s", "t", "s"):
        await pay(stage, session_id=session_id)

    with pytest.raises(GovernanceBlockedError, match="2 sessions are open") as caught:
        await pay(stage, session_id="u")
    assert "max_sessions" in (caught.value.remedy or "")
    assert "a further one is refused" in caplog.text
    stage.governance.end_session("s")
    await pay(stage, session_id="u")


async def test_a_session_that_counts_nothing_makes_room(make_stage: Any) -> None:
    """Nothing that a contract could ask for is forgotten with it."""
    stage = await make_stage(contracts=[TWICE], max_sessions=2)
    async with stage.governance.run_scope(session_id="idle"):
        pass
    await pay(stage, session_id="s")

    await pay(stage, session_id="u")
    with pytest.raises(GovernanceBlockedError, match="2 sessions are open"):
        await pay(stage, session_id="v")

    assert "idle" not in stage.governance._runs.services.sessions.open_ids()


@pytest.mark.parametrize(
    ("contracts", "why"),
    [
        pytest.param([TIDY], "something is owed at its end", id="obligation"),
        pytest.param([at_most_n_times("run_ended", 9)], "something was counted", id="count"),
    ],
)
async def test_a_session_that_counts_something_does_not(make_stage: Any, contracts: Any, why: str) -> None:
    """Its limits hold, and what it leaves unmet is told when it ends."""
    stage = await make_stage(contracts=contracts, max_sessions=1)
    async with stage.governance.run_scope(session_id="s"):
        pass

    with pytest.raises(GovernanceBlockedError, match="1 sessions are open"):
        await pay(stage, session_id="t")


async def test_without_contracts_there_is_no_bound(make_stage: Any) -> None:
    """Nothing is counted, so nothing can be lost: ten thousand chats a day are fine."""
    stage = await make_stage(max_sessions=3)

    for number in range(50):
        await pay(stage, session_id=f"s-{number}")

    assert len(stage.governance._runs.services.sessions) <= 3


async def test_a_session_that_nobody_uses_ends(make_stage: Any) -> None:
    """After `session_idle_seconds`, what it leaves unmet is told, and its limits begin anew."""
    told: list[Any] = []
    stage = await make_stage(contracts=[TWICE, TIDY], session_idle_seconds=60, on_decision=told.append)
    clock = ManualClock()
    stage.governance._runs.services.sessions._clock = clock.monotonic
    await pay(stage, session_id="s")
    await pay(stage, session_id="s")

    clock.advance(59)
    with pytest.raises(ContractRefusedError):
        await pay(stage, session_id="s")
    clock.advance(61)
    await pay(stage, session_id="s")

    (ended,) = [decision for decision in told if decision.event == "session_ended"]
    assert ended.acel == "unmet"


async def test_a_session_with_a_run_under_way_is_not_idle(make_stage: Any) -> None:
    """However long it takes."""
    stage = await make_stage(contracts=[TWICE], session_idle_seconds=60)
    clock = ManualClock()
    stage.governance._runs.services.sessions._clock = clock.monotonic

    async with stage.governance.run_scope(session_id="s"):
        await act(stage, "pay")
        clock.advance(1_000)
        async with stage.governance.run_scope(session_id="other"):
            pass
    await pay(stage, session_id="s")

    with pytest.raises(ContractRefusedError):
        await pay(stage, session_id="s")


async def test_a_runs_own_session_id_wins_over_the_option(make_stage: Any, kit: Any) -> None:
    """The option names the session of runs that name none."""
    stage = await make_stage(session_id="default")
    loop = stage.governance.govern_loop(AgentLoop(ScriptedProvider("a", "b")))

    await loop.run(kit.agent(), [kit.user("hi")], tool_context={"session_id": "own"})
    await loop.run(kit.agent(), [kit.user("hi")])
    await pay(stage, session_id="another")

    assert [e["session_id"] for e in stage.events("WorkflowStarted")] == ["own", "default", "another"]


async def test_a_run_that_may_not_start_has_not_ended_either(make_stage: Any) -> None:
    """`run_ended` counts for runs that have begun; nothing is unmet where nothing has happened."""
    log = EvidenceLog()
    stage = await make_stage(
        contracts=[at_most_n_times("run_started", 1), at_most_n_times("run_ended", 1)], evidence=log
    )
    await pay(stage, session_id="s")

    with pytest.raises(ContractRefusedError, match="run_started"):
        await pay(stage, session_id="s")

    assert [bundle.violation["tool"] for bundle in log.bundles] == ["run_started"]
    assert current_run() is None


async def test_an_end_that_breaks_a_contract_is_reported(make_stage: Any) -> None:
    """It cannot be refused; it is in the evidence, a decision says so, and Core gets a signal."""
    log = EvidenceLog()
    rule = at_most_n_times("run_ended", 0)
    stage = await make_stage(contracts=[rule], evidence=log)

    run = await pay(stage)

    assert [bundle.violation["spec"] for bundle in log.bundles] == [rule.spec]
    assert (run.decisions[-1].event, run.decisions[-1].acel) == ("run_ended", "shadow")
    assert stage.events("SignalReceived")[-1]["contract_violation"]["event"] == "run_ended"
    assert stage.story()[-1] == "WorkflowCompleted completed"


async def test_totals_hold_over_a_session_and_its_nested_runs(make_stage: Any) -> None:
    """A budget is one budget."""
    stage = await make_stage(contracts=[at_most_total("spend", "amount", 10)])

    async def spend(amount: int) -> None:
        async with stage.governance.activity("spend", {"amount": amount}):
            pass

    async with stage.governance.run_scope(session_id="s"):
        await spend(4)
        async with stage.governance.run_scope():
            await spend(4)
    async with stage.governance.run_scope(session_id="s"):
        with pytest.raises(ContractRefusedError, match="2 left of 10"):
            await spend(3)
        await spend(2)
