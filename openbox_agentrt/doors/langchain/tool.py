"""
One LangChain tool under contract.

The governed tool is a copy whose class derives from the tool's own, because agents ask for names, schemas and
signatures in many ways, and a copy answers all of them as the tool would. Only the ends are replaced:
`_run` and `_arun`, where the arguments are known and the work begins, and `run` and `arun`, where a
refusal becomes a message. The work is done by the wrapped tool, so that an `_arun` that calls `self._run`
is judged once.
"""

from __future__ import annotations

import functools
import json
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr

from openbox_agentrt.acel import ContractViolation, Session
from openbox_agentrt.doors.arguments import args_reader, is_coroutine_function
from openbox_agentrt.doors.gated_call import GatedCall, told_of
from openbox_agentrt.doors.langchain.arguments import tool_args_reader

__all__ = ("ToolGate", "ToolRefusedError", "gate_of", "govern", "is_final", "refusal_message", "succeeded")

ToolT = TypeVar("ToolT", bound=BaseTool)


class ToolRefusedError(ToolException, ContractViolation):
    """
    A contract stopped a run of a tool that had no tool call id to answer to.

    The tool did not run, or its result broke a postcondition and is withheld.

    Attributes:
        gate: The gate that stopped it.
    """

    def __init__(self, gate: ToolGate, stopped: ContractViolation) -> None:
        self.gate = gate
        ContractViolation.__init__(
            self, stopped.violation, violations=stopped.violations, refusal=stopped.refusal
        )
        # What a tool with `handle_tool_error=True` answers with.
        self.args = (json.dumps(told_of(stopped)),)


class ToolGate:
    """What a governed tool asks before it runs. Copies of the tool share it, and with it the session."""

    def __init__(self, session: Session, wrapped: BaseTool) -> None:
        self.session = session
        self.wrapped = wrapped
        self.read_args = tool_args_reader(wrapped)

    def __deepcopy__(self, memo: dict[int, Any]) -> ToolGate:
        # A copy of a tool must not begin with a budget of its own.
        return self

    def judging(self, args: Mapping[str, Any]) -> GatedCall:
        """A run of the tool with these arguments."""
        return GatedCall(
            session=self.session,
            tool=self.wrapped.name,
            args=args,
            succeeded=succeeded,
            may_have_run=is_final,
            on_stop=self._refuse,
        )

    def _refuse(self, stopped: ContractViolation) -> NoReturn:
        raise ToolRefusedError(self, stopped)


def govern(session: Session, tool: ToolT) -> ToolT:
    """See `openbox_agentrt.doors.langchain.govern_tool`."""
    if not isinstance(tool, BaseTool):
        raise TypeError(f"cannot govern {tool!r}: it is no LangChain tool")
    if gate_of(tool, session) is not None:
        raise ValueError(f"tool {tool.name!r} is governed by this session already")
    gate = ToolGate(session, tool)
    # Frameworks take the function out of a tool and call it, past `run`.
    functions = {
        field: _governed_function(gate, function)
        for field in ("func", "coroutine")
        if (function := getattr(tool, field, None)) is not None
    }
    governed = tool.model_copy(update=functions)
    # Pydantic's own assignment is for fields.
    object.__setattr__(governed, "__class__", _governed_class(type(tool)))
    governed._openbox_gate = gate
    return governed


def gate_of(tool: BaseTool, session: Session) -> ToolGate | None:
    """The gate by which a session governs a tool, through any number of other sessions' gates."""
    gate = getattr(tool, "_openbox_gate", None)
    while gate is not None and gate.session is not session:
        gate = getattr(gate.wrapped, "_openbox_gate", None)
    return gate


def succeeded(result: Any) -> bool:
    """Whether what a tool returned says that it did its work."""
    if isinstance(result, ToolMessage):
        return result.status != "error"
    if isinstance(result, tuple | list):
        return all(succeeded(part) for part in result)
    # A `Command` of langgraph carries its messages in its update.
    update = getattr(result, "update", None)
    if isinstance(update, dict):
        messages = update.get("messages")
        return succeeded(messages if isinstance(messages, list) else [messages])
    return True


def is_final(error: BaseException) -> bool:
    """
    Whether a run ended with an error, rather than pausing to be run again.

    langgraph's `interrupt` leaves a tool by an exception and later runs it from its beginning; that second
    run is the call.
    """
    errors = sys.modules.get("langgraph.errors")
    return errors is None or not isinstance(error, errors.GraphInterrupt)


def refusal_message(told: Mapping[str, Any], *, tool: str, tool_call_id: str) -> ToolMessage:
    """What the model gets for a call that was stopped."""
    return ToolMessage(json.dumps(told), name=tool, tool_call_id=tool_call_id, status="error")


@functools.lru_cache(maxsize=256)
def _governed_class(inner: type[BaseTool]) -> type[BaseTool]:
    @functools.wraps(inner.run)
    def run(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        try:
            return inner.run(self, *args, **kwargs)
        except ToolRefusedError as refused:
            return _as_message(self, refused, kwargs)

    @functools.wraps(inner.arun)
    async def arun(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        try:
            return await inner.arun(self, *args, **kwargs)
        except ToolRefusedError as refused:
            return _as_message(self, refused, kwargs)

    # With the signatures of the originals: `run` looks there for what it has to pass.
    @functools.wraps(inner._run)
    def _run(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate: ToolGate = self._openbox_gate
        work = functools.partial(gate.wrapped._run, *args, **kwargs)
        return gate.judging(gate.read_args(args, kwargs)).run(work)

    @functools.wraps(inner._arun)
    async def _arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate: ToolGate = self._openbox_gate
        work = functools.partial(gate.wrapped._arun, *args, **kwargs)
        return await gate.judging(gate.read_args(args, kwargs)).arun(work)

    members: dict[str, Any] = {
        "__module__": inner.__module__,
        "__doc__": inner.__doc__,
        "__annotations__": {"_openbox_gate": Any},
        "_openbox_gate": PrivateAttr(default=None),
        "run": run,
        "arun": arun,
        "_run": _run,
    }
    if inner._arun is not BaseTool._arun:
        # The default runs `_run`, and is recognised by being the default.
        members["_arun"] = _arun
    name = f"Governed{inner.__name__}"
    return types.new_class(name, (inner,), exec_body=lambda namespace: namespace.update(members))


def _as_message(tool: Any, refused: ToolRefusedError, kwargs: Mapping[str, Any]) -> ToolMessage:
    tool_call_id = kwargs.get("tool_call_id")
    # Another tool's refusal, raised inside this one, is an error of this one.
    if tool_call_id is None or refused.gate is not tool._openbox_gate:
        raise refused
    return refusal_message(told_of(refused), tool=tool.name, tool_call_id=tool_call_id)


def _governed_function(gate: ToolGate, function: Callable[..., Any]) -> Callable[..., Any]:
    read_args = args_reader(gate.wrapped.name, function)
    governed: Callable[..., Any]
    if is_coroutine_function(function):

        async def governed(*args: Any, **kwargs: Any) -> Any:
            named = gate.read_args((), read_args(args, kwargs))
            return await gate.judging(named).arun(functools.partial(function, *args, **kwargs))

    else:

        def governed(*args: Any, **kwargs: Any) -> Any:
            named = gate.read_args((), read_args(args, kwargs))
            return gate.judging(named).run(functools.partial(function, *args, **kwargs))

    functools.update_wrapper(governed, function)
    return governed
