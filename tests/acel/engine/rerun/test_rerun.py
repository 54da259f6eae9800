"""Decisions, derived again from the steps of a log and its rules."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from benchmarks.rechaining import rechained
from openbox_agentrt._halt import Halt
from openbox_agentrt._plain.spelling import Fold
from openbox_agentrt.acel import (
    ContentMatch,
    Session,
    any_of,
    at_most_in_flight,
    at_most_n_times,
    at_most_total,
    came_from,
    chain_precedence,
    existence,
    fact,
    keeps_out,
    matching,
    max_distinct,
    must_precede,
    never,
    never_after,
    not_matching,
    only,
    rate_limit,
    requires,
    requires_state,
    response,
)
from openbox_agentrt.acel.contracts.identity import meaning_of
from openbox_agentrt.acel.contracts.rebuilding import rebuilt
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.engine.rerun.rerun import Rerun
from openbox_agentrt.acel.rerun import RerunReport, rerun_file
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.evidence import EvidenceFile, Redactor, read_entries, verify_file
from openbox_agentrt.testing import ManualClock

TOOLS = ("backup", "delete", "pay", "read", "send", "login", "Bash")


def contracts() -> list[Template]:
    """Of every kind."""
    return [
        must_precede("backup", "delete"),
        at_most_n_times("send", 40, id="few-letters"),
        at_most_total("pay", "amount", 500, key="customer"),
        at_most_total("llm", "tokens", Decimal("1000.5")),
        rate_limit("read", 5, 10.25),
        never_after("send", "login", within=30.5),
        max_distinct("send", "to", 3),
        chain_precedence("backup", "pay", key="customer"),
        response("login", "read", 20),
        requires_state("delete", "mode", "on"),
        existence("backup"),
        at_most_n_times(matching("Bash", "rm|drop", field="command"), 2, mode="shadow"),
        at_most_n_times(any_of("read", matching("Bash", "curl", field="command")), 60),
        at_most_n_times(any_of("pay", "send"), 9, key={"pay": "customer", "send": "to"}),
        at_most_n_times("*", 90, key="*", except_=["read", "llm"]),
        rate_limit("send", 9, 20, key=["to", "customer"], fold="case"),
        at_most_n_times("send", 30, key=["number", "5"], mode="shadow"),
        never(not_matching("Bash", "ls|curl|rm|drop", field="command")),
        never_after(any_of("read", "pay"), "delete", except_="read"),
        at_most_total("pay", "*.amount", 500, mode="shadow"),
        must_precede("read", "send", since="login"),
        must_precede(
            "backup", "pay", since=any_of("delete", "pay"), key={"backup": "to", "pay": "to"}, within=9
        ),
        at_most_in_flight("pay", 2, within=30),
        never(matching("Bash", "^drop", field="command", line=True), except_=not_matching("Bash", "x")),
        came_from("send", "to", [{"tool": "read", "path": "people.*"}, "prompt"], mode="shadow"),
        came_from(
            "pay",
            "to",
            [{"tool": any_of("backup", "read"), "named": True}],
            within=9,
            fold="case",
            mode="shadow",
        ),
        keeps_out("Bash", "command", {"tool": "login", "path": "people.0"}, mode="shadow"),
        requires("pay", "args.amount <= 150 || session.backup > 2"),
        requires(
            "send",
            "!(args.customer in facts.account) || facts.account[args.customer].limit >= 30",
            facts=[LIMITS],
            mode="shadow",
        ),
        at_most_n_times(
            "send", 9, when="now > timestamp('1970-01-12T13:50:00Z') && args.to == 'ann'", mode="shadow"
        ),
        rate_limit("pay", 4, 30, when="facts.account[args.customer].seen == 'ann'", facts=[LIMITS]),
        existence("read", when="session.send > 3"),
        only(any_of("backup", "delete", "send", "pay", "read", "login", "Bash"), mode="shadow"),
    ]


LIMITS = fact(["read", "login"], "account", key="customer", values={"limit": "most", "seen": "args.to"})


class Clock:
    """Time as a test sets it, also backwards and into the void."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        if self.now < 0:
            raise OSError("no time")
        return self.now


def arguments(chance: random.Random) -> dict[str, Any]:
    """Arguments that contracts look at, now and then ones that they cannot read."""
    odd: list[Any] = [None, "many", float("nan"), {1, 2}, b"\xff", [1], object()]
    return {
        "customer": chance.choice(["c-1", " c-1", "c-2", "c-3", 7, *odd]),
        "amount": chance.choice([1, 20, 45.5, Decimal("99.90"), 200, -3, *odd]),
        "to": chance.choice(["ann", "bob", "Ann", "eve", "dan", *odd]),
        "command": chance.choice(["ls", "rm -rf /", "curl x", ["drop", "x"], *odd]),
    }


