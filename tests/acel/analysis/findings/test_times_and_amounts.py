"""Times between calls, and amounts, that only something near to a bound shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times, requires
from openbox_agentrt.acel.analysis import Analysis, analyse, compare
from openbox_agentrt.acel.rulesfile import parse_rules

Analysed = Callable[..., Analysis]


def c(template: str, *args: Any, **more: Any) -> dict[str, Any]:
    """A contract as data."""
    return {"template": template, "args": list(args), **more}


@pytest.mark.parametrize(
    "contracts",
    [
        pytest.param(
            [c("rate_limit", "find", 1, 1), c("rate_limit", "find", 4, 5)], id="one a second, four in five"
        ),
        pytest.param(
            [c("rate_limit", "find", 1, 60), c("rate_limit", "find", 2, 121)],
            id="windows that are no multiples",
        ),
        pytest.param(
            [c("rate_limit", "find", 1, 0.2), c("rate_limit", "find", 2, 0.5)], id="parts of a second"
        ),
        pytest.param(
            [
                c("must_precede", "quote", "confirm", within=60),
                c("must_precede", "confirm", "trade", within=60),
                c("never_after", "trade", "quote", within=60),
            ],
            id="one window passes while another lasts",
        ),
        pytest.param(
            [
                c("must_precede", "quote", "check", within=60),
                c("must_precede", "check", "confirm", within=60),
                c("must_precede", "confirm", "trade", within=60),
                c("never_after", "trade", "quote", within=120),
            ],
            id="a window passes while three others last one after the other",
        ),
        pytest.param(
            [
                c("requires", "pay", "args.amount < 150"),
                c("at_most_n_times", "pay", 3),
                c("at_most_total", "pay", "amount", 449),
            ],
            id="three amounts just under a bound",
        ),
        pytest.param(
            [
                c("requires", "pay", "args.amount > 33"),
                c("at_most_n_times", "pay", 1),
                c("at_most_total", "pay", "amount", 67),
            ],
            id="two amounts just over a bound",
        ),
    ],
)
def test_what_takes_a_time_or_an_amount_near_a_bound_is_not_called_impossible(
    analysed: Analysed, contracts: list[dict[str, Any]]
) -> None:
    found = analysed(*contracts)

    assert (found.findings, found.undecided) == ((), ())


def test_a_limit_that_only_calls_close_together_reach_is_a_difference() -> None:
    """Five searches, each just over a second after the one before, are within five seconds."""
    old = [c("rate_limit", "find", 1, 1)]
    rules = [parse_rules({"contracts": some}) for some in (old, [*old, c("rate_limit", "find", 4, 5)])]

    found = compare(*rules)

    assert found.stricter is not None
    assert [row.outcome for row in found.stricter if row.kind == "call"] == [*["ok"] * 4, "refused"]


@pytest.mark.parametrize(
    ("contracts", "note"),
    [
        (
            [c("at_most_total", "pay", "amount", 500), c("at_most_total", "pay", "amount", 400)],
            "searched with amounts at and just over 400, 500",
        ),
        (
            [c("rate_limit", "find", 3, 60), c("at_most_n_times", "find", 2, within=90)],
            None,
        ),
        ([c("at_most_n_times", "pay", 3), c("at_most_n_times", "pay", 2)], None),
    ],
)
def test_a_contract_that_never_decides_says_with_which_amounts(
    analysed: Analysed, contracts: list[dict[str, Any]], note: str | None
) -> None:
    (found,) = analysed(*contracts).findings

    assert (found.kind, found.note) == ("contract-implied-by", note)


def test_a_prerequisite_in_a_window_is_asked_about_among_many(analysed: Analysed) -> None:
    """Where too much is remembered to be searched together, what a window holds is gone straight for."""
    found = analysed(
        c("init", "p"),
        c("at_most_in_flight", "r", 1, mode="shadow", **{"except": ["p"]}),
        c("cannot_follow_without", "q", "p", within=2, id="asked"),
        c("chain_precedence", "r", "q", key=["k", "s"], when="args.s.matches('^m')", mode="shadow"),
        seconds=3,
    )

    assert "asked" not in {finding.contracts[0].name for finding in found.findings}


def test_a_limit_that_alone_stops_a_second_call_while_the_first_is_under_way_is_not_implied() -> None:
    """A condition counts what has succeeded, and a limit with refunds also what has yet to end."""
    once = requires("pay", "session.pay < 1", id="once")
    cap = at_most_n_times("pay", 1, refund_on_failure=True, id="cap")
    session = Session(contracts=[once, cap])
    # It stays under way as long as somebody holds it.
    first = session.reserve("pay", {})
    second = session.reserve("pay", {})

    assert first.allowed
    assert second.refusal is not None
    assert [breach.id for breach in second.refusal.broken] == ["cap"]
    # It is the other way round: whatever has succeeded is counted by the limit as well.
    assert [finding.contracts[0].name for finding in analyse([once, cap]).findings] == ["once"]
