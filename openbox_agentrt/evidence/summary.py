"""What a log says about each contract: how often it refused, and how often it would have."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .reading import Entry
from .ungoverned import is_ungoverned

_APPROVALS: Final = {"rejected": "a person", "expired": "nobody in time", "timeout": "nobody in time"}
_SOURCES: Final = {"core": "core", "unreachable": "no answer of core", "halted": "a halt"}
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    refused: int
    would_refuse: int
    sessions: int
    first: str
    last: str
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
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
    count: int
    people: tuple[str, ...]
    reasons: tuple[str, ...]
    first: str
    last: str


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


@dataclass(slots=True, kw_only=True)
class _Count:
    id: str | None
    first: str
    last: str = ""
    refused: int = 0
    would_refuse: int = 0
    sessions: set[str | None] = field(default_factory=set)
    enforced: list[Example] = field(default_factory=list)
    watched: list[Example] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Refused:
    first: str
    last: str = ""
    count: int = 0
    people: dict[str, None] = field(default_factory=dict)
    reasons: dict[str, None] = field(default_factory=dict)

    def add(self, entry: Entry, examples: int) -> None:
        self.count += 1
        self.last = entry.time
        _note(self.people, entry.data.get("decided_by"), _MOST_PEOPLE)
        _note(self.reasons, entry.data.get("reason"), examples)


def _note(kept: dict[str, None], text: object, most: int) -> None:
    if isinstance(text, str) and text and len(kept) < most:
        kept[text] = None


def summarise(entries: Iterable[Entry], *, examples: int = 3) -> Summary:
    """
    Sum a log up by contract. The entries are taken as they are: whether they can be trusted is for
    `verify_file` to say.

    Args:
        entries: The entries of a log of either format. Violations of format 1 do not say in which mode they
            were found, and count as refused.
        examples: How many examples of each contract are kept.
    """
    counts: dict[str, _Count] = {}
    refusals: dict[tuple[str, str], _Refused] = {}
    violations = decisions = 0
    ungoverned: Counter[str] = Counter()
    for entry in entries:
        if entry.type == "decision":
            decisions += 1
            if is_ungoverned(entry.data):
                ungoverned[_event_of(entry)] += 1
            by = _refused_by(entry.data)
            if by is not None:
                found = refusals.setdefault((_event_of(entry), by), _Refused(first=entry.time))
                found.add(entry, examples)
        if entry.type != "violation":
            continue
        violations += 1
        _add(counts, entry, examples)
    return Summary(
        violations=violations,
        decisions=decisions,
        ungoverned=dict(ungoverned.most_common()),
        refused=tuple(
            RefusedSummary(
                event=event,
                by=by,
                count=found.count,
                people=tuple(found.people),
                reasons=tuple(found.reasons),
                first=found.first,
                last=found.last,
            )
            for (event, by), found in sorted(refusals.items(), key=lambda item: (-item[1].count, item[0]))
        ),
        contracts=tuple(
            ContractSummary(
                contract=spec,
                id=count.id,
                refused=count.refused,
                would_refuse=count.would_refuse,
                sessions=len(count.sessions),
                first=count.first,
                last=count.last,
                examples=tuple([*count.watched, *count.enforced][:examples]),
            )
            for spec, count in sorted(
                counts.items(), key=lambda item: (-item[1].would_refuse, -item[1].refused, item[0])
            )
        ),
    )


def _event_of(entry: Entry) -> str:
    return _text(entry.data.get("event")) or "a call that is not named"


def _refused_by(decision: Mapping[str, Any]) -> str | None:
    """Say who refused; None if it was let through, or a contract refused it, which has a violation."""
    if decision.get("verdict") not in ("block", "halt"):
        return None
    approval = _text(decision.get("approval"))
    return _APPROVALS.get(approval or "", _SOURCES.get(_text(decision.get("source")) or ""))


def _add(counts: dict[str, _Count], entry: Entry, examples: int) -> None:
    data = entry.data
    spec = _text(data.get("spec")) or "a contract that is not named"
    count = counts.get(spec)
    if count is None:
        count = counts[spec] = _Count(id=_text(data.get("id")), first=entry.time)
    count.last = entry.time
    count.sessions.add(entry.session_id)
    watched = data.get("mode") == "shadow"
    kept = count.watched if watched else count.enforced
    if watched:
        count.would_refuse += 1
    else:
        count.refused += 1
    if len(kept) < examples:
        kept.append(
            Example(
                time=entry.time,
                tool=_text(data.get("tool")) or "",
                args=data.get("args"),
                session_id=entry.session_id,
                needs=_text(data.get("needs")),
                remaining=_text(data.get("remaining")),
            )
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
