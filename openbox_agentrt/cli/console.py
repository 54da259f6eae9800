"""``openbox-agentrt console``: a page for the person on call, served on this machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ..evidence.keys import read_public_key
from ..local_core import LocalCore
from .core import DEFAULT_DATABASE, Database, decider, listening_at, tell_link
from .options import By, Fleet, Host, Port, PublicKey, RedactField
from .stopping import until_stopped
from .text import say

app = typer.Typer(add_completion=False)

Evidence = Annotated[
    list[str] | None,
    typer.Option("--evidence", help="An evidence log, or a folder of them; may be repeated.", metavar="FILE"),
]
Rules = Annotated[
    str | None, typer.Option("--rules", help="The rules file of the contracts.", metavar="FILE")
]


@app.command()
def console(
    db: Database = DEFAULT_DATABASE,
    evidence: Evidence = None,
    rules: Rules = None,
    key: PublicKey = None,
    redact_field: RedactField = None,
    by: By = None,
    fleet: Fleet = None,
    host: Host = "127.0.0.1",
    port: Port = 8087,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A name under which browsers reach it; may be repeated.", metavar="HOST"),
    ] = None,
    allow_other_machines: Annotated[
        bool,
        typer.Option(
            "--allow-other-machines",
            help="Listen on an address that other machines can reach; needs --tls-cert.",
        ),
    ] = False,
    tls_cert: Annotated[
        str | None, typer.Option(help="A certificate with its chain, in PEM.", metavar="FILE")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(help="Its key, if it is not in the same file.", metavar="FILE")
    ] = None,
) -> None:
    """
    Show what agents do, and decide the calls that wait, until Ctrl+C or SIGTERM.

    It reads the database of a local Core, which may be served by another process at the same time.
    """
    from ..console import Place, Sources, serve_console

    place = Place(
        host=host,
        port=port,
        names=tuple(name or ()),
        allow_other_machines=allow_other_machines,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    other_machines = "--allow-other-machines with --tls-cert"
    # The Core that will write it may start later; a path that was mistyped looks the same.
    missing = [] if Path(db).exists() else [f"console: database {db}: no such file, so it is made"]

    def tell(link: str) -> None:
        tell_link(link)
        while missing:
            say(missing.pop(), error=True)

    with (
        listening_at(host, port, other_machines=other_machines),
        LocalCore(path=db) as core,
        closing(
            Sources.open(
                core,
                db,
                evidence=evidence or (),
                rules=rules,
                public_key=None if key is None else read_public_key(key),
                redact_fields=redact_field or (),
                who=decider(by),
                fleet=fleet,
            )
        ) as sources,
    ):
        with until_stopped():
            serve_console(sources, place, on_link=tell)
        typer.echo("stopped")
