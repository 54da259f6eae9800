"""
Spans in OTLP's JSON, as the collector's ``file`` exporter writes them.

A call of a tool is a span by the semantic conventions of OpenTelemetry for generative AI, by OpenInference,
or by OpenLLMetry. A span is written when it has ended, so the spans of a file are put in the order in which
they began; what does not fit into memory waits in temporary files.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from ..acel.events import Outcome
from .conversations import Conversations
from .events import NOT_RECORDED, Began, Ended, TraceEvent
from .pairing import arguments
from .sorting import in_order
from .source import RecordedFile


class _Names(NamedTuple):
    """The attributes in which one convention keeps what is asked for."""

    kind: str
    is_tool: str
    tool: str
    args: str
    result: str


_CONVENTIONS = (
    _Names(
        "gen_ai.operation.name",
        "execute_tool",
        "gen_ai.tool.name",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    ),
    _Names("openinference.span.kind", "TOOL", "tool.name", "input.value", "output.value"),
    _Names(
        "traceloop.span.kind",
        "tool",
        "traceloop.entity.name",
        "traceloop.entity.input",
        "traceloop.entity.output",
    ),
)


_NO_TIME = 2**64
"""From here on a number is no time: the format has 64 bits for it."""


class _Span(NamedTuple):
    """One call, in an order that sorts, or with no tool a span that others may have begun in."""

    start: int
    number: int
    end: int
    session: str | None
    trace: str
    tool: str
    args: Any
    result: Any
    failed: bool
    id: str
    parent: str


def is_otlp(first: Any) -> bool:
    """Tell whether the first value of a file is of this kind."""
    return isinstance(first, dict) and ("resourceSpans" in first or "resource_spans" in first)


def read_otlp(source: RecordedFile) -> Iterator[TraceEvent]:
    """Read the calls of a file in the order in which they began and ended."""
    ends: list[tuple[int, int, Ended]] = []
    start, begun = 0, set[str]()
    conversations = Conversations()
    # Plain tuples are written down in half the time.
    spans = in_order(map(tuple, _spans(source, conversations)), itemgetter(0, 1))
    for number, span in enumerate(map(_Span._make, spans)):
        conversations.began(span.trace, span.id, span.parent, span.session)
        if not span.tool:
            continue
        # An exporter that heard no answer sends a span again, and both begin at one time.
        if span.start != start:
            start, begun = span.start, set()
        if span.id in begun:
            source.unread["an id that stands twice"] += 1
            continue
        if span.id:
            begun.add(span.id)
        while ends and ends[0][0] <= span.start:
            yield heapq.heappop(ends)[2]
        session = span.session or conversations.of(span.trace, span.parent)
        if session is None:
            source.unread["conversations of calls whose traces have several"] += 1
        call = Began(
            where=source.where(span.number),
            session=session or span.trace,
            tool=span.tool,
            args=arguments(span.args),
            at=span.start / 1e9,
        )
        yield call
        outcome: Outcome = "failed" if span.failed else "ok"
        result = NOT_RECORDED if span.result is None else span.result
        end = Ended(call=call, outcome=outcome, result=result, at=span.end / 1e9)
        # One that took no time ends after it began all the same.
        heapq.heappush(ends, (max(span.end, span.start + 1), number, end))
    while ends:
        yield heapq.heappop(ends)[2]


def _spans(source: RecordedFile, conversations: Conversations) -> Iterator[_Span]:
    for number, line in source.objects():
        if not is_otlp(line):
            source.unread["a line without spans"] += 1
            continue
        for resource in _list(line, "resourceSpans", "resource_spans"):
            for scope in _list(resource, "scopeSpans", "scope_spans"):
                for span in _list(scope, "spans"):
                    known = _span(source, number, span)
                    if known is None:
                        continue
                    if known.session is not None:
                        conversations.named(known.trace, known.session)
                    yield known


def _span(source: RecordedFile, number: int, span: Mapping[str, Any]) -> _Span | None:
    known = _named(_list(span, "attributes"))
    names = next((names for names in _CONVENTIONS if known.get(names.kind) == names.is_tool), None)
    tool = None if names is None else known.get(names.tool)
    start = _time(span, "startTimeUnixNano", "start_time_unix_nano")
    if names is not None and (start is None or not isinstance(tool, str) or not tool):
        source.unread["a call without a name" if start is not None else "a call without a time"] += 1
        return None
    if start is None:
        return None
    session = known.get("gen_ai.conversation.id") or known.get("session.id")
    status = span.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    return _Span(
        start=start,
        # What is no call stands before the calls that began with it.
        number=-1 if names is None else number,
        end=_time(span, "endTimeUnixNano", "end_time_unix_nano") or start,
        session=str(session) if session else None,
        trace=_text(span, "traceId", "trace_id") or str(source.path),
        tool=tool or "",
        args=None if names is None else known.get(names.args),
        result=None if names is None else known.get(names.result),
        failed=code in (2, "STATUS_CODE_ERROR") or "error.type" in known,
        id=_text(span, "spanId", "span_id"),
        parent=_text(span, "parentSpanId", "parent_span_id"),
    )


def _list(value: Any, *names: str) -> list[Any]:
    found: Any = next((value[name] for name in names if name in value), []) if isinstance(value, dict) else []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _value(value: Any) -> Any:
    """Read a value of OTLP's type AnyValue."""
    if not isinstance(value, dict) or not value:
        return None
    kind, held = next(iter(value.items()))
    match kind:
        case "intValue" | "int_value":
            return _whole(held)
        case "arrayValue" | "array_value":
            return [_value(item) for item in _list(held, "values")]
        case "kvlistValue" | "kvlist_value":
            return _named(_list(held, "values"))
    return held


def _named(items: list[Any]) -> dict[str, Any]:
    named = {}
    for item in items:
        value = item.get("value")
        # By far the most are texts.
        is_text = type(value) is dict and len(value) == 1 and "stringValue" in value
        named[str(item.get("key"))] = value["stringValue"] if is_text else _value(value)
    return named


def _text(span: Mapping[str, Any], name: str, other: str) -> str:
    return str(span[name] if name in span else span.get(other, ""))


def _time(span: Mapping[str, Any], name: str, other: str) -> int | None:
    at = _whole(span[name] if name in span else span.get(other))
    return at if at is not None and 0 < at < _NO_TIME else None


def _whole(held: Any) -> int | None:
    """Read a whole number, which is a text in this JSON; None for anything else."""
    try:
        return int(held) if isinstance(held, str | int) else None
    except ValueError:
        return None
