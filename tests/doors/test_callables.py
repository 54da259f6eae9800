"""Contracts around any callable: what they see, what runs, and what counts afterwards."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openbox_agentrt.acel import (
    ContractViolation,
    Session,
    Violation,
    at_most_n_times,
    at_most_total,
    must_precede,
)
from openbox_agentrt.doors.callables import guard


def seen(session: Session) -> list[dict[str, Any]]:
    return [row["args"] for row in session.trace]


# A call that breaks no contract behaves like the function.


def pay(
    amount: int, currency: str = "EUR", *notes: str, urgent: bool = False, **extra: Any
) -> tuple[Any, ...]:
    """Pay an amount."""
    return amount, currency, notes, urgent, extra


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        pytest.param((5,), {}, {"amount": 5, "currency": "EUR", "urgent": False}, id="positional"),
        pytest.param((), {"amount": 5}, {"amount": 5, "currency": "EUR", "urgent": False}, id="keyword"),
        pytest.param(
            (5, "USD", "a", "b"),
            {"urgent": True, "ref": "r1"},
            {"amount": 5, "currency": "USD", "notes": ["a", "b"], "urgent": True, "ref": "r1"},
            id="everything",
        ),
    ],
)
def test_contracts_see_arguments_by_name(
    args: tuple[Any, ...], kwargs: dict[str, Any], expected: dict[str, Any]
) -> None:
    """However a caller passes them, with defaults filled in."""
    session = Session()
    guarded = guard(session, "pay", pay)

    assert guarded(*args, **kwargs) == pay(*args, **kwargs)
    assert seen(session) == [expected]


def test_a_limit_reads_positional_arguments_and_defaults() -> None:
    """An amount cannot be hidden by the way in which it is passed."""
    session = Session()
    session.add_contract(at_most_total("transfer", "amount", limit=100))

    def transfer(amount: int = 60) -> str:
        return "sent"

    guarded = guard(session, "transfer", transfer)

    assert guarded() == "sent"
    with pytest.raises(ContractViolation):
        guarded(60)
    with pytest.raises(ContractViolation):
        guarded(amount=60)
    with pytest.raises(ContractViolation):
        guarded()


def test_a_refused_call_is_returned_where_the_session_does_not_halt() -> None:
    """acel-core's other mode."""
    session = Session(halt_on_violation=False)
    session.add_contract(must_precede("validate", "delete"))

    result: Any = guard(session, "delete", lambda **_: "deleted")(record_id="r1")

    assert isinstance(result, Violation)


def test_a_wrong_call_is_no_call() -> None:
    """Arguments that the function does not take are a TypeError before any contract counts."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 1))
    guarded = guard(session, "pay", lambda amount: amount)

    for wrong in ((), (1, 2)):
        with pytest.raises(TypeError):
            guarded(*wrong)

    assert guarded(1) == 1


def test_two_arguments_of_one_name_are_refused() -> None:
    """Where a contract could see one value and the function another, neither happens."""
    ran: list[Any] = []

    def tool(amount: int, /, **extra: Any) -> None:
        ran.append((amount, extra))

    with pytest.raises(TypeError, match="two arguments that contracts know as 'amount'"):
        guard(Session(), "tool", tool)(900, amount=1)
    assert ran == []


# What an outcome means for later calls.


def test_parallel_threads_cannot_pass_a_limit() -> None:
    """The reservation counts before the function runs."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 2))
    ran: list[int] = []
    guarded = guard(session, "pay", lambda number: ran.append(number))

    def attempt(number: int) -> bool:
        try:
            guarded(number)
        except ContractViolation:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(attempt, range(50)))

    assert sum(outcomes) == len(ran) == 2


# Async functions.


async def test_an_async_function_is_awaited_between_reservation_and_commit() -> None:
    """Concurrent calls see each other's reservation; no lock is held while they run."""
    session = Session()
    session.add_contract(at_most_n_times("pay", 2))
    started = asyncio.Event()

    async def slow(amount: int) -> int:
        started.set()
        await asyncio.sleep(0.001)
        return amount

    guarded = guard(session, "pay", slow)
    results = await asyncio.gather(*(guarded(n) for n in range(50)), return_exceptions=True)

    assert inspect.iscoroutinefunction(guarded)
    assert [r for r in results if not isinstance(r, ContractViolation)] == [0, 1]


async def test_an_async_call_allows_only_after_it_ended() -> None:
    """A prerequisite that is still running has not happened."""
    session = Session()
    session.add_contract(must_precede("backup", "delete"))
    go_on = asyncio.Event()
    delete = guard(session, "delete", lambda: "deleted")
    backup = asyncio.create_task(guard(session, "backup", go_on.wait)())
    await asyncio.sleep(0)

    with pytest.raises(ContractViolation):
        delete()
    go_on.set()
    await backup

    assert delete() == "deleted"


async def test_conditions_that_have_to_be_awaited_are() -> None:
    """Around an async function, conditions may ask somebody else."""
    session = Session()

    async def ask(state: Any, value: Any) -> bool:
        await asyncio.sleep(0)
        return value not in ({"amount": 13}, "lost")

    session.register_tool("pay", precondition=ask, postcondition=ask)

    async def pay(amount: int) -> str:
        return "lost" if amount > 100 else "paid"

    guarded = guard(session, "pay", pay)

    assert await guarded(5) == "paid"
    for amount in (13, 500):
        with pytest.raises(ContractViolation):
            await guarded(amount)


