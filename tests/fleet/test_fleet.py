"""What a worker can rely on, whichever store it is."""

from __future__ import annotations

import asyncio
import os
import warnings

import pytest

from openbox_agentrt.fleet import Fleet, FleetCell, FleetConfigError, FleetGuard, FleetMove, FleetPlan
from tests.fleet.conftest import OpenFleet
from tests.fleet.plans import after, at_most, spend, succeed


def test_workers_share_a_limit(fleet: Fleet, other: Fleet) -> None:
    """Five units of a hundred fit under five hundred, whoever spends them."""
    granted = [(fleet, other)[n % 2].reserve(spend(), started=True).lease is not None for n in range(12)]

    assert granted == [True] * 5 + [False] * 7


def test_a_refusal_says_how_the_cell_stands(fleet: Fleet) -> None:
    """What was spent is in the answer."""
    fleet.reserve(spend(450), started=True)

    answer = fleet.reserve(spend(100))

    assert answer.lease is None
    assert [(broken.guard, broken.total) for broken in answer.broken] == [(0, 450)]


def test_what_was_not_started_is_given_back(fleet: Fleet, other: Fleet) -> None:
    """`undo` makes room, for other workers too."""
    lease = fleet.reserve(at_most(1)).lease
    assert lease is not None
    assert other.reserve(at_most(1)).lease is None

    fleet.finish(lease, "undo", soon=False).result(5)

    assert other.reserve(at_most(1)).lease is not None


def test_a_worker_finds_its_own_success_at_once(fleet: Fleet) -> None:
    """How a call ended goes ahead of the next question."""
    assert fleet.reserve(after()).lease is None
    lease = fleet.reserve(succeed(), started=True).lease
    assert lease is not None

    fleet.finish(lease, "commit")

    assert fleet.reserve(after()).lease is not None


def test_how_a_call_ended_is_told_without_another_question(fleet: Fleet) -> None:
    """It waits for one, and not for long."""
    lease = fleet.reserve(succeed(), started=True).lease
    assert lease is not None

    assert fleet.finish(lease, "commit").result(5).said == "ok"


async def test_an_event_loop_waits_like_a_thread(fleet: Fleet) -> None:
    """The same answers, with a loop that goes on."""
    answers = await asyncio.gather(*[fleet.areserve(at_most(3)) for _ in range(10)])
    leases = [answer.lease for answer in answers if answer.lease is not None]

    assert len(leases) == 3
    assert await fleet.astart(leases[0])


async def test_a_cancelled_question_reserves_nothing(fleet: Fleet, other: Fleet) -> None:
    """Whatever the moment, what was granted to nobody is given back."""
    for pause in range(6):
        task = asyncio.ensure_future(fleet.areserve(at_most(1)))
        for _ in range(pause):
            await asyncio.sleep(0.0005)
        task.cancel()
        answer = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(answer, BaseException) and answer.lease is not None:
            fleet.finish(answer.lease, "undo")
        # The next question of this worker comes after all that.
        again = await fleet.areserve(at_most(1))
        assert again.lease is not None
        fleet.finish(again.lease, "undo")


def test_a_forked_process_is_a_worker_of_its_own(fleet: Fleet) -> None:
    """It asks over its own connection, under its own name."""
    first = fleet.reserve(at_most(2), started=True).lease
    assert first is not None
    reading, writing = os.pipe()

    with warnings.catch_warnings():
        # Python warns of forking a process with threads: that it works all the same is the point.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        lease = fleet.reserve(at_most(2), started=True).lease
        os.write(writing, (lease.worker if lease else "refused").encode())
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)

    assert told not in ("refused", first.worker)
    assert fleet.reserve(at_most(2)).lease is None


def test_a_parked_lease_is_taken_by_another_worker_once(open_one: OpenFleet, other: Fleet) -> None:
    """It outlives the worker that reserved it."""
    first = open_one()
    lease = first.reserve(at_most(1)).lease
    assert lease is not None
    assert first.park(lease, 60, note="for \u00e9ve")
    first.close()
    assert other.reserve(at_most(1)).lease is None

    adopted = other.adopt(lease.id)

    assert adopted is not None
    assert adopted.note == "for \u00e9ve"
    assert other.start(adopted)
    assert other.adopt(lease.id) is None
    assert other.finish(adopted, "commit", soon=False).result(5).said == "ok"


def test_a_parked_lease_is_given_back_after_its_deadline(open_one: OpenFleet, other: Fleet) -> None:
    """Whoever is refused settles it."""
    first = open_one()
    lease = first.reserve(at_most(1)).lease
    assert lease is not None
    assert first.park(lease, 0)
    first.close()

    assert other.reserve(at_most(1)).lease is not None
    assert other.adopt(lease.id) is None


def test_a_worker_that_was_closed_asks_nothing_more(fleet: Fleet, other: Fleet) -> None:
    """What is finished late is not told, and raises nothing: its lease ends by itself."""
    lease = fleet.reserve(at_most(1)).lease
    assert lease is not None
    fleet.close()

    end = fleet.finish(lease, "undo")

    assert isinstance(end.exception(), FleetConfigError)
    with pytest.raises(FleetConfigError, match="closed"):
        fleet.reserve(at_most(1))
    assert other.reserve(at_most(1)).lease is None


def test_a_call_that_runs_although_it_was_given_back_counts(fleet: Fleet, other: Fleet) -> None:
    """Who did not ask whether it may start, and ran: it is late, and counts by force."""
    lease = fleet.reserve(at_most(1)).lease
    assert lease is not None
    other.finish(lease, "undo", soon=False).result(20)
    taken = other.reserve(at_most(1), started=True).lease
    assert taken is not None

    assert fleet.finish(lease, "commit", soon=False).result(20).said == "late"

    assert other.reserve(at_most(1)).broken[0].live == 2
    assert fleet.counts.late == 1


def test_what_was_measured_replaces_an_estimate(fleet: Fleet) -> None:
    """The estimate is spent until then; what breaks the limit is told."""
    first = fleet.reserve(spend(100, 500), started=True).lease
    assert first is not None
    assert fleet.finish(first, "commit", measured={0: 450}, soon=False).result(20).over == ()
    second = fleet.reserve(spend(50, 500), started=True).lease
    assert second is not None

    assert fleet.finish(second, "commit", measured={0: 51}, soon=False).result(20).over == (0,)
    assert fleet.reserve(spend(1, 500)).broken[0].total == 501


def test_keys_are_not_taken_for_each_others_parts(fleet: Fleet) -> None:
    """Whatever somebody calls a customer, it is another customer's budget that is left alone."""

    def use(key: str) -> FleetPlan:
        cell = FleetCell(kind="distinct", name="used", key=key)
        guard = FleetGuard(kind="distinct", cell=0, n=1, values=("x",))
        return FleetPlan(cells=(cell,), guards=(guard,), moves=(FleetMove(cell=0, values=("x",)),))

    for key in ("a", "a:z", "a:z:z", "", ":z", "ä" * 400, "ä" * 401, "}{obx:other}", "a b\n"):
        assert fleet.reserve(use(key), started=True).lease is not None, key
