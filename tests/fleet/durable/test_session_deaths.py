"""Workers that die, sleep and wake with a session in their hands."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from openbox_agentrt.fleet import Fleet, open_fleet
from openbox_agentrt.fleet.survey import survey
from tests.fleet.durable.session_worker import session_of

LEASE = 0.6


class Child:
    """A worker that is told its steps."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def tell(self, *words: str) -> str:
        """Let it take steps, and give what it says about the last."""
        said = ""
        for word in words:
            self.ask(word)
            said = self.hear()
        return said

    def ask(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def fleet(url: str) -> Iterator[Fleet]:
    fleet = open_fleet(url, timeout_seconds=20)
    yield fleet
    fleet.close()


@pytest.fixture
def spawn(url: str) -> Iterator[Callable[[], Child]]:
    with ExitStack() as stack:

        def start() -> Child:
            command = [sys.executable, "-m", "tests.fleet.durable.session_worker", url, str(LEASE)]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            return Child(process)

        yield start


@pytest.mark.parametrize(
    ("url", "steps", "may_pay", "may_ship"),
    [
        pytest.param("sqlite", ["verify", "settle"], True, False, id="before the call"),
        pytest.param("redis", ["verify", "reserve", "start"], False, False, id="between start and end"),
        pytest.param(
            "sqlite", ["verify", "reserve", "start", "commit", "settle"], False, True, id="after the end"
        ),
    ],
    indirect=["url"],
)
def test_what_a_killed_worker_did_is_known(
    spawn: Callable[[], Child], fleet: Fleet, steps: list[str], may_pay: bool, may_ship: bool
) -> None:
    """What has ended counts; what has not may have happened: it limits, and allows nothing."""
    child = spawn()
    child.tell(*steps)
    child.process.kill()
    child.process.wait()

    session = session_of(fleet)
    session._engine.kept.session.hold(wait=20)  # type: ignore[union-attr]  # it is durable

    assert session.reserve("pay").allowed is may_pay
    assert session.reserve("ship").allowed is may_ship


@pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)
def test_a_worker_that_slept_beyond_its_lease_runs_nothing_on_its_old_memory(
    spawn: Callable[[], Child], fleet: Fleet
) -> None:
    """Another one has gone on with the session: what was let through before it slept may not run."""
    child = spawn()
    child.tell("verify", "settle", "reserve")
    child.process.send_signal(signal.SIGSTOP)
    session = session_of(fleet)
    session._engine.kept.session.hold(wait=20)  # type: ignore[union-attr]  # it is durable
    session.call("verify", result="again")
    child.process.send_signal(signal.SIGCONT)

    assert "another worker" in child.tell("start")


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_a_worker_that_slept_and_was_not_missed_goes_on(spawn: Callable[[], Child], url: str) -> None:
    """Nobody has taken the session: its memory is that of the store."""
    child = spawn()
    child.tell("verify", "reserve")
    child.process.send_signal(signal.SIGSTOP)
    with closing(survey(url)) as store:
        while any(until >= store.now() for until in store.workers().values()):
            time.sleep(0.02)
    child.process.send_signal(signal.SIGCONT)

    assert child.tell("start") == "may"
