"""The short way to a Core in this process says the same as the long one."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from openbox_core.contracts.events import EventEnvelope, EventType
from openbox_core.contracts.results import Verdict
from openbox_core.errors import OpenBoxAuthError

from openbox_agentrt._core.connection import Connection, connect
from openbox_agentrt._options.in_process import InProcessCore
from openbox_agentrt._wire.identity import RunIdentity
from openbox_agentrt.errors import GovernanceUnavailableError
from openbox_agentrt.lifecycle_events import tool_started, workflow_started
from openbox_agentrt.local_core import LocalCore
from openbox_agentrt.options import GovernanceOptions


class StubCore:
    """A Core that gives one answer, and keeps what it was asked."""

    api_key = "obx_test_stub"

    def __init__(self, status: int = 200, body: bytes = b'{"verdict": "allow"}') -> None:
        self.answer: tuple[int, dict[str, str], bytes] = status, {}, body
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append((method, path, {name.lower(): value for name, value in headers.items()}, body))
        return self.answer


class BrokenCore(StubCore):
    """A Core that raises, which the real one never does."""

    def handle(self, *args: Any) -> Any:
        raise OSError("gone")


class NoRecorder:
    def record_hook(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is hooked here."""


def connected(core: InProcessCore, *, budget: float = 0.05, **options: Any) -> Connection:
    settings = GovernanceOptions(core=core, on_api_error="fail_closed", gate_budget_seconds=budget, **options)
    return connect(settings, NoRecorder())  # type: ignore[arg-type]  # no hook is installed that would call it


def identity(agent_name: str = "a") -> RunIdentity:
    return RunIdentity.mint(task_queue="q", session_id="s", agent_name=agent_name)


def event() -> EventEnvelope:
    return workflow_started(identity())


@pytest.fixture
def without_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HTTP client can be used."""

    async def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a gate went through httpx")

    monkeypatch.setattr("httpx.AsyncClient.send", refuse)


@pytest.mark.usefixtures("without_http")
async def test_a_gate_needs_no_http_library() -> None:
    """Nothing is parsed, merged or pooled on the way to a Core in this process."""
    core = StubCore()

    answer = await connected(core).gate.judge(event())

    assert answer.verdict is Verdict.ALLOW
    assert [(method, path) for method, path, _, _ in core.asked] == [("POST", "/api/v1/governance/evaluate")]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(workflow_started(identity()), id="the start of a run"),
        pytest.param(
            tool_started(identity(), "a1", "größe", {"text": "é\u2028</", "deep": [{"n": 1.5}, None, True]}),
            id="a tool call",
        ),
        pytest.param(workflow_started(identity(agent_name="half a \ud83d")), id="half a character"),
    ],
)
async def test_both_ways_say_the_same(sent: EventEnvelope) -> None:
    """What is written here is what openbox_core would have written, and so are the headers."""
    short, long = StubCore(), StubCore()
    await connected(short).gate.judge(sent)
    slow = connected(long)
    client: Any = slow.runtime.client
    client.asks = False  # as if it did: then openbox_core makes the request

    await slow.gate.judge(sent)

    (_, path, headers, body), (_, long_path, long_headers, long_body) = *short.asked, *long.asked
    assert path == long_path
    assert {**json.loads(body), "timestamp": None} == {**json.loads(long_body), "timestamp": None}
    assert json.loads(body)["timestamp"] is not None
    assert headers == long_headers
    assert {"authorization", "content-type", "x-openbox-sdk-version"} <= headers.keys()


async def test_a_request_that_is_signed_is_made_by_openbox_core() -> None:
    """The signature covers the bytes, so whoever signs also writes."""
    core = StubCore()
    key = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()

    await connected(
        core, agent_did="did:aip:6ba7b810-9dad-41d1-80b4-00c04fd430c8", agent_private_key=key
    ).gate.judge(event())

    ((_, _, headers, body),) = core.asked
    assert headers["x-openbox-body-sha256"] == hashlib.sha256(body).hexdigest()
    assert "x-openbox-agent-signature" in headers


DID = "did:aip:6ba7b810-9dad-41d1-80b4-00c04fd430c8"


def ed25519() -> str:
    return base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(workflow_started(identity()), id="the start of a run"),
        pytest.param(tool_started(identity(), "a1", "größe", {"text": "é", "n": [1.5]}), id="a tool call"),
    ],
)
async def test_both_ways_sign_the_same(sent: EventEnvelope) -> None:
    """What openbox_core would have signed, but for the time and the nonce."""
    short, long = StubCore(), StubCore()
    key = ed25519()
    await connected(short, agent_did=DID, agent_private_key=key).gate.judge(sent)
    slow = connected(long, agent_did=DID, agent_private_key=key)
    client: Any = slow.runtime.client
    client.asks = False  # then openbox_core makes the request

    await slow.gate.judge(sent)

    (_, path, headers, body), (_, long_path, long_headers, long_body) = *short.asked, *long.asked
    assert path == long_path
    assert {**json.loads(body), "timestamp": None} == {**json.loads(long_body), "timestamp": None}
    assert headers.keys() == long_headers.keys()


async def test_a_signature_that_core_rejects_says_why() -> None:
    """Core's machine code is in the error, which is raised as it is."""
    core = StubCore(401, b'{"reason_code": "nonce_replayed"}')

    with pytest.raises(OpenBoxAuthError, match="nonce"):
        await connected(core, agent_did=DID, agent_private_key=ed25519()).gate.judge(event())


