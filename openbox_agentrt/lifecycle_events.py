"""
Build what Core is told about a run: one builder for each event.

The builders are pure. They stand on the factories of `openbox_core.contracts.events` and add what those leave
to their caller: payloads are made JSON-safe, ``activity_input`` is always a list, outputs travel as
``activity_output`` (the name that Core reads), an ``error`` is always an object, and nothing can overwrite a
field that says which run and which activity an event belongs to. Absent values are absent keys. The sender
stamps the time, unless `timestamp` is given.

The two events of an activity are made so often that they are built here, as those factories would build them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from openbox_core.contracts import events as base
from openbox_core.contracts.events import EventEnvelope, EventType

from ._wire.identity import RESERVED_KEYS, RunIdentity
from ._wire.payloads import DEFAULT_MAX_BYTES, json_safe, safe_text, shown

__all__ = (
    "LLM_ACTIVITY",
    "RESERVED_KEYS",
    "USER_PROMPT",
    "ActivityStatus",
    "EventEnvelope",
    "PartialEvent",
    "RunIdentity",
    "activity_completed",
    "activity_started",
    "contract_violation",
    "handoff",
    "llm_started",
    "tool_started",
    "user_prompt",
    "workflow_completed",
    "workflow_failed",
    "workflow_started",
)

LLM_ACTIVITY: Final = "llm_call"
USER_PROMPT: Final = "user_prompt"
CONTRACT_VIOLATION: Final = "contract_violation"
SENTINEL: Final = "__openbox"
ESCAPED_SENTINEL: Final = "__openbox (argument)"
_STRINGS: Final = frozenset({str})
# Python 3.11 takes as long as for a call to find a member of an enum.
_STARTED: Final = EventType.ACTIVITY_STARTED
_COMPLETED: Final = EventType.ACTIVITY_COMPLETED


class PartialEvent(EventEnvelope):
    """
    An event of which Core is not shown everything: a part was too large, too deep or could not be read.

    What Core allows of it has not been judged whole.
    """


ActivityStatus = Literal["completed", "failed", "cancelled"]


def workflow_started(
    run: RunIdentity, *, extra: Mapping[str, Any] | None = None, timestamp: str | None = None
) -> EventEnvelope:
    """Tell that a run begins. A nested run names its parent."""
    fields = {"parent_workflow_id": run.parent_workflow_id}
    return base.workflow_started(
        **run.common_fields(timestamp), extra=run.extra_fields(fields, extra, DEFAULT_MAX_BYTES)
    )


def user_prompt(
    run: RunIdentity, prompt: str, *, max_bytes: int = DEFAULT_MAX_BYTES, timestamp: str | None = None
) -> EventEnvelope:
    """
    The user's prompt, as a signal. Core reads ``signal_args`` as the user's goal: nothing else may send it.

    Raises:
        ValueError: The prompt is blank; a blank prompt sends no signal.
    """
    if not prompt.strip():
        raise ValueError("a blank prompt is not a signal")
    text, is_whole = shown(prompt, max_bytes=max_bytes)
    signal = base.signal_received(
        **run.common_fields(timestamp),
        signal_name=USER_PROMPT,
        extra=run.extra_fields({"signal_args": [text]}, None, max_bytes),
    )
    return signal if is_whole else PartialEvent(**vars(signal))


def contract_violation(
    run: RunIdentity,
    *,
    signal_id: str,
    event: str,
    contracts: Sequence[str],
    reason: str | None = None,
    enforced: bool = True,
    timestamp: str | None = None,
) -> EventEnvelope:
    """
    A local contract was broken, or would have been. Without ``signal_args``, which would pass for the goal.

    Args:
        signal_id: A fresh id. Core takes two events with the same ids for one, and a run may have several
            signals.
        event: Tool name, ``llm_call``, ``user_prompt`` or activity type.
        contracts: The contracts, as written in the rules.
        enforced: Whether something was refused; False at the end of a run, when nothing can be any more.
    """
    violation = {"event": event, "contracts": list(contracts), "reason": reason, "enforced": enforced}
    fields = {"contract_violation": json_safe({k: v for k, v in violation.items() if v is not None})}
    signal = base.signal_received(
        **run.common_fields(timestamp),
        signal_name=CONTRACT_VIOLATION,
        extra=run.extra_fields(fields, None, DEFAULT_MAX_BYTES),
    )
    return replace(signal, activity_id=signal_id)


def activity_started(
    run: RunIdentity,
    activity_id: str,
    activity_type: str,
    activity_input: Iterable[Any] = (),
    *,
    extra: Mapping[str, Any] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    timestamp: str | None = None,
) -> EventEnvelope:
    """Some activity is about to start; `activity_input` holds its arguments."""
    return _started(run, activity_id, activity_type, list(activity_input), {}, extra, max_bytes, timestamp)


def llm_started(
    run: RunIdentity,
    activity_id: str,
    elements: Sequence[Mapping[str, Any]],
    *,
    model: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    timestamp: str | None = None,
) -> EventEnvelope:
    """
    A model call is about to start. With `RunIdentity.prescreen_id` and no model, it is the pre-screen.

    Args:
        elements: What reaches the model: ``{"prompt": ...}`` first, the last user text, which may be empty -
            no reason not to ask - and then what else Core has not judged.
    """
    fields = {"llm_model": None if model is None else safe_text(model)}
    return _started(run, activity_id, LLM_ACTIVITY, list(elements), fields, None, max_bytes, timestamp)


def tool_started(
    run: RunIdentity,
    activity_id: str,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    tool_type: str | None = None,
    side_effect: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    timestamp: str | None = None,
) -> EventEnvelope:
    """
    A tool call is about to start.

    Args:
        tool: Name of the tool as called.
        tool_type: Classification from the options.
        side_effect: Agent-RT's classification; its default ``none`` is left out.
    """
    arguments_shown = arguments
    if type(arguments) is not dict or SENTINEL in arguments or not _STRINGS.issuperset(map(type, arguments)):
        # The model chooses the arguments: one named like the sentinel must not pass for a classification.
        arguments_shown = {
            ESCAPED_SENTINEL if _is_sentinel(key) else key: value for key, value in arguments.items()
        }
    last = []
    if tool_type is not None or side_effect not in (None, "none"):
        hints = {"tool_type": tool_type, "side_effect": None if side_effect == "none" else side_effect}
        last = [{SENTINEL: json_safe({name: hint for name, hint in hints.items() if hint is not None})}]
    return _started(run, activity_id, tool, [arguments_shown], {}, None, max_bytes, timestamp, last=last)


def _is_sentinel(key: object) -> bool:
    # By its text: what a key of another type calls itself equal to does not count.
    return isinstance(key, str) and str.__eq__(key, SENTINEL)


def _started(
    run: RunIdentity,
    activity_id: str,
    activity_type: str,
    activity_input: list[Any],
    fields: Mapping[str, Any],
    extra: Mapping[str, Any] | None,
    max_bytes: int,
    timestamp: str | None,
    *,
    last: Sequence[Any] = (),
) -> EventEnvelope:
    """Build the start of an activity. What is in `last` does not count against the size of the rest."""
    payload = run.payload(fields, extra, max_bytes)
    items, is_whole = shown(activity_input, max_bytes=max_bytes)
    name = safe_text(activity_type)
    payload["activity_input"] = [*items, *last] if last else items
    kind = EventEnvelope if is_whole else PartialEvent
    return _event(kind, _STARTED, payload, activity_id, name, timestamp)


def activity_completed(
    run: RunIdentity,
    activity_id: str,
    activity_type: str,
    *,
    status: ActivityStatus = "completed",
    output: Any = None,
    error: Mapping[str, Any] | None = None,
    told: Any = None,
    duration_ms: float | None = None,
    extra: Mapping[str, Any] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    timestamp: str | None = None,
) -> EventEnvelope:
    """
    An activity has ended. Never enforced.

    Args:
        output: What it gave; left out when there is an `error`.
        error: `error_info` of what went wrong.
        told: What work that has failed gave all the same, such as an error for a model to read.
        duration_ms: How long it ran; a negative one, from a clock that stepped back, counts as 0.
    """
    payload = run.payload({}, extra, max_bytes)
    payload["status"] = status
    given, is_whole = shown(output if error is None else told, max_bytes=max_bytes)
    if given is not None:
        payload["activity_output"] = given
    if duration_ms is not None:
        payload["duration_ms"] = max(0, round(duration_ms))
    name = safe_text(activity_type)
    if error is not None:
        payload["error"] = json_safe(error)
    kind = EventEnvelope if is_whole else PartialEvent
    return _event(kind, _COMPLETED, payload, activity_id, name, timestamp)


def _event(
    kind: type[EventEnvelope],
    event_type: EventType,
    payload: dict[str, Any],
    activity_id: str,
    activity_type: str,
    timestamp: str | None,
) -> EventEnvelope:
    """Make the event of an activity; what is not given is as the class says."""
    event = object.__new__(kind)
    # As a copy of one is made. The initializer of a frozen dataclass writes each field through two calls.
    event.__dict__.update(
        event_type=event_type,
        payload=payload,
        activity_id=activity_id,
        activity_type=activity_type,
        timestamp=timestamp,
    )
    return event


def workflow_completed(
    run: RunIdentity,
    *,
    result: Any = None,
    termination_reason: str | None = None,
    turns: int | None = None,
    tool_calls: int | None = None,
    total_tokens: int | None = None,
    extra: Mapping[str, Any] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    timestamp: str | None = None,
) -> EventEnvelope:
    """
    A run has ended without an error.

    ``status`` is ``completed`` only when the agent finished: any other termination reason - a limit, a loop,
    a pause, a cancellation - is the status itself.
    """
    output = json_safe(
        {
            "result": result,
            "termination_reason": termination_reason,
            "turns": turns,
            "tool_calls": tool_calls,
            "total_tokens": total_tokens,
        },
        max_bytes=max_bytes,
    )
    fields = {
        "status": termination_reason or "completed",
        "workflow_output": output,
        "activity_output": output,
    }
    return base.workflow_completed(
        **run.common_fields(timestamp), extra=run.extra_fields(fields, extra, max_bytes)
    )


def workflow_failed(
    run: RunIdentity,
    error: Mapping[str, Any],
    *,
    extra: Mapping[str, Any] | None = None,
    timestamp: str | None = None,
) -> EventEnvelope:
    """A run has ended with an error, made by `error_info`."""
    return base.workflow_failed(
        **run.common_fields(timestamp),
        error=json_safe(error),
        extra=run.extra_fields({}, extra, DEFAULT_MAX_BYTES),
    )


def handoff(run: RunIdentity, from_agent_did: str, *, timestamp: str | None = None) -> EventEnvelope:
    """
    Control passes from the agent `from_agent_did` to the agent that sends this.

    Raises:
        ValueError: The run has no `multi_agent_session_id`, or the id is blank. Nothing is sent then.
    """
    return base.handoff(
        from_agent_did=from_agent_did,
        multi_agent_session_id=run.multi_agent_session_id or "",
        timestamp=timestamp,
    )
