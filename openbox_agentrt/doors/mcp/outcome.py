"""
Read what became of a call off the answer that the server gave.

| the server gives | outcome |
| --- | --- |
| a complete result without an error | ok |
| an error, in the result (``isError``) or instead of one | failed; what it did before is not known |
| a request for input (``input_required``, or the error "URL elicitation required") | aborted: the client is \
  asked first, and calls again |
| an answer of an extension, e.g. a task that goes on in the background | unknown |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...acel.outcome import OutcomeHook, outcome_of
from ..outcome import CallEnd
from .calls import CALL

if TYPE_CHECKING:
    from ...acel.events import Outcome

URL_ELICITATION_REQUIRED = -32042


@dataclass(frozen=True, slots=True)
class ServerReading:
    """
    Read the results and errors of a server.

    Attributes:
        method: Method of the requests that it answers.
        hook: The user's own way to tell what became of a call, from the value that a complete result holds.
    """

    method: str
    hook: OutcomeHook | None = None

    def of_result(self, result: Any) -> CallEnd:
        answer = read_answer(self.method, result)
        if self.hook is None or answer.outcome != "ok":
            return answer
        return CallEnd(outcome_of(answer.value, self.hook), answer.value)

    def of_error(self, error: BaseException) -> Outcome:
        return "aborted" if is_waiting_error(getattr(error, "code", None)) else "failed"

    def with_value(self, result: Any, value: Any) -> Any:
        """Give a tool's result with another value, in the places where it stood."""
        if self.method != CALL:
            return value
        body = result if isinstance(result, Mapping) else result.model_dump(by_alias=True, mode="json")
        told = {**body, "content": [{"type": "text", "text": _text_of(value)}]}
        if body.get("structuredContent") is not None:
            told["structuredContent"] = value
        return told


def read_answer(method: str, result: object) -> CallEnd:
    """
    Read the result of a call.

    Args:
        method: Method of the request.
        result: The result, as the protocol writes it or as a model of the SDK.
    """
    if not isinstance(result, Mapping):
        dump = getattr(result, "model_dump", None)
        if dump is None:
            return CallEnd("unknown", result)
        result = dump(by_alias=True, mode="json", exclude_none=True)
        assert isinstance(result, Mapping)
    result_type = result.get("resultType", "complete")
    if result_type == "input_required":
        return CallEnd("aborted")
    if result_type not in (None, "complete"):
        return CallEnd("unknown", dict(result))
    if method != CALL:
        return CallEnd("ok", dict(result))
    value = _value_of(result)
    if result.get("isError") not in (None, False):
        # Of a server that nobody knows, whatever it puts there is an error.
        return CallEnd("failed", value)
    has_content = isinstance(result.get("content"), list) or result.get("structuredContent") is not None
    return CallEnd("ok" if has_content else "unknown", value)


def _text_of(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"text"} and isinstance(value["text"], str):
        # A text that is no JSON, see `_value_of`.
        return value["text"]
    return json.dumps(value)


def is_waiting_error(code: object) -> bool:
    """Tell whether an error says that the client has to do something before the call can happen."""
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