async def test_keys_that_openbox_core_redacts_are_redacted() -> None:
    """Its privacy settings hold on the short way as well."""
    core = StubCore()
    connection = connected(core)
    object.__setattr__(connection.runtime.config.privacy, "redact_keys", frozenset({"password"}))

    await connection.gate.judge(tool_started(identity(), "a1", "login", {"Password": "hunter2"}))

    assert b"hunter2" not in core.asked[0][3]


async def test_what_openbox_core_would_not_send_is_not_sent() -> None:
    """Its strict rules come before the request; nothing of it is an ALLOW."""
    core = StubCore()
    nobody = EventEnvelope(event_type=EventType.WORKFLOW_STARTED, payload={"workflow_id": "w"})

    with pytest.raises(GovernanceUnavailableError, match="run_id"):
        await connected(core).gate.judge(nobody)
    assert core.asked == []


async def test_core_is_asked_outside_the_activity() -> None:
    """What it does - a query, a request - is not the agent's, and must not be governed as if it were."""
    bound: ContextVar[str] = ContextVar("bound", default="nothing")
    seen: list[str] = []

    class Looking(StubCore):
        def handle(self, *request: Any) -> Any:
            seen.append(bound.get())
            return super().handle(*request)

    bound.set("an activity")
    await connected(Looking()).gate.judge(event())

    assert seen == ["nothing"]


@pytest.mark.leaves_rows_open
async def test_a_policy_is_asked_outside_the_activity() -> None:
    """So is one that may take its time."""
    bound: ContextVar[str] = ContextVar("bound", default="nothing")
    seen: list[str] = []

    bound.set("an activity")
    with LocalCore(lambda event: seen.append(bound.get())) as core:
        await connected(core, budget=5).gate.judge(event())

    assert seen == ["nothing"]


@pytest.mark.leaves_rows_open
async def test_a_policy_that_takes_too_long_is_an_outage() -> None:
    """The budget of a gate counts for a Core in this process too, and other tasks run meanwhile."""
    others = asyncio.create_task(asyncio.sleep(0.01))
    done = threading.Event()

    def policy(event: dict[str, Any]) -> None:
        done.wait(5)

    with LocalCore(policy) as core:
        with pytest.raises(GovernanceUnavailableError, match="no answer within"):
            await connected(core, budget=0.1).gate.judge(event())
        done.set()

    assert others.done()


@pytest.mark.usefixtures("without_http")
@pytest.mark.parametrize(
    ("core", "error"),
    [
        pytest.param(StubCore(401), OpenBoxAuthError, id="no key"),
        pytest.param(StubCore(422), GovernanceUnavailableError, id="not taken"),
        pytest.param(StubCore(503), GovernanceUnavailableError, id="outage"),
        pytest.param(BrokenCore(), GovernanceUnavailableError, id="it raises"),
    ],
)
async def test_what_is_no_answer_is_no_allow(core: StubCore, error: type[Exception]) -> None:
    """Fail-closed stays closed on the short way."""
    with pytest.raises(error):
        await connected(core).gate.judge(event())


@pytest.mark.usefixtures("without_http")
async def test_core_can_ask_to_wait() -> None:
    """``Retry-After`` is heard, however it is written: it is waited for within the budget."""
    core = StubCore(429)
    core.answer = 429, {"Retry-After": "30"}, b"{}"

    with pytest.raises(GovernanceUnavailableError, match="HTTP 429"):
        await connected(core, budget=0.5).gate.judge(event())

    assert len(core.asked) == 2


@pytest.mark.usefixtures("without_http")
async def test_what_a_core_does_to_the_headers_is_its_own_affair() -> None:
    """Each request has headers of its own."""

    class Taking(StubCore):
        def handle(self, method: str, path: str, headers: Any, body: bytes) -> Any:
            self.asked.append((method, path, dict(headers), body))
            headers.clear()
            return self.answer

    core = Taking()
    gate = connected(core).gate
    await gate.judge(event())
    await gate.judge(event())

    (_, _, first, _), (_, _, second, _) = core.asked
    assert first == second != {}


@pytest.mark.usefixtures("without_http")
async def test_a_core_without_headers_is_an_outage_where_it_says_so() -> None:
    """Nothing but the status counts."""
    core: Any = StubCore(503)
    core.answer = 503, None, b""

    with pytest.raises(GovernanceUnavailableError, match="HTTP 503"):
        await connected(core).gate.judge(event())


@pytest.mark.usefixtures("without_http")
async def test_an_empty_time_is_none() -> None:
    """Then the event says when it was sent, as without one."""
    core = StubCore()

    await connected(core).gate.judge(workflow_started(identity(), timestamp=""))

    assert json.loads(core.asked[0][3])["timestamp"].endswith("Z")


@pytest.mark.usefixtures("without_http")
async def test_what_cannot_be_written_is_not_let_through() -> None:
    """An event inside itself never comes from here; if it did, it would be refused."""
    payload: dict[str, Any] = {"workflow_id": "w", "run_id": "r", "workflow_type": "t"}
    payload["itself"] = payload
    core = StubCore()

    with pytest.raises(GovernanceUnavailableError):
        await connected(core).gate.judge(
            EventEnvelope(event_type=EventType.WORKFLOW_STARTED, payload=payload)
        )
    assert core.asked == []