def act(session: Session, chance: random.Random, clock: Clock | None, times: int) -> None:
    """Ask for calls and end them in every way that there is, several of them under way at once."""
    flying: list[Any] = []
    for _ in range(times):
        if clock is not None:
            clock.now += chance.choice([0, 0.5, 3, -2])
        if chance.random() < 0.05:
            session.state.set("mode", chance.choice(["on", "off"]))
        if chance.random() < 0.6 or not flying:
            tool = chance.choice(TOOLS)
            deferred = {"tokens": 5} if chance.random() < 0.1 else {}
            call = session.reserve("llm" if deferred else tool, arguments(chance), deferred=deferred)
            if call.allowed:
                flying.append(call)
            continue
        call = flying.pop(chance.randrange(len(flying)))
        final = {"args": arguments(chance)} if chance.random() < 0.2 else {}
        measured = {"measured": {"tokens": chance.randrange(60)}} if call.deferred else {}
        end = chance.random()
        if end < 0.6:
            people = chance.sample(["ann", "bob", "eve", "dan", "rm", 7, None], 2)
            found = {"people": people, "most": {"ann": 40, "bob": 10}.get(str(people[0]), people[1])}
            call.commit(chance.choice(["done", found]), **final, **measured)
        elif end < 0.75:
            call.abort(ValueError("failed"), ran=True, **final, **measured)
        elif end < 0.9:
            call.abort()
        elif end < 0.95:
            call.lose()
        else:
            del call  # dropped: its task died


def recorded(path: Path, seed: int, *, times: int = 400, **options: Any) -> RerunReport:
    """One session of random calls, and what follows from its log."""
    clock = Clock()
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(
            {"mode": "off"},
            contracts=contracts(),
            evidence=evidence,
            session_id="s",
            clock=clock,
            **options,
        )
        act(session, random.Random(seed), clock, times)
        session.end_session()
    assert verify_file(path).ok
    return rerun_file(path)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "options", [{}, {"mode": "shadow"}, {"halt_on_violation": True}], ids=["enforce", "shadow", "raising"]
)
def test_every_decision_follows_from_steps_and_rules(
    tmp_path: Path, seed: int, options: dict[str, Any]
) -> None:
    """Side by side, failed, aborted, lost, dropped, with other arguments in the end, at any time."""
    report = recorded(tmp_path / "e.jsonl", seed, **options)

    assert report.differences == ()
    assert report.problems == ()
    assert report.ok
    assert report.derived > 100
    assert report.not_derivable == 0


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_what_a_session_only_watched_is_counted(tmp_path: Path, mode: Literal["enforce", "shadow"]) -> None:
    """No rule says that a session only watched, so a forger who has the key may."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(
            contracts=[at_most_n_times("send", 1), at_most_n_times("read", 0, mode="shadow")],
            evidence=evidence,
            mode=mode,
        )
        for tool in ("send", "send", "read", "send"):
            attempt = session.reserve(tool)
            if attempt.allowed:
                attempt.commit()

    report = rerun_file(path)

    assert (report.ok, report.derived) == (True, 4)
    assert report.on_shadow == (2 if mode == "shadow" else 0)


def test_a_contract_that_stayed_when_others_were_replaced_is_the_same(tmp_path: Path) -> None:
    """Also for a call that began before, and ends after."""
    stays, goes = at_most_total("pay", "amount", 10), at_most_n_times("send", 3)
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[goes, stays], evidence=evidence)
        under_way = session.reserve("pay", {"amount": 1})
        session.replace_contracts([stays])
        under_way.commit(args={"amount": 20})

    report = rerun_file(path)

    assert report.differences == ()
    assert report.derived == 2


def test_threads_side_by_side(tmp_path: Path) -> None:
    """The steps stand in the order of the lock, whoever writes them down."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps", seal_interval=60) as evidence:
        session = Session({"mode": "on"}, contracts=contracts(), evidence=evidence)
        threads = [
            threading.Thread(target=act, args=(session, random.Random(seed), None, 600)) for seed in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert report.derived > 1_000


def test_tasks_that_are_cancelled(tmp_path: Path) -> None:
    """A call whose task was cancelled is in the log with how it ended."""
    path = tmp_path / "e.jsonl"

    async def call(session: Session, n: int) -> None:
        reservation = await session.areserve("send", {"to": f"p{n % 3}"})
        if reservation.allowed:
            try:
                await asyncio.sleep(0.001 * (n % 3))
                await reservation.acommit("ok")
            except asyncio.CancelledError:
                reservation.abort(ran=True)
                raise

    async def everything(session: Session) -> None:
        tasks = [asyncio.create_task(call(session, n)) for n in range(50)]
        await asyncio.sleep(0.001)
        for task in tasks[::3]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with EvidenceFile(path, record="steps") as evidence:
        asyncio.run(everything(Session(contracts=contracts(), evidence=evidence)))

    report = rerun_file(path)
    assert (report.differences, report.problems, report.derived) == ((), (), 50)


def test_contracts_that_came_later_and_sessions_that_went_on(tmp_path: Path) -> None:
    """A late contract counts from where it was added; a restored session remembers."""
    path = tmp_path / "e.jsonl"
    rules = (at_most_n_times("x", 3),)
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=rules, evidence=evidence)
        session.call("x")
        session.add_contract(at_most_n_times("x", 1))
        session.reserve("x").commit()
        assert not session.reserve("x").allowed
        before = Session(contracts=rules)
        for _ in range(3):
            before.call("x")
        restored = Session.restore(before.snapshot(), rules, evidence=evidence)
        assert not restored.reserve("x").allowed

    report = rerun_file(path)
    assert (report.differences, report.problems, report.sessions) == ((), (), 2)
    assert report.derived == 4


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_halt_by_a_person_is_a_step(tmp_path: Path, mode: Any) -> None:
    """What it refuses follows from it, and so does what runs when it is lifted; the reason is in the log."""
    path = tmp_path / "log.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[never("delete")], evidence=evidence, mode=mode, session_id="s-1")
        waits = session.reserve("pay")
        session.halt(reason="it runs wild", by="ops-lead")
        assert not waits.recheck()
        assert not session.reserve("read").allowed
        assert session.would("read") is not None
        engine_of(session).hear(Halt(kind="session", value="s-1", reason="", by="", at=0.0), lifted=True)
        assert session.reserve("read").allowed

    report = rerun_file(path)
    assert report.differences == ()
    assert report.derived == 4
    assert "it runs wild (halted by ops-lead)" in path.read_text()


