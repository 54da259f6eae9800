"""
Contracts around all tools of a langchain agent.

The middleware gives the agent a governed tool in place of its own, so that what is judged is each run of
the tool with validated arguments, however often another middleware asks for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from openbox_agentrt._plain.arguments import plain_arguments
from openbox_agentrt._plain.same import is_same
from openbox_agentrt.acel import Session
from openbox_agentrt.acel.outcome import OutcomeHook
from openbox_agentrt.doors.arguments import ChangedArgumentsError
from openbox_agentrt.doors.call import GovernedCall
from openbox_agentrt.doors.judged_work import Governance
from openbox_agentrt.doors.langchain.tool import ToolReading, gate_of, govern, refusal_message
from openbox_agentrt.doors.told_of_stop import told_of

ToolAnswer = ToolMessage | Command[Any]
FindSession = Callable[[ToolCallRequest], Session]


class ContractMiddleware(AgentMiddleware[Any, Any, Any]):
    """
    Governs every tool call of an agent. See `openbox_agentrt.doors.langchain.contract_middleware`.
    """

    def __init__(
        self,
        session: Session | FindSession | None,
        *,
        governance: Governance | None = None,
        outcome: OutcomeHook | None = None,
    ) -> None:
        super().__init__()
        self.tools = []
        self._session = session
        self._governance = governance
        self._outcome = outcome

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]
    ) -> ToolAnswer:
        """Run one tool call, or answer it with its refusal."""
        session = self._find(request)
        if request.tool is not None:
            return handler(self._with_governed_tool(session, request))
        call, work = self._judging(session, request, handler)
        answer: ToolAnswer = call.run(work)
        return answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """Run one tool call of an agent that is awaited, or answer it with its refusal."""
        session = self._find(request)
        if request.tool is not None:
            return await handler(self._with_governed_tool(session, request))
        call, work = self._judging(session, request, handler)
        answer: ToolAnswer = await call.arun(work)
        return answer

    def _find(self, request: ToolCallRequest) -> Session | None:
        return self._session(request) if callable(self._session) else self._session

    def _with_governed_tool(self, session: Session | None, request: ToolCallRequest) -> ToolCallRequest:
        tool = request.tool
        if tool is None or gate_of(tool, session, self._governance) is not None:
            return request
        return request.override(
            tool=govern(session, tool, governance=self._governance, outcome=self._outcome)
        )

    def _judging(
        self, session: Session | None, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> tuple[GovernedCall, Callable[[Mapping[str, Any]], Any]]:
        # A tool that the agent was not built with: other middleware may run it, so the call itself is judged.
        call = request.tool_call
        judged = plain_arguments(call["args"])

        def check() -> None:
            if not is_same(plain_arguments(call["args"]), judged):
                raise ChangedArgumentsError(call["name"])

        def answer(stopped: Exception) -> ToolMessage:
            return refusal_message(told_of(stopped), tool=call["name"], tool_call_id=call["id"] or "")

        def work(args: Mapping[str, Any]) -> Any:
            if args is judged:
                check()
                return handler(request)
            return handler(request.override(tool_call={**call, "args": dict(args)}))

        gated = GovernedCall(
            session=session,
            tool=call["name"],
            args=judged,
            governance=self._governance,
            reading=ToolReading(self._outcome),
            on_stop=answer,
            check=check,
        )
        return gated, work
