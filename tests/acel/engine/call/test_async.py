"""The async path: what has to be awaited is, and a cancelled call is settled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openbox_agentrt.acel import (
    ContractViolation,
    Session,
    at_most_n_times,
    at_most_total,
    matching,
    must_precede,
    postcondition,
    precondition,
)


async def test_an_async_tool_is_run_and_committed() -> None:
    """As with `call`."""
    session = Session(contracts=[must_precede("x", "y")])

    async def tool(a: int) -> int:
        await asyncio.sleep(0)
        return a + 1

    assert await session.acall("x", {"a": 1}, run=tool) == 2
    assert await session.acall("y", {"a": 1}, run=lambda a: a) == 1
    assert await session.acall("z", result=5) == 5
    assert [row["result"] for row in session.trace] == [2, 1, 5]


async def test_a_refused_call_does_not_run() -> None:
    """And is raised or returned as with `call`."""
    session = Session(contracts=[at_most_n_times("x", 0)])
    lenient = Session(halt_on_violation=False, contracts=[at_most_n_times("x", 0)])

    with pytest.raises(ContractViolation):
        await session.acall("x", run=lambda: pytest.fail("it ran"))
    assert (await lenient.acall("x", run=lambda: pytest.fail("it ran"))).kind == "temporal"


@pytest.mark.parametrize("holds", [True, False])
async def test_async_conditions_are_awaited(holds: bool) -> None:
    """Before, after, and when a result becomes state; from decorators as well."""

    async def before(state: Any, args: Any) -> bool:
        await asyncio.sleep(0)
        return holds

    async def after(state: Any, result: str) -> bool:
        await asyncio.sleep(0)
        return result == "good"

    async def commit(state: Any, args: Any, result: Any) -> None:
        await asyncio.sleep(0)
        state.set("r", result)

    @precondition(before)
    @postcondition(after)
    def x() -> None: ...

    session = Session(halt_on_violation=False)
    session.register(x, commit=commit)

    outcome = await session.acall("x", result="good")

    if holds:
        assert outcome == "good"
        assert session.state["r"] == "good"
        assert (await session.acall("x", result="bad")).kind == "postcondition"
        assert session.state["r"] == "good"
    else:
        assert outcome.kind == "precondition"


async def test_the_same_conditions_are_refused_on_the_synchronous_path() -> None:
    """A coroutine is not a truth value."""

    async def yes(*_: Any) -> bool:
        return True

    session = Session()
    session.register_tool("x", precondition=yes)

    assert not session.reserve("x").allowed
    reservation = await session.areserve("x")
    assert reservation.allowed
    await reservation.acommit()


async def test_faults_on_the_async_path() -> None:
    """A condition that raises does not hold; a commit that raises fails the call."""

    async def boom(*_: Any) -> bool:
        raise RuntimeError

    async def half(state: Any, args: Any, result: Any) -> None:
        state.set("half", 1)
        raise RuntimeError

    session = Session(halt_on_violation=False)
    session.register_tool("a", precondition=boom)
    session.register_tool("b", postcondition=boom)
    session.register_tool("c", commit=half)
    session.register_tool("d", precondition=lambda s: False)

    found = [await session.acall(tool) for tool in "abcd"]

    assert [v.fault for v in found] == [
        "the predicate raised RuntimeError",
        "the predicate raised RuntimeError",
        "the commit raised RuntimeError",
        None,
    ]
    assert "half" not in session.state


async def test_async_results_in_shadow_mode() -> None:
    """A bad result is recorded, becomes state, and is passed on."""

    async def no(*_: Any) -> bool:
        return False

    session = Session(mode="shadow")
    session.register_tool("x", precondition=no, postcondition=no, commit=lambda s, a, r: s.set("r", r))

    assert await session.acall("x", result=3) == 3
    assert [v.kind for v in session.violations] == ["precondition", "postcondition"]
    assert session.state["r"] == 3


async def test_a_tool_that_raises_has_failed() -> None:
    """It stays counted where it limits."""
    session = Session(contracts=[at_most_n_times("x", 1), must_precede("x", "y")])

    async def tool() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await session.acall("x", run=tool)
    assert not session.reserve("x").allowed
    assert not session.reserve("y").allowed
    assert session.in_flight == 0


@pytest.mark.parametrize("where", ["precondition", "tool", "postcondition", "commit"])
async def test_a_cancelled_call_is_settled(where: str) -> None:
    """Wherever it is cancelled; before it was let through it has taken nothing."""
    reached = asyncio.Event()

    def stage(name: str) -> Any:
        async def wait(*_: Any) -> bool:
            if name == where:
                reached.set()
                await asyncio.Event().wait()
            return True

        return wait

    session = Session(contracts=[at_most_n_times("x", 1), must_precede("x", "y")])
    session.register_tool(
        "x", precondition=stage("precondition"), postcondition=stage("postcondition"), commit=stage("commit")
    )
    task = asyncio.create_task(session.acall("x", run=stage("tool")))
    await reached.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.in_flight == 0
    assert not session.reserve("y").allowed
    other = await session.areserve("x") if where != "precondition" else None
    assert other is None or not other.allowed


async def test_what_ran_counts_also_where_its_end_is_cancelled() -> None:
    """It is an unknown outcome of the arguments that ran, not of those that were judged."""
    reached = asyncio.Event()

    async def wait(*_: Any) -> bool:
        reached.set()
        await asyncio.Event().wait()
        return True

    push = at_most_n_times(matching("Bash", "push"), 1)
    session = Session(contracts=[push])
    session.register_tool("Bash", postcondition=wait)
    call = await session.areserve("Bash", {"command": "ls"})
    task = asyncio.create_task(call.acommit(args={"command": "git push"}))
    await reached.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (await session.areserve("Bash", {"command": "git push"})).allowed


async def test_a_task_that_dies_with_its_reservation() -> None:
    """It is settled as an unknown outcome once nobody holds it."""
    session = Session(contracts=[at_most_n_times("x", 2)])

    async def dies() -> None:
        reservation = session.reserve("x")
        assert reservation.allowed
        raise KeyError

    with pytest.raises(KeyError):
        await dies()

    assert session.in_flight == 0
    assert session.reserve("x").allowed
    assert not session.reserve("x").allowed


async def test_sixty_four_tasks_never_pass_a_limit() -> None:
    """And each that failed or never ran gave back exactly what it took."""
    session = Session(
        contracts=[
            at_most_n_times("pay", 10, refund_on_failure=True),
            at_most_total("pay", "n", 30, refund_on_failure=True),
        ]
    )
    running = most = done = 0

    async def caller(number: int) -> None:
        nonlocal running, most, done
        for attempt in range(20):
            reservation = session.reserve("pay", {"n": 3})
            if not reservation.allowed:
                await asyncio.sleep(0)
                continue
            running += 1
            most = max(most, running + done)
            await asyncio.sleep(0)
            running -= 1
            if (number + attempt) % 3:
                reservation.abort(ran=bool(number % 2))
            elif done < 9:
                done += 1
                reservation.commit()
            else:
                reservation.abort()

    await asyncio.gather(*(caller(number) for number in range(64)))

    assert most <= 10
    assert session.in_flight == 0
    assert [session.reserve("pay", {"n": 3}).allowed for _ in range(11)].count(True) == 10 - done
