"""A call that a hook refuses because of a fault is in the evidence of its session, as far as there is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.doors.claude_code.answers import at_prompt, before_tool
from openbox_agentrt.doors.claude_code.log import file_stem
from openbox_agentrt.evidence import Entry, read_entries, verify_file
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.logs import merged_entries
from tests.doors.claude_code.test_hook_steps import Hooks

SECRET = "4111-1111-1111-1111"
CLEAR = "the call can be read in one way only"
JUDGED = "the call can be judged"


def event(session: str, **fields: Any) -> bytes:
    given = {
        "session_id": session,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_use_id": "t-1",
    }
    return json.dumps({**given, "tool_input": {"card": SECRET}, **fields}).encode()


def violations(hooks: Hooks) -> list[Entry]:
    return [one for one in read_entries(hooks.evidence) if one.type == "violation"]


@pytest.mark.parametrize(
    ("fields", "tool", "fault"),
    [
        ({"tool_input": [SECRET]}, "Bash", "the tool_input of the event is no JSON object"),
        ({"tool_name": None}, "(unnamed)", "the event has no tool_name"),
        ({"tool_use_id": 7}, "Bash", "the tool_use_id of the event is no text"),
        ({"hook_event_name": "UserPromptSubmit"}, "user_prompt", "the event has no prompt"),
        ({"tool_input": {"a": float("nan")}}, "Bash", "the event on standard input is no JSON: "),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, fields: dict[str, Any], tool: str, fault: str) -> None:
    """Once, with what is wrong and no value of it; what comes next is judged as if it had not been there."""
    hooks = Hooks(tmp_path)
    answer = at_prompt if fields.get("hook_event_name") else before_tool

    said = answer(event(hooks.session, **fields), hooks.settings)

    (found,) = violations(hooks)
    assert (said.code, said.stdout) == (2, "")
    assert "evidence" not in said.stderr
    assert (found.data["spec"], found.data["tool"], found.data["blocked"]) == (CLEAR, tool, True)
    assert found.data["fault"].startswith(fault)
    assert SECRET not in hooks.evidence.read_text()
    assert hooks.call("Read", path="a")
    assert hooks.end().code == 1, "it owes something"
    report = rerun_file(hooks.evidence)
    assert (report.differences, report.problems) == ((), ())
    assert verify_file(hooks.evidence).ok


def test_an_id_that_another_call_has_used(tmp_path: Path) -> None:
    """Its arguments are in the evidence, and why it was refused."""
    hooks = Hooks(tmp_path)
    assert before_tool(event(hooks.session), hooks.settings).code == 0

    said = before_tool(event(hooks.session, tool_input={"command": "rm -rf /"}), hooks.settings)

    (found,) = violations(hooks)
    assert said.code == 2
    assert (found.data["spec"], found.data["args"]) == (JUDGED, {"command": "rm -rf /"})
    assert found.data["fault"] == "tool_use_id 't-1' was used by another call"


def test_each_is_a_call_of_its_own(tmp_path: Path) -> None:
    """Also those that come one after the other and are refused for unlike reasons."""
    hooks = Hooks(tmp_path)
    assert before_tool(event(hooks.session), hooks.settings).code == 0
    given: list[Any] = [[], {"command": "rm -rf /"}, []]
    for args in given:
        assert before_tool(event(hooks.session, tool_input=args), hooks.settings).code == 2

    shown = calls_in(merged_entries([hooks.evidence]))

    assert [call.contracts for call in shown] == [(CLEAR,), (JUDGED,), (CLEAR,)]
    assert [call.args for call in shown] == [{}, {"command": "rm -rf /"}, {}]


def test_an_error_that_is_no_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its type is enough: its words may hold anything."""
    hooks = Hooks(tmp_path)

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("openbox_agentrt.doors.claude_code.judgement.begin_call", broken)
    assert before_tool(event(hooks.session, tool_input={}), hooks.settings).code == 2

    (found,) = violations(hooks)
    assert (found.data["spec"], found.data["fault"]) == (JUDGED, "judging it raised RuntimeError")
    assert SECRET not in hooks.evidence.read_text()


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", event("", tool_input=5), event("s", hook_event_name="SessionEnd")],
    ids=["nothing", "no JSON", "no object", "no session", "no call"],
)
def test_what_names_no_session_or_is_no_call(tmp_path: Path, data: bytes) -> None:
    """There is nothing to write it into; the client's user is told, as before."""
    hooks = Hooks(tmp_path)

    assert before_tool(data, hooks.settings).code == 2
    assert not list(tmp_path.rglob("*.evidence.jsonl"))


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The call is refused all the same."""
    hooks = Hooks(tmp_path)
    assert hooks.call("Read", path="a")
    (tmp_path / "state" / f"{file_stem(hooks.session)}.jsonl").write_text("{}\n")

    said = before_tool(event(hooks.session, tool_input=[]), hooks.settings)

    assert said.code == 2
    assert "; it is not in the evidence: openbox-agentrt: state file " in said.stderr
