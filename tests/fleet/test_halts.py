"""A halt in the store is in force in every process with the store, whatever judges there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt import create_openbox_agentrt
from openbox_agentrt._halt import Halt
from openbox_agentrt.acel import ContractViolation, Session, at_most_n_times
from openbox_agentrt.acel.halts import HALTS
from openbox_agentrt.acel.metrics import Metrics
from openbox_agentrt.cli import main
from openbox_agentrt.doors.callables import guard
from openbox_agentrt.errors import GovernanceHaltError
from openbox_agentrt.fleet import FleetUnavailableError, SqliteFleet, halts
from openbox_agentrt.fleet.halts import HaltWatch
from tests.fleet.conftest import OpenFleet

RULES = (at_most_n_times("read", 100),)


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "LOOK_SECONDS", 0.01)


def _halt(kind: Any, value: str, *, at: float = 1.0) -> Halt:
    return Halt(kind=kind, value=value, reason="it runs wild", by="ops-lead", at=at)


def _comes(about: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not about():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _told(call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(ContractViolation) as refused:
        call(*args)
    return str(refused.value.refusal and refused.value.refusal.message)


@pytest.mark.parametrize("kind", ["session", "agent"])
def test_a_session_with_contracts_alone_hears_of_it(open_one: OpenFleet, kind: Any) -> None:
    """Its doors refuse with reason and name, and go on when it is lifted."""
    ran: list[str] = []
    session = Session(contracts=RULES, fleet=open_one(), session_id="s-1", agent="desk")
    other = Session(contracts=RULES, fleet=open_one(), session_id="s-2", agent="other")
    read = guard(session, "read", ran.append)
    halt, elsewhere = _halt(kind, "s-1" if kind == "session" else "desk"), open_one()

    read("a")
    elsewhere.halts.halt(halt)
    _comes(lambda: session.closed is not None)
    refused = _told(read, "b")
    elsewhere.halts.halt(halt, lifted=True)
    _comes(lambda: session.closed is None)
    read("c")

    assert "it runs wild (halted by ops-lead)" in refused
    assert ran == ["a", "c"]
    assert other.closed is None


@pytest.mark.parametrize("own", [False, True], ids=["by the store", "by itself"])
def test_lifting_one_halt_leaves_the_other_in_force(open_one: OpenFleet, own: bool) -> None:
    """A session that was halted stays so when its agent goes on."""
    fleet, elsewhere = open_one(), open_one()
    session = Session(contracts=RULES, fleet=fleet, session_id="s-1", agent="desk")
    other = Session(contracts=RULES, fleet=fleet, session_id="s-2", agent="desk")

    elsewhere.halts.halt(_halt("agent", "desk"))
    if own:
        session.halt(reason="it runs wild")
    else:
        elsewhere.halts.halt(_halt("session", "s-1"))
    _comes(lambda: session.closed is not None and other.closed is not None)
    elsewhere.halts.halt(_halt("agent", "desk"), lifted=True)
    _comes(lambda: other.closed is None)
    elsewhere.halts.halt(_halt("session", "s-2"))
    _comes(lambda: other.closed is not None)  # so both have heard all that was said before

    assert session.closed is not None
    elsewhere.halts.halt(_halt("session", "s-1"), lifted=True)
    _comes(lambda: session.closed is None)


def test_one_that_is_made_later_is_halted_as_well(open_one: OpenFleet) -> None:
    """What is halted is no secret of those who were there."""
    fleet = open_one()
    fleet.halts.halt(_halt("session", "s-1"))

    assert Session(contracts=RULES, fleet=fleet, session_id="s-1").closed is not None
    late = Session(contracts=RULES, fleet=open_one(), session_id="s-1")
    _comes(lambda: late.closed is not None)


@pytest.mark.parametrize("kind", ["run", "session", "agent"])
async def test_the_runs_of_another_governance_are_halted(open_one: OpenFleet, kind: Any) -> None:
    """With no Core in common, and none at all."""
    one = await create_openbox_agentrt(core="off", contracts=RULES, fleet=open_one())
    two = await create_openbox_agentrt(core="off", contracts=RULES, fleet=open_one())
    async with one, two:
        refused = await _halted_by(one, two, kind)
        assert "it runs wild (halted by ops-lead)" in str(refused)
        if kind != "run":
            with pytest.raises(GovernanceHaltError):
                await _read_in(two)


async def _read_in(governance: Any) -> None:
    async with governance.run_scope(agent_name="desk", session_id="s-1"), governance.activity("read"):
        pass


async def _halted_by(one: Any, two: Any, kind: str) -> GovernanceHaltError | None:
    """Halt a run of `two` by `one`, and give what the next gate says."""
    try:
        async with two.run_scope(agent_name="desk", session_id="s-1") as run:
            named = {"run": {"run_id": run.run_id}, "session": {"session_id": "s-1"}}
            one.halt(**named.get(kind, {"agent": "desk"}), reason="it runs wild", by="ops-lead")
            await asyncio.to_thread(_comes, lambda: run.halted)
            async with two.activity("read"):
                pytest.fail("it ran")
    except GovernanceHaltError as error:
        return error


async def test_a_halt_reaches_doors_of_its_process_without_a_store() -> None:
    """Until the governance is closed: then what is used for the first time is left alone."""
    governance = await create_openbox_agentrt(core="off", contracts=RULES)
    session = Session(contracts=RULES, session_id="s-1")
    read = guard(session, "read", lambda: "text")
    async with governance:
        assert read() == "text"
        governance.halt(session_id="s-1", reason="it runs wild", by="ops-lead")
        assert "it runs wild (halted by ops-lead)" in _told(read)

    assert "it runs wild" in _told(read)
    fresh = Session(contracts=RULES, session_id="s-1")
    assert guard(fresh, "read", lambda: "text")() == "text"


async def test_what_is_lifted_goes_on_in_the_doors_of_the_process_that_halted_it(open_one: OpenFleet) -> None:
    """As everywhere else."""
    governance = await create_openbox_agentrt(core="off", contracts=RULES, fleet=open_one())
    async with governance:
        governance.halt(agent="desk", reason="it runs wild")
        session = Session(contracts=RULES, session_id="s-1", agent="desk")
        read = guard(session, "read", lambda: "text")
        assert "it runs wild" in _told(read)
        open_one().halts.halt(_halt("agent", "desk", at=time.time()), lifted=True)
        await asyncio.to_thread(_comes, lambda: not HALTS.known)

        fresh = Session(contracts=RULES, session_id="s-2", agent="desk")
        assert guard(fresh, "read", lambda: "text")() == "text"


async def test_whoever_halts_is_told_that_the_store_was_not(tmp_path: Path) -> None:
    """In this process it is halted all the same."""
    fleet = SqliteFleet(tmp_path / "fleet.db", timeout_seconds=1)
    governance = await create_openbox_agentrt(core="off", contracts=RULES, fleet=fleet)
    fleet.halts.close()
    _replaced_by_folder(tmp_path / "fleet.db")
    async with governance:
        with pytest.raises(FleetUnavailableError):
            governance.halt(agent="desk", reason="it runs wild")
        with pytest.raises(GovernanceHaltError):
            await _read_in(governance)
    fleet.close()


def _replaced_by_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


class _Rows:
    """A store that answers as it is told."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.read_ = threading.Semaphore(0)

    def read(self) -> dict[str, bytes]:
        self.read_.release()
        return dict(self.kept)

    def keep(self, name: str, told: bytes) -> None:
        self.kept[name] = told

    def close(self) -> None:
        pass


