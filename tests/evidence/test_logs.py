"""Questions to many logs: which files and folders are logs, and what they say together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_total, must_precede
from openbox_agentrt.acel.violations import Violation
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import EvidenceFile, EvidenceLog, UnreadableLogError, verify_file
from openbox_agentrt.evidence.calls import CallRecord, calls_in
from openbox_agentrt.evidence.logs import logs_in, merged_entries

MakeViolation = Callable[..., Violation]


class Clock:
    def __init__(self, minutes: int = 0) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, tzinfo=UTC) + timedelta(minutes=minutes)

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=2)
        return self.now


def test_a_folder_gives_each_log_a_file_of_its_own(tmp_path: Path, violation: MakeViolation) -> None:
    """Also one that is not there yet, if its name says that it is one."""
    for _ in range(3):
        with EvidenceFile(f"{tmp_path}/logs/") as log:
            log.record(violation(1))
    with EvidenceFile(tmp_path / "logs") as log:
        log.record(violation(1))

    found = logs_in([tmp_path / "logs"])
    assert len(found) == 4
    assert all(verify_file(each).ok for each in found)


def test_what_stands_in_a_folder(tmp_path: Path, violation: MakeViolation) -> None:
    """Logs of both formats, in folders inside as well; of several parts the last stands for all."""
    for name in ("a.jsonl", "inside/b.jsonl", "archive/c.jsonl"):
        with EvidenceFile(tmp_path / name, max_bytes=1_500) as log:
            for step in range(6):
                log.record(violation(step))
    (tmp_path / "archive" / "c.jsonl").unlink()
    old = EvidenceLog()
    old.record(violation(1))
    (tmp_path / "old.json").write_text(old.to_json())
    (tmp_path / "notes.json").write_text('{"not": "a log"}')
    (tmp_path / "trace.json").write_text('[{"tool": "pay", "args": {"amount": 3}}]')
    (tmp_path / "notes.txt").write_text("not a log")
    shutil.copy(tmp_path / "old.json", tmp_path / ".hidden.json")

    found = [str(log.relative_to(tmp_path)) for log in logs_in([tmp_path])]
    last = max(path.name for path in (tmp_path / "archive").glob("c.0*.jsonl"))
    assert sorted(found) == sorted(["a.jsonl", f"archive/{last}", "inside/b.jsonl", "old.json"])


def test_a_file_that_is_named_twice_is_one_log(tmp_path: Path, violation: MakeViolation) -> None:
    """As itself, in its folder, and as a part of a log that is named too."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, max_bytes=1_500) as log:
        for step in range(6):
            log.record(violation(step))

    assert logs_in([path, tmp_path, tmp_path / "e.000001.jsonl"]) == [path]
    assert logs_in([tmp_path / "e.000001.jsonl"]) == [tmp_path / "e.000001.jsonl"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableLogError, match="folder holds no evidence log"):
        logs_in([tmp_path / "empty"])


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """The logs of two workers, whose clocks agree."""
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    rules = [must_precede("backup", "delete"), at_most_total("refund", "amount", 500)]
    for minutes, path in enumerate(paths):
        with EvidenceFile(path, record="steps", clock=Clock(minutes)) as log:
            name = f"s-{minutes}"
            session = Session(contracts=rules, evidence=log.for_session(name), session_id=name)
            session.reserve("delete", {"id": minutes})
            session.call("refund", {"to": "ann", "amount": 300})
            session.reserve("refund", {"to": "eve", "amount": 300})
            call = session.reserve("refund", {"to": "bob", "amount": 100})
            call.abort(ValueError(), ran=True)
            session.reserve("backup", {}).abort()
    return paths


def test_entries_of_several_logs_by_their_time(two: list[Path]) -> None:
    """Each with the log that it is from."""
    entries = list(merged_entries(two))

    assert [entry.time for _, entry in entries] == sorted(entry.time for _, entry in entries)
    assert {name for name, _ in entries} == {str(path) for path in two}


def facts(call: CallRecord) -> tuple[object, ...]:
    return call.tool, call.args, call.verdict, call.contracts, call.outcome


def test_calls_are_put_together_from_their_steps(two: list[Path]) -> None:
    """What was asked for, what was decided, and what became of it."""
    calls = calls_in(merged_entries(two[:1]))

    total = "at_most_total(refund, amount, limit=500)"
    assert [facts(call) for call in calls] == [
        ("delete", {"id": 0}, "refused", ("must_precede(backup, delete)",), "did not run"),
        ("refund", {"to": "ann", "amount": 300}, "allowed", (), "ok"),
        ("refund", {"to": "eve", "amount": 300}, "refused", (total,), "did not run"),
        ("refund", {"to": "bob", "amount": 100}, "allowed", (), "failed"),
        ("backup", {}, "allowed", (), "did not run"),
    ]
    assert [call.why for call in calls] == ["needs backup", None, "200 left of 500", None, None]
    assert {call.session for call in calls} == {"s-0"}


