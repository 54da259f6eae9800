"""Make a governance of its options: evidence, fleet, a connection to Core, and what its runs share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from .._core.connection import connect
from .._run.contracts.contract_source import (
    check_metrics,
    contract_sessions,
    rules_in_force,
)
from .._run.contracts.rules_in_force import RulesFileWatch
from .._run.nested_refusals import NestedRefusals
from .._run.observers import Observers, decision_meter
from .._run.opening import check_fleet_of, marker_key_of, open_evidence, open_fleet_of
from .._run.runs import Runs
from .._run.services import Services
from .._run.spans import Spans, opted_in
from .._webhook import Webhook
from ..evidence.redaction.redactor import redactor_of
from ..options import GovernanceOptions, takes_options
from .governance import OpenBoxAgentRTGovernance

if TYPE_CHECKING:
    from .._core.connection import Connection
    from .._core.gate import CoreGate
    from .._options.in_process import InProcessCore
    from .._run.contracts.sessions import Sessions
    from .._run.paused.parked_run import LeaseStore
    from ..decision import ApprovalRequest
    from ..fleet import Fleet


@takes_options
async def create_openbox_agentrt(
    *, environ: Mapping[str, str] | None = None, **options: Any
) -> OpenBoxAgentRTGovernance:
    """
    Make a governance for Agent-RT agents.

    Options are looked up as arguments, then as ``OPENBOX_AGENTRT_*`` and ``OPENBOX_*`` variables; see
    `GovernanceOptions` for all of them. What was opened is closed again if anything fails, except for a
    runtime that was passed in.

    Args:
        environ: Variables to look at instead of those of the process.
        options: Options by name.

    Raises:
        OptionError: An option is unknown or cannot be used, before anything is sent.
        OpenBoxAuthError: Core rejected the API key.
        OpenBoxNetworkError: Core could not be reached to check the key.
    """
    resolved = GovernanceOptions.resolve(environ=environ, **options)
    rules = rules_in_force(resolved)
    check_metrics(resolved.metrics)
    refusals = NestedRefusals()
    with ExitStack() as opened:
        evidence = open_evidence(resolved, opened, rules)
        marker_key = marker_key_of(resolved, evidence)
        fleet = open_fleet_of(resolved, opened)
        await check_fleet_of(resolved)
        core = _core_of(resolved, opened)
        connection = connect(resolved, refusals, core=core)
        try:
            if resolved.validate:
                await connection.validate()
            connection.hooks.install()
            services = _services(
                connection,
                resolved,
                sessions=contract_sessions(resolved, rules, evidence, fleet),
                marker_key=marker_key,
                spans=Spans() if opted_in(os.environ if environ is None else environ) else None,
            )
            runs = Runs(services, refusals, cast("LeaseStore", fleet) if hasattr(fleet, "aadopt") else None)
            shared_halts = getattr(fleet, "halts", None)
            if shared_halts is not None:
                runs.halts.follow(shared_halts)
            _watch_numbers(resolved.metrics, connection.gate, runs, evidence, opened)
            if resolved.reload_rules:
                opened.callback(RulesFileWatch(cast("str", resolved.contracts), rules).close)
            return OpenBoxAgentRTGovernance(
                connection,
                resolved,
                runs,
                rules,
                core=core,
                fleet=cast("Fleet", fleet) if isinstance(resolved.fleet, str) else None,
                close_with=opened.pop_all(),
            )
        except BaseException:
            # Cancelled, rejected, or hooks that another governance owns: nothing of ours stays open.
            connection.hooks.uninstall()
            if not connection.injected:
                await connection.aclose()
            raise


def _services(
    connection: Connection,
    options: GovernanceOptions,
    *,
    sessions: Sessions,
    marker_key: bytes,
    spans: Spans | None,
) -> Services:
    return Services(
        connection.gate,
        options,
        connection.store,
        agent_name=connection.runtime.config.agent_name,
        agent_did=connection.runtime.config.agent_did,
        sessions=sessions,
        marker_key=marker_key,
        observers=Observers(
            meter=decision_meter(options.metrics),
            observe=options.on_decision,
            records_all=options.record != "violations",
            redactor=redactor_of(options.redact_fields).keyed(marker_key),
            spans=spans,
            on_approval=_told_of_approvals(options),
        ),
    )


def _watch_numbers(metrics: Any, gate: CoreGate, runs: Runs, evidence: Any, opened: ExitStack) -> None:
    """Have metrics that can do so read how much is open, until `opened` is closed."""
    if not callable(getattr(metrics, "watch", None)):
        return
    numbers: dict[str, tuple[str, Callable[[], float]]] = {
        "pending_approvals": (
            "Calls and runs that wait for a person.",
            lambda: gate.waiting + len(runs.suspended),
        ),
        "open_sessions": ("Sessions that are remembered.", lambda: len(runs.services.sessions)),
        "pending_reports": ("Reports that Core does not have yet.", lambda: gate.reports.pending),
        "evidence_failures": (
            "Failures to record evidence, since the start.",
            lambda: getattr(evidence, "failures", 0),
        ),
    }
    for name, (description, read) in numbers.items():
        metrics.watch(name, description, read)
        opened.callback(metrics.unwatch, name, read)


def _told_of_approvals(options: GovernanceOptions) -> Callable[[ApprovalRequest], Any] | Webhook | None:
    told = options.on_approval
    return Webhook(told, secret=options.on_approval_secret) if isinstance(told, str) else told


def _core_of(options: GovernanceOptions, opened: ExitStack) -> InProcessCore | None:
    if options.core == "off":
        return None
    if options.core != "local":
        return options.core
    from ..local_core import LocalCore

    return opened.enter_context(LocalCore())
