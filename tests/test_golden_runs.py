"""
What Core is told of whole runs, pinned by golden files: which events, in which order, with which content.

Ids are replaced by their order of appearance, and times are left out. ``UPDATE_GOLDEN=1`` writes the files
anew; somebody has to look at what changed.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_rt import AgentCheckpoint, AgentLoop, AgentRunLimits

from openbox_agentrt import OpenBoxAgentRTGovernance
from openbox_agentrt.errors import GovernanceError
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

GOLDEN = Path(__file__).parent / "golden" / "runs"

Play = Callable[["Scene"], Awaitable[None]]


class Scene:
    """One run to be told of."""

    def __init__(self, kit: Any, stage: Any) -> None:
        self.kit = kit
        self.stage = stage
        self.governance: OpenBoxAgentRTGovernance = stage.governance

    def loop(self, *steps: Any, tools: Any = None, **fields: Any) -> Any:
        tools = {"refund": lambda order: {"refunded": order}} if tools is None else tools
        registry = self.kit.registry(tools, fields={"side_effect": "write", **fields})
        return self.governance.govern_loop(AgentLoop(ScriptedProvider(*steps), tool_registry=registry))

    async def run(self, loop: Any, text: str = "refund order 7", **kwargs: Any) -> Any:
        return await loop.run(self.kit.agent("RefundAgent"), [self.kit.user(text)], **kwargs)


REFUND = Call(name="refund", arguments={"order": 7})


async def completed(scene: Scene) -> None:
    await scene.run(scene.loop(REFUND, "refunded"))


async def without_a_prompt(scene: Scene) -> None:
    await scene.run(scene.loop("hello"), text="")


async def prompt_blocked(scene: Scene) -> None:
    await scene.run(scene.loop("never said"))


async def prescreen_halted(scene: Scene) -> None:
    await scene.run(scene.loop("never said"))


async def tool_blocked(scene: Scene) -> None:
    await scene.run(scene.loop(REFUND))


async def tool_blocked_and_told(scene: Scene) -> None:
    await scene.run(scene.loop(REFUND, "then not"))


async def tool_failed(scene: Scene) -> None:
    def fail(order: int) -> None:
        raise ValueError("no such order")

    await scene.run(scene.loop(REFUND, tools={"refund": fail}))


async def prompt_redacted(scene: Scene) -> None:
    await scene.run(
        scene.loop(Call(name="refund", arguments={"order": 7}), "done"), text="mail ann@example.org"
    )


async def rejected(scene: Scene) -> None:
    running = asyncio.create_task(scene.run(scene.loop(REFUND)))
    scene.stage.core.reject(await scene.stage.core.await_approval(), "too much")
    await running


async def paused_and_resumed(scene: Scene) -> None:
    loop = scene.loop(REFUND, "refunded")
    result = await scene.run(loop)
    scene.stage.core.approve(scene.stage.core.pending_approvals()[0])
    checkpoint = AgentCheckpoint("c", "RefundAgent", result.messages, turns=result.turns)
    await scene.run(loop, resume_checkpoint=checkpoint)


async def streamed_and_left(scene: Scene) -> None:
    async def stop(event: Any) -> None:
        raise KeyError("reader")

    agent, messages = scene.kit.agent("RefundAgent"), [scene.kit.user("refund order 7")]
    await scene.loop("one two").run_streaming(agent, messages, stop)


async def cancelled(scene: Scene) -> None:
    started = asyncio.Event()

    async def hang(order: int) -> None:
        started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(scene.run(scene.loop(REFUND, tools={"refund": hang})))
    await started.wait()
    running.cancel()
    await asyncio.wait({running})


async def at_a_limit(scene: Scene) -> None:
    await scene.run(scene.loop(REFUND, REFUND), limits=AgentRunLimits(max_turns=1))


async def nested(scene: Scene) -> None:
    inner = scene.loop("inner answer")

    async def ask() -> str:
        await inner.run(scene.kit.agent("Expert"), [scene.kit.user("inner question")])
        return "answered"

    await scene.run(scene.loop(Call(name="ask"), "done", tools={"ask": ask}))


async def one_of_two_blocked(scene: Scene) -> None:
    tools = {"refund": lambda order: {"refunded": order}, "look": lambda: "found"}
    reply = Reply(calls=(REFUND, Call(name="look")))
    await scene.run(scene.loop(reply, "done", tools=tools))


async def custom_activity(scene: Scene) -> None:
    async with scene.governance.run_scope("send it", agent_name="Script") as run:
        async with scene.governance.activity("send", {"to": "ops"}) as work:
            work.output = {"sent": 1}
        run.result = "sent"


def on(event_type: str, what: str, answer: Any) -> Any:
    def policy(event: dict[str, Any]) -> Any:
        name = event.get("activity_type") or event.get("signal_name")
        return answer if (event["event_type"], name) == (event_type, what) else None

    return policy


BLOCK = {"decision": "BLOCK", "reason": "not today"}
HALT = {"decision": "HALT", "reason": "stop everything"}

SCENES: dict[Play, tuple[Any, dict[str, Any]]] = {
    completed: (None, {"tool_type_map": {"refund": "payment"}, "session_id": "s-1"}),
    without_a_prompt: (None, {}),
    prompt_blocked: (on("SignalReceived", "user_prompt", BLOCK), {}),
    prescreen_halted: (on("ActivityStarted", "llm_call", HALT), {}),
    tool_blocked: (on("ActivityStarted", "refund", BLOCK), {}),
    tool_blocked_and_told: (on("ActivityStarted", "refund", BLOCK), {"on_tool_block": "return_error"}),
    tool_failed: (None, {}),
    prompt_redacted: (None, {}),
    rejected: (on("ActivityStarted", "refund", "REQUIRE_APPROVAL"), {"approval_poll_interval_ms": 1}),
    paused_and_resumed: (on("ActivityStarted", "refund", "REQUIRE_APPROVAL"), {"approval_mode": "pause"}),
    streamed_and_left: (None, {}),
    cancelled: (None, {}),
    at_a_limit: (None, {}),
    nested: (None, {}),
    one_of_two_blocked: (on("ActivityStarted", "refund", BLOCK), {"on_tool_block": "return_error"}),
    custom_activity: (None, {}),
}


def told(core: LocalCore) -> list[dict[str, Any]]:
    """Everything that Core was told, without what differs from run to run."""
    labels: dict[str, str] = {}

    def label(kind: str, value: str) -> str:
        count = sum(name.startswith(f"{kind}-") for name in labels.values())
        return labels.setdefault(value, f"{kind}-{count + 1}")

    events = []
    for record in core.records():
        if record.same_as is not None:
            continue
        event = {key: value for key, value in record.event.items() if key != "timestamp"}
        for key, kind in (
            ("workflow_id", "workflow"),
            ("parent_workflow_id", "workflow"),
            ("run_id", "run"),
            ("multi_agent_session_id", "session"),
        ):
            if key in event:
                event[key] = label(kind, event[key])
        if "activity_id" in event:
            raw_run = record.event["run_id"]
            prescreen = event["activity_id"] == f"{raw_run}-pre"
            event["activity_id"] = (
                f"{event['run_id']}-pre" if prescreen else label("activity", event["activity_id"])
            )
        if "duration_ms" in event:
            assert event["duration_ms"] >= 0
            event["duration_ms"] = "some"
        events.append(dict(sorted(event.items())))
    return events


@pytest.mark.parametrize("play", SCENES, ids=lambda play: play.__name__)
async def test_runs_are_told_as_before(make_stage: Any, kit: Any, play: Play) -> None:
    """A change of what Core hears, or of its order, is a change of a golden file."""
    policy, options = SCENES[play]
    core = LocalCore(policy, guardrails=play is prompt_redacted)
    stage = await make_stage(core=core, **options)

    await _ended(play(Scene(kit, stage)))
    await stage.governance.aclose()

    found = told(stage.core)
    path = GOLDEN / f"{play.__name__}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


async def _ended(playing: Awaitable[None]) -> None:
    try:
        await playing
    except (GovernanceError, ValueError, KeyError):
        return  # how the run ended is in what Core was told


def test_every_golden_run_is_played() -> None:
    """No file outlives its scene, and there are some."""
    files = {path.stem for path in GOLDEN.glob("*.json")}

    assert len(files) > 10
    assert files == {play.__name__ for play in SCENES}
