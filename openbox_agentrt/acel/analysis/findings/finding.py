"""Say what was found out about rules before they run: each finding with a trace that shows it, and advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..named import Named
from ..search.trace_row import TraceRow, shown_rows

__all__ = ("KINDS", "Analysis", "Finding", "FindingKind")

FindingKind: TypeAlias = Literal[
    "tool-never-allowed",
    "source-never-vouches",
    "contract-never-decides",
    "contract-implied-by",
    "obligation-cannot-be-met",
    "session-cannot-end-well",
    "matcher-matches-nothing",
    "pattern-names-no-tool",
    "fact-is-never-known",
    "looks-like-a-pattern",
    "source-is-free-text",
    "shadow-contract-would-halt",
    "acceptance-unused",
]
KINDS: tuple[FindingKind, ...] = get_args(FindingKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    Something about rules that is probably not meant.

    Attributes:
        kind: What it is.
        message: The same in one line.
        contracts: The contracts that it is about, the first one first of all.
        witness: A shortest trace that shows it; empty where nothing has to happen, None where nothing can.
        advice: What to do.
        note: As far as what it was searched.
        accepted: Why it is meant, as the rules file says.
    """

    kind: FindingKind
    message: str
    contracts: tuple[Named, ...]
    witness: tuple[TraceRow, ...] | None
    advice: str
    note: str | None = None
    accepted: str | None = None

    @property
    def line(self) -> int | None:
        """The line of the first contract whose line is known."""
        return next((contract.line for contract in self.contracts if contract.line is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON data."""
        return {
            "id": self.kind,
            "message": self.message,
            "contracts": [{"name": c.name, "spec": c.spec, "line": c.line} for c in self.contracts],
            "witness": None if self.witness is None else [row.to_dict() for row in self.witness],
            "advice": self.advice,
            "note": self.note,
            **({} if self.accepted is None else {"accepted": self.accepted}),
        }

    def lines(self) -> list[str]:
        """Write the finding for people, a line for each thing that is said."""
        said = [f"{self.kind}: {self.message}"]
        said += [f"contract: {contract}" for contract in self.contracts]
        if self.witness is not None:
            said.append(f"shortest: {shown_rows(self.witness)}")
        said.append(f"advice: {self.advice}" if self.accepted is None else f"accepted: {self.accepted}")
        return [*said, *([] if self.note is None else [f"note: {self.note}"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """
    List the findings about some rules.

    It never says that rules are right: it lists what was shown, and names what was not decided.

    Attributes:
        findings: What is probably not meant.
        accepted: What was found and is meant, as the rules file says with the reason.
        decided: Of how many contracts all was decided.
        undecided: What was not decided, and why.
        not_analysed: Contracts that only running tells of, and why. Findings hold whatever they say.
        states: How many states of sessions were tried.
    """

    findings: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    decided: int
    undecided: tuple[str, ...]
    not_analysed: tuple[str, ...]
    states: int

    def to_dict(self) -> dict[str, Any]:
        """The analysis as JSON data."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "accepted": [finding.to_dict() for finding in self.accepted],
            "decided": self.decided,
            "undecided": list(self.undecided),
            "not_analysed": list(self.not_analysed),
            "states": self.states,
        }
