"""
Workers of the attack whose runs wait for a person: each may be resumed by any of them, as often as they like.

Every request is for one payment. Whatever is killed, it may be paid once, and with what the person was shown.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
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

from openbox_agentrt import ApprovalRejectedError, GovernanceError, create_openbox_agentrt
from openbox_agentrt._files.whole_write import write_private
from openbox_agentrt.acel import at_most_n_times
from openbox_agentrt.fleet import Fleet, open_fleet
from openbox_agentrt.local_core import DEFAULT_API_KEY, LocalCore
from openbox_agentrt.local_core.server import running
from openbox_agentrt.testing import Call, ScriptedProvider
from tests.fleet.runs.pausing import loaded, saved

from .ledger import pay

CARD = "4111-1111-1111-1111"
AGENT = AgentConfig("Support", "Help.", ModelSettings("any"))


def policy(event: Any) -> Any:
    """Ask a person about each payment, and take the card's number out of it."""
    if event.get("activity_type") != "pay" or "status" in event:
        return None
    clean = json.loads(json.dumps(event["activity_input"]).replace(CARD, "[card]"))
    redacted = {"input_type": "activity_input", "redacted_input": clean}
    return {"verdict": "require_approval", "guardrails_result": redacted}


async def _work(url: str, core: str, paid: Path, limit: int, lease: float) -> None:
    rnd, ending = random.Random(), []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    with closing(open_fleet(url, lease_seconds=lease, timeout_seconds=0.5)) as fleet:
        governance = await create_openbox_agentrt(**_options(fleet, core, limit))
        while not ending:
            with suppress(GovernanceError):
                waiting = sorted(paid.parent.glob("*.checkpoint"))
                if len(waiting) < 4 or rnd.random() < 0.3:
                    await _begin(governance, paid)
                else:
                    await resume(governance, paid, rnd.choice(waiting))
        await governance.aclose()


def _options(fleet: Fleet, core: str, limit: int) -> dict[str, Any]:
    return {
        "environ": {},
        "api_url": core,
        "api_key": DEFAULT_API_KEY,
        "approval_mode": "pause",
        "contracts": [at_most_n_times("pay", limit, scope="fleet", per="month")],
        "fleet": fleet,
        "install_instrumentation": False,
    }


async def _begin(governance: Any, paid: Path) -> None:
    name = uuid.uuid4().hex
    loop = _loop(governance, paid, Call(name="pay", arguments={"to": name, "card": CARD}))
    result = await loop.run(AGENT, [ModelMessage("user", (ContentPart("text", f"Pay {name}."),))])
    if result.termination_reason == "waiting_for_approval":
        write_private(paid.parent / f"{name}.checkpoint", saved(result.messages).encode())


async def resume(governance: Any, paid: Path, checkpoint: Path) -> None:
    """Go on with a run, whoever has begun it, and keep it for others if nobody has decided yet."""
    try:
        text = checkpoint.read_text()  # noqa: ASYNC240 - there is nothing else in the loop
    except FileNotFoundError:
        return
    try:
        result = await _loop(governance, paid).run(AGENT, [], resume_checkpoint=loaded(text))
    except ApprovalRejectedError:
        # It was paid, or its yes was lost with a worker that had taken it.
        checkpoint.unlink(missing_ok=True)  # noqa: ASYNC240
        return
    if result.termination_reason == "completed":
        checkpoint.unlink(missing_ok=True)  # noqa: ASYNC240
    elif result.termination_reason == "waiting_for_approval":
        write_private(checkpoint, saved(result.messages).encode())


def _loop(governance: Any, paid: Path, *calls: Call) -> AgentLoop:
    async def handler(arguments: Any, cancellation_token: Any) -> str:
        pay(paid, f"{arguments['to']} {arguments['card']}".replace(" ", "/"))
        return "paid"

    tools = ToolRegistry()
    tools.register(ToolDefinition("pay", "Pay", {"type": "object"}), handler=handler)
    loop: AgentLoop = governance.govern_loop(
        AgentLoop(ScriptedProvider(*calls, "done", "done"), tool_registry=tools)
    )
    return loop


def work(url: str, paid: Path, limit: int, lease: float) -> None:
    """Be a worker until somebody ends it."""
    asyncio.run(_work(url, os.environ["TORTURE_CORE"], paid, limit, lease))


def spend_what_is_left(url: str, paid: Path, limit: int, lease: float) -> None:
    """Resume everything that still waits, until each is paid or refused for good."""
    asyncio.run(_resume_all(url, os.environ["TORTURE_CORE"], paid, limit, lease))


async def _resume_all(url: str, core: str, paid: Path, limit: int, lease: float) -> None:
    until = time.monotonic() + 60
    with closing(open_fleet(url, lease_seconds=lease, timeout_seconds=5)) as fleet:
        governance = await create_openbox_agentrt(**_options(fleet, core, limit))
        while (waiting := sorted(paid.parent.glob("*.checkpoint"))) and time.monotonic() < until:
            for checkpoint in waiting:
                with suppress(GovernanceError):
                    await resume(governance, paid, checkpoint)
        await governance.aclose()


class Person(threading.Thread):
    """Say yes once to each payment, and no to whoever asks about it again."""

    def __init__(self, core: LocalCore) -> None:
        super().__init__(daemon=True)
        self._core = core
        self._ending = threading.Event()
        self.said: set[str] = set()

    def run(self) -> None:
        while not self._ending.wait(0.05):
            for waiting in self._core.pending_approvals():
                name = waiting.event["activity_input"][0]["to"]
                if name in self.said:
                    self._core.reject(waiting, "once is enough")
                else:
                    self.said.add(name)
                    self._core.approve(waiting)

    def end(self) -> None:
        """Say nothing more."""
        self._ending.set()
        self.join()


@contextmanager
def a_person_and_core() -> Iterator[Person]:
    """Serve a Core that all workers ask, and somebody who decides."""
    core = LocalCore(policy)
    with running(core) as url:
        os.environ["TORTURE_CORE"] = url
        person = Person(core)
        person.start()
        yield person
        person.end()
