"""Lines of MCP's JSON-RPC, as a proxy or a client logs them: ``tools/call`` and the answer with its id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .events import NOT_RECORDED, TraceEvent
from .pairing import Pairing
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
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            asked.add(id)
            # Arguments that are left out are none; those that are there and no object are not readable.
            name, args = params.get("name"), params.get("arguments", {})
            where, session = source.where(number), str(source.path)
            yield from pairs.began(id, name, args, where=where, session=session)
        elif "method" not in message and id in asked:
            result = message.get("result", NOT_RECORDED)
            yield from pairs.ended(id, result, failed="error" in message)
    yield from pairs.rest()
