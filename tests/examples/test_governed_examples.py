"""The examples of governed runs do what they say, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.local_core.server import running
from openbox_agentrt.testing import OpenAIServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBOX_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        env={**plain, **environ},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "support_agent.py",
            [
                "completed Refunded.",
                "refused: call to 'refund' refused",
            ],
            id="contracts and policy",
        ),
        pytest.param(
            "approvals.py",
            ["restarting web-1", "refused: 'restart' was rejected"],
            id="approvals",
        ),
        pytest.param(
            "custom_activities.py",
            ["published to team", "refused: 'publish' was blocked", "WorkflowCompleted"],
            id="custom activities",
        ),
    ],
)
def test_example_prints_what_it_promises(name: str, expected: list[str]) -> None:
    """An example runs without a network and without a key, and shows a refusal."""
    done = run(name)
    assert (done.returncode, done.stderr) == (0, "")
    for text in expected:
        assert text in done.stdout


def test_real_core_example_over_the_network() -> None:
    """The example for the real Core works against any server with its wire."""
    with LocalCore() as core, running(core) as url, OpenAIServer("I answer questions.") as model:
        done = run("real_core.py", "Hello?", **model.environ, OPENBOX_URL=url, OPENBOX_API_KEY=core.api_key)
        assert (done.returncode, done.stdout, done.stderr) == (0, "I answer questions.\n", "")
        assert [event["event_type"] for event in core.events()][-1] == "WorkflowCompleted"


def test_real_core_example_without_an_address() -> None:
    """A missing address is one line that names the option."""
    done = run("real_core.py")
    assert done.returncode == 2
    assert done.stderr.startswith("option 'api_url' is required; pass api_url=... or set OPENBOX_URL")
    assert done.stderr.count("\n") == 1
