"""
One set of checks for every way in.

A door is a function that makes a tool callable under a session: `make_call(session, tool)` gives an async
context manager around a function that calls the tool with arguments by name, and says what came of it.
`check_door` puts a door through all of it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from openbox_agentrt._halt import Halt
from openbox_agentrt.acel import Session, at_most_n_times, at_most_total, came_from, must_precede
from openbox_agentrt.acel.halts import HALTS
from openbox_agentrt.acel.outcome import OutcomeHook
from openbox_agentrt.acel.verdict import Mode
from openbox_agentrt.fleet import SqliteFleet

__all__ = ("CHECKS", "Came", "MakeCall", "Tool", "check_door")


@dataclass(frozen=True)
class Came:
    """What came of a call, as its caller sees it."""

    what: Literal["result", "error", "refused"]
    text: str = ""


@dataclass
class Tool:
    """
    A tool named `pay` or `ship` that does as it is told.

    Attributes:
        does: "returns", "raises", "reports" an error in the door's own way, or "waits" for `release`.
        ran: The arguments of each time that it ran.
    """

    name: str = "pay"
    does: str = "returns"
    ran: list[dict[str, Any]] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: OutcomeHook | None = None

    def run(self, amount: int, note: str) -> str:
        self.ran.append({"amount": amount, "note": note})
        if self.does == "raises":
            raise OSError("disk full")
        return f"paid {amount}"

    async def arun(self, amount: int, note: str) -> str:
        if self.does == "waits":
            self.started.set()
            await self.release.wait()
        await asyncio.sleep(0)
        return self.run(amount, note)


Call = Callable[..., Awaitable[Came]]


class MakeCall(Protocol):
    """A door."""

    def __call__(self, session: Session, tool: Tool) -> AbstractAsyncContextManager[Call]: ...


async def an_admitted_call_runs_once(make_call: MakeCall) -> None:
    """Its caller gets the result, and the trace has the arguments with defaults."""
    session, tool = Session(), Tool()
    async with make_call(session, tool) as call:
        assert await call(amount=5) == Came("result", "paid 5")

    assert tool.ran == [{"amount": 5, "note": "none"}]
    assert [(row["tool"], row["args"]) for row in session.trace] == [("pay", {"amount": 5, "note": "none"})]
    assert session.in_flight == 0


async def a_refused_call_does_not_run(make_call: MakeCall) -> None:
    """It uses up nothing, and the caller is told what is left."""
    session, tool = Session(contracts=[at_most_total("pay", "amount", 10)]), Tool()
    async with make_call(session, tool) as call:
        refused = await call(amount=11)
        allowed = await call(amount=10)

    assert refused.what == "refused"
    assert "10 left of 10" in refused.text
    assert allowed.what == "result"
    assert [row["amount"] for row in tool.ran] == [10]


async def a_default_is_judged(make_call: MakeCall) -> None:
    """What the caller leaves out is what the tool gets, and what contracts see."""
    from openbox_agentrt.acel import matching

    session = Session(contracts=[at_most_n_times(matching("pay", "none", field="note"), 0)])
    tool = Tool()
    async with make_call(session, tool) as call:
        assert (await call(amount=1)).what == "refused"
        assert (await call(amount=1, note="rent")).what == "result"

    assert [row["note"] for row in tool.ran] == ["rent"]


async def what_a_call_returned_vouches(make_call: MakeCall) -> None:
    """Its result reaches the contracts: a value that is named there has come from somewhere."""
    session = Session(contracts=[came_from("ship", "to", [{"tool": "pay", "named": True}])])
    tool = Tool()
    async with make_call(session, tool) as call:
        assert session.would("ship", {"to": "paid 5"})
        assert await call(amount=5) == Came("result", "paid 5")
        assert not session.would("ship", {"to": "paid 5"})
        assert session.would("ship", {"to": "paid 6"})
        tool.does = "raises"
        assert (await call(amount=6)).what == "error"

    assert session.would("ship", {"to": "paid 6"})


async def what_failed_allows_nothing(make_call: MakeCall, does: str = "raises") -> None:
    """A call that raised stays counted, and satisfies no prerequisite."""
    session = Session(contracts=[at_most_n_times("pay", 1), must_precede("pay", "ship")])
    tool = Tool(does=does)
    async with make_call(session, tool) as call:
        assert (await call(amount=1)).what == "error"
        assert (await call(amount=1)).what == "refused"

    assert len(tool.ran) == 1
    assert session.in_flight == 0
    assert not session.reserve("ship").allowed


async def what_reports_an_error_has_failed(make_call: MakeCall) -> None:
    """The same for a call whose result says that it is an error."""
    await what_failed_allows_nothing(make_call, "reports")


async def the_user_says_what_failed(make_call: MakeCall) -> None:
    """Only the hook knows: the result is handed out, and the call has failed."""
    session = Session(contracts=[at_most_n_times("pay", 1), must_precede("pay", "ship")])
    tool = Tool(outcome=lambda result: "failed")
    async with make_call(session, tool) as call:
        assert (await call(amount=1)) == Came("result", "paid 1")
        assert (await call(amount=1)).what == "refused"

    assert not session.reserve("ship").allowed


async def a_result_that_breaks_a_postcondition_is_withheld(make_call: MakeCall) -> None:
    """Its caller is told so, and not what it was."""
    session, tool = Session(contracts=[must_precede("pay", "ship")]), Tool()
    session.register_tool("pay", postcondition=lambda state, result: False)
    async with make_call(session, tool) as call:
        came = await call(amount=987654)

    assert came.what == "refused"
    assert "987654" not in came.text
    assert len(tool.ran) == 1
    assert not session.reserve("ship").allowed


async def calls_at_once_cannot_pass_a_limit(make_call: MakeCall) -> None:
    """Each sees the reservations of the others."""
    session, tool = Session(contracts=[at_most_n_times("pay", 2)]), Tool()
    async with make_call(session, tool) as call:
        came = await asyncio.gather(*(call(amount=n) for n in range(6)))

    assert sorted(one.what for one in came) == ["refused"] * 4 + ["result"] * 2
    assert len(tool.ran) == 2


async def a_cancelled_call_stays_counted(make_call: MakeCall) -> None:
    """How far it came is not known, so it allows nothing."""
    session = Session(contracts=[at_most_n_times("pay", 1), must_precede("pay", "ship")])
    tool = Tool(does="waits")
    async with make_call(session, tool) as call:
        running = asyncio.ensure_future(call(amount=1))
        if not await _begins(tool, running):
            return  # a door that cannot be cancelled: its tool is no coroutine
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        for _ in range(100):
            if session.in_flight == 0:
                break
            await asyncio.sleep(0.01)
        assert (await call(amount=1)).what == "refused"

    assert session.in_flight == 0
    assert not session.reserve("ship").allowed


async def shadow_mode_watches(make_call: MakeCall) -> None:
    """Everything runs, and what would have been refused is on record."""
    session, tool = Session(mode="shadow", contracts=[at_most_n_times("pay", 1)]), Tool()
    async with make_call(session, tool) as call:
        assert [(await call(amount=1)).what for _ in range(3)] == ["result"] * 3

    assert len(session.violations) == 2
    assert len(tool.ran) == 3


async def a_person_halts_it(make_call: MakeCall) -> None:
    """Whoever says so in this process stops every door of the session, also one that only watches."""
    modes: tuple[Mode, ...] = ("enforce", "shadow")
    for mode in modes:
        session, tool = Session(mode=mode, session_id="s-halted", agent="payer"), Tool()
        async with make_call(session, tool) as call:
            assert (await call(amount=1)).what == "result"
            halt = Halt(kind="agent", value="payer", reason="it runs wild", by="ops-lead", at=0.0)
            HALTS.add(halt)
            try:
                refused = await call(amount=2)
            finally:
                HALTS.forget([halt])

        assert refused.what == "refused"
        assert "it runs wild (halted by ops-lead)" in refused.text
        assert [row["amount"] for row in tool.ran] == [1]
        assert session.violations[-1].blocked
        assert session.violations[-1].kind == "session"


async def the_fleet_counts_it(make_call: MakeCall) -> None:
    """What ran counts in every process, what failed does too, and a refusal says what is left today."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = SqliteFleet(f"{folder}/fleet.db", timeout_seconds=20)
        try:
            await _fleet_counts(make_call, fleet)
        finally:
            fleet.close()


