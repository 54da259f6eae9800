"""``openbox-agentrt halt``: let nothing more start in a run, in a session, or by an agent."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from .._halt import Halt, halt_of
from ..fleet.halts import halts_in_force, write_halt
from ..fleet.opening import open_halts
from .core import DEFAULT_DATABASE, Database, decider, existing
from .options import By, Fleet
from .running import InputError
from .text import say

app = typer.Typer(add_completion=False)


@app.command()
def halt(
    run: Annotated[str | None, typer.Option("--run", help="The run.", metavar="ID")] = None,
    session: Annotated[str | None, typer.Option("--session", help="The session.", metavar="ID")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="The agent.", metavar="NAME")] = None,
    reason: Annotated[str, typer.Option(help="Why: the agent is told, and the evidence keeps it.")] = "",
    by: By = None,
    lift: Annotated[bool, typer.Option("--lift", help="Let a session or an agent go on.")] = False,
    db: Database = DEFAULT_DATABASE,
    fleet: Fleet = None,
    listed: Annotated[bool, typer.Option("--list", help="List what is halted, and halt nothing.")] = False,
) -> None:
    """
    Halt one run, one session or one agent at its next gate, in every process that uses this Core's file.

    With --fleet also in every process with that store, whatever judges there, within about a second. A file
    that is not there is left out then. Work that is running is not undone. A run that was halted stays so.
    """
    core_too = fleet is None or db != DEFAULT_DATABASE or Path(db).is_file()
    if listed:
        _list(db if core_too else None, fleet)
        return
    who = decider(by)
    named = {"run_id": run, "session_id": session, "agent": agent}
    try:
        meant = halt_of(**named, reason="lifted" if lift else reason, by=who, at=time.time())
        if lift and meant.kind == "run":
            raise ValueError("a run that was halted stays so")
    except ValueError as error:
        raise InputError(f"{error}; see --run, --session, --agent and --reason") from error
    stood: set[tuple[str, str]] = set()
    if fleet is not None:
        with closing(open_halts(fleet, create=True)) as rows:
            stood |= _named(halts_in_force(rows) if lift else ())
            write_halt(rows, meant, lifted=lift)
    if core_too:
        with existing(db) as core:
            if lift:
                stood |= _named(core.halts())
                core.lift_halt(session_id=session, agent=agent)
            else:
                core.halt(**named, reason=reason, by=who)
    if lift and (meant.kind, meant.value) not in stood:
        typer.echo(f"{meant.kind} {meant.value} was not halted; --list says what is")
    else:
        typer.echo(f"{'lifted the halt of' if lift else 'halted'} {meant.kind} {meant.value}")


def _named(halts: Iterable[Halt]) -> set[tuple[str, str]]:
    return {(one.kind, one.value) for one in halts}


def _list(db: str | None, fleet: str | None) -> None:
    halts: list[Halt] = []
    if db is not None:
        with existing(db) as core:
            halts += core.halts()
    if fleet is not None:
        with closing(open_halts(fleet)) as rows:
            halts += halts_in_force(rows)
    for one in sorted(set(halts), key=lambda one: one.at):
        say(f"{one.kind} {one.value}: {one.why}")
    if not halts:
        typer.echo("nothing is halted")
