"""Steps in the evidence of governed runs, and what follows from them."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import GovernanceError, GovernanceHaltError
from openbox_agentrt.acel import (
    Session,
    any_of,
    at_most_n_times,
    at_most_total,
    matching,
    max_distinct,
    must_precede,
)
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.cli import main
from openbox_agentrt.errors import OptionError
from openbox_agentrt.evidence import EvidenceFile, EvidenceLog, read_entries, verify_file
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.logs import merged_entries
from openbox_agentrt.fleet import SqliteFleet

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


async def test_a_log_of_runs_without_contracts_has_nothing_to_derive(
    make_stage: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is fine and is said, alone and beside others; not where certain rules were asked for."""
    for name, contracts in (("without", ()), ("with", RULES)):
        stage = await make_stage(
            evidence=tmp_path / name / "e.jsonl",
            record="steps",
            **({"contracts": contracts} if contracts else {}),
        )
        async with stage.governance.run_scope():
            assert await call(stage, "backup", {})
        await stage.governance.aclose()
    without, rules = str(tmp_path / "without" / "e.jsonl"), tmp_path / "rules.json"
    rules.write_text('{"contracts": [{"template": "must_precede", "args": ["a", "b"]}]}', encoding="utf-8")

    assert main(["verify", "--rerun", without]) == 0
    assert "no contract has judged anything" in capsys.readouterr().out
    assert main(["verify", "--rerun", str(tmp_path)]) == 0
    assert main(["verify", "--rerun", "--rules", str(rules), without]) == 1
    assert not rerun_file(tmp_path / "with" / "e.jsonl").nothing_judged


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


def answering(answer: dict[str, Any]) -> Any:
    """A policy that gives starts of `pay` this answer."""

    def policy(event: Any) -> dict[str, Any]:
        asked = event["event_type"] == "ActivityStarted" and event["activity_type"] == "pay"
        return answer if asked else {"verdict": "allow"}

    return policy


def guarded(verdict: str, redacted: Any = None, *, passed: bool = True) -> dict[str, Any]:
    guardrails = {"input_type": "activity_input", "validation_passed": passed}
    return {
        "verdict": verdict,
        "guardrails_result": guardrails if redacted is None else {**guardrails, "redacted_input": [redacted]},
    }


CARD = "4111-1111"
SEEN = {"amount": 30, "card": CARD}
CLEAN = {"amount": 30, "card": "hidden"}


@pytest.mark.parametrize(
    ("answer", "args"),
    [
        pytest.param({"verdict": "block"}, SEEN, id="blocked"),
        pytest.param({"verdict": "halt"}, SEEN, id="halted"),
        pytest.param({"verdict": "constrain", "constraints": ["run_in_sandbox"]}, SEEN, id="constrained"),
        pytest.param(guarded("block", CLEAN), CLEAN, id="blocked and redacted"),
        pytest.param(guarded("block", [1, 2]), None, id="a redaction that does not fit"),
        pytest.param(guarded("allow", passed=False), None, id="failed guardrails"),
    ],
)
async def test_a_log_shows_what_core_refused(
    make_stage: Any, tmp_path: Path, answer: dict[str, Any], args: dict[str, Any] | None
) -> None:
    """With its arguments, without what must not be seen of them; and its decision still follows."""
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(answering(answer), contracts=RULES, evidence=path, record="steps")
    try:
        async with stage.governance.run_scope():
            assert not await call(stage, "pay", dict(SEEN))
    except GovernanceHaltError:
        assert answer["verdict"] == "halt"
    await stage.governance.aclose()

    (shown,) = [one for one in calls_in(merged_entries([path])) if one.tool == "pay"]
    text = path.read_text(encoding="utf-8")
    assert shown.refused
    assert shown.outcome == "did not run"
    assert (CARD in text) == (args is SEEN)
    if args is None:
        assert list(shown.args) == ["input"]
    else:
        assert shown.args == args
    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert report.not_derivable == (args is not SEEN)


