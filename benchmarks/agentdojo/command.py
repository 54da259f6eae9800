"""``python -m benchmarks agentdojo``: plays all traces, prints the numbers, writes the page on request."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .measuring import measure
from .report import PageError, fill, summary, tables
from .suites import SUITES

PAGE = Path(__file__).parents[2] / "docs" / "agentdojo.md"


def main(argv: Sequence[str]) -> int:
    """Measure. 0 if no benign trace was refused, 1 if one was, 2 if the page could not be written."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks agentdojo", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{PAGE.name}")
    parser.add_argument("--tables", action="store_true", help="print the tables of the page, too")
    options = parser.parse_args(argv)

    numbers = [measure(name) for name in SUITES]
    print("\n".join(summary(numbers)))
    if options.tables:
        for name, table in tables(numbers).items():
            print(f"\n{name}\n\n{table}")
    if options.write:
        try:
            PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), numbers), encoding="utf-8")
        except (OSError, PageError) as error:
            print(f"cannot write {PAGE}: {error}", file=sys.stderr)
            return 2
    refused = [name for one in numbers for result in one.benign.values() for name in result.refused]
    for name in sorted(set(refused)):
        print(f"refused: {name}", file=sys.stderr)
    return 1 if refused else 0
