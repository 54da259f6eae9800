"""``openbox-agentrt demo``: a governed support agent, told as it happens."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..demo.narrator import Narrator
from ..demo.play import NoModelError, play
from ..evidence import ed25519_signer
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
        typer.Option(help="Keep the evidence and its key in this folder.", metavar="FOLDER"),
    ] = None,
) -> int:
    """Run a support agent under contracts and a policy, on this machine only."""
    with ExitStack() as stack:
        folder = keep
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="openbox-demo-")))
        folder.mkdir(parents=True, exist_ok=True)
        evidence, key = folder / "evidence.jsonl", folder / "signing.key"
        console = Console(highlight=False)
        try:
            asyncio.run(play(Narrator(console), evidence=evidence, key_file=key, own_model=model))
        except NoModelError as error:
            raise InputError(str(error)) from error
        return _verify(console, evidence, key)


def _verify(console: Console, evidence: Path, key: Path) -> int:
    from . import main

    _, public_key = ed25519_signer(key)
    console.print("\n[bold]The evidence[/bold]")
    console.print(
        f"  $ openbox-agentrt verify {evidence.name} --public-key {public_key[:16]}...", markup=False
    )
    return main(["verify", str(evidence), "--public-key", public_key])
