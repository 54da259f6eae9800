"""``openbox-agentrt verify``: check an evidence log for tampering."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .._plain.strict_json import JsonError, read_json
from ..acel.rulesfile import read_rules
from ..evidence import Report, verify_file
from .progress import Progress
from .running import InputError
from .text import printable

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    evidence_file: Annotated[str, typer.Argument(help="The log, of either format.", metavar="EVIDENCE")],
    public_key: Annotated[
        str | None,
        typer.Option(
            help="Ed25519 public key that it has to be signed with. Without it nothing is authenticated.",
            metavar="HEX",
        ),
    ] = None,
    session_id: Annotated[
        str | None, typer.Option(help="Session that the log has to be of (format 2).", metavar="ID")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(help="Rules file that its sessions have to have run under (format 2).", metavar="FILE"),
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="A head that was kept elsewhere (format 2).", metavar="FILE")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="What came before this was put away on purpose.")
    ] = False,
    allow_unsigned: Annotated[
        bool,
        typer.Option(
            "--allow-unsigned",
            help="With a key: report lines that were never signed, as in a log that is live, and pass.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Check an evidence log, all its parts, for tampering."""
    progress = Progress("lines")
    understood = None if rules is None else read_rules(rules)
    report = verify_file(
        evidence_file,
        public_key,
        session_id=session_id,
        rules_hash=None
        if understood is None
        else [known for known in (understood.rules_hash, understood.old_rules_hash) if known],
        head=None if head is None else _head(head),
        partial=partial,
        counted=progress.counted,
    )
    _refuse_what_is_none(evidence_file, report)
    if understood is not None and report.rules_hash == understood.old_rules_hash:
        print("note: the rules are known by the hash of an earlier version", file=sys.stderr)
    unsigned = public_key is not None and report.ok and not report.authenticated and report.count > 0
    if as_json:
        print(json.dumps(report.to_dict()))
    else:
        _print(evidence_file, report, public_key is not None, unsigned)
    return 0 if report.ok and (allow_unsigned or not unsigned) else 1


def _refuse_what_is_none(name: str, report: Report) -> None:
    # A file whose first entry is none was never a log. Later on, it was one, and somebody changed it.
    if report.format == 1 and report.problem == "malformed" and report.first_bad == 0:
        raise InputError(f"{name!r} doesn't look like a valid evidence log ({report.reason})")


def _print(name: str, report: Report, has_key: bool, unsigned: bool) -> None:
    notes = [f"note: {note}" for note in report.notes if has_key or "nothing was authenticated" not in note]
    if not has_key:
        notes.insert(
            0,
            "warning: verifying hash-chain linkage only, no --public-key given: nothing is authenticated, "
            "because whoever can edit this file can also recompute the chain",
        )
    for note in notes:
        print(printable(note), file=sys.stderr)
    if report.count == 0 and report.ok:
        print(printable(f"OK — {name} contains 0 bundles (nothing to verify)."))
    elif not report.ok:
        print(printable(_failure(report)), file=sys.stderr)
    elif unsigned:
        print(
            f"UNSIGNED — {report.count} line(s) hold, but a signature covers only {report.signed} of them.",
            file=sys.stderr,
        )
    elif report.format == 1:
        signed = " and every signature checks out" if has_key else ""
        print(f"OK — {report.count} bundle(s) verified. Hash chain is intact{signed}, no tampering detected.")
    else:
        signed = " and signed" if has_key else ""
        print(
            f"OK — {report.count} line(s) with {report.records} record(s) verified. Hash chain is intact, "
            f"its head is there{signed}, no tampering detected."
        )


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
