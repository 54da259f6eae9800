"""A session: its options, its life, and what was seen in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..contracts.base import PersonsHalt, TemporalContract
from ..contracts.checks import check_count
from ..engine.engine import Engine
from ..engine.plan.rule_set import RuleSet
from ..engine.record.records import Meter, ViolationRecorder
from ..events import ToolCallEvent
from ..match.keys import About, read_subject
from ..memory.clock import Clock
from ..memory.state import StateStore
from ..verdict import Mode
from ..violations import Violation
from ..wording import shown
from .calls import SessionCalls
from .contracts import HasContracts, SessionContracts, compiled

if TYPE_CHECKING:
    from ..engine.call.session_gate import SessionGate
    from ..engine.fleet.fleet_gate import FleetStore
    from ..rulesfile import Rules


class Session(SessionContracts, SessionCalls):
    """
    Judge the calls of one session by its contracts, and keep its state and its trace.

    It may be used from several threads and tasks at once. Leaving it as a context manager ends it.

    Args:
        state: Initial state.
        halt_on_violation: Whether `call` raises for a refused call or returns the violation. With
            "session" it raises, and the session admits nothing more.
        signer: Signs the evidence, see `ed25519_signer`.
        mode: "enforce", or "shadow" to record what would have been refused and refuse nothing.
        redact_fields: Names of arguments that must not be recorded as they are.
        metrics: Counts calls and violations, see `Metrics`.
        evidence: Keeps violations; an `EvidenceLog` in memory if not given.
        session_id: A name for reports.
        contracts: Contracts to start with, or rules that were read from a file. A tuple and such rules are
            compiled once and shared by all sessions that are given the very same object; a list is compiled
            anew.
        clock: Seconds since the epoch; a steady one if not given.
        max_trace: How many rows of the trace, how many violations, and how much evidence in memory are kept:
            the latest, and rows of more than 16 KB not whole; None for all. Evidence that has to be whole
            goes to an `EvidenceFile`.
        trace_window: How many rows a violation carries; None for all that are kept.
        max_keys: How many values of a key each contract tells apart. A call with one more is refused.
        unknown_tools: "refuse" admits only tools that a contract or `tools` names, or that are registered.
        tools: Further tools that are known.
        subject: What its calls are about, such as ``{"customer": "c-7"}``: ``key="$subject.customer"`` tells
            customers apart by it, whatever the arguments of a call say.
        fleet: The store that contracts with scope "fleet" count in, see `openbox_agentrt.fleet`. Such a
            contract is an error without it. With "alone" they count the calls of this session only, as a
            replay or a test may want it.
        agent: The agent whose calls it judges. A person may halt it by that, or by its `session_id`.
        durable: Whether what the session remembers is kept in the store of the fleet, under `session_id`: a
            restart or another process goes on with it. One process has it at a time; a call is refused while
            another one does. What has changed is written before the tool of a call runs.
        idle_seconds: So long it is kept there when nobody uses it.

    Attributes:
        halt_on_violation: See above. It may be changed.
    """

    __slots__ = ("__dict__", "__weakref__", "_engine", "halt_on_violation")
    _heeds_halts = True

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        *,
        halt_on_violation: bool | Literal["session"] = True,
        signer: Callable[[bytes], str] | None = None,
        mode: Mode = "enforce",
        redact_fields: Any = None,
        metrics: Meter | None = None,
        evidence: ViolationRecorder | None = None,
        session_id: str | None = None,
        contracts: Iterable[TemporalContract] | HasContracts | RuleSet = (),
        clock: Clock | None = None,
        max_trace: int | None = None,
        trace_window: int | None = 20,
        max_keys: int = 10_000,
        unknown_tools: Literal["allow", "refuse"] = "allow",
        tools: Collection[str] = (),
        subject: Mapping[str, Any] | None = None,
        fleet: FleetStore | Literal["alone"] | None = None,
        agent: str | None = None,
        durable: bool = False,
        idle_seconds: float = 86_400.0,
    ) -> None:
        if halt_on_violation is not True:
            _one_of("halt_on_violation", halt_on_violation, (True, False, "session"))
        if unknown_tools != "allow":
            _one_of("unknown_tools", unknown_tools, ("allow", "refuse"))
        if max_trace is not None:
            check_count("max_trace", max_trace, least=0)
        if trace_window is not None:
            check_count("trace_window", trace_window, least=0)
        check_count("max_keys", max_keys, least=1)
        if isinstance(fleet, str) and fleet != "alone":
            # A URL may hold a password.
            raise TypeError("a fleet must be a store, as open_fleet(url) gives, got text")
        if clock is not None and not callable(clock):
            raise TypeError(f"a clock must be callable, got {shown(clock)}")
        if evidence is not None and not hasattr(evidence, "record"):
            raise TypeError(f"evidence must have a method record, got {shown(evidence)}")
        if evidence is not None and (signer is not None or redact_fields is not None):
            raise ValueError("signer and redact_fields belong to the evidence, give them to one of the two")
        plain = signer is None and redact_fields is None and max_trace is None
        self._engine = Engine(
            state,
            mode=mode,
            halts=halt_on_violation == "session",
            evidence=evidence,
            make_evidence=_log if plain else partial(_log, signer, redact_fields, max_trace),
            metrics=metrics,
            session_id=session_id,
            clock=clock,
            max_trace=max_trace,
            trace_window=trace_window,
            max_keys=max_keys,
            known=None if unknown_tools == "allow" else [tools] if isinstance(tools, str) else tools,
            rules=compiled(contracts, alone=fleet == "alone"),
            fleet=None if fleet == "alone" else fleet,
            agent=agent,
            heeds_halts=self._heeds_halts,
            about=None if subject is None else About(subject=read_subject(subject)),
        )
        super().__init__()
        self.halt_on_violation = halt_on_violation
        if durable:
            from ..engine.durable.keep import keep_in_store

            keep_in_store(self._engine, fleet, session_id, idle_seconds)

    @property
    def session_id(self) -> str | None:
        """Name the session for reports."""
        return self._engine.session_id

    @property
    def mode(self) -> Mode:
        """Tell whether contracts are in force or only watch. It may be changed: later calls follow it."""
        return self._engine.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._engine.mode = mode

    @property
    def state(self) -> StateStore:
        """Hold what is known. Conditions read it, commits write it."""
        return self._engine.state

    @property
    def trace(self) -> list[dict[str, Any]]:
        """List the calls that ran, as a new list of ``{"step", "tool", "args", "result"}``."""
        return self._engine.rows.rows()

    @property
    def violations(self) -> list[Violation]:
        """List the violations so far."""
        return self._engine.records.violations

    @property
    def evidence(self) -> Any:
        """Give what keeps the violations."""
        return self._engine.records.evidence

    @property
    def metrics(self) -> Meter | None:
        """Give what counts calls and violations. It may be changed."""
        return self._engine.meter

    @metrics.setter
    def metrics(self, metrics: Meter | None) -> None:
        self._engine.meter = metrics

    @property
    def closed(self) -> str | None:
        """Say why nothing is admitted any more, or None. Of a durable session, as it was last held here."""
        shut = self._engine.store.shut
        return None if shut is None else shut.spec

    def halt(self, *, reason: str, by: str = "") -> None:
        """
        Admit nothing more, in shadow mode neither: a person has said so.

        Calls under way may still be committed; one that was reserved and waits is refused when it is judged
        again. Whoever calls is told the reason, and the evidence keeps it with each refusal. A session that
        admits nothing already stays as it is.

        Args:
            reason: Why.
            by: Who halts it; nobody checks it.

        Raises:
            ValueError: There is no reason.
        """
        from ..._halt import halt_of

        named = self.session_id or "this session"
        halt = halt_of(run_id=None, session_id=named, agent=None, reason=reason, by=by, at=0.0)
        self._engine.store.halt(PersonsHalt(halt.why), of=halt.name)

    def end_session(self) -> list[Violation]:
        """
        Admit nothing more, and report what is unmet. Calls under way may still be committed.

        Raises:
            FleetError: It is durable, so it is taken first, as by `hold`, and cannot be. It goes on.
        """
        return self._engine.end()

    def hold(self) -> None:
        """
        Take a durable session, and remember what is kept of it; the first call does so as well. Blocks.

        Raises:
            SessionBusyError: Another process has it, and still had it after five seconds.
            FleetUnavailableError: The store does not answer.
            SessionMemoryError: What is kept cannot be read.
            ValueError: The session is not durable.
        """
        self._kept.session.hold()

    async def ahold(self) -> None:
        """Do as `hold`, without blocking the event loop."""
        await self._kept.session.ahold()

    def release(self) -> None:
        """
        Let other processes go on with a durable session, once what has changed is written. Does not wait.

        It may be used again here: the next call takes it again, and remembers what others did meanwhile.

        Raises:
            ValueError: The session is not durable.
        """
        self._kept.session.leave()

    @property
    def _kept(self) -> SessionGate:
        # Loaded here: most sessions are kept in no store, and some processes live for one call.
        from ..engine.durable.keep import kept_of

        return kept_of(self._engine)

    def replay(
        self, events: Iterable[ToolCallEvent | Mapping[str, Any]], *, every: bool = False
    ) -> list[Violation]:
        """
        Judge a recorded trace, and report what it breaks. Nothing runs, and nothing is refused.

        Each contract is reported once, or with `every` for each call that breaks it. Recorded times are used
        in place of the clock. The trace is taken to be complete, so what is unmet at its end is reported
        too; the session is not closed by it.

        Raises:
            TraceError: A row cannot be read. The rows before it have been judged.
            ValueError: The session is durable: what its store keeps would replace what it learns here.
        """
        return self._replay(events, every) + self._engine.close(None)

    def replay_prefix(
        self, events: Iterable[ToolCallEvent | Mapping[str, Any]], *, every: bool = False
    ) -> list[Violation]:
        """Do as `replay`, for a trace that goes on."""
        return self._replay(events, every)

    def _replay(self, events: Iterable[ToolCallEvent | Mapping[str, Any]], every: bool) -> list[Violation]:
        # Loaded here, as what takes and restores snapshots: some processes live for one call.
        from ..engine.replay import replay_events

        if self._engine.kept is not None:
            raise ValueError("a recorded trace is judged by a session that is not durable: make one for it")
        return replay_events(self._engine, events, every=every)

    def snapshot(self) -> dict[str, Any]:
        """
        Give what the session knows as JSON-safe data. Calls under way are unknown outcomes.

        Raises:
            SnapshotError: The state holds something that is no JSON, or a contract has code of its own.
            FleetError: It is durable, and cannot be taken, see `end_session`.
        """
        from ..engine.snapshot.snapshot import take_snapshot

        self._engine.take()
        return take_snapshot(self._engine)

    @classmethod
    def from_rules(
        cls,
        rules: str | os.PathLike[str] | Mapping[str, Any] | Rules,
        *,
        state: Mapping[str, Any] | None = None,
        contracts: Iterable[TemporalContract] = (),
        **options: Any,
    ) -> Self:
        """
        Make a session of all that rules say: contracts, which tools there are, and initial state.

        Args:
            rules: A rules file, what it holds, or what `read_rules` gave.
            state: Further entries of the initial state, in place of those of the rules.
            contracts: Further contracts.
            options: As for `Session`.

        Raises:
            ConfigError: Something in the rules is not understood.
        """
        from ..rulesfile import Rules, parse_rules, read_rules

        if isinstance(rules, Mapping):
            rules = parse_rules(rules)
        elif not isinstance(rules, Rules):
            rules = read_rules(rules)
        more = tuple(contracts)
        every = (*rules.contracts, *more) if more else rules.contracts
        return cls({**rules.state, **(state or {})}, contracts=every, **options)

    @classmethod
    def restore(
        cls,
        snapshot: Mapping[str, Any],
        contracts: Iterable[TemporalContract] | HasContracts = (),
        *,
        migrate: bool = False,
        **options: Any,
    ) -> Self:
        """
        Make a session that goes on where a snapshot was taken.

        Args:
            snapshot: What `snapshot` gave.
            contracts: The same contracts.
            migrate: Restore under other contracts: those that are the same keep what they remember, new
                ones start empty.
            options: As for `Session`, `state` and `session_id` excepted.

        Raises:
            SnapshotError: The snapshot cannot be read, or was taken under other rules.
            ValueError: It is to be durable: what its store keeps would replace the snapshot.
        """
        if options.get("durable"):
            raise ValueError(
                "a durable session goes on with what its store keeps, which would replace the snapshot:"
                " leave out durable, or the snapshot"
            )
        from ..engine.snapshot.snapshot import read_session_id, restore_snapshot

        session = cls(session_id=read_session_id(snapshot), contracts=contracts, **options)
        restore_snapshot(session._engine, snapshot, migrate=migrate)
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._engine.end(after=error)


class RunSession(Session):
    """Judge the calls of runs. What halts one of them by name halts its runs, and not the session."""

    __slots__ = ()
    _heeds_halts = False


def engine_of(session: Session) -> Engine:
    """Give the engine of a session, for those who build on it: doors and runs."""
    return session._engine


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {shown(value)}")


def _log(
    signer: Callable[[bytes], str] | None = None, redact_fields: Any = None, max_trace: int | None = None
) -> ViolationRecorder:
    from ...evidence import EvidenceLog

    return EvidenceLog(signer, redact_fields=redact_fields, keep=max_trace)
