"""
Recorded calls, judged by rules that were not in force then.

A call that would be refused is taken not to have run: it counts nowhere and allows nothing. What an agent
would have done instead, no recording says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..acel.contracts.rules import Cell
from ..acel.contracts.template import Template
from ..acel.engine.outline import FiledContract
from ..acel.engine.reads import contracts_guarding, contracts_reading, reads_arguments
from ..acel.engine.rule_set import shared_rules
from ..acel.events import USER_PROMPT
from ..acel.refusal import Broken
from ..acel.reservation import Reservation
from ..acel.rulesfile import Rules
from ..acel.session import Session, engine_of
from ..acel.violations import Violation
from .events import Began, Ended, Resumed, RunEnded, StateSet, TraceEvent, Unrecorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """
    Say what rules make of one call.

    Attributes:
        refused: Whether a contract in force, and that can be judged, refuses it.
        broken: Those contracts.
        watched: Contracts that only watch, and that it breaks, by position.
        guarding: Contracts that may object to such a call, by position.
        unknown: Those of them that nobody can judge here, by position.
        seen: Whether any contract looks at it.
    """

    refused: bool
    broken: tuple[tuple[int, Broken], ...] = ()
    watched: tuple[int, ...] = ()
    guarding: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    seen: bool = True


@dataclass(slots=True, kw_only=True)
class _Session:
    session: Session
    now: float = 0.0
    has_results: bool = True
    has_prompts: bool = False
    hides_prompts: bool = False
    is_resumed: bool = False
    runs: set[str] = field(default_factory=set)
    miscounted: frozenset[int] = frozenset()
    flying: dict[Began, Reservation] = field(default_factory=dict)
    plans: dict[tuple[Any, ...], tuple[frozenset[int], frozenset[int]]] = field(default_factory=dict)


class _Silent:
    """Take evidence and keep none: what is found is counted elsewhere."""

    def record(self, violation: object, /) -> None:
        """Let a violation go by."""


class TraceJudge:
    """
    Judge the calls of any number of sessions by one set of rules.

    Attributes:
        contracts: The contracts, by their positions.
    """

    def __init__(self, rules: Rules) -> None:
        self.contracts: Final[tuple[Template, ...]] = rules.contracts
        self._rules = rules
        self._places = {id(contract): place for place, contract in enumerate(rules.contracts)}
        self._named: dict[tuple[str, str | None], int] = {}
        for place, contract in enumerate(rules.contracts):
            self._named.setdefault((contract.spec, contract.id), place)
        self._sessions: dict[str, _Session] = {}
        self._owed: dict[int, set[str]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def take(self, event: TraceEvent) -> Judged | None:
        """Take into account what happened; a call that began is judged."""
        name = event.call.session if isinstance(event, Ended) else event.session
        kept = self._session(name)
        if event.at is not None:
            kept.now = max(kept.now, event.at)
        match event:
            case Began():
                return self._began(kept, event)
            case Ended():
                self._ended(kept, event)
            case RunEnded():
                kept.runs.discard(event.run)
                self._note_owed(name, kept, engine_of(kept.session).end_run(event.run))
            case Resumed():
                # With a memory that nobody knows here.
                kept.is_resumed = True
                kept.session.state.update(dict(event.state))
            case StateSet():
                kept.session.state.update(dict(event.values))
        return None

    def _began(self, kept: _Session, call: Began) -> Judged:
        kept.has_prompts = kept.has_prompts or call.tool == USER_PROMPT
        guarding, unknown = self._known(kept, call)
        args = {} if call.args is None else call.args
        # What only contracts refuse that cannot be judged is let through.
        passes = bool(unknown) and self._only_unknown(kept, call, args, unknown)
        if passes:
            kept.session.mode = "shadow"
        reservation = kept.session.reserve(call.tool, args, deferred=call.deferred, about=call.about)
        if passes:
            kept.session.mode = "enforce"
        if reservation.allowed and call.refused and unknown:
            # It did not run then, and nobody can say that it would now: so nothing counts it.
            reservation.abort(ran=False)
        elif reservation.allowed:
            kept.flying[call] = reservation
            kept.runs.add("" if call.about is None else call.about.run)
            self._note_hidden(kept, call)
        extra = reservation.extra
        if extra is not None:
            own = (self._places.get(id(guard.contract)) for guard in extra.guards)
            guarding |= frozenset(place for place in own if place is not None)
        plan = reservation.plan
        return Judged(
            refused=not reservation.allowed,
            broken=tuple(self._broken(reservation, unknown)),
            watched=self._watched(reservation, unknown),
            guarding=guarding,
            unknown=unknown,
            seen=bool(plan.guards or plan.counts or plan.movers or plan.asked),
        )

    def _ended(self, kept: _Session, end: Ended) -> None:
        reservation = kept.flying.pop(end.call, None)
        if reservation is None:
            return  # it was refused here
        match end.outcome:
            case "ok":
                if isinstance(end.result, Unrecorded):
                    learns = [mover for mover in reservation.movers() if mover.learns is not None]
                    if any(mover.learns_from == "result" for mover in learns):
                        kept.has_results = False
                    reservation.commit(None, args=end.args, measured=end.measured)
                else:
                    reservation.commit(end.result, args=end.args, measured=end.measured)
            case "unknown":
                if end.call.refused:
                    self._note_never_ended(kept, end.call.tool)
                reservation.lose(args=end.args, measured=end.measured)
            case outcome:
                reservation.abort(ran=outcome == "failed", args=end.args, measured=end.measured)

    def unmet(self) -> dict[int, set[str]]:
        """Say of each contract in which sessions something is owed at the end of the recording."""
        for name, kept in self._sessions.items():
            for run in sorted(kept.runs):
                self._note_owed(name, kept, engine_of(kept.session).end_run(run))
            kept.runs.clear()
            self._note_owed(name, kept, kept.session.end_session())
        return self._owed

    def _note_owed(self, name: str, kept: _Session, unmet: Iterable[Violation]) -> None:
        for violation in unmet:
            place = self._named.get((violation.spec, violation.id))
            # What was owed may have been done by a call of which nobody knows the arguments.
            if place is not None and place not in kept.miscounted and not kept.is_resumed:
                self._owed.setdefault(place, set()).add(name)

    def _note_never_ended(self, kept: _Session, tool: str) -> None:
        """Remember which contracts would ask how long a call ran that was refused when it was recorded."""
        plan = engine_of(kept.session).store.book.plan(tool)
        asked = [guard for entry, _ in plan.asked for rule in entry.every_rule() for guard in rule.guards]
        cells = [(guard.contract, guard.guard.cell) for guard in (*plan.guards, *asked)]
        flying = {id(contract) for contract, cell in cells if cell is not None and cell.kind == "flights"}
        kept.miscounted |= self._by_place(frozenset(flying))

    def _note_hidden(self, kept: _Session, call: Began) -> None:
        """Remember which contracts cannot count a call whose arguments nobody wrote down."""
        if call.args is not None:
            return
        kept.hides_prompts = kept.hides_prompts or call.tool == USER_PROMPT
        filed = engine_of(kept.session).store.book.rules.filed
        kept.miscounted |= {
            place
            for place, contract in enumerate(self.contracts)
            if id(contract) in filed and _counts_arguments(filed[id(contract)], call.tool)
        }

    def _session(self, name: str) -> _Session:
        kept = self._sessions.get(name)
        if kept is None:
            made: list[_Session] = []
            session = Session(
                self._rules.state,
                # What the rest of the fleet did is not in the recording of a session.
                contracts=shared_rules(self._rules.contracts, alone=True, default_scope="session"),
                halt_on_violation=False,
                session_id=name,
                evidence=_Silent(),
                max_trace=0,
                trace_window=0,
                clock=lambda: made[0].now,
            )
            kept = self._sessions[name] = _Session(session=session)
            made.append(kept)
        return kept

    def _known(self, kept: _Session, call: Began) -> tuple[frozenset[int], frozenset[int]]:
        prompts = kept.hides_prompts or not kept.has_prompts
        missing = (
            call.args is None,
            call.at is None,
            not kept.has_results,
            prompts,
            call.about is None,
            kept.is_resumed,
        )
        known = kept.plans.get((call.tool, *missing, kept.miscounted))
        if known is None:
            arguments, times, results, prompts, subject, memory = missing
            plan = engine_of(kept.session).store.book.plan(call.tool)
            unknown = self._by_place(
                contracts_reading(
                    plan,
                    arguments=arguments,
                    times=times,
                    results=results,
                    prompts=prompts,
                    subject=subject,
                    memory=memory,
                )
            )
            every = self._by_place(contracts_guarding(plan))
            known = every if arguments else self._by_place(_sure(plan)), unknown | (kept.miscounted & every)
            kept.plans[call.tool, *missing, kept.miscounted] = known
        return known

    def _by_place(self, contracts: frozenset[int]) -> frozenset[int]:
        return frozenset(self._places[key] for key in contracts if key in self._places)

    def _only_unknown(
        self, kept: _Session, call: Began, args: Mapping[str, Any], unknown: frozenset[int]
    ) -> bool:
        """Tell whether a call would be refused by nothing but contracts that cannot be judged."""
        engine = engine_of(kept.session)
        refusal = engine.would(call.tool, args, deferred=call.deferred, about=call.about)
        return refusal is not None and all(self._place(broken) in unknown for broken in refusal.broken)

    def _place(self, broken: Broken) -> int | None:
        return self._named.get((broken.contract, broken.id))

    def _broken(self, call: Reservation, unknown: frozenset[int]) -> list[tuple[int, Broken]]:
        found = () if call.refusal is None else call.refusal.broken
        placed = ((self._place(broken), broken) for broken in found)
        # What the session itself objects to - it was halted - belongs to no contract.
        return [(-1 if place is None else place, broken) for place, broken in placed if place not in unknown]

    def _watched(self, call: Reservation, unknown: frozenset[int]) -> tuple[int, ...]:
        if not call.violations:
            return ()
        places = (self._named.get((v.spec, v.id)) for v in call.violations if v.mode == "shadow")
        return tuple(place for place in places if place is not None and place not in unknown)


def _counts_arguments(filed: FiledContract, tool: str) -> bool:
    """Tell whether it matters to what a contract remembers of calls of a tool what their arguments were."""
    contract = filed.contract
    told = any(watch.tool == tool and _tells_arguments(watch.move.cell) for watch in contract.watches)
    hits = [role.selector.on(tool, strict=role.strict) for role in contract.roles]
    if told or not all(isinstance(hit, bool) for hit in hits):
        return True
    moves = filed.rule(tuple(hit is True for hit in hits)).moves if any(hits) else ()
    return any(reads_arguments(move.cell) for move in moves)


def _tells_arguments(cell: Cell) -> bool:
    fact = cell.fact
    told = () if fact is None else (fact.key, *(source for _, source in fact.values))
    return any(source is not None and source.of == "args" for source in told)


def _sure(plan: Any) -> frozenset[int]:
    return frozenset(id(guard.contract) for guard in plan.guards)
