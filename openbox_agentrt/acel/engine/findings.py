"""From what a call breaks to what is recorded and told about it."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts.base import SessionRule
from ..contracts.tools import Asked
from ..memory.guard import Breach
from ..refusal import MAX_NAME, Broken
from ..verdict import Kind, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    A contract that was found broken.

    Attributes:
        broken: What is said about it.
        mode: Whether it was in force.
        stops: Whether it is a reason to refuse the call.
    """

    broken: Broken
    mode: Mode
    stops: bool


def of_breach(breach: Breach, mode: Mode) -> Finding:
    """Tell of a contract over the session that is broken, in a session that is in `mode`."""
    rule = breach.contract
    broken = Broken(
        contract=rule.spec,
        id=rule.id,
        kind="session" if isinstance(rule, SessionRule) else "temporal",
        blame=breach.blame,
        needs=breach.needs,
        retry_after=breach.retry_after,
        remaining=breach.remaining,
        severity=rule.severity,
        remedy=rule.remedy,
        on_violation=rule.on_violation,
        fault=breach.fault,
    )
    return Finding(broken=broken, mode="shadow" if mode == "shadow" else rule.mode, stops=breach.blocks())


def of_conditions(tool: str, kind: Kind, failed: Asked, mode: Mode) -> list[Finding]:
    """Tell of conditions of a tool that do not hold."""
    # A description that was read out of the source is not for outsiders.
    label = f"a {kind} of {tool[:MAX_NAME]}"
    return [
        _condition(kind, check.description, answer.fault, mode, label if check.derived else None)
        for check, answer in failed
    ]


def of_commit(tool: str, fault: str, mode: Mode) -> Finding:
    """Tell of a commit function that could not write."""
    return _condition("postcondition", f"commit of {tool}", fault, mode)


def _condition(
    kind: Kind, description: str, fault: str | None, mode: Mode, label: str | None = None
) -> Finding:
    broken = Broken(contract=description, label=label, kind=kind, fault=fault)
    return Finding(broken=broken, mode=mode, stops=True)