async def _fleet_counts(make_call: MakeCall, fleet: SqliteFleet) -> None:
    rules = (
        at_most_total("pay", "amount", 10, scope="fleet", per="day"),
        must_precede("pay", "ship", scope="fleet", per="day"),
    )
    session, tool = Session(contracts=rules, fleet=fleet), Tool()
    async with make_call(session, tool) as call:
        assert (await call(amount=4)).what == "result"
        tool.does = "raises"
        assert (await call(amount=4)).what == "error"
        tool.does = "returns"
        refused = await call(amount=4)

    assert refused.what == "refused"
    assert "2 left of 10 today, free again at 00:00 UTC" in refused.text
    other = Session(contracts=rules, fleet=fleet)
    assert other.reserve("ship").allowed
    assert not other.reserve("pay", {"amount": 3}).allowed


CHECKS: tuple[Callable[[MakeCall], Awaitable[None]], ...] = (
    an_admitted_call_runs_once,
    a_refused_call_does_not_run,
    a_default_is_judged,
    what_a_call_returned_vouches,
    what_failed_allows_nothing,
    what_reports_an_error_has_failed,
    the_user_says_what_failed,
    a_result_that_breaks_a_postcondition_is_withheld,
    calls_at_once_cannot_pass_a_limit,
    a_cancelled_call_stays_counted,
    shadow_mode_watches,
    a_person_halts_it,
    the_fleet_counts_it,
)


async def check_door(make_call: MakeCall) -> None:
    """Put a door through every check."""
    for check in CHECKS:
        await check(make_call)


async def _begins(tool: Tool, running: asyncio.Future[Came]) -> bool:
    started = asyncio.ensure_future(tool.started.wait())
    waited: set[asyncio.Future[Any]] = {started, running}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    started.cancel()
    return not running.done()
