"""``openbox-agentrt diff``: what a change of a rules file changes."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from ..acel.analysis import compare
from ..acel.rulesfile import Rules, contract_lines, read_document, rules_of
from .options import AsJson, Seconds, Tools
from .text import say
from .tool_names import read_tool_names

app = typer.Typer(add_completion=False)


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="The rules file before.", metavar="OLD")],
    new: Annotated[str, typer.Argument(help="The rules file after.", metavar="NEW")],
    tools: Tools = None,
    seconds: Seconds = 10.0,
    as_json: AsJson = False,
) -> int:
    """Compare two rules files: what changed in words, and the first call on which they part, both ways."""
    began = time.thread_time()
    (before, was), (after, now) = _read(old), _read(new)
    names = None if tools is None else read_tool_names(tools)
    # Reading the files takes of the time, too.
    left = max(0.0, seconds - (time.thread_time() - began))
    found = compare(before, after, tools=names, lines=(was, now), seconds=left)
    if as_json:
        print(json.dumps(found.to_dict()))
    elif found.same:
        say(f"{old} and {new} say the same, {found.changes.same} contracts")
    else:
        for line in found.lines():
            say(line)
    return 0 if found.same else 1


def _read(name: str) -> tuple[Rules, tuple[int | None, ...]]:
    """Read a rules file once, for what it says and where."""
    document = read_document(name)
    return rules_of(document), contract_lines(document)
