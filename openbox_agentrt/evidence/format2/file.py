"""
Format 2: evidence in a file that only grows.

See `lines` for what stands in it, `heads` for what makes a cut visible, and `docs/evidence.md` for what
all of it proves and what not.
"""

import atexit
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, Self

from ..._plain.clock import utc_clock
from ..._primitives import allocate_lock
from ..canonical import canonical
from ..failures import Failures
from ..keys import Ed25519Signer, Signer, marker_key_of
from ..redaction.redactor import Redactor
from .heads import Head, HeadState
from .lines import LineType, session_text
from .opening import open_log
from .place import file_at, lock_of, put_public_key
from .recording import Recording
from .writing import LogIdentity

if TYPE_CHECKING:
    import datetime
    from pathlib import Path
    from types import TracebackType

    from ..checkpoints.anchors import Anchors, AnchorSpec
    from .background import BackgroundLane

_MAX_BYTES = 64 << 20
_SEAL_INTERVAL = 0.05
_ANCHOR_INTERVAL = 60.0


class EvidenceFile(Recording):
    """
    An append-only evidence log with one writer.

    Recording never raises, whatever is recorded and whatever the disk does: what could not be written is
    counted in `failures`, logged once, and noted in the log itself as soon as something can be written
    again. Records are written before `record` returns, without waiting for the disk; the head is replaced
    and signed on a thread of its own, at most `seal_interval` seconds later, and by `seal` and `close`.

    Safe for several threads. A process that was forked from the one that opened the log records nothing.

    Args:
        path: The file; ``~`` is the home folder. In a folder, also one that is named with a slash at its end
            and is not there yet, each log gets a file of its own. The file and what stands beside it
            (``.head``, ``.lock``, ``.pub`` with the public key) are readable by their owner only.
        signer: Signs the head, see `ed25519_signer`.
        previous_signer: The signer of the log so far, where `signer` takes over: it vouches for the new key
            in the log itself, so that whoever trusts the old one can follow. Not needed once that is done.
        session_id: Session of records that do not name one.
        rules_hash: Hash of the rules in force.
        redact_fields: Names of secrets, or a `Redactor`. One without a key of its own gets one that is
            derived from the signer, so that equal secrets have equal markers after a restart and in every
            log that is signed with the same key.
        redaction_key: Key of the markers in the place of that, for logs with different signers or none: bytes
            (at least 16), or a file, created if it does not exist. Equal secrets have equal markers wherever
            it is used, and nobody without it can guess them.
        record: "violations"; "all" for decisions too; "steps" for everything from which decisions can be
            derived again, see `openbox-agentrt verify --rerun`.
        max_bytes: Size at which the log goes on in a new file, or None for never.
        seal_interval: How long a record may be without a signature, in seconds. 0 seals each record before
            `record` returns.
        check: How much of a log that is there is compared with its head before it goes on: the "whole" of
            it, back to the part that the head names, or its "end", which costs the same at any length. Both
            refuse a log that was cut, and one that does not end as its head says. A line that was changed
            before the last is left to `verify_file` by the second. A log that goes on after its head, as
            after a crash, is compared as a whole in any case.
        durable: Wait for the disk whenever the head is replaced.
        anchors: Who keeps checkpoints of the log: folders, URLs of witnesses, functions that are given the
            text. Needs an `Ed25519Signer`. Failures are counted and logged, and tried again.
        anchor_interval: How long a record may be without a checkpoint, in seconds. `close` makes the last.
        clock: The time, for the records.

    Raises:
        LogInUseError: If another writer holds the log.
        DamagedLogError: If there is a log already that is not what its head says, or is signed with
            another key.
        OSError: If a file cannot be read or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        signer: Signer | None = None,
        previous_signer: Ed25519Signer | None = None,
        session_id: str | None = None,
        rules_hash: str | None = None,
        redact_fields: Redactor | Iterable[str] | str | None = None,
        redaction_key: str | os.PathLike[str] | bytes | None = None,
        record: Literal["violations", "all", "steps"] = "violations",
        max_bytes: int | None = _MAX_BYTES,
        seal_interval: float = _SEAL_INTERVAL,
        check: Literal["whole", "end"] = "whole",
        durable: bool = False,
        anchors: "AnchorSpec | Iterable[AnchorSpec]" = (),
        anchor_interval: float = _ANCHOR_INTERVAL,
        clock: "Callable[[], datetime.datetime] | None" = None,
    ) -> None:
        if record not in ("violations", "all", "steps"):
            raise ValueError(f"record must be 'violations', 'all' or 'steps', not {record!r}")
        if check not in ("whole", "end"):
            raise ValueError(f"check must be 'whole' or 'end', not {check!r}")
        if signer is not None and not callable(signer):
            raise TypeError(f"signer must be callable, not {type(signer).__name__!r}")
        if anchors and not isinstance(signer, Ed25519Signer):
            raise ValueError("anchors keep signed checkpoints, give a signer made by ed25519_signer")
        key, redactor = marker_key_of(redaction_key, signer), Redactor.of(redact_fields)
        redactor = redactor if redactor is None or key is None else redactor.keyed(key)
        super().__init__(redactor, key, session_id=session_id, record=record)
        self._path = file_at(path)
        self._now = utc_clock() if clock is None else lambda: clock().isoformat()
        self._signer = signer
        # One for each record that is missing since the last line: appending needs no lock.
        self._lost: list[None] = []
        self._closed = False
        self._pid = os.getpid()
        self._lock = allocate_lock()
        self._sealing = allocate_lock()
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        self._writer_lock = lock_of(self._path)
        try:
            self._writer = open_log(
                self._path,
                LogIdentity(
                    log_id=os.urandom(16).hex(),
                    session_id=session_id,
                    rules_hash=rules_hash,
                    key_id=None if signer is None else str(getattr(signer, "key_id", "unnamed")),
                    record=record,
                ),
                signer=signer if isinstance(signer, Ed25519Signer) else None,
                previous=previous_signer,
                check=check,
                now=self._now,
                max_bytes=max_bytes,
                durable=durable,
            )
            self._head = self._signed(self._writer.head())
            self._writer.put_head(self._head)
            if isinstance(signer, Ed25519Signer):
                put_public_key(self._path, signer)
            self._anchors = _anchors(self._path, signer, anchors, self._failures)
        except BaseException:
            self._writer_lock.release()
            raise
        keeps = self._anchors is not None and anchor_interval > 0
        self._anchor_lane = _lane(self._anchor, anchor_interval) if keeps else None
        self._lane = _lane(self.seal, seal_interval) if seal_interval > 0 else None
        atexit.register(self.close)

    @property
    def path(self) -> "Path":
        """The file that is written to."""
        # Loaded here, and other things below: a hook has no time for them.
        from pathlib import Path

        return Path(self._path)

    @property
    def head(self) -> Head:
        """
        The head as it was last written.

        Keep it somewhere else, and `verify_file(..., head=...)` finds even a log that was set back
        together with its head.
        """
        return self._head

    @property
    def log_id(self) -> str:
        """Identity of the log."""
        return self._writer.identity.log_id

    def seal(self) -> None:
        """Bring the head up to date. Never raises; a failure is counted, and the next seal tries again."""
        self._seal("open")

    def close(self) -> None:
        """Seal the log as closed and let the next writer in. Doing so twice is fine."""
        if self._closed or os.getpid() != self._pid:
            return
        if self._lane is not None:
            self._lane.stop()
        if self._anchor_lane is not None:
            self._anchor_lane.stop()
        self._write_gap()
        self._seal("closed")
        self._anchor()
        if self._anchors is not None:
            self._anchors.close()
        with self._lock:
            self._closed = True
            self._writer.close()
        self._writer_lock.release()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: "TracebackType | None"
    ) -> None:
        self.close()

    def _put(self, type: LineType, body: bytes, session_id: str | None) -> int | None:
        try:
            session = session_text(session_id)
            if os.getpid() != self._pid:
                # Before the lock is taken: another thread may have held it when the process was forked.
                raise RuntimeError("opened by another process")
            with self._lock:
                number = self._write(body, session, type)
        except Exception as error:  # noqa: BLE001
            # Fail open: a full disk must not stop the calls. The gap is recorded once something can be.
            self._failures.add("write", error)
            self._lost.append(None)
            return None
        if self._lane is None:
            self.seal()
        else:
            self._lane.wake()
        return number

    def _write(self, body: bytes, session: str, type: LineType) -> int:
        if self._writer.full:
            try:
                self._head = self._writer.rotate(self._signed)
            except Exception as error:  # noqa: BLE001
                # Fail open: the log goes on in the file it has.
                self._failures.add("rotate", error)
        self._note_lost()
        return self._writer.write(body, session=session, type=type)

    def _note_lost(self) -> None:
        if self._lost:
            lost = len(self._lost)
            gap = canonical({"last_failure": self._failures.last, "lost": lost})
            self._writer.write(gap, session="null", type="gap")
            del self._lost[:lost]

    def _write_gap(self) -> None:
        try:
            with self._lock:
                self._note_lost()
        except Exception as error:  # noqa: BLE001
            # Fail open: the disk is still full. The log ends without saying what it lacks.
            self._failures.add("write", error)

    def _seal(self, state: HeadState) -> None:
        if os.getpid() != self._pid:
            return
        with self._sealing:
            try:
                with self._lock:
                    head = self._writer.head(state)
                    if self._closed or (head.count, head.state) == (self._head.count, self._head.state):
                        return
                # Not under the lock: a signer may ask a key service, and recording must not wait for it.
                head = self._signed(head)
                with self._lock:
                    if head.count >= self._head.count:
                        self._writer.put_head(head)
                        self._head = head
                if self._anchor_lane is not None:
                    self._anchor_lane.wake()
            except Exception as error:  # noqa: BLE001
                # Fail open: the lines are there, and the next seal covers them.
                self._failures.add("seal", error)

    def _anchor(self) -> None:
        if self._anchors is not None and os.getpid() == self._pid:
            self._anchors.keep(self._head)

    def _signed(self, head: Head) -> Head:
        return head if self._signer is None else head.signed(self._signer(head.statement()))


def _anchors(
    log: str, signer: Signer | None, given: "AnchorSpec | Iterable[AnchorSpec]", failures: Failures
) -> "Anchors | None":
    if not given or not isinstance(signer, Ed25519Signer):
        return None
    from pathlib import Path

    from ..checkpoints.anchors import Anchors

    return Anchors(Path(log), signer, given, failures)


def _lane(work: Callable[[], None], interval: float) -> "BackgroundLane":
    from .background import BackgroundLane

    return BackgroundLane(work, interval)
