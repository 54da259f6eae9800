"""What the calls of a hook session break as they run is in its evidence once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.doors.claude_code.answers import HookAnswer, after_tool, at_end, before_tool
from openbox_agentrt.evidence import read_entries, verify_file
from tests.doors.claude_code.test_hook_steps import Hooks

NO_PUSH = {
    "template": "at_most_n_times",
    "args": [{"tool": "Bash", "matches": "git push", "field": "command"}],
    "kwargs": {"n": 0},
}
LIMIT = {"template": "at_most_n_times", "args": ["Read", 2]}


class RewrittenHooks(Hooks):
    """Hooks of one session whose calls another hook may rewrite before they run."""

    def __init__(self, folder: Path, *, record: str = "violations") -> None:
        super().__init__(folder, record=record)
        (folder / "rules.json").write_text(json.dumps({"contracts": [NO_PUSH, LIMIT]}))

    def begin(self, tool: str, command: str) -> bool:
        self.count += 1
        call = {"tool_name": tool, "tool_input": {"command": command}, "tool_use_id": f"t{self.count}"}
        return before_tool(self.event("PreToolUse", **call), self.settings) == HookAnswer()

    def ran(self, tool: str, command: str, *, name: str = "PostToolUse", number: int | None = None) -> None:
        call = {"tool_name": tool, "tool_input": {"command": command}}
        call["tool_use_id"] = f"t{self.count if number is None else number}"
        assert after_tool(self.event(name, **call), self.settings) == HookAnswer()

    def late(self) -> list[tuple[str, bool]]:
        if not self.has_evidence():
            return []
        found = [entry.data for entry in read_entries(self.evidence) if entry.type == "violation"]
        return [(one["args"]["command"], one["blocked"]) for one in found]


@pytest.mark.parametrize("name", ["PostToolUse", "PostToolUseFailure"])
@pytest.mark.parametrize("record", ["violations", "steps"])
def test_a_call_that_another_hook_rewrote(tmp_path: Path, name: str, record: Any) -> None:
    """It is told at the next judgement of the engine: at the end at the latest, and no stop waits for it."""
    hooks = RewrittenHooks(tmp_path, record=record)
    assert hooks.begin("Bash", "ls")
    hooks.ran("Bash", "git push", name=name)

    assert at_end(hooks.event("Stop"), hooks.settings) == HookAnswer()
    assert hooks.end() == HookAnswer()

    assert hooks.late() == [("git push", False)]
    assert verify_file(hooks.evidence).ok
    if record == "steps":
        assert rerun_file(hooks.evidence).differences == ()


def test_it_is_told_once(tmp_path: Path) -> None:
    """Whatever is judged later, over a snapshot and at the end."""
    hooks = RewrittenHooks(tmp_path)
    hooks.begin("Bash", "ls")
    hooks.ran("Bash", "git push")

    assert not hooks.begin("Bash", "git push")
    assert hooks.late() == [("git push", False), ("git push", True)]
    for _ in range(100):
        hooks.begin("Write", "x")
        hooks.ran("Write", "x")
    assert not hooks.begin("Bash", "git push --force")
    assert hooks.end() == HookAnswer()

    assert hooks.late() == [("git push", False), ("git push", True), ("git push --force", True)]


def test_a_call_that_was_never_asked_about(tmp_path: Path) -> None:
    """Its end is all that is known of it."""
    hooks = RewrittenHooks(tmp_path)
    hooks.ran("Bash", "git push", number=9)

    hooks.end()

    assert hooks.late() == [("git push", False)]


def test_what_was_refused_or_fine_is_not_told_again(tmp_path: Path) -> None:
    """A limit that later calls have used up says nothing of the earlier ones."""
    hooks = RewrittenHooks(tmp_path)
    for _ in range(2):
        assert hooks.begin("Read", "a")
        hooks.ran("Read", "a")
    assert not hooks.begin("Read", "a")

    hooks.end()

    assert hooks.late() == [("a", True)]
