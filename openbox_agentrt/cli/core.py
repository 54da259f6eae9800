"""``openbox-agentrt core``: a local Core on this machine, and the approvals that wait in it."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from .._webhook import Webhook
from ..evidence.keys import read_public_key
from ..evidence.redaction.redactor import Redactor, redactor_of
from ..local_core import (
    DEFAULT_API_KEY,
    Approval,
    LocalCore,
    NotLoopbackError,
    StoreError,
    UndecidableApprovalError,
    serve,
)
from .approvals import as_data, described
from .options import AsJsonLines, By, Host, Port, PublicKey, RedactField
from .running import InputError
from .stopping import until_stopped

APPROVAL_SECRET = "OPENBOX_AGENTRT_ON_APPROVAL_SECRET"
DEFAULT_DATABASE = "openbox-core.sqlite3"
_LOOK_AGAIN_SECONDS = 1.0
_GUARDRAILS: dict[str, bool | Literal["everything"]] = {"off": False, "on": True, "everything": "everything"}

app = typer.Typer(help="A local Core, and what waits in it.", no_args_is_help=True, add_completion=False)

Database = Annotated[str, typer.Option("--db", help="The file with its events.", metavar="FILE")]
Note = Annotated[str, typer.Option(help="What the evidence keeps of it, and a refused agent is told.")]
Waiting = Annotated[str, typer.Argument(help="The approval, or the activity that waits.", metavar="ID")]


@app.command("serve")
def serve_core(
    policy: Annotated[
        str | None, typer.Option(help="A Rego file; without one everything is allowed.", metavar="FILE")
    ] = None,
    db: Database = DEFAULT_DATABASE,
    host: Host = "127.0.0.1",
    port: Port = 8086,
    api_key: Annotated[str, typer.Option(help="The key that requests have to carry.")] = DEFAULT_API_KEY,
    guardrails: Annotated[
        Literal["off", "on", "everything"],
        typer.Option(
            help="Replace personal data in prompts and outputs (on), or in arguments of tools as well"
            " (everything), see docs/local-core.md, Guardrails."
        ),
    ] = "off",
    allow_other_machines: Annotated[
        bool,
        typer.Option(
            "--allow-other-machines", help="Listen on an address that other machines can reach, unencrypted."
        ),
    ] = False,
    on_approval: Annotated[
        str | None,
        typer.Option(
            help="Post each call that waits to this https address; signed with the key in the variable"
            f" {APPROVAL_SECRET}, if that is set.",
            metavar="URL",
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Show a page of what happens, and decide there.")
    ] = False,
    console_port: Port = 8087,
    evidence: Annotated[
        list[str] | None,
        typer.Option(help="Evidence that the console follows; may be repeated.", metavar="FILE"),
    ] = None,
    rules: Annotated[
        str | None, typer.Option(help="The rules file that the console names.", metavar="FILE")
    ] = None,
    key: PublicKey = None,
    by: By = None,
    redact_field: RedactField = None,
) -> None:
    """Serve a local Core over HTTP until Ctrl+C or SIGTERM."""

    def announce(url: str) -> None:
        judge = f"policy {policy}" if policy else "no policy: everything is allowed"
        typer.echo(f"local Core, {judge}; events in {db}")
        typer.echo(f"  export OPENBOX_URL={url}")
        typer.echo(f"  export OPENBOX_API_KEY={api_key}")
        typer.echo("Ctrl+C ends it.")

    with (
        listening_at(host, port),
        nullcontext() if on_approval is None else closing(_webhook(on_approval)) as hook,
        LocalCore(
            policy,
            db,
            api_key=api_key,
            guardrails=_GUARDRAILS[guardrails],
            on_approval=partial(_tell, db=db, hook=hook, redactor=redactor_of(redact_field)),
        ) as core,
    ):
        looks_at = (evidence, rules, key, by, redact_field)
        shown = _console(core, db, console_port, *looks_at) if console else nullcontext()
        with until_stopped(), shown:
            serve(core, host, port, allow_other_machines=allow_other_machines, on_ready=announce)
        typer.echo("stopped")


@contextmanager
def _console(
    core: LocalCore,
    db: str,
    port: int,
    evidence: list[str] | None,
    rules: str | None,
    key: str | None,
    by: str | None,
    redact_fields: list[str] | None,
) -> Iterator[None]:
    from ..console import Place, Sources, running_console

    with ExitStack() as served:
        sources = Sources.open(
            core,
            db,
            evidence=evidence or (),
            rules=rules,
            public_key=None if key is None else read_public_key(key),
            redact_fields=redact_fields or (),
            who=decider(by),
        )
        served.callback(sources.close)
        with listening_at("127.0.0.1", port, options="--console-port"):
            served.enter_context(running_console(sources, Place(port=port), on_link=tell_link))
        yield


def tell_link(link: str) -> None:
    """Print a link that signs one browser in."""
    typer.echo(f"console: {link}")


@app.command("approvals")
def list_approvals(
    db: Database = DEFAULT_DATABASE,
    as_json: AsJsonLines = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and list what comes, until Ctrl+C.")] = False,
) -> None:
    """List what waits for a person."""
    seen: set[str] = set()
    with existing(db) as core, until_stopped() if watch else nullcontext():
        while True:
            for approval in core.pending_approvals():
                if approval.id not in seen:
                    seen.add(approval.id)
                    _show(approval, db, as_json=as_json)
            if not watch:
                break
            time.sleep(_LOOK_AGAIN_SECONDS)
    if not seen and not as_json:
        typer.echo("nothing waits for approval")


@app.command("show")
def show(
    approval_id: Annotated[str, typer.Argument(help="The approval, or its activity.", metavar="ID")],
    db: Database = DEFAULT_DATABASE,
    as_json: AsJsonLines = False,
) -> None:
    """Show an approval, whatever became of it, with its whole event."""
    with existing(db) as core:
        found = [one for one in core.approvals() if approval_id in (one.id, one.activity_id)]
        if not found:
            raise UndecidableApprovalError(f"no approval has the id {approval_id!r}")
    for approval in found:
        if as_json:
            _show(approval, db, as_json=True)
        else:
            data = {**as_data(approval, time.time()), "event": approval.event}
            typer.echo(json.dumps(data, indent=2))


@app.command("approve")
def approve(approval_id: Waiting, db: Database = DEFAULT_DATABASE, note: Note = "", by: By = None) -> None:
    """Let the work of an approval happen."""
    with existing(db) as core:
        decided = core.approve(approval_id, note, by=decider(by))
    typer.echo(f"approved {decided.activity_type} {decided.id}")


@app.command("reject")
def reject(approval_id: Waiting, db: Database = DEFAULT_DATABASE, note: Note = "", by: By = None) -> None:
    """Refuse the work of an approval."""
    with existing(db) as core:
        decided = core.reject(approval_id, note, by=decider(by))
    typer.echo(f"rejected {decided.activity_type} {decided.id}")


@app.command("check")
def check(db: Database = DEFAULT_DATABASE) -> None:
    """
    List activities and runs that do not add up.

    The exit code is 1 if there are any.
    """
    with existing(db) as core:
        problems = [*map(str, core.orphans()), *map(str, core.open_workflows())]
        problems += [f"refused {r.path}: {r.status} {r.message}" for r in core.refused()]
        count = len(core.records())
    for problem in problems:
        typer.echo(problem)
    typer.echo(f"{count} events, {len(problems)} problems")
    if problems:
        raise typer.Exit(1)


@contextmanager
def existing(db: str) -> Iterator[LocalCore]:
    """Open the database of a local Core that is there. What cannot be decided there is exit code 1."""
    if not Path(db).is_file():
        raise StoreError(path=db, problem="no such file")
    with LocalCore(path=db) as core:
        try:
            yield core
        except UndecidableApprovalError as error:
            raise InputError(str(error), code=1) from error


@contextmanager
def listening_at(
    host: str,
    port: int,
    *,
    other_machines: str = "--allow-other-machines",
    options: str = "--host and --port",
) -> Iterator[None]:
    """Say in the words of the command line why an address cannot be listened on."""
    try:
        yield
    except NotLoopbackError as error:
        raise InputError(f"{error}; use 127.0.0.1, or {other_machines}") from error
    except UnicodeError as error:
        problem = "not a name that a machine can have"
        raise InputError(f"cannot listen on {host}:{port}: {problem}") from error
    except OSError as error:
        # The address: in use, unknown, not of this machine, or not ours to listen on.
        number = error.errno or 0
        problem = (os.strerror(number) if number > 0 else error.strerror or str(error)).lower()
        raise InputError(f"cannot listen on {host}:{port}: {problem}; see {options}") from error


def _show(approval: Approval, db: str, *, as_json: bool) -> None:
    now = time.time()
    typer.echo(json.dumps(as_data(approval, now)) if as_json else described(approval, now, where=_where(db)))


def _where(db: str) -> str:
    """Give the option that commands need to find the file, with a blank before it."""
    return "" if db == DEFAULT_DATABASE else f" --db {shlex.quote(db)}"


def decider(named: str | None = None) -> str:
    """Name who decides: whoever is named, or whoever runs this, by the login name."""
    if named is not None:
        return named
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""  # an account without a name: nobody is named rather than somebody else


def _webhook(url: str) -> Webhook:
    return Webhook(url, secret=os.environ.get(APPROVAL_SECRET))


def _tell(approval: Approval, *, db: str, hook: Webhook | None, redactor: Redactor) -> None:
    if hook is not None:
        hook.send(approval.message(redactor))
    where = _where(db)
    typer.echo(f"waits for approval: {described(approval, time.time(), where=where)}")
    typer.echo(f"  openbox-agentrt core approve {approval.id}{where}")
    typer.echo(f"  openbox-agentrt core reject {approval.id}{where}")
