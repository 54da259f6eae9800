"""Contracts around LangChain tools: the copy is the tool, except that a refused run does not happen."""

import asyncio
import copy
import datetime
import enum
import inspect
import json
import pickle
import re
import sys
import uuid
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForToolRun
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from pydantic import BaseModel, ValidationError

from openbox_agentrt._extras import MissingExtraError
from openbox_agentrt._plain.arguments import plain_arguments
from openbox_agentrt.acel import ContractViolation, Session, at_most_n_times, at_most_total, must_precede
from openbox_agentrt.doors.langchain import govern_tool
from openbox_agentrt.doors.langchain.tool import ToolRefusedError, ToolStoppedError


def call(name: str, call_id: str = "call_1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def refused(message: Any) -> bool:
    assert isinstance(message, ToolMessage)
    return message.status == "error" and json.loads(str(message.content)).get("refused") is True


def args_seen(session: Session) -> list[dict[str, Any]]:
    return [row["args"] for row in session.trace]


@tool
def pay(amount: int, currency: str = "EUR") -> str:
    """Pay an amount."""
    return f"paid {amount} {currency}"


@tool
async def pay_async(amount: int) -> str:
    """Pay an amount."""
    await asyncio.sleep(0)
    return f"paid {amount}"


class Shout(BaseTool):
    name: str = "shout"
    description: str = "Shout a text."

    def _run(self, text: str, run_manager: CallbackManagerForToolRun | None = None) -> str:
        assert run_manager is not None
        return text.upper()


class Both(BaseTool):
    name: str = "both"
    description: str = "Has an async side that runs the sync one."

    def _run(self, text: str) -> str:
        return text.upper()

    async def _arun(self, text: str) -> str:
        return self._run(text)


TOOLS: dict[str, tuple[BaseTool, dict[str, Any], Any]] = {
    "function": (pay, {"amount": 5}, "paid 5 EUR"),
    "subclass": (Shout(), {"text": "hi"}, "HI"),
    "subclass with both": (Both(), {"text": "hi"}, "HI"),
    "single text": (Tool("old", lambda text: text * 2, "Double a text."), {"tool_input": "ab"}, "abab"),
}


@pytest.fixture(params=TOOLS)
def any_tool(request: pytest.FixtureRequest) -> tuple[BaseTool, dict[str, Any], Any]:
    return TOOLS[request.param]


# A run that breaks no contract is a run of the tool.


def test_a_run_is_judged_once_and_gives_the_same(any_tool: tuple[BaseTool, dict[str, Any], Any]) -> None:
    """Sync, whatever the tool is made of."""
    original, args, expected = any_tool
    session = Session()
    governed = govern_tool(session, original)

    assert governed.invoke(args) == original.invoke(args) == expected
    assert governed.invoke(call(original.name, **args)) == original.invoke(call(original.name, **args))
    assert len(session.trace) == 2


async def test_an_awaited_run_is_judged_once_and_gives_the_same(
    any_tool: tuple[BaseTool, dict[str, Any], Any],
) -> None:
    """An `_arun` that calls `_run`, or that is LangChain's default, does not count twice."""
    original, args, expected = any_tool
    session = Session()
    governed = govern_tool(session, original)

    assert await governed.ainvoke(args) == expected
    assert await governed.arun(args) == expected
    assert len(session.trace) == 2


async def test_an_async_tool_is_awaited() -> None:
    """The reservation holds while it runs."""
    session = Session()
    session.add_contract(at_most_n_times("pay_async", 2))
    governed = govern_tool(session, pay_async)

    answers = await asyncio.gather(
        *(governed.ainvoke(call("pay_async", f"call_{n}", amount=n)) for n in range(20))
    )

    assert [a.content for a in answers if a.status == "success"] == ["paid 0", "paid 1"]
    with pytest.raises(NotImplementedError):
        govern_tool(Session(), pay_async).invoke({"amount": 1})


@pytest.mark.parametrize(
    "original", [*(entry[0] for entry in TOOLS.values()), pay_async], ids=[*TOOLS, "async function"]
)
def test_the_copy_is_the_tool(original: BaseTool) -> None:
    """Name, texts, schemas, class and every field stay."""
    governed = govern_tool(Session(), original)

    assert isinstance(governed, type(original))
    for field in type(original).model_fields:
        if field not in ("func", "coroutine"):
            assert getattr(governed, field) == getattr(original, field), field
    assert governed.args == original.args
    assert governed.get_input_jsonschema() == original.get_input_jsonschema()
    assert governed.tool_call_schema == original.tool_call_schema or (
        governed.tool_call_schema.model_json_schema() == original.tool_call_schema.model_json_schema()  # type: ignore[union-attr] # none of these has a dict
    )


def test_the_original_is_untouched() -> None:
    """It can be governed by another session, or not at all."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 0))
    govern_tool(session, pay)

    assert pay.invoke({"amount": 5}) == "paid 5 EUR"
    assert type(pay) is StructuredTool


def test_contracts_see_validated_arguments() -> None:
    """Defaults filled in, texts turned to numbers, models as plain data."""

    class Money(BaseModel):
        amount: float
        currency: str = "EUR"

    @tool
    def transfer(money: Money, to: str = "me") -> str:
        """Transfer money."""
        return f"{type(money).__name__} to {to}"

    session = Session()
    session.add_contract(at_most_total("transfer", "money.amount", limit=100))
    governed = govern_tool(session, transfer)

    assert governed.invoke({"money": {"amount": "60"}}) == "Money to me"
    assert args_seen(session) == [{"money": {"amount": 60.0, "currency": "EUR"}, "to": "me"}]
    assert refused(governed.invoke(call("transfer", money={"amount": 60})))


@dataclass
class Item:
    price: float
    count: int = 1


def test_contracts_read_into_every_container() -> None:
    """Lists, mappings and dataclasses as well as models."""

    @tool
    def order(items: list[Item], options: dict[str, Item]) -> str:
        """Order items."""
        return f"{type(items[0]).__name__} {sorted(options)}"

    session = Session()
    governed = govern_tool(session, order)

    assert governed.invoke({"items": [{"price": 2}], "options": {"gift": {"price": 1, "count": 2}}}) == (
        "Item ['gift']"
    )
    assert args_seen(session) == [
        {"items": [{"price": 2.0, "count": 1}], "options": {"gift": {"price": 1.0, "count": 2}}}
    ]


def test_contracts_see_what_a_model_leaves_out() -> None:
    """The default of a tool without a schema of its own, which LangChain does not fill in."""

    class Pay(BaseTool):
        name: str = "pay"
        description: str = "Pay."

        def _run(self, to: str, amount: int = 500) -> str:
            return f"paid {amount}"

    session = Session()
    session.add_contract(at_most_total("pay", "amount", limit=400))

    assert refused(govern_tool(session, Pay()).invoke(call("pay", to="me")))


def test_contracts_do_not_see_what_is_injected() -> None:
    """The tool gets it all the same."""
    got: dict[str, Any] = {}

    @tool
    def send(
        text: str,
        config: RunnableConfig,
        call_id: Annotated[str, InjectedToolCallId],
        user: Annotated[str, InjectedToolArg],
        optional: RunnableConfig | None = None,
    ) -> str:
        """Send a text."""
        got.update(config=config, call_id=call_id, user=user)
        return text

    session = Session()
    governed = govern_tool(session, send)
    governed.invoke(call("send", text="hi", user="u1"), config={"configurable": {"thread_id": "t1"}})

    assert args_seen(session) == [{"text": "hi"}]
    assert (got["call_id"], got["user"]) == ("call_1", "u1")
    assert got["config"]["configurable"]["thread_id"] == "t1"


def test_contracts_see_what_a_json_schema_does_not_name() -> None:
    """A model cannot pass an argument by a contract by leaving it out of the schema."""

    def run(command: str, shell: str = "sh") -> str:
        return f"{shell}: {command}"

    original = StructuredTool.from_function(
        run,
        name="run",
        description="Run a command.",
        args_schema={"type": "object", "properties": {"command": {"type": "string"}}},
    )
    session = Session()
    govern_tool(session, original).invoke({"command": "ls", "shell": "bash"})

    assert args_seen(session) == [{"command": "ls", "shell": "bash"}]


CONDITIONAL = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "default": "cash"},
        "options": {"default": {}, "properties": {"retries": {"type": "integer", "default": 5}}},
        "elsewhere": {"$ref": "https://example.com/schema"},
    },
    "if": {"properties": {"kind": {"const": "card"}}},
    "then": {"properties": {"number": {"type": "integer", "default": 4111}}},
    "dependentRequired": {"kind": ["number"]},
    "unevaluatedProperties": {"type": "integer"},
}


@pytest.mark.parametrize(
    "given",
    [{}, {"kind": "card"}, {"kind": "card", "number": "7"}, {"options": {}, "other": "7", "elsewhere": 7}],
)
def test_contracts_see_what_runs_whatever_a_json_schema_says(given: dict[str, Any]) -> None:
    """LangChain takes it for a description: it fills nothing in, and makes nothing of another type."""
    session = Session()
    ran: list[dict[str, Any]] = []
    pay = StructuredTool(
        name="pay", description="Pay.", func=lambda **more: ran.append(more), args_schema=CONDITIONAL
    )

    govern_tool(session, pay).invoke(given)

    assert args_seen(session) == ran


@pytest.mark.parametrize("name", ["callbacks", "run_manager", "config"])
def test_contracts_see_what_only_looks_as_if_it_were_injected(name: str) -> None:
    """A model can call an argument as it likes, and the framework adds what is declared only."""
    session = Session()
    ran: list[dict[str, Any]] = []
    open_tool = StructuredTool(
        name="open", description="Take anything.", func=lambda **more: ran.append(more), args_schema={}
    )
    governed = govern_tool(session, open_tool)

    governed.invoke({name: "rm -rf /", "x": 1})
    assert governed.func is not None
    governed.func(**{name: "rm -rf /"})

    assert args_seen(session) == ran
    assert ran[-1] == {name: "rm -rf /"}


async def test_the_defaults_of_what_runs_are_judged() -> None:
    """Of the function or of the coroutine, also where the listed schema names no such argument."""
    session = Session()
    ran: list[int] = []

    def pay(to: str, amount: int = 5) -> None:
        ran.append(amount)

    async def apay(to: str, amount: int = 500) -> None:
        ran.append(amount)

    both = StructuredTool(
        name="pay", description="Pay.", func=pay, coroutine=apay, args_schema={"properties": {"to": {}}}
    )
    governed = govern_tool(session, both)
    governed.invoke({"to": "ann"})
    await governed.ainvoke({"to": "ann"})

    assert [args["amount"] for args in args_seen(session)] == ran == [5, 500]


def test_a_tool_with_one_input_lists_its_name() -> None:
    """Contracts know it by that, also where the function is called by its own name for it."""
    session = Session()
    governed = govern_tool(session, Tool("old", lambda text: text, "Say a text."))

    governed.invoke("ab")
    assert governed.func is not None
    governed.func(text="ab")
    governed.func("ab")

    assert args_seen(session) == [{"tool_input": "ab"}] * 3


def test_an_artifact_comes_through() -> None:
    """`content_and_artifact` stays what it is, for results and for refusals."""

    @tool(response_format="content_and_artifact")
    def search(query: str) -> tuple[str, dict[str, int]]:
        """Search."""
        return "found", {"rows": 3}

    session = Session()
    session.add_contract(at_most_n_times("search", 1))
    governed = govern_tool(session, search)
    answer = governed.invoke(call("search", query="x"))

    assert (answer.content, answer.artifact) == ("found", {"rows": 3})
    assert refused(governed.invoke(call("search", query="x")))


def test_return_direct_and_callbacks_stay() -> None:
    """The agent ends where it would have, and observers see the run."""
    events: list[str] = []

    class Observer(BaseCallbackHandler):
        def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
            events.append(f"start {serialized['name']} {kwargs['inputs']}")

        def on_tool_end(self, output: Any, **kwargs: Any) -> None:
            events.append("end")

        def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
            events.append(f"error {type(error).__name__}")

    session = Session()
    session.add_contract(at_most_n_times("pay", 1))
    governed = govern_tool(session, pay.model_copy(update={"return_direct": True, "callbacks": [Observer()]}))

    governed.invoke(call("pay", amount=5))
    governed.invoke(call("pay", amount=6))

    assert governed.return_direct is True
    assert events == [
        "start pay {'amount': 5}",
        "end",
        "start pay {'amount': 6}",
        "error ToolRefusedError",
    ]


# A refusal.


def test_a_refused_run_does_not_happen_and_is_an_error_message() -> None:
    """The model reads which contract and what would help; no argument is repeated."""
    session = Session(state={"token": "s3cret"})
    session.add_contract(must_precede("verify", "pay"))
    ran: list[int] = []
    original = StructuredTool.from_function(lambda amount: ran.append(amount), name="pay", description="Pay.")

    message = govern_tool(session, original).invoke(call("pay", amount=987654))

    assert refused(message)
    assert (message.tool_call_id, message.name) == ("call_1", "pay")
    told = json.loads(str(message.content))
    assert told["broken"][0]["needs"] == "verify"
    assert "987654" not in str(message)
    assert "s3cret" not in str(message)
    assert ran == []


async def test_an_awaited_refusal_is_an_error_message() -> None:
    """The same on the async side."""
    session = Session()
    session.add_contract(at_most_n_times("pay_async", 0))

    assert refused(await govern_tool(session, pay_async).ainvoke(call("pay_async", amount=5)))


def test_a_refusal_without_a_call_id_raises() -> None:
    """There is no message to put it in, and a text would look like a result."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 0))
    governed = govern_tool(session, pay)

    with pytest.raises(ToolRefusedError) as caught:
        governed.invoke({"amount": 5})

    assert isinstance(caught.value, ContractViolation)
    assert isinstance(caught.value, ToolException)
    assert caught.value.refusal is not None


def test_handle_tool_error_handles_a_refusal() -> None:
    """Agents without call ids ask for their errors as text."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 0))
    governed = govern_tool(session, pay.model_copy(update={"handle_tool_error": True}))

    assert json.loads(governed.invoke({"amount": 5}))["refused"] is True
    assert governed.invoke(call("pay", amount=5)).status == "error"


def test_the_session_that_does_not_halt_gives_messages_too() -> None:
    """`halt_on_violation` is about raising, and a tool answers."""
    session = Session(halt_on_violation=False)
    session.add_contract(at_most_n_times("pay", 0))

    assert refused(govern_tool(session, pay).invoke(call("pay", amount=5)))


def test_invalid_arguments_are_no_call() -> None:
    """Validation comes first, and what does not pass it counts nowhere."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 1))
    governed = govern_tool(session, pay)

    with pytest.raises(ValidationError):
        governed.invoke(call("pay", amount="a lot"))

    assert governed.invoke(call("pay", amount=5)).content == "paid 5 EUR"


# What counts as failed.


def test_a_message_that_is_an_error_is_a_failed_run() -> None:
    """It stays counted and allows nothing."""

    def verify() -> Any:
        return ToolMessage("down", tool_call_id="call_1", status="error")

    session = Session()
    session.add_contracts([must_precede("verify", "pay"), at_most_n_times("verify", 1)])
    governed = govern_tool(
        session, StructuredTool.from_function(verify, name="verify", description="Verify.")
    )

    message = governed.invoke(call("verify"))

    assert (message.content, message.status) == ("down", "error")
    assert refused(govern_tool(session, pay).invoke(call("pay", amount=5)))
    assert refused(governed.invoke(call("verify")))


def test_a_refusal_inside_another_tool_is_that_tools_error() -> None:
    """It is not mistaken for a refusal of the outer one."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 0))
    inner = govern_tool(session, pay)
    outer = StructuredTool.from_function(
        lambda: inner.invoke({"amount": 5}), name="outer", description="Calls another."
    )

    with pytest.raises(ToolRefusedError):
        govern_tool(session, outer).invoke(call("outer"))


# No way around.


@pytest.mark.parametrize("kind", ["func", "coroutine"])
async def test_the_function_of_a_governed_tool_is_governed(kind: str) -> None:
    """Frameworks take it out and call it directly."""
    session = Session()
    original = pay if kind == "func" else pay_async
    session.add_contract(at_most_n_times(original.name, 1))
    function: Any = getattr(govern_tool(session, original), kind)

    async def run() -> Any:
        return function(5) if kind == "func" else await function(5)

    assert (await run()).startswith("paid 5")
    with pytest.raises(ContractViolation):
        await run()
    assert args_seen(session)[0]["amount"] == 5


@pytest.mark.parametrize("how", ["copy", "deepcopy", "model_copy", "deep model_copy"])
def test_copies_share_the_budget(how: str) -> None:
    """A copy of a governed tool is governed by the same session."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 1))
    governed = govern_tool(session, pay)
    copies = {
        "copy": lambda: copy.copy(governed),
        "deepcopy": lambda: copy.deepcopy(governed),
        "model_copy": lambda: governed.model_copy(update={"description": "Another."}),
        "deep model_copy": lambda: governed.model_copy(deep=True),
    }

    assert copies[how]().invoke(call("pay", amount=5)).content == "paid 5 EUR"
    assert refused(governed.invoke(call("pay", amount=5)))


def test_the_same_session_governs_a_tool_once() -> None:
    """Twice would count every call twice."""
    session, other = Session(), Session()
    governed = govern_tool(other, govern_tool(session, pay))

    for again in (session, other):
        with pytest.raises(ValueError, match="'pay' is governed by this session already"):
            govern_tool(again, governed)
    assert governed.invoke({"amount": 5}) == "paid 5 EUR"
    assert len(session.trace) == len(other.trace) == 1


def test_what_is_no_tool_is_refused() -> None:
    """A function has another door."""
    not_a_tool: Any = len
    with pytest.raises(TypeError, match="is no LangChain tool"):
        govern_tool(Session(), not_a_tool)


def test_refusals_survive_pickling() -> None:
    """They cross process boundaries with what a model may be told."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 0))
    with pytest.raises(ToolRefusedError) as caught:
        govern_tool(session, pay).invoke({"amount": 5})

    for error in (caught.value, ToolStoppedError({"refused": True})):
        copied = pickle.loads(pickle.dumps(error))

        assert type(copied) is type(error)
        assert (copied.told, str(copied)) == (error.told, str(error))


@pytest.mark.parametrize("kind", [BaseTool, Tool, StructuredTool])
def test_only_what_is_replaced_runs_a_tool(kind: type[BaseTool]) -> None:
    """A way to run a tool that LangChain adds later fails here, and does not go past the contracts."""
    calls = re.compile(r"self\._a?run\b|self\.(func|coroutine)\(")
    members = {
        name
        for base in kind.__mro__
        if base.__module__.startswith("langchain_core.tools")
        for name, member in vars(base).items()
        if inspect.isfunction(member) and calls.search(inspect.getsource(member))
    }

    assert members >= {"run", "arun"}, "found too little: this guard would pass without checking anything"
    # Signatures and annotations are looked at elsewhere; nothing is called there.
    assert members - {"get_input_schema"} <= {"run", "arun", "_run", "_arun"}


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is used, and not on import."""
    monkeypatch.setitem(sys.modules, "langchain_core", None)
    monkeypatch.setitem(sys.modules, "langchain", None)
    monkeypatch.delitem(sys.modules, "langchain.agents", raising=False)
    monkeypatch.delitem(sys.modules, "langchain.agents.middleware", raising=False)
    from openbox_agentrt.doors import langchain as door

    with pytest.raises(MissingExtraError, match=r"\[langchain\]"):
        door.govern_tool(Session(), pay)
    with pytest.raises(MissingExtraError, match=r"\[langchain-agents\]"):
        door.contract_middleware(Session())


# What is judged is what the function receives.

CUSTOMER = uuid.UUID(int=5)


class Color(enum.Enum):
    RED = "red"


class Size(BaseModel):
    width: int
    color: Color = Color.RED


SIZE = Size(width=1)
TEXTS = st.sampled_from(["7", " 7", "red", "2026-01-02", str(uuid.UUID(int=7)), "[]", "x", ""])
JSON = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | TEXTS
SIZES = st.dictionaries(st.sampled_from(["width", "color"]), JSON, max_size=2)
CALLS = st.dictionaries(
    st.sampled_from(["number", "color", "customer", "day", "size", "sizes", "note", "extra"]),
    JSON | SIZES | st.lists(JSON | SIZES, max_size=2),
    max_size=5,
)


@given(calls=st.lists(CALLS, min_size=1, max_size=10), positional=st.booleans())
@settings(max_examples=60, deadline=None)
def test_contracts_see_what_the_tool_receives(calls: list[dict[str, Any]], positional: bool) -> None:
    """Enums, dates, UUIDs and models as data, with defaults, whatever a model writes."""
    received: list[dict[str, Any]] = []

    def buy(
        number: int,
        color: Color = Color.RED,
        customer: uuid.UUID = CUSTOMER,
        day: datetime.date | None = None,
        size: Size = SIZE,
        sizes: list[Size] | None = None,
        note: str = "none",
    ) -> str:
        received.append(dict(locals()))
        received[-1].pop("received", None)
        return "bought"

    session = Session()
    governed = govern_tool(
        session, StructuredTool.from_function(buy, description="Buy.", handle_validation_error=True)
    )
    for args in calls:
        governed.invoke(call("buy", **{"number": 1, **args}))
        if positional:
            assert governed.func is not None
            governed.func(3, Color.RED, size=SIZE)

    assert [row["args"] for row in session.trace] == [plain_arguments(args) for args in received]


@pytest.mark.parametrize(
    ("kind", "given", "judged"),
    [
        pytest.param(Color, "red", "red", id="an enum"),
        pytest.param(uuid.UUID, f"urn:uuid:{CUSTOMER}", str(CUSTOMER), id="a UUID"),
        pytest.param(datetime.date, "2026-01-02T00:00:00", "2026-01-02", id="a date"),
        pytest.param(Size, {"width": "3"}, {"width": 3, "color": "red"}, id="a model"),
    ],
)
def test_a_value_is_judged_as_it_is_received(kind: type, given: Any, judged: Any) -> None:
    """Each kind alone, however a model writes it."""
    received = []

    def buy(value: Any) -> str:
        received.append(value)
        return "bought"

    buy.__annotations__["value"] = kind
    session = Session()
    tool = StructuredTool.from_function(buy, description="Buy.", handle_validation_error=True)
    governed = govern_tool(session, tool)
    governed.invoke(call("buy", value=given))

    assert [type(value) for value in received] == [kind]
    assert [row["args"] for row in session.trace] == [{"value": judged}]