def test_what_a_store_has_forgotten_stays_halted() -> None:
    """Only a person lifts a halt. A row that is none halts nothing, and keeps nobody from hearing more."""
    rows = _Rows()
    watch = HaltWatch(lambda: rows, lambda: None)
    watch.halt(_halt("agent", "desk"))
    watch.begin()
    rows.kept = {"agent:x": b"nonsense"}
    for _ in range(3):
        assert rows.read_.acquire(timeout=30)
    watch.close()

    assert [halt.value for halt in watch.in_force] == ["desk"]


def test_an_older_lift_does_not_end_a_halt_that_the_store_has_not_heard() -> None:
    """Whether the store was away, or was read in the moment before."""
    rows = _Rows()
    watch = HaltWatch(lambda: rows, lambda: None)
    watch.halt(_halt("agent", "desk"))
    watch.halt(_halt("agent", "desk", at=2.0), lifted=True)
    before = dict(rows.kept)
    watch.halt(_halt("agent", "desk", at=3.0))
    rows.kept = before
    watch.begin()
    for _ in range(3):
        assert rows.read_.acquire(timeout=30)

    assert [halt.value for halt in watch.in_force] == ["desk"]
    HaltWatch(lambda: rows, lambda: None).halt(_halt("agent", "desk", at=4.0), lifted=True)
    _comes(lambda: not watch.in_force)
    watch.close()


def test_the_command_line_halts_in_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a Core, and lists what is halted."""
    monkeypatch.chdir(tmp_path)
    store = ["--fleet", f"sqlite:///{tmp_path}/fleet.db"]

    assert main(["halt", "--agent", "desk", "--reason", "it runs wild", "--by", "ops-lead", *store]) == 0
    assert main(["halt", "--list", *store]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "halted agent desk",
        "agent desk: it runs wild (halted by ops-lead)",
    ]
    assert main(["halt", "--agent", "deks", "--lift", *store]) == 0
    assert capsys.readouterr().out == "agent deks was not halted; --list says what is\n"
    assert main(["halt", "--agent", "desk", "--lift", *store]) == 0
    assert capsys.readouterr().out == "lifted the halt of agent desk\n"
    assert main(["halt", "--run", "r-1", "--lift", *store]) == 2
    assert main(["halt", "--list", *store]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is halted"


def test_what_a_person_wrote_is_one_line_that_a_terminal_can_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the reason came from, and whatever it holds."""
    monkeypatch.chdir(tmp_path)
    store = ["--fleet", f"sqlite:///{tmp_path}/fleet.db"]
    session = Session(contracts=RULES)
    session.halt(reason="first\nsecond", by="ops\nlead")
    read = guard(session, "read", lambda: "text")

    assert "first second (halted by ops lead)" in _told(read)
    assert main(["halt", "--agent", "desk", "--reason", "a\n\x1b[31mb", "--by", "\u202eops", *store]) == 0
    assert main(["halt", "--list", *store]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "agent desk: a \\x1b[31mb (halted by \\u202eops)"


def test_metrics_count_what_it_refuses_and_not_by_its_reason() -> None:
    """Each reason would be a series of its own."""
    metrics = Metrics()
    session = Session(contracts=RULES, metrics=metrics)
    session.halt(reason="it runs wild", by="ops-lead")

    assert not session.reserve("read").allowed
    told = metrics.render_prometheus()
    assert "the session was not halted" in told
    assert "wild" not in told
