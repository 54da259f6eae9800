"""
Cancelling at every await point of a governed run, one after another.

Every task of the event loop is wrapped so that each of its suspensions is counted; at the n-th, the task of
the run is cancelled. Core is made to suspend before and after it answers, so that its requests are
interrupted halfway as well.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_rt import AgentLoop, AgentRunLimits, CancellationToken, ModelRequest, ModelStreamEvent

from openbox_agentrt import current_run
from openbox_agentrt._core.transport.direct import LocalLine
from openbox_agentrt._run.current import POSITION
from openbox_agentrt._run.runs import Runs
from openbox_agentrt.testing import Call, Reply, ScriptedProvider

MOST_POINTS = 400


@dataclass
class Reservations:
    """Contracts that allow everything, and know whether what they reserved was settled."""

    open: int = 0
    log: list[str] = field(default_factory=list)
    # Nothing names what a model says.
    _engine: Any = field(
        default_factory=lambda: types.SimpleNamespace(
            store=types.SimpleNamespace(book=types.SimpleNamespace(names_event=lambda event: False))
        )
    )

    def reserve(self, tool: str, args: Any = None, **asked: Any) -> Any:
        self.open += 1
        return _Reservation(self, tool)

    async def areserve(self, tool: str, args: Any = None, **asked: Any) -> Any:
        await asyncio.sleep(0)
        return self.reserve(tool, args, **asked)

    def has_conditions(self, tool: str) -> bool:
        return False

    def end_session(self) -> tuple[Any, ...]:
        return ()


@dataclass
class _Reservation:
    owner: Reservations
    tool: str
    allowed: bool = True
    step: int = 1
    refusal: Any = None
    violations: tuple[Any, ...] = ()
    lease: Any = None
    has_to_start: bool = False
    unanswered: bool = False
    alone: bool = False
    learnt: Any = None

    def recheck(self) -> bool:
        return True

    async def arecheck(self) -> bool:
        return True

    def commit(self, result: Any = None, **kwargs: Any) -> None:
        self._settle("commit")

    async def acommit(self, result: Any = None, **kwargs: Any) -> None:
        # Settled first, as the real one does: a commit that is interrupted has happened.
        self.commit(result, **kwargs)
        await asyncio.sleep(0)

    def replace_arguments(self, args: Any) -> None:
        """Nothing is learnt here."""

    def abort(self, error: Any = None, *, ran: bool = False, **final: Any) -> None:
        self._settle("abort ran" if ran else "abort")

    def _settle(self, how: str) -> None:
        self.owner.open -= 1
        self.owner.log.append(f"{self.tool} {how}")


class Interrupter:
    """Counts suspensions of all tasks, and calls `interrupt` at one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0
        self.interrupt: Callable[[], object] | None = None

    def factory(self, loop: Any, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(self._run(coro), loop=loop, **kwargs)
        # A task that is cancelled before its first step never touches what it wraps.
        task.add_done_callback(lambda _: coro.close())
        return task

    async def _run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return await self._steps(coro)

    @types.coroutine
    def _steps(self, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = coro.send(value) if error is None else coro.throw(error)
            except StopIteration as stop:
                return stop.value
            if self.interrupt is not None:
                self.seen += 1
                if self.seen == self.at:
                    self.interrupt()
            value, error = None, None
            try:
                value = yield waits_for
            except BaseException as thrown:  # noqa: BLE001
                # Handed on to the coroutine, which is where it belongs.
                error = thrown


@pytest.fixture(autouse=True)
def suspending_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Core suspends before it has heard, and again before it answers."""
    carry = LocalLine.carry

    async def slowly(self: LocalLine, *request: Any) -> Any:
        await asyncio.sleep(0)
        answer = await carry(self, *request)
        await asyncio.sleep(0)
        return answer

    monkeypatch.setattr(LocalLine, "carry", slowly)


@pytest.fixture
def contracts(monkeypatch: pytest.MonkeyPatch) -> Reservations:
    """Every run of the test has these contracts."""
    reservations = Reservations()
    open_run = Runs.open

    def with_contracts(self: Runs, **about: Any) -> Any:
        run: Any = open_run(self, **about)
        run.session = types.SimpleNamespace(
            kept=None,
            contracts=reservations,
            recorder=None,
            records_itself=True,
            shared=True,
            end=tuple,
            end_run=lambda run: (),
        )
        run.contracts = reservations
        return run

    monkeypatch.setattr(Runs, "open", with_contracts)
    return reservations


Scenario = Callable[[Any, Any], tuple[ScriptedProvider, Callable[[], Awaitable[Any]]]]


def two_tools(kit: Any, governance: Any, **limits: Any) -> tuple[ScriptedProvider, Any]:
    provider = ScriptedProvider(Reply(text="look up", calls=(Call(name="a"), Call(name="b"))), "done, it is")
    registry = kit.registry({"a": lambda: asyncio.sleep(0, 1), "b": lambda: asyncio.sleep(0, 2)})
    return provider, governance.govern_loop(AgentLoop(provider, tool_registry=registry))


def plain(kit: Any, governance: Any) -> Any:
    provider, loop = two_tools(kit, governance)
    return provider, lambda: loop.run(kit.agent(), [kit.user("go")])


def parallel(kit: Any, governance: Any) -> Any:
    provider, loop = two_tools(kit, governance)
    limits = AgentRunLimits(concurrent_tool_calls=True, timeout_seconds=30)
    return provider, lambda: loop.run(kit.agent(), [kit.user("go")], limits=limits)


def streamed(kit: Any, governance: Any) -> Any:
    provider, loop = two_tools(kit, governance)

    async def on_event(event: Any) -> None:
        await asyncio.sleep(0)

    return provider, lambda: loop.run_streaming(kit.agent(), [kit.user("go")], on_event)


def streamed_with_token(kit: Any, governance: Any) -> Any:
    provider, loop = two_tools(kit, governance)

    async def on_event(event: Any) -> None: ...

    return provider, lambda: loop.run_streaming(
        kit.agent(), [kit.user("go")], on_event, cancellation_token=CancellationToken()
    )


def nested(kit: Any, governance: Any) -> Any:
    inner = governance.govern_loop(AgentLoop(ScriptedProvider("inner says")))
    provider = ScriptedProvider(Call(name="ask"), "done")

    async def ask() -> str:
        await inner.run(kit.agent("inner"), [kit.user("inner question")])
        return "asked"

    loop = governance.govern_loop(AgentLoop(provider, tool_registry=kit.registry({"ask": ask})))
    return provider, lambda: loop.run(kit.agent(), [kit.user("go")])


def custom(kit: Any, governance: Any) -> Any:
    async def work() -> None:
        async with governance.run_scope("go"), governance.activity("send", {"x": 1}):
            await asyncio.sleep(0)

    return ScriptedProvider(), work


def approved(kit: Any, governance: Any) -> Any:
    provider = ScriptedProvider(Call(name="risky"), "done")
    loop = governance.govern_loop(AgentLoop(provider, tool_registry=kit.registry({"risky": lambda: 1})))

    async def with_a_person() -> Any:
        person = asyncio.create_task(approve_everything(governance.core))
        try:
            return await loop.run(kit.agent(), [kit.user("go")])
        finally:
            person.cancel()
            await asyncio.wait({person})

    return provider, with_a_person


async def approve_everything(core: Any) -> None:
    while True:
        for approval in core.pending_approvals():
            core.approve(approval)
        await asyncio.sleep(0)


def needs_a_person(event: dict[str, Any]) -> Any:
    return "REQUIRE_APPROVAL" if event.get("activity_type") == "risky" and "activity_input" in event else None


SCENARIOS = [plain, parallel, streamed, streamed_with_token, nested, custom, approved]


async def interrupted(
    make: Callable[[], Awaitable[Any]], at: int, *, governance: Any, twice: bool = False
) -> bool:
    """
    Run, and cancel at the n-th suspension.

    Returns:
        Whether there was an n-th suspension.
    """
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    interrupter = Interrupter(at)
    loop.set_task_factory(interrupter.factory)
    left: dict[str, Any] = {}

    async def body() -> Any:
        try:
            return await make()
        finally:
            left["run"], left["position"] = current_run(), POSITION.get()
            left["context"] = governance.runtime.context_store.current_activity_context()

    try:
        task = asyncio.create_task(body())

        def cancel() -> None:
            task.cancel()
            if twice:
                loop.call_soon(task.cancel)

        interrupter.interrupt = cancel
        outcome: Any = (await asyncio.gather(task, return_exceptions=True))[0]
        interrupter.interrupt = None
    finally:
        loop.set_task_factory(None)
    reached = interrupter.seen >= at
    if reached:
        assert isinstance(outcome, asyncio.CancelledError), f"the cancellation at {at} was lost: {outcome!r}"
    elif isinstance(outcome, BaseException):
        raise outcome
    await governance._runs.services.core.reports.settle(seconds=5)
    assert left == {"run": None, "position": None, "context": None}
    assert asyncio.all_tasks() - before == set(), f"tasks left behind at {at}"
    return reached


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
async def test_cancelling_at_every_point(
    make_stage: Any, kit: Any, balance: Any, contracts: Reservations, scenario: Any, twice: bool
) -> None:
    """No row stays open, no cancellation is lost; no task, ContextVar, stream or reservation is left."""
    stage = await make_stage(needs_a_person, approval_poll_interval_ms=1)
    for at in range(1, MOST_POINTS):
        provider, make = scenario(kit, stage.governance)
        reached = await interrupted(make, at, governance=stage.governance, twice=twice)

        assert balance(stage.core) == [], f"cancelled at {at}"
        assert provider.streams_opened == provider.streams_closed
        assert contracts.open == 0, f"cancelled at {at}: {contracts.log[-6:]}"
        assert stage.governance._runs.services.core.reports.pending == 0
        if not reached:
            break
    else:
        pytest.fail("the run has more points than the test looks at")
    assert at > 10, "the run was not interrupted: this test would pass without checking anything"


class _Cancelling(ScriptedProvider):
    """Cancel the run at the very end of the first stream, where Agent-RT loses that."""

    run: asyncio.Task[Any]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        async for event in super().stream(request):
            yield event
        self.run.cancel()


async def test_a_run_whose_cancellation_agent_rt_loses_starts_nothing_more(make_stage: Any, kit: Any) -> None:
    """The tools that the model has asked for are not called any more."""
    stage, paid = await make_stage(), []
    provider = _Cancelling(Call(name="pay"), Call(name="pay"), "done")
    registry = kit.registry({"pay": lambda: paid.append(1)})
    loop = stage.governance.govern_loop(AgentLoop(provider, tool_registry=registry))

    async def on_event(event: Any) -> None: ...

    provider.run = asyncio.create_task(
        loop.run_streaming(kit.agent(), [kit.user("go")], on_event, limits=AgentRunLimits(timeout_seconds=30))
    )
    with pytest.raises(asyncio.CancelledError):
        await provider.run

    assert paid == []
    assert stage.story()[-1] == "WorkflowFailed"
