"""
An agent governed by OpenBox Core over the network.

    export OPENBOX_URL=https://...       the address of your Core
    export OPENBOX_API_KEY=obx_live_...  the key of your agent

and a model for `agent_rt.load_model`, such as OPENAI_API_KEY and OPENAI_MODEL. To try it on one machine,
start `openbox-agentrt core serve` and use the address and key that it prints.
"""

import asyncio
import sys
from typing import Any

from agent_rt import AgentConfig, AgentLoop, ContentPart, ModelMessage, ModelSettings, load_model

from openbox_agentrt import GovernanceError, OpenBoxError, create_openbox_agentrt


async def main() -> int:
    question = " ".join(sys.argv[1:]) or "What can you do for me?"
    prompt = ModelMessage(role="user", content=(ContentPart(type="text", text=question),))
    try:
        governance = await create_openbox_agentrt(agent_name="Helper", on_api_error="fail_closed")
    except OpenBoxError as problem:
        print(problem, file=sys.stderr)
        return 2
    async with governance:
        provider: Any = load_model()
        loop = governance.govern_loop(AgentLoop(provider))
        agent = AgentConfig(
            name="Helper",
            instructions="Answer in one sentence.",
            model=ModelSettings(model=provider.settings.default_model),
        )
        try:
            result = await loop.run(agent, [prompt])
        except GovernanceError as refusal:
            print("refused:", refusal)
            return 1
        finally:
            await provider.close()
        print(result.final_response and result.final_response.message.content[0].text)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
