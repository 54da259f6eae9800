"""From options to rules and contract sessions. Mistakes show here, before anything is sent."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...acel.contracts.base import TemporalContract
from ...acel.contracts.declaration import Declaration, scope_of
from ...acel.contracts.identity import rules_hash
from ...acel.engine.durable.keep import check_durable
from ...acel.engine.fleet.fleet_gate import FleetStore
from ...acel.engine.plan.rule_set import shared_rules
from ...acel.session import RunSession, Session, engine_of
from ...errors import OptionError
from ...evidence.redaction.redactor import Redactor
from ..evidence import Recorder, SessionRecorder, redaction_key_of
from .rules_in_force import BuildOwn, ContractSource, RulesInForce
from .sessions import ContractSession, Sessions

if TYPE_CHECKING:
    from ...evidence import EvidenceFile
    from ...options import GovernanceOptions

MAX_TRACE = 256
"""Rows of its trace that a session keeps for evidence. What contracts have counted does not depend on it."""

log = logging.getLogger(__name__)


def check_metrics(metrics: Any) -> None:
    """
    Refuse metrics that cannot count what contracts do.

    Raises:
        OptionError: `metrics` cannot count what contracts do.
    """
    for name in ("record_call", "record_violation", "record_gate_latency"):
        if metrics is not None and not callable(getattr(metrics, name, None)):
            raise OptionError("metrics", f"must have {name}(), {type(metrics).__name__} has not")


def read_contracts(value: Any) -> ContractSource | None:
    """
    Read the option ``contracts``: a rules file, contracts, or a callable that builds sessions.

    Raises:
        OptionError: It cannot be read, or is none of these.
    """
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return _rules_file(value)
    if isinstance(value, Iterable):
        contracts = tuple(value)
        for contract in contracts:
            if not isinstance(contract, TemporalContract):
                raise OptionError("contracts", f"holds something that is no contract: {contract!r:.80}")
        return ContractSource(contracts=contracts, rules_hash=rules_hash(contracts))
    if callable(value):
        return ContractSource(build=value)
    raise OptionError(
        "contracts", f"must be a rules file, contracts or a callable, not {type(value).__name__}"
    )


def _rules_file(path: str | os.PathLike[str]) -> ContractSource:
    from ...acel.config import ConfigError, read_rules

    try:
        rules = read_rules(path)
    except ConfigError as error:
        raise OptionError("contracts", f"cannot be used: {error}") from error
    for warning in rules.warnings:
        log.warning("%s", warning.within(rules.name))
    return ContractSource(contracts=rules.contracts, state=rules.state, rules_hash=rules.rules_hash)


def rules_in_force(options: GovernanceOptions) -> RulesInForce:
    """
    Read the option ``contracts`` as what is in force from now on.

    Raises:
        OptionError: See `read_contracts`; or there is no file, and ``reload_rules`` is to watch one; or a
            contract counts in the store of the fleet, and there is none.
    """
    named = options.contracts
    is_file = isinstance(named, str | os.PathLike)
    if options.reload_rules and not is_file:
        raise OptionError("reload_rules", "watches a rules file, and the option 'contracts' names none")
    first = read_contracts(named)
    _check_scopes(options, first)
    _check_durable(options, first)

    def again() -> ContractSource | None:
        source = read_contracts(named)
        _check_scopes(options, source)
        _check_durable(options, source)
        if _are_shared(options, source) is not _are_shared(options, first):
            problem = "changes whether runs share a session under contract_scope 'run', which needs a restart"
            raise OptionError("contracts", problem)
        return source

    return RulesInForce(first, again if is_file else None)


def contract_sessions(
    options: GovernanceOptions,
    rules: RulesInForce,
    evidence: EvidenceFile | Recorder | None,
    fleet: FleetStore | None = None,
) -> Sessions:
    """Make the sessions of a governance with these options."""
    hidden: Any = options.redact_fields
    if hidden is not None and options.redaction_key is not None:
        hidden = Redactor(hidden, key=redaction_key_of(options))
    keep = getattr(evidence, "record_reload", None)
    if keep is not None:
        rules.tell(lambda _, change: keep(change.before, change.after))
    return Sessions(
        _SessionBuilder(options=options, rules=rules, evidence=evidence, fleet=fleet, hidden=hidden).build,
        per_session=_are_shared(options, rules.source),
        durable=options.sessions == "durable",
        idle_seconds=options.session_idle_seconds,
        limit=options.max_sessions,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SessionBuilder:
    """
    Build the contract session of a run or of a session id, by the rules that are in force.

    Attributes:
        hidden: Hides arguments in violations, where a session keeps them itself.
    """

    options: GovernanceOptions
    rules: RulesInForce
    evidence: EvidenceFile | Recorder | None
    fleet: FleetStore | None
    hidden: Any

    def build(self, name: str, shared: bool) -> ContractSession:
        with self.rules.building() as note:
            source, recorder = self.rules.source, self._recorder(name)
            session = None if source is None else self._session(source, name, shared, recorder)
            if session is not None:
                note(session)
        return ContractSession(contracts=session, recorder=recorder, shared=shared)

    def _session(self, source: ContractSource, name: str, shared: bool, recorder: Recorder | None) -> Session:
        options = self.options
        if source.build is not None:
            own = _own_session(source.build, name, options)
            if recorder is not None and not _is_in(own.evidence, options.evidence):
                engine_of(own).watch(self.evidence, recorder)
            return own
        scope = options.contract_scope if shared else None
        return RunSession(
            source.state,
            mode=options.contracts_mode,
            metrics=options.metrics,
            session_id=name,
            contracts=shared_rules(source.contracts, default_scope=scope),
            fleet=self.fleet,
            durable=shared and options.sessions == "durable",
            idle_seconds=options.session_idle_seconds,
            max_trace=MAX_TRACE,
            evidence=recorder,
            redact_fields=self.hidden if recorder is None else None,
        )

    def _recorder(self, name: str) -> Recorder | None:
        from ...evidence import EvidenceFile

        if isinstance(self.evidence, EvidenceFile):
            return SessionRecorder(self.evidence, name, lambda: self.rules.hash)
        return self.evidence


def _are_shared(options: GovernanceOptions, source: ContractSource | None) -> bool:
    """Tell whether the runs of one session id have anything to share."""
    contracts = () if source is None else source.contracts
    return options.contract_scope == "session" or any(scope_of(each) == "session" for each in contracts)


def _check_scopes(options: GovernanceOptions, source: ContractSource | None) -> None:
    contracts = () if source is None else source.contracts
    of_fleet = [contract.spec for contract in contracts if scope_of(contract) == "fleet"]
    if of_fleet and options.fleet is None:
        raise OptionError(
            "fleet",
            f"is not given, and {of_fleet[0]} has scope 'fleet'",
            remedy="give the URL of a store, such as sqlite:///fleet.db",
        )
    code = [contract.spec for contract in contracts if not isinstance(contract, Declaration)]
    if code and options.contract_scope == "run" and _are_shared(options, source):
        problem = f"is 'run' beside contracts of scope 'session', and {code[0]} is code, which has one memory"
        raise OptionError("contract_scope", problem)


def _check_durable(options: GovernanceOptions, source: ContractSource | None) -> None:
    if options.sessions != "durable" or source is None:
        return
    if source.build is not None:
        raise OptionError(
            "sessions",
            "is 'durable', and the option 'contracts' builds each session itself",
            remedy="build them with durable=True, or give contracts or a rules file",
        )
    if not _are_shared(options, source):
        raise OptionError(
            "sessions", "is 'durable', and under contract_scope 'run' no two runs share anything that is kept"
        )
    try:
        check_durable(source.contracts, source.state)
    except ValueError as error:
        raise OptionError("sessions", f"is 'durable', and {error}") from error


def _own_session(build: BuildOwn, name: str, options: GovernanceOptions) -> Session:
    session = build(name) if _takes_a_name(build) else build()
    if not isinstance(session, Session):
        raise OptionError("contracts", f"has to build an acel.Session, it built a {type(session).__name__}")
    if session.closed is not None:
        raise OptionError(
            "contracts", "built a session that has ended", remedy="build a new one whenever you are called"
        )
    if options.contracts_mode == "shadow" and session.mode != "shadow":
        raise OptionError(
            "contracts_mode",
            "is 'shadow', and the session that 'contracts' built is not",
            remedy="build it with mode='shadow'",
        )
    if session.metrics is None:
        session.metrics = options.metrics
    return session


def _is_in(own: Any, evidence: Any) -> bool:
    """Tell whether what a session keeps as its own stands in `evidence` already."""
    return own is evidence or getattr(own, "file", None) is evidence


def _takes_a_name(build: BuildOwn) -> bool:
    try:
        parameters = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD, item.VAR_POSITIONAL)
        and item.default is item.empty
        for item in parameters
    )
