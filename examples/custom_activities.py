"""Work that is no tool call: judged before it starts, closed when it ends."""

import asyncio
from typing import Any

from openbox_agentrt import GovernanceBlockedError, create_openbox_agentrt
from openbox_agentrt.local_core import LocalCore


def policy(event: dict[str, Any]) -> Any:
    publishes = event["event_type"] == "ActivityStarted" and event["activity_type"] == "publish"
    if publishes and event["activity_input"][0]["audience"] == "everybody":
        return {"decision": "BLOCK", "reason": "nothing is published to everybody"}
    return "ALLOW"


async def main() -> None:
    with LocalCore(policy=policy) as core:
        governance = await create_openbox_agentrt(core=core, agent_name="Editor")
        async with governance, governance.run_scope("Publish the report.") as run:
            for audience in ("team", "everybody"):
                try:
                    async with governance.activity("publish", [{"audience": audience}]) as activity:
                        # `activity.input` is what Core let through, redacted where it said so.
                        activity.output = {"published": activity.input[0]["audience"]}
                        print("published to", activity.input[0]["audience"])
                except GovernanceBlockedError as refusal:
                    print("refused:", refusal)
            run.result = "done"
        print(*(event["event_type"] for event in core.events()), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
