"""diff: what a change of a rules file changes, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbox_agentrt.cli import main

OLD = "contracts: [{template: at_most_total, args: [refund, amount, 500], id: cap}]\n"
NEW = "contracts:\n  - {template: at_most_total, args: [refund, amount, 400], id: cap}\n"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.yaml").write_text(OLD)
    Path("new.yaml").write_text(NEW)


def test_a_change_is_told_with_the_call_that_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """The words come first, then the first call on which the two part."""
    assert main(["diff", "old.yaml", "new.yaml"]) == 1

    assert capsys.readouterr().out.splitlines() == [
        "changed: cap: limit 500 -> 400",
        "new refuses, and old allows: refund(amount=401) refused by cap",
    ]


def test_a_file_in_another_form_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """How a file is written does not matter."""
    form = {"template": "at_most_total", "kwargs": {"tool": "refund", "field": "amount", "limit": 500.0}}
    Path("new.json").write_text(json.dumps({"contracts": [{**form, "id": "cap"}]}))

    assert main(["diff", "old.yaml", "new.json"]) == 0
    assert "say the same" in capsys.readouterr().out


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Traces and changes are data."""
    assert main(["diff", "old.yaml", "new.yaml", "--json"]) == 1

    said = json.loads(capsys.readouterr().out)
    assert said["changed"] == [{"name": "cap", "words": ["limit 500 -> 400"]}]
    assert said["new_refuses"][-1]["args"] == {"amount": 401}
    assert said["new_allows"] is None


def test_a_missing_file_is_an_input_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It is one line, and the exit code is 2."""
    assert main(["diff", "old.yaml", "none.yaml"]) == 2
    assert "none.yaml" in capsys.readouterr().err
