"""Personal data in what goes into an activity and in what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIELDS = {"ActivityStarted": "activity_input", "ActivityCompleted": "activity_output"}


def find_personal_data(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    Detect and replace personal data: e-mail addresses, phone, social security and card numbers,
    IP addresses, and values whose field name says what they are.

    The detector is Agent-RT's ``PIIMorpher``. The replacement of a value is always the same made-up
    value of the same kind, so that what belongs together still does.

    Returns:
        A ``guardrails_result`` whose ``redacted_input`` mirrors the field it was made from, or ``None``
        when nothing was found. Names in free text are not detected.
    """
    field = _FIELDS.get(str(event.get("event_type")))
    if field is None or event.get(field) is None:
        return None
    from agent_rt import PIIMorpher

    # An empty environment: a variable that switches Agent-RT's own morpher off is not about this one.
    morpher = PIIMorpher(environ={})
    redacted = morpher.morph(event[field])
    if redacted == event[field]:
        return None
    reasons = _differences(event[field], redacted, field)
    return {
        "input_type": field,
        "redacted_input": redacted,
        "validation_passed": True,
        "reasons": [
            {"type": "personal_data", "field": place, "reason": "personal data replaced"} for place in reasons
        ],
    }


def _differences(before: Any, after: Any, place: str) -> list[str]:
    if isinstance(before, Mapping):
        return [
            where
            for key, value in before.items()
            for where in _differences(value, after[key], f"{place}.{key}")
        ]
    if isinstance(before, list):
        return [
            where
            for index, value in enumerate(before)
            for where in _differences(value, after[index], f"{place}[{index}]")
        ]
    return [place] if before != after else []
