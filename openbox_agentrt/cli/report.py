"""``openbox-agentrt report``: what contracts, Core and people refused, and what enforcing would have."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..evidence import verify_file
from ..evidence.logs import logs_in, merged_entries
from ..evidence.summary import ContractSummary, RefusedSummary, Summary, summarise
from .options import AsJson, Logs
from .progress import Progress
from .text import compact_json, say

app = typer.Typer(add_completion=False)

MAX_ARGUMENTS = 160


@app.command()
def report(
    evidence: Logs,
    examples: Annotated[int, typer.Option(help="Examples of each contract.", min=0, max=100)] = 3,
    as_json: AsJson = False,
) -> int:
    """Say what contracts, Core and people refused, and what enforcing those in shadow mode would have."""
    logs = logs_in(evidence)
    progress = Progress("lines")
    checked = {str(log): verify_file(log, counted=progress.counted) for log in logs}
    summary = summarise((entry for _, entry in merged_entries(logs)), examples=examples)
    bad = {name: each for name, each in checked.items() if not each.ok}
    for name, each in bad.items():
        which = f"{name} " if len(logs) > 1 else "the log "
        say(f"FAIL — {which}was tampered with ({each.problem}); run verify on it first", error=True)
    if as_json:
        named = {"file": str(logs[0])} if len(logs) == 1 else {"files": list(checked)}
        print(json.dumps({**named, "intact": not bad, **summary.to_dict()}))
    else:
        _print(evidence[0] if len(logs) == 1 else f"{len(logs)} logs", summary)
    return 1 if bad else 0


def _print(name: str, summary: Summary) -> None:
    watched = sum(contract.would_refuse for contract in summary.contracts)
    enforced = sum(contract.refused for contract in summary.contracts)
    if summary.ungoverned:
        which = ", ".join(f"{event} {count}" for event, count in summary.ungoverned.items())
        total = sum(summary.ungoverned.values())
        say(f"{total} call(s) passed ungoverned, since core could not be asked: {which}")
    say(f"{name}: {summary.violations} violation(s), {summary.decisions} decision(s)")
    print(f"  {enforced} refused by contracts in force, {watched} that enforcing would have refused")
    for refused in summary.refused:
        _print_refused(refused)
    for contract in summary.contracts:
        _print_contract(contract)


def _print_refused(refused: RefusedSummary) -> None:
    who = f" ({', '.join(refused.people)})" if refused.people else ""
    why = f": {'; '.join(refused.reasons)}" if refused.reasons else ""
    say(f"  {refused.count} {refused.event} refused by {refused.by}{who}{why}")


def _print_contract(contract: ContractSummary) -> None:
    label = f" [{contract.id}]" if contract.id else ""
    print()
    say(f"{contract.contract}{label}")
    counts = f"would refuse {contract.would_refuse}, refused {contract.refused}"
    print(f"  {counts}, in {contract.sessions} session(s)")
    say(f"  first {contract.first}, last {contract.last}")
    for example in contract.examples:
        shown = compact_json(example.args)
        if len(shown) > MAX_ARGUMENTS:
            shown = f"{shown[:MAX_ARGUMENTS]}..."
        unblock = f"needs {example.needs}" if example.needs else example.remaining
        why = f"  ({unblock})" if unblock else ""
        say(f"  - {example.time} {example.tool} {shown}{why}")
