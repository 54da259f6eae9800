"""A session: what it is told, what it keeps, and how it ends."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from openbox_agentrt.acel import (
    ContractViolation,
    EvidenceLog,
    Gate,
    ReservationError,
    Session,
    StateStore,
    Verdict,
    at_most_n_times,
    at_most_total,
    existence,
    init,
    must_precede,
    never_after,
    rate_limit,
    required_before_session_end,
    requires_state,
    response,
)
from openbox_agentrt.acel.contracts.base import TemporalContract
from openbox_agentrt.acel.engine.record.trace import BLOCK
from openbox_agentrt.acel.memory.state import StateDraft
from openbox_agentrt.acel.session import engine_of
from tests.acel.engine.record.trace_hash import hash_of


def test_a_call_runs_with_its_arguments() -> None:
    """And its result comes back and is in the trace."""
    session = Session()

    assert session.call("add", {"a": 1, "b": 2}, run=lambda a, b: a + b) == 3
    assert session.trace == [{"step": 1, "tool": "add", "args": {"a": 1, "b": 2}, "result": 3}]


def test_a_refused_call_does_not_run() -> None:
    """Nothing of it."""
    ran = []
    session = Session(contracts=[at_most_n_times("x", 0)])

    with pytest.raises(ContractViolation):
        session.call("x", run=lambda: ran.append(1))

    assert not ran
    assert session.trace == []


def test_a_call_that_raises_has_failed() -> None:
    """The error is the tool's own, the call stays counted where it limits, and allows nothing."""
    session = Session(contracts=[at_most_n_times("x", 1), must_precede("x", "y")])

    def tool() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        session.call("x", run=tool)

    assert not session.reserve("x").allowed
    assert not session.reserve("y").allowed
    assert session.in_flight == 0
    assert session.trace == []


def test_a_session_may_return_violations() -> None:
    """With halt_on_violation=False, for a broken contract and for a bad result."""
    session = Session(halt_on_violation=False, contracts=[at_most_n_times("x", 0)])
    session.register_tool("y", postcondition=lambda s, r: r == 1)

    assert session.call("x").spec == "at_most_n_times(x, n=0)"
    assert session.call("y", result=2).kind == "postcondition"
    assert session.call("y", result=1) == 1


def test_a_session_may_stop_at_the_first_violation() -> None:
    """With halt_on_violation="session", nothing more is admitted."""
    session = Session(halt_on_violation="session", contracts=[at_most_n_times("x", 0)])
    assert session.closed is None
    with pytest.raises(ContractViolation):
        session.call("x")

    reservation = session.reserve("y")

    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].contract == "the session was not halted" == session.closed
    assert reservation.violations[0].kind == "session"


def test_a_failed_precondition_may_stop_the_session_too() -> None:
    """It is a violation like any other."""
    session = Session(halt_on_violation="session")
    session.register_tool("x", precondition=lambda s: False)

    session.reserve("x")

    assert session.closed == "the session was not halted"


def test_a_contract_may_stop_the_session() -> None:
    """With on_violation="halt"; one that only watches does not."""
    session = Session(
        contracts=[
            at_most_n_times("watched", 0, on_violation="halt", mode="shadow"),
            at_most_n_times("x", 0, on_violation="halt"),
        ]
    )
    assert session.reserve("watched").allowed
    assert not session.reserve("x").allowed

    assert not session.reserve("y").allowed


def test_a_call_under_way_survives_a_halt() -> None:
    """It was let through before, and is settled as if nothing had happened."""
    session = Session(contracts=[at_most_n_times("x", 0, on_violation="halt")])
    flying = session.reserve("y")
    session.reserve("x")

    assert flying.commit() is None


def test_after_the_end_nothing_is_admitted() -> None:
    """Leaving the session ends it; what is under way may still be settled."""
    with Session(contracts=[required_before_session_end("a")]) as session:
        flying = session.reserve("b")

    assert [v.tool for v in session.violations] == ["<session-end>"]
    reservation = session.reserve("b")
    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].contract == "the session has not ended"
    assert flying.commit() is None
    assert session.end_session() == []
    with pytest.raises(ContractViolation):
        session.call("b")


