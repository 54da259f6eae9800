"""What calls tell a session, and what conditions make of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    TemporalContract,
    at_most_n_times,
    existence,
    fact,
    init,
    must_precede,
    never,
    never_after,
    requires,
    response,
)
from openbox_agentrt.acel.condition.values import MAX_TEXT
from openbox_agentrt.acel.contracts.requires import Requires
from openbox_agentrt.acel.engine.plan.reads import contracts_reading
from openbox_agentrt.acel.memory.facts import FactMemory
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.evidence import EvidenceFile

ORDER = fact("get", "order", key="id", values={"status": "status", "items": "items.*.id", "who": "args.user"})
PENDING = requires("cancel", "facts.order[args.id].status == 'pending'", facts=[ORDER], remedy="look it up")


def opened(*contracts: TemporalContract, **options: Any) -> Session:
    return Session(contracts=contracts, halt_on_violation=False, **options)


def told(session: Session, id: Any = 7, status: Any = "pending", **more: Any) -> None:
    session.call("get", {"id": id, **more}, result={"status": status, "items": []})


def refusal(session: Session, tool: str, args: dict[str, Any]) -> str | None:
    found = session.would(tool, args)
    return None if found is None else found.message


def cancels(session: Session, id: Any = 7) -> bool:
    return refusal(session, "cancel", {"id": id}) is None


def deep(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


# What is told


def test_a_fact_is_what_the_latest_successful_call_told() -> None:
    """And of another key, nothing."""
    session = opened(PENDING)

    assert not cancels(session)
    told(session)
    assert cancels(session)
    assert not cancels(session, 8)
    told(session, status="delivered")
    assert not cancels(session)


@pytest.mark.parametrize(
    ("key", "same"), [(42, "42"), ("42", 42), (42.0, 42), (" c-1\u200b", "c-1"), ("Rene\u0301", "Ren\u00e9")]
)
def test_keys_are_spelt_as_those_of_contracts(key: Any, same: Any) -> None:
    """Whoever wrote them."""
    session = opened(PENDING)
    told(session, key)

    assert cancels(session, same)


def test_a_key_is_folded_as_its_fact_says() -> None:
    """By default, Ann and ann are two."""
    folded = fact("get", "order", key="id", values={"status": "status"}, fold="case")
    contract = requires("cancel", "args.id in facts.order", facts=[folded])

    for one, expected in ((contract, True), (PENDING, False)):
        session = opened(one)
        told(session, "Ann")
        assert cancels(session, "ann") is expected


@pytest.mark.parametrize(
    "end",
    [
        lambda call: call.abort(ValueError("no"), ran=True),
        lambda call: call.abort(),
        lambda call: call.lose(),
        lambda call: None,
    ],
    ids=["failed", "never ran", "lost", "under way"],
)
def test_a_call_that_did_not_succeed_tells_nothing(end: Callable[[Any], None]) -> None:
    """Whatever it would have said."""
    session = opened(PENDING)
    call = session.reserve("get", {"id": 7})
    end(call)

    assert not cancels(session)


def test_a_refused_call_tells_nothing() -> None:
    """It did not run."""
    session = opened(PENDING, never("get"))
    session.call("get", {"id": 7}, result={"status": "pending"})

    assert not cancels(session)


@pytest.mark.parametrize(
    "result",
    [
        '{"status": "pending"}',
        {"structuredContent": {"status": "pending"}, "content": []},
        {"content": [{"type": "text", "text": '{"status": "pending"}'}]},
    ],
    ids=["JSON text", "structured content", "texts"],
)
def test_a_result_is_read_as_its_data(result: Any) -> None:
    """However it is wrapped."""
    session = opened(PENDING)
    session.call("get", {"id": 7}, result=result)

    assert cancels(session)


@pytest.mark.parametrize("result", [None, "pending", [], {"state": "pending"}, b"\xff", object(), 5])
def test_a_result_without_the_value_tells_only_that_it_was_there(result: Any) -> None:
    """Reading the value is a fault, which refuses."""
    session = opened(PENDING, requires("see", "args.id in facts.order", facts=[ORDER]))
    session.call("get", {"id": 7}, result=result)

    assert refusal(session, "see", {"id": 7}) is None
    assert "a field that it reads is missing" in str(refusal(session, "cancel", {"id": 7}))


def test_the_key_is_that_of_the_arguments_that_ran() -> None:
    """A person may have changed them."""
    session = opened(PENDING)
    session.reserve("get", {"id": 7}).commit({"status": "pending"}, args={"id": 8})

    assert not cancels(session, 7)
    assert cancels(session, 8)


def test_a_key_can_be_in_the_result_and_the_result_can_be_the_value() -> None:
    """Several tools tell one fact."""
    customer = fact(["by_mail", "by_name"], "customer", values={"id": "result"})
    user = fact("get", "user", key="result.id", values={"name": "name"})
    session = opened(
        requires(
            "pay", "args.by == facts.customer.id && facts.user[args.by].name == 'Ann'", facts=[customer, user]
        )
    )
    session.call("by_mail", {"mail": "a"}, result="u-1")
    session.call("get", {}, result={"id": "u-1", "name": "Ann"})

    assert refusal(session, "pay", {"by": "u-1"}) is None
    session.call("by_name", {}, result="u-2")
    assert refusal(session, "pay", {"by": "u-1"}) is not None


def test_at_the_bound_the_oldest_is_forgotten() -> None:
    """Which can only refuse more."""
    session = opened(PENDING, max_keys=3)
    for key in (1, 2, 3, 1, 4):
        told(session, key)

    assert [cancels(session, key) for key in (1, 2, 3, 4)] == [True, False, True, True]


@pytest.mark.parametrize(
    "value",
    [
        "x" * (MAX_TEXT + 1),
        list(range(5000)),
        {"a" * 1000 + str(n): n for n in range(100)},
        2**63,
        Decimal("NaN"),
        deep(5000),
    ],
    ids=["text", "list", "names", "number", "no number", "depth"],
)
def test_what_cannot_be_kept_is_left_out(value: Any) -> None:
    """Too large, or nothing that a condition can hold. The rest of the fact is kept."""
    session = opened(
        requires("see", "args.id in facts.order && !has(facts.order[args.id].status)", facts=[ORDER])
    )
    told(session, status=value)

    assert refusal(session, "see", {"id": 7}) is None


def test_facts_are_in_snapshots() -> None:
    """With the step that told them, and in their order."""
    session = opened(PENDING, max_keys=2)
    for key in (1, 2):
        told(session, key)
    taken = json.loads(json.dumps(session.snapshot()))

    again = Session.restore(taken, [PENDING], max_keys=2, halt_on_violation=False)

    assert again.snapshot()["memory"] == taken["memory"]
    told(again, 3)
    assert [cancels(again, key) for key in (1, 2, 3)] == [False, True, True]


def test_contracts_share_a_fact_and_keep_it_when_rules_are_replaced() -> None:
    """It is one piece of memory."""
    session = opened(PENDING, requires("see", "args.id in facts.order", facts=[ORDER]))
    told(session)

    cells = [cell for _, cell in engine_of(session).store.memory.cells() if isinstance(cell, FactMemory)]
    session.replace_contracts([PENDING])

    assert len(cells) == 1
    assert cancels(session)


def test_a_recorded_trace_tells_facts() -> None:
    """From the results of its rows."""
    rows = [
        {"tool": "get", "args": {"id": 7}, "result": {"status": "pending"}},
        {"tool": "cancel", "args": {"id": 7}},
        {"tool": "cancel", "args": {"id": 8}},
    ]

    assert [v.step for v in opened(PENDING).replay(rows)] == [3]


def test_a_session_that_only_watches_reports_each_call() -> None:
    """And lets all of them run."""
    session = opened(PENDING, mode="shadow")

    assert session.reserve("cancel", {"id": 7}).allowed
    told(session, status="delivered")
    assert session.reserve("cancel", {"id": 7}).allowed
    assert [(v.step, v.blocked) for v in session.violations] == [(1, False), (3, False)]


# What a refusal says


def test_a_refusal_says_what_would_tell_the_fact() -> None:
    """And what the contract's author says."""
    broken = opened(PENDING).reserve("cancel", {"id": 7}).refusal
    assert broken is not None

    assert broken.broken[0].needs == "get with the same id"
    assert broken.broken[0].remedy == "look it up"
    assert broken.broken[0].fault is None


