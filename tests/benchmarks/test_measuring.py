"""Benchmarks that nobody runs stop running. These run all of them, quickly; the numbers mean nothing."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import COMMANDS, MEASUREMENTS, main
from benchmarks.page import write_page
from benchmarks.tables import Chart, Table
from benchmarks.timing import spread

pytestmark = pytest.mark.timeout(180)

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_benchmark_runs(name: str) -> None:
    """And gives a table in which every row has all columns."""
    table = import_module(MEASUREMENTS[name]).measure(True)

    assert table.name == name
    assert table.rows
    assert all(len(row) == len(table.columns) for row in table.rows)
    json.dumps(table.to_dict())


def test_numbers_go_to_the_terminal_a_file_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From one command. The page keeps the words around the numbers."""
    page = tmp_path / "performance.md"
    page.write_text("# Performance\n\nWords.\n\n<!-- refusal -->\nold\n<!-- /refusal -->\n", encoding="utf-8")
    numbers = tmp_path / "numbers.json"

    status = main(["refusal", "--quick", "--json", str(numbers), "--page", "--into", str(tmp_path)])

    assert status == 0
    assert "A refusal, by length of the session" in capsys.readouterr().out
    written = json.loads(numbers.read_text(encoding="utf-8"))
    assert written["tables"][0]["rows"][0]["who"] == "openbox_agentrt"
    assert set(written["machine"]) == {"processors", "python", "system"}
    text = page.read_text(encoding="utf-8")
    assert "Words." in text
    assert "old" not in text
    assert "| after 10 calls | openbox_agentrt |" in text
    assert (tmp_path / "benchmarks" / "refusal.svg").stat().st_size > 1000


def test_numbers_of_another_python_stand_beside_those_of_the_page(tmp_path: Path) -> None:
    """Where the page has room for them, and nowhere else."""
    page = tmp_path / "performance.md"
    page.write_text("<!-- a -->\nkept\n<!-- /a -->\n<!-- a 3.13 -->\n<!-- /a 3.13 -->\n", encoding="utf-8")
    tables = [Table(name=name, title="T", columns=("case", "us"), rows=[("x", 1.0)]) for name in "ab"]
    machine = {"processors": 2, "python": "CPython 3.13.0", "system": "Linux"}

    write_page(tmp_path, tables, machine, beside="3.13")

    text = page.read_text(encoding="utf-8")
    assert text.count("| x | 1.00 |") == 1
    assert "kept" in text
    assert "<!-- b" not in text


@pytest.mark.parametrize("argv", [[], ["nonsense"]], ids=["nothing", "an unknown name"])
def test_a_name_is_needed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without one, the names are listed."""
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in (*COMMANDS, *MEASUREMENTS, "all"))


def test_a_spread_is_read_off_the_samples() -> None:
    """Median, and the values that 95 and 99 in a hundred stay below."""
    found = spread(range(1, 101))

    assert (found.median, found.p95, found.p99, found.count) == (50.5, 96, 100, 100)


def test_a_table_is_shown_in_columns() -> None:
    """Numbers with about three digits."""
    table = Table(
        name="t", title="T", columns=("case", "who", "us"), rows=[("a", "b", 1234.5), ("a", "c", 1.234)]
    )

    assert table.to_text().splitlines() == ["T", "case  who     us", "a     b    1,234", "a     c     1.23"]
    assert table.to_markdown().splitlines()[-1] == "| a | c | 1.23 |"
    assert Chart(x="x", y="y", lines={}).lines == {}


@pytest.mark.skipif(not PAGE.exists(), reason="the page has not been written")
def test_the_page_has_every_table() -> None:
    """And every plot that it shows."""
    text = PAGE.read_text(encoding="utf-8")

    for name in MEASUREMENTS:
        assert f"<!-- {name} -->" in text
    plots = re.findall(r"\]\((benchmarks/[\w-]+\.svg)\)", text)
    assert plots
    for plot in plots:
        assert (PAGE.parent / plot).is_file()
