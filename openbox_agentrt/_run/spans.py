"""
Spans of runs and of the decisions in them, by OpenTelemetry's conventions for generative AI.

The conventions are experimental, so nothing is made unless ``OTEL_SEMCONV_STABILITY_OPT_IN`` asks for it. No
span is made the current one: what hangs under the caller's spans goes on to, and so do ours.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from ..decision import Verdict
from ..lifecycle_events import LLM_ACTIVITY, USER_PROMPT

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from .._wire.identity import RunIdentity
    from ..decision import Decision


log = logging.getLogger(__name__)

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
_GEN_AI: Final = "gen_ai_latest_experimental"
_TARGETS: Final = {USER_PROMPT: "llm_input", LLM_ACTIVITY: "llm_input"}
_OF_A_RUN: Final = frozenset({"run_started", "run_ended", "session_ended"})


def opted_in(environ: Mapping[str, str]) -> bool:
    """Tell whether the environment asks for the experimental conventions."""
    return _GEN_AI in (word.strip() for word in environ.get(OPT_IN, "").split(","))


@dataclass(frozen=True, slots=True)
class RunSpan:
    """
    Hold the span of a run.

    Attributes:
        span: The span.
        around: The span that was current when the run began: what is current later, if it is another one, was
            opened inside of the run.
    """

    span: Span
    around: Span

    def context(self) -> Context | None:
        """Give what a span that begins now hangs under; None for the current span."""
        if trace.get_current_span() is self.around:
            return trace.set_span_in_context(self.span)
        return None


class Spans:
    """
    Make the spans of runs and activities.

    Args:
        tracer: Who makes them; the process's own one by default.
    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = trace.get_tracer("openbox_agentrt") if tracer is None else tracer

    def begin(self, run: RunIdentity, parent: RunSpan | None) -> RunSpan | None:
        """Open the span of a run, under the caller's or that of the run around it. None if that failed."""
        agent = run.agent_name
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "openbox.workflow_id": run.workflow_id,
            "openbox.run_id": run.run_id,
        }
        if agent is not None:
            attributes["gen_ai.agent.name"] = agent
        if run.session_id is not None:
            attributes["gen_ai.conversation.id"] = run.session_id
        name = "invoke_agent" if agent is None else f"invoke_agent {agent}"
        try:
            outer = None if parent is None else parent.context()
            span = self._tracer.start_span(name, context=outer, attributes=attributes)
        except Exception:
            # A tracer that fails changes nothing of the run.
            log.exception("the span of a run could not be opened")
            return None
        return RunSpan(span, trace.get_current_span())

    def decided(self, decision: Decision, shown: Mapping[str, Any], run: RunSpan | None) -> None:
        """
        Make the span of a decision, which has taken as long as all that were asked.

        Args:
            shown: The decision as attributes, without what must not be seen.
        """
        ended = time.time_ns()
        seconds = decision.acel_seconds + decision.core_seconds + decision.approval_seconds
        span = self._tracer.start_span(
            "run_guardrail openbox",
            context=None if run is None else run.context(),
            start_time=ended - int(seconds * 1e9),
            attributes={**_conventional(decision, shown), **shown},
        )
        span.end(end_time=ended)

    @staticmethod
    def end(run: RunSpan, error: BaseException | None) -> None:
        """Close the span of a run, which ended well or with `error`."""
        try:
            if error is not None:
                # Its text may quote what must not be seen.
                run.span.set_attribute("error.type", type(error).__name__)
                run.span.set_status(trace.StatusCode.ERROR)
            run.span.end()
        except Exception:
            # As above.
            log.exception("the span of a run could not be closed")


def _conventional(decision: Decision, shown: Mapping[str, Any]) -> dict[str, Any]:
    event = decision.event
    is_tool = event not in _TARGETS and event not in _OF_A_RUN
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "run_guardrail",
        "gen_ai.guardrail.name": "openbox",
        "gen_ai.guardrail.target.type": _TARGETS.get(event, "tool_call" if is_tool else "agent"),
        "gen_ai.guardrail.verdict.type": _verdict_type(decision),
    }
    if is_tool:
        attributes["gen_ai.tool.name"] = shown["openbox.event"]
    if decision.agent is not None:
        attributes["gen_ai.agent.name"] = shown["openbox.agent"]
    if decision.policy_id is not None:
        attributes["gen_ai.security.policy.id"] = shown["openbox.policy_id"]
    return attributes


def _verdict_type(decision: Decision) -> str:
    if decision.verdict in (Verdict.BLOCK, Verdict.HALT):
        return "deny"
    if decision.redacted:
        return "modify"
    if decision.approval is not None:
        return "escalate"
    return "warn" if decision.acel == "shadow" or decision.verdict is Verdict.CONSTRAIN else "allow"
