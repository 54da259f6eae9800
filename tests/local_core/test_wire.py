"""What a local Core accepts over the wire, and what it answers otherwise."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openbox_agentrt.local_core import DEFAULT_API_KEY, LocalCore
from openbox_agentrt.local_core.wire import EVENT_TYPES, WireError

Make = Callable[..., Any]
EventOf = Callable[..., dict[str, Any]]
EVALUATE = "/api/v1/governance/evaluate"
APPROVAL = "/api/v1/governance/approval"
HANDOFF = "/api/v1/handoffs"
KEY = {"Authorization": f"Bearer {DEFAULT_API_KEY}"}
SPAN = {"span_id": "a" * 16, "stage": "started"}


@pytest.mark.parametrize("event_type", sorted(EVENT_TYPES - {"Handoff"}))
def test_every_kind_of_event_is_accepted(make: Make, event_of: EventOf, event_type: str) -> None:
    """The smallest valid event of each kind gets a verdict."""
    status, answer = make().post(EVALUATE, event_of(event_type))

    assert (status, answer["verdict"]) == (200, "allow")


@pytest.mark.parametrize(
    ("event_type", "fields", "culprit"),
    [
        pytest.param("ActivityStarted", {"event_type": ...}, "event_type", id="no event type"),
        pytest.param("ActivityStarted", {"event_type": "Activity"}, "event_type", id="unknown event type"),
        pytest.param("ActivityStarted", {"event_type": ["x"]}, "event_type", id="event type is a list"),
        pytest.param("WorkflowStarted", {"workflow_id": ...}, "workflow_id", id="no workflow"),
        pytest.param("WorkflowStarted", {"workflow_id": ""}, "workflow_id", id="empty workflow"),
        pytest.param("WorkflowStarted", {"workflow_id": 7}, "workflow_id", id="workflow is a number"),
        pytest.param("WorkflowStarted", {"run_id": ...}, "run_id", id="no run"),
        pytest.param("WorkflowStarted", {"workflow_type": ...}, "workflow_type", id="no workflow type"),
        pytest.param("ActivityStarted", {"activity_id": ...}, "activity_id", id="no activity"),
        pytest.param("ActivityStarted", {"activity_id": " "}, "activity_id", id="blank activity"),
        pytest.param("ActivityStarted", {"activity_type": ...}, "activity_type", id="no activity type"),
        pytest.param("ActivityCompleted", {"activity_id": ...}, "activity_id", id="completion of nothing"),
        pytest.param(
            "ActivityStarted", {"activity_input": {"a": 1}}, "activity_input", id="input is an object"
        ),
        pytest.param("ActivityStarted", {"activity_input": "x"}, "activity_input", id="input is a text"),
        pytest.param("ActivityCompleted", {"error": "boom"}, "error", id="error is a text"),
        pytest.param("WorkflowFailed", {"error": ["boom"]}, "error", id="error is a list"),
        pytest.param("SignalReceived", {"signal_name": ...}, "signal_name", id="no signal name"),
        pytest.param("SignalReceived", {"signal_args": "hi"}, "signal_args", id="signal args is a text"),
        pytest.param("ActivityStarted", {"hook_trigger": "yes"}, "hook_trigger", id="hook is a text"),
        pytest.param("ActivityStarted", {"hook_trigger": True}, "span", id="hook without spans"),
        pytest.param("ActivityStarted", {"hook_trigger": True, "spans": []}, "span", id="hook, empty spans"),
        pytest.param(
            "ActivityStarted", {"hook_trigger": True, "spans": [1]}, "spans[0]", id="span no object"
        ),
        pytest.param("ActivityStarted", {"hook_trigger": True, "spans": [{}]}, "stage", id="span, no stage"),
        pytest.param(
            "ActivityStarted",
            {"hook_trigger": True, "spans": [{**SPAN, "span_id": 17}]},
            "span_id",
            id="span id is a number",
        ),
        pytest.param("ActivityStarted", {"spans": [SPAN]}, "spans", id="spans without a hook"),
        pytest.param("ActivityCompleted", {"spans": [SPAN]}, "spans", id="completion with spans"),
        pytest.param(
            "ActivityCompleted", {"hook_trigger": True, "spans": [SPAN]}, "hook_trigger", id="hook completed"
        ),
        pytest.param("ActivityStarted", {"spans": "x"}, "spans", id="spans is a text"),
        pytest.param("ActivityCompleted", {"duration_ms": "5"}, "duration_ms", id="duration is a text"),
        pytest.param(
            "ActivityCompleted", {"duration_ms": True}, "duration_ms", id="duration is a truth value"
        ),
        pytest.param("ActivityCompleted", {"status": 1}, "status", id="status is a number"),
        pytest.param("WorkflowStarted", {"timestamp": "yesterday"}, "timestamp", id="no time"),
        pytest.param("WorkflowStarted", {"timestamp": "2026-99-02T03:04:05Z"}, "timestamp", id="no such day"),
        pytest.param("WorkflowStarted", {"timestamp": 5}, "timestamp", id="time is a number"),
        pytest.param("WorkflowStarted", {"timestamp": "2026-01-02T03:04:05"}, "timestamp", id="no time zone"),
        pytest.param("WorkflowStarted", {"source": 1}, "source", id="source is a number"),
        pytest.param("Handoff", {}, "from_agent_did", id="handoff from nobody"),
    ],
)
def test_an_event_that_core_would_refuse(
    make: Make, event_of: EventOf, event_type: str, fields: dict[str, Any], culprit: str
) -> None:
    """It is a 422 that names the field, and nothing is kept of it as an event."""
    talk = make()

    status, answer = talk.post(EVALUATE, event_of(event_type, **fields))

    assert (status, answer["error"]) == (422, "unprocessable")
    assert culprit in answer["message"]
    assert talk.core.events() == []
    assert [(r.path, r.status) for r in talk.core.refused()] == [(EVALUATE, 422)]


@pytest.mark.parametrize(
    "timestamp",
    ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+00:00", "2026-01-02T03:04:05.123456789Z"],
)
def test_times_of_other_sdks(make: Make, event_of: EventOf, timestamp: str) -> None:
    """Any RFC 3339 time will do."""
    assert make().post(EVALUATE, event_of(timestamp=timestamp))[0] == 200


@pytest.mark.parametrize("field", ["activity_input", "error", "spans", "duration_ms", "task_queue"])
def test_null_is_absent(make: Make, event_of: EventOf, field: str) -> None:
    """Go SDKs send null where others send nothing."""
    assert make().post(EVALUATE, event_of(**{field: None}))[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": -Infinity}', id="infinity"),
        pytest.param(b'{"a": 1e999}', id="overflow"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', id="encoded surrogate"),
        pytest.param(b"[" * 100_000, id="very deep"),
        pytest.param(b"1" * 10_000, id="very long number"),
        pytest.param(b"<html>", id="html"),
        pytest.param(b'{"workflow_id": "a", "workflow_id": "b"}', id="a key twice"),
        pytest.param(b'{"activity_input": [{"amount": 1, "amount": 900}]}', id="a key twice, inside"),
        pytest.param(b'{"a":1,"\\u0061":2}', id="a key twice, in two spellings"),
    ],
)
@pytest.mark.parametrize("path", [EVALUATE, APPROVAL])
def test_what_is_no_json(make: Make, path: str, body: bytes) -> None:
    """It is a 400, whatever the reason."""
    assert make().post(path, body)[0] == 400


@pytest.mark.parametrize("body", [[], "x", 1, None, True])
@pytest.mark.parametrize("path", [EVALUATE, APPROVAL, HANDOFF])
def test_a_body_that_is_no_object(path: str, body: Any) -> None:
    """JSON of another kind is a 422."""
    headers = {**KEY, "X-OpenBox-Workload-Token": "t"}
    with LocalCore() as core:
        status, _, _ = core.handle("POST", path.replace("v1", "v3"), headers, json.dumps(body).encode())

    assert status == 422


def test_a_lone_surrogate_is_replaced(make: Make, event_of: EventOf) -> None:
    """JSON can write half a character; no database can keep it."""
    talk = make()
    body = json.dumps(event_of(activity_input=[{"text": "a\ud800b"}])).encode()

    assert talk.post(EVALUATE, body)[0] == 200
    assert talk.core.events()[0]["activity_input"] == [{"text": "a?b"}]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 401, id="none"),
        pytest.param({"Authorization": "Bearer obx_test_other"}, 401, id="another"),
        pytest.param({"Authorization": DEFAULT_API_KEY}, 401, id="without Bearer"),
        pytest.param({"Authorization": "Bearer é😀\udcff"}, 401, id="odd characters"),
        pytest.param({"AUTHORIZATION": f"Bearer {DEFAULT_API_KEY}"}, 200, id="any case"),
    ],
)
def test_the_key(event_of: EventOf, headers: dict[str, str], status: int) -> None:
    """Only the right key is let in, whatever the case of the header's name."""
    with LocalCore() as core:
        got, _, body = core.handle("POST", EVALUATE, headers, json.dumps(event_of()).encode())
        events = core.events()

    assert got == status
    assert len(events) == (1 if status == 200 else 0)
    if status == 401:
        assert json.loads(body)["reason_code"] == "invalid_api_key"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/auth/validate", 200),
        ("get", "/api/v1/auth/validate?x=1", 200),
        ("POST", "/api/v1/auth/validate", 405),
        ("GET", EVALUATE, 405),
        ("GET", "/api/v4/auth/validate", 404),
        ("GET", "/api/v2/auth/bootstrap", 404),
        ("GET", "/api/v3/auth/bootstrap", 404),
        ("POST", EVALUATE + "/", 404),
        ("POST", "", 404),
        ("POST", "/", 404),
    ],
)
def test_routes(method: str, path: str, status: int) -> None:
    """Known routes are answered, everything else is a 404 or a 405."""
    with LocalCore() as core:
        assert core.handle(method, path, KEY, b"")[0] == status


