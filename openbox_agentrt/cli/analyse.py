"""``openbox-agentrt analyse``: know a rules file before it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from ..acel.analysis import Analysis, analyse
from ..acel.rulesfile import contract_lines, read_document, rules_of
from .options import AsJson, RulesArgument, Seconds, Tools
from .running import write_output
from .sarif import sarif_of
from .test import read_all_tests
from .text import print_result, print_warnings
from .tool_names import read_tool_names

app = typer.Typer(add_completion=False)


@app.command(name="analyse")
def analyse_rules(
    rules: RulesArgument,
    tools: Tools = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(help="Files with further tests, beside those of the rules file.", metavar="FILE"),
    ] = None,
    seconds: Seconds = 10.0,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 1 also where something was not decided or analysed.")
    ] = False,
    sarif: Annotated[
        str | None, typer.Option(help="Write the findings for code review to this file too.", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Search what sessions under rules can do, and say what is probably not meant. Nothing is run."""
    began = time.thread_time()
    document = read_document(rules)
    understood = rules_of(document)
    print_warnings(rules, understood.warnings)
    names = None if tools is None else read_tool_names(tools)
    lines = contract_lines(document)
    examples = read_all_tests(understood, document, tests or ())
    # Reading the file takes of the time, too.
    left = max(0.0, seconds - (time.thread_time() - began))
    found = analyse(understood, tools=names, lines=lines, tests=examples, seconds=left)
    if sarif is not None:
        write_output(sarif, json.dumps(sarif_of(found, rules), indent=2).encode())
    print_result(
        {"ok": not found.findings, **found.to_dict()},
        _lines(rules, len(understood.contracts), found),
        as_json=as_json,
    )
    return 1 if found.findings or (strict and (found.undecided or found.not_analysed)) else 0


def _lines(name: str, contracts: int, found: Analysis) -> Iterator[str]:
    count = len(found.findings)
    what = "nothing found" if not count else "1 finding" if count == 1 else f"{count} findings"
    what += f" and {len(found.accepted)} accepted" if found.accepted else ""
    decided = "all" if found.decided == contracts else str(found.decided)
    yield f"{what} in {contracts} contracts of {name}, {decided} decided, {found.states} states searched"
    for finding in (*found.findings, *found.accepted):
        first, *more = finding.lines()
        yield f"{name}:{finding.line}: {first}" if finding.line is not None else first
        yield from (f"    {line}" for line in more)
    yield from (f"undecided: {what}" for what in found.undecided)
    yield from (f"not analysed: {what}" for what in found.not_analysed)
