"""Calls whose work begins after they have returned: they count when it has ended."""

import asyncio
import contextlib
import functools
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from openbox_agentrt.acel import ContractViolation, Session, Verdict, at_most_n_times, must_precede
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.doors.arguments import ChangedArgumentsError
from openbox_agentrt.doors.callables import guard


def make_session() -> Session:
    session = Session(contracts=[at_most_n_times("work", 1), must_precede("work", "next")])
    session.register_tool("work", postcondition=lambda state, result: result != "bad")
    return session


def counts(session: Session) -> bool:
    """Tell whether one call to `work` has used up the limit."""
    return not session.reserve("work").allowed


def allows(session: Session) -> bool:
    """Tell whether `work` is known to have been done."""
    return session.reserve("next").allowed


class Body:
    """Work of every kind that begins late, as one body."""

    def __init__(self, *, fails: bool = False, result: str = "good") -> None:
        self.ran = False
        self.fails = fails
        self.result = result

    def work(self) -> str:
        self.ran = True
        if self.fails:
            raise OSError("disk full")
        return self.result

    def rows(self) -> Iterator[str]:
        yield "first"
        return self.work()  # type: ignore[return-value]

    async def arows(self) -> AsyncIterator[str]:
        yield self.work()

    @contextlib.contextmanager
    def context(self) -> Iterator[str]:
        yield self.work()

    @contextlib.asynccontextmanager
    async def acontext(self) -> AsyncIterator[str]:
        yield self.work()

    def future(self) -> Future[str]:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.work)

    async def coroutine(self) -> str:
        await asyncio.sleep(0)
        return self.work()

    def task(self) -> "asyncio.Task[str]":
        return asyncio.get_running_loop().create_task(self.coroutine())


async def use_rows(made: Any) -> None:
    assert list(made) == ["first"]


async def use_arows(made: Any) -> None:
    assert [row async for row in made] == ["good"]


async def use_context(made: Any) -> None:
    with made as value:
        assert value == "good"


async def use_acontext(made: Any) -> None:
    async with made as value:
        assert value == "good"


async def use_future(made: Any) -> None:
    assert made.result(5) == "good"


async def use_awaitable(made: Any) -> None:
    assert await made == "good"


KINDS: dict[str, Callable[[Any], Any]] = {
    "rows": use_rows,
    "arows": use_arows,
    "context": use_context,
    "acontext": use_acontext,
    "future": use_future,
    "coroutine": use_awaitable,
    "task": use_awaitable,
}
LAZY = ["rows", "arows", "context", "acontext"]


async def end_context(made: Any) -> None:
    with made:
        pass


async def fail_inside(made: Any) -> None:
    if hasattr(made, "__enter__"):
        with made:
            raise KeyError
    async with made:
        raise KeyError


END = {**KINDS, "context": end_context}


@pytest.mark.parametrize("kind", KINDS)
async def test_it_counts_when_it_has_run(kind: str) -> None:
    """The work is done, its result handed on, and only then it allows what needs it."""
    session, body = make_session(), Body()
    made = guard(session, "work", getattr(body, kind))()

    assert session.in_flight == (0 if kind == "coroutine" else 1) or kind == "future"
    await KINDS[kind](made)

    assert body.ran
    assert session.in_flight == 0
    assert allows(session)
    assert counts(session)


@pytest.mark.parametrize("kind", KINDS)
async def test_work_that_fails_allows_nothing(kind: str) -> None:
    """It stays counted, since what it did before it failed is not known."""
    session, body = make_session(), Body(fails=True)
    made = guard(session, "work", getattr(body, kind))()

    with pytest.raises(OSError, match="disk full"):
        await KINDS[kind](made)

    assert session.in_flight == 0
    assert not allows(session)
    assert counts(session)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refused_call_makes_nothing(kind: str) -> None:
    """It is judged when it is made, and its body never begins."""
    session, body = Session(contracts=[at_most_n_times("work", 0)]), Body()

    with pytest.raises(ContractViolation):
        await KINDS[kind](guard(session, "work", getattr(body, kind))())

    assert not body.ran


@pytest.mark.parametrize("kind", LAZY)
async def test_what_is_dropped_before_it_began_has_not_happened(kind: str) -> None:
    """It uses up no limit."""
    session, body = make_session(), Body()
    made = guard(session, "work", getattr(body, kind))()
    del made
    gc.collect()

    assert not body.ran
    assert not counts(session)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("closes", [True, False])
async def test_an_awaitable_that_nobody_awaits_has_not_happened(closes: bool) -> None:
    """A plain function that gives one has been called, and its work has not begun."""
    session, body = make_session(), Body()
    made: Any = guard(session, "work", lambda: body.coroutine())()
    if closes:
        made.close()
    del made
    gc.collect()

    assert not body.ran
    assert not counts(session)


class Collecting(TemporalContract):
    """Have all that is garbage finalized while a call is judged, as may happen at any time."""

    def _step(self, tool: str, args: Any) -> Verdict:
        gc.collect()
        return Verdict.UNKNOWN


@pytest.mark.parametrize("kind", LAZY)
def test_what_is_dropped_while_another_call_is_judged(kind: str) -> None:
    """Nothing waits for itself, and what is dropped in a circle is settled once."""
    session = Session(contracts=[Collecting("collecting"), at_most_n_times("work", 1)])
    made = guard(session, "work", getattr(Body(), kind))()
    made.circle = made
    del made
    told: list[bool] = []
    judging = threading.Thread(target=lambda: told.append(session.reserve("other").allowed), daemon=True)
    judging.start()
    judging.join(60)

    assert told == [True]
    assert not counts(session)
    gc.collect()
    assert session.in_flight == 0


