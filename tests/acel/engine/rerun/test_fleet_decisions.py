"""What the store of a fleet answered, in the steps of a session, and the decisions that follow from it."""

from __future__ import annotations

import logging
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from benchmarks.rechaining import rechained
from openbox_agentrt.acel import (
    Session,
    alternate_precedence,
    any_of,
    at_most_n_times,
    at_most_total,
    cannot_follow_without,
    matching,
    max_distinct,
    must_precede,
    rate_limit,
)
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.engine.rerun.fleet_account import FleetAccount
from openbox_agentrt.acel.rerun import RerunReport, rerun_file
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import EvidenceFile, Redactor, read_entries
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.format2.parsing import LogLine
from openbox_agentrt.evidence.logs import merged_entries
from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.fleet.client.settling import settle_worker

DAY: dict[str, Any] = {"scope": "fleet", "per": "day"}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SqliteFleet]:
    store = SqliteFleet(tmp_path / "fleet.db", timeout_seconds=20)
    yield store
    store.close()


def changed(path: Path, event: str, change: Callable[[dict[str, Any]], object], **only: Any) -> None:
    """Change the first step of a kind, and make the chain anew as whoever has the file can."""
    done: list[int] = []

    def first(line: LogLine, body: dict[str, Any]) -> object:
        if done or body.get("e") != event or not only.items() <= body.items():
            return None
        done.append(line.seq)
        return change(body)

    log, _ = rechained(path.read_bytes().splitlines(keepends=True), first)
    assert done, "no such step: the test would change nothing"
    path.write_bytes(log)


def recorded(path: Path, session: Callable[..., Session], act: Callable[[Session], object]) -> RerunReport:
    with EvidenceFile(path, record="steps") as evidence:
        one = session(evidence=evidence)
        act(one)
        one.end_session()
    return rerun_file(path)


def recorded_ok(path: Path, rules: tuple[Template, ...], fleet: SqliteFleet, act: Any) -> bool:
    return recorded(path, lambda **o: Session(contracts=rules, fleet=fleet, **o), act).ok


RULES = (
    at_most_n_times("pay", 3, **DAY),
    at_most_total(any_of("pay", "refund"), "amount", 500, key="customer", **DAY),
    must_precede("login", "pay", scope="fleet", within=3600),
    cannot_follow_without("delete", "backup", scope="fleet", within=3600),
    max_distinct("send", "to", 2, **DAY),
    rate_limit("read", 4, 60, scope="fleet"),
    at_most_total("refund", "amount", 10**6),
    at_most_n_times(matching("send", r"[a-z]+", field="to"), 2, mode="shadow", **DAY),
)


def busy(session: Session) -> None:
    """Make calls that the session refuses, that the store refuses, and that nobody does."""
    chance = random.Random(7)
    open_calls = []
    for _ in range(80):
        tool = chance.choice(["pay", "refund", "login", "read", "delete", "backup", "send", "other"])
        amount = chance.choice([100, 12.5, 499, -1, "no amount", 2])
        args = {"amount": amount, "customer": chance.choice("ab"), "to": chance.choice(["x", "y", "z", "Q"])}
        call = session.reserve(tool, args)
        if call.allowed:
            open_calls.append(call)
        if open_calls and chance.random() < 0.8:
            call = open_calls.pop(chance.randrange(len(open_calls)))
            if not call.start():
                continue
            end = chance.choice(["commit", "commit", "commit", "fail", "undo", "lose"])
            if end == "commit":
                call.commit("done")
            elif end == "lose":
                call.lose()
            else:
                call.abort(ran=end == "fail")


def test_decisions_of_every_kind_follow_from_what_the_store_said(fleet: SqliteFleet, tmp_path: Path) -> None:
    """The local half from rules and steps, the rest from the answer, which is counted apart."""
    log = tmp_path / "e.jsonl"
    report = recorded(log, lambda **o: Session(contracts=RULES, fleet=fleet, **o), busy)

    answers = [entry.data for entry in read_entries(log) if entry.data.get("e") == "fleet"]
    asked = [answer for answer in answers if "answer" in answer]
    assert (report.differences, report.problems, report.not_derivable, report.on_code) == ((), (), 0, 0)
    assert report.on_fleet == len(asked)
    assert len({answer["allowed"] for answer in asked}) == 2
    assert len(asked) < len(answers), "none was decided without asking"
    assert all(answer["answer"]["now"] > 0 and answer["answer"]["generation"] for answer in asked)


