"""Claude Code hooks: what each event is answered with, and what the next process knows of it."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.rulesfile import read_rules
from openbox_agentrt.doors.claude_code import history as hook_history
from openbox_agentrt.doors.claude_code import judgement
from openbox_agentrt.doors.claude_code.answers import (
    HookAnswer,
    HookSettings,
    after_tool,
    at_end,
    at_prompt,
    before_tool,
    default_state_dir,
)
from openbox_agentrt.doors.claude_code.log import file_stem, open_log
from openbox_agentrt.evidence import read_entries, verify_file

RULES: dict[str, Any] = {
    "contracts": [
        {
            "template": "must_precede",
            "args": [
                {"tool": "Bash", "matches": "pytest|npm (run )?test"},
                {"tool": "Bash", "matches": "git commit"},
            ],
            "remedy": "run the tests first",
        },
        {"template": "at_most_n_times", "args": ["Deploy"], "kwargs": {"n": 2}},
        {"template": "rate_limit", "args": ["Fetch"], "kwargs": {"n": 2, "window_seconds": 60}},
    ]
}


@dataclass
class Hooks:
    """The hooks of one project. Every call is what a process of its own would do."""

    folder: Path
    now: float = 1_700_000_000.0
    session_id: str = "s1"
    settings: HookSettings = field(default_factory=HookSettings)
    ids: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.settings = HookSettings(
            rules=str(self.folder / "rules.json"),
            state_dir=str(self.folder / "state"),
            clock=lambda: self.now,
        )
        self.write_rules(RULES)

    def write_rules(self, rules: dict[str, Any]) -> None:
        (self.folder / "rules.json").write_text(json.dumps(rules))

    def event(self, name: str, **fields: Any) -> bytes:
        return json.dumps({"session_id": self.session_id, "hook_event_name": name, **fields}).encode()

    def pre(self, tool: str, call_id: str | None = "new", **args: Any) -> HookAnswer:
        self.last: dict[str, Any] = {"tool_name": tool, "tool_input": args}
        if call_id is not None:
            self.last["tool_use_id"] = f"toolu_{next(self.ids)}" if call_id == "new" else call_id
        return before_tool(self.event("PreToolUse", **self.last), self.settings)

    def post(self, event: str = "PostToolUse", **fields: Any) -> None:
        answer = after_tool(self.event(event, **(self.last | fields)), self.settings)
        assert answer == HookAnswer()

    def end(self, event: str = "SessionEnd", **fields: Any) -> HookAnswer:
        return at_end(self.event(event, **fields), self.settings)

    def runs(self, tool: str, **args: Any) -> bool:
        """A call from beginning to end."""
        if not allowed(self.pre(tool, **args)):
            return False
        self.post()
        return True

    def file(self, ending: str) -> Path:
        return self.folder / "state" / f"{file_stem(self.session_id)}.{ending}"

    def entries(self) -> list[dict[str, Any]]:
        with open_log(self.folder / "state", self.session_id) as log:
            return log.read()


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


def allowed(answer: HookAnswer) -> bool:
    """An allowed call is answered with nothing at all; a refused one in the client's own form."""
    if answer == HookAnswer():
        return True
    assert (answer.code, answer.stderr) == (0, "")
    output = json.loads(answer.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "PreToolUse"
    assert output["permissionDecision"] == "deny"
    return False


def reason(answer: HookAnswer) -> str:
    text: str = json.loads(answer.stdout)["hookSpecificOutput"]["permissionDecisionReason"]
    return text


# Judging.


def test_a_call_that_may_run_is_answered_with_nothing(hooks: Hooks) -> None:
    """Saying "allow" would skip the user's own permission prompt."""
    assert hooks.pre("Read", file_path="a.py") == HookAnswer(code=0, stdout="", stderr="")


def test_a_refused_call_says_why_and_what_helps(hooks: Hooks) -> None:
    """In one line, which Claude reads."""
    text = reason(hooks.pre("Bash", command="git commit -m wip"))

    assert "must_precede" in text
    assert text.endswith("; run the tests first")
    assert "\n" not in text


def test_what_was_done_before_counts(hooks: Hooks) -> None:
    """Each event is a process of its own, and they share a history."""
    assert not hooks.runs("Bash", command="git commit")
    assert hooks.runs("Bash", command="pytest -q")
    assert hooks.runs("Bash", command="git commit")


def test_sessions_do_not_share_a_history(hooks: Hooks) -> None:
    """One session's tests are no tests of another one."""
    hooks.runs("Bash", command="pytest -q")
    hooks.session_id = "s2"

    assert not hooks.runs("Bash", command="git commit")


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        pytest.param("PostToolUseFailure", {"error": "exit 1"}, id="failure"),
        pytest.param("PostToolUse", {"tool_response": {"is_error": True}}, id="error in the response"),
        pytest.param("PostToolUse", {"tool_response": {"backgroundTaskId": "b1"}}, id="in the background"),
        pytest.param(None, {}, id="no end at all"),
    ],
)
def test_a_call_that_did_not_succeed_allows_nothing(
    hooks: Hooks, event: str | None, fields: dict[str, Any]
) -> None:
    """Tests that failed, crashed or still run are no tests."""
    hooks.pre("Bash", command="pytest -q")
    if event is not None:
        hooks.post(event, **fields)

    assert not hooks.runs("Bash", command="git commit")


