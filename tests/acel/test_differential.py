"""Where acel-core's answer is right, it is given here too; where it is wrong, the difference is pinned."""

from __future__ import annotations

from typing import Any

import acel as peer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt import acel

TOOLS = "abc"
tool = st.sampled_from(TOOLS)

# Each contract as a name and its arguments, built for both.
rules = st.one_of(
    st.tuples(
        st.sampled_from(["must_precede", "never_after", "cannot_follow_without", "mutually_exclusive"]),
        st.tuples(tool, tool),
    ),
    st.tuples(st.just("at_most_n_times"), st.tuples(tool, st.integers(0, 3))),
    st.tuples(st.just("at_most_total"), st.tuples(tool, st.just("n"), st.integers(0, 10))),
    st.tuples(st.just("required_before_session_end"), st.tuples(tool)),
    st.tuples(st.just("rate_limit"), st.tuples(tool, st.integers(1, 3), st.just(3600))),
)
trace = st.lists(
    st.fixed_dictionaries(
        {
            "tool": tool,
            "args": st.fixed_dictionaries({}, optional={"n": st.sampled_from([0, 1, 4, "x", True, None])}),
        }
    ),
    max_size=12,
)


def sessions(contracts: list[Any], **options: Any) -> tuple[Any, Any]:
    """The same session in both."""
    pair = []
    for package in (peer, acel):
        session = package.Session(**options)
        session.add_contracts([getattr(package, name)(*args) for name, args in contracts])
        pair.append(session)
    return pair[0], pair[1]


def row(violation: Any) -> dict[str, Any]:
    """A violation without its trace, which is cut to a window here."""
    return {key: value for key, value in violation.to_dict().items() if key != "trace"}


@settings(max_examples=200, deadline=None)
@given(contract=rules, rows=trace)
def test_replay_says_the_same_of_one_contract(contract: Any, rows: Any) -> None:
    """Which call breaks it first, with the same record; and what is unmet at the end."""
    theirs, ours = sessions([contract])

    assert [row(v) for v in ours.replay(rows)] == [row(v) for v in theirs.replay(rows)]
    assert ours.trace == theirs.trace or len(ours.violations) > 0


@settings(max_examples=150, deadline=None)
@given(contracts=st.lists(rules, max_size=4, unique_by=str), rows=trace)
def test_live_calls_agree_up_to_the_first_refusal(contracts: Any, rows: Any) -> None:
    """From then on acel-core's automata are latched, and answers differ on purpose."""
    theirs, ours = sessions(contracts, halt_on_violation=False)

    for call in rows:
        answers = [s.call(call["tool"], call["args"], result=1) for s in (theirs, ours)]
        refused = [hasattr(answer, "kind") for answer in answers]
        assert refused[0] is refused[1]
        if refused[0]:
            assert row(answers[0]) == row(answers[1])
            return
    assert ours.trace == theirs.trace
    assert [row(v) for v in ours.end_session()] == [row(v) for v in theirs.end_session()]


@settings(max_examples=150, deadline=None)
@given(contract=rules, rows=trace)
def test_a_contract_on_its_own_says_the_same(contract: Any, rows: Any) -> None:
    """Violated at the same call, and for good."""
    name, args = contract
    theirs, ours = getattr(peer, name)(*args), getattr(acel, name)(*args)

    for call in rows:
        verdicts = [c.on_event(call["tool"], call["args"]).is_violation for c in (theirs, ours)]
        assert verdicts[0] is verdicts[1]
    assert theirs.on_session_end().is_violation is ours.on_session_end().is_violation
    assert ours.spec == theirs.spec


@settings(max_examples=100, deadline=None)
@given(rows=trace, ok=st.lists(st.booleans(), min_size=12, max_size=12))
def test_precheck_and_postcheck_agree_until_a_call_fails(rows: Any, ok: list[bool]) -> None:
    """Prerequisites count at precheck in both."""
    theirs, ours = sessions([("must_precede", ("a", "b")), ("at_most_n_times", ("c", 2))])
    for session in (theirs, ours):
        session.register_tool("a", postcondition=lambda s, r: r)

    for call, good in zip(rows, ok, strict=False):
        gates = [s.precheck(call["tool"], call["args"]) for s in (theirs, ours)]
        assert gates[0].allowed is gates[1].allowed
        if not gates[0].allowed:
            return
        bad = [
            s.postcheck(call["tool"], g, good) is not None for s, g in zip((theirs, ours), gates, strict=True)
        ]
        assert bad[0] is bad[1]
        if bad[0]:
            return
    assert ours.trace == theirs.trace


# Each difference of docs/moving-from-acel-core.md: what is done, and what the two say.


def both(scenario: Any) -> tuple[Any, Any]:
    """What a scenario gives with acel-core, and here."""
    return scenario(peer), scenario(acel)


def after_refusal(package: Any) -> list[bool]:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.must_precede("check", "delete"))
    return [hasattr(session.call(tool), "kind") for tool in ("delete", "check", "delete", "other")]


