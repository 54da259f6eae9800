"""Options and arguments that mean the same in several commands."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

AsJsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object a line, with everything.")]
By = Annotated[
    str | None, typer.Option("--by", "--as", help="Who decides; your login name if left out.", metavar="NAME")
]
Format = Annotated[
    Literal["auto", "evidence", "otlp", "claude-code", "mcp", "rows", "openai"],
    typer.Option(help="auto, or one of evidence, otlp, claude-code, mcp, rows, openai.", metavar="NAME"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
RulesArgument = Annotated[str, typer.Argument(help="The rules file, JSON or YAML.", metavar="RULES")]
RulesOption = Annotated[str, typer.Option(help="The rules file, JSON or YAML.", metavar="FILE")]
Shadow = Annotated[bool, typer.Option("--shadow", help="Record what would be refused, and refuse nothing.")]
Seconds = Annotated[float, typer.Option(help="How many seconds of processor time are searched.", min=0.1)]
Tools = Annotated[
    str | None,
    typer.Option(help="Tools that there are: an MCP list, an OpenAI tools array, or names.", metavar="FILE"),
]
Fleet = Annotated[
    str | None,
    typer.Option(
        help="The store that processes share: sqlite:///fleet.db, redis://host/0.",
        metavar="URL",
        envvar="OPENBOX_AGENTRT_FLEET",
        show_envvar=False,
    ),
]
Logs = Annotated[
    list[str], typer.Argument(help="Logs of either format, or folders of them.", metavar="EVIDENCE...")
]
PublicKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        "--public-key",
        help="Ed25519 public key that evidence has to be signed with, or a file that holds it. "
        "Without it nothing is authenticated.",
        metavar="HEX|FILE",
    ),
]
RedactField = Annotated[
    list[str] | None,
    typer.Option(
        "--redact-field",
        "--redact",
        help="An argument to show as a marker only; may be repeated.",
        metavar="NAME",
    ),
]
RedactionKey = Annotated[
    str | None,
    typer.Option(help="Key file of these markers, created if it does not exist.", metavar="FILE"),
]
Record = Annotated[
    Literal["violations", "steps"],
    typer.Option(help="steps: keep each call in it, with its arguments and what became of it."),
]
LogKey = Annotated[
    str | None,
    typer.Option("--key", help="Key file that signs the log, created if it does not exist.", metavar="FILE"),
]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)]
