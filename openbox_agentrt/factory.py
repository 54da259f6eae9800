"""`create_openbox_agentrt`: from options to a governance that is connected and checked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Unpack

from ._core.connection import connect
from ._run.contract_source import check_metrics, contract_sessions, open_evidence, read_contracts
from ._run.hooks import Refusals
from .governance import OpenBoxAgentRTGovernance
from .options import GovernanceOptions, OptionArguments

if TYPE_CHECKING:
    from .local_core import LocalCore

__all__ = ("create_openbox_agentrt",)


async def create_openbox_agentrt(
    *, environ: Mapping[str, str] | None = None, **options: Unpack[OptionArguments]
) -> OpenBoxAgentRTGovernance:
    """
    A governance for Agent-RT agents.

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
    source = read_contracts(resolved.contracts)
    check_metrics(resolved.metrics)
    refusals = Refusals()
    with ExitStack() as opened:
        evidence = open_evidence(resolved, opened, rules_hash=None if source is None else source.rules_hash)
        core = resolved.core
        if core == "local":
            core = opened.enter_context(_local_core())
        connection = connect(resolved, refusals, core=core)
        try:
            if resolved.validate:
                await connection.validate()
            connection.hooks.install()
            return OpenBoxAgentRTGovernance(
                connection,
                resolved,
                refusals,
                core=core,
                sessions=contract_sessions(resolved, source, evidence),
                close_with=opened.pop_all(),
            )
        except BaseException:
            # Cancelled, rejected, or hooks that another governance owns: nothing of ours stays open.
            connection.hooks.uninstall()
            if not connection.injected:
                await connection.aclose()
            raise


def _local_core() -> LocalCore:
    from .local_core import LocalCore

    return LocalCore()
