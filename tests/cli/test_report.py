"""``openbox-agentrt report``: a shadow rollout, in numbers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import GovernanceError
from openbox_agentrt.acel import Session, at_most_n_times, must_precede
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import EvidenceFile, summarise
from openbox_agentrt.evidence.reading import Entry


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of one session in shadow mode and one in force."""
    path = tmp_path / "evidence.jsonl"
    with EvidenceFile(path) as file:
        watching = Session(
            mode="shadow",
            evidence=file.for_session("one"),
            session_id="one",
            contracts=[must_precede("backup", "delete")],
        )
        for record in ("a", "b", "c", "d"):
            watching.call("delete", {"record": record})
        strict = Session(
            halt_on_violation=False,
            evidence=file.for_session("two"),
            session_id="two",
            contracts=[at_most_n_times("pay", 0)],
        )
        strict.call("pay", {"amount": 3})
    return path


def test_the_report_counts_by_contract(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What enforcing would have refused comes first, with examples and what would unblock them."""
    assert main(["report", str(log), "--examples", "2"]) == 0

    shown = capsys.readouterr().out
    assert "1 refused by contracts in force, 4 that enforcing would have refused" in shown
    assert shown.index("must_precede(backup, delete)") < shown.index("at_most_n_times(pay, n=0)")
    assert "would refuse 4, refused 0, in 1 session(s)" in shown
    assert shown.count('delete {"record"') == 2
    assert "(needs backup)" in shown


def test_the_report_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for programs."""
    assert main(["report", str(log), "--json"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert (report["intact"], report["violations"], report["decisions"]) == (True, 5, 0)
    assert [c["would_refuse"] for c in report["contracts"]] == [4, 0]


def test_a_log_that_was_tampered_with_is_said_to_be(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report of a log that does not verify says so, and ends with 1."""
    log.write_text(log.read_text(encoding="utf-8").replace('"amount":3', '"amount":4'), encoding="utf-8")

    assert main(["report", str(log)]) == 1
    assert "tampered with" in capsys.readouterr().err


def test_a_missing_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the file."""
    assert main(["report", str(tmp_path / "none.jsonl")]) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "none.jsonl" in error


def test_records_without_the_expected_fields_are_counted() -> None:
    """A foreign record has no mode, no contract and no arguments; it is still a violation."""
    entry = Entry(number=0, type="violation", time="t", session_id=None, data={"id": 3}, hash="h")

    summary = summarise([entry])

    assert summary.contracts[0].contract == "a contract that is not named"
    assert (summary.contracts[0].refused, summary.contracts[0].id) == (1, None)


def test_decisions_are_counted_and_belong_to_no_contract() -> None:
    """A log with ``record="all"`` holds decisions beside violations."""
    entry = Entry(number=0, type="decision", time="t", session_id=None, data={"verdict": "allow"}, hash="h")

    summary = summarise([entry, entry])

    assert (summary.decisions, summary.violations, summary.contracts) == (2, 0, ())


def test_what_passed_ungoverned_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also from a log that keeps violations only."""
    path = tmp_path / "evidence.jsonl"
    with EvidenceFile(path) as file:
        for event, verdict, unreachable in (
            ("pay", "allow", True),
            ("pay", "allow", True),
            ("delete", "allow", True),
            ("pay", "block", True),
            ("pay", "allow", False),
        ):
            file.record_decision({"event": event, "verdict": verdict, "unreachable": unreachable})

    assert main(["report", str(path)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert main(["report", str(path), "--json"]) == 0

    assert first == "3 call(s) passed ungoverned, since core could not be asked: pay 2, delete 1"
    assert json.loads(capsys.readouterr().out)["ungoverned"] == {"pay": 2, "delete": 1}


async def test_the_report_says_what_people_and_core_refused(
    make_stage: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who it was, how often, and why."""

    def policy(event: Any) -> Any:
        started = event["event_type"] == "ActivityStarted"
        said = {"pay": "REQUIRE_APPROVAL", "drop": {"decision": "BLOCK", "reason": "never"}}
        return said.get(event.get("activity_type", "")) if started else None

    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(policy, evidence=path, record="all", approval_poll_interval_ms=10)
    async with stage.governance.run_scope():
        for person in ("ann", "bob"):
            asking = asyncio.create_task(attempt(stage, "pay"))
            stage.core.reject(await stage.core.await_approval(), note="too much", by=person)
            await asking
        await attempt(stage, "drop")
    await stage.governance.aclose()

    assert main(["report", str(path)]) == 0
    shown = capsys.readouterr().out
    assert main(["report", str(path), "--json"]) == 0
    refused = json.loads(capsys.readouterr().out)["refused"]

    assert "2 pay refused by a person (ann, bob): too much" in shown
    assert "1 drop refused by core: never" in shown
    assert [(one["event"], one["by"], one["count"]) for one in refused] == [
        ("pay", "a person", 2),
        ("drop", "core", 1),
    ]


async def attempt(stage: Any, tool: str) -> None:
    with contextlib.suppress(GovernanceError):
        async with stage.governance.activity(tool, [1]):
            pass
