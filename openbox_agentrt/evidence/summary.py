"""Sum up a log by contract: how often each refused, and how often it would have."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .reading import Entry
from .ungoverned import is_ungoverned

_APPROVALS: Final = {"rejected": "a person", "expired": "nobody in time", "timeout": "nobody in time"}
_SOURCES: Final = {
    "core": "core",
    "unreachable": "no answer of core",
    "halted": "a halt",
    "session": "the store of the session",
}
_MOST_PEOPLE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """
    One violation, for a person to look at.

    Attributes:
        args: The arguments as they were recorded, so without what was redacted.
        needs: What would have made the call possible.
        remaining: What was left of a budget.
    """

    time: str
    tool: str
    args: Any
    session_id: str | None = None
    needs: str | None = None
    remaining: str | None = None


@dataclass(slots=True, kw_only=True)
class ContractSummary:
    """
    One contract over a whole log.

    Attributes:
        contract: The contract as written.
        id: Its own id, if it has one.
        refused: How often it was broken while in force.
        would_refuse: How often it was broken while it only watched. Enforcing it would have refused these.
        sessions: In how many sessions.
        first: When it was first broken.
        last: When it was last broken.
        examples: The first few violations, those that would have been refused before others.
    """

    contract: str
    id: str | None
    refused: int = 0
    would_refuse: int = 0
    sessions: int = 0
    first: str
    last: str = ""
    examples: list[Example] = field(default_factory=list)

    def add(self, entry: Entry, examples: int) -> None:
        """Count a violation, and keep it as an example if there are few."""
        self.last = entry.time
        place = len(self.examples)
        if entry.data.get("mode") == "shadow":
            place = min(self.would_refuse, place)
            self.would_refuse += 1
        else:
            self.refused += 1
        if place < examples:
            self.examples.insert(place, _example(entry))
            del self.examples[examples:]


@dataclass(slots=True, kw_only=True)
class RefusedSummary:
    """
    The calls of one kind that something else than a contract refused.

    Attributes:
        event: The tool, or what else was asked about.
        by: "a person", "nobody in time", "core", "no answer of core" or "a halt".
        count: How many.
        people: Who decided, as far as the log says so.
        reasons: The first few reasons, each once.
        first: When the first was refused.
        last: When the last was refused.
    """

    event: str
    by: str
    count: int = 0
    people: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    first: str
    last: str = ""

    def add(self, entry: Entry, examples: int) -> None:
        """Count a decision."""
        self.count += 1
        self.last = entry.time
        for kept, name, most in (
            (self.people, "decided_by", _MOST_PEOPLE),
            (self.reasons, "reason", examples),
        ):
            text = entry.text(name)
            if text and text not in kept and len(kept) < most:
                kept.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """
    Sum up a whole log.

    Attributes:
        violations: Violations in the log.
        decisions: Decisions in the log.
        refused: What Core or people refused; first what was refused most. A log that keeps no decisions says
            nothing of it.
        ungoverned: How many calls passed because Core could not be asked, by what they were.
        contracts: Every contract that was broken; first the one that would have refused most.
    """

    violations: int
    decisions: int
    refused: tuple[RefusedSummary, ...]
    ungoverned: dict[str, int]
    contracts: tuple[ContractSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON data."""
        return asdict(self)


def summarise(entries: Iterable[Entry], *, examples: int = 3) -> Summary:
    """
    Sum a log up by contract. The entries are taken as they are: whether they can be trusted is for
    `verify_file` to say.

    Args:
        entries: The entries of a log of either format. Violations of format 1 do not say in which mode they
            were found, and count as refused.
        examples: How many examples of each contract are kept.
    """
    contracts: dict[str, ContractSummary] = {}
    refused: dict[tuple[str, str], RefusedSummary] = {}
    sessions: set[tuple[str, str | None]] = set()
    violations = decisions = 0
    ungoverned: Counter[str] = Counter()
    for entry in entries:
        if entry.type == "decision":
            decisions += 1
            event, by = entry.text("event") or "a call that is not named", _refused_by(entry)
            ungoverned[event] += is_ungoverned(entry.data)
            if by is not None:
                refusal = RefusedSummary(event=event, by=by, first=entry.time)
                refused.setdefault((event, by), refusal).add(entry, examples)
        elif entry.type == "violation":
            violations += 1
            spec = entry.text("spec") or "a contract that is not named"
            contract = ContractSummary(contract=spec, id=entry.text("id"), first=entry.time)
            contract = contracts.setdefault(spec, contract)
            contract.add(entry, examples)
            contract.sessions += (spec, entry.session_id) not in sessions
            sessions.add((spec, entry.session_id))
    return Summary(
        violations=violations,
        decisions=decisions,
        ungoverned={event: count for event, count in ungoverned.most_common() if count},
        refused=tuple(sorted(refused.values(), key=lambda each: (-each.count, each.event, each.by))),
        contracts=tuple(
            sorted(contracts.values(), key=lambda each: (-each.would_refuse, -each.refused, each.contract))
        ),
    )


def _refused_by(entry: Entry) -> str | None:
    """Say who refused; None if it was let through, or a contract refused it, which has a violation."""
    if entry.data.get("verdict") not in ("block", "halt"):
        return None
    by = _SOURCES.get(entry.text("source") or "")
    return _APPROVALS.get(entry.text("approval") or "", by)


def _example(entry: Entry) -> Example:
    return Example(
        time=entry.time,
        tool=entry.text("tool") or "",
        args=entry.data.get("args"),
        session_id=entry.session_id,
        needs=entry.text("needs"),
        remaining=entry.text("remaining"),
    )
