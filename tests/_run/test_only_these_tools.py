"""A rules file that says which tools there are, in a whole run of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_rt import (
    AgentConfig,
    AgentLoop,
    ContentPart,
    ModelMessage,
    ModelSettings,
    ToolDefinition,
    ToolRegistry,
)

from openbox_agentrt import ContractRefusedError, create_openbox_agentrt
from openbox_agentrt.acel.config import read_rules
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

AGENT = AgentConfig(name="Support", instructions="Help.", model=ModelSettings(model="any"))
PROMPT = [ModelMessage(role="user", content=(ContentPart(type="text", text="go"),))]


@pytest.mark.parametrize(
    "rules",
    [
        "only: [find_order]\n",
        "unknown_tools: refuse\ncontracts:\n  - {template: at_most_n_times, args: [find_order, 9]}\n",
        "unknown_tools: refuse\ncontracts:\n"
        "  - {template: at_most_n_times, args: [find_order, 9]}\n"
        "  - {template: rate_limit, args: ['*', 60, 60]}\n",
    ],
    ids=["only", "unknown tools", "beside a contract about all"],
)
async def test_a_run_has_these_tools_and_no_others(tmp_path: Path, rules: str) -> None:
    """Prompts, model calls, the start and the end are no tools, and go on; the others never run."""
    path = tmp_path / "rules.yaml"
    path.write_text(rules)
    ran: list[str] = []

    def handler(name: str) -> Any:
        async def handle(arguments: Mapping[str, Any], token: object) -> str:
            ran.append(name)
            return "done"

        return handle

    tools = ToolRegistry()
    for name in ("find_order", "wipe"):
        tools.register(
            ToolDefinition(name=name, description=name, input_schema={"type": "object"}),
            handler=handler(name),
        )
    model = ScriptedProvider(
        Reply(calls=(Call(name="find_order"),)), "found", Reply(calls=(Call(name="wipe"),)), "wiped"
    )
    with LocalCore() as core:
        governance = await create_openbox_agentrt(core=core, contracts=path, environ={})
        async with governance:
            loop = governance.govern_loop(AgentLoop(model, tool_registry=tools))
            assert (await loop.run(AGENT, PROMPT)).termination_reason == "completed"
            with pytest.raises(ContractRefusedError, match=r"only\(find_order\)"):
                await loop.run(AGENT, PROMPT)

    assert ran == ["find_order"]
    assert [contract.template for contract in read_rules(path).contracts][-1] == "only"
