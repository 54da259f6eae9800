"""``openbox-agentrt validate``: read a rules file and print what was understood."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from ..acel.analysis.findings.unmatchable import matches_nothing
from ..acel.contracts.template import Template
from ..acel.rulesfile import Document, Rules, RulesWarning, contract_lines, read_document, rules_of
from .options import AsJson, RulesArgument
from .text import compact_json, print_warnings, say

app = typer.Typer(add_completion=False)

_SAID = ("id", "severity", "mode", "on_violation", "remedy", "description")
_SILENT = {"severity": "medium", "mode": "enforce", "on_violation": "refuse"}


@app.command()
def validate(
    rules: RulesArgument,
    strict: Annotated[bool, typer.Option("--strict", help="Take warnings for errors.")] = False,
    as_json: AsJson = False,
) -> int:
    """Read a rules file strictly and print the contracts that it declares."""
    document = read_document(rules)
    understood = rules_of(document)
    understood = replace(understood, warnings=(*understood.warnings, *_pointless(document, understood)))
    failed = strict and bool(understood.warnings)
    print_warnings(rules, understood.warnings)
    if as_json:
        print(json.dumps({"ok": not failed, **_result(understood)}))
    else:
        say(_verdict(rules, len(understood.warnings), failed))
        for line in _lines(understood):
            say(line)
    return 2 if failed else 0


def _pointless(document: Document, rules: Rules) -> Iterator[RulesWarning]:
    """Warn of patterns that are in no text, as far as looking at them tells."""
    lines: tuple[int | None, ...] | None = None
    for place, contract in enumerate(rules.contracts):
        for message in matches_nothing(contract):
            lines = contract_lines(document) if lines is None else lines
            yield RulesWarning(message=f"{message}; see openbox-agentrt analyse", line=lines[place])


def _verdict(name: str, warnings: int, failed: bool) -> str:
    counted = "1 warning" if warnings == 1 else f"{warnings} warnings"
    if failed:
        return f"FAIL — {name} has {counted}."
    return f"OK — {name} parses cleanly{f', with {counted}' if warnings else ''}."


def _lines(rules: Rules) -> Iterator[str]:
    yield "State:" if rules.state else "State: (none)"
    yield from (f"  {name}: {compact_json(value)}" for name, value in rules.state.items())
    if rules.facts:
        yield f"Facts ({len(rules.facts)}):"
        yield from (f"  - {fact.label}" for fact in rules.facts)
    yield f"Contracts ({len(rules.contracts)}):" if rules.contracts else "Contracts: (none)"
    yield from _contracts(rules.contracts, "  ")
    if rules.groups:
        yield f"Groups ({len(rules.groups)}):"
    for group, contracts in rules.groups.items():
        yield f"  - {group} ({len(contracts)}):"
        yield from _contracts(contracts, "      ")
    yield f"Rules hash: {rules.rules_hash}"


def _contracts(contracts: Iterable[Template], indent: str) -> Iterator[str]:
    for contract in contracts:
        yield f"{indent}- {contract.spec}"
        # Each on a line of its own, as in the file, so that none is broken in the middle.
        yield from (f"{indent}    {name}: {value}" for name, value in _options(contract).items())


def _options(contract: Template) -> dict[str, str]:
    found = {name: getattr(contract, name) for name in _SAID}
    return {name: value for name, value in found.items() if value is not None and value != _SILENT.get(name)}


def _result(rules: Rules) -> dict[str, Any]:
    return {
        "state": rules.state,
        "facts": [fact.form() for fact in rules.facts],
        "contracts": [_described(contract) for contract in rules.contracts],
        "groups": {
            name: [_described(contract) for contract in contracts] for name, contracts in rules.groups.items()
        },
        "warnings": [{"line": warning.line, "message": warning.message} for warning in rules.warnings],
        "rules_hash": rules.rules_hash,
    }


def _described(contract: Template) -> dict[str, Any]:
    return {
        "spec": contract.spec,
        "template": contract.template,
        **{name: getattr(contract, name) for name in _SAID},
    }
