"""The hooks under acel-core's names: its answers and its trace file, but faults deny."""

import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.hooks import (
    DEFAULT_STATE_DIR,
    _safe_session_id,
    _trace_path,
    main_posttooluse,
    main_pretooluse,
    posttooluse,
    pretooluse,
)
from openbox_agentrt.doors.claude_code.folder import HookFault

RULES = {
    "contracts": [
        {"template": "must_precede", "args": ["Read", "Edit"]},
        {"template": "at_most_n_times", "args": ["Bash"], "kwargs": {"n": 2}},
    ]
}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(RULES))
    return path


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


def event(tool: str, **fields: Any) -> dict[str, Any]:
    return {"session_id": "s1", "tool_name": tool, "tool_input": {"x": 1}, **fields}


def refused(answer: dict[str, Any]) -> bool:
    return bool(answer) and answer["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_calls_under_way_count(rules: Path, state_dir: Path) -> None:
    """acel-core counts a call when it has ended, so parallel ones pass its limit."""
    answers = [pretooluse(event("Bash"), rules_path=rules, state_dir=state_dir) for _ in range(3)]

    assert [refused(answer) for answer in answers] == [False, False, True]


def test_a_failed_call_allows_nothing(rules: Path, state_dir: Path) -> None:
    """acel-core takes any end for a success."""
    pretooluse(event("Read"), rules_path=rules, state_dir=state_dir)
    posttooluse(event("Read", hook_event_name="PostToolUseFailure"), state_dir=state_dir)

    assert refused(pretooluse(event("Edit"), rules_path=rules, state_dir=state_dir))


def test_rules_may_change_under_a_session(rules: Path, state_dir: Path) -> None:
    """As with acel-core, the history is judged by the rules of the moment."""
    for _ in range(2):
        pretooluse(event("Bash"), rules_path=rules, state_dir=state_dir)
        posttooluse(event("Bash"), state_dir=state_dir)
    rules.write_text(json.dumps({"contracts": RULES["contracts"][:1]}))

    assert not refused(pretooluse(event("Bash"), rules_path=rules, state_dir=state_dir))


def test_the_trace_file_grows_in_place(state_dir: Path) -> None:
    """It is one JSON list at any time, and what it holds already is not written again."""
    sizes = []
    for number in range(5):
        posttooluse(event("Read", tool_response={"n": number}), state_dir=state_dir)
        text = _trace_path(state_dir, "s1").read_text()
        sizes.append(len(text))
        assert json.loads(text)[-1] == {"tool": "Read", "args": {"x": 1}, "result": {"n": number}}

    assert len({later - sooner for sooner, later in itertools.pairwise(sizes)}) == 1


def test_a_trace_that_acel_core_began_is_taken_over(rules: Path, state_dir: Path) -> None:
    """Budgets that are used up stay used up when the program is exchanged in the middle of a session."""
    state_dir.mkdir()
    row: dict[str, Any] = {"tool": "Bash", "args": {}, "result": None}
    _trace_path(state_dir, "s1").write_text(json.dumps([row, row]))

    assert refused(pretooluse(event("Bash"), rules_path=rules, state_dir=state_dir))
    posttooluse(event("Read"), state_dir=state_dir)
    assert [entry["tool"] for entry in json.loads(_trace_path(state_dir, "s1").read_text())] == [
        "Bash",
        "Bash",
        "Read",
    ]
    assert not refused(pretooluse(event("Edit"), rules_path=rules, state_dir=state_dir))


def test_an_empty_list_can_be_added_to(state_dir: Path) -> None:
    """acel-core may have written one."""
    state_dir.mkdir()
    _trace_path(state_dir, "s1").write_text("[]")

    posttooluse(event("Read"), state_dir=state_dir)

    assert len(json.loads(_trace_path(state_dir, "s1").read_text())) == 1


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"tool": ""}]', '[{"args": {}}]'])
def test_a_corrupt_trace_is_a_fault_every_time(rules: Path, state_dir: Path, text: str) -> None:
    """acel-core begins a new history, in which nothing has been used up."""
    state_dir.mkdir()
    _trace_path(state_dir, "s1").write_text(text)

    for _ in range(2):
        with pytest.raises(HookFault):
            pretooluse(event("Read"), rules_path=rules, state_dir=state_dir)


def test_a_trace_that_does_not_end_is_not_added_to(state_dir: Path) -> None:
    """What is broken later is left as it is for whoever looks into it."""
    posttooluse(event("Read"), state_dir=state_dir)
    _trace_path(state_dir, "s1").write_text('[{"tool": "Read"')

    with pytest.raises(HookFault, match="does not end a list"):
        posttooluse(event("Read"), state_dir=state_dir)


def test_missing_rules_are_a_fault(state_dir: Path) -> None:
    """Nothing is judged by rules that are not there."""
    with pytest.raises(HookFault, match=r"missing\.json"):
        pretooluse(event("Read"), rules_path="missing.json", state_dir=state_dir)


@pytest.mark.parametrize("text", ["{", "[]", '{"session_id": 5}', '{"tool_name": ["Bash"]}'])
def test_input_that_is_not_understood_is_exit_code_2(
    rules: Path,
    state_dir: Path,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """acel-core ends with code 1, for which the call runs."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main_pretooluse(str(rules), str(state_dir)) == 2
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main_posttooluse(str(state_dir)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["openbox-agentrt"] * 2


def test_trace_files_keep_acel_cores_names_where_they_can() -> None:
    """Ids that would give the same name have files of their own."""
    folder = Path(DEFAULT_STATE_DIR)

    assert _trace_path(folder, "normal-id_123") == folder / "normal-id_123.json"
    names = {_trace_path(folder, i).name for i in ("a/b", "ab", "../ab", "a b", "", "../..", "x" * 300, "á")}
    assert len(names) == 8
    assert all(len(name) < 100 and "/" not in name for name in names)
    assert _safe_session_id("../../etc/passwd") == "etcpasswd"
