"""
Contracts around LangChain tools: around one tool, or around all tools of an agent.

`govern_tool` needs langchain-core (extra ``langchain``), `contract_middleware` needs langchain (extra
``langchain-agents``). Importing this module needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from openbox_agentrt._extras import require

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from openbox_agentrt.acel import Session
    from openbox_agentrt.acel.outcome import OutcomeHook
    from openbox_agentrt.doors.judged_work import Governance
    from openbox_agentrt.doors.langchain.middleware import ContractMiddleware

    ToolT = TypeVar("ToolT", bound=BaseTool)

__all__ = ("contract_middleware", "govern_tool")


def govern_tool(
    session: Session | None,
    tool: ToolT,
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> ToolT:
    """
    Copy a tool so that its every run passes the session's contracts first. The original is untouched.

    The copy is of a subclass of the tool's own class and keeps its name, description, schemas, response
    format, callbacks and everything else. Contracts see the arguments after validation, as plain data,
    without those that are injected (`InjectedToolArg`, `ToolRuntime`, `RunnableConfig`, callbacks).
    Arguments that do not pass validation are no call. A tool that raises, or whose message has the status
    "error", has failed.

    A refusal is a ``ToolMessage`` with the status "error" where the run has a tool call id, as it has in
    every agent. A run without one, such as ``tool.invoke({"a": 1})``, raises.

    Args:
        session: Session that judges. Contracts know the tool by its name. None if `governance` has contracts
            of its own.
        tool: Any `BaseTool`, sync or async.
        governance: Has Core judge each run as well, in the governed run that the caller is in. Core is waited
            for, so the tool has to be awaited (``ainvoke``); one without an async side runs in a thread.
        outcome: Says what became of a run that returned, as for `openbox_agentrt.doors.callables.guard`.

    Raises:
        MissingExtraError: langchain-core is not installed.
        TypeError: `tool` is no LangChain tool. For a function there is
            `openbox_agentrt.doors.callables.guard`.
        ValueError: `tool` is governed by this session already.
        ToolRefusedError: Raised by the copy, see above. It is a `ToolException` and a `ContractViolation`.
            What Core decides against is a `ToolException` as well; a run that is halted raises
            `GovernanceHaltError`.
    """
    require("langchain_core", extra="langchain")
    from openbox_agentrt.doors.langchain.tool import govern

    return govern(session, tool, governance=governance, outcome=outcome)


def contract_middleware(
    session: Session | Callable[[ToolCallRequest], Session] | None,
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> ContractMiddleware:
    """
    Middleware for langchain's ``create_agent`` that governs all tools of an agent.

    Each run of a tool is judged, retries by other middleware included. Put it last in the list, so that no
    other middleware changes a call that it has judged.

    Args:
        session: Session that judges, or what finds it for a request. An agent that serves several users or
            threads needs the second: one session for all would mix their calls. None if `governance` has
            contracts of its own.
        governance: Has Core judge each call as well. The agent then has to be awaited, inside a governed run.
        outcome: Says what became of a run that returned, as for `openbox_agentrt.doors.callables.guard`.

    Raises:
        MissingExtraError: langchain is not installed.
    """
    require("langchain.agents.middleware", extra="langchain-agents")
    from openbox_agentrt.doors.langchain.middleware import ContractMiddleware

    return ContractMiddleware(session, governance=governance, outcome=outcome)