@pytest.mark.parametrize("event", ["PostToolUseFailure", None])
def test_a_call_that_did_not_succeed_stays_counted(hooks: Hooks, event: str | None) -> None:
    """How far it came is unknown."""
    for _ in range(2):
        assert allowed(hooks.pre("Deploy"))
        if event is not None:
            hooks.post(event)

    assert not allowed(hooks.pre("Deploy"))


def test_a_call_that_was_not_permitted_is_not_counted(hooks: Hooks) -> None:
    """It never ran."""
    for _ in range(3):
        assert allowed(hooks.pre("Deploy"))
        hooks.post("PermissionDenied")

    assert hooks.runs("Deploy")


def test_calls_that_run_side_by_side_cannot_pass_a_limit(hooks: Hooks) -> None:
    """A call counts from the moment it is let through."""
    assert [allowed(hooks.pre("Deploy")) for _ in range(4)] == [True, True, False, False]


def test_time_is_the_time_of_the_events(hooks: Hooks) -> None:
    """A rate limit looks at when the calls were made, and not at when they are replayed."""
    assert hooks.runs("Fetch")
    hooks.now += 40
    assert hooks.runs("Fetch")
    hooks.now += 10
    assert not hooks.runs("Fetch")
    hooks.now += 15
    assert hooks.runs("Fetch")
    assert not hooks.runs("Fetch")


def test_a_clock_that_was_ahead_goes_on_when_it_is_right(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year by mistake is no year of refusals afterwards: windows pass as they always do."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 4)
    hooks.now += 365 * 86_400
    for _ in range(2):
        assert hooks.runs("Fetch")
    hooks.now -= 365 * 86_400
    assert not hooks.runs("Fetch")
    for _ in range(6):
        hooks.now += 9
        assert hooks.runs("Read")
    assert not hooks.runs("Fetch")
    hooks.now += 10

    assert hooks.runs("Fetch")


def test_a_clock_that_is_set_back_opens_nothing(hooks: Hooks) -> None:
    """Time does not run backwards, and does not stand still afterwards."""
    assert hooks.runs("Fetch")
    hooks.now -= 10_000
    assert hooks.runs("Fetch")
    hooks.now += 59

    assert not hooks.runs("Fetch")
    hooks.now += 2
    assert hooks.runs("Fetch")
    times = [entry["ts"] for entry in hooks.entries() if "ts" in entry]
    assert times == sorted(times)


# Which end belongs to which call.


def test_the_same_event_asked_twice_is_one_call(hooks: Hooks) -> None:
    """A hook can be set in two files, and both are run."""
    for number in range(2):
        for _ in range(2):
            assert allowed(hooks.pre("Deploy", call_id=f"d{number}"))
        for _ in range(2):
            hooks.post()
    for _ in range(2):
        assert not allowed(hooks.pre("Deploy", call_id="d3"))


@pytest.mark.parametrize("ended", [True, False])
def test_an_id_stands_for_one_call(hooks: Hooks, ended: bool) -> None:
    """A second call cannot travel on the first one's ticket."""
    hooks.pre("Bash", call_id="c1", command="ls")
    if ended:
        hooks.post()

    answer = hooks.pre("Bash", call_id="c1", command="git commit")

    assert answer.code == 2
    assert "'c1' was used by another call" in answer.stderr


def test_a_client_without_ids_is_understood(hooks: Hooks) -> None:
    """Calls that look the same end in the order in which they began."""
    assert allowed(hooks.pre("Bash", call_id=None, command="pytest"))
    assert allowed(hooks.pre("Bash", call_id=None, command="pytest"))
    hooks.post("PostToolUseFailure")
    assert not allowed(hooks.pre("Bash", call_id=None, command="git commit"))
    hooks.pre("Bash", call_id=None, command="pytest")
    hooks.post()

    assert allowed(hooks.pre("Bash", call_id=None, command="git commit"))


def test_arguments_that_another_hook_changed_are_the_ones_that_count(hooks: Hooks) -> None:
    """What ran is what the client reports, and not what was asked."""
    hooks.pre("Bash", command="pytest")
    hooks.post(tool_input={"command": "true"})

    assert not hooks.runs("Bash", command="git commit")


def test_an_id_that_comes_back_with_another_tool_is_a_fault(hooks: Hooks) -> None:
    """One of the two reports is wrong, and neither is believed."""
    hooks.pre("Bash", command="pytest")

    answer = after_tool(hooks.event("PostToolUse", **(hooks.last | {"tool_name": "Read"})), hooks.settings)

    assert answer.code == 2
    assert not hooks.runs("Bash", command="git commit")


def test_a_call_that_was_never_asked_about_counts(hooks: Hooks) -> None:
    """It happened: it uses budgets up, and can be a prerequisite."""
    for number in range(3):
        hooks.last = {"tool_name": "Deploy", "tool_input": {}, "tool_use_id": f"d{number}"}
        hooks.post()
    hooks.last = {"tool_name": "Bash", "tool_input": {"command": "pytest"}, "tool_use_id": "b1"}
    hooks.post()

    assert not hooks.runs("Deploy")
    assert hooks.runs("Bash", command="git commit")


# Faults deny.


def test_a_missing_rules_file_denies(hooks: Hooks) -> None:
    """With exit code 2 and one line on standard error."""
    (hooks.folder / "rules.json").unlink()

    answer = hooks.pre("Read")

    assert (answer.code, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 0
    assert "rules.json" in answer.stderr


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(
            {"contracts": [{"template": "must_preceed", "args": ["a", "b"]}]}, id="unknown template"
        ),
        pytest.param({"contract": []}, id="unknown key"),
        pytest.param({"contracts": []}, id="no contracts"),
    ],
)
def test_rules_that_are_not_understood_deny(hooks: Hooks, rules: dict[str, Any]) -> None:
    """A rule that is quietly dropped guards nothing."""
    hooks.write_rules(rules)

    assert hooks.pre("Read").code == 2


