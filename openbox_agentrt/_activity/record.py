"""The record of one case, while it is being decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openbox_core.contracts.results import Verdict
from openbox_core.errors import OpenBoxAuthError

from ..decision import Decision
from ..errors import GovernanceHaltError, GovernanceUnavailableError

if TYPE_CHECKING:
    from .._run.state import RunState
    from ..decision import Answer
    from ..errors import GovernanceError
    from .request import Case


class Docket:
    """What is known about one case until its decision is written."""

    __slots__ = ("case", "facts", "run", "written")

    def __init__(self, run: RunState, case: Case, *, facts: dict[str, Any] | None = None) -> None:
        self.run = run
        self.case = case
        self.written = False
        self.facts: dict[str, Any] = {} if facts is None else facts

    def note(self, answer: Answer) -> None:
        self.facts.update(
            core_verdict=None if answer.unreachable or answer.local else answer.verdict,
            reason=answer.reason,
            policy_id=answer.policy_id,
            risk_score=answer.risk_score,
            trust_tier=answer.trust_tier,
            constraints=answer.constraints,
            patch=answer.patch,
            approval_id=answer.approval_id,
            unreachable=answer.unreachable,
        )

    def preview(self, verdict: Verdict) -> Decision:
        """The decision as it stands, before it is written."""
        return Decision(
            **{
                "event": self.case.event,
                "activity_id": self.case.activity_id,
                "workflow_id": self.run.workflow_id,
                "run_id": self.run.run_id,
                "verdict": verdict,
                "source": "core",
                **self.facts,
            }
        )

    def close(self, verdict: Verdict, **facts: Any) -> Decision:
        """Write the decision."""
        self.facts.update(facts)
        decision = self.preview(verdict)
        self.written = True
        self.run.note(decision)
        return decision

    def conclude(self, error: BaseException) -> None:
        """The case ends with `error`. Write the decision, if nobody has written one that says so."""
        if self.written:
            return
        if isinstance(error, GovernanceHaltError):
            self.refused(error, Verdict.HALT, source="halted", reason=error.reason)
        elif isinstance(error, GovernanceUnavailableError):
            self.refused(error, Verdict.BLOCK, source="unreachable", reason=error.reason)
        elif isinstance(error, OpenBoxAuthError):
            self.close(Verdict.BLOCK, source="unreachable", reason=str(error))

    def refused(self, error: GovernanceError, verdict: Verdict, **facts: Any) -> GovernanceError:
        """`error` with its decision, which is written."""
        error.decision = self.close(
            verdict, **{key: value for key, value in facts.items() if value is not None}
        )
        return error
