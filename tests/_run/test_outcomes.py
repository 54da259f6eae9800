"""What a log says of a decision beside the verdict: about whom, of what arguments, and what became of it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import GovernanceError
from openbox_agentrt.acel import must_precede
from openbox_agentrt.evidence import read_entries, verify_file
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.canonical import canonical
from openbox_agentrt.evidence.logs import merged_entries
from openbox_agentrt.evidence.redaction.markers import keyed_digest

KEY = b"a key for all workers"


def bodies(path: Path, type: str) -> list[dict[str, Any]]:
    return [dict(entry.data) for entry in read_entries(path) if entry.type == type]


async def staged(make_stage: Any, path: Path, policy: Any = None, **options: Any) -> Any:
    given = () if policy is None else (policy,)
    rules = [must_precede("ask", "pay")]
    return await make_stage(
        *given, contracts=rules, evidence=path, redaction_key=KEY, **{"record": "all", **options}
    )


async def test_a_log_says_what_became_of_each_call(make_stage: Any, tmp_path: Path) -> None:
    """One that ran, one that failed, one that was cancelled in the middle, and one that was refused."""
    path = tmp_path / "e.jsonl"
    stage = await staged(make_stage, path)
    begun = asyncio.Event()

    async def forever() -> None:
        async with stage.governance.activity("wait", {"n": 3}):
            begun.set()
            await asyncio.Event().wait()

    async with stage.governance.run_scope(subject={"customer": "c-7"}):
        async with stage.governance.activity("read", {"n": 1}):
            pass
        with pytest.raises(LookupError):
            async with stage.governance.activity("read", {"n": 2}):
                raise LookupError("not there")
        waiting = asyncio.ensure_future(forever())
        await begun.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with pytest.raises(GovernanceError):
            async with stage.governance.activity("pay", {"n": 4}):
                pass
    await stage.governance.aclose()

    assert verify_file(path).ok
    said = ("event", "outcome", "began", "error")
    assert [tuple(body[name] for name in said) for body in bodies(path, "outcome")] == [
        ("read", "ran", True, None),
        ("read", "failed", True, "LookupError"),
        ("wait", "aborted", True, "CancelledError"),
    ]
    decisions = [body for body in bodies(path, "decision") if "arguments_digest" in body]
    assert [body["arguments_digest"] for body in decisions] == [
        keyed_digest({"n": number}, KEY) for number in (1, 2, 3, 4)
    ]
    assert all(body["subject"] == {"customer": "c-7"} for body in bodies(path, "decision"))
    calls = calls_in(merged_entries([path]))
    assert [(call.tool, call.outcome) for call in calls] == [
        ("read", "ok"),
        ("read", "failed"),
        ("wait", "aborted"),
        ("pay", "did not run"),
    ]
    assert calls[0].subject == {"customer": "c-7"}


async def test_a_digest_tells_who_has_the_key_and_nobody_else(make_stage: Any, tmp_path: Path) -> None:
    """It is an HMAC over the arguments as Core redacted them: what stood there before is in no log."""
    path = tmp_path / "e.jsonl"

    def redact(event: Any) -> dict[str, Any]:
        if event["event_type"] != "ActivityStarted":
            return {"verdict": "allow"}
        redacted = {"input_type": "activity_input", "redacted_input": [{"pin": "x"}]}
        return {"verdict": "allow", "guardrails_result": {**redacted, "validation_passed": True}}

    stage = await staged(make_stage, path, redact)
    async with stage.governance.run_scope(), stage.governance.activity("read", {"pin": "1234"}) as work:
        work.output = {"rows": 2}
    await stage.governance.aclose()

    (decision,) = [body for body in bodies(path, "decision") if body["event"] == "read"]
    seen = hmac.new(KEY, canonical({"pin": "x"}), hashlib.sha256).hexdigest()
    assert decision["arguments_digest"] == f"hmac-sha256:{seen}"
    (outcome,) = bodies(path, "outcome")
    assert outcome["result_digest"] == keyed_digest({"rows": 2}, KEY)
    assert hashlib.sha256(canonical({"pin": "x"})).hexdigest() not in path.read_text(encoding="utf-8")


async def test_an_output_that_core_withholds_is_withheld_in_the_log(make_stage: Any, tmp_path: Path) -> None:
    """It ran, and nobody got what it gave: the last outcome of a row counts."""
    path = tmp_path / "e.jsonl"

    def refuse_outputs(event: Any) -> dict[str, Any]:
        ended = event["event_type"] == "ActivityCompleted"
        return {"verdict": "block", "reason": "no"} if ended else {"verdict": "allow"}

    stage = await staged(make_stage, path, refuse_outputs, outputs="enforce")
    async with stage.governance.run_scope():
        async with stage.governance.activity("read", {}) as work:
            work.output = "secret"
        assert work.withheld
    await stage.governance.aclose()

    assert [body["outcome"] for body in bodies(path, "outcome")] == ["ran", "withheld"]
    assert [call.outcome for call in calls_in(merged_entries([path]))] == ["withheld"]


async def test_violations_alone_hold_none_of_it(make_stage: Any, tmp_path: Path) -> None:
    """Nobody asked for more, and nothing is computed for it."""
    path = tmp_path / "e.jsonl"
    stage = await staged(make_stage, path, record="violations")
    async with stage.governance.run_scope() as run, stage.governance.activity("read", {"n": 1}):
        pass
    await stage.governance.aclose()

    assert bodies(path, "outcome") == []
    assert {decision.arguments_digest for decision in run.decisions} == {None}
