"""
Recorded calls, judged by rules that were not in force then.

A call that would be refused is taken not to have run: it counts nowhere and allows nothing. What an agent
would have done instead, no recording says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..acel.contracts.base import ENDED
from ..acel.contracts.declaration import scope_of
from ..acel.contracts.template import Template
from ..acel.engine.call.lifecycle import conclude
from ..acel.engine.plan.rule_set import SharedRules, shared_rules
from ..acel.engine.snapshot.lent_engine import CellNumbers
from ..acel.events import USER_PROMPT
from ..acel.refusal import Broken
from ..acel.reservation import Reservation
from ..acel.rulesfile import Rules
from ..acel.violations import Violation
from .counts import Found
from .events import Began, Ended, Left, Resumed, RunEnded, StateSet, TraceEvent, Unrecorded
from .judged_session import MOST_OPEN, JudgedSession, JudgedSessions, seat_for
from .missing_parts import MissingParts

MOST_KEYS = 1_000_000

_NONE: frozenset[int] = frozenset()


class Judged(NamedTuple):
    """
    Say what rules make of one call.

    Attributes:
        refused: Whether a contract in force, and that can be judged, refuses it.
        broken: Those contracts.
        watched: Contracts that only watch, and that it breaks, by position.
        guarding: Contracts that may object to such a call, by position.
        unknown: Those of them that nobody can judge here, by position.
        first: Those that refuse a call of the session for the first time, or would, by position.
        seen: Whether any contract looks at it.
    """

    refused: bool
    broken: tuple[tuple[int, Broken], ...] = ()
    watched: tuple[int, ...] = ()
    guarding: frozenset[int] = _NONE
    unknown: frozenset[int] = _NONE
    first: frozenset[int] = _NONE
    seen: bool = True

    def beside(self, other: Judged) -> Judged:
        """Put what other contracts make of the same call beside it."""
        return Judged(
            refused=self.refused or other.refused,
            broken=self.broken + other.broken,
            watched=self.watched + other.watched,
            guarding=self.guarding | other.guarding,
            unknown=self.unknown | other.unknown,
            seen=self.seen or other.seen,
        )


class TraceJudge:
    """
    Judge the calls of any number of sessions by one set of rules.

    Args:
        rules: The rules.
        most_open: So many sessions are kept in memory; `MOST_OPEN` by default.

    Attributes:
        contracts: The contracts, by their positions.
        disordered: Sessions that were taken from several files, and not in the order of time.
        untimed: Sessions that were taken from several files that say no time.
        backward: Sessions of which a file has an earlier call after a later one.
    """

    def __init__(self, rules: Rules, *, most_open: int | None = None) -> None:
        self.contracts: Final[tuple[Template, ...]] = rules.contracts
        self._named: dict[tuple[str, str | None], int] = {}
        for place, contract in enumerate(rules.contracts):
            self._named.setdefault((contract.spec, contract.id), place)
        wide = tuple(contract for contract in rules.contracts if scope_of(contract) == "fleet")
        own = tuple(c for c in rules.contracts if scope_of(c) != "fleet") if wide else rules.contracts
        self._sessions = JudgedSessions(_compiled(own), rules.state, most=most_open or MOST_OPEN)
        # Contracts of the fleet count all calls in one memory, whoever makes them.
        self._fleet = JudgedSession(seat_for(_compiled(wide), CellNumbers(), max_keys=MOST_KEYS), "fleet")
        self._has_fleet = bool(wide)
        self._missing_in_sessions, self._missing_in_fleet = MissingParts(rules), MissingParts(rules)
        self._owed: dict[int, Found[str]] = {}
        self.disordered: Found[str] = Found()
        self.untimed: Found[str] = Found()
        self.backward: Found[str] = Found()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def needs_order(self) -> bool:
        """Tell whether calls of several sessions have to come in the order of time."""
        return self._has_fleet

    def take(self, event: TraceEvent) -> Judged | None:
        """Take into account what happened; a call that began is judged."""
        kept = self._sessions[event.call.session if isinstance(event, Ended) else event.session]
        if isinstance(event, Began):
            self._note_order(kept, event)
        if event.at is not None:
            kept.pass_time(event.at)
            if self._has_fleet:
                self._fleet.pass_time(event.at)
        kept.left = None
        match event:
            case Began():
                return self._began(kept, event)
            case Ended():
                self._ended(kept, event)
                if self._has_fleet:
                    self._ended(self._fleet, event)
            case RunEnded():
                kept.runs.discard(event.run)
                self._note_owed(kept, _named(kept.engine.end_run(event.run)))
            case Left():
                kept.left = event.mark
            case Resumed():
                self._resumed(event)
            case StateSet():
                kept.engine.state.update(dict(event.values))
        return None

    def _note_order(self, kept: JudgedSession, call: Began) -> None:
        is_late = call.at is None or call.at < kept.seat.clock.now
        before, kept.where = kept.where, call.where
        if not is_late or not before:
            return
        if _file_of(before) != _file_of(call.where):
            if not kept.is_spread:
                kept.is_spread = True
                (self.untimed if call.at is None else self.disordered).add(kept.name)
        elif call.at is not None and not kept.goes_back:
            kept.goes_back = True
            self.backward.add(kept.name)

    def _resumed(self, event: Resumed) -> None:
        left_by, mark = event.left_by, event.mark
        is_known = left_by is not None and mark and self._sessions.go_on(left_by, event.session, mark)
        kept = self._sessions[event.session]
        if not is_known:
            # With a memory that nobody knows here, nor how old its state is.
            kept.is_resumed = True
            kept.has_state = event.state is not None
            kept.engine.state.update(dict(event.state or {}))

    def _began(self, kept: JudgedSession, call: Began) -> Judged:
        kept.has_prompts = kept.has_prompts or call.tool == USER_PROMPT
        judged = self._judged_by_all(kept, call)
        if not (judged.broken or judged.watched):
            return judged
        places = frozenset((*(place for place, _ in judged.broken), *judged.watched))
        first, kept.refused_by = places - kept.refused_by, kept.refused_by | places
        return judged._replace(first=first)

    def _judged_by_all(self, kept: JudgedSession, call: Began) -> Judged:
        judged = self._judged(kept, call)
        if judged.refused or not self._has_fleet:
            return judged
        wide = self._judged(self._fleet, call)
        if wide.refused:
            # What the fleet refuses never ran here either.
            reservation = kept.flying.pop(call, None)
            if reservation is not None:
                reservation.abort(ran=False)
        return judged.beside(wide)

    def _judged(self, kept: JudgedSession, call: Began) -> Judged:
        guarding, unknown = self._missing(kept).guarding(kept, call)
        reservation = self._reserved(kept, call, unknown)
        extra = reservation.extra
        if extra is not None:
            guarding |= self._missing(kept).places(id(guard.contract) for guard in extra.guards)
        plan = reservation.plan
        return Judged(
            refused=not reservation.allowed,
            broken=self._broken(reservation, unknown),
            watched=self._watched(reservation, unknown),
            guarding=guarding,
            unknown=unknown,
            seen=bool(plan.guards or plan.counts or plan.movers or plan.asked),
        )

    def _reserved(self, kept: JudgedSession, call: Began, unknown: frozenset[int]) -> Reservation:
        args = {} if call.args is None else call.args
        # What only contracts refuse that cannot be judged is let through.
        passes = bool(unknown) and self._only_unknown(kept, call, args, unknown)
        if passes:
            kept.engine.mode = "shadow"
        reservation = kept.engine.reserve(call.tool, args, False, call.about, call.deferred)
        if passes:
            kept.engine.mode = "enforce"
        if reservation.allowed and call.refused and unknown:
            # It did not run then, and nobody can say that it would now: so nothing counts it.
            reservation.abort(ran=False)
        elif reservation.allowed:
            kept.flying[call] = reservation
            kept.runs.add("" if call.about is None else call.about.run)
            self._missing(kept).note_hidden(kept, call)
        return reservation

    def _missing(self, kept: JudgedSession) -> MissingParts:
        return self._missing_in_fleet if kept is self._fleet else self._missing_in_sessions

    def _ended(self, kept: JudgedSession, end: Ended) -> None:
        reservation = kept.flying.pop(end.call, None)
        if reservation is None:
            return  # it was refused here
        is_recorded = not isinstance(end.result, Unrecorded)
        if end.outcome == "ok" and not is_recorded and _learns_from_result(reservation):
            kept.has_results = False
        if end.outcome == "unknown" and end.call.refused:
            self._missing(kept).note_never_ended(kept, end.call.tool)
        result = end.result if is_recorded else None
        conclude(reservation, result, outcome=end.outcome, args=end.args, measured=end.measured)

    def unmet(self) -> dict[int, Found[str]]:
        """Say of each contract in which sessions something is owed at the end of the recording."""
        owing = any(contract.at_end for contract in self.contracts)
        for kept in self._sessions if owing else ():
            for run in sorted(kept.runs):
                self._note_owed(kept, _named(kept.engine.end_run(run)))
            kept.runs.clear()
            self._note_owed(kept, _named(kept.engine.close(ENDED)))
        return self._owed

    def _note_owed(self, kept: JudgedSession, unmet: Iterable[tuple[str, str | None]]) -> None:
        for name in unmet:
            place = self._named.get(name)
            # What was owed may have been done by a call of which nobody knows the arguments.
            if place is None or place in kept.miscounted | kept.owing or kept.is_resumed:
                continue
            kept.owing |= {place}
            self._owed.setdefault(place, Found()).add(kept.name)

    def _only_unknown(
        self, kept: JudgedSession, call: Began, args: Mapping[str, Any], unknown: frozenset[int]
    ) -> bool:
        """Tell whether a call would be refused by nothing but contracts that cannot be judged."""
        refusal = kept.engine.would(call.tool, args, deferred=call.deferred, about=call.about)
        return refusal is not None and all(self._place(broken) in unknown for broken in refusal.broken)

    def _place(self, broken: Broken) -> int | None:
        return self._named.get((broken.contract, broken.id))

    def _broken(self, call: Reservation, unknown: frozenset[int]) -> tuple[tuple[int, Broken], ...]:
        if call.refusal is None:
            return ()
        placed = ((self._place(broken), broken) for broken in call.refusal.broken)
        # What the session itself objects to - it was halted - belongs to no contract.
        named = ((-1 if place is None else place, broken) for place, broken in placed if place not in unknown)
        return tuple(named)

    def _watched(self, call: Reservation, unknown: frozenset[int]) -> tuple[int, ...]:
        if not call.violations:
            return ()
        places = (self._named.get((v.spec, v.id)) for v in call.violations if v.mode == "shadow")
        return tuple(place for place in places if place is not None and place not in unknown)


def _file_of(where: str) -> str:
    """Give the file of a place, without its line or row."""
    return where.rstrip("0123456789")


def _learns_from_result(call: Reservation) -> bool:
    """Tell whether a contract takes something from what a call returns."""
    if not (call.plan.learns or call.extra is not None):
        return False
    learns = (mover for mover in call.movers() if mover.learns is not None)
    return any(mover.learns_from == "result" for mover in learns)


def _compiled(contracts: tuple[Template, ...]) -> SharedRules:
    return shared_rules(contracts, alone=True, default_scope="session")


def _named(unmet: Iterable[Violation]) -> Iterator[tuple[str, str | None]]:
    return ((violation.spec, violation.id) for violation in unmet)
