"""
Records of broken contracts, and the exception that stops a call.

A `Violation` is plain data: it is frozen when it is taken, compares, hashes and pickles, and holds
no live object.
"""

from __future__ import annotations

from typing import Any

from .._picklable import PicklableError
from .._values import dataclass, field
from .refusal import Refusal
from .verdict import Kind, Mode, OnViolation, Severity

SESSION_END = "<session-end>"
RUN_END = "<run-end>"
_FORMAT_1 = ("kind", "spec", "tool", "step", "trace", "state_snapshot", "args", "result")


@dataclass(frozen=True, slots=True)
class Violation:
    """
    One contract, broken by one call.

    Attributes:
        kind: "temporal" for a contract over the session, "precondition" or "postcondition" of a tool,
            "session" for a call that no session admits (it has ended, was halted, or does not know the tool).
        spec: The contract as written, e.g. ``must_precede(a, b)``.
        tool: The tool that was called, or ``<session-end>``.
        step: Position of the call in the session, counting from 1.
        trace: The calls before it: the last `trace_window` of them, all if the session was told so.
        state_snapshot: The session's state at that moment.
        args: Arguments of the call.
        result: What the tool returned, for a postcondition.
        id: The contract's own id, if it has one.
        mode: "enforce", or "shadow" for a contract that only watches.
        blocked: Whether the call was stopped.
        blame: Step of the earlier call to blame, if there is one.
        needs: What would have made the call possible.
        retry_after: Seconds after which the same call would be possible, if time is all it takes.
        remaining: What is left of a budget, as text.
        severity: As the contract says.
        remedy: The contract's own advice.
        on_violation: "refuse", or "halt" for a contract that stops the session.
        fault: What the engine could not evaluate, if that is why.
        session_id: The session, if it was given an id.
        label: How outsiders are told about the contract, if not as `spec`: a condition's own text may be its
            source.
        trace_length: How many calls the whole trace has.
        trace_hash: SHA-256 over the whole trace: a line of JSON for each row, ``[step, tool, args, result]``
            with sorted keys and no spaces, ended by a line feed. What JSON cannot hold is written as evidence
            writes it.
    """

    kind: Kind
    spec: str
    tool: str
    step: int
    trace: list[dict[str, Any]] = field(default_factory=list)
    state_snapshot: dict[str, Any] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    id: str | None = field(default=None, kw_only=True)
    mode: Mode = field(default="enforce", kw_only=True)
    blocked: bool = field(default=False, kw_only=True)
    blame: int | None = field(default=None, kw_only=True)
    needs: str | None = field(default=None, kw_only=True)
    retry_after: float | None = field(default=None, kw_only=True)
    remaining: str | None = field(default=None, kw_only=True)
    severity: Severity = field(default="medium", kw_only=True)
    remedy: str | None = field(default=None, kw_only=True)
    on_violation: OnViolation = field(default="refuse", kw_only=True)
    fault: str | None = field(default=None, kw_only=True)
    session_id: str | None = field(default=None, kw_only=True)
    label: str | None = field(default=None, kw_only=True)
    trace_length: int = field(default=0, kw_only=True)
    trace_hash: str | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        """Name the contract for outsiders."""
        return self.label or self.spec

    @property
    def message(self) -> str:
        """Tell the violation in one line."""
        return f"{self.kind} violation at step {self.step}: call to '{self.tool}' broke contract {self.spec}"

    def to_dict(self) -> dict[str, Any]:
        """Give the eight fields that evidence format 1 holds."""
        return {name: getattr(self, name) for name in _FORMAT_1}

    def to_record(self) -> dict[str, Any]:
        """Give every field by its name."""
        return {name: getattr(self, name) for name in _EVERY_FIELD}

    def __hash__(self) -> int:
        # The mutable fields take part in comparing and not in hashing, which is allowed that way round.
        return hash((self.kind, self.spec, self.tool, self.step, self.id, self.mode, self.session_id))


_EVERY_FIELD = tuple(Violation.__annotations__)


class ContractViolation(PicklableError):
    """
    A call broke a contract that is in force.

    A tool that broke a temporal contract or a precondition did not run. One that broke a postcondition
    ran, and its result must not be used.

    Attributes:
        violation: The first broken contract.
        violations: All of them.
        refusal: What a caller may be told, if the call was refused before it ran.
    """

    def __init__(
        self,
        violation: Violation,
        *,
        violations: tuple[Violation, ...] = (),
        refusal: Refusal | None = None,
    ) -> None:
        self.violation = violation
        self.violations = violations or (violation,)
        self.refusal = refusal
        # Of a reason of the session itself, the refusal is the sentence: no contract was broken.
        said = violation if refusal is None or violation.kind != "session" else refusal
        super().__init__(said.message)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContractViolation):
            return NotImplemented
        return (self.violations, self.refusal) == (other.violations, other.refusal)

    def __hash__(self) -> int:
        return hash(self.violations)