async def test_a_plain_function_that_returns_an_awaitable_ends_when_that_ends() -> None:
    """A lambda around a coroutine is not done when it returns."""
    session = Session()
    session.add_contract(must_precede("backup", "delete"))

    async def backup() -> str:
        return "saved"

    pending: Any = guard(session, "backup", lambda: backup())()
    with pytest.raises(ContractViolation):
        guard(session, "delete", lambda: None)()

    assert await pending == "saved"
    guard(session, "delete", lambda: None)()


async def test_a_failure_behind_a_plain_function_is_a_failure() -> None:
    """The awaitable's error aborts the call."""
    session = Session()
    session.add_contract(must_precede("backup", "delete"))

    async def backup() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await guard(session, "backup", lambda: backup())()
    with pytest.raises(ContractViolation):
        guard(session, "delete", lambda: None)()


# Every kind of callable.


class Account:
    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> int:
        self.paid.append(amount)
        return amount

    async def pay_later(self, amount: int) -> int:
        return self.pay(amount)

    @classmethod
    def quote(cls, amount: int) -> str:
        return f"{cls.__name__} {amount}"

    @staticmethod
    def fee(amount: int) -> int:
        return amount // 10

    def __call__(self, amount: int) -> int:
        return self.pay(amount)


class Later:
    async def __call__(self, amount: int) -> int:
        return amount


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(lambda: Account().pay, 5, id="bound method"),
        pytest.param(lambda: Account.quote, "Account 5", id="class method"),
        pytest.param(lambda: Account.fee, 0, id="static method"),
        pytest.param(lambda: functools.partial(Account().pay), 5, id="partial"),
        pytest.param(Account, 5, id="object with __call__"),
        pytest.param(lambda: functools.lru_cache(lambda amount: amount), 5, id="cached"),
    ],
)
def test_every_callable_can_be_guarded(make: Callable[[], Callable[..., Any]], expected: Any) -> None:
    """It returns what it returned, and contracts see its one argument."""
    session = Session()
    func = make()

    assert guard(session, "tool", func)(5) == expected
    assert seen(session) == [{"amount": 5}]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Account().pay_later, id="bound method"),
        pytest.param(lambda: functools.partial(Account().pay_later), id="partial"),
        pytest.param(Later, id="object with __call__"),
    ],
)
async def test_every_async_callable_can_be_guarded(make: Callable[[], Callable[..., Any]]) -> None:
    """And the wrapper is a coroutine function."""
    session = Session()
    guarded = guard(session, "tool", make())

    assert inspect.iscoroutinefunction(guarded)
    assert await guarded(amount=5) == 5
    assert seen(session) == [{"amount": 5}]


def test_a_function_in_a_class_body_can_be_guarded() -> None:
    """The wrapper becomes a method, and its object is no argument of the call."""
    session = Session()

    class Guarded:
        def __init__(self) -> None:
            self.paid: list[int] = []

        pay = guard(session, "pay", Account.pay)
        quote = guard(session, "quote", Account.__dict__["quote"])
        fee = guard(session, "fee", Account.__dict__["fee"])

    account: Any = Guarded()

    assert (account.pay(5), account.quote(6), account.fee(70)) == (5, "Guarded 6", 7)
    assert account.paid == [5]
    assert seen(session) == [{"amount": 5}, {"amount": 6}, {"amount": 70}]


def test_an_argument_named_self_is_an_argument_when_passed_by_name() -> None:
    """A caller cannot hide a value from contracts by its name."""
    session = Session()

    def tool(self: str) -> str:
        return self

    guard(session, "tool", tool)(**{"self": "x"})

    assert seen(session) == [{"self": "x"}]


def test_a_callable_without_a_signature_takes_keywords() -> None:
    """Positional arguments would have no name for contracts."""
    session = Session()
    guarded: Callable[..., Any] = guard(session, "dict", dict)

    assert guarded(a=1) == {"a": 1}
    with pytest.raises(TypeError, match="pass them by keyword"):
        guarded([("a", 1)])
    assert seen(session) == [{"a": 1}]


class Rows:
    def __call__(self) -> Iterator[int]:
        yield 1


def test_a_class_is_a_callable_that_makes_its_objects() -> None:
    """Even if calling those would be a generator."""
    assert isinstance(guard(Session(), "tool", Rows)(), Rows)


def test_what_is_not_callable_is_refused() -> None:
    """At wrapping, with its value in the message."""
    not_callable: Any = 5
    with pytest.raises(TypeError, match="5 is not callable"):
        guard(Session(), "tool", not_callable)


def test_signature_annotations_and_docstring_stay() -> None:
    """Frameworks that build a schema from a function build the same one."""
    guarded = guard(Session(), "payments.pay", pay)

    assert inspect.signature(guarded) == inspect.signature(pay)
    assert guarded.__annotations__ == pay.__annotations__
    assert (guarded.__name__, guarded.__doc__) == ("pay", "Pay an amount.")
    assert inspect.unwrap(guarded) is pay


def test_a_partial_gets_the_name_of_the_tool() -> None:
    """A callable without a name is named after what it does."""
    assert guard(Session(), "pay", functools.partial(pay, 5)).__name__ == "pay"


def test_the_state_of_a_callable_object_stays_its_own() -> None:
    """The wrapper does not carry a copy of it."""
    assert not hasattr(guard(Session(), "pay", Account()), "paid")
