"""Recorded calls judged by other rules: what they would refuse, and what nobody can say."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session
from openbox_agentrt.acel.engine.plan.rule_set import shared_rules
from openbox_agentrt.acel.events import Outcome
from openbox_agentrt.acel.match.keys import About
from openbox_agentrt.acel.rulesfile import Rules, parse_rules
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.traces.backtest import Backtest, backtest
from openbox_agentrt.traces.events import Began, Ended, Left, Resumed, RunEnded, StateSet, TraceEvent
from openbox_agentrt.traces.formats import Recordings
from openbox_agentrt.traces.judge import TraceJudge
from openbox_agentrt.traces.written import rows_of


def rules(*contracts: dict[str, Any], **more: Any) -> Rules:
    return parse_rules({"contracts": list(contracts), **more})


def judged(path: Path, new: Rules, **options: Any) -> Backtest:
    return backtest(Recordings([str(path)]).events(), new, **options)


def trace(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


BUDGET = {"template": "at_most_total", "args": ["pay", "amount"], "kwargs": {"limit": 500}, "id": "budget"}


def pay(amount: int, **more: Any) -> dict[str, Any]:
    return {"tool": "pay", "args": {"amount": amount}, **more}


def test_what_is_refused_counts_nowhere(tmp_path: Path) -> None:
    """400 and 400 of 500: the second is refused, so the 50 that follow would have passed."""
    result = judged(trace(tmp_path, pay(400), pay(400), pay(50)), rules(BUDGET))
    (budget,) = result.contracts
    assert (result.calls, result.refused, budget.refused, budget.applied) == (3, 1, 1, 3)
    assert budget.example is not None
    assert budget.example.where.endswith("trace.jsonl row 2")
    assert budget.advice is not None
    assert "100 left of 500" in budget.advice
    assert not result.clean


WIDE = {**BUDGET, "scope": "fleet", "per": "day"}
DAY = 86_400.0


def test_a_fleet_counts_all_sessions_in_the_order_of_time(tmp_path: Path) -> None:
    """The file that is read first happened last, so it is its call that is refused; no other is."""
    late = [pay(400, session_id="late", ts=20.0), pay(400, session_id="late", ts=20.0 + DAY)]
    early = [pay(400, session_id="early", ts=10.0), pay(50, session_id="early", ts=15.0)]
    for name, rows in (("a", late), ("b", early)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    result = judged(tmp_path, rules(WIDE))

    (budget,) = result.contracts
    assert (result.calls, result.refused, budget.sessions.first) == (4, 1, ["late"])
    assert budget.example is not None
    assert budget.example.where.endswith("a.jsonl row 1")


def test_what_a_session_refuses_counts_nowhere_in_the_fleet(tmp_path: Path) -> None:
    path = trace(tmp_path, *(pay(300, session_id=name, ts=1.0) for name in ("a", "a", "b", "b")))
    once = {"template": "at_most_n_times", "args": ["pay", 1], "id": "once"}
    wide, own = judged(path, rules(WIDE, once)).contracts

    # What the fleet refused did not run in its session, so the second call of b is asked of the fleet too.
    assert (wide.refused, own.refused) == (2, 1)
    assert (wide.sessions.first, own.sessions.first) == (["b"], ["a"])


def test_a_fleet_knows_whom_each_call_is_about() -> None:
    once = {"template": "at_most_n_times", "args": ["pay", 1], "key": "$subject.customer", "scope": "fleet"}
    calls = [
        Began(where="", session=name, tool="pay", args={}, at=1.0, about=About(subject={"customer": who}))
        for name, who in (("a", "c-1"), ("b", "c-2"), ("c", "c-1"))
    ]
    result = backtest(calls, rules({**once, "per": "day"}))

    assert [found.sessions.first for found in result.contracts] == [["c"]]


def test_sessions_that_wait_in_a_file_go_on_as_if_they_had_not() -> None:
    """Whatever the number of sessions, each decision and what is owed at the end are the same."""
    some = rules(
        {"template": "must_precede", "args": ["look", "pay"], "key": "k"},
        {"template": "at_most_total", "args": ["pay", "amount", 20]},
        {"template": "response", "args": ["pay", "note"]},
        {"template": "at_most_n_times", "args": ["look", 3], "within": 60},
    )
    random_ = random.Random(1)
    events: list[Any] = []
    for number in range(400):
        args = {"k": random_.choice("ab"), "amount": random_.randrange(9)}
        tool, session = random_.choice(["look", "pay", "note"]), f"s{random_.randrange(9)}"
        events.append(Began(where="", session=session, tool=tool, args=args, at=float(number)))
        events.append(Ended(call=events[-1], outcome=random_.choice(["ok", "failed"]), at=float(number)))
    few, many = TraceJudge(some, most_open=3), TraceJudge(some)

    for event in events:
        one, other = few.take(event), many.take(event)
        assert (one and (one.refused, one.guarding)) == (other and (other.refused, other.guarding))
    owed = [{place: (n.count, set(n.first)) for place, n in j.unmet().items()} for j in (few, many)]
    assert owed[0] == owed[1] != {}
    assert len(few) == len(many) == 9


def test_a_session_is_not_put_away_while_it_judges_a_call() -> None:
    """Others have calls under way, so it is the only one that could be."""
    under_way = [Began(where="", session=name, tool="pay", args={"amount": 1}, at=0.0) for name in "abc"]
    first, second = (Began(where="", session="d", tool="pay", args={"amount": 400}, at=1.0) for _ in range(2))
    judge = TraceJudge(rules(BUDGET), most_open=2)

    events: list[TraceEvent] = [*under_way, first, Ended(call=first, outcome="ok", at=1.0)]
    for event in events:
        judge.take(event)
    found = judge.take(second)

    assert found is not None
    assert found.refused


KINDS: tuple[dict[str, Any], ...] = (
    {"template": "must_precede", "args": ["look", "pay"], "key": "k", "within": 40},
    {"template": "at_most_total", "args": ["pay", "amount", 20], "within": 30},
    {"template": "at_most_in_flight", "args": ["look", 1]},
    {"template": "never_after", "args": ["pay", "shut"]},
    {"template": "response", "args": ["pay", "note"], "within": 20},
    {"template": "response", "args": ["pay", "note"], "key": "k"},
    {"template": "required_before_session_end", "args": ["shut"]},
    {"template": "max_distinct", "args": ["n*", "k", 1], "mode": "shadow"},
    {"template": "came_from", "args": ["pay", "k"], "kwargs": {"sources": [{"tool": "look", "path": "id"}]}},
    {"template": "existence", "args": ["note", 2], "scope": "run"},
    {"template": "must_precede", "args": ["look", "pay"], "key": "k", "since": "shut"},
    {"template": "must_precede", "args": ["look", "note"], "since": "shut"},
    {"template": "alternate_precedence", "args": ["look", "pay"], "within": 60},
    {"template": "chain_precedence", "args": ["look", "pay"], "key": "k"},
    {"template": "at_most_total", "args": ["pay", "amount", 27], "key": "k", "per": "hour"},
    {"template": "keeps_out", "args": ["note", "k", {"tool": "look", "path": "id"}]},
    {"template": "never_after", "args": ["note", "shut"], "on_violation": "halt"},
    {"template": "at_most_n_times", "args": ["pay", 2], "when": "session.shut == 0"},
    {"template": "requires_state", "args": ["look", "x", 3], "within": 40},
)


def hectic(random_: random.Random) -> Iterator[TraceEvent]:
    """Give what happens in many sessions by turns, much of it at once, some of it not recorded."""
    under_way: list[Began] = []
    for number in range(150):
        session, at, run = f"s{number // 15 + random_.randrange(9)}", number * 3.0, random_.choice("ab")
        tool, args = (
            random_.choice(("look", "pay", "note", "shut")),
            {"k": random_.choice("abc"), "amount": 9},
        )
        told: dict[str, Any] = {"args": args if random_.random() < 0.95 else None, "at": at}
        about, refused = About(subject={}, run=run), random_.random() < 0.1
        call = Began(where="", session=session, tool=tool, about=about, refused=refused, **told)
        yield call
        under_way.append(call)
        while under_way and random_.random() < 0.7:
            call = under_way.pop(random_.randrange(len(under_way)))
            outcome: Outcome = random_.choice(("ok", "ok", "failed", "unknown", "aborted"))
            yield Ended(call=call, outcome=outcome, result={"id": random_.choice("abc")}, at=at)
        if random_.random() < 0.1:
            yield RunEnded(session=session, run=run, at=at)
            yield StateSet(session=session, values={"x": number}, at=at)
        if random_.random() < 0.02:
            yield Resumed(session=session, state={"y": number}, at=at)


@pytest.mark.parametrize("seed", range(16))
def test_sessions_of_every_kind_go_on_out_of_a_file(seed: int) -> None:
    random_ = random.Random(seed)
    some = rules(*random_.sample(KINDS, 6))
    # With room for all, each session has an engine of its own, that judged no other before.
    few, many = TraceJudge(some, most_open=2), TraceJudge(some)

    for event in hectic(random_):
        assert few.take(event) == many.take(event)
    owed = [{place: (n.count, set(n.first)) for place, n in j.unmet().items()} for j in (few, many)]
    assert owed[0] == owed[1]


def test_sessions_count_apart_unless_the_file_is_one(tmp_path: Path) -> None:
    path = trace(tmp_path, pay(400, session_id="a"), pay(400, session_id="b"))
    assert judged(path, rules(BUDGET)).clean
    as_one = backtest(Recordings([str(path)], by_file=True).events(), rules(BUDGET))
    assert (as_one.sessions, as_one.refused) == (1, 1)


def test_rules_are_compared_with_those_in_force(tmp_path: Path) -> None:
    path = trace(tmp_path, pay(450), {"tool": "wipe"})
    before = rules({**BUDGET, "kwargs": {"limit": 1000}}, {"template": "never", "args": ["wipe"]})
    result = judged(path, rules(BUDGET, {"template": "never", "args": ["other"]}), against=before)
    assert [each.call.tool for each in result.now_allowed.first] == ["wipe"]
    assert not result.now_refused.count
    same = judged(path, before, against=before)
    assert same.clean
    assert same.refused == 1


def test_what_was_not_recorded_cannot_be_judged(tmp_path: Path) -> None:
    """Neither fine nor refused: arguments that nobody wrote down, times, and what a prerequisite says."""
    path = trace(
        tmp_path,
        {"tool": "pay", "args": None},
        {"tool": "wipe", "args": None},
        {"tool": "mail"},
        {"tool": "mail"},
    )
    result = judged(
        path,
        rules(
            BUDGET,
            {"template": "never", "args": ["wipe"]},
            {"template": "rate_limit", "args": ["mail"], "kwargs": {"n": 1, "window_seconds": 60}},
            {"template": "must_precede", "args": ["verify", "pay"], "key": "id"},
        ),
    )
    budget, never, rate, verify = result.contracts
    assert (budget.unknown, budget.refused) == (1, 0)
    assert (never.unknown, never.refused) == (0, 1)
    assert (rate.unknown, rate.refused) == (2, 0)
    assert (verify.unknown, verify.refused) == (1, 0)
    assert result.refused == 1


def test_the_state_of_a_file_is_that_of_the_beginning_of_each_session(tmp_path: Path) -> None:
    """It was written when the session began, as in a run, and is too old only some time after that."""
    new = rules(
        {"template": "requires_state", "args": ["pay", "open", True], "within": 60}, state={"open": True}
    )
    rows = [pay(1, session_id=f"s-{each}", ts=1e9 + each + late) for late in (0, 60, 61) for each in range(3)]
    result = judged(trace(tmp_path, *rows), new)
    assert result.contracts[0].sessions.first == ["s-0", "s-1", "s-2"]
    assert result.refused == 3


OPEN_FOR_A_MINUTE = {"template": "requires_state", "args": ["pay", "open", True], "within": 60}


@pytest.mark.parametrize("waited", [60, 61])
def test_the_state_of_a_recorded_session_is_as_old_as_it_was(waited: int, tmp_path: Path) -> None:
    """A session that waits before its first call, and one whose state is written on the way."""
    now, path = [1e9], tmp_path / "e.jsonl"
    new = rules(OPEN_FOR_A_MINUTE, state={"open": True})
    with EvidenceFile(path, record="steps") as evidence:
        session = Session.from_rules(new, evidence=evidence, clock=lambda: now[0])
        for _ in range(2):
            now[0] += waited
            assert session.reserve("pay").allowed is (waited == 60)
            session.state.set("open", True)
    result = judged(path, new)
    assert (result.refused, result.refused_then) == ((2, 2) if waited == 61 else (0, 0))


@pytest.mark.parametrize("left", ["m", "another"])
def test_the_state_of_a_session_that_went_on_elsewhere_is_no_newer(left: str) -> None:
    """Where it is known what was left, so is how old its state is; else nobody can say."""
    judge = TraceJudge(rules(OPEN_FOR_A_MINUTE))
    judge.take(StateSet(session="a", values={"open": True}, at=1e9))
    judge.take(StateSet(session="a", values={"other": 1}, at=1e9 + 40))
    judge.take(Left(session="a", mark=left, at=1e9 + 40))
    judge.take(Resumed(session="b", state={"open": True}, left_by="a", mark="m", at=1e9 + 50))
    call = judge.take(Began(where="", session="b", tool="pay", args={}, at=1e9 + 61))
    assert call is not None
    assert (call.refused, bool(call.unknown)) == ((True, False) if left == "m" else (False, True))


def test_what_a_log_counted_in_files_that_are_gone_nobody_can_say(tmp_path: Path) -> None:
    """Its earlier files were put away: a session that began there may have used up anything."""
    with EvidenceFile(tmp_path / "e.jsonl", record="steps", max_bytes=4_000) as evidence:
        for name in ("old", "new"):
            session = Session(contracts=rules(BUDGET).contracts, evidence=evidence, session_id=name)
            for _ in range(12):
                session.reserve("pay", {"amount": 100})
    whole = judged(tmp_path, rules(BUDGET))
    (tmp_path / "e.000001.jsonl").unlink()
    recordings = Recordings([str(tmp_path)])
    cut = backtest(recordings.events(), rules(BUDGET))

    assert (whole.refused, whole.refused_then, whole.unjudged) == (14, 14, 0)
    assert (cut.refused, cut.unjudged) == (7, cut.calls - 12)
    assert recordings.unread["logs of which earlier files are not there"] == 1


@pytest.mark.parametrize("state", [None, {}, {"open": True}])
def test_a_state_that_nobody_knows_is_not_that_of_the_rules_file(state: dict[str, Any] | None) -> None:
    """A session whose beginning is gone may have been opened or shut since; where that is said, it counts."""
    judge = TraceJudge(rules({"template": "requires_state", "args": ["pay", "open", True]}))
    judge.take(Resumed(session="a", state=state, at=1e9))
    call = judge.take(Began(where="", session="a", tool="pay", args={}, at=1e9 + 1))
    assert call is not None
    assert (call.refused, bool(call.unknown)) == (state == {}, state is None)


@pytest.mark.parametrize("key", ["k", "$subject.k"])
def test_a_call_whose_key_nobody_wrote_down_is_not_refused_for_lack_of_it(key: str, tmp_path: Path) -> None:
    """Whose answer it owes cannot be told, as cannot be whether it is owed at the end."""
    owed = rules({"template": "response", "args": ["pay", "mail"], "key": key})
    result = judged(trace(tmp_path, {"tool": "pay", "args": None}), owed)
    assert (result.refused, result.contracts[0].unknown, bool(result.contracts[0].unmet)) == (0, 1, False)


def test_shadow_contracts_are_counted_and_refuse_nothing(tmp_path: Path) -> None:
    result = judged(trace(tmp_path, pay(600)), rules({**BUDGET, "mode": "shadow"}))
    assert (result.refused, result.contracts[0].refused, result.clean) == (0, 1, False)


def test_contracts_that_never_applied_and_calls_that_nobody_looks_at(tmp_path: Path) -> None:
    new = rules(BUDGET, {"template": "never", "args": ["wipe"]})
    result = judged(trace(tmp_path, pay(1), {"tool": "look"}, {"tool": "look"}), new)
    assert [contract.spec for contract in result.vacuous] == ["never(wipe)"]
    assert result.unseen.of == {"look": 2}


def test_what_is_owed_at_the_end(tmp_path: Path) -> None:
    new = rules({"template": "response", "args": ["order", "ship"]})
    result = judged(trace(tmp_path, {"tool": "order", "session_id": "a"}), new)
    assert result.contracts[0].unmet.first == ["a"]
    assert not result.clean


def test_calls_that_overlap_are_judged_as_they_were(tmp_path: Path) -> None:
    """Of two side by side the second is refused at once; one that failed before it gave nothing back."""
    path = trace(
        tmp_path,
        {"event": "began", "call": "1", **pay(400)},
        {"event": "began", "call": "2", **pay(400)},
        {"event": "ended", "call": "1", "outcome": "aborted"},
        {"event": "began", "call": "3", **pay(400)},
        {"event": "ended", "call": "3"},
        {"event": "ended", "call": "2"},
    )
    result = judged(path, rules(BUDGET))
    assert result.contracts[0].example is not None
    assert (result.refused, result.contracts[0].example.where[-5:]) == (1, "row 2")
    session = Session.from_rules(rules(BUDGET))
    replayed = session.replay([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    assert [violation.step for violation in replayed] == [2]


CONTRACTS = (
    {**BUDGET, "key": "who"},
    {"template": "must_precede", "args": ["login", "pay"], "key": "who"},
    {"template": "at_most_n_times", "args": ["mail"], "kwargs": {"n": 30}},
    {"template": "rate_limit", "args": ["look"], "kwargs": {"n": 3, "window_seconds": 10}},
    {"template": "never", "args": [{"tool": "look", "matches": "secret", "field": "path"}]},
    {"template": "mutually_exclusive", "args": ["open", "shut"]},
)


@pytest.mark.parametrize("seed", range(8))
def test_our_own_evidence_comes_out_as_it_was_decided(seed: int, tmp_path: Path) -> None:
    """Every decision, calls that overlap, fail and get lost included - also as a trace of rows."""
    random_ = random.Random(seed)
    path, now = tmp_path / "e.jsonl", [0.0]
    new = rules(*CONTRACTS)
    with EvidenceFile(path, record="steps") as evidence:
        session = Session.from_rules(new, evidence=evidence, clock=lambda: now[0])
        flying: list[Any] = []
        for _ in range(300):
            now[0] += random_.random() * 3
            tool = random_.choice(["login", "pay", "mail", "look", "open", "shut"])
            args = {"who": random_.choice("ab"), "amount": random_.randint(1, 90), "path": "x"}
            call = session.reserve(tool, args)
            if call.allowed:
                flying.append(call)
            while len(flying) > random_.randint(0, 4):
                ended = flying.pop(random_.randrange(len(flying)))
                random_.choice([ended.commit, ended.commit, ended.lose, lambda e=ended: e.abort(ran=False)])()
    judge = TraceJudge(new)
    found = [(event, judge.take(event)) for event in Recordings([str(path)]).events()]
    decided = [(call.refused, now.refused) for call, now in found if isinstance(call, Began) and now]
    assert len(decided) == 300
    assert all(then is now for then, now in decided)
    result = judged(path, new)
    assert 0 < result.refused_then < 300
    assert result.unjudged == 0

    again = trace(tmp_path, *rows_of(Recordings([str(path)]).events()))
    assert judged(again, new).calls == 300


NEEDS_RESULTS = (
    {"template": "keeps_out", "args": ["mail", "who", {"tool": "login", "path": "user"}]},
    {"template": "mutually_exclusive", "args": ["mail", "look"]},
    {"template": "came_from", "args": ["pay", "who", [{"tool": "login", "path": "user"}]]},
    {"template": "requires", "args": ["open", 'facts.account[args.who].open == "y"']},
    {"template": "at_most_n_times", "args": ["open", 9]},
    {"template": "never_after", "args": ["shut", "pay"]},
)
ACCOUNT = {"tool": "login", "as": "account", "key": "who", "values": {"open": "open"}}


@pytest.mark.parametrize("seed", [1, 10, 16, 22])
def test_what_rests_on_results_parts_only_where_nobody_can_judge(seed: int, tmp_path: Path) -> None:
    """A call that was refused then, and that nobody can judge now, counts nowhere: it did not run."""
    random_ = random.Random(seed)
    path = tmp_path / "e.jsonl"
    read = rules(*NEEDS_RESULTS, facts=[ACCOUNT])
    with EvidenceFile(path, record="steps") as evidence:
        session = Session.from_rules(read, evidence=evidence, halt_on_violation=False)
        flying: list[Any] = []
        for _ in range(120):
            tool = random_.choice(["login", "pay", "mail", "look", "open", "shut"])
            call = session.reserve(tool, {"who": random_.choice("ab")})
            flying += [call] if call.allowed else []
            while len(flying) > random_.randint(0, 3):
                result = {"user": random_.choice("ab"), "open": random_.choice("yn")}
                flying.pop(random_.randrange(len(flying))).commit(result)
    judge = TraceJudge(read)
    parted = 0
    for event in Recordings([str(path)]).events():
        judged = judge.take(event)
        if isinstance(event, Began):
            assert judged is not None
            assert judged.unknown or judged.refused is event.refused
            parted += judged.refused is not event.refused
    assert parted


def test_where_values_come_from_is_judged_where_that_was_recorded(tmp_path: Path) -> None:
    """A request and results vouch; without one of them nobody can say."""
    came_from = {
        "template": "came_from",
        "args": ["pay", "to"],
        "kwargs": {"sources": ["prompt", {"tool": "contacts", "path": "*.iban"}]},
    }
    asked = {"tool": "user_prompt", "args": {"prompt": "pay DE02 please"}}
    listed = {"tool": "contacts", "args": {}, "result": [{"iban": "DE03"}]}

    def pay_to(iban: str) -> dict[str, Any]:
        return {"tool": "pay", "args": {"to": iban}}

    new = rules(came_from)
    known = judged(trace(tmp_path, asked, listed, pay_to("DE02"), pay_to("DE03"), pay_to("DE99")), new)
    assert (known.calls, known.refused, known.unjudged) == (4, 1, 0)
    no_request = judged(trace(tmp_path, listed, pay_to("DE99")), new)
    assert (no_request.refused, no_request.unjudged) == (0, 1)
    no_result = judged(trace(tmp_path, asked, {"tool": "contacts", "args": {}}, pay_to("DE99")), new)
    assert (no_result.refused, no_result.unjudged) == (0, 1)


def test_a_call_with_hidden_arguments_is_no_missing_prerequisite(tmp_path: Path) -> None:
    """Nobody wrote down what the user said and who was verified: it may be what a contract needs."""
    path = trace(
        tmp_path,
        {"tool": "verify", "args": None},
        {"tool": "user_prompt", "args": None},
        {"tool": "pay", "args": {"customer": "c-1"}},
        pay(450),
        {"tool": "wipe"},
    )
    yes = {"tool": "user_prompt", "matches": "^yes", "field": "prompt"}
    result = judged(
        path,
        rules(
            {"template": "must_precede", "args": ["verify", "pay"], "key": "customer"},
            {"template": "must_precede", "args": [yes, "pay"], "since": "user_prompt"},
            {"template": "must_precede", "args": ["verify", "wipe"]},
            {"template": "required_before_session_end", "args": [yes]},
            {"template": "must_precede", "args": ["look_up", "pay"]},
        ),
    )
    verified, confirmed, plain, said, looked = result.contracts
    assert [
        (each.unknown, each.refused, bool(each.unmet)) for each in (verified, confirmed, plain, said)
    ] == [
        (2, 0, False),
        (3, 0, False),  # the prompt itself, too
        (0, 0, False),
        (1, 0, False),
    ]
    assert (looked.unknown, looked.refused) == (0, 2)


def test_a_call_with_hidden_arguments_may_have_used_up_a_limit(tmp_path: Path) -> None:
    path = trace(tmp_path, pay(100), {"tool": "pay", "args": None}, pay(450))
    (budget,) = judged(path, rules(BUDGET)).contracts
    assert (budget.unknown, budget.refused) == (2, 0)


def test_runs_and_whom_they_may_object_are_those_of_the_log(tmp_path: Path) -> None:
    """Each run has a limit of its own, and each customer; a run that is over owes what it has not done."""
    contracts: list[dict[str, Any]] = [
        {"template": "at_most_n_times", "args": ["pay", 1], "scope": "run", "id": "run"},
        {"template": "at_most_n_times", "args": ["pay", 2], "key": "$subject.customer", "id": "customer"},
        {"template": "never", "args": ["pay"], "when": "subject.channel == 'phone'", "id": "phone"},
        {"template": "required_before_session_end", "args": ["log_out"], "scope": "run", "id": "out"},
    ]
    written = rules(*contracts)
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(
            contracts=shared_rules(written.contracts, default_scope="session"),
            evidence=evidence,
            mode="shadow",
        )
        for run, customer in (("r1", "ann"), ("r2", "bob"), ("r3", "ann"), ("r4", "ann")):
            about = About(subject={"customer": customer, "channel": "web"}, run=run)
            session.reserve("pay", {"amount": 5}, about=about).commit()
            if run != "r2":
                session.reserve("log_out", {}, about=about).commit()
            engine_of(session).end_run(run)
        session.end_session()
    result = judged(tmp_path / "log.jsonl", written)
    assert [(each.refused, each.unknown, each.unmet.count) for each in result.contracts] == [
        (0, 0, 0),
        (1, 0, 0),
        (0, 0, 0),
        (0, 0, 1),
    ]


def test_nobody_can_say_whom_a_call_was_about_that_was_recorded_elsewhere(tmp_path: Path) -> None:
    by_customer = {"template": "at_most_n_times", "args": ["pay", 1], "key": "$subject.customer"}
    by_phone = {"template": "never", "args": ["pay"], "when": "subject.channel == 'phone'"}
    result = judged(trace(tmp_path, pay(1), pay(2)), rules(by_customer, by_phone))
    assert [(each.refused, each.unknown) for each in result.contracts] == [(0, 2), (0, 2)]


def test_a_call_that_was_refused_then_is_not_under_way_for_good(tmp_path: Path) -> None:
    """Nobody knows when it would have ended, so it stands in no other call's way."""
    one = {"template": "at_most_in_flight", "args": ["pay", 1], "id": "one"}
    cap = {"template": "never", "args": [{"tool": "pay", "matches": "^9$", "field": "amount"}], "id": "never"}
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(contracts=rules(one, cap).contracts, evidence=evidence, halt_on_violation=False)
        assert not session.reserve("pay", {"amount": "9"}).allowed
        first = session.reserve("pay", {"amount": "5"})
        assert not session.reserve("pay", {"amount": "5"}).allowed
        first.commit()
        session.reserve("pay", {"amount": "5"}).commit()
        session.end_session()
    same = judged(tmp_path / "log.jsonl", rules(one, cap))
    assert [(each.refused, each.unknown) for each in same.contracts] == [(1, 0), (1, 0)]
    (freed,) = judged(tmp_path / "log.jsonl", rules(one)).contracts
    assert (freed.refused, freed.unknown) == (0, 3)


