"""Steps in the evidence of governed runs, and what follows from them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import GovernanceError
from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, must_precede
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.errors import OptionError
from openbox_agentrt.evidence import EvidenceFile, EvidenceLog, read_entries, verify_file

RULES = (must_precede("backup", "delete"), at_most_total("pay", "amount", 100), at_most_n_times("send", 2))


async def call(stage: Any, tool: str, args: dict[str, Any], *, fails: bool = False) -> bool:
    """One governed call; tells whether it ran."""
    try:
        async with stage.governance.activity(tool, args):
            if fails:
                raise LookupError("it failed")
    except (GovernanceError, LookupError):
        return fails
    return True


async def test_the_decisions_of_a_run_follow_from_its_log(make_stage: Any, tmp_path: Path) -> None:
    """Calls that are allowed, refused, failed and cancelled, side by side."""
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(contracts=RULES, evidence=path, record="steps")

    async with stage.governance.run_scope():
        assert not await call(stage, "delete", {"id": 1})
        assert await call(stage, "backup", {})
        assert await call(stage, "delete", {"id": 1})
        await asyncio.gather(*[call(stage, "pay", {"amount": 30}) for _ in range(5)])
        await call(stage, "send", {"to": "ann"}, fails=True)
        task = asyncio.ensure_future(call(stage, "send", {"to": "bob"}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not await call(stage, "pay", {"amount": 30})
    await stage.governance.aclose()

    report = rerun_file(path)
    assert verify_file(path).ok
    assert (report.differences, report.problems) == ((), ())
    assert report.derived >= 10
    assert report.sessions == 1
    assert report.on_core > 0


async def test_what_core_redacts_is_in_no_step(make_stage: Any, tmp_path: Path) -> None:
    """Contracts are asked before Core is, so arguments are written down with the end of a call."""
    path = tmp_path / "evidence.jsonl"

    def redact(event: Any) -> dict[str, Any]:
        if event["event_type"] != "ActivityStarted" or event["activity_type"] != "pay":
            return {"verdict": "allow"}
        redacted = [{"amount": 30, "card": "hidden"}]
        guardrails = {"input_type": "activity_input", "redacted_input": redacted, "validation_passed": True}
        return {"verdict": "allow", "guardrails_result": guardrails}

    stage = await make_stage(redact, contracts=RULES, evidence=path, record="steps")
    async with stage.governance.run_scope():
        assert await call(stage, "pay", {"amount": 30, "card": "4111-1111"})
    await stage.governance.aclose()

    steps = [entry.data for entry in read_entries(path) if entry.type == "step"]
    ends = [step for step in steps if step["e"] == "commit" and step["tool"] == "pay"]
    assert [step["args"] for step in ends] == [{"amount": 30, "card": "hidden"}]
    assert "4111-1111" not in path.read_text(encoding="utf-8")
    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert report.not_derivable == 1


async def test_a_file_of_ones_own_has_to_keep_steps(make_stage: Any, tmp_path: Path) -> None:
    """What cannot keep them is refused when the governance is made."""
    file = EvidenceFile(tmp_path / "e.jsonl", record="all")
    with file, pytest.raises(OptionError, match="keeps none"):
        await make_stage(contracts=RULES, evidence=file, record="steps")
    with pytest.raises(OptionError, match="an evidence file keeps"):
        await make_stage(contracts=RULES, evidence=EvidenceLog(), record="steps")


def test_steps_of_several_sessions_in_one_file(tmp_path: Path) -> None:
    """Each is followed by itself, and their rules stand there once."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as file:
        sessions = [
            Session(contracts=RULES, evidence=file.for_session(name), session_id=name) for name in ("a", "b")
        ]
        for _ in range(3):
            for session in sessions:
                session.reserve("send", {"to": "ann"})

    entries = list(read_entries(path))
    assert [entry.session_id for entry in entries if entry.data.get("e") == "start"] == ["a", "b"]
    assert sum(entry.type == "rules" for entry in entries) == 1
    report = rerun_file(path)
    assert (report.differences, report.derived, report.sessions) == ((), 6, 2)
    assert json.loads(json.dumps(report.to_dict()))["ok"] is True
