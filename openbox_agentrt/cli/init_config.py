"""``openbox-agentrt init-config``: a rules file to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from .running import InputError
from .text import say

app = typer.Typer(add_completion=False)


@app.command("init-config")
def init_config(
    path: Annotated[str, typer.Argument(help="Where to write it.", metavar="PATH")] = "rules.yaml",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> int:
    """Write a commented rules file to start from."""
    starter = files(__package__).joinpath("starter_rules.yaml").read_text(encoding="utf-8")
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(starter)
    except FileExistsError as error:
        raise InputError(f"{path} already exists (use --force to overwrite)") from error
    say(f"Wrote a starter rules file to {path}. Edit it, then try: openbox-agentrt validate {path}")
    return 0
