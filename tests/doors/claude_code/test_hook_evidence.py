"""What a hook refuses or misses because of a fault is in the evidence, whatever can be read of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.cli import main
from openbox_agentrt.doors.claude_code.answers import after_tool, at_end, at_prompt, before_tool
from openbox_agentrt.doors.claude_code.log import file_stem
from openbox_agentrt.evidence import Entry, read_entries, verify_file
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.logs import merged_entries
from tests.doors.claude_code.test_hook_steps import Hooks

SECRET = "4111-1111-1111-1111"
CLEAR = "the call can be read in one way only"
JUDGED = "the call can be judged"
NOTED = "the end of the call is known"
SETTLED = "what the session owes is known"


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
    [b"", b"{", b"[]", b"\xff", b'{"tool_input": 5}', b'{"session_id":"s-1","tool_name":"Ba'],
    ids=["nothing", "no JSON", "no object", "no text", "no session", "a half"],
)
@pytest.mark.parametrize(
    ("hook", "spec", "tool", "blocked"),
    [
        pytest.param(before_tool, CLEAR, "(unnamed)", True, id="before a call"),
        pytest.param(at_prompt, CLEAR, "(unnamed)", True, id="prompt"),
        pytest.param(after_tool, NOTED, "(unnamed)", False, id="after a call"),
        pytest.param(at_end, SETTLED, "<session-end>", False, id="end"),
    ],
)
def test_what_names_no_session(
    tmp_path: Path, data: bytes, hook: Any, spec: str, tool: str, blocked: bool
) -> None:
    """It is in the evidence of a session that stands for all of them, which is named after the rules."""
    hooks = Hooks(tmp_path, key=str(tmp_path / "e.key"))

    for _ in range(2):
        said = hook(data, hooks.settings)
        assert said.code == 2
        assert "evidence" not in said.stderr

    (evidence,) = tmp_path.rglob("*.evidence.jsonl")
    found = [one for one in read_entries(evidence) if one.type == "violation"]
    told = [spec, tool, blocked]
    assert [[one.data[name] for name in ("spec", "tool", "blocked")] for one in found] == [told] * 2
    assert {one.data["session_id"] for one in found} == {f"(unnamed, by {tmp_path / 'rules.json'})"}
    assert verify_file(evidence).ok
    assert hooks.call("Read", path="a"), "no session has anything to do with it"


@pytest.mark.parametrize("hook", [before_tool, at_prompt, after_tool, at_end])
def test_what_is_of_another_kind_than_the_hook_is_for(tmp_path: Path, hook: Any) -> None:
    """The hook is set for the wrong event: the client's user is told, and it says nothing of the event."""
    hooks = Hooks(tmp_path)

    assert hook(event("s", hook_event_name="PreCompact"), hooks.settings).code == 2
    assert not list(tmp_path.rglob("*.evidence.jsonl"))