def test_what_rests_on_code_is_taken_at_its_word(tmp_path: Path) -> None:
    """And counted: conditions, matchers that are functions, names that a session does not know."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(
            contracts=[at_most_n_times(lambda tool, args: args.get("n") == 1, 0), at_most_n_times("pay", 1)],
            evidence=evidence,
            unknown_tools="refuse",
        )
        session.register_tool("pay", precondition=lambda state, args: args["n"] > 0)
        for n in (2, 1, 0):
            reservation = session.reserve("pay", {"n": n})
            if reservation.allowed:
                reservation.commit()
        session.reserve("nobody")

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert (report.derived, report.on_code) == (4, 3)


def changed(path: Path, change: Callable[[dict[str, Any]], None], *, number: int) -> None:
    """Change one line, and make the whole chain anew, as whoever holds no key can."""
    lines = path.read_bytes().splitlines(keepends=True)
    log, _ = rechained(lines, lambda line, body: change(body) if line.seq == number else None)
    path.write_bytes(log)


def reserved(path: Path, tool: str, *, allowed: bool) -> list[int]:
    """The numbers of the steps in which a tool was asked for."""
    return [
        entry.number
        for entry in read_entries(path)
        if entry.data.get("e") == "reserve"
        and entry.data["tool"] == tool
        and entry.data["allowed"] is allowed
    ]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_verdict_that_was_changed_is_named(tmp_path: Path, allowed: bool) -> None:
    """One of many, with its line; what comes after follows from what was recorded."""
    path = tmp_path / "e.jsonl"
    recorded(path, 1)
    number = reserved(path, "send", allowed=allowed)[-1]

    def flip(body: dict[str, Any]) -> None:
        body["allowed"] = not allowed
        body.pop("broken", None)

    changed(path, flip, number=number)
    report = rerun_file(path)
    assert not report.ok
    assert report.differences[0].number == number
    assert report.differences[0].tool == "send"
    assert report.differences[0].recorded == ("refused" if allowed else "allowed")


def test_an_argument_that_was_changed_is_named(tmp_path: Path) -> None:
    """The decision no longer follows from it."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[at_most_total("pay", "amount", 100)], evidence=evidence)
        for amount in (60, 60, 30):
            call = session.reserve("pay", {"amount": amount})
            if call.allowed:
                call.commit()
    (refused,) = reserved(path, "pay", allowed=False)

    changed(path, lambda body: body["args"].update(amount=6), number=refused)
    (difference,) = rerun_file(path).differences
    assert (difference.number, difference.step) == (refused, 2)
    assert difference.recorded == "refused, breaks at_most_total(pay, amount, limit=100)"
    assert difference.derived == "allowed"


