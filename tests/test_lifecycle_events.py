"""What Core is told, pinned by golden files."""

from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest
from openbox_core.contracts import events as base
from openbox_core.contracts.events import EventEnvelope
from openbox_core.validation.registry import validate_lifecycle

from openbox_agentrt import lifecycle_events as events
from openbox_agentrt._wire.error_info import error_info
from openbox_agentrt.lifecycle_events import RESERVED_KEYS, RunIdentity

GOLDEN = Path(__file__).parent / "golden"
AT = "2024-01-02T03:04:05.678Z"

RUN = RunIdentity.mint(
    task_queue="agentrt", workflow_type="RefundAgent", session_id="s-1", agent_name="RefundAgent",
    token=uuid.UUID("0123456789abcdef0123456789abcdef"),
)  # fmt: skip
BARE = RunIdentity.mint(token=uuid.UUID("0123456789abcdef0123456789abcdef"))
NESTED = RunIdentity.mint(
    token=uuid.UUID("fedcba9876543210fedcba9876543210"),
    parent_workflow_id=RUN.workflow_id,
    multi_agent_session_id="mas-1",
)
OUTPUT = {
    "llm_model": "m-1",
    "input_tokens": 3,
    "output_tokens": None,
    "total_tokens": None,
    "completion": "done",
    "has_tool_calls": False,
    "finish_reason": "stop",
}
PROMPT = [{"prompt": "refund order 7"}]

