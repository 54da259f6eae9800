"""Workers that die, sleep and wake: what they had reserved is free, what they had started counts."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from openbox_agentrt.fleet import Fleet, FleetUnavailableError, open_fleet
from openbox_agentrt.fleet.survey import survey
from tests.fleet.plans import at_most, succeed

LEASE = 0.6
Spawn = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def fleet(url: str) -> Iterator[Fleet]:
    fleet = open_fleet(url, lease_seconds=LEASE)
    fleet.timeout_seconds = 20
    yield fleet
    fleet.close()


@pytest.fixture
def spawn(url: str) -> Iterator[Spawn]:
    """Start a worker, and wait until it has what it reserves."""
    with ExitStack() as stack:

        def start(how_far: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "tests.fleet.client.worker", url, str(LEASE), how_far]
            child = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(child.kill)
            assert heard(child) == "reserved"
            return child

        yield start


def heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def told(child: subprocess.Popen[str], word: str) -> str:
    assert child.stdin is not None
    child.stdin.write(f"{word}\n")
    child.stdin.flush()
    return heard(child)


def put_to_sleep(child: subprocess.Popen[str], fleet: Fleet) -> None:
    """Stop a worker at a moment at which it does not hold a file's lock: that would stop everybody."""
    for _ in range(50):
        child.send_signal(signal.SIGSTOP)
        fleet.timeout_seconds = 1
        try:
            fleet.reserve(succeed("probe"))
            return
        except FleetUnavailableError:
            child.send_signal(signal.SIGCONT)
            time.sleep(0.02)
        finally:
            fleet.timeout_seconds = 20
    pytest.fail("the worker holds the lock all the time")


def reserves_at_last(fleet: Fleet) -> bool:
    """Try until it is free, or the lease has been over for long."""
    end = time.monotonic() + 20 * LEASE
    while time.monotonic() < end:
        if fleet.reserve(at_most(1)).lease is not None:
            return True
        time.sleep(0.05)
    return False


def test_killed_before_it_started_it_blocks_nobody(fleet: Fleet, spawn: Spawn) -> None:
    """What it had reserved is free once its lease is over."""
    child = spawn("reserve")
    child.send_signal(signal.SIGKILL)
    child.wait()

    assert reserves_at_last(fleet)


def test_killed_after_it_started_it_counts(fleet: Fleet, spawn: Spawn) -> None:
    """It may have happened, so it takes part of the limit for good."""
    child = spawn("start")
    child.send_signal(signal.SIGKILL)
    child.wait()
    end = time.monotonic() + 20
    while fleet.counts.settled == 0 and time.monotonic() < end:
        assert fleet.reserve(at_most(1)).lease is None
        time.sleep(0.05)

    assert fleet.counts.settled == 1
    assert fleet.reserve(at_most(1)).lease is None


def test_who_slept_beyond_the_lease_may_not_start(fleet: Fleet, spawn: Spawn) -> None:
    """Its reservation is somebody else's by then; what it is asked to run on it does not run."""
    child = spawn("reserve")
    put_to_sleep(child, fleet)
    taken = reserves_at_last(fleet)
    child.send_signal(signal.SIGCONT)

    assert taken
    assert told(child, "start") == "may not"


def test_who_slept_after_the_start_may_say_how_it_ended(fleet: Fleet, spawn: Spawn) -> None:
    """The effect is real: unknown becomes succeeded."""
    child = spawn("start")
    put_to_sleep(child, fleet)
    end = time.monotonic() + 20
    while fleet.counts.settled == 0 and time.monotonic() < end:
        fleet.reserve(at_most(1))
        time.sleep(0.05)
    child.send_signal(signal.SIGCONT)

    assert told(child, "commit") == "ok"


def test_a_loop_that_is_busy_keeps_its_leases(fleet: Fleet, url: str) -> None:
    """The sign of life comes from a thread of its own."""
    fleet.reserve(at_most(1))
    with closing(survey(url)) as store:
        begun = store.workers()[fleet.worker]
        end = time.monotonic() + 20
        # As a loop that does something else: nothing here asks the fleet.
        while store.workers().get(fleet.worker) == begun:
            assert time.monotonic() < end, "no sign of life was given"
            time.sleep(0.05)

        assert store.workers()[fleet.worker] > begun
