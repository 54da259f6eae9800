"""``openbox-agentrt replay``: check recorded traces against a rules file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from ..acel.rulesfile import read_rules
from ..acel.violations import Violation
from ..evidence import EvidenceFile, EvidenceLog, ed25519_signer
from .options import AsJson, RulesOption
from .progress import Progress
from .replayed import FoundViolation, ReplayedSessions, counted
from .running import InputError, write_output
from .text import print_result, print_warnings

app = typer.Typer(add_completion=False)


@app.command()
def replay(
    traces: Annotated[
        list[str],
        typer.Argument(
            help="The traces: JSON, JSON Lines or YAML; - reads standard input.", metavar="TRACE..."
        ),
    ],
    rules: RulesOption,
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
            "--key",
            help="Sign the evidence with the Ed25519 key in this file, made if missing.",
            metavar="FILE",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check recorded traces against contracts. Nothing is run."""
    understood = read_rules(rules)
    print_warnings(rules, understood.warnings)
    signer = None
    if signing_key is not None:
        signer, public_key = ed25519_signer(signing_key)
        print(f"public key: {public_key}", file=sys.stderr)
    log = EvidenceLog(signer)
    sessions = ReplayedSessions(understood, evidence=log)
    progress = Progress("events")
    for trace in traces:
        before = progress.count
        for call in progress.counted(sessions.of_trace(trace)):
            sessions.replay(call)
        if progress.count == before:
            raise InputError(f"{trace!r} holds no calls")
    found = sessions.end()
    if save_evidence is not None:
        _save(save_evidence, log, [each.violation for each in found], signer, understood.rules_hash)
        print(f"Evidence log written to {save_evidence!r}.", file=sys.stderr)
    result = {
        "ok": not found,
        "events": progress.count,
        "sessions": len(sessions),
        "refused": len({each.call for each in found}),
        "contracts": counted(found),
        "violations": [each.to_record() for each in found],
        "rules_hash": understood.rules_hash,
        **({"evidence": [bundle.to_dict() for bundle in log.bundles]} if evidence else {}),
    }
    print_result(result, _lines(result, found), as_json=as_json)
    if evidence and found and not as_json:
        print("\nEvidence bundle:")
        print(log.to_json())
    return 1 if found else 0


def _lines(result: Mapping[str, Any], found: Sequence[FoundViolation]) -> Iterator[str]:
    events, sessions = result["events"], result["sessions"]
    among = f"{events} events" + (f" of {sessions} sessions" if sessions > 1 else "")
    if not found:
        yield f"OK  — {among} checked, no violations."
        return
    yield f"FAIL — {len(found)} violation(s) in {among}:"
    for each in found:
        violation = each.violation
        session = f"{each.session} " if sessions > 1 else ""
        said = f"tool={violation.tool}" + (f", {each.key_name}={each.key}" if each.key is not None else "")
        yield f"  [{session}step {violation.step}] {violation.kind}: {violation.spec}  ({said})"
    if len(found) > 1:
        yield "Calls by contract:"
        for contract in result["contracts"]:
            yield f"  {contract['calls']:>5}  {contract['spec']}"
            yield from (f"  {calls:>11}  {key}" for key, calls in contract["keys"].items())


def _save(name: str, log: EvidenceLog, violations: list[Violation], signer: Any, rules_hash: str) -> None:
    if not name.endswith(".jsonl"):
        write_output(name, log.to_json().encode())
        return
    with EvidenceFile(name, signer=signer, rules_hash=rules_hash) as file:
        for violation in violations:
            file.record(violation)
        if file.failures:
            raise InputError(f"could not write {name!r} ({file.last_failure})")
