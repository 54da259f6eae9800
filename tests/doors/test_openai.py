"""Contracts around an OpenAI model's tool calls: every shape they come in, and what the model is told."""

import asyncio
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import (
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionToolMessageParam,
)
from openai.types.responses import (
    ResponseCustomToolCall,
    ResponseFunctionToolCall,
    ResponseInputItemParam,
)
from pydantic import TypeAdapter

from openbox_agentrt.acel import (
    ContractViolation,
    Session,
    Violation,
    at_most_n_times,
    at_most_total,
    must_precede,
)
from openbox_agentrt.doors.openai import (
    MalformedToolCallError,
    arun_tool_calls,
    guard_openai_tool_call,
    run_tool_calls,
)


def chat(name: str, arguments: Any, call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def responses(name: str, arguments: Any, call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}


CHAT_CUSTOM = {"id": "call_1", "type": "custom", "custom": {"name": "code", "input": "print(1)"}}
RESPONSES_CUSTOM = {"type": "custom_tool_call", "call_id": "call_1", "name": "code", "input": "print(1)"}


@pytest.mark.parametrize(
    "tool_call",
    [
        pytest.param(chat("pay", '{"amount": 60}'), id="chat dict"),
        pytest.param(chat("pay", {"amount": 60}), id="chat dict, arguments already read"),
        pytest.param({"function": {"name": "pay", "arguments": '{"amount": 60}'}}, id="without id and type"),
        pytest.param(
            ChatCompletionMessageFunctionToolCall.model_validate(chat("pay", '{"amount": 60}')), id="object"
        ),
        pytest.param(responses("pay", '{"amount": 60}'), id="responses dict"),
        pytest.param(
            ResponseFunctionToolCall.model_validate(responses("pay", '{"amount": 60}')), id="responses object"
        ),
    ],
)
def test_every_shape_of_a_function_call_is_governed(tool_call: object) -> None:
    """The function gets its arguments, and a limit reads the same ones."""
    session = Session()
    session.add_contract(at_most_total("pay", "amount", limit=100))
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "sent"

    assert guard_openai_tool_call(session, tool_call, pay) == "sent"
    with pytest.raises(ContractViolation):
        guard_openai_tool_call(session, tool_call, pay)
    assert paid == [60]


@pytest.mark.parametrize(
    "tool_call",
    [
        pytest.param(CHAT_CUSTOM, id="chat dict"),
        pytest.param(ChatCompletionMessageCustomToolCall.model_validate(CHAT_CUSTOM), id="chat object"),
        pytest.param(RESPONSES_CUSTOM, id="responses dict"),
        pytest.param(ResponseCustomToolCall.model_validate(RESPONSES_CUSTOM), id="responses object"),
    ],
)
def test_every_shape_of_a_custom_tool_call_is_governed(tool_call: object) -> None:
    """Its text is passed by position, and contracts know it as `input`."""
    session = Session()
    session.add_contract(at_most_n_times("code", 1))

    assert guard_openai_tool_call(session, tool_call, lambda source: source.upper()) == "PRINT(1)"
    assert session.trace[0]["args"] == {"input": "print(1)"}
    with pytest.raises(ContractViolation):
        guard_openai_tool_call(session, tool_call, lambda source: source)


def test_a_limit_reads_the_default_of_an_argument_that_is_left_out() -> None:
    """The model cannot hide an amount by not naming it."""
    session = Session()
    session.add_contract(at_most_total("pay", "amount", limit=100))

    def pay(amount: int = 500) -> str:
        return "sent"

    with pytest.raises(ContractViolation):
        guard_openai_tool_call(session, chat("pay", "{}"), pay)


async def test_an_async_function_gives_a_coroutine() -> None:
    """It is admitted at once and has ended when it was awaited."""
    session = Session()
    session.add_contracts([at_most_n_times("pay", 1), must_precede("pay", "ship")])

    async def pay(amount: int) -> int:
        await asyncio.sleep(0)
        return amount

    pending = guard_openai_tool_call(session, chat("pay", '{"amount": 5}'), pay)
    with pytest.raises(ContractViolation):
        guard_openai_tool_call(session, chat("ship", "{}"), lambda: None)

    assert await pending == 5
    guard_openai_tool_call(session, chat("ship", "{}"), lambda: None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param("{", "not valid JSON", id="cut off"),
        pytest.param("", "missing a required argument: 'amount'", id="empty"),
        pytest.param('{"amount": 1} {"amount": 2}', "not valid JSON", id="two values"),
        pytest.param("{'amount': 1}", "not valid JSON", id="single quotes"),
        pytest.param('{"amount": 1, "amount": 900}', "'amount' is there twice", id="repeated key"),
        pytest.param('{"a": {"b": 1, "b": 2}}', "'b' is there twice", id="repeated key inside"),
        pytest.param('{"amount": NaN}', "NaN is not a JSON number", id="nan"),
        pytest.param('{"amount": -Infinity}', "-Infinity is not a JSON number", id="infinity"),
        pytest.param('{"amount": 1e999}', "1e999 is too large", id="too large"),
        pytest.param('{"amount": ' + "9" * 5000 + "}", "not valid JSON", id="very long number"),
        pytest.param("[" * 100_000, "nested too deeply", id="very deep"),
        pytest.param("[1]", "not a JSON object", id="list"),
        pytest.param("null", "not a JSON object", id="null"),
        pytest.param('"{}"', "not a JSON object", id="text"),
        pytest.param(None, "missing a required argument: 'amount'", id="no arguments"),
        pytest.param({1: 2}, "name of an argument is not text", id="number as a name"),
        pytest.param('{"amount": 1, "x": 2}', "unexpected keyword argument 'x'", id="unknown argument"),
        pytest.param("{}", "missing a required argument: 'amount'", id="missing argument"),
    ],
)
def test_malformed_arguments_are_no_call(arguments: Any, problem: str) -> None:
    """Nothing runs, nothing counts, and the error says what is wrong."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 1))
    ran: list[Any] = []

    def pay(amount: int) -> None:
        ran.append(amount)

    with pytest.raises(MalformedToolCallError, match=problem) as caught:
        guard_openai_tool_call(session, chat("pay", arguments), pay)

    assert ran == []
    assert (caught.value.tool, caught.value.call_id) == ("pay", "call_1")
    guard_openai_tool_call(session, chat("pay", '{"amount": 1}'), pay)


@pytest.mark.parametrize(
    ("tool_call", "problem"),
    [
        pytest.param({"type": "computer_call", "call_id": "c"}, "'computer_call' is not a call", id="type"),
        pytest.param({"id": "c", "type": "function"}, "names no tool", id="no function"),
        pytest.param(chat("", "{}"), "names no tool", id="empty name"),
        pytest.param({"function": {"name": 5, "arguments": "{}"}}, "names no tool", id="number as name"),
        pytest.param(chat("pay", "{}") | {"id": 5}, "id is not text", id="number as id"),
        pytest.param({"type": "custom", "custom": {"name": "x"}}, "input is not text", id="no input"),
        pytest.param(
            responses("pay", '{"amount": 1}') | {"status": "incomplete"}, "is not complete", id="incomplete"
        ),
        pytest.param(None, "names no tool", id="nothing"),
        pytest.param("pay", "names no tool", id="text"),
    ],
)
def test_what_is_no_tool_call_is_refused(tool_call: object, problem: str) -> None:
    """Whatever comes in, the function is not called."""
    ran: list[Any] = []

    with pytest.raises(MalformedToolCallError, match=problem):
        guard_openai_tool_call(Session(), tool_call, lambda **args: ran.append(args))
    assert ran == []


def test_the_error_survives_pickling() -> None:
    """It crosses process boundaries with its data."""
    error = MalformedToolCallError(tool="pay", call_id="c1", problem="the arguments are not a JSON object")

    copy = pickle.loads(pickle.dumps(error))

    assert (str(copy), copy.tool, copy.call_id, copy.problem) == (str(error), "pay", "c1", error.problem)
    assert isinstance(copy, ValueError)


# A whole turn.


def tools() -> dict[str, Callable[..., Any]]:
    def fail() -> None:
        raise OSError("password=hunter2")

    return {
        "verify": lambda customer: {"customer": customer, "verified": True},
        "refund": lambda amount: f"refunded {amount}",
        "code": lambda source: source,
        "fail": fail,
    }


def contents(messages: list[dict[str, Any]]) -> list[Any]:
    return [json.loads(m.get("content") or m["output"]) for m in messages]


def test_a_turn_answers_every_call() -> None:
    """Text as it is, everything else as JSON, in the order of the calls."""
    session = Session()
    session.add_contract(must_precede("verify", "refund"))

    messages = run_tool_calls(
        session,
        [
            chat("verify", '{"customer": "c1"}', "call_1"),
            ChatCompletionMessageFunctionToolCall.model_validate(chat("refund", '{"amount": 5}', "call_2")),
        ],
        tools(),
    )

    assert messages == [
        {"role": "tool", "tool_call_id": "call_1", "content": '{"customer": "c1", "verified": true}'},
        {"role": "tool", "tool_call_id": "call_2", "content": "refunded 5"},
    ]
    TypeAdapter(list[ChatCompletionToolMessageParam]).validate_python(messages)


def test_a_turn_of_the_responses_api_is_answered_in_its_form() -> None:
    """The whole output can be given: what is no call is passed over."""
    program_call = responses("verify", '{"customer": "c1"}', "call_3") | {
        "caller": {"type": "program", "caller_id": "call_9"}
    }
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
        ResponseFunctionToolCall.model_validate(responses("refund", '{"amount": 5}', "call_1")),
        RESPONSES_CUSTOM | {"call_id": "call_2"},
        ResponseFunctionToolCall.model_validate(program_call),
    ]

    messages = run_tool_calls(Session(), output, tools())

    assert messages == [
        {"type": "function_call_output", "call_id": "call_1", "output": "refunded 5"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "print(1)"},
        {
            "type": "function_call_output",
            "call_id": "call_3",
            "output": '{"customer": "c1", "verified": true}',
            "caller": {"type": "program", "caller_id": "call_9"},
        },
    ]
    TypeAdapter(list[ResponseInputItemParam]).validate_python(messages)


@pytest.mark.parametrize("halt", [True, False])
def test_a_refusal_is_an_answer_to_the_model(halt: bool) -> None:
    """It says which contract, what would help, and nothing of arguments, trace or state."""
    session = Session(state={"token": "s3cret"}, halt_on_violation=halt)
    session.add_contract(must_precede("verify", "refund"))

    messages = run_tool_calls(session, [chat("refund", '{"amount": 987654}')], tools())

    (told,) = contents(messages)
    assert told["refused"] is True
    assert told["broken"][0]["contract"] == "must_precede(verify, refund)"
    assert told["broken"][0]["needs"] == "verify"
    assert "s3cret" not in str(messages)
    assert "987654" not in str(messages)


def test_a_refusal_does_not_stop_the_rest_of_the_turn() -> None:
    """It concerns its own call only: the model can repair its mistake in the same turn."""
    session = Session()
    session.add_contract(must_precede("verify", "refund"))
    turn = [
        chat("refund", '{"amount": 5}', "call_1"),
        chat("verify", '{"customer": "c1"}', "call_2"),
        chat("refund", '{"amount": 5}', "call_3"),
    ]

    messages = run_tool_calls(session, turn, tools())

    assert [m["content"][:10] for m in messages] == ['{"refused"', '{"customer', "refunded 5"]


def test_a_withheld_result_is_not_told() -> None:
    """What broke a postcondition does not reach the model."""
    session = Session()
    session.register_tool("refund", postcondition=lambda state, result: False)

    (told,) = contents(run_tool_calls(session, [chat("refund", '{"amount": 987654}')], tools()))

    assert told["message"] == "the result broke a postcondition and is withheld"
    assert "987654" not in str(told)


@pytest.mark.parametrize(
    ("tool_call", "message"),
    [
        pytest.param(
            chat("refund", '{"amount": 1, "amount": 2}'), "'amount' is there twice", id="repeated key"
        ),
        pytest.param(chat("refund", "{}"), "missing a required argument: 'amount'", id="missing argument"),
        pytest.param(chat("drop_tables", "{}"), "there is no tool of this name", id="unknown tool"),
        pytest.param(responses("refund", "[]"), "the arguments are not a JSON object", id="responses"),
    ],
)
def test_a_malformed_call_is_an_answer_to_the_model(tool_call: dict[str, Any], message: str) -> None:
    """It can send the call again as it should be."""
    (told,) = contents(run_tool_calls(Session(), [tool_call], tools()))

    assert told["error"] == "malformed_tool_call"
    assert message in told["message"]


def test_a_call_that_cannot_be_answered_does_not_run() -> None:
    """Without an id there is no message to send back."""
    session = Session()

    with pytest.raises(MalformedToolCallError, match="no id to answer to"):
        run_tool_calls(session, [{"function": {"name": "refund", "arguments": '{"amount": 1}'}}], tools())
    assert session.trace == []


def test_an_error_of_a_tool_is_raised() -> None:
    """By default it is the program's business."""
    with pytest.raises(OSError, match="hunter2"):
        run_tool_calls(Session(), [chat("fail", "{}")], tools())


