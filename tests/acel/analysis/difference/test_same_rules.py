"""Rules that say the same, however they are written, differ in nothing: every rules file that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import openbox_agentrt
from openbox_agentrt.acel.analysis import compare
from openbox_agentrt.acel.contracts.parameters import parameters_of
from openbox_agentrt.acel.rulesfile import ConfigError, Rules, parse_rules
from openbox_agentrt.acel.rulesfile.document import parse_document

ROOT = Path(__file__).parents[4]
# The package may be installed elsewhere.
FOLDERS = (
    Path(openbox_agentrt.__file__).parent,
    *(ROOT / name for name in ("examples", "benchmarks", "tests")),
)
_BLOCK = re.compile(r"^```(?:yaml|json)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _texts() -> dict[str, str]:
    """Find the text of every rules file, and of every block of the documentation that could be one."""
    found = {
        str(file.relative_to(folder.parent)): file.read_text(encoding="utf-8")
        for folder in FOLDERS
        for file in sorted(folder.rglob("*.yaml"))
    }
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
        found |= {f"{page.name} {number}": block for number, block in enumerate(blocks)}
    return {name: text for name, text in found.items() if "contracts" in text}


def _data() -> dict[str, dict[str, Any]]:
    found = {}
    for name, text in _texts().items():
        try:
            found[name] = parse_document(text, format="yaml").data
            parse_rules(found[name])
        except ConfigError:
            # No rules file: part of one, or the tests of one.
            found.pop(name, None)
    return found


RULES = _data()


def test_the_rules_files_are_found() -> None:
    """Those of the package, the examples, the benchmarks, the tests and the documentation."""
    for name in (
        "openbox_agentrt/cli/starter_rules.yaml",
        "openbox_agentrt/demo/rules.yaml",
        "examples/policies/airline.yaml",
        "benchmarks/agentdojo/rules/banking.yaml",
        "tests/acel/analysis/realistic/bank.yaml",
    ):
        assert name in RULES
    assert any(name.startswith("life-of-a-policy.md") for name in RULES)


def rewritten(data: dict[str, Any]) -> dict[str, Any]:
    """Write rules in another order, with arguments by name, groups in their places, and other blanks."""
    groups = data.get("groups", {})
    contracts = [
        inner
        for spec in data.get("contracts", [])
        for inner in (groups[spec["group"]] if "group" in spec else [spec])
    ]
    turned = {**data, "contracts": [_respelt(spec) for spec in reversed(contracts)]}
    return {name: turned[name] for name in reversed(turned)}


def _respelt(spec: dict[str, Any]) -> dict[str, Any]:
    names = [parameter.name for parameter in parameters_of(spec["template"])]
    kwargs = {**dict(zip(names, spec.get("args", []), strict=False)), **spec.get("kwargs", {})}
    options = {name: value for name, value in spec.items() if name not in ("args", "kwargs")}
    conditions = {
        name: value.replace(" ", "  ").replace("&&", "\n&&")
        for name, value in options.items()
        if name in ("when", "check") and '"' not in value
    }
    return dict(reversed({**options, **conditions, "kwargs": _turned(kwargs)}.items()))


def _turned(value: Any) -> Any:
    """Turn the order of tools of which any will do, and of the keys of mappings."""
    if isinstance(value, dict):
        turned = {name: _turned(inner) for name, inner in reversed(value.items())}
        return {name: inner[::-1] if name == "any_of" else inner for name, inner in turned.items()}
    return list(map(_turned, value)) if isinstance(value, list) else value


def renamed(data: dict[str, Any]) -> Rules:
    """Give every contract that has an id another one."""
    named = {**data, "contracts": [_renamed(spec) for spec in data.get("contracts", [])]}
    named["groups"] = {name: list(map(_renamed, some)) for name, some in data.get("groups", {}).items()}
    return parse_rules(named)


def _renamed(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "id": f"{spec['id']}-anew"} if "id" in spec else spec


@pytest.mark.parametrize("name", RULES)
def test_rules_are_no_other_than_themselves(name: str) -> None:
    """Nothing differs, in whatever order they stand and however they are written."""
    found = compare(parse_rules(RULES[name]), parse_rules(rewritten(RULES[name])))

    assert found.same
    assert list(found.lines()) == []


@pytest.mark.parametrize("name", RULES)
def test_other_ids_are_names_and_nothing_else(name: str) -> None:
    """Every contract is found again under its new name, and nothing is searched."""
    found = compare(parse_rules(RULES[name]), renamed(RULES[name]))

    assert found.changes.added == found.changes.removed == ()
    assert found.undecided == ()
    assert all(change.words[0].startswith("id ") for change in found.changes.changed)
    assert not found.parts
    assert found.states == 0