def test_what_did_not_run_then_is_said_of_what_is_refused(tmp_path: Path) -> None:
    """Whether it was refused or aborted; in evidence and in what is imported from it alike."""
    cap = {"template": "at_most_total", "args": ["pay", "amount"], "kwargs": {"limit": 300}}
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as evidence:
        session = Session(contracts=rules(BUDGET).contracts, evidence=evidence, halt_on_violation=False)
        session.reserve("pay", {"amount": 400}).abort(ran=False)
        session.reserve("pay", {"amount": 600})
        session.reserve("pay", {"amount": 350}).commit()
        session.reserve("pay", {"amount": 200})
    log = tmp_path / "log.jsonl"
    imported = trace(tmp_path, *rows_of(Recordings([str(log)]).events()))
    for path in (log, imported):
        result = judged(path, rules(cap))
        assert (result.calls, result.refused, result.never_ran, result.refused_then) == (4, 3, 2, 2)
        # What was refused then and runs now counts, as far as anybody knows.
        assert judged(path, rules({**cap, "kwargs": {"limit": 700}})).refused == 2


MOVING = (
    {"template": "must_precede", "args": ["verify", "pay"], "key": "who"},
    {**BUDGET, "key": "who"},
    {"template": "at_most_n_times", "args": ["mail"], "kwargs": {"n": 3}},
)


