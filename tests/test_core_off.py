"""Contracts alone: no Core, and nothing that is sent to one."""

from __future__ import annotations

from typing import Any

import pytest
from agent_rt import AgentLoop

from openbox_agentrt import ContractRefusedError, create_openbox_agentrt
from openbox_agentrt._core.connection import NoCore
from openbox_agentrt.acel import EvidenceLog, at_most_n_times, must_precede
from openbox_agentrt.testing import Call, ScriptedProvider


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What somebody asked of the Core that is not there."""
    seen: list[str] = []

    def handle(self: NoCore, method: str, path: str, *_: Any) -> Any:
        seen.append(path)
        return 503, {}, b""

    monkeypatch.setattr(NoCore, "handle", handle)
    return seen


async def test_contracts_alone_judge(kit: Any, asked: list[str]) -> None:
    """Prompts, model calls, tools and a user's own activities; nobody is asked anything."""
    log = EvidenceLog()
    told: list[Any] = []
    governance = await create_openbox_agentrt(
        core="off",
        environ={},
        contracts=[must_precede("backup", "delete"), at_most_n_times("own", 1)],
        evidence=log,
        on_decision=told.append,
        on_tool_block="return_error",
    )
    provider = ScriptedProvider(Call(name="delete"), Call(name="backup"), Call(name="delete"), "done")
    registry = kit.registry({"backup": lambda: "saved", "delete": lambda: "gone"})
    async with governance:
        loop = governance.govern_loop(AgentLoop(provider, tool_registry=registry))
        result = await loop.run(kit.agent(), [kit.user("go")])
        async with governance.run_scope("mine"):
            async with governance.activity("own"):
                pass
            with pytest.raises(ContractRefusedError):
                async with governance.activity("own"):
                    pytest.fail("ran")
        assert governance.coverage(loop).complete

    assert [error["type"] for error in kit.tool_errors(result)] == ["governance_blocked"]
    assert [bundle.violation["tool"] for bundle in log.bundles] == ["delete", "own"]
    assert {(decision.event, decision.source) for decision in told} == {
        ("user_prompt", "disabled"),
        ("llm_call", "disabled"),
        ("backup", "disabled"),
        ("delete", "contracts"),
        ("delete", "disabled"),
        ("own", "disabled"),
        ("own", "contracts"),
    }
    assert asked == []
    assert governance.core is None
    assert not any(governance.counts.values())


async def test_it_needs_no_address_and_installs_no_hooks(asked: list[str]) -> None:
    """From the environment as well, beside an address that is not used."""
    environ = {"OPENBOX_AGENTRT_CORE": "off", "OPENBOX_URL": "https://core.example"}
    governance = await create_openbox_agentrt(environ=environ, contracts=[at_most_n_times("pay", 1)])

    async with governance:
        assert governance.options.install_instrumentation is False
        assert governance.runtime.config.api_url != "https://core.example"
    assert asked == []
