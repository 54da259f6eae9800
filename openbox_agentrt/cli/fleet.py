"""``openbox-agentrt fleet``: look at the store that many processes share, and settle what is stuck."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ..console.words import iso
from ..fleet.cell_words import cell_line, cell_numbers, cell_words, resets_at
from ..fleet.client.settling import settle_worker
from ..fleet.steps import Finish, NoAnswerError
from ..fleet.survey import CellStand, LeaseStand, Survey, survey
from .options import AsJsonLines
from .running import InputError
from .text import printable, say

_MOST = 1000
_STATES = {"r": "reserved", "s": "started", "g": "given back", "u": "unknown"}

app = typer.Typer(help="The store that many processes share.", no_args_is_help=True, add_completion=False)

Url = Annotated[
    str,
    typer.Argument(
        help="sqlite:///fleet.db, redis://host/0 or rediss://host/0.",
        metavar="URL",
        envvar="OPENBOX_AGENTRT_FLEET",
    ),
]


@app.command()
def check(url: Url, as_json: AsJsonLines = False) -> int:
    """
    Say whether a store is fit.

    The exit code is 0 if it is, 1 if there is something that you should know, 2 if it is not.
    """
    with _surveyed(url) as store:
        health = store.health()
    if as_json:
        typer.echo(json.dumps(asdict(health)))
    else:
        for fact in health.facts:
            say(fact)
        for doubt in health.doubts:
            say(f"note: {doubt}")
    if health.faults:
        raise InputError("; ".join(health.faults))
    return 1 if health.doubts else 0


@app.command()
def show(
    url: Url,
    value: Annotated[
        str | None, typer.Option(help="Only cells of this value of a contract's key.", metavar="VALUE")
    ] = None,
    most: Annotated[int, typer.Option(help="Read so many cells at most.", min=1)] = _MOST,
    as_json: AsJsonLines = False,
) -> None:
    """List the cells with what is spent and free, and the workers."""
    with _surveyed(url) as store:
        cells = store.cells(most + 1, key=value)
        workers, leases, now = store.workers(), store.leases(), store.now()
    has_more, cells = len(cells) > most, cells[:most]
    if has_more:
        say(f"only {most} cells are read: see --value, or --most for more", error=True)
    if as_json:
        for cell in cells:
            typer.echo(json.dumps(_cell_data(cell)))
        for lease in leases:
            typer.echo(json.dumps(_lease_data(lease)))
        return
    for cell in cells:
        say(cell_line(cell))
    say(f"{len(cells)} cells, {len(workers)} workers, {len(leases)} open leases")
    for worker, until in workers.items():
        held = [lease for lease in leases if lease.worker == worker]
        left = (until - now) / 1e6
        state = f"lease for {left:.0f} s" if left >= 0 else f"dead for {-left:.0f} s"
        say(f"worker {worker}: {state}, {len(held)} open")
        for lease in held:
            say(f"  {lease.id} {_STATES.get(lease.state, lease.state)}")


@app.command()
def leases(url: Url, as_json: AsJsonLines = False) -> None:
    """List what is reserved or under way."""
    with _surveyed(url) as store:
        found = store.leases()
    for lease in found:
        if as_json:
            typer.echo(json.dumps(_lease_data(lease)))
        else:
            over = "" if lease.seconds_left >= 0 else ", its worker is dead"
            say(f"{lease.id} {_STATES.get(lease.state, lease.state)} by {lease.worker}{over}")
    if not found and not as_json:
        typer.echo("nothing is open")


@app.command()
def settle(
    what: Annotated[str, typer.Argument(help="A worker, a lease, or a cell.", metavar="WORKER|LEASE|CELL")],
    url: Url,
) -> None:
    """
    Settle by hand a dead worker, a lease, or a cell that refuses.

    What was reserved is given back, what was started is unknown and counts. A cell's times that are ahead of
    the clock become now, and an amount that nobody measured is forgotten.
    """
    with _surveyed(url) as store:
        if what in store.workers():
            settled = settle_worker(store.line, what, person=True)
        elif ":" in what:
            if not store.mend(_cell_of(store, what)):
                raise InputError(f"there is no cell {what!r}; see openbox-agentrt fleet show")
            say(f"{what} counts again")
            return
        else:
            settled = _settle_lease(store, what)
    for lease, state in settled.items():
        say(f"{lease} {_STATES.get(state, state)}")
    if not settled:
        typer.echo("nothing was open")


def _cell_of(store: Survey, what: str) -> str:
    """Give the id of a cell, of which `fleet show` prints a form that a terminal can show."""
    if "\\" not in what:
        return what
    return next((cell.id for cell in store.cells(_MOST) if printable(cell.id) == what), what)


def _settle_lease(store: Survey, what: str) -> dict[str, str]:
    found = [lease for lease in store.leases() if lease.id == what]
    if not found:
        raise InputError(f"there is no worker and no open lease {what!r}; see openbox-agentrt fleet show")
    lease = found[0]
    cells = tuple(cell.id for cell in lease.plan.c)
    step = Finish(lease=what, worker=lease.worker, how="settle", cells=cells, person=True)
    return {what: store.line.run([step])[0].state}


@contextmanager
def _surveyed(url: str) -> Iterator[Survey]:
    store = survey(url)
    try:
        yield store
    except NoAnswerError as error:
        raise InputError(f"the store does not answer: {error}") from error
    finally:
        store.close()


def _cell_data(cell: CellStand) -> dict[str, Any]:
    resets = resets_at(cell)
    return {
        "cell": cell.id,
        "name": "?" if cell.about is None else cell.about.name,
        "counts": cell_words(cell),
        "key": cell.key,
        **cell_numbers(cell),
        "unread": cell.unread,
        "ahead_seconds": round(cell.ahead, 1),
        "since": None if cell.period is None else iso(cell.period / 1e6),
        "resets_at": None if resets is None else resets.isoformat(),
    }


def _lease_data(lease: LeaseStand) -> dict[str, Any]:
    return {
        "lease": lease.id,
        "worker": lease.worker,
        "state": _STATES.get(lease.state, lease.state),
        "seconds_left": round(lease.seconds_left, 1),
        "cells": [cell.id for cell in lease.plan.c],
    }
