"""``openbox-agentrt show``: evidence logs, a line for each call, or entry by entry."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..evidence import Entry, Report, UnreadableLogError, freeze, read_entries, verify_file
from ..evidence.calls import CallOutcome, calls_in
from ..evidence.format2.parts import header_of
from ..evidence.keys import read_public_key
from ..evidence.logs import logs_in, merged_entries
from .calls import CallFilter, Verdict, call_lines, time_in_logs
from .options import AsJson, Logs, PublicKey
from .progress import Progress
from .running import InputError
from .text import compact_json, printable, say

app = typer.Typer(add_completion=False)

_HASH_SHOWN = 10


@app.command()
def show(
    evidence: Logs,
    calls: Annotated[
        bool | None,
        typer.Option(
            "--calls/--entries",
            help="A line for each call, or each entry with everything in it. By default calls, where the "
            "log has steps or there are several logs.",
            show_default=False,
        ),
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="Everything about each call in its line.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Also print the calls leading up to each violation.")
    ] = False,
    public_key: PublicKey = None,
    session: Annotated[
        str | None, typer.Option(help="Only what is about this session (format 2).", metavar="ID")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.", metavar="NAME")] = None,
    verdict: Annotated[
        Verdict | None,
        typer.Option(
            help="Only calls that were: allowed, refused, or a decision's word such as halt.", metavar="WORD"
        ),
    ] = None,
    outcome: Annotated[
        CallOutcome | None,
        typer.Option(
            help="Only calls that came to this: ok, failed, withheld, aborted, unknown, 'did not run'.",
            metavar="WORD",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only calls from this time on, ISO 8601.", metavar="TIME")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only calls before this time.", metavar="TIME")] = None,
    as_json: AsJson = False,
) -> int:
    """Print evidence logs, as calls by their time or as entries with what verification says about each."""
    logs = logs_in(evidence)
    key = None if public_key is None else read_public_key(public_key)
    chosen = CallFilter(
        tool=tool,
        session=session,
        verdict=verdict,
        outcome=outcome,
        since=None if since is None else time_in_logs(since),
        until=None if until is None else time_in_logs(until),
    )
    only_calls = wide or any((tool, verdict, outcome, since, until))
    by_call = calls if calls is not None else only_calls or len(logs) > 1 or _has_steps(logs[0])
    if not by_call:
        if len(logs) > 1 or only_calls:
            raise InputError("--entries shows one log, and filters are for --calls")
        return _show_entries(str(logs[0]), key, session, trace=trace, as_json=as_json)
    return _show_calls(logs, key, chosen, wide=wide, as_json=as_json)


def _has_steps(log: Path) -> bool:
    header = header_of(log) if log.is_file() else None
    return header is not None and header.get("record") == "steps"


def _show_calls(
    logs: Sequence[Path], key: str | None, chosen: CallFilter, *, wide: bool, as_json: bool
) -> int:
    progress = Progress("lines")
    reports = {str(log): verify_file(log, key, counted=progress.counted) for log in logs}
    found = [call for call in calls_in(_all_readable(logs)) if chosen.wants(call)]
    bad = {name: report for name, report in reports.items() if not report.ok}
    if as_json:
        print(
            json.dumps(
                {
                    "reports": {name: report.to_dict() for name, report in reports.items()},
                    "calls": [freeze(call.to_dict()) for call in found],
                }
            )
        )
    else:
        for line in call_lines(found, wide=wide, with_files=len(logs) > 1):
            print(line)
        refused = sum(call.refused for call in found)
        print(f"{len(found):,} call(s), {refused:,} refused, in {len(logs):,} log(s)", file=sys.stderr)
    for name, report in bad.items():
        say(f"FAIL — {name}: {report.reason}; run verify on it first", error=True)
    for name, report in reports.items():
        if report.lost:
            say(f"LOST: {report.lost} record(s) are missing from {name} by its own account", error=True)
    return 1 if bad else 0


def _all_readable(logs: Sequence[Path]) -> Iterator[tuple[str, Entry]]:
    try:
        yield from merged_entries(logs)
    except UnreadableLogError as error:
        say(f"the rest cannot be shown: {error}", error=True)


def _show_entries(
    evidence_file: str, key: str | None, session: str | None, *, trace: bool, as_json: bool
) -> int:
    report = verify_file(evidence_file, key)
    if report.format == 1 and report.problem == "malformed" and report.first_bad == 0:
        raise InputError(f"{evidence_file!r} doesn't look like a valid evidence log ({report.reason})")
    entries = (entry for entry in _readable(evidence_file) if session in (None, entry.session_id))
    if as_json:
        print(json.dumps({"report": report.to_dict(), "entries": [_record(entry) for entry in entries]}))
    elif report.count == 0 and report.ok:
        say(f"{evidence_file}: 0 bundles (no violations recorded).")
    else:
        _print(evidence_file, report, entries, has_key=key is not None, trace=trace)
    return 0 if report.ok else 1


def _readable(name: str) -> Iterator[Entry]:
    """The entries up to the first that is none, which the report has named."""
    try:
        yield from read_entries(name)
    except UnreadableLogError as error:
        say(f"the rest cannot be shown: {error}", error=True)


def _print(name: str, report: Report, entries: Iterator[Entry], *, has_key: bool, trace: bool) -> None:
    what = "bundle" if report.format == 1 else "line"
    say(f"ACEL Evidence Log — {name}")
    print(printable(f"{report.count} {what}(s), {_status(report, what, has_key)}"), end="\n\n")
    for entry in entries:
        say(f"[{entry.number}] {entry.time}  {_title(entry)}{_mark(entry.number, report)}")
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
        return "chain OK (no --key given — hash linkage only, not authenticity)"
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
            return "signature present (unverified — pass --key to check it)"
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