def provenance(path: Path, **options: Any) -> RerunReport:
    """A payment to somebody whom a call has found, and one to somebody else."""
    rules = [
        came_from("pay", "to", ["prompt", {"tool": "find", "path": "*.iban"}]),
        keeps_out("mail", "body", {"tool": "find", "path": "*.iban"}),
    ]
    with EvidenceFile(path, record="steps", **options) as evidence:
        session = Session(contracts=rules, evidence=evidence)
        session.call("user_prompt", {"prompt": "pay Bob Smith"})
        found = session.reserve("find")
        found.commit([{"iban": "GB29NWBK60161331926819"}])
        found.replace_result([{"iban": "[the iban]"}])
        for to in ("GB29NWBK60161331926819", "[the iban]", "Bob Smith", "somebody"):
            call = session.reserve("pay", {"to": to})
            if call.allowed:
                call.commit()
        session.reserve("mail", {"body": "nothing"}).commit()
        session.reserve("mail", {"body": "his iban: gb29 nwbk 60161331926819"})
    return rerun_file(path)


def test_where_a_value_came_from_follows_from_digests(tmp_path: Path) -> None:
    """Under the id of the run as their key; what a call found out and nobody used is not in the log."""
    path = tmp_path / "e.jsonl"
    report = provenance(path)

    assert (report.differences, report.problems, report.not_derivable) == ((), (), 0)
    assert report.derived == 8
    learnt = [entry.data["learnt"] for entry in read_entries(path) if "learnt" in entry.data]
    assert len(learnt) == 2
    assert "NWBK" not in json.dumps(learnt)


def test_a_digest_that_was_changed_is_found(tmp_path: Path) -> None:
    """The payment does not follow from what is left."""
    path = tmp_path / "e.jsonl"
    provenance(path)
    (number, *_) = [entry.number for entry in read_entries(path) if "learnt" in entry.data]

    changed(path, lambda body: body.pop("learnt"), number=number)

    assert {difference.tool for difference in rerun_file(path).differences} == {"pay", "mail"}


def test_digests_of_what_is_redacted_are_too(tmp_path: Path) -> None:
    """So what rests on them cannot be derived, and is not taken for wrong."""
    path = tmp_path / "e.jsonl"
    report = provenance(path, redact_fields=Redactor(["iban"]))

    assert (report.differences, report.problems) == ((), ())
    assert report.not_derivable == 6
    learnt = [entry.data["learnt"] for entry in read_entries(path) if "learnt" in entry.data]
    assert all("REDACTED" in json.dumps(found) for each in learnt for found in each.values())


@pytest.mark.parametrize(
    ("conceal", "derivable"), [(lambda result: "hidden", False), (dict, True)], ids=["hidden", "shown"]
)
def test_what_was_learnt_of_a_result_that_may_not_be_seen_is_not_told(
    tmp_path: Path, conceal: Callable[[Any], Any], derivable: bool
) -> None:
    """Only that there was something; of one that may be seen as it is, everything."""
    path = tmp_path / "e.jsonl"
    rules = [came_from("pay", "to", [{"tool": "find", "path": "iban"}])]
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=rules, evidence=evidence)
        session.reserve("find").commit({"iban": "DE02"}, conceal=conceal)
        assert session.reserve("pay", {"to": "DE02"}).allowed

    report = rerun_file(path)

    assert any("concealed" in entry.data for entry in read_entries(path)) is not derivable
    assert (report.differences, report.problems) == ((), ())
    assert report.not_derivable == (not derivable)


def test_many_digests_are_in_the_log_whole(tmp_path: Path) -> None:
    """Of more than there is room for, nothing follows, and nothing is taken for wrong."""
    for count, derivable in ((5_000, True), (20_000, False)):
        path = tmp_path / f"{count}.jsonl"
        rules = [came_from("pay", "to", [{"tool": "find", "path": "*"}])]
        with EvidenceFile(path, record="steps") as evidence:
            session = Session(contracts=rules, evidence=evidence, max_keys=count)
            session.call("find", result=list(range(count)))
            assert session.reserve("pay", {"to": count - 1}).allowed
        report = rerun_file(path)
        assert (report.differences, report.problems) == ((), ())
        assert report.not_derivable == (not derivable)


