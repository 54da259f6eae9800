"""Steps in the evidence of hook sessions: written when one ends, from the log that its processes share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.doors.claude_code.answers import (
    HookAnswer,
    HookSettings,
    after_tool,
    at_end,
    at_idle,
    before_tool,
)
from openbox_agentrt.doors.claude_code.log import file_stem
from openbox_agentrt.evidence import read_entries, verify_file
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.logs import merged_entries

RULES = {
    "contracts": [
        {"template": "must_precede", "args": ["Test", "Deploy"]},
        {"template": "at_most_n_times", "args": ["Deploy", 1]},
        {"template": "rate_limit", "args": ["Fetch", 1, 60]},
        {"template": "required_before_session_end", "args": ["Announce"]},
    ]
}


class Hooks:
    """Send the events of one session; each is what a process of its own would do."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.now, self.count = folder, 1_700_000_000.0, 0
        self.session = "s-1"
        (folder / "rules.json").write_text(json.dumps(RULES))
        state, rules = str(folder / "state"), str(folder / "rules.json")
        given = {"record": "steps", **options}
        self.settings = HookSettings(rules=rules, state_dir=state, clock=lambda: self.now, **given)

    def event(self, name: str, **fields: Any) -> bytes:
        return json.dumps({"session_id": self.session, "hook_event_name": name, **fields}).encode()

    def call(self, tool: str, *, end: str | None = "PostToolUse", **args: Any) -> bool:
        self.now += 1
        self.count += 1
        call = {"tool_name": tool, "tool_input": args, "tool_use_id": f"t-{self.count}"}
        answer = before_tool(self.event("PreToolUse", **call), self.settings)
        if not answer.stdout and end is not None:
            assert after_tool(self.event(end, **call), self.settings) == HookAnswer()
        return not answer.stdout

    def end(self) -> HookAnswer:
        return at_end(self.event("SessionEnd", reason="exit"), self.settings)

    @property
    def evidence(self) -> Path:
        return self.folder / "state" / f"{file_stem(self.session)}.evidence.jsonl"

    def has_evidence(self) -> bool:
        return self.evidence.exists()


def test_the_decisions_of_a_session_follow_from_its_evidence(tmp_path: Path) -> None:
    """Allowed, refused, failed, never ended, and of no concern to any contract."""
    hooks = Hooks(tmp_path, key=str(tmp_path / "e.key"))
    said = [
        hooks.call("Deploy", to="prod"),
        hooks.call("Read", path="a"),
        hooks.call("Test", end="PostToolUseFailure"),
        hooks.call("Deploy", to="prod"),
        hooks.call("Test"),
        hooks.call("Fetch", url="x"),
        hooks.call("Fetch", url="y"),
        hooks.call("Deploy", to="prod"),
        hooks.call("Read", path="b", end=None),
    ]
    assert said == [False, True, True, False, True, True, False, True, True]
    assert "still owes" in hooks.end().stderr

    assert verify_file(hooks.evidence).ok
    report = rerun_file(hooks.evidence)
    assert (report.differences, report.problems, report.not_derivable) == ((), (), 0)
    assert report.derived >= len(said)
    calls = calls_in(merged_entries([hooks.evidence]))
    owed, *calls = calls
    assert owed.contracts == ("required_before_session_end(Announce)",)
    assert [not call.refused for call in calls] == said
    assert calls[0].time.startswith("2023-11-14T22:13:21")
    assert calls[0].why == "needs Test"
    steps = [entry.data for entry in read_entries(hooks.evidence) if entry.type == "step"]
    assert [step["allowed"] for step in steps if step["e"] == "reserve"] == said
    ends = [step["e"] for step in steps if step["e"] in ("commit", "fail", "lose", "abort")]
    assert ends == ["commit", "fail", "commit", "commit", "commit", "lose"]
    assert steps[-1]["e"] == "end"
    assert len(steps[-1]["broken"]) == 1


def test_a_changed_verdict_is_found(tmp_path: Path) -> None:
    """Also in an evidence that was made anew as a whole."""
    hooks = Hooks(tmp_path)
    hooks.call("Deploy", to="prod")
    hooks.end()
    text = hooks.evidence.read_text()
    assert text.count('"allowed":false') == 1
    hooks.evidence.write_text(text.replace('"allowed":false', '"allowed":true'))
    assert not verify_file(hooks.evidence).ok
    assert len(rerun_file(hooks.evidence).differences) == 1


def test_secrets_are_hidden_in_steps(tmp_path: Path) -> None:
    """Those of calls that were let through, too."""
    hooks = Hooks(tmp_path, redact_fields=["pin"], redaction_key=str(tmp_path / "redaction.key"))
    hooks.call("Read", pin="1234-secret")
    hooks.call("Deploy", pin="1234-secret")
    hooks.end()
    text = hooks.evidence.read_text()
    assert "1234-secret" not in text
    assert text.count('"pin":"***REDACTED(hmac-sha256:') >= 2


