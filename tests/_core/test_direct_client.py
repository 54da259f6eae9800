"""The short way to a Core in this process says the same as the long one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from openbox_core.contracts.results import Verdict
from openbox_core.errors import OpenBoxAuthError

from openbox_agentrt._core.connection import Connection, connect
from openbox_agentrt._core.direct_client import DirectClient
from openbox_agentrt._wire.run_identity import RunIdentity
from openbox_agentrt.errors import GovernanceUnavailableError
from openbox_agentrt.lifecycle_events import workflow_started
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


def connected(core: StubCore, **options: Any) -> Connection:
    settings = GovernanceOptions(core=core, on_api_error="fail_closed", gate_budget_seconds=0.05, **options)
    return connect(settings, NoRecorder())  # type: ignore[arg-type]  # no hook is installed that would call it


def event() -> Any:
    identity = RunIdentity.mint(
        task_queue="q",
        session_id="s",
        agent_name="a",
        parent_workflow_id=None,
        multi_agent_session_id=None,
    )
    return workflow_started(identity)


@pytest.fixture
def without_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HTTP client can be used."""

    async def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a gate went through httpx")

    monkeypatch.setattr("httpx.AsyncClient.send", refuse)


@pytest.mark.usefixtures("without_http")
async def test_a_gate_needs_no_http_library() -> None:
    """This fails as well when openbox_core no longer posts through what the client overrides."""
    core = StubCore()

    answer = await connected(core).gate.judge(event())

    assert answer.verdict is Verdict.ALLOW
    assert [(method, path) for method, path, _, _ in core.asked] == [("POST", "/api/v1/governance/evaluate")]


async def test_both_ways_carry_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body is openbox_core's own, and so are the headers that Core reads."""
    short, long, sent = StubCore(), StubCore(), event()
    await connected(short).gate.judge(sent)
    monkeypatch.setattr(DirectClient, "_async", DirectClient.__mro__[1]._async)  # type: ignore[attr-defined]  # private

    await connected(long).gate.judge(sent)

    (_, path, headers, body), (_, long_path, long_headers, long_body) = *short.asked, *long.asked
    assert path == long_path
    assert {**json.loads(body), "timestamp": None} == {**json.loads(long_body), "timestamp": None}
    assert headers.items() <= long_headers.items()
    assert {"authorization", "content-type", "x-openbox-sdk-version"} <= headers.keys()


@pytest.mark.usefixtures("without_http")
@pytest.mark.parametrize(
    ("core", "error"),
    [
        pytest.param(StubCore(401), OpenBoxAuthError, id="no key"),
        pytest.param(StubCore(422), GovernanceUnavailableError, id="not taken"),
        pytest.param(StubCore(503), GovernanceUnavailableError, id="outage"),
        pytest.param(StubCore(body=b"{"), GovernanceUnavailableError, id="half an answer"),
        pytest.param(BrokenCore(), GovernanceUnavailableError, id="it raises"),
    ],
)
async def test_what_is_no_answer_is_no_allow(core: StubCore, error: type[Exception]) -> None:
    """Fail-closed stays closed on the short way."""
    with pytest.raises(error):
        await connected(core).gate.judge(event())


@pytest.mark.usefixtures("without_http")
async def test_core_can_ask_to_wait() -> None:
    """``Retry-After`` is heard, however it is written: there is no time to wait, so it is asked once."""
    core = StubCore(429)
    core.answer = 429, {"Retry-After": "30"}, b"{}"

    with pytest.raises(GovernanceUnavailableError, match="HTTP 429"):
        await connected(core).gate.judge(event())

    assert len(core.asked) == 1
