"""
Opening a log for writing: a new one, or one that is there already.

A log that is there is checked against its head first. To continue one that was cut or rewritten would be
to sign the forgery, so that is refused, and the log is left as it is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..canonical import canonical, sha256_hex
from ..errors import DamagedLogError
from ..keys import Ed25519Signer
from .heads import Head, read_head
from .lines import parse_line, session_text
from .parts import header_of, iterate_lines, part_path, parts_of, torn_end_of
from .succession import handover
from .verification import Expectation, verify_lines
from .writing import LogIdentity, LogWriter

# How every log begins, as far as a crash in the first write may have left it.
_BEGINNING = b'{"body":{"format":2,'
_SET_ASIDE = "keep it for whoever looks into it: move it and its .head away, and a new log begins"


def open_log(
    log: Path,
    wanted: LogIdentity,
    *,
    signer: Ed25519Signer | None,
    previous: Ed25519Signer | None = None,
    **settings: Any,
) -> LogWriter:
    """
    Begin a log, or continue the one that is there.

    Args:
        log: Where it is.
        wanted: What the header of a new log says. A log that is continued keeps its own.
        signer: Key that the head which is there has to be signed with, or None to take it as it is.
        previous: Key that may have signed it instead. It hands the log over to `signer` then.
        settings: The settings of `LogWriter`.

    Raises:
        DamagedLogError: If the log that is there is not what its head says, or is signed with another key.
        OSError: If a file cannot be read or written.
    """
    try:
        head = read_head(log)
    except ValueError as error:
        raise DamagedLogError(
            "the head of the log cannot be read", path=str(log), remedy=_SET_ASIDE
        ) from error
    if head is None:
        return _begin(log, wanted, settings)
    takes_over = previous is not None and signer is not None and head.key_id == previous.key_id
    takes_over = takes_over and head.key_id != wanted.key_id
    key = previous if takes_over else signer
    _check_key(log, head, previous.key_id if takes_over and previous else wanted.key_id, key)
    if head.state == "rotated":
        raise DamagedLogError(
            "the log is a part that another one follows", path=str(log), remedy="continue the last part"
        )
    writer = _continue(log, head, wanted, key, settings)
    if takes_over and previous is not None and signer is not None:
        body = handover(head.log_id, writer.count, previous, signer)
        writer.write(canonical(body), session=session_text(wanted.session_id), type="key")
    return writer


def _begin(log: Path, wanted: LogIdentity, settings: dict[str, Any]) -> LogWriter:
    if log.exists() and len(list(zip(range(2), iterate_lines(log, skip_torn=True), strict=False))) > 1:
        # A crash at the very beginning leaves a header without a head; anything more had one.
        raise DamagedLogError("the head of the log is missing", path=str(log), remedy=_SET_ASIDE)
    if log.exists() and not _may_be_a_header(log):
        # Somebody's notes or settings, given by mistake. To begin a log there would be to delete them.
        raise DamagedLogError("not an evidence log", path=str(log), remedy="give another file")
    writer = LogWriter(log, wanted, **settings)
    writer.begin_file(previous=None)
    return writer


def _may_be_a_header(log: Path) -> bool:
    with log.open("rb") as stream:
        start = stream.read(len(_BEGINNING))
    return _BEGINNING.startswith(start)


def _check_key(log: Path, head: Head, key_id: str | None, signer: Ed25519Signer | None) -> None:
    if (head.signature is None) != (key_id is None) or head.key_id != key_id:
        before = "not signed" if head.signature is None else f"signed with key {head.key_id!r}"
        now = "no key" if key_id is None else f"key {key_id!r}"
        raise DamagedLogError(
            f"the log was {before} so far, and {now} is given now",
            path=str(log),
            remedy="give the key so far as previous_signer, or move it and its .head away for a new log",
        )
    if signer is not None and not signer.verifier()(head.statement(), head.signature or ""):
        raise DamagedLogError("the head of the log is forged", path=str(log), remedy=_SET_ASIDE)


def _continue(
    log: Path, head: Head, wanted: LogIdentity, key: Ed25519Signer | None, settings: dict[str, Any]
) -> LogWriter:
    put_away = part_path(log, head.part)
    # A crash while a new part was begun leaves the old one put away and nothing in its place.
    unfinished = not log.exists() and put_away.exists()
    last = put_away if unfinished else log
    files = [file for file in parts_of(last) if _part_of(file) >= head.part] if last.exists() else []
    end = _End()
    report = verify_lines(
        ((file.name, end.watch(iterate_lines(file, skip_torn=file == last))) for file in files),
        Expectation(
            head=head,
            verifier=None if key is None else key.verifier(),
            key_id=None if key is None else key.key_id,
            partial=True,
        ),
    )
    if not report.ok:
        raise DamagedLogError(
            f"the log cannot be continued: {report.reason}", path=str(log), remedy=_SET_ASIDE
        )
    line = parse_line(end.raw)
    header = header_of(last) or {}
    kept = LogIdentity(
        log_id=head.log_id,
        session_id=header.get("session_id"),
        rules_hash=header.get("rules_hash"),
        key_id=wanted.key_id,
        record=wanted.record,
    )
    writer = LogWriter(log, kept, part=_part_of(last), count=line.seq + 1, prev=line.hash, **settings)
    torn = torn_end_of(last)
    left = _last_bytes(last, torn)
    if unfinished:
        writer.begin_file(previous=put_away)
    else:
        writer.continue_file(torn=torn)
    found = {
        "dropped_bytes": torn,
        "dropped_sha256": sha256_hex(left) if torn else None,
        "found": line.seq + 1,
        "sealed": head.count,
    }
    writer.write(canonical(found), session=session_text(wanted.session_id), type="resumed")
    if (kept.session_id, kept.rules_hash) != (wanted.session_id, wanted.rules_hash):
        body = canonical({"rules_hash": wanted.rules_hash})
        writer.write(body, session=session_text(wanted.session_id), type="session")
    return writer


class _End:
    """Remembers the last line that passed."""

    raw = b""

    def watch(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        for self.raw in lines:
            yield self.raw


def _part_of(file: Path) -> int:
    part = (header_of(file) or {}).get("part")
    return part if isinstance(part, int) else 0


def _last_bytes(file: Path, count: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(file.stat().st_size - count)
        return stream.read(count)
