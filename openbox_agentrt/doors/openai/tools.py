"""
Contracts around the tool calls of an OpenAI model, whatever the API that they came through.

`guard_openai_tool_call` runs one call and raises if it may not run. `run_tool_calls` and `arun_tool_calls`
run what a model asked for in one turn and give the messages to send back, where a refusal is an answer
that the model can act on. Nothing here imports the SDK: its objects are read by their attributes.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from openbox_agentrt._plain.freezing import freeze
from openbox_agentrt.doors.arguments import BoundCall, Parameters, is_coroutine_function
from openbox_agentrt.doors.call import GovernedCall
from openbox_agentrt.doors.judged_work import Governance
from openbox_agentrt.doors.openai.tool_call import (
    MalformedToolCallError,
    ToolCall,
    answer_to,
    is_tool_call,
    output_field,
    read_tool_call,
)
from openbox_agentrt.doors.outcome import PlainAnswers, Reading
from openbox_agentrt.doors.told_of_stop import told_of
from openbox_agentrt.doors.unfit import report_unclear

if TYPE_CHECKING:
    from openbox_agentrt.acel import Session
    from openbox_agentrt.acel.outcome import OutcomeHook

log = logging.getLogger(__name__)

T = TypeVar("T")
OnToolError = Literal["raise", "message"]
Work = Callable[[Mapping[str, Any]], Any]


def guard_openai_tool_call(
    session: Session | None,
    tool_call: object,
    func: Callable[..., Any],
    *,
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> Any:
    """
    Run one tool call of an OpenAI model if the session's contracts admit it.

    Args:
        session: Session that judges. Contracts know the tool by the name that the model called.
        tool_call: An entry of a chat completion's ``tool_calls`` or an item of a response's ``output``, as an
            object of the SDK or as a dict.
        func: Does the work, called with the arguments by keyword. The text for a custom tool is passed by
            position, and contracts know it as ``input``.
        governance: Has Core judge the call as well, in the run that the caller is in.
        outcome: Says what became of a call that returned, as for `openbox_agentrt.doors.callables.guard`.

    Returns:
        What `func` returned; a coroutine, if it is async or there is a governance.

    Raises:
        MalformedToolCallError: The call cannot be read in exactly one way, or does not fit `func`. Nothing
            ran, and no contract counted it.
        ContractViolation: As for `openbox_agentrt.doors.callables.guard`, and so is `GovernanceError`.
    """
    read = _reported(session, read_tool_call, tool_call)
    call, work = _prepare(session, governance, read, func, PlainAnswers(outcome))
    if governance is not None:
        return call.arun(functools.partial(_awaited, work))
    return call.run(work)


def run_tool_calls(
    session: Session,
    tool_calls: Iterable[object] | None,
    tools: Mapping[str, Callable[..., Any]],
    *,
    on_tool_error: OnToolError = "raise",
    outcome: OutcomeHook | None = None,
) -> list[dict[str, Any]]:
    """
    Run the tool calls of one turn, one after the other, and answer each.

    Items of other types, such as a response's messages and reasoning, are passed over, so that a whole
    ``response.output`` can be given.

    Args:
        session: Session that judges.
        tool_calls: As for `guard_openai_tool_call`. None, as an answer without calls has it, is no call.
        tools: Functions by name.
        on_tool_error: What to do with an exception of a function: "raise" it, or tell the model in a
            "message" that names its type and nothing that it says.
        outcome: Says what became of a call that returned, as for `openbox_agentrt.doors.callables.guard`.

    Returns:
        One message per call, to be sent back to the model: ``role: tool`` for chat completions,
        ``function_call_output`` or ``custom_tool_call_output`` for the Responses API. A call that was
        refused, that is malformed or that names no known tool is answered with what would help.

    Raises:
        MalformedToolCallError: A call has no id, so that it cannot even be answered. It did not run.
        TypeError: A function is async: `arun_tool_calls` runs those.
    """
    for name, func in tools.items():
        if is_coroutine_function(func):
            raise TypeError(f"tool {name!r} is async: use arun_tool_calls")
    messages = []
    for raw in filter(is_tool_call, tool_calls or ()):
        # First, because a call that cannot be answered must not run.
        message = _reported(session, answer_to, raw)
        try:
            call, work = _look_up(session, None, raw, tools, outcome)
            result = call.run(functools.partial(_not_awaited, work))
        except Exception as error:  # noqa: BLE001 - `_told` re-raises what is no answer to the model
            result = _told(error, on_tool_error)
        messages.append(message | {output_field(message): _text(result)})
    return messages


async def arun_tool_calls(
    session: Session | None,
    tool_calls: Iterable[object] | None,
    tools: Mapping[str, Callable[..., Any]],
    *,
    on_tool_error: OnToolError = "raise",
    governance: Governance | None = None,
    outcome: OutcomeHook | None = None,
) -> list[dict[str, Any]]:
    """
    `run_tool_calls` for tools of which some are async. They run one after the other all the same.

    Args:
        session, tool_calls, tools, on_tool_error, outcome: As there. The session may be None if `governance`
            has contracts of its own.
        governance: Has Core judge each call as well, in the run that the caller is in. What Core or a person
            decides against is an answer to the model too.

    Raises:
        GovernanceHaltError: The run was halted.
        UngovernedCallError: There is a governance and no run.
    """
    messages = []
    for raw in filter(is_tool_call, tool_calls or ()):
        message = _reported(session, answer_to, raw)
        try:
            call, work = _look_up(session, governance, raw, tools, outcome)
            result = await call.arun(functools.partial(_awaited, work))
        except Exception as error:  # noqa: BLE001 - as above; a cancellation is no Exception and goes on
            result = _told(error, on_tool_error)
        messages.append(message | {output_field(message): _text(result)})
    return messages


def _reported(session: Session | None, read: Callable[[Any], T], raw: object) -> T:
    """Read something, and keep a call in the evidence that cannot be read."""
    try:
        return read(raw)
    except MalformedToolCallError as error:
        report_unclear(session, error.tool, error.problem)
        raise


def _look_up(
    session: Session | None,
    governance: Governance | None,
    raw: object,
    tools: Mapping[str, Callable[..., Any]],
    outcome: OutcomeHook | None,
) -> tuple[GovernedCall, Work]:
    call, func = _reported(session, functools.partial(_named, tools), raw)
    gated, work = _prepare(session, governance, call, func, PlainAnswers(outcome))
    return dataclasses.replace(gated, on_stop=told_of), work


def _named(tools: Mapping[str, Callable[..., Any]], raw: object) -> tuple[ToolCall, Callable[..., Any]]:
    """Read a call, and find the tool that it names."""
    call = read_tool_call(raw)
    func = tools.get(call.tool)
    if func is None:
        raise MalformedToolCallError(
            tool=call.tool, call_id=call.call_id, problem="there is no tool of this name"
        )
    return call, func


def _prepare(
    session: Session | None,
    governance: Governance | None,
    call: ToolCall,
    func: Callable[..., Any],
    reading: Reading,
) -> tuple[GovernedCall, Work]:
    parameters = Parameters(call.tool, func, session)
    is_custom = call.type in ("custom", "custom_tool_call")
    try:
        bound = parameters.call((call.args["input"],), {}) if is_custom else parameters.call((), call.args)
    except (TypeError, ValueError) as error:
        raise MalformedToolCallError(
            tool=call.tool, call_id=call.call_id, problem=_problem_of(error)
        ) from error
    gated = GovernedCall(
        session=session,
        tool=call.tool,
        args=_input_of(call, bound) if is_custom else bound.judged,
        governance=governance,
        reading=reading,
        check=bound.check,
    )

    def work(judged: Mapping[str, Any]) -> Any:
        if judged is gated.args:
            return bound.run_after_waiting(bound.judged)
        return func(judged["input"]) if is_custom else bound.run_after_waiting(judged)

    return gated, work


def _input_of(call: ToolCall, bound: BoundCall) -> dict[str, Any]:
    """Give what contracts see of a custom tool: its text, or what its function makes of it."""
    value = next(iter(bound.judged.values()), call.args["input"])
    return call.args if value == [call.args["input"]] else {"input": value}


def _problem_of(error: Exception) -> str:
    """Say what is wrong with arguments, without the values that a validator quotes."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors(include_url=False)]
    return f"the arguments do not fit: {'; '.join(found)}"


