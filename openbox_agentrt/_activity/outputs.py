"""
Outputs: what Core says to the report of a result decides what may be seen of it.

Only with ``outputs="enforce"``. It is never a failure of the run: the work has been done, and its result is
handed on, redacted, or withheld. A HALT stops what would start next as well, which is the run's to see to.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from .._errors.refusals import error_of
from .._run.record import Facts, facts_of, write
from .._wire.error_info import whole_error
from ..decision import MISSING, Verdict
from ..errors import GovernanceBlockedError, GovernanceError, GovernanceUnavailableError
from ..message_extraction import redacted_output

if TYPE_CHECKING:
    from ..decision import Answer, DecisionSource
    from .activity import Activity


log = logging.getLogger(__name__)


class Withheld(Enum):
    """Give `WITHHELD` a type of its own: None and the empty text are results like others."""

    WITHHELD = "withheld"


WITHHELD: Final = Withheld.WITHHELD
"""Stands for an output of which nothing may be seen."""

WITHHELD_OUTPUT: Final = "the output is withheld by policy"
"""Says so to whoever would have seen it."""


def seen(activity: Activity, output: Any, answer: Answer | None) -> Any:
    """
    Give what may be seen of `output`.

    Args:
        output: What Core was told of it.
        answer: What Core said to that; None if it could not be told.

    Returns:
        `output` itself, a redacted copy, or `WITHHELD`.
    """
    if not activity.run.services.enforces_outputs:
        return output
    shown = _shown(activity, output, answer)
    if shown is not WITHHELD:
        # What the agent gets to see is what it can use, and what the evidence may tell of.
        activity.replace_result(shown)
    return shown


def _shown(activity: Activity, output: Any, answer: Answer | None) -> Any:
    run, options = activity.run, activity.run.services.options
    if answer is None:
        destructive = activity.request.destructive
        if activity.request.reported and options.withholds_unjudged_output(destructive=destructive):
            # Fail-closed: nobody has said whether there is something in it that must not be seen.
            return _withheld(activity, "core could not be told of the output")
    elif _is_refused(activity, answer):
        return WITHHELD
    elif not activity.shown_whole:
        # Fail-closed, whatever the posture: what Core did not see hides behind what it saw.
        return _withheld(activity, "core could be shown only a part of the output", answer)
    elif answer.guardrails is not None and answer.guardrails.redacted_input is not MISSING:
        try:
            redacted, max_bytes = answer.guardrails.redacted_input, options.max_payload_bytes
            output = redacted_output(output, redacted, max_bytes=max_bytes)
        except GovernanceUnavailableError as error:
            # Fail-closed for the output: Core said that it must not be seen as it is.
            return _withheld(activity, error.reason, answer)
    # Core was not shown what it has redacted before, and says nothing about it.
    return run.redactions.value(output)


def expects_answer(activity: Activity) -> bool:
    """Tell whether Core is told of what an activity gave, and whether that is waited for."""
    return activity.request.reported and not activity.run.services.options.reports_in_background


def withheld_error(activity: Activity, error: BaseException, answer: Answer | None) -> GovernanceError | None:
    """
    Give what is raised in the place of an error whose text may not be seen; None if it may.

    An error cannot be edited: what Core redacts of it is a reason to withhold it.
    """
    if not activity.gives(error):
        return None
    output = whole_error(error)
    shown = seen(activity, output, answer)
    if shown == output:
        return None
    if shown is not WITHHELD:
        _withheld(activity, "an error cannot be redacted", answer)
    return GovernanceBlockedError(WITHHELD_OUTPUT, event=activity.request.event, ran=True)


def _is_refused(activity: Activity, answer: Answer) -> bool:
    error = error_of(answer, event=activity.request.event, ran=True)
    if error is None:
        return False
    if not answer.latches:  # a HALT of Core's was written when it came
        _withheld(activity, getattr(error, "reason", None) or str(error), answer)
    return True


def _withheld(activity: Activity, reason: str, answer: Answer | None = None) -> Withheld:
    """Write that an output is withheld."""
    request = activity.request
    log.warning("the output of %r is withheld", request.event)
    if activity.run.keeps_decisions:
        activity.write_outcome("withheld")
    if answer is None:
        facts: Facts = {"unreachable": True}
    else:
        facts = facts_of(answer)
    facts["activity_id"] = request.activity_id
    facts["reason"] = reason
    source: DecisionSource = "unreachable" if answer is None else "core"
    write(activity.run, request.event, Verdict.BLOCK, source, facts)
    return WITHHELD