def test_a_body_that_is_too_large(event_of: EventOf) -> None:
    """It is a 413 before anything is decoded."""
    with LocalCore(max_body_bytes=100) as core:
        assert core.handle("POST", EVALUATE, KEY, b"x" * 101)[0] == 413


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_versions_differ_in_the_proof_of_identity_alone(event_of: EventOf, version: str) -> None:
    """v2 needs an assertion and v3 a token; events are judged alike."""
    proof = {
        "v1": {},
        "v2": {"X-OpenBox-Agent-Assertion": "a.b.c"},
        "v3": {"X-OpenBox-Workload-Token": "token"},
    }[version]
    body = json.dumps(event_of()).encode()
    path = EVALUATE.replace("v1", version)
    with LocalCore(lambda event: "BLOCK") as core:
        without, _, _ = core.handle("POST", path, KEY, body)
        with_proof, _, answer = core.handle("POST", path, {**KEY, **proof}, body)

    assert without == (200 if version == "v1" else 401)
    assert (with_proof, json.loads(answer)["verdict"]) == (200, "block")


def test_an_assertion_has_three_parts(event_of: EventOf) -> None:
    """Anything else is named malformed."""
    headers = {**KEY, "X-OpenBox-Agent-Assertion": "token"}
    with LocalCore() as core:
        status, _, body = core.handle("POST", EVALUATE.replace("v1", "v2"), headers, b"{}")

    assert (status, json.loads(body)["reason_code"]) == (401, "assertion_malformed")


