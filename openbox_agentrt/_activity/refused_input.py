"""Show in a log what may be seen of the input of a call that Core or a person refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._plain.freezing import freeze
from ..decision import MISSING
from ..errors import GovernanceUnavailableError
from ..evidence.redaction.markers import redaction_marker

if TYPE_CHECKING:
    from .._run.state import RunState
    from ..decision import Answer
    from .request import DecisionRequest


def refused_input(
    run: RunState, request: DecisionRequest, answer: Answer | None, content: Any
) -> Mapping[str, Any] | None:
    """
    Give the arguments of a call that never ran, without what Core redacts in them.

    Returns:
        None where Core has not answered: nobody has said what may be seen.
    """
    if answer is None or answer.unreachable:
        return None
    if request.activity_id is None:
        return concealed_prompt(run, content)
    guardrails = answer.guardrails
    if guardrails is not None:
        if not guardrails.validation_passed:
            # Something in it must not be seen, and nobody says what.
            return _concealed(run, content)
        if guardrails.redacted_input is not MISSING and content is request.content:
            try:
                content = request.fitted(guardrails.redacted_input)
            except GovernanceUnavailableError:
                return _concealed(run, content)
    return run.redactions.value(request.arguments_of(content))


def concealed_prompt(run: RunState, prompt: str) -> dict[str, Any]:
    """Give a mark and the length of a prompt: Core redacts it only in the pre-screen, which comes later."""
    return {"prompt": redaction_marker(prompt, run.services.marker_key), "characters": len(prompt)}


def _concealed(run: RunState, content: Any) -> dict[str, Any]:
    return {"input": redaction_marker(freeze(content), run.services.marker_key)}
