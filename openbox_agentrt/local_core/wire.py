"""
Check what a request looks like: JSON, then the shape of an event or of an approval poll.

An event is decoded twice, by msgspec: its fields as their types say, and the whole of it for the policy.
That is faster than looking at the fields one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from .._picklable import PicklableError
from .._plain.strict_json import JsonError, read_json

TERMINAL_EVENTS = frozenset({"WorkflowCompleted", "WorkflowFailed"})
ACTIVITY_EVENTS = frozenset({"ActivityStarted", "ActivityCompleted"})
_STAGES = ("started", "completed")
_RUN_FIELDS = ("workflow_id", "run_id", "workflow_type")
_REQUIRED = {
    **dict.fromkeys(TERMINAL_EVENTS | {"WorkflowStarted"}, _RUN_FIELDS),
    **dict.fromkeys(ACTIVITY_EVENTS, (*_RUN_FIELDS, "activity_id", "activity_type")),
    "SignalReceived": (*_RUN_FIELDS, "signal_name"),
    "Handoff": ("from_agent_did", "multi_agent_session_id"),
}
"""Fields without which an event is none, by its type."""

EVENT_TYPES = frozenset(_REQUIRED)

_Text = str | None
_Objects = list[msgspec.Raw] | None


class _Body(msgspec.Struct):
    """The fields of an event whose form Core looks at."""

    event_type: str
    source: _Text = None
    workflow_id: _Text = None
    run_id: _Text = None
    workflow_type: _Text = None
    activity_id: _Text = None
    activity_type: _Text = None
    task_queue: _Text = None
    session_id: _Text = None
    agent_name: _Text = None
    status: _Text = None
    parent_workflow_id: _Text = None
    from_agent_did: _Text = None
    multi_agent_session_id: _Text = None
    signal_name: _Text = None
    activity_input: _Objects = None
    signal_args: _Objects = None
    error: dict[str, msgspec.Raw] | None = None
    duration_ms: int | float | None = None
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    hook_trigger: bool = False
    spans: _Objects = None


_FORMS = {
    "activity_input": "a list",
    "signal_args": "a list",
    "spans": "a list",
    "error": "an object",
    "duration_ms": "a number",
    "timestamp": "a time in RFC 3339 form",
    "hook_trigger": "true or false",
}
"""What a field must be that is no text."""


class WireError(PicklableError):
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


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """
    An event that has the shape Core asks for.

    Attributes:
        key: What makes two events the same one; ``None`` for an event that is never a repetition.
        body: JSON, in whole characters.
        payload: The body, decoded.
    """

    event_type: str
    workflow_id: str
    run_id: str
    activity_id: str
    activity_type: str
    hook: bool
    key: str | None
    body: bytes
    payload: dict[str, Any]

    @property
    def terminal(self) -> bool:
        return self.event_type in TERMINAL_EVENTS

    @property
    def asks(self) -> bool:
        """Tell whether work waits for the answer, so that a person can still be asked."""
        return self.event_type in ("ActivityStarted", "SignalReceived") and not self.completed_operation

    @property
    def completed_operation(self) -> bool:
        """Tell whether it reports an operation inside an activity that has happened already."""
        return self.hook and all(span["stage"] == "completed" for span in self.payload["spans"])

    @property
    def row(self) -> str:
        """Name the row that the work has at Core: a prompt has that of the screening which follows it."""
        return self.activity_id or f"{self.run_id}-pre"


def decode(body: bytes) -> tuple[bytes, Any]:
    """
    Decode a JSON body; return it in whole characters, and its value.

    Raises:
        WireError: 400, for anything that is not JSON, or repeats a key. NaN and Infinity are not, nor is a
            number beyond all bounds.
    """
    try:
        if b"\\" in body and (b"\\ud" in body or b"\\uD" in body):
            # A lone surrogate can be written in JSON but in no encoding, so neither SQLite nor a policy could
            # take it. It becomes a question mark, as a replacing decoder would make it.
            text = json.dumps(json.loads(body.decode()), ensure_ascii=False)
            body = text.encode("utf-8", errors="replace")
        value = _DECODER.decode(body)
        if _ENCODER.encode(value) != body:
            # Unless it is written as we would, a key may be there twice: the policy would see one of them.
            read_json(body)
        return body, value
    except JsonError as error:
        raise WireError(400, "invalid_json", f"the body is not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise WireError(400, "invalid_json", f"the body is not JSON ({type(error).__name__})") from error


def read_event(body: bytes) -> Event:
    """
    Read the event in `body`.

    Raises:
        WireError: 400 when it is not JSON, 422 when it is not an event.
    """
    whole, payload = decode(body)
    if type(payload) is not dict:
        raise _unprocessable("the body must be an object")
    known = _read(whole)
    required = _REQUIRED.get(known.event_type)
    if required is None:
        raise _unknown_event_type()
    for field in required:
        if not (getattr(known, field) or "").strip():
            raise _missing(field)
    is_handoff = known.event_type == "Handoff"
    hook = (known.hook_trigger or bool(known.spans)) and not is_handoff
    if hook:
        _check_spans(known, payload)
    return Event(
        event_type=known.event_type,
        workflow_id=known.workflow_id or "",
        run_id=known.run_id or "",
        activity_id=known.activity_id or "",
        activity_type=known.activity_type or "",
        hook=hook,
        key=None if is_handoff else _key(known, payload),
        body=whole,
        payload=payload,
    )


def read_poll(body: bytes) -> Mapping[str, str]:
    """
    Read the ids that an approval poll asks about.

    Raises:
        WireError: 400 when it is not JSON, 422 when an id is missing.
    """
    payload = _object(body)
    ids = {field: _required_text(payload, field) for field in ("workflow_id", "run_id", "activity_id")}
    return {**ids, "approval_id": _optional_text(payload, "approval_id")}


def read_handoff(body: bytes) -> dict[str, str]:
    """
    Read the target of a handoff and its reason.

    Raises:
        WireError: 400 when it is not JSON, 422 when the target is missing.
    """
    payload = _object(body)
    return {
        "target_agent_id": _required_text(payload, "target_agent_id"),
        "reason": _optional_text(payload, "reason"),
    }


def _read(body: bytes) -> _Body:
    try:
        return _BODIES.decode(body)
    except msgspec.ValidationError as error:
        found = re.search(r"`\$\.(\w+)", str(error))
        field = "event_type" if found is None else found[1]
        if field == "event_type":
            raise _unknown_event_type() from None
        raise _unprocessable(f"{field!r} must be {_FORMS.get(field, 'a text')}") from None


def _unknown_event_type() -> WireError:
    return _unprocessable("'event_type' is not an event that Core knows")


def _check_spans(known: _Body, payload: dict[str, Any]) -> None:
    """Check that the spans of an event describe an operation inside an activity, which it is about."""
    if not known.hook_trigger:
        raise _unprocessable(f"{known.event_type} carries 'spans' without 'hook_trigger'")
    if known.event_type != "ActivityStarted":
        raise _unprocessable(f"'hook_trigger' does not go with {known.event_type}")
    if not known.spans:
        raise _unprocessable("'hook_trigger' needs at least one span")
    for index, span in enumerate(payload["spans"]):
        if not isinstance(span, dict):
            raise _unprocessable(f"'spans[{index}]' must be an object")
        if span.get("stage") not in _STAGES:
            raise _unprocessable(f"'spans[{index}].stage' must be 'started' or 'completed'")
        for field in ("span_id", "trace_id", "parent_span_id"):
            if not isinstance(span.get(field), str | None):
                raise _unprocessable(f"'spans[{index}].{field}' must be a hexadecimal string")


def _key(known: _Body, payload: dict[str, Any]) -> str:
    if known.hook_trigger:
        spans = [[span.get("span_id"), span.get("hook_type"), span["stage"]] for span in payload["spans"]]
        return f"hook:{json.dumps([known.activity_id, spans])}"
    if known.event_type == "SignalReceived":
        # A signal may have no activity id. Without its content, the second prompt of a run would be
        # answered with the verdict on the first.
        content = [known.signal_name, payload.get("signal_args"), payload.get("activity_id")]
        return f"{known.event_type}:{json.dumps(content, sort_keys=True)}"
    return f"{known.event_type}:{known.activity_id or ''}"


def _missing(field: str) -> WireError:
    return _unprocessable(f"{field!r} is missing or not a text")


def _object(body: bytes) -> dict[str, Any]:
    _, payload = decode(body)
    if not isinstance(payload, dict):
        raise _unprocessable("the body must be an object")
    return payload


def _required_text(payload: dict[str, Any], field: str) -> str:
    value = payload.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _missing(field)
    return value


def _optional_text(payload: dict[str, Any], field: str) -> str:
    value = payload.get(field)
    if not isinstance(value, str | None):
        raise _unprocessable(f"{field!r} must be a text")
    return value or ""


def _unprocessable(message: str) -> WireError:
    return WireError(422, "unprocessable", message)


_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()
_BODIES = msgspec.json.Decoder(_Body)
