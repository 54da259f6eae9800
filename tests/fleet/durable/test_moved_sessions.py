"""A session that moves between workers answers call by call like one that never moved."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import (
    Session,
    at_most_n_times,
    build_contract,
    came_from,
    keeps_out,
    must_precede,
    never_after,
    response,
)
from openbox_agentrt.acel.rerun import rerun_files
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.fleet import Fleet, RedisFleet, SqliteFleet
from openbox_agentrt.testing import ManualClock
from tests.acel.engine.snapshot.test_snapshot import SPECS
from tests.fleet.redis_server import RedisServer

_names = count()


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def workers(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[Fleet, Fleet]]:
    """Two workers of one store."""

    def make() -> Fleet:
        if request.param == "sqlite":
            return SqliteFleet(folder / "fleet.db", timeout_seconds=20)
        server: RedisServer = request.getfixturevalue("shared_server")
        return RedisFleet(f"{server.url}?namespace={name}", timeout_seconds=20)

    folder, name = tmp_path_factory.mktemp("fleet"), uuid.uuid4().hex
    with closing(make()) as one, closing(make()) as two:
        yield one, two


def test_a_contract_that_was_added_on_the_way_is_remembered(workers: tuple[Fleet, Fleet]) -> None:
    """Another worker has it among its rules. What it counts has a name that says since when."""
    rules = [at_most_n_times("b", 9)]
    added = never_after("b", "a", key="k")
    one, two = workers
    name = f"added-{next(_names)}"
    first = Session(contracts=rules, fleet=one, durable=True, session_id=name)
    first.call("c", {})
    first.add_contract(added)
    first.call("a", {"k": "x"})
    first.release()

    then = Session(contracts=[*rules, added], fleet=two, durable=True, session_id=name)

    assert [then.reserve("b", {"k": value}).allowed for value in "xy"] == [False, True]
    then.release()


def test_what_was_given_back_last_is_not_counted_elsewhere(workers: tuple[Fleet, Fleet]) -> None:
    """A call that was dropped before it began is settled before what the session remembers is written."""
    rules = [at_most_n_times("a", 1)]
    name = f"given-back-{next(_names)}"
    first = Session(contracts=rules, fleet=workers[0], durable=True, session_id=name)
    first.reserve("a").forgo()
    first.release()

    then = Session(contracts=rules, fleet=workers[1], durable=True, session_id=name)

    assert then.reserve("a").allowed
    then.release()


def test_values_that_were_found_are_known_after_a_worker_without_their_contract(
    workers: tuple[Fleet, Fleet],
) -> None:
    """They are remembered as digests, under a key that goes along with the session."""
    source = came_from("pay", "to", sources=[{"tool": "find", "path": "to"}])
    ban = keeps_out("mail", "text", {"tool": "read", "path": "secret"})
    name = f"found-{next(_names)}"
    first = Session(contracts=[source, ban], fleet=workers[0], durable=True, session_id=name)
    first.call("find", {}, result={"to": "ann"})
    first.call("read", {}, result={"secret": "s3cr3t-word"})
    first.release()
    between = Session(contracts=[at_most_n_times("b", 9)], fleet=workers[1], durable=True, session_id=name)
    between.call("b", {})
    between.release()

    then = Session(contracts=[source, ban], fleet=workers[0], durable=True, session_id=name)

    assert [then.reserve("pay", {"to": to}).allowed for to in ("ann", "bob")] == [True, False]
    assert not then.reserve("mail", {"text": "it is s3cr3t-word"}).allowed
    then.release()


steps = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["x", "y", 1, "\ud800"]),
        st.integers(0, 4),
        st.integers(0, 9),
        st.sampled_from(["commit", "commit", "commit", "fail", "undo", "lose"]),
        st.sampled_from(["stay", "stay", "move", "move anew"]),
    ),
    min_size=4,
    max_size=16,
)


@settings(max_examples=15, deadline=None)
@given(
    rules=st.lists(st.sampled_from(SPECS), min_size=2, max_size=6, unique_by=str),
    schedule=steps,
    mode=st.sampled_from(["enforce", "shadow"]),
    redacted=st.sampled_from([None, "k", "other"]),
)
def test_it_answers_as_if_it_had_stayed(
    workers: tuple[Fleet, Fleet],
    tmp_path_factory: pytest.TempPathFactory,
    rules: Any,
    schedule: Any,
    mode: Any,
    redacted: str | None,
) -> None:
    """Every kind of memory, whoever has it, and whether that knew it before; and so it is derived again."""
    clock = ManualClock(1000)
    stays = Session({"s": 1}, contracts=map(build_contract, rules), mode=mode, clock=clock.time)
    name = f"moved {next(_names)}"
    folder = tmp_path_factory.mktemp("logs")
    logs = [
        EvidenceFile(
            folder / f"{at}.jsonl",
            record="steps",
            redact_fields=None if redacted is None else [redacted],
            redaction_key=b"the same for both of them",
        )
        for at in range(2)
    ]
    moves = _Moves(workers, name, rules, mode, clock, logs)
    for tool, key, n, wait, ends, where in schedule:
        moves.go(where)
        answers = []
        for session in (stays, moves.session):
            call = session.reserve(tool, {"k": key, "n": n})
            said = None if call.refusal is None else str(call.refusal.for_model())
            answers.append((call.step, call.allowed, said, [v.spec for v in call.violations]))
            if call.allowed and call.start():
                _end(call, ends)
        assert answers[0] == answers[1]
        clock.advance(wait)
    moves.go("move anew")
    moves.session.hold()

    assert moves.session.unmet() == stays.unmet()
    assert [v.spec for v in moves.session.end_session()] == [v.spec for v in stays.end_session()]
    moves.session.release()
    for log in logs:
        log.close()
    for report in rerun_files([folder / "0.jsonl", folder / "1.jsonl"]):
        assert (report.differences, report.problems, report.not_derivable) == ((), (), 0)


class _Moves:
    """A durable session, and the worker that has it."""

    def __init__(
        self, workers: tuple[Fleet, Fleet], name: str, rules: Any, mode: Any, clock: Any, logs: Any
    ) -> None:
        self._workers = workers
        self._logs = logs
        self._made = (name, rules, mode, clock)
        self._known = [self._make(0), self._make(1)]
        self._at = 0

    @property
    def session(self) -> Session:
        return self._known[self._at]

    def go(self, where: str) -> None:
        if where == "stay":
            return
        self.session.release()
        self._at = 1 - self._at
        if where == "move anew":
            self._known[self._at] = self._make(self._at)

    def _make(self, at: int) -> Session:
        name, rules, mode, clock = self._made
        return Session(
            {"s": 1},
            contracts=map(build_contract, rules),
            mode=mode,
            clock=clock.time,
            fleet=self._workers[at],
            durable=True,
            session_id=name,
            evidence=self._logs[at],
        )


def _end(call: Any, ends: str) -> None:
    if ends == "commit":
        call.commit("done")
    elif ends == "lose":
        call.lose()
    else:
        call.abort(ran=ends == "fail")


def test_a_call_under_way_when_its_worker_dies_counts_and_allows_nothing(workers: Any) -> None:
    """Nobody knows whether it ran."""

    def rules() -> list[Any]:
        return [at_most_n_times("pay", 1), must_precede("pay", "ship")]

    one, two = workers
    name = f"dies {next(_names)}"
    first = Session(contracts=rules(), fleet=one, durable=True, session_id=name)
    call = first.reserve("pay")
    assert call.start()
    first.release()

    second = Session(contracts=rules(), fleet=two, durable=True, session_id=name)

    assert not second.reserve("pay").allowed
    assert not second.reserve("ship").allowed
    second.release()
    call.commit()


def test_other_rules_keep_what_is_named_the_same(workers: Any) -> None:
    """A rolling deploy with a higher limit goes on counting; what only one version counts, stays its."""
    one, two = workers
    name = f"deployed {next(_names)}"

    def session(fleet: Fleet, *rules: Any) -> Session:
        return Session(contracts=rules, fleet=fleet, durable=True, session_id=name, halt_on_violation=False)

    old = session(one, at_most_n_times("pay", 2), at_most_n_times("ship", 1))
    old.call("pay")
    old.call("ship")
    old.release()
    new = session(two, at_most_n_times("pay", 3))
    new.call("pay")
    new.call("ship")
    assert new.reserve("pay").allowed
    new.release()

    assert not old.reserve("pay").allowed
    assert not old.reserve("ship").allowed
    old.release()


def test_values_that_are_many_are_written_one_by_one(workers: Any) -> None:
    """A call writes what it has changed: as much with a thousand values of a key as with one."""
    one, two = workers
    name = f"many {next(_names)}"

    def session(fleet: Fleet) -> Session:
        return Session(
            contracts=[at_most_n_times("pay", 1, key="k")], fleet=fleet, durable=True, session_id=name
        )

    first = session(one)
    for number in range(300):
        first.reserve("pay", {"k": number}, started=True).commit()
    from openbox_agentrt.acel.session import engine_of

    gate: Any = engine_of(first).kept
    gate.session.wait(gate.session.write())
    call = first.reserve("pay", {"k": "one more"})
    gate._pieces.note(call)
    assert len([name for name in gate._pieces.changes(whole=False) if ":" in name]) <= 1
    gate.changed()
    first.release()
    second = session(two)
    assert not second.reserve("pay", {"k": 7}).allowed
    assert second.reserve("pay", {"k": 300}).allowed
    second.release()


def test_what_is_overdue_under_a_key_is_told_once(workers: Any) -> None:
    """Also if the session moves after it was told, with a call that was refused and changes nothing else."""
    clock, name = ManualClock(1000), f"overdue {next(_names)}"
    one, two = (
        Session(
            contracts=[response("ask", "answer", within=20, key="k"), at_most_n_times("ask", 1)],
            clock=clock.time,
            fleet=fleet,
            durable=True,
            session_id=name,
        )
        for fleet in workers
    )
    one.call("ask", {"k": "x"})
    # So that all of it is written.
    one.release()
    one.hold()
    clock.advance(30)
    told = [[each.spec for each in one.reserve("ask", {"k": "x"}).violations]]
    one.release()
    told.append([each.spec for each in two.reserve("ask", {"k": "x"}).violations])

    limit = "at_most_n_times(ask, n=1)"
    assert told == [["response(ask, answer, key=k, within=20)", limit], [limit]]
    two.release()
