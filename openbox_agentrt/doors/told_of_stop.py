"""Tell a model or a client of a call that was stopped."""

from __future__ import annotations

from typing import Any

from openbox_agentrt.acel import ContractViolation


def told_of(error: Exception) -> dict[str, Any]:
    """
    Give what a model or a client may be told of a call that was stopped: no trace, no state, no secret.

    Raises:
        GovernanceHaltError: The run was halted, which is nothing that a model could act on.
        UngovernedCallError: There is no run.
    """
    if not isinstance(error, ContractViolation):
        from openbox_agentrt.doors.verdicts import stops_the_run, told_of_verdict

        if stops_the_run(error):
            raise error
        return told_of_verdict(error)
    if error.refusal is not None:
        return error.refusal.for_model()
    return {
        "refused": True,
        "tool": error.violation.tool,
        "step": error.violation.step,
        "message": "the result broke a postcondition and is withheld",
    }
