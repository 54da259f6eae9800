"""
Tell what became of a call, in one meaning for every way in.

A call that raised has failed. So has one whose tool says so in what it returns: MCP's ``isError``,
LangChain's ``status="error"``. What only the user knows, such as a status code in a dict, a hook says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from .events import OUTCOMES, Outcome

log = logging.getLogger(__name__)

OutcomeHook = Callable[[Any], Outcome]
"""Takes what a tool returned and says what became of the call."""

_MAX_DEPTH = 16
_TELLING = ("isError", "is_error", "tool_call_id")
"""Keys of a mapping that say what became of the call."""

_SAY_NOTHING = frozenset({str, int, float, bool, type(None), bytes})


def outcome_of(result: object, hook: OutcomeHook | None = None) -> Outcome:
    """
    Say what became of a call that returned.

    Args:
        result: What it returned.
        hook: Decides in place of what is known of results in general.

    Returns:
        "ok", "failed", "aborted" for a call that did nothing yet, or "unknown". A hook that raises or says
        anything else makes it "unknown": the call stays counted and allows nothing.
    """
    if hook is not None:
        return _asked(hook, result)
    if type(result) in _SAY_NOTHING:
        return "ok"
    return "failed" if _says_failed(result, 0) else "ok"


def _asked(hook: OutcomeHook, result: object) -> Outcome:
    try:
        said: object = hook(result)
    except Exception:
        # Fail-closed: a call of which nobody can say that it worked allows nothing.
        log.exception("the outcome hook raised; the outcome of the call is unknown")
        return "unknown"
    if isinstance(said, str) and said in OUTCOMES:
        return cast("Outcome", said)
    log.error("the outcome hook said %.100r; expected one of %s", said, ", ".join(OUTCOMES))
    return "unknown"


def _says_failed(result: Any, depth: int) -> bool:
    if depth > _MAX_DEPTH or (type(result) is dict and result.keys().isdisjoint(_TELLING)):
        return False
    if isinstance(result, list | tuple):
        # Several messages are one answer; a list of records is data.
        return any(_says_failed(part, depth + 1) for part in result if not isinstance(part, Mapping))
    if _field(result, "isError") is True or _field(result, "is_error") is True:
        return True
    if _field(result, "tool_call_id") is not None:
        return _field(result, "status") == "error"
    # A command of langgraph carries its messages in an update.
    update = None if isinstance(result, Mapping) else _field(result, "update")
    return isinstance(update, Mapping) and _says_failed(_as_list(update.get("messages")), depth + 1)


def _field(result: object, name: str) -> object:
    if type(result) is dict:
        return result.get(name)
    try:
        return result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
    except Exception as error:  # noqa: BLE001 - a result is anything at all, and its own code failed here
        log.debug("a result cannot be asked for %r: %s", name, type(error).__name__)
        return None


def _as_list(messages: object) -> list[Any]:
    return messages if isinstance(messages, list) else [messages]
