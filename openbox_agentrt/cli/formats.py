"""The format of recordings, as an option of each command that reads them."""

from __future__ import annotations

from typing import Annotated

import typer

from ..traces.formats import FORMATS
from .running import InputError


def _known_format(name: str) -> str:
    if name not in ("auto", *FORMATS):
        raise InputError(f"there is no format {name!r}; it is auto, or one of {', '.join(FORMATS)}")
    return name


Format = Annotated[
    str,
    typer.Option(help=f"auto, or one of {', '.join(FORMATS)}.", metavar="NAME", callback=_known_format),
]
