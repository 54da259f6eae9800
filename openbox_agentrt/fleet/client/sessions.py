"""
The memory of a session as the worker that holds it sees it: what was written, and what is still to write.

Everything here but what says otherwise happens in the dispatcher's thread, so it takes no lock. What has
changed is read when it is sent, not when it happens: of ten changes before the next trip, one is written.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakValueDictionary

from ..errors import FleetConfigError, FleetError, SessionBusyError
from ..periods import SECOND
from ..steps import Hold, Keep, SessionStand, StepAnswer
from .membership import Membership, WorkerId
from .requests import Question, deliver

LONGEST_NAME = 200

_log = logging.getLogger("openbox_agentrt.fleet")


class Memory(Protocol):
    """The memory that a session has in this process, in pieces with names. Safe for several threads."""

    def changes(self, *, whole: bool) -> dict[str, str | None]:
        """
        Give the pieces that have changed since they were last asked for, or the `whole`; None for one that is
        no more.

        Raises:
            FleetError: It holds something that cannot be kept.
        """
        ...

    def leave(self) -> None:
        """Take note that others may go on with it as it is now. Nothing is written by this."""
        ...

    def load(self, pieces: Mapping[str, str]) -> None:
        """
        Remember these pieces, in place of everything else.

        Raises:
            FleetError: They cannot be read.
        """
        ...


@dataclass(slots=True, eq=False, weakref_slot=True)
class HeldSession:
    """
    Follow one session between this worker and the store.

    Attributes:
        name: Its name in the store.
        idle_seconds: So long it lasts when nobody holds or writes it.
        memory: Its memory here.
        holders: Which record of this process has a session, by its name: of two, one waits for the other.
        users: How many use it here. With none, it is let go of as soon as all is written.
        ending: Whether it is over, for all workers.
        birth: Which memory of that name it is.
        version: The last version that the store has told of, which the memory here goes on from.
        worker: Under which name of this worker it is held; empty when it is not.
        taken: How often it was taken, so that what belongs to an earlier time is told from the rest.
        queued: Whether it is to be written by itself.
        used_at: When the store has last told of it, by the monotonic clock.
        busy_until: Until when another worker has it, by the store's clock, as that was last told.
        process: The process whose record it is.
    """

    name: str
    idle_seconds: float
    memory: Memory
    holders: WeakValueDictionary[str, HeldSession] = field(default_factory=WeakValueDictionary)
    users: int = 0
    ending: bool = False
    birth: str = ""
    version: int = -1
    worker: str = ""
    taken: int = 0
    queued: bool = False
    used_at: float = field(default_factory=time.monotonic)
    busy_until: int = 0
    process: int = field(default_factory=os.getpid)
    _claimed_until: float = 0.0
    _sent: int = 0
    _writer: str = ""
    _whole: bool = False
    _spoiled: bool = False
    _unwritten: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    @property
    def idle_us(self) -> int:
        """Give `idle_seconds` as the store counts."""
        return int(self.idle_seconds * SECOND)

    def here(self) -> HeldSession:
        """Give the record, of which a process that was forked has a copy: what that says is its parent's."""
        process = os.getpid()
        if process != self.process:
            self.process, self._claimed_until = process, 0.0
            self.users, self.taken, self.queued = 0, 0, False
            self.forget()
        return self

    def claim(self, until: float) -> None:
        """
        Let no other record of this process take it meanwhile: to the store, both are one worker.

        Raises:
            SessionBusyError: Another one has it.
        """
        holder = self.holders.get(self.name)
        if holder is not None and holder is not self:
            if holder.here().is_busy():
                raise SessionBusyError(self.name, retry_after=1.0)
            # From now on, what it remembers may be overtaken.
            holder.forget()
        self.holders[self.name] = self
        self._claimed_until = until

    def is_busy(self) -> bool:
        """Tell whether it is held or asked for, or something of it is still to be written."""
        is_asked = time.monotonic() < self._claimed_until
        return bool(self.worker or is_asked or (self.birth and (self.queued or self._unwritten)))

    def unclaim(self) -> None:
        """Take note that the store has answered."""
        self._claimed_until = 0.0

    def hold(self, membership: Membership, by: int) -> Hold:
        """Make the step that takes it. What nobody has used for too long is not remembered here either."""
        if time.monotonic() - self.used_at >= self.idle_seconds:
            self.birth, self.version = "", -1
        worker = membership.worker
        return Hold(
            session=self.name,
            worker=worker.id,
            idle_us=self.idle_us,
            lease_us=membership.lease_us,
            birth=self.birth,
            version=self.version,
            busy_until=self.busy_until,
            by=by,
            acked=worker.acked,
        )

    def held(self, stand: SessionStand, worker: str) -> bool:
        """
        Take note that it is held, and remember what the store has. Returns whether changes are lost.

        Raises:
            FleetError: What the store has cannot be read.
        """
        lost = False
        if self._is_own(stand):
            self._written(stand.version)
        elif stand.birth == self.birth and stand.version < self.version:
            self._whole = True  # the store has lost what is remembered here
        else:
            lost = bool(self._unwritten)
            self._unwritten.clear()
            self.memory.load(stand.pieces or {})
            self.birth, self.version, self._whole = stand.birth, stand.version, False
            self._sent = self.version
            self.taken += 1
        self.worker, self.used_at, self.busy_until = worker, time.monotonic(), 0
        return lost

    def _is_own(self, stand: SessionStand) -> bool:
        """Tell whether what the store has is what this worker knows, or has written without an answer."""
        if not self.birth or stand.birth != self.birth:
            return False
        is_sent = stand.writer == self._writer and self.version <= stand.version <= self._sent
        return is_sent or stand.version == self.version

    def _written(self, version: int) -> None:
        self.version = max(self.version, version)
        self._unwritten = {name: made for name, made in self._unwritten.items() if made[1] > version}

    def keep(self, worker: WorkerId) -> Keep:
        """
        Make the step that writes what has changed, and lets go of it if nobody uses it.

        Raises:
            FleetError: The memory holds something that cannot be kept, or another record has the session.
        """
        self.queued = False
        if self.holders.get(self.name, self) is not self:
            raise SessionBusyError(self.name, retry_after=1.0)
        whole = self._whole
        self._sent += 1
        self._writer = worker.id
        if whole:
            self._unwritten.clear()
        release = self.users <= 0
        for name, value in self._changes(whole=whole, release=release).items():
            self._unwritten[name] = (value, self._sent)
        if release or self.ending:
            # Before it is sent: whoever comes from now on asks the store.
            self.worker = ""
        return Keep(
            session=self.name,
            worker=worker.id,
            idle_us=self.idle_us,
            birth=self.birth,
            base=max(self.version, 0),
            version=self._sent,
            changed={name: value for name, (value, _) in self._unwritten.items() if value is not None},
            dropped=tuple(name for name, (value, _) in self._unwritten.items() if value is None),
            whole=whole,
            release=release,
            end=self.ending,
            acked=worker.acked,
        )

    def _changes(self, *, whole: bool, release: bool) -> dict[str, str | None]:
        try:
            # Of one that is over, nothing is kept.
            return {} if self.ending else self.memory.changes(whole=whole)
        except FleetError as error:
            if whole or not release:
                raise
            # Others go on with what was written last, in which a call that has begun may have happened.
            _log.error("session %r is let go of without its last changes: %s", self.name, error)
            self._spoiled = True
            return {}

    def kept(self, step: Keep, worker: str) -> None:
        """Take note of what the store has written."""
        self.used_at = time.monotonic()
        self._written(step.version)
        if step.whole:
            self._whole = False
        if step.end or self._spoiled:
            self.forget()
            self.ending = self._spoiled = False
        elif not step.release and self.users > 0:
            self.worker = worker

    def write_whole(self) -> None:
        """Write all there is next time: the store has lost it."""
        self._whole = True

    def forget(self) -> None:
        """Remember nothing of it any more: somebody else has gone on with it, or it is over."""
        self.birth, self.version, self.worker = "", -1, ""
        self._whole = False
        self._unwritten.clear()