def test_a_redacted_key_still_counts_and_a_redacted_amount_does_not(tmp_path: Path) -> None:
    """Equal secrets have equal markers; what an amount was, no marker says."""
    path = tmp_path / "e.jsonl"
    rules = [at_most_n_times("pay", 2, key="card"), at_most_total("pay", "pin", 100)]
    with EvidenceFile(path, record="steps", redact_fields=Redactor(["card", "pin"])) as evidence:
        session = Session(contracts=rules[:1], evidence=evidence)
        for card in ("card 4111", " card 4111", "card 4222", "card 4111"):
            session.reserve("pay", {"card": card})
        for number in (42, "42.0", "\u200b42", 42.0):
            session.reserve("pay", {"card": number})
        amounts = Session(contracts=rules[1:], evidence=evidence)
        for _ in range(3):
            amounts.reserve("pay", {"card": "1", "pin": 60})

    assert b"card 4" not in path.read_bytes()
    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert (report.derived, report.not_derivable) == (8, 3)


@pytest.mark.parametrize(
    ("rule", "calls"),
    [
        pytest.param(
            at_most_n_times("pay", 1, key="card", fold="case"),
            [("pay", {"card": "Ann"}), ("pay", {"card": "ann"}), ("pay", {"card": "Bob"})],
            id="one argument",
        ),
        pytest.param(
            at_most_n_times("pay", 1, key="card", fold="number"),
            [("pay", {"card": "007"}), ("pay", {"card": 7}), ("pay", {"card": "8"})],
            id="by value",
        ),
        pytest.param(
            at_most_n_times("pay", 1, key=["card", "shop"], fold="case"),
            [("pay", {"card": card, "shop": shop}) for card, shop in ("Ax", "aX", "Ay")],
            id="several together",
        ),
        pytest.param(
            at_most_n_times("pay", 1, key="*", fold="case"),
            [("pay", {"card": "Ann"}), ("pay", {"card": "ann"}), ("pay", {"card": "Bob"})],
            id="all arguments",
        ),
        pytest.param(
            must_precede("log_in", "pay", key={"log_in": "user", "pay": "card"}, fold="case"),
            [("log_in", {"user": "ANN"}), ("pay", {"card": "Bob"}), ("pay", {"card": "ann"})],
            id="another one for each tool, which is not redacted",
        ),
    ],
)
def test_a_redacted_key_with_several_spellings_still_counts(
    tmp_path: Path, rule: Template, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    """Its marker is one of what the spellings have in common."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
        session = Session(contracts=[rule], evidence=evidence)
        said = []
        for tool, args in calls:
            call = session.reserve(tool, args)
            said.append(call.allowed)
            if call.allowed:
                call.commit()
    assert sorted(said) == [False, True, True]

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert (report.derived, report.not_derivable) == (3, 0)
    reserve = next(entry.data for entry in read_entries(path) if entry.data.get("e") == "reserve")
    assert all(text.startswith("***REDACTED(hmac-sha256:") for text in reserve["keys"].values())


def test_redacted_values_are_told_apart(tmp_path: Path) -> None:
    """By their markers, unless their spellings are folded."""
    cases: tuple[tuple[Fold | None, int], ...] = ((None, 0), ("case", 4))
    for fold, not_derivable in cases:
        path = tmp_path / f"{fold}.jsonl"
        with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
            session = Session(contracts=[max_distinct("pay", "card", 2, fold=fold)], evidence=evidence)
            cards = ("a", "b", "a", "c")
            said = [session.reserve("pay", {"card": card}).allowed for card in cards]
        assert said == [True, True, True, False]

        report = rerun_file(path)
        assert (report.differences, report.problems) == ((), ())
        assert report.not_derivable == not_derivable


def test_a_redacted_key_of_what_really_ran_counts_too(tmp_path: Path) -> None:
    """Its marker stands in the step of the end."""
    path = tmp_path / "e.jsonl"
    rule = at_most_n_times("pay", 1, key="card", fold="case")
    with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
        session = Session(contracts=[rule], evidence=evidence)
        session.reserve("pay", {"card": "Ann"}).commit("done", args={"card": "Bob"})
        assert [session.reserve("pay", {"card": card}).allowed for card in ("bob", "ann", "C")] == [
            False,
            False,
            True,
        ]

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert (report.derived, report.not_derivable) == (4, 0)


def test_what_hides_nothing_is_not_remembered(tmp_path: Path) -> None:
    """Each decision looks through the calls that hide something: all would be the square of their number."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[must_precede("backup", "delete")], evidence=evidence)
        for _ in range(50):
            session.call("backup")
    entries = list(read_entries(path))
    rules = {entry.data["hash"]: entry.data for entry in entries if entry.type == "rules"}
    rerun = Rerun()
    steps = [(entry.number, entry.data) for entry in entries if entry.type == "step"]
    for _ in rerun.follow(steps, rules):
        pass
    assert rerun.found.derived == 50
    assert rerun._unseen._of_calls == {}


def test_arguments_that_are_not_in_the_log_are_not_derivable(tmp_path: Path) -> None:
    """What was cut for its size, and what nobody may see."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(
            contracts=[at_most_n_times(matching("Bash", "rm"), 0), at_most_total("pay", "amount", 9)],
            evidence=evidence,
        )
        session.reserve("Bash", {"command": "ls " * 20_000})
        session.reserve("pay", {"amount": 3, "letter": "x" * 50_000}).commit(shown={"amount": "hidden"})
        session.reserve("other", {"text": "x" * 50_000})

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert (report.derived, report.not_derivable) == (2, 1)


def test_a_log_that_lost_its_beginning_says_so(tmp_path: Path) -> None:
    """A session whose first steps are not there cannot be followed, and that is no success."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps", max_bytes=3_000) as evidence:
        session = Session(contracts=[at_most_n_times("x", 1)], evidence=evidence)
        for _ in range(40):
            session.reserve("y")
    (tmp_path / "e.000001.jsonl").unlink()

    report = rerun_file(path)
    assert not report.ok
    assert "the session has no beginning here" in report.problems[0]


