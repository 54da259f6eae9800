"""
One tool call of an OpenAI model, read strictly from any of the shapes that it comes in.

What the model wrote is unknown data: it is read once, here, and what cannot be read in exactly one way is
refused. A repeated key is the example: ``{"amount": 1, "amount": 900}`` is a small amount to one reader and a
large one to the next, so a contract and a tool could see two different calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from openbox_agentrt._plain.strict_json import read_json

from ..._picklable import PicklableError

CallType = Literal["function", "custom", "function_call", "custom_tool_call"]


class MalformedToolCallError(PicklableError, ValueError):
    """
    A model's tool call cannot be read, or does not fit the function. Nothing ran, and no contract counted it.

    Attributes:
        tool: Name that the model called, or None if it could not be read.
        call_id: Id of the call, or None if it could not be read.
        problem: What is wrong, in words that can be shown to the model.
    """

    def __init__(self, *, tool: str | None, call_id: str | None, problem: str) -> None:
        self.tool = tool
        self.call_id = call_id
        self.problem = problem
        super().__init__(f"tool call {tool!r} is malformed: {problem}")

    def for_model(self) -> dict[str, Any]:
        """Say what the model is told: no more than what is wrong with its own call."""
        return {"error": "malformed_tool_call", "tool": self.tool, "message": self.problem}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """
    Hold a tool call that was read.

    Attributes:
        type: What it is: ``function`` or ``custom`` in chat completions, ``function_call`` or
            ``custom_tool_call`` in the Responses API.
        tool: Name of the tool.
        call_id: Id that the answer refers to, or None if the call had none.
        args: Arguments by name. A custom tool has one, ``input``.
    """

    type: CallType
    tool: str
    call_id: str | None
    args: dict[str, Any]


def read_tool_call(tool_call: object) -> ToolCall:
    """
    Read a tool call.

    Args:
        tool_call: A dict or an object of the SDK: an entry of a chat completion's ``tool_calls``, or an
            item of a response's ``output`` that is a ``function_call`` or a ``custom_tool_call``. A dict
            may hold its arguments as a mapping instead of text.

    Raises:
        MalformedToolCallError: It is none of these, or its arguments are not one JSON object.
    """
    call_type = _read(tool_call, "type")
    if call_type in ("function_call", "custom_tool_call"):
        body, id_field = tool_call, "call_id"
    elif call_type == "custom":
        body, id_field = _read(tool_call, "custom"), "id"
    elif call_type in ("function", None):
        # acel-core's form has no type.
        call_type, body, id_field = "function", _read(tool_call, "function"), "id"
    else:
        _refuse(None, None, f"{call_type!r} is not a call of a function or a custom tool")

    call_id = _read(tool_call, id_field)
    tool = _read(body, "name")
    if call_id is not None and not isinstance(call_id, str):
        _refuse(None, None, "its id is not text")
    if not isinstance(tool, str) or not tool:
        _refuse(None, call_id, "it names no tool")
    if _read(tool_call, "status") in ("incomplete", "in_progress"):
        _refuse(tool, call_id, "it is not complete")

    if call_type in ("custom", "custom_tool_call"):
        text = _read(body, "input")
        if not isinstance(text, str):
            _refuse(tool, call_id, "its input is not text")
        args: dict[str, Any] = {"input": text}
    else:
        args = _read_arguments(_read(body, "arguments"), tool, call_id)
    return ToolCall(type=call_type, tool=tool, call_id=call_id, args=args)


def is_tool_call(item: object) -> bool:
    """Tell whether an item of a model's output is a tool call that is answered by a function."""
    return _read(item, "type") in ("function", "custom", "function_call", "custom_tool_call") or (
        _read(item, "type") is None and _read(item, "function") is not None
    )


def answer_to(tool_call: object) -> dict[str, Any]:
    """
    Begin the message that answers a tool call, in the form of the API that it came through.

    Raises:
        MalformedToolCallError: The call has no id that an answer could refer to.
    """
    call_type = _read(tool_call, "type")
    in_responses = call_type in ("function_call", "custom_tool_call")
    call_id = _read(tool_call, "call_id" if in_responses else "id")
    if not isinstance(call_id, str) or not call_id:
        _refuse(None, None, "it has no id to answer to")
    if not in_responses:
        return {"role": "tool", "tool_call_id": call_id}
    answer: dict[str, Any] = {"type": f"{call_type}_output", "call_id": call_id}
    caller = _read(tool_call, "caller")
    if caller is not None:
        # What a program of the model called is answered to that program.
        answer["caller"] = dict(caller) if isinstance(caller, Mapping) else caller.model_dump()
    return answer


def output_field(answer: Mapping[str, Any]) -> str:
    """Name the field in which the text of an answer goes."""
    return "content" if "role" in answer else "output"


def _read(value: object, field: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(field)
    return getattr(value, field, None)


def _read_arguments(arguments: object, tool: str, call_id: str | None) -> dict[str, Any]:
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        # How models call a tool without parameters. Whether it has some is for its signature to say.
        return {}
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments)
        except ValueError as error:
            raise MalformedToolCallError(
                tool=tool, call_id=call_id, problem=f"the arguments are not valid JSON: {error}"
            ) from error
    if not isinstance(arguments, Mapping):
        _refuse(tool, call_id, "the arguments are not a JSON object")
    if not all(isinstance(name, str) for name in arguments):
        _refuse(tool, call_id, "the name of an argument is not text")
    return dict(arguments)


def _refuse(tool: str | None, call_id: str | None, problem: str) -> NoReturn:
    raise MalformedToolCallError(tool=tool, call_id=call_id, problem=problem)
