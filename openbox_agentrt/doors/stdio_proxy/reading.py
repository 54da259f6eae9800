"""
Read a line from the client: a tool call, something else, or one that two readers would read differently.

The proxy stands in front of a server whose reader is not known. It may be Python's, Go's, a hand-written one;
it may fold the case of keys, keep the first of two equal keys or the last, or split lines at a carriage
return. A line is therefore one of three things, and only the first two are let through:

* *a message* that every such reader takes for the same message;
* *noise*: not JSON, and nothing in it could be read as a call by anyone;
* *unclear*: everything else. What the contracts judged would not be what the server runs.

Lines are never re-written: what is let through is let through byte for byte.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..mcp.calls import CALL, InvalidCallError, ServerCall, read_call
from .spelling import folded

_ENVELOPE = {folded(key): key for key in ("jsonrpc", "id", "method", "params", "result", "error")}
_CALL_PARAMS = {
    folded(key): key for key in ("name", "uri", "arguments", "_meta", "inputResponses", "requestState")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """
    Hold one JSON-RPC message that every reader takes for the same one.

    Attributes:
        raw: Its text as it stood in the line.
        body: The message.
        call: The call that it asks for, if its method is gated.
        batched: Whether it stood in a batch.
    """

    raw: bytes
    body: Mapping[str, Any]
    call: ServerCall | None = None
    batched: bool = False

    @property
    def method(self) -> str | None:
        """Give the method of a request or notification; `None` for an answer."""
        method = self.body.get("method")
        return method if isinstance(method, str) else None

    @property
    def expects_answer(self) -> bool:
        """Tell whether the server owes an answer: JSON-RPC's test is the presence of an id."""
        return "method" in self.body and self.body.get("id") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Stand for a line that no reader could take for a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """
    Stand for a line that could be read as a call in a way that was not judged.

    Attributes:
        reason: Why, for the client and the log; holds nothing of the line.
        id: Id of the request if there is exactly one to name, else `None`.
    """

    reason: str
    id: object = None


def id_key(value: object) -> str:
    """Give a request id in a form that compares as ids do: ``1`` and ``1.0`` are one id, ``"1"`` another."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, default=repr)


def read_client_line(
    line: bytes, *, gated: frozenset[str] = frozenset({CALL})
) -> list[Message] | Noise | Unclear:
    """
    Read one line from the client.

    Args:
        line: The line, with or without its end.
        gated: Methods that are calls.

    Returns:
        Its messages (several for a batch), or why there are none.
    """
    return _Reader(gated).read(line)


class _Reader:
    def __init__(self, gated: frozenset[str]) -> None:
        self._gated = gated
        # The last word of a method is enough of a trace: "call", "read", "get".
        self._traces = [method.rpartition("/")[2].encode() for method in gated]
        # Identities of the objects in which some reader takes two keys for one.
        self._clashes: set[int] = set()
        self._duplicate = False
        self._has_escapes = False

    def read(self, line: bytes) -> list[Message] | Noise | Unclear:
        body = line.strip(b" \t\r\n")
        if not body:
            return Noise()
        try:
            text = body.decode("utf-8")
            self._has_escapes = "\\u" in text
            root = json.loads(text, object_pairs_hook=self._build, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            # Fail-closed only where it matters: what is not JSON to this reader may be JSON to a laxer one.
            return self._unless_harmless(body, "the line is not valid JSON")
        if _splits_elsewhere(text):
            return Unclear(reason="the line can be split in two ways")
        if isinstance(root, dict):
            message = self._message(root, raw=body, batched=False)
            return message if isinstance(message, Unclear) else [message]
        if isinstance(root, list) and root and all(isinstance(item, dict) for item in root):
            return self._batch(text, root)
        return self._unless_harmless(body, "the line is not a JSON-RPC message")

    def _batch(self, text: str, items: list[dict[str, Any]]) -> list[Message] | Unclear:
        messages = []
        for item, raw in zip(items, _slices(text, len(items)), strict=True):
            message = self._message(item, raw=raw, batched=True)
            if isinstance(message, Unclear):
                return Unclear(reason=f"a message of the batch is unclear: {message.reason}")
            messages.append(message)
        return messages

    def _message(self, body: dict[str, Any], *, raw: bytes, batched: bool) -> Message | Unclear:
        if id(body) in self._clashes or _variant_of(body, _ENVELOPE):
            return Unclear(reason="a key of the message stands twice or in another case")
        method = body.get("method", "")
        call = None
        if not isinstance(method, str):
            if self._could_carry_a_call(raw):
                return Unclear(reason="the method is not text", id=body.get("id"))
        elif method in self._gated:
            found = self._call(method, body)
            if isinstance(found, Unclear):
                return found
            call = found
        elif folded(method) in self._gated:
            return Unclear(reason="the method is in another spelling", id=body.get("id"))
        return Message(raw=raw, body=body, call=call, batched=batched)

    def _call(self, method: str, body: dict[str, Any]) -> ServerCall | Unclear:
        params = body.get("params")
        try:
            call = read_call(method, params)
        except InvalidCallError as error:
            return Unclear(reason=str(error), id=body.get("id"))
        assert isinstance(params, dict)
        clashing = {id(params), id(params.get("arguments"))} & self._clashes
        if self._duplicate or clashing or _variant_of(params, _CALL_PARAMS):
            return Unclear(reason="a key of the call stands twice or in another case", id=body.get("id"))
        if self._has_escapes and not _is_unicode(params):
            return Unclear(reason="a text of the call is not Unicode", id=body.get("id"))
        return call

    def _build(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len({folded(key) for key in built}) < len(pairs):
            self._clashes.add(id(built))
            self._duplicate = self._duplicate or len(built) < len(pairs)
        return built

    def _unless_harmless(self, body: bytes, reason: str) -> Noise | Unclear:
        return Unclear(reason=reason) if self._could_carry_a_call(body) else Noise()

    def _could_carry_a_call(self, body: bytes) -> bool:
        # A backslash may hide any letter.
        lowered = body.lower()
        return b"\\" in lowered or any(trace in lowered for trace in self._traces)


def _slices(text: str, count: int) -> list[bytes]:
    # The texts of the items of a JSON array that is known to be valid.
    decoder = json.JSONDecoder()
    position, found = 1, []
    for _ in range(count):
        start = _after_space(text, position)
        _, end = decoder.raw_decode(text, start)
        found.append(text[start:end].encode())
        position = _after_space(text, end) + 1
    return found


def _after_space(text: str, position: int) -> int:
    while text[position] in " \t\r\n":
        position += 1
    return position


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _is_unicode(value: object) -> bool:
    # Half of a surrogate pair: some readers keep it, others put one character in the place of all of these.
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _variant_of(keys: Mapping[str, Any], known: Mapping[str, str]) -> bool:
    return any(known.get(folded(key), key) != key for key in keys)


def _splits_elsewhere(text: str) -> bool:
    # JSON allows a raw carriage return between two tokens, and Python's text mode splits there.
    pieces = text.split("\r")
    return len(pieces) > 1 and any(map(_is_container, pieces))


def _is_container(piece: str) -> bool:
    try:
        return isinstance(json.loads(piece), dict | list)
    except (ValueError, RecursionError):
        return False
