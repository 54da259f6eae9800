"""A run as a story: the things that were judged in it, and who judged them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..local_core.approvals import Approval
from ..local_core.reading import RunRow
from .values import Piece

Kind = Literal["prompt", "model", "tool", "end"]
Outcome = Literal["ran", "ran ungoverned", "failed", "did not run", "waits", "is running", ""]

WORDS = {
    "allow": "Allow",
    "constrain": "Constrain",
    "require_approval": "Approval",
    "block": "Block",
    "halt": "Halt",
}
ICONS = {**{name: name for name in WORDS}, "require_approval": "approval"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Name who was asked about a call, what they said, and how long it took; `off` for who was not asked."""

    name: str
    said: str
    took: str = ""
    verdict: str = ""
    off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblock:
    """Name a contract that was broken, and what would have made the call possible."""

    contract: str
    id: str = ""
    needs: str = ""
    remaining: str = ""
    retry_after: float | None = None
    remedy: str = ""
    reason: str = ""
    shadow: bool = False


@dataclass(slots=True, kw_only=True)
class Step:
    """
    One thing that was judged.

    Attributes:
        at: When, in seconds since 1970.
        kind: What it is.
        name: The tool, or the activity.
        verdict: The verdict that was in effect.
        call: Its arguments in short, with nothing of them cut unsaid.
        said: What the user, or the model, said.
        judges: Who was asked, in order.
        outcome: What happened.
        took: How long the work took.
        out: What it gave.
        notes: What else is to be known, a sentence each.
        reason: What the judge said who stopped it.
        policy: The policy that said so.
        unblock: The contracts that it broke.
        approval: What a person was asked.
        proposes: The input that Core proposes in its place.
        seconds: Who used how much time.
    """

    at: float
    kind: Kind
    name: str
    activity_id: str = ""
    verdict: str = ""
    call: tuple[Piece, ...] = ()
    title: str = ""
    said: tuple[Piece, ...] = ()
    judges: list[Judge] = field(default_factory=list)
    outcome: Outcome = ""
    took: float | None = None
    out: tuple[Piece, ...] = ()
    notes: list[str] = field(default_factory=list)
    reason: str = ""
    policy: str = ""
    unblock: list[Unblock] = field(default_factory=list)
    approval: Approval | None = None
    proposes: tuple[Piece, ...] = ()
    tokens: int | None = None
    asks_for_calls: bool = False
    contracts_seconds: float = 0.0
    core_seconds: float = 0.0
    asked_contracts: bool = False
    asked_core: bool = False
    person_seconds: float = 0.0

    @property
    def stopped(self) -> bool:
        """Tell whether it was refused."""
        return self.verdict in ("block", "halt")

    @property
    def waits(self) -> bool:
        """Tell whether a person has to decide."""
        return self.outcome == "waits"

    @property
    def loud(self) -> bool:
        """Tell whether a person has to see it."""
        return self.stopped or self.waits or self.outcome == "ran ungoverned" or self.approval is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Say who used how much time in a run."""

    person: float
    model: float
    tools: float
    core: float
    contracts: float
    asked_core: int
    asked_contracts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A run, and all that was judged in it, in order."""

    run: RunRow
    steps: list[Step]
    cut: bool
    ended: str = ""
    logs: tuple[str, ...] = ()

    @property
    def judged(self) -> list[Step]:
        """List what was judged."""
        return [step for step in self.steps if step.kind != "end"]

    @property
    def counts(self) -> dict[str, int]:
        """Count the verdicts of calls."""
        found = dict.fromkeys(WORDS, 0)
        for step in self.judged:
            found[step.verdict] = found.get(step.verdict, 0) + 1
        return found

    @property
    def waiting(self) -> Step | None:
        """Find what waits for a person."""
        return next((step for step in self.steps if step.waits), None)

    @property
    def spent(self) -> Spent:
        """Sum up the time."""
        steps = self.judged
        return Spent(
            person=sum(step.person_seconds for step in steps),
            model=sum(step.took or 0.0 for step in steps if step.kind == "model"),
            tools=sum(step.took or 0.0 for step in steps if step.kind == "tool"),
            core=sum(step.core_seconds for step in steps),
            contracts=sum(step.contracts_seconds for step in steps),
            asked_core=sum(step.asked_core for step in steps),
            asked_contracts=sum(step.asked_contracts for step in steps),
        )
