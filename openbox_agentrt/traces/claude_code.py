"""
Transcripts of Claude Code: ``projects/*/SESSION.jsonl``.

Lines form a tree by ``parentUuid``: an edited prompt begins another branch, and only the one that went on
counts. Lines of sub-agents (``isSidechain``) are calls of the same session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from .._plain.times import seconds_of
from .events import NOT_RECORDED, TraceEvent
from .pairing import Pairing, said, texts_of
from .source import RecordedFile

_TYPES = frozenset({"user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation"})


def is_claude_code(first: Any) -> bool:
    """Tell whether the first value of a file is of this kind."""
    if not isinstance(first, dict):
        return False
    return first.get("type") in _TYPES and not first.keys().isdisjoint(
        ("uuid", "leafUuid", "sessionId", "messageId")
    )


def read_claude_code(source: RecordedFile) -> Iterator[TraceEvent]:
    """Read the calls of the branch that went on, and those of sub-agents."""
    live = _live(source)
    pairs = Pairing(source.unread)
    for number, line in source.objects():
        if not isinstance(line, dict):
            source.unread["a line that is no object"] += 1
            continue
        if line.get("uuid") not in live or line.get("type") not in ("user", "assistant"):
            continue
        at = seconds_of(line.get("timestamp"))
        session = line.get("sessionId")
        of: dict[str, Any] = {
            "where": source.where(number),
            "session": session if isinstance(session, str) else str(source.path),
            "at": at,
        }
        if line.get("isMeta") is not True and line.get("isSidechain") is not True:
            names = [str(part.get("name")) for part in _parts(line) if part.get("type") == "tool_use"]
            yield from said(line["type"], texts_of(_content(line)), tools=names, **of)
        for part in _parts(line):
            if part.get("type") == "tool_use":
                yield from pairs.began(part.get("id"), part.get("name"), part.get("input"), **of)
            elif part.get("type") == "tool_result":
                failed = part.get("is_error") is True
                result = part.get("content", NOT_RECORDED)
                yield from pairs.ended(part.get("tool_use_id"), result, failed=failed, at=at)
    yield from pairs.rest()


def _live(source: RecordedFile) -> set[Any]:
    """Find the lines that count: from the last one of the main branch up, and all of sub-agents."""
    parents: dict[Any, Any] = {}
    live: set[Any] = set()
    last = None
    for _, line in RecordedFile(source.path, Counter()).objects():
        uuid = line.get("uuid") if isinstance(line, dict) else None
        if uuid is None:
            continue
        if line.get("isSidechain") is True:
            live.add(uuid)
        else:
            # Where the conversation was made shorter, the line before says which one is really above.
            parents[uuid] = line.get("parentUuid") or line.get("logicalParentUuid")
            last = uuid
    while last is not None and last not in live:
        live.add(last)
        last = parents.get(last)
    return live


def _parts(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = _content(line)
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield part


def _content(line: dict[str, Any]) -> Any:
    message = line.get("message")
    return message.get("content") if isinstance(message, dict) else None
