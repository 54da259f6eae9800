"""The same as JSON, for programs: what a page shows, under ``/api/v1``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from . import inbox
from .evidence_view import LogView
from .reporting import Reports
from .sources import Sources
from .story import tell

_RUNS = 100


def api_routes(sources: Sources, reports: Reports) -> list[Route]:
    """Make the routes under `/api/v1`."""

    def approvals(request: Request) -> Any:
        now = sources.now()
        pending = sources.reader.pending(now, limit=_RUNS)
        cards = [_card(inbox.card_of(sources, reports.sessions, approval)) for approval in pending]
        return {"waiting": sources.reader.count_pending(now), "approvals": cards}

    def approval(request: Request) -> Any:
        found = sources.reader.approval(request.path_params["id"])
        return None if found is None else _card(inbox.card_of(sources, reports.sessions, found))

    def runs(request: Request) -> Any:
        listed = sources.reader.runs(limit=_RUNS)
        return {"runs": sources.reader.count_runs(), "latest": [plain(run) for run in listed]}

    def run(request: Request) -> Any:
        found = sources.reader.run(request.path_params["id"])
        if found is None:
            return None
        story = tell(sources, found)
        return {
            "run": plain(found),
            "steps": [plain(step) for step in story.judged],
            "spent": plain(story.spent),
        }

    def overview(request: Request) -> Any:
        return plain(reports.overview_summary())

    def contracts(request: Request) -> Any:
        fleet = None if sources.fleet is None else plain(sources.fleet.view())
        return {"states": [plain(row) for row in reports.states()], "fleet": fleet}

    def shadow(request: Request) -> Any:
        return reports.shadow_summary()

    def evidence(request: Request) -> Any:
        return {"logs": [_log(LogView(log)) for log in sources.logs]}

    return [
        Route("/api/v1/overview", _as_json(overview)),
        Route("/api/v1/contracts", _as_json(contracts)),
        Route("/api/v1/shadow", _as_json(shadow)),
        Route("/api/v1/evidence", _as_json(evidence)),
        Route("/api/v1/approvals", _as_json(approvals)),
        Route("/api/v1/approvals/{id}", _as_json(approval)),
        Route("/api/v1/runs", _as_json(runs)),
        Route("/api/v1/runs/{id:path}", _as_json(run)),
    ]


def plain(value: Any) -> Any:
    """Give a value of the console as JSON data. Pieces of a text become the text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: plain(getattr(value, one.name))
            for one in fields(value)
            if one.repr and one.name != "event"
        }
    if isinstance(value, tuple | list):
        if value and all(hasattr(one, "kind") and hasattr(one, "text") for one in value):
            return "".join(
                f"***REDACTED({one.text})***" if one.kind == "hidden" else one.text for one in value
            )
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _card(card: inbox.Card) -> dict[str, Any]:
    return {
        **plain(card),
        "arguments": dict(card.arguments.values),
        "sha256": card.arguments.sha256,
    }


def _log(view: LogView) -> dict[str, Any]:
    report = None if view.report is None else view.report.to_dict()
    said = view.summary if view.intact else view.headline
    return {"file": view.name, "intact": view.intact, "lines": len(view), "says": said, "report": report}


def _as_json(answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        found = answer(request)
        if found is None:
            return JSONResponse({"error": "not_found", "message": "there is nothing of that id"}, 404)
        return JSONResponse(found)

    return endpoint
