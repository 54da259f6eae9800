"""A governed support agent in a few lines: contracts on this machine, policy in an in-process Core."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
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

from openbox_agentrt import GovernanceError, create_openbox_agentrt
from openbox_agentrt.acel import at_most_total
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, ScriptedProvider

PAYMENT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


async def refund(arguments: Mapping[str, Any], token: object) -> dict[str, float]:
    return {"refunded": arguments["amount"]}


async def main() -> None:
    tools = ToolRegistry()
    tools.register(
        ToolDefinition(name="refund", description="Pay money back.", input_schema=PAYMENT), handler=refund
    )
    # In your agent: agent_rt.load_model(). Here the model's answers are written down.
    model = ScriptedProvider(
        Call(name="refund", arguments={"amount": 40}),
        "Refunded.",
        Call(name="refund", arguments={"amount": 90}),
    )
    policy = Path(__file__).parent / "support_agent.rego"
    limits = [at_most_total("refund", "amount", 100)]
    with LocalCore(policy=policy) as core:
        governance = await create_openbox_agentrt(core=core, contracts=limits, session_id="customer-7")
        async with governance:
            loop = governance.govern_loop(AgentLoop(model, tool_registry=tools))
            agent = AgentConfig(name="Support", instructions="Help.", model=ModelSettings(model="any"))
            for request in ("Refund 40, please.", "And another 90."):
                prompt = ModelMessage(role="user", content=(ContentPart(type="text", text=request),))
                try:
                    result = await loop.run(agent, [prompt])
                    answer = result.final_response
                    print(result.termination_reason, answer and answer.message.content[0].text)
                except GovernanceError as refusal:
                    print("refused:", refusal)


if __name__ == "__main__":
    asyncio.run(main())
