"""``openbox-agentrt show``: an evidence log as a timeline."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ..evidence import Entry, Report, UnreadableLogError, freeze, read_entries, verify_file
from ..evidence.keys import read_public_key
from .running import InputError
from .text import compact_json, printable

app = typer.Typer(add_completion=False)

_HASH_SHOWN = 10


@app.command()
def show(
    evidence_file: Annotated[str, typer.Argument(help="The log, of either format.", metavar="EVIDENCE")],
    trace: Annotated[
        bool, typer.Option("--trace", help="Also print the calls leading up to each violation.")
    ] = False,
    public_key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "--public-key",
            help="Ed25519 public key that the log has to be signed with.",
            metavar="HEX|FILE",
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Only what is about this session (format 2).", metavar="ID")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the log as JSON.")] = False,
) -> int:
    """Print an evidence log in order, with what verification says about each entry."""
    report = verify_file(evidence_file, None if public_key is None else read_public_key(public_key))
    if report.format == 1 and report.problem == "malformed" and report.first_bad == 0:
        raise InputError(f"{evidence_file!r} doesn't look like a valid evidence log ({report.reason})")
    entries = (entry for entry in _readable(evidence_file) if session in (None, entry.session_id))
    if as_json:
        print(json.dumps({"report": report.to_dict(), "entries": [_record(entry) for entry in entries]}))
    elif report.count == 0 and report.ok:
        print(printable(f"{evidence_file}: 0 bundles (no violations recorded)."))
    else:
        _print(evidence_file, report, entries, has_key=public_key is not None, trace=trace)
    return 0 if report.ok else 1


def _readable(name: str) -> Iterator[Entry]:
    """The entries up to the first that is none, which the report has named."""
    try:
        yield from read_entries(name)
    except UnreadableLogError as error:
        print(printable(f"the rest cannot be shown: {error}"), file=sys.stderr)


def _print(name: str, report: Report, entries: Iterator[Entry], *, has_key: bool, trace: bool) -> None:
    what = "bundle" if report.format == 1 else "line"
    print(printable(f"ACEL Evidence Log — {name}"))
    print(printable(f"{report.count} {what}(s), {_status(report, what, has_key)}"), end="\n\n")
    for entry in entries:
        print(printable(f"[{entry.number}] {entry.time}  {_title(entry)}{_mark(entry.number, report)}"))
        for label, text in _facts(entry):
            print(f"    {label + ':':<9} {text}")
        if trace and entry.type == "violation":
            _print_trace(entry.data)
        print(f"    hash:     {printable(entry.hash[:_HASH_SHOWN])}…  ({_signed(entry, report, has_key)})\n")


def _status(report: Report, what: str, has_key: bool) -> str:
    if not report.ok:
        signed = " (chain or signature)" if has_key else ""
        return f"CHAIN BROKEN at {what} {report.first_bad}{signed}: {report.reason}"
    if not has_key:
        return "chain OK (no --public-key given — hash linkage only, not authenticity)"
    if not report.authenticated and report.count:
        return f"chain OK, {report.signed} of {report.count} {what}(s) are covered by a signature"
    return "chain + signatures OK"


def _title(entry: Entry) -> str:
    session = "" if entry.session_id is None else f"  session {entry.session_id}"
    if entry.type == "violation":
        return f"step {entry.data.get('step', '?')}{session}"
    return f"{entry.type}{session}"


def _mark(number: int, report: Report) -> str:
    if report.ok or report.first_bad is None or number < report.first_bad:
        return ""
    return (
        "  ⚠ CHAIN BROKEN HERE" if number == report.first_bad else "  ⚠ untrustworthy (chain broke earlier)"
    )


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    data = entry.data
    if entry.type != "violation":
        for name, value in data.items():
            if value is not None:
                yield printable(name), value_text(value)
        return
    yield "kind", value_text(data.get("kind", "?"))
    yield "contract", value_text(data.get("spec", "?"))
    yield "tool", value_text(data.get("tool", "?"))
    yield "args", compact_json(data.get("args", {}))
    if data.get("result") is not None:
        yield "result", compact_json(data["result"])
    if data.get("state_snapshot"):
        yield "state", compact_json(data["state_snapshot"])
    if data.get("mode") == "shadow":
        yield "mode", "shadow"
    for name in ("id", "needs", "remedy", "fault"):
        if data.get(name) is not None:
            yield name, value_text(data[name])


def value_text(value: Any) -> str:
    """Text as it is, everything else as JSON."""
    return printable(value) if isinstance(value, str) else compact_json(value)


def _print_trace(data: dict[str, Any]) -> None:
    rows = data.get("trace")
    rows = rows if isinstance(rows, list) else []
    print(f"    trace ({len(rows)} call(s) leading up to this):")
    for row in rows:
        if not isinstance(row, dict):
            row = {"tool": row}
        step, tool = value_text(row.get("step", "?")), value_text(row.get("tool", "?"))
        args, result = compact_json(row.get("args", {})), compact_json(row.get("result"))
        print(f"      step {step}: {tool}({args}) -> {result}")


def _signed(entry: Entry, report: Report, has_key: bool) -> str:
    if not has_key:
        signature = entry.signature if report.format == 1 else report.key_id
        if signature:
            return "signature present (unverified — pass --public-key to check it)"
        return "unsigned"
    if report.ok:
        verified = report.authenticated or report.format == 1
        return "signature verified" if verified else "see above for what is signed"
    if report.first_bad is None or entry.number < report.first_bad:
        return "signature verified" if report.format == 1 else "holds, but the log does not"
    if entry.number == report.first_bad:
        return "signature INVALID or missing (or chain broke here)"
    return "not checked — chain already broken earlier"


def _record(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "type": entry.type,
        "time": entry.time,
        "session_id": entry.session_id,
        # acel-core writes NaN into its logs, which is no JSON.
        "data": freeze(entry.data),
        "hash": entry.hash,
        "signature": entry.signature,
    }
