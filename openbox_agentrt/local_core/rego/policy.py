"""A Rego file that is asked about events."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ..policy import PolicyDecision, fault
from .process import RegoProcess, WorkerDiedError
from .source import PolicyError, RegoSource, read_source

if TYPE_CHECKING:
    from ..records import RunHistory
    from ..wire import Event

START_SECONDS = 30.0
"""Time for the process to start and for the policy to be compiled, also on a machine that is busy."""

logger = logging.getLogger(__name__)


class RegoPolicy:
    """
    A Rego file whose rule ``result`` decides, evaluated in a process of its own.

    ``input`` is the event; ``data.session`` is what `RunHistory` holds of the run before it. A rule that
    fails on an event, or says nothing about it, blocks it, and so does a process that dies over it. The
    process is started by `load`, again where it has died, and again when the file has changed.

    One thread at a time may ask; any may call `overdue`.

    Args:
        path: The file.
        allow_seconds: Called with the time that what follows may take.

    Raises:
        PolicyError: The file cannot be read, or holds something that would be misunderstood.
    """

    def __init__(self, path: str | os.PathLike[str], *, allow_seconds: Callable[[float], None]) -> None:
        self._source = read_source(path)
        self._seen = _state_of(self._source.path)
        self._allow_seconds = allow_seconds
        self._process: RegoProcess | None = None
        self._starting: RegoProcess | None = None
        self._closed = False
        self.deaths = 0
        self.reloads = 0

    @property
    def name(self) -> str:
        return f"local/{self._source.package}"

    @property
    def pid(self) -> int | None:
        """The process that evaluates, if there is one."""
        return None if self._process is None else self._process.pid

    def load(self) -> None:
        """
        Start the process that evaluates.

        Raises:
            PolicyError: The policy is not Rego, or cannot be evaluated; names the line where there is one.
            MissingExtraError: The extra ``local`` is not installed.
        """
        self._process = self._loaded(self._source)

    def ask(self, event: Event, history: Callable[[], RunHistory], seconds: float) -> PolicyDecision:
        """Decide about `event`, which may take so many seconds."""
        self._reload_when_changed(seconds)
        try:
            process = self._running(seconds)
        except PolicyError as error:
            return fault(f"the policy cannot be asked: {error.problem}")
        try:
            said = process.ask(self._question(event, history))
        except WorkerDiedError as error:
            if self._process is process:  # and not ended because its time was up
                self._process = None
                self.deaths += 1
            return fault(f"the policy's process came to its end over this event: {error}")
        return msgspec.convert(said, PolicyDecision)

    def overdue(self) -> None:
        """End the process, which takes too long."""
        for process in self._taken():
            process.kill()

    def close(self) -> None:
        """End the process that evaluates. There will be no other one."""
        self._closed = True
        for process in self._taken():
            process.stop()

    def start_anew(self) -> None:
        """Let go of the process; for a forked process, whose parent it belongs to."""
        for process in self._taken():
            process.forget()

    def _taken(self) -> list[RegoProcess]:
        taken = [self._process, self._starting]
        self._process = self._starting = None
        return [process for process in taken if process is not None]

    def _loaded(self, source: RegoSource) -> RegoProcess:
        try:
            process = self._starting = RegoProcess()
            process.load(source)
        except OSError as error:
            raise source.error(f"cannot be evaluated: no process ({error.strerror})") from error
        except WorkerDiedError as error:
            raise source.error(f"cannot be evaluated: {error}") from error
        finally:
            self._starting = None
        if self._closed:
            process.stop()
            raise source.error("is closed")
        return process

    def _running(self, seconds: float) -> RegoProcess:
        process = self._process
        if process is not None and not process.has_ended:
            return process
        # Nothing was asked of it when it ended, so nothing is lost.
        if process is not None:
            process.stop()
        self._allow_seconds(START_SECONDS)
        self._process = process = self._loaded(self._source)
        self._allow_seconds(seconds)
        return process

    def _question(self, event: Event, history: Callable[[], RunHistory]) -> bytes:
        session = b""
        if self._source.uses_session:
            session = b',"session":' + history().as_json()
        # Line breaks are but spaces between the values of JSON.
        body = event.body.replace(b"\n", b" ").replace(b"\r", b" ")
        return b'{"event":' + body + session + b"}\n"

    def _reload_when_changed(self, seconds: float) -> None:
        state = _state_of(self._source.path)
        if state == self._seen:
            return
        self._seen = state
        self._allow_seconds(START_SECONDS)
        try:
            source = read_source(self._source.path)
            process = self._loaded(source)
        except PolicyError as error:
            # What held until now goes on holding: a file is often changed in more than one step.
            logger.error("the policy has changed and cannot be used; the earlier one stays: %s", error)
        else:
            logger.warning("policy %s was read anew", source.path)
            self.reloads += 1
            earlier, self._source, self._process = self._process, source, process
            if earlier is not None:
                earlier.stop()
        self._allow_seconds(seconds)


def _state_of(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        # Gone for the moment: an editor may be replacing it.
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
