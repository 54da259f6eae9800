"""mine: recorded sessions in, a rules file out in which every contract only watches."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel.analysis.mining.mine import mine
from openbox_agentrt.acel.events import Outcome
from openbox_agentrt.acel.rulesfile import parse_rules
from openbox_agentrt.cli import main
from openbox_agentrt.traces.backtest import backtest
from openbox_agentrt.traces.events import Began, Ended, Resumed, TraceEvent
from openbox_agentrt.traces.formats import Recordings
from openbox_agentrt.traces.mined_sessions import recorded_sessions


@pytest.fixture(autouse=True)
def _trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"tool": tool, "args": {"id": f"r-{number}"}, "session_id": f"s-{number}"}
        for number in range(20)
        for tool in ("look", "cancel")
    ]
    Path("trace.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_what_is_printed_is_a_rules_file(capsys: pytest.CaptureFixture[str]) -> None:
    """It is read as it stands, and every contract of it is in shadow mode."""
    assert main(["mine", "trace.jsonl", "--effects", "cancel"]) == 0

    rules = parse_rules(capsys.readouterr().out)
    assert {contract.mode for contract in rules.contracts} == {"shadow"}
    assert "must_precede(look, cancel, key=id)" in {contract.spec for contract in rules.contracts}
    assert all("sessions kept back" in (contract.description or "") for contract in rules.contracts)


def test_an_effect_that_nobody_called_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Without it, a name that is misspelt looks as if there were nothing to suggest."""
    assert main(["mine", "trace.jsonl", "--effects", "cancel,cancle"]) == 0

    assert capsys.readouterr().err == "no session calls 'cancle', which --effects names\n"


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Counts and contracts are data."""
    assert main(["mine", "trace.jsonl", "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["learnt_from"], said["kept_back"]) == (16, 4)
    assert all(suggestion["refused"] == 0 for suggestion in said["suggestions"])


def test_nothing_to_suggest_is_still_a_rules_file(capsys: pytest.CaptureFixture[str]) -> None:
    """It has no contracts, and says that this is meant."""
    assert main(["mine", "trace.jsonl", "--min-support", "500"]) == 0
    assert parse_rules(capsys.readouterr().out).contracts == ()


@pytest.mark.parametrize("text", ["", '{"tool": 1}\n', "nonsense\n"])
def test_what_is_no_trace_is_an_input_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one line, and the exit code is 2."""
    Path("odd.jsonl").write_text(text)

    assert main(["mine", "odd.jsonl"]) == 2
    assert "'odd.jsonl'" in capsys.readouterr().err


