"""The logs of workers between which a session moved, set against each other."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rechaining import rechained
from openbox_agentrt.acel import (
    ContractViolation,
    Reservation,
    Session,
    at_most_total,
    came_from,
    must_precede,
)
from openbox_agentrt.acel.contracts.template import Template
from openbox_agentrt.acel.rerun import RerunReport, rerun_file, rerun_files
from openbox_agentrt.acel.session import engine_of
from openbox_agentrt.cli import main
from openbox_agentrt.evidence import EvidenceFile, read_entries
from openbox_agentrt.fleet import SqliteFleet
from openbox_agentrt.testing import ManualClock

KEY = b"the same for all workers"


class Workers:
    """Workers of one store, each with a log of its own, between which one session moves."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.store = folder / "fleet.db"
        self._options = options

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def work(self, name: str, *amounts: int, **options: Any) -> list[bool]:
        """Go on with the session, pay these amounts to ann, and leave it."""
        given = {**self._options, **options}
        log = EvidenceFile(self.log(name), record="steps", **given)
        with log, closing(SqliteFleet(self.store, timeout_seconds=20)) as fleet:
            session = Session(
                contracts=[
                    must_precede("verify", "pay"),
                    at_most_total("pay", "amount", 500, key="to"),
                ],
                fleet=fleet,
                durable=True,
                session_id="s-1",
                evidence=log,
            )
            session.call("verify")
            calls = [session.reserve("pay", {"to": "ann", "amount": amount}) for amount in amounts]
            allowed = [call.allowed and call.start() for call in calls]
            for call in calls:
                if call.allowed:
                    call.commit("paid")
            session.release()
        return allowed

    def derived(self, *names: str) -> list[RerunReport]:
        return rerun_files([self.log(name) for name in names])


@pytest.fixture
def workers(tmp_path: Path) -> Workers:
    return Workers(tmp_path)


@pytest.fixture
def hiding(tmp_path: Path) -> Workers:
    return Workers(tmp_path, redact_fields=["to"], redaction_key=KEY)


def clean(reports: list[RerunReport]) -> bool:
    return all((each.differences, each.problems, each.not_derivable) == ((), (), 0) for each in reports)


def test_a_log_that_shows_the_memory_needs_no_other(workers: Workers) -> None:
    """With both, it is also shown that this is what the other left."""
    assert workers.work("a", 300) == [True]
    assert workers.work("b", 300, 200) == [False, True]

    alone, (_, both) = rerun_file(workers.log("b")), workers.derived("a", "b")

    assert (alone.ok, alone.not_derivable, alone.moved, alone.unproven) == (True, 0, 0, 1)
    assert (both.ok, both.not_derivable, both.moved, both.unproven) == (True, 0, 1, 0)


