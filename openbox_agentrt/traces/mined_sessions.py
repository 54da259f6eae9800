"""Put the calls of recordings together by session, as contracts are suggested from them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..acel.analysis.mining.recorded_sessions import Recorded
from ..acel.events import LIFECYCLE, USER_PROMPT, Outcome, ToolCallEvent
from .events import Began, TraceEvent, Unrecorded
from .sampled import SampledCall, SampledSessions, own_name

__all__ = ("RecordedSessions", "recorded_sessions")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSessions:
    """
    List recorded sessions.

    Attributes:
        sessions: The sessions.
        share: The share of all that they are.
        cut: How many calls were left out of a session that is too large by itself.
    """

    sessions: list[Recorded]
    share: float
    cut: int


def recorded_sessions(events: Iterable[TraceEvent]) -> RecordedSessions:
    """
    Put the calls of recordings together by session, those that were let through, as they overlapped.

    What several workers did of one session that moved between them is one. Events that are no tools are left
    out, but for what users said: that a model was called before a tool was holds always. Of a recording that
    does not fit into memory, some sessions are taken.
    """
    held = SampledSessions()
    for event in events:
        if not isinstance(event, Began) or (not event.refused and _is_mined(event)):
            held.take(event)
    found = (_session(name, some) for name, some in _together(held.calls, held.moved).items())
    return RecordedSessions(
        sessions=[session for session in found if any(session.ran())], share=held.share, cut=held.cut
    )


def _is_mined(call: Began) -> bool:
    return call.tool not in LIFECYCLE or (call.tool == USER_PROMPT and call.args is not None)


def _together(
    calls: Mapping[str, Mapping[Began, SampledCall]], moved: Collection[str]
) -> dict[str, list[SampledCall]]:
    """Put together what stands under several names and is one session, in the order of time."""
    joined: dict[str, list[SampledCall]] = {}
    for name, some in calls.items():
        own = own_name(name)
        joined.setdefault(own if own in moved else name, []).extend(some.values())
    for name in joined.keys() & moved:
        joined[name] = _in_time(joined[name])
    return joined


def _in_time(some: Iterable[SampledCall]) -> list[SampledCall]:
    """Put calls out of several files into the order of time, with their places in it."""
    steps: list[tuple[float, float, SampledCall]] = []
    for each in some:
        began, end = each.call.at or 0.0, each.end
        ended = math.inf if end is None else max(began, end.at or 0.0)
        steps += ((began, each.began, each), (ended, each.ended, each))
    steps.sort(key=lambda step: step[:2])
    spans: dict[Began, list[int]] = {}
    for place, (_, _, each) in enumerate(steps):
        spans.setdefault(each.call, []).append(place)
    order = {each.call: each for _, _, each in steps}
    return [each._replace(began=spans[call][0], ended=spans[call][1]) for call, each in order.items()]


def _session(name: str, some: Iterable[SampledCall]) -> Recorded:
    ran: list[SampledCall] = []
    prompts: list[tuple[int, str]] = []
    for each in some:
        call = each.call
        if call.tool != USER_PROMPT:
            ran.append(each)
        elif each.end is None or each.end.outcome != "aborted":
            prompts.append((len(ran), str((call.args or {}).get("prompt", ""))))
    return Recorded(
        name=name,
        calls=tuple(_event(each) for each in ran),
        spans=tuple((each.began, each.ended) for each in ran),
        places=tuple(each.call.where for each in ran),
        prompts=tuple(prompts),
    )


def _event(sampled: SampledCall) -> ToolCallEvent:
    call, end = sampled.call, sampled.end
    outcome: Outcome = "unknown" if end is None else end.outcome
    args = call.args if end is None or end.args is None else end.args
    result = None if end is None or isinstance(end.result, Unrecorded) else end.result
    return ToolCallEvent(call.tool, dict(args or {}), result, ts=call.at or 0.0, outcome=outcome)