def test_calls_of_a_log_without_steps(tmp_path: Path) -> None:
    """Those that were refused, those that would have been, and what a gate decided."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="all") as log:
        Session(contracts=[must_precede("a", "b")], evidence=log).reserve("b", {"n": 1})
        Session(contracts=[must_precede("a", "c")], evidence=log, mode="shadow").reserve("c", {"n": 2})
        log.record_decision(
            {
                "event": "refund",
                "verdict": "allow",
                "source": "core",
                "agent": "clerk",
                "approval": "approved",
                "decided_by": "ann",
                "approval_note": "fine",
            }
        )
        log.record_decision({"event": "run_ended", "verdict": "allow", "source": "core"})

    refused, watched, decided = calls_in(merged_entries([path]))
    assert (refused.tool, refused.verdict, refused.by, refused.outcome) == (
        "b",
        "refused",
        "contracts",
        "did not run",
    )
    assert (watched.tool, watched.verdict, watched.outcome) == ("c", "would refuse", None)
    assert (decided.agent, decided.by, decided.approver, decided.note) == (
        "clerk",
        "person (approved)",
        "ann",
        "fine",
    )


def test_a_decision_and_its_step_are_one_call(tmp_path: Path) -> None:
    """The decision has the last word, and says who had it."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as log:
        evidence = log.for_session("s")
        call = Session(contracts=[at_most_total("pay", "n", 9)], evidence=evidence).reserve("pay", {"n": 1})
        evidence.record_decision(
            {"event": "pay", "verdict": "block", "source": "core", "step": call.step, "reason": "no"}
        )
        call.abort()

    (only,) = calls_in(merged_entries([path]))
    assert (only.verdict, only.by, only.why, only.outcome) == ("block", "core", "no", "did not run")


@pytest.mark.parametrize("record", ["violations", "steps"])
def test_what_a_session_refuses_itself_is_no_decision_of_contracts(tmp_path: Path, record: Any) -> None:
    """One that has ended admits nothing, whatever contracts say."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record=record) as log:
        session = Session(contracts=[must_precede("a", "b")], evidence=log)
        session.reserve("b")
        session.end_session()
        session.reserve("a")

    found = [(call.tool, call.by) for call in calls_in(merged_entries([path]))]
    assert found == [("b", "contracts"), ("a", "session")]


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        ([], ["delete", "delete", *["refund"] * 6, "backup", "backup"]),
        (["--tool", "refund", "--verdict", "refused"], ["refund", "refund"]),
        (["--verdict", "allowed", "--session", "s-1"], ["refund", "refund", "backup"]),
        (["--since", "2026-01-02T03:10", "--until", "2026-01-02T03:20"], None),
    ],
    ids=["all", "tool and verdict", "session", "time"],
)
def test_show_prints_a_line_for_each_call(
    two: list[Path], capsys: pytest.CaptureFixture[str], options: list[str], tools: list[str] | None
) -> None:
    """Of several logs, by their time; filters pick."""
    assert main(["show", *map(str, two), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["show", str(two[0].parent), *options, "--json"]) == 0
    calls = json.loads(capsys.readouterr().out)["calls"]

    assert len(lines) == len(calls)
    assert lines == sorted(lines)
    if tools is None:
        assert 0 < len(lines) < 5
    else:
        assert sorted(call["tool"] for call in calls) == sorted(tools)


def test_a_narrow_and_a_wide_line(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A narrow one fits a terminal; a wide one says everything."""
    assert main(["show", str(two[0]), "--tool", "refund", "--verdict", "refused"]) == 0
    (narrow,) = capsys.readouterr().out.splitlines()
    assert main(["show", str(two[0]), "--tool", "refund", "--verdict", "refused", "--wide"]) == 0
    (wide,) = capsys.readouterr().out.splitlines()

    assert narrow.split("  ", 1)[1] == 's-0  refund {"amount": 300, "to": "eve"}  refused by contracts'
    assert "contracts=at_most_total(refund, amount, limit=500)  why=200 left of 500" in wide
    assert main(["show", str(two[0]), "--entries"]) == 0
    assert "ACEL Evidence Log" in capsys.readouterr().out
    assert main(["show", *map(str, two), "--entries"]) == 2


def test_report_and_verify_take_many(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A log that was tampered with is named, and the others are still told."""
    folder = str(two[0].parent)
    assert main(["report", folder, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["violations"], report["intact"], len(report["files"])) == (4, True, 2)
    assert main(["verify", folder, "--rerun"]) == 0
    out = capsys.readouterr().out
    assert out.count("OK — ") == 2
    assert out.count("5 decision(s) re-derived, 0 differ") == 2

    two[1].write_bytes(two[1].read_bytes().replace(b'"to":"ann"', b'"to":"eve"'))
    assert main(["verify", folder, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [found[str(path)]["ok"] for path in two] == [True, False]
    assert main(["report", folder]) == 1
    assert f"FAIL — {two[1]} was tampered with (changed)" in capsys.readouterr().err
    assert main(["show", folder]) == 1
    assert f"FAIL — {two[1]}: line" in capsys.readouterr().err
    assert main(["verify", folder, "--log-id", "x"]) == 2
