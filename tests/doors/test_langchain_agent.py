"""Contracts in a langchain agent: a real `create_agent` graph, driven by a scripted model."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, interrupt

from openbox_agentrt.acel import Session, at_most_n_times, must_precede
from openbox_agentrt.doors.langchain import contract_middleware, govern_tool


class ScriptedModel(BaseChatModel):
    """Says what it was told to say, one message per turn."""

    script: list[AIMessage]
    turn: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ScriptedModel":
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self.script[self.turn]
        self.turn += 1
        return ChatResult(generations=[ChatGeneration(message=message)])


def turn(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            ToolCall(name=name, args=args, id=f"{name}_{position}")
            for position, (name, args) in enumerate(calls)
        ],
    )


def model(*turns: AIMessage) -> ScriptedModel:
    return ScriptedModel(script=[*turns, AIMessage("done")])


def answers(state: dict[str, Any]) -> list[tuple[str, str]]:
    """Status and beginning of each tool message."""
    return [
        (message.status, str(message.content)[:12])
        for message in state["messages"]
        if isinstance(message, ToolMessage)
    ]


REFUSED = ("error", '{"refused": ')


@tool
def verify(customer: str) -> str:
    """Verify a customer."""
    return f"verified {customer}"


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def pay_rules() -> Session:
    session = Session()
    session.add_contracts([must_precede("verify", "pay"), at_most_n_times("pay", 2)])
    return session


SCRIPT = [
    turn(("pay", {"amount": 1})),
    turn(("verify", {"customer": "c1"})),
    turn(("pay", {"amount": 2}), ("pay", {"amount": 3}), ("pay", {"amount": 4})),
]


def by_middleware(session: Session, *turns: AIMessage, tools: Sequence[BaseTool] = (verify, pay)) -> Any:
    return create_agent(model(*turns), list(tools), middleware=[contract_middleware(session)])


def by_tools(session: Session, *turns: AIMessage, tools: Sequence[BaseTool] = (verify, pay)) -> Any:
    return create_agent(model(*turns), [govern_tool(session, t) for t in tools])


@pytest.mark.parametrize("build", [by_middleware, by_tools])
@pytest.mark.parametrize("awaited", [False, True])
async def test_an_agent_reads_refusals_and_goes_on(build: Callable[..., Any], awaited: bool) -> None:
    """Too early is refused and repaired; of three payments at once, two are made."""
    session = pay_rules()
    agent = build(session, *SCRIPT)

    question = {"messages": [("user", "pay")]}
    state = await agent.ainvoke(question) if awaited else agent.invoke(question)

    found = answers(state)
    assert found[:2] == [REFUSED, ("success", "verified c1")]
    assert sorted(status for status, _ in found[2:]) == ["error", "success", "success"]
    assert state["messages"][-1].content == "done"
    assert [row["tool"] for row in session.trace] == ["verify", "pay", "pay"]


@pytest.mark.parametrize("build", [by_middleware, by_tools])
def test_what_an_agent_injects_comes_through(build: Callable[..., Any]) -> None:
    """State, runtime, call id and configuration reach the tool, and contracts do not see them."""
    got: dict[str, Any] = {}

    @tool
    def look(
        query: str,
        state: Annotated[dict[str, Any], InjectedState],
        runtime: ToolRuntime,
        call_id: Annotated[str, InjectedToolCallId],
        config: RunnableConfig,
    ) -> str:
        """Look something up."""
        got.update(state=state, runtime=runtime, call_id=call_id, config=config)
        return query

    session = Session()
    build(session, turn(("look", {"query": "x"})), tools=[look]).invoke({"messages": [("user", "hi")]})

    assert [row["args"] for row in session.trace] == [{"query": "x"}]
    assert got["state"]["messages"][0].content == "hi"
    assert got["runtime"].tool_call_id == got["call_id"] == "look_0"


@pytest.mark.parametrize("build", [by_middleware, by_tools])
def test_a_command_with_an_error_is_a_failed_run(build: Callable[..., Any]) -> None:
    """A tool that answers through the graph's state can fail there as well."""

    @tool("verify")
    def bad_verify(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Verify."""
        return Command(update={"messages": [ToolMessage("no", tool_call_id=call_id, status="error")]})

    session = pay_rules()
    agent = build(session, turn(("verify", {})), turn(("pay", {"amount": 1})), tools=[bad_verify, pay])

    state = agent.invoke({"messages": [("user", "pay")]})

    assert answers(state) == [("error", "no"), REFUSED]


def test_every_retry_is_judged() -> None:
    """Another middleware cannot turn one admitted run into three."""
    attempts: list[int] = []

    @tool("pay")
    def flaky(amount: int) -> str:
        """Pay."""
        attempts.append(amount)
        raise OSError("timed out")

    session = Session()
    session.add_contract(at_most_n_times("pay", 2))
    retry = ToolRetryMiddleware(max_retries=5, initial_delay=0, jitter=False)
    for order in ([retry, contract_middleware(session)], [contract_middleware(session), retry]):
        attempts.clear()
        agent: Any = create_agent(model(turn(("pay", {"amount": 1}))), [flaky], middleware=order)
        agent.invoke({"messages": [("user", "pay")]})

        assert len(attempts) <= 2
    assert len(attempts) == 0, "the first agent used the budget up"


def test_a_tool_that_other_middleware_brings_is_judged() -> None:
    """The agent was not built with it, and its call is governed all the same."""
    ran: list[int] = []

    @tool
    def hidden(amount: int) -> str:
        """Not registered."""
        ran.append(amount)
        return "ran"

    class Bring(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Any:
            return handler(request.override(tool=hidden) if request.tool is None else request)

    session = Session()
    session.add_contract(at_most_n_times("hidden", 1))
    for order in ([contract_middleware(session), Bring()], [Bring(), contract_middleware(session)]):
        agent: Any = create_agent(
            model(turn(("hidden", {"amount": 1})), turn(("hidden", {"amount": 2}))), [pay], middleware=order
        )
        agent.invoke({"messages": [("user", "go")]})

    assert ran == [1]


async def test_an_unknown_tool_is_an_error_of_the_model() -> None:
    """langgraph answers it, and it allows nothing."""
    session = Session()
    session.add_contract(must_precede("nothing", "pay"))
    agent = by_middleware(session, turn(("nothing", {})), turn(("pay", {"amount": 1})))

    state = await agent.ainvoke({"messages": [("user", "go")]})

    assert [status for status, _ in answers(state)] == ["error", "error"]
    assert session.trace == []


def test_a_session_per_thread() -> None:
    """Users of one agent do not share a budget."""
    sessions: dict[str, Session] = {}

    def find(request: ToolCallRequest) -> Session:
        thread: str = request.runtime.config["configurable"]["thread_id"]
        if thread not in sessions:
            sessions[thread] = Session()
            sessions[thread].add_contract(at_most_n_times("pay", 1))
        return sessions[thread]

    pay_once = [message for _ in range(3) for message in (turn(("pay", {"amount": 1})), AIMessage("done"))]
    agent: Any = create_agent(
        ScriptedModel(script=pay_once),
        [pay],
        middleware=[contract_middleware(find)],
        checkpointer=InMemorySaver(),
    )
    for thread, expected in [("t1", "success"), ("t2", "success"), ("t1", "error")]:
        state = agent.invoke({"messages": [("user", "pay")]}, {"configurable": {"thread_id": thread}})
        assert answers(state)[-1][0] == expected


def test_a_run_that_pauses_for_a_person_is_counted_once() -> None:
    """langgraph runs the tool again from its beginning when it is resumed."""

    @tool("pay")
    def ask(amount: int) -> str:
        """Pay after asking."""
        return f"{interrupt('really?')} {amount}"

    session = Session()
    session.add_contract(at_most_n_times("pay", 1))
    agent: Any = create_agent(
        model(turn(("pay", {"amount": 1})), turn(("pay", {"amount": 2}))),
        [ask],
        middleware=[contract_middleware(session)],
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "t1"}}

    paused = agent.invoke({"messages": [("user", "pay")]}, thread)
    state = agent.invoke(Command(resume="yes"), thread)

    assert paused["__interrupt__"]
    assert answers(state) == [("success", "yes 1"), REFUSED]


def test_governed_tools_in_a_plain_tool_node() -> None:
    """The wrapper needs no agent."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 1))
    node = ToolNode([govern_tool(session, pay)])

    from langgraph.graph import END, START, MessagesState, StateGraph

    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    state = graph.compile().invoke({"messages": [turn(("pay", {"amount": 1}), ("pay", {"amount": 2}))]})

    assert sorted(status for status, _ in answers(state)) == ["error", "success"]
