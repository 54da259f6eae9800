"""
Counters in Prometheus text.

The numbers are kept by `prometheus_client`, which is loaded when the first `Metrics` is made. What is ours is
the bound: whatever a model or an attacker names, a counter has only so many series, and no label holds a
secret.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..evidence.redaction.redactor import Redactor

if TYPE_CHECKING:
    from http.server import HTTPServer

    from prometheus_client import Counter

__all__ = ("MAX_SERIES", "OTHER", "Metrics", "serve_metrics_http")

OTHER = "(other)"
"""Value of every label of the series that holds what did not fit."""

MAX_SERIES = 1000
_MAX_LABEL = 200
# A dashboard that asks for one of these finds it before it has happened for the first time.
_KINDS = ("temporal", "precondition", "postcondition", "session")
_IDLE_SECONDS = 10
# From a contract that looks at a counter to a person who is asked in the evening.
_BUCKETS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0, 3600.0)


class Metrics:
    """
    Counts what happens in one session, or in many.

    Safe for several threads. Names are acel-core's; what governance adds starts with ``openbox_agentrt_``.

    Args:
        redact_fields: Names of secrets, or a `Redactor`: hidden in the values of labels.
        max_series: How many series each counter may have. Values beyond go to `OTHER`.

    Attributes:
        registry: The registry of `prometheus_client` with these numbers in it, for an endpoint of one's own.
    """

    def __init__(
        self,
        *,
        redact_fields: Redactor | Iterable[str] | str | None = None,
        max_series: int = MAX_SERIES,
    ) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

        self.registry = registry = CollectorRegistry()
        self._redactor = Redactor.of(redact_fields)
        self._max_series = max_series
        counter = partial(Counter, registry=registry)
        self._calls = counter("acel_calls", "Total tool calls gated.")
        self._kinds = counter("acel_violations", "Total contract violations, by kind.", ("kind",))
        self._contracts = counter(
            "acel_contract_violations", "Violations per contract, by its text.", ("contract",)
        )
        self._decisions = counter(
            "openbox_agentrt_decisions", "Decisions, by verdict and by who took them.", ("verdict", "source")
        )
        self._unreachable = counter(
            "openbox_agentrt_core_unreachable", "Failures to ask Core, by what was done.", ("policy",)
        )
        self._fleet_outages = counter(
            "openbox_agentrt_fleet_outages",
            "Calls that the store of the fleet could not be asked about, by what was done.",
            ("policy",),
        )
        self._retries = counter("openbox_agentrt_core_retries", "Requests to Core that were sent again.")
        self._latency = Summary(
            "acel_gate_latency_seconds", "Time spent in the gate per call.", registry=registry
        )
        self._refusals = counter(
            "openbox_agentrt_refusals",
            "Refused calls, by tool, by who refused and by the contract that did.",
            ("tool", "by", "contract"),
        )
        self._seconds = Histogram(
            "openbox_agentrt_decision_seconds",
            "How long a decision took, by who was asked: contracts, core or a person.",
            ("asked",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._lock = threading.Lock()
        # The series of each counter, by the values of its labels.
        self._series: dict[Counter, set[tuple[str, ...]]] = {}
        self._watched: dict[str, list[Callable[[], float]]] = {}
        for kind in _KINDS:
            self._kinds.labels(kind)

    def record_call(self) -> None:
        """Count a call that reached the gate."""
        self._calls.inc()

    def record_violation(self, kind: str, contract_spec: str | None = None) -> None:
        """Count a contract that was broken."""
        self._add(self._kinds, kind)
        if contract_spec is not None:
            self._add(self._contracts, contract_spec)

    def record_gate_latency(self, seconds: float) -> None:
        """Take note of how long the gate took."""
        self._latency.observe(seconds)

    @contextmanager
    def time_gate(self) -> Iterator[None]:
        """Time the body, as latency of the gate."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.record_gate_latency(time.perf_counter() - start)

    def record_decision(self, verdict: str, source: str) -> None:
        """Count the decision of an event."""
        self._add(self._decisions, verdict, source)

    def record_refusal(self, tool: str, by: str, contract: str = "") -> None:
        """Count a call that was refused, by who refused it, and by the contract if one did."""
        self._add(self._refusals, tool, by, contract)

    def record_seconds(self, asked: str, seconds: float) -> None:
        """Take note of how long an answer took: of ``contracts``, ``core`` or a ``person``."""
        self._seconds.labels(asked).observe(seconds)

    def watch(self, name: str, description: str, read: Callable[[], float]) -> None:
        """
        Give a number that is read whenever the metrics are. Several of one name are added up.

        Args:
            name: Name of the gauge; ``openbox_agentrt_`` stands before it.
            description: What it says.
            read: Gives the number.
        """
        from prometheus_client import Gauge

        with self._lock:
            readers = self._watched.get(name)
            if readers is None:
                readers = self._watched[name] = []
                gauge = Gauge(f"openbox_agentrt_{name}", description, registry=self.registry)
                gauge.set_function(lambda: sum(each() for each in tuple(readers)))
            readers.append(read)

    def unwatch(self, name: str, read: Callable[[], float]) -> None:
        """Read a number no more."""
        with self._lock:
            self._watched.get(name, []).remove(read)

    def record_unreachable(self, policy: str) -> None:
        """Count a failure to ask Core, by what was done: ``fail_open`` or ``fail_closed``."""
        self._add(self._unreachable, policy)

    def record_fleet_outage(self, policy: str) -> None:
        """Count a call that a shared store was not asked about, by what was done: ``refuse`` or ``local``."""
        self._add(self._fleet_outages, policy)

    def record_retry(self) -> None:
        """Count a request to Core that was sent again."""
        self._retries.inc()

    def snapshot(self) -> dict[str, Any]:
        """Give the numbers as plain data."""
        kinds = _numbers(self._kinds)
        latency = {sample.name: sample.value for sample in _samples(self._latency)}
        return {
            "calls_total": _numbers(self._calls)[()],
            "violations_by_kind": {kind: count for (kind,), count in kinds.items() if count},
            "violations_by_contract": {spec: count for (spec,), count in _numbers(self._contracts).items()},
            "gate_latency_count": int(latency["acel_gate_latency_seconds_count"]),
            "gate_latency_sum_seconds": latency["acel_gate_latency_seconds_sum"],
            "decisions": {
                f"{verdict} by {source}": count
                for (verdict, source), count in _numbers(self._decisions).items()
            },
            "core_unreachable": {policy: count for (policy,), count in _numbers(self._unreachable).items()},
            "fleet_outages": {policy: count for (policy,), count in _numbers(self._fleet_outages).items()},
            "core_retries": _numbers(self._retries)[()],
        }

    def render_prometheus(self) -> str:
        """Give everything in Prometheus text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def _add(self, counter: Counter, *values: str) -> None:
        with self._lock:
            series = self._series.setdefault(counter, set())
            shown = tuple(map(self._cleaned, values))
            if shown not in series:
                if len(series) < self._max_series:
                    series.add(shown)
                else:
                    shown = (OTHER,) * len(values)
        counter.labels(*shown).inc()

    def _cleaned(self, value: str) -> str:
        text = value if self._redactor is None else self._redactor.redact_text(value)
        return text[:_MAX_LABEL].encode("utf-8", "backslashreplace").decode()


def _samples(metric: Any) -> list[Any]:
    return [sample for family in metric.collect() for sample in family.samples]


def _numbers(counter: Counter) -> dict[tuple[str, ...], int]:
    return {
        tuple(sample.labels.values()): int(sample.value)
        for sample in _samples(counter)
        if sample.name.endswith("_total")
    }


def serve_metrics_http(
    metrics: Metrics, port: int = 9090, path: str = "/metrics", *, host: str = "127.0.0.1"
) -> HTTPServer:
    """
    Serve the numbers over HTTP, on a daemon thread.

    Args:
        metrics: What to serve.
        port: Where; 0 lets the system choose, see `server_address` of the result.
        path: The path; every other is 404.
        host: The interface. The loopback unless told otherwise: names of contracts say what is guarded.

    Returns:
        The server. `shutdown()` and `server_close()` stop it.

    Raises:
        OSError: If the port cannot be had.
    """
    from http.server import ThreadingHTTPServer

    from prometheus_client import MetricsHandler

    registry_handler: Any = MetricsHandler.factory(metrics.registry)

    class Handler(registry_handler):  # type: ignore[misc]  # made by the library, so its type is not known
        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] == path:
                super().do_GET()
            else:
                self.send_error(404)

        def version_string(self) -> str:
            return "openbox-agentrt"

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="openbox-metrics", daemon=True).start()
    return server
