"""
Checking evidence, as pure functions.

Nothing here opens a file. Each function takes entries in the order in which they stand, stops at the
first that does not hold, and says which it is and why; what comes after it cannot be trusted either.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .canonical import GENESIS_HASH, legacy_canonical, sha256_hex
from .heads import Head
from .keys import Verifier, ed25519_verifier
from .lines import Line, parse_line
from .report import Problem, Report

__all__ = ("Expectation", "verify_bundles", "verify_lines")

NO_KEY = (
    "nothing was authenticated: no public key was given, and whoever can write a log can make it consistent"
)
NO_HEAD_IN_FORMAT_1 = "format 1 does not show whether entries were cut from the end"

_BUNDLE = {
    "index": int,
    "timestamp": str,
    "violation": dict,
    "prev_hash": str,
    "trace_hash": str,
    "bundle_hash": str,
}


class _BadEntry(Exception):
    """An entry does not hold."""

    def __init__(self, problem: Problem, reason: str, *, at: int, file: str | None = None) -> None:
        self.problem: Problem = problem
        self.reason = reason
        self.at = at
        self.file = file
        super().__init__(reason)


def verify_bundles(bundles: Sequence[Any], *, public_key_hex: str | None = None) -> Report:
    """
    Check a log of format 1.

    An intact chain shows that nothing inside it was changed, dropped or reordered. It does not show that the
    chain is complete: bundles cut from the end, or all of them, leave no trace.

    Args:
        bundles: What the JSON document holds.
        public_key_hex: Public key that every bundle has to be signed with. Without one nothing is
            authenticated.

    Raises:
        InvalidKeyError: If the public key is none.
    """
    verifier = None if public_key_hex is None else ed25519_verifier(public_key_hex)
    notes = (NO_HEAD_IN_FORMAT_1,) if verifier is not None else (NO_KEY, NO_HEAD_IN_FORMAT_1)
    prev = GENESIS_HASH
    for index, bundle in enumerate(bundles):
        try:
            prev = _check_bundle(index, bundle, prev, verifier)
        except _BadEntry as bad:
            return Report(
                ok=False,
                authenticated=False,
                format=1,
                count=len(bundles),
                records=len(bundles),
                signed=index if verifier is not None else 0,
                first_bad=bad.at,
                problem=bad.problem,
                reason=bad.reason,
                notes=notes,
            )
    count = len(bundles)
    return Report(
        ok=True,
        authenticated=verifier is not None and count > 0,
        format=1,
        count=count,
        records=count,
        signed=count if verifier is not None else 0,
        notes=notes,
    )


def _check_bundle(index: int, bundle: Any, prev: str, verifier: Verifier | None) -> str:
    """Raises `_BadEntry`, or gives the bundle's hash."""
    if not isinstance(bundle, dict):
        raise _BadEntry("malformed", f"bundle {index} is not an object", at=index)
    for name, kind in _BUNDLE.items():
        if not isinstance(bundle.get(name), kind) or bundle[name] is True:
            raise _BadEntry("malformed", f"missing or malformed field: {name!r} of bundle {index}", at=index)
    unknown = sorted(set(map(str, bundle)) - set(_BUNDLE) - {"signature"})
    if unknown:
        # It could say anything.
        raise _BadEntry("changed", f"no hash covers a field of bundle {index}: {unknown[0]!r}", at=index)
    try:
        payload = {name: bundle[name] for name in ("index", "timestamp", "violation")}
        trace_hash = sha256_hex(legacy_canonical(payload))
    except (TypeError, ValueError, RecursionError):
        raise _BadEntry("malformed", f"bundle {index} holds what JSON cannot", at=index) from None
    if trace_hash != bundle["trace_hash"]:
        raise _BadEntry("changed", f"bundle {index} is not what its hash was taken of", at=index)
    if bundle["index"] != index:
        problem: Problem = "missing" if bundle["index"] > index else "reordered"
        raise _BadEntry(problem, f"bundle {index} says that it is number {bundle['index']}", at=index)
    if bundle["prev_hash"] != prev:
        raise _BadEntry("unlinked", f"bundle {index} does not follow from the one before it", at=index)
    bundle_hash = sha256_hex((prev + trace_hash).encode())
    if bundle_hash != bundle["bundle_hash"]:
        raise _BadEntry(
            "changed", f"bundle {index} does not have the hash of its place in the chain", at=index
        )
    if verifier is not None:
        signature = bundle.get("signature")
        if not signature:
            raise _BadEntry("unsigned", f"bundle {index} is not signed", at=index)
        if not isinstance(signature, str) or not verifier(bundle_hash.encode(), signature):
            raise _BadEntry("resigned", f"bundle {index} is not signed with this key", at=index)
    return bundle_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """
    What a log of format 2 is expected to be.

    Attributes:
        head: Its head, or None if there is none.
        verifier: Check of the head's signature, or None to authenticate nothing.
        key_id: Short name of the key that the verifier stands for.
        session_id: Session that the log has to be of, or None for any.
        rules_hash: Rules that it has to have been opened with, or None for any.
        partial: The entries start in the middle of the log, earlier parts having been put away.
    """

    head: Head | None
    verifier: Verifier | None = None
    key_id: str | None = None
    session_id: str | None = None
    rules_hash: str | None = None
    partial: bool = False


