"""A tool call that waits for a person; here another task is the person."""

import asyncio
from collections.abc import Mapping
from typing import Any

from agent_rt import (
    AgentConfig,
    AgentLoop,
    ContentPart,
    ModelMessage,
    ModelSettings,
    ToolDefinition,
    ToolRegistry,
)

from openbox_agentrt import ApprovalRejectedError, create_openbox_agentrt
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider

SCHEMA = {"type": "object", "properties": {"host": {"type": "string"}}, "required": ["host"]}
AGENT = AgentConfig(name="Operator", instructions="Operate.", model=ModelSettings(model="any"))


def policy(event: dict[str, Any]) -> Any:
    """Restarts need a person. In production this is a Rego policy in OpenBox."""
    if event["event_type"] == "ActivityStarted" and event["activity_type"] == "restart":
        return {"decision": "REQUIRE_APPROVAL", "reason": "restarts need a person"}
    return "ALLOW"


async def restart(arguments: Mapping[str, Any], token: object) -> dict[str, str]:
    print("restarting", arguments["host"])
    return {"restarted": arguments["host"]}


async def person(core: LocalCore) -> None:
    for answer in (core.approve, core.reject):
        approval = await core.await_approval()
        print("asked:", approval.reason, approval.event["activity_input"][0])
        answer(approval)


async def main() -> None:
    tools = ToolRegistry()
    tools.register(
        ToolDefinition(name="restart", description="Restart a host.", input_schema=SCHEMA), handler=restart
    )
    model = ScriptedProvider(
        Call(name="restart", arguments={"host": "web-1"}),
        "web-1 is back.",
        Call(name="restart", arguments={"host": "db-1"}),
    )
    prompt = ModelMessage(role="user", content=(ContentPart(type="text", text="Restart it."),))
    with LocalCore(policy=policy) as core:
        async with await create_openbox_agentrt(core=core, approval_poll_interval_ms=20) as governance:
            loop = governance.govern_loop(AgentLoop(model, tool_registry=tools))
            deciding = asyncio.create_task(person(core))
            await loop.run(AGENT, [prompt])
            try:
                await loop.run(AGENT, [prompt])
            except ApprovalRejectedError as refusal:
                print("refused:", refusal)
            await deciding


if __name__ == "__main__":
    asyncio.run(main())
