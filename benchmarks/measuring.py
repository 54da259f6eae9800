"""From names of benchmarks to tables on the terminal, JSON, plots and a page."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .page import write_page
from .tables import Table

DOCS = Path(__file__).parents[1] / "docs"


def run(modules: Mapping[str, str], argv: Sequence[str]) -> int:
    """Run the benchmarks of some modules and show what they give; 2 if something is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="only see whether it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to FILE, too")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md and its plots, too")
    parser.add_argument(
        "--beside", default="", metavar="NAME", help="write the page's blocks of that name only"
    )
    parser.add_argument("--into", type=Path, default=DOCS, help="folder of the page instead of docs")
    options = parser.parse_args(argv)

    tables: list[Table] = []
    for module in modules.values():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of other engines
                tables.append(import_module(module).measure(options.quick))
        except ModuleNotFoundError as error:
            print(f"{error.name} is missing: pip install '.[bench,local]'", file=sys.stderr)
            return 2
        print(f"{tables[-1].to_text()}\n", flush=True)
    if options.json is not None:
        numbers = {"machine": machine(), "tables": [table.to_dict() for table in tables]}
        options.json.write_text(f"{json.dumps(numbers, indent=1)}\n", encoding="utf-8")
    if options.page:
        write_page(options.into, tables, machine(), beside=options.beside)
    return 0


def machine() -> Mapping[str, Any]:
    """What the numbers were printed on. No names."""
    return {
        "processors": os.cpu_count(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
    }
