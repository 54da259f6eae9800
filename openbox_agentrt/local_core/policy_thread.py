"""
Foreign code, one job at a time, in a thread of its own and for a limited time.

Two threads do it: one runs the jobs in order, the other watches the clock. A job that takes too long is given
up: whoever waits for it is told, the thread that is stuck in it is left to itself, and another one goes on
with the next job. A thread cannot be ended from outside, so a job that never returns keeps its thread.
"""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_MAX_STUCK = 8
"""So many threads may be stuck in jobs that were given up; then no further job is begun."""

Then = Callable[[Any, BaseException | None], None]
"""Told of the result of a job, or of the error instead."""


class OverdueError(Exception):
    """A job took longer than it may. It may still be running."""


class StuckError(Exception):
    """Too many earlier jobs have not returned. This one was not begun."""


class ThreadClosedError(Exception):
    """The thread was closed before the job was done."""


class _Job:
    __slots__ = ("ends", "seconds", "settled", "then", "work")

    def __init__(self, work: Callable[[], Any], seconds: float, then: Then) -> None:
        self.work = work
        self.seconds = seconds
        self.then = then
        self.ends = 0.0
        self.settled = False


class PolicyThread:
    """
    Run jobs in the order in which they come.

    Args:
        name: What the threads are called.
        on_overdue: Stops what the given-up job waits for, if that can be done. It must not wait.
        clock: Monotone time in seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        on_overdue: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._on_overdue = on_overdue
        self._clock = clock
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all jobs and threads; for a forked process, which has neither."""
        # Reentrant: whatever is collected as garbage in here may close this thread.
        self._lock = threading.RLock()
        self._begun = threading.Condition(self._lock)
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._current: _Job | None = None
        self._runner: threading.Thread | None = None
        self._watcher: threading.Thread | None = None
        self._looks_at = -math.inf
        """When the watcher looks again by itself."""
        self._stuck = 0
        self._closed = False

    def submit(self, work: Callable[[], Any], seconds: float, then: Then) -> None:
        """
        Queue a job, which may take so many seconds from when it begins.

        Args:
            then: Called once, in any thread, with the result or an error: the job's own, `OverdueError`,
                `StuckError` or `ThreadClosedError`. It must not raise.
        """
        refused: Exception | None = None
        with self._lock:
            if self._closed:
                refused = ThreadClosedError()
            elif self._stuck >= _MAX_STUCK:
                refused = StuckError()
            else:
                self._start_threads()
                self._waiting.put(_Job(work, seconds, then))
        if refused is not None:
            then(None, refused)

    def extend(self, seconds: float) -> None:
        """Give the job that runs so many seconds from now on. Called by the job."""
        with self._lock:
            if self._current is not None and self._runner is threading.current_thread():
                self._ends_in(self._current, seconds)

    def close(self) -> None:
        """
        End the threads that run and watch jobs.

        What has not been done gets a `ThreadClosedError`. May be called twice.
        """
        with self._lock:
            self._closed = True
            running = self._current
            # A job cannot be ended, so its thread is not waited for.
            threads = [self._watcher] if running else [self._watcher, self._runner]
            self._runner = self._watcher = None
            self._begun.notify_all()
        left = [running]
        while not self._waiting.empty():
            left.append(self._waiting.get())
        self._waiting.put(None)
        for job in left:
            if job is not None and self._settled(job):
                job.then(None, ThreadClosedError())
        for thread in threads:
            if thread is not None and thread is not threading.current_thread():
                thread.join()

    def _start_threads(self) -> None:
        if self._runner is None:
            self._runner = self._started(self._run)
        if self._watcher is None:
            self._watcher = self._started(self._watch)

    def _started(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=self._name, daemon=True)
        # Nothing that is done here belongs to the activity during which the thread was started.
        contextvars.Context().run(thread.start)
        return thread

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            if not self._begins(job):
                continue
            result, error = None, None
            try:
                result = job.work()
            except BaseException as raised:  # noqa: BLE001 - handed to whoever waits
                error = raised
            if not self._settled(job):
                # It was given up, and another thread goes on with the next one.
                self._stuck -= 1
                return
            job.then(result, error)

    def _begins(self, job: _Job) -> bool:
        with self._lock:
            if job.settled:
                return False
            self._current = job
            self._ends_in(job, job.seconds)
            return True

    def _ends_in(self, job: _Job, seconds: float) -> None:
        job.ends = self._clock() + seconds
        if job.ends < self._looks_at:
            self._begun.notify()

    def _settled(self, job: _Job) -> bool:
        """Settle `job`, and tell whether that was still to be done."""
        with self._lock:
            if job.settled:
                return False
            job.settled = True
            if self._current is job:
                self._current = None
            return True

    def _watch(self) -> None:
        while (job := self._next_overdue()) is not None:
            job.then(None, OverdueError())

    def _next_overdue(self) -> _Job | None:
        with self._lock:
            while self._watcher is threading.current_thread():
                job = self._current
                left = math.inf if job is None else job.ends - self._clock()
                if job is not None and left <= 0:
                    self._give_up(job)
                    return job
                self._looks_at = self._clock() + left
                self._begun.wait(None if job is None else left)
                self._looks_at = -math.inf
        return None

    def _give_up(self, job: _Job) -> None:
        self._settled(job)
        self._stuck += 1
        self._on_overdue()
        self._runner = self._started(self._run)