def test_a_handoff_needs_an_identity(make: Make) -> None:
    """With the key alone nobody knows who hands over."""
    status, answer = make().post(HANDOFF, {"target_agent_id": "a2"})

    assert (status, answer["reason_code"]) == (401, "identity_required")


def test_a_failing_clock_is_a_server_error(make: Make) -> None:
    """Nothing that fails inside reaches the caller as an exception."""

    def clock() -> float:
        raise RuntimeError("no time")

    assert make(clock=clock).post(EVALUATE, {})[0] == 500


def test_wire_error_survives_pickling() -> None:
    """The error crosses process boundaries with its data."""
    error = pickle.loads(pickle.dumps(WireError(422, "unprocessable", "x")))

    assert (error.status, error.code, error.message) == (422, "unprocessable", "x")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
field_names = st.sampled_from(
    [
        "event_type",
        "workflow_id",
        "run_id",
        "workflow_type",
        "activity_id",
        "activity_type",
        "activity_input",
        "activity_output",
        "signal_name",
        "signal_args",
        "hook_trigger",
        "spans",
        "error",
        "timestamp",
        "duration_ms",
        "approval_id",
        "target_agent_id",
    ]
)
plausible = st.sampled_from(
    [*sorted(EVENT_TYPES), "wf", "run", "a1", True, [], [SPAN], {}, "2026-01-02T03:04:05Z"]
)
bodies = st.binary(max_size=40) | st.dictionaries(
    field_names | st.text(max_size=5), plausible | values, max_size=12
).map(lambda body: json.dumps(body).encode())
paths = (
    st.sampled_from([EVALUATE, APPROVAL, HANDOFF, "/api/v1/auth/validate", "/api/v3/handoffs"]) | st.text()
)
headers = st.just(KEY) | st.dictionaries(
    st.sampled_from(["Authorization", "X-OpenBox-Agent-DID", "X-OpenBox-Agent-Nonce"]) | st.text(max_size=5),
    st.text(max_size=8) | st.just(KEY["Authorization"]),
    max_size=4,
)


