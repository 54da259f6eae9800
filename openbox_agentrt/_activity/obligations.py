"""CONSTRAIN: the work may happen, under conditions that somebody here has to put in place."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any

from openbox_core.contracts.results import Verdict

from .._core.parsing import SANDBOX
from ..errors import GovernanceBlockedError, GovernanceError

if TYPE_CHECKING:
    from ..decision import Answer
    from .record import Docket

log = logging.getLogger(__name__)


async def constrained(docket: Docket, answer: Answer) -> tuple[Any, ...]:
    """
    Have the handlers of `answer`'s constraints put them in place.

    A handler gets the decision as it stands. It may return a context manager, in which the work then runs,
    and it may raise to refuse the work.

    Returns:
        The context managers.

    Raises:
        GovernanceError: A constraint is not in place.
    """
    guards: list[Any] = []
    for name in answer.constraints:
        handler = docket.run.judge.options.constraint_handlers.get(name)
        if handler is None:
            if name == SANDBOX:
                raise _refused(docket, answer, f"nothing here can satisfy constraint {name!r}")
            log.warning("%r passes with constraint %r, which has no handler", docket.case.event, name)
            continue
        try:
            guard = handler(docket.preview(answer.verdict))
            if inspect.isawaitable(guard):
                guard = await guard
        except GovernanceError as error:
            docket.refused(error, Verdict.BLOCK, reason=str(error))
            raise
        except Exception as error:
            # Fail-closed: a constraint that could not be put in place is not in place.
            raise _refused(docket, answer, f"the handler of constraint {name!r} failed") from error
        if guard is None:
            continue
        if docket.case.activity_id is None:
            # Fail-closed: a prompt is no work that something could be put around.
            raise _refused(docket, answer, f"constraint {name!r} cannot be put around a prompt")
        guards.append(guard)
    return tuple(guards)


def _refused(docket: Docket, answer: Answer, reason: str) -> GovernanceError:
    error = GovernanceBlockedError(
        reason, event=docket.case.event, policy_id=answer.policy_id, result=answer.result
    )
    return docket.refused(error, Verdict.BLOCK, reason=reason)
