"""
Read what Claude Code tells a hook, once and strictly.

Fields that are not needed are passed over, because each version of the client adds some. A field that is
needed and is not what it should be is a `HookFault`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cached_property

from openbox_agentrt._plain.digest import text_digest
from openbox_agentrt._plain.strict_json import read_json
from openbox_agentrt._values import dataclass
from openbox_agentrt.doors.claude_code.folder import HookFault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

# How a call can end, as the client reports it.
POST_EVENTS = ("PostToolUse", "PostToolUseFailure", "PermissionDenied")

# What the user says is an event of the session, as in a governed run.
PROMPT_EVENT = "UserPromptSubmit"

CALL_EVENTS = ("PreToolUse", PROMPT_EVENT)
END_EVENTS = ("Stop", "SessionEnd")

MAX_INPUT = 64 * 1024 * 1024
"""So many bytes may an event have."""

_MAX_SESSION_ID = 1024


@dataclass(kw_only=True)
class HookEvent:
    """
    Hold one event of a Claude Code session.

    Attributes:
        name: ``PreToolUse``, ``PostToolUse``, ``SessionEnd`` and so on.
        session_id: The client's session.
        tool: Name of the tool, ``user_prompt`` for what the user says, or an empty text.
        args: What the client calls ``tool_input``, or the prompt.
        call_id: What the client calls ``tool_use_id``; older clients send none.
        ran: Whether the tool may have done something.
        ok: Whether it did what it was asked for, as far as the client says.
        repeated_stop: The client was kept from stopping before, and tries again.
        result: What the tool returned.
    """

    name: str
    session_id: str
    tool: str = ""
    args: Mapping[str, Any]
    call_id: str | None = None
    ran: bool = True
    ok: bool = True
    repeated_stop: bool = False
    result: Any = None

    @cached_property
    def digest(self) -> str:
        """Stands for the tool and its arguments: two calls with one digest are the same call made twice."""
        text = json.dumps([self.tool, self.args], sort_keys=True, separators=(",", ":"))
        return text_digest(text)[:32]


def read_event(data: bytes, *, expected: Collection[str]) -> HookEvent:
    """
    Read the event that a hook was given.

    Args:
        data: Standard input of the hook. A byte order mark, as PowerShell writes one, is passed over.
        expected: Names of the events that the hook is for.

    Raises:
        HookFault: It cannot be read, or is an event that the hook is not for.
    """
    if len(data) > MAX_INPUT:
        raise HookFault(f"the event is larger than {MAX_INPUT} bytes")
    try:
        raw = read_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise HookFault(f"the event on standard input is no JSON: {error}") from error
    if not isinstance(raw, dict):
        raise HookFault("the event on standard input is no JSON object")
    name = raw.get("hook_event_name")
    if not isinstance(name, str) or name not in expected:
        raise HookFault(
            f"this hook is for {' or '.join(expected)}, and not for {name!r:.100}",
            remedy="set the hook for its own event in settings.json",
        )
    return event_from(raw)


def event_from(raw: Mapping[str, Any]) -> HookEvent:
    """
    Read an event that is decoded and named already.

    Raises:
        HookFault: A field that is needed is not what it should be.
    """
    name: str = raw["hook_event_name"]
    session_id = raw.get("session_id")
    if not is_session_id(session_id):
        raise HookFault("the event has no session_id")
    if name == PROMPT_EVENT:
        prompt = raw.get("prompt")
        if not isinstance(prompt, str):
            raise HookFault("the event has no prompt")
        return HookEvent(name=name, session_id=session_id, tool="user_prompt", args={"prompt": prompt})
    if "tool_name" not in raw and name not in (*POST_EVENTS, "PreToolUse"):
        return HookEvent(
            name=name, session_id=session_id, args={}, repeated_stop=raw.get("stop_hook_active") is True
        )
    tool = raw.get("tool_name")
    if not isinstance(tool, str) or not tool:
        raise HookFault("the event has no tool_name")
    args = raw.get("tool_input")
    if not isinstance(args, dict):
        raise HookFault("the tool_input of the event is no JSON object")
    call_id = raw.get("tool_use_id")
    if call_id is not None and (not isinstance(call_id, str) or not call_id):
        raise HookFault("the tool_use_id of the event is no text")
    result = raw.get("tool_response")
    return HookEvent(
        name=name,
        session_id=session_id,
        tool=tool,
        args=args,
        call_id=call_id,
        ran=name != "PermissionDenied",
        ok=name == "PostToolUse" and raw.get("is_error") is not True and _is_success(result),
        result=result,
    )


def is_session_id(value: object) -> TypeGuard[str]:
    """Tell whether a value can name a session."""
    return isinstance(value, str) and 0 < len(value) <= _MAX_SESSION_ID


def _is_success(response: object) -> bool:
    # Claude Code reports most failures as PostToolUseFailure; these are the ways in which a response that is
    # reported as PostToolUse says that the work was not done, or is not done yet.
    if not isinstance(response, dict):
        return True
    return not (
        response.get("is_error") is True
        or response.get("isError") is True
        or response.get("success") is False
        or response.get("interrupted") is True
        or bool(response.get("error"))
        or bool(response.get("backgroundTaskId"))
    )