def test_an_audit_of_the_folder_is_about_what_was_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session of which nothing could be judged is not one whose steps are missing; one that goes on is."""
    hooks = Hooks(tmp_path)
    audit = ["verify", str(tmp_path / "state"), "--rerun"]
    assert hooks.call("Read", path="a")
    assert hooks.end().code == 1, "it owes something"
    assert before_tool(b"{", hooks.settings).code == 2

    assert main(audit) == 0
    said = capsys.readouterr()
    assert "no contract has judged anything, by the log's own account" in said.out
    assert "the log holds no steps" not in said.err
    hooks.session = "s-2"
    assert not hooks.call("Deploy", to="prod")
    assert main(audit) == 1
    assert "the log holds no steps" in capsys.readouterr().err


@pytest.mark.parametrize("hook", [before_tool, at_prompt, after_tool, at_end])
@pytest.mark.parametrize("name", [b'"Pre\xffToolUse"', b'"PreToolUse","hook_event_name":"PreCompact"'])
def test_what_may_be_of_any_kind(tmp_path: Path, hook: Any, name: bytes) -> None:
    """Nobody can read it, so the name that one reader finds in it is no reason to leave it out."""
    hooks = Hooks(tmp_path)
    data = event(hooks.session, hook_event_name="NAME").replace(b'"NAME"', name)

    assert hook(data, hooks.settings).code == 2

    (found,) = violations(hooks)
    assert found.data["fault"].startswith("the event on standard input is no JSON")


def ended(**fields: Any) -> bytes:
    return event("s-1", hook_event_name="PostToolUse", **fields)


@pytest.mark.parametrize(
    ("data", "args", "fault"),
    [
        pytest.param(ended(tool_input=[]), {}, "the tool_input of the event is no JSON object", id="no args"),
        pytest.param(
            ended(tool_response=float("nan")), {}, "the event on standard input is no JSON", id="no JSON"
        ),
        pytest.param(
            ended(tool_name="Read", tool_input={"a": 1}),
            {"a": 1},
            "tool_use_id 't-1' was used by another tool",
            id="another call",
        ),
    ],
)
def test_an_end_of_which_no_note_was_taken(
    tmp_path: Path, data: bytes, args: dict[str, Any], fault: str
) -> None:
    """The call stays counted and allows nothing, and the evidence says why; nothing was stopped."""
    hooks = Hooks(tmp_path)
    assert before_tool(event(hooks.session), hooks.settings).code == 0

    said = after_tool(data, hooks.settings)

    (found,) = violations(hooks)
    assert (said.code, found.data["spec"], found.data["blocked"]) == (2, NOTED, False)
    assert found.data["fault"].startswith(fault)
    assert found.data["args"] == args
    assert "evidence" not in said.stderr
    assert hooks.end().code == 1, "it owes something"
    report = rerun_file(hooks.evidence)
    assert (report.differences, report.problems) == ((), ())


def test_a_call_without_rules_is_told_alone(tmp_path: Path) -> None:
    """Why it is refused is why it is not in the evidence, and is said once."""
    hooks = Hooks(tmp_path)
    (tmp_path / "rules.json").unlink()

    said = before_tool(event(hooks.session), hooks.settings)

    assert said.code == 2
    assert said.stderr.endswith("rules.json: No such file or directory; it is not in the evidence")


def test_an_end_without_rules_is_told_alone(tmp_path: Path) -> None:
    """Nobody knows which evidence it belongs to, and a log that it began could not be signed any more."""
    hooks = Hooks(tmp_path)
    hooks.settings.rules = None

    said = after_tool(ended(tool_input=[]), hooks.settings)

    assert said.code == 2
    assert said.stderr.endswith(
        "; it is not in the evidence: openbox-agentrt: no rules file is given; --rules FILE"
    )
    assert not list(tmp_path.rglob("*.evidence.jsonl"))


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
def test_what_a_session_owes_that_nobody_could_tell(tmp_path: Path, again: bool) -> None:
    """Whether the client is sent back or lets it be."""
    hooks = Hooks(tmp_path)
    assert hooks.call("Read", path="a")
    changed = {"contracts": [{"template": "at_most_n_times", "args": ["Read", 1]}]}
    (tmp_path / "rules.json").write_text(json.dumps(changed))

    said = at_end(hooks.event("Stop", stop_hook_active=again), hooks.settings)

    (found,) = violations(hooks)
    assert said.code == (1 if again else 2)
    assert (found.data["spec"], found.data["tool"], found.data["blocked"]) == (
        SETTLED,
        "<session-end>",
        False,
    )
    assert "rules" in found.data["fault"]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The call is refused all the same."""
    hooks = Hooks(tmp_path)
    assert hooks.call("Read", path="a")
    (tmp_path / "state" / f"{file_stem(hooks.session)}.jsonl").write_text("{}\n")

    said = before_tool(event(hooks.session, tool_input=[]), hooks.settings)

    assert said.code == 2
    assert "; it is not in the evidence: openbox-agentrt: state file " in said.stderr
