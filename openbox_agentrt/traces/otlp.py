"""
Spans in OTLP's JSON, as the collector's ``file`` exporter writes them.

A call of a tool is a span by the semantic conventions of OpenTelemetry for generative AI, by OpenInference,
or by OpenLLMetry. A span is written when it has ended, so the spans of a file are put in the order in which
they began; what does not fit into memory waits in temporary files.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..acel.events import Outcome
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
# Of so many traces it is remembered whose they are.
_MOST_TRACES = 10_000
_SESSIONS = ("gen_ai.conversation.id", "session.id")


class _Span(NamedTuple):
    """One call, in an order that sorts, or with no tool a span that only names the session of its trace."""

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


def is_otlp(first: Any) -> bool:
    """Tell whether the first value of a file is of this kind."""
    return isinstance(first, dict) and ("resourceSpans" in first or "resource_spans" in first)


def read_otlp(source: RecordedFile) -> Iterator[TraceEvent]:
    """Read the calls of a file in the order in which they began and ended."""
    ends: list[tuple[int, int, Ended]] = []
    start, begun = 0, set[str]()
    sessions = _Sessions()
    for number, span in enumerate(in_order(_spans(source), _by_time)):
        session = sessions.of(span)
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
        call = Began(
            where=source.where(span.number),
            session=session,
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


class _Sessions:
    """
    Tell which session a span is of: the one that it names, or the first that a span of its trace named.

    The agent's span names it in most programs, and those of its tools do not.
    """

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def of(self, span: _Span) -> str:
        """Give the session of a span; spans come in the order in which they began."""
        told = self._told.get(span.trace)
        if told is None and span.session is not None:
            if len(self._told) >= _MOST_TRACES:
                del self._told[next(iter(self._told))]
            self._told[span.trace] = span.session
        return span.session or told or span.trace


def _spans(source: RecordedFile) -> Iterator[_Span]:
    for number, line in source.objects():
        if not is_otlp(line):
            source.unread["a line without spans"] += 1
            continue
        for resource in _list(line, "resourceSpans", "resource_spans"):
            for scope in _list(resource, "scopeSpans", "scope_spans"):
                for span in _list(scope, "spans"):
                    call = _call(source, number, span)
                    if call is not None:
                        yield call


def _call(source: RecordedFile, number: int, span: Mapping[str, Any]) -> _Span | None:
    known = _named(_list(span, "attributes"))
    session = next((str(known[name]) for name in _SESSIONS if known.get(name)), None)
    trace = str(span.get("traceId", span.get("trace_id", source.path)))
    names = next((names for names in _CONVENTIONS if known.get(names.kind) == names.is_tool), None)
    start = _time(span, "startTimeUnixNano", "start_time_unix_nano")
    if names is None:
        if session is None or start is None:
            return None
        # It stands before what began with it.
        return _Span(start, -1, start, session, trace, "", None, None, False, "")
    tool = known.get(names.tool)
    if not isinstance(tool, str) or not tool or start is None:
        source.unread["a call without a name" if start is not None else "a call without a time"] += 1
        return None
    status = span.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    return _Span(
        start=start,
        number=number,
        end=_time(span, "endTimeUnixNano", "end_time_unix_nano") or start,
        session=session,
        trace=trace,
        tool=tool,
        args=known.get(names.args),
        result=known.get(names.result),
        failed=code in (2, "STATUS_CODE_ERROR") or "error.type" in known,
        id=str(span.get("spanId", span.get("span_id", ""))),
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
    return {str(item.get("key")): _value(item.get("value")) for item in items}


def _time(span: Mapping[str, Any], *names: str) -> int | None:
    at = _whole(next((span[name] for name in names if name in span), None))
    return at if at is not None and at > 0 else None


def _whole(held: Any) -> int | None:
    """Read a whole number, which is a text in this JSON; None for anything else."""
    try:
        return int(held) if isinstance(held, str | int) else None
    except ValueError:
        return None


def _by_time(span: _Span) -> tuple[int, int]:
    return span.start, span.number
