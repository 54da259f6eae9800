"""The record of a call that a hook refuses because of a fault. Loaded only where there is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openbox_agentrt.acel.session import Session
from openbox_agentrt.doors.claude_code.event import (
    MAX_INPUT,
    PROMPT_EVENT,
    HookEvent,
    is_session_id,
    read_event,
)
from openbox_agentrt.doors.claude_code.folder import HookFault
from openbox_agentrt.doors.unfit import report_unclear, report_unjudged

if TYPE_CHECKING:
    from openbox_agentrt.acel import Violation

_CALLS = ("PreToolUse", PROMPT_EVENT)


def unjudged_call(data: bytes, error: Exception) -> tuple[HookEvent, list[Violation]] | None:
    """
    Give the call that a fault refuses, and what the evidence of its session says of it.

    It is without the calls before it, which are of no matter to it and may be what could not be read.

    Args:
        data: Standard input of the hook.
        error: The fault.

    Returns:
        The call, as far as it can be read, and its record; None if it is no call, or names no session.
    """
    try:
        event = read_event(data, expected=_CALLS)
    except HookFault as unread:
        guessed = _guessed(data)
        if guessed is None:
            return None
        session = Session(session_id=guessed.session_id)
        report_unclear(session, guessed.tool, str(unread))
        return guessed, session.violations
    session = Session(session_id=event.session_id)
    # A fault of ours is in our words, which hold no argument.
    words = str(error) if isinstance(error, HookFault) else None
    report_unjudged(session, event.tool, event.args, error, fault=words)
    return event, session.violations


def _guessed(data: bytes) -> HookEvent | None:
    """Read whose call it may be. Nothing is decided by it: the call is refused."""
    if len(data) > MAX_INPUT:
        # A hook that is killed because it took too long has refused nothing.
        return None
    try:
        raw: Any = json.loads(data.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or not is_session_id(raw.get("session_id")):
        return None
    name, tool = raw.get("hook_event_name"), raw.get("tool_name")
    if isinstance(name, str) and name not in _CALLS:
        # The hook is set for another event than its own.
        return None
    tool = "user_prompt" if name == PROMPT_EVENT else tool if isinstance(tool, str) else ""
    return HookEvent(name="", session_id=raw["session_id"], tool=tool, args={})
