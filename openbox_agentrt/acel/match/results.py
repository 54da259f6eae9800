"""
Read the result of a call as contracts see it.

A tool answers in many wrappings, and what counts is the data inside: text that is JSON is read as JSON, the
structured content of an MCP answer or else its texts, the content of a LangChain message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..._plain.arguments import plain_value
from .paths import FieldPath

MAX_TEXT = 16 * 2**20
"""Text that is longer, in characters, is not read as JSON: whoever waits for it is refused."""

_MAX_WRAPPED = 8
# What an answer of an MCP server may hold, as the protocol writes it and as its SDK does.
_STRUCTURED = ("structuredContent", "structured_content")
_MCP_RESULT = frozenset(
    {"content", *_STRUCTURED, "isError", "is_error", "_meta", "meta", "resultType", "result_type"}
)


class Result:
    """
    Give the data of a result, read when it is first asked for.

    Args:
        given: What the call returned.
    """

    __slots__ = ("_data", "_given", "_read")

    def __init__(self, given: Any) -> None:
        self._given = given
        self._data: Any = None
        self._read = False

    @property
    def data(self) -> Any:
        """Give the data, which may be anything. Raises nothing."""
        if not self._read:
            self._data = _unwrapped(self._given, 0)
            self._read = True
        return self._data

    def find(self, path: FieldPath | None) -> Iterator[Any]:
        """Give the values at a path, one after another; None for the data itself. See `FieldPath.reach`."""
        return iter((self.data,)) if path is None else path.reach(self.data)


def _unwrapped(value: Any, depth: int) -> Any:
    if depth >= _MAX_WRAPPED:
        return value
    if isinstance(value, str):
        return _decoded(value)
    if not isinstance(value, Mapping | list | tuple):
        value = plain_value(value)
    if isinstance(value, Mapping):
        return _of_mapping(value, depth)
    if isinstance(value, list | tuple) and value and all(map(_is_wrapper, value)):
        return _one_or_all([_of_wrapper(part, depth) for part in value])
    return value


def _decoded(text: str) -> Any:
    start = text.lstrip()[:1]
    if len(text) > MAX_TEXT or start not in ("{", "[", '"'):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # It looked like JSON and is none, so it is text.
        return text


def _of_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    content = value.get("content")
    if value.keys() <= _MCP_RESULT and value.keys() & {"content", *_STRUCTURED}:
        structured = [value[name] for name in _STRUCTURED if value.get(name) is not None]
        return structured[0] if structured else _unwrapped(content, depth + 1)
    if "tool_call_id" in value and "content" in value:
        return _unwrapped(content, depth + 1)
    update = value.get("update")
    if "goto" in value and isinstance(update, Mapping) and "messages" in update:
        return _unwrapped(update["messages"], depth + 1)
    return value


def _is_wrapper(part: Any) -> bool:
    if not isinstance(part, Mapping):
        part = plain_value(part)
    if not isinstance(part, Mapping):
        return False
    return (part.get("type") == "text" and "text" in part) or "tool_call_id" in part


def _of_wrapper(part: Any, depth: int) -> Any:
    part = plain_value(part)
    return _unwrapped(part["text"] if part.get("type") == "text" else part, depth + 1)


def _one_or_all(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else parts
