"""
Sessions of contracts, built again from their steps in the evidence.

A session's memory follows from its rules and its steps, so a console can say how a contract stands in a
process that it has no part in, and what a call would be refused for. What rests on code is not known here.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from .._plain.arguments import plain_args
from ..acel.contracts.base import SessionRule, TemporalContract
from ..acel.engine.plan.planned_call import PlannedCall
from ..acel.engine.plan.rule_set import RuleSet
from ..acel.engine.record.found_breach import of_breach
from ..acel.engine.rerun.journal_rules import RerunError
from ..acel.engine.rerun.rerun import Rerun
from ..acel.engine.store.session_store import SessionStore
from ..acel.engine.store.standing import Standing, standings
from ..acel.match.names import normal_name
from ..acel.memory.state import StateStore
from ..acel.refusal import Refusal
from . import words
from .evidence_log import FollowedLog
from .sources import Sources

MOST_SESSIONS = 20
MOST_STEPS = 20_000
NEAR = 50.0
_KEPT = 64
NEW = "new"


@dataclass(slots=True, kw_only=True, eq=False)
class KnownSession:
    """
    A session of contracts.

    Attributes:
        run: The name of its steps in the log.
        name: The session, as whoever made it named it.
        store: What its contracts remember; None if the steps could not be followed.
        problem: Why not.
        under_way: Calls that have begun and not ended.
        steps: How many steps it has.
        asked: Calls under way that wait for a person, by their approvals.
        recognising: Held while these are looked for.
    """

    run: str
    name: str
    log: str
    store: SessionStore | None
    problem: str = ""
    under_way: tuple[PlannedCall, ...] = ()
    steps: int = 0
    ended: bool = False
    asked: dict[str, PlannedCall] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    recognising: threading.Lock = field(default_factory=threading.Lock)

    def would(self, tool: str, args: dict[str, Any]) -> Refusal | None:
        """Say what a call would be refused for; None for nothing that is known."""
        assert self.store is not None
        with self.lock:
            call = PlannedCall(normal_name(tool), plain_args(args), self.store.book.plan(tool))
            breaches = [breach for breach in self.store.would(call) if breach.blocks()]
            found = [(breach.contract, of_breach(breach, "enforce").broken) for breach in breaches]
        broken = tuple(replace(one, contract=self.text_of(contract)) for contract, one in found)
        return Refusal(tool=call.tool, step=call.step, broken=broken) if broken else None

    def text_of(self, contract: TemporalContract | SessionRule) -> str:
        """Give a contract as it was written."""
        return self.texts.get(id(contract), contract.spec)

    def standings(self) -> list[Standing]:
        """Say how each contract stands."""
        assert self.store is not None
        with self.lock:
            return standings(self.store)

    def show_arguments(self, call: PlannedCall, args: dict[str, Any]) -> PlannedCall:
        """Count a call that is under way with arguments that its log does not tell yet."""
        assert self.store is not None
        with self.lock:
            self.store.abort(call, ran=False)
            again = PlannedCall(call.tool, plain_args(args), self.store.book.plan(call.tool))
            again.about = call.about
            self.store.step -= 1
            self.store.reserve(again, force=True)
            again.step = call.step
            self.under_way = tuple(again if one is call else one for one in self.under_way)
            return again

    @property
    def flying(self) -> int:
        """Count the calls that are under way."""
        return len(self.under_way)

    def about(self, tool: str) -> int:
        """Count the contracts that are about a tool."""
        assert self.store is not None
        with self.lock:
            plan = self.store.book.plan(tool)
            return len(
                {id(guard.contract) for guard in plan.guards} | {id(one.contract) for one, _ in plan.asked}
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """Tell in words how one contract stands."""

    name: str
    rule: str
    shadow: bool
    session: str
    key: str
    state: str
    left: str
    share: float | None
    refuses: str
    closeness: float

    @property
    def where(self) -> str:
        """Say in which session, and for which value."""
        return ", ".join(filter(None, (self.session, self.key)))


class LiveSessions:
    """Build the sessions of all logs, each again only when it has new steps. Any thread may use it."""

    def __init__(self, sources: Sources) -> None:
        self.sources = self._sources = sources
        self._lock = threading.Lock()
        self._built: OrderedDict[tuple[str, str], tuple[int, KnownSession]] = OrderedDict()

    def open(self) -> list[KnownSession]:
        """List the sessions that have not ended, the latest first."""
        found = []
        for log in self._sources.logs:
            for run in reversed(log.sessions()[-MOST_SESSIONS:]):
                known = self._session(log, run)
                if not known.ended:
                    found.append(known)
        return found[:MOST_SESSIONS]

    def new(self) -> KnownSession | None:
        """Make a session that nothing has happened in; None without a rules file."""
        rules = self._sources.rules
        if rules is None:
            return None
        store = SessionStore(RuleSet(rules.contracts), StateStore(rules.state))
        return KnownSession(run=NEW, name="a new session", log="", store=store)

    def called(self, run: str) -> KnownSession | None:
        """Find a session by the name of its steps."""
        if run == NEW:
            return self.new()
        for log in self._sources.logs:
            if log.steps_count(run):
                return self._session(log, run)
        return None

    def named(self, names: Collection[str]) -> KnownSession | None:
        """Find the latest session that one of the names is of."""
        for log in self._sources.logs:
            for run in reversed(log.sessions()[-MOST_SESSIONS:]):
                if log.session_of(run) in names:
                    return self._session(log, run)
        return None

    @property
    def tells(self) -> bool:
        """Tell whether any log has steps."""
        return any(log.sessions() for log in self._sources.logs)

    def _session(self, log: FollowedLog, run: str) -> KnownSession:
        with self._lock:
            count = log.steps_count(run)
            key = (log.name, run)
            built = self._built.get(key)
            if built is None or built[0] != count:
                built = count, self._build(log, run, count)
                self._built[key] = built
                while len(self._built) > _KEPT:
                    self._built.popitem(last=False)
            self._built.move_to_end(key)
            return built[1]

    def _build(self, log: FollowedLog, run: str, count: int) -> KnownSession:
        name = log.session_of(run) or run
        if count > MOST_STEPS:
            problem = f"it has more than {MOST_STEPS:,} steps"
            return KnownSession(run=run, name=name, log=log.name, store=None, problem=problem, steps=count)
        steps = log.steps_of(run)
        rerun, problem = _Live(self._sources), ""
        try:
            for _ in rerun.follow(steps, log.rules()):
                pass
        except RerunError as error:
            problem = str(error)
        if rerun.is_memory_hidden and not problem:
            problem = "it went on with what another process remembered, which the log does not show"
        return KnownSession(
            run=run,
            name=name,
            log=log.name,
            store=None if problem else rerun.store_at(self._sources.now()),
            problem=problem,
            under_way=rerun.flying,
            steps=count,
            ended=bool(steps) and steps[-1][1].get("e") == "end" and "shut" in steps[-1][1],
            texts=rerun.texts(),
        )


class _Live(Rerun):
    """Follow steps, and go on with the time of the console after them."""

    def __init__(self, sources: Sources) -> None:
        super().__init__()
        self._sources = sources
        self._followed = False

    def store_at(self, moment: float) -> SessionStore | None:
        self._followed = True
        return super().store_at(moment)

    def _clock(self) -> float:
        return max(super()._clock(), self._sources.now()) if self._followed else super()._clock()


def rows_of(sources: Sources, known: KnownSession) -> list[StateRow]:
    """Put how a session stands into words, what is closest to its limit first."""
    session = "" if known.run == NEW else known.name
    rows = [_row(sources, one, session, known.text_of(one.contract)) for one in known.standings()]
    return sorted(rows, key=lambda row: -row.closeness)


def near_limits(sessions: LiveSessions, *, most: int) -> list[StateRow]:
    """List what is closest to its limit in the open sessions."""
    known = [one for one in sessions.open() if one.store is not None]
    rows = [row for one in known for row in rows_of(sessions.sources, one)]
    close = [row for row in rows if row.share is not None and row.share >= NEAR]
    return sorted(close, key=lambda row: -row.closeness)[:most]


def tells_apart(contract: Any) -> list[str]:
    """Name the arguments that a contract tells apart."""
    return [
        name for part in re.split(r"[^\w.-]+", contract.split.written) for name in (part, *part.split("."))
    ]


def _row(sources: Sources, one: Standing, session: str, text: str) -> StateRow:
    contract = one.contract
    shadow = contract.mode == "shadow"
    key = one.key or ("every other value" if one.others else "")
    if one.key and any(map(sources.redactor.hides, tells_apart(contract))):
        key = sources.redactor.marker(one.key)
    if one.limit is not None:
        state = f"{one.left} left of {one.limit}"
    elif one.needs is not None:
        state = f"needs {one.needs}"
    elif one.owed:
        state = f"{words.count(one.owed, 'call')} owed an answer"
    elif one.refuses:
        state = "triggered"
    else:
        state = "satisfied" if one.key else "not triggered"
    if one.retry_after is not None:
        state += f", retry after {words.left(one.retry_after)}"
    refuses = "what it guards" if one.refuses else "nothing" if one.needs is None else "any other value"
    if one.limit is not None and not one.refuses and text.startswith("at_most_total"):
        refuses = f"amounts over {one.left}"
    if shadow and one.refuses:
        refuses = "nothing, would refuse what it guards"
    return StateRow(
        name=contract.id or text.partition("(")[0],
        rule=text,
        shadow=shadow,
        session=session,
        key=key,
        state=state,
        left=one.left or "",
        share=None if one.limit is None else one.share * 100,
        refuses=refuses,
        closeness=(1.5 if one.refuses and not one.others else one.share) - (2 if shadow else 0),
    )
