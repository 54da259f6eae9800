"""
Describe nested I/O to Core, without the secrets that the I/O itself needs.

openbox_core hides eight headers by name. A key in another header, in the query of a URL or in an error text
would be sent to Core and kept there. Bodies and statements are what policies judge, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from openbox_core.validation.diagnostics import ATTR_TRUNCATED, Diagnostic, DiagnosticLevel
from openbox_core.wire.evaluate_payload import make_payload_builder

from ..._wire.error_info import HIDDEN, scrub
from ..._wire.payloads import DEFAULT_MAX_BYTES, shown
from ...lifecycle_events import LLM_ACTIVITY

if TYPE_CHECKING:
    from openbox_core.config import PrivacyConfig
    from openbox_core.contracts.events import EventEnvelope


PayloadBuilder = Callable[["EventEnvelope"], tuple[dict[str, Any], list["Diagnostic"]]]

_SECRET_NAME: Final = re.compile(
    r"(?i)auth|cookie|token|secret|passw|pwd|credential|signature|session|api[-_]?key|access[-_]?key|^key$|^sig$"
    r"|^code$|^x-openbox-"
)
_HEADERS: Final = ("request_headers", "response_headers")
_ERRORS: Final = ("error",)


def quiet_payload_builder(privacy: PrivacyConfig, *, max_bytes: int = DEFAULT_MAX_BYTES) -> PayloadBuilder:
    """
    openbox_core's builder for hook events, with secrets hidden and every field JSON of a bounded size.

    What had to be cut is in the diagnostics, except of a model call's own request: Core has been shown what
    reaches the model, and is shown the beginning of how it is sent.
    """
    build_beginning = make_payload_builder(privacy)
    build_whole = make_payload_builder(replace(privacy, max_body_size=0))

    def quiet(event: EventEnvelope) -> tuple[dict[str, Any], list[Diagnostic]]:
        of_model = event.activity_type == LLM_ACTIVITY
        payload, diagnostics = (build_beginning if of_model else build_whole)(event)
        diagnostics = [found for found in diagnostics if found.code != ATTR_TRUNCATED]
        quiet_spans = [_quiet_span(span, max_bytes) for span in payload["spans"]]
        payload["spans"] = [span for span, _ in quiet_spans]
        if not of_model:
            diagnostics += [_was_cut(name, max_bytes) for _, cut in quiet_spans for name in cut]
        return payload, diagnostics

    return quiet


def quiet_url(url: str) -> str:
    """`url` without a password and without the values of query parameters that are named like secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return scrub(url)
    if not parts.query and "@" not in parts.netloc:
        return url
    query = "&".join(_quiet_parameter(parameter) for parameter in parts.query.split("&"))
    user, at, host = parts.netloc.rpartition("@")
    netloc = f"{HIDDEN}@{host}" if at and user else host
    return urlunsplit(SplitResult(parts.scheme, netloc, parts.path, query, parts.fragment))


def _quiet_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}={HIDDEN}" if equals and _SECRET_NAME.search(name) else parameter


def _quiet_span(span: Mapping[str, Any], max_bytes: int) -> tuple[dict[str, Any], list[str]]:
    """Give a span without secrets, and the names of its fields that had to be cut."""
    fields = {name: shown(_quiet_field(name, value), max_bytes=max_bytes) for name, value in span.items()}
    quiet = {name: value for name, (value, _) in fields.items()}
    return quiet, [name for name, (_, is_whole) in fields.items() if not is_whole]


def _was_cut(name: str, max_bytes: int) -> Diagnostic:
    return Diagnostic(DiagnosticLevel.INFO, ATTR_TRUNCATED, f"{name} was cut to {max_bytes} bytes")


def _quiet_field(name: str, value: Any) -> Any:
    if name in _HEADERS and isinstance(value, Mapping):
        return {key: HIDDEN if _SECRET_NAME.search(str(key)) else item for key, item in value.items()}
    if name == "attributes" and isinstance(value, Mapping):
        return {key: _quiet_attribute(str(key), item) for key, item in value.items()}
    if name in _ERRORS and isinstance(value, str):
        return scrub(value)
    if isinstance(value, str) and "url" in name:
        return quiet_url(value)
    return value


def _quiet_attribute(name: str, value: Any) -> Any:
    if "header" in name and _SECRET_NAME.search(name.rsplit(".", 1)[-1]):
        return HIDDEN
    if isinstance(value, str) and ("url" in name or "target" in name):
        return quiet_url(value)
    return value
