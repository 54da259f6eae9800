"""Counters in Prometheus text."""

import http.client
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import HTTPServer

import acel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from openbox_agentrt.acel.metrics import OTHER, Metrics, serve_metrics_http


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_and_names_are_acel_core_s() -> None:
    """A dashboard made for acel-core finds every number under its name."""
    ours, theirs = Metrics(), acel.Metrics()
    for metrics in (ours, theirs):
        for _ in range(3):
            metrics.record_call()
        metrics.record_violation("temporal", 'must_precede("a", b\\c)')
        metrics.record_violation("temporal", "line\nbreak")
        metrics.record_violation("precondition")
        metrics.record_gate_latency(0.25)
        metrics.record_gate_latency(0.5)

    found = samples(ours.render_prometheus())

    expected = samples(theirs.render_prometheus())
    assert len(expected) == 8
    assert expected.items() <= found.items()
    assert theirs.snapshot().items() <= ours.snapshot().items()


def test_what_did_not_happen_yet_is_zero() -> None:
    """A series that a dashboard asks for is there from the beginning."""
    found = samples(Metrics().render_prometheus())

    assert found[("acel_calls_total", ())] == 0
    assert found[("acel_violations_total", (("kind", "postcondition"),))] == 0
    assert found[("acel_gate_latency_seconds_count", ())] == 0
    assert Metrics().snapshot()["violations_by_kind"] == {}


def test_decisions_and_core() -> None:
    """What governance adds has names of its own."""
    metrics = Metrics()
    metrics.record_decision("block", "core")
    metrics.record_decision("block", "core")
    metrics.record_unreachable("fail_open")
    metrics.record_retry()

    found = samples(metrics.render_prometheus())

    assert found[("openbox_agentrt_decisions_total", (("source", "core"), ("verdict", "block")))] == 2
    assert found[("openbox_agentrt_core_unreachable_total", (("policy", "fail_open"),))] == 1
    assert found[("openbox_agentrt_core_retries_total", ())] == 1
    assert metrics.snapshot()["decisions"] == {"block by core": 2}
    assert metrics.snapshot()["core_unreachable"] == {"fail_open": 1}
    assert metrics.snapshot()["core_retries"] == 1


def test_an_attacker_s_names_create_no_series() -> None:
    """What does not fit is counted together, and what was there before goes on."""
    metrics = Metrics(max_series=10)
    for number in range(500):
        metrics.record_violation("temporal", f"contract {number}")
    metrics.record_violation("temporal", "contract 0")

    by_contract = metrics.snapshot()["violations_by_contract"]

    assert len(by_contract) == 11
    assert (by_contract["contract 0"], by_contract[OTHER]) == (2, 490)


def test_labels_are_short_and_hold_no_secret() -> None:
    """The value of a label is cut and redacted before it becomes one."""
    metrics = Metrics(redact_fields="token")
    metrics.record_violation("temporal", "token=s3cret " + "x" * 500)
    metrics.record_violation("temporal", "token=s3cret " + "x" * 500)

    ((label, count),) = metrics.snapshot()["violations_by_contract"].items()

    assert count == 2
    assert len(label) == 200
    assert "s3cret" not in label


@given(st.text(st.characters(categories=None)))
def test_any_text_is_a_label(text: str) -> None:
    """Whatever a contract is called, the page can be read."""
    metrics = Metrics()
    metrics.record_violation("temporal", text)

    assert "acel_contract_violations_total{" in metrics.render_prometheus()
    metrics.render_prometheus().encode()


def test_timing() -> None:
    """A body that raises is timed as well."""
    metrics = Metrics()
    with metrics.time_gate():
        pass
    with pytest.raises(KeyError), metrics.time_gate():
        raise KeyError

    assert metrics.snapshot()["gate_latency_count"] == 2


def test_many_threads_lose_nothing() -> None:
    """Counting is safe."""
    metrics = Metrics()

    def work() -> None:
        for _ in range(500):
            metrics.record_call()
            metrics.record_violation("temporal", "a")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert metrics.snapshot()["calls_total"] == 4000
    assert metrics.snapshot()["violations_by_contract"] == {"a": 4000}


def test_the_library_is_loaded_when_metrics_are_made() -> None:
    """A process that counts nothing does not wait for `prometheus_client`."""
    code = (
        "import sys; import openbox_agentrt.acel.metrics;"
        "sys.exit('prometheus_client' in sys.modules or 'http.server' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_registry_holds_them() -> None:
    """An endpoint of one's own serves the numbers through `prometheus_client`."""
    metrics = Metrics()
    metrics.record_call()

    assert metrics.registry.get_sample_value("acel_calls_total") == 1


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    metrics = Metrics()
    metrics.record_call()
    server = serve_metrics_http(metrics, port=0)
    yield server
    server.shutdown()
    server.server_close()


def address(server: HTTPServer) -> str:
    return f"127.0.0.1:{server.server_address[1]}"


def test_the_page(server: HTTPServer) -> None:
    """The numbers are served in Prometheus text."""
    with urllib.request.urlopen(f"http://{address(server)}/metrics?x=1", timeout=5) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.headers["Server"] == "openbox-agentrt"
        assert samples(answer.read().decode())[("acel_calls_total", ())] == 1


def test_other_pages(server: HTTPServer) -> None:
    """There is nothing else."""
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        urllib.request.urlopen(f"http://{address(server)}/other", timeout=5)
    caught.value.close()


def test_only_the_loopback_is_served(server: HTTPServer) -> None:
    """Who is to see the numbers from outside has to be told of on purpose."""
    assert server.server_address[0] == "127.0.0.1"


def test_a_client_that_says_nothing_blocks_nobody(server: HTTPServer) -> None:
    """A connection that is left open does not stop the next scrape."""
    silent = http.client.HTTPConnection(address(server), timeout=5)
    silent.connect()

    with urllib.request.urlopen(f"http://{address(server)}/metrics", timeout=5) as answer:
        assert answer.status == 200
    silent.close()