@given(
    requests=st.lists(
        st.tuples(st.sampled_from(["GET", "POST", "post"]) | st.text(max_size=5), paths, headers, bodies),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_request_gets_a_proper_answer(requests: list[Any]) -> None:
    """Whatever is sent: no exception, a status that HTTP knows, and a JSON object without NaN."""
    with LocalCore(lambda event: "REQUIRE_APPROVAL") as core:
        for request in requests:
            status, answer_headers, body = core.handle(*request)

            assert status in (200, 400, 401, 404, 405, 413, 422)
            assert answer_headers["content-type"] == "application/json"
            answer = json.loads(body, parse_constant=pytest.fail)
            assert isinstance(answer, dict)
        core.orphans()
        core.open_workflows()
        core.records()
        core.pending_approvals()


@given(event=st.dictionaries(st.text(max_size=5), values, max_size=5), verdict=values)
@settings(max_examples=100, deadline=None)
def test_any_policy_gets_a_proper_answer(event: dict[str, Any], verdict: Any) -> None:
    """Whatever a policy returns, the answer has a verdict, and it is no ALLOW unless the policy said so."""
    body = {
        **event,
        "event_type": "WorkflowStarted",
        "workflow_id": "wf",
        "run_id": "run",
        "workflow_type": "A",
    }
    body = {key: value for key, value in body.items() if not _odd_number(value)}
    with LocalCore(lambda _: verdict) as core:
        status, _, answer = core.handle("POST", EVALUATE, KEY, json.dumps(body).encode())

    if status == 200:
        said = json.loads(answer, parse_constant=pytest.fail)["verdict"]
        assert said == ("allow" if verdict is None else "block")


def _odd_number(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return True
    return False


def test_a_handoff_is_no_operation_inside_an_activity(make: Make, event_of: EventOf) -> None:
    """Whatever it says of itself: it is looked at like any other event."""
    handoff = {
        "event_type": "Handoff",
        "from_agent_did": "did:aip:a",
        "multi_agent_session_id": "s",
        "hook_trigger": True,
    }
    seen: list[Any] = []
    talk = make(guardrails=seen.append)

    status, _ = talk.post(EVALUATE, handoff)

    assert status == 200
    assert [event["event_type"] for event in seen] == ["Handoff"]
    assert len(list(talk.core._store.moves())) == 1
