"""What the trace and the evidence hold of a call, where that is not what conditions and commits see."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel import (
    EvidenceLog,
    Session,
    at_most_n_times,
    at_most_total,
    postcondition,
    precondition,
)
from openbox_agentrt.acel.contracts.conditions import collect_checks
from openbox_agentrt.acel.session import engine_of


def test_a_result_can_be_concealed_from_the_trace() -> None:
    """The postcondition and the commit function see it, the trace and later violations do not."""
    session = Session(contracts=[at_most_n_times("read", 1)])
    session.register_tool(
        "read",
        postcondition=lambda state, result: result == "secret",
        commit=lambda state, args, result: state.__setitem__("read", len(result)),
    )

    assert session.reserve("read").commit("secret", conceal=lambda result: "hidden") is None
    session.reserve("read")

    assert session.state["read"] == 6
    assert session.trace[0]["result"] == "hidden"
    assert "secret" not in repr(session.violations)


@pytest.mark.parametrize("result", ["secret bad", "secret big"])
def test_a_concealed_result_is_not_in_a_violation(result: str) -> None:
    """Neither in that of its postcondition, nor in that of a limit that only the measured values break."""
    session = Session(contracts=[at_most_total("read", "size", 1)])
    session.register_tool("read", postcondition=lambda state, result: result != "secret bad")

    reservation = session.reserve("read", deferred=("size",))
    reservation.commit(result, measured={"size": 5}, conceal=lambda result: "hidden")

    assert {violation.result for violation in session.violations} == {"hidden"}


def test_what_cannot_be_concealed_is_not_shown() -> None:
    """A concealer that raises costs the trace its result, and not the call."""
    session = Session()

    def conceal(result: Any) -> Any:
        raise ValueError(result)

    assert session.reserve("read").commit("secret", conceal=conceal) is None
    assert "secret" not in repr(session.trace)


def test_another_recorder_can_watch_a_session() -> None:
    """It gets what the session's own evidence gets, once, however often it is named."""
    session = Session(contracts=[at_most_n_times("read", 0)])
    log = EvidenceLog()
    engine_of(session).watch(log, log)
    engine_of(session).watch(log, EvidenceLog())

    session.reserve("read")

    assert len(log.bundles) == len(session.evidence.bundles) == 1


def test_a_recorder_that_is_the_sessions_own_does_not_watch_it_too() -> None:
    """Or every violation would be in it twice."""
    log = EvidenceLog()
    session = Session(contracts=[at_most_n_times("read", 0)], evidence=log)
    engine_of(session).watch(log, log)

    session.reserve("read")

    assert len(log.bundles) == 1


@precondition(lambda state: True, description="ready")
@postcondition(lambda state, result: True, description="sound")
def plain() -> None: ...


class Tool:
    @precondition(lambda state: True, description="ready")
    @postcondition(lambda state, result: True, description="sound")
    def run(self) -> None: ...

    @precondition(lambda state: True, description="ready")
    @postcondition(lambda state, result: True, description="sound")
    def __call__(self) -> None: ...


@functools.wraps(plain)
def wrapped() -> None: ...


@pytest.mark.parametrize(
    "func",
    [plain, Tool().run, Tool(), functools.partial(plain), functools.partial(Tool().run), wrapped],
    ids=["function", "bound method", "callable object", "partial", "partial of a method", "wrapped"],
)
def test_conditions_are_found_through_what_is_called(func: Callable[..., Any]) -> None:
    """Once each, whatever the function was packed into."""
    before, after = collect_checks(func)

    assert [check.description for check in before] == ["ready"]
    assert [check.description for check in after] == ["sound"]


def test_a_wrapper_that_leads_back_to_itself_ends() -> None:
    """Looking for conditions is no way to hang a call."""

    def odd() -> None: ...

    odd.__wrapped__ = odd  # type: ignore[attr-defined]  # what a broken decorator leaves behind
    assert collect_checks(odd) == ([], [])
