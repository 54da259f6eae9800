"""What cannot be evaluated is a fault and no answer: the contract's strict side is taken, visibly."""

from __future__ import annotations

import gc
from typing import Any, NoReturn

import pytest

from openbox_agentrt.acel import (
    Check,
    ContentMatch,
    ContractViolation,
    Session,
    TemporalContract,
    Verdict,
    alternate_precedence,
    any_of,
    at_most_n_times,
    at_most_total,
    existence,
    init,
    matching,
    must_precede,
    mutually_exclusive,
    never_after,
    rate_limit,
    required_before_session_end,
    response,
)


def boom(*_: Any) -> NoReturn:
    raise RuntimeError("secret")


async def later(*_: Any) -> bool:
    return True


def gives_coroutine(*_: Any) -> Any:
    return later()


def not_a_truth(*_: Any) -> Any:
    class Undecided:
        def __bool__(self) -> bool:
            raise ValueError("secret")

    return Undecided()


CANNOT = [
    pytest.param(ContentMatch("x", boom, label="m"), id="raises"),
    pytest.param(ContentMatch("x", gives_coroutine, label="m"), id="gives a coroutine"),
    pytest.param(ContentMatch("x", not_a_truth, label="m"), id="gives no truth value"),
    pytest.param(boom, id="a function that raises"),
    pytest.param(any_of("y", ContentMatch("x", boom, label="m")), id="inside any_of"),
    pytest.param(matching("x", "p", field="a.b"), id="an ambiguous field"),
]
AMBIGUOUS = {"a": {"b": "q"}, "a.b": "q", "n": 1}


@pytest.mark.parametrize("matcher", CANNOT)
def test_a_ban_that_cannot_be_evaluated_bans(matcher: Any) -> None:
    """And the record says why, without the error's text, which may hold an argument."""
    session = Session(contracts=[at_most_n_times(matcher, 0)])

    reservation = session.reserve("x", AMBIGUOUS)

    assert reservation.refusal is not None
    fault = reservation.violations[0].fault
    assert fault is not None
    assert reservation.refusal.broken[0].fault == fault
    assert fault.startswith(("the matcher ", "a.b is there twice"))
    assert "secret" not in fault


@pytest.mark.parametrize("matcher", CANNOT)
def test_a_limit_that_cannot_be_evaluated_counts(matcher: Any) -> None:
    """The call is let through while there is room, and is counted; the fault is told."""
    session = Session(contracts=[at_most_n_times(matcher, 1)])

    first = session.reserve("x", AMBIGUOUS)

    assert first.allowed
    assert len(first.faults) == 1
    assert not session.reserve("x", AMBIGUOUS).allowed


@pytest.mark.parametrize("matcher", CANNOT)
def test_a_prerequisite_that_cannot_be_evaluated_is_none(matcher: Any) -> None:
    """It allows nothing; the call itself is not refused for it."""
    session = Session(contracts=[must_precede(matcher, "then"), required_before_session_end(matcher)])

    session.call("x", AMBIGUOUS)

    assert not session.reserve("then").allowed
    assert [v.spec for v in session.end_session()] == [session.contracts[1].spec]


@pytest.mark.parametrize(
    ("contract", "tool"),
    [
        (must_precede("a", ContentMatch("x", boom)), "x"),
        (never_after(ContentMatch("x", boom), "seen"), "x"),
        (mutually_exclusive(ContentMatch("x", boom), "seen"), "x"),
        (alternate_precedence("a", ContentMatch("x", boom)), "x"),
        (at_most_total(ContentMatch("x", boom), "n", 0), "x"),
        (rate_limit(ContentMatch("seen", boom), 1, 60), "seen"),
        (init(ContentMatch("x", boom)), "x"),
    ],
    ids=lambda value: getattr(value, "template", value),
)
def test_the_strict_side_of_each_template(contract: TemporalContract, tool: str) -> None:
    """The call is taken for the kind of call that the contract is stricter with."""
    session = Session(contracts=[contract])
    if not contract.spec.startswith("init"):
        session.call("seen", {"n": 1})

    assert not session.reserve(tool, {"n": 1}).allowed


def test_an_exclusion_that_cannot_be_evaluated_excludes() -> None:
    """A call that may have been the marker was the marker."""
    session = Session(contracts=[never_after("a", ContentMatch("x", boom))])
    session.call("x")

    assert not session.reserve("a").allowed


def test_what_may_be_owed_an_answer_is() -> None:
    """And what may be an answer is none."""
    session = Session(contracts=[response(ContentMatch("x", boom), ContentMatch("x", boom))])
    session.call("x")
    session.call("x")

    assert len(session.end_session()) == 1