def two_of_one(session: Session) -> None:
    assert session.reserve("pay", {"amount": 5}).allowed
    assert not session.reserve("pay", {"amount": 5}).allowed


def flip(step: dict[str, Any]) -> None:
    step["allowed"] = not step["allowed"]


def fewer(step: dict[str, Any]) -> None:
    step["answer"]["broken"][0]["live"] = 0


@pytest.mark.parametrize(
    ("change", "only", "named"),
    [
        pytest.param(flip, {"allowed": False}, "recorded allowed", id="a refusal made an approval"),
        pytest.param(flip, {"allowed": True}, "recorded refused", id="an approval made a refusal"),
        pytest.param(fewer, {"allowed": False}, "derived refused", id="numbers that break nothing"),
        pytest.param(
            lambda step: step["answer"].pop("lease"), {"allowed": True}, "derived refused", id="no lease"
        ),
        pytest.param(
            lambda step: step.pop("answer"), {"allowed": True}, "the store was not asked", id="no answer"
        ),
        pytest.param(
            lambda step: step["answer"]["broken"][0].update(nth=3),
            {"allowed": False},
            "a guard that was not asked",
            id="another guard",
        ),
    ],
)
def test_an_answer_that_was_changed_is_named(
    fleet: SqliteFleet,
    tmp_path: Path,
    change: Callable[[dict[str, Any]], object],
    only: dict[str, Any],
    named: str,
) -> None:
    """Also in a log whose hashes were made anew."""
    log = tmp_path / "e.jsonl"
    rules = (at_most_n_times("pay", 1, **DAY),)
    assert recorded(log, lambda **o: Session(contracts=rules, fleet=fleet, **o), two_of_one).ok

    changed(log, "fleet", change, **only)

    (difference,) = rerun_file(log).differences
    assert named in f"recorded {difference.recorded}; derived {difference.derived}"


def test_what_the_store_refused_is_shown_as_refused(fleet: SqliteFleet, tmp_path: Path) -> None:
    """The session had let it through by its own contracts; who reads the log reads what became of it."""
    log = tmp_path / "e.jsonl"
    rules = (at_most_n_times("pay", 1, **DAY),)
    recorded(log, lambda **o: Session(contracts=rules, fleet=fleet, **o), two_of_one)

    _, second = calls_in(merged_entries([log]))

    assert (second.verdict, second.by, second.outcome) == ("refused", "contracts", "did not run")
    assert second.contracts == (rules[0].spec,)


def test_a_call_that_ran_without_asking_is_named(fleet: SqliteFleet, tmp_path: Path) -> None:
    """An answer that was taken out of the log is missed."""
    log = tmp_path / "e.jsonl"
    rules = (at_most_n_times("pay", 1, **DAY),)
    recorded(log, lambda **o: Session(contracts=rules, fleet=fleet, **o), lambda s: s.call("pay"))

    changed(log, "fleet", lambda step: "drop")

    (difference,) = rerun_file(log).differences
    assert difference.recorded == "allowed without the store of the fleet"


def other_reason(step: dict[str, Any]) -> None:
    step["broken"] = [1]


def as_if_run(step: dict[str, Any]) -> None:
    step.pop("broken")
    step["e"] = "commit"


@pytest.mark.parametrize(
    ("event", "change", "recorded"),
    [
        pytest.param("abort", other_reason, "refused, breaks at_most_n_times(refund", id="for another"),
        pytest.param("abort", lambda step: step.update(broken=[]), "refused", id="for nothing"),
        pytest.param("commit", lambda step: step.update(e="abort", broken=[0]), "refused, breaks", id="late"),
        pytest.param("abort", as_if_run, "ran", id="it ran all the same"),
    ],
)
def test_what_a_call_was_taken_back_for_follows_from_the_answer(
    fleet: SqliteFleet,
    tmp_path: Path,
    event: str,
    change: Callable[[dict[str, Any]], object],
    recorded: str,
) -> None:
    """And one that was refused has not run."""
    log = tmp_path / "e.jsonl"
    rules = (at_most_n_times("pay", 1, **DAY), at_most_n_times("refund", 1, **DAY))

    def act(session: Session) -> None:
        session.call("pay")
        assert not session.reserve("pay").allowed

    assert recorded_ok(log, rules, fleet, act)
    changed(log, event, change)

    found = rerun_file(log).differences
    assert recorded in [each.recorded[: len(recorded)] for each in found]