def test_rules_that_were_exchanged_are_named(tmp_path: Path) -> None:
    """Also where every decision follows from them, and where there are none left."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[at_most_total("pay", "amount", 100)], evidence=evidence)
        session.call("pay", {"amount": 60})
        session.reserve("pay", {"amount": 60})
    assert rerun_file(path).ok
    (number,) = (entry.number for entry in read_entries(path) if entry.type == "rules")

    def raise_the_limit(body: dict[str, Any]) -> None:
        body["contracts"][0]["terms"]["limit"] = ["number", "110"]

    for change in (raise_the_limit, lambda body: body["contracts"].clear()):
        changed(path, change, number=number)
        report = rerun_file(path)
        assert not report.ok
        (problem,) = report.problems
        assert problem.endswith(": the rules of the session are not those that their hash is of")


def test_a_contract_that_is_not_there_is_no_step(tmp_path: Path) -> None:
    """A refusal by the tenth of one contract cannot be followed, and its line is named."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[at_most_n_times("pay", 0)], evidence=evidence)
        session.reserve("pay")
    (number,) = reserved(path, "pay", allowed=False)

    changed(path, lambda body: body.update(broken=[9]), number=number)
    report = rerun_file(path)

    assert not report.ok
    assert report.problems == (f"line {number}: not a step (IndexError)",)


def test_other_logs_have_nothing_to_derive(tmp_path: Path) -> None:
    """A log without steps is not derived, and not called right."""
    with EvidenceFile(tmp_path / "e.jsonl", record="all") as evidence:
        Session(contracts=[at_most_n_times("x", 0)], evidence=evidence).reserve("x")

    report = rerun_file(tmp_path / "e.jsonl")
    assert (report.ok, report.derived, report.sessions) == (False, 0, 0)
    assert json.loads(json.dumps(report.to_dict()))["ok"] is False


PARTS = [
    response("login", "read", 2.5),
    requires_state("read", "rate", 0.1),
    rate_limit("read", 1, 0.25),
    came_from("pay", "rate", [{"values": [0.1, 7, "x"]}]),
]


@pytest.mark.parametrize("contract", [*contracts(), *PARTS], ids=lambda contract: contract.spec)
def test_a_contract_is_rebuilt_as_it_was(contract: Template) -> None:
    """Of its canonical form, after a way through JSON."""
    form = json.loads(json.dumps(meaning_of(contract)))
    again = rebuilt(form)

    assert again is not None
    assert meaning_of(again) == form
    assert rebuilt({**form, "template": "another"}) is None
    assert rebuilt({**form, "terms": {}}) is None
    assert rebuilt({**form, "code": ["x.y", "z"]}) is None


def test_what_is_code_is_not_rebuilt() -> None:
    """Nobody can say what it does."""
    assert rebuilt(meaning_of(at_most_n_times(lambda tool, args: True, 1))) is None
    assert rebuilt(meaning_of(rate_limit("x", 1, 1, clock=lambda: 0.0))) is None


ODD = [{"a"}, float("nan"), Decimal("NaN"), b"\xff", object(), 10**700, 1j]