def _not_awaited(work: Work, named: Mapping[str, Any]) -> Any:
    result = _run_through(work(named))
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("a tool returned an awaitable: use arun_tool_calls")
    return result


async def _awaited(work: Work, named: Mapping[str, Any]) -> Any:
    result = _run_through(work(named))
    if inspect.isawaitable(result):
        result = _run_through(await result)
    return [item async for item in result] if isinstance(result, AsyncGeneratorType) else result


def _run_through(result: Any) -> Any:
    # A model is answered with what a generator gives, and not with the generator.
    return list(result) if isinstance(result, GeneratorType) else result


def _told(error: Exception, on_tool_error: OnToolError) -> dict[str, Any]:
    if isinstance(error, MalformedToolCallError):
        return error.for_model()
    if on_tool_error == "raise":
        raise error
    from openbox_agentrt.doors.verdicts import stops_the_run

    if stops_the_run(error):
        raise error
    return {"error": "tool_failed", "type": type(error).__name__}


def _text(result: object) -> str:
    if isinstance(result, str):
        return result.encode("utf-8", "backslashreplace").decode()
    try:
        return json.dumps(result, default=_json_form, skipkeys=True)
    except Exception as error:  # noqa: BLE001 - the tool has run, so its call is answered with what can be seen
        log.debug("a result is written without its own code: %s", type(error).__name__)
        return json.dumps(freeze(result))


def _json_form(value: Any) -> Any:
    # A result must not make its answer fail, whatever it is.
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return str(value)
