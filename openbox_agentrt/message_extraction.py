"""
Read what was said: the text of messages, the metadata of a response, and redactions into copies.

Pure functions over Agent-RT's values, which are frozen; nothing here changes a message, and nothing here
imports Agent-RT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ._wire.payloads import DEFAULT_MAX_BYTES
from ._wire.redaction_shapes import fit_redaction, unfit_redaction
from .lifecycle_events import ESCAPED_SENTINEL, SENTINEL

__all__ = (
    "last_user_text",
    "message_text",
    "redacted_arguments",
    "redacted_output",
    "redacted_prompt",
    "response_output",
    "with_text",
)


def message_text(message: Any) -> str:
    """All text of a message, its parts joined as Agent-RT joins them. Media and JSON parts have no text."""
    return "".join(part.text or "" for part in message.content if part.type == "text")


def last_user_text(messages: Sequence[Any]) -> str:
    """Give the text of the last user message: ``""`` if it has none, whatever was said before it."""
    for message in reversed(messages):
        if message.role == "user":
            text = message_text(message)
            return text if text.strip() else ""
    return ""


def with_text(message: Any, text: str) -> Any:
    """
    A copy of `message` whose only text is `text`, in the place of the first text part.

    Media and other parts stay where they are. When `text` is empty and something else is left, there is no
    text part: some providers refuse empty ones.
    """
    parts = []
    placed = False
    for part in message.content:
        if part.type != "text":
            parts.append(part)
        elif not placed:
            parts.append(replace(part, text=text))
            placed = True
    if not text and len(parts) > 1:
        parts = [part for part in parts if part.type != "text"]
    return replace(message, content=tuple(parts))


def redacted_prompt(prompt: str, redacted: object, *, max_bytes: int = DEFAULT_MAX_BYTES) -> str:
    """
    The prompt that takes the place of `prompt`; `redacted` is ``redacted_input`` of the answer.

    Raises:
        GovernanceUnavailableError: The redaction cannot be applied.
    """
    (fitted,) = fit_redaction([{"prompt": prompt}], redacted, max_bytes=max_bytes)
    text = fitted["prompt"]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise unfit_redaction("core's redaction of the prompt is not text")
    return text


def redacted_arguments(
    arguments: Mapping[str, Any], redacted: object, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Mapping[str, Any]:
    """
    The arguments that take the place of `arguments`: the same object when nothing is redacted, else a copy.

    Raises:
        GovernanceUnavailableError: The redaction cannot be applied.
    """
    shown = arguments
    if SENTINEL in arguments:
        shown = {ESCAPED_SENTINEL if key == SENTINEL else key: value for key, value in arguments.items()}
    (fitted,) = fit_redaction([shown], redacted, max_bytes=max_bytes)
    if fitted is shown:
        return arguments
    return {SENTINEL if key == ESCAPED_SENTINEL else key: value for key, value in fitted.items()}


def redacted_output(output: Any, redacted: object, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Any:
    """
    Give what takes the place of `output`, a tool's result or `response_output`: itself if not redacted.

    Raises:
        GovernanceUnavailableError: The redaction cannot be applied.
    """
    if isinstance(redacted, str) and isinstance(output, Mapping) and "completion" in output:
        # Text alone cannot say which text of a model's output it replaces; only one is the model's.
        redacted = {"completion": redacted}
    return fit_redaction([output], redacted, max_bytes=max_bytes)[0]


def response_output(response: Any) -> dict[str, Any]:
    """``activity_output`` of a model call. All keys are present, null where the provider did not say."""
    usage = response.usage
    return {
        "llm_model": response.model,
        "input_tokens": None if usage is None else usage.input_tokens,
        "output_tokens": None if usage is None else usage.output_tokens,
        "total_tokens": None if usage is None else usage.total_tokens,
        "completion": message_text(response.message),
        "has_tool_calls": bool(response.message.tool_calls),
        "finish_reason": response.finish_reason,
    }
