"""The guarded work, run inside its activity."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ..errors import GovernanceError, GovernanceHaltError, find_governance_error
from .activity import ApprovalPending
from .binding import Binding
from .outputs import withheld_error

if TYPE_CHECKING:
    from .activity import Activity


T = TypeVar("T")


async def perform(activity: Activity, work: Callable[[], Awaitable[T]], *, runs_at_once: bool = True) -> T:
    """
    Run `work` inside `activity`. The caller completes it; if `work` fails, it is closed here.

    Args:
        runs_at_once: Whether `work` is the guarded work itself. If not, it sets `Activity.ran` when it gets
            there.

    Raises:
        GovernanceHaltError: The run was halted inside the work, even if the work swallowed that.
    """
    activity.begin()
    activity.ran = runs_at_once
    value: Any = None  # what a guard leaves that swallows the error of the work
    try:
        with Binding(activity):
            if activity.guards:
                async with guarded(activity):
                    value = await work()
            else:
                value = await work()
    except BaseException as error:
        # Cancellation included: the row must not stay open.
        await check(activity, error)
        raise
    if activity.denied is not None or activity.refusals:
        await check(activity, None)
    result: T = value
    return result


@asynccontextmanager
async def guarded(activity: Activity) -> AsyncIterator[None]:
    """Enter the context managers that constraint handlers want around the work."""
    async with AsyncExitStack() as stack:
        for guard in activity.guards:
            if isinstance(guard, AbstractAsyncContextManager):
                await stack.enter_async_context(guard)
            else:
                stack.enter_context(guard)
        yield


async def check(activity: Activity, error: BaseException | None) -> None:
    """
    Look at how the work ended, with `error` or without. If that is a failure, the activity is closed.

    Raises:
        GovernanceError: Instead of `error`: a refusal that counts although the work swallowed it, or one that
            says that the error may not be seen.
    """
    denied = activity.denied
    if isinstance(denied, ApprovalPending) and (error is None or isinstance(error, Exception)):
        # A second judgement waits for a person: the row stays open, whatever the work made of it.
        raise denied from None
    overruling = _overruling(activity, error)
    if overruling is not None:
        await activity.fail(overruling)
        if error is not None and activity.gives(error):
            _raise_alone(overruling)  # nobody has judged what the error says
        raise overruling from error
    if error is not None:
        refusal = withheld_error(activity, error, await activity.fail(error))
        if refusal is not None:
            _raise_alone(refusal)


def _overruling(activity: Activity, error: BaseException | None) -> GovernanceError | None:
    """Find the refusal that counts although the work returned, or raised something else."""
    if error is not None and not isinstance(error, Exception):
        return None
    if isinstance(activity.denied, GovernanceError):
        return None if error is activity.denied else activity.denied
    for refusal in activity.refusals:
        if isinstance(refusal, GovernanceHaltError):
            told = error is not None and isinstance(find_governance_error(error), GovernanceHaltError)
            return None if told else refusal
    return None


def _raise_alone(refusal: GovernanceError) -> NoReturn:
    try:
        raise refusal
    finally:
        # It is raised while the error is handled, and would bring it along.
        refusal.__context__ = None
