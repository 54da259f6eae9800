"""``openbox-agentrt schema``: the JSON Schema of rules files."""

from __future__ import annotations

import typer

from ..acel.rulesfile.schema import published_schema

app = typer.Typer(add_completion=False)


@app.command()
def schema() -> int:
    """Print the JSON Schema of rules files, for an editor."""
    print(published_schema(), end="")
    return 0
