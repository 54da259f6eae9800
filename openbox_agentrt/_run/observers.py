"""Who is told of a decision: evidence, metrics, the current span, the log, and the user's own observer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from openbox_core.contracts.results import Verdict
from opentelemetry import trace

if TYPE_CHECKING:
    from .._core.decision import Decision
    from .evidence import Recorder

log = logging.getLogger("openbox_agentrt.decisions")

REFUSING = (Verdict.BLOCK, Verdict.HALT)


class DecisionMeter(Protocol):
    """What counts decisions, such as `acel.metrics.Metrics`."""

    def record_decision(self, verdict: str, source: str, /) -> None: ...

    def record_unreachable(self, policy: str, /) -> None: ...


class Observers:
    """
    Tells everybody who wants to know of a decision. What one of them makes of it changes nothing, and does
    not keep it from the others.

    Args:
        meter: Counts decisions.
        observe: The user's ``on_decision``.
        records_all: Whether decisions belong into the evidence.
    """

    __slots__ = ("_meter", "_observe", "_records_all")

    def __init__(
        self,
        *,
        meter: DecisionMeter | None = None,
        observe: Callable[[Decision], Any] | None = None,
        records_all: bool = False,
    ) -> None:
        self._meter = meter
        self._observe = observe
        self._records_all = records_all

    def tell(self, decision: Decision, recorder: Recorder | None) -> None:
        """Never raises, except for what is no `Exception`."""
        if self._records_all and recorder is not None:
            self._try("the evidence", recorder.record_decision, decision.to_dict())
        if self._meter is not None:
            self._try("the metrics", self._count, decision)
        span = trace.get_current_span()
        if span.is_recording():
            self._try("the span", span.add_event, "openbox.decision", attributes_of(decision))
        _write(decision)
        if self._observe is not None:
            self._try("on_decision", self._observe, decision)

    def _count(self, decision: Decision) -> None:
        meter = self._meter
        assert meter is not None
        meter.record_decision(decision.verdict.value, decision.source)
        if decision.unreachable:
            meter.record_unreachable("fail_closed" if decision.verdict in REFUSING else "fail_open")

    @staticmethod
    def _try(who: str, tell: Callable[..., Any], *told: Any) -> None:
        try:
            tell(*told)
        except Exception:
            # What somebody thinks of a decision does not change it.
            log.exception("%s failed on a decision", who)


def attributes_of(decision: Decision) -> Mapping[str, str | bool | int | float]:
    """A decision as attributes of a span: scalars under ``openbox.``; contracts and constraints as text."""
    return {
        f"openbox.{name}": value if isinstance(value, str | bool | int | float) else str(value)
        for name, value in decision.to_dict().items()
        if name != "patch"  # it may hold an input
    }


def _write(decision: Decision) -> None:
    level = logging.INFO if decision.verdict in REFUSING else logging.DEBUG
    if log.isEnabledFor(level):
        fields = {key: value for key, value in decision.to_dict().items() if key != "patch"}
        log.log(
            level,
            "%s of %r by %s",
            decision.verdict.value,
            decision.event,
            decision.source,
            extra={"openbox_decision": fields},
        )