def test_an_error_of_a_tool_can_be_told_without_what_it_says() -> None:
    """Messages of exceptions carry secrets; its type does not."""
    messages = run_tool_calls(
        Session(), [chat("fail", "{}"), chat("refund", '{"amount": 5}')], tools(), on_tool_error="message"
    )

    assert json.loads(messages[0]["content"]) == {"error": "tool_failed", "type": "OSError"}
    assert messages[1]["content"] == "refunded 5"


def test_async_tools_are_refused_before_anything_runs() -> None:
    """A turn is not left half done because of its last tool."""
    session = Session()

    async def ship() -> None: ...

    with pytest.raises(TypeError, match="tool 'ship' is async: use arun_tool_calls"):
        run_tool_calls(session, [chat("refund", '{"amount": 5}')], tools() | {"ship": ship})
    assert session.trace == []


def test_a_coroutine_from_a_plain_function_is_refused() -> None:
    """It was not awaited, so it is no result."""

    async def ship() -> None: ...

    with pytest.raises(TypeError, match="use arun_tool_calls"):
        run_tool_calls(Session(), [chat("ship", "{}")], {"ship": lambda: ship()})


async def test_a_turn_with_async_tools() -> None:
    """The same answers, with refusals, failures and plain functions among them."""
    session = Session()
    session.add_contract(at_most_n_times("ship", 1))

    async def ship(order: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"shipped": order}

    messages = await arun_tool_calls(
        session,
        [
            chat("ship", '{"order": "o1"}', "call_1"),
            chat("ship", '{"order": "o2"}', "call_2"),
            chat("refund", '{"amount": 5}', "call_3"),
            chat("fail", "{}", "call_4"),
        ],
        tools() | {"ship": ship},
        on_tool_error="message",
    )

    assert [m["content"][:20] for m in messages] == [
        '{"shipped": "o1"}',
        '{"refused": true, "t',
        "refunded 5",
        '{"error": "tool_fail',
    ]


