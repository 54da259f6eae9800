"""Tell of a decision: evidence, metrics, the current span, the log, and the user's own observer."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from openbox_core.contracts.results import Verdict
from opentelemetry import context, trace

from .._webhook import Webhook
from ..evidence.redaction.redacted_records import redact_record
from ..evidence.redaction.redactor import Redactor

if TYPE_CHECKING:
    from ..decision import ApprovalRequest, Decision
    from .evidence import Recorder
    from .spans import RunSpan, Spans

log = logging.getLogger("openbox_agentrt.decisions")

EVIDENCE_ONLY = frozenset(("patch", "subject", "arguments_digest"))
"""The fields of a decision that may hold an input, or say whom it is about. They go into evidence only."""

HALTED = "halted"
"""The event of the decision that a halt is. What it then stops is a decision of its own."""

REFUSING = (Verdict.BLOCK, Verdict.HALT)


class DecisionMeter(Protocol):
    """Count decisions, as `acel.metrics.Metrics` does."""

    def record_decision(self, verdict: str, source: str, /) -> None: ...

    def record_unreachable(self, policy: str, /) -> None: ...


@runtime_checkable
class DetailMeter(Protocol):
    """Count what was refused, and how long answers took, as `acel.metrics.Metrics` does."""

    def record_refusal(self, tool: str, by: str, contract: str = "", /) -> None: ...

    def record_seconds(self, asked: str, seconds: float, /) -> None: ...


class Observers:
    """
    Tells everybody who wants to know of a decision. What one of them makes of it changes nothing, and does
    not keep it from the others.

    Args:
        meter: Counts decisions.
        observe: The user's ``on_decision``. What it returns is awaited, if it can be, beside the run.
        records_all: Whether all decisions belong into the evidence. What passed ungoverned always does.
        redactor: Hides secrets in what leaves the process. The user's observer gets the decision itself.
        spans: Makes spans of its own for runs and decisions, where that is asked for.
        on_approval: Told of each call that waits for a person.
    """

    __slots__ = ("_asked", "_meter", "_observe", "_on_approval", "_records_all", "_redactor", "spans")

    def __init__(
        self,
        *,
        meter: DecisionMeter | None = None,
        observe: Callable[[Decision], Any] | None = None,
        records_all: bool = False,
        redactor: Redactor | None = None,
        spans: Spans | None = None,
        on_approval: Callable[[ApprovalRequest], Any] | Webhook | None = None,
    ) -> None:
        self.spans = spans
        self._meter = meter
        self._observe = observe
        self._records_all = records_all
        self._redactor = redactor
        self._on_approval = on_approval
        self._asked: set[asyncio.Task[None]] = set()

    def tell(self, decision: Decision, recorder: Recorder | None, run_span: RunSpan | None = None) -> None:
        """Tell all of them of a decision. Never raises, except for what is no `Exception`."""
        if recorder is not None and (self._records_all or _is_ungoverned(decision)):
            self._try("the evidence", lambda: recorder.record_decision(self._shown(decision)))
        if self._meter is not None:
            self._try("the metrics", self._count, decision)
        if context.get_current():
            self._try("the span", self._add_event, decision)
        if self.spans is not None:
            self._try("the spans", self._span, decision, run_span)
        level = logging.INFO if decision.verdict in REFUSING else logging.DEBUG
        if log.isEnabledFor(level):
            self._try("the log", self._write, level, decision)
        if self._observe is not None:
            self._try("on_decision", self._ask, self._observe, decision)

    @property
    def keeps_all(self) -> bool:
        """Tell whether all decisions belong into the evidence."""
        return self._records_all

    def tell_outcome(self, outcome: Mapping[str, Any], recorder: Recorder | None) -> None:
        """Put into the evidence what became of work. Never raises, except for what is no `Exception`."""
        record = getattr(recorder, "record_outcome", None)
        if record is not None:
            self._try("the evidence", record, outcome)

    def tell_waiting(self, request: ApprovalRequest) -> None:
        """Tell that a call waits for a person. Never raises, and waits for nobody."""
        if isinstance(self._on_approval, Webhook):
            self._on_approval.send(redact_record(request.to_dict(), self._redactor))
        elif self._on_approval is not None:
            self._try("on_approval", self._ask, self._on_approval, request)

    async def settle(self, *, seconds: float) -> None:
        """Wait for observers that have to be awaited, but not longer than `seconds`."""
        loop = asyncio.get_running_loop()
        here = [task for task in self._asked if task.get_loop() is loop]
        if here:
            await asyncio.wait(here, timeout=seconds)
        if isinstance(self._on_approval, Webhook):
            await asyncio.to_thread(self._on_approval.close, seconds)

    def _ask(self, observe: Callable[[Any], Any], what: Decision | ApprovalRequest) -> None:
        told = observe(what)
        if not inspect.isawaitable(told):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(_awaited(told))  # a thread of a tool's own
            return
        task = loop.create_task(_awaited(told), name="openbox-on-decision")
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    def _count(self, decision: Decision) -> None:
        meter = self._meter
        assert meter is not None
        meter.record_decision(decision.verdict.value, decision.source)
        if isinstance(meter, DetailMeter):
            _count_details(meter, decision)
        if decision.unreachable:
            # Whatever stopped a call later, it had passed Core's gate if that is not what decided.
            closed = decision.source == "unreachable" and decision.verdict in REFUSING
            meter.record_unreachable("fail_closed" if closed else "fail_open")

    def _add_event(self, decision: Decision) -> None:
        span = trace.get_current_span()
        if span.is_recording():
            span.add_event("openbox.decision", attributes_of(self._shown(decision)))

    def _span(self, decision: Decision, run_span: RunSpan | None) -> None:
        assert self.spans is not None
        self.spans.decided(decision, attributes_of(self._shown(decision)), run_span)

    def _shown(self, decision: Decision) -> Mapping[str, Any]:
        return redact_record(decision.to_dict(), self._redactor)

    def _write(self, level: int, decision: Decision) -> None:
        fields = {key: value for key, value in self._shown(decision).items() if key not in EVIDENCE_ONLY}
        what = ("%s of %r by %s", decision.verdict.value, fields["event"], decision.source)
        log.log(level, *what, extra={"openbox_decision": fields})

    @staticmethod
    def _try(who: str, tell: Callable[..., Any], *told: Any) -> None:
        try:
            tell(*told)
        except Exception:
            # What somebody thinks of a decision does not change it.
            log.exception("%s failed on a decision", who)


def _is_ungoverned(decision: Decision) -> bool:
    """Tell whether something passed that nobody outside of this process was asked about."""
    return decision.fleet == "local" or (decision.unreachable and decision.verdict not in REFUSING)


def _count_details(meter: DetailMeter, decision: Decision) -> None:
    for asked, seconds in (
        ("contracts", decision.acel_seconds),
        ("core", decision.core_seconds),
        ("person", decision.approval_seconds),
    ):
        if seconds:
            meter.record_seconds(asked, seconds)
    if decision.verdict not in REFUSING or decision.event == HALTED:
        return
    by = "person" if decision.approval in ("rejected", "expired", "timeout") else decision.source
    contracts = decision.contracts if by == "contracts" else ()
    for contract in contracts or ("",):
        meter.record_refusal(decision.event, by, contract)


async def _awaited(told: Awaitable[object]) -> None:
    try:
        await told
    except Exception:
        # What somebody thinks of a decision does not change it.
        log.exception("on_decision failed on a decision")


def attributes_of(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a decision as attributes of a span: under ``openbox.``, scalars and lists of text."""
    return {
        f"openbox.{name}": _attribute(value) for name, value in decision.items() if name not in EVIDENCE_ONLY
    }


def _attribute(value: Any) -> Any:
    if isinstance(value, list):
        return [str(item) for item in value]
    return value if isinstance(value, str | bool | int | float) else str(value)


def decision_meter(metrics: Any) -> DecisionMeter | None:
    """Give `metrics`, if they count decisions. Those of acel-core count calls and violations only."""
    counts = all(callable(getattr(metrics, name, None)) for name in ("record_decision", "record_unreachable"))
    return metrics if counts else None
