"""
Contracts whose windows interact: whatever is said of them, no session contradicts, however long
waits and calls last.

The sessions are real ones, with waits and calls of many lengths, and share no code with the search.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel.analysis import Analysis, Finding, analyse
from openbox_agentrt.acel.rulesfile import Rules, parse_rules

from .windowed_sessions import Happened, Visit, ends_well_after, random_windows, rules_with, sessions_of

Analysed = Callable[..., Analysis]
# Each example is many sessions.
FEW = settings(max_examples=settings().max_examples // 4)
SESSIONS = 60


def c(template: str, *args: Any, **more: Any) -> dict[str, Any]:
    """A contract as data."""
    return {"template": template, "args": list(args), **more}


@FEW
@given(seed=st.integers(0, 10_000_000))
def test_no_session_contradicts_what_is_said_of_several_windows(seed: int) -> None:
    """Limits, prerequisites, answers and sums in two or three windows: what is said is so for any waits."""
    random_ = random.Random(seed)
    windows = random_windows(random_)
    rules = rules_with(random_, windows)
    found = analyse(rules)
    happened = sessions_of(rules, windows, random_, SESSIONS)

    for finding in found.findings:
        _holds(finding, rules, happened)
        if finding.kind == "session-cannot-end-well":
            assert not any(
                ends_well_after(finding.witness or (), rules, windows, random_) for _ in range(SESSIONS)
            )


def _holds(finding: Finding, rules: Rules, happened: Happened) -> None:
    name = finding.contracts[0].name
    if finding.kind == "tool-never-allowed":
        assert finding.message.split("'")[1] not in happened.allowed
    elif finding.kind in ("contract-never-decides", "contract-implied-by"):
        (watches,) = (c.mode != "enforce" for c in rules.contracts if c.id == name)
        assert name not in (happened.broken if watches else happened.alone)
    elif finding.kind == "obligation-cannot-be-met":
        assert name not in happened.met


@pytest.mark.parametrize(
    "contracts",
    [
        pytest.param([c("rate_limit", "find", 1, 60), c("rate_limit", "find", 2, 119)], id="just shorter"),
        pytest.param([c("rate_limit", "find", 1, 60), c("rate_limit", "find", 2, 120)], id="the double"),
        pytest.param(
            [c("rate_limit", "find", 2, 7), c("rate_limit", "find", 4, 14)], id="twice as many in the double"
        ),
        pytest.param(
            [c("rate_limit", "find", 1, 0.1), c("rate_limit", "find", 3, 0.3)], id="parts of a second"
        ),
    ],
)
def test_a_limit_that_another_keeps_in_a_longer_window_is_implied(
    analysed: Analysed, contracts: list[dict[str, Any]]
) -> None:
    found = analysed(*contracts)

    assert [finding.kind for finding in found.findings] == ["contract-implied-by"]
    assert (found.undecided, found.decided) == ((), 2)


def test_a_moment_between_two_windows_is_found(analysed: Analysed) -> None:
    """A trade needs a quote of the last 61 seconds, and none of the last 60: for a second it passes."""
    bounds = [c("must_precede", "quote", "trade", within=61), c("never_after", "trade", "quote", within=60)]

    found = analysed(*bounds)

    assert (found.findings, found.undecided) == ((), ())


def test_of_two_bounds_that_only_a_call_of_some_length_keeps_none_is_said_to_be_impossible(
    analysed: Analysed,
) -> None:
    """What bars a trade counts from when the quote began, and what allows it from when the quote ended."""
    bounds = [c("must_precede", "quote", "trade", within=60), c("never_after", "trade", "quote", within=60)]
    visit = Visit(parse_rules({"contracts": bounds}).contracts)
    visit.call("quote", {}, lasts=30.0)
    visit.now += 31.0

    assert visit.call("trade", {}).allowed
    assert (found := analysed(*bounds)).findings == ()
    assert found.undecided == ()


def test_a_trace_says_how_long_a_call_lasts_where_that_matters(analysed: Analysed) -> None:
    found = analysed(
        c("must_precede", "quote", "trade", within=60),
        c("never_after", "trade", "quote", within=60),
        c("never_after", "back", "trade", id="last"),
        c("required_before_session_end", "back", id="back"),
    )
    (trap,) = (finding for finding in found.findings if finding.kind == "session-cannot-end-well")

    assert [str(row) for row in trap.witness or ()][:3] == ["quote() takes 1 s", "wait 60 s", "trade()"]


def test_a_wait_that_no_window_or_half_of_one_is_long_is_found(analysed: Analysed) -> None:
    """Only where each wait is nearly as long as its window are the three far enough apart."""
    found = analysed(
        c("must_precede", "a", "b", within=23),
        c("must_precede", "b", "c", within=10),
        c("never_after", "c", "a", within=31, id="rest"),
    )

    assert (found.findings, found.undecided) == ((), ())


def test_a_trace_waits_no_longer_than_it_takes(analysed: Analysed) -> None:
    """What would end a session is shown with one wait, of a second more than the window."""
    found = analysed(
        c("response", "ask", "answer", within=30, mode="shadow", on_violation="halt", id="late"),
        c("rate_limit", "ask", 1, 20),
    )
    (halts,) = (finding for finding in found.findings if finding.kind == "shadow-contract-would-halt")

    assert [row.seconds for row in halts.witness or () if row.kind == "wait"] == [31.0]
