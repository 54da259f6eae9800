"""Judge a trace that was recorded: nothing runs, and nothing is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..contracts.tools import Asked
from ..events import ToolCallEvent, TraceError, read_stamp
from ..reservation import Reservation
from ..violations import Violation
from .engine import Engine


def replay_events(
    engine: Engine, events: Iterable[ToolCallEvent | Mapping[str, Any]], *, every: bool = False
) -> list[Violation]:
    """
    Judge each event in turn, and return what they break.

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
            event = record if isinstance(record, ToolCallEvent) else ToolCallEvent.from_record(record)
            # A row without a time is taken for one that happens now, by the session's clock.
            timed = isinstance(record, ToolCallEvent) or record.get("ts") is not None
            at = read_stamp(event.ts) if timed else None
        except TraceError as error:
            raise TraceError(error.problem, row=number) from None
        found += _replay(engine, event, at, every)
    return found


def _replay(engine: Engine, event: ToolCallEvent, at: float | None, every: bool) -> list[Violation]:
    call = engine.enter(event.tool, event.args)
    call.claim()
    store = engine.store
    if event.outcome == "aborted":
        # It never ran, so it is no part of what happened.
        store.skip(call)
        return []
    spec = call.plan.spec
    failed: Asked = [] if spec is None else spec.before(engine.view, call.args)
    breaches = store.reserve(call, at=at, force=True) or []
    found = engine.report_replayed(call, failed, breaches, every=every)
    if event.outcome == "unknown":
        store.lose(call)
    elif event.outcome == "failed":
        store.abort(call, ran=True, at=at)
    elif failed or breaches:
        # It broke something and happened all the same: contracts count it, the state does not.
        store.commit(call, at=at, result=event.result)
    else:
        found += _result(engine, call, event.result, at)
    return found


def _result(engine: Engine, call: Reservation, result: Any, at: float | None) -> list[Violation]:
    spec = call.plan.spec
    unsound = None if spec is None else engine.check(call, spec, result)
    if unsound is not None:
        engine.store.abort(call, ran=True, at=at)
        return [unsound]
    engine.store.commit(call, at=at, result=result)
    engine.rows.add(call.step, call.tool, call.args, result)
    return []
