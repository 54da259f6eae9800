"""``openbox-agentrt verify``: check an evidence log for tampering."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from .._plain.strict_json import JsonError, read_json
from ..acel.engine.rerun.fleet_account import FleetAccount
from ..acel.rerun import RerunReport, rerun_files
from ..acel.rulesfile import Rules, read_rules
from ..evidence import Report, verify_file
from ..evidence.checkpoints.checkpoint import Checkpoint, check_checkpoint, parse_checkpoint
from ..evidence.checkpoints.signed_notes import NoteKey
from ..evidence.keys import read_public_key
from ..evidence.logs import logs_in
from .options import AsJson, Logs, PublicKey
from .progress import Progress
from .running import InputError
from .text import say
from .verification_text import Outcome, print_account, print_outcome

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    evidence: Logs,
    public_key: PublicKey = None,
    session_id: Annotated[
        str | None,
        typer.Option("--session", help="Session that the log has to be of (format 2).", metavar="ID"),
    ] = None,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            help="Rules file that its sessions have to have run under (format 2); may be repeated, for rules "
            "that changed meanwhile.",
            metavar="FILE",
        ),
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
    allow_unproven: Annotated[
        bool,
        typer.Option(
            "--allow-unproven",
            help="With --rerun: pass sessions that moved here from a worker whose log is not given.",
        ),
    ] = False,
    rerun: Annotated[
        bool,
        typer.Option(
            "--rerun",
            help='Also derive every decision again from the steps and the rules, see record="steps".',
        ),
    ] = False,
    as_json: AsJson = False,
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
        rules=[read_rules(name) for name in rules or ()],
        log_id=log_id,
        head=None if head is None else _head(head),
        partial=partial,
        rerun=rerun,
        checkpoints={name: _checkpoint(name) for name in checkpoint or ()},
        witnesses=[NoteKey.read(text) for text in witness or ()],
    )
    outcomes = question.ask([str(log) for log in logs])
    contradictions = question.account.contradictions()
    if as_json:
        found: dict[str, Any] = {name: outcome.to_dict() for name, outcome in outcomes.items()}
        if len(found) > 1 and question.account.cells:
            account = question.account
            found["fleet"] = {
                "grants": account.grants,
                "unseen": account.unseen,
                "contradictions": contradictions,
            }
        print(json.dumps(found if len(found) > 1 else next(iter(found.values()))))
    for name, outcome in outcomes.items():
        if len(outcomes) > 1 and not as_json:
            say(f"{name}:")
        print_outcome(name, outcome, as_json=as_json)
    print_account(question.account, contradictions, as_json=as_json)
    passed = [
        outcome.passes(allow_gaps=allow_gaps, allow_unsigned=allow_unsigned, allow_unproven=allow_unproven)
        for outcome in outcomes.values()
    ]
    return 0 if all(passed) and not contradictions else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """Ask the same of each log, and what follows from all of them."""

    public_key: str | None
    session_id: str | None
    rules: list[Rules]
    log_id: str | None
    head: dict[str, Any] | None
    partial: bool
    rerun: bool
    checkpoints: dict[str, Checkpoint]
    witnesses: list[NoteKey]
    account: FleetAccount = field(default_factory=FleetAccount)

    def ask(self, logs: list[str]) -> dict[str, Outcome]:
        reports = {log: self._verified(log) for log in logs}
        again = self._derived([log for log, report in reports.items() if report.ok])
        return {log: self._outcome(log, report, again.get(log)) for log, report in reports.items()}

    def _verified(self, log: str) -> Report:
        report = verify_file(
            log,
            self.public_key,
            session_id=self.session_id,
            rules_hash=[known for rules in self.rules for known in rules.hashes] or None,
            log_id=self.log_id,
            head=self.head,
            partial=self.partial,
            counted=Progress("lines").counted,
        )
        _refuse_what_is_none(log, report)
        return report

    def _derived(self, logs: list[str]) -> dict[str, RerunReport]:
        if not self.rerun:
            return {}
        again = rerun_files(logs, counted=Progress("entries").counted, account=self.account)
        return dict(zip(logs, again, strict=True))

    def _outcome(self, log: str, report: Report, again: RerunReport | None) -> Outcome:
        wrong = []
        if report.ok:
            wrong = list(self._wrong_checkpoints(Path(log).expanduser(), report.handed_over))
        held = list(self._held_checkpoints()) if report.ok and not wrong else []
        return Outcome(report, again, self.rules, wrong, held, has_key=self.public_key is not None)

    def _held_checkpoints(self) -> Iterator[str]:
        for name, checkpoint in self.checkpoints.items():
            yield f"{name}: the log begins with the {checkpoint.size} line(s) of the checkpoint"
            for witness in self.witnesses:
                yield f"{name}: witness {witness.name!r} has seen the checkpoint"

    def _wrong_checkpoints(self, log: Path, handed_over: tuple[str, ...]) -> Iterator[str]:
        for name, checkpoint in self.checkpoints.items():
            wrong = check_checkpoint(
                log,
                checkpoint,
                public_key=self.public_key,
                handed_over=handed_over,
                witnesses=self.witnesses,
            )
            yield from (f"{name}: {problem}" for problem in wrong)


def _refuse_what_is_none(name: str, report: Report) -> None:
    # A file whose first entry is none was never a log. Later on, it was one, and somebody changed it.
    if report.format == 1 and report.problem == "malformed" and report.first_bad == 0:
        raise InputError(f"{name!r} doesn't look like a valid evidence log ({report.reason})")


def _checkpoint(name: str) -> Checkpoint:
    try:
        return parse_checkpoint(Path(name).expanduser().read_bytes())
    except ValueError as error:
        raise InputError(f"{name!r} is not a checkpoint") from error


def _head(name: str) -> dict[str, Any]:
    try:
        data = read_json(Path(name).read_bytes())
    except JsonError as error:
        raise InputError(f"{name!r} is not JSON ({error.reason})") from error
    if not isinstance(data, dict):
        raise InputError(f"{name!r} is not the head of an evidence log")
    return data