@pytest.mark.parametrize("kind", ["rows", "arows"])
async def test_what_is_closed_half_way_stays_counted(kind: str) -> None:
    """Nobody saw it end, so it allows nothing."""
    session = make_session()

    def rows() -> Iterator[int]:
        yield from (1, 2)

    async def arows() -> AsyncIterator[int]:
        yield 1
        yield 2

    if kind == "rows":
        made: Any = guard(session, "work", rows)()
        assert next(made) == 1
        made.close()
    else:
        made = guard(session, "work", arows)()
        assert await anext(made) == 1
        await made.aclose()

    assert counts(session)
    assert not allows(session)


async def test_an_error_in_the_body_of_a_context_is_a_failure() -> None:
    """Unless the context deals with it."""
    for make in (Body().context, Body().acontext):
        session = make_session()
        made: Any = guard(session, "work", make)()
        with pytest.raises(KeyError):
            await fail_inside(made)

        assert counts(session)
        assert not allows(session)


def test_a_context_that_deals_with_an_error_is_done() -> None:
    """Its work has ended as it should."""
    session = make_session()

    @contextlib.contextmanager
    def forgiving() -> Iterator[str]:
        with contextlib.suppress(KeyError):
            yield "good"

    with guard(session, "work", forgiving)():
        raise KeyError

    assert allows(session)


@pytest.mark.parametrize("kind", ["rows", "context", "future", "task"])
async def test_a_result_that_breaks_a_postcondition_is_withheld(kind: str) -> None:
    """The violation is raised where the work ends."""
    session, body = make_session(), Body(result="bad")
    made: Any = guard(session, "work", getattr(body, kind))()

    with pytest.raises(ContractViolation):
        await END[kind](made)

    assert not allows(session)


def test_values_go_both_ways() -> None:
    """A generator gets what is sent to it and gives what it returns; what is thrown into it arrives."""

    def echo() -> Any:
        got = yield "ready"
        try:
            yield got
        except KeyError:
            yield "caught"
        return "end"

    made = guard(Session(), "work", echo)()
    assert (next(made), made.send(5), made.throw(KeyError())) == ("ready", 5, "caught")
    with pytest.raises(StopIteration) as stopped:
        next(made)
    assert stopped.value.value == "end"


def test_an_error_thrown_before_the_beginning() -> None:
    """The body has not run."""
    session = make_session()
    made: Any = guard(session, "work", Body().rows)()

    with pytest.raises(KeyError):
        made.throw(KeyError())

    assert not counts(session)


def test_a_future_that_is_cancelled_in_time_has_not_happened() -> None:
    """Its work never began."""
    session, work = make_session(), Future[str]()
    made: Any = guard(session, "work", lambda: work)()

    assert made.cancel()

    assert made.cancelled()
    assert not counts(session)


async def test_a_task_counts_though_nobody_waits_for_it() -> None:
    """It runs by itself."""
    session, body = make_session(), Body()
    made = guard(session, "work", body.task)()
    await asyncio.sleep(0.01)

    assert body.ran
    assert allows(session)
    assert await made == "good"


@pytest.mark.parametrize("wrap", [functools.partial, lambda func: lambda: func()])
def test_through_a_partial_and_a_plain_function(wrap: Callable[..., Any]) -> None:
    """What comes back decides, and not what the function looks like."""
    session = make_session()

    assert list(guard(session, "work", wrap(Body().rows))()) == ["first"]

    assert allows(session)


def rows(items: list[str]) -> Iterator[str]:
    yield from items


async def arows(items: list[str]) -> AsyncIterator[str]:
    for item in items:
        yield item


async def joined(items: list[str]) -> str:
    return " ".join(items)


@contextlib.contextmanager
def opened(items: list[str]) -> Iterator[list[str]]:
    yield items


@contextlib.asynccontextmanager
async def aopened(items: list[str]) -> AsyncIterator[list[str]]:
    yield items


async def enter(context: Any) -> Any:
    async with context as entered:
        return entered


def given_later(items: list[str]) -> Any:
    """A function that is not async and gives a coroutine."""
    return joined(items)


async def gives_rows(items: list[str]) -> Any:
    """An async function that gives a generator."""
    return arows(items)


BEGINS_LATER = [
    pytest.param(rows, lambda work: list(work), id="a generator"),
    pytest.param(arows, lambda work: asyncio.run(anext(work)), id="an async generator"),
    pytest.param(given_later, asyncio.run, id="a coroutine"),
    pytest.param(opened, lambda work: work.__enter__(), id="a context manager"),
    pytest.param(aopened, lambda work: asyncio.run(enter(work)), id="an async context manager"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("func", "begin"), BEGINS_LATER)
def test_what_is_changed_before_the_work_begins_does_not_run(func: Any, begin: Any) -> None:
    """It is not what was judged. The call has not happened, so it uses up nothing."""
    session = make_session()
    items = ["milk"]
    work = guard(session, "work", func)(items)

    items.append("everything")
    with pytest.raises(ChangedArgumentsError, match="work"):
        begin(work)

    assert session.reserve("work").allowed


@pytest.mark.parametrize(("func", "begin"), BEGINS_LATER)
def test_what_is_changed_back_runs(func: Any, begin: Any) -> None:
    """What it holds when it begins is what counts."""
    session = make_session()
    items = ["milk"]
    work = guard(session, "work", func)(items)

    items.append("everything")
    items.pop()
    begin(work)

    del work
    gc.collect()
    assert counts(session)


async def test_what_an_async_function_gives_begins_later_too() -> None:
    """Its arguments are those of the function."""
    items = ["milk"]
    work = await guard(make_session(), "work", gives_rows)(items)

    items.append("everything")
    with pytest.raises(ChangedArgumentsError):
        await anext(work)