def test_a_plain_yes_outweighs_a_fault() -> None:
    """In `any_of`, a matcher that accepts the call settles it."""
    session = Session(contracts=[existence(any_of(ContentMatch("x", boom), matching("x", "a")), 1)])
    session.call("x", {"command": "a"})
    assert session.end_session() == []

    session = Session(contracts=[existence(any_of(ContentMatch("x", boom), matching("x", "a")), 1)])
    session.call("x", {"command": "b"})
    assert len(session.end_session()) == 1


@pytest.mark.parametrize("predicate", [boom, gives_coroutine, not_a_truth, later])
def test_a_precondition_that_cannot_be_evaluated_does_not_hold(predicate: Any) -> None:
    """A coroutine is not a truth value, and an error is no permission."""
    session = Session()
    session.register_tool("x", precondition=predicate)

    reservation = session.reserve("x")

    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].fault is not None
    assert "secret" not in reservation.refusal.message


@pytest.mark.parametrize("predicate", [boom, gives_coroutine, not_a_truth, later])
def test_a_postcondition_that_cannot_be_evaluated_does_not_hold(predicate: Any) -> None:
    """The result is not used, and nothing becomes state."""
    session = Session()
    session.register_tool("x", postcondition=predicate, commit=lambda s, a, r: s.set("k", r))

    with pytest.raises(ContractViolation) as caught:
        session.call("x", result=1)

    assert caught.value.violation.kind == "postcondition"
    assert caught.value.violation.fault is not None
    assert "k" not in session.state


@pytest.mark.parametrize("commit", [boom, later])
def test_a_commit_that_fails_writes_nothing_and_fails_the_call(commit: Any) -> None:
    """What the result means is not known, so it allows nothing."""

    def half(state: Any, args: Any, result: Any) -> Any:
        state.set("half", True)
        return commit()

    session = Session(contracts=[must_precede("x", "y")])
    session.register_tool("x", commit=commit if commit is later else half)

    with pytest.raises(ContractViolation) as caught:
        session.call("x", result=1)

    assert caught.value.violation.spec == "commit of x"
    assert "half" not in session.state
    assert session.trace == []
    assert not session.reserve("y").allowed


def test_a_predicate_cannot_write() -> None:
    """Its attempt is a fault, and the state is as it was."""

    def writes(state: Any) -> bool:
        state.set("a", 2)
        return True

    def writes_inside(state: Any) -> bool:
        state["list"].append(2)
        state.snapshot()["list"].append(3)
        state.get("list").append(4)
        return True

    session = Session({"a": 1, "list": [1]})
    session.register_tool("x", precondition=writes)
    session.register_tool("y", precondition=writes_inside)
    session.register_tool("z", precondition=lambda s: s.update({"a": 3}))
    session.register_tool("w", precondition=lambda s: s.__setitem__("a", 4))

    assert [session.reserve(tool).allowed for tool in "xyzw"] == [False, True, False, False]
    assert session.state.snapshot() == {"a": 1, "list": [1]}


class Custom(TemporalContract):
    """A contract with code of its own: at most two calls of `x`, and trouble when told."""

    def __init__(self) -> None:
        super().__init__("custom")
        self.count = 0
        self.broken = False

    def _step(self, tool: str, args: dict[str, Any]) -> Verdict:
        if args.get("raise"):
            raise RuntimeError
        self.count += tool == "x"
        return Verdict.VIOLATED if self.count > 2 else Verdict.UNKNOWN

    def _finalize(self) -> Verdict:
        if self.broken:
            raise RuntimeError
        return Verdict.SATISFIED if self.count else Verdict.VIOLATED

    def _reset(self) -> None:
        self.count = 0


def test_a_contract_with_code_of_its_own() -> None:
    """It is judged like any other; a refused call, or one that never ran, leaves it as it was."""
    contract = Custom()
    session = Session(contracts=[contract])

    session.call("x")
    session.reserve("x").abort()
    session.call("x")
    refused = session.reserve("x")

    assert not refused.allowed
    assert contract.count == 2
    assert session.verdict(contract) is Verdict.UNKNOWN
    assert session.reserve("y").allowed
    assert session.end_session() == []
    assert contract.verdict is Verdict.SATISFIED


def test_a_contract_s_own_code_may_raise() -> None:
    """It refuses what it cannot judge, and reports what it cannot finish."""
    contract = Custom()
    session = Session(contracts=[contract])

    reservation = session.reserve("x", {"raise": True})

    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].fault == "the contract raised RuntimeError"
    contract.broken = True
    assert [v.fault for v in session.end_session()] == ["the contract raised RuntimeError"]