def worked(folder: Path, turns: int) -> None:
    """Let two workers go on with two sessions by turns, over one store, with calls side by side."""
    random_ = random.Random(7)
    with closing(SqliteFleet(folder / "fleet.db", timeout_seconds=20)) as fleet:
        for turn in range(turns):
            log = EvidenceFile(folder / f"{random_.choice('ab')}.jsonl", record="steps")
            with log:
                session = Session(
                    contracts=rules(*MOVING).contracts,
                    fleet=fleet,
                    durable=True,
                    session_id=f"s-{turn % 2}",
                    evidence=log,
                    halt_on_violation=False,
                )
                flying: list[Any] = []
                for tool in random_.choices(["verify", "pay", "mail"], k=5):
                    args = {"who": random_.choice("ab"), "amount": random_.randint(50, 200)}
                    call = session.reserve(tool, args)
                    flying += [call] if call.allowed and call.start() else []
                    if len(flying) > 1:
                        flying.pop(0).commit("done")
                for call in flying:
                    call.commit("done")
                session.release()


def decisions(*paths: Path) -> list[tuple[bool, bool, bool]]:
    judge = TraceJudge(rules(*MOVING))
    events = Recordings(map(str, paths)).events()
    found = [(event, judge.take(event)) for event in events]
    return [(e.refused, j.refused, bool(j.unknown)) for e, j in found if isinstance(e, Began) and j]


def test_sessions_that_moved_between_workers_come_out_as_they_were_decided(tmp_path: Path) -> None:
    """With the logs of all of them, what each went on with is known; without one, it is not."""
    worked(tmp_path, 12)
    logs = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    found = decisions(*logs)
    assert len(found) == 60
    assert {then for then, _, _ in found} == {True, False}
    assert all(then is now and not unknown for then, now, unknown in found)
    assert all(any(unknown for _, _, unknown in decisions(log)) for log in logs)
    assert backtest(Recordings(map(str, logs)).events(), rules(*MOVING)).sessions == 2
