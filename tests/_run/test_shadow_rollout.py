"""Contracts in shadow beside Core in force, and the report that says what enforcing would have refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import GovernanceBlockedError
from openbox_agentrt.cli import main

RULES = """
contracts:
  - template: must_precede
    args: [backup, delete]
    id: backup-first
  - template: at_most_total
    args: [refund, amount, 100]
    id: refund-budget
"""


def policy(event: Mapping[str, Any]) -> Any:
    starts = event["event_type"] == "ActivityStarted" and event["activity_type"] == "wire"
    return "BLOCK" if starts else None


@pytest.fixture
async def evidence(make_stage: Any, tmp_path: Path) -> Path:
    """The evidence of three runs in shadow: one is fine, two break contracts, and Core blocks a call."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES, encoding="utf-8")
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(
        policy, contracts=rules, contracts_mode="shadow", evidence=path, record="all", redact_fields=["card"]
    )

    async def act(activity: str, **arguments: Any) -> None:
        async with stage.governance.activity(activity, arguments):
            pass

    async with stage.governance.run_scope(session_id="fine"):
        await act("backup")
        await act("delete", record=1)
        with pytest.raises(GovernanceBlockedError):
            await act("wire")
    for session_id in ("one", "two"):
        async with stage.governance.run_scope(session_id=session_id):
            await act("delete", record=2)
            await act("refund", amount=60, card="4111 1111")
            await act("refund", amount=60, card="4111 1111")
    await stage.governance.aclose()
    return path


def test_the_report_says_what_enforcing_would_have_refused(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By contract, with examples; Core's own block is not one of them, and no secret is shown."""
    assert main(["report", str(evidence), "--json"]) == 0

    report = json.loads(capsys.readouterr().out)
    contracts = {contract["id"]: contract for contract in report["contracts"]}
    assert report["intact"] is True
    assert set(contracts) == {"backup-first", "refund-budget"}
    assert {c["would_refuse"] for c in contracts.values()} == {2}
    assert {c["refused"] for c in contracts.values()} == {0}
    assert {c["sessions"] for c in contracts.values()} == {2}
    assert contracts["backup-first"]["examples"][0]["tool"] == "delete"
    assert contracts["backup-first"]["examples"][0]["args"] == {"record": 2}
    assert contracts["refund-budget"]["examples"][0]["remaining"] == "40 left of 100"
    assert "4111 1111" not in evidence.read_text(encoding="utf-8")


def test_the_report_can_be_read(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as text."""
    assert main(["report", str(evidence)]) == 0

    shown = capsys.readouterr().out
    assert "0 refused by contracts in force, 4 that enforcing would have refused" in shown
    assert "(needs backup)" in shown


def test_the_evidence_of_a_rollout_verifies(evidence: Path) -> None:
    """Each decision and each violation is in the chain."""
    assert main(["verify", str(evidence)]) == 0
