"""``openbox-agentrt backtest``: what rules would have refused of what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from ..acel.rulesfile import read_rules
from ..evidence.redaction.redactor import Redactor, redactor_of
from ..traces.backtest import Backtest, ChangedVerdict, ContractFindings, backtest
from ..traces.counts import Found
from ..traces.events import Began
from ..traces.formats import Recordings
from ..traces.in_time import in_time
from .options import AsJson, Format, RedactField, RulesOption
from .progress import Progress
from .running import InputError
from .text import print_result, print_warnings, say

app = typer.Typer(add_completion=False)

_SHOWN = 20
_LONGEST = 120


@app.command(name="backtest")
def backtest_(
    paths: Annotated[
        list[str],
        typer.Argument(help="Recordings, and folders of them.", metavar="PATH..."),
    ],
    rules: RulesOption,
    against: Annotated[
        str | None,
        typer.Option(help="Rules to compare with, such as those in force.", metavar="FILE"),
    ] = None,
    format: Format = "auto",
    by: Annotated[
        Literal["session", "file"], typer.Option(help="What counts together: calls of one of these.")
    ] = "session",
    redact: RedactField = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 1 also where something cannot be judged.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """
    Judge recorded calls by a rules file. Nothing is run.

    Recordings: our evidence with steps, OTLP JSON, Claude Code transcripts, OpenAI messages, MCP lines, and
    traces as replay reads them.
    """
    understood = read_rules(rules)
    print_warnings(rules, understood.warnings)
    before = None if against is None else read_rules(against)
    recordings = Recordings(paths, format=format, by_file=by == "file")
    progress = Progress("events")
    result = backtest(progress.counted(recordings.events()), understood, against=before)
    if result.disordered:
        say("sessions are in several files and not in the order of time: judged anew, by time", error=True)
        recordings = Recordings(paths, format=format, by_file=by == "file")
        events = in_time(map(progress.counted, recordings.each()))
        result = backtest(events, understood, against=before)
    if not result.calls:
        raise InputError(f"there are no calls in it{_unread(recordings)}")
    redactor = redactor_of(redact or ())
    print_result(_data(result, recordings, redactor), _lines(result, recordings, redactor), as_json=as_json)
    return 0 if result.clean and not (strict and (result.unjudged or recordings.unjudged)) else 1


def _lines(result: Backtest, recordings: Recordings, redactor: Redactor) -> Iterator[str]:
    files = ", ".join(f"{_several(count, 'file')} of {name}" for name, count in recordings.files.items())
    what = f"{_several(result.calls, 'call')} of {_several(result.sessions, 'session')}"
    yield f"{what}, out of {files}{_unread(recordings)}"
    if not result.is_compared:
        as_then = "; each of them was refused then as well" if result.refused and not result.stopped else ""
        idle = f", {result.never_ran:,} of which did not run then" if result.never_ran else ""
        yield f"{result.refused:,} would be refused ({_share(result.refused, result.calls)}){as_then or idle}"
    else:
        yield from _changes(result, redactor)
    for each in sorted(result.contracts, key=lambda each: -each.refused):
        if each.refused or each.unmet or each.unknown:
            yield from _contract(each, redactor)
    if result.counted_together:
        yield "counted over all sessions of the recording, and not what others of the fleet did:"
        yield from (f"  {contract.id or contract.spec}" for contract in result.counted_together)
    if result.vacuous:
        yield "never applied:"
        yield from (f"  {contract.id or contract.spec}" for contract in result.vacuous)
    if result.unseen:
        total = result.unseen.total()
        yield f"no contract looks at {_several(total, 'call')} ({_share(total, result.calls)}):"
        yield from (f"  {count:>8,}  {tool}" for tool, count in result.unseen.of.most_common(_SHOWN))
    if result.untimed:
        of = _several(result.untimed.count, "session")
        yield f"{of} in several files were judged in the order of the files: their calls say no time"
    if result.backward:
        of = _several(result.backward.count, "session")
        yield f"judged in the order of a file that has earlier calls after later ones: {of}"
    yield from _unjudged(recordings)
    yield "An agent that is refused goes on differently: what it would have done, no recording says."


def _contract(each: ContractFindings, redactor: Redactor) -> Iterator[str]:
    contract = each.contract
    name = contract.spec if contract.id is None else f"{contract.id}: {contract.spec}"
    watches = " (shadow)" if contract.mode == "shadow" else ""
    yield f"{name}{watches}"
    if each.refused:
        yield f"  refuses {_several(each.refused, 'call')} in {_several(each.sessions.count, 'session')}"
    if each.unmet:
        yield f"  is unmet at the end of {_several(each.unmet.count, 'session')}"
    if each.unknown:
        yield f"  cannot be judged for {_several(each.unknown, 'call')}: what it needs was not recorded"
    if len(each.keys.of) > 1:
        yield "  " + ", ".join(f"{key} {count}" for key, count in each.keys.of.most_common(5))
    if each.example is not None:
        yield f"  first: {_call(each.example, redactor)}"
        if each.advice is not None:
            yield f"  {each.advice}"


def _changes(result: Backtest, redactor: Redactor) -> Iterator[str]:
    refused, allowed = result.now_refused, result.now_allowed
    yield f"allowed before, refused now: {refused.count:,}"
    yield from _some(refused, redactor)
    yield f"refused before, allowed now: {allowed.count:,}"
    yield from _some(allowed, redactor)
    yield f"judged the same: {result.calls - refused.count - allowed.count:,}"


def _some(changes: Found[ChangedVerdict], redactor: Redactor) -> Iterator[str]:
    for change in changes.first[:_SHOWN]:
        yield f"  {_call(change.call, redactor)}"
        yield from (f"    {broken.describe()}" for broken in change.broken)
    if changes.count > _SHOWN:
        yield f"  ... and {changes.count - _SHOWN:,} more, see --json"


def _call(call: Began, redactor: Redactor) -> str:
    if call.args is None:
        return f"{call.tool}, arguments not recorded  ({call.where})"
    args = json.dumps(redactor.redact(dict(call.args)), default=str)
    return f"{call.tool} {args if len(args) <= _LONGEST else args[:_LONGEST] + '...'}  ({call.where})"


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %"


def _unread(recordings: Recordings) -> str:
    if not recordings.unread:
        return ""
    return "; not read: " + ", ".join(f"{count:,} {reason}" for reason, count in recordings.unread.items())


def _unjudged(recordings: Recordings) -> Iterator[str]:
    found = recordings.unjudged
    if found:
        yield f"cannot be judged: {_several(found.count, 'file')}"
        yield from (f"  {error}" for error in found.first[:_SHOWN])


def _data(result: Backtest, recordings: Recordings, redactor: Redactor) -> dict[str, Any]:
    return {
        "ok": result.clean,
        "calls": result.calls,
        "sessions": result.sessions,
        "refused": result.refused,
        "never_ran": result.never_ran,
        "refused_then": result.refused_then,
        "stopped": result.stopped,
        "files": dict(recordings.files),
        "unread": dict(recordings.unread),
        "unjudged": [{"file": error.path, "reason": error.problem} for error in recordings.unjudged.first],
        "unjudged_files": recordings.unjudged.count,
        "in_order_of_files": result.untimed.count,
        "earlier_after_later": result.backward.count,
        "contracts": [_contract_data(each, redactor) for each in result.contracts],
        "counted_together": [contract.spec for contract in result.counted_together],
        "never_applied": [contract.spec for contract in result.vacuous],
        "no_contract": dict(result.unseen.of.most_common()),
        "no_contract_others": result.unseen.others,
        **(_changes_data(result, redactor) if result.is_compared else {}),
    }


def _contract_data(each: ContractFindings, redactor: Redactor) -> dict[str, Any]:
    return {
        "spec": each.contract.spec,
        "id": each.contract.id,
        "mode": each.contract.mode,
        "applied": each.applied,
        "refused": each.refused,
        "cannot_be_judged": each.unknown,
        "sessions": sorted(each.sessions.first),
        "in_sessions": each.sessions.count,
        "keys": dict(each.keys.of.most_common()),
        "other_keys": each.keys.others,
        "unmet": sorted(each.unmet.first),
        "unmet_in": each.unmet.count,
        "example": None if each.example is None else _call_data(each.example, redactor),
        "advice": each.advice,
    }


def _changes_data(result: Backtest, redactor: Redactor) -> dict[str, Any]:
    return {
        "now_refused": result.now_refused.count,
        "now_allowed": result.now_allowed.count,
        "changes": [
            {
                **_call_data(each.call, redactor),
                "refused": each.refused,
                "broken": [broken.for_model() for broken in each.broken],
            }
            for each in (*result.now_refused.first, *result.now_allowed.first)
        ],
    }


def _call_data(call: Began, redactor: Redactor) -> dict[str, Any]:
    args = None if call.args is None else redactor.redact(dict(call.args))
    return {"tool": call.tool, "args": args, "session": call.session, "where": call.where}
