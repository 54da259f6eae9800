"""Predicates: how they are asked, described and found."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from openbox_agentrt.acel import Check, ContentMatch, TemporalContract, Verdict, precondition
from openbox_agentrt.acel.callbacks import discard, is_async
from openbox_agentrt.acel.contracts.conditions import collect_checks, describe


def test_a_check_answers_yes_or_no() -> None:
    """One that raises says no."""
    assert Check(lambda s: s, "d").evaluate(1, 2)
    assert not Check(lambda s: 1 / 0, "d").evaluate(1)


class Callable1:
    """A predicate that is an object."""

    def __call__(self, state: Any) -> bool:
        return True


class Unreadable:
    """A predicate whose signature cannot be found out."""

    __signature__ = 5

    def __call__(self, *args: Any) -> bool:
        return len(args) == 1


def test_a_predicate_whose_signature_is_unknown_gets_the_state() -> None:
    """acel-core's first form."""
    assert Check(Unreadable(), "d").evaluate("state", "args")


@pytest.mark.parametrize(
    ("predicate", "description"),
    [
        (lambda s: s == "x", 'lambda s: s == "x", \'lambda s'),
        (Callable1(), "Callable1"),
        (functools.partial(max, 1), "partial"),
        (len, "len"),
        (Callable1, "class Callable1"),
    ],
    ids=["lambda", "object", "partial", "builtin", "class"],
)
def test_a_predicate_is_described_by_its_source_or_name(predicate: Any, description: str) -> None:
    """Never by an address."""
    text = describe(predicate)

    assert text.startswith(description[:15]) or "def __call__" in text
    assert " at 0x" not in text
    assert len(text) <= 160


class NoDef(dict):  # type: ignore[type-arg]  # a class without any function in its source
    x = 1


def test_source_without_a_function_is_described_as_it_is() -> None:
    """There is nothing to cut off."""
    assert describe(NoDef).startswith("class NoDef")


def test_what_gives_something_to_await_is_known_beforehand() -> None:
    """Functions, partials, and objects with an async `__call__`."""

    async def fn() -> None: ...

    class Async:
        async def __call__(self) -> None: ...

    assert all(is_async(one) for one in (fn, functools.partial(fn), Async()))
    assert not any(is_async(one) for one in (len, Callable1(), lambda: fn()))


async def test_what_nobody_awaits_is_closed() -> None:
    """A coroutine is, and what cannot be closed is left alone."""

    async def fn() -> None: ...

    coroutine = fn()
    discard(coroutine)
    with pytest.raises(RuntimeError, match="cannot reuse"):
        await coroutine
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    discard(future)
    assert not future.done()


def test_conditions_are_found_through_layers() -> None:
    """Partials, wrappers that say what they wrap, and objects; a ring of wrappers ends."""

    @precondition(lambda s: False, description="inner")
    def inner() -> None: ...

    @functools.wraps(inner)
    def outer() -> None: ...

    ring = functools.partial(inner)
    ring.__wrapped__ = ring  # type: ignore[attr-defined]  # such things exist

    class Tool:
        @precondition(lambda s: False, description="method")
        def __call__(self) -> None: ...

    assert [c.description for c in collect_checks(functools.partial(outer))[0]] == ["inner"]
    assert [c.description for c in collect_checks(Tool())[0]] == ["method"]
    assert collect_checks(ring)[0]
    assert collect_checks(len) == ([], [])


def test_a_long_chain_of_wrappers_ends() -> None:
    """Nobody wraps that often."""

    def innermost() -> None: ...

    chain: Any = innermost
    for _ in range(100):

        def wrapper() -> None: ...

        wrapper.__wrapped__ = chain  # type: ignore[attr-defined]  # as functools.wraps does
        chain = wrapper

    assert collect_checks(chain) == ([], [])


def test_a_content_match_asked_directly() -> None:
    """Its tool, its predicate; one that raises is no match."""
    match = ContentMatch("x", lambda args: args["n"] > 1, label="m")

    assert match("x", {"n": 2})
    assert not match("x", {"n": 1})
    assert not match("x", {})
    assert not match("y", {"n": 2})
    assert (str(match), repr(match)) == ("m", "<ContentMatch m>")
    assert str(ContentMatch("x", lambda args: True)) == "x(matching custom predicate)"


def test_a_contract_that_implements_only_a_step() -> None:
    """Its last verdict is its final one."""

    class Own(TemporalContract):
        def _step(self, tool: str, args: dict[str, Any]) -> Verdict:
            return Verdict.SATISFIED

    contract = Own("own")
    contract.on_event("x")

    assert contract.on_session_end() is Verdict.SATISFIED
    contract.reset()
    assert contract.verdict is Verdict.UNKNOWN
