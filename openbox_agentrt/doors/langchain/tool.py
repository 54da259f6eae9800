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
from langchain_core.runnables import run_in_executor
from langchain_core.tools import BaseTool, Tool, ToolException
from pydantic import PrivateAttr

from openbox_agentrt._plain.same import is_same
from openbox_agentrt.acel import ContractViolation, Session
from openbox_agentrt.acel.events import Outcome
from openbox_agentrt.acel.outcome import OutcomeHook
from openbox_agentrt.doors.arguments import ChangedArgumentsError, Parameters, is_coroutine_function
from openbox_agentrt.doors.call import GovernedCall
from openbox_agentrt.doors.judged_work import Governance
from openbox_agentrt.doors.langchain.arguments import ToolArguments, of_arun, of_run
from openbox_agentrt.doors.outcome import PlainAnswers, Reading
from openbox_agentrt.doors.told_of_stop import told_of
from openbox_agentrt.doors.unfit import fault_of, report_unfit

ToolT = TypeVar("ToolT", bound=BaseTool)


class ToolStoppedError(ToolException):
    """
    A run of a tool was stopped, and had no tool call id to answer to.

    Attributes:
        told: What a model may be told.
        gate: The gate that stopped it; None once it has crossed a process boundary.
    """

    def __init__(self, told: Mapping[str, Any], gate: ToolGate | None = None) -> None:
        self.told = dict(told)
        self.gate = gate
        # What a tool with `handle_tool_error=True` answers with.
        super().__init__(json.dumps(self.told))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.told,)


class ToolRefusedError(ToolStoppedError, ContractViolation):
    """A contract stopped a run. The tool did not run, or its result broke a postcondition and is withheld."""

    def __init__(self, stopped: ContractViolation, gate: ToolGate | None = None) -> None:
        ContractViolation.__init__(
            self, stopped.violation, violations=stopped.violations, refusal=stopped.refusal
        )
        self.told = told_of(stopped)
        self.gate = gate
        self.args = (json.dumps(self.told),)

    def __reduce__(self) -> tuple[Any, ...]:
        plain = ContractViolation(self.violation, violations=self.violations, refusal=self.refusal)
        return type(self), (plain,)


class ToolGate:
    """Judge the runs of a governed tool. Copies of the tool share it, and with it the session."""

    def __init__(
        self, session: Session | None, wrapped: BaseTool, governance: Governance | None, reading: Reading
    ) -> None:
        self.session = session
        self.governance = governance
        self.wrapped = wrapped
        self.reading = reading

    # Read when they are needed: an agent governs its tools with each call.
    @functools.cached_property
    def of_run(self) -> ToolArguments:
        return of_run(self.wrapped)

    @functools.cached_property
    def of_arun(self) -> ToolArguments:
        return of_arun(self.wrapped)

    def __deepcopy__(self, memo: dict[int, Any]) -> ToolGate:
        # A copy of a tool must not begin with a budget of its own.
        return self

    def judging(
        self,
        arguments: ToolArguments,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        work: Callable[..., Any],
    ) -> tuple[GovernedCall, Callable[[Mapping[str, Any]], Any]]:
        """Give a run of the tool, and the work that it is."""
        judged = arguments.read(args, kwargs)

        def check() -> None:
            if not is_same(arguments.read(args, kwargs), judged):
                raise ChangedArgumentsError(self.wrapped.name)

        call = GovernedCall(
            session=self.session,
            tool=self.wrapped.name,
            args=judged,
            governance=self.governance,
            reading=self.reading,
            on_stop=self._refuse,
            check=check,
        )

        def do(seen: Mapping[str, Any]) -> Any:
            if seen is judged:
                check()
                return work(*args, **kwargs)
            new_args, new_kwargs = arguments.write(args, kwargs, seen)
            return work(*new_args, **new_kwargs)

        return call, do

    def report_unfit(self, given: Any, error: Exception) -> None:
        """Take note of a run whose arguments the schema of the tool does not take."""
        args = self.of_run.shown(given) if isinstance(given, Mapping) else {"arg0": given}
        report_unfit(self.session, self.wrapped.name, args, fault_of(error))

    def _refuse(self, stopped: Exception) -> NoReturn:
        if isinstance(stopped, ContractViolation):
            raise ToolRefusedError(stopped, self)
        raise ToolStoppedError(told_of(stopped), self) from stopped


