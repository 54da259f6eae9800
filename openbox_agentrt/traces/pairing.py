"""Calls and their results that stand apart, put together by their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._plain.strict_json import JsonError, read_json
from ..acel.events import ASSISTANT_TEXT, USER_PROMPT
from ..acel.outcome import outcome_of
from .events import NOT_RECORDED, Began, Ended, TraceEvent
from .open_calls import OpenCalls


class Pairing:
    """
    Give each call as it begins, and its end when its result comes.

    Args:
        unread: Counts what cannot be put together.
    """

    def __init__(self, unread: Counter[str]) -> None:
        self._unread = unread
        self._open = OpenCalls(unread)

    def began(self, id: object, tool: object, args: Any, **of: Any) -> Iterator[TraceEvent]:
        """Take a call in, by the name and the arguments that the recording has for it."""
        if not isinstance(tool, str):
            self._unread["a call without a name"] += 1
            return
        call = Began(tool=tool, args=arguments(args), **of)
        if id is None:
            self._unread["a call without an id"] += 1
            yield call
            yield Ended(call=call, outcome="unknown", at=call.at)
            return
        yield from self._open.add(id, call)

    def ended(
        self, id: object, result: Any, *, failed: bool = False, at: float | None = None
    ) -> Iterator[TraceEvent]:
        """Take the result of a call in."""
        call = self._open.pop(id)
        if call is None:
            self._unread["a result without its call"] += 1
            return
        outcome = "failed" if failed else "ok" if result is NOT_RECORDED else outcome_of(result)
        yield Ended(call=call, outcome=outcome, result=result, at=at)

    def is_open(self, id: object) -> bool:
        """Tell whether a call with an id is under way."""
        return id in self._open

    def rest(self) -> Iterator[TraceEvent]:
        """End the calls that have no result: nobody knows how they ended."""
        yield from self._open.rest()


def said(role: object, texts: Iterable[str], *, tools: Sequence[str] = (), **of: Any) -> Iterator[TraceEvent]:
    """Give what a user or a model said as the event that contracts know it as."""
    text = "\n".join(texts)
    if role == "user" and text:
        call = Began(tool=USER_PROMPT, args={"prompt": text}, **of)
    elif role == "assistant" and text:
        call = Began(tool=ASSISTANT_TEXT, args={"text": text, "tools": list(tools)}, **of)
    else:
        return
    yield call
    yield Ended(call=call, outcome="ok", result=None, at=call.at)


def texts_of(content: Any) -> list[str]:
    """Find the texts of a message: itself, or those of its parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def arguments(value: Any) -> Mapping[str, Any] | None:
    """Take what a recording holds for arguments: an object, or JSON text of one."""
    if isinstance(value, str):
        try:
            value = read_json(value, finite=False) if value.strip() else {}
        except JsonError:
            return None
    return value if isinstance(value, Mapping) else None
