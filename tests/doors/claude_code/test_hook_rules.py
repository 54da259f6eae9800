"""Rules are kept beside the state as they were understood."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import Session, build_contract
from openbox_agentrt.acel.rulesfile import read_rules
from openbox_agentrt.doors.claude_code import HookSettings, after_tool, before_tool
from openbox_agentrt.doors.claude_code import rules as hook_rules
from openbox_agentrt.doors.claude_code.folder import HookFault, StateFolder
from openbox_agentrt.doors.claude_code.rules import HookRules, load_hook_rules
from openbox_agentrt.doors.claude_code.rules import _names_of as names_of

RULES: dict[str, Any] = {
    "state": {"branch": "main"},
    "groups": {"g": [{"template": "at_most_n_times", "args": ["Deploy"], "kwargs": {"n": 1}}]},
    "contracts": [
        {"group": "g"},
        {"template": "must_precede", "args": ["Read", "Edit"], "remedy": "read it"},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder.open(tmp_path / "state")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(RULES))
    return path


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rules files that were parsed."""
    found: list[Any] = []
    compile_rules = hook_rules._compile

    def count(data: bytes, name: str) -> Any:
        found.append(name)
        return compile_rules(data, name)

    monkeypatch.setattr(hook_rules, "_compile", count)
    return found


def test_the_second_process_does_not_parse(folder: StateFolder, rules: Path, parsed: list[Any]) -> None:
    """It decides by the same contracts."""
    first = load_hook_rules(rules, folder)
    second = load_hook_rules(rules, folder)

    assert len(parsed) == 1
    assert (first.hash, first.rules_hash, dict(first.state)) == (
        second.hash,
        second.rules_hash,
        dict(second.state),
    )
    assert [contract.spec for contract in second.contracts] == [
        contract.spec for contract in read_rules(rules).contracts
    ]
    assert second.contracts[1].remedy == "read it"


@pytest.mark.parametrize("change", ["bytes", "ending", "version"])
def test_what_was_understood_is_of_these_bytes(
    folder: StateFolder, rules: Path, parsed: list[Any], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever could be understood otherwise is parsed."""
    load_hook_rules(rules, folder)
    if change == "bytes":
        times = os.stat(rules)
        rules.write_text(json.dumps(RULES).replace("Deploy", "Delete"))
        os.utime(rules, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif change == "ending":
        rules = rules.rename(rules.with_suffix(".yaml"))
    else:
        monkeypatch.setattr(hook_rules, "__version__", "next")

    assert load_hook_rules(rules, folder).may_object("Delete", {}) is (change == "bytes")

    assert len(parsed) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_what_cannot_be_read_is_made_again(
    folder: StateFolder, rules: Path, parsed: list[Any], tmp_path: Path, content: bytes
) -> None:
    """It is no authority: the rules file is."""
    load_hook_rules(rules, folder)
    [kept] = (tmp_path / "state").glob("rules-*.json")
    kept.write_bytes(content)

    assert len(load_hook_rules(rules, folder).contracts) == 2
    assert len(parsed) == 2


def test_a_file_that_changes_meanwhile_is_read_once(
    folder: StateFolder, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is judged by, and what is kept under a name, is what these bytes mean."""
    compile_rules = hook_rules._compile

    def change_and_compile(data: bytes, name: str) -> Any:
        rules.write_text(json.dumps({"contracts": [], "allow_empty": True}))
        return compile_rules(data, name)

    monkeypatch.setattr(hook_rules, "_compile", change_and_compile)

    first = load_hook_rules(rules, folder)
    second = load_hook_rules(rules, folder)

    assert (len(first.contracts), len(second.contracts)) == (2, 0)


def test_what_others_can_write_is_a_fault(folder: StateFolder, rules: Path, tmp_path: Path) -> None:
    """As every file of the folder."""
    load_hook_rules(rules, folder)
    [kept] = (tmp_path / "state").glob("rules-*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.chmod(0o666)

    with pytest.raises(HookFault, match="can be written by other users"):
        load_hook_rules(rules, folder)


ONCE = {"template": "at_most_n_times", "kwargs": {"n": 1}}
COMMIT = {"tool": "Bash", "matches": "git commit"}


@pytest.mark.parametrize(
    ("contract", "tool", "about"),
    [
        pytest.param({**ONCE, "args": ["Deploy"]}, "Read", False, id="another"),
        pytest.param({**ONCE, "args": ["Deploy"]}, "Deploy", True, id="this"),
        pytest.param({**ONCE, "args": ["mcp__*"]}, "Read", True, id="a pattern of names"),
        pytest.param({"template": "must_precede", "args": ["Read", COMMIT]}, "Read", False, id="needed"),
        pytest.param({"template": "must_precede", "args": [COMMIT, "Read"]}, "Read", True, id="in need"),
        pytest.param({"template": "init", "args": ["Login"]}, "Read", True, id="every call"),
        pytest.param({"template": "chain_precedence", "args": ["A", "B"]}, "Read", True, id="the one before"),
        pytest.param({**ONCE, "args": ["L\u00f6schen"]}, "Lo\u0308schen", True, id="accents"),
    ],
)
def test_which_tools_no_contract_is_about(
    folder: StateFolder, tmp_path: Path, contract: dict[str, Any], tool: str, about: bool
) -> None:
    """Or needs only to take note of. Where only asking tells, every tool may be meant."""
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"contracts": [contract]}))

    for _ in range(2):
        assert load_hook_rules(path, folder).may_object(tool, {}) is about


COMMITS = {"template": "must_precede", "args": ["Test", {"any_of": [COMMIT, "Deploy"]}]}
NO_TESTS = {"tool": "Bash", "not_matches": "pytest"}


