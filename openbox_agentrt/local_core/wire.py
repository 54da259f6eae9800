"""What a request must look like, said once: JSON, then the shape of an event or of an approval poll."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

TERMINAL_EVENTS = frozenset({"WorkflowCompleted", "WorkflowFailed"})
ACTIVITY_EVENTS = frozenset({"ActivityStarted", "ActivityCompleted"})
EVENT_TYPES = TERMINAL_EVENTS | ACTIVITY_EVENTS | {"WorkflowStarted", "SignalReceived", "Handoff"}
_STAGES = ("started", "completed")
_FIELDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(
        (
            "source",
            "workflow_id",
            "run_id",
            "activity_id",
            "activity_type",
            "task_queue",
            "session_id",
            "agent_name",
            "status",
            "parent_workflow_id",
            "multi_agent_session_id",
        ),
        ((str,), "a text"),
    ),
    "activity_input": ((list,), "a list"),
    "signal_args": ((list,), "a list"),
    "error": ((dict,), "an object"),
    "duration_ms": ((int, float), "a number"),
}


class WireError(Exception):
    """
    A request that Core does not accept. Nothing was evaluated or kept.

    Attributes:
        status: The HTTP status of the answer.
        code: A word for programs.
        message: One line for people; names the field, never its value.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(f"{status} {code}: {message}")

    def __reduce__(self) -> tuple[object, ...]:
        return WireError, (self.status, self.code, self.message)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """
    An event that has the shape Core asks for.

    Attributes:
        key: What makes two events the same one; ``None`` for an event that is never a repetition.
        text: The body as it was sent.
        payload: The body, decoded.
    """

    event_type: str
    workflow_id: str
    run_id: str
    activity_id: str
    activity_type: str
    hook: bool
    key: str | None
    text: str
    payload: dict[str, Any]

    @property
    def terminal(self) -> bool:
        return self.event_type in TERMINAL_EVENTS

    @property
    def asks(self) -> bool:
        """Whether work waits for the answer, so that a person can still be asked."""
        return self.event_type in ("ActivityStarted", "SignalReceived")


def decode(body: bytes) -> tuple[str, Any]:
    """
    The text of a JSON body and its value.

    Raises:
        WireError: 400, for anything that is not JSON. NaN and Infinity are not, nor is a number beyond
            all bounds.
    """
    try:
        text = body.decode("utf-8")
        # A lone surrogate can be written in JSON but in no encoding, so neither SQLite nor a policy could
        # take it.
        whole = "\\ud" not in text and "\\uD" not in text
        return text, _DECODER.decode(body if whole else _whole_characters(text))
    except (ValueError, RecursionError) as error:
        raise WireError(400, "invalid_json", f"the body is not JSON ({type(error).__name__})") from error


def read_event(body: bytes) -> Event:
    """
    The event in `body`.

    Raises:
        WireError: 400 when it is not JSON, 422 when it is not an event.
    """
    text, payload = decode(body)
    if not isinstance(payload, dict):
        raise _unprocessable("the body must be an object")
    event_type = payload.get("event_type")
    if not isinstance(event_type, str) or event_type not in EVENT_TYPES:
        raise _unprocessable("'event_type' is not an event that Core knows")
    _check_common(payload)
    if event_type == "Handoff":
        for field in ("from_agent_did", "multi_agent_session_id"):
            _required_text(payload, field)
        return _event(payload, text, event_type, hook=False, key=None)
    for field in ("workflow_id", "run_id", "workflow_type"):
        _required_text(payload, field)
    hook = _check_spans(payload, event_type)
    if event_type in ACTIVITY_EVENTS:
        for field in ("activity_id", "activity_type"):
            _required_text(payload, field)
    if event_type == "SignalReceived":
        _required_text(payload, "signal_name")
    return _event(payload, text, event_type, hook=hook, key=_key(payload, event_type, hook))


