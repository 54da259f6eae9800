"""
Going on with a log that is there, once all of it since its head's part was found to be what the head says.

What a crash has left is told in the log itself.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DamagedLogError
from ..keys import Ed25519Signer
from .heads import Head
from .parsing import parse_line
from .parts import header_of, iterate_lines, part_path, parts_of, torn_end_of
from .verification import Expectation, verify_lines
from .writing import SET_ASIDE, LogIdentity, LogWriter


def continue_log(
    log: Path, head: Head, wanted: LogIdentity, key: Ed25519Signer | None, settings: dict[str, Any]
) -> LogWriter:
    """
    Continue a log as far as it is what its head says.

    Args:
        log: Where it is.
        head: Its head.
        wanted: What the header of a new log would say.
        key: Key that the head has to be signed with, or None to take it as it is.
        settings: The settings of `LogWriter`.

    Raises:
        DamagedLogError: It is something else.
        OSError: A file cannot be read or written.
    """
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
            f"the log cannot be continued: {report.reason}", path=str(log), remedy=SET_ASIDE
        )
    line = parse_line(end.raw)
    kept = wanted.continuing(head.log_id, header_of(last) or {})
    writer = LogWriter(log, kept, part=_part_of(last), count=line.seq + 1, prev=line.hash, **settings)
    torn = torn_end_of(last)
    left = _last_bytes(last, torn)
    if unfinished:
        writer.begin_file(previous=put_away)
    else:
        writer.continue_file(torn=torn)
    writer.note_resumed(wanted, found=line.seq + 1, sealed=head.count, dropped=left)
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
