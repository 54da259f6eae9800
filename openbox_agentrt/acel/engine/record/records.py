"""
The records of a session: violations, evidence and metrics.

Recording happens after the lock is released and never raises into the call that it records. What
goes wrong is counted and logged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ...._plain.bounding import bounded, short_text
from ...._plain.freezing import freeze
from ...._primitives import allocate_lock
from ...memory.call import JudgedCall
from ...memory.state import StateStore
from ...violations import Violation
from .found_breach import FoundBreach
from .trace import Trace

# Held while a session makes what keeps its violations. That is rare, so all sessions share it.
_making = allocate_lock()

_NOBODY: Mapping[int, Any] = {}

# What a record may weigh, see `_plain.bounding`: with its copy in a log in memory, a refused call costs at
# most 32 KB whatever its arguments, its result and the calls before it.
ARGS_ROOM = 4_000
RESULT_ROOM = 3_000
STATE_ROOM = 3_000
TRACE_ROOM = 9_000


class ViolationRecorder(Protocol):
    """An object that keeps violations, such as an evidence file."""

    def record(self, violation: Violation, /) -> Any:
        """Keep one violation, and raise nothing."""


class Meter(Protocol):
    """An object that counts, such as `acel.metrics.Metrics`."""

    def record_call(self) -> None:
        """Count a call that reached the gate."""

    def record_violation(self, kind: str, contract_spec: str | None = None, /) -> None:
        """Count a contract that was broken."""

    def record_gate_latency(self, seconds: float, /) -> None:
        """Take note that the gate took that long."""


class Records:
    """
    Keep the records of one session.

    Attributes:
        violations: The violations so far; the latest, if the trace is bounded.
        failures: How often something could not be recorded.
    """

    def __init__(
        self,
        trace: Trace,
        state: StateStore,
        *,
        window: int | None,
        keep: int | None,
        session_id: str | None,
        evidence: ViolationRecorder | None,
        make_evidence: Callable[[], ViolationRecorder],
        meter: Meter | None,
    ) -> None:
        self.violations: list[Violation] = []
        self.failures = 0
        self.meter = meter
        self._trace = trace
        self._state = state
        self._window = window
        self._keep = keep
        self._session_id = session_id
        self._evidence = evidence
        self._make_evidence = make_evidence
        self._watching: Mapping[int, tuple[object, ViolationRecorder]] = _NOBODY

    @property
    def evidence(self) -> Any:
        """Give the recorder that violations go to. It is made when it is first needed, once."""
        with _making:
            if self._evidence is None:
                self._evidence = self._make_evidence()
            return self._evidence

    def watch(self, owner: object, recorder: ViolationRecorder) -> None:
        """Let `recorder` keep each violation as well; one for each `owner`."""
        if recorder is not self._evidence:
            # With its owner, so that no other object can get the same identity.
            self._watching = {id(owner): (owner, recorder), **self._watching}

    def record(
        self, call: JudgedCall, findings: Iterable[FoundBreach], *, result: Any = None, blocked: bool = False
    ) -> tuple[Violation, ...]:
        """Keep a record of each broken contract, frozen as things are now."""
        found_all = tuple(findings)
        # One refused call costs no more for breaking several contracts.
        share = len(found_all) or 1
        rows, length, digest = self._trace.last(
            self._window, room=None if self._window is None else TRACE_ROOM // share
        )
        common: dict[str, Any] = {
            "trace": rows,
            "state_snapshot": bounded(freeze(self._state.snapshot()), STATE_ROOM // share),
            "args": bounded(freeze(call.args if call.final is None else call.final), ARGS_ROOM // share),
            "result": bounded(freeze(result), RESULT_ROOM // share),
            "trace_length": length,
            "trace_hash": digest,
            "session_id": self._session_id,
        }
        violations = tuple(
            Violation(
                kind=found.broken.kind,
                spec=found.broken.contract,
                tool=short_text(call.tool),
                step=call.step,
                id=found.broken.id,
                mode=found.mode,
                blocked=blocked and found.stops,
                blame=found.broken.blame,
                needs=_short(found.broken.needs),
                retry_after=found.broken.retry_after,
                remaining=_short(found.broken.remaining),
                severity=found.broken.severity,
                remedy=found.broken.remedy,
                on_violation=found.broken.on_violation,
                fault=_short(found.broken.fault),
                label=found.broken.label,
                **common,
            )
            for found in found_all
        )
        for violation in violations:
            self._keep_one(violation)
        return violations

    def measure(self, meter: Meter, seconds: float) -> None:
        """Count a call at the gate, and how long it took."""
        try:
            meter.record_call()
            meter.record_gate_latency(seconds)
        except Exception as error:  # noqa: BLE001 - fail-open: counting must not stop a call
            self._failed("metrics", error)

    def count_outage(self, policy: str) -> None:
        """Count a call that the store of the fleet could not be asked about, if the meter counts that."""
        count = getattr(self.meter, "record_fleet_outage", None)
        try:
            if count is not None:
                count(policy)
        except Exception as error:  # noqa: BLE001 - fail-open: counting must not stop a call
            self._failed("metrics", error)

    def _keep_one(self, violation: Violation) -> None:
        self.violations.append(violation)
        if self._keep is not None and len(self.violations) > max(self._keep, 1):
            del self.violations[: -max(self._keep, 1)]
        for recorder in (self.evidence, *(recorder for _, recorder in self._watching.values())):
            try:
                recorder.record(violation)
            except Exception as error:  # noqa: BLE001 - fail-open: recording must not change what was decided
                self._failed("evidence", error)
        if self.meter is not None:
            try:
                # Not by the reason of a halt: each would be a series of its own.
                name = violation.spec if violation.kind == "session" else violation.name
                self.meter.record_violation(violation.kind, name)
            except Exception as error:  # noqa: BLE001 - fail-open: counting must not change what was decided
                self._failed("metrics", error)

    def _failed(self, what: str, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            import logging

            logging.getLogger("openbox_agentrt.acel").error(
                "a violation could not be recorded: %s raised %s", what, type(error).__name__
            )


def _short(text: str | None) -> str | None:
    return None if text is None else short_text(text)
