"""A session's memory in a shared store: held by one worker, written as it changes, found by the next."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import time
import weakref
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from openbox_agentrt.fleet import (
    Fleet,
    FleetConfigError,
    FleetUnavailableError,
    RedisFleet,
    SessionBusyError,
    SessionMemoryError,
    SharedSession,
)
from openbox_agentrt.fleet.steps import Beat, Hold, Keep, Step, StepAnswer
from tests.fleet.conftest import OpenFleet
from tests.fleet.plans import spend
from tests.fleet.redis_server import RedisServer


class Notes:
    """A memory that is a dict of texts."""

    def __init__(self) -> None:
        self.pieces: dict[str, str] = {}
        self._changed: dict[str, str | None] = {}
        self.bad = False

    def note(self, name: str, value: str) -> None:
        """Change a piece."""
        self.pieces[name] = value
        self._changed[name] = value

    def changes(self, *, whole: bool) -> dict[str, str | None]:
        if self.bad:
            raise SessionMemoryError("a note cannot be kept")
        changed, self._changed = self._changed, {}
        return {**self.pieces} if whole else changed

    def leave(self) -> None:
        pass

    def load(self, pieces: Mapping[str, str]) -> None:
        self.pieces, self._changed = dict(pieces), {}


def opened(fleet: Fleet, memory: Notes, name: str = "c-1") -> SharedSession:
    """A session that this worker holds."""
    session = fleet.session(name, memory)
    session.hold()
    return session


def kept(session: SharedSession) -> bool:
    """Write what has changed, and wait."""
    return session.wait(session.write())


def end_lease(fleet: Fleet, *more: Step) -> list[StepAnswer]:
    """
    End the lease of a worker that goes on, as if its process had been stopped for longer than that.

    Args:
        more: Steps that others take before it wakes.
    """
    line = fleet._connect()
    answers = line.run([Beat(worker=fleet.worker, lease_us=0, leave=True), *more])
    line.close()
    # Its own clocks have gone on as well.
    running = fleet._running
    assert running is not None
    running.membership.worker.beaten -= 1000
    return answers


def take_away(fleet: Fleet, name: str = "c-1") -> None:
    """Let another worker go on with a session whose worker sleeps."""
    day = 86_400_000_000
    joins = Beat(worker="another", lease_us=day, join=True)
    stand = end_lease(fleet, joins, Hold(session=name, worker="another", idle_us=day))[-1].session
    assert stand is not None
    line = fleet._connect()
    line.run(
        [
            Keep(
                session=name,
                worker="another",
                idle_us=day,
                birth=stand.birth,
                base=stand.version,
                version=stand.version + 1,
                release=True,
            )
        ]
    )
    line.close()


def test_what_one_worker_wrote_the_next_one_finds(fleet: Fleet, other: Fleet) -> None:
    """Once the first has let go of it; until then it is in use."""
    mine, theirs = Notes(), Notes()
    session, same = opened(fleet, mine), other.session("c-1", theirs)
    mine.note("a", "1")
    assert kept(session)

    with pytest.raises(SessionBusyError, match="session 'c-1' is in use by another worker") as busy:
        same.hold(wait=0.05)
    assert busy.value.retry_after > 0
    mine.note("b", "2")
    session.leave()
    same.hold()

    assert theirs.pieces == {"a": "1", "b": "2"}


def test_a_worker_whose_lease_is_over_writes_nothing(open_one: OpenFleet) -> None:
    """Another one has taken the session: the first is told, and remembers nothing of it any more."""
    fleet = open_one()
    mine = Notes()
    session = opened(fleet, mine)
    mine.note("a", "1")
    assert kept(session)
    take_away(fleet)
    mine.note("a", "2")

    assert not kept(session)
    session.hold()
    assert mine.pieces == {"a": "1"}
    assert fleet.counts.sessions_lost == 1


def test_a_worker_whose_lease_was_over_and_that_nobody_replaced_goes_on(fleet: Fleet) -> None:
    """Under its new name: what is kept is what it remembers."""
    mine = Notes()
    session = opened(fleet, mine)
    end_lease(fleet)
    mine.note("a", "1")

    assert kept(session)
    assert session.is_held


def test_a_store_that_was_emptied_is_told_all_there_is(server: RedisServer) -> None:
    """By the worker that has the session, with its next change; whoever comes later finds the whole of it."""
    fleet, other = RedisFleet(server.url, timeout_seconds=20), RedisFleet(server.url, timeout_seconds=20)
    mine, theirs = Notes(), Notes()
    session = opened(fleet, mine)
    mine.note("a", "1")
    kept(session)
    server.ask("FLUSHALL")
    mine.note("b", "2")

    assert kept(session)
    session.leave()
    opened(other, theirs)
    assert theirs.pieces == {"a": "1", "b": "2"}
    fleet.close()
    other.close()


def test_who_was_waiting_begins_nothing_anew_in_a_store_that_was_emptied(server: RedisServer) -> None:
    """It was told who has the session, and until when: the store has lost it, and that worker has not."""
    fleet, other = RedisFleet(server.url, timeout_seconds=20), RedisFleet(server.url, timeout_seconds=20)
    mine, theirs = Notes(), Notes()
    session, same = opened(fleet, mine), other.session("c-1", theirs)
    mine.note("a", "1")
    kept(session)
    with pytest.raises(SessionBusyError):
        same.hold(wait=0)
    server.ask("FLUSHALL")

    with pytest.raises(SessionBusyError):
        same.hold(wait=0)
    mine.note("b", "2")
    assert kept(session)
    session.leave()
    same.hold(wait=20)
    assert theirs.pieces == {"a": "1", "b": "2"}
    fleet.close()
    other.close()


@pytest.mark.parametrize("first", ["its holder", "another", "a new worker"])
def test_who_was_never_told_begins_nothing_anew_in_a_store_that_was_emptied(
    server: RedisServer, first: str
) -> None:
    """For one lease: by then, whoever has the session has heard of the loss, and has written it again."""
    with ExitStack() as stack:
        fleet, other, new = (
            stack.enter_context(closing(RedisFleet(server.url, timeout_seconds=20))) for _ in range(3)
        )
        mine, theirs = Notes(), Notes()
        session, elsewhere = opened(fleet, mine), opened(other, Notes(), "c-2")
        mine.note("a", "1")
        kept(session)
        server.ask("FLUSHALL")
        if first == "a new worker":
            opened(new, Notes(), "c-3")  # it cannot know that there was anything
        if first == "its holder":
            fleet.reserve(spend())
        else:
            kept(elsewhere)

        same = (new if first == "a new worker" else other).session("c-1", theirs)
        with pytest.raises(SessionBusyError) as refused:
            same.hold(wait=0)
        assert refused.value.retry_after > 0
        fleet.reserve(spend())  # as a sign of life would, it hears of the loss
        while b"c-1" not in server.ask("KEYS", "*:p:*"):
            time.sleep(0.001)
        with pytest.raises(SessionBusyError, match="in use by another worker"):
            same.hold(wait=0)
        session.leave()
        same.hold(wait=20)

        assert theirs.pieces == {"a": "1"}


def test_a_session_that_an_emptied_store_has_lost_for_good_begins_anew_after_a_lease(
    server: RedisServer,
) -> None:
    """The worker that had it is dead by then, or it was nobody's."""
    with closing(RedisFleet(server.url, timeout_seconds=20, lease_seconds=0.3)) as fleet:
        kept(opened(fleet, Notes(), "c-2"))
        server.ask("FLUSHALL")
        session = fleet.session("c-1", Notes())
        with pytest.raises(SessionBusyError, match="has yet to hear") as refused:
            session.hold(wait=0)
        assert pickle.loads(pickle.dumps(refused.value)).lost

        session.hold(wait=20)
        assert session.is_new