def read_poll(body: bytes) -> Mapping[str, str]:
    """
    The ids that an approval poll asks about; ``activity_id`` is empty for an event without an activity.

    Raises:
        WireError: 400 when it is not JSON, 422 when an id is missing.
    """
    _, payload = decode(body)
    if not isinstance(payload, dict):
        raise _unprocessable("the body must be an object")
    ids = {field: _required_text(payload, field) for field in ("workflow_id", "run_id")}
    for field in ("activity_id", "approval_id"):
        ids[field] = _optional_text(payload, field)
    return ids


def read_handoff(body: bytes) -> dict[str, str]:
    """
    Where a handoff goes, and why.

    Raises:
        WireError: 400 when it is not JSON, 422 when the target is missing.
    """
    _, payload = decode(body)
    if not isinstance(payload, dict):
        raise _unprocessable("the body must be an object")
    return {
        "target_agent_id": _required_text(payload, "target_agent_id"),
        "reason": _optional_text(payload, "reason"),
    }


def _event(payload: dict[str, Any], text: str, event_type: str, *, hook: bool, key: str | None) -> Event:
    return Event(
        event_type=event_type,
        workflow_id=payload.get("workflow_id") or "",
        run_id=payload.get("run_id") or "",
        activity_id=payload.get("activity_id") or "",
        activity_type=payload.get("activity_type") or "",
        hook=hook,
        key=key,
        text=text,
        payload=payload,
    )


def _check_common(payload: dict[str, Any]) -> None:
    for field, value in payload.items():
        if value is None or field not in _FIELDS:
            continue
        kinds, form = _FIELDS[field]
        if type(value) not in kinds:
            raise _unprocessable(f"{field!r} must be {form}")
    timestamp = payload.get("timestamp")
    if timestamp is not None and not _is_time(timestamp):
        raise _unprocessable("'timestamp' must be a time in RFC 3339 form")


def _check_spans(payload: dict[str, Any], event_type: str) -> bool:
    hook = payload.get("hook_trigger", False)
    if not isinstance(hook, bool):
        raise _unprocessable("'hook_trigger' must be true or false")
    spans = payload.get("spans")
    if not isinstance(spans, list | None):
        raise _unprocessable("'spans' must be a list")
    if not hook:
        if spans:
            raise _unprocessable(f"{event_type} carries 'spans' without 'hook_trigger'")
        return False
    if event_type != "ActivityStarted":
        raise _unprocessable(f"'hook_trigger' does not go with {event_type}")
    if not spans:
        raise _unprocessable("'hook_trigger' needs at least one span")
    for index, span in enumerate(spans):
        if not isinstance(span, dict):
            raise _unprocessable(f"'spans[{index}]' must be an object")
        if span.get("stage") not in _STAGES:
            raise _unprocessable(f"'spans[{index}].stage' must be 'started' or 'completed'")
        for field in ("span_id", "trace_id", "parent_span_id"):
            if not isinstance(span.get(field), str | None):
                raise _unprocessable(f"'spans[{index}].{field}' must be a hexadecimal string")
    return True


def _key(payload: dict[str, Any], event_type: str, hook: bool) -> str:
    if hook:
        spans = [[span.get("span_id"), span.get("hook_type"), span["stage"]] for span in payload["spans"]]
        return f"hook:{json.dumps([payload['activity_id'], spans])}"
    if event_type == "SignalReceived":
        # A signal may have no activity id. Without its content, the second prompt of a run would be
        # answered with the verdict on the first.
        content = [payload["signal_name"], payload.get("signal_args"), payload.get("activity_id")]
        return f"{event_type}:{json.dumps(content, sort_keys=True)}"
    return f"{event_type}:{payload.get('activity_id', '')}"


def _required_text(payload: dict[str, Any], field: str) -> str:
    value = payload.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _unprocessable(f"{field!r} is missing or not a text")
    return value


def _optional_text(payload: dict[str, Any], field: str) -> str:
    value = payload.get(field)
    if not isinstance(value, str | None):
        raise _unprocessable(f"{field!r} must be a text")
    return value or ""


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or "T" not in value:
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _whole_characters(text: str) -> bytes:
    """The same JSON with a question mark for each lone surrogate, as a replacing decoder would make it."""
    return json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", errors="replace")


def _unprocessable(message: str) -> WireError:
    return WireError(422, "unprocessable", message)


_DECODER = msgspec.json.Decoder()
