"""
Transcripts of Claude Code: ``projects/*/SESSION.jsonl``.

Lines form a tree by ``parentUuid``: an edited prompt begins another branch, and only the one that went on
counts, with all that happened in its turns. Lines of sub-agents (``isSidechain``) are calls of the same
session.
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
    kind = first.get("type")
    return (
        isinstance(kind, str)
        and kind in _TYPES
        and not first.keys().isdisjoint(("uuid", "leafUuid", "sessionId", "messageId"))
    )


def read_claude_code(source: RecordedFile) -> Iterator[TraceEvent]:
    """Read the calls of the branch that went on, and those of sub-agents."""
    turns = _Turns(source)
    pairs = Pairing(source.unread)
    for number, line in source.objects():
        if not isinstance(line, dict):
            source.unread["a line that is no object"] += 1
            continue
        if line.get("type") not in ("user", "assistant") or not isinstance(line.get("uuid"), str):
            continue
        went_on = turns.take(line)
        if went_on is None:
            source.unread["a line that stands twice"] += 1
        elif went_on:
            yield from _take(source, pairs, number, line)
    yield from pairs.rest()


def _take(source: RecordedFile, pairs: Pairing, number: int, line: dict[str, Any]) -> Iterator[TraceEvent]:
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


class _Turns:
    """
    Tell which lines went on: those of every prompt from the last one up.

    Only another prompt leaves a branch behind. Within a turn, lines of calls that were made side by side,
    notes of hooks and errors of the network are branches too, and all of them happened.
    """

    def __init__(self, source: RecordedFile) -> None:
        self._turn_of: dict[str, str | None] = {}
        before: dict[str, str | None] = {}
        last: str | None = None
        for _, line in RecordedFile(source.path, Counter()).objects():
            uuid = line.get("uuid") if isinstance(line, dict) else None
            if not isinstance(uuid, str) or line.get("isSidechain") is True or uuid in self._turn_of:
                continue
            # Where the conversation was made shorter, the line before says which one is really above.
            parent = line.get("parentUuid") or line.get("logicalParentUuid")
            above = self._turn_of.get(parent) if isinstance(parent, str) else None
            if _is_prompt(line):
                before[uuid] = above
                above = uuid
            last = self._turn_of[uuid] = above
        self._live: set[str | None] = {None}
        while last is not None:
            self._live.add(last)
            last = before[last]

    def take(self, line: dict[str, Any]) -> bool | None:
        """Tell of a line whether it went on; None if it was there before."""
        if line.get("isSidechain") is True:
            return True
        if line["uuid"] not in self._turn_of:
            return None
        return self._turn_of.pop(line["uuid"]) in self._live


def _is_prompt(line: dict[str, Any]) -> bool:
    if line.get("type") != "user" or line.get("isMeta") is True:
        return False
    return not any(part.get("type") == "tool_result" for part in _parts(line))


def _parts(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = _content(line)
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield part


def _content(line: dict[str, Any]) -> Any:
    message = line.get("message")
    return message.get("content") if isinstance(message, dict) else None