def test_a_worker_that_hears_of_a_loss_writes_the_sessions_that_it_has(server: RedisServer) -> None:
    """Whatever it was that told it; nobody has to call first in each of them."""
    fleet = RedisFleet(server.url, timeout_seconds=20)
    mine, busy = Notes(), Notes()
    session, another = opened(fleet, mine), opened(fleet, busy, "c-2")
    mine.note("a", "1")
    kept(session)
    server.ask("FLUSHALL")
    assert kept(another)

    while b"c-1" not in server.ask("KEYS", "*:p:*"):
        time.sleep(0.001)
    assert session.is_held
    assert fleet.counts.lost == 1
    fleet.close()


def test_a_session_that_ended_begins_anew_for_everybody(fleet: Fleet, other: Fleet) -> None:
    """Also for a worker that knew it before."""
    mine, theirs = Notes(), Notes()
    session = opened(fleet, mine)
    mine.note("a", "1")
    session.leave()
    same = opened(other, theirs)
    same.end()
    same.leave()
    session.hold()

    assert mine.pieces == {}


def test_what_cannot_be_kept_is_told_to_who_waits(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """And logged where nobody does; other sessions are written all the same."""
    mine, fine = Notes(), Notes()
    session, another = opened(fleet, mine), opened(fleet, fine, "c-2")
    mine.bad = True

    with pytest.raises(SessionMemoryError, match="a note cannot be kept"):
        kept(session)
    with caplog.at_level(logging.ERROR, "openbox_agentrt.fleet"):
        session.touch(soon=False)
        fine.note("a", "1")
        assert kept(another)
    assert "a session cannot be kept: a note cannot be kept" in caplog.text


def test_a_store_that_is_away_keeps_nobody_waiting(tmp_path: Path, server: RedisServer) -> None:
    """What was to be written is written when it is back."""
    fleet, other = (RedisFleet(server.url, timeout_seconds=20) for _ in range(2))
    mine, theirs = Notes(), Notes()
    session = opened(fleet, mine)
    fleet.timeout_seconds = 0.25
    server.stop()
    mine.note("a", "1")

    with pytest.raises(FleetUnavailableError):
        kept(session)
    session.leave()
    server.go_on()
    same = other.session("c-1", theirs)
    same.hold(wait=20)
    assert theirs.pieces == {"a": "1"}
    fleet.close()
    other.close()


def test_what_an_outage_kept_from_the_store_is_not_overtaken(server: RedisServer) -> None:
    """Who wants the session next, in the same process, waits until it is written."""
    fleet = RedisFleet(server.url)
    mine, theirs = Notes(), Notes()
    session = opened(fleet, mine)
    server.kill()
    mine.note("a", "1")
    session.leave()
    while session.is_held:
        time.sleep(0.001)
    same = fleet.session("c-1", theirs)
    with pytest.raises((FleetUnavailableError, SessionBusyError)):
        same.hold(wait=0)
    server.start()

    _hold_at_last(same)

    assert theirs.pieces == {"a": "1"}
    fleet.close()


def _hold_at_last(session: SharedSession) -> None:
    for _ in range(1000):
        with suppress(FleetUnavailableError):
            session.hold(wait=20)
            return
        time.sleep(0.02)


@pytest.mark.parametrize("is_in_cycle", [False, True], ids=["alone", "in a cycle"])
def test_one_that_is_dropped_is_let_go_of(fleet: Fleet, other: Fleet, is_in_cycle: bool) -> None:
    """Once what has changed is written; nobody waits for the end of the process."""
    mine, theirs, ours = Notes(), Notes(), Notes()
    session = opened(fleet, mine)
    mine.note("a", "1")
    if is_in_cycle:
        mine.holder = session  # type: ignore[attr-defined]  # any way back to it is a cycle
    del session, mine
    if is_in_cycle:
        gc.collect()

    same = fleet.session("c-1", ours)
    same.hold(wait=20)
    assert ours.pieces == {"a": "1"}
    del same
    another = other.session("c-1", theirs)
    another.hold(wait=20)
    assert theirs.pieces == {"a": "1"}


async def test_one_that_had_to_wait_is_let_go_of_as_soon_as_it_is_dropped(fleet: Fleet, other: Fleet) -> None:
    """Nothing that it was told meanwhile keeps it, so no collector of cycles has to come by."""
    mine, theirs = Notes(), Notes()
    session = opened(fleet, mine)
    same = other.session("c-1", theirs)
    gc.disable()
    try:
        with pytest.raises(SessionBusyError):
            same.hold(wait=0)
        with pytest.raises(SessionBusyError):
            await same.ahold(wait=0)
        dropped = weakref.ref(same)
        del same
        assert dropped() is None
    finally:
        gc.enable()
    session.leave()


def test_one_that_a_fork_has_copied_lets_go_of_nothing(fleet: Fleet, other: Fleet) -> None:
    """The session is that of the process which took it."""
    session = opened(fleet, Notes())
    child = os.fork()
    if not child:
        session.__del__()
        os._exit(0 if fleet._running is session._fleet._running else 1)
    assert os.waitpid(child, 0)[1] == 0

    with pytest.raises(SessionBusyError):
        other.session("c-1", Notes()).hold(wait=0.05)


def test_a_name_that_is_long_or_strange_is_a_name(fleet: Fleet, other: Fleet) -> None:
    """Two that differ are two."""
    for name in ("x" * 300, "x" * 301, "\n{a}", "ä", "\ud800"):
        mine, theirs = Notes(), Notes()
        session = opened(fleet, mine, name)
        mine.note("name", "1")
        session.leave()
        opened(other, theirs, name)
        assert theirs.pieces == {"name": "1"}


def test_no_time_is_refused(fleet: Fleet) -> None:
    """A session has to last for some time."""
    with pytest.raises(FleetConfigError, match="idle_seconds is 0"):
        fleet.session("c", Notes(), idle_seconds=0)


def test_of_two_in_one_process_one_waits_for_the_other(fleet: Fleet) -> None:
    """To the store they are one worker; here, too, there are never two memories of one session."""
    mine, theirs = Notes(), Notes()
    session = opened(fleet, mine)
    same = fleet.session("c-1", theirs)
    mine.note("a", "1")

    with pytest.raises(SessionBusyError):
        same.hold(wait=0.05)
    session.leave()
    same.hold()
    assert theirs.pieces == {"a": "1"}
    theirs.note("a", "2")
    same.leave()
    session.hold()
    assert mine.pieces == {"a": "2"}
