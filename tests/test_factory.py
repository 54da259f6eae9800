"""Making a governance: mistakes are said in one line before anything is sent, and nothing is left open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from openbox_core.config import OpenBoxConfig
from openbox_core.context import ContextStore
from openbox_core.instrumentation import shared
from openbox_core.runtime import OpenBoxRuntime

from openbox_agentrt import OpenBoxAuthError, OptionError, create_openbox_agentrt
from openbox_agentrt._core.transport.wire import CoreTransport, LocalCoreTransport
from openbox_agentrt.local_core import DEFAULT_API_KEY, LocalCore
from openbox_agentrt.testing import FaultyCore

REMOTE: dict[str, Any] = {"api_url": "https://core.example", "api_key": "obx_test_key"}


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requests that would leave the process; mistakes must not make any."""
    sent: list[str] = []

    async def note(self: object, asked: Any) -> Any:
        sent.append(str(asked.url))
        raise AssertionError("a request was sent")

    monkeypatch.setattr(CoreTransport, "_carry_async", note)
    return sent


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        pytest.param({"api_url": "https://core.example"}, "'api_key' is required", id="no key"),
        pytest.param({"api_key": "obx_test_key"}, "'api_url' is required", id="no address"),
        pytest.param({**REMOTE, "api_key": "sk-123"}, "'api_key'", id="malformed key"),
        pytest.param({**REMOTE, "api_url": "http://core.example"}, "'api_url'", id="plain http"),
        pytest.param(
            {**REMOTE, "api_ur": "x"}, "'api_ur' is not known; did you mean 'api_url'", id="unknown option"
        ),
        pytest.param({**REMOTE, "validate": "perhaps"}, "'validate'", id="wrong type"),
        pytest.param({**REMOTE, "on_api_error": "fail_softly"}, "'on_api_error' must be", id="unknown value"),
        pytest.param(
            {**REMOTE, "contracts": "no-such-rules.yaml"}, "'contracts' cannot be used", id="no rules file"
        ),
        pytest.param({"core": "remote"}, "'core' must be", id="unknown core"),
    ],
)
async def test_a_mistake_is_one_line_that_names_it(
    options: dict[str, Any], culprit: str, no_network: list[str]
) -> None:
    """Before any network call, and without the key in it."""
    with pytest.raises(OptionError) as caught:
        await create_openbox_agentrt(environ={}, **options)

    message = str(caught.value)
    assert culprit in message
    assert "\n" not in message
    assert "sk-123" not in message
    assert no_network == []


@pytest.mark.parametrize("prefix", ["OPENBOX_AGENTRT", "OPENBOX"])
async def test_options_come_from_the_environment(prefix: str) -> None:
    """Either prefix will do."""
    environ = {f"{prefix}_API_URL": "https://core.example", f"{prefix}_API_KEY": "obx_test_key"}

    governance = await create_openbox_agentrt(environ=environ, validate=False, install_instrumentation=False)
    async with governance:
        assert governance.runtime.config.api_url == "https://core.example"
        assert governance.core is None


async def test_the_key_is_checked_at_start_up() -> None:
    """One that Core does not know is an error here and not at the first prompt."""
    with FaultyCore(core=LocalCore(api_key="obx_test_another")) as server, pytest.raises(OpenBoxAuthError):
        await create_openbox_agentrt(
            api_url=server.url, api_key="obx_test_wrong", environ={}, install_instrumentation=False
        )


async def test_the_check_can_be_left_out() -> None:
    """Then it is the first question that fails, under any policy."""

    async def ask() -> None:
        async with governance.run_scope("hello"):
            pytest.fail("ran")

    with FaultyCore(core=LocalCore(api_key="obx_test_another")) as server:
        governance = await create_openbox_agentrt(
            api_url=server.url,
            api_key="obx_test_wrong",
            environ={},
            validate=False,
            install_instrumentation=False,
        )
        async with governance:
            with pytest.raises(OpenBoxAuthError):
                await ask()


