"""
The public names as type checkers see them. Checked by mypy, and never run.

An ignore marks a line that has to be an error: when it stops being one, the checker reports the ignore.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from agent_rt import AgentLoop

from openbox_agentrt import (
    ContractRefusedError,
    Coverage,
    Decision,
    GovernanceError,
    GovernanceOptions,
    OpenBoxAgentRTGovernance,
    RunState,
    create_openbox_agentrt,
    current_run,
    find_governance_error,
)
from openbox_agentrt.acel import Metrics, Refusal, Session, Violation, must_precede
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.evidence import EvidenceFile, ed25519_signer
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.options import takes_options
from openbox_agentrt.testing import ScriptedProvider


def observe(decision: Decision) -> None:
    assert_type(decision.reason, str | None)
    assert_type(decision.contracts, tuple[str, ...])
    assert_type(decision.to_dict(), dict[str, Any])


async def sandbox(decision: Decision) -> None: ...


async def made_with_options() -> None:
    signer, _public_key = ed25519_signer()
    governance = await create_openbox_agentrt(
        core=LocalCore(),
        agent_name="Support",
        on_api_error="fail_closed",
        contracts=[must_precede("backup", "delete")],
        contracts_mode="shadow",
        evidence=Path("evidence.jsonl"),
        signer=signer,
        metrics=Metrics(),
        approval_max_wait_ms=None,
        constraint_handlers={"run_in_sandbox": sandbox},
        on_decision=observe,
    )
    assert_type(governance, OpenBoxAgentRTGovernance)

    await create_openbox_agentrt(core="local", contracts=Path("rules.yaml"), evidence=EvidenceFile("log"))
    await create_openbox_agentrt(environ={}, contracts=lambda: Session(), skip_tools={"clock"})
    await create_openbox_agentrt(contracts=lambda session_id: Session(session_id=session_id))


@takes_options
async def made_by_a_wrapper(**options: Any) -> OpenBoxAgentRTGovernance:
    options["on_unmet"] = "raise"
    return await create_openbox_agentrt(**options)


async def mistakes() -> None:
    await create_openbox_agentrt(on_api_eror="fail_open")  # type: ignore[call-arg]  # misspelt
    await create_openbox_agentrt(on_api_error="open")  # type: ignore[arg-type]  # not one of the two
    await create_openbox_agentrt(core="remote")  # type: ignore[arg-type]  # "local" is the only text
    await create_openbox_agentrt(contracts=[1])  # type: ignore[list-item]  # no contract
    await made_by_a_wrapper(on_unmet="ignore")  # type: ignore[arg-type]  # not one of the two
    GovernanceOptions(on_unmet="ignore")  # type: ignore[arg-type]  # not one of the two


async def a_run(governance: OpenBoxAgentRTGovernance) -> None:
    loop = governance.govern_loop(AgentLoop(ScriptedProvider()))
    assert_type(loop, AgentLoop)
    provider = governance.wrap_provider(ScriptedProvider())
    assert_type(provider, ScriptedProvider)
    assert_type(governance.coverage(loop), Coverage)
    async with governance:
        async with governance.run_scope("Delete record 7.", session_id="s-1") as run:
            assert_type(run, RunState)
            async with governance.activity("delete", [7]) as activity:
                activity.output = activity.input[0]
        assert_type(current_run(), RunState | None)
    assert_type(governance.end_session("s-1"), tuple[Violation, ...])


def a_refusal(error: Exception) -> None:
    found = find_governance_error(error)
    assert_type(found, GovernanceError | None)
    if isinstance(found, ContractRefusedError):
        assert_type(found.refusal, Refusal)
        assert_type(found.ran, bool)


def double(number: int) -> int:
    return 2 * number


def a_guarded_function(session: Session) -> None:
    guarded = guard(session, "double", double)
    assert_type(guarded(2), int)
    guarded("2")  # type: ignore[arg-type]  # the signature stays
