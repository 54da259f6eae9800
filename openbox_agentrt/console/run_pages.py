"""Pages of runs, and what a form that halts one does."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..fleet.errors import FleetError
from ..local_core.reading import RunRow
from . import words
from .rendering import WritesPages
from .sources import Sources
from .steps import Step
from .story import tell
from .words import whole_number

RUNS = 30
STEPS = 40

logger = logging.getLogger(__name__)


class RunPages:
    """Answer requests about runs. Its methods run in threads of their own."""

    def __init__(self, sources: Sources, site: WritesPages) -> None:
        self._sources = sources
        self._site = site

    def runs(self, request: Request) -> Response:
        reader = self._sources.reader
        only_open = request.query_params.get("open") == "1"
        skip = whole_number(request.query_params.get("skip"))
        total, running = reader.count_runs(), reader.count_runs(open_only=True)
        now = self._sources.now()
        rows = []
        for run in reader.runs(limit=RUNS, skip=skip, open_only=only_open):
            asked = reader.asked_in(run)
            pending = [one for one in reader.approvals_of(run) if one.as_of(now) == "pending"]
            refused = asked.get("block", 0) + asked.get("halt", 0)
            by_contracts = reader.refused_by_contracts(run)
            judged = sum(asked.values()) + by_contracts
            rows.append(
                {"run": run, "waiting": bool(pending), "judged": judged, "refused": refused + by_contracts}
            )
        return self._site.page(
            request,
            "runs",
            "/runs",
            rows=rows,
            total=total,
            running=running,
            listed=running if only_open else total,
            only_open=only_open,
            skip=skip,
            RUNS=RUNS,
            database=reader.path,
        )

    def run(self, request: Request) -> Response:
        sources = self._sources
        run = sources.reader.run(request.path_params["id"])
        if run is None:
            return Response("there is no such run\n", 404)
        return self._told_of_run(request, run)

    def _told_of_run(
        self, request: Request, run: RunRow, message: Any = None, *, status: int = 200
    ) -> Response:
        sources = self._sources
        story = tell(sources, run)
        only = request.query_params.get("only") == "loud"
        steps = [step for step in story.judged if step.loud] if only else story.judged
        first = whole_number(request.query_params.get("from"), otherwise=max(0, len(steps) - STEPS))
        return self._site.page(
            request,
            "run",
            "/runs",
            status=status,
            run=run,
            story=story,
            title=_title(story.run.halted, story.run.open, story.ended, story.judged),
            steps=steps[first : first + STEPS],
            first=first,
            earlier=min(first, len(steps)),
            later=max(0, len(steps) - first - STEPS),
            only=only,
            STEPS=STEPS,
            loud=sum(step.loud for step in story.judged),
            refused=sum(step.stopped for step in story.judged),
            waiting_here=sum(step.waits for step in story.judged),
            logs=[log for log in sources.logs if log.name in story.logs],
            message=message,
            has_fleet=sources.fleet is not None,
        )

    def halt(self, request: Request) -> Response:
        run = self._sources.reader.run(request.path_params["id"])
        reason = request.state.form.get("reason", "").strip()
        if run is None:
            return Response("there is no such run\n", 404)
        if not reason:
            return Response("a halt needs a reason\n", 400)
        named = {"run": run.run_id, "session": run.session, "agent": run.agent}
        kind = request.state.form.get("of", "run")
        if not named.get(kind):
            return Response("the form names neither a run, nor a session, nor an agent\n", 400)
        try:
            self._sources.halt(kind, named[kind], reason)
        except FleetError as error:
            logger.error("a halt did not reach the store of the fleet: %s", type(error).__name__)
            return self._told_of_run(request, run, _HALTED_HERE, status=503)
        return RedirectResponse(f"/runs/{quote(run.run_id, safe='')}", 303)


_HALTED_HERE = (
    "bad",
    "alarm",
    "The store of the fleet was not told",
    "It is halted in every process with this Core. Whether others have heard of it is not known: try again.",
    "",
)


def _title(halted: str | None, is_open: bool, ended: str, steps: list[Step]) -> str:
    if halted is not None:
        return "The run was halted"
    refused = sum(step.stopped for step in steps)
    said = words.sentence(words.count(refused, "call was refused", "calls were refused")) if refused else ""
    if is_open:
        return f"{said}, and the run goes on" if said else "The run goes on"
    if said:
        return said
    return "The run failed" if ended.startswith("failed") else "Nothing was refused"
