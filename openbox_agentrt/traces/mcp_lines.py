"""Lines of MCP's JSON-RPC, as a proxy or a client logs them: ``tools/call`` and the answer with its id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .events import NOT_RECORDED, Began, TraceEvent
from .pairing import Pairing, arguments
from .source import RecordedFile


def is_mcp(first: Any) -> bool:
    """Tell whether the first value of a file is of this kind."""
    return isinstance(first, dict) and "jsonrpc" in first


def read_mcp(source: RecordedFile) -> Iterator[TraceEvent]:
    """Read the calls of one connection."""
    pairs, asked = Pairing(source.unread), set[Any]()
    for number, message in source.objects():
        if not isinstance(message, dict) or "jsonrpc" not in message:
            source.unread["a line that is no JSON-RPC"] += 1
            continue
        id = message.get("id")
        if message.get("method") == "tools/call":
            yield from _called(source, pairs, asked, number, message)
        elif "method" not in message and id in asked:
            result = message.get("result", NOT_RECORDED)
            yield from pairs.ended(id, result, failed="error" in message)
    yield from pairs.rest()


def _called(
    source: RecordedFile, pairs: Pairing, asked: set[Any], number: int, message: dict[str, Any]
) -> Iterator[TraceEvent]:
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    if not isinstance(name, str) or not isinstance(params, dict):
        source.unread["a call without a name"] += 1
        return
    # Arguments that are left out are none; those that are there and no object are not readable.
    given = arguments(params.get("arguments", {}))
    asked.add(message.get("id"))
    call = Began(where=source.where(number), session=str(source.path), tool=name, args=given)
    yield from pairs.began(message.get("id"), call)
