"""Contracts over one run, one session and the fleet side by side, and what a run is about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError, GovernanceBlockedError, OptionError, create_openbox_agentrt
from openbox_agentrt.acel import Metrics, Session, at_most_n_times, at_most_total, must_precede
from openbox_agentrt.acel import required_before_session_end as required
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.testing import Call, ScriptedProvider

DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}


async def act(stage: Any, *tools: str, **scope: Any) -> list[str]:
    """Do one activity after another in one run; what was refused is said, and the run goes on."""
    done = []
    async with stage.governance.run_scope(**scope):
        for tool in tools:
            try:
                async with stage.governance.activity(tool, {"amount": 100}):
                    done.append(tool)
            except ContractRefusedError:
                done.append(f"no {tool}")
    return done


# Runs and sessions


async def test_a_run_and_a_session_count_for_themselves(make_stage: Any) -> None:
    """In one set of rules: authenticated in this conversation, and looked up in this very run."""
    stage = await make_stage(
        contracts=[
            must_precede("log_in", "pay"),
            must_precede("look_up", "pay", scope="run"),
            at_most_n_times("pay", 2, scope="run"),
        ]
    )

    first = await act(stage, "log_in", "pay", "look_up", "pay", "pay", "pay", session_id="s")
    second = await act(stage, "pay", "look_up", "pay", session_id="s")

    assert first == ["log_in", "no pay", "look_up", "pay", "pay", "no pay"]
    assert second == ["no pay", "look_up", "pay"]


async def test_the_option_says_what_the_others_mean(make_stage: Any) -> None:
    """With the default of one run, a contract may still be about the session."""
    stage = await make_stage(
        contracts=[at_most_n_times("pay", 1), at_most_n_times("pay", 2, scope="session")],
        contract_scope="run",
    )

    runs = [await act(stage, "pay", "pay", session_id="s") for _ in range(3)]

    assert runs == [["pay", "no pay"], ["pay", "no pay"], ["no pay", "no pay"]]


async def test_what_a_run_leaves_unmet_is_told_at_its_end(make_stage: Any) -> None:
    """Of each run, though the session goes on; a run that did nothing has not tidied up either."""
    stage = await make_stage(contracts=[required("tidy", scope="run"), required("audit")])

    async with stage.governance.run_scope(session_id="s") as tidy, stage.governance.activity("tidy"):
        pass
    async with stage.governance.run_scope(session_id="s") as untidy:
        pass
    left = stage.governance.end_session("s")

    unmet = "required_before_session_end(tidy, scope=run)"
    assert [decision.contracts for decision in untidy.decisions if decision.acel == "unmet"] == [(unmet,)]
    assert [decision for decision in tidy.decisions if decision.acel == "unmet"] == []
    assert [violation.spec for violation in left] == ["required_before_session_end(audit)"]


async def test_a_nested_run_belongs_to_the_run_around_it(make_stage: Any) -> None:
    """A sub-agent has no budget of its own."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 2, scope="run")])

    async with stage.governance.run_scope(session_id="s"):
        assert await act(stage, "pay") == ["pay"]
        assert await act(stage, "pay", "pay") == ["pay", "no pay"]


async def test_the_runs_of_a_session_follow_again_from_its_steps(make_stage: Any, tmp_path: Path) -> None:
    """Which run a call belongs to, and what it is about, is in the evidence."""
    log = tmp_path / "evidence.jsonl"
    stage = await make_stage(
        contracts=[
            at_most_n_times("pay", 1, scope="run"),
            at_most_total("pay", "amount", 200, key="$subject.customer"),
            required("tidy", scope="run"),
        ],
        evidence=log,
        record="steps",
    )

    for customer in ("a", "b", "a", "a"):
        await act(stage, "pay", "pay", session_id="s", subject={"customer": customer})
    await stage.governance.aclose()
    report = rerun_file(log)

    assert report.ok
    assert report.not_derivable == 0
    assert '"subject":{"customer":"a"}' in log.read_text()


# Subjects