def test_an_error_inside_goes_through() -> None:
    """The session ends, and hides nothing."""
    with pytest.raises(KeyError), Session() as session:
        raise KeyError

    assert session.closed == "the session has not ended"


def test_what_is_unmet_can_be_asked_before_the_end() -> None:
    """Nothing ends by asking."""
    session = Session(contracts=[required_before_session_end("a"), existence("b", 2), response("c", "d")])
    session.call("b")
    session.call("c")

    assert session.unmet() == ["required_before_session_end(a)", "existence(b, n=2)", "response(c, d)"]
    for tool in "abd":
        session.call(tool)
    assert session.unmet() == []


def test_the_end_reports_each_contract_once() -> None:
    """Also if the session ends twice."""
    session = Session(contracts=[required_before_session_end("a")])

    assert [(v.tool, v.step, v.needs) for v in session.end_session()] == [("<session-end>", 0, "a")]
    assert session.end_session() == []
    assert session.unmet() == []


def test_required_per_value() -> None:
    """With a key, one success for each value that was tried."""
    session = Session(contracts=[existence("confirm", 2, key="order")])
    session.call("confirm", {"order": 1})
    session.call("confirm", {"order": 1})
    assert session.unmet() == []
    session.call("confirm", {"order": 2})

    assert session.unmet() == ["existence(confirm, n=2, key=order)"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "off"}, ValueError),
        ({"halt_on_violation": "x"}, ValueError),
        ({"unknown_tools": "x"}, ValueError),
        ({"clock": 5}, TypeError),
        ({"fleet": "sqlite:///fleet.db"}, TypeError),
        ({"max_trace": -1}, ValueError),
        ({"trace_window": -1}, ValueError),
        ({"max_keys": 0}, ValueError),
        ({"evidence": EvidenceLog(), "signer": lambda b: ""}, ValueError),
        ({"evidence": object()}, TypeError),
        ({"contracts": ["must_precede"]}, TypeError),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception]) -> None:
    """When the session is made."""
    with pytest.raises(error):
        Session(**options)


def test_a_contract_is_added_once() -> None:
    """And must be one."""
    session = Session()
    contract = session.add_contract(at_most_n_times("x", 1))

    with pytest.raises(ValueError, match="already added"):
        session.add_contract(contract)
    with pytest.raises(TypeError, match="contract is needed"):
        session.add_contract("x")  # type: ignore[arg-type]  # that is what is refused
    assert session.contracts == [contract]


def test_one_contract_serves_many_sessions() -> None:
    """It is a description: what one session has seen is nothing to another."""
    contract = at_most_n_times("x", 1)
    first, second = Session(contracts=[contract]), Session(contracts=[contract])
    first.call("x")

    assert not first.reserve("x").allowed
    assert second.reserve("x").allowed


def test_a_contract_added_on_the_way_sees_what_comes() -> None:
    """Not what was, also where it would share memory with an older one."""
    session = Session(contracts=[at_most_n_times("x", 5), never_after("y", "x")])
    session.call("x")
    session.call("x")

    session.add_contract(at_most_n_times("x", 1))
    session.add_contract(must_precede("x", "z"))

    assert not session.reserve("z").allowed
    session.call("x")
    assert session.reserve("z").allowed
    assert [v.spec for v in session.reserve("x").violations] == ["at_most_n_times(x, n=1)"]
    assert [v.spec for v in session.reserve("y").violations] == ["never_after(y, x)"]


def test_groups_are_names_for_contracts() -> None:
    """They are watched like any other, and a name is used once."""
    session = Session()
    group = session.add_contract_group("g", [at_most_n_times("x", 0)])
    session.add_contract(at_most_n_times("y", 0))

    assert session.groups == {"g": group}
    assert session.contracts_in_group("g") == group == session.contracts[:1]
    assert not session.reserve("x").allowed
    with pytest.raises(ValueError, match="already"):
        session.add_contract_group("g", [])
    with pytest.raises(KeyError):
        session.contracts_in_group("h")


