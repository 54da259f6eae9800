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
    before_tool,
)
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
        (folder / "rules.json").write_text(json.dumps(RULES))
        state, rules = str(folder / "state"), str(folder / "rules.json")
        given = {"record": "steps", **options}
        self.settings = HookSettings(rules=rules, state_dir=state, clock=lambda: self.now, **given)

    def event(self, name: str, **fields: Any) -> bytes:
        return json.dumps({"session_id": "s-1", "hook_event_name": name, **fields}).encode()

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
        (path,) = (self.folder / "state").glob("*.evidence.jsonl")
        return path


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
