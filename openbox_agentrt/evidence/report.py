"""Findings of verification."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from .._values import dataclass

Problem: TypeAlias = Literal[
    "malformed",  # not what a writer of this format writes
    "changed",  # a record does not have the hash that it carries
    "missing",  # records were taken out
    "reordered",  # records were moved or repeated
    "unlinked",  # a record does not follow from the one before it
    "foreign",  # another log, another session or other rules than expected
    "emptied",  # nothing is left of what the head vouches for
    "truncated",  # the end of what the head vouches for is missing
    "rewritten",  # the chain holds, but it is not the one that the head vouches for
    "appended",  # there is more than a closed log had
    "headless",  # the head is missing, so the end may be too
    "unsigned",  # a signature was asked for and is not there
    "wrong_signer",  # signed with another key, or the signature is not of this
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    Say what verification found in a log.

    Attributes:
        ok: Whether nothing contradicts the log. Without `authenticated` this shows that the log is
            consistent in itself, which anyone can make it who can write to the file. What was not seen
            (`lost`, `starts_at`, `state`) does not contradict it.
        authenticated: Whether a signature by the given key covers every record.
        format: 1 or 2.
        count: Entries that were looked at: bundles in format 1, lines in format 2.
        records: Of these, violations and decisions.
        signed: How many entries a checked signature covers.
        first_bad: Position of the first entry that does not hold, counted from 0 over all parts of the
            log; where entries are missing, the position of the first missing one.
        file: Name of the file in which that is, if the log has several.
        problem: What kind of problem it is, or None.
        reason: The problem in one line, or None.
        notes: What else the reader should know, one line each.
        session_id: Session that the log was opened for.
        rules_hash: Hash of the rules that it was opened with.
        key_id: Short name of the key that the log says it is signed with.
        handed_over: Public keys, in hexadecimal, that the given key handed the log over to, one after the
            other; the last has signed it. Without a key nothing is followed.
        log_id: Identity of the log (format 2).
        lost: How many records are missing by the log's own account: they could not be written, or could not
            be taken down.
        state: "open" if more may follow, "closed" if its writer ended it, "rotated" if another part follows;
            None where there is no head to say it.
        starts_at: Number of the first entry that was looked at; those before it were not.
        recovered: How many entries stood after the last signature when the log was opened again after a
            crash. They were signed from then on; who wrote them is not authenticated.
        first_time: Time of the first entry.
        last_time: Time of the last entry.
        backwards: How often an entry has an earlier time than the one before it.
        sessions: Names of the sessions that entries are about, in the order of their first; at most a
            thousand of them.
    """

    ok: bool
    authenticated: bool
    format: Literal[1, 2]
    count: int
    records: int
    signed: int
    first_bad: int | None = None
    file: str | None = None
    problem: Problem | None = None
    reason: str | None = None
    notes: tuple[str, ...] = ()
    session_id: str | None = None
    rules_hash: str | None = None
    key_id: str | None = None
    handed_over: tuple[str, ...] = ()
    log_id: str | None = None
    lost: int = 0
    state: Literal["open", "closed", "rotated"] | None = None
    starts_at: int = 0
    recovered: int = 0
    first_time: str | None = None
    last_time: str | None = None
    backwards: int = 0
    sessions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON data."""
        # Loaded here: whoever continues a log asks only whether it holds.
        from dataclasses import asdict

        data = {**asdict(self), "notes": list(self.notes), "sessions": list(self.sessions)}
        del data["handed_over"]
        # Left out where nothing was: reports of logs with one key stay what they were.
        return {**data, "handed_over": list(self.handed_over)} if self.handed_over else data