@pytest.mark.parametrize(
    ("rule", "values", "not_derivable"),
    [
        pytest.param(
            at_most_n_times("pay", 1, key="card"), [None, ["a"], {"n": 1}, True, "a", "a"], 0, id="no key"
        ),
        pytest.param(at_most_n_times("pay", 1, key="card"), [*ODD, b"a", "a"], 0, id="nothing to see"),
        pytest.param(at_most_n_times("pay", 1, key="*"), [*ODD, b"a", "a"], 0, id="nothing to see in all"),
        pytest.param(at_most_n_times("pay", 1, key="card.n"), [{"n": 1}, {"n": 1}], 2, id="a key inside"),
        pytest.param(response("pay", "tell", key="card.n"), [{"n": 1}], 2, id="a key that is owed"),
        pytest.param(max_distinct("pay", "card", 1), [["a"], ["b"]], 2, id="a list of values"),
    ],
)
def test_a_redacted_value_that_is_no_key_does_not_pass_for_one(
    tmp_path: Path, rule: Template, values: list[Any], not_derivable: int
) -> None:
    """Nothing, a list or an object is refused as a key, and its marker would be one."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
        session = Session(contracts=[rule], evidence=evidence)
        for value in values:
            call = session.reserve("pay", {"card": value})
            if call.allowed:
                call.commit()
        session.end_session()

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert report.not_derivable >= not_derivable
    assert report.derived + report.not_derivable == len(values) + 1


def test_a_decision_that_is_unknown_halts_no_session(tmp_path: Path) -> None:
    """What seems to be refused is let through in the record, and what follows is judged as it was."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
        rules = [max_distinct("pay", "card", 1, fold="case"), at_most_n_times("look", 1)]
        session = Session(contracts=rules, evidence=evidence, halt_on_violation="session")
        for tool, card in (("pay", "ann"), ("pay", "ANN"), ("look", "x"), ("look", "x")):
            session.reserve(tool, {"card": card})

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())


@pytest.mark.parametrize("halting", ["contract", "session"])
def test_what_was_halted_by_what_is_hidden_is_halted(tmp_path: Path, halting: str) -> None:
    """That it was broken is the log's word, and so is what follows from it."""
    path = tmp_path / "e.jsonl"
    on_violation: Literal["halt", "refuse"] = "halt" if halting == "contract" else "refuse"
    ban = never(matching("pay", "evil", field="card"), on_violation=on_violation)
    rules = [ban, at_most_n_times("look", 9)]
    with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
        options: dict[str, Any] = {"halt_on_violation": "session"} if halting == "session" else {}
        session = Session(contracts=rules, evidence=evidence, **options)
        said = [session.reserve("pay", {"card": "evil"}).allowed, session.reserve("look").allowed]

    report = rerun_file(path)
    assert said == [False, False]
    assert (report.differences, report.problems, report.not_derivable) == ((), (), 1)


def refused_anyway(session: Session) -> None:
    session.reserve("drop", {"card": "ann"})


def ended_otherwise(session: Session) -> None:
    session.reserve("buy", {"items": []}).commit(args={"items": [{"card": 2}]})


def judged_again(session: Session) -> None:
    call = session.reserve("pay", {"card": "ann"})
    session.call("look")
    assert call.recheck()


@pytest.mark.parametrize("act", [refused_anyway, ended_otherwise, judged_again], ids=lambda act: act.__name__)
def test_what_only_seems_to_be_broken_halts_no_session(
    tmp_path: Path, act: Callable[[Session], None]
) -> None:
    """A marker is not what a contract requires; how the call went, and that nothing halted, the log says."""
    path = tmp_path / "e.jsonl"
    known = "args.card == 'ann' || session.look == 0"
    rules = [
        never("drop"),
        requires("drop", "args.card == 'ann'", on_violation="halt"),
        requires("pay", known, on_violation="halt", recheck=True),
        at_most_total("buy", "items.*.card", 5, on_violation="halt"),
        at_most_n_times("look", 9),
    ]
    with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
        session = Session(contracts=rules, evidence=evidence)
        act(session)
        assert session.reserve("look").allowed

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert (report.derived > 0, report.not_derivable > 0) == (True, True)


def test_what_is_hidden_of_a_call_under_way_is_still_hidden_when_rules_are_replaced(tmp_path: Path) -> None:
    """It is judged by what it was let through by, whether that stayed or is no more."""
    for later in ([at_most_n_times("look", 3)], []):
        path = tmp_path / f"{len(later)}.jsonl"
        stays = never(matching("pay", "evil", field="card"))
        with EvidenceFile(path, record="steps", redact_fields=["card"]) as evidence:
            session = Session(contracts=[at_most_n_times("look", 1), stays], evidence=evidence)
            call = session.reserve("pay", {"card": "ann"})
            session.replace_contracts([*later, *([stays] if later else [at_most_n_times("pay", 7)])])
            call.commit(args={"card": "evil"})

        report = rerun_file(path)
        assert (report.differences, report.problems) == ((), ())


