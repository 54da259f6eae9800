"""Say what rules would have refused of what was recorded, and what they have nothing to say about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..acel.contracts.declaration import scope_of
from ..acel.contracts.template import Template
from ..acel.events import LIFECYCLE
from ..acel.refusal import Broken
from ..acel.rulesfile import Rules
from .counts import Found, Shares
from .events import Began, Ended, TraceEvent
from .in_time import in_time
from .judge import Judged, TraceJudge

__all__ = ("Backtest", "ChangedVerdict", "ContractFindings", "backtest")


@dataclass(slots=True, kw_only=True)
class ContractFindings:
    """
    Say what one contract makes of the recording.

    Attributes:
        contract: The contract.
        applied: To how many calls it may object.
        refused: How many it refuses, alone or with others; for one that only watches, would refuse.
        unknown: How many of the calls it is about it cannot judge, since something was not recorded.
        sessions: The sessions in which it refuses.
        keys: How many it refuses by the value of its key.
        unmet: Sessions in which it is owed something at the end.
        example: The first call that it refuses.
        advice: What would have unblocked that one.
    """

    contract: Template
    applied: int = 0
    refused: int = 0
    unknown: int = 0
    sessions: Found[str] = field(default_factory=Found)
    keys: Shares = field(default_factory=Shares)
    unmet: Found[str] = field(default_factory=Found)
    example: Began | None = None
    advice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedVerdict:
    """
    Say of one call that two sets of rules judge differently.

    Attributes:
        call: The call.
        refused: Whether the new rules refuse it. The others do the opposite.
        broken: The contracts that refuse it, new or old.
    """

    call: Began
    refused: bool
    broken: tuple[Broken, ...]


@dataclass(slots=True, kw_only=True)
class Backtest:
    """
    Hold what rules make of a recording.

    Attributes:
        contracts: What each contract makes of it.
        calls: How many calls there are.
        sessions: How many sessions.
        refused: How many calls would have been refused.
        never_ran: How many of these had not run then, because they were refused or aborted.
        refused_then: How many were refused when they were recorded.
        stopped: How many were let through then and break a contract here, be it one that only watches.
        unseen: Calls that no contract looks at, by tool.
        disordered: Sessions that were judged out of several files, and not in the order of time.
        untimed: Sessions that were judged out of several files in the order of these: calls say no time.
        backward: Sessions that were judged in the order of a file that has earlier calls after later ones.
        is_compared: Whether there were other rules to compare with.
        now_refused: Calls that these allow, and the new rules refuse.
        now_allowed: Calls that these refuse, and the new rules allow.
    """

    contracts: list[ContractFindings]
    calls: int = 0
    sessions: int = 0
    refused: int = 0
    never_ran: int = 0
    refused_then: int = 0
    stopped: int = 0
    unseen: Shares = field(default_factory=Shares)
    disordered: Found[str] = field(default_factory=Found)
    untimed: Found[str] = field(default_factory=Found)
    backward: Found[str] = field(default_factory=Found)
    is_compared: bool = False
    now_refused: Found[ChangedVerdict] = field(default_factory=Found)
    now_allowed: Found[ChangedVerdict] = field(default_factory=Found)

    @property
    def vacuous(self) -> list[Template]:
        """List the contracts that never applied to any call."""
        return [each.contract for each in self.contracts if not each.applied and not each.unmet]

    @property
    def counted_together(self) -> list[Template]:
        """List the contracts of a fleet, which count what all sessions of the recording did."""
        return [each.contract for each in self.contracts if scope_of(each.contract) == "fleet"]

    @property
    def unjudged(self) -> int:
        """Count the judgements that could not be made."""
        return sum(each.unknown for each in self.contracts)

    @property
    def clean(self) -> bool:
        """
        Tell whether all that was let through then would be again, and nothing is unmet.

        With rules to compare with, tell whether nothing changes.
        """
        if self.is_compared:
            return not (self.now_refused.count or self.now_allowed.count)
        return not self.stopped and not any(each.unmet for each in self.contracts)


def backtest(events: Iterable[TraceEvent], rules: Rules, *, against: Rules | None = None) -> Backtest:
    """
    Judge what was recorded by rules.

    Memory does not grow with the recording: sessions that are not in use wait in a temporary file, and of
    what is found the first is told and the rest counted. Contracts of a fleet count what all sessions did, in
    the order of time, for which events are sorted through temporary files.

    Args:
        events: What happened, see `Recordings`.
        rules: The rules.
        against: Rules to compare with, such as those that are in force.

    Raises:
        TraceSourceError: From `events`.
    """
    judge, other = TraceJudge(rules), None if against is None else TraceJudge(against)
    result = Backtest(
        contracts=[ContractFindings(contract=contract) for contract in rules.contracts],
        is_compared=other is not None,
    )
    if judge.needs_order or (other is not None and other.needs_order):
        events = in_time((events,))
    refused: set[Began] = set()
    for event in events:
        if isinstance(event, Ended) and event.call in refused:
            refused.remove(event.call)
            result.never_ran += event.call.refused or event.outcome == "aborted"
        judged = judge.take(event)
        before = None if other is None else other.take(event)
        if judged is not None and isinstance(event, Began):
            _count(result, event, judged)
            if judged.refused:
                refused.add(event)
            if before is not None:
                _compare(result, event, judged, before)
    result.sessions = len(judge)
    result.disordered, result.untimed = judge.disordered, judge.untimed
    result.backward = judge.backward
    for place, names in judge.unmet().items():
        result.contracts[place].unmet = names
    return result


def _count(result: Backtest, call: Began, judged: Judged) -> None:
    is_tool = call.tool not in LIFECYCLE
    result.calls += is_tool
    result.refused += judged.refused
    result.refused_then += call.refused
    result.stopped += not call.refused and (judged.refused or bool(judged.watched))
    if not judged.seen and is_tool:
        result.unseen.add(call.tool)
    for place in judged.guarding:
        result.contracts[place].applied += 1
    for place in judged.unknown:
        result.contracts[place].unknown += 1
    for place, broken in judged.broken:
        if place >= 0:
            _note(result.contracts[place], call, broken)
    for place in judged.watched:
        _note(result.contracts[place], call, None)
    for place in judged.first:
        if place >= 0:
            result.contracts[place].sessions.add(call.session)


def _note(found: ContractFindings, call: Began, broken: Broken | None) -> None:
    found.refused += 1
    key = found.contract.key_of(call.tool, call.args or {})
    if key is not None:
        found.keys.add(key)
    if found.example is None:
        found.example = call
        found.advice = None if broken is None else broken.describe()


def _compare(result: Backtest, call: Began, judged: Judged, before: Judged) -> None:
    if judged.refused == before.refused:
        return
    broken = tuple(broken for _, broken in (judged if judged.refused else before).broken)
    changes = result.now_refused if judged.refused else result.now_allowed
    changes.add(ChangedVerdict(call=call, refused=judged.refused, broken=broken))