def after_failure(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.must_precede("backup", "delete"))

    def fails() -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - any will do
        session.call("backup", run=fails)
    return hasattr(session.call("delete"), "kind")


def tenths(package: Any) -> list[bool]:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.at_most_total("pay", "n", 0.3))
    return [hasattr(session.call("pay", {"n": 0.1}), "kind") for _ in range(3)]


def nan(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.at_most_total("pay", "n", 5))
    return hasattr(session.call("pay", {"n": float("nan")}), "kind")


def negative(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.at_most_total("pay", "n", 5))
    session.call("pay", {"n": -100})
    return hasattr(session.call("pay", {"n": 100}), "kind")


def faulty_ban(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.at_most_n_times(package.ContentMatch("x", lambda args: args["gone"]), 0))
    return hasattr(session.call("x"), "kind")


def coroutine(package: Any) -> bool:
    async def no(state: Any) -> bool:
        return False

    import warnings

    session = package.Session(halt_on_violation=False)
    session.register_tool("x", precondition=no)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return hasattr(session.call("x"), "kind")


def shadow_records(package: Any) -> int:
    session = package.Session(mode="shadow")
    session.add_contract(package.must_precede("a", "b"))
    session.add_contract(package.at_most_n_times("b", 0))
    for tool in ("b", "c", "c"):
        session.call(tool)
    return len(session.violations)


def names_of_all(package: Any) -> int:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.must_precede("a", "x"))
    session.add_contract(package.at_most_n_times("x", 0))
    session.call("x")
    return len(session.violations)


def after_the_end(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    session.end_session()
    return hasattr(session.call("x"), "kind")


def recorded_time(package: Any) -> int:
    session = package.Session()
    session.add_contract(package.rate_limit("a", 1, 60))
    return len(session.replay([{"tool": "a", "ts": 1000.0}, {"tool": "a", "ts": 5000.0}]))


def shared_contract(package: Any) -> bool:
    contract, outcome = package.at_most_n_times("a", 1), None
    for _ in range(2):
        session = package.Session(halt_on_violation=False)
        session.add_contract(contract)
        outcome = session.call("a")
    return hasattr(outcome, "kind")


def frozen_records(package: Any) -> Any:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.at_most_n_times("x", 0))
    args = {"to": ["a"]}
    violation = session.call("x", args)
    args["to"].append("b")
    return violation.args["to"]


def writing_predicate(package: Any) -> bool:
    session = package.Session({"n": 0})
    session.register_tool("x", precondition=lambda s: s.set("n", 1) or True)
    session.precheck("x")
    return bool(session.state["n"] == 1)


def pattern_of_names(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.at_most_n_times("db_*", 0))
    return hasattr(session.call("db_drop"), "kind")


def own_prerequisite(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    tests, commits = (package.matching("Bash", pattern) for pattern in ("pytest", "git commit"))
    session.add_contract(package.must_precede(tests, commits))
    return hasattr(session.call("Bash", {"command": "git commit -m 'fix pytest'"}), "kind")


def both_sides(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    secret, push = (package.matching("Bash", pattern) for pattern in ("secret", "git push"))
    session.add_contract(package.mutually_exclusive(secret, push))
    return hasattr(session.call("Bash", {"command": "cat secret; git push"}), "kind")


def words_of_a_list(package: Any) -> bool:
    session = package.Session(halt_on_violation=False)
    session.add_contract(package.at_most_n_times(package.matching("Bash", "rm -rf"), 0))
    return hasattr(session.call("Bash", {"command": ["rm", "-rf", "/"]}), "kind")


def failed_row(package: Any) -> int:
    session = package.Session()
    session.add_contract(package.must_precede("backup", "delete"))
    return len(session.replay([{"tool": "backup", "error": "disk full"}, {"tool": "delete"}]))


DIFFERENCES = [
    (after_refusal, [True, True, True, True], [True, False, False, False]),
    (after_failure, False, True),
    (tenths, [False, False, True], [False, False, False]),
    (nan, False, True),
    (negative, False, True),
    (faulty_ban, False, True),
    (coroutine, False, True),
    (shadow_records, 3, 2),
    (names_of_all, 1, 2),
    (after_the_end, False, True),
    (recorded_time, 1, 0),
    (shared_contract, True, False),
    (frozen_records, ["a", "b"], ["a"]),
    (writing_predicate, True, False),
    (pattern_of_names, False, True),
    (own_prerequisite, False, True),
    (both_sides, False, True),
    (words_of_a_list, False, True),
    (failed_row, 0, 1),
]


@pytest.mark.parametrize(
    ("scenario", "theirs", "ours"), DIFFERENCES, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_documented_difference(scenario: Any, theirs: Any, ours: Any) -> None:
    """If acel-core changes its answer, the page has to change too."""
    assert both(scenario) == (theirs, ours)


def test_every_difference_is_on_the_page() -> None:
    """By the name of its scenario here."""
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "moving-from-acel-core.md").read_text(encoding="utf-8")

    for scenario, _, _ in DIFFERENCES:
        assert f"`{scenario.__name__}`" in page