@dataclass(slots=True)
class _Walk:
    """Where verification stands in a log."""

    expected: Expectation
    prev: str = GENESIS_HASH
    seq: int = 0
    first: int = 0
    records: int = 0
    header: dict[str, Any] | None = None
    sealed_hash: str | None = None
    unsigned: list[tuple[int, int]] = field(default_factory=list)


def verify_lines(parts: Iterable[tuple[str, Iterable[bytes]]], expected: Expectation) -> Report:
    """
    Check a log of format 2.

    Args:
        parts: Name and lines of each file of the log, in order, lines without their ends. A line that was
            torn by a crash, at the very end, is left out.
        expected: What the log is expected to be.

    Returns:
        A report. Lines after the last that the head vouches for, as a writer leaves them that was
        stopped, are checked as a chain and counted, and are not authenticated.
    """
    walk = _Walk(expected)
    bad: _BadEntry | None = None
    try:
        for name, lines in parts:
            _check_part(walk, name, lines)
        _check_head(walk)
    except _BadEntry as error:
        bad = error
    return _report(walk, bad)


def _check_part(walk: _Walk, name: str, lines: Iterable[bytes]) -> None:
    for position, raw in enumerate(lines):
        try:
            line = parse_line(raw)
        except ValueError as error:
            raise _BadEntry("malformed", f"line {walk.seq}: {error}", at=walk.seq, file=name) from None
        if (line.type == "header") != (position == 0):
            what = "starts without a header" if position == 0 else "has a header inside"
            raise _BadEntry("malformed", f"the file {what}", at=walk.seq, file=name)
        if position == 0:
            _check_header(walk, name, line)
        _check_link(walk, name, line)


def _check_header(walk: _Walk, name: str, line: Line) -> None:
    header = line.data()
    seq = walk.seq if walk.header is not None else line.seq
    if header.get("format") != 2 or not isinstance(header.get("log_id"), str):
        raise _BadEntry("malformed", "the header is not one of format 2", at=seq, file=name)
    if walk.header is not None:
        if header["log_id"] != walk.header["log_id"]:
            raise _BadEntry("foreign", "this part belongs to another log", at=seq, file=name)
        return
    walk.header = header
    if walk.expected.partial:
        walk.seq = walk.first = line.seq
        walk.prev = line.prev
    for what, key, wanted in (
        ("session", "session_id", walk.expected.session_id),
        ("rules", "rules_hash", walk.expected.rules_hash),
    ):
        if wanted is not None and header.get(key) != wanted:
            reason = f"the log was opened for {what} {header.get(key)!r}, not {wanted!r}"
            raise _BadEntry("foreign", reason, at=walk.seq, file=name)


