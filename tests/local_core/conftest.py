"""Shared by the tests of the local Core."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.local_core import DEFAULT_API_KEY, LocalCore

HEADERS = {"Authorization": f"Bearer {DEFAULT_API_KEY}"}
EVALUATE = "/api/v1/governance/evaluate"
APPROVAL = "/api/v1/governance/approval"


class Talk:
    """A local Core, and short ways to talk to it."""

    def __init__(self, core: LocalCore) -> None:
        self.core = core

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, answer = self.core.handle("POST", path, HEADERS, raw)
        return status, json.loads(answer)

    def send(self, event_type: str = "ActivityStarted", /, **fields: Any) -> dict[str, Any]:
        """Send an event, and return the answer; it has to be a 200."""
        status, answer = self.post(EVALUATE, event(event_type, **fields))
        assert status == 200, answer
        return dict(answer)

    def poll(self, activity_id: str = "a1", **fields: Any) -> dict[str, Any]:
        ids = {"workflow_id": "wf", "run_id": "run", "activity_id": activity_id, **fields}
        status, answer = self.post(APPROVAL, ids)
        assert status == 200, answer
        return dict(answer)


def event(event_type: str = "ActivityStarted", /, **fields: Any) -> dict[str, Any]:
    """A valid event; a field that is ``...`` is left out."""
    body: dict[str, Any] = {
        "source": "workflow-telemetry",
        "event_type": event_type,
        "workflow_id": "wf",
        "run_id": "run",
        "workflow_type": "Agent",
        "task_queue": "agentrt",
        "timestamp": "2026-01-02T03:04:05.678Z",
    }
    if event_type.startswith("Activity"):
        body |= {"activity_id": "a1", "activity_type": "refund"}
    if event_type == "ActivityStarted":
        body["activity_input"] = [{"amount": 5}]
    if event_type == "SignalReceived":
        body |= {"signal_name": "user_prompt", "signal_args": ["hello"]}
    body |= fields
    return {key: value for key, value in body.items() if value is not ...}


@pytest.fixture(params=["memory", "file"])
def kept_in(request: pytest.FixtureRequest) -> str:
    """Where a Core keeps things."""
    return str(request.param)


@pytest.fixture
def make(kept_in: str, tmp_path: Path) -> Iterator[Callable[..., Talk]]:
    """Builds local Cores that are closed at the end of the test; wherever they keep things, they behave."""
    made: list[LocalCore] = []

    def build(policy: Any = None, **options: Any) -> Talk:
        if kept_in == "file":
            options.setdefault("path", tmp_path / f"made-{len(made)}.sqlite3")
        core = LocalCore(policy, **options)
        made.append(core)
        return Talk(core)

    yield build
    for core in made:
        core.close()


@pytest.fixture
def event_of() -> Callable[..., dict[str, Any]]:
    """Makes a valid event."""
    return event
