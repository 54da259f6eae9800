"""
Opening a log for writing: a new one, or one that is there already.

A log that is there is checked against its head first. To continue one that was cut or rewritten would be
to sign the forgery, so that is refused, and the log is left as it is.

What looks at all of a log is loaded when there is one to look at: a hook has no time for it.
"""

import os
from typing import Any, Literal

from ..canonical import canonical
from ..errors import DamagedLogError
from ..keys import Ed25519Signer
from .heads import Head, read_head
from .lines import MAX_LINE, session_text
from .tail import continue_at_end
from .writing import SET_ASIDE, LogIdentity, LogWriter

# How every log begins, as far as a crash in the first write may have left it.
_BEGINNING = b'{"body":{"format":2,'


def open_log(
    log: str,
    wanted: LogIdentity,
    *,
    signer: Ed25519Signer | None,
    previous: Ed25519Signer | None = None,
    check: Literal["whole", "end"] = "whole",
    **settings: Any,
) -> LogWriter:
    """
    Begin a log, or continue the one that is there.

    Args:
        log: Where it is.
        wanted: What the header of a new log says. A log that is continued keeps its own.
        signer: Key that the head which is there has to be signed with, or None to take it as it is.
        previous: Key that may have signed it instead. It hands the log over to `signer` then.
        check: What of a log that is there is looked at, see `EvidenceFile`.
        settings: The settings of `LogWriter`.

    Raises:
        DamagedLogError: If the log that is there is not what its head says, or is signed with another key.
        OSError: If a file cannot be read or written.
    """
    try:
        head = read_head(log)
    except ValueError as error:
        raise DamagedLogError("the head of the log cannot be read", path=log, remedy=SET_ASIDE) from error
    if head is None:
        return _begin(log, wanted, settings)
    takes_over = previous is not None and signer is not None and head.key_id == previous.key_id
    takes_over = takes_over and head.key_id != wanted.key_id
    key = previous if takes_over else signer
    _check_key(log, head, previous.key_id if takes_over and previous else wanted.key_id, key)
    if head.state == "rotated":
        raise DamagedLogError(
            "the log is a part that another one follows", path=log, remedy="continue the last part"
        )
    writer = None
    if check == "end" and not takes_over:
        writer = continue_at_end(log, head, wanted, settings)
    if writer is None:
        from pathlib import Path

        from .continuing import continue_log

        writer = continue_log(Path(log), head, wanted, key, settings)
    if takes_over and previous is not None and signer is not None:
        from .succession import handover

        body = handover(head.log_id, writer.count, previous, signer)
        writer.write(canonical(body), session=session_text(wanted.session_id), type="key")
    return writer


def _begin(log: str, wanted: LogIdentity, settings: dict[str, Any]) -> LogWriter:
    if os.path.exists(log):
        _check_overwritten(log)
    writer = LogWriter(log, wanted, **settings)
    writer.begin_file(previous=None)
    return writer


def _check_overwritten(log: str) -> None:
    with open(log, "rb") as stream:
        start = stream.read(len(_BEGINNING))
        stream.seek(0)
        ends = [stream.readline(MAX_LINE).endswith(b"\n") for _ in range(2)]
    if all(ends):
        # A crash at the very beginning leaves a header without a head; anything more had one.
        raise DamagedLogError("the head of the log is missing", path=log, remedy=SET_ASIDE)
    if not _BEGINNING.startswith(start):
        # Somebody's notes or settings, given by mistake. To begin a log there would be to delete them.
        raise DamagedLogError("not an evidence log", path=log, remedy="give another file")


def _check_key(log: str, head: Head, key_id: str | None, signer: Ed25519Signer | None) -> None:
    if (head.signature is None) != (key_id is None) or head.key_id != key_id:
        before = "not signed" if head.signature is None else f"signed with key {head.key_id!r}"
        now = "no key" if key_id is None else f"key {key_id!r}"
        raise DamagedLogError(
            f"the log was {before} so far, and {now} is given now",
            path=log,
            remedy="give the key so far as previous_signer, or move it and its .head away for a new log",
        )
    if signer is not None and not signer.verifier()(head.statement(), head.signature or ""):
        raise DamagedLogError("the head of the log is forged", path=log, remedy=SET_ASIDE)
