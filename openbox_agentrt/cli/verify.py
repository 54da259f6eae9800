"""``openbox-agentrt verify``: check an evidence log for tampering."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from .._plain.strict_json import JsonError, read_json
from ..acel.rerun import RerunReport, rerun_file
from ..acel.rulesfile import read_rules
from ..evidence import Report, verify_file
from ..evidence.keys import read_public_key
from .progress import Progress
from .running import InputError
from .text import printable

app = typer.Typer(add_completion=False)

MOST_SESSIONS = 5
MOST_DIFFERENCES = 20


@app.command()
def verify(
    evidence_file: Annotated[str, typer.Argument(help="The log, of either format.", metavar="EVIDENCE")],
    public_key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "--public-key",
            help="Ed25519 public key that it has to be signed with, or a file that holds it. "
            "Without it nothing is authenticated.",
            metavar="HEX|FILE",
        ),
    ] = None,
    session_id: Annotated[
        str | None, typer.Option(help="Session that the log has to be of (format 2).", metavar="ID")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(help="Rules file that its sessions have to have run under (format 2).", metavar="FILE"),
    ] = None,
    log_id: Annotated[
        str | None, typer.Option(help="Identity that the log has to have (format 2).", metavar="ID")
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="A head that was kept elsewhere; the log has to begin with what it vouches for (format 2).",
            metavar="FILE",
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Parts before and after what is there were put away on purpose.")
    ] = False,
    allow_gaps: Annotated[
        bool,
        typer.Option("--allow-gaps", help="Pass a log that says itself that records are missing from it."),
    ] = False,
    allow_unsigned: Annotated[
        bool,
        typer.Option(
            "--allow-unsigned",
            help="With a key: report lines that were never signed, as in a log that is live, and pass.",
        ),
    ] = False,
    rerun: Annotated[
        bool,
        typer.Option(
            "--rerun",
            help='Also derive every decision again from the steps and the rules, see record="steps".',
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Check an evidence log, all its parts, for tampering."""
    progress = Progress("lines")
    understood = None if rules is None else read_rules(rules)
    report = verify_file(
        evidence_file,
        None if public_key is None else read_public_key(public_key),
        session_id=session_id,
        rules_hash=None
        if understood is None
        else [known for known in (understood.rules_hash, understood.old_rules_hash) if known],
        log_id=log_id,
        head=None if head is None else _head(head),
        partial=partial,
        counted=progress.counted,
    )
    _refuse_what_is_none(evidence_file, report)
    if understood is not None and report.rules_hash == understood.old_rules_hash:
        print("note: the rules are known by the hash of an earlier version", file=sys.stderr)
    outcome = _Outcome(report, has_key=public_key is not None)
    again = rerun_file(evidence_file, counted=Progress("entries").counted) if rerun and report.ok else None
    if as_json:
        derived = {} if again is None else {"rerun": again.to_dict()}
        print(json.dumps({**report.to_dict(), **derived}))
    else:
        _print(evidence_file, outcome)
        if again is not None:
            _print_rerun(again)
    others = [] if again is None or understood is None else sorted(set(again.rules) - set(understood.hashes))
    for other in others:
        print(f"FAIL — sessions of this log ran under other rules, {other}", file=sys.stderr)
    passes = report.ok and (allow_gaps or not report.lost) and (allow_unsigned or not outcome.unsigned)
    return 0 if passes and (again is None or again.ok) and not others else 1


@dataclass(frozen=True, slots=True)
class _Outcome:
    report: Report
    has_key: bool

    @property
    def unsigned(self) -> int:
        """Count the lines that no signature covers. Those found after a crash are told and pass."""
        report = self.report
        if not self.has_key or not report.ok or report.authenticated:
            return 0
        return report.count - report.signed - report.recovered


def _refuse_what_is_none(name: str, report: Report) -> None:
    # A file whose first entry is none was never a log. Later on, it was one, and somebody changed it.
    if report.format == 1 and report.problem == "malformed" and report.first_bad == 0:
        raise InputError(f"{name!r} doesn't look like a valid evidence log ({report.reason})")


def _print(name: str, outcome: _Outcome) -> None:
    report = outcome.report
    for note in _notes(outcome):
        print(printable(note), file=sys.stderr)
    if report.count == 0 and report.ok:
        print(printable(f"OK — {name} contains 0 bundles (nothing to verify)."))
    elif not report.ok:
        print(printable(_failure(report)), file=sys.stderr)
    elif outcome.unsigned:
        print(
            f"UNSIGNED — {report.count} line(s) hold, but a signature covers only {report.signed} of them.",
            file=sys.stderr,
        )
    elif report.lost:
        print(
            f"INCOMPLETE — {report.count} entries hold, and the log says itself that {report.lost} more "
            "could not be recorded.",
            file=sys.stderr,
        )
    else:
        print(_success(report, outcome.has_key))
    if report.format == 2:
        where = sys.stdout if report.ok and not outcome.unsigned and not report.lost else sys.stderr
        for line in _description(report):
            print(printable(f"  {line}"), file=where)


def _notes(outcome: _Outcome) -> Iterator[str]:
    report = outcome.report
    if report.lost:
        yield f"LOST: {report.lost} record(s) are missing by the log's own account"
    if not outcome.has_key:
        yield (
            "warning: verifying hash-chain linkage only, no --public-key given: nothing is authenticated, "
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
    return (
        f"OK — {report.count} line(s) with {report.records} record(s) verified. Hash chain is intact, "
        f"its head is there{signed}, no tampering detected."
    )


def _print_rerun(again: RerunReport) -> None:
    where = sys.stdout if again.ok else sys.stderr
    differ = len(again.differences)
    print(f"{again.derived:,} decision(s) re-derived, {differ:,} differ", file=where)
    if again.on_code:
        print(f"  {again.on_code:,} rest on code as well (conditions, functions)", file=where)
    if again.not_derivable:
        print(f"  {again.not_derivable:,} not derivable: redacted, cut, or without an end", file=where)
    if again.on_core:
        print(f"  {again.on_core:,} decision(s) are Core's or a person's word", file=where)
    if not again.derived and not again.not_derivable:
        print('  the log holds no steps; they are kept with record="steps"', file=where)
    for difference in again.differences[:MOST_DIFFERENCES]:
        call = "" if difference.tool is None else f", step {difference.step} {difference.tool!r}"
        text = f"line {difference.number}{call}: recorded {difference.recorded}; derived {difference.derived}"
        print(printable(f"DIFFERS {text}"), file=sys.stderr)
    if differ > MOST_DIFFERENCES:
        print(f"... and {differ - MOST_DIFFERENCES:,} more, see --json", file=sys.stderr)
    for problem in again.problems:
        print(printable(f"NOT FOLLOWED {problem}"), file=sys.stderr)


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


def _head(name: str) -> dict[str, Any]:
    try:
        data = read_json(Path(name).read_bytes())
    except OSError as error:
        raise InputError(f"could not read {name!r} ({(error.strerror or 'error').lower()})") from error
    except JsonError as error:
        raise InputError(f"{name!r} is not JSON ({error.reason})") from error
    if not isinstance(data, dict):
        raise InputError(f"{name!r} is not the head of an evidence log")
    return data