def test_a_contract_that_was_replaced_is_called_as_it_was_written(tmp_path: Path) -> None:
    """A call that it had let through ends with other arguments, and breaks it then."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[at_most_total("pay", "n", 5, key=["who", "note"])], evidence=evidence)
        call = session.reserve("pay", {"who": "a", "note": "b", "n": 1})
        session.replace_contracts([at_most_n_times("pay", 9)])
        call.commit(args={"who": "a", "note": "b", "n": 9})

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())


@pytest.mark.parametrize("when", ["args.amount > 3", "args . amount>3"])
def test_what_is_learnt_under_a_condition_is_found_again(tmp_path: Path, when: str) -> None:
    """The memory has one name however the condition is spaced, and rules in a log have it in tokens."""
    path = tmp_path / "e.jsonl"
    rules = [came_from("pay", "to", sources=[{"tool": "look", "path": "ids"}], when=when)]
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=rules, evidence=evidence)
        session.reserve("look", {"amount": 5}).commit({"ids": ["ann"]})
        said = [session.reserve("pay", {"amount": 5, "to": to}).allowed for to in ("ann", "bob")]

    assert said == [True, False]
    assert rerun_file(path).differences == ()


def test_the_age_of_an_initial_state_is_known(tmp_path: Path) -> None:
    """It was written when the session began, which stands in the log."""
    path, clock = tmp_path / "e.jsonl", ManualClock(1000)
    with EvidenceFile(path, record="steps") as evidence:
        rules = [requires_state("ship", "paid", True, within=30)]
        session = Session({"paid": True}, contracts=rules, clock=clock.time, evidence=evidence)
        clock.advance(20)
        assert session.reserve("ship").allowed
        clock.advance(20)
        assert not session.reserve("ship").allowed
    assert rerun_file(path).ok


def test_text_that_is_not_unicode_is_a_key_like_any_other(tmp_path: Path) -> None:
    """Half of a character, as a value and as a name."""
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[at_most_n_times("x", 1, key="k")], evidence=evidence)
        said = [
            session.reserve("x", {"k": key, "\udfff": 1}).allowed for key in ("\ud800", "\ud801", "\ud800")
        ]
    assert said == [True, True, False]
    assert rerun_file(path).ok


def test_a_clock_that_shows_nothing_from_the_first_call_on_is_told(tmp_path: Path) -> None:
    """A call is refused for that before any time was known, and derived again as refused."""
    path, shows = tmp_path / "e.jsonl", [1000.0]

    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[rate_limit("pay", 2, 60)], clock=lambda: shows[0], evidence=evidence)
        shows[0] = float("nan")
        said = [session.reserve("pay").allowed]
        shows[0] = 1001.0
        said += [session.reserve("pay").allowed for _ in range(3)]

    assert said == [False, True, True, False]
    report = rerun_file(path)
    assert report.differences == ()
    assert report.derived == 4


def refused_by_code(session: Session) -> None:
    session.reserve("pay", {"evil": True})


def ended_against_code(session: Session) -> None:
    session.reserve("pay", {}).commit(args={"evil": True})


def judged_again_by_code(session: Session) -> None:
    call = session.reserve("send", {"evil": True})
    session.call("login")
    assert not call.recheck()


@pytest.mark.parametrize(
    "act", [refused_by_code, ended_against_code, judged_again_by_code], ids=lambda act: act.__name__
)
def test_what_was_halted_by_code_is_halted(tmp_path: Path, act: Callable[[Session], None]) -> None:
    """That it was broken is the log's word, and so is what follows from it."""
    path = tmp_path / "e.jsonl"
    rules = [
        never(ContentMatch("pay", lambda args: "evil" in args), on_violation="halt"),
        never_after(ContentMatch("send", lambda args: True), "login", on_violation="halt", recheck=True),
        at_most_n_times("look", 9),
    ]
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=rules, evidence=evidence)
        act(session)
        assert not session.reserve("look").allowed

    report = rerun_file(path)
    assert (report.differences, report.problems) == ((), ())
    assert report.on_code == 1


def test_code_that_was_replaced_is_still_taken_at_its_word(tmp_path: Path) -> None:
    """A call that it had let through breaks it at its end, or is refused by it after it has waited."""
    path = tmp_path / "e.jsonl"
    ban = never(ContentMatch("pay", lambda args: "evil" in args))
    order = never_after(ContentMatch("send", lambda args: True), "login", recheck=True)
    with EvidenceFile(path, record="steps") as evidence:
        session = Session(contracts=[ban, order], evidence=evidence)
        pay, send = session.reserve("pay"), session.reserve("send")
        session.call("login")
        session.replace_contracts([at_most_n_times("look", 9)])
        pay.commit(args={"evil": True})
        assert not send.recheck()

    report = rerun_file(path)
    assert (report.differences, report.problems, report.on_code) == ((), (), 2)
