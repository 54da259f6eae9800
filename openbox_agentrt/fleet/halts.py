"""
Halts that every process with the store hears of.

They stand in the store beside its cells. A worker looks at them from a thread and over a connection of their
own, so no call waits for them; it hears of one at most `LOOK_SECONDS` late, as long as the store answers. One
that is lifted stays there as lifted: what a store forgets is not taken for something that a person has said.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from typing import Literal, Protocol

import msgspec

from .._halt import Halt
from .errors import FleetConfigError, FleetUnavailableError
from .steps import NoAnswerError

LOOK_SECONDS = 1.0

_log = logging.getLogger("openbox_agentrt.fleet")


class _Told(msgspec.Struct, frozen=True):
    kind: Literal["run", "session", "agent"]
    value: str
    reason: str
    by: str
    at: float
    lifted: bool = False

    def halt(self) -> Halt:
        return Halt(kind=self.kind, value=self.value, reason=self.reason, by=self.by, at=self.at)


_READ = msgspec.json.Decoder(_Told)
_Row = tuple[Halt, bool]
"""A halt, and whether it was lifted."""


class HaltRows(Protocol):
    """Keep halts in a store, each under the name of what is halted. One thread uses it."""

    def read(self) -> dict[str, bytes]:
        """
        Read them all.

        Raises:
            NoAnswerError: The store does not answer.
            FleetConfigError: It is no such store.
        """
        ...

    def keep(self, name: str, told: bytes) -> None:
        """Write one down, in place of what stood there. Raises what `read` does."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


class HaltListener(Protocol):
    """Hear of halts, in a thread of the store's. It must be quick, and must not raise."""

    def hear(self, halt: Halt, *, lifted: bool) -> None:
        """Take note that something is halted, or goes on."""
        ...


class HaltWatch:
    """
    Tell a process what is halted in its store. Any thread may use it.

    Args:
        connect: Opens the halts of the store.
        answers_again: Told in that thread when the store answers after it did not.
    """

    def __init__(self, connect: Callable[[], HaltRows], answers_again: Callable[[], None]) -> None:
        self._connect = connect
        self._answers_again = answers_again
        self._guard = threading.Lock()
        self._guarded_in = os.getpid()
        self._listeners: weakref.WeakSet[HaltListener] = weakref.WeakSet()
        self._known: dict[str, _Row] = {}
        self._halted_here: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = 0

    @property
    def _lock(self) -> threading.Lock:
        if self._guarded_in != os.getpid():
            # A thread that this forked process does not have may hold the parent's.
            self._guarded_in, self._guard = os.getpid(), threading.Lock()
        return self._guard

    @property
    def in_force(self) -> list[Halt]:
        """List what is halted, as far as this process knows."""
        return [halt for halt, lifted in self._known.values() if not lifted]

    def watch(self, listener: HaltListener) -> None:
        """Tell `listener` of what is halted now and later, for as long as somebody else holds it."""
        with self._lock:
            self._listeners.add(listener)
        for halt in self.in_force:
            listener.hear(halt, lifted=False)

    def begin(self) -> None:
        """Look from now on, in a thread. Does nothing if this process does so already."""
        if self._process == os.getpid():
            return
        with self._lock:
            if self._process == os.getpid():
                return
            self._process, self._stop = os.getpid(), threading.Event()
            thread = threading.Thread(target=self._run, args=(self._stop,), name="openbox-halts", daemon=True)
            self._thread = thread
        thread.start()

    def halt(self, halt: Halt, *, lifted: bool = False) -> None:
        """
        Write a halt down, or that it is lifted, and tell this process at once. The calling thread waits.

        Raises:
            FleetUnavailableError: The store does not answer. This process knows all the same.
            FleetConfigError: It is no such store.
        """
        self._halted_here[halt.name] = 0.0 if lifted else halt.at
        self._take({halt.name: (halt, lifted)})
        with closing(self._connect()) as rows:
            write_halt(rows, halt, lifted=lifted)

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread is not None and self._process == os.getpid():
            self._thread.join(timeout=1.0)

    def _run(self, stop: threading.Event) -> None:
        rows, away = self._connect(), False
        while not stop.is_set():
            try:
                self._take(self._later(_decoded(rows.read())))
                if away:
                    self._answers_again()
                away = False
            except (NoAnswerError, FleetConfigError) as error:
                # What is known to be halted stays so; whether more is, cannot be known until it answers.
                if not away:
                    _log.warning("halts in the fleet's store cannot be read (%s)", error)
                away = True
            except Exception:  # noqa: BLE001 - logged, and the next look follows
                _log.exception("halts in the fleet's store cannot be read")
            stop.wait(LOOK_SECONDS)
        rows.close()

    def _later(self, found: dict[str, _Row]) -> dict[str, _Row]:
        """
        Leave out lifts that were said before this process halted the same.

        The store may have been read before that was written, or may not have answered then.
        """
        here = self._halted_here
        return {
            name: (halt, lifted)
            for name, (halt, lifted) in found.items()
            if not lifted or halt.at >= here.get(name, 0.0)
        }

    def _take(self, found: dict[str, _Row]) -> None:
        with self._lock:
            news = [row for name, row in found.items() if self._known.get(name) != row]
            # Another one in its place: who lists it takes no lock.
            self._known = self._known | found
            listeners = list(self._listeners) if news else []
        for halt, lifted in news:
            for listener in listeners:
                listener.hear(halt, lifted=lifted)


def write_halt(rows: HaltRows, halt: Halt, *, lifted: bool = False) -> None:
    """
    Write a halt down for every process, or that it is lifted.

    Raises:
        FleetUnavailableError: The store does not answer. Nobody knows whether it was written.
        FleetConfigError: It is no such store.
    """
    told = _Told(halt.kind, halt.value, halt.reason, halt.by, halt.at, lifted)
    try:
        rows.keep(halt.name, msgspec.json.encode(told))
    except NoAnswerError as error:
        raise FleetUnavailableError(str(error), retry_after=1.0) from error


def halts_in_force(rows: HaltRows) -> list[Halt]:
    """
    Read what is halted now.

    Raises:
        FleetUnavailableError: The store does not answer.
        FleetConfigError: It is no such store.
    """
    try:
        return [halt for halt, lifted in _decoded(rows.read()).values() if not lifted]
    except NoAnswerError as error:
        raise FleetUnavailableError(str(error), retry_after=1.0) from error


def _decoded(rows: dict[str, bytes]) -> dict[str, _Row]:
    """Read what `write_halt` wrote. A row that is none is left out, and said in the log."""
    found: dict[str, _Row] = {}
    for name, told in rows.items():
        try:
            row = _READ.decode(told)
        except msgspec.MsgspecError:
            _log.error("a halt in the fleet's store is not understood: %.100r", name)
            continue
        found[name] = row.halt(), row.lifted
    return found
