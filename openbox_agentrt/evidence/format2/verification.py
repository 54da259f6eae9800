"""
Checking format 2, as a pure function.

Nothing here opens a file. Lines are taken in the order in which they stand; the first that does not hold is
reported, and what comes after it cannot be trusted either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..._values import dataclass, field
from ..canonical import GENESIS_HASH
from ..course import Course
from ..findings import NO_KEY, BadEntry, moved_or_missing
from ..keys import Verifier, ed25519_verifier, key_id_of
from ..report import Problem, Report
from .heads import Head
from .parsing import LogLine, parse_line
from .succession import successor

# How the body of a record begins that could not be frozen.
_NOT_TAKEN_DOWN = b'{"$error":'


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """
    State what a log of format 2 is expected to be.

    Attributes:
        head: Its head, or None if there is none.
        verifier: Check of the head's signature, or None to authenticate nothing. Where this key hands the log
            over to another, that one has to have signed from there on.
        key_id: Short name of the key that the verifier stands for.
        session_id: Session that the log has to be of, or None for any.
        rules_hash: Rules that all its sessions have to have run under, by one of their hashes, or None for
            any.
        log_id: Identity that the log has to have, or None for any.
        kept: A head that was kept elsewhere: the log has to hold everything that it vouches for too.
        partial: The entries may start and end in the middle of the log, other parts having been put away.
    """

    head: Head | None
    verifier: Verifier | None = None
    key_id: str | None = None
    session_id: str | None = None
    rules_hash: str | Collection[str] | None = None
    log_id: str | None = None
    kept: Head | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class _Key:
    """Hold the key that has to sign a log at some line of it."""

    key_id: str
    verify: Verifier


@dataclass(slots=True)
class _Walk:
    """Keep the position that verification has reached in a log."""

    expected: Expectation
    prev: str = GENESIS_HASH
    seq: int = 0
    first: int = 0
    records: int = 0
    header: dict[str, Any] | None = None
    sealed_hash: str | None = None
    kept_hash: str | None = None
    course: Course = field(default_factory=Course)
    names_rules: bool = False
    unsigned: list[tuple[int, int]] = field(default_factory=list)
    handed_over: list[str] = field(default_factory=list)
    key: _Key | None = None
    head_key: _Key | None = None
    kept_key: _Key | None = None

    def __post_init__(self) -> None:
        if self.expected.verifier is not None:
            self.key = _Key(self.expected.key_id or "", self.expected.verifier)


def verify_lines(parts: Iterable[tuple[str, Iterable[bytes]]], expected: Expectation) -> Report:
    """
    Check a log of format 2.

    Args:
        parts: Name and lines of each file of the log, in order, lines with their ends. A line that was
            torn by a crash, at the very end, is left out.
        expected: What the log is expected to be.

    Returns:
        A report. Lines after the last that the head vouches for, as a writer leaves them that was
        stopped, are checked as a chain and counted, and are not authenticated.
    """
    walk = _Walk(expected)
    bad: BadEntry | None = None
    try:
        for name, lines in parts:
            _check_part(walk, name, lines)
        _check_head(walk)
        _check_kept_head(walk)
        if expected.rules_hash is not None and not walk.names_rules:
            raise BadEntry("foreign", "the log does not say which rules it is of", at=walk.first)
    except BadEntry as error:
        bad = error
    return _report(walk, bad)


def _check_part(walk: _Walk, name: str, lines: Iterable[bytes]) -> None:
    for position, raw in enumerate(lines):
        try:
            line = parse_line(raw)
        except ValueError as error:
            raise BadEntry("malformed", f"line {walk.seq}: {error}", at=walk.seq, file=name) from None
        if (line.type == "header") != (position == 0):
            what = "starts without a header" if position == 0 else "has a header inside"
            raise BadEntry("malformed", f"the file {what}", at=walk.seq, file=name)
        if position == 0:
            _check_header(walk, name, line)
        try:
            _check_link(walk, name, line)
        except BadEntry as bad:
            bad.problem = moved_or_missing(bad.problem, walk.seq, map(_number_of, lines))
            raise


def _number_of(raw: bytes) -> int | None:
    try:
        return parse_line(raw).seq
    except ValueError:
        return None


def _check_header(walk: _Walk, name: str, line: LogLine) -> None:
    header = line.data()
    seq = walk.seq if walk.header is not None else line.seq
    if header.get("format") != 2 or not isinstance(header.get("log_id"), str):
        raise BadEntry("malformed", "the header is not one of format 2", at=seq, file=name)
    if walk.header is not None:
        if header["log_id"] != walk.header["log_id"]:
            raise BadEntry("foreign", "this part belongs to another log", at=seq, file=name)
        return
    walk.header = header
    if walk.expected.partial:
        walk.seq = walk.first = line.seq
        walk.prev = line.prev
    if walk.expected.log_id not in (None, header["log_id"]):
        reason = f"this is log {header['log_id']!r}, not {walk.expected.log_id!r}"
        raise BadEntry("foreign", reason, at=walk.seq, file=name)
    session = walk.expected.session_id
    if session is not None and header.get("session_id") != session:
        reason = f"the log was opened for session {header.get('session_id')!r}, not {session!r}"
        raise BadEntry("foreign", reason, at=walk.seq, file=name)
    if header.get("rules_hash") is not None:
        # A log that several sessions share names the rules of each when it begins.
        _check_rules(walk, name, "the log was opened", header)


def _check_rules(walk: _Walk, name: str, what: str, said: Mapping[str, Any]) -> None:
    found, wanted = said.get("rules_hash"), walk.expected.rules_hash
    hashes = (wanted,) if isinstance(wanted, str) else tuple(wanted or ())
    if hashes and found not in hashes:
        rules = f"under rules {found!r}" if found is not None else "under rules that it does not name"
        raise BadEntry("foreign", f"{what} {rules}, not {hashes[0]!r}", at=walk.seq, file=name)
    walk.names_rules = True


def _check_link(walk: _Walk, name: str, line: LogLine) -> None:
    at = walk.seq
    if line.computed_hash != line.hash:
        raise BadEntry("changed", f"line {at} is not what its hash was taken of", at=at, file=name)
    if line.seq != at:
        problem: Problem = "missing" if line.seq > at else "reordered"
        raise BadEntry(problem, f"line {at} says that it is number {line.seq}", at=at, file=name)
    if line.prev != walk.prev:
        raise BadEntry("unlinked", f"line {at} does not follow from the one before it", at=at, file=name)
    if line.type == "resumed":
        _note_unsigned(walk, line)
    if line.type == "session":
        _check_rules(walk, name, f"session {line.session!r} runs", line.data())
    if line.type == "rules":
        _check_rules(walk, name, "a session runs", {"rules_hash": line.data().get("hash")})
    if line.type == "key":
        _follow_key(walk, name, line)
    _take_note(walk, line)
    walk.prev = line.hash
    walk.seq += 1
    if walk.expected.head is not None and walk.seq == walk.expected.head.count:
        walk.sealed_hash, walk.head_key = line.hash, walk.key
    if walk.expected.kept is not None and walk.seq == walk.expected.kept.count:
        walk.kept_hash, walk.kept_key = line.hash, walk.key


def _follow_key(walk: _Walk, name: str, line: LogLine) -> None:
    if walk.key is None or walk.header is None:
        return
    try:
        next_key = successor(walk.header["log_id"], line.seq, line.data(), walk.key.key_id, walk.key.verify)
    except ValueError as error:
        raise BadEntry(
            "wrong_signer", f"line {line.seq}: the new key {error}", at=line.seq, file=name
        ) from None
    if next_key is not None:
        walk.key = _Key(key_id_of(next_key), ed25519_verifier(next_key))
        walk.handed_over.append(next_key)


def _take_note(walk: _Walk, line: LogLine) -> None:
    course = walk.course
    course.pass_entry(line.seq, line.time, line.session)
    walk.records += line.type in ("violation", "decision")
    if line.type == "gap":
        lost = line.data().get("lost")
        course.lost += lost if isinstance(lost, int) and lost > 0 else 1
    elif line.body.startswith(_NOT_TAKEN_DOWN):
        course.lost += 1


def _note_unsigned(walk: _Walk, line: LogLine) -> None:
    # What stood after the head when the log was opened again may have been put there by anyone.
    match line.data():
        case {"sealed": int() as sealed, "found": int() as found} if 0 < sealed <= found <= line.seq:
            start = max(sealed, walk.first)
            walk.unsigned += [(start, found)] if start < found else []
        case _:
            raise BadEntry("malformed", f"line {line.seq} does not say what was found", at=line.seq)


def _check_head(walk: _Walk) -> None:
    head, key = walk.expected.head, walk.head_key or walk.key
    if head is None:
        raise BadEntry("headless", "the head is missing: lines may have been cut from the end", at=walk.seq)
    if key is not None:
        # The signature first: what an unsigned head says is worth nothing.
        _check_signature(head, "the head", key)
    if walk.header is None:
        raise BadEntry("emptied", f"the log is empty, its head vouches for {head.count} lines", at=0)
    if head.log_id != walk.header["log_id"]:
        raise BadEntry("foreign", "the head belongs to another log", at=walk.first)
    if walk.seq < head.count:
        raise BadEntry("truncated", f"the log ends after {walk.seq} of {head.count} lines", at=walk.seq)
    if walk.sealed_hash != head.hash:
        reason = f"line {head.count - 1} is not the one that the head vouches for"
        raise BadEntry("rewritten", reason, at=head.count - 1)
    if head.state == "rotated" and not walk.expected.partial:
        raise BadEntry("truncated", "another part follows this one, and it is missing", at=walk.seq)
    if head.state != "open" and walk.seq > head.count:
        ended = "closed" if head.state == "closed" else "put away"
        raise BadEntry("appended", f"the log was {ended} after {head.count} lines", at=head.count)


def _check_signature(head: Head, which: str, key: _Key) -> None:
    if head.signature is None:
        raise BadEntry("unsigned", f"{which} is not signed", at=0)
    if not key.verify(head.statement(), head.signature):
        whose = "" if head.key_id == key.key_id else f", but with {head.key_id!r}"
        raise BadEntry("wrong_signer", f"{which} is not signed with this key{whose}", at=0)


def _check_kept_head(walk: _Walk) -> None:
    """Check that what the log was when the head was kept is how it still begins."""
    kept, key = walk.expected.kept, walk.kept_key or walk.key
    if kept is None:
        return
    if key is not None:
        _check_signature(kept, "the head that was kept", key)
    if walk.header is None or kept.log_id != walk.header["log_id"]:
        raise BadEntry("foreign", "the head that was kept belongs to another log", at=walk.first)
    if walk.seq < kept.count:
        reason = f"the log ends after {walk.seq} lines, and the head that was kept vouches for {kept.count}"
        raise BadEntry("truncated", reason, at=walk.seq)
    if kept.count <= walk.first:
        reason = f"the head that was kept vouches for line {kept.count - 1}, which is before these parts"
        raise BadEntry("missing", reason, at=kept.count - 1)
    if walk.kept_hash != kept.hash:
        reason = f"line {kept.count - 1} is not the one that the head that was kept vouches for"
        raise BadEntry("rewritten", reason, at=kept.count - 1)


def _report(walk: _Walk, bad: BadEntry | None) -> Report:
    head, header, course = walk.expected.head, walk.header or {}, walk.course
    count = walk.seq - walk.first
    recovered = sum(end - start for start, end in walk.unsigned)
    signed = 0
    if walk.expected.verifier is not None and bad is None and head is not None:
        signed = head.count - walk.first - recovered
    return Report(
        ok=bad is None,
        authenticated=bad is None and signed == count,
        format=2,
        count=count,
        records=walk.records,
        signed=signed,
        notes=tuple(_notes(walk, bad)),
        session_id=header.get("session_id"),
        rules_hash=header.get("rules_hash"),
        key_id=None if head is None else head.key_id,
        handed_over=tuple(walk.handed_over),
        log_id=header.get("log_id"),
        lost=course.lost,
        state=None if head is None else head.state,
        starts_at=walk.first,
        recovered=recovered,
        first_time=course.first,
        last_time=course.last,
        backwards=course.backwards,
        sessions=course.sessions,
        first_bad=None if bad is None else bad.at,
        file=None if bad is None else bad.file,
        problem=None if bad is None else bad.problem,
        reason=None if bad is None else bad.reason,
    )


def _notes(walk: _Walk, bad: BadEntry | None) -> Iterator[str]:
    head = walk.expected.head
    yield from walk.course.notes()
    if walk.expected.verifier is None:
        yield NO_KEY
    unsealed = walk.seq - head.count if head is not None else 0
    if bad is None and unsealed:
        yield f"the last {unsealed} lines are not covered by the head yet"
    for start, end in walk.unsigned:
        yield f"lines {start} to {end - 1} were not signed when the log was opened again"
    for key in walk.handed_over:
        yield f"the key handed the log over to key {key_id_of(key)}, which signs from there on"
    if walk.first:
        yield f"the {walk.first} lines before this part were not looked at"
    if bad is None and head is not None and head.state == "rotated":
        yield "another part follows this one, and was not looked at"
