"""Judge a trace that was recorded: nothing runs, and nothing is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..._values import dataclass
from ..events import ToolCallEvent, TraceError, read_stamp
from ..wording import shown

if TYPE_CHECKING:
    from ..contracts.tools import Asked
    from ..reservation import Reservation
    from ..violations import Violation
    from .engine import Engine


def replay_events(
    engine: Engine, events: Iterable[ToolCallEvent | Mapping[str, Any]], *, every: bool = False
) -> list[Violation]:
    """
    Judge each event in turn, and return what they break.

    A row is a whole call. Calls that overlap are two rows each: ``{"event": "began", "call": "a",
    "tool": ..., "args": ...}`` and later ``{"event": "ended", "call": "a", "outcome": ...}``.

    Args:
        engine: What judges.
        events: The events.
        every: Report a contract for each event that breaks it, not once.

    Raises:
        TraceError: A row cannot be read. It names the row.
    """
    found: list[Violation] = []
    for number, record in enumerate(events, 1):
        try:
            found += _replay(engine, record, every)
        except TraceError as error:
            raise TraceError(error.problem, row=number) from None
    return found


@dataclass(frozen=True, slots=True)
class Replayed:
    """Hold a recorded call that has begun, and whether something objected to it."""

    call: Reservation
    broke: bool


def _replay(engine: Engine, record: ToolCallEvent | Mapping[str, Any], every: bool) -> list[Violation]:
    # Of anything but a mapping of one's own, `_read` says what is wrong with it.
    half = record.get("event") if type(record) is dict else None
    if half is not None:
        assert isinstance(record, dict)
        return _half(engine, half, record, every)
    event, at = _read(record)
    if event.outcome == "aborted":
        # It never ran, so it is no part of what happened.
        engine.store.skip(engine.enter(event.tool, event.args))
        return []
    begun, found = _begin(engine, event, at, every)
    return found + _end(engine, begun, event, at)


def _half(engine: Engine, half: object, record: Mapping[str, Any], every: bool) -> list[Violation]:
    name = record.get("call")
    if not isinstance(name, str):
        raise TraceError(f"'call' must be text, got {shown(name)}")
    if half == "began":
        event, at = _read(record)
        if name in engine.replaying:
            raise TraceError(f"call {shown(name)} began twice")
        engine.replaying[name], found = _begin(engine, event, at, every)
        return found
    if half != "ended":
        raise TraceError(f"'event' must be began or ended, got {shown(half)}")
    begun = engine.replaying.pop(name, None)
    if begun is None:
        raise TraceError(f"call {shown(name)} ended and never began")
    event, at = _read({**record, "tool": begun.call.tool})
    return _end(engine, begun, event, at)


def _read(record: ToolCallEvent | Mapping[str, Any]) -> tuple[ToolCallEvent, float | None]:
    event = record if isinstance(record, ToolCallEvent) else ToolCallEvent.from_record(record)
    # A row without a time is taken for one that happens now, by the session's clock.
    timed = isinstance(record, ToolCallEvent) or record.get("ts") is not None
    return event, read_stamp(event.ts) if timed else None


def _begin(
    engine: Engine, event: ToolCallEvent, at: float | None, every: bool
) -> tuple[Replayed, list[Violation]]:
    call = engine.enter(event.tool, event.args)
    spec = call.plan.spec
    failed: Asked = [] if spec is None else spec.before(engine.view, call.args)
    breaches = engine.store.reserve(call, at=at, force=True) or []
    # Its record ends it, and no finalizer.
    call.under_way.pop(call.step, None)
    return Replayed(call, bool(failed or breaches)), engine.report_replayed(
        call, failed, breaches, every=every
    )


def _end(engine: Engine, begun: Replayed, event: ToolCallEvent, at: float | None) -> list[Violation]:
    call, store = begun.call, engine.store
    if event.outcome == "unknown":
        store.lose(call, at=at)
    elif event.outcome in ("failed", "aborted"):
        store.abort(call, ran=event.outcome == "failed", at=at)
    elif begun.broke:
        # It broke something and happened all the same: contracts count it, the state does not.
        store.commit(call, at=at, result=event.result)
    else:
        return _result(engine, call, event.result, at)
    return []


def _result(engine: Engine, call: Reservation, result: Any, at: float | None) -> list[Violation]:
    spec = call.plan.spec
    unsound = None if spec is None else engine.check(call, spec, result)
    if unsound is not None:
        engine.store.abort(call, ran=True, at=at)
        return [unsound]
    engine.store.commit(call, at=at, result=result)
    engine.rows.add(call.step, call.tool, call.args, result)
    return []
