"""``openbox-agentrt demo``: a governed support agent, told as it happens."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..demo.narrator import Narrator
from ..demo.play import NoModelError, Stage, play
from ..evidence.keys import ed25519_signer
from ..local_core import LocalCore
from .core import decider
from .options import Port
from .running import InputError

app = typer.Typer(add_completion=False)

WATCHED_SECONDS = 60.0
"""So long the demo waits for somebody to open its page."""


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
    console: Annotated[
        bool,
        typer.Option("--console", help="Play it slowly, and show it on a page where you approve by click."),
    ] = False,
    port: Port = 8087,
    pace: Annotated[
        float, typer.Option(help="Seconds after each answer of the model, with --console.", min=0, max=60)
    ] = 1.5,
) -> int:
    """Run a support agent under contracts and a policy, on this machine only."""
    # Not removed: what the last lines show can be tried.
    folder = keep if keep is not None else Path(tempfile.mkdtemp(prefix="openbox-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    evidence, key = folder / "evidence.jsonl", folder / "signing.key"
    terminal = Console(highlight=False)
    stage = Stage()
    if console:
        stage = _with_console(terminal, folder, evidence, key, port=port, pace=pace)
    try:
        asyncio.run(play(Narrator(terminal), evidence=evidence, key_file=key, own_model=model, stage=stage))
    except NoModelError as error:
        raise InputError(str(error)) from error
    except KeyboardInterrupt:
        if not console:
            raise
        # Whoever watches has seen enough.
    code = _verify(terminal, evidence, key)
    _read_next(terminal)
    return code


def _with_console(
    terminal: Console, folder: Path, evidence: Path, key: Path, *, port: int, pace: float
) -> Stage:
    from ..console import Place, Sources, running_console

    database = folder / "core.sqlite3"
    # Made before it signs anything, so that the console can verify from the first line on.
    _, public_key = ed25519_signer(key)

    links = _Links(terminal)

    @contextmanager
    def beside(core: LocalCore) -> Iterator[None]:
        with as_file(files("openbox_agentrt.demo") / "rules.yaml") as rules:
            sources = Sources.open(
                core, database, evidence=[evidence], rules=rules, public_key=public_key, who=decider()
            )
        with closing(sources), running_console(sources, Place(port=port), on_link=links.tell):
            yield

    async def afterwards() -> None:
        terminal.print("\n[bold]On the page[/bold]")
        for where, what in (
            ("Evidence", "each line, verified as it was written"),
            ("Contracts", 'ask "What if": session demo, tool refund, arguments {"amount": 300}'),
            ("Runs", "who judged each call, and what would unblock a refusal"),
        ):
            _say(terminal, f"  {where:<10} {what}")
        terminal.print("It stays where it is. Ctrl+C ends it.")
        await asyncio.Event().wait()

    return Stage(database=database, beside=beside, beginning=links.followed, pace=pace, afterwards=afterwards)


class _Links:
    """Tell the links of a console: the first for everybody to see, later ones in a line between others."""

    def __init__(self, terminal: Console) -> None:
        self._terminal = terminal
        self._told = 0

    async def followed(self) -> None:
        """Wait until somebody has opened the first, for a minute at most."""
        until = time.monotonic() + WATCHED_SECONDS
        # Not in a thread: Ctrl+C would have to wait for it.
        while self._told < 2 and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def tell(self, link: str) -> None:
        self._told += 1
        if self._told == 1:
            self._terminal.print("\n[bold]Open this page[/bold], and the agent begins (the link works once)")
            _say(self._terminal, f"  {link}")
            return
        self._terminal.print("[dim]  signed in; for another browser:[/dim]")
        _say(self._terminal, f"  {link}")


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