def test_a_memory_that_is_hidden_follows_from_the_log_of_who_left_it(
    hiding: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    """There and back again, also when the later log is given first."""
    hiding.work("a", 300)
    hiding.work("b", 300, 100)
    hiding.work("a", 200, 100)

    alone = rerun_file(hiding.log("b"))
    assert (alone.ok, alone.not_derivable) == (True, 3)
    later, earlier = hiding.derived("b", "a")
    assert clean([later, earlier])
    assert (later.moved, earlier.moved) == (1, 1)
    for name in "ab":
        assert '"ann"' not in hiding.log(name).read_text()
    assert main(["verify", str(hiding.log("a")), str(hiding.log("b")), "--rerun"]) == 0
    assert capsys.readouterr().out.count("1 time(s) a session went on as another log shows it was left") == 2


def alter_store(store: Path) -> None:
    """Give ann back what she had, behind the workers' back."""
    less = "update piece set value = replace(value, '300', '3') where value like '%\"total\":\"300\"%'"
    with closing(sqlite3.connect(store)) as database:
        assert database.execute(less).rowcount == 1
        database.commit()


@pytest.mark.parametrize("hides", [False, True], ids=["shown", "hidden"])
def test_a_store_that_was_altered_is_named(workers: Workers, hiding: Workers, hides: bool) -> None:
    """What the one left is not what the other found; by its own log alone, all is right."""
    each = hiding if hides else workers
    each.work("a", 300)
    alter_store(each.store)
    assert each.work("b", 400) == [True]

    assert rerun_file(each.log("b")).differences == ()
    _, report = each.derived("a", "b")

    assert [(one.recorded, one.derived) for one in report.differences] == [
        ("a memory that it says another log left", "none that is left there")
    ]


def change(path: Path, event: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the first step of a kind and make all hashes anew."""
    done: list[int] = []

    def edited(line: Any, body: dict[str, Any]) -> object:
        if done or body.get("e") != event:
            return None
        done.append(line.seq)
        return edit(body)

    path.write_bytes(rechained(path.read_bytes().splitlines(keepends=True), edited)[0])
    assert done


def less_spent(step: dict[str, Any]) -> None:
    (name,) = [name for name in step["memory"]["cells"] if name.startswith("sum")]
    step["memory"]["cells"][name]["ann"]["total"] = "3"


@pytest.mark.parametrize("name", ["nobody", None], ids=["another", "none"])
def test_a_store_that_was_altered_with_who_left_it_does_not_pass(
    workers: Workers, capsys: pytest.CaptureFixture[str], name: str | None
) -> None:
    """Nothing shows what the session went on with, in whatever logs there are."""
    workers.work("a", 300)
    alter_store(workers.store)
    with closing(sqlite3.connect(workers.store)) as store:
        ((head,),) = store.execute("select value from piece where value like '%left_by%'").fetchall()
        said = {**json.loads(head), "left_by": name}
        if name is None:
            del said["left_by"]
        store.execute("update piece set value = ? where value = ?", (json.dumps(said), head))
        store.commit()
    assert workers.work("b", 400) == [True]
    logs = [str(workers.log(each)) for each in "ab"]

    assert main(["verify", *logs, "--rerun"]) == 1
    assert "UNPROVEN 1 time(s)" in capsys.readouterr().err
    assert main(["verify", *logs, "--rerun", "--allow-unproven"]) == 0


def test_a_snapshot_is_the_word_of_its_program(workers: Workers) -> None:
    """It has no store that could be altered, and no other log."""
    rules = [at_most_total("pay", "amount", 500)]
    with EvidenceFile(workers.log("a"), record="steps") as log:
        session = Session(contracts=rules, evidence=log)
        session.call("pay", {"amount": 300})
        again = Session.restore(session.snapshot(), rules, evidence=log)
        again.call("pay", {"amount": 200})

    report = rerun_file(workers.log("a"))
    assert (report.ok, report.restored, report.unproven) == (True, 1, 0)
    assert main(["verify", str(workers.log("a")), "--rerun"]) == 0


def test_a_memory_that_was_changed_in_the_log_is_named(workers: Workers) -> None:
    """With its cell, and all that follows from it."""
    workers.work("a", 300)
    workers.work("b", 100)
    change(workers.log("b"), "restore", less_spent)

    assert rerun_file(workers.log("b")).ok
    _, report = workers.derived("a", "b")

    (difference,) = report.differences
    assert difference.recorded.startswith("remembers sum(pay")
    assert difference.derived == "not as it was left in another log"


def test_a_decision_that_was_changed_before_the_move_is_found_after_it(hiding: Workers) -> None:
    """Also where the log of the other hides what it went on with."""
    hiding.work("a", 300)
    assert hiding.work("b", 300) == [False]

    lines = hiding.log("b").read_bytes().splitlines(keepends=True)

    def flipped(line: Any, body: dict[str, Any]) -> object:
        if body.get("e") == "reserve" and not body["allowed"]:
            body.pop("broken")
            body["allowed"] = True
        return None

    hiding.log("b").write_bytes(rechained(lines, flipped)[0])
    _, report = hiding.derived("a", "b")
    assert [each.recorded for each in report.differences] == ["allowed"]


def left_marks(path: Path) -> Iterator[str]:
    for entry in read_entries(path):
        if entry.data.get("e") == "left":
            yield entry.data["mark"]


def test_what_cannot_be_compared_is_no_difference(tmp_path: Path) -> None:
    """Marks under two keys; a worker whose last steps are not in its log; one whose log is not there."""
    workers = Workers(tmp_path, redact_fields=["to"])
    workers.work("a", 300, redaction_key=KEY)
    workers.work("b", 100, redaction_key=b"another one than the first")
    reports = workers.derived("a", "b")
    assert [each.differences for each in reports] == [(), ()]
    assert reports[1].not_derivable == 2

    hiding = Workers(tmp_path / "other", redact_fields=["to"], redaction_key=KEY)
    hiding.folder.mkdir()
    hiding.work("a", 300)
    hiding.work("b", 100)
    last = list(left_marks(hiding.log("a")))[-1]
    lines = hiding.log("a").read_bytes().splitlines(keepends=True)

    def cut(line: Any, body: dict[str, Any]) -> object:
        return "drop" if body.get("mark") == last else None

    hiding.log("a").write_bytes(rechained(lines, cut)[0])
    reports = hiding.derived("a", "b")
    assert [each.differences for each in reports] == [(), ()]
    assert reports[1].not_derivable == 2
    assert clean([*hiding.derived("a")])


def held(log: Path, store: Path, contract: Template, act: Callable[[Session], object], **more: Any) -> None:
    """Hold one session of one contract, and leave it."""
    hides = more.pop("hides", False)
    options: dict[str, Any] = {"redact_fields": ["to"], "redaction_key": KEY} if hides else {}
    with EvidenceFile(log, record="steps", **options) as evidence, closing(SqliteFleet(store)) as fleet:
        session = Session(
            contracts=[contract], fleet=fleet, durable=True, session_id="s-1", evidence=evidence, **more
        )
        act(session)
        session.release()


@pytest.mark.parametrize("between", [1, 2])
def test_what_the_workers_between_did_not_count_follows_from_who_did(tmp_path: Path, between: int) -> None:
    """It was kept for whoever counts it: a worker that does not leaves it as it was left to it."""
    first, limit = must_precede("verify", "pay"), at_most_total("look", "amount", 5)
    logs = [tmp_path / f"{name}.jsonl" for name in "abcd"[: between + 2]]
    store = tmp_path / "fleet.db"
    held(logs[0], store, first, lambda session: session.call("verify", {"to": "ann"}), hides=True)
    for log in logs[1:-1]:
        held(log, store, limit, lambda session: session.call("look", {"to": "ann", "amount": 1}), hides=True)
    held(logs[-1], store, first, lambda session: session.call("pay", {"to": "ann"}), hides=True)

    assert clean(rerun_files(logs))
    # Without the log of whoever counted it, nothing shows it.
    assert [each.not_derivable for each in rerun_files(logs[1:])][-1] == 1


def test_what_is_left_after_a_call_has_ended_is_said_again(tmp_path: Path) -> None:
    """By the same mark, where the end takes back what it had moved: it is so after the step as well."""
    with EvidenceFile(tmp_path / "log.jsonl", record="steps") as log:
        session = Session(contracts=[at_most_total("pay", "amount", 500)], evidence=log)
        store = engine_of(session).store
        call = session.reserve("pay", {"amount": 1})
        for _ in range(2):
            with store.lock:
                store.note_left("as it was before")
        call.abort()
        with store.lock:
            store.note_left("as it was before")
        store.tell()

    steps = [entry.data["e"] for entry in read_entries(tmp_path / "log.jsonl") if "e" in entry.data]
    assert steps == ["start", "reserve", "left", "abort", "left"]


def test_words_that_no_longer_count_are_no_part_of_a_memory(tmp_path: Path) -> None:
    """A question that is not recorded forgets them in the one, and nothing does in the other."""
    clock = ManualClock()
    rule = came_from("pay", "to", sources=[{"tool": "say", "named": True}], within=5)
    logs = [tmp_path / f"{name}.jsonl" for name in "ab"]

    def act(session: Session) -> None:
        session.call("say", {}, result="to ann please")
        clock.advance(9)
        session.reserve("say").abort()
        session.would("pay", {"to": "ann"})

    for log in logs:
        held(log, tmp_path / "fleet.db", rule, act, clock=clock.time)

    assert [(each.differences, each.problems) for each in rerun_files(logs)] == [((), ())] * 2


def test_steps_of_a_version_without_marks_are_followed_as_before(workers: Workers) -> None:
    """It says nothing of who left the session, and shows what it remembered."""
    workers.work("a", 300)
    workers.work("b", 300, 200)
    for name in "ab":
        lines = workers.log(name).read_bytes().splitlines(keepends=True)

        def older(line: Any, body: dict[str, Any]) -> object:
            body.pop("mark", None)
            body.pop("left_by", None)
            return "drop" if body.get("e") == "left" else None

        workers.log(name).write_bytes(rechained(lines, older)[0])

    reports = workers.derived("a", "b")
    assert clean(reports)
    assert [each.moved for each in reports] == [0, 0]


def test_a_memory_that_cannot_be_read_is_no_difference(workers: Workers) -> None:
    """What was refused meanwhile follows, and so does what came once it could be read again."""
    workers.work("a", 300)
    with closing(sqlite3.connect(workers.store)) as store:
        kept = store.execute("select value, name from piece").fetchall()
        store.execute("update piece set value = '7' where value like '%\"total\":\"300\"%'")
        store.commit()
        with pytest.raises(ContractViolation):
            workers.work("b", 300)
        store.executemany("update piece set value = ? where name = ?", kept)
        store.commit()
    assert workers.work("b", 300, 1) == [False, True]

    assert clean(workers.derived("a", "b"))


@pytest.mark.parametrize("hidden", [False, True], ids=["shown", "hidden"])
def test_what_was_left_unmeasured_counts_in_the_logs_from_when_it_did(tmp_path: Path, hidden: bool) -> None:
    """Its window begins when another worker goes on, which the step says also where the memory is hidden."""
    clock = ManualClock(1000.0)
    rules = [at_most_total("ask", "tokens", 5, within=100, key="to")]
    hides: dict[str, Any] = {"redact_fields": ["to"], "redaction_key": KEY} if hidden else {}

    def work(name: str, seconds: float, **asked: Any) -> list[Reservation]:
        log = EvidenceFile(tmp_path / f"{name}.jsonl", record="steps", **hides)
        with log, closing(SqliteFleet(tmp_path / "fleet.db", timeout_seconds=20)) as fleet:
            session = Session(
                contracts=rules,
                fleet=fleet,
                durable=True,
                session_id="s-1",
                evidence=log,
                clock=clock.time,
            )
            calls = [session.reserve("ask", started=True, **asked)]
            clock.advance(seconds)
            calls.append(session.reserve("ask", started=True, **asked))
            session.release()
        return calls

    left = work("a", 120, args={"to": "ann"}, deferred=["tokens"])
    after = work("b", 101, args={"to": "ann", "tokens": 1})

    assert [call.allowed for call in (*left, *after)] == [True, True, False, True]
    assert clean(rerun_files([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]))