class ForSession(Question):
    """Ask for a session."""

    __slots__ = ()

    record: HeldSession

    def step(self, membership: Membership, by: int) -> Hold | Keep:
        """
        Make the step to be taken.

        Raises:
            FleetError: There is nothing that can be sent.
        """
        raise NotImplementedError

    def goes_on(self, answer: StepAnswer, membership: Membership) -> bool:
        """Deliver an answer, or say that the question has to be asked again."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class ToHold(ForSession):
    """Take a session for this worker. `abandoned` is told when nobody waits for it any more."""

    record: HeldSession = field(kw_only=True)
    abandoned: Callable[[HeldSession], None] = field(kw_only=True)

    def step(self, membership: Membership, by: int) -> Hold:
        self.record.claim(self.deadline)
        return self.record.hold(membership, by)

    def goes_on(self, answer: StepAnswer, membership: Membership) -> bool:
        self.record.unclaim()
        if answer.said == "ok" and answer.session is not None:
            self._held(answer.session, membership)
        elif answer.said in ("busy", "lost"):
            self.record.worker = ""
            if answer.said == "busy":
                self.record.busy_until = answer.until
            wait = round(max(0.05, (answer.until - answer.now) / SECOND), 2)
            lost = answer.said == "lost"
            deliver(self, SessionBusyError(self.record.name, retry_after=wait, lost=lost))
        else:
            return not self.is_over()
        return False

    def _held(self, stand: SessionStand, membership: Membership) -> None:
        try:
            lost = self.record.held(stand, membership.worker.id)
        except FleetError as error:
            self.record.forget()
            self.abandoned(self.record)
            deliver(self, error)
            return
        if lost:
            membership.lost_session(self.record.name)
        if not deliver(self, True) and self.record.users <= 0:
            self.abandoned(self.record)


@dataclass(slots=True, eq=False)
class ToKeep(ForSession):
    """Write what has changed in a session, and say whether it still is held. `soon`: nobody waits."""

    record: HeldSession = field(kw_only=True)
    soon: bool = False
    _sent: Keep | None = None
    _taken: int = 0

    def is_unawaited(self) -> bool:
        return self.soon

    def step(self, membership: Membership, by: int) -> Keep:
        self._taken = self.record.taken
        self._sent = self.record.keep(membership.worker)
        return self._sent

    def goes_on(self, answer: StepAnswer, membership: Membership) -> bool:
        sent = self._sent
        assert sent is not None
        if self._taken != self.record.taken:
            # The session was taken anew since this was sent, and what it wrote is what was found then.
            deliver(self, False)
        elif answer.said in ("ok", "again"):
            self.record.kept(sent, membership.worker.id)
            deliver(self, True)
        elif answer.said == "no":
            was_used = self.record.users > 0
            self.record.forget()
            if was_used:
                membership.lost_session(self.record.name)
            deliver(self, False)
        else:
            if answer.said == "gone":
                self.record.write_whole()
            return True
        return False


def name_of(session_id: str) -> str:
    """Name a session in the store: by its id, or by a hash of one that is long or no plain text."""
    if session_id.isascii() and session_id.isprintable() and len(session_id) <= LONGEST_NAME:
        return session_id
    digest = hashlib.sha256(session_id.encode("utf-8", "backslashreplace")).hexdigest()
    return f"#{digest}"


def check_idle(seconds: float) -> float:
    """
    Accept how long a session lasts that nobody uses.

    Raises:
        FleetConfigError: It is no time.
    """
    if not 1 <= seconds <= 10 * 366 * 86_400:
        raise FleetConfigError(f"idle_seconds is {seconds!r}: write a number from 1 to 10 years")
    return seconds
