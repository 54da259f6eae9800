"""What `validate_call` makes of arguments is what is judged, and what runs."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, validate_call

from openbox_agentrt.acel import ContractViolation, Session, at_most_n_times, at_most_total
from openbox_agentrt.doors import callables
from openbox_agentrt.doors import validated as validated_module
from openbox_agentrt.doors.openai import (
    MalformedToolCallError,
    arun_tool_calls,
    guard_openai_tool_call,
    run_tool_calls,
)

# What a model passes is not what the types of a function say.
guard: Any = callables.guard

ran: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


class Order(BaseModel):
    amount: int
    customer: str = "nobody"


@validate_call
def pay(customer: int, amount: int = 5) -> int:
    ran.append((customer, amount))
    return amount


untyped: Any = pay


@validate_call
async def apay(customer: int, amount: int = 5) -> int:
    ran.append((customer, amount))
    return amount


@validate_call(config=ConfigDict(str_strip_whitespace=True), validate_return=True)
def named(customer: str) -> int:
    ran.append(customer)
    return "7"  # type: ignore[return-value]


@validate_call(validate_return=True)
async def anamed(customer: int) -> int:
    ran.append(customer)
    return "7"  # type: ignore[return-value]


@validate_call
def order(order: Order) -> int:
    ran.append(order)
    return order.amount


@validate_call
def counted(number: Annotated[int, BeforeValidator(lambda value: int(value) + 1)]) -> None:
    ran.append(number)


@validate_call
def filled(items: Annotated[list[int], Field(default_factory=lambda: [1, 2])]) -> None:
    ran.append(items)


def logged(func: Any) -> Any:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        ran.append("logged")
        return func(*args, **kwargs)

    return wrapper


class Shop:
    @validate_call
    def pay(self, amount: int) -> int:
        ran.append(amount)
        return amount

    @validate_call
    def __call__(self, amount: int) -> int:
        ran.append(amount)
        return amount


def customers() -> Session:
    return Session(contracts=[at_most_n_times("pay", 1, key="customer")])


def test_one_customer_in_many_spellings_is_one_customer() -> None:
    """The function gets 7 for each of them."""
    governed = guard(customers(), "pay", pay)

    governed("7")
    for spelling in (7, " 7", "07", "+7", "7.0", 7.0):
        with pytest.raises(ContractViolation):
            governed(spelling)

    assert ran == [(7, 5)]


@pytest.mark.parametrize(
    ("func", "field", "args", "told"),
    [
        pytest.param(pay, "amount", ("7", "30"), (7, 30), id="a text"),
        pytest.param(pay, "amount", ("7",), (7, 5), id="a default"),
        pytest.param(functools.partial(untyped, amount="30"), "amount", ("7",), (7, 30), id="a partial"),
        pytest.param(order, "order.amount", ({"amount": "30"},), Order(amount=30), id="a model"),
        pytest.param(Shop().pay, "amount", ("30",), 30, id="a method"),
        pytest.param(Shop(), "amount", ("30",), 30, id="an object that can be called"),
        pytest.param(counted, "number", (29,), 30, id="a validator of one's own"),
    ],
)
def test_it_is_what_contracts_see_and_what_runs(func: Any, field: str, args: Any, told: Any) -> None:
    """Validated once: a validator that counts counts once."""
    limit = at_most_total("pay", field, 30)
    session = Session(contracts=[limit])

    guard(session, "pay", func)(*args)

    assert ran == [told]


def test_a_default_that_is_made_is_judged() -> None:
    """As the list that it is."""
    session = Session(contracts=[at_most_total("fill", "items.*", 2)])

    with pytest.raises(ContractViolation):
        guard(session, "fill", filled)()

    assert ran == []


def test_settings_of_the_decorator_stay() -> None:
    """Blanks are taken off the text, and the result becomes a number."""
    governed = guard(Session(contracts=[at_most_n_times("n", 1, key="customer")]), "n", named)

    assert governed("  a  ") == 7
    with pytest.raises(ContractViolation):
        governed("a")

    assert ran == ["a"]


async def test_async_functions() -> None:
    """Are coroutine functions as before."""
    governed = guard(customers(), "pay", apay)

    assert await governed("7") == 5
    with pytest.raises(ContractViolation):
        await governed(" 7")
    assert await guard(Session(), "n", anamed)("3") == 7

    assert ran == [(7, 5), 3]


def test_what_it_does_not_take_is_its_own_error_and_no_call() -> None:
    """As without the guard."""
    session = Session(contracts=[at_most_n_times("pay", 1)])

    with pytest.raises(ValidationError):
        guard(session, "pay", pay)("somebody")

    assert session.reserve("pay").allowed


def test_a_decorator_around_it_runs() -> None:
    """With the arguments that were validated."""
    governed = guard(customers(), "pay", logged(pay))

    governed("7")
    with pytest.raises(ContractViolation):
        governed(" 7")

    assert ran == ["logged", (7, 5)]


def test_calls_of_an_openai_model() -> None:
    """The model is told what does not fit, and not the values."""
    session = customers()

    def call(arguments: str) -> dict[str, Any]:
        return {"id": "1", "type": "function", "function": {"name": "pay", "arguments": arguments}}

    assert guard_openai_tool_call(session, call('{"customer": "7"}'), pay) == 5
    with pytest.raises(ContractViolation):
        guard_openai_tool_call(session, call('{"customer": " 7"}'), pay)
    with pytest.raises(MalformedToolCallError, match="customer") as caught:
        guard_openai_tool_call(session, call('{"customer": "secret-name"}'), pay)
    (message,) = run_tool_calls(session, [call('{"customer": "secret-name"}')], {"pay": pay})
    (amessage,) = asyncio.run(arun_tool_calls(session, [call('{"customer": "07"}')], {"pay": apay}))

    assert "secret-name" not in str(caught.value) + repr(message)
    assert "refused" in amessage["content"]
    assert ran == [(7, 5)]


def test_a_custom_tool_of_an_openai_model() -> None:
    """Its text is what the function makes of it."""
    session = Session(contracts=[at_most_n_times("pay", 1, key="input")])

    def call(text: str) -> dict[str, Any]:
        return {"id": "1", "type": "custom", "custom": {"name": "pay", "input": text}}

    guard_openai_tool_call(session, call("7"), pay)
    with pytest.raises(ContractViolation):
        guard_openai_tool_call(session, call(" 7"), pay)

    assert ran == [(7, 5)]


def test_a_decorator_that_cannot_be_looked_into_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is guarded, with what to do."""
    monkeypatch.setattr(validated_module, "_validator_of", lambda func: None)

    with pytest.raises(TypeError, match="put the guard inside of it"):
        guard(Session(), "pay", pay)
    guarded_inside = validate_call(guard(customers(), "pay", untyped.__wrapped__))
    guarded_inside("7")
    with pytest.raises(ContractViolation):
        guarded_inside(" 7")
