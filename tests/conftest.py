"""
The check that runs after every test, and what tests of governed runs share.

Whatever happened in a test, what Core was told has to add up: every start that this package sent has
exactly one completion with the same id, and every run exactly one terminal event. It is looked at for each
`LocalCore` that a test made, when it is closed or when the test is over.
"""

from __future__ import annotations

import gc
import inspect
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import settings

from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.local_core import LocalCore

# How long one example takes says more about the machine than about the code. Everybody sees the same
# examples, so that a red test is somebody's change; `just explore` looks at others.
settings.register_profile("tests", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=500, print_blob=True)
settings.load_profile("tests")

# A shell lets what it runs in the background ignore interrupts, and so would what the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names of tests that differ in each process: the suite runs in several, which compare them."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"name the parameters of {item.nodeid!r}, which holds an address")


def pytest_collection_finish() -> None:
    # Ten thousand tests are there to the end: no collection of garbage has to look at them again.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust one certificate and not the world's, which each new client would read: 20 ms."""
    authority = tmp_path_factory.mktemp("authority") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(authority))
        yield


OWN_SDK = "openbox-agentrt-python-"

_cores: list[LocalCore] = []
_problems: list[str] = []


def unbalanced(core: LocalCore) -> list[str]:
    """What does not add up in `core`, of what this package sent."""
    own = [record.event for record in core.records() if record.caller.get("sdk", "").startswith(OWN_SDK)]
    workflows = {event.get("workflow_id") for event in own}
    problems: list[Any] = list(core.orphans())
    problems += core.open_workflows()
    return [str(problem) for problem in problems if problem.workflow_id in workflows]


def _watch_cores() -> None:
    made, closed = LocalCore.__init__, LocalCore.close

    def __init__(self: LocalCore, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        _cores.append(self)

    def close(self: LocalCore) -> None:
        if self in _cores:
            _cores.remove(self)
            _problems.extend(unbalanced(self))
        closed(self)

    LocalCore.__init__ = __init__  # type: ignore[method-assign]  # every core is watched, however it is made
    LocalCore.close = close  # type: ignore[method-assign]  # a closed core cannot be asked any more


_watch_cores()


@pytest.fixture(autouse=True)
def every_row_is_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test after which something is still open at Core, or was closed twice."""
    _cores.clear()
    _problems.clear()
    yield
    for core in tuple(_cores):
        core.close()  # which looks at it
    left = list(_problems)
    if request.node.get_closest_marker("leaves_rows_open") is None:
        assert not left, "\n".join(["core was told of things that do not add up:", *left])


@pytest.fixture
def balance() -> Callable[[LocalCore], list[str]]:
    """The check itself."""
    return unbalanced


class Stage:
    """A governance, and the local Core that it asks."""

    def __init__(self, governance: Any, core: LocalCore) -> None:
        self.governance = governance
        self.core = core

    def events(self, *types: str) -> list[dict[str, Any]]:
        """What Core was told, once each; of the given event types only, if there are any."""
        records = [record for record in self.core.records() if record.same_as is None]
        return [
            record.event
            for record in records
            if not record.event.get("spans") and (not types or record.event["event_type"] in types)
        ]

    def story(self) -> list[str]:
        """The same in short: ``ActivityStarted add``, ``ActivityCompleted add failed`` ..."""
        told = []
        for event in self.events():
            what = event.get("activity_type") or event.get("signal_name") or ""
            status = event.get("status", "") if event["event_type"] != "ActivityStarted" else ""
            told.append(" ".join(part for part in (event["event_type"], what, status) if part))
        return told

    def completed(self, activity_type: str) -> dict[str, Any]:
        """The one completion of an activity of this type."""
        (event,) = [e for e in self.events("ActivityCompleted") if e["activity_type"] == activity_type]
        return event


MakeStage = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def make_stage() -> AsyncIterator[MakeStage]:
    """Makes stages: ``await make_stage(policy, **options)``. They are closed after the test."""
    from openbox_agentrt import create_openbox_agentrt

    stages: list[Stage] = []

    async def make(policy: Any = None, *, core: LocalCore | None = None, **options: Any) -> Stage:
        core = LocalCore(policy) if core is None else core
        options.setdefault("install_instrumentation", False)
        governance = await create_openbox_agentrt(core=core, environ={}, **options)
        stages.append(Stage(governance, core))
        return stages[-1]

    yield make
    for stage in stages:
        await stage.governance.aclose()


class Kit:
    """Short ways to Agent-RT's values."""

    @staticmethod
    def user(text: str) -> Any:
        from agent_rt import ContentPart, ModelMessage

        return ModelMessage("user", (ContentPart("text", text),))

    @staticmethod
    def agent(name: str = "helper", **settings: Any) -> Any:
        from agent_rt import AgentConfig, ModelSettings

        return AgentConfig(name, "You help.", ModelSettings("model-1"), **settings)

    @staticmethod
    def definition(name: str, **fields: Any) -> Any:
        from agent_rt import ToolDefinition

        return ToolDefinition(name, f"does {name}", {"type": "object"}, **fields)

    @classmethod
    def registry(
        cls,
        tools: Mapping[str, Callable[..., Any]],
        *,
        fields: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        """A registry; a tool is a function of its arguments, which may be a coroutine function."""
        from agent_rt import ToolRegistry

        registry = ToolRegistry(**settings)
        for name, function in tools.items():
            registry.register(cls.definition(name, **(fields or {})), handler=cls.handler(function))
        return registry

    @staticmethod
    def handler(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def handler(arguments: Mapping[str, Any], token: object) -> Any:
            value = function(**arguments)
            return await value if inspect.isawaitable(value) else value

        return handler

    @staticmethod
    def call(name: str, arguments: Mapping[str, Any] | None = None, *, id: str = "call_1") -> Any:
        from agent_rt import ToolCall

        return ToolCall(id, name, arguments or {})

    @staticmethod
    def tool_errors(result: Any) -> list[Any]:
        """What the model was told instead of a tool's result."""
        return [
            part.data["error"]
            for message in result.messages
            if message.role == "tool"
            for part in message.content
            if isinstance(part.data, Mapping) and "error" in part.data
        ]


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
def dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure a proxy that nobody answers at, for every address."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """The file of a store that workers share."""
    return tmp_path / "fleet.db"


@pytest.fixture
def workers(store_path: Path) -> Iterator[Callable[..., SqliteFleet]]:
    """Make workers of one store, and close them. A busy machine gets the time that it needs."""
    with ExitStack() as opened:

        def worker(**options: Any) -> SqliteFleet:
            return opened.enter_context(
                closing(SqliteFleet(store_path, **{"timeout_seconds": 20, **options}))
            )

        yield worker
