"""The record of an event that a hook could not deal with. Loaded only where there is such a fault."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from openbox_agentrt._plain.strict_json import JsonError, read_json
from openbox_agentrt.acel.session import Session
from openbox_agentrt.doors.claude_code.event import (
    END_EVENTS,
    MAX_INPUT,
    POST_EVENTS,
    PROMPT_EVENT,
    HookEvent,
    is_session_id,
    read_event,
)
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.unfit import report_unclear, report_unjudged, report_unnoted, report_unsettled

if TYPE_CHECKING:
    from openbox_agentrt.acel import Violation


def unjudged_event(
    data: bytes, error: Exception, *, expected: Collection[str], nameless: str
) -> tuple[HookEvent, list[Violation]] | None:
    """
    Give the event that a hook could not deal with, and what the evidence of its session says of it.

    A call is refused by that. The end of a call, or of a session, has happened, and nothing is stopped. The
    record is without the calls before it, which are of no matter to it and may be what could not be read.

    Args:
        data: Standard input of the hook.
        error: The fault.
        expected: The events of its kind.
        nameless: The session that stands for those that cannot be told.

    Returns:
        The event, as far as it can be read, and its record; None if the hook is for events of another kind.
    """
    try:
        event, is_read = read_event(data, expected=expected), True
    except HookFault:
        guessed = _guessed(data, expected, nameless)
        if guessed is None:
            return None
        event, is_read = guessed, False
    session = Session(session_id=event.session_id)
    # A fault of ours is in our words, which hold no argument.
    words = str(error) if isinstance(error, HookFault) else None
    if expected == END_EVENTS:
        report_unsettled(session, error, fault=words)
    elif expected == POST_EVENTS:
        report_unnoted(session, event.tool, event.args, error, fault=words)
    elif is_read:
        report_unjudged(session, event.tool, event.args, error, fault=words)
    else:
        report_unclear(session, event.tool, str(error))
    return event, session.violations


def _guessed(data: bytes, expected: Collection[str], nameless: str) -> HookEvent | None:
    """Read whose event it may be. Nothing is decided by it."""
    raw = _loosely_read(data)
    name, tool, session = raw.get("hook_event_name"), raw.get("tool_name"), raw.get("session_id")
    if isinstance(name, str) and name not in expected and _is_json(data):
        # The hook is set for another event than its own. In what nobody can read, no name is sure.
        return None
    tool = "user_prompt" if name == PROMPT_EVENT else tool if isinstance(tool, str) else ""
    named = session if is_session_id(session) else nameless
    return HookEvent(name="", session_id=named, tool=tool, args={})


def _is_json(data: bytes) -> bool:
    try:
        read_json(data)
    except JsonError:
        return False
    return True


def _loosely_read(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_INPUT:
        # A hook that is killed because it took too long has refused nothing.
        return {}
    try:
        raw = json.loads(data.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        return {}  # nobody can tell whose it is, which is what its record says
    return raw if isinstance(raw, dict) else {}
