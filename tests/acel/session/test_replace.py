"""Other contracts in force: what equal ones have counted goes on, and what is under way ends as it began."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    at_most_total,
    matching,
    must_precede,
    never,
    never_after,
    rate_limit,
    response,
)
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.rerun import rerun_file
from openbox_agentrt.acel.verdict import Verdict
from openbox_agentrt.evidence import EvidenceFile


def test_a_limit_that_changes_keeps_what_was_counted() -> None:
    session = Session(contracts=(at_most_total("pay", "amount", 500), at_most_n_times("mail", 1)))
    session.call("pay", {"amount": 300})
    session.call("mail")

    session.replace_contracts((at_most_total("pay", "amount", 400),))

    assert not session.reserve("pay", {"amount": 101}).allowed
    assert session.reserve("pay", {"amount": 100}).allowed
    assert session.reserve("mail").allowed, "nothing limits it any more"


def test_what_nothing_counts_any_more_is_forgotten() -> None:
    session = Session(contracts=[at_most_n_times("mail", 1)])
    session.call("mail")
    session.replace_contracts([never("wipe")])
    session.replace_contracts([at_most_n_times("mail", 1)])
    assert session.reserve("mail").allowed


def test_a_new_contract_begins_with_the_change() -> None:
    session = Session()
    session.call("backup")
    session.replace_contracts([must_precede("backup", "delete")])
    assert not session.reserve("delete").allowed
    session.call("backup")
    assert session.reserve("delete").allowed


@pytest.mark.parametrize("again", [False, True], ids=["replaced", "added to and replaced"])
def test_a_call_that_waited_is_judged_again_by_what_it_began_by(again: bool) -> None:
    """Also where nothing counts that any more, and so nobody remembers it but the call."""
    session = Session(
        contracts=[
            must_precede("check", "pay", recheck=True),
            never_after("mail", "read", recheck=True),
            at_most_n_times("pay", 2, recheck=True),
        ]
    )
    session.call("check")
    pay, mail = session.reserve("pay"), session.reserve("mail")
    session.call("read")
    if again:
        session.add_contract(never("wipe"))

    session.replace_contracts([never("other")])

    assert pay.recheck()
    assert not mail.recheck()
    assert mail.refusal is not None
    assert mail.refusal.broken[0].needs == "no earlier read"
    pay.commit()
    assert session.in_flight == 0


@pytest.mark.parametrize("added", [False, True], ids=["from the start", "added on the way"])
def test_a_contract_that_cannot_be_added_changes_nothing(added: bool) -> None:
    """Calls of tools that were called before are judged as they were."""
    rule = at_most_n_times("pay", 2)
    session = Session(contracts=() if added else (rule,))
    if added:
        session.add_contract(rule)
    assert session.reserve("pay").allowed

    with pytest.raises(ValueError, match="already added"):
        session.add_contract(rule)

    assert session.reserve("pay").allowed
    assert not session.reserve("pay").allowed


def test_a_call_under_way_settles_what_it_moved() -> None:
    """Its place is given back where the limit is still the same memory."""
    session = Session(contracts=[at_most_n_times("pay", 1), must_precede("check", "pay")])
    session.call("check")
    first = session.reserve("pay")
    session.replace_contracts([at_most_n_times("pay", 1)])
    assert not session.reserve("pay").allowed
    first.abort(ran=False)
    assert session.reserve("pay").allowed


def test_what_was_owed_is_owed() -> None:
    session = Session(contracts=[response("order", "ship")])
    session.call("order")
    session.replace_contracts([response("order", "ship"), never("wipe")])
    assert session.unmet() == ["response(order, ship)"]
    session.replace_contracts([never("wipe")])
    assert session.unmet() == []


def test_a_contract_that_stays_remembers_that_it_was_broken() -> None:
    watched = at_most_n_times("x", 0, mode="shadow")
    session = Session(contracts=[watched])
    session.call("x")
    again = at_most_n_times("x", 0, mode="shadow")
    session.replace_contracts([again])
    assert session.verdict(again) is Verdict.VIOLATED
    with pytest.raises(KeyError):
        session.verdict(watched)


def test_nothing_changes_where_something_is_no_contract() -> None:
    session = Session(contracts=[never("wipe")])
    with pytest.raises(TypeError, match="a contract is needed"):
        session.replace_contracts([at_most_n_times("x", 1), "never(wipe)"])  # type: ignore[list-item]
    assert not session.reserve("wipe").allowed


def test_registered_tools_and_malformed_calls_stay_what_they_are() -> None:
    session = Session({"open": False}, contracts=[never("wipe")], unknown_tools="refuse", tools=["pay"])
    session.register_tool("pay", precondition=lambda state: state["open"])
    session.replace_contracts([at_most_n_times("mail", 1)])
    assert not session.reserve("pay").allowed
    assert not session.reserve("other").allowed
    assert not session.reserve("wipe").allowed
    assert session.reserve("mail").allowed
    assert not session.reserve("mail", ["no", "mapping"]).allowed  # type: ignore[arg-type]


def test_a_call_that_was_planned_before_is_judged_by_what_is_in_force() -> None:
    """A matcher is asked before the lock is taken: what changes until then, the call follows."""

    def changing(tool: str, args: Mapping[str, Any]) -> bool:
        session.replace_contracts([never(matching("mail", "boss", field="to"))])
        return False

    session = Session(contracts=[at_most_n_times(changing, 9)])
    assert not session.reserve("mail", {"to": "boss"}).allowed

    session.replace_contracts([at_most_n_times(changing, 9)])
    call = session.reserve("mail", {"to": "ann"})
    assert (call.allowed, call.step) == (True, 2)


def test_side_by_side_with_calls_no_limit_is_passed() -> None:
    """Threads call while the limit goes up and down; what was let through is never above the highest."""
    session = Session(contracts=(at_most_n_times("pay", 60),))
    sets = [(at_most_n_times("pay", limit), must_precede("x", "y")) for limit in (40, 50, 60)]
    let_through = []
    done = threading.Event()

    def call() -> None:
        while not done.is_set():
            if session.reserve("pay").allowed:
                let_through.append(1)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(60):
        session.replace_contracts(sets[turn % 3])
    done.set()
    for thread in threads:
        thread.join()
    session.replace_contracts(sets[2])
    while session.reserve("pay").allowed:
        let_through.append(1)
    assert len(let_through) == 60


def test_rules_that_come_and_go_are_followed_again_from_the_log(tmp_path: Path) -> None:
    """Every decision follows from the steps, the change of rules among them, calls under way included."""
    random_ = random.Random(7)

    def some() -> list[Template]:
        every = [
            at_most_total("pay", "amount", random_.choice([100, 200]), key="who"),
            at_most_n_times("mail", random_.choice([3, 6])),
            must_precede("login", "pay", key="who"),
            rate_limit("read", 5, 60),
            never(matching("read", "secret", field="path")),
            at_most_n_times("read", 20, mode="shadow"),
        ]
        return random_.sample(every, random_.randint(1, len(every)))

    path = tmp_path / "e.jsonl"
    clock = iter(range(10_000))
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=some(), evidence=evidence, clock=lambda: float(next(clock)))
        under_way = []
        for turn in range(400):
            tool = random_.choice(["pay", "mail", "login", "read"])
            args = {
                "who": random_.choice("ab"),
                "amount": random_.randint(1, 60),
                "path": "secret" * (turn % 2),
            }
            call = session.reserve(tool, args)
            if call.allowed:
                under_way.append(call)
            while len(under_way) > random_.randint(0, 3):
                ended = under_way.pop(random_.randrange(len(under_way)))
                if random_.random() < 0.8:
                    ended.commit(None)
                else:
                    ended.abort(ran=random_.random() < 0.5)
            if random_.random() < 0.05:
                session.replace_contracts(some())

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert report.derived > 300
    assert len(report.rules) > 5


def test_a_contract_that_is_added_while_a_call_comes_in_judges_it(tmp_path: Path) -> None:
    """The log has the two in the order in which they happened."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[at_most_n_times("pay", 5)], evidence=evidence)
        session.register_tool("pay", precondition=lambda state: session.add_contract(never("pay")))
        assert not session.reserve("pay").allowed
    report = rerun_file(path)
    assert (report.derived, report.differences, report.problems) == (1, (), ())


def test_rules_in_another_order_are_the_same_rules_in_the_log(tmp_path: Path) -> None:
    """Two sessions write their rules once, and each refusal names the contract that it means."""
    path = tmp_path / "e.jsonl"
    one, other = at_most_n_times("a", 0), at_most_n_times("b", 0)
    with EvidenceFile(path, record="steps") as evidence:
        for contracts in ([one, other], [at_most_n_times("b", 0), at_most_n_times("a", 0)]):
            session = Session(contracts=contracts, evidence=evidence)
            session.reserve("a")
            session.reserve("b")
    report = rerun_file(path)
    assert (report.derived, report.differences, report.problems) == (4, (), ())
