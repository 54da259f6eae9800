"""Calls of functions, of OpenAI models and of LangChain tools that Core judges after the contracts."""

import asyncio
import datetime
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, tool

from openbox_agentrt import ContractRefusedError, GovernanceBlockedError, GovernanceHaltError
from openbox_agentrt.acel import ContractViolation, Session, at_most_n_times, must_precede
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.doors.langchain import govern_tool
from openbox_agentrt.doors.openai.tools import arun_tool_calls, guard_openai_tool_call
from openbox_agentrt.errors import UngovernedCallError
from openbox_agentrt.local_core import LocalCore

MakeStage = Callable[..., Awaitable[Any]]


def verdict(**by_type: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A policy that gives starts of these activities these verdicts."""

    def policy(event: dict[str, Any]) -> dict[str, Any]:
        if event["event_type"] != "ActivityStarted":
            return {"verdict": "allow"}
        return {"verdict": by_type.get(event.get("activity_type", ""), "allow"), "reason": "policy says so"}

    return policy


async def pay(amount: int, to: str = "me") -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"paid": amount, "to": to}


def chat(name: str, arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def starts(stage: Any, activity_type: str) -> list[dict[str, Any]]:
    return [e for e in stage.events("ActivityStarted") if e["activity_type"] == activity_type]


# Functions.


async def test_an_allowed_call_is_an_activity_of_the_run(make_stage: MakeStage) -> None:
    """Core sees the arguments by name and the result."""
    stage = await make_stage()
    session = Session()
    guarded = guard(session, "pay", pay, governance=stage.governance)

    async with stage.governance.run_scope("pay"):
        assert await guarded(5) == {"paid": 5, "to": "me"}

    (started,) = starts(stage, "pay")
    assert started["activity_input"] == [{"amount": 5, "to": "me"}]
    assert stage.completed("pay")["activity_output"] == {"paid": 5, "to": "me"}
    assert [row["tool"] for row in session.trace] == ["pay"]


async def test_a_call_that_core_blocks_has_not_happened(make_stage: MakeStage) -> None:
    """The function does not run, and the reservation is taken back."""
    stage = await make_stage(verdict(pay="block"))
    session = Session()
    session.add_contracts([at_most_n_times("pay", 1), must_precede("pay", "ship")])
    guarded = guard(session, "pay", pay, governance=stage.governance)

    async with stage.governance.run_scope("pay"):
        for _ in range(2):
            with pytest.raises(GovernanceBlockedError, match="policy says so"):
                await guarded(5)

    assert session.trace == []
    assert session.in_flight == 0
    assert not session.reserve("ship").allowed


async def test_a_call_that_the_contracts_refuse_is_not_asked_about(make_stage: MakeStage) -> None:
    """Core hears of it by a signal."""
    stage = await make_stage()
    session = Session()
    session.add_contract(at_most_n_times("pay", 0))

    async with stage.governance.run_scope("pay"):
        with pytest.raises(ContractViolation):
            await guard(session, "pay", pay, governance=stage.governance)(5)

    assert starts(stage, "pay") == []
    (signal,) = [e for e in stage.events("SignalReceived") if "contract" in e["signal_name"]]
    assert "at_most_n_times(pay, n=0)" in str(signal)


async def test_the_function_gets_what_core_redacted(make_stage: MakeStage) -> None:
    """However its arguments were passed; contracts have judged what was asked."""
    stage = await make_stage(core=LocalCore(guardrails="everything"))
    session = Session()

    async def send(to: str, /, *copies: str, text: str = "hi", **more: str) -> list[Any]:
        return [to, copies, text, more]

    async with stage.governance.run_scope("send"):
        sent = await guard(session, "send", send, governance=stage.governance)(
            "ann@example.com", "bob@example.com", "x", note="call 555-123-4567"
        )

    assert "ann@example.com" not in str(sent)
    assert "bob@example.com" not in str(sent)
    assert (sent[1][1], sent[2]) == ("x", "hi")
    assert sent[3].keys() == {"note"}


def redacting(tool: str, **values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A policy that puts these values in the place of the arguments of a tool's calls."""

    def policy(event: dict[str, Any]) -> dict[str, Any]:
        if event["event_type"] != "ActivityStarted" or event["activity_type"] != tool:
            return {"verdict": "allow"}
        first, *rest = event["activity_input"]
        redacted = [{**first, **values}, *rest]
        guardrails = {"validation_passed": True, "input_type": "activity_input", "redacted_input": redacted}
        return {"verdict": "allow", "guardrails_result": guardrails}

    return policy


@dataclass
class Contact:
    name: str
    mail: str


async def test_redacted_arguments_keep_their_types(make_stage: MakeStage) -> None:
    """The function gets a contact, and not what Core was shown of one."""
    policy = redacting("send", to={"name": "ann", "mail": "***"})
    stage = await make_stage(core=LocalCore(policy, guardrails=False))

    async def send(to: Contact) -> Contact:
        return to

    async with stage.governance.run_scope("send"):
        sent = await guard(Session(), "send", send, governance=stage.governance)(Contact("ann", "ann@x"))

    assert sent == Contact("ann", "***")


async def test_a_redaction_that_does_not_fit_is_a_denial(make_stage: MakeStage) -> None:
    """Nothing runs with the value that Core wanted gone, and the call is not counted."""
    stage = await make_stage(core=LocalCore(redacting("book", day="***"), guardrails=False))
    session = Session(contracts=[at_most_n_times("book", 1)])
    ran: list[Any] = []

    async def book(day: datetime.date) -> None:
        ran.append(day)

    async with stage.governance.run_scope("book"):
        with pytest.raises(GovernanceBlockedError, match="redacted arguments of 'book' do not fit it"):
            await guard(session, "book", book, governance=stage.governance)(datetime.date(2026, 1, 2))

    assert ran == []
    assert session.reserve("book").allowed
    assert stage.completed("book")["status"] == "failed"


async def test_a_failed_call_is_a_failed_row(make_stage: MakeStage) -> None:
    """It stays counted and allows nothing."""
    stage = await make_stage()
    session = Session()
    session.add_contract(at_most_n_times("fail", 1))

    async def fail() -> None:
        raise OSError("down")

    async with stage.governance.run_scope("fail"):
        with pytest.raises(OSError, match="down"):
            await guard(session, "fail", fail, governance=stage.governance)()
        with pytest.raises(ContractViolation):
            await guard(session, "fail", fail, governance=stage.governance)()

    assert stage.completed("fail")["status"] == "failed"


async def test_a_result_that_is_withheld_is_a_failed_row(make_stage: MakeStage) -> None:
    """Core does not see a success where there was none."""
    stage = await make_stage()
    session = Session()
    session.register_tool("pay", postcondition=lambda state, result: False)

    async with stage.governance.run_scope("pay"):
        with pytest.raises(ContractViolation) as caught:
            await guard(session, "pay", pay, governance=stage.governance)(5)

    assert caught.value.violation.kind == "postcondition"
    assert stage.completed("pay")["status"] == "failed"


async def test_a_session_that_the_run_has_too_counts_once(make_stage: MakeStage) -> None:
    """The governance's own contracts are not asked twice."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 2))
    stage = await make_stage(contracts=lambda: session)
    guarded = guard(session, "pay", pay, governance=stage.governance)

    async with stage.governance.run_scope("pay"):
        for _ in range(2):
            await guarded(5)
        with pytest.raises(ContractRefusedError):
            await guarded(5)

    assert len([row for row in session.trace if row["tool"] == "pay"]) == 2


async def test_a_governance_with_contracts_of_its_own_is_enough(make_stage: MakeStage) -> None:
    """No session of the door's own is needed."""
    stage = await make_stage(contracts=[at_most_n_times("pay", 1)])
    guarded = guard(None, "pay", pay, governance=stage.governance)

    async with stage.governance.run_scope("pay"):
        await guarded(5)
        with pytest.raises(ContractRefusedError):
            await guarded(5)


async def test_a_call_outside_of_a_run_is_refused(make_stage: MakeStage) -> None:
    """There is no run whose activity it could be, and it is not counted."""
    stage = await make_stage()
    session = Session()

    with pytest.raises(UngovernedCallError):
        await guard(session, "pay", pay, governance=stage.governance)(5)
    assert (session.trace, session.in_flight) == ([], 0)


async def test_a_cancelled_call_is_closed(make_stage: MakeStage) -> None:
    """At Core and in the session."""
    stage = await make_stage()
    session = Session()
    session.add_contract(at_most_n_times("hang", 1))
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async def run() -> None:
        async with stage.governance.run_scope("hang"):
            await guard(session, "hang", hang, governance=stage.governance)()

    task = asyncio.create_task(run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert session.in_flight == 0
    assert not session.reserve("hang").allowed


async def test_only_an_async_function_can_wait_for_core(make_stage: MakeStage) -> None:
    """A plain one is refused at wrapping."""
    stage = await make_stage()

    with pytest.raises(TypeError, match="has to be async"):
        guard(Session(), "pay", lambda: None, governance=stage.governance)


def test_something_has_to_judge() -> None:
    """Neither a session nor a governance is no governance."""
    with pytest.raises(TypeError, match="a session or a governance is needed"):
        guard(None, "pay", pay)
    with pytest.raises(TypeError, match="a session or a governance is needed"):
        govern_tool(None, Subclass())


# OpenAI.


async def test_one_tool_call_of_a_model_is_judged(make_stage: MakeStage) -> None:
    """As for a function."""
    stage = await make_stage(verdict(ship="block"))

    async with stage.governance.run_scope("pay"):
        paid = await guard_openai_tool_call(
            Session(), chat("pay", '{"amount": 5}'), pay, governance=stage.governance
        )
        with pytest.raises(GovernanceBlockedError):
            await guard_openai_tool_call(
                Session(), chat("ship", "{}"), lambda: None, governance=stage.governance
            )

    assert paid == {"paid": 5, "to": "me"}


async def test_a_turn_answers_what_core_decides_against(make_stage: MakeStage) -> None:
    """The model reads Core's reason and goes on; plain functions and custom tools are judged too."""
    stage = await make_stage(core=LocalCore(verdict(ship="block"), guardrails="everything"))
    custom = {"type": "custom_tool_call", "call_id": "call_3", "name": "code", "input": "to ann@example.com"}

    async with stage.governance.run_scope("pay"):
        messages = await arun_tool_calls(
            Session(),
            [chat("ship", '{"order": "o1"}', "call_1"), chat("pay", '{"amount": 5}', "call_2"), custom],
            {"pay": pay, "ship": lambda order: order, "code": lambda source: source},
            governance=stage.governance,
        )

    told = json.loads(messages[0]["content"])
    assert told["refused"] is True
    assert "policy says so" in told["message"]
    assert json.loads(messages[1]["content"]) == {"paid": 5, "to": "me"}
    assert messages[2]["output"].startswith("to ")
    assert "ann@example.com" not in messages[2]["output"]


@pytest.mark.parametrize("on_tool_error", ["raise", "message"])
async def test_a_halt_ends_the_turn(make_stage: MakeStage, on_tool_error: Any) -> None:
    """It is no answer to the model."""
    stage = await make_stage(verdict(pay="halt"))

    async def turn() -> None:
        with pytest.raises(GovernanceHaltError):
            await arun_tool_calls(
                Session(),
                [chat("pay", '{"amount": 5}')],
                {"pay": pay},
                on_tool_error=on_tool_error,
                governance=stage.governance,
            )

    with pytest.raises(GovernanceHaltError):
        async with stage.governance.run_scope("pay"):
            await turn()


# LangChain.


@tool("pay")
def pay_tool(amount: int, to: str = "me") -> str:
    """Pay an amount."""
    return f"paid {amount} to {to}"


class Subclass(BaseTool):
    name: str = "pay"
    description: str = "Pay an amount."

    def _run(self, amount: int, to: str = "me") -> str:
        return f"paid {amount} to {to}"


def message_call(**args: Any) -> dict[str, Any]:
    return {"name": "pay", "args": args, "id": "call_1", "type": "tool_call"}


@pytest.mark.parametrize(
    "original",
    [
        pytest.param(pay_tool, id="function"),
        pytest.param(Subclass(), id="subclass"),
        pytest.param(StructuredTool.from_function(coroutine=pay, name="pay", description="Pay."), id="async"),
    ],
)
async def test_every_kind_of_tool_is_judged_once(make_stage: MakeStage, original: BaseTool) -> None:
    """Those without an async side run in a thread, after Core has answered."""
    stage = await make_stage(core=LocalCore(guardrails="everything"))
    session = Session()
    governed = govern_tool(session, original, governance=stage.governance)

    async with stage.governance.run_scope("pay"):
        message = await governed.ainvoke(message_call(amount=5, to="ann@example.com"))

    assert message.status == "success"
    assert "5" in message.content
    assert "ann@example.com" not in message.content
    (started,) = starts(stage, "pay")
    assert started["activity_input"][0]["amount"] == 5
    assert stage.completed("pay")["status"] == "completed"
    assert len(session.trace) == 1


async def test_what_core_decides_against_is_an_error_message(make_stage: MakeStage) -> None:
    """And an exception where there is no call to answer."""
    stage = await make_stage(verdict(pay="block"))
    governed = govern_tool(Session(), pay_tool, governance=stage.governance)

    async with stage.governance.run_scope("pay"):
        message = await governed.ainvoke(message_call(amount=5))
        from langchain_core.tools import ToolException

        with pytest.raises(ToolException, match="policy says so"):
            await governed.ainvoke({"amount": 5})

    assert message.status == "error"
    assert "policy says so" in json.loads(message.content)["message"]


async def test_a_tool_that_core_judges_has_to_be_awaited(make_stage: MakeStage) -> None:
    """It does not run unjudged."""
    stage = await make_stage()
    session = Session()
    governed = govern_tool(session, pay_tool, governance=stage.governance)

    with pytest.raises(TypeError, match="await the call"):
        governed.invoke(message_call(amount=5))
    assert session.trace == []


async def test_an_agent_whose_calls_core_judges(make_stage: MakeStage) -> None:
    """The middleware asks Core for each call of the agent."""
    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolCall, ToolMessage

    from openbox_agentrt.doors.langchain import contract_middleware

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> "Scripted":
            return self

    @tool
    def ship(order: str) -> str:
        """Ship an order."""
        return f"shipped {order}"

    calls = [
        ToolCall(name="pay", args={"amount": 5}, id="call_1"),
        ToolCall(name="ship", args={"order": "o1"}, id="call_2"),
    ]
    stage = await make_stage(verdict(ship="block"))
    agent: Any = create_agent(
        Scripted(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")])),
        [pay_tool, ship],
        middleware=[contract_middleware(None, governance=stage.governance)],
    )

    async with stage.governance.run_scope("pay"):
        state = await agent.ainvoke({"messages": [("user", "pay")]})

    answers = {m.name: m for m in state["messages"] if isinstance(m, ToolMessage)}
    assert answers["pay"].content == "paid 5 to me"
    assert answers["ship"].status == "error"
    assert "policy says so" in answers["ship"].content
