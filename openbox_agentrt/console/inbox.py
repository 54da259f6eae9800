"""The inbox: calls that wait for a person, and those that were decided."""

from __future__ import annotations

from dataclasses import dataclass

from ..local_core.approvals import Approval, State
from ..local_core.reading import RunRow
from . import values, words
from .call_standing import StandingOfCall, standing_of
from .sessions import LiveSessions
from .sources import Sources
from .steps import Step
from .story import tell
from .values import Arguments

PAGE = 8
_DAY = 86_400.0
_SETTLED = 20
_LED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """
    One call that waits, or waited, with everything a person needs to decide.

    Attributes:
        state: How it stands.
        seconds_left: Until it expires; None if it does not.
        policy: The policy that asks.
        led: The last events of the run before it.
        judged: How many calls of its run were judged.
        contracts: How the contracts stand that concern it; None once it is decided.
    """

    approval: Approval
    state: State
    tool: str
    title: str
    agent: str
    session: str
    seconds_left: float | None
    arguments: Arguments
    policy: str
    led: tuple[Step, ...]
    judged: int
    contracts: StandingOfCall | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledApproval:
    """One call that is decided, or that nobody decided in time, and what happened then."""

    approval: Approval
    state: State
    tool: str
    title: str
    at: float
    waited: float
    then: str

    @property
    def withdrawn(self) -> bool:
        """Tell whether its run ended before anyone answered."""
        ended, limit = self.approval.decided_at, self.approval.expires_at
        return self.state == "expired" and ended is not None and (limit is None or ended < limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """The calls of one page that wait, how many there are in all, and those decided in the last day."""

    cards: tuple[Card, ...]
    waiting: int
    skipped: int
    settled: tuple[SettledApproval, ...]


def inbox(sources: Sources, sessions: LiveSessions, *, skip: int = 0) -> Inbox:
    """Look into the inbox."""
    now = sources.now()
    reader = sources.reader
    pending = reader.pending(now, limit=PAGE, skip=skip)
    decided = reader.decided(now, since=now - _DAY, limit=_SETTLED)
    return Inbox(
        cards=tuple(card_of(sources, sessions, approval) for approval in pending),
        waiting=reader.count_pending(now),
        skipped=skip,
        settled=tuple(_settled(sources, approval, now) for approval in decided),
    )


def card_of(sources: Sources, sessions: LiveSessions, approval: Approval) -> Card:
    """Put together what is known of an approval."""
    now = sources.now()
    event = sources.shown(approval.event)
    arguments = values.arguments_of(event)
    run = sources.reader.run(approval.run_id, approval.workflow_id)
    steps = [] if run is None else tell(sources, run).judged
    own = next((step for step in steps if step.activity_id == approval.activity_id), None)
    before = [step for step in steps if step is not own and step.at <= approval.created_at]
    state = approval.as_of(now)
    return Card(
        approval=approval,
        state=state,
        tool=approval.activity_type,
        title=values.title_of(arguments.values),
        agent=str(event.get("agent_name") or event.get("workflow_type") or ""),
        session=str(event.get("session_id") or ""),
        seconds_left=None if approval.expires_at is None else max(0.0, approval.expires_at - now),
        arguments=arguments,
        policy="" if own is None else own.policy,
        led=tuple([*before[-_LED:], own] if own is not None else before[-_LED:]),
        judged=len(steps),
        contracts=standing_of(sources, sessions, approval) if state == "pending" else None,
    )


def _settled(sources: Sources, approval: Approval, now: float) -> SettledApproval:
    event = sources.shown(approval.event)
    at = approval.decided_at or approval.expires_at or now
    return SettledApproval(
        approval=approval,
        state=approval.as_of(now),
        tool=approval.activity_type,
        title=values.title_of(values.named_values(event)),
        at=at,
        waited=max(0.0, at - approval.created_at),
        then=_then(sources, approval, sources.reader.run(approval.run_id, approval.workflow_id)),
    )


def _then(sources: Sources, approval: Approval, run: RunRow | None) -> str:
    if approval.state != "approved" or run is None:
        return "did not run"
    found = sources.reader.ended_with(run, approval.activity_id)
    if found is None:
        return "is running" if run.open else "no end was told"
    status, seconds = found
    took = "" if seconds is None else f", {words.lasting(seconds)}"
    return f"{'ran' if status == 'completed' else status}{took}"
