"""Hooks whose contracts count in a store that all sessions share: real processes, one for each event."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.cli import main

HOOK = [sys.executable, "-m", "openbox_agentrt.cli", "hook"]
RULES = """\
contracts:
  - {template: at_most_n_times, args: [Deploy, 1], scope: fleet, per: day}
  - {template: must_precede, args: [Review, Deploy], scope: fleet, within: 3600}
  - {template: at_most_n_times, args: [Deploy, 9]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.yaml").write_text(RULES)
    return tmp_path


def hook(
    folder: Path, name: str, event: str, session: str, tool: str, *, fleet: bool = True
) -> subprocess.CompletedProcess[str]:
    data = {
        "session_id": session,
        "cwd": str(folder),
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": {"to": "production"},
        "tool_use_id": f"toolu_{tool}",
    }
    if event == "PostToolUse":
        data["tool_response"] = {"ok": True}
    options = ["--rules", str(folder / "rules.yaml"), "--state-dir", str(folder / "state")]
    store = ["--fleet", f"sqlite:///{folder}/fleet.db"] if fleet else []
    environ = {key: value for key, value in os.environ.items() if key != "OPENBOX_AGENTRT_FLEET"}
    return subprocess.run(
        [*HOOK, name, *options, *store],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        env=environ,
        timeout=50,
        check=False,
    )


def refusal(process: subprocess.CompletedProcess[str]) -> str | None:
    assert process.returncode == 0, process.stderr
    if not process.stdout:
        return None
    said: dict[str, Any] = json.loads(process.stdout)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    return str(said["permissionDecisionReason"])


def test_sessions_share_what_the_fleet_counts(folder: Path) -> None:
    """A review in one session allows a deployment in another, once a day for all of them."""
    too_early = refusal(hook(folder, "pre", "PreToolUse", "s1", "Deploy"))
    assert refusal(hook(folder, "pre", "PreToolUse", "s1", "Review")) is None
    assert hook(folder, "post", "PostToolUse", "s1", "Review").returncode == 0
    first = refusal(hook(folder, "pre", "PreToolUse", "s2", "Deploy"))
    assert hook(folder, "post", "PostToolUse", "s2", "Deploy").returncode == 0
    second = refusal(hook(folder, "pre", "PreToolUse", "s3", "Deploy"))

    assert too_early is not None
    assert "needs Review" in too_early
    assert first is None
    assert second is not None
    assert "0 left of 1 today, free again at 00:00 UTC" in second


def test_without_the_store_the_call_is_denied(folder: Path) -> None:
    """A limit that nobody counts would be none."""
    process = hook(folder, "pre", "PreToolUse", "s1", "Review", fleet=False)

    assert process.returncode == 2
    assert "the rules have contracts with scope: fleet, and no store is given; --fleet URL" in process.stderr


def test_a_session_that_a_person_halted_is_denied_until_it_is_lifted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for calls that no contract is about; what is halted is asked each time."""
    monkeypatch.chdir(folder)
    said = ["--reason", "it runs wild", "--by", "ops-lead", "--fleet", f"sqlite:///{folder}/fleet.db"]
    assert main(["halt", "--session", "s1", *said]) == 0
    halted = refusal(hook(folder, "pre", "PreToolUse", "s1", "Read"))
    assert main(["halt", "--session", "s1", "--lift", *said]) == 0
    lifted = refusal(hook(folder, "pre", "PreToolUse", "s1", "Grep"))

    assert halted is not None
    assert "it runs wild (halted by ops-lead)" in halted
    assert lifted is None
