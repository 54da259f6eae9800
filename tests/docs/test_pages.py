"""The pages hold what they promise: examples run, links lead somewhere, every option is described."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import openbox_agentrt
from openbox_agentrt.cli import main
from openbox_agentrt.decision import Decision
from openbox_agentrt.options import OPTIONS, GovernanceOptions
from openbox_agentrt.testing import OpenAIServer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(
    r"<!-- example: (?P<name>[\w -]+) -->\n```python\n(?P<code>.*?)```\n(?P<after>.*?)(?=<!--|\Z)", re.S
)
BLOCK = re.compile(r"```(?P<language>\w*)\n(?P<text>.*?)```", re.S)
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def examples() -> Iterator[Any]:
    for page in PAGES:
        for found in EXAMPLE.finditer(page.read_text(encoding="utf-8")):
            blocks = {b["language"]: b["text"] for b in reversed(list(BLOCK.finditer(found["after"])))}
            yield pytest.param(
                found["code"], blocks.get("text"), blocks.get("rego"), id=f"{page.stem}-{found['name']}"
            )


@pytest.mark.parametrize(("code", "expected", "policy"), list(examples()))
def test_an_example_prints_what_stands_below_it(
    code: str, expected: str | None, policy: str | None, tmp_path: Path
) -> None:
    """A program on a page runs as it stands, in an empty folder, without a network."""
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    if policy is not None:
        (tmp_path / "policy.rego").write_text(policy, encoding="utf-8")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBOX_", "OPENAI_", "MODEL_"))}
    with OpenAIServer(model="gpt-5") as model:  # for load_model(), which asks what models there are
        done = subprocess.run(
            [sys.executable, "example.py"],
            cwd=tmp_path,
            env={**plain, **model.environ},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    if expected is not None:
        assert done.stdout == expected


def test_examples_were_found() -> None:
    """The search itself works: the README and the pages have examples."""
    names = [item.id for item in examples()]

    assert {"README-quickstart", "README-contracts", "quickstart-watch", "coverage-coverage"} <= set(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_a_file(page: Path) -> None:
    """A relative link names a file that is there."""
    targets = [found["target"] for found in LINK.finditer(page.read_text(encoding="utf-8"))]
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]

    assert not missing


def test_the_changelog_says_nothing_twice() -> None:
    """A merge that keeps both sides of a list leaves each of its lines there twice."""
    unreleased = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## [")[1]
    lines = [line for line in unreleased.splitlines() if len(line) > 30 and not line.startswith("#")]

    assert len(lines) > 10, "found hardly any lines: this test would pass without checking anything"
    assert sorted(line for line, times in Counter(lines).items() if times > 1) == []


def test_the_rules_in_the_readme_are_rules(tmp_path: Path) -> None:
    """They are read without a warning, and nothing in them contradicts the rest."""
    (text,) = (b["text"] for b in BLOCK.finditer(PAGES[0].read_text("utf-8")) if b["language"] == "yaml")
    file = tmp_path / "rules.yaml"
    file.write_text(text, encoding="utf-8")

    assert main(["validate", "--strict", str(file)]) == 0
    assert main(["analyse", str(file)]) == 0


def test_the_readme_leads_to_every_page() -> None:
    """A page that nothing leads to is not read."""
    linked = {found["target"] for found in LINK.finditer(PAGES[0].read_text(encoding="utf-8"))}
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}

    assert len(pages) > 15
    assert pages - linked == set()


def test_every_option_is_described_with_its_default() -> None:
    """The page on configuration has a row for each option, and the default in it is the real one."""
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) >= 4:
            for name in re.findall(r"`([a-z_]+)`", cells[1]):
                rows[name] = cells[2].strip("`")
    defaults = {item.name: item for item in GovernanceOptions.__dataclass_fields__.values()}

    assert set(rows) - {"option"} == set(OPTIONS)
    plain = GovernanceOptions(core="local")
    for name, shown in rows.items():
        if name in ("api_url", "api_key"):
            assert shown == "required"
        elif name != "core":
            default = getattr(plain, name)
            expected = f'"{default}"' if isinstance(default, str) else repr(default)
            assert shown == expected, name
    assert set(defaults) == set(OPTIONS)


def test_every_field_of_a_decision_is_described() -> None:
    """The table has the fields of the record, and no others."""
    page = (ROOT / "docs" / "governed-contracts.md").read_text(encoding="utf-8")
    section = page.partition("## The record of a decision")[2].partition("\n## ")[0]
    names = {name for row in first_cells(section) for name in re.findall(r"`(\w+)`", row)}

    assert names == set(Decision.__struct_fields__)


def test_every_error_is_described_and_importable() -> None:
    """The page names what the package exports, but for the base SDK's own base class."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    named = {name for row in first_cells(page) for name in re.findall(r"`(\w+)`", row)} | {"GovernanceError"}

    exported = {name for name in openbox_agentrt.__all__ if name.endswith("Error")}
    assert named == exported - {"OpenBoxError"}


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| (`[^|]*) \|", text, re.M)


@pytest.mark.parametrize("command", ["openbox-agentrt demo", "pytest -n auto"])
def test_the_readme_has_each_command_in_one_line(command: str) -> None:
    """A newcomer pastes one line; it makes its own environment."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()

    assert any(
        line.startswith("python3 -m venv .venv && ") and line.endswith(f"&& .venv/bin/{command}")
        for line in lines
    )
