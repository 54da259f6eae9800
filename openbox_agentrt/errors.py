"""
Errors of a governed run, and which of them mean that the guarded work did not run.

    OpenBoxError                            (openbox_core)
    ├── OpenBoxConfigError                  (openbox_core)
    │   ├── OptionError                     an option has a name or a value that is not known
    │   │   ├── InsecureURLError            ``http://`` to a host that is not this machine
    │   │   └── MalformedKeyError           the API key does not have the form of one
    │   └── OpenBoxAuthError                (openbox_core) Core answered 401 or 403; raised as it is
    └── GovernanceError                     everything that governance decides about a call
        ├── GovernanceBlockedError          BLOCK
        │   └── ContractRefusedError        a local contract stopped the call
        ├── GovernanceHaltError             HALT: the run starts nothing more
        ├── GuardrailsValidationError       Core's guardrails did not pass
        ├── ApprovalRejectedError           a person said no, or nobody could be asked
        ├── ApprovalExpiredError            the approval ran out
        ├── ApprovalTimeoutError            nobody answered in the configured time
        ├── GovernanceUnavailableError      Core could not be asked, or did not take the question
        ├── UngovernedCallError             a governed part of a loop was called outside a run
        └── UnmetContractError              a run ended with an obligation open

Each class below `GovernanceError` is also the openbox_core error of the same name, where there is one, so
``except openbox_core.GovernanceBlockedError`` keeps working. `GovernanceError.ran` says whether the guarded
work ran. Errors carry their data as attributes, build their own message and survive pickling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from openbox_core import errors as base
from openbox_core.errors import OpenBoxAuthError, OpenBoxConfigError, OpenBoxError, OpenBoxSigningError

from ._errors.message import one_line
from ._errors.options import InsecureURLError, MalformedKeyError, OptionError
from ._picklable import PicklableError

if TYPE_CHECKING:
    from openbox_core.contracts.results import EvaluationResult, PatchDirective, Verdict

    from .acel import Refusal
    from .decision import Decision

__all__ = (
    "ApprovalExpiredError",
    "ApprovalRejectedError",
    "ApprovalTimeoutError",
    "ContractRefusedError",
    "GovernanceBlockedError",
    "GovernanceError",
    "GovernanceHaltError",
    "GovernanceUnavailableError",
    "GuardrailsValidationError",
    "InsecureURLError",
    "MalformedKeyError",
    "OpenBoxAuthError",
    "OpenBoxConfigError",
    "OpenBoxError",
    "OpenBoxSigningError",
    "OptionError",
    "UngovernedCallError",
    "UnmetContractError",
    "find_governance_error",
)


def _about(event: str | None, what: str, reason: str | None) -> str:
    subject = "the call" if event is None else repr(event)
    return f"{subject} {what}: {reason}" if reason else f"{subject} {what}"


class GovernanceError(PicklableError, OpenBoxError):
    """
    Governance decided against a call.

    Attributes:
        decision: Record of the decision, when there is one.
        remedy: What would make the call possible, for a person to read.
        ran: Whether the guarded work ran. False unless a class says otherwise.
    """

    def __init__(
        self, message: str, *, decision: Decision | None = None, remedy: str | None = None, ran: bool = False
    ) -> None:
        Exception.__init__(self, one_line(message))
        self.decision = decision
        self.remedy = remedy
        self.ran = ran


class GovernanceBlockedError(GovernanceError, base.GovernanceBlockedError):
    """
    The answer was BLOCK. The guarded work did not run, unless `ran` says so.

    Attributes:
        event: What was judged: ``user_prompt``, ``llm_call``, a tool name or an activity type.
        verdict: The effective verdict.
        reason: Core's explanation, in full.
        policy_id: Policy that decided, when Core named one.
        patch: Replacement that Core proposes (`openbox_core.contracts.results.handle_patch`). Never applied.
        result: The answer as openbox_core read it.
    """

    def __init__(
        self,
        reason: str,
        *,
        event: str | None = None,
        verdict: Verdict | None = None,
        policy_id: str | None = None,
        patch: PatchDirective | None = None,
        result: EvaluationResult | None = None,
        decision: Decision | None = None,
        remedy: str | None = None,
        ran: bool = False,
    ) -> None:
        from openbox_core.contracts.results import Verdict

        super().__init__(_about(event, "was blocked", reason), decision=decision, remedy=remedy, ran=ran)
        self.event = event
        self.verdict = Verdict.BLOCK if verdict is None else verdict
        self.reason = reason
        self.url = ""
        self.policy_id = policy_id
        self.patch = patch
        self.result = result


class ContractRefusedError(GovernanceBlockedError):
    """
    A local contract stopped the call. Core was not asked, and nothing ran: unless `ran` is True, for a
    result that breaks a postcondition and must not be used.

    Attributes:
        refusal: Every contract that the call would break, and what would make it possible.
    """

    def __init__(
        self,
        refusal: Refusal,
        *,
        decision: Decision | None = None,
        remedy: str | None = None,
        ran: bool = False,
    ) -> None:
        broken = "; ".join(each.describe() for each in refusal.broken)
        message = f"the result of {refusal.tool!r:.200} breaks {broken}" if ran else refusal.message
        super().__init__(message, event=refusal.tool, decision=decision, remedy=remedy, ran=ran)
        self.refusal = refusal
        self.args = (one_line(message),)


class GovernanceHaltError(GovernanceError, base.GovernanceHaltError):
    """
    The answer was HALT, or the run had been halted before. The guarded work did not run.

    Attributes: as of `GovernanceBlockedError`, without verdict and patch.
    """

    def __init__(
        self,
        reason: str,
        *,
        event: str | None = None,
        policy_id: str | None = None,
        result: EvaluationResult | None = None,
        decision: Decision | None = None,
        remedy: str | None = None,
        ran: bool = False,
    ) -> None:
        message = f"the run was halted: {reason}" if event is None else _about(event, "was halted", reason)
        super().__init__(message, decision=decision, remedy=remedy, ran=ran)
        self.event = event
        self.reason = reason
        self.policy_id = policy_id
        self.result = result


class GuardrailsValidationError(GovernanceError, base.GuardrailsValidationError):
    """
    Core's guardrails did not pass. The guarded work did not run.

    Attributes:
        event: What was judged.
        reasons: Core's explanations, in its order; may be empty.
        result: The answer as openbox_core read it.
    """

    def __init__(
        self,
        reasons: Sequence[str] = (),
        *,
        event: str | None = None,
        result: EvaluationResult | None = None,
        decision: Decision | None = None,
        remedy: str | None = None,
        ran: bool = False,
    ) -> None:
        message = _about(event, "did not pass the guardrails", "; ".join(reasons))
        super().__init__(message, decision=decision, remedy=remedy, ran=ran)
        self.event = event
        self.reasons = list(reasons)
        self.result = result


class _ApprovalError(GovernanceError):
    """
    A call that needed an approval did not get it. It did not run.

    Attributes:
        event: What was judged.
        reason: The person's or Core's explanation.
        approval_id: Core's id of the approval, when it gave one.
        patch: Replacement that the person proposes with a rejection. Never applied.
        decided_by: The person who decided, when Core said who.
    """

    outcome = "was not approved"

    def __init__(
        self,
        reason: str | None = None,
        *,
        event: str | None = None,
        approval_id: str | None = None,
        patch: PatchDirective | None = None,
        decided_by: str | None = None,
        decision: Decision | None = None,
        remedy: str | None = None,
    ) -> None:
        outcome = self.outcome if decided_by is None else f"{self.outcome} by {decided_by!r:.200}"
        super().__init__(_about(event, outcome, reason), decision=decision, remedy=remedy)
        self.event, self.reason, self.approval_id, self.patch = event, reason, approval_id, patch
        self.decided_by = decided_by


class ApprovalRejectedError(_ApprovalError, base.ApprovalRejectedError):
    """A person rejected the call, or approvals could not be asked for. It did not run."""

    outcome = "was rejected"


class ApprovalExpiredError(_ApprovalError, base.ApprovalExpiredError):
    """The approval ran out before anybody decided, or was decided too late. The call did not run."""

    outcome = "was not approved before the approval expired"


class ApprovalTimeoutError(_ApprovalError, base.ApprovalTimeoutError):
    """Nobody decided within the configured `max_wait_ms`. The call did not run."""

    outcome = "was not approved in time"

    def __init__(
        self,
        reason: str | None = None,
        *,
        max_wait_ms: int | None = None,
        event: str | None = None,
        approval_id: str | None = None,
        decision: Decision | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(reason, event=event, approval_id=approval_id, decision=decision, remedy=remedy)
        self.max_wait_ms = max_wait_ms


UnavailableKind = Literal["outage", "refused", "unreadable"]


class GovernanceUnavailableError(GovernanceError, base.GovernanceAPIError):
    """
    Core gave no usable answer, and the call may not pass without one. It did not run; where `ran` is True,
    what it gave is not handed on.

    Attributes:
        kind: ``outage`` - Core could not be reached, under ``fail_closed`` (or for a destructive tool);
            ``refused`` - Core did not take the question (400, 404, 413, 422 and the like, or an event that
            could not be built), which is never an ALLOW; ``unreadable`` - something in between failed.
        event: What was to be judged.
        status: HTTP status, when there was one.
    """

    def __init__(
        self,
        reason: str,
        *,
        kind: UnavailableKind = "outage",
        event: str | None = None,
        status: int | None = None,
        decision: Decision | None = None,
        remedy: str | None = None,
        ran: bool = False,
    ) -> None:
        super().__init__(_about(event, "was not judged", reason), decision=decision, remedy=remedy, ran=ran)
        self.kind = kind
        self.event = event
        self.status = status
        self.reason = reason


class UngovernedCallError(GovernanceError):
    """A governed part of a loop was called outside a run: `event`. Nothing ran."""

    def __init__(
        self, event: str, *, remedy: str | None = "call it inside governance.run_scope(...)"
    ) -> None:
        super().__init__(f"{event!r} was called outside a governed run", remedy=remedy)
        self.event = event


class UnmetContractError(GovernanceError):
    """A run ended with the obligations `contracts` open, and ``on_unmet="raise"``. The run itself has run."""

    def __init__(
        self, contracts: Sequence[str], *, decision: Decision | None = None, remedy: str | None = None
    ) -> None:
        names = ", ".join(repr(contract) for contract in contracts)
        super().__init__(f"the run ended before {names} was met", decision=decision, remedy=remedy, ran=True)
        self.contracts = tuple(contracts)


def _linked(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
    if error.__cause__ is not None:
        yield error.__cause__
    if error.__context__ is not None:
        # Also behind ``raise ... from None``: hiding a refusal does not undo it.
        yield error.__context__


def find_governance_error(error: BaseException) -> GovernanceError | None:
    """
    Find the governance error behind `error`: itself, a cause, a context, or a member of an exception group.

    Frameworks wrap errors and task groups bundle them; `openbox_core.extract_governance_error` looks only for
    blocks and not into groups. A HALT is preferred to anything else, then what comes first. Cycles are fine.
    """
    first: GovernanceError | None = None
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, GovernanceHaltError):
            return current
        if first is None and isinstance(current, GovernanceError):
            first = current
        waiting.extend(_linked(current))
    return first
