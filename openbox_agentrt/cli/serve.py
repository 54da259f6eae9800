"""``openbox-agentrt serve``: run a module's MCP server under contracts."""

from __future__ import annotations

from typing import Annotated

import typer

from ..doors.mcp.serve import serve as serve_module
from ..doors.mcp.server_module import ServerModuleError
from ..fleet.errors import FleetConfigError
from .options import Fleet, LogKey, Record, RedactField, RedactionKey, Shadow
from .running import InputError

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    module: Annotated[
        str, typer.Argument(help="File or module that defines build_server().", metavar="MODULE")
    ],
    shadow: Shadow = False,
    contracts: Annotated[
        str | None,
        typer.Option(
            "--rules",
            "--contracts",
            help="Rules file that is added to what the module sets up.",
            metavar="FILE",
        ),
    ] = None,
    fleet: Fleet = None,
    evidence: Annotated[
        str | None, typer.Option(help="Write the evidence there when the server stops.", metavar="FILE")
    ] = None,
    record: Record = "violations",
    key: LogKey = None,
    redact_field: RedactField = None,
    redaction_key: RedactionKey = None,
) -> int:
    """Run the MCP server of a module over standard input and output, its tool calls under contract."""
    try:
        return serve_module(
            module,
            shadow=shadow,
            contracts=contracts,
            evidence=evidence,
            fleet=fleet,
            record=record,
            key=key,
            redact_fields=redact_field or (),
            redaction_key=redaction_key,
        )
    except (ServerModuleError, FleetConfigError, ValueError) as error:
        raise InputError(str(error)) from error