def test_verdicts_in_a_session() -> None:
    """Satisfied for good, violated for good, or open; refusals break nothing."""
    precede, limit = must_precede("a", "b"), at_most_n_times("a", 1)
    session = Session(contracts=[precede, limit])
    assert (session.verdict(precede), precede.verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)

    session.call("a")
    session.reserve("a")

    assert session.verdict(precede) is precede.verdict is Verdict.SATISFIED
    assert session.verdict(limit) is Verdict.UNKNOWN
    watching = Session(mode="shadow", contracts=[limit])
    watching.call("a")
    watching.call("a")
    assert limit.verdict is Verdict.VIOLATED, "a contract answers for the session that it was last added to"


def test_a_contract_outlives_its_session() -> None:
    """Then it answers for itself."""
    contract = must_precede("a", "b")
    session = Session(contracts=[contract])
    session.call("a")
    del session

    assert contract.verdict is Verdict.UNKNOWN
    assert repr(contract) == "<MustPrecede must_precede(a, b) :: unknown>"


def test_a_contract_on_its_own_beside_a_session() -> None:
    """`on_event` moves an automaton of its own, not the session's."""
    contract = at_most_n_times("x", 1)
    session = Session(contracts=[contract])

    assert [contract.on_event("x") for _ in range(3)] == [Verdict.UNKNOWN, Verdict.VIOLATED, Verdict.VIOLATED]
    assert session.reserve("x").allowed
    contract.reset()
    assert contract.on_event("x") is Verdict.UNKNOWN
    assert contract.on_session_end() is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("contract", "end"),
    [
        (required_before_session_end("x"), Verdict.VIOLATED),
        (must_precede("x", "y"), Verdict.UNKNOWN),
        (init("x"), Verdict.UNKNOWN),
    ],
)
def test_the_end_of_a_contract_on_its_own(contract: TemporalContract, end: Verdict) -> None:
    """Without any call, and with one."""
    assert contract.on_session_end() is end
    contract.reset()
    contract.on_event("x")
    assert contract.on_session_end() is Verdict.SATISFIED


def test_a_contract_can_be_pickled() -> None:
    """For another process: the rule goes, what it remembers stays."""
    contract = rate_limit("x", 1, 60)
    Session(contracts=[contract]).call("x")

    copy = pickle.loads(pickle.dumps(contract))

    assert copy.spec == contract.spec
    assert Session(contracts=[copy]).reserve("x").allowed


def test_conditions_see_state_arguments_and_result() -> None:
    """As many of them as they take."""
    session = Session({"tenant": "t"})
    seen: list[Any] = []

    def before(state: Any, args: Any) -> bool:
        seen.append((state.get("tenant"), args))
        return True

    def after(state: Any, result: Any) -> bool:
        seen.append((state["tenant"], result))
        return True

    session.register_tool("x", precondition=[before, lambda: True], postcondition=after)

    session.call("x", {"a": 1}, result="r")

    assert seen == [("t", {"a": 1}), ("t", "r")]


def test_a_good_result_becomes_state() -> None:
    """All that the commit function wrote, at once."""
    session = Session({"n": 1, "list": [1]})

    def commit(state: StateStore, args: dict[str, Any], result: Any) -> None:
        state.set("n", state.get("n") + result)
        state["list"].append(args["a"])
        state.update({"new": state.get("missing", "d")})
        assert "new" in state
        assert sorted(state) == ["list", "n", "new"]
        assert len(state) == 3
        with pytest.raises(KeyError):
            state["missing"]

    session.register_tool("x", commit=commit)
    session.call("x", {"a": 2}, result=5)

    assert session.state.snapshot() == {"n": 6, "list": [1, 2], "new": "d"}


def test_a_draft_that_is_not_published_changes_nothing() -> None:
    """Nested values included."""
    store = StateStore({"list": [1]})
    draft = StateDraft(store)
    draft["list"].append(2)
    draft["new"] = 1

    assert store.snapshot() == {"list": [1]}
    draft.publish()
    assert store.snapshot() == {"list": [1, 2], "new": 1}
    StateDraft(store).publish()
    assert repr(store) == "StateStore({'list': [1, 2], 'new': 1})"


def test_a_view_of_the_state() -> None:
    """Reads like the state, follows it, and gives copies."""
    store = StateStore({"a": [1], "b": 2})
    view = store.view()
    view["a"].append(2)
    store["c"] = 3

    assert (view.get("a"), view.get("x", 5), view["b"]) == ([1], 5, 2)
    assert (sorted(view), len(view), "a" in view, "x" in view) == (["a", "b", "c"], 3, True, False)
    assert view.snapshot() == {"a": [1], "b": 2, "c": 3}
    assert store.raw("b") == 2


