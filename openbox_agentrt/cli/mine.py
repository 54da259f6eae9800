"""``openbox-agentrt mine``: suggest contracts from recorded sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ..acel.analysis.mining.mine import Mined, Suggestion, mine
from ..traces.formats import Recordings
from ..traces.mined_sessions import RecordedSessions, recorded_sessions
from .options import AsJson, Format
from .progress import Progress
from .running import InputError
from .text import print_result, say, tell_unread

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
    tell_unread(recordings)
    names = [name.strip() for name in effects.split(",") if name.strip()]
    called = {call.tool for session in held.sessions for call in session.calls}
    for name in names:
        if name not in called:
            say(f"no session calls {name!r}, which --effects names", error=True)
    found = mine(held.sessions, min_support=min_support, confidence=confidence, effects=names)
    print_result(_result(found, held), _lines(found, held), as_json=as_json)
    return 0


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
