"""``openbox-agentrt demo``: a governed support agent, told as it happens."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..demo.narrator import Narrator
from ..demo.play import NoModelError, play
from .running import InputError

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    model: Annotated[
        bool,
        typer.Option(
            "--model",
            help="Use your own model: what agent_rt.load_model finds in the environment.",
        ),
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(help="Put the evidence and its key into this folder.", metavar="FOLDER"),
    ] = None,
) -> int:
    """Run a support agent under contracts and a policy, on this machine only."""
    # Not removed: what the last lines show can be tried.
    folder = keep if keep is not None else Path(tempfile.mkdtemp(prefix="openbox-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    evidence, key = folder / "evidence.jsonl", folder / "signing.key"
    console = Console(highlight=False)
    try:
        asyncio.run(play(Narrator(console), evidence=evidence, key_file=key, own_model=model))
    except NoModelError as error:
        raise InputError(str(error)) from error
    code = _verify(console, evidence, key)
    _read_next(console)
    return code


def _verify(console: Console, evidence: Path, key: Path) -> int:
    from . import main

    console.print("\n[bold]The evidence[/bold]")
    for line in (f"$ {_program()} verify \\", f"    {_quoted(evidence)} \\", f"    --key {_quoted(key)}"):
        _say(console, f"  {line}")
    return main(["verify", str(evidence), "--key", str(key)])


def _program() -> str:
    """Name this program as it was called: what is printed is there to be run."""
    called = Path(sys.argv[0])
    if called.stem != "openbox-agentrt":
        return f"{_quoted(Path(sys.executable))} -m openbox_agentrt.cli"
    found = shutil.which(called.name)
    return called.name if found is not None and Path(found) == called.absolute() else _quoted(called)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _read_next(console: Console) -> None:
    console.print("\n[bold]Open next[/bold]")
    _say(console, f"  in {files('openbox_agentrt')}:")
    for name, what in (
        ("demo/rules.yaml", "the contracts"),
        ("local_core/policy.rego", "the policy"),
        ("demo/play.py", "how the agent is governed"),
    ):
        _say(console, f"  {name:<24} {what}")


def _say(console: Console, line: str) -> None:
    # As it is, however narrow the terminal: it is there to be copied.
    console.print(line, markup=False, soft_wrap=True)
