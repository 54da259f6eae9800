"""Requests to Core per run: all of them, and those that the run has to wait for, one after the other."""

from __future__ import annotations

import asyncio
from typing import Literal

from openbox_agentrt import create_openbox_agentrt

from .agents import SHAPES, Shape
from .cores import InstantCore, SteppingLine
from .tables import Row, Table

Telemetry = Literal["inline", "ordered"]


async def count(shape: Shape, telemetry: Telemetry) -> tuple[int, int]:
    """Requests of one run of `shape`: in total, and on the critical path."""
    governance = await create_openbox_agentrt(
        core=InstantCore(), telemetry=telemetry, install_instrumentation=False, validate=False, environ={}
    )
    async with governance:
        line = SteppingLine(governance)
        await line.run(shape.run(governance.govern_loop))
        return line.requests, line.steps


def measure(quick: bool) -> Table:
    """Counted, not timed: the same on any machine."""
    rows: list[Row] = []
    for shape in SHAPES:
        if quick and shape.calls > 10:
            continue
        total, inline = asyncio.run(count(shape, "inline"))
        _, ordered = asyncio.run(count(shape, "ordered"))
        rows.append((shape.name, f"{shape.activities} activities", total, inline, ordered))
    return Table(
        name="round-trips",
        title="Round trips to Core per run",
        columns=("case", "activities", "in total", "critical path, inline", "critical path, ordered"),
        rows=rows,
        notes=(
            "Two for each activity, and WorkflowStarted, the prompt and the end of the workflow. The critical"
            " path is that of a run in which nothing else takes time."
        ),
    )
