"""``openbox-agentrt halt``: let nothing more start in a run, in a session, or by an agent."""

from __future__ import annotations

from typing import Annotated

import typer

from .core import DEFAULT_DATABASE, Database, existing, name_of_user, one_line
from .running import InputError

app = typer.Typer(add_completion=False)


@app.command()
def halt(
    run: Annotated[str | None, typer.Option("--run", help="The run.", metavar="ID")] = None,
    session: Annotated[str | None, typer.Option("--session", help="The session.", metavar="ID")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="The agent.", metavar="NAME")] = None,
    reason: Annotated[str, typer.Option(help="Why: the agent is told, and the evidence keeps it.")] = "",
    by: Annotated[
        str | None, typer.Option(help="Who halts it; your login name if left out.", metavar="NAME")
    ] = None,
    lift: Annotated[bool, typer.Option("--lift", help="Let a session or an agent begin runs again.")] = False,
    db: Database = DEFAULT_DATABASE,
) -> None:
    """
    Halt one run, one session or one agent at its next gate, in every process that uses this Core's file.

    Work that is running is not undone. A run that was halted stays so.
    """
    with one_line(), existing(db) as core:
        try:
            if lift:
                number = core.lift_halt(session_id=session, agent=agent)
                typer.echo(f"{number} halt(s) lifted")
                return
            who = name_of_user() if by is None else by
            done = core.halt(run_id=run, session_id=session, agent=agent, reason=reason, by=who)
        except ValueError as error:
            raise InputError(f"{error}; see --run, --session, --agent and --reason") from error
    typer.echo(f"halted {done.kind} {done.value}")
