"""``openbox-agentrt schema``: the JSON Schema of rules files."""

from __future__ import annotations

from importlib.resources import files

import typer

app = typer.Typer(add_completion=False)


@app.command()
def schema() -> int:
    """Print the JSON Schema of rules files, for an editor."""
    published = files("openbox_agentrt.acel.rulesfile").joinpath("rules.schema.json")
    print(published.read_text(encoding="utf-8"), end="")
    return 0
