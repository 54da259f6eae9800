"""``openbox-agentrt import``: recordings of other programs as a trace that ``replay`` reads."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..evidence.redaction.redactor import redactor_of
from ..traces.formats import Recordings
from ..traces.written import rows_of
from .options import Format, RedactField
from .progress import Progress
from .text import tell_unread

app = typer.Typer(add_completion=False)


@app.command(name="import")
def import_(
    paths: Annotated[list[str], typer.Argument(help="Recordings, and folders of them.", metavar="PATH...")],
    format: Format = "auto",
    redact: RedactField = None,
) -> int:
    """Write recorded calls to standard output, a line of JSON each, as replay and backtest read them."""
    recordings = Recordings(paths, format=format)
    redactor = redactor_of(redact or ())
    for row in rows_of(Progress("events").counted(recordings.events())):
        for name in ("args", "result"):
            if row.get(name) is not None and redact:
                row[name] = redactor.redact(row[name])
        print(json.dumps(row, default=str))
    tell_unread(recordings)
    return 0
