"""
One session as its contracts know it: how it is set up, what is in force, and how it ends.

Its calls come in by `admission` and end by `settlement`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..contracts.base import ENDED, PersonsHalt, SessionRule, TemporalContract
from ..contracts.declaration import Declaration
from ..events import LIFECYCLE
from ..match.keys import About
from ..memory.call import JudgedCall
from ..memory.clock import Clock
from ..memory.guard import Breach
from ..memory.state import StateStore
from ..reservation import Reservation
from ..verdict import Mode
from ..violations import RUN_END, SESSION_END, Violation
from .call.admission import Admission
from .plan.rule_set import RuleSet
from .plan.tool_plan import NONE
from .record import found_breach
from .record.records import Meter, Records, ViolationRecorder
from .record.trace import Trace
from .store.session_store import SessionStore

if TYPE_CHECKING:
    from ..._halt import Halt
    from ..contracts.tools import Asked
    from .call.session_gate import SessionGate
    from .fleet.fleet_gate import FleetGate, FleetStore


class Engine(Admission):
    """
    Judge the calls of one session, settle them, and record what is broken.

    See `Admission` for how a call is judged, and `Settlement` for what becomes of one that was let through.

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
            from .journal.journaled_store import JournaledStore

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
            store, kept, rows, records, mode=mode, fleet=None if fleet is None else _gate_of(fleet)
        )
        self._check_fleet(rules)
        self.session_id = session_id
        self.agent = agent
        if about is not None:
            self._about = about
            self._see_ways()
        if metrics is not None:
            self.meter = metrics
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
        self._see_ways()

    def watch(self, owner: object, recorder: ViolationRecorder) -> None:
        """Let `recorder` keep each violation as well; one for each `owner`."""
        self.records.watch(owner, recorder)

    def forgo_records(self) -> None:
        """Keep nothing of what happens from here on: violations name what is broken, and no more."""
        # Loaded here: it is for whoever judges what has happened already.
        from .record.no_records import NoRecords, NoTrace

        self.rows, self.records = NoTrace(keep=0), NoRecords()

    @property
    def kept(self) -> SessionGate | None:
        """Give the way to the store that keeps the memory of the session, if one does."""
        return self._kept

    def keep_in(self, gate: SessionGate) -> None:
        """Keep the memory of the session in a store, from before its first call."""
        self._kept = gate
        self._see_ways()

    def take(self) -> None:
        """
        Know what the session remembers: take it, if a store keeps it. Blocks the thread then.

        Raises:
            FleetError: Another process has it, or the store does not answer, see `SessionGate.take`.
        """
        if self._kept is not None:
            self._kept.take()

    def join(self, fleet: FleetStore) -> None:
        """Let contracts of the fleet that come count in a store, if the session has none yet."""
        if self._fleet is None:
            self._fleet = _gate_of(fleet)
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
            self.store.lift(of=halt.name)
        else:
            self.store.halt(PersonsHalt(halt.why), of=halt.name)

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

    def is_as_new(self) -> bool:
        """Tell whether a new engine would be no other: nothing is counted, owed, broken or written."""
        store = self.store
        return (
            not store.settle()
            and store.shut is None
            and not store.violated
            and all(isinstance(contract, Declaration) for contract in store.contracts)
            and store.memory.is_idle()
            and self.state.snapshot() == dict(self._initial or {})
        )

    def close(self, shut: SessionRule | None) -> list[Violation]:
        """Report what is unmet; with a rule to `shut` by, admit nothing more."""
        self._changed()
        return self._unmet_at(SESSION_END, self.store.end(shut=shut))

    def end(self, *, after: BaseException | None = None) -> list[Violation]:
        """
        Know what the session remembers, admit nothing more, and report what is unmet.

        Args:
            after: An error that goes on. It is told in a note what is raised here otherwise.

        Raises:
            FleetError: See `take`. Nothing has ended.
        """
        try:
            self.take()
        except Exception as failed:
            if after is None:
                raise
            after.add_note(f"the session was not ended: {failed}")
            return []
        return self.close(ENDED)

    def end_run(self, run: str) -> list[Violation]:
        """Report what one run of the session leaves unmet, and forget it."""
        if not self.store.book.rules.tells_runs_apart:
            return []
        self._changed()
        return self._unmet_at(RUN_END, self.store.end_run(run))

    def _unmet_at(self, event: str, breaches: list[Breach]) -> list[Violation]:
        found: list[Violation] = []
        for breach in breaches:
            end = self.enter(event, found_breach.values_of(breach))
            end.step = self.store.step
            found += self.records.record(end, [found_breach.of_breach(breach, self._mode)])
        return found

    def report_unjudged(
        self, call: JudgedCall, reason: SessionRule, fault: str, *, stops: bool = True
    ) -> None:
        """Record a call that is refused before it can be judged; in shadow mode, that it would be."""
        finding = found_breach.of_breach(Breach(contract=reason, fault=fault, stops=stops), self._mode)
        self.records.record(call, [finding], blocked=self._mode == "enforce")

    def report_replayed(
        self, call: Reservation, failed: Asked, breaches: list[Breach], *, every: bool
    ) -> list[Violation]:
        """Record what a replayed call breaks: `every` contract, or only those not reported before."""
        new = [breach for breach in breaches if every or id(breach.contract) not in self._replayed]
        self._replayed |= {id(breach.contract) for breach in new}
        if failed or new:
            self._report(call, failed, new)
        return list(call.violations)

    def _check_fleet(self, rules: RuleSet) -> None:
        if rules.fleet and self._fleet is None:
            spec = rules.fleet[0].contract.spec
            raise ValueError(
                f"contract {spec} has scope 'fleet': give the session fleet=, or fleet='alone' to count "
                f"the calls of this session alone"
            )


def _gate_of(fleet: FleetStore) -> FleetGate:
    # Loaded here: most sessions have no store, and some processes live for one call.
    from .fleet.fleet_gate import FleetGate

    return FleetGate(fleet)
