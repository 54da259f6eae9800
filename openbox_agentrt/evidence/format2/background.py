"""Sealing and anchoring in the background, so that no call waits for a signature."""

import threading
from collections.abc import Callable


class BackgroundLane:
    """
    Call some work soon after each `wake`, once for all wakes in an interval, on a thread of its own.

    Args:
        work: What to call. It must not raise.
        interval: How long a record may wait, in seconds.
    """

    __slots__ = ("_interval", "_lock", "_stopped", "_thread", "_wanted", "_work")

    def __init__(self, work: Callable[[], None], interval: float) -> None:
        self._work = work
        self._interval = interval
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Ask for the work. Returns at once."""
        if not self._wanted.is_set():
            self._wanted.set()
            if self._thread is None:
                self._start()

    def stop(self) -> None:
        """End the thread and wait for it. What was asked for last may not have been done."""
        with self._lock:
            self._stopped.set()
            self._wanted.set()
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                # A daemon, because a forgotten log must not keep the process alive. It is sealed at exit.
                self._thread = threading.Thread(target=self._run, name="openbox-evidence-seal", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wanted.wait()
            self._stopped.wait(self._interval)
            self._wanted.clear()
            if not self._stopped.is_set():
                self._work()