@pytest.mark.parametrize(
    ("contracts", "args", "about"),
    [
        pytest.param([COMMITS], {"command": "ls"}, False, id="another text"),
        pytest.param([COMMITS], {"command": "cd x && GIT Commit -m y"}, True, id="the text"),
        pytest.param([COMMITS], {"command": "git\u00a0commit"}, False, id="as the engine finds it"),
        pytest.param([COMMITS], {}, False, id="nothing there"),
        pytest.param([COMMITS], {"command": None}, False, id="null"),
        pytest.param([COMMITS], {"command": ["ls"]}, True, id="a list"),
        pytest.param([COMMITS], {"command": 5}, True, id="a number"),
        pytest.param([COMMITS, {**ONCE, "args": ["Bash"]}], {"command": "ls"}, True, id="all calls too"),
        pytest.param([{**ONCE, "args": ["Bash"]}, COMMITS], {"command": "ls"}, True, id="in the other order"),
        pytest.param([{**ONCE, "args": [{**COMMIT, "field": "a.b"}]}], {"a": {}}, True, id="a path"),
        pytest.param([{**ONCE, "args": [{**COMMIT, "field": "*"}]}], {"x": "ls"}, True, id="all arguments"),
        pytest.param([{**ONCE, "args": [{"not": COMMIT}]}], {"command": "ls"}, True, id="the other calls"),
        pytest.param([{**ONCE, "args": ["Bash"], "except": [COMMIT]}], {}, True, id="an exception"),
    ],
)
def test_which_calls_no_contract_is_about(
    folder: StateFolder, tmp_path: Path, contracts: list[Any], args: dict[str, Any], about: bool
) -> None:
    """A pattern that is not found in a text is no reason to load the engine."""
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"contracts": contracts}))

    for _ in range(2):
        assert load_hook_rules(path, folder).may_object("Bash", args) is about


WORDS = ["git commit", "git", "GIT", " ", "commit", "\u00a0", "\u017f", "x", "\n", "com\u200bmit", "-m"]


@given(command=st.lists(st.sampled_from(WORDS), max_size=6).map("".join))
@settings(max_examples=200, deadline=None)
def test_what_concerns_nobody_changes_nothing(command: str) -> None:
    """The engine would have let it through, and would have remembered nothing."""
    contract = build_contract({"template": "at_most_n_times", "args": [COMMIT], "kwargs": {"n": 1}})
    compiled: dict[str, Any] = {"state": {}, "rules_hash": "", "hash": "", "contracts": []}
    compiled |= {"names": names_of((contract,)), "clear": {}}
    session = Session(contracts=[contract])
    if not HookRules(compiled).may_object("Bash", {"command": command}):
        for _ in range(2):
            session.reserve("Bash", {"command": command}).commit()

    assert session.reserve("Bash", {"command": "git commit"}).allowed


@pytest.fixture
def pre(rules: Path, tmp_path: Path) -> Callable[..., bool]:
    settings = HookSettings(rules=str(rules), state_dir=str(tmp_path / "state"), clock=lambda: 1e9)

    def call(tool: str, number: int, *, ends: bool = True) -> bool:
        event = {"session_id": "s", "tool_name": tool, "tool_input": {}, "tool_use_id": f"t{number}"}
        answer = before_tool(json.dumps({**event, "hook_event_name": "PreToolUse"}).encode(), settings)
        assert answer.code == 0, answer.stderr
        if ends and not answer.stdout:
            after_tool(json.dumps({**event, "hook_event_name": "PostToolUse"}).encode(), settings)
        return not answer.stdout

    return call


def test_calls_that_concern_nobody_are_in_the_history(pre: Callable[..., bool], tmp_path: Path) -> None:
    """They were not judged, and are counted by whoever reads the log."""
    assert pre("Glob", 1)
    assert not pre("Edit", 2)
    assert pre("Read", 3)
    assert pre("Edit", 4)
    [log] = [path for path in (tmp_path / "state").glob("*.jsonl") if "evidence" not in path.name]

    tools = [json.loads(line).get("tool") for line in log.read_text().splitlines() if '"pre"' in line]

    assert tools == ["Glob", "Read", "Edit"]


def test_a_session_that_was_stopped_runs_nothing(rules: Path, pre: Callable[..., bool]) -> None:
    """Not even what no contract is about."""
    stops = {"template": "at_most_n_times", "args": ["Deploy"], "kwargs": {"n": 0}, "on_violation": "halt"}
    rules.write_text(json.dumps({"contracts": [stops]}))
    assert pre("Glob", 1)
    assert not pre("Deploy", 2)

    assert not pre("Glob", 3)


def test_a_refused_call_leaves_a_short_line(rules: Path, tmp_path: Path) -> None:
    """Whatever its arguments, and whether or not it stops the session: they are in the evidence, cut."""
    for number, stops in enumerate(("refuse", "halt")):
        bans = {"template": "at_most_n_times", "args": ["Deploy"], "kwargs": {"n": 0}, "on_violation": stops}
        rules.write_text(json.dumps({"contracts": [bans]}))
        state = tmp_path / f"state{number}"
        event = {"session_id": "s", "tool_name": "Deploy", "tool_input": {"body": "x" * 2_000_000}}
        data = json.dumps({**event, "hook_event_name": "PreToolUse"}).encode()

        answer = before_tool(data, HookSettings(rules=str(rules), state_dir=str(state)))

        assert "deny" in answer.stdout
        assert sum(path.stat().st_size for path in state.iterdir()) < 32_000