def _check_link(walk: _Walk, name: str, line: Line) -> None:
    at = walk.seq
    if line.computed_hash != line.hash:
        raise _BadEntry("changed", f"line {at} is not what its hash was taken of", at=at, file=name)
    if line.seq != at:
        problem: Problem = "missing" if line.seq > at else "reordered"
        raise _BadEntry(problem, f"line {at} says that it is number {line.seq}", at=at, file=name)
    if line.prev != walk.prev:
        raise _BadEntry("unlinked", f"line {at} does not follow from the one before it", at=at, file=name)
    if line.type == "resumed":
        _note_unsigned(walk, line)
    walk.prev = line.hash
    walk.seq += 1
    walk.records += line.type in ("violation", "decision")
    if walk.expected.head is not None and walk.seq == walk.expected.head.count:
        walk.sealed_hash = line.hash


def _note_unsigned(walk: _Walk, line: Line) -> None:
    # What stood after the head when the log was opened again may have been put there by anyone.
    match line.data():
        case {"sealed": int() as sealed, "found": int() as found} if 0 < sealed <= found <= line.seq:
            start = max(sealed, walk.first)
            walk.unsigned += [(start, found)] if start < found else []
        case _:
            raise _BadEntry("malformed", f"line {line.seq} does not say what was found", at=line.seq)


def _check_head(walk: _Walk) -> None:
    head, verifier = walk.expected.head, walk.expected.verifier
    if head is None:
        raise _BadEntry("headless", "the head is missing: lines may have been cut from the end", at=walk.seq)
    if verifier is not None:
        # The signature first: what an unsigned head says is worth nothing.
        if head.signature is None:
            raise _BadEntry("unsigned", "the head is not signed", at=0)
        if not verifier(head.statement(), head.signature):
            whose = "" if head.key_id == walk.expected.key_id else f", but with {head.key_id!r}"
            raise _BadEntry("resigned", f"the head is not signed with this key{whose}", at=0)
    if walk.header is None:
        raise _BadEntry("emptied", f"the log is empty, its head vouches for {head.count} lines", at=0)
    if head.log_id != walk.header["log_id"]:
        raise _BadEntry("foreign", "the head belongs to another log", at=walk.first)
    if walk.seq < head.count:
        raise _BadEntry("truncated", f"the log ends after {walk.seq} of {head.count} lines", at=walk.seq)
    if walk.sealed_hash != head.hash:
        reason = f"line {head.count - 1} is not the one that the head vouches for"
        raise _BadEntry("rewritten", reason, at=head.count - 1)
    if head.state == "rotated":
        raise _BadEntry("truncated", "another part follows this one, and it is missing", at=walk.seq)
    if head.state == "closed" and walk.seq > head.count:
        raise _BadEntry("appended", f"the log was closed after {head.count} lines", at=head.count)


def _report(walk: _Walk, bad: _BadEntry | None) -> Report:
    head, header = walk.expected.head, walk.header or {}
    count = walk.seq - walk.first
    signed = 0
    notes: list[str] = []
    if walk.expected.verifier is None:
        notes.append(NO_KEY)
    elif bad is None and head is not None:
        signed = head.count - walk.first - sum(end - start for start, end in walk.unsigned)
    unsealed = walk.seq - head.count if head is not None else 0
    if bad is None and unsealed:
        notes.append(f"the last {unsealed} lines are not covered by the head yet")
    notes += [
        f"lines {start} to {end - 1} were not signed when the log was opened again"
        for start, end in walk.unsigned
    ]
    if walk.first:
        notes.append(f"the {walk.first} lines before this part were not looked at")
    report = Report(
        ok=bad is None,
        authenticated=bad is None and signed == count,
        format=2,
        count=count,
        records=walk.records,
        signed=signed,
        notes=tuple(notes),
        session_id=header.get("session_id"),
        rules_hash=header.get("rules_hash"),
        key_id=None if head is None else head.key_id,
        log_id=header.get("log_id"),
    )
    if bad is None:
        return report
    return replace(report, first_bad=bad.at, file=bad.file, problem=bad.problem, reason=bad.reason)