def test_without_being_asked_for_there_are_none(tmp_path: Path) -> None:
    """As before: what was refused, and nothing of the arguments of the others."""
    hooks = Hooks(tmp_path, record="violations")
    hooks.call("Deploy", to="prod")
    hooks.call("Read", path="a")
    hooks.end()
    assert [entry.type for entry in read_entries(hooks.evidence)][:2] == ["header", "violation"]
    assert all(entry.type != "step" for entry in read_entries(hooks.evidence))


@pytest.mark.parametrize("how", ["resumed", "other rules"])
def test_what_cannot_be_written_is_said(how: str, tmp_path: Path) -> None:
    """Steps of a part of a session would be of no session."""
    hooks = Hooks(tmp_path, on_rules_change="replay")
    hooks.call("Read", path="a")
    if how == "resumed":
        assert "recorded" not in hooks.end().stderr
        hooks.call("Read", path="b")
        assert "had ended before" in hooks.end().stderr
    else:
        (tmp_path / "rules.json").write_text(json.dumps({"contracts": RULES["contracts"][:1]}))
        hooks.call("Test")
        assert "rules have changed" in hooks.end().stderr


DAY = 86_400


def test_a_session_that_died_is_ended_by_the_next(tmp_path: Path) -> None:
    """Its client never said that it ends; its steps are in its evidence all the same, and told once."""
    dead = Hooks(tmp_path)
    assert dead.call("Read", path="a")
    assert not dead.call("Deploy", to="prod")
    living = Hooks(tmp_path)
    living.session = "s-2"
    living.now = dead.now + DAY - 60
    assert living.call("Read", path="b")
    assert not any(entry.type == "step" for entry in read_entries(dead.evidence)), "it may go on"

    third = Hooks(tmp_path)
    third.session, third.now = "s-3", dead.now + DAY + 60
    assert third.call("Read", path="c")

    report = rerun_file(dead.evidence)
    assert (report.ok, report.sessions) == (True, 1)
    steps = [entry.data for entry in read_entries(dead.evidence) if entry.type == "step"]
    assert [step["allowed"] for step in steps if step["e"] == "reserve"] == [True, False]
    written = dead.evidence.read_bytes()
    assert at_idle(b"", third.settings) == HookAnswer()
    assert dead.evidence.read_bytes() == written
    for other in (living, third):
        assert not other.has_evidence()


def test_those_that_died_can_be_ended_at_once(tmp_path: Path) -> None:
    """Before an audit; those under other rules are left alone, and what is no session is passed over."""
    dead = Hooks(tmp_path)
    for number in range(5):
        dead.session = f"d-{number}"
        assert dead.call("Read", path="a")
    state = tmp_path / "state"
    (state / "notes.jsonl").write_text("not a session\n")
    (state / "notes.jsonl").chmod(0o600)
    dead.now += 2 * DAY
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"contracts": RULES["contracts"][:1]}))
    strangers = HookSettings(
        rules=str(other),
        state_dir=str(state),
        record="steps",
        on_rules_change="replay",
        clock=lambda: dead.now,
    )
    assert "rules" in at_idle(b"", strangers).stderr
    assert list(state.glob("*.evidence.jsonl")) == []

    assert at_idle(b"", dead.settings) == HookAnswer()
    assert all(rerun_file(path).ok for path in state.glob("*.evidence.jsonl"))
    assert len(list(state.glob("*.evidence.jsonl"))) == 5


OF_FLEET = {
    "contracts": [
        {"template": "at_most_n_times", "args": ["Deploy", 1], "scope": "fleet", "per": "day"},
        {"template": "at_most_n_times", "args": ["Read", 9]},
    ]
}


def test_what_ran_though_the_fleet_refused_it_is_derived(tmp_path: Path) -> None:
    """It was recorded when it had happened, and nobody was asked about it then."""
    hooks = Hooks(tmp_path, fleet=f"sqlite:///{tmp_path}/fleet.db")
    (tmp_path / "rules.json").write_text(json.dumps(OF_FLEET))
    assert hooks.call("Deploy")
    assert not hooks.call("Deploy")
    ran = {"tool_name": "Deploy", "tool_input": {}, "tool_use_id": f"t-{hooks.count}"}
    assert after_tool(hooks.event("PostToolUse", **ran), hooks.settings) == HookAnswer()
    hooks.end()

    report = rerun_file(hooks.evidence)

    assert report.differences == ()
    assert report.on_fleet == 2
    steps = [entry.data for entry in read_entries(hooks.evidence) if entry.type == "step"]
    assert [step["e"] for step in steps if step.get("watched")] == ["reserve"]


def test_a_call_that_the_fleet_refuses_has_its_place(tmp_path: Path) -> None:
    """In its session, as one that the session's own contracts refuse has."""
    hooks = Hooks(tmp_path, fleet=f"sqlite:///{tmp_path}/fleet.db")
    (tmp_path / "rules.json").write_text(json.dumps(OF_FLEET))
    assert hooks.call("Read")
    assert hooks.call("Deploy")
    assert hooks.call("Read")

    assert not hooks.call("Deploy")

    (violation,) = (entry.data for entry in read_entries(hooks.evidence) if entry.type == "violation")
    assert violation["step"] == 4
