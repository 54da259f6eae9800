"""mine: recorded sessions in, a rules file out in which every contract only watches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openbox_agentrt.acel.rulesfile import parse_rules
from openbox_agentrt.cli import main
from openbox_agentrt.cli.mine import recorded_sessions
from openbox_agentrt.traces.events import Began, Resumed, TraceEvent


@pytest.fixture(autouse=True)
def _trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"tool": tool, "args": {"id": f"r-{number}"}, "session_id": f"s-{number}"}
        for number in range(20)
        for tool in ("look", "cancel")
    ]
    Path("trace.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_what_is_printed_is_a_rules_file(capsys: pytest.CaptureFixture[str]) -> None:
    """It is read as it stands, and every contract of it is in shadow mode."""
    assert main(["mine", "trace.jsonl", "--effects", "cancel"]) == 0

    rules = parse_rules(capsys.readouterr().out)
    assert {contract.mode for contract in rules.contracts} == {"shadow"}
    assert "must_precede(look, cancel, key=id)" in {contract.spec for contract in rules.contracts}
    assert all("sessions kept back" in (contract.description or "") for contract in rules.contracts)


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Counts and contracts are data."""
    assert main(["mine", "trace.jsonl", "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["learnt_from"], said["kept_back"]) == (16, 4)
    assert all(suggestion["refused"] == 0 for suggestion in said["suggestions"])


def test_nothing_to_suggest_is_still_a_rules_file(capsys: pytest.CaptureFixture[str]) -> None:
    """It has no contracts, and says that this is meant."""
    assert main(["mine", "trace.jsonl", "--min-support", "500"]) == 0
    assert parse_rules(capsys.readouterr().out).contracts == ()


@pytest.mark.parametrize("text", ["", '{"tool": 1}\n', "nonsense\n"])
def test_what_is_no_trace_is_an_input_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one line, and the exit code is 2."""
    Path("odd.jsonl").write_text(text)

    assert main(["mine", "odd.jsonl"]) == 2
    assert "'odd.jsonl'" in capsys.readouterr().err


def test_events_that_are_no_tools_are_suggested_nothing_about(capsys: pytest.CaptureFixture[str]) -> None:
    """That the user asked, and that a model was called, came before every call there is."""
    rows = [
        {"tool": tool, "session_id": f"s-{number}"}
        for number in range(20)
        for tool in ("user_prompt", "llm_call", "look", "llm_call", "cancel")
    ]
    Path("run.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    assert main(["mine", "run.jsonl"]) == 0
    printed = capsys.readouterr().out
    assert "must_precede" in printed
    assert "llm_call" not in printed
    assert "user_prompt" not in printed


def test_what_several_workers_did_of_one_session_is_one() -> None:
    """In evidence each of them has a name of its own; one that went on elsewhere says whose it is."""

    def began(session: str, tool: str, at: float) -> Began:
        return Began(where=f"{tool}", session=session, tool=tool, args={}, at=at)

    later = began("s-1 (b)", "refund", 2.0)
    events: list[TraceEvent] = [
        Resumed(session="s-1 (b)", state={}, at=1.5, of="s-1"),
        later,
        began("s-1 (a)", "verify", 1.0),
        began("s-2 (c)", "other", 3.0),
        began("s-2 (d)", "other", 4.0),
    ]
    found = {
        session.name: [call.tool for call in session.calls] for session in recorded_sessions(events).sessions
    }

    assert found == {"s-1": ["verify", "refund"], "s-2 (c)": ["other"], "s-2 (d)": ["other"]}


def test_what_users_said_stands_among_the_calls() -> None:
    said = Began(where="", session="s", tool="user_prompt", args={"prompt": "pay a-1"})
    call = Began(where="", session="s", tool="pay", args={"to": "a-1"})
    said_and_called = [replace(call), said, replace(call)]
    (session,) = recorded_sessions(said_and_called).sessions

    assert [event.tool for event in session.events()] == ["pay", "user_prompt", "pay"]
