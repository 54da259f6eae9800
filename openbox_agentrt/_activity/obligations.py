"""CONSTRAIN: the work may happen, under conditions that somebody here has to put in place."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any

from .._core.parsing import SANDBOX
from .._run.record import draft
from ..decision import Verdict
from ..errors import GovernanceBlockedError, GovernanceError

if TYPE_CHECKING:
    from ..decision import Answer, Decision
    from .activity import Activity


log = logging.getLogger(__name__)


async def put_in_place(activity: Activity, answer: Answer) -> tuple[Any, ...]:
    """
    Have the handlers of `answer`'s constraints put them in place, with an approval or without.

    A handler gets the decision as it stands. It may return a context manager, in which the work then runs,
    and it may raise to refuse the work.

    Returns:
        The context managers.

    Raises:
        GovernanceError: A constraint is not in place.
    """
    if not answer.constraints:
        if answer.verdict is Verdict.CONSTRAIN:
            _take_unnamed(activity, answer)
        return ()
    guards: list[Any] = []
    for name in answer.constraints:
        handler = activity.run.services.options.constraint_handlers.get(name)
        if handler is None:
            if name == SANDBOX or activity.run.services.options.on_api_error == "fail_closed":
                # Fail-closed: what Core asks for is not in place, and nobody knows how much it matters.
                raise _refused(activity, answer, f"nothing here can satisfy constraint {name!r}")
            log.warning("%r passes with constraint %r, which has no handler", activity.request.event, name)
            continue
        try:
            guard = handler(_so_far(activity, answer))
            if inspect.isawaitable(guard):
                guard = await guard
        except GovernanceError as error:
            activity.refused(error, Verdict.BLOCK, reason=str(error))
            raise
        except Exception as error:
            # Fail-closed: a constraint that could not be put in place is not in place.
            raise _refused(activity, answer, f"the handler of constraint {name!r} failed") from error
        if guard is None:
            continue
        if activity.request.activity_id is None:
            # Fail-closed: a prompt is no work that something could be put around.
            raise _refused(activity, answer, f"constraint {name!r} cannot be put around a prompt")
        guards.append(guard)
    return tuple(guards)


def _take_unnamed(activity: Activity, answer: Answer) -> None:
    """
    Let work pass that Core constrains without saying how, if it is configured to fail open.

    Raises:
        GovernanceBlockedError: It is not: there is something to put in place, and nobody knows what.
    """
    if activity.run.services.options.on_api_error == "fail_closed":
        raise _refused(activity, answer, "core constrains it and names no constraint")
    log.warning("%r passes under CONSTRAIN, which names no constraint", activity.request.event)


def _so_far(activity: Activity, answer: Answer) -> Decision:
    return draft(activity.run.identity, activity.request.event, answer.verdict, "core", activity.facts)


def _refused(activity: Activity, answer: Answer, reason: str) -> GovernanceError:
    error = GovernanceBlockedError(
        reason,
        event=activity.request.event,
        policy_id=answer.policy_id,
        result=answer.result,
        remedy="put a handler for it into option 'constraint_handlers'",
    )
    return activity.refused(error, Verdict.BLOCK, reason=reason)