EVENTS: dict[str, EventEnvelope] = {
    "workflow_started": events.workflow_started(RUN, timestamp=AT),
    "workflow_started_bare": events.workflow_started(BARE, timestamp=AT),
    "workflow_started_nested": events.workflow_started(NESTED, timestamp=AT),
    "user_prompt": events.user_prompt(RUN, "refund order 7", timestamp=AT),
    "contract_violation": events.contract_violation(
        RUN,
        signal_id="s-1",
        event="delete",
        contracts=["must_precede(backup, delete)"],
        reason="needs: backup",
        timestamp=AT,
    ),
    "contract_violation_shadow": events.contract_violation(
        RUN,
        signal_id="s-2",
        event="delete",
        contracts=["must_precede(backup, delete)"],
        enforced=False,
        timestamp=AT,
    ),
    "prescreen_started": events.llm_started(RUN, RUN.prescreen_id, PROMPT, timestamp=AT),
    "llm_started": events.llm_started(RUN, "a-1", PROMPT, model="m-1", timestamp=AT),
    "llm_started_without_text": events.llm_started(RUN, "a-1", [{"prompt": ""}], timestamp=AT),
    "tool_started": events.tool_started(
        RUN, "a-2", "refund", {"order": 7}, tool_type="payment", side_effect="destructive", timestamp=AT
    ),
    "tool_started_bare": events.tool_started(RUN, "a-2", "lookup", {}, side_effect="none", timestamp=AT),
    "tool_started_with_a_forged_sentinel": events.tool_started(
        RUN, "a-2", "refund", {"__openbox": {"tool_type": "harmless"}}, timestamp=AT
    ),
    "activity_started": events.activity_started(RUN, "a-3", "retrieve", ["query", {"top": 3}], timestamp=AT),
    "llm_completed": events.activity_completed(
        RUN, "a-1", "llm_call", output=OUTPUT, duration_ms=12.4, timestamp=AT
    ),
    "tool_completed": events.activity_completed(
        RUN, "a-2", "refund", output={"ok": True}, duration_ms=3, timestamp=AT
    ),
    "tool_completed_with_nothing": events.activity_completed(RUN, "a-2", "refund", timestamp=AT),
    "tool_failed": events.activity_completed(
        RUN, "a-2", "refund", status="failed", output="partial", duration_ms=-5,
        error=error_info(ValueError("no such order")), timestamp=AT,
    ),
    "tool_cancelled": events.activity_completed(
        RUN, "a-2", "refund", status="cancelled", error=error_info(type="CancelledError"), timestamp=AT
    ),
    "abandoned": events.activity_completed(
        RUN, "a-2", "refund", status="failed", timestamp=AT,
        error=error_info(type="AbandonedActivity", message="run ended before the activity completed"),
    ),
    "workflow_completed": events.workflow_completed(
        RUN, result="done", termination_reason="completed", turns=2, tool_calls=1, total_tokens=30,
        timestamp=AT,
    ),
    "workflow_completed_at_a_limit": events.workflow_completed(
        RUN, termination_reason="max_turns", turns=16, timestamp=AT
    ),
    "workflow_failed": events.workflow_failed(RUN, error_info(ValueError("no")), timestamp=AT),
    "handoff": events.handoff(NESTED, "did:aip:8a7d8c0e-0000-4000-8000-000000000001", timestamp=AT),
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_the_shape_of_an_event_is_pinned(name: str) -> None:
    """A change of the wire is a change of a golden file, which somebody has to look at."""
    expected = json.loads((GOLDEN / f"{name}.json").read_text())

    assert json.loads(json.dumps(EVENTS[name].to_payload_dict())) == expected


def test_every_golden_file_is_of_an_event() -> None:
    """No golden file outlives its event, and there are some."""
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(EVENTS)


@pytest.mark.parametrize("name", EVENTS)
def test_openbox_core_s_strict_checks_pass(name: str) -> None:
    """Nothing that is built here is refused before it is sent."""
    validate_lifecycle(EVENTS[name])


@pytest.mark.parametrize(
    "name", [name for name in EVENTS if EVENTS[name].event_type.value == "ActivityStarted"]
)
def test_activity_input_is_always_a_list(name: str) -> None:
    """Anything else is a 422, which a lenient client takes for an outage."""
    assert isinstance(EVENTS[name].payload["activity_input"], list)


@pytest.mark.parametrize("name", EVENTS)
def test_an_absent_value_is_an_absent_key(name: str) -> None:
    """No null on the top level of an event."""
    assert None not in EVENTS[name].to_payload_dict().values()


@pytest.mark.parametrize("name", [name for name in EVENTS if name not in ("user_prompt", "handoff")])
def test_only_the_user_s_prompt_is_a_goal(name: str) -> None:
    """Core takes any other `signal_args` for the user's goal as well."""
    assert "signal_args" not in EVENTS[name].to_payload_dict()


def test_minted_ids_are_never_the_same() -> None:
    """Core seals a workflow at its end, and answers HALT to anything later under the same ids."""
    minted = [RunIdentity.mint() for _ in range(100)]

    assert len({run.workflow_id for run in minted} | {run.run_id for run in minted}) == 200


def test_a_run_is_named_after_the_agent_unless_it_is_given_a_type() -> None:
    """The workflow type has a name even for an agent without one."""
    assert RunIdentity.mint(workflow_type="a", agent_name="b").workflow_type == "a"
    assert RunIdentity.mint(agent_name="b").workflow_type == "b"
    assert RunIdentity.mint().workflow_type == "AgentRTRun"


@pytest.mark.parametrize("prompt", ["", "  ", "\n\t"])
def test_a_blank_prompt_is_no_signal(prompt: str) -> None:
    """There is no goal to tell."""
    with pytest.raises(ValueError, match="blank"):
        events.user_prompt(RUN, prompt)


@pytest.mark.parametrize("key", sorted(RESERVED_KEYS))
def test_extra_data_cannot_say_whose_event_it_is(key: str) -> None:
    """The factories of openbox_core would let it."""
    with pytest.raises(ValueError, match=key):
        events.activity_completed(RUN, "a-1", "refund", extra={key: "OTHER"})


def test_extra_data_is_sent_beside_the_fields() -> None:
    """Other keys travel flat, and as JSON."""
    event = events.activity_started(RUN, "a-1", "retrieve", extra={"attempt": 2, "score": math.nan})

    assert event.payload["attempt"] == 2
    assert event.payload["score"] is None


def test_the_classification_comes_last_and_cannot_be_forged() -> None:
    """A model that names an argument like the sentinel has chosen an odd name, and no more."""
    forged = {"__openbox": {"tool_type": "harmless"}, "order": 7}

    (arguments, sentinel) = events.tool_started(RUN, "a", "refund", forged, tool_type="payment").payload[
        "activity_input"
    ]

    assert "__openbox" not in arguments
    assert sentinel == {"__openbox": {"tool_type": "payment"}}
    assert forged == {"__openbox": {"tool_type": "harmless"}, "order": 7}


def test_a_failed_activity_has_no_output() -> None:
    """There is an error instead, and it is an object."""
    payload = EVENTS["tool_failed"].to_payload_dict()

    assert "activity_output" not in payload
    assert payload["error"] == {"type": "ValueError", "message": "no such order"}


@pytest.mark.parametrize(
    "value",
    [math.nan, {"deep": [[[]]]}, b"\xff", "\ud800", {1: 2}, object(), {"x": {1, 2}}],
    ids=["not a number", "deep", "bytes", "a lone surrogate", "a number as a key", "an object", "a set"],
)
def test_odd_payloads_become_json(value: Any) -> None:
    """What a tool was given, gave back or raised never keeps an event from being sent."""
    built = [
        events.tool_started(RUN, "a", "refund", {"value": value}),
        events.activity_completed(RUN, "a", "refund", output=value),
        events.workflow_completed(RUN, result=value),
    ]

    for event in built:
        json.dumps(event.to_payload_dict(), allow_nan=False, ensure_ascii=False).encode()


def test_a_large_prompt_is_capped() -> None:
    """With a mark, so that a policy sees that it does not see everything."""
    event = events.user_prompt(RUN, "x" * 5_000_000, max_bytes=1_000)

    assert len(json.dumps(event.to_payload_dict())) < 2_000
    assert "[cut: 5000000 bytes, sha256 " in event.payload["signal_args"][0]


def test_a_handoff_needs_the_shared_session() -> None:
    """Without it Core cannot tell which agents belong together, so nothing is sent."""
    with pytest.raises(ValueError, match="multi_agent_session_id"):
        events.handoff(RUN, "did:aip:x")


@pytest.mark.parametrize("run", [RUN, BARE, NESTED], ids=["full", "bare", "nested"])
def test_the_events_of_an_activity_are_those_of_the_base_sdk(run: RunIdentity) -> None:
    """They are built here, for speed; whatever its factories come to add has to be added here as well."""
    common = run.common_fields(AT)
    extra = run.extra_fields({"llm_model": "m-1"}, {"team": "a"}, 1000)
    ended = run.extra_fields({"status": "failed", "duration_ms": 3}, None, 1000)
    error = error_info(type="ValueError", message="no")

    assert events._started(
        run, "a-1", "add", [{"a": 1}], {"llm_model": "m-1"}, {"team": "a"}, 1000, AT
    ) == base.activity_started(
        **common, activity_id="a-1", activity_type="add", activity_input=[{"a": 1}], extra=extra
    )
    assert events.activity_completed(
        run, "a-1", "add", status="failed", error=error, duration_ms=3, timestamp=AT
    ) == base.activity_completed(**common, activity_id="a-1", activity_type="add", error=error, extra=ended)
