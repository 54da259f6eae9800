"""What a refused call costs: at most 32 KB, in memory and on disk, whatever it was asked with."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, Violation, at_most_n_times, must_precede
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.evidence import EvidenceFile, EvidenceLog, read_entries

MOST = 32_000


def held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def large(n: int) -> dict[str, Any]:
    """Arguments of 200 kB, of several shapes."""
    return {
        "id": n,
        "text": f"{n}" + "x" * 100_000,
        "rows": [{"n": n, "name": str(n)} for n in range(1_000)],
        "deep": {"a": {"b": ["y" * 5_000] * 10}},
    }


def after_large_calls(evidence: Any = None, *, contracts: list[Template] | None = None) -> Session:
    """A session that has seen large arguments and results, and refuses ``delete``."""
    session = Session(
        contracts=contracts or [must_precede("backup", "delete")], evidence=evidence, max_trace=1_000
    )
    for n in range(25):
        session.call("read", large(n), result=large(n))
    return session


@pytest.mark.parametrize("args", [lambda n: {"id": n}, large], ids=["small", "large"])
@pytest.mark.usefixtures("traced")
def test_in_memory(args: Callable[[int], dict[str, Any]]) -> None:
    """Also with the evidence that a session keeps itself, while everything is kept."""
    session = after_large_calls()
    session.reserve("delete", args(0))
    before = held()
    for n in range(1, 51):
        session.reserve("delete", args(n))

    assert len(session.violations) == 51
    assert (held() - before) / 50 < MOST


@pytest.mark.parametrize("args", [lambda n: {"id": n}, large], ids=["small", "large"])
@pytest.mark.parametrize("broken", [1, 5, 20])
def test_on_disk(tmp_path: Path, args: Callable[[int], dict[str, Any]], broken: int) -> None:
    """And not more for breaking many contracts at once."""
    path = tmp_path / "e.jsonl"
    contracts: list[Template] = [must_precede(f"step{n}", "delete") for n in range(broken)]
    with EvidenceFile(path) as evidence:
        session = after_large_calls(evidence, contracts=contracts)
        before = path.stat().st_size
        for n in range(10):
            session.reserve("delete", args(n))
        grown = path.stat().st_size - before

    assert sum(entry.type == "violation" for entry in read_entries(path)) == 10 * broken
    assert grown / 10 < MOST


def test_what_a_person_needs_stays() -> None:
    """The small arguments, the latest calls, and of what was cut a length and a digest."""
    session = after_large_calls()
    session.call("read", {"id": 25}, result="ok")
    session.reserve("delete", large(7))
    (violation,) = session.violations

    assert violation.args["id"] == 7
    assert violation.args["text"]["length"] == 100_001
    assert violation.trace[-1] == {"step": 26, "tool": "read", "args": {"id": 25}, "result": "ok"}
    assert violation.trace[-2]["args"]["id"] == 24
    assert violation.trace[-2]["args"]["text"]["$cut"] == "size"
    assert violation.trace_length == 26


def test_a_name_of_any_length_is_refused_and_recorded_short() -> None:
    """The name of a tool comes from a model."""
    session = Session(contracts=[at_most_n_times("x" * 100_000, 0)])
    session.reserve("x" * 100_000, {})
    (violation,) = session.violations

    assert len(violation.tool) < 400
    assert violation.tool.startswith("xxx")


@pytest.mark.usefixtures("traced")
def test_memory_stays_flat_under_max_trace() -> None:
    """An agent that asks again and again for what it may not do fills no memory."""
    session = Session(contracts=[at_most_n_times("x", 0)], max_trace=100)
    for n in range(300):
        session.reserve("x", {"i": n, "text": "a" * 200})
    before = held()
    for n in range(1_000):
        session.reserve("x", {"i": n, "text": "a" * 200})

    assert held() - before < 100_000


def test_evidence_in_memory_follows_max_trace() -> None:
    """The latest bundles are kept, say how many are not, and verify as the part that they are."""
    session = Session(contracts=[at_most_n_times("x", 0)], max_trace=10)
    for n in range(25):
        session.reserve("x", {"i": n})
    log = session.evidence

    assert isinstance(log, EvidenceLog)
    assert (len(log), log.dropped) == (10, 15)
    assert [bundle.violation["args"]["i"] for bundle in log.bundles] == list(range(15, 25))
    assert log.verify()


def test_a_violation_is_not_changed_by_a_later_one() -> None:
    """Rows of the trace are frozen once and shown in each."""
    given: dict[str, Any] = {"items": [1]}
    session = Session(contracts=[at_most_n_times("x", 0)])
    session.call("read", given, result=given)
    session.reserve("x", {})
    given["items"].append(2)
    session.reserve("x", {})
    one, two = session.violations

    assert isinstance(one, Violation)
    assert one.trace == two.trace
    assert one.trace[0]["result"] == {"items": [1]}


@pytest.mark.usefixtures("traced")
def test_three_hundred_refusals_of_large_calls_stay_small(tmp_path: Path) -> None:
    """On disk and in memory under 10 MB, with every step recorded, after a past of large calls."""
    path = tmp_path / "e.jsonl"
    text = "x" * 200_000
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[must_precede("backup", "delete")], evidence=evidence)
        for n in range(5):
            session.call("read", {"id": n, "text": text}, result=text)
        on_disk, in_memory = path.stat().st_size, held()
        for n in range(300):
            assert not session.reserve("delete", {"id": n, "text": f"{n}{text}"}).allowed
        grown = path.stat().st_size - on_disk

        assert grown < 10_000_000
        assert held() - in_memory < 10_000_000

    entries = [entry for entry in read_entries(path) if entry.type == "violation"]
    assert len(entries) == len(session.violations) == 300
