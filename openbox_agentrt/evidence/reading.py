"""
Evidence files, read back: `verify_file` and `read_entries`, for both formats.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

from .._plain.strict_json import JsonError, read_json
from .errors import UnreadableLogError
from .format1.verification import verify_bundles
from .format2.heads import Head, parse_head, read_head
from .format2.parsing import parse_line
from .format2.parts import header_of, is_put_away, iterate_lines, parts_of, torn_end_of
from .format2.verification import Expectation, verify_lines
from .keys import ed25519_verifier, key_id_of
from .report import Report

_MAX_DOCUMENT = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One entry of a log, of either format.

    Attributes:
        number: Position in the log, from 0.
        type: "violation" or "decision", and in format 2 any type of a line, see `format2.lines`.
        time: When it was recorded, UTC, ISO 8601.
        session_id: Session it is about, if it says so.
        data: What was recorded.
        hash: Its hash in the chain.
        signature: Its signature (format 1).
    """

    number: int
    type: str
    time: str
    session_id: str | None
    data: dict[str, Any]
    hash: str
    signature: str | None = None

    def text(self, name: str) -> str | None:
        """Give what was recorded under a name, if it is text."""
        value = self.data.get(name)
        return value if isinstance(value, str) else None


def verify_file(
    path: str | os.PathLike[str],
    public_key: str | None = None,
    *,
    session_id: str | None = None,
    rules_hash: str | Collection[str] | None = None,
    log_id: str | None = None,
    head: Head | Mapping[str, Any] | None = None,
    partial: bool = False,
    counted: Callable[[Iterator[bytes]], Iterator[bytes]] = iter,
) -> Report:
    """
    Check an evidence log, all its parts, for tampering.

    A part that was put away is checked with those parts before it that stand beside it. The report says what
    was not seen.

    Args:
        path: The log, of either format, or a part that was put away.
        public_key: Public key that it has to be signed with, in hexadecimal. Without one nothing is
            authenticated: the report then says no more than that the log is consistent in itself.
        session_id: Session that the log has to have been opened for (format 2).
        rules_hash: Rules that it has to have been opened with, and all its sessions to have run under, by
            one of their hashes (format 2).
        log_id: Identity that it has to have (format 2).
        head: A head that was kept elsewhere (format 2). The log has to hold everything that it vouches for,
            besides what the head beside the log vouches for. It takes the place of that one if there is
            none.
        partial: Parts before and after those that are there were put away on purpose.
        counted: Passes lines on and may take note of them, e.g. to show progress (format 2).

    Returns:
        A report, for a log that was tampered with as well.

    Raises:
        InvalidKeyError: If the public key is empty or is none.
        UnreadableLogError: If the file is missing, cannot be read, or is no evidence log.
    """
    log = Path(path).expanduser()
    verifier = None if public_key is None else ed25519_verifier(public_key)
    key_id = None if public_key is None else key_id_of(public_key)
    kept = None if head is None else _head(log, head)
    try:
        # The head before the log: one that is being written has grown meanwhile, never shrunk.
        beside = _head(log, None)
        if beside is None and kept is None and format_of(log) == 1:
            return verify_bundles(read_bundles(log), public_key_hex=public_key, partial=partial)
        files = parts_of(log) if log.exists() else []
        report = verify_lines(
            (
                (file.name, counted(iterate_lines(file, skip_torn=file == log)))
                for file in files
                if file.stat().st_size
            ),
            Expectation(
                head=kept if beside is None else beside,
                kept=None if beside is None else kept,
                verifier=verifier,
                key_id=key_id,
                session_id=session_id,
                rules_hash=rules_hash,
                log_id=log_id,
                partial=partial or (bool(files) and is_put_away(log)),
            ),
        )
        torn = torn_end_of(log) if files else 0
    except OSError as error:
        _unreadable(log, error)
    if torn:
        note = f"the last {torn} bytes are no complete line, as a crash leaves them"
        report = replace(report, notes=(*report.notes, note))
    return report


def format_of(path: Path) -> Literal[1, 2]:
    """
    Which format a file has.

    Raises:
        UnreadableLogError: If it has neither.
        OSError: If it cannot be read.
    """
    if header_of(path) is not None:
        return 2
    with path.open("rb") as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"["):
        return 1
    if start.startswith(b'{"body":'):
        # A log of format 2 whose first line was tampered with: verification says so.
        return 2
    reason = "is no evidence log: it must contain a JSON list or lines" if start else "is empty"
    raise UnreadableLogError(f"file {reason}", path=str(path))


def read_bundles(path: Path) -> list[Any]:
    """
    The bundles of a log of format 1, unchecked.

    Raises:
        UnreadableLogError: If the file cannot be read or holds no JSON list.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_DOCUMENT + 1)
        if len(data) > _MAX_DOCUMENT:
            raise UnreadableLogError("file is too large for format 1", path=str(path))
        # acel-core writes NaN into its logs, which is no JSON.
        document = read_json(data.decode("utf-8-sig"), finite=False)
    except UnicodeDecodeError as error:
        raise UnreadableLogError("file is not UTF-8", path=str(path)) from error
    except JsonError as error:
        where = "" if error.line is None else f" (line {error.line})"
        raise UnreadableLogError(f"file is not JSON{where}: {error.reason}", path=str(path)) from error
    except OSError as error:
        _unreadable(path, error)
    if not isinstance(document, list):
        raise UnreadableLogError("file must contain a JSON list of evidence bundles", path=str(path))
    return document


def read_entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """
    The entries of a log of either format, all its parts, in order. They are not verified.

    Raises:
        UnreadableLogError: If the file is missing or is no evidence log, or at an entry that is none.
    """
    log = Path(path).expanduser()
    try:
        if format_of(log) == 1:
            for number, bundle in enumerate(read_bundles(log)):
                yield _entry_of_bundle(log, number, bundle)
            return
        for file in parts_of(log):
            for raw in iterate_lines(file, skip_torn=file == log):
                yield _entry_of_line(file, raw)
    except OSError as error:
        _unreadable(log, error)


def _entry_of_bundle(log: Path, number: int, bundle: Any) -> Entry:
    match bundle:
        case {"timestamp": str() as time, "violation": dict() as violation, "bundle_hash": str() as digest}:
            signature = bundle.get("signature")
            return Entry(
                number=number,
                type="violation",
                time=time,
                session_id=None,
                data=violation,
                hash=digest,
                signature=signature if isinstance(signature, str) else None,
            )
    raise UnreadableLogError(f"missing or malformed field: bundle {number}", path=str(log))


def _entry_of_line(file: Path, raw: bytes) -> Entry:
    try:
        line = parse_line(raw)
    except ValueError as error:
        raise UnreadableLogError(str(error), path=str(file)) from error
    return Entry(
        number=line.seq,
        type=line.type,
        time=line.time,
        session_id=line.session,
        data=line.data(),
        hash=line.hash,
    )


def _head(log: Path, given: Head | Mapping[str, Any] | None) -> Head | None:
    if isinstance(given, Head):
        return given
    try:
        return read_head(log) if given is None else parse_head(given)
    except ValueError as error:
        raise UnreadableLogError("head of the log cannot be read", path=str(log)) from error


def _unreadable(log: Path, error: OSError) -> NoReturn:
    reason = (error.strerror or type(error).__name__).lower()
    raise UnreadableLogError(f"could not read file ({reason})", path=str(log)) from error
