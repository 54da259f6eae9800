"""
Find where a task stands: in which run, and there in which activity.

One ContextVar holds both, so that they cannot disagree. Tasks, `asyncio.to_thread` and background tasks
inherit it; a task that outlives its run finds a run that has ended, and is refused.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .state import OpenActivity, RunState


class Position(msgspec.Struct, frozen=True, eq=False):
    """
    Say where a task stands: in `run`, and there in `activity`, or between activities.

    Attributes:
        outer: Where it stood before. Two governances may judge the same work, and each has to find its own
            run.
    """

    run: RunState
    activity: OpenActivity | None
    outer: Position | None = None


POSITION: ContextVar[Position | None] = ContextVar("openbox_agentrt_position", default=None)


def current_run() -> RunState | None:
    """Give the governed run that the calling task belongs to; None outside a run, or after it has ended."""
    position = POSITION.get()
    return None if position is None or position.run.ended else position.run


def is_in_activity(run: RunState) -> bool:
    """Tell whether the calling task stands in an activity of `run`, as what a tool does."""
    position = POSITION.get()
    while position is not None and position.run is not run:
        position = position.outer
    return position is not None and position.activity is not None
