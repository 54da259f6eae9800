"""A session as JSON, to go on elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import (
    Session,
    SnapshotError,
    TemporalContract,
    Verdict,
    at_most_n_times,
    at_most_total,
    build_contract,
    chain_precedence,
    fact,
    matching,
    must_precede,
    rate_limit,
    required_before_session_end,
    requires,
    requires_state,
    response,
    rules_hash,
)
from openbox_agentrt.testing import ManualClock

SPECS: list[dict[str, Any]] = [
    {"template": "must_precede", "args": ["a", "b"]},
    {"template": "must_precede", "args": ["a", "b"], "kwargs": {"within": 20}},
    {"template": "at_most_n_times", "args": ["a", 3], "kwargs": {"key": "k"}},
    {"template": "at_most_n_times", "args": ["b", 2], "kwargs": {"within": 20}},
    {"template": "at_most_total", "args": ["a", "n", 10]},
    {"template": "at_most_total", "args": ["b", "n", 10], "kwargs": {"within": 20, "key": "k"}},
    {"template": "rate_limit", "args": ["c", 2, 20]},
    {"template": "never_after", "args": ["b", "c"]},
    {"template": "mutually_exclusive", "args": ["d", "?"]},
    {"template": "response", "args": ["a", "c"]},
    {"template": "response", "args": ["a", "d"], "kwargs": {"within": 20, "key": "k"}},
    {"template": "alternate_precedence", "args": ["c", "b"]},
    {"template": "alternate_precedence", "args": ["a", "d"], "kwargs": {"within": 20}},
    {"template": "chain_precedence", "args": ["a", "d"]},
    {"template": "chain_precedence", "args": ["a", "c"], "kwargs": {"key": "k", "within": 20}},
    {"template": "existence", "args": ["a", 2], "kwargs": {"key": "k", "within": 50}},
    {"template": "required_before_session_end", "args": ["d"]},
    {"template": "max_distinct", "args": ["a", "n", 3]},
    {"template": "max_distinct", "args": ["c", "n", 2], "kwargs": {"within": 20}},
    {"template": "init", "args": ["a"]},
    {"template": "must_precede", "args": ["a", "b"], "since": "c"},
    {"template": "must_precede", "args": ["a", "b"], "since": "c", "kwargs": {"key": "k", "within": 20}},
    {"template": "at_most_in_flight", "args": ["a", 2], "within": 30},
    {"template": "requires_state", "args": ["d", "s", 1], "kwargs": {"within": 30}},
]


def watching(clock: ManualClock) -> Session:
    """A session in which every kind of memory is in use, and nothing stops."""
    return Session({"s": 1}, mode="shadow", clock=clock.time, contracts=map(build_contract, SPECS))


def said(session: Session, skip: int) -> list[tuple[int, str]]:
    return [(v.step, v.spec) for v in session.violations[skip:]]


calls = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.sampled_from(["x", "y", 1, None]), st.integers(0, 4), st.integers(0, 9)
    ),
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(before=calls, after=calls)
def test_a_restored_session_goes_on_as_the_first_would(before: Any, after: Any) -> None:
    """Every kind of memory, through JSON and back, says the same about what comes next."""
    clock = ManualClock(1000)
    first = watching(clock)

    def play(session: Session, schedule: Any, tick: bool) -> None:
        for tool, key, n, wait in schedule:
            session.call(tool, {"k": key, "n": n})
            if tick:
                clock.advance(wait)

    play(first, before, tick=True)
    snapshot = json.loads(json.dumps(first.snapshot()))
    second = Session.restore(
        snapshot, map(build_contract, SPECS), mode="shadow", clock=clock.time, trace_window=5
    )
    assert second.trace == first.trace
    skip = len(first.violations)

    for step in after:
        play(first, [step], tick=False)
        play(second, [step], tick=True)
    first.end_session()
    second.end_session()

    assert said(second, 0) == said(first, skip)
    assert second.snapshot()["memory"] == first.snapshot()["memory"]


def test_calls_under_way_are_unknown_outcomes() -> None:
    """They count where they limit, and allow nothing."""
    session = Session(contracts=[at_most_n_times("a", 1), must_precede("a", "b"), response("a", "c")])
    flying = session.reserve("a")

    restored = Session.restore(session.snapshot(), [type(c)(**k) for c, k in _parts(session)])

    assert not restored.reserve("a").allowed
    assert not restored.reserve("b").allowed
    assert restored.unmet() == ["response(a, c)"]
    assert restored.in_flight == 0
    flying.abort()


def _parts(session: Session) -> list[tuple[TemporalContract, dict[str, Any]]]:
    keys: list[dict[str, Any]] = [
        {"tool": "a", "n": 1},
        {"earlier": "a", "later": "b"},
        {"a": "a", "b": "c"},
    ]
    return list(zip(session.contracts, keys, strict=True))


def test_what_a_snapshot_holds() -> None:
    """Version, rules, session, state, memory, and the trace with its hash."""
    session = Session({"k": [1]}, contracts=[at_most_n_times("a", 1)], session_id="s")
    session.call("a")
    snapshot = session.snapshot()
    session.state["k"].append(2)

    assert snapshot["version"] == 1
    assert snapshot["rules_hash"] == rules_hash(session.contracts)
    assert snapshot["state"] == {"k": [1]}
    restored = Session.restore(snapshot, [at_most_n_times("a", 1)])
    assert restored.session_id == "s"
    assert restored.state.snapshot() == {"k": [1]}
    assert restored.trace == session.trace
    assert restored.reserve("b").step == 2


def test_the_trace_hash_goes_on_from_the_snapshot() -> None:
    """It is another one than that of a session that saw the same calls without the first."""

    def hash_after(session: Session) -> str | None:
        session.call("b")
        session.add_contract(at_most_n_times("x", 0))
        return session.reserve("x").violations[0].trace_hash

    session = Session()
    session.call("a")
    restored = Session.restore(session.snapshot())

    assert hash_after(restored) not in (hash_after(session), hash_after(Session()))
    assert restored.violations[0].trace_length == 2
    fresh = Session()
    assert hash_after(Session.restore(fresh.snapshot())) == hash_after(fresh)


def test_other_rules_are_refused() -> None:
    """Unless it is asked for: then what is the same is kept, and the rest is new."""
    session = Session(contracts=[at_most_n_times("a", 1), at_most_n_times("b", 1)])
    session.call("a")
    session.call("b")
    snapshot = session.snapshot()
    other = [at_most_n_times("a", 1), at_most_total("b", "n", 5)]

    with pytest.raises(SnapshotError, match=r"under rules"):
        Session.restore(snapshot, other)
    migrated = Session.restore(snapshot, other, migrate=True)

    assert not migrated.reserve("a").allowed
    assert migrated.reserve("b", {"n": 5}).allowed


def test_the_same_rules_in_another_order() -> None:
    """Are the same rules."""
    one, two = at_most_n_times("a", 1), rate_limit("a", 1, 60)

    assert rules_hash([one, two]) == rules_hash([two, one])
    assert rules_hash([one]) != rules_hash([at_most_n_times("a", 1, mode="shadow")])
    assert rules_hash([must_precede("a, b", "c")]) != rules_hash([must_precede("a", "b, c")])


def test_contracts_added_on_the_way() -> None:
    """Keep the memory that they had."""
    session = Session(contracts=[at_most_n_times("a", 5)])
    session.call("a")
    session.add_contract(at_most_n_times("a", 2))
    session.call("a")

    restored = Session.restore(session.snapshot(), [at_most_n_times("a", 5), at_most_n_times("a", 2)])

    assert restored.reserve("a").allowed
    assert [v.spec for v in restored.reserve("a").violations] == ["at_most_n_times(a, n=2)"]
    ((text, *place),) = restored.snapshot()["memory"]["since"]
    assert (text.startswith("at_most_n_times(a, n=2) #"), place) == (True, [None, 0, 1])


@pytest.mark.parametrize(
    "rule",
    [
        chain_precedence("a", "b", key="k"),
        requires("b", "args.k in facts.f", facts=[fact("a", "f", key="k", values={"x": "x"})]),
    ],
    ids=["a step", "a fact"],
)
def test_what_is_the_oldest_is_the_same_in_whatever_order_it_was_kept(rule: TemporalContract) -> None:
    """Where there is no room for more, the oldest is forgotten."""
    session = Session(contracts=[rule], max_keys=2)
    for key in "za":
        session.call("a", {"k": key}, result={"x": 1})
    taken = json.loads(json.dumps(session.snapshot(), sort_keys=True))
    restored = Session.restore(taken, [rule], max_keys=2)

    for each in (session, restored):
        each.call("a", {"k": "m"}, result={"x": 1})
        assert [each.would("b", {"k": key}) is None for key in "za"] == [False, True]


def test_how_a_session_stands_is_kept() -> None:
    """Ended, halted, and what was broken."""
    watched = Session(mode="shadow", contracts=[at_most_n_times("a", 0)])
    watched.call("a")
    limit = at_most_n_times("a", 0)
    assert Session.restore(watched.snapshot(), [limit]).verdict(limit) is Verdict.VIOLATED

    ended = Session()
    ended.end_session()
    assert Session.restore(ended.snapshot()).closed == "the session has not ended"


def test_times_of_state_entries_are_kept() -> None:
    """So that an old entry is not young again."""
    clock = ManualClock(1000)
    first, second = (requires_state("x", "role", 1, within=60) for _ in range(2))
    session = Session({"role": 1}, contracts=[first], clock=clock.time)
    clock.advance(61)

    assert not Session.restore(session.snapshot(), [second], clock=clock.time).reserve("x").allowed


def test_time_does_not_run_back_over_a_snapshot() -> None:
    """A machine whose clock is behind does not open a window, and does not close it for longer."""
    session = Session(contracts=[rate_limit("a", 1, 60)], clock=lambda: 1000.0)
    session.call("a")

    restored = Session.restore(session.snapshot(), [rate_limit("a", 1, 60)], clock=lambda: 10.0)

    assert not restored.reserve("a").allowed


@pytest.mark.parametrize("value", [object(), {1, 2}, (1, 2), float("nan"), b"x", {1: 2}])
def test_a_state_that_is_no_json_is_refused(value: Any) -> None:
    """It could not be the same again."""
    with pytest.raises(SnapshotError, match="'k' is not JSON"):
        Session({"k": value}).snapshot()


def test_rows_that_are_no_json_are_left_out() -> None:
    """They are for people to look at; the hash covers them."""
    session = Session()
    session.call("a", result=object())
    session.call("b")

    snapshot = session.snapshot()

    assert [row["tool"] for row in snapshot["trace"]["rows"]] == ["b"]
    assert snapshot["trace"]["length"] == 2


class Own(TemporalContract):
    def _step(self, tool: str, args: dict[str, Any]) -> Verdict:
        return Verdict.UNKNOWN


def test_a_contract_with_code_of_its_own_has_no_snapshot() -> None:
    """What it remembers is its own affair."""
    with pytest.raises(SnapshotError, match="code of its own"):
        Session(contracts=[Own("own")]).snapshot()


def test_matchers_that_are_written_alike_have_no_snapshot() -> None:
    """What they remember could not be told apart."""
    session = Session(
        contracts=[at_most_n_times(lambda t, a: True, 1), at_most_n_times(lambda t, a: False, 1)]
    )
    session.call("a")

    with pytest.raises(SnapshotError, match="labels"):
        session.snapshot()


BAD: list[Any] = [None, 5, [], {}, {"version": 2}, {"version": 1}, {"version": 1, "rules_hash": 5}]


@pytest.mark.parametrize("snapshot", BAD, ids=repr)
def test_what_is_no_snapshot_is_refused(snapshot: Any) -> None:
    """With one line."""
    with pytest.raises(SnapshotError):
        Session.restore(snapshot)


@pytest.mark.parametrize("broken", ["trace", "memory", "state"])
@pytest.mark.parametrize("value", [None, 5, [], {}, "x"])
def test_a_damaged_snapshot_is_refused(broken: str, value: Any) -> None:
    """Wherever it is damaged."""
    snapshot = Session(contracts=[required_before_session_end("a")]).snapshot()
    snapshot[broken] = value
    if broken == "state" and value in ([], {}):
        return

    with pytest.raises(SnapshotError):
        Session.restore(snapshot, [required_before_session_end("a")])


def test_memory_that_no_contract_has_is_refused() -> None:
    """It belongs to another rule set, whatever the hash says."""
    snapshot = Session(contracts=[at_most_n_times("a", 1)]).snapshot()
    snapshot["memory"]["cells"]["tally(z)"] = [1, 1, 1]

    with pytest.raises(SnapshotError, match="no contract"):
        Session.restore(snapshot, [at_most_n_times("a", 1)])


def test_a_migration_goes_by_what_a_rule_means() -> None:
    """A tool that is called like a pattern begins anew under it, and the pattern under the tool."""
    pattern = [at_most_n_times(matching("Bash", "rm"), 1), must_precede(matching("Bash", "ls"), "b")]
    name = [at_most_n_times("Bash(command~/rm/)", 1), must_precede("Bash(command~/ls/)", "b")]
    used = Session(contracts=pattern)
    used.call("Bash", {"command": "rm ls"})
    taken = json.loads(json.dumps(used.snapshot()))

    other = Session.restore(taken, name, migrate=True)
    assert other.reserve("Bash(command~/rm/)").allowed
    assert not other.reserve("b").allowed
    same = Session.restore(taken, [*pattern, at_most_n_times("c", 1)], migrate=True)
    assert not same.reserve("Bash", {"command": "rm"}).allowed
    assert same.reserve("b").allowed


def test_an_empty_prerequisite_takes_nothing_from_a_limit() -> None:
    """Of a list with one text that matches the limit knows, and the prerequisite does not."""
    contracts = [at_most_n_times(matching("Bash", "ls"), 5), must_precede(matching("Bash", "ls"), "b")]
    used = Session(contracts=contracts)
    used.call("Bash", {"command": ["ls", "rm"]})

    restored = Session.restore(json.loads(json.dumps(used.snapshot())), contracts)

    assert not restored.reserve("b").allowed
