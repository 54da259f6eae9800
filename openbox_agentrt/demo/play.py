"""The demo as one function: build, run every scene, account for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from agent_rt import AgentConfig, AgentLoop, ContentPart, ModelMessage, ModelSettings, load_model

from .. import create_openbox_agentrt
from ..errors import GovernanceError
from ..local_core import Approval, LocalCore
from ..testing import OpenAIServer
from .narrator import Narrator
from .scenes import SCENES, Scene
from .shop import INSTRUCTIONS, Shop

SESSION = "demo"
DECIDE_SECONDS = 0.05
"""How long the demo's person thinks about an approval."""

Person = Callable[[Approval], Awaitable[bool]]


class _Model(NamedTuple):
    """A model provider, and the customer's words in the last request that reached it."""

    provider: Any
    prompt: Callable[[], str]


class NoModelError(Exception):
    """The environment names no model that can be used. Nothing was run."""


class Stage(NamedTuple):
    """
    Say where the demo is played.

    Attributes:
        database: Core's file.
        beside: What is there while it is played and afterwards, such as a console; it is given the Core.
        beginning: Awaited before the first scene, until whoever watches is there.
        pace: Seconds that pass after each answer of the model, so that somebody can watch.
        afterwards: Awaited when everything was played, and Core and the session are still there.
    """

    database: str | Path = ":memory:"
    beside: Callable[[LocalCore], AbstractContextManager[object]] | None = None
    beginning: Callable[[], Awaitable[None]] | None = None
    pace: float = 0.0
    afterwards: Callable[[], Awaitable[None]] | None = None


async def play(
    narrator: Narrator, *, evidence: Path, key_file: Path, own_model: bool = False, stage: Stage | None = None
) -> Shop:
    """
    Run every scene of the demo, and account for it.

    Args:
        narrator: Where it is told.
        evidence: File for the evidence of every decision.
        key_file: The key that signs it; made when missing.
        own_model: Use `agent_rt.load_model` and the user's own key instead of the scripted model.
        stage: Where it is played. With something beside it, approvals are decided there and by nobody here.

    Raises:
        NoModelError: If there is no own model.

    Returns:
        The shop as the agent has left it.
    """
    shop, stage = Shop(), stage or Stage()
    policy = files("openbox_agentrt.local_core") / "policy.rego"
    rules = files("openbox_agentrt.demo") / "rules.yaml"
    with (
        as_file(policy) as policy_file,
        as_file(rules) as rules_file,
        LocalCore(policy_file, stage.database, guardrails=True, on_approval=narrator.waits) as core,
        nullcontext() if stage.beside is None else stage.beside(core),
    ):
        governance = await create_openbox_agentrt(
            core=core,
            agent_name="SupportAgent",
            session_id=SESSION,
            contracts=rules_file,
            evidence=evidence,
            signer=key_file,
            record="all" if stage.beside is None else "steps",
            on_tool_block="return_error",
            approval_poll_interval_ms=20,
            on_decision=narrator.decision,
        )
        person = None if stage.beside is not None else _ask_terminal if own_model else _say_yes
        async with governance, _model(own_model) as model, _deciding(core, narrator, person):
            loop = governance.govern_loop(AgentLoop(provider=model.provider, tool_registry=shop.tools()))
            if stage.beginning is not None:
                await stage.beginning()
            for number, scene in enumerate(SCENES, 1):
                await _run_scene(loop, model, narrator, number, scene, stage.pace)
            narrator.summary(core)
            if stage.afterwards is not None:
                # Its session is open still, so that what it would refuse now can be asked.
                await stage.afterwards()
    return shop


async def _run_scene(
    loop: AgentLoop, model: _Model, narrator: Narrator, number: int, scene: Scene, pace: float
) -> None:
    narrator.scene(number, scene)
    known = {"", scene.prompt}

    async def on_event(event: Any) -> None:
        if event.type != "completed":
            return
        seen = model.prompt()
        if seen not in known:
            known.add(seen)
            narrator.seen(seen)
        for call in event.response.message.tool_calls:
            narrator.tool_call(call.name, call.arguments)
        text = "".join(part.text or "" for part in event.response.message.content)
        if text.strip():
            narrator.model(text)
        await asyncio.sleep(pace)

    agent = AgentConfig(
        name="SupportAgent",
        instructions=INSTRUCTIONS,
        model=ModelSettings(model=model.provider.settings.default_model),
    )
    prompt = ModelMessage(role="user", content=(ContentPart(type="text", text=scene.prompt),))
    try:
        await loop.run_streaming(agent, [prompt], on_event)
    except GovernanceError as error:
        # The subject of the demo: a run that governance stops ends with the error that says why.
        narrator.refused_run(str(error))


@asynccontextmanager
async def _model(own: bool) -> AsyncIterator[_Model]:
    """Open the user's own model, or Agent-RT's OpenAI provider in front of a scripted server."""
    if own:
        try:
            provider = load_model()
        except (ValueError, RuntimeError) as error:
            # Nothing in the environment says which, or the client of its maker is not installed.
            raise NoModelError(f"no model of your own: {error}") from error
        # What it is sent is between it and its maker.
        yield _Model(provider, lambda: "")
        return
    with OpenAIServer(*(reply for scene in SCENES for reply in scene.replies)) as server:
        # What it gives can be closed, and its type does not say so.
        scripted: Any = load_model(environ=server.environ, validate=False)
        try:
            yield _Model(scripted, lambda: _last_prompt(server.requests))
        finally:
            await scripted.close()


@asynccontextmanager
async def _deciding(core: LocalCore, narrator: Narrator, person: Person | None) -> AsyncIterator[None]:
    """Answer every approval that comes up meanwhile, as a person would; none if it is decided elsewhere."""
    if person is None:
        yield
        return

    async def decide() -> None:
        while True:
            try:
                approval = await core.await_approval(timeout=60)
            except TimeoutError:
                continue  # nothing asks for a person yet
            decide = core.approve if await person(approval) else core.reject
            narrator.approval(decide(approval, "looked at the order", by="Ada of support"))

    task = asyncio.create_task(decide())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _last_prompt(requests: list[dict[str, Any]]) -> str:
    messages = requests[-1]["messages"] if requests else []
    users = [message["content"] for message in messages if message["role"] == "user"]
    parts = users[-1] if users else ""
    return parts if isinstance(parts, str) else "".join(part.get("text", "") for part in parts)


async def _say_yes(approval: Approval) -> bool:
    await asyncio.sleep(DECIDE_SECONDS)
    return True


async def _ask_terminal(approval: Approval) -> bool:
    if not sys.stdin.isatty():
        return False  # fail-closed: nobody is there to say yes
    answer = await asyncio.to_thread(input, f"  {approval.activity_type}: {approval.reason}. Approve? [y/N] ")
    return answer.strip().lower() in ("y", "yes")