def test_requires_state() -> None:
    """For rules files: a comparison with a value, in which 1 is not True."""
    session = Session(
        {"ok": 1, "roles": {"ann": "admin", "7": "user"}},
        contracts=[
            requires_state("a", "ok", True),
            requires_state("b", key="ok", value=1),
            requires_state("c", "roles", "admin", key="user.id"),
            requires_state("d", "missing", None),
        ],
    )

    assert not session.reserve("a").allowed
    assert session.reserve("b").allowed
    assert session.reserve("c", {"user": {"id": "ann"}}).allowed
    assert not session.reserve("c", {"user": {"id": 7}}).allowed
    assert session.reserve("c").violations[0].fault == "user.id is missing"
    assert session.reserve("d").allowed
    session.state.set("roles", "none")
    assert not session.reserve("c", {"user": {"id": "ann"}}).allowed
    session.state.set("ok", object())
    assert not session.reserve("b").allowed


def test_precheck_and_postcheck_are_two_halves_of_a_call() -> None:
    """A prerequisite counts from the first and is taken back if the call failed."""
    session = Session(contracts=[must_precede("a", "b"), at_most_n_times("a", 2)])
    session.register_tool("a", postcondition=lambda s, r: r == "good")

    gate = session.precheck("a", {"x": 1})
    assert (gate.step, gate.args, gate.violation, gate.allowed) == (1, {"x": 1}, None, True)
    assert session.precheck("b").allowed
    assert session.postcheck("a", gate, "bad") is not None
    assert not session.precheck("b").allowed
    gate = session.precheck("a")
    assert session.postcheck("a", gate, "good") is None
    assert session.precheck("b").allowed
    assert not session.precheck("a").allowed


def test_precheck_counts_what_matchers_accept_too() -> None:
    """And takes it back the same way."""
    from openbox_agentrt.acel import matching

    session = Session(contracts=[must_precede(matching("sh", "test"), "ship")])
    session.register_tool("sh", postcondition=lambda s, r: r == "good")
    gate = session.precheck("sh", {"command": "test"})
    assert session.precheck("ship").allowed

    session.postcheck("sh", gate, "bad")

    assert not session.precheck("ship").allowed
    session.postcheck("sh", session.precheck("sh", {"command": "test"}), "good")
    assert session.precheck("ship").allowed


def test_a_gate_is_one_session_s_and_used_once() -> None:
    """A blocked, foreign or used one is an error."""
    session, other = Session(contracts=[at_most_n_times("x", 0)]), Session()
    foreign = other.precheck("y")
    used = session.precheck("y")
    session.postcheck("y", used, None)

    for gate in (foreign, used, session.precheck("x")):
        with pytest.raises(ReservationError):
            session.postcheck("y", gate, None)


def test_amounts_measured_afterwards() -> None:
    """They count as nothing until then, and a limit refuses once it is reached."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 100)])
    first = session.reserve("llm_call", {}, deferred=["tokens"])
    second = session.reserve("llm_call", {}, deferred="tokens")
    assert first.allowed
    assert second.allowed
    first.commit(measured={"tokens": 60})
    assert session.reserve("llm_call", deferred={"tokens"}).allowed

    second.commit(measured={"tokens": 60})

    assert [(v.spec, v.blocked, v.tool) for v in session.violations] == [
        ("at_most_total(llm_call, tokens, limit=100)", False, "llm_call")
    ]
    refused = session.reserve("llm_call", deferred=["tokens"])
    assert refused.refusal is not None
    assert refused.refusal.broken[0].remaining == "0 left of 100"


@pytest.mark.parametrize("measured", [None, {}, {"tokens": None}, {"tokens": float("nan")}, {"tokens": -5}])
def test_an_amount_that_was_not_measured(measured: Any) -> None:
    """What was spent is then not known, so nothing more is let through."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 100)])

    session.reserve("llm_call", deferred=["tokens"]).commit(measured=measured)

    assert len(session.violations) == 1
    refused = session.reserve("llm_call", deferred=["tokens"])
    assert refused.refusal is not None
    assert (refused.refusal.broken[0].fault, refused.refusal.broken[0].blame) == (
        "tokens was not measured",
        1,
    )


