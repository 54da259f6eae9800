"""Who is told of a decision, and what they are told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openbox_agentrt import ContractRefusedError, GovernanceBlockedError, create_openbox_agentrt
from openbox_agentrt.acel import Metrics, Session, at_most_n_times
from openbox_agentrt.evidence import read_entries
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Fault, FaultyCore

SECRET = "sk-live-0123456789abcdefghij"
RICH = {
    "decision": "BLOCK",
    "reason": f"the key {SECRET} must not be sent",
    "policy_id": "policy-7",
    "risk_score": 0.75,
    "trust_tier": "tier-2",
    "constraints": ["slowly"],
    "patch": {"new_input": {"pin": "z-4711-z"}},
}


def on_pay(event: Mapping[str, Any]) -> Any:
    return RICH if event["event_type"] == "ActivityStarted" and event["activity_type"] == "pay" else None


async def blocked(stage: Any) -> Any:
    """A run in which Core blocks a payment; its decision."""
    async with stage.governance.run_scope() as run:
        with pytest.raises(GovernanceBlockedError):
            async with stage.governance.activity("pay", {"pin": "z-4711-z"}):
                pass
    return run.decisions[-1]


async def test_a_decision_is_complete(make_stage: Any) -> None:
    """Both judges, what Core had to say, and how long each took."""
    told: list[Any] = []
    stage = await make_stage(
        on_pay, contracts=[at_most_n_times("pay", 0)], contracts_mode="shadow", on_decision=told.append
    )

    decision = await blocked(stage)

    assert told[-1] is decision
    assert (decision.event, decision.verdict.value, decision.source) == ("pay", "block", "core")
    assert (decision.acel, decision.contracts) == ("shadow", ("at_most_n_times(pay, n=0)",))
    assert (decision.core_verdict.value, decision.policy_id) == ("block", "policy-7")
    assert (decision.risk_score, decision.trust_tier) == (0.75, "tier-2")
    assert decision.constraints == ("slowly",)
    assert decision.patch.new_input == {"pin": "z-4711-z"}
    assert (decision.unreachable, decision.redacted) == (False, False)
    assert decision.acel_seconds > 0
    assert decision.core_seconds > 0
    assert decision.activity_id == stage.events("ActivityStarted")[0]["activity_id"]
    assert decision.run_id == stage.events("ActivityStarted")[0]["run_id"]


async def test_all_decisions_can_be_in_the_evidence(make_stage: Any, tmp_path: Path) -> None:
    """With ``record="all"``, without secrets."""
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(on_pay, evidence=path, record="all", redact_fields=["pin"])

    await blocked(stage)
    await stage.governance.aclose()

    (entry,) = [entry for entry in read_entries(path) if entry.type == "decision"]
    assert (entry.data["verdict"], entry.data["policy_id"]) == ("block", "policy-7")
    assert "z-4711-z" not in path.read_text(encoding="utf-8")
    assert SECRET not in path.read_text(encoding="utf-8")


async def test_decisions_are_not_in_the_evidence_unless_asked_for(make_stage: Any, tmp_path: Path) -> None:
    """The default is violations."""
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(on_pay, evidence=path)

    await blocked(stage)
    await stage.governance.aclose()

    assert "policy-7" not in path.read_text(encoding="utf-8")


async def test_a_recorder_of_ones_own_gets_decisions_without_secrets(make_stage: Any) -> None:
    """By name, and by what looks like a key."""

    class Log:
        def __init__(self) -> None:
            self.decisions: list[Mapping[str, Any]] = []

        def record(self, violation: Any) -> None: ...

        def record_decision(self, decision: Mapping[str, Any]) -> None:
            self.decisions.append(decision)

    log = Log()
    stage = await make_stage(on_pay, evidence=log, record="all", redact_fields=["pin"])

    await blocked(stage)

    assert log.decisions[-1]["policy_id"] == "policy-7"
    assert "z-4711-z" not in json.dumps(log.decisions)
    assert SECRET not in json.dumps(log.decisions)


@pytest.fixture
def spans() -> Iterator[tuple[Any, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test"), exporter
    provider.shutdown()


async def test_a_decision_is_an_event_of_the_current_span(make_stage: Any, spans: Any) -> None:
    """With its fields as attributes; without the patch, which may hold an input, and without secrets."""
    tracer, exporter = spans
    stage = await make_stage(on_pay, contracts=[at_most_n_times("pay", 0)], contracts_mode="shadow")

    with tracer.start_as_current_span("agent"):
        decision = await blocked(stage)

    (span,) = exporter.get_finished_spans()
    (event,) = span.events
    assert event.name == "openbox.decision"
    assert event.attributes["openbox.verdict"] == "block"
    assert event.attributes["openbox.policy_id"] == "policy-7"
    assert event.attributes["openbox.risk_score"] == 0.75
    assert event.attributes["openbox.contracts"] == ("at_most_n_times(pay, n=0)",)
    assert event.attributes["openbox.constraints"] == ("slowly",)
    assert event.attributes["openbox.core_seconds"] == decision.core_seconds
    assert "openbox.patch" not in event.attributes
    assert SECRET not in str(dict(event.attributes))


async def test_a_decision_is_a_structured_log_line(make_stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A refusal at INFO, the rest at DEBUG; the fields under one name, and no secret anywhere."""
    stage = await make_stage(on_pay)
    with caplog.at_level(logging.DEBUG, "openbox_agentrt.decisions"):
        await blocked(stage)
        async with stage.governance.run_scope(), stage.governance.activity("other"):
            pass

    refused, allowed = [r for r in caplog.records if r.name == "openbox_agentrt.decisions"]
    assert (refused.levelname, allowed.levelname) == ("INFO", "DEBUG")
    assert refused.getMessage() == "block of 'pay' by core"
    fields = refused.__dict__["openbox_decision"]
    assert (fields["policy_id"], fields["risk_score"]) == ("policy-7", 0.75)
    assert "patch" not in fields
    assert SECRET not in repr(refused.__dict__)


