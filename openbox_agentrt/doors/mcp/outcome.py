"""
What became of a call: read off the answer that the server gave.

An answer is one of four things, and only the first counts as a call that happened:

* *done*: a complete result without an error;
* *failed*: an error, in the result (``isError``) or instead of one. What it did before it failed is unknown;
* *waiting*: the server asks the client for input first and will be called again (``input_required``, or the
  error "URL elicitation required"). The call has not happened yet;
* *unknown*: an answer of an extension, e.g. a task that goes on in the background.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .calls import CALL

__all__ = ("Outcome", "is_waiting_error", "read_outcome")

URL_ELICITATION_REQUIRED = -32042


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What became of a call.

    Attributes:
        kind: See the module.
        value: What the call returned, for postconditions and the trace.
    """

    kind: Literal["done", "failed", "waiting", "unknown"]
    value: Any = None


def read_outcome(method: str, result: object) -> Outcome:
    """
    Read the result of a call.

    Args:
        method: Method of the request.
        result: The result, as the protocol writes it or as a model of the SDK.
    """
    if not isinstance(result, Mapping):
        dump = getattr(result, "model_dump", None)
        if dump is None:
            return Outcome(kind="unknown", value=result)
        result = dump(by_alias=True, mode="json", exclude_none=True)
        assert isinstance(result, Mapping)
    result_type = result.get("resultType", "complete")
    if result_type == "input_required":
        return Outcome(kind="waiting")
    if result_type not in (None, "complete"):
        return Outcome(kind="unknown", value=dict(result))
    if method != CALL:
        return Outcome(kind="done", value=dict(result))
    value = _value_of(result)
    if result.get("isError") not in (None, False):
        return Outcome(kind="failed", value=value)
    has_content = isinstance(result.get("content"), list) or result.get("structuredContent") is not None
    return Outcome(kind="done" if has_content else "unknown", value=value)


def is_waiting_error(code: object) -> bool:
    """Whether an error says that the client has to do something before the call can happen."""
    return code == URL_ELICITATION_REQUIRED


def _value_of(result: Mapping[str, Any]) -> Any:
    # Structured content, else the first text as JSON, else that text: most tools return a dict, and the SDK
    # sends it as text.
    structured = result.get("structuredContent")
    if structured is not None:
        return structured
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str):
            try:
                return json.loads(block["text"])
            except (ValueError, RecursionError):
                return {"text": block["text"]}
    return {}