def test_events_that_are_no_tools_are_suggested_nothing_about(capsys: pytest.CaptureFixture[str]) -> None:
    """That the user asked, and that a model was called, came before every call there is."""
    rows = [
        {"tool": tool, "session_id": f"s-{number}"}
        for number in range(20)
        for tool in ("user_prompt", "llm_call", "look", "llm_call", "cancel")
    ]
    Path("run.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    assert main(["mine", "run.jsonl"]) == 0
    printed = capsys.readouterr().out
    assert "must_precede" in printed
    assert "llm_call" not in printed
    assert "user_prompt" not in printed


def test_what_several_workers_did_of_one_session_is_one() -> None:
    """In evidence each of them has a name of its own; one that went on elsewhere says whose it is."""

    def began(session: str, tool: str, at: float) -> Began:
        return Began(where=f"{tool}", session=session, tool=tool, args={}, at=at)

    later = began("s-1 (b)", "refund", 2.0)
    events: list[TraceEvent] = [
        Resumed(session="s-1 (b)", state={}, at=1.5, of="s-1"),
        later,
        began("s-1 (a)", "verify", 1.0),
        began("s-2 (c)", "other", 3.0),
        began("s-2 (d)", "other", 4.0),
    ]
    found = {
        session.name: [call.tool for call in session.calls] for session in recorded_sessions(events).sessions
    }

    assert found == {"s-1": ["verify", "refund"], "s-2 (c)": ["other"], "s-2 (d)": ["other"]}


def test_what_users_said_stands_among_the_calls() -> None:
    said = Began(where="", session="s", tool="user_prompt", args={"prompt": "pay a-1"})
    call = Began(where="", session="s", tool="pay", args={"to": "a-1"})
    said_and_called = [replace(call), said, replace(call)]
    (session,) = recorded_sessions(said_and_called).sessions

    assert [call.tool for call in session.calls] == ["pay", "pay"]
    assert session.prompts == ((1, "pay a-1"),)


OUTCOMES: tuple[Outcome, ...] = ("ok", "ok", "ok", "ok", "failed", "unknown", "aborted")


def overlapping(random_: random.Random) -> Iterator[TraceEvent]:
    """Give sessions in which accounts are looked at before they are paid, as far as the looking has ended."""
    ends_at_once, outcomes = random_.random(), random_.choice((OUTCOMES[:1], OUTCOMES))
    for number in range(12):
        under_way: list[Began] = []
        for step in range(random_.randrange(2, 7)):
            tool = (
                random_.choice(("look", "pay", "note"))
                if random_.random() < 0.2
                else ("look", "pay")[step % 2]
            )
            args = {"id": f"{number}-{step // 2}", "amount": random_.randrange(1, 4)}
            call = Began(where="", session=f"s-{number}", tool=tool, args=args, at=1e9 + number)
            yield call
            under_way.append(call)
            while under_way and random_.random() < ends_at_once:
                call = under_way.pop(random_.randrange(len(under_way)))
                outcome = random_.choice(outcomes)
                yield Ended(call=call, outcome=outcome, result=dict(call.args or {}), at=call.at)
        random_.shuffle(under_way)
        yield from (Ended(call=call, outcome="ok", result=None, at=call.at) for call in under_way)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_what_is_suggested_refuses_nothing_that_it_was_learnt_from(random_: random.Random) -> None:
    """Calls that overlapped are judged as they did: what is under way allows nothing yet, and counts."""
    events = list(overlapping(random_))
    sessions = recorded_sessions(events).sessions
    is_kept_back = [len(sessions) >= 10 and place % 5 == 4 for place in range(len(sessions))]
    learnt_from = {each.name for each, is_back in zip(sessions, is_kept_back, strict=True) if not is_back}

    suggested = [each.contract for each in mine(sessions, min_support=3, seconds=0.1).suggestions]

    result = backtest(events, parse_rules({"contracts": suggested, "allow_empty": True}))
    for each in result.contracts:
        assert not {*each.sessions.first, *each.unmet.first} & learnt_from, each.contract.spec


def test_what_began_before_its_prerequisite_had_ended_did_not_follow_it() -> None:
    """It is a counter-example, and one whose prerequisite had ended is none."""

    def calls(number: int, *, overlap: bool) -> Iterator[TraceEvent]:
        look = Began(where="look", session=f"s-{number}", tool="look", args={"id": f"{number}"})
        pay = Began(where=f"pay {number}", session=f"s-{number}", tool="pay", args={"id": f"{number}"})
        looked, paid = (Ended(call=call, outcome="ok", result=None) for call in (look, pay))
        yield look
        yield from (pay, looked) if overlap else (looked, pay)
        yield paid

    events = [event for number in range(9) for event in calls(number, overlap=number == 3)]
    found = mine(recorded_sessions(events).sessions, confidence=0.8, effects=["pay"]).suggestions
    (keyed,) = [each for each in found if each.contract["template"] == "must_precede"]

    assert keyed.contract["key"] == "id"
    assert (keyed.support, keyed.counter) == (9, ("pay 3",))


def test_an_order_without_a_key_follows_from_the_one_with_a_key() -> None:
    """It is not told again, however short the search is."""
    sessions = recorded_sessions(Recordings(["trace.jsonl"]).events()).sessions
    orders = [
        each.contract for each in mine(sessions, seconds=0.0).suggestions if "precede" in each.contract["id"]
    ]

    assert [(order["args"], order["key"]) for order in orders] == [(["look", "cancel"], "id")]
