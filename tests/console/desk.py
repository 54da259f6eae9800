"""A console that is served, with the Core that it looks at."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page

from openbox_agentrt.console import Place, Sources, running_console
from openbox_agentrt.local_core import LocalCore

__all__ = ("Desk", "OpenDesk", "OpenPage", "asks_a_person", "opened_desk")


def asks_a_person(event: dict[str, Any]) -> Any:
    """A policy: refunds, mails and closed accounts need a person."""
    if event["event_type"] == "ActivityStarted" and event["activity_type"] in ("refund", "mail", "close"):
        return {"decision": "REQUIRE_APPROVAL", "reason": "refunds over 100 need a person"}
    return None


class Desk:
    """
    A console, with the Core that it looks at.

    Attributes:
        core: The Core, which writes the file.
        url: Where the console is.
        links: The links that the terminal has shown.
    """

    def __init__(self, core: LocalCore, sources: Sources) -> None:
        self.core = core
        self.sources = sources
        self.links: list[str] = []
        self._served = ExitStack()

    def serve(self, port: int = 0) -> None:
        """Serve the console, until `stop`."""
        served = running_console(self.sources, Place(port=port), on_link=self.links.append)
        self._served.enter_context(served)

    def stop(self) -> None:
        """Stop serving it. May be called twice."""
        self._served.close()

    @property
    def url(self) -> str:
        return self.links[0].partition("/sign-in")[0]

    def post(self, run: str = "run-1", **fields: Any) -> dict[str, Any]:
        """Send an event as an SDK does, and give the answer."""
        event = {
            "source": "workflow-telemetry",
            "workflow_id": f"workflow-of-{run}",
            "run_id": run,
            "workflow_type": "refund-desk",
            "task_queue": "q",
            "agent_name": "refund-desk",
            "session_id": "s-1",
            "timestamp": "2027-02-11T03:01:18Z",
            **fields,
        }
        headers = {"authorization": f"Bearer {self.core.api_key}"}
        status, _, answer = self.core.handle(
            "POST", "/api/v1/governance/evaluate", headers, json.dumps(event).encode()
        )
        assert status == 200, answer
        said: dict[str, Any] = json.loads(answer)
        return said

    def start(self, run: str = "run-1", prompt: str = "My kettle came cracked.") -> None:
        """Begin a run with a prompt."""
        self.post(run, event_type="WorkflowStarted")
        self.post(run, event_type="SignalReceived", signal_name="user_prompt", signal_args=[prompt])

    def ask(self, tool: str, arguments: dict[str, Any], *, run: str = "run-1", activity: str = "a-1") -> str:
        """Ask about a tool call, and give the id of the approval that it waits for."""
        answer = self.post(
            run,
            event_type="ActivityStarted",
            activity_id=activity,
            activity_type=tool,
            activity_input=[arguments, {"__openbox": {"side_effect": "write"}}],
        )
        return str(answer.get("approval_id", ""))

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """Sign a program in."""
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=30) as client:
            assert client.get(self.links[-1]).status_code == 200
            yield client


def opened_desk(
    opened: ExitStack,
    db: Path,
    policy: Any = asks_a_person,
    *,
    port: int = 0,
    clock: Callable[[], float] = time.time,
    **options: Any,
) -> Desk:
    """Serve a console over a new database, until `opened` is closed."""
    core = opened.enter_context(LocalCore(policy, db, approval_seconds=600, clock=clock))
    sources = Sources.open(core, db, who="night-desk", **options)
    opened.callback(sources.close)
    desk = Desk(core, sources)
    opened.callback(desk.stop)
    desk.serve(port)
    return desk


OpenDesk = Callable[..., Desk]
OpenPage = Callable[..., Page]
