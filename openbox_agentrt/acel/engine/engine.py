"""
The way of a call into a session: it is judged, and reserved or refused.

This is the part of a session that has an order to keep. What runs other people's code comes before or
after the store is asked, never inside; and whatever happens, a call that was let through is settled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..._halt import Halt
from ..._plain.arguments import plain_args
from ...fleet.answers import Lease
from ..contracts.base import MALFORMED, PersonsHalt, SessionRule, TemporalContract
from ..contracts.declaration import Declaration
from ..contracts.rules import Guard
from ..contracts.tools import Asked
from ..events import LIFECYCLE
from ..match.keys import NOBODY, About
from ..memory.clock import Clock
from ..memory.deferred import read_deferred
from ..memory.guard import Breach, NeverHolds
from ..memory.state import StateStore
from ..refusal import Refusal
from ..reservation import Reservation
from ..verdict import Mode
from ..violations import RUN_END, SESSION_END, Violation
from . import findings
from .fleet_gate import FleetGate, FleetStore
from .plan import NONE
from .records import Meter, Records, ViolationRecorder
from .rule_set import RuleSet
from .session_gate import SessionGate
from .settlement import Settlement
from .store import SessionStore
from .trace import Trace


class Engine(Settlement):
    """
    Judge the calls of one session, settle them, and record what is broken.

    See `Settlement` for what becomes of a call that was let through.

    Attributes:
        session_id: A name for reports, by which a person may halt the session.
        agent: The agent whose calls it judges, by which a person may halt it as well.
        replaying: Recorded calls that have begun, by the names that the record gives them.
    """

    def __init__(
        self,
        state: Mapping[str, Any] | None,
        *,
        mode: Mode,
        halts: bool,
        evidence: ViolationRecorder | None,
        make_evidence: Callable[[], ViolationRecorder],
        metrics: Meter | None,
        session_id: str | None,
        clock: Clock | None,
        max_trace: int | None,
        trace_window: int | None,
        max_keys: int,
        known: Iterable[str] | None,
        rules: RuleSet,
        about: About | None = None,
        fleet: FleetStore | None = None,
        agent: str | None = None,
        heeds_halts: bool = True,
    ) -> None:
        self._initial = state
        known = None if known is None else (*known, *LIFECYCLE)
        kept = StateStore(state)
        store: SessionStore
        if getattr(evidence, "records_steps", False):
            from .journal import JournaledStore

            sink: Any = evidence
            store = JournaledStore(
                rules,
                kept,
                clock,
                sink=sink,
                start={"mode": mode, "session": session_id},
                max_keys=max_keys,
                known=known,
                halts=halts,
            )
        else:
            store = SessionStore(rules, kept, clock, max_keys=max_keys, known=known, halts=halts)
        rows = Trace(max_trace)
        records = Records(
            rows,
            kept,
            window=trace_window,
            keep=max_trace,
            session_id=session_id,
            evidence=evidence,
            make_evidence=make_evidence,
            meter=metrics,
        )
        super().__init__(
            store, kept, rows, records, mode=mode, fleet=None if fleet is None else FleetGate(fleet)
        )
        self._check_fleet(rules)
        self.session_id = session_id
        self.agent = agent
        self._about = about
        self._meter = metrics
        self._plans = store.book.plans
        self._replayed = NONE
        self.replaying: dict[str, Any] = {}
        self._heeds_halts = heeds_halts
        if fleet is not None:
            self._hear_halts_of(fleet)

    @property
    def meter(self) -> Meter | None:
        """Give what counts calls and violations. It may be changed: later calls follow it."""
        return self._meter

    @meter.setter
    def meter(self, meter: Meter | None) -> None:
        self._meter = self.records.meter = meter

    def watch(self, owner: object, recorder: ViolationRecorder) -> None:
        """Let `recorder` keep each violation as well; one for each `owner`."""
        self.records.watch(owner, recorder)

    @property
    def kept(self) -> SessionGate | None:
        """Give the way to the store that keeps the memory of the session, if one does."""
        return self._kept

    def keep_in(self, gate: SessionGate) -> None:
        """Keep the memory of the session in a store, from before its first call."""
        self._kept = gate

    def join(self, fleet: FleetStore) -> None:
        """Let contracts of the fleet that come count in a store, if the session has none yet."""
        if self._fleet is None:
            self._fleet = FleetGate(fleet)
            self._hear_halts_of(fleet)

    def hear(self, halt: Halt, *, lifted: bool = False) -> None:
        """
        Heed what a person has halted, if it is this session or its agent.

        It admits nothing more, in shadow mode neither; what is under way goes on. `lifted`, it goes on.
        """
        if (halt.kind, halt.value) not in (("session", self.session_id), ("agent", self.agent)):
            return
        if not self._heeds_halts:
            return
        if lifted:
            self.store.lift()
        else:
            self.store.halt(PersonsHalt(halt.why))

    def _hear_halts_of(self, fleet: FleetStore) -> None:
        halts = getattr(fleet, "halts", None)
        if (
            halts is not None
            and self._heeds_halts
            and (self.session_id is not None or self.agent is not None)
        ):
            halts.watch(self)
            halts.begin()

    def add(self, contract: TemporalContract) -> None:
        """
        Let the session watch a contract, which sees the calls from now on.

        Raises:
            TypeError: It is no contract.
            ValueError: It was added before, or is of the fleet in a session that has none.
        """
        self._check_fleet(RuleSet([contract], alone=self.store.book.rules.alone))
        if self._kept is not None and not isinstance(contract, Declaration):
            raise ValueError(
                f"contract {contract.spec} has code of its own, whose memory no store can keep: "
                f"declare it, or leave the session in memory"
            )
        self.store.add(contract)
        self._changed()

    def replace(self, rules: RuleSet) -> None:
        """Put other contracts in force in place of all there are, for the calls from now on."""
        self._check_fleet(rules)
        self.store.replace(rules)
        self._changed()

    def reserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        deferred: Collection[str] | Mapping[str, Any] = (),
        early: bool = False,
        about: About | None = None,
        started: bool = False,
    ) -> Reservation:
        """
        Judge a call, and let it through if every contract in force agrees.

        A refused call moves nothing. It is not an exception: look at `allowed`.

        Args:
            tool: Name of the tool.
            args: Its arguments.
            deferred: Arguments whose values are known only once the call has run, such as
                ``total_tokens``. Give them to `commit` as `measured`. Until then they count as nothing, and a
                limit on them refuses only once it is reached. A mapping says what each is taken for until
                then, so that calls side by side cannot pass the limit together.
            early: Let a prerequisite count from now, as `precheck` does.
            about: Whose call it is, if not whose the session is.
            started: Whether it runs as soon as it is let through, so that nobody says when it starts.
        """
        began = 0.0 if self._meter is None else time.perf_counter()
        if type(tool) is str and type(args) is dict:
            plan = self._plans.get(tool) or self.store.book.plan(tool)
            call = Reservation(self, plan.tool, plain_args(args), plan)
        else:
            call = self.enter(tool, args)
        if about or self._about:
            call.about = about or self._about or NOBODY
        if early:
            call.early = True
        if deferred:
            call.deferred = read_deferred(deferred)
            call.special = True
        elif self._is_plain(call, began) and self.store.admit(call):
            return call
        away = None if self._kept is None else self._kept.hold()
        spec = call.plan.spec
        failed = None if spec is None else spec.before(self.view, call.args)
        breaches = self._reserve(call, failed, away)
        if call.plan.fleet and call.admitted and self._fleet is not None:
            more = self._fleet.reserve(call, watching=self._watching, started=started)
            breaches = self._beside(call, breaches, more)
        if started and call.written is not None and self._kept is not None:
            breaches = self._unless_kept(call, breaches, self._kept.written(call))
        if breaches or failed or began or call.extra is not None:
            self._judged(call, failed or [], breaches or [], began)
        return call

    async def areserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        deferred: Collection[str] | Mapping[str, Any] = (),
        about: About | None = None,
        started: bool = False,
        lease: Lease | None = None,
    ) -> Reservation:
        """Do as `reserve`, and wait for conditions that have to be awaited. `lease` is reserved already."""
        began = 0.0 if self._meter is None else time.perf_counter()
        call = self.enter(tool, args)
        if about or self._about:
            call.about = about or self._about or NOBODY
        if deferred:
            call.deferred = read_deferred(deferred)
            call.special = True
        away = None if self._kept is None else await self._kept.ahold()
        spec = call.plan.spec
        failed = None if spec is None else await spec.abefore(self.view, call.args)
        breaches = self._reserve(call, failed, away)
        try:
            if call.plan.fleet and call.admitted and self._fleet is not None:
                more = await self._fleet.areserve(call, watching=self._watching, started=started, lease=lease)
                breaches = self._beside(call, breaches, more)
            if started and call.written is not None and self._kept is not None:
                breaches = self._unless_kept(call, breaches, await self._kept.awritten(call))
        except BaseException:
            # Cancelled: it never ran, and what the store may have is given back there.
            self.store.abort(call, ran=False)
            self._finish(call, "undo")
            call.claim()
            raise
        if breaches or failed or began or call.extra is not None:
            self._judged(call, failed or [], breaches or [], began)
        return call

    def start(self, call: Reservation) -> bool:
        """Say that the tool of a reserved call runs now. Returns whether it may: if not, it is refused."""
        if call.written is not None and self._kept is not None:
            more = self._kept.written(call)
            if not self._is_kept(call, more):
                return False
        if call.lease is None or self._fleet is None:
            return call.admitted
        return self._started(call, self._fleet.start(call, watching=self._watching))

    async def astart(self, call: Reservation) -> bool:
        """Do as `start`, without blocking the event loop."""
        if call.written is not None and self._kept is not None:
            more = await self._kept.awritten(call)
            if not self._is_kept(call, more):
                return False
        if call.lease is None or self._fleet is None:
            return call.admitted
        return self._started(call, await self._fleet.astart(call, watching=self._watching))

    def would(
        self,
        tool: str,
        args: Mapping[str, Any] | None,
        *,
        deferred: Collection[str] | Mapping[str, Any] = (),
        about: About | None = None,
    ) -> Refusal | None:
        """Give the refusal that `reserve` would make of a call now, or None. Nothing moves."""
        call = self.enter(tool, args)
        call.claim()
        if about or self._about:
            call.about = about or self._about or NOBODY
        if deferred:
            call.deferred = read_deferred(deferred)
            call.special = True
        spec = call.plan.spec
        failed = None if spec is None else spec.before(self.view, call.args)
        breaches = self.store.would(call)
        refused = failed or any(breach.blocks() for breach in breaches)
        if call.plan.fleet and self._fleet is not None and not (refused or self._watching):
            breaches = [*breaches, *self._fleet.would(call)]
        found = self._found(call, failed or [], breaches)
        if self._watching:
            found = [finding for finding in found if finding.mode == "enforce"]
        broken = tuple(finding.broken for finding in found if finding.stops)
        return Refusal(tool=call.tool, step=call.step, broken=broken) if broken else None

    def recheck(self, call: Reservation) -> bool:
        """Judge a call again that has waited and is about to run. One that may not is refused."""
        breaches = self.store.recheck(call)
        if not breaches:
            return True
        said = call.violations
        if not call.watched and any(breach.blocks() for breach in breaches):
            call.claim()
            self.store.abort(call, ran=False)
            self._finish(call, "undo")
            call.admitted = False
        self._changed()
        self._report(call, [], breaches)
        call.violations = (*said, *call.violations)
        return call.admitted

    async def arecheck(self, call: Reservation) -> bool:
        """Do as `recheck`, and ask the store of the fleet as well."""
        if not self.recheck(call):
            return False
        if call.lease is None or self._fleet is None:
            return True
        said = call.violations
        more = await self._fleet.arecheck(call, watching=self._watching)
        admitted = self._started(call, more)
        if more:
            call.violations = (*said, *call.violations)
        return admitted

    def is_as_new(self) -> bool:
        """Tell whether a new engine would be no other: nothing is counted, owed, broken or written."""
        store = self.store
        return (
            not store.flying
            and store.shut is None
            and not store.violated
            and all(isinstance(contract, Declaration) for contract in store.contracts)
            and store.memory.is_idle()
            and self.state.snapshot() == dict(self._initial or {})
        )

    def close(self, shut: SessionRule | None) -> list[Violation]:
        """Report what is unmet; with a rule to `shut` by, admit nothing more."""
        self._changed()
        found: list[Violation] = []
        for breach in self.store.end(shut=shut):
            end = self.enter(SESSION_END, findings.values_of(breach))
            end.step = self.store.step
            end.claim()
            found += self.records.record(end, [findings.of_breach(breach, self._mode)])
        return found

    def end_run(self, run: str) -> list[Violation]:
        """Report what one run of the session leaves unmet, and forget it."""
        found: list[Violation] = []
        if not self.store.book.rules.tells_runs_apart:
            return found
        self._changed()
        for breach in self.store.end_run(run):
            end = self.enter(RUN_END, findings.values_of(breach))
            end.step = self.store.step
            end.claim()
            found += self.records.record(end, [findings.of_breach(breach, self._mode)])
        return found

    def report_replayed(
        self, call: Reservation, failed: Asked, breaches: list[Breach], *, every: bool
    ) -> list[Violation]:
        """Record what a replayed call breaks: `every` contract, or only those not reported before."""
        new = [breach for breach in breaches if every or id(breach.contract) not in self._replayed]
        self._replayed |= {id(breach.contract) for breach in new}
        if failed or new:
            self._report(call, failed, new)
        return list(call.violations)

    def enter(self, tool: Any, args: Any) -> Reservation:
        """Take in a call of any shape, before it is judged."""
        name = tool if type(tool) is str else str.__str__(tool) if isinstance(tool, str) else None
        own: dict[str, Any] | None = {}
        if args is not None:
            try:
                own = plain_args(args) if isinstance(args, Mapping) else None
            except Exception:  # noqa: BLE001 - a mapping whose own code raises is as good as none
                own = None
        plan = self.store.book.plan(type(tool).__name__ if name is None else name)
        call = Reservation(self, plan.tool, own or {}, plan)
        if name is None or own is None:
            # What a model sends may have any shape. It is refused like any other call, not raised.
            call.extra = plan.ask({})
            call.extra.guards.append(NeverHolds(MALFORMED, Guard(kind="never")))
        return call

    def _is_plain(self, call: Reservation, began: float) -> bool:
        return call.plan.plain and not (began or self._watching) and self._kept is None

    def _reserve(
        self, call: Reservation, failed: Asked | None, away: list[Breach] | None
    ) -> list[Breach] | None:
        """Judge a call by the contracts of the session; `away` is what stands against holding it."""
        refuse = None if self._watching else failed or away
        breaches = self.store.reserve(call, force=self._watching, refuse=refuse)
        if self._kept is None:
            return breaches
        if breaches or failed:
            # What was explained to somebody may be remembered as told.
            self._kept.changed()
        self._kept.judged(call)
        return [*away, *(breaches or ())] if away else breaches

    def _unless_kept(
        self, call: Reservation, breaches: list[Breach] | None, more: list[Breach]
    ) -> list[Breach] | None:
        """Put what stands against a call that is not kept beside the rest. It is taken back."""
        if not more or not call.admitted:
            return breaches
        if not self._watching:
            self.store.take_back(call, more)
            self._finish(call, "undo")
        return [*(breaches or ()), *more]

    def _is_kept(self, call: Reservation, more: list[Breach]) -> bool:
        said = call.violations
        if self._unless_kept(call, None, more):
            self._report(call, [], more)
            call.violations = (*said, *call.violations)
        return call.admitted

    def _judged(self, call: Reservation, failed: Asked, breaches: list[Breach], began: float) -> None:
        if self._meter is not None:
            self.records.measure(self._meter, time.perf_counter() - began)
        if call.extra is not None and call.extra.faults:
            call.faults = tuple(call.extra.faults.values())
        if breaches or failed:
            self._report(call, failed, breaches)

    def _beside(
        self, call: Reservation, local: list[Breach] | None, more: list[Breach]
    ) -> list[Breach] | None:
        """Put what the store says beside what the session says; what the store refuses is taken back."""
        if call.unanswered or (call.lease is not None and call.lease.local):
            self.records.count_outage("refuse" if call.unanswered else "local")
        self.store.hear(call, more)
        if not more:
            return local
        if not self._watching and any(breach.blocks() for breach in more):
            self.store.take_back(call, more)
        else:
            self.store.note(more)
        return [*(local or ()), *more]

    def _started(self, call: Reservation, breaches: list[Breach]) -> bool:
        if breaches:
            self._beside(call, None, breaches)
            self._report(call, [], breaches)
        elif call.answer is not None:
            self.store.hear(call, [])
        return call.admitted

    def _check_fleet(self, rules: RuleSet) -> None:
        if rules.fleet and self._fleet is None:
            spec = rules.fleet[0].contract.spec
            raise ValueError(
                f"contract {spec} has scope 'fleet': give the session fleet=, or fleet='alone' to count "
                f"the calls of this session alone"
            )

    def _report(self, call: Reservation, failed: Asked, breaches: list[Breach]) -> None:
        found = self._found(call, failed, breaches)
        if not call.admitted:
            broken = tuple(finding.broken for finding in found if finding.stops)
            call.refuse(Refusal(tool=call.tool, step=call.step, broken=broken))
        call.violations = self.records.record(call, found, blocked=not call.admitted)

    def _found(self, call: Reservation, failed: Asked, breaches: list[Breach]) -> list[findings.FoundBreach]:
        found = findings.of_conditions(call.tool, "precondition", failed, self._mode)
        return found + [findings.of_breach(breach, self._mode) for breach in breaches]
