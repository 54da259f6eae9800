"""Spans of runs and decisions, through the real SDK, where the environment asks for the conventions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agent_rt import AgentLoop
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from openbox_agentrt import GovernanceError, create_openbox_agentrt
from openbox_agentrt._run.spans import OPT_IN, Spans, opted_in
from openbox_agentrt.acel import at_most_n_times
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider

ASKED_FOR = {OPT_IN: "http, gen_ai_latest_experimental"}


class Traced:
    """A governance whose spans are kept."""

    def __init__(self, governance: Any, tracer: Any, exporter: InMemorySpanExporter) -> None:
        self.governance = governance
        self.tracer = tracer
        self._exporter = exporter

    def spans(self, name: str = "") -> list[Any]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(name)]

    def of(self, event: str) -> Any:
        (span,) = [span for span in self.spans("run_guardrail") if span.attributes["openbox.event"] == event]
        return span


@pytest.fixture
def exported() -> Iterator[tuple[Any, InMemorySpanExporter]]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test"), exporter
    provider.shutdown()


@asynccontextmanager
async def traced(
    exported: Any, policy: Any = None, *, core: Any = None, **options: Any
) -> AsyncIterator[Traced]:
    tracer, exporter = exported
    async with await create_openbox_agentrt(
        core=LocalCore(policy, guardrails=False) if core is None else core,
        environ=ASKED_FOR,
        install_instrumentation=False,
        **options,
    ) as governance:
        governance._runs.services.observers.spans = Spans(tracer)
        yield Traced(governance, tracer, exporter)


def test_nothing_is_made_unless_the_environment_asks_for_it() -> None:
    """The conventions are experimental."""
    assert opted_in(ASKED_FOR)
    assert not opted_in({})
    assert not opted_in({OPT_IN: "http/dup"})


async def test_the_environment_decides() -> None:
    """Of the process, or that which was given."""
    for environ in ({}, ASKED_FOR):
        async with await create_openbox_agentrt(
            core=LocalCore(), environ=environ, install_instrumentation=False
        ) as governance:
            assert (governance._runs.services.observers.spans is not None) == (environ == ASKED_FOR)


async def test_a_run_and_its_decisions_hang_under_the_callers_span(exported: Any, kit: Any) -> None:
    """The agent's span under it, and one for each decision under that."""
    async with traced(exported, session_id="chat 7") as it:
        loop = AgentLoop(
            ScriptedProvider(Call(name="look"), "done"), tool_registry=kit.registry({"look": lambda: "x"})
        )
        with it.tracer.start_as_current_span("request") as request:
            await it.governance.govern_loop(loop).run(kit.agent("Helper"), [kit.user("go")])

    (run,) = it.spans("invoke_agent")
    assert run.name == "invoke_agent Helper"
    assert run.parent.span_id == request.get_span_context().span_id
    assert run.attributes["gen_ai.conversation.id"] == "chat 7"
    decisions = it.spans("run_guardrail")
    assert {span.parent.span_id for span in decisions} == {run.context.span_id}
    targets = [span.attributes["gen_ai.guardrail.target.type"] for span in decisions]
    assert targets == ["llm_input", "llm_input", "tool_call", "llm_input"]
    assert it.of("look").attributes["gen_ai.tool.name"] == "look"
    assert all(span.start_time <= span.end_time for span in it.spans())


async def test_what_is_opened_inside_of_a_run_has_its_decisions(exported: Any) -> None:
    """A user's own span, and a nested run."""
    async with traced(exported) as it, it.governance.run_scope(agent_name="Outer"):
        with it.tracer.start_as_current_span("mine") as mine:
            async with it.governance.activity("look", [1]), it.governance.run_scope(agent_name="Inner"):
                pass
        async with it.governance.activity("write", [1]), it.governance.run_scope(agent_name="Next"):
            pass

    outer, inner, following = (it.spans(f"invoke_agent {name}")[0] for name in ("Outer", "Inner", "Next"))
    assert it.of("look").parent.span_id == mine.get_span_context().span_id
    assert inner.parent.span_id == mine.get_span_context().span_id
    assert following.parent.span_id == outer.context.span_id
    assert it.of("write").parent.span_id == outer.context.span_id


def answering(event: Any) -> Any:
    said = {
        "drop": {"decision": "BLOCK", "policy_id": "p-7"},
        "slow": {"decision": "CONSTRAIN", "constraints": ["slowly"]},
    }
    return said.get(event.get("activity_type", "")) if event["event_type"] == "ActivityStarted" else None


async def test_a_verdict_in_the_words_of_the_conventions(exported: Any) -> None:
    """With the policy, and what a contract that only watches would have refused."""
    options = {
        "contracts": [at_most_n_times("watch", 0)],
        "contracts_mode": "shadow",
        "on_api_error": "fail_open",
    }
    async with traced(exported, answering, **options) as it, it.governance.run_scope():
        for tool in ("look", "drop", "slow", "watch"):
            with contextlib.suppress(GovernanceError):
                async with it.governance.activity(tool, [1]):
                    pass

    verdicts = {
        tool: it.of(tool).attributes["gen_ai.guardrail.verdict.type"]
        for tool in ("look", "drop", "slow", "watch")
    }
    assert verdicts == {"look": "allow", "drop": "deny", "slow": "warn", "watch": "warn"}
    assert it.of("drop").attributes["gen_ai.security.policy.id"] == "p-7"
    assert it.of("drop").attributes["openbox.verdict"] == "block"


async def test_a_redaction_modifies(exported: Any) -> None:
    """And the secret is in no span."""

    def hide(event: Any) -> Any:
        if event["event_type"] != "ActivityStarted":
            return None
        return {"validation_passed": True, "redacted_input": [{"pin": "[hidden]"}]}

    async with (
        traced(exported, core=LocalCore(guardrails=hide)) as it,
        it.governance.run_scope(),
        it.governance.activity("look", [{"pin": "4711-0815"}]),
    ):
        pass

    assert it.of("look").attributes["gen_ai.guardrail.verdict.type"] == "modify"
    assert "4711-0815" not in json.dumps([dict(span.attributes) for span in it.spans()])


async def test_a_key_as_the_name_of_a_tool_is_in_no_span(exported: Any) -> None:
    """A model may name any tool, and what it names looks like what it has read."""
    key = "sk-live-0123456789abcdefghij"
    async with traced(exported) as it, it.governance.run_scope(), it.governance.activity(key, [1]):
        pass

    assert it.spans("run_guardrail")
    assert key not in json.dumps([dict(span.attributes) for span in it.spans()])


async def test_a_run_that_fails_says_with_what_and_not_why(exported: Any) -> None:
    """An error's text may quote what must not be seen."""
    async with traced(exported) as it:
        with pytest.raises(LookupError):
            async with it.governance.run_scope(agent_name="Helper"):
                raise LookupError("4711-0815")

    (run,) = it.spans("invoke_agent")
    assert run.attributes["error.type"] == "LookupError"
    assert not run.status.is_ok
    assert "4711-0815" not in run.to_json()


async def test_a_tracer_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is said in the log."""

    class Broken(trace.NoOpTracer):
        def start_span(self, *args: Any, **kwargs: Any) -> Any:
            raise OSError("no collector")

    async with (
        traced((Broken(), InMemorySpanExporter())) as it,
        it.governance.run_scope(),
        it.governance.activity("look", [1]) as activity,
    ):
        activity.output = "seen"

    assert activity.output == "seen"
    assert "span" in caplog.text
