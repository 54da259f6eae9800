"""An audit of hook sessions from their folder, with the command line as it is installed: real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CLI = [sys.executable, "-m", "openbox_agentrt.cli"]
RULES = """\
contracts:
  - {template: must_precede, args: [Review, Deploy]}
  - {template: at_most_n_times, args: [Deploy, 1], scope: fleet, per: day}
"""


def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OPENBOX_")}
    return subprocess.run(
        [*CLI, *words], input=given, capture_output=True, text=True, env=environ, timeout=50, check=False
    )


def test_one_command_each_answers_from_the_folder(tmp_path: Path) -> None:
    """Two sessions with a store, signed: shown, counted, verified and derived again; a change is found."""
    (tmp_path / "rules.yaml").write_text(RULES)
    state = tmp_path / "state"
    options = ["--rules", str(tmp_path / "rules.yaml"), "--state-dir", str(state), "--record", "steps"]
    options += ["--key", str(tmp_path / "k.key"), "--fleet", f"sqlite:///{tmp_path}/fleet.db"]

    def hook(name: str, event: str, session: str, **fields: Any) -> str:
        said = {"session_id": session, "hook_event_name": event, "cwd": str(tmp_path), **fields}
        process = run("hook", name, *options, given=json.dumps(said))
        assert process.returncode == 0, process.stderr
        return process.stdout

    def call(session: str, tool: str) -> bool:
        about = {"tool_name": tool, "tool_input": {"to": "prod"}, "tool_use_id": f"t-{tool}"}
        refused = hook("pre", "PreToolUse", session, **about)
        if not refused:
            hook("post", "PostToolUse", session, tool_response="ok", **about)
        return not refused

    assert [call("s-1", "Review"), call("s-1", "Deploy")] == [True, True]
    hook("end", "SessionEnd", "s-1", reason="exit")
    assert [call("s-2", "Review"), call("s-2", "Deploy")] == [True, False]
    hook("end", "SessionEnd", "s-2", reason="exit")

    shown = run("evidence", "show", str(state))
    assert shown.returncode == 0, shown.stderr
    assert "4 call(s), 1 refused, in 2 log(s)" in shown.stderr
    report = run("evidence", "report", str(state))
    assert report.returncode == 0, report.stderr
    assert "1 refused by contracts in force" in report.stdout
    (key, *_) = sorted(state.glob("*.evidence.jsonl.pub"))
    verified = run("evidence", "verify", str(state), "--rerun", "--key", str(key))
    assert (verified.returncode, verified.stderr) == (0, "")
    assert verified.stdout.count("0 differ") == 2
    assert "1 grant(s) of the fleet's store, 0 contradict(s)" in verified.stdout

    changed = next(log for log in state.glob("*.evidence.jsonl") if '"session":"s-2"' in log.read_text())
    changed.write_text(changed.read_text().replace('"allowed":false', '"allowed":true', 1))
    found = run("evidence", "verify", str(state), "--rerun", "--key", str(key))
    assert found.returncode == 1
    assert "FAIL" in found.stderr + found.stdout