def test_what_was_judged_again_and_what_had_no_answer_follow_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease that was given back meanwhile, an outage that refuses, and one that counts here."""
    rules = (at_most_n_times("pay", 2, **DAY),)
    fleet = SqliteFleet(tmp_path / "one.db", timeout_seconds=20)
    try:

        def given_back(session: Session) -> None:
            call = session.reserve("pay")
            line = fleet._connect()
            settle_worker(line, fleet.worker, person=True)
            line.close()
            assert call.start()
            call.commit()

        report = recorded(
            tmp_path / "a.jsonl", lambda **o: Session(contracts=rules, fleet=fleet, **o), given_back
        )
    finally:
        fleet.close()
    assert (report.ok, report.on_fleet) == (True, 2)

    # Held by another, so that the store gives no answer in time.
    holder = sqlite3.connect(tmp_path / "one.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    caplog.set_level(logging.CRITICAL)
    modes: tuple[tuple[Literal["refuse", "local"], bool], ...] = (("refuse", False), ("local", True))
    for on_outage, allowed in modes:
        away = SqliteFleet(tmp_path / "one.db", timeout_seconds=0.3, on_outage=on_outage)
        try:
            report = recorded(
                tmp_path / f"{on_outage}.jsonl",
                lambda store=away, **o: Session(contracts=rules, fleet=store, **o),
                lambda session: session.reserve("pay"),
            )
        finally:
            away.close()
        log = read_entries(tmp_path / f"{on_outage}.jsonl")
        (answer,) = [entry.data for entry in log if entry.data.get("e") == "fleet"]
        assert (report.ok, report.on_fleet, answer["allowed"]) == (True, 1, allowed)
    holder.close()


def test_redacted_keys_follow_and_redacted_amounts_do_not(fleet: SqliteFleet, tmp_path: Path) -> None:
    """Never as equal: a call whose question the log does not show is counted as not derivable."""
    rules = (
        at_most_n_times("pay", 1, key="card", **DAY),
        at_most_total("refund", "amount", 100, **DAY),
    )
    log = tmp_path / "e.jsonl"
    with EvidenceFile(log, record="steps", redact_fields=Redactor(["card", "amount"])) as evidence:
        session = Session(contracts=rules, fleet=fleet, evidence=evidence)
        assert [session.reserve("pay", {"card": card}).allowed for card in "aab"] == [True, False, True]
        session.call("refund", {"amount": 60})
        assert not session.reserve("refund", {"amount": 60}).allowed

    report = rerun_file(log)

    assert (report.differences, report.problems) == ((), ())
    assert (report.on_fleet, report.not_derivable) == (3, 2)


def in_fleet(log: Path, store: Path, rules: tuple[Template, ...], tools: list[str]) -> list[bool]:
    """Let one worker of a store call these tools, and follow its log."""
    fleet = SqliteFleet(store, timeout_seconds=20)
    said: list[bool] = []

    def act(session: Session) -> None:
        for number, tool in enumerate(tools):
            call = session.reserve(tool, {"amount": 100, "to": f"{log.stem}{number}"})
            said.append(call.allowed)
            if call.allowed:
                call.commit("done")

    try:
        assert recorded_ok(log, rules, fleet, act)
    finally:
        fleet.close()
    return said


def account_of(*logs: Path) -> FleetAccount:
    account = FleetAccount()
    for log in logs:
        assert rerun_file(log, account=account).ok
    return account


def generation_of(log: Path) -> str:
    answer = next(entry.data for entry in read_entries(log) if entry.data.get("e") == "fleet")
    return str(answer["answer"]["generation"])


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(at_most_n_times("pay", 3, **DAY), id="count"),
        pytest.param(at_most_total("pay", "amount", 300, **DAY), id="amount"),
        pytest.param(rate_limit("pay", 3, 3600, scope="fleet"), id="window"),
        pytest.param(max_distinct("pay", "to", 3, **DAY), id="values"),
        pytest.param(max_distinct("pay", "to", 3, scope="fleet", within=3600), id="values in a window"),
    ],
)
def test_the_logs_of_all_workers_are_set_against_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: Template
) -> None:
    """Three in all, over two workers, and not three of each."""
    logs = [tmp_path / "logs" / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    in_fleet(logs[0], tmp_path / "one.db", (rule,), ["pay"] * 2)
    in_fleet(logs[1], tmp_path / "one.db", (rule,), ["pay"] * 2)
    assert main(["verify", *map(str, logs[:2]), "--rerun"]) == 0
    assert "3 grant(s) of the fleet's store, 0 contradict(s)" in capsys.readouterr().out

    # A log of another store that says it is of this one: by itself it is right.
    in_fleet(logs[2], tmp_path / "two.db", (rule,), ["pay"] * 4)
    generation = generation_of(logs[0])
    for number in range(1, 5):
        changed(logs[2], "fleet", lambda step: step["answer"].update(generation=generation), step=number)
    *beyond, forgotten = account_of(*logs).contradictions()
    assert ["granted" in each for each in beyond] == [True] * 3
    assert "c.jsonl, line" in forgotten
    assert "these logs show" in forgotten


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(must_precede("verify", "pay", scope="fleet", forever=True), id="need"),
        pytest.param(must_precede("verify", "pay", scope="fleet", within=3600), id="need in a window"),
        pytest.param(alternate_precedence("verify", "pay", scope="fleet", forever=True), id="token"),
    ],
)
def test_what_a_grant_rests_on_is_in_the_logs_or_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: Template
) -> None:
    """One worker verifies and another pays: by the log of the other alone, nobody has verified."""
    one, other, store = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "one.db"
    assert in_fleet(one, store, (rule,), ["verify"]) == [True]
    assert in_fleet(other, store, (rule,), ["pay"]) == [True]

    assert (account_of(other).unseen, account_of(one, other).unseen) == (1, 0)
    assert main(["verify", str(other), "--rerun"]) == 0
    capsys.readouterr()
    assert in_fleet(one, store, (rule, at_most_n_times("pay", 9, **DAY)), ["verify", "pay"]) == [True, True]
    assert main(["verify", str(one), str(other), "--rerun"]) == 0
    assert "rest on calls" not in capsys.readouterr().out


def later(seconds: int) -> Callable[[dict[str, Any]], object]:
    """Let an answer have been given that much later."""
    return lambda step: step["answer"].update(now=step["answer"]["now"] + seconds * 10**6)


@pytest.mark.parametrize("how_long", [{"forever": True}, {"within": 3600}], ids=str)
def test_a_success_that_the_store_forgot_is_found(tmp_path: Path, how_long: dict[str, Any]) -> None:
    """Only once it certainly knew of it: its worker had asked again, long after."""
    rules = (
        must_precede("verify", "pay", scope="fleet", **how_long),
        at_most_n_times("ping", 99, **DAY),
    )
    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    in_fleet(one, tmp_path / "one.db", rules, ["verify", "ping", "ping"])
    assert in_fleet(other, tmp_path / "two.db", rules, ["pay"]) == [False]
    generation = generation_of(one)
    changed(other, "fleet", lambda body: body["answer"].update(generation=generation))
    changed(other, "fleet", later(60))
    assert account_of(one, other).contradictions() == []

    changed(one, "fleet", later(30), step=3)

    (contradiction,) = account_of(one, other).contradictions()
    assert "b.jsonl, line" in contradiction
    assert "counted 0 success(es), and these logs show 1 granted before" in contradiction


WATCHED = (at_most_n_times("pay", 1, key="customer", **DAY), at_most_n_times("pay", 9, **DAY))


def watch(session: Session) -> None:
    for each in ("a", None, "a"):
        session.call("pay", {"customer": each})


def test_a_session_that_only_watches_asks_about_what_is_left(fleet: SqliteFleet, tmp_path: Path) -> None:
    """A call without the key of one contract is counted by the other; and so it is derived."""
    log = tmp_path / "e.jsonl"
    report = recorded(log, lambda **o: Session(contracts=WATCHED, fleet=fleet, mode="shadow", **o), watch)

    assert (report.differences, report.problems, report.on_fleet) == ((), (), 3)
    left = Session(contracts=[at_most_n_times("pay", 3, **DAY)], fleet=fleet)
    assert not left.reserve("pay").allowed
    changed(log, "fleet", lambda step: step.pop("answer"), step=2)
    (difference,) = rerun_file(log).differences
    assert "was not asked" in difference.derived


def test_a_session_that_only_watches_lets_through_what_the_rules_refuse(
    fleet: SqliteFleet, tmp_path: Path
) -> None:
    """A call without the key is decided without the store, and goes on all the same."""
    log = tmp_path / "e.jsonl"
    rules = (at_most_n_times("pay", 1, key="customer", **DAY),)
    report = recorded(
        log,
        lambda **o: Session(contracts=rules, fleet=fleet, mode="shadow", **o),
        lambda s: [s.call("pay", {"customer": each}) for each in ("a", None, "a")],
    )

    assert (report.differences, report.problems) == ((), ())
