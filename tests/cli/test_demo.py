"""``openbox-agentrt demo``: what a newcomer sees first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openbox_agentrt.cli import main
from openbox_agentrt.evidence import read_entries


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo prints, and where it leaves its evidence."""
    folder = tmp_path_factory.mktemp("demo")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBOX_", "OPENAI_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "openbox_agentrt.cli", "demo", "--keep", str(folder)],
        env={**plain, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, folder


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("llm_call     allow (redacted)", id="redaction"),
        pytest.param("model sees  Where is order 1042? My number is +", id="what the model saw"),
        pytest.param("waits       for a person: refund(order_id='1044', amount=180)", id="what waits"),
        pytest.param("because refunds over 100 need approval", id="why it waits"),
        pytest.param("person      Ada of support: approved (looked at the order)", id="who decided"),
        pytest.param("local_core/policy.rego   the policy", id="what to open next"),
        pytest.param("refund       allow (approved by a person)", id="approval"),
        pytest.param("refund       block by local contracts", id="spend cap"),
        pytest.param("280 left of 500", id="what is left"),
        pytest.param("delete       block by local contracts", id="no backup"),
        pytest.param("delete       allow", id="after the backup"),
        pytest.param("delete       block by core: this record is protected", id="core"),
        pytest.param("stopped: 'user_prompt' was blocked", id="prompt"),
        pytest.param("0 activities, 0 runs", id="nothing is open"),
        pytest.param("chain intact, head there and signed", id="evidence"),
    ],
)
def test_the_demo_shows(shown: tuple[str, Path], line: str) -> None:
    """Both judges, a person, a redaction, and evidence that verifies."""
    assert line in shown[0]


def test_the_command_that_verifies_can_be_run(shown: tuple[str, Path]) -> None:
    """As it is printed."""
    command = shown[0].partition("  $ ")[2].partition("\nOK")[0]

    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout[:2]) == (0, "OK"), command
    assert max(map(len, command.splitlines())) < 100


def test_the_files_to_open_next_are_there(shown: tuple[str, Path]) -> None:
    """Where the demo says that they are."""
    after = shown[0].partition("Open next")[2].split()
    folder = Path(after[after.index("in") + 1].rstrip(":"))

    assert [name for name in after if "/" in name and (folder / name).is_file()] == [
        "demo/rules.yaml",
        "local_core/policy.rego",
        "demo/play.py",
    ]


def test_the_personal_data_of_the_demo_is_nowhere_in_its_evidence(shown: tuple[str, Path]) -> None:
    """What Core redacts does not reach the log either."""
    recorded = [str(entry.data) for entry in read_entries(shown[1] / "evidence.jsonl")]

    assert len(recorded) > 30
    assert not any("202-555-0143" in text for text in recorded)


def test_an_own_model_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a model in the environment, --model says which variables to set."""
    for name in ("MODEL_PROVIDER", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)

    assert main(["demo", "--model"]) == 2

    assert capsys.readouterr().err.startswith("error: no model of your own: model provider environment")
