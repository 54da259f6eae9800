"""Jobs of foreign code: in order, in a thread of their own, and for a limited time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from openbox_agentrt.local_core.policy_thread import OverdueError, PolicyThread, StuckError, ThreadClosedError

NOW = 0.02


@pytest.fixture
def thread() -> Iterator[PolicyThread]:
    made = PolicyThread("test")
    yield made
    made.close()


def begun(thread: PolicyThread, work: Callable[[], Any], seconds: float = 5.0) -> Future[Any]:
    future: Future[Any] = Future()

    def then(result: Any, error: BaseException | None) -> None:
        future.set_result(result) if error is None else future.set_exception(error)

    thread.submit(work, seconds, then)
    return future


def test_jobs_are_done_one_after_the_other(thread: PolicyThread) -> None:
    """In the order in which they came, and never two at a time."""
    seen: list[int] = []
    for future in [begun(thread, partial(seen.append, number)) for number in range(50)]:
        future.result(5)

    assert seen == list(range(50))


def test_an_error_is_handed_over(thread: PolicyThread) -> None:
    """Whoever waits gets it, and the next job is done."""
    with pytest.raises(ZeroDivisionError):
        begun(thread, lambda: 1 / 0).result(5)

    assert begun(thread, lambda: "done").result(5) == "done"


def test_a_job_that_takes_too_long_is_given_up(thread: PolicyThread) -> None:
    """The next one is done all the same, and what the late one says counts for nothing."""
    free = threading.Event()
    late = begun(thread, lambda: free.wait(10), NOW)
    after = begun(thread, lambda: "done")

    with pytest.raises(OverdueError):
        late.result(5)
    assert after.result(5) == "done"
    free.set()
    assert begun(thread, lambda: "and on").result(5) == "and on"


def test_each_job_has_its_own_time(thread: PolicyThread) -> None:
    """A short one after a long one is not given the time of the long one."""
    begun(thread, lambda: None, 100).result(5)

    with pytest.raises(OverdueError):
        begun(thread, lambda: threading.Event().wait(2), NOW).result(1)


def test_time_is_counted_from_the_beginning_of_a_job(thread: PolicyThread) -> None:
    """A job that has waited for others is given all of its time."""
    first = threading.Event()
    begun(thread, lambda: first.wait(10))
    second = begun(thread, lambda: "in time", NOW)
    threading.Timer(3 * NOW, first.set).start()

    assert second.result(5) == "in time"


def test_a_job_can_be_given_more_time(thread: PolicyThread) -> None:
    """It asks for it while it runs."""

    def work() -> bool:
        thread.extend(5)
        return threading.Event().wait(3 * NOW)

    assert begun(thread, work, NOW).result(5) is False


def test_a_job_can_be_given_less_time(thread: PolicyThread) -> None:
    """A long beginning is over, and what follows has to be short."""

    def work() -> None:
        thread.extend(NOW)
        threading.Event().wait(2)

    with pytest.raises(OverdueError):
        begun(thread, work, 100).result(1)


def test_what_is_waited_for_can_be_ended() -> None:
    """Such as a process: then the thread does not stay behind."""
    ended = threading.Event()
    thread = PolicyThread("test", on_overdue=ended.set)

    with pytest.raises(OverdueError):
        begun(thread, lambda: ended.wait(10), NOW).result(5)
    assert ended.is_set()
    thread.close()


def test_threads_that_never_return_are_limited(thread: PolicyThread) -> None:
    """So many jobs that hang, and no further one is begun until one of them has returned."""
    free = threading.Event()
    for _ in range(8):
        with pytest.raises(OverdueError):
            begun(thread, lambda: free.wait(10), NOW).result(5)

    with pytest.raises(StuckError):
        begun(thread, lambda: "never").result(5)
    free.set()
    for _ in range(200):
        if begun(thread, lambda: "again").exception(5) is None:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the thread never took a job again")


def test_closing_answers_everybody() -> None:
    """Also the one whose job runs; closed twice, it stays closed."""
    thread, free, runs = PolicyThread("test"), threading.Event(), threading.Event()

    def work() -> None:
        runs.set()
        free.wait(10)

    waiting = [begun(thread, work), begun(thread, lambda: "never")]
    runs.wait(5)

    thread.close()
    thread.close()

    for future in (*waiting, begun(thread, lambda: "never")):
        with pytest.raises(ThreadClosedError):
            future.result(0)
    free.set()


def test_closing_leaves_no_thread() -> None:
    """Neither the one that runs jobs nor the one that watches the clock."""
    thread = PolicyThread("counted")
    begun(thread, lambda: None).result(5)
    thread.close()

    assert [thread for thread in threading.enumerate() if thread.name == "counted"] == []


def test_a_job_does_not_belong_to_whoever_waits_for_it(thread: PolicyThread) -> None:
    """Nothing of the context in which it was submitted is seen by it."""
    bound: ContextVar[str] = ContextVar("bound", default="nothing")
    bound.set("an activity")

    assert begun(thread, bound.get).result(5) == "nothing"