async def test_a_key_as_the_name_of_a_tool_is_in_no_log_line(
    make_stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither among the fields nor in the words."""
    stage = await make_stage()
    with caplog.at_level(logging.DEBUG, "openbox_agentrt.decisions"):
        async with stage.governance.run_scope(), stage.governance.activity(SECRET):
            pass

    (line,) = [r for r in caplog.records if r.name == "openbox_agentrt.decisions"]
    assert SECRET not in line.getMessage() + repr(line.__dict__)


async def test_metrics_count_by_verdict_and_source(make_stage: Any) -> None:
    """One number for each pair, none for each call: labels are from closed sets."""
    metrics = Metrics()
    stage = await make_stage(on_pay, metrics=metrics)

    await blocked(stage)
    async with stage.governance.run_scope():
        for number in range(5):
            async with stage.governance.activity(f"tool-{number}"):
                pass

    assert metrics.snapshot()["decisions"] == {"block by core": 1, "allow by core": 5}


@pytest.mark.parametrize(("policy", "refused"), [("fail_open", 0), ("fail_closed", 1)])
@pytest.mark.leaves_rows_open
async def test_metrics_count_outages_and_retries(policy: Any, refused: int) -> None:
    """What was done about each, and how often Core was asked again."""
    metrics = Metrics()
    core = LocalCore()
    with FaultyCore(core) as server:
        governance = await create_openbox_agentrt(
            environ={},
            api_url=server.url,
            api_key=server.api_key,
            on_api_error=policy,
            gate_budget_seconds=0.4,
            metrics=metrics,
            install_instrumentation=False,
        )
        async with governance, governance.run_scope() as run:
            with server.always(Fault.respond(503)):
                try:
                    async with governance.activity("pay"):
                        pass
                except Exception:  # noqa: BLE001 - fail_closed refuses; the decision is looked at
                    assert refused
        counts = dict(governance.counts)

    assert metrics.snapshot()["core_unreachable"] == {policy: 1}
    assert metrics.snapshot()["core_retries"] == counts["retries"] > 0
    assert run.decisions[0].unreachable


@pytest.mark.parametrize("record", ["violations", "all"])
@pytest.mark.leaves_rows_open
async def test_what_passed_ungoverned_is_on_record_whatever_else_is(
    tmp_path: Path, record: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In the evidence, in the metrics, and in one line of the log with the agent and the tool."""
    metrics = Metrics()
    with FaultyCore() as server:
        governance = await create_openbox_agentrt(
            environ={},
            api_url=server.url,
            api_key=server.api_key,
            agent_name="Refunds",
            on_api_error="fail_open",
            gate_budget_seconds=0.4,
            metrics=metrics,
            evidence=tmp_path / "evidence.jsonl",
            record=record,
            install_instrumentation=False,
        )
        async with governance, governance.run_scope():
            async with governance.activity("lookup"):
                pass
            with server.always(Fault.respond(503)):
                async with governance.activity("pay"):
                    pass

    decisions = [one.data for one in read_entries(tmp_path / "evidence.jsonl") if one.type == "decision"]
    assert [one["event"] for one in decisions if one.get("unreachable")] == ["pay"]
    assert len(decisions) == (1 if record == "violations" else 2)
    assert metrics.snapshot()["core_unreachable"] == {"fail_open": 1}
    assert [line for line in caplog.messages if line.startswith("'pay' of agent 'Refunds' passed ungoverned")]


async def test_what_an_observer_makes_of_it_changes_nothing(
    make_stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them may fail; the others are told all the same, and the call goes on."""
    told: list[Any] = []

    class Broken:
        def record_call(self) -> None: ...

        def record_violation(self, kind: str, contract_spec: str | None = None) -> None: ...

        def record_gate_latency(self, seconds: float) -> None: ...

        def record_decision(self, verdict: str, source: str) -> None:
            raise RuntimeError("metrics")

        def record_unreachable(self, policy: str) -> None: ...

    def observe(decision: Any) -> None:
        told.append(decision)
        raise RuntimeError("observer")

    stage = await make_stage(metrics=Broken(), on_decision=observe)

    async with stage.governance.run_scope(), stage.governance.activity("pay"):
        pass

    assert len(told) == 1
    assert sum("failed on a decision" in record.message for record in caplog.records) == 2


async def test_the_source_of_a_condition_stays_in_the_evidence(make_stage: Any, tmp_path: Path) -> None:
    """Its text may hold anything: Core, decisions and metrics are told what kind of condition it is."""
    metrics, path = Metrics(), tmp_path / "evidence.jsonl"

    def build() -> Session:
        session = Session()
        session.register_tool("pay", precondition=lambda state, args: args["pin"] == "very secret")
        return session

    stage = await make_stage(contracts=build, metrics=metrics, evidence=path)
    async with stage.governance.run_scope() as run:
        with pytest.raises(ContractRefusedError) as caught:
            async with stage.governance.activity("pay", {"pin": "0"}):
                pass
    await stage.governance.aclose()

    seen = repr((run.decisions, stage.core.events(), metrics.snapshot(), str(caught.value)))
    assert "a precondition of pay" in seen
    assert "very secret" not in seen
    assert "very secret" in path.read_text(encoding="utf-8")
