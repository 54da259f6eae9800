"""
End a run: every open row closed, then one terminal event, in an order that a cancellation cannot break.

All of it is decided and queued without awaiting. Only then is anything awaited, so whatever interrupts the
waiting changes when Core is told, and not what.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio

from .._wire.error_info import error_info
from ..acel.events import RUN_ENDED
from ..lifecycle_events import workflow_completed, workflow_failed
from ..message_extraction import message_text
from .contracts.unmet import conclude_contracts
from .report_answers import apply_report_answer

if TYPE_CHECKING:
    from openbox_core.contracts.events import EventEnvelope

    from .state import RunState

log = logging.getLogger(__name__)

GRACE_SECONDS = 0.5
"""How long a caller that was cancelled, or ran out of time, waits for Core to hear of it."""

STREAM_CLOSE_SECONDS = 2.0
"""How long a provider may take to close a stream that nobody reads any more."""

HURRIED_REASONS = frozenset({"cancelled", "timeout"})


def close_run(run: RunState, error: BaseException | None) -> BaseException | None:
    """
    Close every row of `run` and its workflow. Does not wait.

    Returns:
        The error that the run has to end with although it was fine: an obligation that was left open.
    """
    run.ending = True
    run.suspended = False
    for nested in run.nested_suspended:
        if nested.suspended:
            close_waiting(nested)  # its workflow belongs to one that ends now
    if run.parking is not None:
        run.parking.end_nested(run)
    for stream in tuple(run.open_streams):
        stream.abandon(error)
    for activity in tuple(run.open_activities.values()):
        activity.abandon(error)
    unmet = conclude_contracts(run, error)
    if run.services.options.send_run_end_event:
        # Nothing more starts in this run; a HALT in the answer stops those around it.
        heed = None if run.parent is None else partial(apply_report_answer, run, event=RUN_ENDED)
        run.reports.post(_terminal_event(run, error or unmet), heed=heed)
    _end(run, error or unmet)
    return unmet


def close_waiting(run: RunState) -> None:
    """Close `run`, which waits for a person, unless another process has gone on with it. Does not wait."""
    if run.parked and run.parking is not None:
        run.parking.end(run)
    else:
        close_run(run, None)


def let_go(run: RunState) -> None:
    """
    Forget `run`, with which another process goes on, or may. Nothing is reported of it. Does not wait.

    What it reserved in this process stays counted where it limits: nobody here knows how it ends.
    """
    run.ending = True
    run.suspended = False
    for activity in tuple(run.open_activities.values()):
        activity.let_go()
    _end(run, None)


def leave_session(run: RunState) -> None:
    """Leave the session of `run`, unless a run around it goes on with that."""
    if not run.parent_shares_session:
        run.services.sessions.leave(run.member, run.session, rests=run.rests)


async def settle_run(run: RunState, error: BaseException | None) -> None:
    """Wait for what `close_run` left to do: providers close their streams, and Core is told."""
    if isinstance(error, GeneratorExit):
        return  # nothing can be awaited here; the governance sends what is queued
    hurried = error is not None and not isinstance(error, Exception)
    hurried = hurried or getattr(run.result, "termination_reason", None) in HURRIED_REASONS
    await _close_streams(run)
    until = monotonic() + GRACE_SECONDS if hurried else None
    await _settle_waiting(run, until)
    await run.reports.settle(seconds=_left(until))


async def _settle_waiting(run: RunState, until: float | None) -> None:
    """Wait until what waited inside `run` has ended and Core's answers to that are known, as time allows."""
    if run.parking is not None:
        await run.parking.settle(run, seconds=_left(until))
    for nested in run.nested_suspended:
        await _settle_waiting(nested, until)
        if nested.ended:
            await nested.reports.settle(seconds=_left(until))


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - monotonic())


def _end(run: RunState, error: BaseException | None) -> None:
    run.ended = True
    spans, span = run.services.observers.spans, run.span
    if spans is not None and span is not None:
        spans.end(span, error)
    leave_session(run)


async def _close_streams(run: RunState) -> None:
    cancelled: asyncio.CancelledError | None = None
    for stream in tuple(run.open_streams):
        try:
            with anyio.fail_after(STREAM_CLOSE_SECONDS):
                await stream.aclose()
        except asyncio.CancelledError as error:
            cancelled = error  # the others have to be closed all the same
        except Exception:
            # The run has its own outcome, which a provider that fails to close must not change.
            log.exception("a model stream could not be closed")
    if cancelled is not None:
        raise cancelled


def _terminal_event(run: RunState, error: BaseException | None) -> EventEnvelope:
    if error is not None:
        return workflow_failed(run.identity, run.redactions.value(error_info(error)))
    result = run.result
    return workflow_completed(
        run.identity,
        result=run.redactions.value(_outcome(result)),
        termination_reason=getattr(result, "termination_reason", None),
        turns=getattr(result, "turns", None),
        tool_calls=getattr(result, "tool_calls", None),
        total_tokens=getattr(result, "total_tokens", None),
        max_bytes=run.services.options.max_payload_bytes,
    )


def _outcome(result: Any) -> Any:
    """Read the text or the structured output off an Agent-RT result; anything else is the outcome itself."""
    if not hasattr(result, "termination_reason"):
        return result
    if result.structured_output is not None:
        return result.structured_output
    response = result.final_response
    return None if response is None else message_text(response.message)
