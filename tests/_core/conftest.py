"""A Core over HTTP that misbehaves on request, and connections to it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import pytest
from openbox_core.contracts.context import ActivityContext

from openbox_agentrt import lifecycle_events as events
from openbox_agentrt._core.connection import Connection, connect
from openbox_agentrt._core.gate import CoreGate
from openbox_agentrt.errors import GovernanceError
from openbox_agentrt.lifecycle_events import EventEnvelope, RunIdentity
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.options import GovernanceOptions
from openbox_agentrt.testing import FaultyCore


class Recorder:
    """A `HookRecorder` that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[GovernanceError, bool, ActivityContext | None]] = []
        self.over: GovernanceError | None = None

    def refused(self, error: GovernanceError, *, latches: bool, context: ActivityContext | None) -> None:
        self.told.append((error, latches, context))

    def cancelled(self, context: ActivityContext | None) -> GovernanceError | None:
        return self.over


class Connecting(Protocol):
    def __call__(self, **options: Any) -> Connection: ...


@pytest.fixture
def policy() -> dict[str, Any]:
    """What the Core behind `faulty` decides; a test changes it."""
    return {"decision": "ALLOW"}


@pytest.fixture
def faulty(policy: dict[str, Any]) -> Iterator[FaultyCore]:
    core = LocalCore(policy=lambda event: dict(policy))
    with FaultyCore(core) as server:
        yield server
    core.close()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def to(faulty: FaultyCore, recorder: Recorder) -> AsyncIterator[Connecting]:
    """Makes connections to `faulty`, and closes them in the end."""
    made: list[Connection] = []
    wiring = {"clock", "sleep", "now", "core"}

    def make(**given: Any) -> Connection:
        how = {name: given.pop(name) for name in wiring & set(given)}
        if "runtime" not in given and "core" not in given:
            given = {"api_url": faulty.url, "api_key": faulty.api_key, **given}
        options = GovernanceOptions.resolve(environ={}, **{"timeout_seconds": 5.0, **given})
        connection = connect(options, recorder, **how)
        made.append(connection)
        return connection

    yield make
    for connection in made:
        await connection.aclose()


@pytest.fixture
def gate(to: Connecting) -> CoreGate:
    return to().gate


@pytest.fixture
def run() -> RunIdentity:
    return RunIdentity.mint()


@pytest.fixture
def event(run: RunIdentity) -> Callable[[], EventEnvelope]:
    """Makes start events of a tool, each with an id of its own."""
    return lambda: events.tool_started(run, str(uuid.uuid4()), "refund", {"order": 7})
