"""What contracts see of a call's arguments is what runs, whatever they are made of."""

import asyncio
import dataclasses
import datetime
import enum
import functools
import pickle
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from openbox_agentrt._plain.arguments import plain_arguments, plain_value
from openbox_agentrt.acel import ContractViolation, Session, at_most_n_times, at_most_total, matching
from openbox_agentrt.doors.arguments import (
    ChangedArgumentsError,
    Parameters,
    UnfitArgumentsError,
    in_form_of,
)
from openbox_agentrt.doors.callables import guard


class Currency(enum.Enum):
    EUR = "eur"


class Payment(BaseModel):
    amount: int
    currency: Currency = Currency.EUR


@dataclasses.dataclass(frozen=True)
class Order:
    payment: Payment
    day: datetime.date
    note: str = "none"


class Pair(NamedTuple):
    left: str
    right: int


ORDER = Order(Payment(amount=7), datetime.date(2026, 1, 2))
CUSTOMER = uuid.UUID(int=5)


def test_contracts_look_into_objects() -> None:
    """Models and dataclasses by their fields, everything else as the value that it is."""
    session = Session()

    guard(session, "buy", lambda **args: None)(order=ORDER, customer=CUSTOMER, pair=Pair("a", 1))

    assert session.trace[0]["args"] == {
        "order": {"payment": {"amount": 7, "currency": "eur"}, "day": "2026-01-02", "note": "none"},
        "customer": str(CUSTOMER),
        "pair": ["a", 1],
    }


@pytest.mark.parametrize(
    ("tool", "contract"),
    [
        pytest.param(
            functools.partial(lambda amount, to: to, 900, to="eve"),
            at_most_total("t", "amount", 500),
            id="by position",
        ),
        pytest.param(
            functools.partial(lambda amount: 1, amount=900), at_most_total("t", "amount", 500), id="by name"
        ),
        pytest.param(
            functools.partial(functools.partial(lambda a, amount: 1, 1), 900),
            at_most_total("t", "amount", 500),
            id="twice",
        ),
        pytest.param(
            functools.partial(lambda order: 1, ORDER),
            at_most_total("t", "order.payment.amount", 5),
            id="inside",
        ),
        pytest.param(
            functools.partial(lambda order: 1, ORDER),
            at_most_n_times(matching("t", "^eur$", field="order.payment.currency"), 0),
            id="an enum",
        ),
    ],
)
def test_what_a_partial_has_bound_is_judged(tool: Callable[[], Any], contract: Any) -> None:
    """It is an argument of the call like any other."""
    with pytest.raises(ContractViolation):
        guard(Session(contracts=[contract]), "t", tool)()


def test_a_partial_is_called_with_everything() -> None:
    """The function gets what it would get."""

    def collect(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    guarded = guard(Session(), "t", functools.partial(collect, 1, x=2))

    assert guarded(3, y=4) == ((1, 3), {"x": 2, "y": 4})


async def test_what_was_changed_while_it_was_judged_does_not_run() -> None:
    """An async condition takes its time, and somebody changes the list meanwhile."""
    session, ran = Session(contracts=[at_most_n_times("send", 1)]), []
    to = ["ann"]

    async def slow(state: Any, args: Any) -> bool:
        to[0] = "eve"
        await asyncio.sleep(0)
        return True

    session.register_tool("send", precondition=slow)

    async def send(to: list[str]) -> None:
        ran.append(to)

    with pytest.raises(ChangedArgumentsError, match="'send' were changed while they were judged"):
        await guard(session, "send", send)(to)

    assert ran == []
    assert session.in_flight == 0
    assert (await session.areserve("send")).allowed, "a call that did not run was counted"


def test_the_errors_survive_pickling() -> None:
    """They cross process boundaries."""
    for error in (ChangedArgumentsError("pay"), UnfitArgumentsError("pay")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.tool, str(again)) == (type(error), "pay", str(error))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"a": {"b": "x"}}, {"a": {"b": "***"}}, id="mappings"),
        pytest.param(["x", ["y"]], ["***", ["y"]], id="lists"),
        pytest.param(("x", 1), ["***", 1], id="a tuple"),
        pytest.param(Pair("x", 1), ["***", 1], id="a named tuple"),
        pytest.param({"x"}, ["***"], id="a set"),
        pytest.param(Order(Payment(amount=1), datetime.date(2026, 1, 2), "ann@x"), None, id="a dataclass"),
        pytest.param(PurePosixPath("/home/ann"), "/home/***", id="a path"),
        pytest.param(b"ann", "***", id="bytes"),
        pytest.param(datetime.date(1990, 2, 3), "1900-01-01", id="a date"),
        pytest.param(Decimal("1.5"), Decimal("0"), id="a decimal"),
    ],
)
def test_other_values_get_the_form_of_the_old_ones(old: Any, new: Any) -> None:
    """A tool gets the types that it was called with."""
    if new is None:
        new = {**plain_value(old), "note": "***"}

    made = in_form_of(old, new)

    assert type(made) is type(old)
    assert plain_value(made) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(CUSTOMER, "***", id="a UUID"),
        pytest.param(Currency.EUR, "***", id="an enum"),
        pytest.param(datetime.date(2026, 1, 2), "***", id="a date"),
        pytest.param(["a", "b"], ["a"], id="an item less"),
        pytest.param({"a": "b"}, {}, id="a missing field"),
        pytest.param(5, "***", id="a number"),
    ],
)
def test_what_does_not_fit_does_not_run(old: Any, new: Any) -> None:
    """The old value is not used instead."""
    ran: list[Any] = []
    call = Parameters("t", lambda value: ran.append(value), None).call((old,), {})

    with pytest.raises(UnfitArgumentsError):
        call.run_after_waiting({"value": new})

    assert ran == []


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=4)
    | st.uuids()
    | st.dates()
    | st.datetimes()
    | st.decimals(allow_nan=False)
    | st.sampled_from([*Currency, ORDER, Payment(amount=3), Pair("a", 1)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | inner.map(lambda value: functools.partial(Box)(value))
    ),
    max_leaves=6,
)


@dataclasses.dataclass
class Box:
    inside: Any


@given(args=st.lists(VALUES, max_size=3), kwargs=st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
@settings(max_examples=150, deadline=None)
def test_contracts_see_what_the_function_receives(args: list[Any], kwargs: dict[str, Any]) -> None:
    """Any arguments, in any way of passing them."""
    received: dict[str, Any] = {}

    def collect(*rest: Any, a: Any = 1, b: Any = ORDER, c: Any = None) -> None:
        received.update(a=a, b=b, c=c, **({"rest": list(rest)} if rest else {}))

    session = Session()
    guard(session, "t", functools.partial(collect, *args[:1]))(*args[1:], **kwargs)

    assert session.trace[0]["args"] == plain_arguments(received)


@given(value=VALUES)
@settings(max_examples=150, deadline=None)
def test_an_unchanged_value_is_the_value_itself(value: Any) -> None:
    """What Core did not touch is not rebuilt."""
    assert in_form_of(value, plain_value(value)) is value
