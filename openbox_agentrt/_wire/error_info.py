"""
An exception as the ``error`` object of an event.

Texts of exceptions quote what they failed on: URLs with passwords and keys in their query, headers, local
paths. Core keeps what it is sent, so those are taken out first.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ..evidence.redaction.known_secrets import KEY_FORMS
from .payloads import safe_text

MESSAGE_LIMIT: Final = 2_000
HIDDEN: Final = "[hidden]"

# Of a word, also of one after an escape, as in a text that is quoted in JSON.
_BEGIN: Final = r"(?:\b|(?<=\\[bfnrt]))"

_SECRETS: Final = (
    # user:password@ in a URL
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@'\"]+@"), rf"\1{HIDDEN}@"),
    # the query of a URL
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s?'\"<>]+)\?[^\s'\"<>]*"), rf"\1?{HIDDEN}"),
    # Authorization: Bearer ..., X-Api-Key: ..., password=..., "secret": "..."
    (
        re.compile(
            rf"(?i){_BEGIN}((?:proxy-)?authorization|cookie|set-cookie"
            r"|[a-z0-9_-]*(?:api[_-]?key|token|secret|passw(?:or)?d|private[_-]?key|credential)s?)"
            r"(['\"]?\s*[:=]\s*['\"]?)(?:(?:bearer|basic|digest)\s+)?[^\s'\",;&)\]}]+"
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(rf"(?i){_BEGIN}(bearer|basic)\s+[a-z0-9._~+/=-]{{8,}}"), rf"\1 {HIDDEN}"),
    # keys that are known by their beginning, and JSON web tokens
    (
        re.compile(
            _BEGIN
            + r"(?:obx_(?:live|test)_|sk-|pk-|ghp_|gho_|github_pat_|xox[abprs]-|AKIA|AIza)[A-Za-z0-9_-]{6,}"
        ),
        HIDDEN,
    ),
    (re.compile(_BEGIN + KEY_FORMS), HIDDEN),
    (re.compile(_BEGIN + r"eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"), HIDDEN),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        HIDDEN,
    ),
)
_PATHS: Final = (
    re.compile(
        r"(?<![\w:/.])/(?:home|Users|root|tmp|var|opt|usr|etc|mnt|srv|private|app|data|workspace)(?:/[^\s'\":,;()]+)+"
    ),
    re.compile(r"\b[A-Za-z]:\\(?:[^\s'\":,;()]+\\)*[^\s'\":,;()]+"),
    re.compile(r"~(?:/[^\s'\":,;()]+)+"),
)


def scrub(text: str) -> str:
    """
    `text` without secrets and local paths, as far as they can be recognised by their form.

    A secret without a telling form or name is not recognised: do not rely on this for data, only for
    diagnostics.
    """
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    for pattern in _PATHS:
        text = pattern.sub("[path]", text)
    return text


def error_info(
    error: BaseException | None = None, *, type: str = "Error", message: str = ""
) -> dict[str, Any]:
    """
    The ``error`` object for `error`, or for an error that has no exception.

    Returns:
        ``type`` and ``message``. Never a stack trace: it holds source lines and paths of this machine.
    """
    if error is not None:
        type, message = error.__class__.__name__, _message(error)
    return {
        "type": safe_text(type),
        "message": scrub(safe_text(message[: 2 * MESSAGE_LIMIT]))[:MESSAGE_LIMIT],
    }


def whole_error(error: BaseException) -> dict[str, Any]:
    """
    Give all that an exception says, as the output that it is to whoever catches it.

    Unlike in `error_info` nothing is taken out: what is not shown could not be judged.

    Returns:
        ``type`` and ``message``, and where there are any, ``notes``, ``cause`` and the ``errors`` of a group.
    """
    return _whole(error, set())


def _whole(error: BaseException, seen: set[int]) -> dict[str, Any]:
    seen.add(id(error))
    info: dict[str, Any] = {"type": type(error).__name__, "message": _message(error)}
    notes = getattr(error, "__notes__", None)
    if notes:
        info["notes"] = notes
    cause = error.__cause__ or error.__context__
    if cause is not None and id(cause) not in seen:
        info["cause"] = _whole(cause, seen)
    if isinstance(error, BaseExceptionGroup):
        info["errors"] = [_whole(one, seen) for one in error.exceptions if id(one) not in seen]
    return info


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001
        # An error that cannot say what it is says nothing to whoever catches it either.
        return ""
