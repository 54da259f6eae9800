"""A worker in a process of its own: it runs an agent until that waits for a person."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent_rt import (
    AgentCheckpoint,
    AgentConfig,
    AgentLoop,
    ContentPart,
    ModelMessage,
    ModelSettings,
    ToolCall,
    ToolDefinition,
    ToolRegistry,
)

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt.acel import at_most_total
from openbox_agentrt.fleet import open_fleet
from openbox_agentrt.local_core import DEFAULT_API_KEY
from openbox_agentrt.testing import Call, ScriptedProvider


def rules(limit: int = 500) -> list[Any]:
    return [at_most_total("refund", "amount", limit, scope="fleet", per="month")]


def saved(messages: Any) -> str:
    return json.dumps([asdict(message) for message in messages])


def loaded(text: str, agent: str = "Support") -> AgentCheckpoint:
    """Read a checkpoint back, as somebody would who keeps it in a database."""
    messages = tuple(
        ModelMessage(
            each["role"],
            tuple(ContentPart(**part) for part in each["content"]),
            tuple(ToolCall(**call) for call in each["tool_calls"]),
            each["tool_call_id"],
        )
        for each in json.loads(text)
    )
    return AgentCheckpoint(
        checkpoint_id="c", agent_name=agent, messages=messages, turns=1, tool_calls=1, total_tokens=0
    )


async def work(fleet_url: str, core_url: str, folder: Path) -> None:
    async def refund(arguments: Any, cancellation_token: Any) -> str:
        raise AssertionError("nobody has said yes")

    tools = ToolRegistry()
    tools.register(ToolDefinition("refund", "Pay back", {"type": "object"}), handler=refund)
    provider = ScriptedProvider(Call(name="refund", arguments={"amount": 300}), "done")
    governance = await create_openbox_agentrt(
        environ={},
        api_url=core_url,
        api_key=DEFAULT_API_KEY,
        approval_mode="pause",
        contracts=rules(),
        fleet=open_fleet(fleet_url, timeout_seconds=20),
        install_instrumentation=False,
    )
    loop = governance.govern_loop(AgentLoop(provider, tool_registry=tools))
    agent = AgentConfig("Support", "Help.", ModelSettings("any"))
    result = await loop.run(agent, [ModelMessage("user", (ContentPart("text", "Refund 300."),))])
    (folder / "checkpoint").write_text(saved(result.messages))
    print(result.termination_reason, flush=True)
    sys.stdin.readline()  # until it is killed


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
