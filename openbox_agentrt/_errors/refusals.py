"""
From an answer of Core's, or a broken contract, to the error that says so. Nobody else maps them.

It stands with the errors because nested I/O, activities and runs all have to refuse in the same words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..acel.refusal import Broken, Refusal
from ..decision import Verdict
from ..errors import (
    ContractRefusedError,
    GovernanceBlockedError,
    GovernanceHaltError,
    GuardrailsValidationError,
)

if TYPE_CHECKING:
    from ..acel.violations import Violation
    from ..decision import Answer
    from ..errors import GovernanceError


def error_of(answer: Answer, *, event: str | None = None, ran: bool = False) -> GovernanceError | None:
    """
    Give the error for what `answer` forbids: HALT before BLOCK before failed guardrails.

    Args:
        event: What was judged.
        ran: Whether the work has run, so that only what it gave is forbidden.

    Returns:
        The error; None for the other three verdicts. Approval and constraints are the caller's.
    """
    if answer.verdict is Verdict.HALT:
        return GovernanceHaltError(
            answer.reason or "halted by policy",
            event=event,
            policy_id=answer.policy_id,
            result=answer.result,
            ran=ran,
        )
    if answer.verdict is Verdict.BLOCK:
        return GovernanceBlockedError(
            answer.reason or "blocked by policy",
            event=event,
            policy_id=answer.policy_id,
            patch=answer.patch,
            result=answer.result,
            ran=ran,
        )
    if answer.guardrails is not None and not answer.guardrails.validation_passed:
        return GuardrailsValidationError(
            answer.guardrails.reasons, event=event, result=answer.result, ran=ran
        )
    return None


def raise_for_answer(answer: Answer, *, event: str | None = None) -> None:
    """
    Raise what `answer` forbids, if it forbids anything.

    Raises:
        GovernanceError: See `error_of`.
    """
    error = error_of(answer, event=event)
    if error is not None:
        raise error


def error_of_result(violation: Violation) -> ContractRefusedError:
    """Give the error for a result that breaks a postcondition. The work has run."""
    broken = Broken(
        contract=violation.spec,
        label=violation.label,
        id=violation.id,
        kind=violation.kind,
        severity=violation.severity,
        remedy=violation.remedy,
        fault=violation.fault,
    )
    return ContractRefusedError(Refusal(tool=violation.tool, step=violation.step, broken=(broken,)), ran=True)