@dataclass
class Refund:
    amount: Decimal


def test_results_that_are_no_json_are_told_as_plain_data() -> None:
    """A result never makes the answer fail."""
    results: dict[str, Callable[[], Any]] = {
        "model": lambda: ResponseCustomToolCall.model_validate(RESPONSES_CUSTOM),
        "dataclass": lambda: Refund(amount=Decimal("1.50")),
        "set": lambda: {"b", "a"},
        "bytes": lambda: b"x",
        "none": lambda: None,
    }

    messages = run_tool_calls(Session(), [chat(name, "{}") for name in results], results)

    assert [m["content"].replace('": ', '":').replace(', "', ',"') for m in messages] == [
        ResponseCustomToolCall.model_validate(RESPONSES_CUSTOM).model_dump_json(),
        '{"amount":"1.50"}',
        '["a","b"]',
        "\"b'x'\"",
        "null",
    ]


def test_a_refusal_in_the_other_mode_is_returned_by_the_guard() -> None:
    """As in acel-core."""
    session = Session(halt_on_violation=False)
    session.add_contract(at_most_n_times("pay", 0))

    assert isinstance(guard_openai_tool_call(session, chat("pay", "{}"), lambda: None), Violation)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(arguments=st.dictionaries(st.text(min_size=1), JSON, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_a_model_wrote_is_what_the_function_gets(arguments: dict[str, Any]) -> None:
    """Every JSON object arrives whole, and contracts see the same one."""
    session = Session()

    got = guard_openai_tool_call(session, chat("echo", json.dumps(arguments)), lambda **args: args)

    assert got == arguments == session.trace[0]["args"]


@pytest.mark.parametrize("arguments", ["", " \n", None, "{}"])
def test_a_tool_without_parameters_needs_no_arguments(arguments: Any) -> None:
    """Models call it with an empty text, or with none."""
    assert guard_openai_tool_call(Session(), chat("now", arguments), lambda: "12:00") == "12:00"


def test_an_answer_without_calls_is_no_call() -> None:
    """The SDK has None for it."""
    assert run_tool_calls(Session(), None, {}) == []


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def endless() -> Any:
    inside: list[Any] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(endless(), id="a list inside itself"),
        pytest.param({"n": 10**5000}, id="a number without end"),
        pytest.param([Rude()], id="an object without a text"),
        pytest.param("\ud800", id="text that is not Unicode"),
        pytest.param({1, "a", (2, None)}, id="a set of anything"),
        pytest.param(float("nan"), id="not a number"),
    ],
)
def test_a_result_that_cannot_be_written_gets_its_answer(result: Any) -> None:
    """The call has run, and so do the others of its turn; each has one answer, which can be sent."""
    calls = [chat("odd", "{}", "c1"), chat("fine", "{}", "c2")]

    answers = run_tool_calls(Session(), calls, {"odd": lambda: result, "fine": lambda: "fine"})

    assert [answer["tool_call_id"] for answer in answers] == ["c1", "c2"]
    assert answers[1]["content"] == "fine"
    assert answers[0]["content"].encode()


async def test_a_generator_is_answered_with_what_it_gives() -> None:
    """A model cannot read a generator."""

    def rows() -> Any:
        yield from (1, 2)

    async def arows() -> Any:
        yield 3

    tools = {"rows": rows, "arows": arows}
    assert run_tool_calls(Session(), [chat("rows", "{}")], {"rows": rows})[0]["content"] == "[1, 2]"
    answers = await arun_tool_calls(Session(), [chat("rows", "{}"), chat("arows", "{}")], tools)
    assert [answer["content"] for answer in answers] == ["[1, 2]", "[3]"]


@given(text=st.text() | st.binary().map(lambda data: data.decode("latin-1")))
@settings(max_examples=60, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but the documented error comes of it."""
    try:
        got = guard_openai_tool_call(Session(), chat("echo", text), lambda **args: args)
    except MalformedToolCallError:
        return
    assert got == (json.loads(text) if text.strip() else {})
