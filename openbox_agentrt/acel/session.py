"""
The public face of a session: contracts, state, and the calls that are judged by them.

There are three ways in, over one engine:

* `reserve`, then `commit` or `abort`: for whoever runs the call themselves.
* `call` and `acall`: judge, run and commit in one.
* `precheck` and `postcheck`: acel-core's two halves, where a prerequisite counts from the first.

No lock is held while a tool, a predicate or a commit function runs.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from .contracts.base import ENDED, TemporalContract
from .contracts.conditions import collect_checks
from .contracts.numbers import check_count
from .contracts.tools import CommitFn, ToolSpec, tool_spec
from .engine.engine import Engine
from .engine.fleet_gate import FleetStore
from .engine.lifecycle import aconclude, conclude, running
from .engine.records import Meter, ViolationRecorder
from .engine.replay import replay_events
from .engine.rule_set import RuleSet, shared_rules
from .engine.settlement import check_mode
from .engine.snapshot import read_session_id, restore_snapshot, take_snapshot
from .events import ToolCallEvent
from .gate import Gate
from .match.keys import About, read_subject
from .memory.clock import Clock
from .memory.state import StateStore
from .refusal import Refusal
from .reservation import Reservation, ReservationError
from .verdict import Mode, Verdict
from .violations import ContractViolation, Violation
from .wording import shown

if TYPE_CHECKING:
    from ..fleet.answers import Lease
    from .rulesfile import Rules

__all__ = ("CommitFn", "Gate", "Session", "ToolSpec", "engine_of")


_Deferred: TypeAlias = Collection[str] | Mapping[str, Any]


@runtime_checkable
class _HasContracts(Protocol):
    """Rules that were read from a file, or anything else with a tuple of contracts."""

    @property
    def contracts(self) -> tuple[TemporalContract, ...]: ...


class Session:
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
            the latest; None for all. Evidence that has to be whole goes to an `EvidenceFile`.
        trace_window: How many rows a violation carries; None for all that are kept.
        max_keys: How many values of a key each contract tells apart. A call with one more is refused.
        unknown_tools: "refuse" admits only tools that a contract or `tools` names, or that are registered.
        tools: Further tools that are known.
        subject: What its calls are about, such as ``{"customer": "c-7"}``: ``key="$subject.customer"`` tells
            customers apart by it, whatever the arguments of a call say.
        fleet: The store that contracts with scope "fleet" count in, see `openbox_agentrt.fleet`. Such a
            contract is an error without it. With "alone" they count the calls of this session only, as a
            replay or a test may want it.

    Attributes:
        halt_on_violation: See above. It may be changed.
    """

    __slots__ = ("__dict__", "__weakref__", "_engine", "_groups", "halt_on_violation")

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
        contracts: Iterable[TemporalContract] | _HasContracts | RuleSet = (),
        clock: Clock | None = None,
        max_trace: int | None = None,
        trace_window: int | None = 20,
        max_keys: int = 10_000,
        unknown_tools: Literal["allow", "refuse"] = "allow",
        tools: Collection[str] = (),
        subject: Mapping[str, Any] | None = None,
        fleet: FleetStore | Literal["alone"] | None = None,
    ) -> None:
        _one_of("halt_on_violation", halt_on_violation, (True, False, "session"))
        check_mode(mode)
        _one_of("unknown_tools", unknown_tools, ("allow", "refuse"))
        for name, number in (("max_trace", max_trace), ("trace_window", trace_window)):
            if number is not None:
                check_count(name, number, least=0)
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
            rules=_compiled(contracts, like=RuleSet(alone=fleet == "alone")),
            fleet=None if fleet == "alone" else fleet,
            about=None if subject is None else About(subject=read_subject(subject)),
        )
        self._groups: dict[str, list[TemporalContract]] = {}
        self.halt_on_violation = halt_on_violation

    # What it is told

    def add_contract(self, contract: TemporalContract) -> TemporalContract:
        """
        Watch a contract, which sees the calls from now on.

        Raises:
            TypeError: It is no contract.
            ValueError: It was added before.
        """
        self._engine.add(contract)
        return contract

    def add_contracts(self, contracts: Iterable[TemporalContract]) -> None:
        """
        Watch several contracts, each as `add_contract` does.

        Raises:
            TypeError: It is one contract, or holds something that is none.
        """
        for contract in _several(contracts):
            self.add_contract(contract)

    def add_contract_group(self, name: str, contracts: Iterable[TemporalContract]) -> list[TemporalContract]:
        """
        Watch several contracts, and remember them under a name.

        Raises:
            ValueError: The name was used before.
        """
        if name in self._groups:
            raise ValueError(f"a contract group named {name!r} was already added to this session")
        group = list(contracts)
        self.add_contracts(group)
        self._groups[name] = group
        return list(group)

    def replace_contracts(self, contracts: Iterable[TemporalContract] | _HasContracts) -> None:
        """
        Put other contracts in force in place of all there are, groups included, in one step.

        Calls from now on are judged by them. What they count under the same name - the same kind of memory of
        the same calls, key and window; limits are not part of it - they go on with, and what no contract
        counts any more is forgotten. A call under way ends by the contracts that it began by. State stays.

        Raises:
            TypeError: It holds something that is no contract. Nothing has changed.
            ValueError: It holds a contract twice. Nothing has changed.
        """
        self._engine.replace(_compiled(contracts, like=self._engine.store.book.rules))
        self._groups = {}

    @property
    def contracts(self) -> list[TemporalContract]:
        """List every contract, in the order in which they were added."""
        return list(self._engine.store.contracts)

    @property
    def groups(self) -> dict[str, list[TemporalContract]]:
        """List the groups by name."""
        return {name: list(group) for name, group in self._groups.items()}

    def contracts_in_group(self, name: str) -> list[TemporalContract]:
        """
        List the contracts of one group.

        Raises:
            KeyError: There is no such group.
        """
        return list(self._groups[name])

    def register_tool(
        self,
        name: str,
        *,
        precondition: Any = None,
        postcondition: Any = None,
        commit: CommitFn | None = None,
    ) -> None:
        """
        Attach conditions and a commit function to a tool, in place of what was attached before.

        Args:
            name: The tool.
            precondition: ``lambda state: ...`` or ``lambda state, args: ...``, a `Check`, or a list of them.
            postcondition: ``lambda state, result: ...``, a `Check`, or a list of them.
            commit: ``lambda state, args, result: ...``, which writes to the state what a good result says.
                If it raises, nothing is written and the call has failed.

        Raises:
            TypeError: One of them is not callable.
        """
        self._engine.store.book.register(tool_spec(name, precondition, postcondition, commit))

    def register(
        self, func: Callable[..., Any], *, name: str | None = None, commit: CommitFn | None = None
    ) -> Callable[..., Any]:
        """Attach to a tool the conditions that decorators put on its function."""
        tool = name or func.__name__
        before, after = collect_checks(func)
        self._engine.store.book.register(tool_spec(tool, before, after, commit))
        return func

    def verdict(self, contract: TemporalContract) -> Verdict:
        """Tell how a contract of this session stands."""
        return self._engine.store.verdict_of(contract)

    def has_conditions(self, tool: str) -> bool:
        """Tell whether something is attached to a tool."""
        return self._engine.store.book.spec(tool) is not None

    # What was seen

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
    def in_flight(self) -> int:
        """Count the calls that are let through and not settled."""
        return self._engine.store.settle()

    @property
    def closed(self) -> str | None:
        """Say why nothing is admitted any more, or None."""
        shut = self._engine.store.shut
        return None if shut is None else shut.spec

    # Calls

    def reserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        deferred: _Deferred = (),
        started: bool = False,
        about: About | None = None,
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
            started: Whether the tool runs as soon as the call is let through. If not, and a contract of the
                fleet is about it, `Reservation.start` goes before.
            about: Whose call it is, if not whose the session is.

        Raises:
            ValueError: What a deferred amount is taken for is no amount.
        """
        return self._engine.reserve(tool, args, deferred=deferred, started=started, about=about)

    async def areserve(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        deferred: _Deferred = (),
        started: bool = False,
        about: About | None = None,
        lease: Lease | None = None,
    ) -> Reservation:
        """
        Do as `reserve`, and wait for preconditions and for the store of the fleet without blocking.

        Args:
            tool: Name of the tool.
            args: Its arguments.
            deferred: See `reserve`.
            started: See `reserve`.
            about: See `reserve`.
            lease: What is reserved for the call in that store already, by a process that had it before. It
                stands in for asking, if it is about the same things, which `Reservation.lease` tells. Else it
                is given back, if the contracts of the session let the call through.
        """
        return await self._engine.areserve(
            tool, args, deferred=deferred, started=started, about=about, lease=lease
        )

    def would(self, tool: str, args: Mapping[str, Any] | None = None) -> Refusal | None:
        """
        Tell what `reserve` would refuse a call for if it were made now.

        The call is not made: no step is counted, nothing is reserved or recorded, and no metric moves. A
        call made later may be refused all the same, since others may have come between. What contracts of
        the fleet would say is not asked: their store judges and reserves in one step.

        Args:
            tool: Name of the tool.
            args: Its arguments.

        Returns:
            The refusal; None for a call that would be let through, as all are in shadow mode.
        """
        return self._engine.would(tool, args)

    def call(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        result: Any = None,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """
        Judge a call, run it, and commit its result.

        Args:
            tool: Name of the tool.
            args: Its arguments.
            result: What it returned, if there is nothing to run.
            run: Called with the arguments by keyword if the call is let through.

        Returns:
            The tool's result; or the violation, if the session does not halt on violations.

        Raises:
            ContractViolation: A contract in force was broken. Unless it is a postcondition, the tool did
                not run.
        """
        reservation = self._engine.reserve(tool, args, started=True)
        if not reservation.allowed:
            return self._refused(reservation)
        if run is not None:
            with running(reservation):
                result = run(**(args or {}))
        failed = conclude(reservation, result)
        return result if failed is None else self._failed(failed)

    async def acall(
        self,
        tool: str,
        args: Mapping[str, Any] | None = None,
        *,
        result: Any = None,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """Do as `call`; `run`, conditions and the commit function may be async."""
        reservation = await self._engine.areserve(tool, args, started=True)
        if not reservation.allowed:
            return self._refused(reservation)
        if run is not None:
            with running(reservation):
                result = run(**(args or {}))
                if inspect.isawaitable(result):
                    result = await result
        failed = await aconclude(reservation, result)
        return result if failed is None else self._failed(failed)

    def precheck(self, tool: str, args: Mapping[str, Any] | None = None) -> Gate:
        """
        Judge a call that is run elsewhere. Never raises.

        As in acel-core, a call that is let through counts as a prerequisite at once; `postcheck` takes it
        back if the call failed.
        """
        reservation = self._engine.reserve(tool, args, early=True, started=True)
        blocking, first = not reservation.allowed, None
        if reservation.violations:
            first = next((v for v in reservation.violations if v.blocked or not blocking), None)
        return Gate(reservation.step, reservation.args, first, blocking, reservation=reservation)

    def postcheck(self, tool: str, gate: Gate, result: Any) -> Violation | None:
        """
        Commit the result of a call that `precheck` let through.

        Returns:
            A postcondition that does not hold; the result must then not be used. None in shadow mode.

        Raises:
            ReservationError: The gate was used before, was blocked, or is not this session's.
        """
        reservation = gate.reservation
        if reservation is None or not reservation.belongs_to(self._engine):
            raise ReservationError(f"the gate of {tool!r:.200} is not one of this session")
        return reservation.commit(result)

    # The end, and looking back

    def end_session(self) -> list[Violation]:
        """
        Admit nothing more, and report what is unmet. Never raises.

        Calls under way may still be committed.
        """
        return self._engine.close(ENDED)

    def unmet(self) -> list[str]:
        """List the contracts that `end_session` would report now."""
        return [breach.contract.spec for breach in self._engine.store.unmet()]

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
        """
        return replay_events(self._engine, events, every=every) + self._engine.close(None)

    def replay_prefix(
        self, events: Iterable[ToolCallEvent | Mapping[str, Any]], *, every: bool = False
    ) -> list[Violation]:
        """Do as `replay`, for a trace that goes on."""
        return replay_events(self._engine, events, every=every)

    def snapshot(self) -> dict[str, Any]:
        """
        Give what the session knows as JSON-safe data. Calls under way are unknown outcomes.

        Raises:
            SnapshotError: The state holds something that is no JSON, or a contract has code of its own.
        """
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
        from .rulesfile import Rules, parse_rules, read_rules

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
        contracts: Iterable[TemporalContract] | _HasContracts = (),
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
        """
        session = cls(session_id=read_session_id(snapshot), contracts=contracts, **options)
        restore_snapshot(session._engine, snapshot, migrate=migrate)
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end_session()

    def _refused(self, reservation: Reservation) -> Violation:
        violations = tuple(violation for violation in reservation.violations if violation.blocked)
        if self.halt_on_violation is False:
            return violations[0]
        raise ContractViolation(violations[0], violations=violations, refusal=reservation.refusal)

    def _failed(self, violation: Violation) -> Violation:
        if self.halt_on_violation is False:
            return violation
        raise ContractViolation(violation)


def engine_of(session: Session) -> Engine:
    """Give the engine of a session, for those who build on it: doors and runs."""
    return session._engine


def _several(contracts: Iterable[TemporalContract]) -> Iterable[TemporalContract]:
    if isinstance(contracts, TemporalContract):
        raise TypeError(f"a collection of contracts is needed, got one contract: {contracts.spec}")
    return contracts


def _compiled(contracts: Iterable[TemporalContract] | _HasContracts | RuleSet, *, like: RuleSet) -> RuleSet:
    """Compile contracts, with scopes that mean what they do in the rules that they are `like`."""
    if isinstance(contracts, RuleSet):
        return contracts
    if isinstance(contracts, _HasContracts):
        contracts = tuple(contracts.contracts)
    if type(contracts) is tuple:
        return shared_rules(contracts, alone=like.alone, default_scope=like.default_scope)
    return RuleSet(_several(contracts), alone=like.alone, default_scope=like.default_scope)


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {shown(value)}")


def _log(
    signer: Callable[[bytes], str] | None = None, redact_fields: Any = None, max_trace: int | None = None
) -> ViolationRecorder:
    from ..evidence import EvidenceLog

    return EvidenceLog(signer, redact_fields=redact_fields, keep=max_trace)
