"""``openbox-agentrt proxy``: put contracts in front of an MCP server that nobody can change."""

from __future__ import annotations

from typing import Annotated

import typer

from ..doors.mcp.calls import CALL, GATEABLE
from ..doors.stdio_proxy.command import proxy as run_behind_contracts
from ..fleet.errors import FleetConfigError
from .options import Fleet, LogKey, Record, RedactField, RedactionKey, Shadow

# The server's own options are not this command's.
app = typer.Typer(add_completion=False, context_settings={"allow_interspersed_args": False})


@app.command()
def proxy(
    command: Annotated[
        list[str],
        typer.Argument(help="The command that starts the server, after --.", metavar="COMMAND"),
    ],
    contracts: Annotated[
        str,
        typer.Option("--rules", help="The rules file, JSON or YAML.", metavar="FILE"),
    ],
    shadow: Shadow = False,
    evidence: Annotated[
        str | None, typer.Option(help="Keep what is refused in this log.", metavar="FILE")
    ] = None,
    record: Record = "violations",
    key: LogKey = None,
    fleet: Fleet = None,
    redact_field: RedactField = None,
    redaction_key: RedactionKey = None,
    session: Annotated[
        str | None, typer.Option(help="Name of the session, in the log and for a halt.", metavar="ID")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="The agent whose calls these are, for a halt.", metavar="NAME")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Method to gate; may be repeated. One of {', '.join(GATEABLE)}.", metavar="METHOD"
        ),
    ] = None,
) -> int:
    """
    Run an MCP server over standard input and output, and judge the calls of its client.

    Every other line passes as it is, in both directions. The exit code is the server's.
    """
    try:
        return run_behind_contracts(
            command,
            contracts=contracts,
            shadow=shadow,
            evidence=evidence,
            gate=gate or [CALL],
            fleet=fleet,
            redact_fields=redact_field or (),
            redaction_key=redaction_key,
            session_id=session,
            agent=agent,
            record=record,
            key=key,
        )
    except (ValueError, FleetConfigError) as error:
        raise typer.BadParameter(str(error)) from error
