"""A session under contract."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .conditions import Check, as_checks, collect_checks
from .plain import frozen, plain_args
from .refusal import Broken, Refusal
from .reservation import Reservation
from .state import StateStore
from .violations import ContractViolation, Mode, Violation

CommitFn = Callable[[StateStore, dict[str, Any], Any], Any]


@dataclass(slots=True)
class ToolSpec:
    """What is registered for one tool."""

    name: str
    preconditions: list[Check] = field(default_factory=list)
    postconditions: list[Check] = field(default_factory=list)
    commit: CommitFn | None = None


class Session:
    """One session: its contracts, its state, and the calls it has seen."""

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        *,
        halt_on_violation: bool = True,
        mode: Mode = "enforce",
        evidence: Any = None,
        metrics: Any = None,
        session_id: str | None = None,
    ) -> None:
        if mode not in ("enforce", "shadow"):
            raise ValueError(f"mode must be 'enforce' or 'shadow', got {mode!r}")
        self.state = StateStore(state)
        self.halt_on_violation = halt_on_violation
        self.mode: Mode = mode
        self.violations: list[Violation] = []
        self.evidence = evidence
        self.metrics = metrics
        self.session_id = session_id
        self._tools: dict[str, ToolSpec] = {}
        self._trace: list[dict[str, Any]] = []
        self._step = 0
        self._lock = threading.Lock()

    def register_tool(
        self,
        name: str,
        *,
        precondition: Any = None,
        postcondition: Any = None,
        commit: CommitFn | None = None,
    ) -> None:
        """Attach conditions and a commit to a tool. Replaces an earlier registration."""
        self._tools[name] = ToolSpec(name, as_checks(precondition), as_checks(postcondition), commit)

    def register(
        self, func: Callable[..., Any], *, name: str | None = None, commit: CommitFn | None = None
    ) -> Callable[..., Any]:
        """Register a function with the conditions that decorators put on it."""
        tool = name or func.__name__
        self._tools[tool] = ToolSpec(tool, *collect_checks(func), commit)
        return func

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The calls that ran, as a copy."""
        return list(self._trace)

    def reserve(
        self, tool: str, args: Mapping[str, Any] | None = None, *, deferred: Collection[str] = ()
    ) -> Reservation:
        """Judge a call. A refused one moves nothing."""
        with self._lock:
            self._step += 1
            step = self._step
        own = plain_args(args or {})
        reservation = Reservation(self, step, tool, own)
        spec = self._tools.get(tool)
        broken: list[Broken] = []
        for check in spec.preconditions if spec else ():
            answer = check.ask(self.state.view(), own)
            if not answer.holds:
                broken.append(Broken(contract=check.description, kind="precondition", fault=answer.fault))
        if broken:
            reservation.violations = tuple(self._record(b, tool, step, own, None) for b in broken)
            if self.mode == "enforce":
                reservation.allowed = False
                reservation._open = False
                reservation.refusal = Refusal(tool=tool, step=step, broken=tuple(broken))
        return reservation

    def call(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        result: Any = None,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """Judge a call, run it, and commit its result."""
        reservation = self.reserve(tool, args)
        if not reservation.allowed:
            violation = reservation.violations[0]
            if not self.halt_on_violation:
                return violation
            raise ContractViolation(violation, violations=reservation.violations, refusal=reservation.refusal)
        if run is not None:
            try:
                result = run(**dict(args or {}))
            except BaseException as error:
                reservation.abort(error, ran=True)
                raise
        failed = reservation.commit(result)
        if failed is None or self.mode == "shadow":
            return result
        if not self.halt_on_violation:
            return failed
        raise ContractViolation(failed)

    def _commit(
        self,
        reservation: Reservation,
        result: Any,
        args: Mapping[str, Any] | None,
        measured: Mapping[str, Any] | None,
    ) -> Violation | None:
        spec = self._tools.get(reservation.tool)
        for check in spec.postconditions if spec else ():
            answer = check.ask(self.state.view(), result)
            if not answer.holds:
                broken = Broken(contract=check.description, kind="postcondition", fault=answer.fault)
                return self._record(broken, reservation.tool, reservation.step, reservation.args, result)
        if spec is not None and spec.commit is not None:
            spec.commit(self.state, reservation.args, result)
        self._trace.append(
            {"step": reservation.step, "tool": reservation.tool, "args": reservation.args, "result": result}
        )
        return None

    def _record(self, broken: Broken, tool: str, step: int, args: dict[str, Any], result: Any) -> Violation:
        violation = Violation(
            broken.kind,
            broken.contract,
            tool,
            step,
            frozen(self._trace),
            frozen(self.state.snapshot()),
            frozen(args),
            frozen(result),
            fault=broken.fault,
        )
        self.violations.append(violation)
        if self.evidence is not None:
            self.evidence.record(violation)
        return violation

    def add_contracts(self, contracts: Iterable[Any]) -> None:
        """Add several contracts."""
