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
from ..acel.rulesfile import Rules, read_rules
from ..evidence import Report, verify_file
from ..evidence.checkpoints import Checkpoint, check_checkpoint, parse_checkpoint
from ..evidence.keys import read_public_key
from ..evidence.logs import logs_in
from ..evidence.notes import NoteKey
from .progress import Progress
from .running import InputError
from .text import printable

app = typer.Typer(add_completion=False)

MOST_SESSIONS = 5
MOST_DIFFERENCES = 20


@app.command()
def verify(
    evidence: Annotated[
        list[str], typer.Argument(help="Logs of either format, or folders of them.", metavar="EVIDENCE...")
    ],
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
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(help="A checkpoint that was kept elsewhere; may be repeated.", metavar="FILE"),
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            help="Key of a witness that has to have seen each checkpoint; may be repeated.",
            metavar="NAME+ID+BASE64",
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
    # A single file has to be looked at even if it is missing: its head may tell of it.
    logs = logs_in(evidence) if len(evidence) > 1 or Path(evidence[0]).expanduser().is_dir() else evidence
    if len(logs) > 1 and (head is not None or log_id is not None or checkpoint):
        raise InputError("--head, --log-id and --checkpoint are about one log")
    if witness and not checkpoint:
        raise InputError("--witness is about a --checkpoint")
    question = _Question(
        public_key=None if public_key is None else read_public_key(public_key),
        session_id=session_id,
        rules=None if rules is None else read_rules(rules),
        log_id=log_id,
        head=None if head is None else _head(head),
        partial=partial,
        rerun=rerun,
        checkpoints={name: _checkpoint(name) for name in checkpoint or ()},
        witnesses=[NoteKey.read(text) for text in witness or ()],
    )
    outcomes = {str(log): question.ask(str(log)) for log in logs}
    if as_json:
        found = {name: outcome.to_dict() for name, outcome in outcomes.items()}
        print(json.dumps(found if len(found) > 1 else next(iter(found.values()))))
    for name, outcome in outcomes.items():
        if len(outcomes) > 1 and not as_json:
            print(printable(f"{name}:"))
        _print(name, outcome, as_json=as_json)
    passed = [
        outcome.passes(allow_gaps=allow_gaps, allow_unsigned=allow_unsigned) for outcome in outcomes.values()
    ]
    return 0 if all(passed) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked of each log."""

    public_key: str | None
    session_id: str | None
    rules: Rules | None
    log_id: str | None
    head: dict[str, Any] | None
    partial: bool
    rerun: bool
    checkpoints: dict[str, Checkpoint]
    witnesses: list[NoteKey]

    def ask(self, log: str) -> _Outcome:
        report = verify_file(
            log,
            self.public_key,
            session_id=self.session_id,
            rules_hash=None if self.rules is None else self.rules.hashes,
            log_id=self.log_id,
            head=self.head,
            partial=self.partial,
            counted=Progress("lines").counted,
        )
        _refuse_what_is_none(log, report)
        again = rerun_file(log, counted=Progress("entries").counted) if self.rerun and report.ok else None
        wrong = list(self._wrong_checkpoints(Path(log).expanduser())) if report.ok else []
        return _Outcome(report, again, self.rules, wrong, has_key=self.public_key is not None)

    def _wrong_checkpoints(self, log: Path) -> Iterator[str]:
        for name, checkpoint in self.checkpoints.items():
            wrong = check_checkpoint(log, checkpoint, public_key=self.public_key, witnesses=self.witnesses)
            yield from (f"{name}: {problem}" for problem in wrong)


@dataclass(frozen=True, slots=True)
class _Outcome:
    report: Report
    again: RerunReport | None
    rules: Rules | None
    wrong_checkpoints: list[str]
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
        if self.again is None or self.rules is None:
            return []
        return sorted(set(self.again.rules) - set(self.rules.hashes))

    def passes(self, *, allow_gaps: bool, allow_unsigned: bool) -> bool:
        """Say whether all is as it should be."""
        return (
            self.report.ok
            and (allow_gaps or not self.report.lost)
            and (allow_unsigned or not self.unsigned)
            and (self.again is None or self.again.ok)
            and not self.other_rules
            and not self.wrong_checkpoints
        )

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON data."""
        return {**self.report.to_dict(), **({} if self.again is None else {"rerun": self.again.to_dict()})}


def _refuse_what_is_none(name: str, report: Report) -> None:
    # A file whose first entry is none was never a log. Later on, it was one, and somebody changed it.
    if report.format == 1 and report.problem == "malformed" and report.first_bad == 0:
        raise InputError(f"{name!r} doesn't look like a valid evidence log ({report.reason})")


def _print(name: str, outcome: _Outcome, *, as_json: bool) -> None:
    report = outcome.report
    if outcome.rules is not None and report.rules_hash == outcome.rules.old_rules_hash:
        print("note: the rules are known by the hash of an earlier version", file=sys.stderr)
    if not as_json:
        for note in _notes(outcome):
            print(printable(note), file=sys.stderr)
        _print_result(name, outcome)
        if outcome.again is not None:
            _print_rerun(outcome.again)
    for problem in outcome.wrong_checkpoints:
        print(printable(f"FAIL — {problem}"), file=sys.stderr)
    for other in outcome.other_rules:
        print(f"FAIL — sessions of this log ran under other rules, {other}", file=sys.stderr)


def _print_result(name: str, outcome: _Outcome) -> None:
    report = outcome.report
    good = report.ok and not outcome.unsigned and not report.lost
    where = sys.stdout if good else sys.stderr
    if report.count == 0 and report.ok:
        print(printable(f"OK — {name} contains 0 bundles (nothing to verify)."))
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


def _checkpoint(name: str) -> Checkpoint:
    try:
        return parse_checkpoint(Path(name).expanduser().read_bytes())
    except OSError as error:
        raise InputError(f"could not read {name!r} ({(error.strerror or 'error').lower()})") from error
    except ValueError as error:
        raise InputError(f"{name!r} is not a checkpoint") from error


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
