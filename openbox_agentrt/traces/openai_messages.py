"""
Messages in OpenAI's two shapes: chat completions, and items of the Responses API.

A file is a list of messages, an object with ``messages``, ``input`` or ``output``, or a line for each
conversation. Neither shape says when a call was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .events import NOT_RECORDED, TraceEvent
from .pairing import Pairing, said, texts_of
from .source import RecordedFile


def is_openai(first: Any) -> bool:
    """Tell whether the first value of a file is of this kind."""
    if isinstance(first, list):
        return bool(first) and is_openai(first[0])
    if not isinstance(first, dict):
        return False
    if any(isinstance(first.get(name), list) for name in ("messages", "input", "output")):
        return True
    return "role" in first or first.get("type") in ("function_call", "function_call_output", "message")


def read_openai(source: RecordedFile) -> Iterator[TraceEvent]:
    """Read the calls of each conversation of a file."""
    loose: list[tuple[int, Any]] = []
    for number, value in source.objects():
        conversation = _conversation(value)
        if conversation is None:
            loose.append((number, value))
        else:
            session = _name(value) or source.where(number)
            yield from _read(source, session, ((number, item) for item in conversation))
    if loose:
        yield from _read(source, str(source.path), iter(loose))


def _conversation(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    found = [value[name] for name in ("messages", "input", "output") if isinstance(value.get(name), list)]
    return [item for items in found for item in items] if found else None


def _name(value: Any) -> str | None:
    name = value.get("conversation_id", value.get("id")) if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _read(source: RecordedFile, session: str, items: Iterator[tuple[int, Any]]) -> Iterator[TraceEvent]:
    pairs = Pairing(source.unread)
    for number, item in items:
        if not isinstance(item, dict):
            source.unread["a message that is no object"] += 1
            continue
        where = source.where(number)
        names = [name for _, name, _ in _calls(item) if isinstance(name, str)]
        texts = texts_of(item.get("content"))
        yield from said(item.get("role"), texts, tools=names, where=where, session=session)
        for id, name, given in _calls(item):
            yield from pairs.began(id, name, given, where=where, session=session)
        if item.get("role") == "tool":
            yield from pairs.ended(item.get("tool_call_id"), item.get("content", NOT_RECORDED))
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield from pairs.ended(item.get("call_id"), item.get("output", NOT_RECORDED))
    yield from pairs.rest()


def _calls(item: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    if item.get("type") == "function_call":
        yield item.get("call_id"), item.get("name"), item.get("arguments")
    called = item.get("tool_calls")
    for call in called if isinstance(called, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield call.get("id"), function.get("name"), function.get("arguments")
