"""``openbox-agentrt replay``: check a recorded trace against a rules file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .._files.whole_write import write_private
from ..acel.events import TraceError
from ..acel.rulesfile import read_rules
from ..acel.session import Session
from ..acel.violations import Violation
from ..evidence import EvidenceFile, EvidenceLog, ed25519_signer
from .progress import Progress
from .running import InputError
from .text import print_warnings, printable
from .traces import read_trace

app = typer.Typer(add_completion=False)

_WINDOW = 20


@app.command()
def replay(
    trace: Annotated[
        str,
        typer.Argument(help="The trace: JSON, JSON Lines or YAML; - reads standard input.", metavar="TRACE"),
    ],
    rules: Annotated[str, typer.Option(help="The rules file, JSON or YAML.", metavar="FILE")],
    evidence: Annotated[bool, typer.Option("--evidence", help="Print the evidence too.")] = False,
    save_evidence: Annotated[
        str | None,
        typer.Option(
            help="Write the evidence to this file, in format 2 if it ends in .jsonl.", metavar="FILE"
        ),
    ] = None,
    signing_key: Annotated[
        str | None,
        typer.Option(
            help="Sign the evidence with the Ed25519 key in this file, made if missing.", metavar="FILE"
        ),
    ] = None,
    full_trace: Annotated[
        bool, typer.Option("--full-trace", help="Keep all calls before a violation, not the last 20.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Check a recorded trace against contracts. Nothing is run."""
    understood = read_rules(rules)
    print_warnings(rules, understood.warnings)
    signer = None
    if signing_key is not None:
        signer, public_key = ed25519_signer(signing_key)
        print(f"public key: {public_key}", file=sys.stderr)
    log = EvidenceLog(signer)
    session = Session(
        understood.state,
        contracts=understood.contracts,
        halt_on_violation=False,
        evidence=log,
        trace_window=None if full_trace else _WINDOW,
    )
    progress = Progress("events")
    try:
        violations = session.replay(progress.counted(read_trace(trace)))
    except TraceError as error:
        name = "standard input" if trace == "-" else trace
        raise InputError(f"{name!r} {error}") from error
    if save_evidence is not None:
        _save(save_evidence, log, violations, signer, understood.rules_hash)
        print(f"Evidence log written to {save_evidence!r}.", file=sys.stderr)
    if as_json:
        print(
            json.dumps(_result(progress.count, violations, understood.rules_hash, log if evidence else None))
        )
    else:
        _print(progress.count, violations, log if evidence else None)
    return 1 if violations else 0


def _print(events: int, violations: list[Violation], log: EvidenceLog | None) -> None:
    if not violations:
        print(f"OK  — {events} events checked, no violations.")
        return
    print(f"FAIL — {len(violations)} violation(s) in {events} events:")
    for violation in violations:
        print(
            printable(
                f"  [step {violation.step}] {violation.kind}: {violation.spec}  (tool={violation.tool})"
            )
        )
    if log is not None:
        print("\nEvidence bundle:")
        print(log.to_json())


def _result(
    events: int, violations: list[Violation], rules_hash: str, log: EvidenceLog | None
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ok": not violations,
        "events": events,
        "violations": [violation.to_record() for violation in violations],
        "rules_hash": rules_hash,
    }
    if log is not None:
        result["evidence"] = [bundle.to_dict() for bundle in log.bundles]
    return result


def _save(name: str, log: EvidenceLog, violations: list[Violation], signer: Any, rules_hash: str) -> None:
    path = Path(name).expanduser()
    if path.suffix != ".jsonl":
        try:
            write_private(path, log.to_json().encode())
        except OSError as error:
            # Its own file name is a temporary one.
            raise InputError(f"could not write {name!r} ({(error.strerror or 'error').lower()})") from error
        return
    with EvidenceFile(path, signer=signer, rules_hash=rules_hash) as file:
        for violation in violations:
            file.record(violation)
        if file.failures:
            raise InputError(f"could not write {name!r} ({file.last_failure})")
