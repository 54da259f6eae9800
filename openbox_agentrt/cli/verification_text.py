"""Print what ``openbox-agentrt verify`` says of a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..acel.engine.rerun.fleet_account import FleetAccount
from ..acel.rerun import RerunReport
from ..acel.rulesfile import Rules
from ..evidence import Report
from .text import printable, say

MOST_SESSIONS = 5
MOST_DIFFERENCES = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    Hold what was found out about a log.

    Attributes:
        report: What verification found.
        again: What deriving its decisions again found, if that was asked for.
        rules: The rules that were asked for.
        wrong_checkpoints: What is wrong with checkpoints, one line each.
        held_checkpoints: What was found to be right of checkpoints, one line each.
        has_key: Whether a public key was given.
    """

    report: Report
    again: RerunReport | None
    rules: list[Rules]
    wrong_checkpoints: list[str]
    held_checkpoints: list[str]
    has_key: bool

    @property
    def unsigned(self) -> int:
        """Count the lines that no signature covers. Those found after a crash are told and pass."""
        report = self.report
        if not self.has_key or not report.ok or report.authenticated:
            return 0
        return report.count - report.signed - report.recovered

    @property
    def other_rules(self) -> list[str]:
        """List the rules under which sessions ran, and which were not asked for."""
        if self.again is None or not self.rules:
            return []
        return sorted(set(self.again.rules).difference(*(rules.hashes for rules in self.rules)))

    def passes(self, *, allow_gaps: bool, allow_unsigned: bool, allow_unproven: bool) -> bool:
        """Say whether all is as it should be."""
        return (
            self.report.ok
            and (allow_gaps or not self.report.lost)
            and (allow_unsigned or not self.unsigned)
            and (self.again is None or (self.again.ok and (allow_unproven or not self.again.unproven)))
            and not self.other_rules
            and not self.wrong_checkpoints
        )

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON data."""
        return {**self.report.to_dict(), **({} if self.again is None else {"rerun": self.again.to_dict()})}


def print_outcome(name: str, outcome: Outcome, *, as_json: bool) -> None:
    """Print it; as JSON, what is wrong only, on standard error."""
    if not as_json:
        for note in _notes(outcome):
            say(note, error=True)
        _print_result(name, outcome)
        for held in outcome.held_checkpoints:
            say(f"OK — {held}.")
        if outcome.again is not None:
            _print_rerun(outcome.again)
    for problem in outcome.wrong_checkpoints:
        say(f"FAIL — {problem}", error=True)
    for other in outcome.other_rules:
        print(f"FAIL — sessions of this log ran under other rules, {other}", file=sys.stderr)


def print_account(account: FleetAccount, contradictions: Sequence[str], *, as_json: bool) -> None:
    """Say whether logs of one fleet contradict each other."""
    for contradiction in contradictions[:MOST_DIFFERENCES]:
        say(f"CONTRADICTS {contradiction}", error=True)
    if account.grants and not as_json:
        said = f"{account.grants:,} grant(s) of the fleet's store, {len(contradictions):,} contradict(s)"
        print(said, file=sys.stderr if contradictions else sys.stdout)
        if account.unseen:
            print(f"  {account.unseen:,} rest on calls that none of these logs shows")


def _print_result(name: str, outcome: Outcome) -> None:
    report = outcome.report
    good = report.ok and not outcome.unsigned and not report.lost
    where = sys.stdout if good else sys.stderr
    if report.count == 0 and report.ok:
        say(f"OK — {name} contains 0 bundles (nothing to verify).")
    elif not report.ok:
        print(printable(_failure(report)), file=where)
    elif outcome.unsigned:
        signed = f"a signature covers only {report.signed} of them"
        print(f"UNSIGNED — {report.count} line(s) hold, but {signed}.", file=where)
    elif report.lost:
        lost = f"the log says itself that {report.lost} more could not be recorded"
        print(f"INCOMPLETE — {report.count} entries hold, and {lost}.", file=where)
    else:
        print(_success(report, outcome.has_key))
    for line in _description(report) if report.format == 2 else ():
        print(printable(f"  {line}"), file=where)


def _notes(outcome: Outcome) -> Iterator[str]:
    report = outcome.report
    if report.lost:
        yield f"LOST: {report.lost} record(s) are missing by the log's own account"
    if not outcome.has_key:
        yield (
            "warning: verifying hash-chain linkage only, no --key given: nothing is authenticated, "
            "because whoever can edit this file can also recompute the chain"
        )
    for note in report.notes:
        if "nothing was authenticated" not in note and "by the log's own account" not in note:
            yield f"note: {note}"
    if report.ok and report.state == "open":
        yield "note: the log is open: its writer may go on, and has not said that this is all"


def _success(report: Report, has_key: bool) -> str:
    if report.format == 1:
        signed = " and every signature checks out" if has_key else ""
        return f"OK — {report.count} bundle(s) verified. Hash chain is intact{signed}, no tampering detected."
    signed = "" if not has_key else " and signed" if report.authenticated else f", {report.signed} are signed"
    return f"OK — {report.count} line(s), {report.records} record(s): chain intact, head there{signed}."


def _print_rerun(again: RerunReport) -> None:
    where = sys.stdout if again.ok else sys.stderr
    differ = len(again.differences)
    print(f"{again.derived:,} decision(s) re-derived, {differ:,} differ", file=where)
    if again.on_code:
        print(f"  {again.on_code:,} rest on code as well (conditions, functions)", file=where)
    if again.on_fleet:
        print(f"  {again.on_fleet:,} rest on the fleet store's word (its counts and its time)", file=where)
    if again.on_shadow:
        print(f"  {again.on_shadow:,} let through what contracts refuse (shadow mode)", file=where)
    if again.not_derivable:
        why = "redacted, cut, without an end, or after a memory that no log shows"
        print(f"  {again.not_derivable:,} not derivable: {why}", file=where)
    if again.moved:
        print(f"  {again.moved:,} time(s) a session went on as another log shows it was left", file=where)
    if again.restored:
        print(
            f"  {again.restored:,} time(s) one went on from a snapshot, which is its program's word",
            file=where,
        )
    if again.on_core:
        print(f"  {again.on_core:,} decision(s) are Core's or a person's word", file=where)
    if again.nothing_judged:
        print(
            "  no contract has judged anything, by the log's own account: there is nothing to derive",
            file=where,
        )
    elif not again.derived and not again.not_derivable:
        print('  the log holds no steps; record="steps" keeps them of calls under contracts', file=where)
    if again.unproven:
        what = "a session went on with what none of these logs shows to have been left"
        say(f"UNPROVEN {again.unproven:,} time(s) {what}: give the logs of all its workers", error=True)
    for difference in again.differences[:MOST_DIFFERENCES]:
        call = "" if difference.tool is None else f", step {difference.step} {difference.tool!r}"
        text = f"line {difference.number}{call}: recorded {difference.recorded}; derived {difference.derived}"
        say(f"DIFFERS {text}", error=True)
    if differ > MOST_DIFFERENCES:
        print(f"... and {differ - MOST_DIFFERENCES:,} more, see --json", file=sys.stderr)
    for problem in again.problems:
        say(f"NOT FOLLOWED {problem}", error=True)


def _description(report: Report) -> Iterator[str]:
    """Say what was looked at."""
    if report.log_id is not None:
        key = f"key {report.key_id}" if report.key_id else "not signed"
        yield f"log {report.log_id}, {key}, {report.state or 'without a head'}"
    if report.sessions:
        more = " ..." if len(report.sessions) > MOST_SESSIONS else ""
        yield f"sessions: {', '.join(report.sessions[:MOST_SESSIONS])}{more}"
    if report.first_time is not None:
        yield f"from {report.first_time} to {report.last_time}"


def _failure(report: Report) -> str:
    if report.format == 1:
        return (
            f"FAIL — tampering detected. Bundle {report.first_bad} (of {report.count}) is the first to break "
            f"the chain — {report.reason}. "
            f"Everything from bundle {report.first_bad} onward cannot be trusted."
        )
    where = f" in {report.file}" if report.file else ""
    if report.problem == "foreign":
        # It may be whole, and somebody else's.
        return f"FAIL — not the log that was asked for{where} — {report.reason}."
    return (
        f"FAIL — tampering detected ({report.problem}){where} — {report.reason}. "
        f"Everything from line {report.first_bad} onward cannot be trusted."
    )