def test_a_contract_s_own_code_in_shadow_mode() -> None:
    """A violation is one record, and a call that could not be judged is none of its business."""
    contract = Custom()
    session = Session(mode="shadow", contracts=[contract])

    for args in ({}, {"raise": True}, {}, {}, {}, {}):
        session.call("x", args)

    assert [(v.step, v.fault) for v in session.violations] == [
        (2, "the contract raised RuntimeError"),
        (4, None),
    ]
    assert contract.verdict is Verdict.VIOLATED
    assert session.end_session() == []


def test_a_contract_that_owes_something_at_the_end() -> None:
    """Its own verdict counts; it is reported once."""
    session = Session(contracts=[Custom()])

    assert [v.spec for v in session.replay([])] == ["custom"]
    assert session.replay([]) == []


def test_what_a_custom_contract_did_is_taken_back_in_order_only() -> None:
    """Undoing a call after which others came would undo those too."""
    contract = Custom()
    session = Session(contracts=[contract])
    first = session.reserve("x")
    session.call("x")

    first.abort()

    assert contract.count == 2


def test_a_custom_contract_that_cannot_be_copied_deeply() -> None:
    """Its attributes are then kept as they are."""
    import threading

    contract = Custom()
    contract.lock = threading.Lock()  # type: ignore[attr-defined]  # such contracts exist
    session = Session(contracts=[contract])

    assert [session.reserve("x").allowed for _ in range(3)] == [True, True, False]


def test_a_custom_contract_on_its_own() -> None:
    """Its verdict stays once it is violated, until it is reset."""
    contract = Custom()

    verdicts = [contract.on_event("x") for _ in range(4)]

    assert verdicts[1:] == [Verdict.UNKNOWN, Verdict.VIOLATED, Verdict.VIOLATED]
    assert contract.on_session_end() is Verdict.VIOLATED
    contract.reset()
    assert (contract.verdict, contract.count) == (Verdict.UNKNOWN, 0)
    assert repr(contract) == "<Custom custom :: unknown>"


def test_an_async_predicate_is_refused_where_it_cannot_be_awaited() -> None:
    """Matchers are asked under no event loop, so there it is an error at once."""

    class AsyncCallable:
        async def __call__(self, *_: Any) -> bool:
            return True

    for matcher in (later, AsyncCallable()):
        with pytest.raises(TypeError, match="async"):
            must_precede(matcher, "b")
        with pytest.raises(TypeError, match="async"):
            ContentMatch("x", matcher)


@pytest.mark.parametrize("bad", [5, "text", object()])
def test_conditions_must_be_callable(bad: Any) -> None:
    """It is an error when they are registered, not when the first call comes."""
    session = Session()

    with pytest.raises(TypeError, match="callable"):
        session.register_tool("x", precondition=bad)
    with pytest.raises(TypeError, match="callable"):
        session.register_tool("x", commit=bad)
    with pytest.raises(TypeError, match="callable"):
        Check(bad, "")


def test_who_is_interrupted_while_a_call_is_judged_leaves_none_under_way() -> None:
    class Interrupted(TemporalContract):
        def _step(self, tool: str, args: Any) -> Verdict:
            raise KeyboardInterrupt

    session = Session(contracts=[Interrupted("interrupted")])
    with pytest.raises(KeyboardInterrupt):
        session.reserve("x")
    assert session.in_flight == 0


def test_an_interrupt_in_a_postcondition_loses_nothing() -> None:
    """It goes through, and the call is settled as an unknown outcome."""

    def interrupted(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    session = Session(contracts=[at_most_n_times("x", 1), must_precede("x", "y")])
    session.register_tool("x", postcondition=interrupted)

    with pytest.raises(KeyboardInterrupt):
        session.call("x")

    assert session.in_flight == 0
    assert not session.reserve("x").allowed
    assert not session.reserve("y").allowed


@pytest.mark.parametrize("command", ["\ud800", b"\xff", [b"\xff", "ls"]])
@pytest.mark.parametrize("of", [matching("Bash", "push"), any_of(matching("Bash", "push"), "y")])
def test_a_dropped_call_that_could_not_be_looked_into_is_settled_at_once(of: Any, command: Any) -> None:
    """What went wrong keeps nothing of it alive until Python next collects what is in a circle."""
    session = Session(contracts=[at_most_n_times(of, 3)])
    gc.collect()
    gc.disable()
    try:
        reservation = session.reserve("Bash", {"command": command})
        assert reservation.faults
        del reservation
        assert session.in_flight == 0
    finally:
        gc.enable()