async def test_each_customer_has_a_budget(make_stage: Any) -> None:
    """Whatever the arguments say, in runs of one session and of none."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 1, key="$subject.customer")])

    runs = [
        await act(stage, "pay", "pay", session_id="s", subject={"customer": customer, "tenant": "acme"})
        for customer in ("c-7", "c-8", "c-7")
    ]

    assert runs == [["pay", "no pay"], ["pay", "no pay"], ["no pay", "no pay"]]


async def test_a_nested_run_is_about_the_same_and_more(make_stage: Any) -> None:
    """What it does not say itself, the run around it does."""
    stage = await make_stage(
        contracts=[at_most_n_times("pay", 1, key=["$subject.customer", "$subject.desk"])]
    )

    async with stage.governance.run_scope(subject={"customer": "c-7", "desk": 1}):
        assert await act(stage, "pay") == ["pay"]
        assert await act(stage, "pay", subject={"desk": 2}) == ["pay"]
        assert await act(stage, "pay", subject={"desk": 1}) == ["no pay"]


async def test_a_subject_that_is_none_opens_no_run(make_stage: Any) -> None:
    """It is refused before Core hears of anything."""
    stage = await make_stage()

    with pytest.raises(TypeError, match="a subject must be a mapping of names to texts or whole numbers"):
        async with stage.governance.run_scope(subject={"customer": None}):
            pass

    assert stage.story() == []


@pytest.mark.parametrize("how", ["tool_context", "option"])
async def test_a_loop_says_what_its_run_is_about(make_stage: Any, kit: Any, how: str) -> None:
    """In the tool context, as with the session id, or by a function of agent, messages and context."""
    asked: list[Any] = []

    def subject(agent: Any, messages: Any, tool_context: Any) -> dict[str, str]:
        asked.append((agent.name, len(messages), tool_context))
        return {"customer": tool_context["user"]}

    stage = await make_stage(
        contracts=[at_most_n_times("pay", 1, key="$subject.customer")],
        on_tool_block="return_error",
        **({"subject": subject} if how == "option" else {}),
    )
    paid: list[int] = []

    async def run(customer: str) -> None:
        provider = ScriptedProvider(Call(name="pay", arguments={"amount": 1}), "done")
        registry = kit.registry({"pay": lambda amount: paid.append(amount)})
        loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))
        context = {"subject": {"customer": customer}} if how == "tool_context" else {"user": customer}
        await loop.run(kit.agent(), [kit.user("pay")], tool_context={"session_id": "s", **context})

    for customer in ("c-7", "c-8", "c-7"):
        await run(customer)

    assert len(paid) == 2
    assert len(asked) == (3 if how == "option" else 0)


# The fleet


async def test_two_governances_share_what_the_fleet_counts(
    make_stage: Any, workers: Callable[..., SqliteFleet]
) -> None:
    """As two web workers do: five hundred for the customer, whoever pays."""
    rules = [at_most_total("pay", "amount", 500, key="$subject.customer", **DAY)]
    one, other = [await make_stage(contracts=rules, fleet=workers()) for _ in range(2)]

    done = [await act([one, other][n % 2], "pay", subject={"customer": "c-7"}) for n in range(7)]

    assert done == [["pay"]] * 5 + [["no pay"]] * 2


async def test_a_tool_call_is_reserved_started_and_finished(
    make_stage: Any, kit: Any, workers: Callable[..., SqliteFleet]
) -> None:
    """In a loop, with a refusal that the model can read; the decision says where it was counted."""
    decisions: list[Any] = []
    stage = await make_stage(
        contracts=[at_most_total("pay", "amount", 500, **DAY), must_precede("verify", "pay", **DAY)],
        fleet=workers(),
        on_tool_block="return_error",
        on_decision=decisions.append,
    )
    calls = [("pay", 1), ("verify", 1), ("pay", 380), ("pay", 121), ("pay", 120)]
    provider = ScriptedProvider(
        *(Call(name=tool, arguments={"amount": amount}) for tool, amount in calls), "done"
    )
    paid: list[int] = []
    loop = stage.governance.govern_loop(
        AgentLoop(
            provider,
            tool_registry=kit.registry(
                {"pay": lambda amount: paid.append(amount), "verify": lambda amount: True}
            ),
        )
    )

    result = await loop.run(kit.agent(), [kit.user("pay")])

    assert paid == [380, 120]
    text = json.dumps([part.data for message in result.messages for part in message.content], default=str)
    assert "120 left of 500 today, free again at 00:00 UTC" in text
    told = [(decision.event, decision.acel, decision.fleet) for decision in decisions]
    assert [each for each in told if each[0] in ("pay", "verify")] == [
        ("pay", "refused", None),
        ("verify", "allowed", "shared"),
        ("pay", "allowed", "shared"),
        ("pay", "refused", None),
        ("pay", "allowed", "shared"),
    ]


async def test_what_core_refuses_is_free_again(make_stage: Any, workers: Callable[..., SqliteFleet]) -> None:
    """The store reserved it first; the no of Core takes it back."""
    verdicts = iter(["BLOCK", "ALLOW"])

    def policy(event: Any) -> Any:
        started = event["event_type"] == "ActivityStarted" and event.get("activity_type") == "pay"
        return next(verdicts) if started else None

    stage = await make_stage(policy, contracts=[at_most_n_times("pay", 1, **DAY)], fleet=workers())

    with pytest.raises(GovernanceBlockedError):
        await act(stage, "pay")
    assert await act(stage, "pay", "pay") == ["pay", "no pay"]


async def test_what_was_given_back_while_core_was_asked_is_judged_again(
    make_stage: Any, workers: Callable[..., SqliteFleet]
) -> None:
    """A worker that gave no sign of life may have lost its place to another: then the tool does not run."""
    fleet, other = workers(), workers()
    contract = at_most_n_times("pay", 1, **DAY)

    def policy(event: Any) -> Any:
        if event["event_type"] == "ActivityStarted" and event.get("activity_type") == "pay":
            # As `fleet settle` does for a worker that a person has seen die.
            settle(fleet, other)
            assert Session(contracts=[contract], fleet=other).reserve("pay", started=True).allowed
        return None

    stage = await make_stage(policy, contracts=[contract], fleet=fleet)

    assert await act(stage, "pay") == ["no pay"]


def settle(fleet: SqliteFleet, other: SqliteFleet) -> None:
    from openbox_agentrt.fleet.client.settling import settle_worker

    line = other._connect()
    settle_worker(line, fleet.worker, person=True)
    line.close()


async def test_shadow_counts_and_stops_nothing(make_stage: Any, workers: Callable[..., SqliteFleet]) -> None:
    """What would have been refused is on the decision."""
    decisions: list[Any] = []
    stage = await make_stage(
        contracts=[at_most_n_times("pay", 1, **DAY)],
        contracts_mode="shadow",
        fleet=workers(),
        on_decision=decisions.append,
    )

    assert await act(stage, "pay", "pay") == ["pay", "pay"]
    assert [decision.acel for decision in decisions if decision.event == "pay"] == ["allowed", "shadow"]


async def test_an_outage_refuses_the_call_and_not_the_run(
    make_stage: Any, workers: Callable[..., SqliteFleet], store_path: Path
) -> None:
    """With the reason; when the store is back, it goes on by itself."""
    metrics = Metrics()
    decisions: list[Any] = []
    fleet = workers(timeout_seconds=0.2)
    stage = await make_stage(
        contracts=[at_most_n_times("pay", 3, **DAY)],
        fleet=fleet,
        metrics=metrics,
        on_decision=decisions.append,
    )

    with store_held(store_path):
        assert await act(stage, "pay", "look", "pay") == ["no pay", "look", "no pay"]
    for _ in range(200):
        if await act(stage, "pay") == ["pay"]:
            break
        await asyncio.sleep(0.02)

    refused = [decision for decision in decisions if decision.fleet == "unavailable"]
    assert "the fleet's store does not answer" in refused[0].reason
    assert metrics.snapshot()["fleet_outages"]["refuse"] == len(refused)
    assert decisions[-1].event != "pay" or decisions[-1].fleet == "shared"


async def test_what_is_counted_here_in_an_outage_is_marked(
    make_stage: Any, workers: Callable[..., SqliteFleet], store_path: Path, tmp_path: Path
) -> None:
    """On the decision, in the metrics and in the evidence, whatever else is recorded there."""
    metrics = Metrics()
    decisions: list[Any] = []
    log = tmp_path / "evidence.jsonl"
    stage = await make_stage(
        contracts=[at_most_n_times("pay", 1, **DAY)],
        fleet=workers(timeout_seconds=0.2, on_outage="local"),
        metrics=metrics,
        evidence=log,
        on_decision=decisions.append,
    )

    with store_held(store_path):
        assert await act(stage, "pay", "pay") == ["pay", "no pay"]

    assert [decision.fleet for decision in decisions if decision.event == "pay"] == ["local", None]
    assert metrics.snapshot()["fleet_outages"] == {"local": 1}
    await stage.governance.aclose()
    assert '"fleet":"local"' in log.read_text()


class store_held:
    """Keep the file of the store locked, as a worker that hangs in a transaction does."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        import fcntl

        self._gate = open(f"{self._path}.gate", "a+")
        fcntl.flock(self._gate, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        self._gate.close()


def test_the_url_is_an_option(store_path: Path) -> None:
    """The store is opened with the governance and closed with it."""

    async def main() -> None:
        governance = await create_openbox_agentrt(
            core="off",
            environ={"OPENBOX_AGENTRT_FLEET": f"sqlite:///{store_path}"},
            contracts=[at_most_n_times("pay", 1, **DAY)],
        )
        # On a machine that is busy enough, the store may take longer than a call waits for it.
        with suppress(ContractRefusedError):
            async with governance, governance.run_scope(), governance.activity("pay"):
                pass

    asyncio.run(main())

    assert store_path.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({}, "option 'fleet' is not given, and at_most_n_times", id="no store"),
        pytest.param({"fleet": "mysql://x"}, "option 'fleet' cannot be used: 'mysql://x' names", id="url"),
        pytest.param({"fleet": "sqlite:///f", "lease_seconds": 0.01}, "lease_seconds", id="lease"),
        pytest.param({"on_fleet_outage": "pass"}, "on_fleet_outage", id="outage"),
    ],
)
async def test_a_store_that_cannot_be_used_is_refused_at_once(options: Any, problem: str) -> None:
    """Before anything is sent."""
    with pytest.raises(OptionError, match=problem):
        await create_openbox_agentrt(
            core="off", environ={}, contracts=[at_most_n_times("pay", 1, **DAY)], **options
        )


@pytest.mark.parametrize(
    ("options", "contract", "problem"),
    [
        pytest.param({}, {"scope": "fleet", "per": "day"}, "option 'fleet' is not given", id="no store"),
        pytest.param({"contract_scope": "run"}, {"scope": "session"}, "needs a restart", id="shared"),
    ],
)
async def test_rules_that_are_read_again_and_cannot_be_judged_stay_out(
    make_stage: Any, tmp_path: Path, options: Any, contract: Any, problem: str
) -> None:
    """Those in force stay, whole, in sessions that are open and in those that come."""
    file = tmp_path / "rules.json"
    rule = {"template": "at_most_n_times", "args": ["pay", 1]}
    await asyncio.to_thread(file.write_text, json.dumps({"contracts": [rule]}))
    stage = await make_stage(contracts=str(file), **options)
    assert await act(stage, "pay", "pay", session_id="s") == ["pay", "no pay"]

    await asyncio.to_thread(file.write_text, json.dumps({"contracts": [{**rule, **contract}]}))
    with pytest.raises(OptionError, match=problem):
        stage.governance.reload()

    assert await act(stage, "pay", "pay", session_id="t") == ["pay", "no pay"]
