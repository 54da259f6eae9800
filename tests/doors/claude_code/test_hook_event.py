"""What Claude Code tells a hook: read strictly, and passed over where it does not matter."""

import json
from typing import Any

import pytest

from openbox_agentrt.doors.claude_code.event import POST_EVENTS, read_event
from openbox_agentrt.doors.claude_code.folder import HookFault

PRE = {
    "session_id": "s1",
    "transcript_path": "/home/u/.claude/projects/p/s1.jsonl",
    "cwd": "/home/u/p",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "pytest -q", "description": "Run the tests", "timeout": 120000},
    "tool_use_id": "toolu_01",
}


def encode(**changes: Any) -> bytes:
    return json.dumps({name: value for name, value in (PRE | changes).items() if value is not ...}).encode()


def test_a_tool_call_is_read() -> None:
    """Session, tool, arguments and id are what they are called in the client."""
    event = read_event(encode(), expected=("PreToolUse",))

    assert (event.session_id, event.tool, event.call_id) == ("s1", "Bash", "toolu_01")
    assert event.args["command"] == "pytest -q"


def test_fields_of_later_versions_are_passed_over() -> None:
    """What is not needed may be anything."""
    event = read_event(encode(agent_id="a1", effort={"level": 3}), expected=("PreToolUse",))

    assert event.tool == "Bash"


def test_a_byte_order_mark_is_passed_over() -> None:
    """PowerShell writes one."""
    assert read_event(b"\xef\xbb\xbf" + encode(), expected=("PreToolUse",)).tool == "Bash"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "no JSON", id="empty"),
        pytest.param(b"{", "no JSON", id="cut off"),
        pytest.param(b"[]", "no JSON object", id="list"),
        pytest.param(b"\xff\xfe{}", "no JSON", id="not UTF-8"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="very deep"),
        pytest.param(encode() + encode(), "no JSON", id="two events"),
        pytest.param(encode().replace(b'"cwd"', b'"tool_name"'), "'tool_name' is there twice", id="repeated"),
        pytest.param(encode(tool_input={"n": float("nan")}), "NaN is not", id="nan"),
        pytest.param(encode(session_id=...), "no session_id", id="no session"),
        pytest.param(encode(session_id=""), "no session_id", id="empty session"),
        pytest.param(encode(session_id=5), "no session_id", id="number as session"),
        pytest.param(encode(session_id="x" * 2000), "no session_id", id="endless session"),
        pytest.param(encode(tool_name=...), "no tool_name", id="no tool"),
        pytest.param(encode(tool_name=""), "no tool_name", id="empty tool"),
        pytest.param(encode(tool_name=["Bash"]), "no tool_name", id="list as tool"),
        pytest.param(encode(tool_input=...), "tool_input of the event", id="no input"),
        pytest.param(encode(tool_input=None), "tool_input of the event", id="null as input"),
        pytest.param(encode(tool_input="ls"), "tool_input of the event", id="text as input"),
        pytest.param(encode(tool_use_id=5), "tool_use_id", id="number as id"),
        pytest.param(encode(tool_use_id=""), "tool_use_id", id="empty id"),
        pytest.param(
            encode(hook_event_name="PostToolUse"), "is for PreToolUse, and not for", id="other event"
        ),
        pytest.param(encode(hook_event_name=...), "is for PreToolUse, and not for None", id="no event"),
        pytest.param(encode(hook_event_name=["PreToolUse"]), "is for PreToolUse", id="list as event"),
    ],
)
def test_what_cannot_be_read_is_a_fault(data: bytes, problem: str) -> None:
    """In one line, which the caller turns into a refusal."""
    with pytest.raises(HookFault, match=problem) as caught:
        read_event(data, expected=("PreToolUse",))

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("event", "fields", "ran", "ok"),
    [
        pytest.param("PostToolUse", {"tool_response": {"stdout": "ok"}}, True, True, id="done"),
        pytest.param("PostToolUse", {}, True, True, id="no response"),
        pytest.param(
            "PostToolUse", {"tool_response": "Error: as text it may be anything"}, True, True, id="text"
        ),
        pytest.param("PostToolUse", {"tool_response": {"is_error": True}}, True, False, id="is_error"),
        pytest.param("PostToolUse", {"is_error": True}, True, False, id="is_error beside it"),
        pytest.param("PostToolUse", {"tool_response": {"isError": True}}, True, False, id="isError"),
        pytest.param("PostToolUse", {"tool_response": {"success": False}}, True, False, id="no success"),
        pytest.param("PostToolUse", {"tool_response": {"error": "no such file"}}, True, False, id="error"),
        pytest.param("PostToolUse", {"tool_response": {"error": None}}, True, True, id="no error"),
        pytest.param("PostToolUse", {"tool_response": {"interrupted": True}}, True, False, id="interrupted"),
        pytest.param(
            "PostToolUse", {"tool_response": {"backgroundTaskId": "b1"}}, True, False, id="not done yet"
        ),
        pytest.param("PostToolUseFailure", {"error": "exit 1"}, True, False, id="failure"),
        pytest.param("PostToolUseFailure", {"is_interrupt": True}, True, False, id="interrupted by the user"),
        pytest.param("PermissionDenied", {"reason": "no"}, False, False, id="not permitted"),
    ],
)
def test_how_a_call_ended(event: str, fields: dict[str, Any], ran: bool, ok: bool) -> None:
    """Only work that was done and is finished can allow something."""
    read = read_event(encode(hook_event_name=event, **fields), expected=POST_EVENTS)

    assert (read.ran, read.ok) == (ran, ok)


def test_the_end_of_a_session_is_about_no_tool() -> None:
    """And says whether the client was kept from stopping before."""
    data = {"session_id": "s1", "hook_event_name": "Stop", "stop_hook_active": True}

    read = read_event(json.dumps(data).encode(), expected=("Stop", "SessionEnd"))

    assert (read.tool, read.repeated_stop) == ("", True)


def test_two_calls_have_one_digest_if_they_are_the_same_call() -> None:
    """Whatever the order in which the arguments were written."""

    def digest(**changes: Any) -> str:
        return read_event(encode(**changes), expected=("PreToolUse",)).digest

    assert digest(tool_input={"a": 1, "b": 2}) == digest(tool_input={"b": 2, "a": 1}, tool_use_id="other")
    assert digest(tool_input={"a": 1}) != digest(tool_input={"a": "1"})
    assert digest(tool_name="Read") != digest()
