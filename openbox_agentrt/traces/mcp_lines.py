"""
Lines of MCP's JSON-RPC, as a proxy, client or server logs them: ``tools/call`` and the answer with its id.

A line is a message, or an object that holds one, beside whatever else a logger writes: its session, its time.
Ids count within a connection. Which one a message is of is told by its session, where the line names one;
else an ``initialize`` begins a connection, and what comes after it is taken for calls of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .._plain.strict_json import JsonError, read_json
from .._plain.times import seconds_of
from .events import NOT_RECORDED, TraceEvent
from .pairing import Pairing
from .source import RecordedFile

_SESSIONS = frozenset(
    ("session", "sessionid", "mcpsessionid", "connection", "connectionid", "clientid", "conversationid")
)
_TIMES = ("timestamp", "ts", "time", "at")
_MESSAGES = frozenset(("message", "msg", "raw", "payload", "data", "frame", "body", "request", "response"))
_MILLISECONDS_FROM = 1e11
_NO_TIME = 1e300
# What servers ask clients for; ids of these are counted by the server.
_ASKED_BY_SERVERS = frozenset(("sampling/createMessage", "elicitation/create", "roots/list", "ping"))


class _Line(NamedTuple):
    """A message, and what its line says of it."""

    message: Mapping[str, Any]
    session: str | None
    at: float | None


def is_mcp(first: Any) -> bool:
    """Tell whether the first value of a file is of this kind."""
    return isinstance(first, dict) and _within(first) is not None


def read_mcp(source: RecordedFile) -> Iterator[TraceEvent]:
    """Read the calls of a file, by connection."""
    pairs = Pairing(source.unread)
    connections = _Connections(source)
    for number, value in source.objects():
        for each in value if isinstance(value, list) else (value,):
            line = _line(each)
            if line is None:
                source.unread["a line that is no JSON-RPC"] += 1
                continue
            yield from _take(source, pairs, connections, number, line)
    yield from pairs.rest()


class _Connections:
    """Tell which connection a message is of, and what its answer will be to."""

    def __init__(self, source: RecordedFile) -> None:
        self._source = source
        self._latest = str(source.path)
        self._asked: Counter[tuple[str | None, str]] = Counter()
        self.has_calls = False

    def begin(self, number: int) -> None:
        """Begin a connection that no line names. The first of a file is the file."""
        if self.has_calls:
            self._latest = self._source.where(number)

    def session(self, line: _Line) -> str:
        """Give the session of a call."""
        self.has_calls = self.has_calls or line.session is None
        return self._latest if line.session is None else line.session

    def ask(self, line: _Line) -> None:
        """Note that a server asks its client for something."""
        self._asked[_id_of(line)] += 1

    def answers_server(self, line: _Line) -> bool:
        """Tell whether an answer is to what a server asked, which comes before that to the call it is for."""
        id = _id_of(line)
        if not self._asked[id]:
            del self._asked[id]
            return False
        self._asked[id] -= 1
        return True


def _take(
    source: RecordedFile, pairs: Pairing, connections: _Connections, number: int, line: _Line
) -> Iterator[TraceEvent]:
    message = line.message
    # What is no text is a method that nobody knows.
    method = str(message["method"]) if message.get("method") is not None else None
    if method == "tools/call":
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        # Arguments that are left out are none; those that are there and no object are not readable.
        name, args = params.get("name"), params.get("arguments", {})
        of: dict[str, Any] = {"where": source.where(number), "session": connections.session(line)}
        yield from pairs.began(_id_of(line) if "id" in message else None, name, args, at=line.at, **of)
    elif method == "initialize":
        connections.begin(number)
    elif method in _ASKED_BY_SERVERS and "id" in message:
        connections.ask(line)
    elif method is None and not connections.answers_server(line) and pairs.is_open(_id_of(line)):
        result = message.get("result", NOT_RECORDED)
        yield from pairs.ended(_id_of(line), result, failed="error" in message, at=line.at)


def _id_of(line: _Line) -> tuple[str | None, str]:
    # 1 and "1" are two ids, and any JSON may stand there.
    return line.session, repr(line.message.get("id"))


def _line(value: Any) -> _Line | None:
    message = _within(value) if isinstance(value, dict) else None
    if message is None:
        return None
    headers = (part for name, part in value.items() if name.endswith("headers") and isinstance(part, dict))
    named = (_session_of(each) for each in (value, *headers, value.get("metadata")) if isinstance(each, dict))
    times = (_seconds(value[name]) for name in _TIMES if name in value)
    return _Line(
        message=message,
        session=next((session for session in named if session is not None), None),
        at=next((at for at in times if at is not None), None),
    )


def _within(value: dict[str, Any]) -> dict[str, Any] | None:
    """Find the message of a line: itself, or what it holds, as an object or as its text."""
    if "jsonrpc" in value:
        return value
    for name in value.keys() & _MESSAGES:
        held = part = value[name]
        if isinstance(part, str) and '"jsonrpc"' in part:
            try:
                held = read_json(part, finite=False)
            except JsonError:
                # A text that only looks like a message is none; a line without any is counted.
                continue
        if isinstance(held, dict) and "jsonrpc" in held:
            return held
    return None


def _session_of(value: Mapping[str, Any]) -> str | None:
    for name, held in value.items():
        if isinstance(held, str | int) and name.lower().replace("-", "").replace("_", "") in _SESSIONS:
            return str(held)
    return None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return seconds_of(value)
    # What is no number is below nothing, either.
    if not abs(value) < _NO_TIME:
        return None
    # As seconds, such a number would be a year after 5000.
    return value / 1000 if value >= _MILLISECONDS_FROM else float(value)
