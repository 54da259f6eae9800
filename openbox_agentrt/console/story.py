"""Tell a run: what was asked, who judged it, how long that took, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..local_core.approvals import Approval
from ..local_core.reading import RunRow
from ..local_core.records import Record
from . import values, words
from .evidence_log import FollowedLog
from .sources import Sources
from .steps import WORDS, Judge, Kind, Step, Story, Unblock
from .values import Piece

MOST_EVENTS = 2_000
"""So many events of a run are read; a longer one is told up to there, and says so."""

_SHOWN = 160
_NAMED = 30


def tell(sources: Sources, run: RunRow) -> Story:
    """Tell a run by what Core was told of it, and by what its evidence says."""
    records = sources.reader.records(run, limit=MOST_EVENTS)
    approvals = {one.activity_id: one for one in sources.reader.approvals_of(run)}
    now = sources.now()
    steps: dict[str, Step] = {}
    told_of: list[Step] = []
    ended = ""
    for record in records:
        event = sources.shown(record.event)
        kind = event["event_type"]
        if kind == "SignalReceived" and event.get("signal_name") != "user_prompt":
            told_of += _told_of(record, event)
        elif kind == "SignalReceived":
            steps[f"signal {record.seq}"] = _prompt(sources, record, event)
        elif kind == "ActivityStarted":
            steps[str(event["activity_id"])] = _started(sources, record, event)
        elif kind == "ActivityCompleted" and str(event["activity_id"]) in steps:
            _completed(steps[str(event["activity_id"])], event)
        elif kind in ("WorkflowCompleted", "WorkflowFailed"):
            ended = _ended(event)
    logs = []
    for log in sources.logs:
        decisions = log.decisions_of(run.run_id)
        if decisions:
            logs.append(log.name)
            _join(sources, steps, log, decisions)
    if not any(step.unblock for step in steps.values()):
        # Without evidence, all that is known of them is what Core was told.
        steps |= {f"told {place}": step for place, step in enumerate(told_of)}
    for step in steps.values():
        _settle(step, approvals.get(step.activity_id), run, now)
    told = sorted(steps.values(), key=lambda step: step.at)
    return Story(run=run, steps=told, cut=len(records) == MOST_EVENTS, ended=ended, logs=tuple(logs))


def _told_of(record: Record, event: Mapping[str, Any]) -> list[Step]:
    """Tell of a call that contracts refused, by the signal with which Core was told of it."""
    violation = event.get("contract_violation")
    if not isinstance(violation, dict) or not violation.get("enforced"):
        return []
    name = str(violation.get("event", ""))
    kinds: dict[str, Kind] = {"user_prompt": "prompt", "llm_call": "model"}
    reason = str(violation.get("reason") or "")
    step = Step(
        at=record.received_at,
        kind=kinds.get(name, "tool"),
        name=name,
        verdict="block",
        reason=reason,
        unblock=[Unblock(contract=str(one), reason=reason) for one in violation.get("contracts") or ()],
    )
    step.judges.append(Judge(name="contracts", said="block", verdict="block"))
    return [step]


def _prompt(sources: Sources, record: Record, event: Mapping[str, Any]) -> Step:
    said = event.get("signal_args") or ("",)
    return Step(
        at=record.received_at,
        kind="prompt",
        name="user_prompt",
        said=values.some(values.text_of(said[0] if len(said) == 1 else said), 600),
        **_answer(sources, record),
    )


def _started(sources: Sources, record: Record, event: Mapping[str, Any]) -> Step:
    name = str(event["activity_type"])
    given = values.named_values(event)
    kind: Kind = "model" if name == "llm_call" else "tool"
    return Step(
        at=record.received_at,
        kind=kind,
        name=name,
        activity_id=str(event["activity_id"]),
        call=() if kind == "model" else _call(given),
        title=values.title_of(given),
        **_answer(sources, record),
    )


def _answer(sources: Sources, record: Record) -> dict[str, Any]:
    answer = sources.shown(record.answer)
    verdict = str(answer.get("verdict", ""))
    guardrails = answer.get("guardrails_result")
    notes = []
    if isinstance(guardrails, dict):
        reasons = guardrails.get("reasons") or []
        said = "; ".join(
            str(one.get("reason", one)) if isinstance(one, dict) else str(one) for one in reasons
        )
        if guardrails.get("validation_passed") is False:
            notes.append(
                f"Guardrails did not let it pass: {said}." if said else "Guardrails did not let it pass."
            )
            verdict = "block" if verdict != "halt" else verdict
        elif "redacted_input" in guardrails and guardrails["redacted_input"] is not None:
            notes.append(f"Core replaced a part of it ({said}). What follows sees the replacement.")
    constraints = answer.get("constraints")
    if isinstance(constraints, list) and constraints:
        notes.append(f"Runs inside {', '.join(map(str, constraints))}.")
    patch = answer.get("patch")
    proposed = patch.get("new_input") if isinstance(patch, dict) else None
    return {
        "verdict": verdict,
        "reason": str(answer.get("reason") or ""),
        "policy": str(answer.get("policy_id") or ""),
        "notes": notes,
        "proposes": () if proposed is None else values.some(values.text_of(proposed), 400),
        "asked_core": True,
    }


def _completed(step: Step, event: Mapping[str, Any]) -> None:
    status = event.get("status")
    duration = event.get("duration_ms")
    step.took = duration / 1000 if isinstance(duration, int | float) else None
    if not step.stopped:
        step.outcome = "ran" if status == "completed" else "failed"
    output = event.get("activity_output")
    if step.kind == "model" and isinstance(output, dict):
        tokens = output.get("total_tokens")
        step.tokens = tokens if isinstance(tokens, int) else None
        step.asks_for_calls = bool(output.get("has_tool_calls"))
        if output.get("completion"):
            step.said = values.some(str(output["completion"]), 400)
    elif output is not None and step.kind == "tool":
        step.out = values.some(values.text_of(output) if isinstance(output, str) else _json(output), 400)
    error = event.get("error")
    if isinstance(error, dict) and not step.stopped:
        step.notes.append(f"{error.get('type', 'Error')}: {str(error.get('message', ''))[:300]}")


def _ended(event: Mapping[str, Any]) -> str:
    if event["event_type"] == "WorkflowCompleted":
        return str(event.get("status") or "completed")
    error = event.get("error")
    return f"failed with {error.get('type')}" if isinstance(error, dict) else "failed"


def _join(sources: Sources, steps: dict[str, Step], log: FollowedLog, decisions: Sequence[Any]) -> None:
    """Add what the evidence says: who judged and how long, and calls that Core was not asked about."""
    prompts = [step for step in steps.values() if step.kind == "prompt"]
    for line in decisions:
        if line.parsed is None:
            continue  # the log was changed since it was read: verification says so
        data = sources.shown(line.parsed.data())
        activity = str(data.get("activity_id") or "")
        step = steps.get(activity)
        if step is None and data.get("event") == "user_prompt" and prompts:
            step = prompts.pop(0)
        if step is None and data.get("event") in ("run_started", "run_ended", "session_ended"):
            continue
        session, place = line.parsed.session, data.get("step")
        broken = log.violations_at(session, place) if isinstance(place, int) else []
        if step is None:
            step = steps[activity or f"line {line.number}"] = _unasked(sources, line, data, broken)
        _judged(step, data, broken, line.number)


def _unasked(sources: Sources, line: Any, data: Mapping[str, Any], broken: Sequence[Any]) -> Step:
    name = str(data.get("event", ""))
    kinds: dict[str, Kind] = {"user_prompt": "prompt", "llm_call": "model"}
    given: Any = next((one.parsed.data().get("args") for one in broken if one.parsed is not None), None)
    shown = tuple(sources.shown(given).items()) if isinstance(given, dict) else ()
    return Step(
        at=words.moment_of(line.parsed.time),
        kind=kinds.get(name, "tool"),
        name=name,
        activity_id=str(data.get("activity_id") or ""),
        verdict=str(data.get("verdict", "")),
        reason=str(data.get("reason") or ""),
        call=_call(shown) if name not in kinds else (),
        title=values.title_of(shown),
    )


def _judged(step: Step, data: Mapping[str, Any], broken: Iterable[Any], number: int) -> None:
    step.contracts_seconds = _seconds(data, "acel_seconds")
    step.core_seconds = _seconds(data, "core_seconds")
    step.asked_contracts = data.get("acel") is not None
    step.verdict = str(data.get("verdict", step.verdict))
    if data.get("unreachable") is True and not step.stopped:
        step.outcome = "ran ungoverned"
    if step.stopped and data.get("reason"):
        step.reason = str(data["reason"])
    for line in broken:
        found = {} if line.parsed is None else line.parsed.data()
        after = found.get("retry_after")
        step.unblock.append(
            Unblock(
                contract=str(found.get("spec", "")),
                id=str(found.get("id") or ""),
                needs=str(found.get("needs") or ""),
                remaining=str(found.get("remaining") or ""),
                retry_after=float(after) if isinstance(after, int | float) else None,
                remedy=str(found.get("remedy") or ""),
                shadow=found.get("mode") == "shadow",
            )
        )


def _settle(step: Step, approval: Approval | None, run: RunRow, now: float) -> None:
    """Say who was asked, in order, and what became of it."""
    refused_here = step.stopped and any(not one.shadow for one in step.unblock)
    if step.asked_contracts:
        said = "block" if refused_here else "allow"
        step.judges.append(
            Judge(name="contracts", said=said, took=words.lasting(step.contracts_seconds), verdict=said)
        )
    if step.asked_core and step.kind != "end":
        said = "require_approval" if approval is not None else step.verdict
        took = words.lasting(step.core_seconds) if step.core_seconds else ""
        step.judges.append(Judge(name="Core", said=WORDS.get(said, said).lower(), took=took, verdict=said))
    elif step.outcome == "ran ungoverned":
        took = words.lasting(step.core_seconds)
        step.judges.append(Judge(name="Core", said="did not answer", took=took, verdict="alarm"))
    elif refused_here:
        step.judges.append(Judge(name="Core", said="was not asked", off=True))
    if approval is not None:
        _person(step, approval, now)
    if step.stopped:
        step.outcome = "did not run"
    elif not step.outcome and step.kind != "prompt":
        step.outcome = "is running" if run.open else ""


def _person(step: Step, approval: Approval, now: float) -> None:
    state = approval.as_of(now)
    until = approval.decided_at or (approval.expires_at if state == "expired" else now) or now
    step.approval = approval
    step.person_seconds = max(0.0, until - approval.created_at)
    took = words.left(step.person_seconds)
    name = approval.decided_by or "a person"
    if state == "pending":
        step.outcome, step.verdict = "waits", "require_approval"
        step.judges.append(Judge(name="a person", said="waits", took=took, verdict="wait"))
    elif state == "approved":
        step.judges.append(Judge(name=name, said="approved", took=took, verdict="allow"))
    elif state == "rejected":
        step.verdict, step.outcome = "block", "did not run"
        step.judges.append(Judge(name=name, said="rejected", took=took, verdict="block"))
    else:
        step.verdict, step.outcome = "block", "did not run"
        step.judges.append(Judge(name="nobody", said="answered in time", took=took, verdict="wait"))


def _call(given: Sequence[tuple[str, Any]]) -> tuple[Piece, ...]:
    found: list[Piece] = []
    for place, (name, value) in enumerate(given[:_NAMED]):
        gap = " " if place else ""
        found += [Piece(kind="text", text=gap), *values.some(name, _SHOWN), Piece(kind="text", text="=")]
        found += values.some(_json(value), _SHOWN) if not isinstance(value, str) else _text(value)
    if len(given) > _NAMED:
        found.append(Piece(kind="text", text=f" and {len(given) - _NAMED:,} more"))
    return tuple(found)


def _text(value: str) -> tuple[Piece, ...]:
    if len(value) <= _SHOWN:
        return values.json_pieces(value)
    return values.some(value, _SHOWN)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _seconds(data: Mapping[str, Any], name: str) -> float:
    value = data.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