def test_a_failed_call_may_have_been_measured() -> None:
    """If it was, it counts; if not, it may have spent anything, and if it never ran, nothing."""
    session = Session(contracts=[at_most_total("llm_call", "tokens", 100)])
    session.reserve("llm_call", deferred=["tokens"]).abort(ran=True, measured={"tokens": 100})
    assert not session.reserve("llm_call", deferred=["tokens"]).allowed

    session = Session(contracts=[at_most_total("llm_call", "tokens", 100)])
    session.reserve("llm_call", deferred=["tokens"]).abort(measured={"tokens": 100})
    assert session.reserve("llm_call", deferred=["tokens"]).allowed

    session = Session(contracts=[at_most_total("llm_call", "tokens", 100)])
    session.reserve("llm_call", deferred=["tokens"]).abort(ran=True)
    assert not session.reserve("llm_call", deferred=["tokens"]).allowed


def test_values_measured_afterwards() -> None:
    """Different values too."""
    from openbox_agentrt.acel import max_distinct

    session = Session(contracts=[max_distinct("search", "hosts", 2)])
    session.reserve("search", deferred=["hosts"]).commit(measured={"hosts": ["a", "b"]})
    session.reserve("other", deferred=["hosts"]).commit()

    assert not session.reserve("search", deferred=["hosts"]).allowed
    assert session.reserve("search", {"hosts": "a"}).allowed


def test_the_trace_may_be_bounded() -> None:
    """So that memory is; the hash goes on over all of it, and violations are bounded with it."""
    session = Session(max_trace=3, contracts=[at_most_n_times("x", 0)])
    for n in range(2 * BLOCK + 5):
        session.call("y", {"n": n})
        session.reserve("x")

    assert [row["args"]["n"] for row in session.trace] == [2 * BLOCK + 2, 2 * BLOCK + 3, 2 * BLOCK + 4]
    assert len(session.violations) == 3
    assert session.violations[-1].trace_length == 2 * BLOCK + 5


def test_a_violation_refers_to_the_whole_trace() -> None:
    """It carries the last rows and the hash of all, which anyone who has the trace can check."""
    session = Session(trace_window=2, contracts=[at_most_n_times("x", 0)])
    for n in range(BLOCK + 10):
        session.call("y", {"n": n, "at": float("nan"), "odd": {1, 2}}, result=object())
    violation = session.reserve("x").violations[0]

    assert [row["step"] for row in violation.trace] == [BLOCK + 9, BLOCK + 10]
    assert violation.trace_length == BLOCK + 10
    assert violation.trace_hash == hash_of(session.trace)
    assert violation.trace_hash != hash_of(session.trace[1:])


def test_the_whole_trace_on_request() -> None:
    """With trace_window=None."""
    session = Session(trace_window=None, contracts=[at_most_n_times("x", 0)])
    for n in range(30):
        session.call("y", {"n": n})

    assert len(session.reserve("x").violations[0].trace) == 30


def test_hashes_of_odd_rows() -> None:
    """Cyclic, deep and broken values have a hash as well, and always the same."""

    def hash_of_one() -> str | None:
        cyclic: dict[str, Any] = {}
        cyclic["self"] = cyclic
        session = Session(contracts=[at_most_n_times("x", 0)])
        session.call("y", {"text": "\ud800", "c": cyclic})
        return session.reserve("x").violations[0].trace_hash

    assert hash_of_one() == hash_of_one()


def test_evidence_and_metrics_never_stop_a_call() -> None:
    """What fails there is counted."""

    class Broken:
        def record(self, violation: Any) -> None:
            raise OSError("disk full")

        def record_call(self) -> None:
            raise OSError

        def record_gate_latency(self, seconds: float) -> None: ...

        def record_violation(self, kind: str, spec: str | None = None) -> None:
            raise OSError

    session = Session(evidence=Broken(), metrics=Broken(), contracts=[at_most_n_times("x", 0)])

    assert not session.reserve("x").allowed
    assert session.reserve("y").allowed
    assert engine_of(session).records.failures == 4
    assert isinstance(session.evidence, Broken)
    assert isinstance(session.metrics, Broken)


