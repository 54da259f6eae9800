"""``openbox-agentrt mine``: suggest contracts from recorded sessions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ..acel.analysis.mining.mine import Mined, Suggestion, mine
from ..acel.analysis.mining.recorded_sessions import Recorded
from ..acel.events import LIFECYCLE, USER_PROMPT, Outcome, ToolCallEvent
from ..traces.events import Began, Ended, TraceEvent, Unrecorded
from ..traces.formats import Recordings
from ..traces.sampled import SampledSessions, own_name
from .options import AsJson, Format
from .progress import Progress
from .running import InputError
from .text import print_result, say

app = typer.Typer(add_completion=False)


@app.command(name="mine")
def mine_recordings(
    paths: Annotated[
        list[str],
        typer.Argument(help="Recordings of sessions that went well, and folders of them.", metavar="PATH..."),
    ],
    min_support: Annotated[
        int, typer.Option(help="So often at least a contract could have been broken.", min=1)
    ] = 5,
    confidence: Annotated[
        float, typer.Option(help="So large a share of times at least it held.", min=0.0, max=1.0)
    ] = 1.0,
    effects: Annotated[
        str, typer.Option(help="Tools that change something, with commas: only about these.", metavar="TOOLS")
    ] = "",
    format: Format = "auto",
    as_json: AsJson = False,
) -> int:
    """Suggest contracts that recorded sessions keep to, as rules of which every one only watches."""
    recordings = Recordings(paths, format=format)
    held = recorded_sessions(Progress("events").counted(recordings.events()))
    if not held.sessions:
        raise InputError(f"there are no calls in {', '.join(map(repr, paths))}")
    for why, count in recordings.unread.most_common():
        say(f"not read: {count:,}, {why}", error=True)
    found = mine(
        held.sessions,
        min_support=min_support,
        confidence=confidence,
        effects=[name.strip() for name in effects.split(",") if name.strip()],
    )
    print_result(_result(found, held), _lines(found, held), as_json=as_json)
    return 0


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
    Put the calls of recordings together by session, those that ran, in the order in which they began.

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
        sessions=[session for session in found if session.calls], share=held.share, cut=held.cut
    )


def _is_mined(call: Began) -> bool:
    return call.tool not in LIFECYCLE or (call.tool == USER_PROMPT and call.args is not None)


def _together(
    calls: Mapping[str, Mapping[Began, Ended | None]], moved: Collection[str]
) -> dict[str, list[tuple[Began, Ended | None]]]:
    """Put together what stands under several names and is one session, in the order of time."""
    joined: dict[str, list[tuple[Began, Ended | None]]] = {}
    for name, some in calls.items():
        own = own_name(name)
        joined.setdefault(own if own in moved else name, []).extend(some.items())
    for name in joined.keys() & moved:
        joined[name].sort(key=lambda ended: ended[0].at or 0.0)
    return joined


def _session(name: str, some: Iterable[tuple[Began, Ended | None]]) -> Recorded:
    ran: list[ToolCallEvent] = []
    places: list[str] = []
    prompts: list[tuple[int, str]] = []
    for call, end in some:
        if not _ran(end):
            continue
        if call.tool == USER_PROMPT:
            prompts.append((len(ran), str((call.args or {}).get("prompt", ""))))
        else:
            ran.append(_event(call, end))
            places.append(call.where)
    return Recorded(name=name, calls=tuple(ran), places=tuple(places), prompts=tuple(prompts))


def _ran(end: Ended | None) -> bool:
    return end is None or end.outcome != "aborted"


def _event(call: Began, end: Ended | None) -> ToolCallEvent:
    outcome: Outcome = "unknown" if end is None else end.outcome
    args = call.args if end is None or end.args is None else end.args
    result = None if end is None or isinstance(end.result, Unrecorded) else end.result
    return ToolCallEvent(call.tool, dict(args or {}), result, ts=call.at or 0.0, outcome=outcome)


def _lines(found: Mined, held: RecordedSessions) -> Iterator[str]:
    yield f"# Suggested by {found.learnt_from} sessions; {found.kept_back} more were kept back to check."
    yield f"# {found.implied} further contracts follow from these. Each only watches: a person decides."
    if held.share < 1:
        yield f"# The recording is large: {held.share:.1%} of its sessions were looked at."
    if held.cut:
        yield f"# {held.cut:,} calls of a session that is too large by itself were left out."
    if not found.suggestions:
        yield "allow_empty: true"
        yield "contracts: []"
        return
    yield "contracts:"
    for suggestion in found.suggestions:
        yield from _contract(suggestion)


def _contract(suggestion: Suggestion) -> Iterator[str]:
    start = "  - "
    for name, value in suggestion.contract.items():
        # JSON is YAML, and has one way to write each value.
        yield f"{start}{name}: {json.dumps(value, ensure_ascii=False)}"
        start = "    "


def _result(found: Mined, held: RecordedSessions) -> dict[str, Any]:
    return {
        "learnt_from": found.learnt_from,
        "kept_back": found.kept_back,
        "implied": found.implied,
        "share": held.share,
        "left_out": held.cut,
        "suggestions": [
            {
                "contract": suggestion.contract,
                "support": suggestion.support,
                "confidence": suggestion.confidence,
                "counter": list(suggestion.counter),
                "refused": suggestion.refused,
            }
            for suggestion in found.suggestions
        ],
    }