async def test_a_remote_core_is_asked_over_http(kit: Any) -> None:
    """The same over a socket: validated at start-up, and told of a run."""
    with FaultyCore() as server:
        governance = await create_openbox_agentrt(
            api_url=server.url, api_key=DEFAULT_API_KEY, environ={}, install_instrumentation=False
        )
        async with governance, governance.run_scope("hello"):
            pass

        assert server.core.events()[0]["event_type"] == "WorkflowStarted"


@pytest.fixture
def own_runtime() -> Iterator[tuple[OpenBoxRuntime, LocalCore]]:
    from openbox_core.client import EvaluationClient

    from openbox_agentrt._breaker import Breaker

    core = LocalCore()
    transport = LocalCoreTransport(core, breaker=Breaker(), on_unknown="block")
    client = EvaluationClient(
        "http://localhost", DEFAULT_API_KEY, transport=transport, async_transport=transport
    )
    config = OpenBoxConfig(api_url="http://localhost", api_key=DEFAULT_API_KEY, agent_name="FromRuntime")
    runtime = OpenBoxRuntime(config, client=client, context_store=ContextStore())
    yield runtime, core
    runtime.close()


async def test_an_injected_runtime_is_used(own_runtime: Any) -> None:
    """Its address, identity and agent name win."""
    runtime, core = own_runtime
    governance = await create_openbox_agentrt(runtime=runtime, environ={}, install_instrumentation=False)
    async with governance, governance.run_scope("hello"):
        pass

    assert governance.runtime is runtime
    assert {event["agent_name"] for event in core.events()} == {"FromRuntime"}


async def test_an_injected_runtime_is_not_closed_when_making_fails(
    own_runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not ours until there is a governance; then `aclose` closes it."""
    runtime, _ = own_runtime
    closed: list[bool] = []

    async def aclose() -> None:
        closed.append(True)

    monkeypatch.setattr(runtime, "aclose", aclose)
    monkeypatch.setattr(runtime.client, "avalidate_api_key", _refuse)

    with pytest.raises(OpenBoxAuthError):
        await create_openbox_agentrt(runtime=runtime, environ={}, install_instrumentation=False)
    assert closed == []
    governance = await create_openbox_agentrt(
        runtime=runtime, environ={}, validate=False, install_instrumentation=False
    )
    await governance.aclose()

    assert closed == [True]


async def _refuse() -> bool:
    raise OpenBoxAuthError("no")


async def test_what_was_opened_is_closed_when_making_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks, connections and an own local Core, also when it is cancelled halfway."""
    from openbox_agentrt._core.connection import Connection

    closed: list[LocalCore] = []
    close = LocalCore.close

    def note(self: LocalCore) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(LocalCore, "close", note)

    async def hang(self: Connection) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Connection, "validate", hang)
    making = asyncio.create_task(create_openbox_agentrt(core="local", environ={}))
    await asyncio.sleep(0.01)
    making.cancel()

    with pytest.raises(asyncio.CancelledError):
        await making
    assert len(closed) == 1
    assert shared.get_hook_runtime() is None


async def test_the_context_store_is_its_own() -> None:
    """Never the one that the process shares: closing one governance would clear the other's."""
    from openbox_core.context import default_context_store

    one = await create_openbox_agentrt(core=LocalCore(), environ={}, install_instrumentation=False)
    async with one:
        assert one.runtime.context_store is not default_context_store()


async def test_the_hooks_are_installed_and_removed() -> None:
    """One owner per process, and none after it has closed."""
    async with await create_openbox_agentrt(core=LocalCore(), environ={}):
        assert shared.get_hook_runtime() is not None

    assert shared.get_hook_runtime() is None


async def test_a_key_is_in_no_repr() -> None:
    """Neither of the governance nor of its options."""
    governance = await create_openbox_agentrt(
        **REMOTE, environ={}, validate=False, install_instrumentation=False
    )
    async with governance:
        shown = repr(governance) + repr(governance.options) + repr(governance.runtime.config)

    assert "obx_test_key" not in shown
    assert "https://core.example" in repr(governance)