async def test_a_log_shows_what_a_person_rejected(make_stage: Any, tmp_path: Path) -> None:
    """With its arguments, and who it was."""
    path = tmp_path / "evidence.jsonl"
    stage = await make_stage(
        answering({"verdict": "require_approval"}),
        contracts=RULES,
        evidence=path,
        record="steps",
        approval_poll_interval_ms=10,
    )
    async with stage.governance.run_scope():
        asking = asyncio.create_task(call(stage, "pay", dict(SEEN)))
        stage.core.reject(await stage.core.await_approval(), note="too much", by="ann")
        assert not await asking
    await stage.governance.aclose()

    (shown,) = [one for one in calls_in(merged_entries([path])) if one.tool == "pay"]
    assert (shown.args, shown.approver, shown.why) == (SEEN, "ann", "too much")
    assert shown.by == "person (rejected)"


async def test_what_nobody_has_judged_is_not_shown(make_stage: Any, tmp_path: Path) -> None:
    """Core might have redacted something."""
    path = tmp_path / "evidence.jsonl"

    class Down:
        def handle(self, method: str, path: str, headers: Any, body: bytes) -> Any:
            raise ConnectionError("no Core")

    stage = await make_stage(core=Down(), validate=False, contracts=RULES, evidence=path, record="steps")
    async with stage.governance.run_scope():
        assert not await call(stage, "pay", dict(SEEN))
    await stage.governance.aclose()

    assert CARD not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("rule", "hidden", "said"),
    [
        pytest.param(at_most_total("pay", "order.amount", 5), ["amount"], "order.amount", id="an amount"),
        pytest.param(at_most_total("pay", "order.amount", 5), ["order"], "order.amount", id="around it"),
        pytest.param(at_most_n_times(matching("pay", "eve", field="to"), 1), ["t*"], "to", id="a pattern"),
        pytest.param(
            must_precede(any_of("a", matching("pay", "eve", field="to")), "b"), ["to"], "to", id="inside"
        ),
        pytest.param(
            at_most_n_times("pay", 1, except_=matching("pay", "eve", field="to")), ["to"], "to", id="except"
        ),
        pytest.param(at_most_n_times("pay", 1, key="card", fold="case"), ["card"], None, id="a folded key"),
        pytest.param(at_most_n_times("pay", 1, key="card"), ["card"], None, id="a key"),
        pytest.param(max_distinct("pay", "card", 3), ["card"], None, id="values that are told apart"),
        pytest.param(max_distinct("pay", "card", 3, fold="case"), ["card"], "card", id="folded values"),
        pytest.param(at_most_total("pay", "amount", 5), ["card"], None, id="something else"),
    ],
)
def test_what_cannot_be_derived_again_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rule: Any, hidden: list[str], said: str | None
) -> None:
    """When the rules are written down, once for each log."""
    with EvidenceFile(tmp_path / "e.jsonl", record="steps", redact_fields=hidden) as file:
        for name in ("one", "two"):
            Session(contracts=[rule], evidence=file.for_session(name), session_id=name).reserve("other", {})

    told = [record.getMessage() for record in caplog.records if "redacted here" in record.getMessage()]
    assert len(told) == (said is not None)
    assert said is None or f"needs {said!r}" in told[0]


async def test_a_log_shows_what_the_store_of_the_fleet_refused(make_stage: Any, tmp_path: Path) -> None:
    """With its arguments, as of a call that the session refuses: which refund was too much, and how much."""
    path = tmp_path / "evidence.jsonl"
    shared = at_most_total("pay", "amount", 100, scope="fleet", forever=True)
    with closing(SqliteFleet(tmp_path / "fleet.db", timeout_seconds=20)) as fleet:
        stage = await make_stage(contracts=[shared], evidence=path, record="steps", fleet=fleet)
        async with stage.governance.run_scope():
            assert await call(stage, "pay", {"amount": 60})
            assert not await call(stage, "pay", {"amount": 70})
        await stage.governance.aclose()

    paid, refused = (one for one in calls_in(merged_entries([path])) if one.tool == "pay")
    assert (paid.args, refused.args) == ({"amount": 60}, {"amount": 70})
    report = rerun_file(path)
    assert (report.differences, report.problems, report.not_derivable) == ((), (), 0)
