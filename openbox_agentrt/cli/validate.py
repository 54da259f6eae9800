"""``openbox-agentrt validate``: read a rules file and print what was understood."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from ..acel.contracts.template import Template
from ..acel.rulesfile import Rules, read_rules
from .text import compact_json, printable

app = typer.Typer(add_completion=False)

_SAID = ("id", "severity", "mode", "on_violation", "remedy", "description")
_SILENT = {"severity": "medium", "mode": "enforce", "on_violation": "refuse"}


@app.command()
def validate(
    rules: Annotated[str, typer.Argument(help="The rules file, JSON or YAML.", metavar="RULES")],
    strict: Annotated[bool, typer.Option("--strict", help="Take warnings for errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Read a rules file strictly and print the contracts that it declares."""
    understood = read_rules(rules)
    for warning in understood.warnings:
        place = rules if warning.line is None else f"{rules}:{warning.line}"
        print(printable(f"warning: {place}: {warning.message}"), file=sys.stderr)
    if as_json:
        print(json.dumps(_result(understood)))
    else:
        _print(rules, understood)
    return 2 if strict and understood.warnings else 0


def _print(name: str, rules: Rules) -> None:
    print(printable(f"OK — {name} parses cleanly."))
    print(f"Initial state: {compact_json(rules.state) if rules.state else '(none)'}")
    if not rules.contracts:
        print("Contracts: (none declared)")
    else:
        print(f"Contracts ({len(rules.contracts)}):")
        _list(rules.contracts, "  - ")
    if rules.groups:
        print(f"Groups ({len(rules.groups)}):")
        for group, contracts in rules.groups.items():
            print(printable(f"  - {group} ({len(contracts)}):"))
            _list(contracts, "      - ")
    print(f"Rules hash: {rules.rules_hash}")


def _list(contracts: Iterable[Template], bullet: str) -> None:
    for contract in contracts:
        said = [f"{name}={value}" for name, value in _options(contract).items()]
        print(printable(bullet + contract.spec + (f"  [{', '.join(said)}]" if said else "")))


def _options(contract: Template) -> dict[str, str]:
    found = {name: getattr(contract, name) for name in _SAID}
    return {name: value for name, value in found.items() if value is not None and value != _SILENT.get(name)}


def _result(rules: Rules) -> dict[str, Any]:
    return {
        "ok": True,
        "state": rules.state,
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
