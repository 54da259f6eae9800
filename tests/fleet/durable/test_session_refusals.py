"""A durable session that refuses a call says why in a sentence of its own: nothing was broken by the call."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from openbox_agentrt import ContractRefusedError
from openbox_agentrt.acel import ContractViolation, Metrics, Refusal, Session, at_most_n_times
from openbox_agentrt.acel.engine.durable.keep import kept_of
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.doors.mcp.refusal import text_of
from openbox_agentrt.fleet import Fleet, SessionMemoryError
from tests.fleet.conftest import OpenFleet
from tests.fleet.test_sessions import take_away

pytestmark = pytest.mark.parametrize("open_one", ["sqlite"], indirect=True)
RULES = [at_most_n_times("pay", 2)]


def session_of(fleet: Fleet, **options: Any) -> Session:
    return Session(contracts=RULES, fleet=fleet, durable=True, session_id="c-1", **options)


def written(session: Session) -> None:
    """Have what has changed written."""
    kept = kept_of(engine_of(session)).session
    assert kept.wait(kept.write())


def refusal_of(session: Session, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    """Make a call that is refused, without waiting for others."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.0)
    refusal = session.reserve("pay", started=True).refusal
    assert refusal is not None
    return refusal


def test_one_that_another_worker_has(fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the case, when to ask again, and a code; in the text of a door what to do."""
    mine = session_of(fleet)
    mine.call("pay", result="paid")

    theirs = session_of(other)
    refusal = refusal_of(theirs, monkeypatch)

    said = "call to 'pay' refused at step 1: session 'c-1' is in use by another worker, retry after "
    assert refusal.message.startswith(said)
    assert "break" not in refusal.message
    with pytest.raises(ContractViolation, match="refused at step 2: session 'c-1' is in use"):
        theirs.call("pay", result="paid")
    assert text_of(refusal).endswith("; ask again, or wait until the other worker is done")
    (told,) = refusal.for_model()["broken"]
    assert told["reason"] == "session_busy"
    assert told["retry_after"] > 0
    assert refusal.contracts == ()


def test_one_that_another_worker_has_gone_on_with(fleet: Fleet) -> None:
    """The call that was let through before does not run; made again, it is judged anew."""
    mine = session_of(fleet)
    call = mine.reserve("pay")
    take_away(fleet)

    assert not call.start()
    assert call.refusal is not None
    assert (
        call.refusal.message
        == "call to 'pay' refused at step 1: another worker went on with the session meanwhile"
    )
    assert call.refusal.broken[0].reason == "session_lost"


def test_one_that_was_released_under_a_call(fleet: Fleet) -> None:
    """Nobody else has it: whoever released it is told so."""
    mine = session_of(fleet)
    call = mine.reserve("pay")
    mine.release()

    assert not call.start()
    assert call.refusal is not None
    assert call.refusal.message == (
        "call to 'pay' refused at step 1: the session was released here before the call had started"
    )
    assert call.refusal.broken[0].reason == "session_released"
    assert mine.call("pay", result="paid") == "paid"


async def test_runs_and_metrics_tell_it_from_a_broken_contract(
    make_stage: Any, fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is the session's, names no contract, and Core hears of no violation."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.0)
    metrics = Metrics()
    decisions: list[Any] = []
    stage = await make_stage(
        contracts=RULES, sessions="durable", fleet=other, metrics=metrics, on_decision=decisions.append
    )
    mine = session_of(fleet)
    mine.call("pay", result="paid")

    with pytest.raises(ContractRefusedError, match="refused at step 1: session 'c-1' is in use"):
        async with stage.governance.run_scope("Hello.", session_id="c-1"):
            pass

    refused = next(each for each in decisions if each.verdict == "block")
    assert (refused.source, refused.contracts) == ("session", ())
    assert not [event for event in stage.events() if event.get("signal_name") == "contract_violation"]
    told = metrics.render_prometheus()
    assert 'openbox_agentrt_decisions_total{source="session",verdict="block"} 1.0' in told
    assert 'acel_violations_total{kind="session"} 1.0' in told
    assert 'acel_violations_total{kind="temporal"} 0.0' in told


@pytest.mark.parametrize("by", ["commit", "hand"])
def test_state_that_is_no_json_is_refused_when_it_is_written(fleet: Fleet, by: str) -> None:
    """With the entry's name; what was there stays, and the session goes on."""
    session = session_of(fleet, halt_on_violation=False)
    session.hold()
    session.state.set("paid", 1)

    def write(state: Any, args: Any, result: Any) -> None:
        state.set("paid", 2)
        state.set("when", object())

    if by == "commit":
        session.register_tool("pay", commit=write)
        violation = session.call("pay", result="paid")
        assert violation.fault == "state 'when' of the session is not JSON"
    else:
        with pytest.raises(SessionMemoryError, match="state 'when' of the session is not JSON"):
            session.state.update({"paid": 2, "when": object()})

    assert session.state.snapshot() == {"paid": 1}
    assert session.call("other", result="done") == "done"


def test_a_session_whose_state_was_spoilt_in_place_is_let_go_of(
    open_one: OpenFleet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others go on with what was written: a call whose end could not be written counts where it limits."""
    session = session_of(open_one())
    session.hold()
    session.state.set("seen", [])
    call = session.reserve("pay")
    assert call.start()
    session.state["seen"].append(object())
    call.commit("paid")
    assert "state 'seen' of the session is not JSON" in refusal_of(session, monkeypatch).message

    with caplog.at_level(logging.ERROR, "openbox_agentrt.fleet"):
        session.release()
        monkeypatch.undo()
        heir = session_of(open_one())
        assert heir.call("pay", result="paid") == "paid"

    assert "is let go of without its last changes: state 'seen'" in caplog.text
    assert not heir.reserve("pay").allowed
    assert heir.state.snapshot() == {"seen": []}


def test_a_session_whose_state_was_spoilt_can_be_ended(open_one: OpenFleet) -> None:
    """Nothing of it has to be kept."""
    session = session_of(open_one(), state={"seen": []})
    session.call("pay", result="paid")
    session.state["seen"].append(object())
    kept_of(engine_of(session)).end()

    heir = session_of(open_one())
    heir.call("pay", result="paid")
    assert heir.call("pay", result="paid") == "paid"


def test_state_is_not_written_by_hand_before_the_session_is_held(fleet: Fleet, other: Fleet) -> None:
    """What the store keeps would replace it without a word, also after somebody else went on with it."""
    session = session_of(fleet, state={"seen": []})
    with pytest.raises(SessionMemoryError, match=r"state 'paid' cannot be written: .* call hold\(\) first"):
        session.state.set("paid", 1)
    session.state.update({})
    session.hold()
    session.state["paid"] = 2
    session.release()

    with pytest.raises(SessionMemoryError, match="state 'paid', 'when' cannot be written"):
        session.state.update({"paid": 3, "when": 4})
    heir = session_of(other)
    heir.hold()
    assert heir.state.snapshot() == {"seen": [], "paid": 2}


def test_state_that_was_changed_in_place_before_the_session_is_held_is_named(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can refuse it: the log says that it is replaced, and of nothing else."""
    session = session_of(fleet, state={"seen": [], "pair": (1, 2)})
    session.state["seen"].append("x")

    session.hold()

    assert session.state.snapshot() == {"seen": [], "pair": (1, 2)}
    (told,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert told.startswith("state 'seen' was changed here and not written")


def test_neither_a_snapshot_nor_a_trace_is_put_into_a_durable_session(fleet: Fleet) -> None:
    """What the store keeps would replace either, and the two payments in them would not count."""
    paid = Session(contracts=RULES, session_id="c-1")
    for _ in range(2):
        paid.call("pay", result="paid")

    with pytest.raises(ValueError, match="which would replace the snapshot"):
        Session.restore(paid.snapshot(), RULES, fleet=fleet, durable=True)
    session = session_of(fleet)
    for replay in (session.replay, session.replay_prefix):
        with pytest.raises(ValueError, match="by a session that is not durable"):
            replay([{"tool": "pay", "args": {}, "result": "paid"}] * 2)
    assert session.call("pay", result="paid") == "paid"


def test_what_would_be_refused_is_asked_of_a_session_that_is_held(
    fleet: Fleet, other: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner is told what the call would be told, and not what this process happens to know."""
    monkeypatch.setattr("openbox_agentrt.fleet.sessions.HOLD_SECONDS", 0.0)
    mine, theirs = session_of(fleet), session_of(other)
    mine.call("pay", result="paid")
    mine.call("pay", result="paid")

    refusal = theirs.would("pay")
    assert refusal is not None
    assert refusal.broken[0].reason == "session_busy"
    mine.release()
    monkeypatch.undo()
    refusal = theirs.would("pay")
    assert refusal is not None
    assert refusal.contracts == ("at_most_n_times(pay, n=2)",)