def test_a_refusal_says_which_call_told_it() -> None:
    """The latest, if there are several."""
    session = opened(PENDING)
    told(session, 1)
    told(session, status="delivered")
    session.reserve("cancel", {"id": 7})

    assert session.violations[0].blame == 2


SECRET = "hunter2-correct-horse"


@pytest.mark.parametrize(
    ("check", "args"),
    [
        ("args.s > 5", {"s": SECRET}),
        ("args[args.s] == 1", {"s": SECRET}),
        ("'x'.matches(args.s)", {"s": "(" + SECRET}),
        ("int(args.s) == 1", {"s": SECRET}),
        ("timestamp(args.s) < now", {"s": SECRET}),
        ("sum(args.s) == 1", {"s": [SECRET]}),
        ("sum([args.s]) == 1", {"s": SECRET}),
        ("distinct([args.s]).size() == 1", {"s": {SECRET: 1}}),
        ("facts.order[args.s].status == 'x'", {"s": SECRET}),
        ("facts.order[7][args.s] == 'x'", {"s": SECRET}),
        ("facts.order[7].status > 1", {"s": 1}),
        ("args.s", {"s": SECRET}),
        ("args.s.a", {"s": {SECRET: 2**70}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_never_shows_a_value(check: str, args: dict[str, Any]) -> None:
    """It says of which kind it was."""
    session = opened(requires("do", check, facts=[ORDER]))
    told(session, status=SECRET)
    call = session.reserve("do", args)

    assert call.refusal is not None
    assert SECRET not in json.dumps(call.refusal.for_model())
    assert SECRET not in str(call.refusal)


def test_evidence_hides_facts_by_the_names_of_their_fields(tmp_path: Path) -> None:
    """The key by the argument's, a value by that of the field that it comes from."""
    card = fact("get", "account", key="user.id", values={"number": "payment.card", "city": "city"})
    path = tmp_path / "log.jsonl"
    with EvidenceFile(path, record="steps", redact_fields=["card", "id"]) as evidence:
        session = Session(
            contracts=[requires("pay", "args.id in facts.account", facts=[card])], evidence=evidence
        )
        session.call(
            "get", {"user": {"id": "u-secret"}}, result={"payment": {"card": SECRET}, "city": "Rome"}
        )
        session.end_session()
    log = path.read_text(encoding="utf-8")

    assert SECRET not in log
    assert "u-secret" not in log
    assert "Rome" in log


# Values


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        ("args.v == 9223372036854775807", 2**63 - 1, True),
        ("args.v > 0", 2**63, "args.v is a whole number beyond 64 bits"),
        ("args.v > 0", -(2**63) - 1, "args.v is a whole number beyond 64 bits"),
        ("args.v + 1 > 0", 2**63 - 1, "a number is out of range"),
        ("args.v > 0", float("nan"), "args.v is not finite"),
        ("args.v > 0", float("inf"), "args.v is not finite"),
        ("args.v == 0.1", Decimal("0.1"), True),
        ("args.v == 12", Decimal("12.00"), True),
        ("args.v > 0", Decimal("0.12345678901234567890"), "args.v cannot be held exactly"),
        ("args.v > 0.0", Decimal("1e400"), "args.v cannot be held exactly"),
        ("args.v > 0", "5", "a value is of the wrong type (args.v is text)"),
        ("args.v > 0", True, "a value is of the wrong type (args.v is true or false)"),
        ("args.v > 0", None, "a value is of the wrong type (args.v is null)"),
        ("args.v", 1, "it is a whole number, not true or false (args.v is a whole number)"),
        ("args.v == ['a', 'b']", ("a", "b"), True),
        ("args.v == ['a', 'b']", {"b", "a"}, True),
        ("args.v == '2026-01-02'", date(2026, 1, 2), True),
        ("args.v['1'] == 'x'", {1: "x"}, True),
        ("args.v == 'x'", b"x", "args.v is bytes"),
        ("args.v == 'x'", object(), "args.v cannot be looked into (opaque)"),
        ("args.v == 'x'", "\ud800", "it cannot be evaluated (args.v is text)"),
        ("args.v.all(a, args.v.all(b, a + b >= 0))", list(range(3000)), "it takes too many steps"),
        ("args.v / 0 == 1", 1, "it divides by zero"),
        ("args.v[3] == 1", [1], "a list is shorter than it reads"),
        ("'a'.matches(args.v)", "(", "a pattern is no regular expression"),
        ("args.v.matches('^(a+)+$')", "a" * 5000 + "b", False),
        ("args.v > 'x' || true", 5, True),
        ("args.v > 'x' && false", 5, False),
        ("sum(args.v) == 0.3", [0.1, 0.1, 0.1], True),
        ("sum(args.v) == 600", [100, Decimal("500.00")], True),
        ("sum(args.v) > 0", [1, "2"], "an element of sum is not a number"),
        ("sum(args.v) > 0", [2**62, 2**62], "the sum is a whole number beyond 64 bits"),
        ("sum([]) == 0", 1, True),
        ("distinct(args.v) == ['7', 'a']", [7, "7", "a", "7.0", "a "], True),
        ("args.v in facts.order", True, "a value is of the wrong type"),
        ("args.v in facts.order", [1], "a value is of the wrong type"),
        ("facts.order[args.v].status == 'x'", None, "a value is of the wrong type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_is_compared_as_what_it_is_or_refused(check: str, value: Any, expected: bool | str) -> None:
    """It is never rounded, and never taken for another."""
    message = refusal(opened(requires("do", check, facts=[ORDER])), "do", {"v": value})

    if expected is True:
        assert message is None
    else:
        assert message is not None
        assert expected is False or expected in message


def test_an_argument_that_is_missing_refuses() -> None:
    """Unless the condition asks whether it is there."""
    session = opened(requires("do", "args.v > 0"), requires("see", "!has(args.v) || args.v > 0"))

    assert "(args.v is missing)" in str(refusal(session, "do", {}))
    assert refusal(session, "see", {}) is None
    assert refusal(session, "see", {"v": 0}) is not None


def test_time_is_that_of_the_session() -> None:
    """Its clock's, and for a recorded trace that of the record."""
    now = [1_000_000.0]

    def clock() -> float:
        if now[0] < 0:
            raise OSError("no time")
        return now[0]

    contract = requires("do", "now - timestamp(args.at) < duration('60s')")
    session = opened(contract, clock=clock)

    assert refusal(session, "do", {"at": "1970-01-12T13:46:00Z"}) is None
    assert refusal(session, "do", {"at": "1970-01-12T13:45:00Z"}) is not None
    assert "a value cannot be converted" in str(refusal(session, "do", {"at": "1970-01-12 13:46"}))
    now[0] = 1e18
    assert "the time is out of range" in str(refusal(session, "do", {"at": "1970-01-12T13:46:00Z"}))
    rows = [
        {"tool": "do", "args": {"at": "1970-01-12T13:46:40Z"}, "ts": 1_000_000 + seconds}
        for seconds in (30, 90)
    ]
    assert [v.step for v in opened(contract).replay(rows)] == [2]


def test_the_subject_is_whom_the_session_is_about() -> None:
    """No argument can pass for it."""
    contract = requires("do", "subject.tenant == args.tenant")

    assert refusal(opened(contract, subject={"tenant": "a"}), "do", {"tenant": "a"}) is None
    assert refusal(opened(contract, subject={"tenant": "a"}), "do", {"tenant": "b"}) is not None
    assert refusal(opened(contract), "do", {"tenant": "a", "subject": {"tenant": "a"}}) is not None


def test_counts_are_those_of_successful_calls() -> None:
    """Of tools that no contract is about, too."""
    session = opened(requires("do", "session.a == 1 && session['b-c'] == 0"))
    flying = session.reserve("a")
    session.reserve("a").abort(ran=True)

    assert refusal(session, "do", {}) is not None
    flying.commit()
    assert refusal(session, "do", {}) is None
    session.call("b-c")
    assert refusal(session, "do", {}) is not None


# When a contract is asked


def test_a_limit_counts_the_calls_for_which_it_is_asked() -> None:
    """And so does its twin without the condition, for itself."""
    session = opened(
        at_most_n_times("pay", 1, when="args.n > 100", id="large"), at_most_n_times("pay", 3, id="all")
    )

    assert [session.reserve("pay", {"n": n}).allowed for n in (1, 200, 300, 2, 3)] == [
        True,
        True,
        False,
        True,
        False,
    ]


def test_a_prerequisite_counts_in_any_case() -> None:
    """It has other arguments."""
    session = opened(must_precede("look", "pay", when="args.n > 100"), init("log_in", when="session.pay > 1"))

    assert session.reserve("pay", {"n": 1}).allowed
    assert not session.reserve("pay", {"n": 200}).allowed
    session.call("look")
    assert session.reserve("pay", {"n": 200}).allowed


@pytest.mark.parametrize(
    "contract",
    [
        never("x", when="args.n > 1"),
        at_most_n_times("x", 0, when="args.n > 1"),
        never_after("x", "y", when="args.n > 1"),
        must_precede("z", "x", when="args.n > 1"),
        init("z", when="args.n > 1"),
    ],
    ids=lambda contract: contract.template,
)
def test_what_cannot_be_asked_is_taken_for_true(contract: TemporalContract) -> None:
    """The strict side, with the fault."""
    session = opened(contract)
    session.call("y", {"n": 1})

    assert refusal(session, "x", {"n": 1}) is None
    session = opened(contract)
    session.call("y", {"n": 2})
    for args in ({"n": 2}, {}, {"n": "many"}):
        assert refusal(session, "x", args) is not None
    assert "args.n is text" in str(refusal(session, "x", {"n": "many"}))


def test_an_obligation_is_asked_at_the_end_and_a_response_at_the_call() -> None:
    """Of what has happened by then."""
    session = opened(existence("report", when="session.pay > 0"), response("pay", "mail", when="args.n > 1"))
    session.call("pay", {"n": 1})

    assert [v.spec for v in session.end_session()] == ["existence(report, n=1, when=session.pay > 0)"]
    assert opened(existence("report", when="session.pay > 0")).end_session() == []


def test_a_condition_is_asked_of_what_ran() -> None:
    """A call that was let through as one that is fine, and ran as one that is not, is reported."""
    session = opened(requires("pay", "args.n <= 5"), at_most_n_times("pay", 1, when="args.n == 3"))
    session.reserve("pay", {"n": 1}).commit(args={"n": 9})
    session.reserve("pay", {"n": 1}).commit(args={"n": 3})

    assert [v.spec for v in session.violations] == ["requires(pay, args.n <= 5)"]
    assert not session.reserve("pay", {"n": 3}).allowed


def test_what_may_have_changed_is_asked_again_after_a_wait() -> None:
    """A fact, a count or the time; arguments stay what they are."""
    session = opened(PENDING, requires("cancel", "args.id > 0"))
    told(session)
    call = session.reserve("cancel", {"id": 7})
    told(session, status="delivered")

    assert [contract.recheck for contract in session.contracts if isinstance(contract, Requires)] == [
        True,
        False,
    ]
    assert call.allowed
    assert not call.recheck()


def test_what_a_condition_needs_to_be_judged_is_known() -> None:
    """So that a trace in which it is missing is not judged as if it were there."""
    contracts = [
        PENDING,
        requires("cancel", "now > timestamp('2026-01-01T00:00:00Z')"),
        never("cancel", when="facts.order['x'].status == 'a'", facts=[ORDER]),
        never("cancel", when="now > timestamp('2026-01-01T00:00:00Z')", mode="shadow"),
    ]
    plan = engine_of(opened(*contracts)).store.book.plan("cancel")

    def needs(**what: bool) -> list[int]:
        found = contracts_reading(
            plan,
            **{
                "arguments": False,
                "times": False,
                "results": False,
                "prompts": False,
                "subject": False,
                "memory": False,
                "state": False,
                **what,
            },
        )
        return [place for place, contract in enumerate(contracts) if id(contract) in found]

    assert needs(arguments=True) == [0, 2, 3]
    assert needs(times=True) == [1, 3]
    assert needs(results=True) == [0, 2]
    assert needs(memory=True) == [0, 2]


def test_sessions_in_threads_ask_for_their_own_facts() -> None:
    """Many at once, over the same contracts."""
    contracts = (PENDING,)
    wrong: list[int] = []

    def work(number: int) -> None:
        session = Session(contracts=contracts, halt_on_violation=False)
        told(session, number)
        for _ in range(200):
            if not cancels(session, number) or cancels(session, number + 1):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(0, 16, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: fact([], "a"), "a fact needs the names of the tools that tell it, got []"),
        (lambda: fact(["x", 5], "a"), "a fact needs the names of the tools"),  # type: ignore[list-item]
        (lambda: fact("x", "a b"), "must be letters, digits and _, got 'a b'"),
        (lambda: fact("x", "a", values={"b-c": "d"}), "must be letters, digits and _, got 'b-c'"),
        (lambda: fact("x", "a", key="b."), "a field must be a name or a dotted path, got 'b.'"),
        (lambda: fact("x", "a", key="b.*"), "a key must name one value, got 'b.*'"),
        (lambda: fact("x", "a", fold="case"), "fold needs a key"),
        (lambda: fact("get_*", "a"), "a fact needs names of tools, not patterns, got 'get_*'"),
        (lambda: at_most_n_times("a", 1, when="true", scope="fleet", per="day"), "scope 'fleet' has no when"),
        (lambda: requires("a", ""), "a condition must be text, got ''"),
        (lambda: requires("a", 5), "a condition must be text, got 5"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(make: Callable[[], Any], error: str) -> None:
    """In one line."""
    with pytest.raises((TypeError, ValueError)) as caught:
        make()

    assert error in str(caught.value)