@pytest.mark.parametrize("data", [b"", b"{", b"null", b'{"session_id": "s1"}'])
def test_input_that_is_not_understood_denies(hooks: Hooks, data: bytes) -> None:
    """Whatever it was, it was not judged."""
    for handle in (before_tool, after_tool, at_end):
        answer = handle(data, hooks.settings)

        assert (answer.code, answer.stdout) == (2, "")
        assert answer.stderr.startswith("openbox-agentrt: ")


@pytest.mark.parametrize("ending", ["jsonl", "snap"])
def test_a_corrupt_state_file_denies(hooks: Hooks, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """A history that cannot be trusted is not begun anew."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 2)
    for _ in range(3):
        hooks.runs("Read")
    path = hooks.file(ending)
    path.write_bytes(path.read_bytes()[:-3])

    answer = hooks.pre("Read")

    assert answer.code == 2
    assert "; " in answer.stderr, "the remedy is part of the line"


def test_a_log_with_lines_of_another_form_denies(hooks: Hooks) -> None:
    """A line can be in its place in the chain and still say nothing."""
    with open_log(hooks.folder / "state", "s1") as log:
        log.append({"event": "pre"})

    assert "holds a line of another form" in hooks.pre("Read").stderr


def test_a_state_folder_that_is_a_link_denies(hooks: Hooks) -> None:
    """A project cannot send the history elsewhere."""
    (hooks.folder / "elsewhere").mkdir()
    (hooks.folder / "state").symlink_to(hooks.folder / "elsewhere")

    assert hooks.pre("Read").code == 2


def test_a_state_folder_that_cannot_be_written_denies(hooks: Hooks) -> None:
    """What cannot be written down was not counted."""
    hooks.settings.state_dir = "/proc/nowhere/state"

    answer = hooks.pre("Read")

    assert answer.code == 2
    assert "cannot be used" in answer.stderr


def test_an_error_that_nobody_thought_of_denies(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any exit code but 2 would let the call run."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("in the\nengine")

    monkeypatch.setattr(Session, "reserve", fail)

    answer = hooks.pre("Bash", command="git commit")

    assert answer == HookAnswer(code=2, stderr="openbox-agentrt: ZeroDivisionError: in the engine")


# Rules that change.


def test_rules_that_change_under_a_session_deny(hooks: Hooks) -> None:
    """What was let through under one set of rules says nothing under another."""
    assert hooks.runs("Read")
    hooks.write_rules({"contracts": RULES["contracts"][:2]})

    answer = hooks.pre("Read")

    assert answer.code == 2
    assert "the rules have changed since the session began" in answer.stderr
    assert "--on-rules-change replay" in answer.stderr


def test_a_comment_is_no_change_of_the_rules(hooks: Hooks) -> None:
    """What counts is what they say."""
    assert hooks.runs("Read")
    hooks.write_rules({**RULES, "description": "The same rules."})

    assert hooks.runs("Read")


def test_a_session_can_go_on_by_new_rules(hooks: Hooks) -> None:
    """If asked to: what happened is counted by the new rules, also what they would have refused."""
    for _ in range(2):
        assert hooks.runs("Deploy")
    hooks.pre("Bash", command="pytest")
    hooks.write_rules(
        {
            "contracts": [
                {"template": "at_most_n_times", "args": ["Deploy"], "kwargs": {"n": 1}},
                {"template": "at_most_n_times", "args": ["Read"], "kwargs": {"n": 1}},
            ]
        }
    )
    hooks.settings.on_rules_change = "replay"

    assert not hooks.runs("Deploy")
    assert hooks.runs("Read")
    assert not hooks.runs("Read")
    hooks.settings.on_rules_change = "deny"
    assert not hooks.runs("Read")
    assert [entry["event"] for entry in hooks.entries()].count("rules") == 2


# The end.

OWES = {
    "contracts": [
        {"template": "required_before_session_end", "args": ["Test"], "remedy": "run the tests"},
        {"template": "response", "args": ["Open", "Close"]},
    ]
}


def test_a_session_that_owes_nothing_ends(hooks: Hooks) -> None:
    """Quietly."""
    assert hooks.end("Stop") == HookAnswer()
    assert hooks.end() == HookAnswer()


def test_claude_is_sent_back_for_what_is_owed(hooks: Hooks) -> None:
    """Once per turn; the second time the user is told."""
    hooks.write_rules(OWES)
    hooks.runs("Open")

    answer = hooks.end("Stop")
    again = hooks.end("Stop", stop_hook_active=True)

    told = json.loads(answer.stdout)
    assert (answer.code, told["decision"]) == (0, "block")
    assert "required_before_session_end(Test) (needs run the tests)" in told["reason"]
    assert "response(Open, Close)" in told["reason"]
    assert (again.code, again.stdout) == (1, "")
    assert "required_before_session_end" in again.stderr


def test_a_turn_that_ends_does_not_end_the_session(hooks: Hooks) -> None:
    """The next one goes on, and pays what is owed."""
    hooks.write_rules(OWES)
    hooks.runs("Open")
    hooks.end("Stop")

    assert hooks.runs("Test")
    assert hooks.runs("Close")
    assert hooks.end("Stop") == hooks.end() == HookAnswer()


def test_a_failed_call_pays_nothing(hooks: Hooks) -> None:
    """The tests have to pass."""
    hooks.write_rules({"contracts": OWES["contracts"][:1]})
    hooks.pre("Test")
    hooks.post("PostToolUseFailure")

    assert hooks.end().code == 1


def test_what_is_owed_at_the_end_is_reported(hooks: Hooks) -> None:
    """Nothing can be blocked any more, so the user is told, and it is put into the evidence."""
    hooks.write_rules(OWES)

    answer = hooks.end(reason="exit")

    assert (answer.code, answer.stdout) == (1, "")
    assert answer.stderr == "the session still owes required_before_session_end(Test) (needs run the tests)"
    assert hooks.entries()[-1]["unmet"] == ["required_before_session_end(Test)"]
    assert [entry.data["spec"] for entry in violations(hooks)] == ["required_before_session_end(Test)"]


def test_a_session_that_is_resumed_keeps_its_history(hooks: Hooks) -> None:
    """Ending it and going on is no way to a new budget."""
    for _ in range(2):
        hooks.runs("Deploy")
    hooks.end()

    assert not hooks.runs("Deploy")
    assert hooks.runs("Read")


def test_calls_under_way_at_the_end_are_given_up(hooks: Hooks) -> None:
    """They stay counted, and allow something only if they are reported as done after all."""
    hooks.pre("Deploy")
    hooks.pre("Bash", command="pytest")
    tests = hooks.last
    hooks.end()

    assert hooks.runs("Deploy")
    assert not hooks.runs("Deploy")
    assert not hooks.runs("Bash", command="git commit")
    for _ in range(2):
        hooks.last = tests
        hooks.post()
    assert hooks.runs("Bash", command="git commit")
    assert [entry["event"] for entry in hooks.entries()].count("ran") == 1


def test_a_fault_at_the_end_does_not_keep_claude_for_ever(hooks: Hooks) -> None:
    """It blocks once, and then tells the user."""
    (hooks.folder / "rules.json").unlink()

    assert hooks.end("Stop").code == 2
    assert hooks.end("Stop", stop_hook_active=True).code == 1


def test_contracts_that_only_watch_keep_nobody(hooks: Hooks) -> None:
    """They are recorded, and change no answer."""
    hooks.write_rules(
        {
            "contracts": [
                {"template": "required_before_session_end", "args": ["Test"], "mode": "shadow"},
                {"template": "at_most_n_times", "args": ["Deploy"], "kwargs": {"n": 0}, "mode": "shadow"},
            ]
        }
    )

    for _ in range(2):
        assert hooks.runs("Deploy")
    assert hooks.end("Stop") == hooks.end() == HookAnswer()
    assert [entry.data["spec"] for entry in violations(hooks)] == [
        "at_most_n_times(Deploy, n=0)",
        "at_most_n_times(Deploy, n=0)",
        "required_before_session_end(Test)",
    ]


# Evidence.


def violations(hooks: Hooks) -> list[Any]:
    return [entry for entry in read_entries(hooks.file("evidence.jsonl")) if entry.type == "violation"]


def test_refusals_are_in_the_evidence(hooks: Hooks) -> None:
    """Each once, however often the history was replayed, in a file that verifies."""
    hooks.runs("Read")
    hooks.runs("Bash", command="git commit")
    for _ in range(3):
        hooks.runs("Read")
    hooks.runs("Bash", command="git commit")
    hooks.end()

    assert len(violations(hooks)) == 2
    assert verify_file(hooks.file("evidence.jsonl")).ok


def test_the_evidence_is_of_the_rules(hooks: Hooks) -> None:
    """It verifies with the hash that ``openbox-agentrt verify --rules`` takes of the file."""
    hooks.runs("Bash", command="git commit")
    hooks.end()

    wanted = read_rules(hooks.folder / "rules.json").rules_hash
    assert verify_file(hooks.file("evidence.jsonl"), rules_hash=wanted).ok


def test_evidence_can_be_signed_and_kept_elsewhere(hooks: Hooks, tmp_path: Path) -> None:
    """With a key file, in a folder of its own."""
    hooks.settings.evidence_dir = str(tmp_path / "evidence")
    hooks.settings.key = str(tmp_path / "key.bin")
    hooks.runs("Bash", command="git commit")
    hooks.end()

    from openbox_agentrt.evidence import ed25519_signer

    _, public_key = ed25519_signer(tmp_path / "key.bin")
    (path,) = (tmp_path / "evidence").glob("*.jsonl")
    assert verify_file(path, public_key).ok
    assert not hooks.file("evidence.jsonl").exists()


def test_evidence_that_cannot_be_written_changes_no_answer(hooks: Hooks, tmp_path: Path) -> None:
    """The call was judged and noted; the user is told that the evidence is not complete."""
    (tmp_path / "evidence").write_text("in the way")
    hooks.settings.evidence_dir = str(tmp_path / "evidence")

    answer = hooks.pre("Bash", command="git commit")

    assert "must_precede" in reason(answer)
    assert "the evidence is incomplete" in answer.stderr


# The cost of a long session.


def test_a_long_session_is_not_read_from_its_beginning(hooks: Hooks) -> None:
    """A snapshot stands for what is older than a few dozen lines."""
    for _ in range(120):
        assert hooks.runs("Read", content="x" * 100)

    with open_log(hooks.folder / "state", "s1") as log:
        snapshot = log.read_snapshot()
        assert snapshot is not None
        tail = log.read(snapshot["offset"])
        assert len(log.read()) > 240
    assert len(tail) <= hook_history.SNAPSHOT_AFTER + 4
    assert hooks.file("snap").stat().st_size < 20_000


def test_calls_that_are_always_under_way_do_not_stop_snapshots(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are waited for, and not for long: calls that begin before a snapshot may end after it."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 8)
    hooks.pre("Bash", command="pytest")
    tests = hooks.last
    for number in range(120):
        hooks.pre("Read", call_id=f"r{number}")
        read = hooks.last
        if number:
            hooks.post(tool_use_id=f"r{number - 1}")
        hooks.last = read

    with open_log(hooks.folder / "state", "s1") as log:
        snapshot = log.read_snapshot()
        assert snapshot is not None
        assert len(log.read(snapshot["offset"])) <= 8 * hook_history.SNAPSHOT_AFTER + 4
    assert not hooks.runs("Bash", command="git commit")
    hooks.last = tests
    hooks.post()
    assert hooks.runs("Bash", command="git commit")


def test_a_call_under_way_leaves_its_window(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot does not make it younger."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 4)
    for _ in range(2):
        assert allowed(hooks.pre("Fetch"))
    for _ in range(20):
        hooks.now += 2
        assert hooks.runs("Read")
    assert not allowed(hooks.pre("Fetch"))
    hooks.now += 21

    assert allowed(hooks.pre("Fetch"))


def test_a_call_that_never_ends_is_given_up(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and it stays counted."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 8)
    monkeypatch.setattr(judgement, "LOST_AFTER", 40)
    hooks.pre("Deploy")
    hooks.pre("Bash", command="pytest")
    for _ in range(40):
        assert hooks.runs("Read")

    assert hooks.file("snap").exists()
    assert [entry["event"] for entry in hooks.entries()].count("lost") == 2
    assert not hooks.runs("Bash", command="git commit")
    assert hooks.runs("Deploy")
    assert not hooks.runs("Deploy")


def test_a_snapshot_of_another_version_is_not_needed(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says all that it said."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 4)
    hooks.runs("Bash", command="pytest")
    for _ in range(6):
        hooks.runs("Read")
    snapshot = json.loads(hooks.file("snap").read_text())
    snapshot["session"]["version"] = 99
    hooks.file("snap").write_text(json.dumps(snapshot))

    assert hooks.runs("Bash", command="git commit")


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["test", "commit", "deploy", "fetch"]),
        st.sampled_from(["ok", "failed", "open", "denied"]),
        st.sampled_from([0.0, 1.0, 25.0]),
        st.booleans(),
    ),
    max_size=30,
)
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "test": ("Bash", {"command": "pytest"}),
    "commit": ("Bash", {"command": "git commit"}),
    "deploy": ("Deploy", {}),
    "fetch": ("Fetch", {}),
}


@given(actions=ACTIONS, lost_after=st.sampled_from([12, 512]))
@settings(max_examples=60, deadline=None)
def test_many_processes_decide_as_one_session_would(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, float, bool]], lost_after: int
) -> None:
    """Snapshots and replay let nothing through, and refuse nothing."""
    hooks = Hooks(tmp_path_factory.mktemp("hooks"))
    rules = read_rules(hooks.folder / "rules.json")
    session = Session(rules.state, contracts=rules.contracts, clock=lambda: hooks.now)
    under_way: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hook_history, "SNAPSHOT_AFTER", 3)
        patch.setattr(judgement, "LOST_AFTER", lost_after)
        for kind, outcome, later, ends_another in actions:
            hooks.now += later
            if ends_another and under_way and lost_after == 512:
                reservation, hooks.last = under_way.pop(0)
                reservation.commit()
                hooks.post()
            tool, args = CALLS[kind]
            reservation = session.reserve(tool, args)
            assert allowed(hooks.pre(tool, **args)) is reservation.allowed
            if not reservation.allowed:
                continue
            if outcome == "open":
                under_way.append((reservation, hooks.last))
            elif outcome == "ok":
                reservation.commit()
                hooks.post()
            else:
                reservation.abort(ran=outcome == "failed")
                hooks.post("PostToolUseFailure" if outcome == "failed" else "PermissionDenied")


PAYS: dict[str, dict[str, Any]] = {
    "count": {"template": "at_most_n_times", "args": ["Pay", 4]},
    "count, refunded": {
        "template": "at_most_n_times",
        "args": ["Pay", 3],
        "kwargs": {"refund_on_failure": True},
    },
    "count, per key": {"template": "at_most_n_times", "args": ["Pay", 2], "key": "to"},
    "window": {"template": "rate_limit", "args": ["Pay", 3, 20]},
    "total": {"template": "at_most_total", "args": ["Pay", "amount", 12.5]},
    "total, refunded": {
        "template": "at_most_total",
        "args": ["Pay", "amount", 9],
        "kwargs": {"refund_on_failure": True},
    },
    "total of a window": {"template": "at_most_total", "args": ["Pay", "amount", 9], "within": 20},
    "values": {"template": "max_distinct", "args": ["Pay", "to", 1]},
    "needed": {
        "template": "must_precede",
        "args": [{"tool": "Pay", "matches": "ann", "field": "to"}, "Ship"],
    },
    "needed lately": {"template": "must_precede", "args": ["Pay", "Ship"], "within": 20},
    "used up": {"template": "alternate_precedence", "args": ["Pay", "Ship"]},
    "excluded": {"template": "never_after", "args": ["Pay", "Ship"]},
    "values of a window": {
        "template": "max_distinct",
        "args": ["Pay", "amount", 1],
        "kwargs": {"refund_on_failure": True},
        "within": 20,
    },
    "in flight": {"template": "at_most_in_flight", "args": ["Pay", 2]},
    "on a condition": {"template": "at_most_n_times", "args": ["Pay", 2], "when": "args.amount > 2"},
    "began anew": {"template": "must_precede", "args": ["Pay", "Read"], "kwargs": {"since": "Ship"}},
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["Pay", "Pay", "Ship", "Read", "end", "end"]),
        st.sampled_from([1, 2.5, 4]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["ok", "ok", "failed", "aborted", "other"]),
        st.sampled_from([0.0, 1.0, 12.0]),
        st.integers(0, 3),
    ),
    min_size=8,
    max_size=40,
)


@pytest.mark.parametrize("name", PAYS)
@given(steps=STEPS)
@settings(max_examples=6, deadline=None)
def test_calls_side_by_side_are_judged_as_in_one_session(
    tmp_path_factory: pytest.TempPathFactory, name: str, steps: list[tuple[Any, ...]]
) -> None:
    """Whatever a contract remembers, and however the calls end that a snapshot has under way."""
    hooks = Hooks(tmp_path_factory.mktemp("hooks"))
    hooks.write_rules({"contracts": [PAYS[name]]})
    rules = read_rules(hooks.folder / "rules.json")
    session = Session(rules.state, contracts=rules.contracts, clock=lambda: hooks.now)
    under_way: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hook_history, "SNAPSHOT_AFTER", 3)
        for tool, amount, to, how, later, which in steps:
            hooks.now += later
            if tool != "end":
                args = {"amount": amount, "to": to}
                reservation = session.reserve(tool, args)
                assert allowed(hooks.pre(tool, **args)) is reservation.allowed
                if reservation.allowed:
                    under_way.append((reservation, hooks.last))
            elif under_way:
                reservation, hooks.last = under_way.pop(which % len(under_way))
                if how in ("ok", "other"):
                    ran: Any = {"amount": amount, "to": to} if how == "other" else None
                    reservation.commit(args=ran)
                    hooks.post(tool_input=ran or hooks.last["tool_input"])
                else:
                    reservation.abort(ran=how == "failed")
                    hooks.post("PostToolUseFailure" if how == "failed" else "PermissionDenied")


# Calls that are under way while a snapshot is taken.

UNDER_WAY: dict[str, tuple[dict[str, Any], list[tuple[str, str]], str, bool]] = {
    # Contract, what happens ("+" begins, "-" ends, "=" both), the call that is asked about, and the answer.
    "what a later call voids stays voided": (
        {"template": "must_precede", "args": ["Test", "Deploy"], "kwargs": {"since": "Edit"}},
        [("+", "Test"), ("=", "Edit"), ("=", "Read"), ("=", "Read"), ("-", "Test")],
        "Deploy",
        False,
    ),
    "what began after the latest that voids counts": (
        {"template": "must_precede", "args": ["Test", "Deploy"], "kwargs": {"since": "Edit"}},
        [("+", "Edit"), ("=", "Test"), ("=", "Read"), ("=", "Read"), ("=", "Read"), ("-", "Edit")],
        "Deploy",
        True,
    ),
    "the call before is the one that began last": (
        {"template": "chain_precedence", "args": ["Test", "Deploy"]},
        [("+", "Test"), ("=", "Edit"), ("=", "Read"), ("=", "Read"), ("-", "Test")],
        "Deploy",
        False,
    ),
    "an exclusion that came later does not undo a success": (
        {"template": "never_after", "args": ["Test", "Edit"]},
        [("+", "Test"), ("=", "Edit"), ("=", "Read"), ("=", "Read"), ("-", "Test")],
        "Deploy",
        True,
    ),
}


@pytest.mark.parametrize("name", UNDER_WAY)
def test_a_call_under_way_keeps_its_place(hooks: Hooks, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A snapshot that is taken meanwhile makes it neither earlier nor later than it was."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 3)
    contract, happens, asked, answer = UNDER_WAY[name]
    needs = {"template": "must_precede", "args": ["Test", "Deploy"]}
    hooks.write_rules({"contracts": [contract, needs]})
    under_way = {}
    for what, tool in happens:
        if what == "+":
            assert allowed(hooks.pre(tool))
            under_way[tool] = hooks.last
        elif what == "-":
            hooks.last = under_way.pop(tool)
            hooks.post()
        else:
            assert hooks.runs(tool)
    assert hooks.file("snap").exists()

    assert [hooks.runs(asked), hooks.runs("Read")] == [answer, True]


def test_a_call_of_yesterday_makes_nothing_of_today_forgotten(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was declined, and so never ended, is let through again in its own day."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 3)
    day = {"template": "at_most_n_times", "args": ["Deploy", 2], "per": "day"}
    hooks.write_rules({"contracts": [day]})
    assert allowed(hooks.pre("Deploy"))
    hooks.now += 86_400
    assert hooks.runs("Deploy")
    for _ in range(12):
        assert hooks.runs("Read")
    assert hooks.file("snap").exists()

    assert hooks.runs("Deploy")
    assert not hooks.runs("Deploy")


def test_a_session_stays_halted_when_the_calls_that_were_under_way_have_ended(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever halted it does not have to hold any more."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 4)
    one = {"template": "at_most_in_flight", "args": ["Deploy", 1], "on_violation": "halt"}
    hooks.write_rules({"contracts": [one]})
    assert allowed(hooks.pre("Deploy"))
    deploy = hooks.last
    assert not allowed(hooks.pre("Deploy"))
    for _ in range(8):
        assert not hooks.runs("Read")
    assert hooks.file("snap").exists()
    hooks.last = deploy
    hooks.post()

    assert not hooks.runs("Read")
    assert not hooks.runs("Deploy")


def test_a_contract_of_the_fleet_that_halts_halts_the_session(hooks: Hooks) -> None:
    """In every later process, also for calls that it is not about."""
    limit = {"template": "at_most_n_times", "args": ["Deploy", 1], "scope": "fleet", "within": 3600}
    hooks.write_rules({"contracts": [{**limit, "on_violation": "halt"}]})
    hooks.settings.fleet = f"sqlite:///{hooks.folder}/fleet.db"
    assert hooks.runs("Read")
    assert hooks.runs("Deploy")
    assert not hooks.runs("Deploy")

    assert not hooks.runs("Read")


def test_the_default_state_folder_is_outside_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """What works in a project does not come across it."""
    monkeypatch.setenv("XDG_STATE_HOME", "/home/u/.state")
    assert default_state_dir() == "/home/u/.state/openbox-agentrt/hooks"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/u")
    assert default_state_dir() == "/home/u/.local/state/openbox-agentrt/hooks"


def test_a_contract_that_stops_the_session_stops_every_later_process(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`on_violation: halt` is remembered, also in snapshots."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 8)
    hooks.write_rules(
        {
            "contracts": [
                {
                    "template": "at_most_n_times",
                    "args": ["Deploy"],
                    "kwargs": {"n": 1},
                    "on_violation": "halt",
                }
            ]
        }
    )
    assert hooks.runs("Deploy")
    assert hooks.runs("Read")
    assert not hooks.runs("Deploy")

    for _ in range(20):
        assert not hooks.runs("Read")
    assert hooks.file("snap").exists()


def test_a_log_that_the_rules_do_not_allow_denies(hooks: Hooks) -> None:
    """What was let through before and is refused by the same rules now was not written by this program."""
    hooks.runs("Read")
    with open_log(hooks.folder / "state", "s1") as log:
        for number in range(3):
            line = {
                "event": "pre",
                "call": f"id:x{number}",
                "tool": "Deploy",
                "digest": "d",
                "ts": 1.0,
                "args": {},
            }
            log.append(line)

    answer = hooks.pre("Deploy")

    assert answer.code == 2
    assert "the log does not replay" in answer.stderr


PAYMENTS: dict[str, Any] = {
    "contracts": [
        {
            "template": "came_from",
            "args": ["Pay", "to", ["prompt", {"tool": "Contacts", "path": "*.iban"}]],
        }
    ]
}


def said(hooks: Hooks, prompt: str) -> HookAnswer:
    return at_prompt(hooks.event("UserPromptSubmit", prompt=prompt), hooks.settings)


@pytest.mark.parametrize("wrapped", [False, True], ids=["data", "content blocks"])
def test_what_a_tool_returned_vouches_in_the_next_process(hooks: Hooks, wrapped: bool) -> None:
    """Only if it succeeded, and only of tools that a contract learns from is the result kept."""
    hooks.write_rules(PAYMENTS)
    result: Any = [{"iban": "DE02"}]
    if wrapped:
        result = [{"type": "text", "text": json.dumps(result)}]
    assert not hooks.runs("Pay", to="DE02")
    hooks.pre("Contacts")
    hooks.post("PostToolUseFailure", tool_response=[{"iban": "DE02"}])
    assert not hooks.runs("Pay", to="DE02")
    hooks.pre("Contacts")
    hooks.post(tool_response=result)
    hooks.pre("Read", path="x")
    hooks.post(tool_response="a letter")

    assert hooks.runs("Pay", to="DE02")
    assert not hooks.runs("Pay", to="DE99")
    assert [entry["result"] for entry in hooks.entries() if "result" in entry] == [result]


def test_what_a_tool_told_is_known_in_the_next_process(hooks: Hooks) -> None:
    """A fact, by its key; the rules are read compiled there."""
    hooks.write_rules(
        {
            "facts": [{"tool": "Order", "as": "order", "key": "id", "values": {"status": "status"}}],
            "contracts": [
                {
                    "template": "requires",
                    "args": ["Cancel"],
                    "check": "facts.order[args.id].status == 'pending' && session.Read < 2",
                },
            ],
        }
    )
    assert not hooks.runs("Cancel", id=7)
    hooks.pre("Order", id=7)
    hooks.post(tool_response={"status": "pending"})

    assert hooks.runs("Cancel", id="7")
    assert not hooks.runs("Cancel", id=8)
    for _ in range(2):
        hooks.pre("Read", path="x")
        hooks.post(tool_response="a letter")
    assert not hooks.runs("Cancel", id="7")


def test_what_the_user_says_vouches_in_the_next_process(hooks: Hooks) -> None:
    """And a contract may refuse a prompt, which the client then does not pass on."""
    ban = {"template": "never", "args": [{"tool": "user_prompt", "matches": "password", "field": "prompt"}]}
    hooks.write_rules({"contracts": [*PAYMENTS["contracts"], ban]})

    assert said(hooks, "please pay DE02!") == HookAnswer()
    refused = json.loads(said(hooks, "my password is DE77").stdout)

    assert refused["decision"] == "block"
    assert "never(user_prompt" in refused["reason"]
    assert hooks.runs("Pay", to="DE02")
    assert not hooks.runs("Pay", to="DE77")


@pytest.mark.parametrize("prompt", [None, 5, {"text": "x"}])
def test_a_prompt_that_is_no_text_is_a_fault(hooks: Hooks, prompt: Any) -> None:
    """Fail-closed: what nobody could take note of is not passed on."""
    answer = at_prompt(hooks.event("UserPromptSubmit", prompt=prompt), hooks.settings)

    assert answer.code == 2
    assert "has no prompt" in answer.stderr


def test_what_vouches_is_in_a_snapshot(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the next process begins with."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 4)
    hooks.write_rules(PAYMENTS)
    said(hooks, "pay Bob Smith")
    hooks.pre("Contacts")
    hooks.post(tool_response=[{"iban": "DE02"}])
    for _ in range(8):
        assert hooks.runs("Pay", to=["DE02", "Bob Smith"])

    assert hooks.file("snap").exists()
    assert not hooks.runs("Pay", to="Smith Bob")


def test_a_result_that_is_too_large_vouches_for_nothing(hooks: Hooks) -> None:
    """The log of a session does not grow with what tools return."""
    hooks.write_rules(PAYMENTS)
    hooks.pre("Contacts")
    hooks.post(tool_response=[{"iban": "DE02", "note": "x" * hook_history.MAX_RESULT}])

    assert not hooks.runs("Pay", to="DE02")
    assert hooks.file("jsonl").stat().st_size < 10_000


def test_results_count_under_rules_that_changed(hooks: Hooks) -> None:
    """What happened under other rules happened all the same."""
    hooks.write_rules(PAYMENTS)
    hooks.pre("Contacts")
    hooks.post(tool_response=[{"iban": "DE02"}])
    more = {"template": "at_most_n_times", "args": ["Contacts", 0]}
    hooks.write_rules({"contracts": [*PAYMENTS["contracts"], more]})
    hooks.settings.on_rules_change = "replay"

    assert hooks.runs("Pay", to="DE02")


REFUNDED = {"template": "at_most_n_times", "args": ["Pay", 9], "kwargs": {"refund_on_failure": True}}
PAYEES = {"values": ["c-0", "c-1", "c-2"]}
TOLD = {"tool": "Pay", "as": "paid", "values": {"ok": "result.ok"}}
TAKEN_UP: dict[str, dict[str, Any]] = {
    "count": REFUNDED,
    "count, by key": {**REFUNDED, "key": "to"},
    "values": {"template": "max_distinct", "args": ["Pay", "to", 3]},
    "in flight": {"template": "at_most_in_flight", "args": ["Pay", 9]},
    "found out": {"template": "came_from", "args": ["Pay", "to", [PAYEES, {"tool": "Pay", "path": "id"}]]},
    "told": {"template": "requires", "args": ["Pay", "args.to != '' || facts.paid.ok"], "facts": [TOLD]},
}


@pytest.mark.parametrize("name", TAKEN_UP)
def test_calls_that_overlap_are_taken_up_after_a_snapshot(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The log is not read from its beginning when one ends that began before it."""
    monkeypatch.setattr(hook_history, "SNAPSHOT_AFTER", 4)
    hooks.write_rules({"contracts": [TAKEN_UP[name]]})
    under_way = []
    read: list[bool] = []
    whole = hook_history.read_history

    def counted(*given: Any, **options: Any) -> Any:
        read.append(bool(options.get("whole")))
        return whole(*given, **options)

    for module in (hook_history, judgement):
        monkeypatch.setattr(module, "read_history", counted)
    for number in range(30):
        assert allowed(hooks.pre("Pay", to=f"c-{number % 3}"))
        under_way.append(hooks.last)
        if len(under_way) > 6:
            hooks.last = under_way.pop(0)
            hooks.post("PostToolUseFailure")

    assert hooks.file("snap").exists()
    assert read
    assert not any(read)
