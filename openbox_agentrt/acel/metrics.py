"""
Counters in Prometheus text.

Counting is a few additions under a lock; `prometheus-client` is asked only when somebody looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..evidence.redaction import Redactor
from .counters import MAX_SERIES, OTHER, BoundedCounter

if TYPE_CHECKING:
    from http.server import HTTPServer

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

__all__ = ("OTHER", "BoundedCounter", "Metrics", "serve_metrics_http")

# A dashboard that asks for one of these finds it before it has happened for the first time.
_KINDS = ("temporal", "precondition", "postcondition", "session")
_IDLE_SECONDS = 10


class Metrics:
    """
    Counts what happens in one session, or in many.

    Safe for several threads. Names are acel-core's; what governance adds starts with ``openbox_agentrt_``.

    Args:
        redact_fields: Names of secrets, or a `Redactor`: hidden in the values of labels.
        max_series: How many series each counter may have.
    """

    def __init__(
        self,
        *,
        redact_fields: Redactor | Iterable[str] | str | None = None,
        max_series: int = MAX_SERIES,
    ) -> None:
        self._lock = threading.Lock()
        self._redactor = Redactor.of(redact_fields)
        self._max_series = max_series
        self._counters: dict[str, BoundedCounter] = {}
        self._latency_count = 0
        self._latency_sum = 0.0
        self._registry: CollectorRegistry | None = None
        self._calls = self.counter("acel_calls", "Total tool calls gated.")
        self._kinds = self.counter("acel_violations", "Total contract violations, by kind.", ("kind",))
        self._contracts = self.counter(
            "acel_contract_violations", "Violations per contract, by its text.", ("contract",)
        )
        self._decisions = self.counter(
            "openbox_agentrt_decisions", "Decisions, by verdict and by who took them.", ("verdict", "source")
        )
        self._unreachable = self.counter(
            "openbox_agentrt_core_unreachable",
            "Failures to ask Core, by what was done.",
            ("policy",),
        )
        self._retries = self.counter("openbox_agentrt_core_retries", "Requests to Core that were sent again.")
        for kind in _KINDS:
            self._kinds.add(kind, by=0)

    def counter(self, name: str, help: str, labels: tuple[str, ...] = ()) -> BoundedCounter:
        """
        A counter of one's own, made when it is first asked for.

        Raises:
            ValueError: If there is one of that name with other labels.
        """
        with self._lock:
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = BoundedCounter(
                    name,
                    help,
                    labels,
                    lock=threading.Lock(),
                    redactor=self._redactor,
                    max_series=self._max_series,
                )
        if counter.labels != labels:
            raise ValueError(f"counter {name!r} has the labels {counter.labels}, not {labels}")
        return counter

    def record_call(self) -> None:
        """A call reached the gate."""
        self._calls.add()

    def record_violation(self, kind: str, contract_spec: str | None = None) -> None:
        """A contract was broken."""
        self._kinds.add(kind)
        if contract_spec is not None:
            self._contracts.add(contract_spec)

    def record_gate_latency(self, seconds: float) -> None:
        """The gate took that long."""
        with self._lock:
            self._latency_count += 1
            self._latency_sum += seconds

    @contextmanager
    def time_gate(self) -> Iterator[None]:
        """Time the body, as latency of the gate."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.record_gate_latency(time.perf_counter() - start)

    def record_decision(self, verdict: str, source: str) -> None:
        """An event was decided."""
        self._decisions.add(verdict, source)

    def record_unreachable(self, policy: str) -> None:
        """Core could not be asked, and that was done: ``fail_open`` or ``fail_closed``."""
        self._unreachable.add(policy)

    def record_retry(self) -> None:
        """A request to Core was sent again."""
        self._retries.add()

    def snapshot(self) -> dict[str, Any]:
        """The numbers as plain data."""
        kinds = self._kinds.snapshot()
        with self._lock:
            latency = {
                "gate_latency_count": self._latency_count,
                "gate_latency_sum_seconds": self._latency_sum,
            }
        return {
            "calls_total": self._calls.snapshot()[()],
            "violations_by_kind": {kind: count for (kind,), count in kinds.items() if count},
            "violations_by_contract": {spec: count for (spec,), count in self._contracts.snapshot().items()},
            **latency,
            "decisions": {
                f"{verdict} by {source}": count
                for (verdict, source), count in self._decisions.snapshot().items()
            },
            "core_unreachable": {policy: count for (policy,), count in self._unreachable.snapshot().items()},
            "core_retries": self._retries.snapshot()[()],
        }

    @property
    def registry(self) -> CollectorRegistry:
        """A registry of `prometheus_client` with these numbers in it, for an endpoint of one's own."""
        if self._registry is None:
            from prometheus_client import CollectorRegistry

            registry = CollectorRegistry()
            registry.register(_Collector(self))
            self._registry = registry
        return self._registry

    def render_prometheus(self) -> str:
        """Everything in Prometheus text."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def _collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

        with self._lock:
            counters = list(self._counters.values())
            count, total = self._latency_count, self._latency_sum
        for counter in counters:
            family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
            for values, number in sorted(counter.snapshot().items()):
                family.add_metric(values, number)
            yield family
        yield SummaryMetricFamily(
            "acel_gate_latency_seconds",
            "Time spent in the gate per call.",
            count_value=count,
            sum_value=total,
        )


class _Collector:
    """What a registry asks."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics._collect()


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
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != path:
                self.send_error(404)
                return
            body = metrics.render_prometheus().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return "openbox-agentrt"

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a scrape every few seconds is no news."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="openbox-metrics", daemon=True).start()
    return server