def test_metrics_are_told() -> None:
    """Every call, how long the gate took, and every violation."""
    told: list[Any] = []

    class Meter:
        def record_call(self) -> None:
            told.append("call")

        def record_gate_latency(self, seconds: float) -> None:
            assert 0 <= seconds < 60
            told.append("latency")

        def record_violation(self, kind: str, spec: str | None = None) -> None:
            told.append((kind, spec))

    session = Session(metrics=Meter(), contracts=[at_most_n_times("x", 0)])
    session.reserve("x")

    assert told == ["call", "latency", ("temporal", "at_most_n_times(x, n=0)")]


def test_evidence_is_kept_by_default() -> None:
    """In memory, in acel-core's format."""
    session = Session(contracts=[at_most_n_times("x", 0)], redact_fields="password")
    session.reserve("x", {"password": "s3cret"})

    assert len(session.evidence) == 1
    assert "s3cret" not in session.evidence.to_json()
    assert session.evidence.verify()


def test_every_broken_contract_is_evidence() -> None:
    """One record each."""
    session = Session(contracts=[at_most_n_times("x", 0), must_precede("a", "x")])
    session.reserve("x")

    assert len(session.evidence) == 2 == len(session.violations)


def test_a_reservation_describes_itself() -> None:
    """For whoever debugs."""
    session = Session(contracts=[at_most_n_times("x", 0)])
    reservation = session.reserve("y")

    assert repr(reservation) == "<Reservation 'y' at step 1, open>"
    reservation.abort(ValueError("secret"))
    assert repr(reservation) == "<Reservation 'y' at step 1, finished>"
    assert reservation.error == "ValueError"
    assert repr(session.reserve("x")) == "<Reservation 'x' at step 2, refused>"


@pytest.mark.parametrize(
    ("tool", "args"),
    [("x", [1]), ("x", "text"), ("x", 5), (None, {}), (5, None), (b"x", {}), (["x"], {})],
)
def test_a_call_of_any_shape_is_refused_and_not_raised(tool: Any, args: Any) -> None:
    """Names and arguments come from a model."""
    session = Session(contracts=[at_most_n_times(lambda tool, args: "z" in args, 0)])

    reservation = session.reserve(tool, args)

    assert reservation.refusal is not None
    assert reservation.refusal.broken[0].contract == "the call has a name and a mapping of arguments"
    assert not session.precheck(tool, args).allowed


def test_subclasses_of_text_are_names() -> None:
    """As their plain text."""

    class Name(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "lie"

    session = Session(contracts=[at_most_n_times("x", 0)])

    assert not session.reserve(Name("x")).allowed
    assert session.reserve("y", None).args == {}


def test_arguments_are_taken_as_they_were() -> None:
    """What a caller does to its dict while the call is under way reaches neither contracts nor trace."""
    session = Session(contracts=[at_most_total("x", "n", 5)])
    args: dict[str, Any] = {"n": 5, "list": [1], "pair": (1, [2]), "set": {1}}
    reservation = session.reserve("x", args)
    args["n"] = 0
    args["list"].append(2)
    args["pair"][1].append(3)
    reservation.commit()

    assert session.trace[0]["args"] == {"n": 5, "list": [1], "pair": (1, [2]), "set": {1}}
    assert not session.reserve("x", {"n": 1}).allowed


def test_one_contract_in_the_place_of_several_is_said_to_be_one() -> None:
    """The mistake is easily made, and the message names the contract."""
    with pytest.raises(TypeError, match=r"got 'rules.yaml'; Session.from_rules reads a file"):
        Session(contracts="rules.yaml")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match=r"got one contract: must_precede\(a, b\)"):
        Session(contracts=must_precede("a", "b"))  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("given", [(1, {}, None, False), ()])
def test_a_gate_is_not_made_by_hand(given: tuple[Any, ...]) -> None:
    """One that nobody judged would allow its call."""
    with pytest.raises(TypeError, match="is not made otherwise"):
        Gate(*given)
    gate = Session().precheck("a")
    assert isinstance(gate, Gate)
    assert gate.allowed
