"""A user's own piece of work, as an activity: an ``async with`` block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ..acel.outcome import outcome_of
from .activity import Activity
from .binding import Binding
from .decide import decide
from .outputs import WITHHELD, seen
from .perform import check, guarded
from .request import custom_request

if TYPE_CHECKING:
    from .._run.state import RunState
    from ..acel.events import Outcome


class GovernedActivity:
    """
    Hold a user's own activity while it runs, and what it gave.

    Attributes:
        output: What the work gave; set it inside the block. After the block, what may be seen of it: with
            ``outputs="enforce"`` a redacted copy, or None where nothing may.
        outcome: What became of the work that gave it; None for what the output says of itself. What has not
            succeeded stays counted for limits, allows nothing, and is a failure to Core.
        withheld: Whether nothing of the output may be seen. Known after the block.
    """

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self.output: Any = None
        self.outcome: Outcome | None = None
        self.withheld = False

    @property
    def id(self) -> str:
        """Core's id of the activity."""
        return self._activity.id

    @property
    def input(self) -> list[Any]:
        """Give the input to use: what was passed, or Core's redacted copy."""
        content: list[Any] = self._activity.content
        return content


@asynccontextmanager
async def custom_activity(
    run: RunState, activity_type: str, activity_input: Iterable[Any]
) -> AsyncIterator[GovernedActivity]:
    """
    Have a piece of work judged before the block runs, and closed when it ends.

    Raises:
        GovernanceError: The block may not run, or its output breaks a postcondition.
    """
    activity = Activity(run, custom_request(run, activity_type, activity_input))
    await decide(activity)
    handle = GovernedActivity(activity)
    activity.begin()
    try:
        with Binding(activity):
            async with guarded(activity):
                yield handle
    except BaseException as error:
        # However the block ended, its row is closed.
        await check(activity, error)
        raise
    await check(activity, None)
    await _end(activity, handle)


async def _end(activity: Activity, handle: GovernedActivity) -> None:
    output = handle.output
    hook = activity.run.services.options.outcomes.get(activity.request.event)
    outcome = handle.outcome or outcome_of(output, hook)
    answer = await activity.complete(output, result=output, outcome=outcome)
    shown = seen(activity, output, answer)
    handle.withheld = shown is WITHHELD
    handle.output = None if handle.withheld else shown
