"""``openbox-agentrt core``: a local Core on this machine, and the approvals that wait in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from .._extras import MissingExtraError
from ..local_core import (
    DEFAULT_API_KEY,
    Approval,
    LocalCore,
    NotLoopbackError,
    PolicyError,
    StoreError,
    UndecidableApprovalError,
    serve,
)

DEFAULT_DATABASE = "openbox-core.sqlite3"
_SHOWN = 200
_GUARDRAILS: dict[str, bool | Literal["everything"]] = {"off": False, "on": True, "everything": "everything"}

app = typer.Typer(help="A local Core, and what waits in it.", no_args_is_help=True, add_completion=False)

Database = Annotated[str, typer.Option("--db", help="The file with its events.", metavar="FILE")]
Waiting = Annotated[str, typer.Argument(help="The approval, or the activity that waits.", metavar="ID")]


@app.command("serve")
def serve_core(
    policy: Annotated[
        str | None, typer.Option(help="A Rego file; without one everything is allowed.", metavar="FILE")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8086,
    api_key: Annotated[str, typer.Option(help="The key that requests have to carry.")] = DEFAULT_API_KEY,
    guardrails: Annotated[
        Literal["off", "on", "everything"],
        typer.Option(help="Replace personal data: in prompts and outputs, or in arguments of tools as well."),
    ] = "off",
    allow_other_machines: Annotated[
        bool, typer.Option(help="Listen on an address that other machines can reach, unencrypted.")
    ] = False,
) -> None:
    """Serve a local Core over HTTP until Ctrl+C."""

    def announce(url: str) -> None:
        judge = f"policy {policy}" if policy else "no policy: everything is allowed"
        typer.echo(f"local Core, {judge}; events in {db}")
        typer.echo(f"  export OPENBOX_URL={url}")
        typer.echo(f"  export OPENBOX_API_KEY={api_key}")
        typer.echo("Ctrl+C ends it.")

    with (
        _one_line(f"{host}:{port}"),
        LocalCore(policy, db, api_key=api_key, guardrails=_GUARDRAILS[guardrails], on_approval=_tell) as core,
    ):
        try:
            serve(core, host, port, allow_other_machines=allow_other_machines, on_ready=announce)
        except KeyboardInterrupt:
            typer.echo("stopped")


@app.command("approvals")
def list_approvals(db: Database = DEFAULT_DATABASE) -> None:
    """List what waits for a person."""
    with _one_line(), _existing(db) as core:
        pending = core.pending_approvals()
    for approval in pending:
        typer.echo(_describe(approval))
    if not pending:
        typer.echo("nothing waits for approval")


@app.command("approve")
def approve(
    approval_id: Waiting,
    db: Database = DEFAULT_DATABASE,
    note: Annotated[str, typer.Option(help="What the agent is told.")] = "",
) -> None:
    """Let the work of an approval happen."""
    with _one_line(), _existing(db) as core:
        decided = core.approve(approval_id, note=note)
    typer.echo(f"approved {decided.activity_type} {decided.id}")


@app.command("reject")
def reject(
    approval_id: Waiting,
    db: Database = DEFAULT_DATABASE,
    reason: Annotated[str, typer.Option(help="What the agent is told.")] = "",
) -> None:
    """Refuse the work of an approval."""
    with _one_line(), _existing(db) as core:
        decided = core.reject(approval_id, reason)
    typer.echo(f"rejected {decided.activity_type} {decided.id}")


@app.command("check")
def check(db: Database = DEFAULT_DATABASE) -> None:
    """List activities and runs that do not add up; exits with 1 if there are any."""
    with _one_line(), _existing(db) as core:
        problems = [*map(str, core.orphans()), *map(str, core.open_workflows())]
        problems += [f"refused {r.path}: {r.status} {r.message}" for r in core.refused()]
        count = len(core.records())
    for problem in problems:
        typer.echo(problem)
    typer.echo(f"{count} events, {len(problems)} problems")
    if problems:
        raise typer.Exit(1)


@contextmanager
def _existing(db: str) -> Iterator[LocalCore]:
    if not Path(db).is_file():
        raise StoreError(path=db, problem="no such file")
    with LocalCore(path=db) as core:
        yield core


@contextmanager
def _one_line(address: str = "") -> Iterator[None]:
    try:
        yield
    except UndecidableApprovalError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    except NotLoopbackError as error:
        typer.echo(f"error: {error}; use 127.0.0.1, or --allow-other-machines", err=True)
        raise typer.Exit(2) from error
    except (PolicyError, StoreError, MissingExtraError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except UnicodeError as error:
        typer.echo(f"error: cannot listen on {address}: not a name that a machine can have", err=True)
        raise typer.Exit(2) from error
    except OSError as error:
        # The address: in use, unknown, not of this machine, or not ours to listen on.
        number = error.errno or 0
        problem = os.strerror(number) if number > 0 else error.strerror or str(error)
        typer.echo(f"error: cannot listen on {address}: {problem.lower()}; see --host and --port", err=True)
        raise typer.Exit(2) from error


def _tell(approval: Approval) -> None:
    typer.echo(f"waits for approval: {_describe(approval)}")
    typer.echo(f"  openbox-agentrt core approve {approval.id}")


def _describe(approval: Approval) -> str:
    given = approval.event.get("activity_input", approval.event.get("signal_args"))
    # As JSON in ASCII, so that nothing in it can move the cursor or hide what is to be approved.
    text = json.dumps(given)
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    reason = json.dumps(approval.reason)
    return f"{approval.id}  {json.dumps(approval.activity_type)} {shown}  because {reason}"
