"""The first page: is something broken, and who waits for me?"""

from __future__ import annotations

import statistics
import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from ..local_core.approvals import Approval
from ..local_core.reading import CoreReader, RunRow, SeenEvent
from . import values
from .evidence_log import Decided, FollowedLog
from .sources import Sources

_UNTOLD = {"halted": "a halt", "session": "the session's store", "unreachable": "Core was away"}
"""Who decides what Core is not told of, and what that is called."""

FIVE_MINUTES = 300
BUCKETS = 12
_HOUR = 3600.0
_PAGE = 1000
_NEED = 5
_RUNS = 5
_KEPT = 2_000


@dataclass(slots=True)
class Five:
    """Count what was judged in five minutes."""

    through: int = 0
    person: int = 0
    refused: int = 0
    ungoverned: int = 0


@dataclass(slots=True, kw_only=True)
class Refused:
    """Count the calls that were refused for one reason."""

    because: str
    by: str
    rule: str = ""
    unblock: str = ""
    calls: int = 0
    last: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call that waits, in one line."""

    approval: Approval
    tool: str
    title: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """An open run, and what it does now."""

    run: RunRow
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ungoverned:
    """Calls of an agent that ran though Core could not be asked."""

    agent: str
    calls: int
    first: float
    last: float
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """
    Collect what the first page shows.

    Attributes:
        medians: Seconds that contracts, Core and people took; None where nobody was asked.
        sees_refusals: Whether refusals by contracts are known, which stand in evidence alone.
    """

    events: int
    broken: list[FollowedLog]
    ungoverned: list[Ungoverned]
    asked: list[Asked]
    waiting: int
    verdicts: dict[str, int]
    fives: list[Five]
    since: float
    until: float
    medians: tuple[float | None, float | None, float | None]
    doing: list[Doing]
    running: int
    refused: list[Refused]

    @property
    def alarms(self) -> int:
        """Count what is broken."""
        return len(self.broken) + bool(self.ungoverned)


class Hour:
    """Count what Core was asked in the last hour. Each event is read once. Any thread may use it."""

    def __init__(self, reader: CoreReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._after: int | None = None
        self._counts: dict[int, Counter[str]] = {}
        self._refused: deque[SeenEvent] = deque(maxlen=_KEPT)

    def since(self, moment: float) -> tuple[dict[int, Counter[str]], list[SeenEvent]]:
        """Give the verdicts since a moment, five minutes at a time, and what was refused."""
        with self._lock:
            if self._after is None:
                self._after = self._reader.first_since(moment) - 1
            while True:
                rows = self._reader.events(after=self._after, limit=_PAGE)
                for row in rows:
                    self._take(row)
                if len(rows) < _PAGE:
                    break
            first = int(moment) // FIVE_MINUTES
            self._counts = {five: counts for five, counts in self._counts.items() if five >= first}
            return dict(self._counts), [row for row in self._refused if row.received_at >= moment]

    def _take(self, row: SeenEvent) -> None:
        self._after = row.seq
        verdict = "block" if row.contracts else row.verdict
        if not row.asks and not row.contracts:
            return
        self._counts.setdefault(int(row.received_at) // FIVE_MINUTES, Counter())[verdict] += 1
        if verdict in ("block", "halt"):
            self._refused.append(row)


def overview(sources: Sources, hour: Hour) -> Overview:
    """Look at everything, shortly."""
    now = sources.now()
    since = (int(now) // FIVE_MINUTES - BUCKETS + 1) * FIVE_MINUTES
    counts, refused = hour.since(since)
    decided = [one for log in sources.logs for one in log.recent(since)]
    # Core was told of the others, and counts them.
    apart = [one for one in decided if one.source in _UNTOLD]
    apart += [one for one in decided if one.source == "contracts" and not _is_known(sources, one)]
    verdicts = Counter[str]()
    fives = [Five() for _ in range(BUCKETS)]
    for five, found in counts.items():
        verdicts.update(found)
        place = fives[min(max(five - since // FIVE_MINUTES, 0), BUCKETS - 1)]
        place.through += found["allow"] + found["constrain"]
        place.person += found["require_approval"]
        place.refused += found["block"] + found["halt"]
    for one in apart:
        _count(one, fives[min(max(int(one.at - since) // FIVE_MINUTES, 0), BUCKETS - 1)], verdicts)
    reader = sources.reader
    return Overview(
        events=reader.latest(),
        broken=[log for log in sources.logs if not log.intact],
        ungoverned=_ungoverned(decided),
        asked=[_asked(sources, one) for one in reader.pending(now, limit=_NEED)],
        waiting=reader.count_pending(now),
        verdicts={
            name: verdicts[name] for name in ("allow", "constrain", "require_approval", "block", "halt")
        },
        fives=fives,
        since=since,
        until=since + _HOUR,
        medians=_medians(decided),
        doing=[_doing(sources, run, now) for run in reader.runs(limit=_RUNS, open_only=True)],
        running=reader.count_runs(open_only=True),
        refused=_refused(sources, refused, apart, decided),
    )


def _is_known(sources: Sources, one: Decided) -> bool:
    return sources.reader.run(one.run_id, one.workflow_id) is not None


def _count(one: Decided, five: Five, verdicts: Counter[str]) -> None:
    if one.ungoverned:
        five.ungoverned += 1
    elif one.verdict in ("block", "halt"):
        five.refused += 1
        verdicts[one.verdict] += 1


def _ungoverned(decided: Iterable[Decided]) -> list[Ungoverned]:
    by_agent: dict[str, list[Decided]] = {}
    for one in decided:
        if one.ungoverned:
            by_agent.setdefault(one.agent, []).append(one)
    return [
        Ungoverned(agent=agent, calls=len(all_), first=all_[0].at, last=all_[-1].at, run_id=all_[-1].run_id)
        for agent, all_ in by_agent.items()
    ]


def _asked(sources: Sources, approval: Approval) -> Asked:
    event = sources.shown(approval.event)
    return Asked(
        approval=approval,
        tool=approval.activity_type,
        title=values.title_of(values.named_values(event)),
        agent=str(event.get("agent_name") or event.get("workflow_type") or ""),
    )


def _doing(sources: Sources, run: RunRow, now: float) -> Doing:
    waits = next((one for one in sources.reader.approvals_of(run) if one.as_of(now) == "pending"), None)
    if waits is not None:
        return Doing(run=run, what=f"{waits.activity_type} waits for a person")
    latest = sources.reader.events(after=run.last - 1, limit=1)
    if latest and latest[0].event_type == "ActivityStarted" and latest[0].verdict in ("allow", "constrain"):
        tool = latest[0].activity_type
        return Doing(run=run, what="the model is thinking" if tool == "llm_call" else f"{tool} is running")
    return Doing(run=run, what="between two steps")


def _medians(decided: list[Decided]) -> tuple[float | None, float | None, float | None]:
    def median(seconds: list[float]) -> float | None:
        told = [one for one in seconds if one > 0]
        return statistics.median(told) if told else None

    return (
        median([one.acel_seconds for one in decided]),
        median([one.core_seconds for one in decided]),
        median([one.approval_seconds for one in decided]),
    )


def _refused(
    sources: Sources, by_core: list[SeenEvent], apart: list[Decided], decided: list[Decided]
) -> list[Refused]:
    found: dict[tuple[str, str], Refused] = {}
    for row in by_core:
        for contract in row.contracts:
            _add(found, contract, "contracts", row.received_at)
        if row.contracts:
            continue
        _add(found, row.reason or "the policy gives no reason", f"Core, {row.policy_id}", row.received_at)
    for one in apart:
        if one.verdict not in ("block", "halt"):
            continue
        if one.source == "contracts":
            for contract in one.contracts or (one.reason,):
                _add(found, contract, "contracts", one.at)
        else:
            by = _UNTOLD[one.source or "unreachable"]
            _add(found, one.reason or by, by, one.at)
    for log in sources.logs:
        _explain(found, log, decided)
    return sorted(found.values(), key=lambda one: (-one.calls, -one.last))


def _add(found: dict[tuple[str, str], Refused], because: str, by: str, at: float) -> None:
    one = found.setdefault((because, by), Refused(because=because, by=by))
    one.calls += 1
    one.last = max(one.last, at)


def _explain(found: dict[tuple[str, str], Refused], log: FollowedLog, decided: list[Decided]) -> None:
    """Say what would unblock what contracts refused, by the latest violation of each."""
    wanted = {because for because, by in found if by == "contracts"}
    for one in reversed(decided):
        if one.source != "contracts" or not wanted & set(one.contracts):
            continue
        for line in log.violations_of(one.number):
            data = line.parsed.data() if line.parsed is not None else {}
            name = str(data.get("label") or data.get("spec"))
            if name not in wanted:
                continue
            wanted.discard(name)
            row = found[name, "contracts"]
            needs, remaining, remedy = data.get("needs"), data.get("remaining"), data.get("remedy")
            row.unblock = f"needs {needs}" if needs else str(remaining or "")
            row.unblock = "; ".join(filter(None, (row.unblock, str(remedy or ""))))
            if data.get("id"):
                row.rule, row.because = name, str(data["id"])
