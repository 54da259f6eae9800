"""The hooks of Claude Code, each a process: processor time, and how often `python -c pass` that is."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from .tables import Row, Table
from .timing import spread

BARE = "python -c pass"
RULES = """
contracts:
  - template: must_precede
    args: [Test, {tool: Bash, matches: "git (commit|push)"}]
  - template: at_most_n_times
    args: [Deploy]
    kwargs: {n: 1000000}
  - template: at_most_n_times
    args: [Never]
    kwargs: {n: 0}
  - template: at_most_total
    args: [Pay, amount, 1000000]
"""
EVENTS = {
    "hook pre, no contract is about the tool": ("pre", "PreToolUse", "Read"),
    "hook pre, no contract is about the call": ("pre", "PreToolUse", "Bash"),
    "hook pre, certain by counts": ("pre", "PreToolUse", "Deploy"),
    "hook pre, judged by the engine": ("pre", "PreToolUse", "Pay"),
    "hook pre, refused": ("pre", "PreToolUse", "Never"),
    "hook pre, refused, signed": ("pre", "PreToolUse", "Never"),
    "hook post": ("post", "PostToolUse", "Read"),
}


def measure(quick: bool) -> Table:
    """Run the hooks in turns, over one session whose rules were read before."""
    taken: dict[str, list[float]] = {name: [] for name in (BARE, *EVENTS)}
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.yaml")
        rules.write_text(RULES)
        for name in EVENTS:
            _hook(folder, name)
        for _ in range(1 if quick else 40):
            taken[BARE].append(_processor_time(["-c", "pass"], b""))
            for name in EVENTS:
                taken[name].append(_hook(folder, name))
    spreads = {name: spread(samples) for name, samples in taken.items()}
    bare = spreads[BARE].median
    rows: list[Row] = [
        (name, "process", found.median, found.p95, found.median / bare) for name, found in spreads.items()
    ]
    return Table(
        name="hooks",
        title="Claude Code hooks",
        columns=("case", "who", "median ms of processor time", "p95 ms", f"times {BARE}"),
        rows=rows,
    )


def _hook(folder: str, name: str) -> float:
    command, event, tool = EVENTS[name]
    data = {
        "session_id": "signed" if "signed" in name else "s",
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": {"command": "ls", "amount": 1},
    }
    rules = [] if command == "post" else ["--rules", str(Path(folder, "rules.yaml"))]
    state = ["--state-dir", str(Path(folder, "state"))]
    if "signed" in name:
        state += ["--key", str(Path(folder, "keys", "key"))]
    script = str(Path(sys.executable).with_name("openbox-agentrt"))
    return _processor_time([script, "hook", command, *rules, *state], json.dumps(data).encode())


def _processor_time(arguments: list[str], data: bytes) -> float:
    # As an installed package has it: what was compiled once is not compiled again.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], input=data, check=True, stdout=subprocess.DEVNULL, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3
