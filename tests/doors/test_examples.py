"""The examples of the doors do what they say, and what is to be pasted works as it stands."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_function_calling_example() -> None:
    """Two calls run; the others are answered with what is wrong with them."""
    lines = run("openai_function_calling_example.py")

    assert [line.partition(" ")[0] for line in lines] == [f"call_{n}" for n in range(1, 7)]
    assert "needs verify_customer" in lines[0]
    assert lines[1] == 'call_2 {"customer_id": "c1", "verified": true}'
    assert lines[2] == 'call_3 {"customer_id": "c1", "refunded": 120}'
    assert "380 left of 500" in lines[3]
    assert "'amount' is there twice" in lines[4]
    assert "there is no tool of this name" in lines[5]


def test_the_langchain_example() -> None:
    """Too early is an error message, and the same call is fine afterwards."""
    lines = run("langchain_agent_example.py")

    assert lines[0].startswith("call_1 error ")
    assert lines[1:] == ["call_2 success validated r1", "call_3 success deleted r1"]


# The configuration of Claude Code, run as Claude Code runs it.


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    (folder / ".claude").mkdir(parents=True)
    for name in ("settings.json", "rules.yaml"):
        (folder / ".claude" / name).write_text((EXAMPLES / "claude_code" / name).read_text())
    # The command as an installed package has it.
    script = tmp_path / "bin" / "openbox-agentrt"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m openbox_agentrt.cli "$@"\n')
    script.chmod(0o755)
    return folder


def fire(project: Path, event: str, **fields: Any) -> list[subprocess.CompletedProcess[str]]:
    """Run what the settings say for an event."""
    settings = json.loads((project / ".claude" / "settings.json").read_text())
    data = {"session_id": "s1", "cwd": str(project), "hook_event_name": event, **fields}
    return [
        subprocess.run(
            ["sh", "-c", hook["command"]],
            input=json.dumps(data),
            env=os.environ
            | {
                "CLAUDE_PROJECT_DIR": str(project),
                "PATH": f"{project.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "XDG_STATE_HOME": str(project.parent / "state"),
            },
            cwd=project,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        for group in settings["hooks"][event]
        for hook in group["hooks"]
    ]


def call(project: Path, number: int, tool: str, *, end: str = "PostToolUse", **args: Any) -> str | None:
    """A tool call of Claude; gives why it was denied."""
    fields = {"tool_name": tool, "tool_input": args, "tool_use_id": f"toolu_{number}"}
    (process,) = fire(project, "PreToolUse", **fields)
    assert process.returncode == 0, process.stderr
    if process.stdout:
        reason: str = json.loads(process.stdout)["hookSpecificOutput"]["permissionDecisionReason"]
        return reason
    (after,) = fire(project, end, **fields)
    assert (after.returncode, after.stdout, after.stderr) == (0, "", "")
    return None


def test_the_settings_of_claude_code_guard_a_session(project: Path) -> None:
    """From the first edit to the last report."""
    assert call(project, 1, "Edit", file_path="app.py", old_string="a", new_string="b") is None
    assert "run the tests" in str(call(project, 2, "Bash", command="git commit -am x"))
    assert call(project, 3, "Bash", end="PostToolUseFailure", command="pytest -q") is None
    assert "run the tests" in str(call(project, 4, "Bash", command="git commit -am x"))
    (stop,) = fire(project, "Stop", stop_hook_active=False)
    assert json.loads(stop.stdout)["decision"] == "block"
    assert call(project, 5, "Bash", command="pytest -q") is None
    assert call(project, 6, "Bash", command="git commit -am x") is None
    assert call(project, 7, "Bash", command="git push --force") is not None
    assert (
        call(project, 8, "Write", file_path=str(project / ".claude" / "rules.yaml"), content="") is not None
    )
    for event in ("Stop", "SessionEnd"):
        (end,) = fire(project, event)
        assert (end.returncode, end.stdout, end.stderr) == (0, "", "")

    assert not [path for path in project.rglob("*") if path.suffix in (".jsonl", ".snap")]
    assert (project.parent / "state" / "openbox-agentrt" / "hooks").is_dir()


def test_a_command_that_is_not_installed_denies(project: Path) -> None:
    """The shell's own exit code for that would let the call run."""
    (project.parent / "bin" / "openbox-agentrt").write_text("#!/bin/sh\nexit 127\n")

    (process,) = fire(project, "PreToolUse", tool_name="Read", tool_input={}, tool_use_id="t1")

    assert process.returncode == 2


def test_what_the_guide_says_to_paste_is_the_example() -> None:
    """One text in two places is one text."""
    guide = (ROOT / "docs" / "claude-code-hooks.md").read_text()

    assert (EXAMPLES / "claude_code" / "settings.json").read_text().strip() in guide