def govern(
    session: Session | None,
    tool: ToolT,
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> ToolT:
    """Copy a tool and govern the copy, see `openbox_agentrt.doors.langchain.govern_tool`."""
    if not isinstance(tool, BaseTool):
        raise TypeError(f"cannot govern {tool!r}: it is no LangChain tool")
    if session is None and governance is None:
        raise TypeError(f"cannot govern {tool.name!r}: a session or a governance is needed")
    if gate_of(tool, session, governance) is not None:
        raise ValueError(f"tool {tool.name!r} is governed by this session already")
    gate = ToolGate(session, tool, governance, ToolReading(outcome))
    # Frameworks take the function out of a tool and call it, past `run`.
    functions = {
        field: _governed_function(gate, function)
        for field in ("func", "coroutine")
        if (function := getattr(tool, field, None)) is not None
    }
    if governance is not None and "func" in functions and "coroutine" not in functions:
        # Without one, the tool runs in a thread where nothing can be awaited.
        functions["coroutine"] = _governed_function(gate, _in_executor(getattr(tool, "func", None)))
    governed = tool.model_copy(update=functions)
    # Pydantic's own assignment is for fields.
    object.__setattr__(governed, "__class__", _governed_class(type(tool), governance is not None))
    governed._openbox_gate = gate
    return governed


def gate_of(tool: BaseTool, session: Session | None, governance: Governance | None) -> ToolGate | None:
    """Find the gate by which these two govern a tool, through any number of other gates."""
    gate: ToolGate | None = getattr(tool, "_openbox_gate", None)
    while gate is not None and (gate.session is not session or gate.governance is not governance):
        gate = getattr(gate.wrapped, "_openbox_gate", None)
    return gate


class ToolReading(PlainAnswers):
    """Takes a run that pauses for one that has not happened."""

    def of_error(self, error: BaseException) -> Outcome:
        # langgraph's `interrupt` leaves a tool by an exception and later runs it from its beginning; that
        # second run is the call.
        errors = sys.modules.get("langgraph.errors")
        paused = errors is not None and isinstance(error, errors.GraphInterrupt)
        return "aborted" if paused else "failed"


def refusal_message(told: Mapping[str, Any], *, tool: str, tool_call_id: str) -> ToolMessage:
    """Give what the model gets for a call that was stopped."""
    return ToolMessage(json.dumps(told), name=tool, tool_call_id=tool_call_id, status="error")


@functools.lru_cache(maxsize=256)
def _governed_class(inner: type[BaseTool], asks_core: bool) -> type[BaseTool]:
    @functools.wraps(inner.run)
    def run(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        try:
            return inner.run(self, *args, **kwargs)
        except ToolStoppedError as stopped:
            return _as_message(self, stopped, kwargs)

    @functools.wraps(inner.arun)
    async def arun(self: BaseTool, *args: Any, **kwargs: Any) -> Any:
        try:
            return await inner.arun(self, *args, **kwargs)
        except ToolStoppedError as stopped:
            return _as_message(self, stopped, kwargs)

    @functools.wraps(inner._to_args_and_kwargs)
    def _to_args_and_kwargs(self: Any, tool_input: Any, *more: Any, **kwargs: Any) -> Any:
        try:
            return inner._to_args_and_kwargs(self, tool_input, *more, **kwargs)
        except Exception as error:
            gate: ToolGate = self._openbox_gate
            gate.report_unfit(tool_input, error)
            raise

    # With the signatures of the originals: `run` looks there for what it has to pass.
    @functools.wraps(inner._run)
    def _run(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate: ToolGate = self._openbox_gate
        call, work = gate.judging(gate.of_run, args, kwargs, gate.wrapped._run)
        return call.run(work)

    default_arun = inner._arun is BaseTool._arun

    # The default passes on what `_run` takes.
    @functools.wraps(inner._run if default_arun else inner._arun)
    async def _arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate: ToolGate = self._openbox_gate
        call, work = gate.judging(gate.of_arun, args, kwargs, gate.wrapped._arun)
        return await call.arun(work)

    members: dict[str, Any] = {
        "__module__": inner.__module__,
        "__doc__": inner.__doc__,
        "__annotations__": {"_openbox_gate": Any},
        "_openbox_gate": PrivateAttr(default=None),
        "run": run,
        "arun": arun,
        "_run": _run,
    }
    if "_openbox_gate" not in inner.__private_attributes__:
        # Around another gate, it would take note of the same run twice.
        members["_to_args_and_kwargs"] = _to_args_and_kwargs
    if not default_arun or asks_core:
        # Otherwise it runs `_run`, and is recognised by being the default.
        members["_arun"] = _arun
    name = f"Governed{inner.__name__}"
    return types.new_class(name, (inner,), exec_body=lambda namespace: namespace.update(members))


def _as_message(tool: Any, stopped: ToolStoppedError, kwargs: Mapping[str, Any]) -> ToolMessage:
    tool_call_id = kwargs.get("tool_call_id")
    # Another tool's refusal, raised inside this one, is an error of this one.
    if tool_call_id is None or stopped.gate is not tool._openbox_gate:
        raise stopped
    return refusal_message(stopped.told, tool=tool.name, tool_call_id=tool_call_id)


def _governed_function(gate: ToolGate, function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = Parameters(gate.wrapped.name, function, gate.session)
    arguments = functools.cache(lambda: ToolArguments(gate.wrapped, function))

    def judging(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[GovernedCall, Callable[..., Any]]:
        bound = parameters.call(args, kwargs)
        return gate.judging(arguments(), *_as_listed(gate.wrapped, bound.named), bound.func)

    governed: Callable[..., Any]
    if is_coroutine_function(function):

        async def governed(*args: Any, **kwargs: Any) -> Any:
            call, work = judging(args, kwargs)
            return await call.arun(work)

    else:

        def governed(*args: Any, **kwargs: Any) -> Any:
            call, work = judging(args, kwargs)
            return call.run(work)

    functools.update_wrapper(governed, function)
    return governed


def _as_listed(tool: BaseTool, named: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Name the arguments of a function as its tool lists them: a `Tool` has one, by another name."""
    if not isinstance(tool, Tool) or not named:
        return (), named
    (_, value), *more = named.items()
    return (value,), dict(more)


def _in_executor(function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await run_in_executor(None, function, *args, **kwargs)

    return run
